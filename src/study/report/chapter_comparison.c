/* chapter_comparison.c - models side by side, the interpretation of their design, the timeline. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/compare/comparison.h"
#include "study/draw/chart.h"
#include "study/facts/figure.h"
#include "study/report/chapters.h"
#include "base/number.h"

/* ---- tables: a column per model ---- */

static void put_value(lm_doc_table *t, lm_comparison *c, const lm_comparison_row *r, size_t i)
{
    const lm_compared *x = &r->value[i];

    if (x->word || !x->fact) {
        lm_cell(t, lm_compared_text(c, x));
        return;
    }
    if (x->fact->kind == LM_FACT_COUNT)
        lm_cell_count(t, LM_EXACT, x->fact->unit, x->fact->count);
    else if (x->fact->kind == LM_FACT_NUMBER)
        lm_cell_number(t, x->fact->number, x->fact->unit, "");
    else
        lm_cell(t, "");
    lm_doc_cell *cell = &t->last->cells[t->last->n - 1];
    cell->text        = lm_doc_strdup(t->d, lm_compared_text(c, x));
    cell->path        = r->path;
}

static void put_change(lm_doc_table *t, const lm_comparison_row *r)
{
    double ratio;
    char   text[64];

    if (!lm_compared_change(r, &ratio)) {
        lm_cell(t, r->same ? _("same") : "");
        return;
    }
    lm_print(text, sizeof text, "×%.3g, %+.1f %%", ratio, 100 * (ratio - 1));
    lm_cell_number(t, ratio, LM_UNIT_RATIO, text);
}

static lm_doc_table *table_of(lm_document *d, const char *id)
{
    lm_comparison *c = lm_shared(d)->comparison;
    lm_doc_table  *t = lm_doc_table_of(d, id, NULL, "l", "");

    for (size_t i = 0; i < c->n; i++)
        lm_doc_column_of(t, c->name[i], true, c->models[i]);
    if (c->n == 2)
        lm_doc_column_of(t, _("change"), true, NULL);
    return t;
}

/* Add the rows of a section; returns whether a row is a judgement by a rule. */
static bool write_rows(lm_document *d, lm_doc_table *t, const lm_comparison_section *s)
{
    lm_comparison *c = lm_shared(d)->comparison;
    bool           qualitative = false;

    for (uint32_t r = s->first; r < s->end; r++) {
        lm_next_row(t)->same = c->rows[r].same;
        lm_cellf(t, c->rows[r].rule ? "%s †" : "%s", _(c->rows[r].label));
        for (size_t i = 0; i < c->n; i++)
            put_value(t, c, &c->rows[r], i);
        if (c->n == 2)
            put_change(t, &c->rows[r]);
        qualitative |= c->rows[r].rule != NULL;
    }
    return qualitative;
}

/* Add the forms of blocks and the models that use them (O-27). */
static void write_blocks(lm_document *d)
{
    lm_comparison *c = lm_shared(d)->comparison;
    lm_doc_table *t = lm_doc_table_of(d, "blocks", _("Forms of blocks"), "lll", _("norms"),
                                      _("a branch of a layer"), _("models"));

    for (size_t i = 0; i < c->n; i++) {
        const char *place = lm_compare_text(c, i, "architecture.norm_position");
        const char *names = lm_compare_sharing(c, i, "architecture.norm_position");
        const char *form  = lm_norm_form(c->traits[i].norm_position);
        if (!names)
            continue;
        lm_next_row(t);
        lm_cell(t, _(place));
        lm_cell_math(t, form, form);
        lm_cell(t, names);
    }
}

/* ---- sizes: bars, and the caches of all models in one chart ---- */

/* Return the shortest context: beyond it, not all models have a cache. 0: no context is known. */
static uint64_t shortest_context(const lm_comparison *c)
{
    uint64_t max = UINT64_MAX;

    for (size_t i = 0; i < c->n; i++) {
        uint64_t context = lm_compare_count(c, i, "architecture.context");
        max             = context && context < max ? context : max;
    }
    return max == UINT64_MAX ? 0 : max;
}

