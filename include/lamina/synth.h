/* synth.h - models with random weights: the shape of a published model without its weights, to measure with. */
#ifndef LAMINA_SYNTH_H
#define LAMINA_SYNTH_H

#include <stdbool.h>
#include <stdint.h>

#include "lamina/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_synth_options {
    const char *type;                /* GGUF: "q4_k_m" … (lm_synth_type); folder: "bf16" "f16" "f32". NULL: f16, bf16 */
    bool        pure;                /* every matrix in that type; else mixtures as llama.cpp makes them */
    uint32_t    layers;              /* instead of the model's own number; 0: that */
    uint64_t    seed;
    const char *tokenizer;           /* GGUF: a .gguf whose vocabulary is copied; folder: a folder or a tokenizer.json.
                                        NULL: an invented one of bytes and a few pairs */
    uint32_t    threads;             /* 0: physical cores */
    uint64_t    shard_bytes;         /* most bytes of weights in one file of a folder; 0: 5 GB */
    bool        overwrite;           /* replace what is there: a file, or a folder that was made here */
    /* Called now and then with 0…1; false: stop, LM_CANCELLED, nothing is left behind. */
    bool      (*progress)(void *arg, double fraction);
    void       *progress_arg;
    uint64_t    reserved[4];         /* zero */
} lm_synth_options;

lm_synth_options lm_synth_defaults(void);

typedef struct lm_synth_result {
    uint64_t parameters, bytes;      /* stored once; of all files */
    uint32_t layers, tensors, files;
    double   seconds;
    char     type[24];
    uint64_t reserved[4];            /* zero */
} lm_synth_result;

/* The name of a type that GGUF files can have; NULL past the end. */
const char *lm_synth_type(uint32_t i);

/* Write a model to `out`: a .gguf file if it ends so, else a Hugging Face folder. `model`: "preset:NAME", a config.json, or a
 * folder with one. The same seed gives the same weights in every type and container, and the same bytes on every machine.
 * What is there afterwards is whole or as before. Values are bell-shaped, scaled so that logits are finite and spread; scales
 * of K and IQ4 blocks are set without the search that real weights deserve. Memory: a few megabytes for each thread.
 * LM_USAGE: there is something at `out` already. LM_UNSUPPORTED: the family or type has no form there. LM_IO, with the space
 * needed, when the disk is too small. */
lm_status lm_synth(const char *model, const char *out, const lm_synth_options *o, lm_synth_result *result, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
