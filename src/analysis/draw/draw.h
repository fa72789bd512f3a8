/* draw.h - operations as nodes of a graph. */
#ifndef LM_ANALYSIS_DRAW_H
#define LM_ANALYSIS_DRAW_H

#include "analysis/draw/diagram.h"
#include "analysis/facts/ledger.h"
#include "analysis/facts/traits.h"

typedef struct lm_walk {
    lm_drawing *d;
    lm_graph   *g;
    uint32_t   *node_of;         /* [n_values]: the node that ends in it; LM_OUTSIDE: not drawn */
    uint32_t    outer;           /* the node that stands for what comes from outside; LM_OUTSIDE: nothing does */
    uint32_t    block;           /* whose group is open; LM_NONE */
    uint32_t    last;            /* the node drawn last */
} lm_walk;

/* False when out of memory. */
bool lm_walk_start(lm_walk *w, lm_drawing *d);

/* One operation: its nodes and the edges that lead to it. */
void lm_walk_op(lm_walk *w, uint32_t i);

/* Operations [from, to), those of a block in a group of their own. */
void lm_walk_ops(lm_walk *w, uint32_t from, uint32_t to);

/* "3,072" */
const char *lm_grouped(lm_facts *f, uint64_t n);

#endif
