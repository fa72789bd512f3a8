/* chart.h - curves over a quantity: as SVG, as a Mermaid chart, as text. */
#ifndef LM_ANALYSIS_CHART_H
#define LM_ANALYSIS_CHART_H

#include "study/draw/diagram.h"

enum { LM_CURVES = 6, LM_CHART_POINTS = 6 };

typedef struct lm_curve { const char *name; const double *y; bool dashed; } lm_curve;
typedef struct lm_chart_point { const char *name; double x, y; } lm_chart_point;

typedef struct lm_chart {
    const char     *title;       /* "the cache by context" */
    const char     *x_title, *y_title;
    lm_unit         x_unit, y_unit;      /* determine how numbers along the axes are written */
    uint32_t        n;
    const double   *x;           /* [n], ascending */
    lm_curve        curves[LM_CURVES];
    uint32_t        n_curves;
    lm_chart_point  points[LM_CHART_POINTS];     /* marked points, each with its name */
    uint32_t        n_points;
    bool            log_x, log_y;        /* all values must then be above zero */
    bool            stacked;     /* areas on top of each other; log_y is off */
} lm_chart;

void lm_chart_svg(const lm_chart *c, const char *name, bool alone, lm_text *out);

/* Append a Mermaid chart. Log axes show logarithms, because Mermaid has no log axes. */
void lm_chart_mermaid(const lm_chart *c, lm_text *out);

/* Append a table with a row per x, at most 18 rows; with bars if `lines`. */
void lm_chart_text(lm_facts *f, const lm_chart *c, bool lines, lm_text *out);

/* Append a number along an axis: "131,072", "1.5 GB", "3e-05". */
void lm_chart_number(lm_text *out, double x, lm_unit unit);

#endif
