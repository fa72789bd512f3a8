/* draw_graph.c - draw a graph in the requested form. */
#include "study/draw/diagram.h"
#include "study/draw/svg_graph.h"

void lm_draw_graph(lm_drawing *d, const lm_graph *g)
{
    d->graph = g;
    if (!g || g->full)
        d->missing = "the graph is too large to be drawn";
    else if (d->svg)
        d->f->failed |= !lm_svg_graph(g, d->name, d->alone, d->out);
    else if (d->mermaid)
        lm_graph_mermaid(g, d->out);
    else
        lm_graph_rails(g, d->o->lines, d->out);
}
