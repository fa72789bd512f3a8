/* merge.h - a model with low-rank adapters added to its weights, on disk: W' = W + s B A. */
#ifndef LAMINA_MERGE_H
#define LAMINA_MERGE_H

#include "lamina/adapter.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_merge_options {        /* all zero: the defaults */
    const float *scales;             /* [adapters], multiplied with each adapter's own; NULL: 1 */
    const char  *type;               /* of the tensors that change: "f32" "f16" "bf16"; NULL: as each is stored */
    bool         lossy;              /* round to blocks of a quantised type, whatever is left of the adapters then */
    bool         overwrite;          /* replace what is at `out` */
    bool         dry_run;            /* measure what would be left on some rows of each tensor; `out` may be NULL, nothing is written */
    uint32_t     threads;            /* 0: physical cores */
    /* Called now and then with 0…1; false: stop, LM_CANCELLED, nothing is left behind. */
    bool       (*progress)(void *arg, double fraction);
    void        *progress_arg;
    uint64_t     reserved[6];        /* zero */
} lm_merge_options;

/* A tensor that changes. With U = s B A of all adapters, D what changes in what is stored, norms of Frobenius: */
typedef struct lm_merged_tensor {
    const char *name;
    const char *from, *to;           /* types as in "q4_k" */
    uint64_t    elements, bytes;     /* bytes as they are stored now */
    double      change;              /* |U| / |W| */
    double      kept;                /* <D, U> / <U, U>: the share of the update that is left; 1: all of it */
    double      noise;               /* |D - kept U| / |U|: what rounding changes besides */
    uint64_t    reserved[4];         /* zero */
} lm_merged_tensor;

typedef struct lm_merge_result {
    const lm_merged_tensor *tensors; /* in the order of the file */
    size_t   n_tensors;
    double   change, kept, noise;    /* of all of them taken together */
    uint64_t bytes;                  /* of all tensors of the model */
    double   seconds;
    void    *impl;                   /* the library's own */
    uint64_t reserved[4];            /* zero */
} lm_merge_result;

/* Write `m` with `adapters` (NULL-ended, opened for it, added in their order) to `out`: a GGUF file where `m` is one (a split one becomes
 * one), a folder with model.safetensors where it is a Hugging Face folder. Sums are of double precision and rounded once; other tensors
 * and metadata are copied. What is there afterwards is whole or as before. `result` (may be NULL) is freed with lm_merge_free.
 * LM_USAGE: something at `out`, or it is of another kind; an adapted table that the embedding and the head share; an adapted tensor is
 * quantised, without `lossy` and `type`: the error says what would be left, measured on some rows of each.
 * LM_UNSUPPORTED: a bias where the model has none, a tensor that is stored in pieces, a type that cannot be made.
 * LM_BAD_MODEL: weights that are not finite. LM_IO: the disk is too small, the file changed meanwhile. */
lm_status lm_merge(const lm_model *m, const lm_adapter *const *adapters, const char *out, const lm_merge_options *o,
                   lm_merge_result *result, lm_error *e);
void      lm_merge_free(lm_merge_result *r);

#ifdef __cplusplus
}
#endif
#endif
