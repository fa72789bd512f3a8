/* added.h - find added tokens in the text before it is split. */
#ifndef LM_TEXT_ADDED_H
#define LM_TEXT_ADDED_H

#include "base/error.h"
#include "base/str.h"
#include "lamina/text.h"

enum { LM_MAX_ADDED = 4096 };       /* bytes of one; bounds how far a failed match can look ahead */

typedef struct lm_added {
    lm_view  text;                  /* the text to find; not owned */
    lm_token id;
    bool     special, single_word, lstrip, rstrip;
    uint32_t order;                 /* among equal texts the lowest wins */
} lm_added;

/* A set of such tokens, sorted by text: a trie without nodes. */
typedef struct lm_matcher {
    lm_added *list;
    uint32_t  n;
    uint32_t  first[257];           /* list[first[c] .. first[c+1]) start with byte c */
    bool      has_special;
} lm_matcher;

/* Copy and sort `list`, whose texts must not be empty. LM_LIMIT: one is longer than LM_MAX_ADDED. */
lm_status lm_matcher_init(lm_matcher *m, const lm_added *list, uint32_t n, lm_error *e);
void      lm_matcher_free(lm_matcher *m);

/* Return the leftmost match at or after `at`, the longest at that position (`*from`); NULL: no match. */
const lm_added *lm_matcher_find(const lm_matcher *m, lm_view text, size_t at, size_t *from);

#endif
