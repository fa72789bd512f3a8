/* regex.h - the regular expressions of tokenizer.json, Oniguruma's with Ruby's syntax, run by PCRE2 with JIT.
 *
 * Constructs that the two spell or interpret differently are translated: nested classes and &&, [:brackets:],
 * \h, \w, \b, \v, \u, \p{Long_Names}, scripts, (?m), (?i) inside a pattern, comments, and quantified
 * intervals. Every class contains the same characters as Oniguruma's (Unicode 16). Not translated: without
 * regard to case, one character does not match several ("ß", "ss"), and a class is compared letter by letter,
 * while Oniguruma adds the other case of everything that the whole class contains ([[:upper:]],
 * [\w&&[^a-m]]); \X ends clusters as PCRE2's Unicode does; \O, \y and \Y are rejected. Matching is bounded:
 * steps per start, memory, and time per text. */
#ifndef LM_TEXT_REGEX_H
#define LM_TEXT_REGEX_H

#include "base/error.h"
#include "base/str.h"

typedef struct lm_regex lm_regex;

/* Compile a pattern. LM_UNSUPPORTED, naming `where`: it is too long or PCRE2 cannot compile it. */
lm_status lm_regex_new(lm_view pattern, const char *where, lm_regex **out, lm_error *e);
/* Make a regex that matches a plain string, which is not empty. */
lm_status lm_regex_literal(lm_view text, lm_regex **out, lm_error *e);
void      lm_regex_free(lm_regex *r);
/* Return whether the regex is a literal, which is searched in the text itself; a pattern is searched in its
 * shadow (unicode_class.h). */
bool      lm_regex_is_literal(const lm_regex *r);

/* Append the pattern in PCRE2's syntax to `out`. */
lm_status lm_regex_translate(lm_view pattern, lm_text *out, const char *where, lm_error *e);

/* Working memory and limits of one thread. All zero: empty. */
typedef struct lm_regex_work {
    void    *data, *context, *stack;
    int64_t  deadline;               /* nanoseconds of the monotonic clock */
    unsigned finds;
} lm_regex_work;

/* Set the time limit for matching a text of `size` bytes; call this before the first match. */
lm_status lm_regex_begin(lm_regex_work *w, size_t size, lm_error *e);
void      lm_regex_work_free(lm_regex_work *w);

typedef struct lm_match { bool found; size_t from, to; } lm_match;

/* Find the first match in `subject` (valid UTF-8) that starts at or after `at`, which is a character
 * boundary. LM_LIMIT: it takes too much time or memory. */
lm_status lm_regex_find(const lm_regex *r, lm_regex_work *w, lm_view subject, size_t at, lm_match *out,
                        lm_error *e);

/* Matches one after the other, as Oniguruma's iterator returns them: an empty match right after another match
 * is skipped. */
typedef struct lm_matches {
    const lm_regex *regex;
    lm_regex_work *work;
    lm_view subject;
    size_t at;
    bool had;
    size_t last;
} lm_matches;
lm_status lm_matches_next(lm_matches *m, lm_match *out, lm_error *e);

#endif
