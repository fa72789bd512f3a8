/* draw_charts.c - what grows with the context, and what limits speed. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analysis/chart.h"
#include "analysis/counts.h"
#include "analysis/page.h"

enum { MOST_POINTS = 24, FIRST_CONTEXT = 256 };

/* Powers of two up to the model's context, and that. */
static uint32_t contexts(lm_facts *f, double x[MOST_POINTS])
{
    uint64_t most = lm_facts_count(f, "architecture.context"), c = FIRST_CONTEXT;
    uint32_t n    = 0;

    for (; c < most && n + 1 < MOST_POINTS; c *= 2)
        x[n++] = (double)c;
    if (most)
        x[n++] = (double)most;
    return n;
}

void lm_draw_kv_growth(lm_drawing *d)
{
    double   x[MOST_POINTS], own[MOST_POINTS], mha[MOST_POINTS], whole[MOST_POINTS];
    uint32_t n = contexts(d->f, x);
    bool     windows = lm_facts_count(d->f, "attention.windowed_layers") > 0;
    lm_chart c = { .title = _("the cache by context"), .x_title = _("positions of the context"), .y_title = _("bytes of the cache"),
                   .x_unit = LM_UNIT_TOKENS, .y_unit = LM_UNIT_BYTES, .n = n, .x = x, .log_x = true };

    for (uint32_t i = 0; i < n; i++) {
        own[i]   = (double)lm_facts_count(d->f, "kv.at[%" PRIu64 "].bytes", (uint64_t)x[i]);
        whole[i] = (double)lm_facts_count(d->f, "kv.at[%" PRIu64 "].bytes_without_window", (uint64_t)x[i]);
        mha[i]   = (double)lm_facts_count(d->f, "kv.at[%" PRIu64 "].mha", (uint64_t)x[i]);
    }
    if (n < 2 || own[n - 1] <= 0) {
        d->missing = _("nothing is cached");
        return;
    }
    c.curves[c.n_curves++] = (lm_curve){ _("this model"), own, false };
    if (windows && whole[n - 1] > own[n - 1])
        c.curves[c.n_curves++] = (lm_curve){ _("without its windows"), whole, true };
    if (mha[n - 1] > whole[n - 1])
        c.curves[c.n_curves++] = (lm_curve){ _("with keys and values for every query head (MHA)"), mha, true };
    lm_draw_chart(d, &c);
}

void lm_draw_memory_growth(lm_drawing *d)
{
    double         x[MOST_POINTS], weights[MOST_POINTS], kv[MOST_POINTS], scratch[MOST_POINTS];
    uint32_t       n = contexts(d->f, x);
    const lm_plan *p;
    lm_chart       c = { .title = _("memory by context"), .x_title = _("positions of the context"), .y_title = _("bytes"),
                         .x_unit = LM_UNIT_TOKENS, .y_unit = LM_UNIT_BYTES, .n = n, .x = x, .log_x = true, .stacked = true };

    for (uint32_t i = 0; i < n; i++) {
        if (d->f->s.plan(d->f->s.arg, NULL, (uint64_t)x[i], d->f->s.batch, &p, NULL) != LM_OK) {
            d->missing = _("no plan can be made for it");
            return;
        }
        weights[i] = (double)(p->weight_bytes + p->mapped_bytes);
        kv[i]      = (double)p->kv_bytes;
        scratch[i] = (double)p->slab_bytes;
    }
    if (n < 2) {
        d->missing = _("its context is not known");
        return;
    }
    c.curves[c.n_curves++] = (lm_curve){ _("weights"), weights, false };
    c.curves[c.n_curves++] = (lm_curve){ _("cache"), kv, false };
    c.curves[c.n_curves++] = (lm_curve){ _("scratch"), scratch, false };
    lm_draw_chart(d, &c);
}

