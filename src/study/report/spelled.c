/* spelled.c - typeset formulas of facts, which are plain text, as Unicode and LaTeX. */
#include "study/report/spelled.h"

#include <ctype.h>
#include <string.h>

typedef struct setting {
    const char *at;
    lm_text    *unicode, *latex;
    unsigned    depth;           /* depth of parentheses */
    bool        operand;         /* the last element can be multiplied */
} setting;

static void both(setting *s, const char *unicode, const char *latex)
{
    lm_text_add_str(s->unicode, unicode);
    lm_text_add_str(s->latex, latex);
}

/* Words that stand for letters or functions of mathematics. */
static const struct { const char *word, *unicode, *latex; } words[] = {
    { "theta_i", "θᵢ", "\\theta_i" }, { "gamma", "γ", "\\gamma" }, { "beta", "β", "\\beta" }, { "eps", "ε", "\\varepsilon" },
    { "sum", "Σ", "\\sum" },          { "tanh", "tanh", "\\tanh" }, { "min", "min", "\\min" },  { "mean", "μ", "\\mu" },
    { "var", "var", "\\mathrm{var}" },
    /* Sizes, by the letters of docs/study/glossary.md; matrices of all tokens are bold. */
    { "layers", "L", "L" },           { "n_heads", "H", "H" },       { "kv_heads", "G", "G" },    { "head_dim", "K", "K" },
    { "qk_dim", "K", "K" },       { "value_dim", "K_V", "K_V" }, { "v_dim", "K_V", "K_V" },   { "nope_dim", "K_N", "K_N" },
    { "rope_dim", "K_R", "K_R" },     { "kv_rank", "R", "R" },       { "q_rank", "R_q", "R_q" },  { "tokens", "S", "S" },
    { "bytes", "b_v", "b_v" },
    { "Q", "𝐐", "\\mathbf{Q}" },      { "K", "𝐊", "\\mathbf{K}" },      { "V", "𝐕", "\\mathbf{V}" },
    { "lambda", "λ", "\\lambda" },    { "kappa", "κ", "\\kappa" },      { "kappa_j", "κ_j", "\\kappa_j" }, { "kappa_ij", "κ_ij", "\\kappa_{ij}" },
       { "m_h", "m_r", "m_r" },         { "s_h", "s_r", "s_r" },
};

static void put_word(setting *s, const char *word, size_t n)
{
    size_t base = 0;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == n && memcmp(words[i].word, word, n) == 0 &&
            !(word[n] == '(' && strncmp(word, "mean", 4) == 0)) {
            both(s, words[i].unicode, words[i].latex);
            lm_text_add_char(s->latex, ' ');
            return;
        }
    lm_text_add_utf8(s->unicode, word, n);
    while (base < n && isalpha((unsigned char)word[base]))
        base++;
    if (n == 1)
        lm_text_add_char(s->latex, *word);
    else if (base == 1)          /* W_Q, b1: a letter with an index */
        lm_text_printf(s->latex, "%c_{%.*s}", *word, (int)(n - 1 - (word[1] == '_')),
                       word + 1 + (word[1] == '_'));
    else {
        lm_text_add_str(s->latex, "\\mathrm{");
        for (size_t i = 0; i < n; i++)
            lm_text_printf(s->latex, word[i] == '_' ? "\\_" : "%c", word[i]);
        lm_text_add_char(s->latex, '}');
    }
}

static void set(setting *s, char end);

/* Write the contents of parentheses; in LaTeX the parentheses are replaced by a root, a fraction bar or the
 * like. */
static void put_inner(setting *s, const char *open_unicode, const char *open_latex, const char *close_unicode,
                      const char *close_latex)
{
    both(s, open_unicode, open_latex);
    s->at++;
    s->depth++;
    set(s, ')');
    s->depth--;
    s->at += *s->at == ')';
    both(s, close_unicode, close_latex);
}

