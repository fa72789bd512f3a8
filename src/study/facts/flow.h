/* flow.h - a model in one line. */
#ifndef LM_ANALYSIS_FLOW_H
#define LM_ANALYSIS_FLOW_H

#include "study/facts/fact.h"

/* Append the operations of a decoder layer in order: "RMSNorm → attention → + → RMSNorm → SwiGLU → +". */
void lm_put_layer_flow(lm_facts *f, uint32_t layer, lm_text *out);

/* Append the whole model in one line, with runs of identical layers in brackets. */
void lm_put_flow(lm_facts *f, lm_text *out);

#endif
