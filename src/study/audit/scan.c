/* scan.c - split a text into items: models, numbers, and the words of vocabulary.tsv. */
#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "study/audit/reading.h"

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || (c & 0x80);
}

/* Return whether a character of a script without spaces between words begins at s: Burmese, Chinese and what comes after it in Unicode. */
static bool is_unspaced(const char *s)
{
    unsigned char c = (unsigned char)*s;

    return c >= 0xe3 || (c == 0xe1 && (unsigned char)s[1] >= 0x80 && (unsigned char)s[1] <= 0x82);
}

enum { FARTHEST_FORMULA = 1024 };        /* maximum bytes of a line that are searched for the matching $ */

/* Return whether the $ at s begins or ends a formula, by pandoc's rule: a matching $ on the same line, no space inside either $, no
 * digit after it. */
static bool is_math(const char *start, const char *s, const char *end)
{
    const char *line = s, *open = NULL;

    while (line > start && line[-1] != '\n' && s - line < FARTHEST_FORMULA)
        line--;
    end = end - s < FARTHEST_FORMULA ? end : s + FARTHEST_FORMULA;
    for (const char *p = line; p < end && *p != '\n'; p++) {
        bool escaped = p > line && p[-1] == '\\';
        if (*p != '$' || escaped)
            continue;
        if (!open && p + 1 < end && !isspace((unsigned char)p[1]) && p[1] != '$') {
            open = p;
        } else if (open && !isspace((unsigned char)p[-1]) && !(p + 1 < end && isdigit((unsigned char)p[1]))) {
            if (s == open || s == p)
                return true;
            open = NULL;
        } else {
            return false;            /* prices */
        }
    }
    return false;
}

/* Return whether s is " * " between words, not at the beginning of a line, or "*" between a number and a digit. */
static bool is_product(const char *start, const char *s, const char *end)
{
    const char *p = s;
    bool        tight = *s == '*' && s - start > 1 && s + 1 < end && isdigit((unsigned char)s[1]) &&
                        (isdigit((unsigned char)s[-1]) || s[-1] == ')' || (strchr("KMBG", s[-1]) && isdigit((unsigned char)s[-2])));

    if (tight)
        return true;
    while (p > start && (p[-1] == ' ' || p[-1] == '\t'))
        p--;
    return *s == '*' && s > start && s + 1 < end && s[1] == ' ' && s[-1] == ' ' && p > start && p[-1] != '\n';
}

/* Return the bytes of markup at s that has no meaning here: Markdown and TeX signs, quotes, HTML tags. */
static size_t decoration(const char *start, const char *s, const char *end)
{
    if (*s && strchr("*`\"'", *s))
        return !is_product(start, s, end);
    if (*s == '$')
        return is_math(start, s, end);
    if (*s == '\\' && s + 1 < end && (s[1] == '(' || s[1] == ')'))
        return 2;
    if (*s == '<' && s + 1 < end && (isalpha((unsigned char)s[1]) || s[1] == '/')) {
        const char *close = memchr(s, '>', (size_t)(end - s) < 64 ? (size_t)(end - s) : 64);
        return close ? (size_t)(close - s) + 1 : 0;
    }
    return 0;
}

/* Skip the space, hyphen or underscore at p that corresponds to a space of a phrase; NULL: none. TeX's "_{\text{" counts as one; *braces
 * counts the braces that it opens. */
static const char *behind_gap(const char *p, const char *end, int *braces)
{
    static const char *const fonts[] = { "{", "\\text{", "\\mathrm{", "\\textrm{", "\\mathit{" };

    p += p + 1 < end && p[0] == '\\' && p[1] == '_';
    if (p >= end || !strchr(" -_\n", *p))
        return NULL;
    bool below = *p == '_';
    while (p < end && (*p == ' ' || *p == '\n'))
        p++;
    p += p < end && (*p == '-' || *p == '_');
    for (size_t i = 0; below && i < sizeof fonts / sizeof *fonts; i++) {
        size_t n = strlen(fonts[i]);
        if ((size_t)(end - p) > n && memcmp(p, fonts[i], n) == 0) {
            p += n;
            ++*braces;
        }
    }
    return p;
}

/* Return the bytes of `phrase` at s, ignoring case and treating spaces, hyphens and underscores alike; a plural s may follow. 0: no
 * match. */
