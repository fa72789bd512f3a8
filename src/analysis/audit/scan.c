/* scan.c - a text as items: models, numbers, and what vocabulary.tsv knows. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "analysis/audit/reading.h"

lm_extent lm_trim(lm_extent s)
{
    while (s.n && isspace((unsigned char)*s.s))
        s.s++, s.n--;
    while (s.n && isspace((unsigned char)s.s[s.n - 1]))
        s.n--;
    return s;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || (c & 0x80);
}

/* Signs of Markdown and quotes, and tags of HTML, at s: they say nothing. */
static size_t decoration(const char *start, const char *s, const char *end)
{
    bool times = *s == '*' && s > start && s + 1 < end && s[1] == ' ' && s[-1] == ' ';

    if (*s && strchr("*`\"'", *s) && !times)
        return 1;
    if (*s == '<' && s + 1 < end && (isalpha((unsigned char)s[1]) || s[1] == '/')) {
        const char *close = memchr(s, '>', (size_t)(end - s) < 64 ? (size_t)(end - s) : 64);
        return close ? (size_t)(close - s) + 1 : 0;
    }
    return 0;
}

/* The bytes of `phrase` at s, in either case, with spaces, hyphens and underscores alike; 0: it is not there. An s may follow. */
static size_t phrase_at(const char *s, const char *end, const char *phrase)
{
    const char *p = s;
    size_t      n;

    for (; *phrase; phrase++) {
        while (p < end && p > s && (n = decoration(s, p, end)))
            p += n;
        if (*phrase == ' ') {
            if (p >= end || !strchr(" -_\n", *p))
                return 0;
            while (p < end && (*p == ' ' || *p == '\n'))
                p++;
            p += p < end && (*p == '-' || *p == '_');
        } else if (p >= end || tolower((unsigned char)*p) != *phrase) {
            return 0;
        } else {
            p++;
        }
    }
    if (p[-1] & 0x80)
        return (size_t)(p - s);
    if (p < end && *p == 's' && p[-1] != 's' && isalpha((unsigned char)p[-1]))
        p++;
    return p < end && is_word(p[0]) ? 0 : (size_t)(p - s);
}

static const lm_vocable *vocable_at(const char *s, const char *end, size_t *n)
{
    const lm_vocable *best = NULL;
    char              first = (char)tolower((unsigned char)*s);

    *n = 0;
    for (const lm_vocable *v = lm_vocabulary; v->phrase; v++) {
        size_t m = *v->phrase == first ? phrase_at(s, end, v->phrase) : 0;
        if (m > *n) {
            best = v;
            *n   = m;
        }
    }
    return best;
}

/* ---- numbers ---- */

static size_t dash_at(const char *s)
{
    const char *p = s + strspn(s, " ");
    size_t      n = *p == '-' ? 1 : strncmp(p, "–", 3) == 0 ? 3 : 0;

    return n ? (size_t)(p - s) + n + strspn(p + n, " ") : 0;
}

/* "top-8", "32/8". */
static bool behind_top(const char *start, const char *s)
{
    return (s - start >= 4 && strncasecmp(s - 4, "top-", 4) == 0) || (s - start >= 2 && s[-1] == '/' && isdigit((unsigned char)s[-2]));
}