/* Values that differ by more than this have a logarithmic axis: on a linear one the smallest would not be
 * visible. */
enum { LINEAR_SPAN = 20 };

/* An axis of bars. `from` 0: linear. */
typedef struct scale { double from, to; } scale;

/* Return the axis for one quantity of every model: of shares the whole, else the largest value, and from a
 * power of ten that is at most half of the smallest if the values differ much. */
static scale scale_of(const lm_comparison *c, const char *path, double whole)
{
    double min = INFINITY, max = whole;

    for (size_t i = 0; i < c->n && whole == 0; i++) {
        double v = lm_facts_number(c->models[i], "%s", path);
        max     = fmax(max, v);
        min    = fmin(min, v);
    }
    bool even = whole > 0 || min <= 0 || max <= LINEAR_SPAN * min;
    return (scale){ even ? 0 : pow(10, floor(log10(min / 2))), max };
}

static double length_of(const scale *s, double v)
{
    return s->to <= 0 ? 0 : s->from > 0 ? log(v / s->from) / log(s->to / s->from) : v / s->to;
}

/* Add one quantity of every model; the last bar says if the axis is logarithmic. */
static void write_bar(lm_document *d, lm_doc_table *t, const char *label, const char *path, double whole)
{
    lm_comparison *c = lm_shared(d)->comparison;
    scale          s = scale_of(c, path, whole);
    char           from[LM_DOC_FIGURE];

    if (t->first)
        lm_gap_row(t);
    for (size_t i = 0; i < c->n; i++) {
        lm_next_row(t);
        lm_cell(t, i ? "" : label);
        lm_cell(t, c->name[i]);
        lm_cell_fact_of(t, LM_PLAIN, c->models[i], path);
        t->last->cells[2].path = NULL;           /* its column is not that of a model */
        lm_cell_bar(t, length_of(&s, lm_facts_number(c->models[i], "%s", path)), (uint32_t)i + 1);
    }
    if (s.from > 0) {
        const lm_doc_cell *last = &t->last->cells[2];
        lm_doc_number_text(from, last->unit == LM_UNIT_PARAMETERS ? LM_SHORT : LM_PLAIN, last->unit, s.from);
        t->last->cells[3].text = lm_doc_printf(d, _("logarithmic from %s"), from);
    }
}

static void write_bars(lm_document *d)
{
    static const struct { const char *label, *path; double whole; } sizes[] = {
        { N_("parameters"), "parameters.total", 0 },
        { N_("active per token"), "parameters.active", 0 },
        { N_("share of the embedding"), "parameters.shares.embedding", 100 },
        { N_("share of attention"), "parameters.shares.attention", 100 },
        { N_("share of the MLP"), "parameters.shares.mlp", 100 },
        { N_("weights as Q4_K_M"), "weights.as.Q4_K_M.bytes", 0 },
        { N_("operations per token"), "flops.per_token_matmul", 0 },
    };
    lm_doc_table *t     = lm_doc_table_of(d, "compare-bars", NULL, "llrl", "", "", "", "");
    uint64_t      max  = shortest_context(lm_shared(d)->comparison), at[] = { 4096, 32768 };
    char          tokens[LM_FIG];

    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        write_bar(d, t, _(sizes[k].label), sizes[k].path, sizes[k].whole);
    for (size_t k = 0; k < 2 && max; k++) {
        uint64_t n = at[k] < max ? at[k] : max;
        if (k == 0 || n > at[0])
            write_bar(d, t, lm_doc_printf(d, _("cache at %s tokens"), lm_fig_count(tokens, n)),
                      lm_doc_printf(d, "kv.at[%" PRIu64 "].bytes", n), 0);
    }
}

static bool draw_chart(const void *chart, const char *name, lm_text *out)
{
    lm_chart_svg(chart, name, false, out);
    return true;
}

enum { EVEN_STEPS = 16, MAX_STEPS = EVEN_STEPS + 2, FIRST = 16 };

