#include "cli/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 760, HEIGHT = 440, LEFT = 84, RIGHT = 24, TOP = 44, BOTTOM = 60, FIRST_ROOM = 64 };

static const char *const colours[] = { "#2563a8", "#b8452a", "#3b8250", "#7b4fa3", "#a67c00", "#00808a" };

lm_plot_series *lm_plot_add(lm_plot *c, const char *name)
{
    lm_plot_series *s = &c->series[c->n_series < LM_CHART_SERIES ? c->n_series++ : LM_CHART_SERIES - 1];

    s->name = name;
    return s;
}

void lm_plot_point_add(lm_plot *c, lm_plot_series *s, lm_plot_point p)
{
    if (s->n == s->capacity) {
        uint32_t        capacity = s->capacity ? 2 * s->capacity : FIRST_ROOM;
        lm_plot_point *grown    = realloc(s->points, capacity * sizeof *grown);
        if (!grown) {
            c->failed = true;
            return;
        }
        s->points   = grown;
        s->capacity = capacity;
    }
    s->points[s->n++] = p;
}

void lm_plot_free(lm_plot *c)
{
    for (uint32_t i = 0; i < c->n_series; i++)
        free(c->series[i].points);
    *c = (lm_plot){ 0 };
}

/* ---- axes ---- */

typedef struct axis { double from, to; bool log; } axis;

static bool shown(const axis *a, double v) { return isfinite(v) && (!a->log || v > 0); }

static double share(const axis *a, double v)
{
    return a->log ? log(v / a->from) / log(a->to / a->from) : (v - a->from) / (a->to - a->from);
}

static void widen(axis *a, double v)
{
    if (!shown(a, v))
        return;
    a->from = v < a->from ? v : a->from;
    a->to   = v > a->to ? v : a->to;
}

static axis open_axis(const lm_plot *c, bool y)
{
    axis a = { INFINITY, -INFINITY, y ? c->log_y : c->log_x };

    for (uint32_t i = 0; i < c->n_series; i++)
        for (uint32_t k = 0; k < c->series[i].n; k++) {
            const lm_plot_point *p = &c->series[i].points[k];
            widen(&a, y ? p->y : p->x);
            if (y && p->low < p->high) {
                widen(&a, p->low);
                widen(&a, p->high);
            }
        }
    if (!(a.from <= a.to))
        a.from = a.to = 1;
    double room = a.log ? 1.08 : (a.to - a.from) * 0.04;
    if (a.from == a.to)
        room = a.log ? 2 : fabs(a.to) * 0.1 + 1e-9;
    if (y || a.from == a.to) {
        a.from = a.log ? a.from / room : a.from - room;
        a.to   = a.log ? a.to * room : a.to + room;
    }
    return a;
}

static double x_of(const axis *a, double v) { return LEFT + share(a, v) * (WIDTH - LEFT - RIGHT); }
static double y_of(const axis *a, double v) { return HEIGHT - BOTTOM - share(a, v) * (HEIGHT - TOP - BOTTOM); }

static void add_escaped(lm_text *out, const char *s)
{
    for (; *s; s++)
        switch (*s) {
        case '<': lm_text_add_str(out, "&lt;"); break;
        case '>': lm_text_add_str(out, "&gt;"); break;
        case '&': lm_text_add_str(out, "&amp;"); break;
        default:  lm_text_add_char(out, *s);
        }
}

static void add_label(lm_text *out, double x, double y, const char *anchor, const char *text)
{
    lm_text_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    add_escaped(out, text);
    lm_text_add_str(out, "</text>\n");
}

static void add_tick(lm_text *out, const axis *a, double v, bool y)
{
    lm_text text = { 0 };

    lm_text_printf(&text, "%.6g", v);
    if (y) {
        lm_text_printf(out, "<path class=\"g\" d=\"M%d %.1fH%d\"/>\n", LEFT, y_of(a, v), WIDTH - RIGHT);
        add_label(out, LEFT - 8, y_of(a, v) + 4, "end", text.data ? text.data : "");
    } else {
        lm_text_printf(out, "<path class=\"g\" d=\"M%.1f %dV%d\"/>\n", x_of(a, v), HEIGHT - BOTTOM, HEIGHT - BOTTOM + 5);
        add_label(out, x_of(a, v), HEIGHT - BOTTOM + 20, "middle", text.data ? text.data : "");
    }
    lm_text_free(&text);
}

/* Add ticks at about five round numbers; on a logarithmic axis at 1, 2 and 5 times each power of ten, or only at the powers if it spans
 * more than three. */
static void add_ticks(lm_text *out, const axis *a, bool y)
{
    static const double marks[] = { 1, 2, 5 };

    if (a->log && a->to / a->from > 4) {
        bool few = a->to / a->from > 1e3;
        for (double power = pow(10, floor(log10(a->from))); power <= a->to; power *= 10)
            for (int i = 0; i < (few ? 1 : 3); i++)
                if (marks[i] * power >= a->from && marks[i] * power <= a->to)
                    add_tick(out, a, marks[i] * power, y);
        return;
    }
    double step = pow(10, floor(log10((a->to - a->from) / 5)));
    for (int i = 1; i < 3 && (a->to - a->from) / step > 8; i++)
        step *= i == 1 ? 2 : 2.5;
    for (double v = ceil(a->from / step) * step; v <= a->to + step * 1e-9; v += step)
        add_tick(out, a, fabs(v) < step * 1e-9 ? 0 : v, y);
}

/* ---- series and cells ---- */

