/* merge.h - merge low-rank adapters into the weights of a model on disk: W' = W + s B A. */
#ifndef LAMINA_MERGE_H
#define LAMINA_MERGE_H

#include "lamina/adapter.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_merge_options {        /* all zero: the defaults */
    const float *scales;             /* [adapters], multiplied with each adapter's own scale; NULL: 1 */
    const char  *type;               /* type of changed tensors: "f32" "f16" "bf16"; NULL: unchanged */
    bool         lossy;              /* allow rounding to a quantised type, which can lose most of the
                                        update */
    bool         overwrite;          /* replace an existing `out` */
    bool         dry_run;            /* measure the loss on some rows of each tensor without writing; `out`
                                        may be NULL */
    bool         clamp;              /* limit values that the type of their tensor cannot hold; otherwise
                                        they are LM_UNSUPPORTED, or the tensor becomes
                                        bf16 or f32 if no type was requested */
    uint32_t     threads;            /* 0: physical cores */
    /* Called periodically with 0…1, in the calling thread. Return false to cancel: LM_CANCELLED, no file
     * remains. */
    bool       (*progress)(void *arg, double fraction);
    void        *progress_arg;
    uint64_t     reserved[6];        /* zero */
} lm_merge_options;

/* A changed tensor. U: the sum of s B A over all adapters, D: the difference of the stored values; Frobenius
 * norms. */
typedef struct lm_merged_tensor {
    const char *name;
    const char *from, *to;           /* type names such as "q4_k" */
    uint64_t    elements, bytes;     /* bytes in the new file */
    double      change;              /* |U| / |W| */
    double      kept;                /* <D, U> / <U, U>: the share of the update that remains; 1: all of it */
    double      noise;               /* |D - kept U| / |U|: rounding error relative to the update */
    uint64_t    reserved[4];         /* zero */
} lm_merged_tensor;

typedef struct lm_merge_result {
    const lm_merged_tensor *tensors; /* in the order of the file */
    size_t   n_tensors;
    double   change, kept, noise;    /* over all tensors */
    uint64_t bytes;                  /* of all tensors of the model */
    double   seconds;
    void    *impl;                   /* private */
    const char *const *notes;        /* warnings, one sentence each */
    size_t   n_notes;
    uint64_t reserved[2];            /* zero */
} lm_merge_result;

/* Write `m` with `adapters` (NULL-ended, opened for `m`, added in this order) to `out`: a GGUF file if `m` is
 * one (one file, also if `m` is split), or a folder with model.safetensors. Sums are computed in double
 * precision and rounded once; other tensors and metadata are copied. The output is replaced atomically.
 * `result` (may be NULL) is freed with lm_merge_free. LM_USAGE: `out` exists, or has the wrong kind; an
 * adapted table is shared by the embedding and the head; an adapted tensor is quantised, and neither `lossy`
 * nor `type` is set: the error reports the share of the update that would remain. LM_UNSUPPORTED: a bias that
 * the model does not have, a tensor that is stored in pieces, a type that cannot be written. LM_BAD_MODEL:
 * weights that are not finite. LM_IO: not enough disk space, or the file changed during the call. */
lm_status lm_merge(const lm_model *m, const lm_adapter *const *adapters, const char *out,
                   const lm_merge_options *o, lm_merge_result *result, lm_error *e);
void      lm_merge_free(lm_merge_result *r);

#ifdef __cplusplus
}
#endif
#endif
