/* vocabulary.h - the vocabulary of a model with random weights: synthetic or copied. */
#ifndef LM_EXPORT_VOCABULARY_H
#define LM_EXPORT_VOCABULARY_H

#include "base/arena.h"
#include "formats/gguf.h"

/* Bytes in byte-level BPE spelling, then pairs of letters, the same with a leading space, and names in
 * brackets for the rest. `bos` and `eos` have the ids that the model's config.json contains. With fewer than
 * 258 rows n is 0. */
enum { LM_CONTROL_TOKEN = 3 };

typedef struct lm_invented {
    lm_view *tokens, *merges;
    int32_t *types;                  /* as in GGUF: 1 normal, LM_CONTROL_TOKEN */
    uint32_t n, n_merges, bos, eos;
} lm_invented;

/* `bos`, `eos`: -1 if unknown. The result is in the arena. */
lm_status lm_invent_vocabulary(uint32_t n, int64_t bos, int64_t eos, lm_arena *arena, lm_invented *out,
                               lm_error *e);

/* The same with the ids from a config.json. */
lm_status lm_invent_for(const lm_meta *config, uint32_t n, lm_arena *arena, lm_invented *out, lm_error *e);

/* Write the vocabulary as tokenizer.* of a GGUF file. */
void lm_add_invented(lm_gguf_writer *w, const lm_invented *v);

/* Copy tokenizer.* from the GGUF file at `path`. If the model has more rows than there are tokens, they
 * become [PADn] as in converters. LM_USAGE: the model has fewer rows. */
lm_status lm_copy_vocabulary(lm_gguf_writer *w, const char *path, uint32_t n, lm_error *e);

#endif
