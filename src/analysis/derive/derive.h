/* derive.h - derivations: steps of arithmetic with a model's numbers, each compared with what was counted.
 *
 * Quantities come from facts, formulas are ours. A step whose fact differs is marked: tests fail on it, readers see it. What
 * has been derived can be used by its name in later steps. */
#ifndef LM_ANALYSIS_DERIVE_H
#define LM_ANALYSIS_DERIVE_H

#include "analysis/derive/expr.h"
#include "analysis/facts/fact.h"

enum { LM_MOST_SYMBOLS = 160, LM_MOST_STEPS = 96 };

typedef struct lm_formula {
    lm_symbol      *symbol;      /* what is derived */
    const char     *title;       /* for people: "bytes per token" */
    const lm_expr  *x;
    lm_unit         unit;
    const char     *path;        /* the fact that it must equal; NULL: nothing counts it */
    const lm_fact  *fact;
    bool            agrees;      /* or there is no fact */
    bool            heading;     /* only the title: what follows belongs under it */
} lm_formula;

typedef struct lm_derivation {
    lm_facts *f;
    lm_symbol symbols[LM_MOST_SYMBOLS];
    size_t    n_symbols;
    lm_formula   steps[LM_MOST_STEPS];
    size_t    n_steps;
    lm_status status;            /* the first failure; later calls do nothing */
    lm_error *e;
} lm_derivation;

/* In the facts' arena; NULL when out of memory. */
lm_derivation *lm_derivation_new(lm_facts *f, lm_error *e);

/* Name a quantity: a fact by path, or a number. A name that is taken keeps its first meaning. */
void lm_let_fact(lm_derivation *d, const char *name, const char *latex, const char *meaning, const char *path);
void lm_let_count(lm_derivation *d, const char *name, const char *latex, const char *meaning, uint64_t n);
void lm_let_number(lm_derivation *d, const char *name, const char *latex, const char *meaning, double x);
bool lm_has_symbol(const lm_derivation *d, const char *name);

/* A step: `name` becomes the value of `formula`. `path`: the fact that must be the same, or NULL. */
void lm_derive(lm_derivation *d, const char *name, const char *title, lm_unit unit, const char *path, const char *formula);
void lm_derivef(lm_derivation *d, const char *name, const char *title, lm_unit unit, const char *path, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
void lm_derive_heading(lm_derivation *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text that lives as long as the facts. */
const char *lm_derive_text(lm_derivation *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The value that a name has; 0 when it has none. */
lm_quantity lm_derived(const lm_derivation *d, const char *name);

/* The value of a formula that may name quantities which this model does not have: false then. */
bool lm_try_formula(lm_derivation *d, const char *formula, lm_quantity *out);

/* Steps whose fact differs. */
size_t lm_disagreements(const lm_derivation *d);

/* ---- for readers ---- */

/* One step over several lines: name = symbols = numbers = … = value unit, marked where it was counted. `indent` columns. */
void lm_formula_text(lm_derivation *d, const lm_formula *s, unsigned indent, lm_text *out);
void lm_formula_latex(lm_derivation *d, const lm_formula *s, lm_text *out);        /* Markdown as GitHub reads it */
void lm_formula_pandoc(lm_derivation *d, const lm_formula *s, lm_text *out);       /* and as pandoc does */

/* The forms of a step, in order: symbols, numbers, each simplification, the value with its unit; a form that says what the one
 * before says is left out. */
typedef void lm_form_writer(void *arg, const char *text, bool last);
void lm_formula_forms(lm_derivation *d, const lm_formula *s, lm_notation notation, lm_form_writer *write, void *arg);

/* "   ✓ as counted": whether the program counts the same; nothing where nothing counts it. Appended. */
void lm_formula_verdict(const lm_formula *s, lm_text *out);

/* The quantities that were used, with what they mean and their values. */
void lm_glossary_text(const lm_derivation *d, unsigned indent, lm_text *out);
void lm_glossary_markdown(const lm_derivation *d, lm_text *out);

/* "939,524,096 bytes (896 MiB)", "6.43 GFLOP" behind a long count. */
void lm_value_text(lm_quantity q, lm_unit unit, lm_notation notation, lm_text *out);

#endif
