/* adapters.h - adapters and the models they are for. */
#ifndef LM_RUNTIME_ADAPTERS_H
#define LM_RUNTIME_ADAPTERS_H

#include "program/rows.h"
#include "runtime/engine/adapter.h"

/* Return the order of the rows of an operation in GGUF files of the model's family. */
lm_gguf_rows lm_adapter_rows(const lm_model *m, uint32_t node);

/* Return whether the model's own rows are in that order. */
bool lm_adapter_in_gguf_order(const lm_model *m);

#endif
