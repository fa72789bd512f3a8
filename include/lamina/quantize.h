/* quantize.h - a model's weights stored in fewer bits. */
#ifndef LAMINA_QUANTIZE_H
#define LAMINA_QUANTIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lamina/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_quantize_options { /* all zero: the defaults */
    const char *imatrix;             /* importance of inputs, from llama-imatrix: its GGUF form or the older one; NULL: none */
    const char *const *keep;         /* "REGEX=TYPE": tensors in whose name the pattern (PCRE2) is found, whatever the mixture; the first
                                        that matches counts */
    size_t      n_keep;
    const char *output_type;         /* of output.weight; NULL: by the mixture */
    const char *embedding_type;      /* of token_embd.weight */
    bool        pure;                /* no mixture: every matrix in the base type */
    bool        requantize;          /* take tensors that are quantised already */
    bool        overwrite;           /* replace a file at `out` */
    bool        dry_run;             /* choose types and compute sizes; `out` may be NULL, nothing is written */
    bool        measure;             /* compute each tensor's error */
    uint32_t    threads;             /* 0: physical cores */
    /* Called now and then with 0…1; false: stop, LM_CANCELLED, nothing is left behind. */
    bool      (*progress)(void *arg, double fraction);
    void       *progress_arg;
    uint64_t    reserved[4];         /* zero */
} lm_quantize_options;

lm_quantize_options lm_quantize_defaults(void);

typedef struct lm_quantized_tensor {
    const char *name;
    const char *from;                /* types as in "q4_k" */
    const char *to;
    uint64_t    elements, bytes;     /* bytes as they are stored now */
    double      rmse;                /* root mean square of what changed; 0 unless it was measured */
    bool        replaced;            /* its rows do not fit the chosen type, so `to` is another */
    bool        unweighted;          /* importance was given, but none for this tensor */
    uint64_t    reserved[2];         /* zero */
} lm_quantized_tensor;

typedef struct lm_quantize_result {
    lm_quantized_tensor *tensors;    /* in the order of the file */
    size_t   n_tensors;
    uint64_t bytes, was;             /* of the tensors, now and before */
    double   bits_per_weight, seconds;
    char     type[24];
    void    *impl;                   /* the library's own */
    const char *const *notes;        /* what of a folder the file does not carry, and what was unusual: a sentence each */
    size_t   n_notes;
    uint64_t reserved[2];            /* zero */
} lm_quantize_result;

/* Write the GGUF file `in`, or the Hugging Face folder, to the GGUF file `out` with the weights of `type`, one of lm_synth_type but
 * "f32 f16 bf16" too: the same types for every tensor as llama-quantize chooses, and the same bytes, except MXFP4, whose error is smaller
 * here. Metadata is carried over. A split file becomes one; a folder the file that lm_convert makes of it, quantised. What is there
 * afterwards is whole or as before. `result` (may be NULL) is freed with lm_quantize_free. Memory: a few megabytes for each thread, the
 * importance, and of a folder one matrix where it is transposed.
 * LM_USAGE: something at `out`, `in` and `out` are one file, a tensor is quantised already, a pattern or type is unknown.
 * LM_UNSUPPORTED: a folder that has no form in GGUF, a type that cannot be made or read. LM_BAD_MODEL: weights that are not finite,
 * importance of another shape. LM_IO: the disk is too small, the file changed meanwhile. */
lm_status lm_quantize(const char *in, const char *out, const char *type, const lm_quantize_options *o, lm_quantize_result *result,
                      lm_error *e);
void      lm_quantize_free(lm_quantize_result *r);

#ifdef __cplusplus
}
#endif
#endif
