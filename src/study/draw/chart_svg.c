/* chart_svg.c - draw a chart: axes with round numbers, curves or areas, a legend above.
 *
 * Steps of a linear axis are 1, 2 or 5 times a power of ten (Heckbert, "Nice Numbers for Graph Labels",
 * Graphics Gems, 1990); a logarithmic axis has powers of ten, an axis of contexts powers of two. */
#include <math.h>
#include <stdio.h>

#include "study/draw/chart.h"
#include "study/draw/svg.h"
#include "base/language.h"

enum { WIDTH = 640, PLOT = 250, TICKS = 24, LEGEND = 20 };

typedef struct axis { double min, max; bool logs; double at[TICKS]; unsigned n; } axis;

typedef struct frame {
    const lm_chart *c;
    axis            x, y;
    lm_box          plot;
    lm_text         *out;
} frame;

/* ---- axes ---- */

static double reach(const axis *a, double v)
{
    return a->logs ? (log(v) - log(a->min)) / (log(a->max) - log(a->min))
                   : (v - a->min) / (a->max - a->min);
}

static double px(const frame *f, double x)
{
    return f->plot.x + f->plot.w * reach(&f->x, x);
}

static double py(const frame *f, double y)
{
    return f->plot.y + f->plot.h * (1 - reach(&f->y, y));
}

static double round_step(double span, int wanted)
{
    double rough = span / wanted, power = pow(10, floor(log10(rough))), digit = rough / power;

    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

static void add_tick(axis *a, double v)
{
    if (a->n < TICKS)
        a->at[a->n++] = v + 0.0;         /* avoids "-0" */
}

/* Find round numbers within the range; a linear axis grows to the next one. */
static void find_ticks(axis *a, int wanted)
{
    if (a->max <= a->min)
        a->max = a->min + (a->logs ? a->min : 1);
    if (a->logs) {
        double decades = log10(a->max / a->min), step = fmax(1, ceil(decades / wanted));
        for (double e = ceil(log10(a->min) - 1e-9); e <= log10(a->max) + 1e-9; e += step)
            add_tick(a, pow(10, e));
        if (a->n >= 2)
            return;
        a->n = 0;
        add_tick(a, a->min);
        add_tick(a, a->max);
        return;
    }
    double step = round_step(a->max - a->min, wanted);
    a->max     = step * ceil(a->max / step - 1e-9);
    for (double v = step * ceil(a->min / step - 1e-9); v <= a->max * (1 + 1e-9) && a->n < TICKS; v += step)
        add_tick(a, v);
}

/* Label contexts in powers of two, from 0; other axes as usual. */
static void find_x_ticks(frame *f)
{
    double max = f->x.max, step = 1;

    if (f->x.logs || f->c->x_unit != LM_UNIT_TOKENS) {
        find_ticks(&f->x, 8);
        f->x.max = f->x.logs ? f->x.max : max;
        return;
    }
    f->x.min = 0;
    while (step * 8 < max)
        step *= 2;
    for (double v = 0; v <= max; v += step)
        add_tick(&f->x, v);
}

static void find_range(frame *f)
{
    const lm_chart *c = f->c;

    f->x = (axis){ c->x[0], c->x[c->n - 1], c->log_x, { 0 }, 0 };
    f->y = (axis){ c->log_y ? INFINITY : 0, 0, c->log_y, { 0 }, 0 };
    for (uint32_t i = 0; i < c->n; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < c->n_curves; k++) {
            sum         = c->stacked ? sum + c->curves[k].y[i] : c->curves[k].y[i];
            f->y.max   = fmax(f->y.max, sum);
            f->y.min  = fmin(f->y.min, sum);
        }
    }
    for (uint32_t i = 0; i < c->n_points; i++) {
        f->y.max  = fmax(f->y.max, c->points[i].y);
        f->y.min = fmin(f->y.min, c->points[i].y);
    }
    if (c->log_y) {
        f->y.min /= 1.15;
        f->y.max *= 1.15;
    }
    find_ticks(&f->y, 5);
    find_x_ticks(f);
}

static void put_title(frame *f, double x, double y, lm_anchor anchor, const char *title, bool logs)
{
    lm_text text = { 0 };

    lm_text_printf(&text, logs ? _("%s, logarithmic") : "%s", title);
    lm_svg_text(f->out, x, y, anchor, "s", text.data ? text.data : "");
    f->out->failed |= text.failed;
    lm_text_free(&text);
}

static void put_axes(frame *f)
{
    lm_text text = { 0 };
    double free_from = -INFINITY;

    for (unsigned i = 0; i < f->y.n; i++) {
        double y = py(f, f->y.at[i]);
        lm_svg_line(f->out, (lm_point){ f->plot.x, y }, (lm_point){ f->plot.x + f->plot.w, y }, "hair");
        lm_text_clear(&text);
        lm_chart_number(&text, f->y.at[i], f->c->y_unit);
        lm_svg_text(f->out, f->plot.x - 8, y + 4, LM_ANCHOR_END, "s num", text.data ? text.data : "");
    }
    for (unsigned i = 0; i < f->x.n; i++) {
        double x = px(f, f->x.at[i]);
        lm_text_clear(&text);
        lm_chart_number(&text, f->x.at[i], f->c->x_unit);
        double half = lm_svg_width(text.data ? text.data : "", LM_SVG_SMALL, false) / 2;
        lm_svg_line(f->out, (lm_point){ x, f->plot.y + f->plot.h },
                    (lm_point){ x, f->plot.y + f->plot.h + 4 }, "axis");
        if (x - half < free_from || x + half > WIDTH)
            continue;
        lm_svg_text(f->out, x, f->plot.y + f->plot.h + 17, LM_ANCHOR_MIDDLE, "s num",
                    text.data ? text.data : "");
        free_from = x + half + 8;
    }
    lm_svg_line(f->out, (lm_point){ f->plot.x, f->plot.y + f->plot.h },
                (lm_point){ f->plot.x + f->plot.w, f->plot.y + f->plot.h }, "axis");
    put_title(f, f->plot.x + f->plot.w, f->plot.y + f->plot.h + 35, LM_ANCHOR_END, f->c->x_title,
              f->c->log_x);
    put_title(f, 2, 14, LM_ANCHOR_START, f->c->y_title, f->c->log_y);
    lm_text_add_char(f->out, '\n');
    lm_text_free(&text);
}

