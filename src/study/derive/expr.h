/* expr.h - arithmetic that can be displayed.
 *
 * A line of text describes an expression over named quantities ("2 * layers * kv_heads * head_dim"). It can
 * be written in symbols, with numbers substituted, simplified step by step, and as its value: in Unicode for
 * a terminal, in LaTeX for Markdown, or in plain ASCII. Grammar: sums, products, quotients, powers,
 * parentheses, a sign before a sum, the functions of one argument sqrt, ln, exp, sin, cos, tanh, erf, floor
 * and ceil, and min(x, y), max(x, y). Names may contain dots ("self_attn.q_proj").
 *
 * Whole numbers are exact up to 2^63; beyond that, and after an inexact quotient, doubles are used. Nothing
 * here depends on models. */
#ifndef LM_ANALYSIS_EXPR_H
#define LM_ANALYSIS_EXPR_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

typedef struct lm_symbol_value {
    bool    whole;
    int64_t n;                   /* valid if whole */
    double  x;                   /* always valid */
} lm_symbol_value;

lm_symbol_value lm_whole(uint64_t n);
lm_symbol_value lm_real(double x);

/* A named quantity. */
typedef struct lm_symbol {
    const char *name;            /* "kv_heads" */
    const char *latex;           /* "G"; NULL: the name in roman type */
    const char *meaning;         /* for the glossary; NULL: derived by a step of the same derivation */
    lm_symbol_value value;
    bool        used;
} lm_symbol;

typedef struct lm_expr lm_expr;  /* lives in the arena it was read into */

/* Parse an expression; `lookup` finds symbols by name. LM_FAILED names what is unknown or malformed, which is
 * a bug of the caller: formulas are part of the source code. */
typedef lm_symbol *lm_symbol_lookup(void *arg, const char *name, size_t n);
lm_status lm_expr_read(lm_arena *a, const char *text, lm_symbol_lookup *lookup, void *arg,
                       const lm_expr **out, lm_error *e);

lm_symbol_value lm_expr_value(const lm_expr *x);

/* Return the expression one step closer to its value: subexpressions that contain only numbers are replaced
 * by their values, innermost first. A number is returned unchanged. */
const lm_expr *lm_expr_fold(lm_arena *a, const lm_expr *x);
bool           lm_expr_is_number(const lm_expr *x);

typedef enum lm_notation { LM_UNICODE, LM_LATEX, LM_ASCII } lm_notation;

/* Append an expression. `numbers`: values instead of names. */
void lm_expr_write(const lm_expr *x, lm_notation notation, bool numbers, lm_text *out);
void lm_quantity_write(lm_symbol_value q, lm_notation notation, lm_text *out);    /* 394,002,432; 0.00213 */
void lm_symbol_write(const lm_symbol *s, lm_notation notation, lm_text *out);

#endif
