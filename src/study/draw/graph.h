/* graph.h - graphs that are drawn as Mermaid source or as text.
 *
 * Nodes must be added in an order in which every solid edge leads forward. Dashed edges may lead back (a
 * loop); only Mermaid draws them. In text, every open edge is a rail, as in version histories. */
#ifndef LM_ANALYSIS_GRAPH_H
#define LM_ANALYSIS_GRAPH_H

#include "study/facts/fact.h"

typedef enum lm_graph_shape {
    LM_SHAPE_BOX,
    LM_SHAPE_ROUND,
    LM_SHAPE_SLANTED,
    LM_SHAPE_CIRCLE,
    LM_SHAPE_STORE
} lm_graph_shape;

/* What a colour highlights. */
typedef enum lm_graph_mark {
    LM_MARK_NONE,
    LM_MARK_ROPE,
    LM_MARK_SCORES,
    LM_MARK_SOFTMAX,
    LM_MARK_GATE,
    LM_MARK_SUM,
    LM_MARK_END,
    LM_MARKS
} lm_graph_mark;

typedef struct lm_graph_node {
    const char *label;
    lm_graph_shape shape;
    lm_graph_mark mark;
    uint32_t group;
} lm_graph_node;
typedef struct lm_graph_edge { uint32_t from, to; const char *label; bool dashed; } lm_graph_edge;
typedef struct lm_graph_group { const char *title; uint32_t parent; } lm_graph_group;

#define LM_OUTSIDE UINT32_MAX
enum { LM_GRAPH_NODES = 240, LM_GRAPH_EDGES = 480, LM_GRAPH_GROUPS = 32 };

typedef struct lm_graph {
    lm_facts      *f;            /* its arena holds the labels */
    bool           right;        /* left to right */
    const char    *caption;      /* below the graph; NULL: none */
    lm_graph_node  nodes[LM_GRAPH_NODES];
    lm_graph_edge  edges[LM_GRAPH_EDGES];
    lm_graph_group groups[LM_GRAPH_GROUPS];
    uint32_t       n_nodes, n_edges, n_groups;
    uint32_t       group;        /* the group of new nodes */
    bool           full;         /* something did not fit: do not show the graph */
} lm_graph;

/* Create a graph in the facts' arena; NULL: out of memory (recorded in the facts). */
lm_graph *lm_graph_new(lm_facts *f);

/* Open a group: nodes added until lm_graph_close belong to it. */
void lm_graph_open(lm_graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lm_graph_close(lm_graph *g);

uint32_t lm_graph_add(lm_graph *g, lm_graph_shape shape, lm_graph_mark mark, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void     lm_graph_link(lm_graph *g, uint32_t from, uint32_t to, const char *label);
/* dashed, backward */
void     lm_graph_loop(lm_graph *g, uint32_t from, uint32_t to, const char *label);

void lm_graph_mermaid(const lm_graph *g, lm_text *out);

/* Append the graph as text. `lines`: use box-drawing characters, otherwise ASCII. Labels are next to the
 * rails. */
void lm_graph_rails(const lm_graph *g, bool lines, lm_text *out);

#endif
