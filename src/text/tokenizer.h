/* tokenizer.h - the parts of a tokenizer and how they fit together.
 *
 *   text -> added tokens, found in the raw text        matchers[0]
 *        -> normalised, segment by segment             normalizers
 *        -> added tokens, found in the normalised text matchers[1]
 *        -> words                                      pre
 *        -> ids                                        bpe
 *        -> tokens that the model adds around a text   before, after
 *
 * A tokenizer is immutable once made; working memory for encoding comes from a pool, so threads can share
 * it. */
#ifndef LM_TEXT_TOKENIZER_H
#define LM_TEXT_TOKENIZER_H

#include <pthread.h>

#include "lamina/text.h"
#include "text/added.h"
#include "text/bpe.h"
#include "text/decode.h"
#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/vocab.h"

typedef struct lm_scratch lm_scratch;

struct lm_tokenizer {
    lm_vocab        vocab;
    lm_bpe          bpe;
    lm_normalizers  normalizers;
    lm_pretokenizer pre;
    lm_matcher      matchers[2];
    lm_regex       *word_character;     /* for single_word; NULL if no token needs it */
    bool            cut_at_marks;       /* no token crosses from another character to U+2581: words are split
                                           there */
    lm_detokenizer_rule decoder;
    lm_token       *before, *after;     /* in the vocabulary's arena */
    size_t          n_before, n_after;
    lm_token        bos, eos;
    unsigned        ends_listed;        /* kinds whose end tokens the model's files list (ends.h) */
    lm_token        middle[LM_MIDDLE_FILE + 1];        /* by lm_middle_token, from the metadata; -1: not
                                                          given */
    const char     *kind, *pre_name;    /* for the summary */
    char           *summary;
    lm_text          warnings;           /* each ends with a NUL */
    pthread_mutex_t lock;
    lm_scratch     *idle;
};

/* Create an empty tokenizer with capacity for `expected` tokens. */
lm_status lm_tokenizer_new(uint32_t expected, lm_tokenizer **out, lm_error *e);

/* Make the matchers from the complete list of added tokens. `normalized[i]`: the token is searched after
 * normalising; NULL: none is. */
lm_status lm_tokenizer_set_added(lm_tokenizer *t, const lm_added *list, const bool *normalized, uint32_t n,
                                 lm_error *e);

/* Complete a tokenizer whose parts are all set: make the derived ones, and mark the tokens that end a
 * generation (ends.h). A requested pre-tokenizer that is ignored is a warning. */
lm_status lm_tokenizer_finish(lm_tokenizer *t, const lm_tokenizer_options *o, lm_error *e);

/* Add a warning. */
void lm_tokenizer_warn(lm_tokenizer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Extend the vocabulary with unused ids, for models with more rows than tokens. */
lm_status lm_tokenizer_pad(lm_tokenizer *t, uint32_t n, lm_error *e);

/* Put a token before or after every text that is encoded with LM_ADD_SPECIAL. */
lm_status lm_tokenizer_surround(lm_tokenizer *t, bool after, lm_token id, lm_error *e);

void lm_scratch_free(lm_scratch *s);

#endif