static void put_name(setting *s)
{
    const char *from = s->at;

    while (isalnum((unsigned char)*s->at) || *s->at == '_')
        s->at++;
    size_t      n    = (size_t)(s->at - from);
    const char *next = s->at + strspn(s->at, " ");
    if (n == 1 && *from == 'x' && s->operand && (isalnum((unsigned char)*next) || *next == '(')) {
        both(s, "×", "\\times ");
        s->operand = false;
        return;
    }
    if (n == 3 && memcmp(from, "sum", 3) == 0 && strncmp(s->at, " top-", 5) == 0) {
        size_t digits = strspn(s->at + 5, "0123456789");
        lm_text_printf(s->unicode, "Σ top-%.*s", (int)digits, s->at + 5);
        lm_text_printf(s->latex, "\\sum_{\\text{top-}%.*s} ", (int)digits, s->at + 5);
        s->at += 5 + digits;
    } else if (n == 3 && memcmp(from, "sum", 3) == 0 && strncmp(s->at, " shared ", 8) == 0) {
        both(s, "Σ shared", "\\sum_{\\text{shared}} ");
        s->at += 7;
    } else if (n == 4 && memcmp(from, "sqrt", 4) == 0 && *s->at == '(')
        put_inner(s, "√(", "\\sqrt{", ")", "}");
    else if (n == 5 && memcmp(from, "floor", 5) == 0 && *s->at == '(')
        put_inner(s, "⌊", "\\lfloor ", "⌋", " \\rfloor");
    else
        put_word(s, from, n);
    s->operand = true;
}

static void put_power(setting *s)
{
    s->at++;
    if (*s->at == 'T') {
        s->at++;
        both(s, "ᵀ", "^{\\top}");
    } else if (*s->at == '2') {
        s->at++;
        both(s, "²", "^{2}");
    } else if (*s->at == '(') {
        put_inner(s, "^(", "^{", ")", "}");
    } else {
        both(s, "^", "^");
    }
}

static void put_sign(setting *s)
{
    static const struct { const char *sign, *unicode, *latex; } signs[] = {
        { "<=", "≤", "\\le " }, { ">=", "≥", "\\ge " }, { "<-", "←", "\\leftarrow " }, { "*", "⊙", "\\odot " }, { "-", "−", "-" }, { ";", ";", "\\,;\\," }, { " ", " ", "\\," },
    };

    if (strncmp(s->at, ", ", 2) == 0) {
        both(s, s->depth ? ", " : ",  ", s->depth ? ",\\," : ",\\quad ");
        s->at += 2;
        return;
    }
    s->operand = *s->at == ')' || *s->at == ']' || (*s->at == ' ' && s->operand);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strncmp(s->at, signs[i].sign, strlen(signs[i].sign)) == 0) {
            /* the sign that follows has its own space */
            bool thin = *s->at == ' ' && (!s->operand || strchr("+-=<*/;)]", s->at[1]));
            both(s, signs[i].unicode, thin ? " " : signs[i].latex);
            s->at += strlen(signs[i].sign);
            return;
        }
    lm_text_add_char(s->unicode, *s->at);
    lm_text_add_char(s->latex, *s->at++);
}

/* Write words of a language that is not written in ASCII. */
static void put_prose(setting *s)
{
    size_t n = 0;

    while ((unsigned char)s->at[n] >= 0x80)
        n++;
    lm_text_add(s->unicode, s->at, n);
    lm_text_printf(s->latex, "\\text{%.*s}", (int)n, s->at);
    s->at += n;
    s->operand = false;
}

/* Write up to `end`, which is not consumed; parentheses inside are. */
static void set(setting *s, char end)
{
    while (*s->at && *s->at != end) {
        if ((unsigned char)*s->at >= 0x80)
            put_prose(s);
        else if (isalpha((unsigned char)*s->at))
            put_name(s);
        else if (*s->at == '^')
            put_power(s);
        else if (*s->at == '(')
            put_inner(s, "(", "(", ")", ")");
        else if (isdigit((unsigned char)*s->at)) {
            while (isdigit((unsigned char)*s->at) || *s->at == '.') {
                lm_text_add_char(s->unicode, *s->at);
                lm_text_add_char(s->latex, *s->at++);
            }
            s->operand = true;
        } else
            put_sign(s);
    }
}

void lm_spell_formula(const char *plain, lm_text *unicode, lm_text *latex)
{
    setting s = { .at = plain, .unicode = unicode, .latex = latex };

    set(&s, '\0');
}
