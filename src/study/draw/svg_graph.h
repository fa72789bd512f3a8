/* svg_graph.h - graphs as SVG. */
#ifndef LM_ANALYSIS_SVG_GRAPH_H
#define LM_ANALYSIS_SVG_GRAPH_H

#include "study/draw/graph.h"
#include "study/draw/svg.h"

/* Append a graph, always from top to bottom so that it fits a page. False: out of memory. */
bool lm_svg_graph(const lm_graph *g, const char *name, bool alone, lm_text *out);

#endif
