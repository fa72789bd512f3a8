/* cards.h - the text of each topic, without its numbers. */
#ifndef LM_ANALYSIS_CARDS_H
#define LM_ANALYSIS_CARDS_H

#include "analysis/derive/topics.h"
#include "lamina/explain.h"
#include "lamina/preset.h"

enum { LM_CARD_LINES = 6, LM_SHEET_COLUMNS = 6 };

typedef struct lm_card_formula { const char *unicode, *latex; } lm_card_formula;

/* A number of parameters by the name it is derived under, and how far it is off the exact one in percent; NULL: it is that. */
typedef struct lm_card_row { const char *title, *count, *off; } lm_card_row;

/* A table of a page: shapes, values of functions, merges. Its texts live in the facts' arena, or for ever. */
typedef struct lm_sheet_row { const char *cells[LM_SHEET_COLUMNS]; bool mine; } lm_sheet_row;    /* mine: what this model has */
typedef struct lm_sheet {
    const char   *title, *note;          /* note: below it; NULL: none */
    const char   *columns[LM_SHEET_COLUMNS];
    const char   *align;                 /* 'l' or 'r' for each column */
    lm_sheet_row *rows;
    size_t        n_rows, capacity;
} lm_sheet;

/* The next row, empty; without memory the facts remember and the last row is overwritten. */
lm_sheet_row *lm_sheet_next(lm_sheet *s, lm_facts *f);
/* A cell of formatted text. */
const char *lm_sheet_text(lm_facts *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

typedef lm_status lm_fill_sheet(lm_facts *f, const lm_explain_options *o, lm_sheet *out, lm_error *e);
lm_fill_sheet lm_sheet_heads, lm_sheet_latent, lm_sheet_activations, lm_sheet_scalings, lm_sheet_merges, lm_sheet_norms, lm_sheet_router;

typedef struct lm_card {
    const char      *topic;          /* "kv" */
    const char      *title;          /* "The key/value cache" */
    const char      *summary;        /* one line, for the list */
    const char      *what;
    lm_card_formula  formulas[LM_CARD_LINES];
    /* What this model's program computes in place of `formulas`, which then are the usual form; NULL: they hold for every model. */
    void           (*read_off)(const lm_ledger *l, lm_text *unicode, lm_text *latex);
    lm_topic_steps  *derive;         /* NULL: nothing to compute */
    lm_fill_sheet   *sheet;          /* a table behind the formulas; leaves it without rows where it has nothing to say. NULL: none */
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
/* By its topic or another name of it. Of several that one name may mean, the first that `p` uses; p NULL: the first. */
const lm_card *lm_card_named(const char *topic, const lm_program *p, const lm_traits *t);

/* The cards, in the order of their list; each file ends in its own. */
typedef struct lm_card_list { const lm_card *cards; size_t n; } lm_card_list;
extern const lm_card_list lm_cards_of_models, lm_cards_of_layers, lm_cards_of_positions;

/* Presets that use each of the cards: the titles of some, and how many of how many. Costs a program for each preset, however
 * many cards there are. `out` [n] starts as zero; its names are freed by the caller, whatever is returned. */
enum { LM_USERS_SHOWN = 16 };
typedef struct lm_users { unsigned n, of; lm_text names; } lm_users;
lm_status lm_find_users(const lm_card *const *cards, size_t n, lm_users *out, lm_error *e);

#endif
