/* normalize.h - rewrite text before it is split: the normalizers of tokenizer.json. */
#ifndef LM_TEXT_NORMALIZE_H
#define LM_TEXT_NORMALIZE_H

#include "text/regex.h"

enum { LM_MAX_NORMALIZERS = 32 };

typedef enum lm_normalizer_kind {
    LM_NORMALIZE_PREPEND,
    LM_NORMALIZE_REPLACE,
    LM_NORMALIZE_NFC,
    LM_NORMALIZE_NFD,
    LM_NORMALIZE_NFKC,
    LM_NORMALIZE_NFKD,
    LM_NORMALIZE_LOWERCASE,
    LM_NORMALIZE_STRIP,
} lm_normalizer_kind;

typedef struct lm_normalizer {
    lm_normalizer_kind kind;
    lm_view            text;         /* PREPEND: the prefix; REPLACE: the replacement. Owned by the
                                        tokenizer's arena */
    lm_regex          *pattern;      /* REPLACE; owned */
    bool               left, right;  /* STRIP */
} lm_normalizer;

typedef struct lm_normalizers { lm_normalizer list[LM_MAX_NORMALIZERS]; unsigned n; } lm_normalizers;

/* LM_UNSUPPORTED: more than LM_MAX_NORMALIZERS. Takes ownership of one->pattern in every case. */
lm_status lm_normalizers_add(lm_normalizers *n, const lm_normalizer *one, const char *where, lm_error *e);
void      lm_normalizers_free(lm_normalizers *n);

/* Working memory of one thread. All zero: empty. */
typedef struct lm_normalize_work {
    lm_text text[2], shadow;
    int32_t *points;
    size_t capacity;
} lm_normalize_work;
void lm_normalize_work_free(lm_normalize_work *w);

/* Return how many bytes of [from, to) lie among the first `head`. */
static inline size_t lm_head_within(size_t head, size_t from, size_t to)
{
    return head <= from ? 0 : (head < to ? head : to) - from;
}

/* Set *out to the normalised `text` (valid UTF-8): a view of it, or of memory in `w`. `*head`, if given: the
 * number of bytes at the start of `text` that come from the input's first character; on return the number of
 * such bytes of `out`. */
lm_status lm_normalize(const lm_normalizers *n, lm_normalize_work *w, lm_regex_work *r, lm_view text,
                       size_t *head, lm_view *out, lm_error *e);

#endif
