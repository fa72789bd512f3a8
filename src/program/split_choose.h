/* split_choose.h - inside lm_program_split: what is known of each value of the program that is split.
 *
 * A value is whole on every rank, or each rank has a part of its lanes: because the operation that makes it is cut (attention, MLPs), or
 * because every operation that reads it asks for that part alone (queries, keys, gates). */
#ifndef LM_PROGRAM_SPLIT_CHOOSE_H
#define LM_PROGRAM_SPLIT_CHOOSE_H

#include "program/split.h"

typedef struct lm_pieces {
    const lm_piece *at;
    uint32_t        n;
    bool            mixed;           /* readers ask for different parts that do not go together */
} lm_pieces;

typedef struct lm_split_value {
    uint32_t        uses, n_parts;   /* operations that read it; of these, those that want a part */
    lm_pieces       part;            /* that part, on this rank */
    bool            cut;             /* only that part is computed here */
    const uint32_t *edges;           /* [ranks + 1]: lanes of all ranks, where the parts of all together are the whole */
    lm_value        here, whole;     /* in the program that is made; LM_NONE until it is there */
} lm_split_value;

typedef struct lm_splitter {
    const lm_program    *p;
    const lm_split_spec *spec;
    lm_program          *out;
    lm_split_value      *values;     /* [p->n_values] */
    lm_pieces           *wants;      /* [p->n_nodes][LM_MAX_INPUTS]: the lanes that an operation reads of a value; n 0: all */
    uint32_t            *made;       /* [p->n_nodes + 1]: the first operation of the new program that stands for this one */
    uint32_t            *source;     /* [out->n_weights] */
    size_t               capacity;   /* of out's operations and values */
    bool                 failed;     /* no memory */
} lm_splitter;

/* ---- split_choose.c: which values are cut ---- */

/* From the last operation to the first. */
void lm_split_choose(lm_splitter *s);

/* Edges of so many lanes in whole units [ranks + 1]; false where there are fewer units than ranks. */
bool lm_split_edges(const lm_split_spec *spec, uint32_t lanes, uint32_t unit, uint32_t *edges);

/* The unit in which lanes that weight w reads as columns are cut: whole blocks; the largest that gives every rank as many, else the least.
 * 0: there are too few. */
uint32_t lm_split_unit(const lm_splitter *s, uint32_t w, uint32_t lanes);

/* Pieces in the arena of the new program. */
lm_piece *lm_split_pieces(lm_splitter *s, uint32_t n);
lm_pieces lm_split_one(lm_splitter *s, uint64_t first, uint64_t n);
bool      lm_pieces_same(lm_pieces a, lm_pieces b);
uint64_t  lm_pieces_lanes(lm_pieces p);

/* Runs of equal units: the piece must be one run of whole units; *first and *n in units. */
bool lm_split_units(lm_pieces part, uint32_t unit, uint32_t *first, uint32_t *n);

#endif
