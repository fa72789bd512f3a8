/* flow.h - a model in one line. */
#ifndef LM_ANALYSIS_FLOW_H
#define LM_ANALYSIS_FLOW_H

#include "analysis/facts/fact.h"

/* "RMSNorm → attention → + → RMSNorm → SwiGLU → +": what a decoder layer does, in its order. */
void lm_put_layer_flow(lm_facts *f, uint32_t layer, lm_text *out);

/* The whole model in one line, runs of equal layers in brackets. */
void lm_put_flow(lm_facts *f, lm_text *out);

#endif
