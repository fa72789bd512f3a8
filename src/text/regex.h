/* regex.h - the regular expressions of tokenizer.json, which are Oniguruma's in Ruby's syntax, run by PCRE2 with JIT.
 *
 * What the two spell or mean differently is translated: nested classes and &&, [:brackets:], \h, \w, \b, \v, \u, \p{Long_Names},
 * scripts, (?m), (?i) amid a pattern, comments, and quantified intervals. Every class holds the characters it has there (Unicode 16).
 * Not translated: without regard to case, one character does not match several ("ß", "ss"), and a class is compared letter by
 * letter where Oniguruma adds the other case of whatever the whole class holds ([[:upper:]], [\w&&[^a-m]]); \X ends clusters as
 * PCRE2's Unicode does; \O, \y and \Y are refused.
 * Matching is bounded: steps a start, memory, and time for a whole text. */
#ifndef LM_TEXT_REGEX_H
#define LM_TEXT_REGEX_H

#include "base/error.h"
#include "base/str.h"

typedef struct lm_regex lm_regex;

/* LM_UNSUPPORTED, naming `where`: PCRE2 cannot read it. */
lm_status lm_regex_new(lm_view pattern, const char *where, lm_regex **out, lm_error *e);
/* A plain string to look for, not empty. */
lm_status lm_regex_literal(lm_view text, lm_regex **out, lm_error *e);
void      lm_regex_free(lm_regex *r);
/* A literal is looked for in the text itself, a pattern in its shadow (unicode_class.h). */
bool      lm_regex_is_literal(const lm_regex *r);

/* The same pattern in PCRE2's spelling. */
lm_status lm_regex_translate(lm_view pattern, lm_text *out, const char *where, lm_error *e);

/* Memory and limits of one thread's matching. All zero: empty. */
typedef struct lm_regex_work {
    void    *data, *context, *stack;
    int64_t  deadline;               /* nanoseconds of the monotonic clock */
    unsigned finds;
} lm_regex_work;

/* Before a text of `size` bytes is matched: sets the time it may take. */
lm_status lm_regex_begin(lm_regex_work *w, size_t size, lm_error *e);
void      lm_regex_work_free(lm_regex_work *w);

typedef struct lm_match { bool found; size_t from, to; } lm_match;

/* The first match in `subject` (valid UTF-8) that starts at or after `at`, a character's edge. LM_LIMIT: it takes too
 * long. */
lm_status lm_regex_find(const lm_regex *r, lm_regex_work *w, lm_view subject, size_t at, lm_match *out, lm_error *e);

/* Matches one after the other, as Oniguruma's iterator gives them: an empty one right after another match is skipped. */
typedef struct lm_matches { const lm_regex *regex; lm_regex_work *work; lm_view subject; size_t at; bool had; size_t last; } lm_matches;
lm_status lm_matches_next(lm_matches *m, lm_match *out, lm_error *e);

#endif
