/* edited.h - programs derived from a program: with interventions, or only its end.
 *
 * Both keep the indices of the original's weights, so they run on the weights of an engine for the original.
 * They share strings with the original, which must outlive them. */
#ifndef LM_PROGRAM_EDITED_H
#define LM_PROGRAM_EDITED_H

#include "program/program.h"

typedef enum lm_edit_kind {
    LM_EDIT_SCALE,               /* lanes [from, to) times `factor` */
    LM_EDIT_ADD,                 /* plus `factor` times `vector` */
    LM_EDIT_SET,                 /* lanes [from, to) are those of `vector` */
    LM_EDIT_EXPERT,              /* for a route: the weight of expert `from` times `factor`, wherever it was
                                    chosen */
} lm_edit_kind;

/* An edit of a value, for rows at positions [first, last]. */
typedef struct lm_edit {
    lm_value     value;
    lm_edit_kind kind;
    uint32_t     from, to;
    float        factor;
    const float *vector;         /* [width of the value], owned by the caller; must outlive the program */
    uint32_t     first, last;
} lm_edit;

/* Make a copy of `p` with an operation after each edited value: all its readers read the changed value, which
 * has its path. Edits of one value are applied in the order given. LM_USAGE: no such value, lanes out of
 * range, or an expert edit that does not fit. */
lm_status lm_program_edited(const lm_program *p, const lm_edit *edits, size_t n, lm_program **out,
                            lm_error *e);

/* Make the program that computes the logits from value `from` as `p` does; the caller supplies the rows of
 * `from` (LM_OP_INPUT). LM_UNSUPPORTED: the logits depend on more than `from`. */
lm_status lm_program_tail(const lm_program *p, lm_value from, lm_program **out, lm_error *e);

/* Return a copy whose lists can be changed, with space for `nodes` and `values` additional entries. NULL: no
 * memory. */
lm_program *lm_program_copy(const lm_program *p, uint32_t nodes, uint32_t values);

#endif
