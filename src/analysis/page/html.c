/* html.c - elements, attributes, formulas. */
#include "analysis/page/html.h"

#include "analysis/page/mathml.h"

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
