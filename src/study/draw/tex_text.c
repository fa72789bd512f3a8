/* tex_text.c - text that TeX typesets literally. */
#include <string.h>
#include <utf8proc.h>

#include "study/draw/tex.h"

static const struct { const char *sign, *tex; } signs[] = {
    { "×", "\\ensuremath{\\times}" },     { "·", "\\ensuremath{\\cdot}" },      { "−", "\\ensuremath{-}" },         { "→", "\\ensuremath{\\rightarrow}" },
    { "←", "\\ensuremath{\\leftarrow}" }, { "↑", "\\ensuremath{\\uparrow}" },   { "↓", "\\ensuremath{\\downarrow}" }, { "⊙", "\\ensuremath{\\odot}" },
    { "⊕", "\\ensuremath{\\oplus}" },     { "⊗", "\\ensuremath{\\otimes}" },    { "√", "\\ensuremath{\\surd}" },    { "∈", "\\ensuremath{\\in}" },
    { "≤", "\\ensuremath{\\le}" },        { "≥", "\\ensuremath{\\ge}" },        { "≈", "\\ensuremath{\\approx}" },  { "≠", "\\ensuremath{\\ne}" },
    { "±", "\\ensuremath{\\pm}" },        { "∞", "\\ensuremath{\\infty}" },     { "Σ", "\\ensuremath{\\Sigma}" },   { "∑", "\\ensuremath{\\textstyle\\sum}" },
    { "⌊", "\\ensuremath{\\lfloor}" },    { "⌋", "\\ensuremath{\\rfloor}" },    { "⌈", "\\ensuremath{\\lceil}" },   { "⌉", "\\ensuremath{\\rceil}" },
    { "⟨", "\\ensuremath{\\langle}" },    { "⟩", "\\ensuremath{\\rangle}" },    { "⟦", "\\ensuremath{[\\![}" },     { "⟧", "\\ensuremath{]\\!]}" },
    { "⇔", "\\ensuremath{\\Leftrightarrow}" }, { "⇒", "\\ensuremath{\\Rightarrow}" }, { "∣", "\\ensuremath{\\mid}" }, { "ℓ", "\\ensuremath{\\ell}" },
    { "⊤", "\\ensuremath{\\top}" },       { "ᵀ", "\\ensuremath{^{\\top}}" },    { "ᵢ", "\\ensuremath{_{i}}" },      { "ⱼ", "\\ensuremath{_{j}}" },
    { "α", "\\ensuremath{\\alpha}" },     { "β", "\\ensuremath{\\beta}" },      { "γ", "\\ensuremath{\\gamma}" },   { "ε", "\\ensuremath{\\varepsilon}" },
    { "θ", "\\ensuremath{\\theta}" },     { "λ", "\\ensuremath{\\lambda}" },    { "μ", "\\ensuremath{\\mu}" },      { "µ", "\\ensuremath{\\mu}" },
    { "π", "\\ensuremath{\\pi}" },        { "σ", "\\ensuremath{\\sigma}" },     { "φ", "\\ensuremath{\\varphi}" },  { "ω", "\\ensuremath{\\omega}" },
    { "Δ", "\\ensuremath{\\Delta}" },     { "½", "\\ensuremath{\\tfrac12}" },   { "⅓", "\\ensuremath{\\tfrac13}" }, { "⅔", "\\ensuremath{\\tfrac23}" },
    { "¼", "\\ensuremath{\\tfrac14}" },   { "¾", "\\ensuremath{\\tfrac34}" },   { "⁻", "\\ensuremath{^{-}}" },      { "⁺", "\\ensuremath{^{+}}" },
    { "⁰", "\\ensuremath{^{0}}" },        { "¹", "\\ensuremath{^{1}}" },        { "²", "\\ensuremath{^{2}}" },      { "³", "\\ensuremath{^{3}}" },
    { "⁴", "\\ensuremath{^{4}}" },        { "⁵", "\\ensuremath{^{5}}" },        { "⁶", "\\ensuremath{^{6}}" },      { "⁷", "\\ensuremath{^{7}}" },
    { "⁸", "\\ensuremath{^{8}}" },        { "⁹", "\\ensuremath{^{9}}" },        { "₀", "\\ensuremath{_{0}}" },      { "₁", "\\ensuremath{_{1}}" },
    { "₂", "\\ensuremath{_{2}}" },        { "₃", "\\ensuremath{_{3}}" },        { "₄", "\\ensuremath{_{4}}" },      { "₅", "\\ensuremath{_{5}}" },
    { "₆", "\\ensuremath{_{6}}" },        { "₇", "\\ensuremath{_{7}}" },        { "₈", "\\ensuremath{_{8}}" },      { "₉", "\\ensuremath{_{9}}" },
    { "✓", "\\ensuremath{\\checkmark}" }, { "✗", "\\ensuremath{\\times}" },     { "†", "\\dag{}" },                 { "‡", "\\ddag{}" },
    { "●", "\\ensuremath{\\bullet}" },    { "○", "\\ensuremath{\\circ}" },      { "▸", "\\ensuremath{\\triangleright}" }, { "▾", "\\ensuremath{\\triangledown}" },
    { "–", "--" },                        { "—", "---" },                       { "…", "\\ldots{}" },               { "\xC2\xA0", "~" },
    { "“", "``" },                        { "”", "''" },                        { "‘", "`" },                       { "’", "'" },
    { "│", "|" },                         { "─", "-" },                         { "├", "|" },                       { "└", "`" },
    { "┌", "+" },                         { "┐", "+" },                         { "┘", "+" },                       { "┤", "|" },
    { "┬", "+" },                         { "┴", "+" },                         { "┼", "+" },                       { "═", "=" },
    { "║", "|" },                         { "█", "\\rule{0.5em}{1.4ex}" },      { "▲", "\\ensuremath{\\vartriangle}" }, { "▼", "\\ensuremath{\\triangledown}" },
    { "►", "\\ensuremath{\\triangleright}" }, { "◄", "\\ensuremath{\\triangleleft}" }, { "▶", "\\ensuremath{\\triangleright}" }, { "′", "\\ensuremath{'}" },
    { "Φ", "\\ensuremath{\\varPhi}" },       { "Θ", "\\ensuremath{\\Theta}" },
};

