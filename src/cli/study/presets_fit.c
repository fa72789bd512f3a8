/* presets_fit.c - lamina presets --fits: the published models that a machine can run, and how fast. */
#include "cli/run/presets_fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/cell_table.h"
#include "cli/base/output.h"
#include "cli/study/fit_page.h"
#include "lamina/preset.h"

/* The precision that most people download, and the rate at which a reader does not wait for the text. */
static const char PRECISION[] = "Q4_K_M";
enum { CONTEXT = 8192, READING_RATE = 8 };

/* One line of the table. */
typedef struct candidate {
    const json_t *row;
    lm_fit        fit;
} candidate;

static const lm_fit_row *only_row(const candidate *c)
{
    return &c->fit.rows[0];
}

static lm_status find_machine(const lm_presets_options *o, lm_fit_place *at, lm_fit_options *fit, lm_error *e)
{
    *at  = (lm_fit_place){ .here = !o->device };
    *fit = (lm_fit_options){ .precision = PRECISION, .sizes_only = true };
    if (o->device) {
        LM_TRY(lm_device_find(o->device, &at->device, e));
        fit->device = at->device;
        return LM_OK;
    }
    LM_TRY(lm_machine_measure(&(lm_measure_options){ 0 }, &at->limits, e));
    fit->limits = lm_limits_usable(&at->limits);
    return LM_OK;
}

static lm_status measure(const lm_presets_options *o, lm_fit_options *fit, candidate *c, lm_error *e)
{
    char          name[128];
    lm_model     *m = NULL;
    lm_model_info info;

    snprintf(name, sizeof name, LM_PRESET_PREFIX "%s", json_string_value(json_object_get(c->row, "name")));
    LM_TRY(lm_model_open(name, &(lm_model_options){ .structure_only = true }, &m, e));
    lm_model_describe(m, &info);
    uint64_t context    = o->context ? o->context : CONTEXT;
    fit->engine.context = (uint32_t)(info.context_length && context > info.context_length
                                     ? info.context_length : context);
    lm_status status = lm_fit_model(m, fit, &c->fit, e);
    lm_model_close(m);
    fit->memory = c->fit.memory;             /* the same for all */
    return status;
}

static int64_t parameters(const candidate *c)
{
    return json_integer_value(json_object_get(c->row, "parameters"));
}

/* Fast ones before slow ones; among them the largest first. */
static int by_use(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    bool fast = only_row(x)->token.rate >= READING_RATE, other = only_row(y)->token.rate >= READING_RATE;

    if (fast != other)
        return fast ? -1 : 1;
    return (parameters(x) < parameters(y)) - (parameters(x) > parameters(y));
}

static void add_row(const candidate *c, lm_cell_table *g)
{
    const lm_fit_row *r = only_row(c);
    const char *name = json_string_value(json_object_get(c->row, "name"));
    int64_t active = json_integer_value(json_object_get(c->row, "active"));
    char all[LM_FORMATTED], used[LM_FORMATTED], total[LM_FORMATTED], left[LM_FORMATTED],
        context[LM_FORMATTED], token[LM_FORMATTED], prompt[LM_FORMATTED];

    lm_cell_table_row(g, name, lm_format_count(all, (uint64_t)parameters(c)),
                      active == parameters(c) ? "" : lm_format_count(used, (uint64_t)active),
                      lm_format_bytes(total, r->total), lm_format_bytes(left, c->fit.memory - r->total),
                      r->tight ? _("tight") : "", lm_format_count(context, c->fit.context),
                      lm_fit_rate(token, r->token.rate), lm_fit_rate(prompt, r->prompt.rate));
}

/* Append the candidates that fit. Return their number. */
static size_t add_fitting(const candidate *all, size_t n, lm_cell_table *g)
{
    size_t fast = 0, fitting = 0;

    for (size_t i = 0; i < n; i++) {
        if (!only_row(&all[i])->fits)
            continue;
        bool slow = only_row(&all[i])->token.rate < READING_RATE;
        if (slow && fast && fast == fitting)
            lm_cell_table_line(g, "");
        add_row(&all[i], g);
        fast += !slow;
        fitting++;
    }
    return fitting;
}

static void add_page(lm_cli *cli, const lm_fit_place *at, candidate *all, size_t n, lm_text *page)
{
    lm_cell_table g = { .store = &cli->store, .align = "lrrrrlrrr", .indent = 2 };
    const lm_fit *f = &all[0].fit;
    char left[2 * LM_FIT_NAME], right[LM_FIT_NAME], place[LM_FIT_NAME];

    qsort(all, n, sizeof *all, by_use);
    lm_cell_table_row(&g, "", _("parameters"), _("active"), _("takes"), _("left"), "", _("context"),
                      _("generates"), _("reads"));
    size_t fitting = add_fitting(all, n, &g);
    snprintf(left, sizeof left, _("%s on %s"), PRECISION,
             lm_fit_place_name(at, f->memory + f->reserve, place));
    snprintf(right, sizeof right, _("fits %zu of %zu"), fitting, n);
    lm_fit_title(left, right, page);
    if (!fitting)
        return;
    lm_text_add_str(page, "\n");
    lm_cell_table_print(&g, page);
    lm_text_printf(page, "\n  %s\n",
                   _("generates  maximum tokens per second with the context full; reads: of a prompt of 512"));
    lm_text_printf(page, _("  order      at least %d tokens per second first, then the largest models first\n"),
                   READING_RATE);
    lm_fit_mark(at, page);
    lm_text_printf(page, "\n  %s\n", _("more       lamina fit NAME (context, precisions)"));
}

static void add_fit(const candidate *c, json_t *row)
{
    const lm_fit_row *r = only_row(c);

    json_object_set_new(row, "fit",
                        json_pack("{s:s, s:I, s:I, s:I, s:b, s:b, s:o, s:o}", "precision", r->precision,
                                  "context", (json_int_t)c->fit.context, "memory", (json_int_t)c->fit.memory,
                                  "total", (json_int_t)r->total, "fits", r->fits, "tight", r->tight,
                                  "generating", lm_fit_speed_json(&r->token),
                                  "reading", lm_fit_speed_json(&r->prompt)));
}

lm_status lm_presets_fit(lm_cli *cli, const lm_presets_options *o, json_t *rows, lm_error *e)
{
    lm_fit_place at;
    lm_fit_options fit;
    size_t n = json_array_size(rows), fitting = 0;
    candidate *all = lm_store_new(&cli->store, n, candidate);
    lm_status verdict = LM_OK;
    lm_text page = { 0 };

    if (!all)
        return lm_fail_memory(e, "presets", 0);
    LM_TRY(find_machine(o, &at, &fit, e));
    for (size_t i = 0; i < n; i++) {
        json_t *row = json_array_get(rows, i);
        all[i].row = row;
        LM_TRY(measure(o, &fit, &all[i], e));
        add_fit(&all[i], row);
        fitting += only_row(&all[i])->fits;
    }
    if (!fitting)
        verdict = lm_fail(e, LM_NO_FIT, "memory", LM_NO_OFFSET, "none of these models fits in %s", PRECISION);
    if (!cli->json)
        add_page(cli, &at, all, n, &page);
    lm_status status = cli->json ? lm_out_json(cli, json_incref(rows), e) : lm_out_buf(&page, e);
    lm_text_free(&page);
    return status == LM_OK ? verdict : status;
}
