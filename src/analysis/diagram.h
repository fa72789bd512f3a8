/* diagram.h - graphs that are drawn: as Mermaid source, or in characters.
 *
 * Nodes are given in an order in which every solid edge leads forward; dashed edges may lead back (a loop) and are drawn by
 * Mermaid only. In characters every edge that is still open is a rail, as version histories are drawn. */
#ifndef LM_ANALYSIS_DIAGRAM_H
#define LM_ANALYSIS_DIAGRAM_H

#include "analysis/fact.h"
#include "lamina/explain.h"

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

void lm_graph_mermaid(const lm_graph *g, lm_buf *out);

/* `lines`: box drawing, else ASCII. Labels beside the rails. */
void lm_graph_rails(const lm_graph *g, bool lines, lm_buf *out);

/* ---- diagrams of a model (draw_*.c) ---- */

typedef struct lm_drawing {
    lm_facts                 *f;
    const lm_explain_options *o;
    const char               *name;      /* what a reader who cannot see it is told */
    bool                      mermaid, svg;
    bool                      alone;     /* SVG: a file of its own */
    lm_buf                   *out;
    const char               *missing;   /* why there is nothing to draw; NULL: it was drawn */
    const lm_graph           *graph;     /* that was drawn; NULL: it is no graph */
} lm_drawing;

typedef void lm_draw(lm_drawing *d);
lm_draw lm_draw_flow, lm_draw_layer, lm_draw_end_to_end, lm_draw_attention, lm_draw_mlp, lm_draw_moe, lm_draw_residual,
    lm_draw_heads, lm_draw_mla, lm_draw_rope, lm_draw_spectrum, lm_draw_norm, lm_draw_cache, lm_draw_window, lm_draw_kv_growth,
    lm_draw_memory_growth, lm_draw_flops_growth, lm_draw_roofline;

/* A diagram in all its forms: characters, Mermaid, and where it is one the graph, which lives as long as the facts. Errors as of
 * lm_diagram. */
lm_status lm_diagram_forms(lm_facts *f, const char *name, const lm_explain_options *o, lm_text *text, lm_text *mermaid,
                           const lm_graph **graph, lm_error *e);

/* A diagram by its name, as part of a page: `title` is read aloud in its place. False when there is no such diagram or the model
 * has no such part; nothing is appended then. */
bool lm_diagram_svg(lm_facts *f, const char *name, const char *title, const lm_explain_options *o, lm_buf *out);

/* A graph in the form that is asked for. */
void lm_draw_graph(lm_drawing *d, const lm_graph *g);

#endif
