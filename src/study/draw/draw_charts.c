/* draw_charts.c - charts of what grows with the context, and of what limits speed. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "study/draw/chart.h"
#include "study/facts/counts.h"

enum { MAX_POINTS = 24, PARTS = 16 };

/* Choose position 1 and even steps up to the model's context, so that linear growth is a straight line in
 * every form. */
static uint32_t contexts(lm_facts *f, double x[MAX_POINTS])
{
    uint64_t max = lm_facts_count(f, "architecture.context"), step = 1;
    uint32_t n    = 0;

    while (step * PARTS < max)
        step *= 2;
    if (max > 1)
        x[n++] = 1;
    for (uint64_t c = step > 1 ? step : 2; c < max; c += step)
        x[n++] = (double)c;
    if (max)
        x[n++] = (double)max;
    return n;
}

/* Draw a chart in the requested form. */
static void draw_chart(lm_drawing *d, const lm_chart *c)
{
    if (d->svg)
        lm_chart_svg(c, d->name, d->alone, d->out);
    else if (d->mermaid)
        lm_chart_mermaid(c, d->out);
    else
        lm_chart_text(d->f, c, d->o->lines, d->out);
}

static const char *too_few(uint32_t n)
{
    return n ? _("the context is one position") : _("the context is unknown");
}

void lm_draw_kv_growth(lm_drawing *d)
{
    double   x[MAX_POINTS], own[MAX_POINTS], mha[MAX_POINTS], whole[MAX_POINTS];
    uint32_t n = contexts(d->f, x);
    bool     windows = lm_facts_count(d->f, "attention.windowed_layers") > 0;
    bool     mixed   = lm_facts_has(d->f, "kv.at[1].bytes_attention_only");
    double   all[MAX_POINTS];
    lm_chart c = { .title = _("the cache by context"),
                   .x_title = _("positions of the context"),
                   .y_title = _("bytes of the cache"),
                   .x_unit = LM_UNIT_TOKENS,
                   .y_unit = LM_UNIT_BYTES,
                   .n = n,
                   .x = x };

    for (uint32_t i = 0; i < n; i++) {
        own[i]   = lm_facts_number(d->f, mixed ? "kv.at[%" PRIu64 "].bytes_with_states"
                                               : "kv.at[%" PRIu64 "].bytes", (uint64_t)x[i]);
        if (mixed)
            all[i] = lm_facts_number(d->f, "kv.at[%" PRIu64 "].bytes_attention_only", (uint64_t)x[i]);
        whole[i] = lm_facts_number(d->f, "kv.at[%" PRIu64 "].bytes_without_window", (uint64_t)x[i]);
        mha[i]   = lm_facts_number(d->f, "kv.at[%" PRIu64 "].mha", (uint64_t)x[i]);
    }
    if (n < 2) {
        d->missing = too_few(n);
        return;
    }
    if (own[n - 1] <= 0) {
        d->missing = _("nothing is cached");
        return;
    }
    c.curves[c.n_curves++] = (lm_curve){ _("this model"), own, false };
    if (mixed)
        c.curves[c.n_curves++] = (lm_curve){ _("with attention in all layers"), all, true };
    if (windows && whole[n - 1] > own[n - 1])
        c.curves[c.n_curves++] = (lm_curve){ _("without its windows"), whole, true };
    if (mha[n - 1] > whole[n - 1])
        c.curves[c.n_curves++] = (lm_curve){ _("with keys and values for every query head (MHA)"), mha,
                                             true };
    draw_chart(d, &c);
}

