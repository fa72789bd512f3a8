/* chart.c - charts as Mermaid and as text, and the numbers along axes. */
#include "study/draw/chart.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/columns.h"
#include "study/facts/figure.h"
#include "study/facts/table.h"

static void scaled(lm_text *out, double x, const char *const *units, size_t n, double step)
{
    size_t u = 0;

    for (; x >= step && u + 1 < n; u++)
        x /= step;
    lm_text_printf(out, "%.4g %s", x, units[u]);
}

void lm_chart_number(lm_text *out, double x, lm_unit unit)
{
    static const char *const bytes[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    static const char *const flops[] = { "FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP" };
    static const char *const rates[] = { "FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s" };
    char                     text[LM_FIG];

    if (unit == LM_UNIT_BYTES)
        scaled(out, x, bytes, 6, 1000);
    else if (unit == LM_UNIT_FLOPS)
        scaled(out, x, flops, 6, 1000);
    else if (unit == LM_UNIT_FLOPS_PER_SECOND)
        scaled(out, x, rates, 6, 1000);
    else if (x >= 0 && x < 1e15 && x == floor(x))
        lm_text_add_str(out, lm_fig_count(text, (uint64_t)x));
    else
        lm_text_printf(out, x < 1000 ? "%.3g" : "%.0f", x);
}

/* ---- Mermaid ---- */

static void put_quoted(const char *text, lm_text *out)
{
    lm_text_add_char(out, '"');
    for (; *text; text++)
        lm_text_add_char(out, *text == '"' ? '\'' : *text);
    lm_text_add_char(out, '"');
}

/* Mermaid has no legend: the title maps colours to curves, and the palette of the source defines them. */
static const struct { const char *value, *name; } colours[LM_CURVES] = {
    { "#2563eb", N_("blue") },   { "#c2680c", N_("orange") }, { "#15803d", N_("green") },
    { "#8b3fc7", N_("purple") }, { "#b0366f", N_("pink") },   { "#0f7c86", N_("teal") },
};

/* Every n-th point becomes a label: as many as remain readable. */
enum { MAX_LABELS = 18 };

static uint32_t stride(const lm_chart *c)
{
    return (c->n + MAX_LABELS - 1) / MAX_LABELS;
}

static void put_palette(const lm_chart *c, lm_text *out)
{
    lm_text_add_str(out, "%%{init: {\"themeVariables\": {\"xyChart\": {\"plotColorPalette\": \"");
    for (uint32_t k = 0; k < c->n_curves; k++)
        lm_text_printf(out, "%s%s", k ? ", " : "", colours[k].value);
    lm_text_add_str(out, "\"}}}}%%\n");
}

static void put_heading(const lm_chart *c, lm_text *out)
{
    lm_text text = { 0 };

    lm_text_add_str(&text, c->title);
    for (uint32_t k = 0; c->n_curves > 1 && k < c->n_curves; k++)
        lm_text_printf(&text, "%s %s = %s", k ? "," : ":", _(colours[k].name), c->curves[k].name);
    put_quoted(text.data ? text.data : "", out);
    out->failed |= text.failed;
    lm_text_free(&text);
}

static void put_series(const lm_chart *c, uint32_t curve, lm_text *out)
{
    lm_text_add_str(out, "  line [");
    for (uint32_t i = 0; i < c->n; i += c->log_x ? stride(c) : 1) {
        double y = 0;
        for (uint32_t k = c->stacked ? 0 : curve; k <= curve; k++)
            y += c->curves[k].y[i];
        lm_text_printf(out, c->log_y || y < 1000 ? "%s%.4f" : "%s%.0f", i ? ", " : "",
                       c->log_y ? log10(y) : y);      /* no exponents */
    }
    lm_text_add_str(out, "]\n");
}

void lm_chart_mermaid(const lm_chart *c, lm_text *out)
{
    lm_text title = { 0 };

    lm_text_printf(&title, c->log_y ? _("log10 of %s") : "%s", c->y_title);
    put_palette(c, out);
    lm_text_add_str(out, "xychart-beta\n  title ");
    put_heading(c, out);
    lm_text_add_str(out, "\n  x-axis ");
    put_quoted(c->x_title, out);
    if (c->log_x) {
        lm_text_add_str(out, " [");
        for (uint32_t i = 0; i < c->n; i += stride(c)) {
            lm_text_add_str(out, i ? ", \"" : "\"");
            lm_chart_number(out, c->x[i] < 100 ? c->x[i] : round(c->x[i]), c->x_unit);
            lm_text_add_char(out, '"');
        }
        lm_text_add_str(out, "]");
    } else {
        lm_text_printf(out, " %.0f --> %.0f", c->x[0], c->x[c->n - 1]);
    }
    lm_text_add_str(out, "\n  y-axis ");
    put_quoted(title.data ? title.data : "", out);
    lm_text_add_char(out, '\n');
    for (uint32_t k = 0; k < c->n_curves; k++)
        put_series(c, k, out);
    lm_text_free(&title);
}

/* ---- text ---- */

enum { MAX_LINES = 18, BAR = 24 };

static double height_of(const lm_chart *c, uint32_t i)
{
    double y = 0;

    for (uint32_t k = 0; k < c->n_curves; k++)
        y = c->stacked ? y + c->curves[k].y[i] : fmax(y, c->curves[k].y[i]);
    return y;
}

static const char *number_text(lm_facts *f, double x, lm_unit unit)
{
    lm_text      b    = { 0 };
    const char *text;

    lm_chart_number(&b, x, unit);
    text = lm_arena_strdup(&f->arena, b.data ? b.data : "");
    f->failed |= !text;
    lm_text_free(&b);
    return text ? text : "";
}

void lm_chart_text(lm_facts *f, const lm_chart *c, bool lines, lm_text *out)
{
    char     align[LM_CURVES + 3] = "rrrrrrr";
    uint32_t step = (c->n + MAX_LINES - 1) / MAX_LINES;
    double   max = 0, min = INFINITY;

    align[c->n_curves + 1] = 'l';
    align[c->n_curves + 2] = '\0';
    for (uint32_t i = 0; i < c->n; i++) {
        max  = fmax(max, height_of(c, i));
        min = fmin(min, height_of(c, i));
    }
    lm_table    t = lm_table_new(f, align, 0);
    const char *row[LM_CURVES + 2] = { "", "", "", "", "", "", "", "" };
    for (uint32_t i = 0, headed = 0; c->n && i < c->n; i += headed++ ? step : 0) {
        lm_text bar = { 0 };
        row[0]     = headed ? number_text(f, c->x[i], c->x_unit) : c->x_title;
        for (uint32_t k = 0; k < c->n_curves; k++)
            row[k + 1] = headed ? number_text(f, c->curves[k].y[i], c->y_unit) : c->curves[k].name;
        double y = height_of(c, i), span = fmax(log(max) - log(min), 1e-9);
        double share = c->log_y ? (log(y) - log(min)) / span : y / fmax(max, 1e-300);
        if (headed && lines)
            lm_text_add_bar(&bar, share, BAR);
        row[c->n_curves + 1] = bar.data ? bar.data : !headed && lines && c->log_y ? _("logarithmic") : "";
        lm_table_row(&t, row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]);
        lm_text_free(&bar);
    }
    lm_table_print(&t, out);
    for (uint32_t i = 0; i < c->n_points; i++)
        lm_text_printf(out, "%s: %s, %s\n", c->points[i].name, number_text(f, c->points[i].x, c->x_unit),
                       number_text(f, c->points[i].y, c->y_unit));
}
