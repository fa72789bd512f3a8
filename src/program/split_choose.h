/* split_choose.h - internals of lm_program_split: the state of each value of the original program.
 *
 * A value is whole on every rank, or each rank has part of its lanes: because the operation that computes it
 * is cut (attention, MLPs), or because every operation that reads it needs only that part (queries, keys,
 * gates). */
#ifndef LM_PROGRAM_SPLIT_CHOOSE_H
#define LM_PROGRAM_SPLIT_CHOOSE_H

#include "program/split.h"

typedef struct lm_pieces {
    const lm_row_range *at;
    uint32_t        n;
    bool            mixed;           /* readers need different parts that cannot be combined */
} lm_pieces;

typedef struct lm_split_value {
    uint32_t        uses, n_parts;   /* operations that read it; of these, those that need a part */
    lm_pieces       part;            /* that part, on this rank */
    bool            cut;             /* this rank computes only that part */
    const uint32_t *edges;           /* [ranks + 1]: lanes of all ranks, if their parts together are the
                                        whole; else NULL */
    lm_value        here, whole;     /* the part and the whole in the new program; LM_NONE until they exist */
} lm_split_value;

typedef struct lm_splitter {
    const lm_program    *p;
    const lm_split_spec *spec;
    lm_program          *out;
    lm_split_value      *values;     /* [p->n_values] */
    lm_pieces           *wants;      /* [p->n_nodes][LM_MAX_INPUTS]: the lanes that an operation reads of a
                                        value; n 0: all */
    uint32_t            *made;       /* [p->n_nodes + 1]: the first operation of the new program made for this
                                        one */
    uint32_t            *source;     /* [out->n_weights] */
    size_t               capacity;   /* of out's operations and values */
    bool                 failed;     /* no memory */
} lm_splitter;

/* ---- split_choose.c: choice of the values that are cut ---- */

/* Choose the values to cut, from the last operation to the first. */
void lm_split_choose(lm_splitter *s);

/* Compute edges [ranks + 1] that divide `lanes` lanes in whole units; return false if there are fewer units
 * than ranks. */
bool lm_split_edges(const lm_split_spec *spec, uint32_t lanes, uint32_t unit, uint32_t *edges);

/* Return the unit in which lanes that weight w reads as columns are cut, in whole blocks: the largest that
 * gives every rank the same number, else the smallest. 0: there are too few lanes. */
uint32_t lm_split_unit(const lm_splitter *s, uint32_t w, uint32_t lanes);

/* Return whether a rank may have a part of weight w. One that several operations read remains whole, except
 * that of a tied head, which gets a second entry. */
bool lm_split_may_cut(const lm_splitter *s, uint32_t w);

/* Allocate pieces in the arena of the new program; compare pieces; count their lanes. */
lm_row_range *lm_split_pieces(lm_splitter *s, uint32_t n);
lm_pieces lm_split_one(lm_splitter *s, uint64_t first, uint64_t n);
bool      lm_pieces_same(lm_pieces a, lm_pieces b);
uint64_t  lm_pieces_lanes(lm_pieces p);

/* Convert a part to units, *first and *n; return false if it is not one piece of whole units. */
bool lm_split_units(lm_pieces part, uint32_t unit, uint32_t *first, uint32_t *n);

#endif
