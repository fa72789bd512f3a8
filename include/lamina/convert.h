/* convert.h - models from one container into another: Hugging Face folders and GGUF files. */
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
    const char *type;                /* of the matrices: "f32", "f16", "bf16", "q8_0" (GGUF only),
        "auto"; NULL is "auto": as they are stored,
                                        in a folder f32 for those that are quantised */
    uint64_t    part_bytes;          /* the most that one file of several holds of tensors; 0: one GGUF file, shards of 5 GB in a folder */
    uint32_t    part_tensors;        /* the most tensors in one GGUF file of several; 0: no limit */
    const char *name;                /* general.name; NULL: as the model card, config.json or the folder say */
    bool        overwrite;           /* replace what is at `out`: a file, or a folder that was made here */
    bool        dry_run;             /* read, check and plan; write nothing */
    uint32_t    threads;             /* 0: physical cores */
    /* Called now and then with 0…1; false: stop, LM_CANCELLED, nothing is left behind. */
    bool      (*progress)(void *arg, double fraction);
    void       *progress_arg;
    uint64_t    reserved[4];         /* zero */
} lm_convert_options;

lm_convert_options lm_convert_defaults(void);

typedef struct lm_converted_tensor {
    const char *name;                /* in the new container */
    const char *from;                /* types as in "bf16" */
    const char *to;
    uint64_t    elements, bytes;
    uint32_t    part;                /* which of the files */
    uint64_t    reserved[2];         /* zero */
} lm_converted_tensor;

typedef struct lm_convert_result {
    const char *path;                /* the first file, or the folder */
    const char *family;              /* "llama"; NULL where files were only cut anew */
    lm_converted_tensor *tensors;    /* in the order of the files */
    size_t      n_tensors;
    const char *const *notes;        /* what is not carried, and what was unusual: sentences */
    size_t      n_notes;
    uint64_t    bytes;               /* of the tensors */
    uint32_t    files;               /* that hold tensors */
    double      seconds;
    void       *impl;                /* the library's own */
    uint64_t    reserved[4];         /* zero */
} lm_convert_result;

/* Write the model at `in` to `out`. A folder (config.json with safetensors) becomes a GGUF file; a GGUF file becomes a GGUF file again
 * where `out`
 * ends in ".gguf" (cut into parts, joined, in another type), else a folder. Tensors go through one at a time: memory is a few megabytes
 * for each thread and
 * one matrix where it is transposed. What is written is read back, before any number is, as the model that was read, or refused. What is
 * there
 * afterwards is whole or as before; of several parts the first takes its name last. `result` (may be NULL) is freed with lm_convert_free.
 * LM_USAGE: something at `out`, `in` and `out` are one, an unknown type. LM_UNSUPPORTED: a model that the other container has no form for.
 * LM_BAD_MODEL: weights that are missing or of another shape. LM_IO: the disk is too small, the input changed meanwhile. */
lm_status lm_convert(const char *in, const char *out, const lm_convert_options *o, lm_convert_result *result, lm_error *e);
void      lm_convert_free(lm_convert_result *r);

#ifdef __cplusplus
}
#endif
#endif
