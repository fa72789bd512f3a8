/* words.c - split a text into lexemes: models, numbers, and the phrases of vocabulary.tsv that labels are
 * made of.
 *
 * A phrase matches in any case, with spaces, hyphens or underscores between its words, and with a plural s.
 * The longest one wins. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "study/audit/audit_document.h"

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || (c & 0x80);
}

/* Return the bytes of markup at s that has no meaning here: Markdown's signs, quotes, HTML tags. */
static size_t markup_at(const char *s, const char *end)
{
    if (*s && strchr("*`\"'$\\", *s))
        return 1;
    if (*s == ']' && s + 1 < end && s[1] == '(') {           /* the address of a link */
        const char *close = memchr(s, ')', (size_t)(end - s) < 256 ? (size_t)(end - s) : 256);
        return close ? (size_t)(close - s) + 1 : 0;
    }
    if (*s == '<' && s + 1 < end && (isalpha((unsigned char)s[1]) || s[1] == '/')) {
        const char *close = memchr(s, '>', (size_t)(end - s) < 64 ? (size_t)(end - s) : 64);
        return close ? (size_t)(close - s) + 1 : 0;
    }
    return 0;
}

/* Move behind the space, hyphen or underscore that stands between words. `slash`: "per / kv" has spaces
 * around the sign. */
static const char *behind_gap(const char *at, const char *end, bool slash)
{
    while (at < end && *at == ' ')
        at++;
    at += at < end && (*at == '-' || *at == '_');
    return at + (at < end && *at == ' ' && slash);
}

/* Return the bytes of the phrase p at s; 0: it is another text. */
static size_t phrase_at(const char *s, const char *end, const char *p)
{
    const char *at = s;

    for (; *p; p++) {
        if (*p == ' ' && at < end && strchr(" -_", *at))
            at = behind_gap(at, end, p[1] == '/');
        else if (at < end && tolower((unsigned char)*at) == *p)
            at++;
        else
            return 0;
    }
    bool letter = isalpha((unsigned char)at[-1]);
    at += at < end && letter && *at == 's' && at[-1] != 's';
    /* "model.norm" */
    bool goes_on = at < end && (is_word(*at) || *at == '_' || (*at == '.' && at + 1 < end && is_word(at[1])));
    return goes_on && is_word(at[-1]) ? 0 : (size_t)(at - s);
}

/* Find the longest phrase at s. Returns its bytes; 0: none. */
static size_t known_at(const char *s, const char *end, lm_lexeme *out)
{
    int    first = tolower((unsigned char)*s);
    size_t best  = 0;

    for (size_t i = lm_vocabulary_at[first]; i < lm_vocabulary_at[first + 1]; i++) {
        size_t n = phrase_at(s, end, lm_vocabulary[i].phrase);
        if (n > best) {
            best       = n;
            out->kind  = lm_vocabulary[i].kind;
            out->value = lm_vocabulary[i].value;
        }
    }
    return best;
}

/* ---- numbers and signs ---- */

/* Return whether a range, a power or a ratio follows the number that ends at s: "40-43", "4096²", "4:1". They
 * are no single number. */
static bool is_more(const char *s, const char *end)
{
    const char *p = s + strspn(s, " ");

    if (s >= end)
        return false;
    if (is_word(*s) || *s == '_' || *s == '^')
        return strncmp(s, "×", strlen("×")) != 0;
    p += *p == '-' ? 1 : strncmp(p, "–", strlen("–")) == 0 ? strlen("–") : *p == ':' && p == s ? 1 : 0;
    return p < end && !strchr(" /", p[-1]) && p > s && isdigit((unsigned char)p[strspn(p, " ")]) &&
           p[-1] != ' ';
}

