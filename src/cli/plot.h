/* plot.h - plots of results as SVG: lines and bands, or a grid of cells. The SVG is self-contained, including its colours. */
#ifndef LM_CLI_PLOT_H
#define LM_CLI_PLOT_H

#include "lamina/buffer.h"

enum { LM_CHART_SERIES = 12 };

typedef struct lm_plot_point { double x, y, low, high; const char *label; } lm_plot_point;     /* low, high: a band; equal: none */

typedef struct lm_plot_series {
    const char     *name;            /* in the legend; NULL: omitted from it */
    lm_plot_point *points;
    uint32_t        n, capacity;
    bool            dots;            /* marks without a line */
} lm_plot_series;

typedef struct lm_plot {
    const char     *title, *x, *y;
    bool            log_x, log_y;    /* logarithmic axes omit points that are not positive */
    lm_plot_series series[LM_CHART_SERIES];
    uint32_t        n_series;
    bool            failed;
    /* a grid of shares 0 … 1 instead: */
    const double   *cells;           /* [n_rows × n_columns]; NULL: none. NaN: an empty cell */
    uint32_t        n_rows, n_columns;
    const char *const *rows, *const *columns;        /* their names */
} lm_plot;

lm_plot_series *lm_plot_add(lm_plot *c, const char *name);
void lm_plot_point_add(lm_plot *c, lm_plot_series *s, lm_plot_point p);
void lm_plot_svg(const lm_plot *c, lm_text *out);
void lm_plot_free(lm_plot *c);

#endif
