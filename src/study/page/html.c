/* html.c - write elements, attributes, formulas. */
#include "study/page/html.h"

#include <string.h>

#include "study/page/mathml.h"

void lm_html_attribute(lm_html *h, const char *name, const char *text)
{
    lm_text_printf(h->out, " %s=\"", name);
    lm_markup_text(h->out, text);
    lm_text_add_char(h->out, '"');
}

void lm_html_element(lm_html *h, const char *tag, const char *classes, const char *text)
{
    lm_text_printf(h->out, "<%s", tag);
    if (classes)
        lm_html_attribute(h, "class", classes);
    lm_text_add_char(h->out, '>');
    lm_markup_text(h->out, text);
    lm_text_printf(h->out, "</%s>\n", tag);
}

/* ---- links ---- */

static size_t address_at(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/%+";
    size_t            n       = 0;

    if (strncmp(text, "https://", 8) == 0)
        n = 8 + strspn(text + 8, plain);
    while (n > 8 && strchr(".-", text[n - 1]))
        n--;
    return n > 8 ? n : 0;
}

/* Return the bytes of a reference such as "arXiv 2305.14314" at `text`; 0: none. */
static size_t paper_at(const char *text)
{
    static const char digits[] = "0123456789", archive[] = "arXiv ";

    if (strncmp(text, archive, 6) != 0 || strspn(text + 6, digits) != 4 || text[10] != '.')
        return 0;
    size_t n = strspn(text + 11, digits);
    return n >= 4 && n <= 5 ? 11 + n : 0;
}

void lm_html_linked(lm_html *h, const char *tag, const char *classes, const char *text)
{
    lm_text_printf(h->out, "<%s", tag);
    if (classes)
        lm_html_attribute(h, "class", classes);
    lm_text_add_char(h->out, '>');
    while (*text) {
        size_t address = address_at(text), paper = paper_at(text), n = 1;
        if (address || paper) {
            n = address ? address : paper;
            lm_text_add_str(h->out, "<a rel=\"noreferrer\" href=\"");
            lm_text_add_str(h->out, address ? "" : "https://arxiv.org/abs/");
            lm_markup_text_n(h->out, address ? text : text + 6, address ? n : n - 6);
            lm_text_add_str(h->out, "\">");
            lm_markup_text_n(h->out, text, n);
            lm_text_add_str(h->out, "</a>");
        } else {
            while (text[n] && text[n] != 'h' && text[n] != 'a')
                n++;
            lm_markup_text_n(h->out, text, n);
        }
        text += n;
    }
    lm_text_printf(h->out, "</%s>\n", tag);
}

void lm_html_formula(lm_html *h, const char *unicode, const char *latex, bool block)
{
    if (h->status != LM_OK)
        return;
    if (latex) {
        lm_text_add_str(h->out, block ? "<div class=\"math\" tabindex=\"0\">" : "");
        h->status = lm_mathml(latex, block, h->out, h->e);
        lm_text_add_str(h->out, block ? "</div>\n" : "");
        return;
    }
    lm_html_element(h, block ? "p" : "span", block ? "math" : "math-text", unicode);
}