/* ---- curves ---- */

static double stacked_to(const lm_chart *c, uint32_t curve, uint32_t i)
{
    double y = 0;

    for (uint32_t k = 0; k < curve; k++)
        y += c->curves[k].y[i];
    return y;
}

static void put_vertex(frame *f, char command, double x, double y)
{
    lm_text_add_char(f->out, command);
    lm_svg_number(f->out, x);
    lm_text_add_char(f->out, ' ');
    lm_svg_number(f->out, y);
}

static void put_curve(frame *f, uint32_t k)
{
    const lm_chart *c = f->c;

    lm_text_printf(f->out, "<path class=\"%s c%u%s\" d=\"", c->stacked ? "area" : "curve", k + 1,
                   c->curves[k].dashed ? " dashed" : "");
    for (uint32_t i = 0; i < c->n; i++) {
        double y = c->curves[k].y[i] + (c->stacked ? stacked_to(c, k, i) : 0);
        put_vertex(f, i ? 'L' : 'M', px(f, c->x[i]), py(f, y));
    }
    for (uint32_t i = c->n; c->stacked && i-- > 0;)
        put_vertex(f, 'L', px(f, c->x[i]), py(f, stacked_to(c, k, i)));
    lm_text_add_str(f->out, c->stacked ? "Z\"/>\n" : "\"/>\n");
    for (uint32_t i = 0; i < c->n && !c->stacked && !c->n_points && c->n <= 16; i++)
        lm_text_printf(f->out, "<circle class=\"dot c%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>", k + 1,
                       px(f, c->x[i]), py(f, c->curves[k].y[i]));
}

/* Write names next to their marks, on the side with enough space. */
static void put_points(frame *f)
{
    for (uint32_t i = 0; i < f->c->n_points; i++) {
        const lm_chart_point *p = &f->c->points[i];
        double x = px(f, p->x), y = py(f, p->y), wide = lm_svg_width(p->name, LM_SVG_SMALL, true);
        bool   left = x + wide + 12 > f->plot.x + f->plot.w;
        lm_text_printf(f->out, "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"/>", x, y);
        lm_svg_text(f->out, left ? x - 9 : x + 9, y + 15, left ? LM_ANCHOR_END : LM_ANCHOR_START, "s strong",
                    p->name);
    }
}

/* Draw swatches with names, in as many lines as needed; returns the height. `write` false: only measure. */
static double put_legend(frame *f, double y, bool write)
{
    const lm_chart *c = f->c;
    double          x = f->plot.x, lines = 1;

    for (uint32_t k = 0; k < c->n_curves; k++) {
        double wide = lm_svg_width(c->curves[k].name, LM_SVG_SMALL, false) + 40;
        if (x > f->plot.x && x + wide > WIDTH) {
            x = f->plot.x;
            lines++;
        }
        if (write) {
            double at = y + LEGEND * (lines - 1);
            char   classes[32];
            snprintf(classes, sizeof classes, "%s c%u%s", c->stacked ? "area" : "curve", k + 1,
                     c->curves[k].dashed ? " dashed" : "");
            if (c->stacked)
                lm_svg_rect(f->out, (lm_box){ x, at - 9, 14, 10 }, 2, classes);
            else
                lm_svg_line(f->out, (lm_point){ x, at - 4 }, (lm_point){ x + 18, at - 4 }, classes);
            lm_svg_text(f->out, x + 23, at, LM_ANCHOR_START, "s", c->curves[k].name);
        }
        x += wide;
    }
    return LEGEND * lines;
}

static double widest_tick(const frame *f)
{
    lm_text text = { 0 };
    double wide = 0;

    for (unsigned i = 0; i < f->y.n; i++) {
        lm_text_clear(&text);
        lm_chart_number(&text, f->y.at[i], f->c->y_unit);
        wide = fmax(wide, lm_svg_width(text.data ? text.data : "", LM_SVG_SMALL, false));
    }
    lm_text_free(&text);
    return wide;
}

void lm_chart_svg(const lm_chart *c, const char *name, bool alone, lm_text *out)
{
    frame f = { .c = c, .out = out };

    find_range(&f);
    f.plot.x      = widest_tick(&f) + 12;
    f.plot.w      = WIDTH - f.plot.x - 30;
    double legend = put_legend(&f, 0, false);
    f.plot.y      = 24 + legend + 8;
    f.plot.h      = PLOT;
    lm_svg_open(out, WIDTH, f.plot.y + PLOT + 42, name, alone);
    put_axes(&f);
    put_legend(&f, 36, true);
    for (uint32_t k = 0; k < c->n_curves; k++)
        put_curve(&f, k);
    put_points(&f);
    lm_svg_close(out, alone);
}
