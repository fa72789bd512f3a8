/* draw.h - convert operations to nodes of a graph. */
#ifndef LM_ANALYSIS_DRAW_H
#define LM_ANALYSIS_DRAW_H

#include "study/draw/diagram.h"
#include "study/facts/ledger.h"
#include "study/facts/traits.h"

typedef struct lm_walk {
    lm_drawing *d;
    lm_graph   *g;
    uint32_t   *node_of;         /* [n_values]: the node that produces it; LM_OUTSIDE: not drawn */
    uint32_t    outer;           /* the node that represents input from outside; LM_OUTSIDE: none */
    uint32_t    block;           /* the block whose group is open, or LM_NONE */
    uint32_t    last;            /* the node drawn last */
} lm_walk;

/* Begin a graph. False: out of memory. */
bool lm_walk_start(lm_walk *w, lm_drawing *d);

/* Add one operation: its nodes and the edges that lead to it. */
void lm_walk_op(lm_walk *w, uint32_t i);

/* Add operations [from, to); those of a block are in a separate group. */
void lm_walk_ops(lm_walk *w, uint32_t from, uint32_t to);

/* Return a number with separators: "3,072". */
const char *lm_grouped(lm_facts *f, uint64_t n);

#endif
