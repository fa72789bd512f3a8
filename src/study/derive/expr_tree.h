/* expr_tree.h - the representation of expressions: sums and products have any number of terms, so a + b + c
 * is a single sum. */
#ifndef LM_ANALYSIS_EXPR_TREE_H
#define LM_ANALYSIS_EXPR_TREE_H

#include "study/derive/expr.h"

typedef enum lm_expr_kind {
    LM_X_NUMBER,
    LM_X_SYMBOL,
    LM_X_SUM,
    LM_X_PRODUCT,
    LM_X_POWER,
    LM_X_SQRT,
    LM_X_LN,
    LM_X_EXP,
    LM_X_SIN,
    LM_X_COS,
    LM_X_TANH,
    LM_X_ERF,
    LM_X_FLOOR,
    LM_X_CEIL,
    LM_X_MIN,
    LM_X_MAX
} lm_expr_kind;

typedef struct lm_term {
    const lm_expr  *x;
    bool            inverse;     /* subtracted; divided by */
    struct lm_term *next;
} lm_term;

struct lm_expr {
    lm_expr_kind kind;
    lm_symbol_value value;       /* of NUMBER */
    lm_symbol   *symbol;
    lm_term     *terms;          /* of all other kinds; of POWER: base and exponent */
};

#endif