/* Read a number that is not within a word: "Q4", "v0.2" and "#3" contain none. */
static size_t number_at(const char *start, const char *s, const char *end, lm_lexeme *out)
{
    bool   top    = s - start >= 4 && strncasecmp(s - 4, "top-", 4) == 0;
    bool   slash  = s - start >= 2 && s[-1] == '/' && isdigit((unsigned char)s[-2]);
    bool   within = s > start && (is_word(s[-1]) || strchr("._-/#^", s[-1])) && !top && !slash;
    size_t n = within || !isdigit((unsigned char)*s) ? 0 : lm_read_numeral(s, false, &out->number, NULL);

    if (!n || s + n > end || is_more(s + n, end))
        return 0;
    n += s + n < end && s[n] == '+';
    out->kind = LM_LEX_NUMBER;
    return n;
}

static size_t sign_at(const char *s, const char *end, lm_lexeme *out)
{
    static const struct { const char *sign; lm_lexeme_kind kind; } signs[] = {
        { "≈", LM_LEX_LEAD },    { "≤", LM_LEX_LEAD },    { "≥", LM_LEX_LEAD },    { "~", LM_LEX_LEAD },
        { "<", LM_LEX_LEAD },    { ">", LM_LEX_LEAD },    { ":", LM_LEX_LINK },    { "=", LM_LEX_LINK },
        { "/", LM_LEX_SLASH },   { "×", LM_LEX_TIMES },   { "(", LM_LEX_NEUTRAL }, { ")", LM_LEX_NEUTRAL },
        { "[", LM_LEX_NEUTRAL }, { "]", LM_LEX_NEUTRAL }, { ",", LM_LEX_NEUTRAL }, { ".", LM_LEX_NEUTRAL },
        { ";", LM_LEX_NEUTRAL }, { "-", LM_LEX_NEUTRAL }, { "#", LM_LEX_NEUTRAL }, { "✅", LM_LEX_NEUTRAL },
        { "?", LM_LEX_DOUBT },
    };

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        size_t n = strlen(signs[i].sign);
        if ((size_t)(end - s) >= n && memcmp(s, signs[i].sign, n) == 0) {
            out->kind = signs[i].kind;
            return n;
        }
    }
    return 0;
}

/* Return the bytes of a word that nothing is known of; at least one. */
static size_t unknown_at(const char *s, const char *end)
{
    const char *p = s;

    while (p < end &&
           (is_word(*p) || *p == '_' || (p > s && strchr("-.", *p) && p + 1 < end && is_word(p[1]))))
        p++;
    return p > s ? (size_t)(p - s) : 1;
}

/* Find the model whose name begins at s, with the name of its owner before it: "OWNER/MODEL". */
static int owned_model_at(const lm_audit_document *d, const char *s, const char *end, size_t *n)
{
    const char *p = s;

    while (p < end && (is_word(*p) || *p == '-' || *p == '_'))
        p++;
    if (p + 1 < end && *p == '/' && isalnum((unsigned char)p[1])) {
        int model = lm_model_at(d, p + 1, end, n);
        if (model != LM_NO_MODEL) {
            *n += (size_t)(p + 1 - s);
            return model;
        }
    }
    return lm_model_at(d, s, end, n);
}

size_t lm_scan(const lm_audit_document *d, lm_extent text, lm_lexeme *out, size_t max)
{
    const char *end = text.s + text.n;
    size_t      n = 0, bytes;

    for (const char *p = text.s; p < end && n < max; p += bytes) {
        if ((bytes = isspace((unsigned char)*p) ? 1 : markup_at(p, end)))
            continue;
        lm_lexeme *x = &out[n++];
        *x = (lm_lexeme){ .model = LM_NO_MODEL };
        if (isalnum((unsigned char)*p) && (x->model = owned_model_at(d, p, end, &bytes)) != LM_NO_MODEL)
            x->kind = LM_LEX_MODEL;
        else if (!(bytes = known_at(p, end, x)) && !(bytes = number_at(text.s, p, end, x)) &&
                 !(bytes = sign_at(p, end, x)))
            bytes = unknown_at(p, end);
        x->at = (lm_extent){ p, bytes };
    }
    return n;
}