static size_t phrase_at(const char *s, const char *end, const char *phrase)
{
    const char *p = s;
    size_t      n;
    int         braces = 0;

    for (; *phrase; phrase++) {
        while (p < end && p > s && (n = decoration(s, p, end)))
            p += n;
        if (*phrase == ' ') {
            if (!(p = behind_gap(p, end, &braces)))
                return 0;
        } else if (p < end && tolower((unsigned char)*p) == (unsigned char)*phrase) {
            p++;
        } else {
            return 0;
        }
    }
    if (p[-1] & 0x80)
        return (size_t)(p - s);
    if (p < end && *p == 's' && p[-1] != 's' && isalpha((unsigned char)p[-1]))
        p++;
    for (; braces; braces--, p++)
        if (p >= end || *p != '}')
            return 0;
    return p < end && is_word(p[0]) && !is_unspaced(p) ? 0 : (size_t)(p - s);
}

/* ---- damaged text ---- */

static const char lost[] = "\xef\xbf\xbd";              /* what stands for a character that could not be decoded */

static size_t character_at(const char *s)
{
    return (*s & 0x80) == 0 ? 1 : (*s & 0xe0) == 0xc0 ? 2 : (*s & 0xf0) == 0xe0 ? 3 : 4;
}

/* Return whether the phrase has as many characters as the text, all of them the same or lost, and at least two left. */
static bool may_have_been(lm_extent text, const char *phrase)
{
    const char *p = text.s, *end = text.s + text.n;
    size_t      left = 0;

    while (*phrase && p < end) {
        size_t n = character_at(phrase), m = character_at(p);
        bool   same = n == m && memcmp(p, phrase, n) == 0;
        if (!same && (m != 3 || memcmp(p, lost, 3) != 0))
            return false;
        left += same;
        phrase += n;
        p += m;
    }
    return !*phrase && p == end && left > 1;
}

/* Return the only vocable that a word with lost characters can have been. */
static const lm_vocable *damaged_at(const char *s, const char *end, size_t *n)
{
    const lm_vocable *only = NULL;
    const char       *p = s;

    while (p + 2 < end && (*p & 0xf0) == 0xe0 && (memcmp(p, "\xef\xbc", 2) != 0))
        p += 3;
    if (p == s || !memmem(s, (size_t)(p - s), lost, 3))
        return NULL;
    for (const lm_vocable *v = lm_vocabulary; v->phrase; v++) {
        if (!(*v->phrase & 0x80) || !may_have_been((lm_extent){ s, (size_t)(p - s) }, v->phrase))
            continue;
        if (only && (only->role != v->role || strcmp(only->value, v->value) != 0))
            return NULL;
        only = v;
    }
    *n = only ? (size_t)(p - s) : 0;
    return only;
}

/* Return the longest vocable at s. */
static const lm_vocable *whole_at(const char *s, const char *end, size_t *n)
{
    const lm_vocable *best = NULL;
    int               first = tolower((unsigned char)*s);

    *n = 0;
    for (size_t i = lm_vocabulary_at[first]; s < end && i < lm_vocabulary_at[first + 1]; i++) {
        size_t m = phrase_at(s, end, lm_vocabulary[i].phrase);
        if (m > *n) {
            best = &lm_vocabulary[i];
            *n   = m;
        }
    }
    return best;
}

enum { LONG_WORD = 9 };              /* bytes of three characters: such a word is itself, whatever was lost before it */

static const lm_vocable *vocable_at(const char *s, const char *end, size_t *n)
{
    const lm_vocable *best = (*s & 0x80) ? damaged_at(s, end, n) : NULL;
    const char       *p = s;

    while (end - p > 3 && memcmp(p, lost, 3) == 0)
        p += 3;
    if (best)
        return best;
    best = whole_at(p, end, n);
    if (p > s && *n < LONG_WORD)
        return NULL;
    *n += (size_t)(p - s);
    return best;
}

/* ---- numbers ---- */

static size_t dash_at(const char *s)
{
    const char *p = s + strspn(s, " ");
    size_t      n = *p == '-' ? 1 : strncmp(p, "–", 3) == 0 ? 3 : 0;

    return n ? (size_t)(p - s) + n + strspn(p + n, " ") : 0;
}

/* Return whether s follows "top-" ("top-8") or a slash after a digit ("32/8"). */
static bool behind_top(const char *start, const char *s)
{
    return (s - start >= 4 && strncasecmp(s - 4, "top-", 4) == 0) || (s - start >= 2 && s[-1] == '/' && isdigit((unsigned char)s[-2]));
}

/* Return whether a number may begin at s: not within a word ("4th", "Q4", "24GB-card" contain none). */
static bool begins_number(const char *start, const char *s, const char *end)
{
    bool math   = s > start && s[-1] == '$' && is_math(start, s - 1, end);
    bool inside = s > start && (isalnum((unsigned char)s[-1]) || (strchr("._-/#$^\\", s[-1]) && !behind_top(start, s) && !math));

    return isdigit((unsigned char)*s) && !inside;
}

