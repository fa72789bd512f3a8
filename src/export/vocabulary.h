/* vocabulary.h - the vocabulary of a model that is made: invented, or copied. */
#ifndef LM_EXPORT_VOCABULARY_H
#define LM_EXPORT_VOCABULARY_H

#include "base/arena.h"
#include "formats/gguf.h"

/* Bytes as byte-level BPE spells them, then pairs of letters, the same behind a space, and names in brackets for the rest; `bos` and
 * `eos` have the numbers that the model's config.json gives them. Fewer than 258 rows have no room for it: n is 0. */
enum { LM_CONTROL_TOKEN = 3 };

typedef struct lm_invented {
    lm_view *tokens, *merges;
    int32_t *types;                  /* as in GGUF: 1 normal, LM_CONTROL_TOKEN */
    uint32_t n, n_merges, bos, eos;
} lm_invented;

/* `bos`, `eos`: -1 where nobody says. In the arena. */
lm_status lm_invent_vocabulary(uint32_t n, int64_t bos, int64_t eos, lm_arena *arena, lm_invented *out, lm_error *e);

/* The same with the ids that a config.json names. */
lm_status lm_invent_for(const lm_meta *config, uint32_t n, lm_arena *arena, lm_invented *out, lm_error *e);

/* tokenizer.* of a GGUF file: that vocabulary. */
void lm_add_invented(lm_gguf_writer *w, const lm_invented *v);

/* tokenizer.* copied from the GGUF file at `path`; rows that the model has more than tokens become [PADn] as converters
 * write them. LM_USAGE when the model has fewer. */
lm_status lm_copy_vocabulary(lm_gguf_writer *w, const char *path, uint32_t n, lm_error *e);

#endif
