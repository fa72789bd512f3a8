/* view.h - facts as pages for people: the output of `lamina inspect --view NAME`.
 *
 * Widths are terminal columns (utf8proc), so that text in every script is aligned. Everything that a reader
 * sees is in _(), for translation. */
#ifndef LM_ANALYSIS_VIEW_H
#define LM_ANALYSIS_VIEW_H

#include "study/facts/fact.h"
#include "study/facts/figure.h"

typedef struct lm_page {
    lm_facts              *f;
    const lm_view_options *o;
    lm_text                *out;
    unsigned               columns;      /* of the terminal */
    bool                   lines;        /* use box-drawing characters and bars */
} lm_page;

typedef void lm_view_writer(lm_page *v);

lm_view_writer lm_view_overview, lm_view_layers, lm_view_tensors, lm_view_program, lm_view_plan,
    lm_view_facts, lm_view_cards;

/* The same as a JSON array. */
lm_view_writer lm_view_facts_json, lm_view_tensors_json;

#endif