/* "2 × 4": the first number is a factor of a product, not "2×". */
static size_t give_back_sign(const char *s, size_t n, lm_item *out)
{
    char next = s[n + strspn(s + n, " ")];

    if (out->number.unit != LM_NUMERAL_TIMES || s[n - 1] == 'x' || s[n - 1] == 'X' || !(isdigit((unsigned char)next) || next == '('))
        return n;
    out->number.unit = LM_NUMERAL_PLAIN;
    while (!isdigit((unsigned char)s[n - 1]))
        n--;
    return n;
}

/* Return the bytes of an exponent at s: "²", "^2"; 0: none. */
static size_t exponent_at(const char *s, int *exponent)
{
    static const struct { const char *sign; int exponent; } signs[] = { { "²", 2 }, { "³", 3 }, { "^2", 2 }, { "^3", 3 } };

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        size_t n = strlen(signs[i].sign);
        if (strncmp(s, signs[i].sign, n) == 0 && !is_word(s[n]) && s[n] != '.') {
            *exponent = signs[i].exponent;
            return n;
        }
    }
    return 0;
}

/* Return whether ":1" of "4:1" is at s. */
static bool is_ratio(const char *s, const char *end, const lm_item *x)
{
    return end - s > 1 && s[0] == ':' && s[1] == '1' && (end - s == 2 || (!is_word(s[2]) && !strchr(".,:/%", s[2]))) && x->number.whole;
}

/* Return the bytes from s, the end of a range's first number, to the end of the range: "-43 GB", " to 8"; 0: no range; SIZE_MAX:
 * unreadable. */
static size_t range_at(const char *s, const char *end, bool between, lm_item *out)
{
    size_t     more = dash_at(s), m;
    lm_numeral w;

    if (!more && strncmp(s, between ? " and " : " to ", between ? 5 : 4) == 0)
        more = between ? 5 : 4;
    if (!more || s + more >= end || !isdigit((unsigned char)s[more]))
        return 0;
    m = lm_read_numeral(s + more, false, &w, NULL);
    if (!m || s + more + m > end || (s + more + m < end && is_word(s[more + m]) && !is_unspaced(s + more + m)))
        return SIZE_MAX;
    out->last = (lm_extent){ s + more, m };
    if (out->number.unit == LM_NUMERAL_PLAIN && !out->number.power)      /* in "40-43 GB" the unit after the last number applies to both */
        out->number.unit = w.unit;
    return more + m;
}

/* Read a number with its range, or one with an exponent. */
static size_t number_at(const char *start, const char *s, const char *end, bool between, lm_item *out)
{
    size_t n = begins_number(start, s, end) ? lm_read_numeral(s, false, &out->number, NULL) : 0, more;

    if (!n || s + n > end)
        return 0;
    n = give_back_sign(s, n, out);
    if ((more = exponent_at(s + n, &out->exponent)) && s + n + more <= end) {
        out->role = LM_UNKNOWN;
        out->at   = (lm_extent){ s, n + more };
        return n + more;
    }
    if (is_ratio(s + n, end, out)) {
        out->number.unit = LM_NUMERAL_TIMES;
        n += 2;
    }
    bool goes_on = s + n < end && (is_word(s[n]) || s[n] == '^' || s[n] == '_') && !is_unspaced(s + n);
    if (goes_on && strncmp(s + n, "–", 3) != 0 && strncmp(s + n, "×", 2) != 0)
        return 0;
    if ((more = range_at(s + n, end, between, out)) == SIZE_MAX)
        return 0;
    n += more;
    n += s + n < end && s[n] == '+';
    out->role = LM_NUMBER;
    out->at   = (lm_extent){ s, n };
    return n;
}

/* ---- punctuation ---- */

static lm_role sign_at(const char *s, const char *end, size_t *n)
{
    static const struct { const char *sign; lm_role role; } signs[] = {
        { "→", LM_TIMES }, { "->", LM_TIMES }, { "×", LM_TIMES }, { "*", LM_TIMES }, { "\\times", LM_TIMES },
        { "≈", LM_LEAD }, { "≤", LM_LEAD }, { "≥", LM_LEAD }, { "~", LM_LEAD },
        { "<", LM_LEAD }, { ">", LM_LEAD }, { "：", LM_LINK }, { ":", LM_LINK }, { "=", LM_LINK }, { "–", LM_BREAK }, { "—", LM_BREAK },
        { "，", LM_BREAK }, { "。", LM_BREAK }, { ",", LM_BREAK }, { ";", LM_BREAK }, { "(", LM_BREAK }, { ")", LM_BREAK }, { "|", LM_BREAK },
        { "[", LM_BREAK }, { "]", LM_BREAK }, { "!", LM_BREAK }, { ".", LM_BREAK }, { "（", LM_BREAK }, { "）", LM_BREAK }, { "?", LM_DOUBT },
        { "？", LM_DOUBT }, { "/", LM_SLASH }, { "÷", LM_SLASH }, { "-", LM_NEUTRAL }, { "#", LM_NEUTRAL }, { "“", LM_NEUTRAL }, { "”", LM_NEUTRAL },
        { "’", LM_NEUTRAL }, { "✅", LM_NEUTRAL }, { "@", LM_AT },
    };

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        *n = strlen(signs[i].sign);
        if ((size_t)(end - s) >= *n && memcmp(s, signs[i].sign, *n) == 0)
            return signs[i].role;
    }
    *n = 1;
    return LM_UNKNOWN;
}

