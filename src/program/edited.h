/* edited.h - programs made of a program: with interventions, or the end of it alone.
 *
 * Both keep the original's weights, number for number, so they run on the weights of an engine that the original has. Texts are the
 * original's, which must outlive them. */
#ifndef LM_PROGRAM_EDITED_H
#define LM_PROGRAM_EDITED_H

#include "program/program.h"

typedef enum lm_edit_kind {
    LM_EDIT_SCALE,               /* lanes [from, to) times `factor` */
    LM_EDIT_ADD,                 /* plus `factor` times `vector` */
    LM_EDIT_SET,                 /* lanes [from, to) are those of `vector` */
    LM_EDIT_EXPERT,              /* of a route: the weight of expert `from` times `factor`, wherever it was chosen */
} lm_edit_kind;

/* What is done to a value, for rows at positions [first, last]. */
typedef struct lm_edit {
    lm_value     value;
    lm_edit_kind kind;
    uint32_t     from, to;
    float        factor;
    const float *vector;         /* [width of the value], of the caller; must outlive the program */
    uint32_t     first, last;
} lm_edit;

/* `p` with an operation after each value that is edited: whoever reads the value reads the changed one, which has its path. Edits of one
 * value happen in the order given. LM_USAGE: no such value, lanes that it does not have. */
lm_status lm_program_edited(const lm_program *p, const lm_edit *edits, size_t n, lm_program **out, lm_error *e);

/* What `p` makes of `from` until the logits: rows of `from` are given (LM_OP_GIVEN). LM_UNSUPPORTED: the logits need more than that. */
lm_status lm_program_tail(const lm_program *p, lm_value from, lm_program **out, lm_error *e);

/* A copy whose lists can be changed; room for `nodes` and `values` more. NULL: no memory. */
lm_program *lm_program_copy(const lm_program *p, uint32_t nodes, uint32_t values);

#endif