/* Choose ascending positions up to `max`: even steps or, for two logarithmic axes, which show linear growth
 * as a line as well, doublings. Returns their number. */
static uint32_t choose_positions(uint64_t max, bool doubling, double *out)
{
    uint64_t step = 1, at[MAX_STEPS];
    uint32_t n = 0, k = 0;

    for (uint64_t p = max; doubling && n + 1 < MAX_STEPS && p >= FIRST; p /= 2)
        at[n++] = p;
    while (k < n) {
        out[k] = (double)at[n - 1 - k];
        k++;
    }
    if (n > 1)
        return n;
    while (step * EVEN_STEPS < max)
        step *= 2;
    n        = 0;
    out[n++] = 1;
    for (uint64_t p = step > 1 ? step : 2; p < max; p += step)
        out[n++] = (double)p;
    out[n++] = (double)max;
    return n;
}

/* Add curves up to the shortest context: beyond it, not all models have a cache. */
static void write_curves(lm_document *d)
{
    lm_comparison *c    = lm_shared(d)->comparison;
    uint64_t       max = shortest_context(c);
    lm_chart      *x    = lm_arena_new(&d->arena, 1, lm_chart);
    double        *v    = lm_arena_new(&d->arena, (LM_CURVES + 1) * MAX_STEPS, double);
    lm_text        text = { 0 }, mermaid = { 0 };

    d->failed |= !x || !v;
    if (!x || !v || c->n > LM_CURVES || max < 2)
        return;
    bool logs = scale_of(c, lm_doc_printf(d, "kv.at[%" PRIu64 "].bytes", max), 0).from > 0;
    *x = (lm_chart){ .title = _("the cache by context"),
                     .x_title = _("positions of the context"),
                     .y_title = _("bytes of the cache"),
                     .x_unit = LM_UNIT_TOKENS,
                     .y_unit = LM_UNIT_BYTES,
                     .n = choose_positions(max, logs, v),
                     .x = v,
                     .log_x = logs,
                     .log_y = logs };
    for (size_t i = 0; i < c->n; i++) {
        double *y = v + (i + 1) * MAX_STEPS;
        for (uint32_t k = 0; k < x->n; k++)
            y[k] = lm_facts_number(c->models[i], "kv.at[%" PRIu64 "].bytes", (uint64_t)v[k]);
        x->curves[x->n_curves++] = (lm_curve){ c->name[i], y, false };
    }
    lm_chart_text(c->models[0], x, d->lines, &text);
    lm_chart_mermaid(x, &mermaid);
    d->failed |= text.failed || mermaid.failed;
    lm_block *b = lm_doc_figure_of(d, "kv-curves", "O-17", _("Bytes of the cache by context"), text.data,
                                   mermaid.data);
    if (b->kind == LM_BLOCK_FIGURE) {
        b->figure.draw    = draw_chart;
        b->figure.subject = x;
    }
    lm_text_free(&text);
    lm_text_free(&mermaid);
}

static void write_sizes(lm_document *d)
{
    lm_doc_open(d, "compare-sizes", "O-12, O-17, O-18", _("Sizes at a glance"));
    write_bars(d);
    write_curves(d);
    lm_doc_close(d);
}

/* ---- interpretation ---- */

static void write_readings(lm_document *d)
{
    const lm_comparison *c = lm_shared(d)->comparison;

    lm_doc_note(d, _("Qualitative; derived by rules from the figures of this report."));
    for (uint32_t i = 0; i < c->n_readings; i++)
        lm_doc_item_of(d, '-', c->readings[i].text);
}

/* ---- history ---- */

static bool draw_timeline(const void *comparison, const char *name, lm_text *out)
{
    return lm_svg_timeline(comparison, name, out);
}

static bool draw_trends(const void *comparison, const char *name, lm_text *out)
{
    return lm_svg_trends(comparison, name, out);
}

