/* chart.h - curves over a quantity: as SVG, as a Mermaid chart, in characters. */
#ifndef LM_ANALYSIS_CHART_H
#define LM_ANALYSIS_CHART_H

#include "analysis/draw/diagram.h"

enum { LM_CURVES = 6, LM_CHART_POINTS = 6 };

typedef struct lm_curve { const char *name; const double *y; bool dashed; } lm_curve;
typedef struct lm_chart_point { const char *name; double x, y; } lm_chart_point;

typedef struct lm_chart {
    const char     *title;       /* "the cache by context" */
    const char     *x_title, *y_title;
    lm_unit         x_unit, y_unit;      /* how numbers along the axes are written */
    uint32_t        n;
    const double   *x;           /* [n], rising */
    lm_curve        curves[LM_CURVES];
    uint32_t        n_curves;
    lm_chart_point  points[LM_CHART_POINTS];     /* marked, each with its name */
    uint32_t        n_points;
    bool            log_x, log_y;        /* then everything is above zero */
    bool            stacked;     /* areas on top of each other; log_y is off */
} lm_chart;

void lm_chart_svg(const lm_chart *c, const char *name, bool alone, lm_text *out);

/* Log axes become logarithms: Mermaid has none. */
void lm_chart_mermaid(const lm_chart *c, lm_text *out);

/* A row for each x, at most 18 of them; a bar where `lines`. */
void lm_chart_text(lm_facts *f, const lm_chart *c, bool lines, lm_text *out);

/* "131,072", "1.5 GB", "3e-05": along an axis. */
void lm_chart_number(lm_text *out, double x, lm_unit unit);

#endif
