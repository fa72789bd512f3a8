/* precision.h - how many bytes the same weights take in other types. */
#ifndef LM_ANALYSIS_PRECISION_H
#define LM_ANALYSIS_PRECISION_H

#include "analysis/ledger.h"
#include "lamina/facts.h"
#include "tensor/dtype.h"

typedef struct lm_precision {
    const char *name;            /* "f16", "Q4_K_M", "int4" */
    const char *rule;            /* which weight gets which type, readably */
    lm_origin   what_if_origin;
    lm_dtype    matrices;        /* most of them */
    lm_dtype    vectors;
    double      bits;            /* > 0: a bare number of bits for every weight, no type of ours */
    bool        mixture;         /* llama.cpp's recipe of this name on top */
} lm_precision;

/* NULL past the end. */
const lm_precision *lm_precision_at(size_t i);

/* By name, any case; NULL when unknown. */
const lm_precision *lm_precision_named(const char *name);

/* The type that a weight would have. */
lm_dtype lm_precision_type(const lm_precision *x, const lm_ledger *l, uint32_t weight);

/* Its bytes: whole blocks, row by row; constants are nothing. */
uint64_t lm_precision_bytes(const lm_precision *x, const lm_ledger *l, uint32_t weight);

#endif