static const char *sign_at(const char *p, size_t left, size_t *n)
{
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        *n = strlen(signs[i].sign);
        if (*n <= left && memcmp(p, signs[i].sign, *n) == 0)
            return signs[i].tex;
    }
    return NULL;
}

/* Append one character beyond ASCII; returns its bytes. Invalid UTF-8 and control characters become '?'. */
static size_t put_sign(lm_text *out, const char *p, size_t left)
{
    size_t           n;
    const char      *tex = sign_at(p, left, &n);
    utf8proc_int32_t c;

    if (tex) {
        lm_text_add_str(out, tex);
        return n;
    }
    utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)left, &c);
    if (length <= 0 || c < 0xA0)
        lm_text_add_char(out, '?');
    else
        lm_text_add(out, p, (size_t)length);
    return length > 0 ? (size_t)length : 1;
}

void lm_tex_text_n(lm_text *out, const char *text, size_t n)
{
    static const struct { char c; const char *tex; } special[] = {
        { '\\', "\\textbackslash{}" }, { '{', "\\{" }, { '}', "\\}" }, { '$', "\\$" }, { '&', "\\&" }, { '#', "\\#" }, { '%', "\\%" },
        { '_', "\\_" }, { '^', "\\textasciicircum{}" }, { '~', "\\textasciitilde{}" }, { '<', "\\textless{}" }, { '>', "\\textgreater{}" },
        { '|', "\\textbar{}" }, { '"', "\\textquotedbl{}" }, { '`', "\\textasciigrave{}" }, { '\n', " " }, { '\t', " " },
    };

    for (size_t i = 0; i < n;) {
        size_t k = 0;
        if ((unsigned char)text[i] >= 0x80) {
            i += put_sign(out, text + i, n - i);
            continue;
        }
        while (k < sizeof special / sizeof *special && special[k].c != text[i])
            k++;
        if (k < sizeof special / sizeof *special)
            lm_text_add_str(out, special[k].tex);
        else
            lm_text_add_char(out, (unsigned char)text[i] < 0x20 || text[i] == 0x7F ? '?' : text[i]);
        i++;
    }
}

void lm_tex_text(lm_text *out, const char *text)
{
    lm_tex_text_n(out, text, strlen(text));
}

void lm_tex_math(lm_text *out, const char *latex)
{
    for (size_t n = strlen(latex), i = 0; i < n;) {
        if ((unsigned char)latex[i] >= 0x80) {
            i += put_sign(out, latex + i, n - i);
        } else {
            lm_text_add_char(out, latex[i] == '\t' || latex[i] == '\n' ? ' ' : latex[i]);
            i++;
        }
    }
}
