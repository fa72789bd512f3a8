/* precision.h - how many bytes the same weights take in other types. */
#ifndef LM_ANALYSIS_PRECISION_H
#define LM_ANALYSIS_PRECISION_H

#include "analysis/facts/fact.h"
#include "analysis/facts/ledger.h"
#include "lamina/facts.h"
#include "tensor/dtype.h"

typedef struct lm_precision {
    const char *name;            /* "f16", "Q4_K_M", "int4" */
    const char *rule;            /* which weight gets which type, readably */
    lm_origin   what_if_origin;
    lm_dtype    matrices;        /* most of them */
    double      bits;            /* > 0: a bare number of bits for every weight, no type of ours */
    const char *file;            /* the GGUF files of this name ("q4_k_m"); NULL: every weight in `matrices` */
    bool        usual;           /* pages show it; the others are there for those who ask */
} lm_precision;

/* NULL past the end. */
const lm_precision *lm_precision_at(size_t i);

/* By name, any case; NULL when unknown. */
const lm_precision *lm_precision_named(const char *name);

/* The type that each weight would have: out [n_weights]. As `lamina synth` and llama.cpp's quantiser choose, tensor after tensor:
 * the choice for one depends on how many came before it. */
void lm_precision_types(const lm_precision *x, const lm_ledger *l, lm_dtype *out);

/* The bytes of a weight of that type: whole blocks, row by row; constants are nothing. */
uint64_t lm_precision_bytes(const lm_precision *x, const lm_ledger *l, uint32_t weight, lm_dtype type);

#endif
