/* unicode_class.h - classes of characters as the reference tokenizers see them.
 *
 * Their regular expressions use Unicode 16, PCRE2 another version. Text is therefore matched on a shadow copy
 * in which each character that the two classify differently is replaced by an older one of the correct class
 * and the same size, so that positions agree. The tables are generated: unicode_tables.c. */
#ifndef LM_TEXT_UNICODE_CLASS_H
#define LM_TEXT_UNICODE_CLASS_H

#include "base/str.h"

typedef struct lm_range { uint32_t first, last; } lm_range;
typedef struct lm_substitute { uint32_t first, last, shown; } lm_substitute;
typedef struct lm_lower_pair { uint32_t upper, lower; } lm_lower_pair;

extern const lm_substitute   lm_substitutes[];
extern const size_t        lm_substitutes_n;
extern const lm_range      lm_numeric[];        /* Digits: Nd, Nl, No of Unicode 17 */
extern const size_t        lm_numeric_n;
extern const lm_range      lm_punctuation[];    /* Punctuation: ASCII's, and P of Unicode 6 */
extern const size_t        lm_punctuation_n;
extern const lm_range      lm_inert[];          /* unchanged by normalisation: newer than Unicode 9 */
extern const size_t        lm_inert_n;
extern const lm_lower_pair lm_lower[];          /* capitals newer than utf8proc */
extern const size_t        lm_lower_n;

bool lm_in_ranges(const lm_range *r, size_t n, uint32_t cp);

static inline bool lm_is_numeric(uint32_t cp)
{
    return cp < 0x80 ? cp - '0' < 10 : lm_in_ranges(lm_numeric, lm_numeric_n, cp);
}

static inline bool lm_is_punctuation(uint32_t cp)
{
    return lm_in_ranges(lm_punctuation, lm_punctuation_n, cp);
}

/* Return whether a character has the property White_Space. */
bool lm_is_space(uint32_t cp);

/* Return valid UTF-8 as patterns should see it: `text` itself, or a copy of the same size in `shadow`
 * (cleared first; check shadow->failed). */
const char *lm_pattern_text(lm_view text, lm_text *shadow);

#endif
