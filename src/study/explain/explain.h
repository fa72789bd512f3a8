/* explain.h - a topic with the numbers of a model, ready to be written in any form. */
#ifndef LM_ANALYSIS_EXPLAIN_H
#define LM_ANALYSIS_EXPLAIN_H

#include "study/explain/cards.h"

typedef struct lm_explanation {
    const lm_card            *card;
    lm_facts                 *f;
    const lm_explain_options *o;
    lm_traits                 traits;
    bool                      used;      /* the model has the component */
    lm_card_formula           formulas[LM_CARD_LINES];   /* those of the card, or what the program computes;
                                                            in the facts' arena */
    lm_sheet                  sheet;     /* without rows: none */
    lm_derivation            *d;         /* NULL: no arithmetic, or not used */
    lm_users                  users;
    lm_text                   diagram, mermaid;      /* empty: none */
} lm_explanation;

/* Find out whether the model has the component, and its formulas, table and arithmetic. Card, facts, traits
 * and options must be set. */
lm_status lm_explanation_begin(lm_explanation *x, lm_error *e);

void      lm_explain_text(const lm_explanation *x, lm_text *out);
void      lm_explain_markdown(const lm_explanation *x, lm_text *out);
lm_status lm_explain_json(const lm_explanation *x, lm_text *out, lm_error *e);


/* Append the table of an explanation; nothing if it has no rows. */
void lm_sheet_put_text(const lm_sheet *s, unsigned indent, unsigned columns, lm_text *out);
void lm_sheet_put_markdown(const lm_sheet *s, lm_text *out);

#endif
