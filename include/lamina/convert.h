/* convert.h - convert models between Hugging Face folders and GGUF files. */
#ifndef LAMINA_CONVERT_H
#define LAMINA_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lamina/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_convert_options {  /* all zero: the defaults */
    const char *type;                /* of the matrices: "f32" "f16" "bf16", "q8_0" (GGUF only), "auto". NULL:
                                        "auto", which keeps stored types; in a folder, quantised matrices
                                        become f32 */
    uint64_t    part_bytes;          /* maximum bytes of tensors per file; 0: one GGUF file, shards of 5 GB in
                                        a folder */
    uint32_t    part_tensors;        /* maximum tensors per GGUF file; 0: no limit */
    const char *name;                /* general.name; NULL: from the model card, config.json or the folder's
                                        name */
    bool        overwrite;           /* replace an existing file, or a folder that lamina wrote */
    bool        dry_run;             /* read, check and plan without writing */
    bool        clamp;               /* limit values that the type of their tensor cannot hold; otherwise they
                                        are LM_UNSUPPORTED, or the tensor becomes
                                        bf16 or f32 if its type was not requested */
    uint32_t    threads;             /* 0: physical cores */
    /* Called periodically with 0…1, in the calling thread. Return false to cancel: LM_CANCELLED, no file
     * remains. */
    bool      (*progress)(void *arg, double fraction);
    void       *progress_arg;
    uint64_t    reserved[4];         /* zero */
} lm_convert_options;

lm_convert_options lm_convert_defaults(void);

typedef struct lm_converted_tensor {
    const char *name;                /* in the new container */
    const char *from;                /* type names such as "bf16" */
    const char *to;
    uint64_t    elements, bytes;
    uint32_t    part;                /* index of the file */
    uint64_t    reserved[2];         /* zero */
} lm_converted_tensor;

typedef struct lm_convert_result {
    const char *path;                /* the first file, or the folder */
    const char *family;              /* "llama"; NULL if files were only split or joined */
    lm_converted_tensor *tensors;    /* in the order of the files */
    size_t      n_tensors;
    const char *const *notes;        /* what the output does not contain, and warnings: one sentence each */
    size_t      n_notes;
    uint64_t    bytes;               /* of the tensors */
    uint32_t    files;               /* number of files with tensors */
    double      seconds;
    void       *impl;                /* private */
    uint64_t    reserved[4];         /* zero */
} lm_convert_result;

/* Convert the model at `in` to `out`. A folder (config.json and safetensors) becomes a GGUF file. A GGUF file
 * becomes a GGUF file if `out` ends in ".gguf" (split, joined, or in another type), else a folder. Tensors
 * are processed one at a time: a few megabytes of memory per thread, and one matrix if it must be transposed.
 * Before weights are written, the new metadata is read back and must describe the same model. The output is
 * replaced atomically; of several parts, the first is renamed last. `result` (may be NULL) is freed with
 * lm_convert_free. LM_USAGE: `out` exists or is `in`, an unknown type. LM_UNSUPPORTED: the other container
 * cannot represent the model. LM_BAD_MODEL: weights are missing or have another shape. LM_IO: not enough disk
 * space, or the input changed during the call. */
lm_status lm_convert(const char *in, const char *out, const lm_convert_options *o, lm_convert_result *result,
                     lm_error *e);
void      lm_convert_free(lm_convert_result *r);

#ifdef __cplusplus
}
#endif
#endif
