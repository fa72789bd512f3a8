/* eval_speed.c - speed of prompt processing and of generation. */
#include <stdlib.h>

#include "base/os/clock.h"
#include "cli/base/interrupt.h"
#include "cli/measure/eval.h"

enum { CONTEXT = 512, PREDICT = 64, MAX_CHUNKS = 8 };

typedef struct timing { double reading[MAX_CHUNKS], writing[MAX_CHUNKS]; uint32_t n; } timing;

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *x, uint32_t n)
{
    qsort(x, n, sizeof *x, rising);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* Time a chunk, starting with an empty cache: first all but its last `predict` tokens as a prompt, then these
 * one by one, as in generation. */
static lm_status time_chunk(lm_evaluation *v, const lm_token *ids, uint32_t n, uint32_t predict, lm_row *rows,
                            timing *t, lm_error *e)
{
    uint32_t max = lm_engine_max_rows(v->engine), read = n - predict;

    LM_TRY(lm_engine_truncate(v->engine, 0, 0, e));
    double start = lm_clock_seconds();
    for (uint32_t at = 0, k; at < read; at += k) {
        k = read - at < max ? read - at : max;
        for (uint32_t i = 0; i < k; i++)
            rows[i] = (lm_row){ 0, ids[at + i], at + i, at + i + 1 == read };
        LM_TRY(lm_engine_step(v->engine, rows, k, e));
    }
    double middle = lm_clock_seconds();
    for (uint32_t i = 0; i < predict; i++)
        LM_TRY(lm_engine_step(v->engine, &(lm_row){ 0, ids[read + i], read + i, true }, 1, e));
    t->reading[t->n]   = (double)read / (middle - start);
    t->writing[t->n++] = (double)predict / (lm_clock_seconds() - middle);
    return LM_OK;
}

static void show(lm_evaluation *v, timing *t, uint32_t context, uint32_t predict)
{
    lm_text_add_str(&v->csv, "chunk,read_per_second,generated_per_second\n");
    for (uint32_t i = 0; i < t->n; i++)
        lm_text_printf(&v->csv, "%u,%.4f,%.4f\n", i, t->reading[i], t->writing[i]);
    json_object_set_new(v->document, "context", json_integer(context));
    json_object_set_new(v->document, "chunks", json_integer(t->n));
    json_object_set_new(v->document, "generated", json_integer(predict));
    json_object_set_new(v->document, "threads", json_integer(lm_engine_threads(v->engine)));
    json_object_set_new(v->document, "cpu", json_string(lm_engine_cpu(v->engine)));
    lm_eval_figure(v, "engine", NULL, 0, "%s, %u thread%s", lm_engine_cpu(v->engine),
                   lm_engine_threads(v->engine), lm_engine_threads(v->engine) == 1 ? "" : "s");
    lm_eval_figure(v, "chunks", NULL, 0, "%u of %u tokens, the last %u one by one", t->n, context, predict);
    double read = median(t->reading, t->n), written = median(t->writing, t->n);
    lm_eval_figure(v, "read", "read_per_second", read, "%.1f tokens per second (median)", read);
    lm_eval_figure(v, "generated", "generated_per_second", written, "%.1f tokens per second (median)",
                   written);
}

static lm_status time_text(lm_evaluation *v, uint32_t context, uint32_t predict, lm_error *e)
{
    lm_row  *rows   = lm_store_new(&v->cli->store, lm_engine_max_rows(v->engine), lm_row);
    uint32_t chunks = v->o->chunks ? v->o->chunks : 3;
    timing   t      = { .n = 0 };

    if (!rows)
        return lm_fail_memory(e, "rows", lm_engine_max_rows(v->engine) * sizeof *rows);
    v->bar = lm_progress_start("timing");
    lm_status status = LM_OK;
    for (uint32_t i = 0;
         i < chunks && t.n < MAX_CHUNKS && (uint64_t)(i + 1) * context <= v->ids.n && status == LM_OK; i++) {
        status = time_chunk(v, v->ids.ids + (size_t)i * context, context, predict, rows, &t, e);
        if (status == LM_OK && !lm_interrupt_progress(&v->bar, (double)(i + 1) / chunks))
            status = lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
    }
    lm_progress_end(&v->bar);
    LM_TRY(status);
    show(v, &t, context, predict);
    return LM_OK;
}

lm_status lm_evaluate_speed(lm_evaluation *v, lm_error *e)
{
    uint32_t          context = v->o->run.context > 0 ? (uint32_t)v->o->run.context : CONTEXT;
    uint32_t          predict = v->o->predict ? v->o->predict : PREDICT;
    lm_engine_options engine;

    if (v->o->state || v->o->base || v->o->save_logits)
        return lm_fail(e, LM_USAGE, v->kind, LM_NO_OFFSET,
                       "cannot be combined with --state, --base or --save-logits");
    if (predict >= context)
        return lm_fail(e, LM_USAGE, "--predict", LM_NO_OFFSET, "%u of a context of %u tokens", predict,
                       context);
    if (v->ids.n < context)
        return lm_fail(e, LM_USAGE, "--file", LM_NO_OFFSET, "%zu tokens; %u at least", v->ids.n, context);
    LM_TRY(lm_eval_engine(v, v->model, context, 1, 1, &engine, e));
    LM_TRY(lm_start_engine(v->model, &engine, &v->engine, e));
    lm_interrupt_watch(v->engine);
    return time_text(v, context, predict, e);
}
