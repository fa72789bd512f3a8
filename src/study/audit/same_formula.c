/* same_formula.c - compare formulas of what a part computes, whatever signs they are written with. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "study/audit/reading.h"

/* "1e-05": a number that is added below a root. Returns its bytes; 0: none. */
static size_t small_number_at(const char *s)
{
    size_t n = strspn(s, "0123456789.");
    bool   power = n && (s[n] == 'e' || s[n] == 'E') && s[n + 1] == '-';

    return power ? n + 2 + strspn(s + n + 2, "0123456789") : strncmp(s, "0.0000", 6) == 0 ? n : 0;
}

/* Write what stands for the text at s. Returns the bytes of it that were read. */
static size_t put(lm_extent s, const lm_spelling *spellings, char *out, size_t *n)
{
    size_t small = *n && out[*n - 1] == '+' ? small_number_at(s.s) : 0;

    if (small && small <= s.n) {
        memcpy(out + *n, "eps", 3);
        *n += 3;
        return small;
    }
    for (; spellings->text; spellings++) {
        size_t m = strlen(spellings->text), k = strlen(spellings->written);
        if (s.n >= m && strncasecmp(s.s, spellings->text, m) == 0) {
            memcpy(out + *n, spellings->written, k);
            *n += k;
            return m;
        }
    }
    if (!isspace((unsigned char)*s.s))
        out[(*n)++] = *s.s;
    return 1;
}

void lm_write_form(lm_extent s, const lm_spelling *spellings, char out[LM_LONGEST_FORM])
{
    const char *p = s.s, *end = s.s + s.n;
    size_t      n = 0;

    while (p < end && n < LM_LONGEST_FORMULA) {
        bool root = strncmp(p, "√", 3) == 0 && p[3] != '(';
        p += put((lm_extent){ p, (size_t)(end - p) }, spellings, out, &n);
        if (!root)
            continue;
        out[n++] = '(';
        while (p < end && (isalnum((unsigned char)*p) || *p == '_') && n < LM_LONGEST_FORMULA)
            p += put((lm_extent){ p, (size_t)(end - p) }, spellings, out, &n);
        out[n++] = ')';
    }
    out[n] = '\0';
}

bool lm_same_formula(const char *a, const char *b)
{
    static const lm_spelling spellings[] = {
        { "\\times", "" },  { "\\cdot", "" }, { "\\odot", "" }, { "\\left", "" }, { "\\right", "" }, { "\\text", "" }, { "\\mathrm", "" },
        { "\\gamma", "gamma" }, { "\\beta", "beta" }, { "\\epsilon", "eps" }, { "_proj", "" }, { "d_k", "head_dim" }, { "{d_k}", "head_dim" },
        { "×", "" }, { "·", "" }, { "⊙", "" }, { "*", "" }, { "@", "" }, { "√", "sqrt" }, { "γ", "gamma" }, { "β", "beta" }, { "ε", "eps" },
        { "²", "^2" }, { "ᵀ", "^t" }, { ".t", "^t" }, { "epsilon", "eps" }, { "[", "(" }, { "]", ")" }, { "\\", "" }, { "`", "" }, { "$", "" },
        { NULL, NULL },
    };
    char x[LM_LONGEST_FORM], y[LM_LONGEST_FORM];

    lm_write_form((lm_extent){ a, strlen(a) }, spellings, x);
    lm_write_form((lm_extent){ b, strlen(b) }, spellings, y);
    return *x && strcasecmp(x, y) == 0;
}