/* A number that is no part of a word ("4th", "Q4", "24GB-card" are), with its range. */
static size_t number_at(const char *start, const char *s, const char *end, bool between, lm_item *out)
{
    size_t n, m, more;

    bool inside = s > start && (isalnum((unsigned char)s[-1]) || (strchr("._-/#$^\\", s[-1]) && !behind_top(start, s)));

    if (!isdigit((unsigned char)*s) || inside)
        return 0;
    n = lm_read_numeral(s, false, &out->number, NULL);
    if (!n || s + n > end)
        return 0;
    if (out->number.unit == LM_NUMERAL_TIMES && s[n - 1] != 'x' && s[n - 1] != 'X' && isdigit((unsigned char)s[n + strspn(s + n, " ")])) {
        out->number.unit = LM_NUMERAL_PLAIN;             /* a factor of a product */
        while (!isdigit((unsigned char)s[n - 1]))
            n--;
    }
    if (s + n < end && (is_word(s[n]) || s[n] == '^' || s[n] == '_') && strncmp(s + n, "–", 3) != 0 && strncmp(s + n, "×", 2) != 0)
        return 0;
    more = dash_at(s + n);
    if (!more && strncmp(s + n, between ? " and " : " to ", between ? 5 : 4) == 0)
        more = between ? 5 : 4;
    if (more && s + n + more < end && isdigit((unsigned char)s[n + more])) {
        lm_numeral w;
        m = lm_read_numeral(s + n + more, false, &w, NULL);
        if (!m || s + n + more + m > end || (s + n + more + m < end && is_word(s[n + more + m])))
            return 0;
        out->last = (lm_extent){ s + n + more, m };
        if (out->number.unit == LM_NUMERAL_PLAIN && !out->number.power)  /* of "40-43 GB" the last has the unit of both */
            out->number.unit = w.unit;
        n += more + m;
    }
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
        { "？", LM_DOUBT }, { "/", LM_SLASH }, { "-", LM_NEUTRAL }, { "#", LM_NEUTRAL }, { "“", LM_NEUTRAL }, { "”", LM_NEUTRAL },
        { "’", LM_NEUTRAL }, { "✅", LM_NEUTRAL }, { "@", LM_NEUTRAL },
    };

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        *n = strlen(signs[i].sign);
        if ((size_t)(end - s) >= *n && memcmp(s, signs[i].sign, *n) == 0)
            return signs[i].role;
    }
    *n = 1;
    return LM_UNKNOWN;
}

/* A word that is not known. One with digits among its letters, or with capitals within, may name a model. */
static void take_unknown(const char *s, const char *end, lm_item *out)
{
    const char *p = s;
    size_t      digits = 0, capitals = 0;

    for (; p < end; p++) {
        char next = p + 1 < end ? p[1] : ' ';
        if (!is_word(*p) && *p != '_' && !(*p == '-' && is_word(next)) && !(*p == '.' && isdigit((unsigned char)next)))
            break;
        digits   += isdigit((unsigned char)*p) != 0;
        capitals += isupper((unsigned char)*p) != 0;
    }
    p += p == s;
    *out = (lm_item){ .role = LM_UNKNOWN, .at = { s, (size_t)(p - s) }, .model = LM_NO_MODEL };
    out->foreign = capitals > 1 || (capitals && digits);
}

size_t lm_scan(const lm_reading *d, lm_extent text, lm_item *items, size_t most)
{
    const char *end = text.s + text.n;
    size_t      n = 0, m;

    for (const char *p = text.s; p < end && n < most;) {
        lm_item *x = &items[n];
        bool     begins = p == text.s || !is_word(p[-1]) || (*p & 0x80) || (p[-1] & 0x80), between;
        if (isspace((unsigned char)*p) || (m = decoration(text.s, p, end))) {
            p += isspace((unsigned char)*p) ? 1 : m;
            continue;
        }
        *x      = (lm_item){ .at = { p, 1 }, .model = LM_NO_MODEL };
        between = n && items[n - 1].role == LM_LEAD && items[n - 1].at.n == 7;
        if (begins && isalnum((unsigned char)*p) && (x->model = lm_model_at(d, p, end, &m)) != LM_NO_MODEL) {
            x->role = LM_MODEL;
            x->at.n = m;
        } else if (begins && (x->word = vocable_at(p, end, &m))) {
            x->role = x->word->role;
            x->at.n = m;
        } else if (!number_at(text.s, p, end, between, x)) {
            bool    times = *p == 'x' && n && items[n - 1].role == LM_NUMBER && p + 1 < end && p[1] == ' ';
            lm_role role = times ? LM_TIMES : is_word(*p) && !(*p & 0x80) ? LM_UNKNOWN : sign_at(p, end, &m);
            m            = times ? 1 : m;
            x->role      = role;
            x->at.n      = m;
            if (role == LM_UNKNOWN)
                take_unknown(p, end, x);
        }
        p += x->at.n;
        n++;
    }
    return n;
}
