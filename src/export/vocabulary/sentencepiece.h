/* sentencepiece.h - tokenizer.model: SentencePiece's protocol buffer of pieces
 * (github.com/google/sentencepiece, sentencepiece_model.proto). */
#ifndef LM_EXPORT_SENTENCEPIECE_H
#define LM_EXPORT_SENTENCEPIECE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

typedef struct lm_sentencepiece {
    int64_t  bos, eos, unknown;      /* -1: none */
    uint32_t n;                      /* number of pieces */
    bool     prefix;                 /* a space is added before the text */
} lm_sentencepiece;

/* Read the first `rows` pieces; ids after the last become [PADn]. Texts are copied into the arena.
 * LM_BAD_MODEL: not such a file; LM_UNSUPPORTED: a unigram model, which has no merge order. */
lm_status lm_sentencepiece_read(lm_view file, uint32_t rows, lm_arena *arena, lm_view *tokens, int32_t *types,
                                float *scores, lm_sentencepiece *out, lm_error *e);

/* Set scores and types of the tokens that are pieces with the same ids; others are not changed. */
lm_status lm_sentencepiece_scores(lm_view file, const lm_view *tokens, int32_t *types, float *scores,
                                  uint32_t n, lm_error *e);

#endif
