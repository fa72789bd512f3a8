/* synth.h - models with random weights and the shape of a published model, for measurements. */
#ifndef LAMINA_SYNTH_H
#define LAMINA_SYNTH_H

#include <stdbool.h>
#include <stdint.h>

#include "lamina/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_synth_options {
    const char *type;                /* GGUF: "q4_k_m" … (lm_synth_type); folder: "bf16" "f16" "f32". NULL:
                                        f16, bf16 */
    bool        pure;                /* that type for every matrix; else llama.cpp's mixtures */
    uint32_t    layers;              /* number of layers; 0: the model's */
    uint64_t    seed;
    const char *tokenizer;           /* GGUF: a .gguf whose vocabulary is copied; folder: a folder or a
                                        tokenizer.json. NULL: a byte-level one with a few merges */
    uint32_t    threads;             /* 0: physical cores */
    uint64_t    shard_bytes;         /* maximum bytes of weights per file of a folder; 0: 5 GB */
    bool        overwrite;           /* replace an existing file, or a folder that lamina wrote */
    /* Called periodically with 0…1, in the calling thread. Return false to cancel: LM_CANCELLED, no file
     * remains. */
    bool      (*progress)(void *arg, double fraction);
    void       *progress_arg;
    uint64_t    reserved[4];         /* zero */
} lm_synth_options;

lm_synth_options lm_synth_defaults(void);

typedef struct lm_synth_result {
    uint64_t parameters, bytes;      /* each parameter counted once; bytes of all files */
    uint32_t layers, tensors, files;
    double   seconds;
    char     type[24];
    uint64_t reserved[4];            /* zero */
} lm_synth_result;

/* The i-th type name for GGUF files; NULL past the end. */
const char *lm_synth_type(uint32_t i);

/* Write a model to `out`: a .gguf file if it ends so, else a Hugging Face folder. `model`: "preset:NAME", a
 * config.json, or a folder with one. The same seed gives the same weights in every type and container, and
 * the same bytes on every machine. The output is replaced atomically. Values are bell-shaped, scaled so that
 * logits are finite and spread; scales of K and IQ4 blocks are set without the search used for real weights.
 * Memory: a few megabytes per thread. LM_USAGE: `out` exists. LM_UNSUPPORTED: the container cannot represent
 * the family or type. LM_IO: not enough disk space; the message contains the space needed. */
lm_status lm_synth(const char *model, const char *out, const lm_synth_options *o, lm_synth_result *result,
                   lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
