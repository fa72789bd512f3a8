/* diagram.h - diagrams of a model: the functions that draw them and their arguments. */
#ifndef LM_ANALYSIS_DIAGRAM_H
#define LM_ANALYSIS_DIAGRAM_H

#include "study/draw/graph.h"
#include "lamina/study/explain.h"

typedef struct lm_drawing {
    lm_facts                 *f;
    const lm_explain_options *o;
    const char               *name;      /* its alternative text; for a standalone diagram, two lines */
    bool                      mermaid, svg;
    bool                      alone;     /* SVG: a standalone file */
    lm_text                   *out;
    const char               *missing;   /* why nothing could be drawn; NULL: it was drawn */
    const lm_graph           *graph;     /* the graph that was drawn; NULL: the diagram is not a graph */
} lm_drawing;

typedef void lm_draw(lm_drawing *d);
lm_draw lm_draw_flow, lm_draw_layer, lm_draw_end_to_end, lm_draw_attention, lm_draw_mlp, lm_draw_moe,
    lm_draw_residual, lm_draw_heads, lm_draw_mla, lm_draw_rope, lm_draw_spectrum, lm_draw_norm, lm_draw_cache,
    lm_draw_window, lm_draw_kv_growth, lm_draw_memory_growth, lm_draw_flops_growth, lm_draw_roofline,
    lm_draw_mask, lm_draw_pattern,
    lm_draw_decay;

/* Draw a diagram in all forms: text, Mermaid and, if it is a graph, the graph, which lives as long as the
 * facts. Errors: those of lm_diagram. */
lm_status lm_diagram_forms(lm_facts *f, const char *name, const lm_explain_options *o, lm_text *text,
                           lm_text *mermaid, const lm_graph **graph, lm_error *e);

/* Append a diagram to a page; `title` is read aloud instead of it. Returns false, and appends nothing, if
 * there is no such diagram or the model has no such part. */
bool lm_diagram_svg(lm_facts *f, const char *name, const char *title, const lm_explain_options *o,
                    lm_text *out);

/* Draw a graph in the requested form. */
void lm_draw_graph(lm_drawing *d, const lm_graph *g);

#endif
