/* quantize.h - quantise a model's weights. */
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
    const char *imatrix;             /* importance matrix of llama-imatrix, GGUF or older format; NULL:
                                        none */
    const char *const *keep;         /* "REGEX=TYPE": type of tensors whose name matches the pattern (PCRE2),
                                        instead of the mixture's; the first match applies */
    size_t      n_keep;
    const char *output_type;         /* of output.weight; NULL: chosen by the mixture */
    const char *embedding_type;      /* of token_embd.weight */
    bool        pure;                /* no mixture: the base type for every matrix */
    bool        requantize;          /* allow tensors that are already quantised */
    bool        overwrite;           /* replace an existing file at `out` */
    bool        dry_run;             /* choose types and compute sizes without writing; `out` may be NULL */
    bool        measure;             /* compute each tensor's error */
    bool        clamp;               /* limit values that the type of their tensor cannot hold; otherwise they
                                        are LM_UNSUPPORTED, or the tensor becomes
                                        bf16 or f32 if its type was not requested */
    uint32_t    threads;             /* 0: physical cores */
    uint32_t    part_tensors;        /* maximum number of tensors in one file; 0: no limit */
    /* Called periodically with 0…1, in the calling thread. Return false to cancel: LM_CANCELLED, no file
     * remains. */
    bool      (*progress)(void *arg, double fraction);
    void       *progress_arg;
    uint64_t    part_bytes;          /* maximum size of the tensors in one file: "o.gguf" becomes
                                        "o-00001-of-0000N.gguf" …; 0: no limit */
    uint64_t    reserved[3];         /* zero */
} lm_quantize_options;

lm_quantize_options lm_quantize_defaults(void);

typedef struct lm_quantized_tensor {
    const char *name;
    const char *from;                /* type names such as "q4_k" */
    const char *to;
    uint64_t    elements, bytes;     /* bytes in the new file */
    double      rmse;                /* root mean square error; 0 unless measured */
    bool        replaced;            /* row length not a multiple of the chosen type's block: `to` is another
                                        type */
    bool        unweighted;          /* an importance matrix was given, but has no entry for this tensor */
    uint32_t    part;                /* the file that contains it, from 0 */
    uint64_t    reserved[2];         /* zero */
} lm_quantized_tensor;

typedef struct lm_quantize_result {
    lm_quantized_tensor *tensors;    /* in the order of the file */
    size_t   n_tensors;
    uint64_t bytes, was;             /* size of the tensors, after and before */
    double   bits_per_weight, seconds;
    char     type[24];
    void    *impl;                   /* private */
    const char *const *notes;        /* parts of a folder that the file does not contain, and warnings: one
                                        sentence each */
    size_t   n_notes;
    const char *path;                /* the file, or the first of several; NULL: `out` is NULL */
    uint64_t reserved[1];            /* zero */
} lm_quantize_result;

/* Quantise the GGUF file or Hugging Face folder `in` to the GGUF file `out`. `type`: one of lm_synth_type, or
 * "f32" "f16" "bf16". Types per tensor and bytes are those of llama-quantize, except for MXFP4, IQ1, IQ2 and
 * IQ3, whose error is smaller here. Metadata is copied. A split file becomes one file unless `part_bytes` or
 * `part_tensors` is set; a folder is converted as by lm_convert. Every file is replaced atomically, the first
 * one last. `result` (may be NULL) is freed with lm_quantize_free. Memory: a few megabytes per thread, the
 * importance matrix, and one matrix of a folder if it must be transposed. LM_USAGE: `out` exists or is `in`,
 * a tensor is already quantised or lacks the importance that its type requires, a pattern or type is unknown.
 * LM_UNSUPPORTED: a folder that GGUF cannot represent, or a type that cannot be written or read.
 * LM_BAD_MODEL: weights that are not finite, or an importance matrix of another shape. LM_IO: not enough disk
 * space, or the file changed during the call. */
lm_status lm_quantize(const char *in, const char *out, const char *type, const lm_quantize_options *o,
                      lm_quantize_result *result, lm_error *e);
void      lm_quantize_free(lm_quantize_result *r);

#ifdef __cplusplus
}
#endif
#endif
