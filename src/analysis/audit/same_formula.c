/* same_formula.c - compare formulas of what a part computes, whatever signs they are written with. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "analysis/audit/reading.h"

/* What is written in its place; the longer ones first. */
static const char *const spellings[][2] = {
    { "\\times", "" },  { "\\cdot", "" }, { "\\odot", "" }, { "\\left", "" }, { "\\right", "" }, { "\\text", "" }, { "\\mathrm", "" },
    { "\\gamma", "gamma" }, { "\\beta", "beta" }, { "\\epsilon", "eps" }, { "_proj", "" }, { "d_k", "head_dim" }, { "{d_k}", "head_dim" },
    { "×", "" }, { "·", "" }, { "⊙", "" }, { "*", "" }, { "@", "" }, { "√", "sqrt" }, { "γ", "gamma" }, { "β", "beta" }, { "ε", "eps" },
    { "²", "^2" }, { "ᵀ", "^t" }, { ".t", "^t" }, { "epsilon", "eps" }, { "[", "(" }, { "]", ")" }, { "\\", "" }, { "`", "" }, { "$", "" },
};

/* The most bytes that one replacement writes, and a formula in one form. */
enum { MOST_WRITTEN = 16, MOST_FORM = LM_LONGEST_FORMULA + MOST_WRITTEN };

/* "1e-05": a number that is added below a root. Returns its bytes; 0: none. */
static size_t small_number_at(const char *s)
{
    size_t n = strspn(s, "0123456789.");
    bool   power = n && (s[n] == 'e' || s[n] == 'E') && s[n + 1] == '-';

    return power ? n + 2 + strspn(s + n + 2, "0123456789") : strncmp(s, "0.0000", 6) == 0 ? n : 0;
}

/* Write what stands for the text at s. Returns the bytes of it that were read. */
static size_t put(const char *s, char *out, size_t *n)
{
    size_t small = *n && out[*n - 1] == '+' ? small_number_at(s) : 0;

    if (small) {
        memcpy(out + *n, "eps", 3);
        *n += 3;
        return small;
    }
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        size_t m = strlen(spellings[i][0]), k = strlen(spellings[i][1]);
        if (strncasecmp(s, spellings[i][0], m) == 0) {
            memcpy(out + *n, spellings[i][1], k);
            *n += k;
            return m;
        }
    }
    if (!isspace((unsigned char)*s))
        out[(*n)++] = (char)tolower((unsigned char)*s);
    return 1;
}

/* Write the formula in one form, without signs of multiplication; "√d" is "sqrt(d)". */
static void form_of(const char *s, char out[MOST_FORM])
{
    size_t n = 0;

    while (*s && n + MOST_WRITTEN < MOST_FORM) {
        bool root = strncmp(s, "√", 3) == 0 && s[3] != '(';
        s += put(s, out, &n);
        if (!root)
            continue;
        out[n++] = '(';
        while ((isalnum((unsigned char)*s) || *s == '_') && n + MOST_WRITTEN < MOST_FORM)
            s += put(s, out, &n);
        out[n++] = ')';
    }
    out[n] = '\0';
}

bool lm_same_formula(const char *a, const char *b)
{
    char x[MOST_FORM], y[MOST_FORM];

    form_of(a, x);
    form_of(b, y);
    return *x && strcmp(x, y) == 0;
}
