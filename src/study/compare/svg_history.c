/* svg_history.c - draw the timeline of models, and which model was first with each feature. */
#include <math.h>

#include "study/compare/comparison.h"
#include "study/draw/svg.h"
#include "base/language.h"

/* ---- timeline: distances are proportional to months, as far as the lines of text allow ---- */

enum { MONTH = 5, LINE_HEIGHT = 40, STEM = 92 };

/* Return the month of a date such as "2024-09", which is from our table. */
static int month_of(const char *date)
{
    int digits[7] = { 0 };

    for (int i = 0; i < 7 && date[i]; i++)
        digits[i] = date[i] - '0';
    return 12 * (1000 * digits[0] + 100 * digits[1] + 10 * digits[2] + digits[3]) + 10 * digits[5] +
           digits[6];
}

static double widest_line(const lm_publication *e, lm_arena *a, const char **text)
{
    *text = lm_arena_printf(a, "%s · %s · %s · %s", e->attention, e->mlp, e->norm, e->position);
    return fmax(lm_svg_width(e->title, LM_SVG_NAME, true),
                *text ? lm_svg_width(*text, LM_SVG_SMALL, false) : 0);
}

bool lm_svg_timeline(const lm_comparison *c, const char *name, lm_text *out)
{
    lm_arena a = { 0 };
    double  *y = lm_arena_new(&a, c->n_events + 1, double), wide = 0;
    const char *text = NULL;

    if (!y || !c->n_events) {
        lm_arena_free(&a);
        return false;
    }
    for (uint32_t i = 0; i < c->n_events; i++) {
        int months = i ? month_of(c->events[i].date) - month_of(c->events[i - 1].date) : 0;
        y[i]       = i ? y[i - 1] + fmax(LINE_HEIGHT, fmin(months * MONTH, 3 * LINE_HEIGHT)) : 20;
        wide       = fmax(wide, widest_line(&c->events[i], &a, &text));
    }
    lm_svg_open(out, STEM + 24 + wide + 8, y[c->n_events - 1] + 28, name, false);
    lm_svg_line(out, (lm_point){ STEM, y[0] }, (lm_point){ STEM, y[c->n_events - 1] }, "axis");
    for (uint32_t i = 0; i < c->n_events; i++) {
        const lm_publication *e = &c->events[i];
        widest_line(e, &a, &text);
        if (lm_event_stands_out(c, e))
            lm_svg_rect(out, (lm_box){ STEM + 10, y[i] - 13, wide + 14, 39 }, 5, "n end");
        lm_text_printf(out, "<circle class=\"n %s\" cx=\"%d\" cy=\"%.1f\" r=\"%d\"/>",
                       lm_event_stands_out(c, e) ? "end"
                       : e->published            ? ""
                                                 : "event",
                       STEM, y[i], lm_event_stands_out(c, e) ? 7 : 5);
        lm_svg_text(out, STEM - 16, y[i] + 4, LM_ANCHOR_END, "s num", e->date);
        lm_svg_text(out, STEM + 18, y[i] + 4, LM_ANCHOR_START, "b", e->title);
        lm_svg_text(out, STEM + 18, y[i] + 20, LM_ANCHOR_START, "s", text ? text : "");
        lm_text_add_char(out, '\n');
    }
    lm_svg_close(out, false);
    lm_arena_free(&a);
    return true;
}

/* ---- trends: a strand per component, a mark at the first use of each word ---- */

enum { ROW = 34, PILL = 24 };

static bool news(const lm_comparison *c, uint32_t event)
{
    for (uint32_t s = 0; s < LM_STRANDS; s++)
        if (lm_strand_new(c, s, event))
            return true;
    return false;
}

typedef struct columns { double x[LM_STRANDS], w[LM_STRANDS], end; } columns;

static columns measure(const lm_comparison *c, double *names)
{
    columns k = { 0 };
    double  at = 0;

    for (uint32_t i = 0; i < c->n_events; i++)
        *names = fmax(*names, lm_svg_width(c->events[i].title, LM_SVG_NAME, true));
    at = 70 + *names + 28;
    for (uint32_t s = 0; s < LM_STRANDS; s++) {
        k.w[s] = lm_svg_width(_(lm_strand_name(s)), LM_SVG_SMALL, true);
        for (uint32_t i = 0; i < c->n_events; i++)
            k.w[s] = fmax(k.w[s],
                          lm_strand_new(c, s, i)
                              ? lm_svg_width(lm_strand_word(&c->events[i], s), LM_SVG_TEXT, false) + 20
                              : 0);
        k.x[s] = at;
        at += k.w[s] + 26;
    }
    k.end = at - 26;
    return k;
}

static void put_strand(const lm_comparison *c, const columns *k, uint32_t s, lm_text *out)
{
    static const char *const tints[LM_STRANDS] = { "n scores", "n gate", "n softmax", "n rope" };
    double                   middle = k->x[s] + k->w[s] / 2, y = 32, first = 0, last = 0;

    for (uint32_t i = 0; i < c->n_events; i++) {
        if (!news(c, i))
            continue;
        first = lm_strand_new(c, s, i) && first == 0 ? y : first;
        last  = lm_strand_new(c, s, i) ? y : last;
        y += ROW;
    }
    lm_svg_line(out, (lm_point){ middle, first + 12 }, (lm_point){ middle, last + 12 }, "axis");
    lm_svg_text(out, middle, 14, LM_ANCHOR_MIDDLE, "s title", _(lm_strand_name(s)));
    y = 32;
    for (uint32_t i = 0; i < c->n_events; i++) {
        if (!news(c, i))
            continue;
        if (lm_strand_new(c, s, i)) {
            lm_text_add_str(out, "<g class=\"node\">");
            lm_svg_rect(out, (lm_box){ k->x[s], y, k->w[s], PILL }, PILL / 2.0, tints[s]);
            lm_svg_text(out, middle, y + 16, LM_ANCHOR_MIDDLE, "t", lm_strand_word(&c->events[i], s));
            lm_text_add_str(out, "</g>\n");
        }
        y += ROW;
    }
}

bool lm_svg_trends(const lm_comparison *c, const char *name, lm_text *out)
{
    double   names = 0, y = 32;
    columns  k = measure(c, &names);
    uint32_t rows = 0;

    for (uint32_t i = 0; i < c->n_events; i++)
        rows += news(c, i);
    if (!rows)
        return false;
    lm_svg_open(out, k.end + 4, 32 + ROW * (double)rows, name, false);
    for (uint32_t i = 0; i < c->n_events; i++) {
        if (!news(c, i))
            continue;
        lm_svg_text(out, 2, y + 16, LM_ANCHOR_START, "s num", c->events[i].date);
        if (lm_event_stands_out(c, &c->events[i]))
            lm_svg_rect(out, (lm_box){ 64, y, names + 12, PILL }, 5, "n end");
        lm_svg_text(out, 70, y + 16, LM_ANCHOR_START, "b", c->events[i].title);
        lm_svg_line(out, (lm_point){ 2, y + PILL + 5 }, (lm_point){ k.end, y + PILL + 5 }, "hair");
        y += ROW;
    }
    for (uint32_t s = 0; s < LM_STRANDS; s++)
        put_strand(c, &k, s, out);
    lm_svg_close(out, false);
    return true;
}
