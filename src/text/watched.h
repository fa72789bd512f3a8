/* watched.h - tokenizing while somebody looks on. */
#ifndef LM_TEXT_WATCHED_H
#define LM_TEXT_WATCHED_H

#include "base/str.h"
#include "lamina/text.h"

/* Told of each merge as it is made: the two tokens (-1: text that is none), what they become, its rank. */
typedef void lm_merge_watch(void *arg, lm_token left, lm_token right, lm_token id, uint32_t rank);

/* lm_tokenize without special tokens; every word is merged anew, also those seen before. */
lm_status lm_tokenize_watched(const lm_tokenizer *t, lm_view text, lm_merge_watch *watch, void *arg, lm_tokens *out, lm_error *e);

#endif
