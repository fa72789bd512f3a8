/* html.h - parts of a report as HTML (document_html*.c). All text is escaped with lm_markup_text. */
#ifndef LM_ANALYSIS_HTML_H
#define LM_ANALYSIS_HTML_H

#include "study/draw/svg.h"
#include "study/page/document.h"

typedef struct lm_html {
    lm_document *d;
    lm_text      *out;
    lm_error    *e;
    lm_status    status;         /* the first failure: a formula that cannot be written */
    unsigned     panels;         /* number of slider panels so far */
} lm_html;

/* The style sheet and the script of a page, generated from src/study/page/html/ when lamina is built. */
extern const char lm_html_report_css[], lm_html_report_js[];

/* Append ` name="text"`, escaped. */
void lm_html_attribute(lm_html *h, const char *name, const char *text);

/* Append `<tag>text</tag>`; `classes` NULL: none. */
void lm_html_element(lm_html *h, const char *tag, const char *classes, const char *text);

/* The same, with addresses (only https:// and plain characters) and arXiv numbers as links, which load
 * nothing until they are clicked. */
void lm_html_linked(lm_html *h, const char *tag, const char *classes, const char *text);

/* Append a formula as displayed or inline MathML, or as Unicode if there is no LaTeX. */
void lm_html_formula(lm_html *h, const char *unicode, const char *latex, bool block);

void lm_html_table(lm_html *h, const lm_block *b);
void lm_html_derivation(lm_html *h, lm_derivation *x);
void lm_html_figure(lm_html *h, const lm_block *b);

/* Append the sliders of a model with the numbers that they look up. */
void lm_html_sliders(lm_html *h, const lm_block *b);

#endif
