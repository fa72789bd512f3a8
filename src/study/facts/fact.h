/* fact.h - how facts are defined. lamina/study/facts.h is the public view of the tree.
 *
 * A fill function adds the facts of its group in reading order. Names and `how` must live as long as the tree
 * (literals, or strings of the subject); texts are copied. After a failed allocation further facts are
 * discarded, and lm_facts_check reports the error. */
#ifndef LM_ANALYSIS_FACT_H
#define LM_ANALYSIS_FACT_H

#include "study/facts/counts.h"
#include "study/facts/subject.h"
#include "base/arena.h"
#include "base/language.h"
#include "base/number.h"
#include "base/str.h"
#include "lamina/study/facts.h"

enum { LM_MAX_PRECISIONS = 48 };

#define LM_MAX_POSITIONS UINT32_MAX      /* largest index of a table: the engine supports no longer
                                            contexts */

struct lm_fact {
    const char  *name;               /* these as in lm_fact_info */
    uint64_t     index;
    lm_fact_kind kind;
    lm_unit      unit;
    lm_origin    origin;
    const char  *how;
    union {
        bool        truth;
        uint64_t    count;
        double      number;
        const char *text;
        uint64_t    size;            /* number of members of a group or list, once filled */
    };
    const char  *id;
    struct {
        lm_facts       *owner;
        struct lm_fact *parent, *first, *last, *next;
        void          (*fill)(lm_facts *f, struct lm_fact *group);
        uint64_t        argument;
        const char     *key;         /* name in JSON, if different */
        bool            decimal;     /* a number that its source writes with a decimal point, even if it is
                                        whole */
        bool            silent;      /* accessible by path only: the same facts are printed elsewhere */
    } impl;
};

struct lm_facts {
    lm_subject s;
    lm_ledger *ledger;           /* sums shared by many facts */
    lm_fact    root;
    lm_fact    nowhere;          /* used after a failed allocation */
    lm_arena   arena;
    lm_dtype  *types_as[LM_MAX_PRECISIONS];      /* [n_weights] each, on first use: lm_types_as */
    bool       failed;
    char       missing[160];     /* the first path that was looked up and not found */
};

typedef void lm_fill(lm_facts *f, lm_fact *group);

/* A value from a fixed list: `id` is for code to compare, `text` for people (N_() if it is translated). */
typedef struct lm_word { const char *id, *text; } lm_word;

/* Add a fact to `group`. `name` NULL: the next item of a list. */
lm_fact *lm_add_count(lm_fact *group, const char *name, uint64_t n, lm_unit u, lm_origin o, const char *how);
/* A count that may be too large for JSON readers: from 2^63 on, the nearest double. */
lm_fact *lm_add_wide(lm_fact *group, const char *name, lm_wide n, lm_unit u, lm_origin o, const char *how);
lm_fact *lm_add_number(lm_fact *group, const char *name, double x, lm_unit u, lm_origin o, const char *how);
lm_fact *lm_add_text(lm_fact *group, const char *name, const char *text, lm_origin o, const char *how);
/* A value from a fixed list: `id`, which lives as long as the tree, does not change when the displayed words
 * change. */
lm_fact *lm_add_word(lm_fact *group, const char *name, lm_word w, lm_origin o, const char *how);
lm_fact *lm_add_bool(lm_fact *group, const char *name, bool truth, lm_origin o, const char *how);
lm_fact *lm_add_none(lm_fact *group, const char *name, const char *how);
lm_fact *lm_add_textf(lm_fact *group, const char *name, lm_origin o, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Return a copy that lives as long as the facts; invalid UTF-8 is repaired. */
const char *lm_facts_strndup(lm_facts *f, const char *text, size_t n);

/* Add a group or list that `fill` fills on first access; `argument` is for `fill`. */
lm_fact *lm_add_group(lm_fact *group, const char *name, lm_fill *fill, uint64_t argument);
lm_fact *lm_add_list(lm_fact *group, const char *name, lm_fill *fill, uint64_t argument);

/* Add a table: each item is a group filled by `fill`, and its `index` is the one that was looked up. */
lm_fact *lm_add_table(lm_fact *group, const char *name, lm_fill *fill, uint64_t argument);

/* Make a fact accessible by path but not printed. */
lm_fact *lm_hide_fact(lm_fact *x);

/* Return a member by name or number, or NULL. Fills the group. */
const lm_fact *lm_fact_member(const lm_fact *group, const char *name, size_t n);
const lm_fact *lm_fact_item(const lm_fact *list, uint64_t index);

/* Create the tree of a subject. The subject is copied; what it points to must outlive the facts. */
lm_status lm_facts_of(const lm_subject *s, lm_facts **out, lm_error *e);

/* Append the JSON of one fact, indenting nested ones by two spaces. */
void lm_fact_json(const lm_fact *x, unsigned indent, lm_text *out);

/* Append UTF-8 text as a JSON string. */
void lm_fact_json_text(const char *text, lm_text *out);

/* ---- fill functions (facts_*.c) ---- */
lm_fill lm_fill_model, lm_fill_config, lm_fill_architecture, lm_fill_parameters, lm_fill_weights, lm_fill_kv,
    lm_fill_flops, lm_fill_memory, lm_fill_modules, lm_fill_layers, lm_fill_rope, lm_fill_attention,
    lm_fill_precision, lm_fill_warnings, lm_fill_mlp, lm_fill_pass, lm_fill_tuning, lm_fill_speed,
    lm_fill_formulas, lm_fill_flow, lm_fill_what_if, lm_fill_estimate, lm_fill_catalogue, lm_fill_states;

/* The facts of one module, for paths that begin with the module's own path. */
lm_fill lm_fill_module;

/* Return the type of every weight in the precision with this index (lm_precision_at); NULL: out of memory. */
const lm_dtype *lm_types_as(lm_facts *f, uint64_t precision);

/* Latent attention takes other multiply-adds for each key in its two forms, and as many in projections.
 * Engines generate in the absorbed form and often process prompts in the naive one. Return the FLOPs per key
 * of the naive form, over all layers; false, unless the program is in the absorbed form. */
bool lm_naive_per_key(const lm_facts *f, uint64_t *flops);

/* Return what torchinfo 1.8.0 reports for a module: parameters counted once per reader, multiply-adds without
 * the sequence length. */
uint64_t lm_torchinfo_parameters(lm_facts *f, uint32_t module);
uint64_t lm_torchinfo_mult_adds(lm_facts *f, uint32_t module);

#endif
