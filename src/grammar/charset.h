/* charset.h - sets of characters as sorted ranges of code points, and their UTF-8 encoding. */
#ifndef LM_GRAMMAR_CHARSET_H
#define LM_GRAMMAR_CHARSET_H

#include "grammar/expression.h"

enum { LM_LAST_CHARACTER = 0x10FFFF };

typedef struct lm_chars { uint32_t first, last; } lm_chars;

typedef struct lm_charset {
    lm_chars *ranges;             /* after lm_charset_normalize: sorted, disjoint, without surrogates */
    uint32_t  n, capacity;
    bool      failed;                /* out of memory */
} lm_charset;

void lm_charset_add(lm_charset *s, uint32_t first, uint32_t last);
void lm_charset_add_set(lm_charset *s, const lm_charset *more);
void lm_charset_normalize(lm_charset *s, bool negated);
void lm_charset_free(lm_charset *s);

/* Return the language of the UTF-8 encodings of one character of a settled set. */
lm_expr_id lm_charset_utf8(lm_terms *p, const lm_charset *s);

/* Return the language of the UTF-8 encodings of any character except surrogates. */
lm_expr_id lm_any_character(lm_terms *p);

#endif