static void add_band(lm_text *out, const lm_plot_series *s, const axis *x, const axis *y, const char *colour)
{
    bool any = false;

    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < s->n; i++) {
            const lm_plot_point *p = &s->points[pass ? s->n - 1 - i : i];
            double                v = pass ? p->low : p->high;
            if (!(p->low < p->high) || !shown(x, p->x) || !shown(y, v))
                continue;
            lm_text_printf(out, "%s%.1f %.1f", any ? "L" : "<path stroke=\"none\" opacity=\".16\" d=\"M", x_of(x, p->x), y_of(y, v));
            any = true;
        }
    if (any)
        lm_text_printf(out, "Z\" fill=\"%s\"/>\n", colour);
}

static void add_series(lm_text *out, const lm_plot_series *s, const axis *x, const axis *y, const char *colour)
{
    bool any = false;

    if (!s->dots)
        add_band(out, s, x, y, colour);
    for (uint32_t i = 0; i < s->n && !s->dots; i++) {
        const lm_plot_point *p = &s->points[i];
        if (!shown(x, p->x) || !shown(y, p->y))
            continue;
        lm_text_printf(out, "%s%.1f %.1f", any ? "L" : "<path fill=\"none\" stroke-width=\"1.8\" d=\"M", x_of(x, p->x), y_of(y, p->y));
        any = true;
    }
    if (any)
        lm_text_printf(out, "\" stroke=\"%s\"/>\n", colour);
    for (uint32_t i = 0; i < s->n; i++) {
        const lm_plot_point *p = &s->points[i];
        if (!shown(x, p->x) || !shown(y, p->y) || !(s->dots || p->label))
            continue;
        double px = x_of(x, p->x), py = y_of(y, p->y);
        if (s->dots && p->low < p->high && shown(y, p->low))
            lm_text_printf(out, "<path stroke=\"%s\" d=\"M%.1f %.1fV%.1f\"/>\n", colour, px, y_of(y, p->low), y_of(y, p->high));
        lm_text_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", px, py, colour);
        if (p->label)
            add_label(out, px > WIDTH - RIGHT - 90 ? px - 7 : px + 7, py - 5, px > WIDTH - RIGHT - 90 ? "end" : "start", p->label);
    }
}

static void add_legend(lm_text *out, const lm_plot *c)
{
    double y = TOP + 14;

    for (uint32_t i = 0; i < c->n_series; i++) {
        if (!c->series[i].name || !c->series[i].n)
            continue;
        lm_text_printf(out, "<rect x=\"%d\" y=\"%.1f\" width=\"12\" height=\"4\" fill=\"%s\"/>\n", WIDTH - RIGHT - 180, y - 5,
                       colours[i % 6]);
        add_label(out, WIDTH - RIGHT - 162, y, "start", c->series[i].name);
        y += 18;
    }
}

static void add_cells(lm_text *out, const lm_plot *c)
{
    double w = (double)(WIDTH - LEFT - RIGHT) / c->n_columns, h = (double)(HEIGHT - TOP - BOTTOM) / c->n_rows;

    for (uint32_t r = 0; r < c->n_rows; r++) {
        add_label(out, LEFT - 8, TOP + (r + 0.5) * h + 4, "end", c->rows[r]);
        for (uint32_t k = 0; k < c->n_columns; k++) {
            double v = c->cells[r * c->n_columns + k];
            if (!isfinite(v))
                continue;
            lm_text_printf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"hsl(%.0f 55%% 62%%)\"/>\n", LEFT + k *
            w + 1,
                           TOP + r * h + 1, w - 2, h - 2, 120 * v);
            lm_text_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" class=\"k\">%.0f</text>\n", LEFT + (k + 0.5) * w,
                           TOP + (r + 0.5) * h + 4, 100 * v);
        }
    }
    for (uint32_t k = 0; k < c->n_columns; k++)
        add_label(out, LEFT + (k + 0.5) * w, HEIGHT - BOTTOM + 20, "middle", c->columns[k]);
}

void lm_plot_svg(const lm_plot *c, lm_text *out)
{
    lm_text_printf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"system-ui, sans-serif\" "
                   "font-size=\"12\">\n<style>\n.b{fill:#fff}.g{stroke:#ccc;fill:none}text{fill:#222}\n"
                   "@media(prefers-color-scheme:dark){.b{fill:#16181c}.g{stroke:#444}text{fill:#ddd}.k{fill:#222}}\n</style>\n"
                   "<rect class=\"b\" width=\"%d\" height=\"%d\"/>\n", WIDTH, HEIGHT, WIDTH, HEIGHT);
    lm_text_printf(out, "<g font-size=\"14\">");
    add_label(out, LEFT, 26, "start", c->title ? c->title : "");
    lm_text_add_str(out, "</g>\n");
    if (c->cells) {
        add_cells(out, c);
    } else {
        axis x = open_axis(c, false), y = open_axis(c, true);
        add_ticks(out, &x, false);
        add_ticks(out, &y, true);
        lm_text_printf(out, "<path class=\"g\" d=\"M%d %dH%d\"/>\n", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT);
        for (uint32_t i = 0; i < c->n_series; i++)
            add_series(out, &c->series[i], &x, &y, colours[i % 6]);
        add_legend(out, c);
    }
    add_label(out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16, "middle", c->x ? c->x : "");
    lm_text_printf(out, "<g transform=\"translate(18 %d) rotate(-90)\">", (HEIGHT - BOTTOM + TOP) / 2);
    add_label(out, 0, 0, "middle", c->y ? c->y : "");
    lm_text_add_str(out, "</g>\n</svg>\n");
    out->failed |= c->failed;
}