void lm_draw_flops_growth(lm_drawing *d)
{
    double   x[MOST_POINTS], matmul[MOST_POINTS], scores[MOST_POINTS];
    uint32_t n = contexts(d->f, x);
    lm_chart c = { .title = _("operations of a token by context"), .x_title = _("keys that the token sees"), .y_title = _("operations"),
                   .x_unit = LM_UNIT_TOKENS, .y_unit = LM_UNIT_FLOPS, .n = n, .x = x, .log_x = true, .stacked = true };

    for (uint32_t i = 0; i < n; i++) {
        scores[i] = (double)lm_facts_count(d->f, "flops.at[%" PRIu64 "].scores", (uint64_t)x[i]);
        matmul[i] = (double)lm_facts_count(d->f, "flops.at[%" PRIu64 "].total", (uint64_t)x[i]) - scores[i];
    }
    if (n < 2) {
        d->missing = _("its context is not known");
        return;
    }
    c.curves[c.n_curves++] = (lm_curve){ _("products with weights"), matmul, false };
    c.curves[c.n_curves++] = (lm_curve){ _("scores and weighted sums"), scores, false };
    lm_draw_chart(d, &c);
}

/* ---- roofline ---- */

static void add_mark(lm_drawing *d, lm_chart *c, const char *name, const char *path)
{
    if (!lm_facts_has(d->f, "speed.%s.seconds", path))
        return;
    double bytes = (double)lm_facts_count(d->f, "speed.%s.bytes", path), seconds = lm_facts_number(d->f, "speed.%s.seconds", path);
    double operations = (double)lm_facts_count(d->f, "speed.%s.operations", path);

    if (bytes > 0 && seconds > 0 && operations > 0)
        c->points[c->n_points++] = (lm_chart_point){ name, operations / bytes, operations / seconds };
}

enum { ROOF_STEPS = 32, ROOF_POINTS = ROOF_STEPS + 4 };

/* Rising intensities, the corners of the roofs among them. */
static uint32_t intensities(lm_drawing *d, const char *const *peaks, uint32_t n_peaks, double x[ROOF_POINTS])
{
    double   low = 0.125, high = 8192, memory = lm_facts_number(d->f, "speed.memory");
    uint32_t n = 0;

    for (uint32_t i = 0; i <= ROOF_STEPS; i++)
        x[n++] = low * pow(high / low, i / (double)ROOF_STEPS);
    for (uint32_t k = 0; k < n_peaks; k++) {
        double corner = lm_facts_number(d->f, "speed.%s", peaks[k]) / memory;
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
    static const char *const peaks[] = { "int8", "bf16", "f32" };
    double                   x[ROOF_POINTS], roof[3][ROOF_POINTS];
    lm_chart                 c = { .title = _("what limits speed"), .x_title = _("operations for each byte that is read"),
                                   .y_title = _("operations a second"), .x_unit = LM_UNIT_RATIO, .y_unit = LM_UNIT_FLOPS_PER_SECOND, .x = x,
                                   .log_x = true, .log_y = true };

    if (!lm_facts_truth(d->f, "speed.measured") && !lm_facts_has(d->f, "speed.device")) {
        d->missing = _("nobody has measured this machine: lamina doctor does");
        return;
    }
    double memory = lm_facts_number(d->f, "speed.memory");
    c.n           = intensities(d, peaks, 3, x);
    for (uint32_t k = 0; k < 3; k++) {
        double peak = lm_facts_number(d->f, "speed.%s", peaks[k]);
        if (!(peak > 0 && memory > 0))
            continue;
        for (uint32_t i = 0; i < c.n; i++)
            roof[k][i] = fmin(peak, memory * x[i]);
        c.curves[c.n_curves++] = (lm_curve){ peaks[k], roof[k], false };
    }
    add_mark(d, &c, _("generation"), "generation");
    add_mark(d, &c, _("prompt of 512 tokens"), "prompt");
    if (!c.n_curves || !c.n_points)
        d->missing = _("this machine's limits are not known");
    else
        lm_draw_chart(d, &c);
}
