/* cards.h - the text of each topic, without its numbers. */
#ifndef LM_ANALYSIS_CARDS_H
#define LM_ANALYSIS_CARDS_H

#include "study/derive/topics.h"
#include "lamina/study/explain.h"
#include "lamina/preset.h"

enum { LM_CARD_LINES = 6, LM_SHEET_COLUMNS = 6 };

typedef struct lm_card_formula { const char *unicode, *latex; } lm_card_formula;

/* A parameter count by the name under which it is derived, and its error in percent; NULL: exact. */
typedef struct lm_card_row { const char *title, *count, *off; } lm_card_row;

/* A table of a page: shapes, values of functions, merges. Its texts are in the facts' arena or static. */
/* mine: what this model has */
typedef struct lm_sheet_row { const char *cells[LM_SHEET_COLUMNS]; bool mine; } lm_sheet_row;
typedef struct lm_sheet {
    const char   *title, *note;          /* note: below the table; NULL: none */
    const char   *columns[LM_SHEET_COLUMNS];
    const char   *align;                 /* one letter per column: 'l' or 'r' */
    lm_sheet_row *rows;
    size_t        n_rows, capacity;
} lm_sheet;

/* Return a new empty row. Out of memory is recorded in the facts, and the last row is overwritten. */
lm_sheet_row *lm_sheet_next(lm_sheet *s, lm_facts *f);
/* Return formatted text for a cell. */
const char *lm_sheet_text(lm_facts *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

typedef lm_status lm_fill_sheet(lm_facts *f, const lm_explain_options *o, lm_sheet *out, lm_error *e);
lm_fill_sheet lm_sheet_heads, lm_sheet_latent, lm_sheet_activations, lm_sheet_scalings, lm_sheet_merges,
    lm_sheet_norms, lm_sheet_router, lm_sheet_half_life, lm_sheet_sparse;

/* A rule about the architecture of a model. */
typedef bool lm_card_rule(const lm_traits *t);
lm_card_rule lm_uses_attention;
lm_card_rule lm_uses_latent;             /* a latent is cached in place of keys and values */
lm_card_rule lm_routes_apart;            /* the router scores each expert apart */

/* Write a formula of a model. */
typedef void lm_card_formula_reader(const lm_ledger *l, lm_text *unicode, lm_text *latex);
lm_card_formula_reader lm_read_gated, lm_read_residual, lm_read_cache;

typedef struct lm_card {
    const char      *topic;          /* "kv" */
    const char      *title;          /* "The key/value cache" */
    const char      *summary;        /* one line, for the list */
    const char      *what;
    lm_card_formula  formulas[LM_CARD_LINES];
    /* What replaces the first of `formulas`, the usual form, in some models; `when` NULL: in none. */
    struct { lm_card_rule *when; lm_card_formula formula; } special;
    /* The same for a formula that follows the program; NULL: none, and what it does not write stays. */
    lm_card_formula_reader *read_off;
    lm_topic_steps  *derive;         /* NULL: nothing to compute */
    lm_fill_sheet   *sheet;          /* fill a table that follows the formulas; it stays without rows if it
                                        does not apply. NULL: none */
    lm_card_row      table[LM_CARD_LINES];       /* derived values at the beginning of the page; empty:
                                                    none */
    const char      *diagram;        /* NULL: none */
    const char      *why[LM_CARD_LINES];         /* qualitative */
    const char      *gains[LM_CARD_LINES];       /* qualitative */
    const char      *costs[LM_CARD_LINES];       /* qualitative */
    const char      *sources[LM_CARD_LINES];
    /* Return whether a model has the component; NULL: every model has it. */
    lm_card_rule    *used;
    const char      *example;        /* name of a preset */
} lm_card;

/* Return a card by index; NULL past the end. */
const lm_card *lm_card_at(size_t i);
/* Return a card by topic or alias. If an alias has several topics, the first that the model uses; t NULL: the
 * first. */
const lm_card *lm_card_named(const char *topic, const lm_traits *t);

/* The cards, in the order of their list; each file ends with its list. */
typedef struct lm_card_list { const lm_card *cards; size_t n; } lm_card_list;
extern const lm_card_list lm_cards_of_models, lm_cards_of_running, lm_cards_of_layers, lm_cards_of_positions,
    lm_cards_of_states;

/* Find the presets that use each card: the titles of some, how many, and out of how many. Builds a program
 * per preset, however many cards there are. `out` [n] must be zeroed; the caller frees its names, whatever is
 * returned. */
enum { LM_USERS_SHOWN = 16 };
typedef struct lm_users { unsigned n, of; lm_text names; } lm_users;
lm_status lm_find_users(const lm_card *const *cards, size_t n, lm_users *out, lm_error *e);

#endif
