/* formula.c - formulas of LaTeX, code and plain text in one form, and whether a line holds one of a known form. */
#include <ctype.h>
#include <string.h>

#include "analysis/audit/reading.h"

/* What stands for what; the longer first. Commands of LaTeX that are not here stay as their names ("\tanh" is "tanh"). */
static const char *const spellings[][2] = {
    { "\\text", "" }, { "\\mathrm", "" }, { "\\mathbf", "" }, { "\\mathbb", "" }, { "\\operatorname", "" }, { "\\left", "" },
        { "\\right", "" },
    { "\\quad", "" }, { "\\hat", "" }, { "\\tilde", "" }, { "\\boxed", "" }, { "\\,", "" }, { "\\;", "" }, { "\\!", "" }, { "\\:", "" },
    { "\\lfloor", "floor(" }, { "\\rfloor", ")" }, { "\\times", "*" }, { "\\cdot", "*" }, { "\\odot", "*" }, { "\\epsilon", "eps" },
    { "\\varepsilon", "eps" }, { "\\approx", "=" }, { "\\ldots", "..." }, { "\\theta", "theta" }, { "\\Theta", "theta" }, { "\\ ", "" },
    { "×", "*" }, { "·", "*" }, { "⊙", "*" }, { "•", "*" }, { "@", "*" }, { "≈", "=" }, { "√", "sqrt" }, { "σ", "sigma" }, { "γ", "gamma" },
    { "β", "beta" }, { "μ", "mu" }, { "ε", "eps" }, { "θ", "theta" }, { "Σ", "sum" }, { "²", "^2" }, { "³", "^3" }, { "ᵀ", "^t" },
        { "⁻", "^-" },
    { "∈", "in" }, { "⌊", "floor(" }, { "⌋", ")" }, { "′", "" }, { "–", "-" }, { "−", "-" }, { "→", "->" }, { "{,}", "," },
};

typedef struct writer { char *out; size_t n, room; } writer;

static void put(writer *w, const char *s, size_t n)
{
    for (size_t i = 0; i < n && w->n + 1 < w->room; i++)
        w->out[w->n++] = (char)tolower((unsigned char)s[i]);
}

/* "_l", "_{l+1}", "_i": an index that runs, no part of a name. */
static size_t index_at(const char *p, const char *end)
{
    const char *q = p + 1, *s;
    bool        braced = q < end && *q == '{';

    if (*p != '_' || q >= end)
        return 0;
    q += braced;
    s = q;
    if (s < end && strchr("lijtmn", *s))
        q++;
    if (q == s)
        return 0;
    if (braced) {
        while (q < end && (isdigit((unsigned char)*q) || *q == '+' || *q == '-'))
            q++;
        return q < end && *q == '}' ? (size_t)(q + 1 - p) : 0;
    }
    return q < end && (isalnum((unsigned char)*q) || *q == '_') ? 0 : (size_t)(q - p);
}

/* The group in braces at p, without them; empty: there is none. `*after`: behind it. */
static lm_extent group_at(const char *p, const char *end, const char **after)
{
    size_t deep = 0;

    *after = p;
    if (p >= end || *p != '{')
        return (lm_extent){ p, 0 };
    for (const char *q = p; q < end; q++) {
        deep += *q == '{';
        deep -= *q == '}';
        if (!deep) {
            *after = q + 1;
            return (lm_extent){ p + 1, (size_t)(q - p - 1) };
        }
    }
    return (lm_extent){ p, 0 };
}

static void write_form(writer *w, lm_extent s, int depth);

/* "\frac{a}{b}" is a/b, "\sqrt{a}" is sqrt(a); the bytes that were read, 0: neither. */
static size_t write_command(writer *w, const char *p, const char *end, int depth)
{
    bool        fraction = end - p > 5 && memcmp(p, "\\frac", 5) == 0, root = end - p > 5 && memcmp(p, "\\sqrt", 5) == 0;
    const char *q = p + 5;

    if (depth > 12 || (!fraction && !root))
        return 0;
    lm_extent a = group_at(q, end, &q);
    if (q == p + 5)
        return 0;
    if (root)
        put(w, "sqrt(", 5);
    write_form(w, a, depth + 1);
    put(w, root ? ")" : "/", 1);
    if (fraction)
        write_form(w, group_at(q, end, &q), depth + 1);
    return (size_t)(q - p);
}

/* The root of what follows a sign without parentheses: "√128", "√head_dim". */
static size_t write_root(writer *w, const char *p, const char *end)
{
    const char *q = p + strlen("√");

    if ((size_t)(end - p) <= strlen("√") || memcmp(p, "√", strlen("√")) != 0 || *q == '(')
        return 0;
    put(w, "sqrt(", 5);
    while (q < end && (isalnum((unsigned char)*q) || *q == '_'))
        put(w, q++, 1);
    put(w, ")", 1);
    return (size_t)(q - p);
}

static size_t write_spelling(writer *w, const char *p, const char *end)
{
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        size_t n = strlen(spellings[i][0]);
        if ((size_t)(end - p) >= n && memcmp(p, spellings[i][0], n) == 0 && !(*p == '\\' && n > 3 && end - p > (ptrdiff_t)n &&
            islower((unsigned char)p[n]))) {
            put(w, spellings[i][1], strlen(spellings[i][1]));
            return n;
        }
    }
    return 0;
}

static void write_form(writer *w, lm_extent s, int depth)
{
    const char *end = s.s + s.n;

    for (const char *p = s.s; p < end;) {
        size_t n = index_at(p, end);
        if (!n)
            n = write_command(w, p, end, depth);
        if (!n)
            n = write_root(w, p, end);
        if (!n)
            n = write_spelling(w, p, end);
        if (n) {
            p += n;
            continue;
        }
        char c = *p++;
        bool bold = c == '*' && ((p < end && *p == '*') || (p - 1 > s.s && p[-2] == '*'));
        if (c == '[' || c == ']')
            c = c == '[' ? '(' : ')';
        if (!bold && !strchr(" \t{}$`\\&'\"", c))
            put(w, &c, 1);
    }
}

const char *lm_formula_form(lm_reading *d, lm_extent line)
{
    writer w = { .room = 3 * line.n + 16 };

    w.out = lm_arena_alloc(&d->arena, w.room);
    if (!w.out) {
        d->failed = true;
        return "";
    }
    write_form(&w, line, 0);
    w.out[w.n] = '\0';
    return w.out;
}

/* Whether `form` stands at `p`: "#" is a number or a name, which goes to `taken`; signs of multiplication may be there or not. */
static bool form_at(const char *p, const char *form, char taken[32])
{
    while (*form) {
        if (*form == '#') {
            size_t n = 0;
            while (*p == '*')
                p++;
            while (isalnum((unsigned char)*p) || *p == '_' || *p == '.') {
                if (n + 1 < 32)
                    taken[n++] = *p;
                p++;
            }
            taken[n] = '\0';
            if (!n)
                return false;
            form++;
        } else if (*p == *form) {
            p++;
            form++;
        } else if (*p == '*') {
            p++;
        } else {
            return false;
        }
    }
    return true;
}

bool lm_form_in(const char *text, const char *form, char taken[32])
{
    *taken = '\0';
    for (const char *p = text; *p; p++)
        if (*p != '*' && form_at(p, form, taken) && (!isalnum((unsigned char)*form) || p == text || !isalpha((unsigned char)p[-1])))
            return true;
    return false;
}