/* Return whether a word ends before s, although no space precedes it: the script changes ("模型GPT"), or a sign follows ("例：GPT"). */
static bool word_ends(const char *s, const char *end, bool unspaced)
{
    size_t n;

    if ((*s & 0xc0) == 0x80)
        return false;
    return is_unspaced(s) != unspaced || (unspaced && sign_at(s, end, &n) != LM_UNKNOWN);
}

/* Return whether a known word of three or more characters begins at s, in the middle of a text without spaces. */
static bool begins_long_word(const char *s, const char *end)
{
    size_t n;

    return (*s & 0xc0) == 0xc0 && whole_at(s, end, &n) && n >= LONG_WORD;
}

/* Read an unknown word. A word with digits among its letters, or with capitals inside, may name a model. */
static void take_unknown(const char *s, const char *end, lm_item *out)
{
    const char *p = s;
    size_t      digits = 0, capitals = 0;
    bool        unspaced = is_unspaced(s);

    for (; p < end; p++) {
        char next = p + 1 < end ? p[1] : ' ';
        if (p > s && (word_ends(p, end, unspaced) || (unspaced && begins_long_word(p, end))))
            break;
        if (!is_word(*p) && *p != '_' && !(*p == '-' && is_word(next)) && !(*p == '.' && isdigit((unsigned char)next)))
            break;
        digits   += isdigit((unsigned char)*p) != 0;
        capitals += isupper((unsigned char)*p) != 0;
    }
    p += p == s;
    *out = (lm_item){ .role = LM_UNKNOWN, .at = { s, (size_t)(p - s) }, .model = LM_NO_MODEL };
    out->foreign = capitals > 1 || (capitals && digits);
}

/* Read a sign or an unknown word. "2 x 4" is a product. */
static void take_sign(const char *p, const char *end, const lm_item *before, lm_item *x)
{
    size_t n = 1;
    bool   times = *p == 'x' && before && before->role == LM_NUMBER && p + 1 < end && p[1] == ' ';

    x->role = times ? LM_TIMES : is_word(*p) && !(*p & 0x80) ? LM_UNKNOWN : sign_at(p, end, &n);
    x->at.n = n;
    if (x->role == LM_UNKNOWN)
        take_unknown(p, end, x);
}

/* Read the item at p, which is not a space; `before`: the previous item, or NULL. */
static lm_item item_at(const lm_audit_document *d, const char *start, const char *p, const char *end, const lm_item *before)
{
    lm_item x = { .at = { p, 1 }, .model = LM_NO_MODEL };
    bool    begins = p == start || !is_word(p[-1]) || (*p & 0x80) || (p[-1] & 0x80);
    bool    between = before && before->role == LM_LEAD && lm_text_ends(before->at, "between");
    size_t  n;

    if (begins && isalnum((unsigned char)*p) && (x.model = lm_model_at(d, p, end, &n)) != LM_NO_MODEL) {
        x.role = LM_MODEL;
        x.at.n = n;
    } else if ((begins || *p == '/') && (x.word = vocable_at(p, end, &n))) {
        x.role = x.word->role;
        x.at.n = n;
    } else if (!number_at(start, p, end, between, &x)) {
        take_sign(p, end, before, &x);
    }
    return x;
}

size_t lm_scan(const lm_audit_document *d, lm_extent text, lm_item *items, size_t most)
{
    const char *end = text.s + text.n;
    size_t      n = 0;

    for (const char *p = text.s; p < end && n < most;) {
        size_t skipped = isspace((unsigned char)*p) ? 1 : decoration(text.s, p, end);
        if (skipped) {
            p += skipped;
        } else {
            items[n] = item_at(d, text.s, p, end, n ? &items[n - 1] : NULL);
            p += items[n++].at.n;
        }
    }
    return n;
}
