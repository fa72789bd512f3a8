/* words.c - text without its decoration, and what its words stand for. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "analysis/audit/reading.h"
#include "analysis/facts/meaning.h"

lm_extent lm_trim(lm_extent s)
{
    while (s.n && isspace((unsigned char)*s.s))
        s.s++, s.n--;
    while (s.n && isspace((unsigned char)s.s[s.n - 1]))
        s.n--;
    return s;
}

bool lm_span_has(lm_extent s, const char *word)
{
    size_t n = strlen(word);

    for (size_t i = 0; i + n <= s.n; i++)
        if (strncasecmp(s.s + i, word, n) == 0)
            return true;
    return false;
}

/* A tag of HTML ("<br/>", "</b>") at the front of s; 0: none. "< 0.1" is no tag. */
static size_t tag_at(lm_extent s)
{
    if (s.n < 3 || *s.s != '<' || !(isalpha((unsigned char)s.s[1]) || s.s[1] == '/'))
        return 0;
    const char *end = memchr(s.s, '>', s.n);
    return end ? (size_t)(end - s.s) + 1 : 0;
}

char *lm_plain(lm_reading *d, lm_extent s)
{
    char  *out = lm_arena_array(&d->arena, s.n + 1, 1);
    size_t n = 0;

    if (!out) {
        d->failed = true;
        return "";
    }
    s = lm_trim(s);
    for (size_t i = 0, tag; i < s.n; i++) {
        lm_extent rest = { s.s + i, s.n - i };
        bool    bold = s.s[i] == '*' && ((i + 1 < s.n && s.s[i + 1] == '*') || (i && s.s[i - 1] == '*') || i == 0 || i + 1 == s.n);
        if ((tag = tag_at(rest))) {
            i += tag - 1;
            out[n++] = ' ';
        } else if (!bold && s.s[i] != '`' && s.s[i] != '$') {
            out[n++] = s.s[i];
        }
    }
    while (n && isspace((unsigned char)out[n - 1]))
        n--;
    out[n] = '\0';
    while (isspace((unsigned char)*out))
        out++;
    return out;
}

char *lm_label(lm_reading *d, lm_extent s)
{
    char  *text = lm_plain(d, s);
    size_t n = 0, deep = 0;

    for (const char *p = text; *p; p++) {
        deep += *p == '(';
        if (!deep && !(isspace((unsigned char)*p) && (!n || text[n - 1] == ' ')))
            text[n++] = isspace((unsigned char)*p) ? ' ' : (char)tolower((unsigned char)*p);
        deep -= *p == ')' && deep;
    }
    while (n && (text[n - 1] == ' ' || text[n - 1] == ':' || text[n - 1] == '='))
        n--;
    if (n >= 3 && memcmp(text + n - 3, "：", 3) == 0)
        n -= 3;
    text[n] = '\0';
    return text;
}

const char *lm_phrase_path(const char *label)
{
    if (!*label)
        return NULL;
    for (const lm_phrase *p = lm_phrases; p->phrase; p++)
        if (strcmp(p->phrase, label) == 0)
            return p->path;
    return lm_quantity_known(label) ? label : NULL;
}

/* "28 × attention", "q_proj": what repeats it is no part of its name. */
const lm_component *lm_component_of(const char *label)
{
    const char *p = label + strspn(label, "0123456789 ");

    if (p != label && (*p == 'x' || *p == '*') && p[1] == ' ')
        p += 2;
    else if (p != label && strncmp(p, "×", strlen("×")) == 0)
        p += strlen("×");
    p += strspn(p, " ");
    for (const lm_component *c = lm_components; c->word; c++)
        if (strcmp(c->word, p) == 0)
            return c;
    return NULL;
}

bool lm_yes_mark(const char *s) { return strncmp(s, "✅", 3) == 0 || strncmp(s, "✓", 3) == 0 || strncmp(s, "✔", 3) == 0; }

bool lm_no_mark(const char *s) { return strncmp(s, "❌", 3) == 0 || strncmp(s, "✗", 3) == 0 || strncmp(s, "✘", 3) == 0; }
