/* expr.h - arithmetic that can be shown.
 *
 * One line of text describes an expression over named quantities ("2 * layers * kv_heads * head_dim"). It is written in
 * symbols, with the numbers put in, simplified step by step, and as its value: in Unicode for a terminal, in LaTeX for
 * Markdown, or in plain ASCII. Grammar: sums, products, quotients, powers, parentheses, a sign before a sum, the functions of one
 * argument sqrt, ln, exp, sin, cos, tanh, erf, floor and ceil, and min(x, y), max(x, y). Names may hold dots ("self_attn.q_proj").
 *
 * Whole numbers are exact up to 2^63; beyond that, and wherever a quotient is not whole, a double goes on. Nothing here
 * knows a model. */
#ifndef LM_ANALYSIS_EXPR_H
#define LM_ANALYSIS_EXPR_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

typedef struct lm_quantity {
    bool    whole;
    int64_t n;                   /* where whole */
    double  x;                   /* always */
} lm_quantity;

lm_quantity lm_whole(uint64_t n);
lm_quantity lm_real(double x);

/* A named quantity. */
typedef struct lm_symbol {
    const char *name;            /* "kv_heads" */
    const char *latex;           /* "G"; NULL: the name in roman type */
    const char *meaning;         /* for the glossary; NULL: a step of the same derivation */
    lm_quantity value;
    bool        used;
} lm_symbol;

typedef struct lm_expr lm_expr;  /* lives in the arena it was read into */

/* Symbols are found by name; LM_FAILED names what is unknown or malformed: formulas are ours, so that is our mistake. */
typedef lm_symbol *lm_symbol_lookup(void *arg, const char *name, size_t n);
lm_status lm_expr_read(lm_arena *a, const char *text, lm_symbol_lookup *lookup, void *arg, const lm_expr **out, lm_error *e);

lm_quantity lm_expr_value(const lm_expr *x);

/* One step nearer to the value: everything that holds only numbers becomes one, outermost last. A number stays itself. */
const lm_expr *lm_expr_fold(lm_arena *a, const lm_expr *x);
bool           lm_expr_is_number(const lm_expr *x);

typedef enum lm_notation { LM_UNICODE, LM_LATEX, LM_ASCII } lm_notation;

/* `numbers`: values in place of names. Appended. */
void lm_expr_write(const lm_expr *x, lm_notation notation, bool numbers, lm_text *out);
void lm_quantity_write(lm_quantity q, lm_notation notation, lm_text *out);        /* 394,002,432; 0.00213 */
void lm_symbol_write(const lm_symbol *s, lm_notation notation, lm_text *out);

#endif
