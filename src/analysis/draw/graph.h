/* graph.h - graphs that are drawn: as Mermaid source, or in characters.
 *
 * Nodes are given in an order in which every solid edge leads forward; dashed edges may lead back (a loop) and are drawn by
 * Mermaid only. In characters every edge that is still open is a rail, as version histories are drawn. */
#ifndef LM_ANALYSIS_GRAPH_H
#define LM_ANALYSIS_GRAPH_H

#include "analysis/facts/fact.h"

typedef enum lm_shape { LM_SHAPE_BOX, LM_SHAPE_ROUND, LM_SHAPE_SLANTED, LM_SHAPE_CIRCLE, LM_SHAPE_STORE } lm_shape;

/* What a colour singles out. */
typedef enum lm_mark { LM_MARK_NONE, LM_MARK_ROPE, LM_MARK_SCORES, LM_MARK_SOFTMAX, LM_MARK_GATE, LM_MARK_SUM, LM_MARK_END,
                       LM_MARKS } lm_mark;

typedef struct lm_graph_node { const char *label; lm_shape shape; lm_mark mark; uint32_t group; } lm_graph_node;
typedef struct lm_graph_edge { uint32_t from, to; const char *label; bool dashed; } lm_graph_edge;
typedef struct lm_graph_group { const char *title; uint32_t parent; } lm_graph_group;

#define LM_OUTSIDE UINT32_MAX
enum { LM_GRAPH_NODES = 240, LM_GRAPH_EDGES = 480, LM_GRAPH_GROUPS = 32 };

typedef struct lm_graph {
    lm_facts      *f;            /* its arena holds the labels */
    bool           right;        /* left to right */
    const char    *caption;      /* below it; NULL: none */
    lm_graph_node  nodes[LM_GRAPH_NODES];
    lm_graph_edge  edges[LM_GRAPH_EDGES];
    lm_graph_group groups[LM_GRAPH_GROUPS];
    uint32_t       n_nodes, n_edges, n_groups;
    uint32_t       group;        /* that new nodes belong to */
    bool           full;         /* something did not fit: the graph is not to be shown */
} lm_graph;

/* In the facts' arena; NULL when out of memory (the facts remember). */
lm_graph *lm_graph_new(lm_facts *f);

/* Nodes that follow belong to it, until it is closed. */
void lm_graph_open(lm_graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lm_graph_close(lm_graph *g);

uint32_t lm_graph_add(lm_graph *g, lm_shape shape, lm_mark mark, const char *format, ...) __attribute__((format(printf, 4, 5)));
void     lm_graph_link(lm_graph *g, uint32_t from, uint32_t to, const char *label);
void     lm_graph_loop(lm_graph *g, uint32_t from, uint32_t to, const char *label);       /* dashed, back */

void lm_graph_mermaid(const lm_graph *g, lm_text *out);

/* `lines`: box drawing, else ASCII. Labels beside the rails. */
void lm_graph_rails(const lm_graph *g, bool lines, lm_text *out);

#endif
