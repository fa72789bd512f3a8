/* sentencepiece.h - tokenizer.model: SentencePiece's protocol buffer of pieces (github.com/google/sentencepiece,
 * sentencepiece_model.proto). */
#ifndef LM_EXPORT_SENTENCEPIECE_H
#define LM_EXPORT_SENTENCEPIECE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

typedef struct lm_sentencepiece {
    int64_t  bos, eos, unknown;      /* -1: none */
    uint32_t n;                      /* pieces */
    bool     prefix;                 /* a space is put before the text */
} lm_sentencepiece;

/* The first `rows` pieces; ids past the last become [PADn]. Texts are copied into the arena. LM_BAD_MODEL: not such a file;
 * LM_UNSUPPORTED: a unigram
 * model, which merges by no order. */
lm_status lm_sentencepiece_read(lm_view file, uint32_t rows, lm_arena *arena, lm_view *tokens, int32_t *types, float *scores,
                                lm_sentencepiece *out,
                                lm_error *e);

/* Scores and types of those pieces that are the tokens of a vocabulary with the same ids; others keep what they have. */
lm_status lm_sentencepiece_scores(lm_view file, const lm_view *tokens, int32_t *types, float *scores, uint32_t n, lm_error *e);

#endif
