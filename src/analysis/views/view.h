/* view.h - facts as pages for people: what `lamina inspect --view NAME` writes.
 *
 * Widths are columns of a terminal (utf8proc), so that every script lines up. Sentences and words that a reader sees stand
 * in _(): one place to translate them. */
#ifndef LM_ANALYSIS_VIEW_H
#define LM_ANALYSIS_VIEW_H

#include "analysis/facts/fact.h"
#include "analysis/facts/figure.h"

typedef struct lm_page {
    lm_facts              *f;
    const lm_view_options *o;
    lm_text                *out;
    unsigned               columns;      /* of the terminal */
    bool                   lines;        /* box drawing and bars */
} lm_page;

typedef void lm_view_writer(lm_page *v);

lm_view_writer lm_view_overview, lm_view_layers, lm_view_tensors, lm_view_program, lm_view_plan, lm_view_facts, lm_view_cards;

/* The same as data: a JSON array. */
lm_view_writer lm_view_facts_json, lm_view_tensors_json;

#endif