static void figure_of(lm_document *d, const char *name, const char *output, const char *caption)
{
    lm_text text = { 0 }, mermaid = { 0 };
    bool   timeline = strcmp(name, "timeline") == 0;

    (timeline ? lm_compare_timeline_text : lm_compare_trends_text)(lm_shared(d)->comparison, 0, &text);
    (timeline ? lm_compare_timeline_mermaid : lm_compare_trends_mermaid)(lm_shared(d)->comparison, &mermaid);
    d->failed |= text.failed || mermaid.failed;
    lm_block *b = lm_doc_figure_of(d, name, output, caption, text.data, mermaid.data);
    if (b->kind == LM_BLOCK_FIGURE) {
        b->figure.draw    = timeline ? draw_timeline : draw_trends;
        b->figure.subject = lm_shared(d)->comparison;
    }
    lm_text_free(&text);
    lm_text_free(&mermaid);
}

static void write_events(lm_document *d)
{
    const lm_comparison *c = lm_shared(d)->comparison;
    lm_doc_table *t = lm_doc_table_of(d, "events", NULL, "lllllll", _("month"), _("model"), _("attention"),
                                      _("MLP"), _("norm"), _("position"), _("source"));

    for (uint32_t i = 0; i < c->n_events; i++) {
        const lm_publication *e = &c->events[i];
        lm_next_row(t);
        lm_cell(t, e->date);
        lm_cellf(t, e->published ? "%s ‡" : lm_event_stands_out(c, e) ? "▶ %s" : "%s", e->title);
        lm_cell(t, _(e->attention));
        lm_cell(t, _(e->mlp));
        lm_cell(t, _(e->norm));
        lm_cell(t, _(e->position));
        lm_cell(t, e->source);
    }
    lm_doc_note(d, _("‡ as published; all others derived from the program"));
}

static void write_history(lm_document *d)
{
    if (!lm_shared(d)->comparison->n_events)
        return;
    lm_doc_open(d, "timeline", "O-38", _("Timeline"));
    figure_of(d, "timeline", "O-38", _("Models by the month of their first publication"));
    lm_doc_fold(d, "events-list", _("Every model"));
    write_events(d);
    lm_doc_close(d);
    lm_doc_close(d);
    lm_doc_open(d, "trends", "O-39", _("Trends"));
    figure_of(d, "trends", "O-39", _("First of these models with each feature"));
    lm_doc_close(d);
}

/* ---- suitability: by rule, with the numbers that the rule uses ---- */

static void write_sequences(lm_document *d)
{
    lm_facts *f     = d->facts;
    double cache = lm_facts_number(f, "kv.bytes_at_context"),
           weights = lm_facts_number(f, "weights.as.Q4_K_M.bytes");
    char      a[LM_FIG], b[LM_FIG], c[LM_FIG];

    if (cache <= 0)
        return;
    lm_fig_count(a, lm_facts_count(f, "kv.context"));
    lm_fig_size(b, cache);
    lm_fig_size(c, weights);
    if (cache > weights)
        lm_doc_itemf(d, '!',
                     _("At %s tokens the cache takes %s, more than the weights as Q4_K_M (%s): memory limits "
                       "long contexts and many sequences."),
                     a, b, c);
    else
        lm_doc_itemf(d, '+', _("At %s tokens the cache takes %s, less than the weights as Q4_K_M (%s)."), a,
                     b, c);
}

static void write_rate(lm_document *d)
{
    lm_facts *f = d->facts;
    uint64_t  total = lm_facts_count(f, "parameters.total"), active = lm_facts_count(f, "parameters.active");
    char      a[LM_FIG], b[LM_FIG];

    if (active < total)
        lm_doc_itemf(
            d, '+',
            _("%s of %s parameters are active per token: if all fit into memory, it generates as fast "
              "as a dense model of that size."),
            lm_fig_short(a, (double)active), lm_fig_short(b, (double)total));
    if (lm_facts_truth(f, "architecture.context_is_hard"))
        lm_doc_itemf(d, '!', _("The position table has %s entries: longer texts must be truncated."),
                     lm_fig_count(a, lm_facts_count(f, "architecture.context")));
}

static bool compare(lm_document *d, lm_facts *const *models, size_t n);

