/* derive.h - derivations: arithmetic steps with a model's numbers, each compared with the count from the
 * program.
 *
 * Quantities come from facts; the formulas are written here. A step that differs from its fact is marked:
 * tests fail, and readers see it. Later steps can use derived values by name. */
#ifndef LM_ANALYSIS_DERIVE_H
#define LM_ANALYSIS_DERIVE_H

#include "study/derive/expr.h"
#include "study/facts/fact.h"

enum { LM_MAX_SYMBOLS = 160, LM_MAX_STEPS = 96 };

typedef struct lm_formula {
    lm_symbol      *symbol;      /* the derived quantity */
    const char     *title;       /* for people: "bytes per token" */
    const lm_expr  *x;
    lm_unit         unit;
    const char     *path;        /* the fact that it must equal; NULL: there is none */
    const lm_fact  *fact;
    bool            agrees;      /* equal to the fact, or there is no fact */
    bool            heading;     /* only the title, for the steps that follow */
} lm_formula;

typedef struct lm_derivation {
    lm_facts *f;
    lm_symbol symbols[LM_MAX_SYMBOLS];
    size_t    n_symbols;
    lm_formula   steps[LM_MAX_STEPS];
    size_t    n_steps;
    lm_status status;            /* the first failure; later calls do nothing */
    lm_error *e;
} lm_derivation;

/* Allocated in the facts' arena; NULL: out of memory. */
lm_derivation *lm_derivation_new(lm_facts *f, lm_error *e);

/* Name a quantity: a fact by path, or a number. A name that already exists keeps its first meaning. */
void lm_let_fact(lm_derivation *d, const char *name, const char *latex, const char *meaning,
                 const char *path);
void lm_let_count(lm_derivation *d, const char *name, const char *latex, const char *meaning, uint64_t n);
void lm_let_number(lm_derivation *d, const char *name, const char *latex, const char *meaning, double x);
bool lm_has_symbol(const lm_derivation *d, const char *name);

/* Add a step: `name` becomes the value of `formula`. `path`: the fact that must have the same value, or
 * NULL. */
void lm_derive(lm_derivation *d, const char *name, const char *title, lm_unit unit, const char *path,
               const char *formula);
void lm_derivef(lm_derivation *d, const char *name, const char *title, lm_unit unit, const char *path,
                const char *format, ...) __attribute__((format(printf, 6, 7)));
void lm_derive_heading(lm_derivation *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Return formatted text that lives as long as the facts. */
const char *lm_derive_text(lm_derivation *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Return the value of a name; 0 if there is no such name. */
lm_symbol_value lm_derived(const lm_derivation *d, const char *name);

/* Evaluate a formula; false if it names quantities that this model does not have. */
bool lm_try_formula(lm_derivation *d, const char *formula, lm_symbol_value *out);

/* ---- output ---- */

/* Append a step over several lines: name = symbols = numbers = … = value unit, with the verdict if there is a
 * fact. `indent`: columns. */
void lm_formula_text(lm_derivation *d, const lm_formula *s, unsigned indent, lm_text *out);
/* Markdown as GitHub renders it */
void lm_formula_latex(lm_derivation *d, const lm_formula *s, lm_text *out);
/* Markdown as pandoc reads it */
void lm_formula_pandoc(lm_derivation *d, const lm_formula *s, lm_text *out);

/* Write the forms of a step in order: symbols, numbers, each simplification, the value with its unit. A form
 * equal to the previous one is omitted. */
typedef void lm_form_writer(void *arg, const char *text, bool last);
void lm_formula_forms(lm_derivation *d, const lm_formula *s, lm_notation notation, lm_form_writer *write,
                      void *arg);

/* Append whether the program counts the same, such as "   ✓ as counted"; nothing if there is no fact. */
void lm_formula_verdict(const lm_formula *s, lm_text *out);

/* Append the quantities that were used, with their meanings and values. */
void lm_glossary_text(const lm_derivation *d, unsigned indent, lm_text *out);
void lm_glossary_markdown(const lm_derivation *d, lm_text *out);

#endif
