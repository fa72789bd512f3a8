/* fact.h - how facts are defined. The public view of the tree: lamina/facts.h.
 *
 * Whoever fills a group says its facts in the order in which they are to be read. Names and `how` must live as long as the
 * tree (literals, or strings of the subject); texts are copied. After a failed allocation saying goes on into nothing and
 * lm_facts_check reports it. */
#ifndef LM_ANALYSIS_FACT_H
#define LM_ANALYSIS_FACT_H

#include "analysis/facts/counts.h"
#include "analysis/facts/subject.h"
#include "base/arena.h"
#include "base/language.h"
#include "base/number.h"
#include "base/str.h"
#include "lamina/facts.h"

enum { LM_MOST_PRECISIONS = 32 };

#define LM_MOST_POSITIONS UINT32_MAX     /* of tables: an engine's contexts have no more */

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
        uint64_t    size;            /* of groups and lists, once they are filled */
    };
    const char  *id;
    struct {
        lm_facts       *owner;
        struct lm_fact *parent, *first, *last, *next;
        void          (*fill)(lm_facts *f, struct lm_fact *group);
        uint64_t        argument;
        const char     *key;         /* in JSON, where it is not the name */
        bool            decimal;     /* a number that its source writes with a point, also where it is whole */
        bool            silent;      /* reached by path only: the same facts are printed elsewhere */
    } impl;
};

struct lm_facts {
    lm_subject s;
    lm_ledger *ledger;           /* sums that many facts need */
    lm_fact    root;
    lm_fact    nowhere;          /* used after a failed allocation */
    lm_arena   arena;
    lm_dtype  *types_as[LM_MOST_PRECISIONS];     /* [n_weights] each, on first use: lm_types_as */
    bool       failed;
    char       missing[160];     /* the first path that was looked up and not found */
};

typedef void lm_fill(lm_facts *f, lm_fact *group);

/* One of a fixed list of words: what code compares, and what people read (N_() where languages differ). */
typedef struct lm_word { const char *id, *text; } lm_word;

/* `name` NULL: the next item of a list. */
lm_fact *lm_say_count(lm_fact *group, const char *name, uint64_t n, lm_unit u, lm_origin o, const char *how);
/* What may be too large for JSON's readers: from 2^63 on the nearest double. */
lm_fact *lm_say_wide(lm_fact *group, const char *name, lm_wide n, lm_unit u, lm_origin o, const char *how);
lm_fact *lm_say_number(lm_fact *group, const char *name, double x, lm_unit u, lm_origin o, const char *how);
lm_fact *lm_say_text(lm_fact *group, const char *name, const char *text, lm_origin o, const char *how);
/* One of a fixed list: `id`, which lives as long as the tree, stays what it is when the words for people change. */
lm_fact *lm_say_word(lm_fact *group, const char *name, lm_word w, lm_origin o, const char *how);
lm_fact *lm_say_bool(lm_fact *group, const char *name, bool truth, lm_origin o, const char *how);
lm_fact *lm_say_none(lm_fact *group, const char *name, const char *how);
lm_fact *lm_say_textf(lm_fact *group, const char *name, lm_origin o, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* A copy that lives as long as the facts, repaired where it is not UTF-8. */
const char *lm_keep_text(lm_facts *f, const char *text, size_t n);

/* Filled on first access; `argument` is for `fill`. */
lm_fact *lm_say_group(lm_fact *group, const char *name, lm_fill *fill, uint64_t argument);
lm_fact *lm_say_list(lm_fact *group, const char *name, lm_fill *fill, uint64_t argument);

/* Each item is a group that `fill` fills; its `index` is that of the look-up. */
lm_fact *lm_say_table(lm_fact *group, const char *name, lm_fill *fill, uint64_t argument);

/* Reached by path, printed nowhere. */
lm_fact *lm_keep_silent(lm_fact *x);

/* A member by name or number; NULL when there is none. Fills the group. */
const lm_fact *lm_fact_member(const lm_fact *group, const char *name, size_t n);
const lm_fact *lm_fact_item(const lm_fact *list, uint64_t index);

/* The tree of a subject that is copied; what it points to must outlive the facts. */
lm_status lm_facts_of(const lm_subject *s, lm_facts **out, lm_error *e);

/* JSON of one fact, nested ones indented by two; appended. */
void lm_fact_json(const lm_fact *x, unsigned indent, lm_text *out);

/* A JSON string of UTF-8 text; appended. */
void lm_fact_json_text(const char *text, lm_text *out);

/* ---- who fills what (facts_*.c) ---- */
lm_fill lm_fill_model, lm_fill_config, lm_fill_architecture, lm_fill_parameters, lm_fill_weights, lm_fill_kv, lm_fill_flops,
    lm_fill_memory, lm_fill_modules, lm_fill_layers, lm_fill_rope, lm_fill_attention, lm_fill_precision, lm_fill_warnings, lm_fill_mlp,
    lm_fill_pass, lm_fill_tuning, lm_fill_speed, lm_fill_formulas, lm_fill_flow, lm_fill_what_if, lm_fill_estimate, lm_fill_catalogue;

/* The facts of one module, for paths that are its own. */
lm_fill lm_fill_module;

/* The type of every weight in the precision of that number (lm_precision_at); NULL without memory. */
const lm_dtype *lm_types_as(lm_facts *f, uint64_t precision);

/* What torchinfo 1.8.0 would say of a module: parameters of every reader, products without the sequence. */
uint64_t lm_torchinfo_parameters(lm_facts *f, uint32_t module);
uint64_t lm_torchinfo_mult_adds(lm_facts *f, uint32_t module);

#endif
