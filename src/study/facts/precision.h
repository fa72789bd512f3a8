/* precision.h - the size of the same weights in other types. */
#ifndef LM_ANALYSIS_PRECISION_H
#define LM_ANALYSIS_PRECISION_H

#include "study/facts/fact.h"
#include "study/facts/ledger.h"
#include "lamina/study/facts.h"
#include "tensor/dtype.h"

typedef struct lm_precision {
    const char *name;            /* "f16", "Q4_K_M", "int4" */
    const char *rule;            /* which weight gets which type, for people */
    lm_origin   what_if_origin;
    lm_dtype    matrices;        /* the type of most matrices */
    double      bits;            /* > 0: a bare number of bits per weight, not one of our types */
    /* the file type with this name ("q4_k_m"); NULL: every weight has type `matrices`, but only experts have
     * MXFP4, and the others bf16 */
    const char *file;
    bool        usual;           /* shown on pages; the others are available by name */
} lm_precision;

/* Return a precision by index; NULL past the end. */
const lm_precision *lm_precision_at(size_t i);

/* Return whether the models of the program's family are published with experts in MXFP4. */
bool lm_has_coded_experts(const lm_program *p);

/* Return the name of the precision of published checkpoints, which pages show first: f16, or MXFP4 for
 * experts in it. */
const char *lm_precision_published(const lm_program *p);

/* Return whether pages show the precision for this model. */
bool lm_precision_shown(const lm_precision *x, const lm_program *p);

/* Return a precision by name, ignoring case; NULL: unknown. */
const lm_precision *lm_precision_named(const char *name);

/* Find the type of each weight: out [n_weights]. Chosen tensor by tensor as `lamina synth` and llama.cpp's
 * quantiser do: a choice depends on how many tensors came before. Experts that are published in MXFP4 keep
 * that type in files, as in published quantised ones. */
void lm_precision_types(const lm_precision *x, const lm_ledger *l, lm_dtype *out);

/* Return the bytes of a weight in that type: whole blocks per row; 0 for constants. */
uint64_t lm_precision_bytes(const lm_precision *x, const lm_ledger *l, uint32_t weight, lm_dtype type);

#endif
