/* watched.h - tokenize and report each merge. */
#ifndef LM_TEXT_WATCHED_H
#define LM_TEXT_WATCHED_H

#include "base/str.h"
#include "lamina/text.h"

/* Called for each merge as it is made, with the two tokens (-1: text that is not a token), their result and
 * its rank. */
typedef void lm_merge_watch(void *arg, lm_token left, lm_token right, lm_token id, uint32_t rank);

/* Like lm_tokenize without special tokens, but every word is merged anew, including repeated ones. */
lm_status lm_tokenize_watched(const lm_tokenizer *t, lm_view text, lm_merge_watch *watch, void *arg,
                              lm_tokens *out, lm_error *e);

#endif
