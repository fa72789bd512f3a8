/* cards.h - what is said about each topic, besides its numbers. */
#ifndef LM_ANALYSIS_CARDS_H
#define LM_ANALYSIS_CARDS_H

#include "analysis/derive/topics.h"
#include "lamina/explain.h"
#include "lamina/preset.h"

enum { LM_CARD_LINES = 5 };

typedef struct lm_card_formula { const char *unicode, *latex; } lm_card_formula;

/* A number of parameters by the name it is derived under, and how far it is off the exact one in percent; NULL: it is that. */
typedef struct lm_card_row { const char *title, *count, *off; } lm_card_row;

typedef struct lm_card {
    const char      *topic;          /* "kv" */
    const char      *title;          /* "The key/value cache" */
    const char      *summary;        /* one line, for the list */
    const char      *what;
    lm_card_formula  formulas[LM_CARD_LINES];
    /* What this model's program computes in place of `formulas`, which then are the usual form; NULL: they hold for every model. */
    void           (*read_off)(const lm_ledger *l, lm_text *unicode, lm_text *latex);
    lm_topic_steps  *derive;         /* NULL: nothing to compute */
    lm_card_row      table[LM_CARD_LINES];       /* what the page begins with, of what is derived; empty: none */
    const char      *diagram;        /* NULL: none */
    const char      *why[LM_CARD_LINES];         /* qualitative */
    const char      *gains[LM_CARD_LINES];       /* qualitative */
    const char      *costs[LM_CARD_LINES];       /* qualitative */
    const char      *sources[LM_CARD_LINES];
    /* Whether a model has it; NULL: every model. */
    bool           (*used)(const lm_program *p, const lm_traits *t);
    const char      *example;        /* preset */
} lm_card;

/* NULL past the end. */
const lm_card *lm_card_at(size_t i);
const lm_card *lm_card_named(const char *topic);

/* Presets that use each of the cards: the titles of some, and how many of how many. Costs a program for each preset, however
 * many cards there are. `out` [n] starts as zero; its names are freed by the caller, whatever is returned. */
enum { LM_USERS_SHOWN = 16 };
typedef struct lm_users { unsigned n, of; lm_text names; } lm_users;
lm_status lm_find_users(const lm_card *const *cards, size_t n, lm_users *out, lm_error *e);

#endif