void lm_chapter_reading(lm_document *d)
{
    if (d->n_models == 1 && !lm_shared(d)->comparison)
        return;
    lm_doc_open(d, "reading", "O-41", _("Reading the design"));
    if (d->n_models == 1 && lm_shared(d)->comparison->n_readings) {
        lm_doc_open(d, "design", "O-41", _("What stands out"));
        write_readings(d);
        lm_doc_close(d);
    }
    lm_doc_open(d, "suits", "O-41", _("Suitability"));
    lm_doc_note(d,
                _("Derived by rules from sizes alone (qualitative); training and task are not considered."));
    write_sequences(d);
    write_rate(d);
    lm_doc_close(d);
    lm_doc_close(d);
}

void lm_chapter_history(lm_document *d)
{
    if (!lm_shared(d)->comparison || d->status != LM_OK)
        return;
    d->status = lm_compare_milestones(lm_shared(d)->comparison, &d->error);
    lm_doc_open(d, "history", NULL, _("Publication history"));
    write_history(d);
    lm_doc_drop_empty(d);
}

/* ---- chapters ---- */

static bool compare(lm_document *d, lm_facts *const *models, size_t n)
{
    lm_comparison_free(lm_shared(d)->comparison);
    lm_shared(d)->comparison = NULL;
    if (d->status == LM_OK)
        d->status = lm_comparison_new(models, n, &lm_shared(d)->comparison, &d->error);
    return d->status == LM_OK;
}

void lm_compare_one(lm_document *d)
{
    if (d->n_models == 1)
        compare(d, d->models, 1);
}

/* The summary is the last section. */
static void write_summary(lm_document *d)
{
    const lm_comparison         *c = lm_shared(d)->comparison;
    const lm_comparison_section *s = &c->sections[c->n_sections - 1];

    lm_doc_open(d, "compare-summary", s->output, _(s->title));
    write_rows(d, table_of(d, "compare-summary-table"), s);
    lm_doc_close(d);
}

/* Add every other section as a group of one table, so that the columns of all sections are aligned. */
static void write_values(lm_document *d)
{
    const lm_comparison *c = lm_shared(d)->comparison;
    const char          *outputs = NULL, *note;
    bool                 qualitative = false;

    for (uint32_t i = 0; i + 1 < c->n_sections; i++)
        if (c->sections[i].output)
            outputs = outputs ? lm_doc_printf(d, "%s, %s", outputs, c->sections[i].output)
                              : c->sections[i].output;
    lm_doc_open(d, "compare-values", outputs, _("Value by value"));
    lm_doc_table *t = table_of(d, "compare-values-table");
    for (uint32_t i = 0; i + 1 < c->n_sections; i++) {
        const lm_comparison_section *s = &c->sections[i];
        if (i)
            lm_gap_row(t);
        lm_group_row(t, lm_doc_printf(d, "compare-%s", s->name), _(s->title));
        qualitative |= write_rows(d, t, s);
    }
    if (qualitative)
        lm_doc_note(d, _("† qualitative, derived by a rule"));
    lm_doc_note(d,
                _("A window caches only the visible keys; a latent is cached instead of keys and values."));
    for (uint32_t i = 0; i + 1 < c->n_sections; i++)
        for (size_t k = 0; (note = lm_compare_note(lm_shared(d)->comparison, &c->sections[i], k)); k++)
            lm_doc_note(d, note);
    write_blocks(d);
    lm_doc_close(d);
}

void lm_chapter_comparison(lm_document *d)
{
    if (!compare(d, d->models, d->n_models))
        return;
    lm_doc_open(d, "comparison", "O-10, O-11, O-28", _("Side by side"));
    write_summary(d);
    write_sizes(d);
    write_values(d);
    lm_doc_open(d, "design-reading", "O-11, O-41", _("Reading"));
    write_readings(d);
    lm_doc_close(d);
    if (d->status == LM_OK)
        d->status = lm_compare_milestones(lm_shared(d)->comparison, &d->error);
    write_history(d);
    lm_doc_close(d);
}