/* Half-lives of a state by layer: the shortest, the median, the longest. */
void lm_draw_decay(lm_drawing *d)
{
    static const char *const members[] = { "longest", "median", "shortest" };
    const char *const        names[]   = { _("the longest of the layer"), _("the median"),
                                           _("the shortest") };
    uint64_t n = 0;

    while (lm_facts_has(d->f, "states.half_life[%" PRIu64 "].layer", n))
        n++;
    double  *x = lm_arena_new(&d->f->arena, 4 * n + 1, double);
    lm_chart c = { .title = _("half-lives of the state by layer"), .x_title = _("layer"),
                   .y_title = _("tokens"), .x_unit = LM_UNIT_NONE, .y_unit = LM_UNIT_TOKENS,
                   .n = (uint32_t)n, .x = x, .log_y = true };
    d->f->failed |= !x;
    if (!x || n < 2) {
        d->missing = _("decays of two layers or more are not here");
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        x[i] = lm_facts_number(d->f, "states.half_life[%" PRIu64 "].layer", i);
    for (uint32_t k = 0; k < 3; k++) {
        double *y = x + (k + 1) * n;
        for (uint64_t i = 0; i < n; i++)
            y[i] = lm_facts_number(d->f, "states.half_life[%" PRIu64 "].%s", i, members[k]);
        c.curves[c.n_curves++] = (lm_curve){ names[k], y, k != 1 };
    }
    draw_chart(d, &c);
}

void lm_draw_memory_growth(lm_drawing *d)
{
    double         x[MAX_POINTS], weights[MAX_POINTS], kv[MAX_POINTS], scratch[MAX_POINTS];
    uint32_t       n = contexts(d->f, x);
    const lm_plan *p;
    lm_plan       *at;
    lm_chart c = { .title = _("memory by context"),
                   .x_title = _("positions of the context"),
                   .y_title = _("bytes"),
                   .x_unit = LM_UNIT_TOKENS,
                   .y_unit = LM_UNIT_BYTES,
                   .n = n,
                   .x = x,
                   .stacked = true };

    if (n < 2) {
        d->missing = too_few(n);
        return;
    }
    if (d->f->s.plan(d->f->s.arg, NULL, d->f->s.context, d->f->s.batch, &p, NULL) != LM_OK) {
        d->missing = _("no plan is possible for this model");
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (lm_plan_resized(p, (uint32_t)x[i], p->options.cache, &at, NULL) != LM_OK) {
            d->missing = _("no plan is possible for this model");
            return;
        }
        weights[i] = (double)(at->weight_bytes + at->mapped_bytes);
        kv[i]      = (double)at->kv_bytes;
        scratch[i] = (double)at->slab_bytes;
        lm_plan_free(at);
    }
    c.curves[c.n_curves++] = (lm_curve){ _("weights"), weights, false };
    c.curves[c.n_curves++] = (lm_curve){ _("cache"), kv, false };
    c.curves[c.n_curves++] = (lm_curve){ _("scratch"), scratch, false };
    draw_chart(d, &c);
}

void lm_draw_flops_growth(lm_drawing *d)
{
    double   x[MAX_POINTS], matmul[MAX_POINTS], scores[MAX_POINTS];
    uint32_t n = contexts(d->f, x);
    lm_chart c = { .title = _("operations of a token by context"),
                   .x_title = _("keys that the token sees"),
                   .y_title = _("operations"),
                   .x_unit = LM_UNIT_TOKENS,
                   .y_unit = LM_UNIT_FLOPS,
                   .n = n,
                   .x = x,
                   .stacked = true };

    for (uint32_t i = 0; i < n; i++) {
        scores[i] = lm_facts_number(d->f, "flops.at[%" PRIu64 "].scores", (uint64_t)x[i]);
        matmul[i] = lm_facts_number(d->f, "flops.at[%" PRIu64 "].total", (uint64_t)x[i]) - scores[i];
    }
    if (n < 2) {
        d->missing = too_few(n);
        return;
    }
    c.curves[c.n_curves++] = (lm_curve){ _("products with weights"), matmul, false };
    c.curves[c.n_curves++] = (lm_curve){ _("scores and weighted sums"), scores, false };
    draw_chart(d, &c);
}

/* ---- roofline ---- */

enum { ROOF_STEPS = 32, ROOF_POINTS = ROOF_STEPS + 8, PEAKS = 4 };

static const char *const peak_names[PEAKS] = { "int8", "f16", "bf16", "f32" };

static double peak_of(lm_drawing *d, uint32_t k)
{
    return lm_facts_has(d->f, "speed.%s", peak_names[k]) ? lm_facts_number(d->f, "speed.%s", peak_names[k])
                                                         : 0;
}

static void add_mark(lm_drawing *d, lm_chart *c, const char *name, const char *path)
{
    if (!lm_facts_has(d->f, "speed.%s.seconds", path))
        return;
    double bytes = lm_facts_number(d->f, "speed.%s.bytes", path),
           seconds = lm_facts_number(d->f, "speed.%s.seconds", path);
    double operations = lm_facts_number(d->f, "speed.%s.operations", path);

    if (bytes > 0 && seconds > 0 && operations > 0)
        c->points[c->n_points++] = (lm_chart_point){ name, operations / bytes, operations / seconds };
}

/* Choose ascending intensities, including the corners of the roofs. */
static uint32_t intensities(lm_drawing *d, double memory, double x[ROOF_POINTS])
{
    double   low = 0.125, high = 8192;
    uint32_t n = 0;

    for (uint32_t i = 0; i <= ROOF_STEPS; i++)
        x[n++] = low * pow(high / low, i / (double)ROOF_STEPS);
    for (uint32_t k = 0; k < PEAKS; k++) {
        double corner = peak_of(d, k) / memory;
        if (!(corner > low && corner < high))
            continue;
        uint32_t at = n++;
        for (; at && x[at - 1] > corner; at--)
            x[at] = x[at - 1];
        x[at] = corner;
    }
    return n;
}

void lm_draw_roofline(lm_drawing *d)
{
    double   x[ROOF_POINTS], roof[PEAKS][ROOF_POINTS];
    double   memory = lm_facts_has(d->f, "speed.memory") ? lm_facts_number(d->f, "speed.memory") : 0;
    lm_chart c = { .title = _("what limits speed"),
                   .x_title = _("operations per byte read"),
                   .y_title = _("operations a second"),
                   .x_unit = LM_UNIT_RATIO,
                   .y_unit = LM_UNIT_FLOPS_PER_SECOND,
                   .x = x,
                   .log_x = true,
                   .log_y = true };

    if (memory <= 0) {
        d->missing = _("this machine has not been measured");
        return;
    }
    c.n = intensities(d, memory, x);
    for (uint32_t k = 0; k < PEAKS; k++) {
        double peak = peak_of(d, k);
        if (peak <= 0)
            continue;
        for (uint32_t i = 0; i < c.n; i++)
            roof[k][i] = fmin(peak, memory * x[i]);
        c.curves[c.n_curves++] = (lm_curve){ peak_names[k], roof[k], false };
    }
    add_mark(d, &c, _("generation"), "generation");
    add_mark(d, &c, _("prompt of 512 tokens"), "prompt");
    if (!c.n_curves || !c.n_points)
        d->missing = _("the limits of this machine are unknown");
    else
        draw_chart(d, &c);
}
