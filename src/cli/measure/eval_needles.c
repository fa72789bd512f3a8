/* eval_needles.c - find a number hidden in a long text, per length and place. */
#include <stdlib.h>
#include <string.h>

#include "cli/base/interrupt.h"
#include "cli/base/prompt.h"
#include "cli/measure/eval.h"

enum { MAX_STEPS = 64, SEQUENCES = 4 };

typedef struct grid {
    uint32_t lengths[MAX_STEPS];
    double   depths[MAX_STEPS];
    size_t   n_lengths, n_depths;
    uint32_t found[MAX_STEPS * MAX_STEPS];
    double   shares[MAX_STEPS * MAX_STEPS];
} grid;

/* "512,1024,8k" */
static lm_status read_list(const char *text, const char *flag, double max, double *out, size_t *n,
                           lm_error *e)
{
    *n = 0;
    for (const char *at = text; *at;) {
        char  *end;
        double x = strtod(at, &end);
        if (end > at && (*end == 'k' || *end == 'K')) {
            x *= 1024;
            end++;
        }
        if (end == at || (*end && *end != ',') || !(x >= 0 && x <= max) || *n == MAX_STEPS)
            return lm_fail(e, LM_USAGE, flag, LM_NO_OFFSET,
                           "\"%s\" is not a list of at most %d numbers from 0 to %g", text, MAX_STEPS, max);
        out[(*n)++] = x;
        at = *end ? end + 1 : end;
    }
    return *n ? LM_OK : lm_fail(e, LM_USAGE, flag, LM_NO_OFFSET, "an empty list");
}

static lm_status read_lists(const lm_eval_flags *o, grid *g, uint32_t *longest, lm_error *e)
{
    double lengths[MAX_STEPS];

    LM_TRY(read_list(o->lengths ? o->lengths : "512,1024,2048", "--lengths", 1e8, lengths, &g->n_lengths, e));
    LM_TRY(read_list(o->depths ? o->depths : "0,25,50,75,100", "--depths", 100, g->depths, &g->n_depths, e));
    *longest = 0;
    for (size_t i = 0; i < g->n_lengths; i++) {
        g->lengths[i] = (uint32_t)lengths[i];
        *longest      = g->lengths[i] > *longest ? g->lengths[i] : *longest;
    }
    for (size_t i = 0; i < g->n_depths; i++)
        g->depths[i] /= 100;
    return LM_OK;
}

/* ---- output: rows are places, columns lengths ---- */

static void show_grid(lm_evaluation *v, const grid *g)
{
    lm_text_printf(&v->page, "\n%8s", "place");
    lm_text_add_str(&v->csv, "length,depth,samples,found\n");
    for (size_t i = 0; i < g->n_lengths; i++)
        lm_text_printf(&v->page, " %7u", g->lengths[i]);
    for (size_t k = 0; k < g->n_depths; k++) {
        lm_text_printf(&v->page, "\n%6.0f %%", 100 * g->depths[k]);
        for (size_t i = 0; i < g->n_lengths; i++)
            lm_text_printf(&v->page, " %5.0f %%", 100 * g->shares[k * g->n_lengths + i]);
    }
    lm_text_add_char(&v->page, '\n');
}

static void show(lm_evaluation *v, grid *g, uint32_t samples)
{
    json_t  *cells = json_array();
    uint64_t all = 0, n = g->n_lengths * g->n_depths * samples;

    show_grid(v, g);
    for (size_t i = 0; i < g->n_lengths; i++)
        for (size_t k = 0; k < g->n_depths; k++) {
            uint32_t found = g->found[i * g->n_depths + k];
            all += found;
            lm_text_printf(&v->csv, "%u,%g,%u,%u\n", g->lengths[i], g->depths[k], samples, found);
            json_array_append_new(cells, json_pack("{s:I, s:f, s:I}", "length", (json_int_t)g->lengths[i],
                                                   "depth", g->depths[k], "found", (json_int_t)found));
        }
    lm_text_add_char(&v->page, '\n');
    json_object_set_new(v->document, "samples", json_integer(samples));
    json_object_set_new(v->document, "cells", cells);
    lm_eval_figure(v, "found", "found", (double)all / (double)n, "%llu of %llu", (unsigned long long)all,
                   (unsigned long long)n);
}

static lm_status search(lm_evaluation *v, grid *g, const char *filler, lm_error *e)
{
    uint32_t          longest;
    lm_engine_options engine;
    lm_needle_options o = { .samples = v->o->samples ? v->o->samples : 4,
                            .predict = v->o->predict,
                            .filler = filler,
                            .seed = v->o->seed,
                            .state = v->o->state,
                            .progress = lm_eval_progress,
                            .progress_arg = v };

    LM_TRY(read_lists(v->o, g, &longest, e));
    o.lengths   = g->lengths;
    o.n_lengths = g->n_lengths;
    o.depths    = g->depths;
    o.n_depths  = g->n_depths;
    LM_TRY(lm_eval_engine(v, v->model, v->o->run.context > 0 ? (uint32_t)v->o->run.context : longest,
                          SEQUENCES, SEQUENCES, &engine, e));
    LM_TRY(lm_start_engine(v->model, &engine, &v->engine, e));
    lm_interrupt_watch(v->engine);
    v->bar           = lm_progress_start("searching");
    lm_status status = lm_eval_needle(v->engine, &o, g->found, e);
    lm_progress_end(&v->bar);
    LM_TRY(status);
    for (size_t i = 0; i < g->n_lengths; i++)
        for (size_t k = 0; k < g->n_depths; k++)
            g->shares[k * g->n_lengths + i] = (double)g->found[i * g->n_depths + k] / (double)o.samples;
    show(v, g, o.samples);
    return LM_OK;
}

lm_status lm_evaluate_needles(lm_evaluation *v, lm_error *e)
{
    lm_text   filler = { 0 };
    grid     *g      = lm_store_new(&v->cli->store, 1, grid);
    lm_status status = g ? LM_OK : lm_fail_memory(e, "a grid", sizeof *g);

    if (status == LM_OK && v->o->file)
        status = lm_read_text(v->o->file, &filler, e);
    if (status == LM_OK)
        status = search(v, g, v->o->file ? filler.data ? filler.data : "" : NULL, e);
    lm_text_free(&filler);
    return status;
}
