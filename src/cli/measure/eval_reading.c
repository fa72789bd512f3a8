/* eval_reading.c - perplexity of a text, and divergence from another model on it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/interrupt.h"
#include "cli/base/prompt.h"
#include "cli/measure/eval.h"

enum { SEQUENCES = 4, LOGIT_ROWS = 256, CONTEXT = 512 };

/* --csv: the argument of on_token */
typedef struct token_table { lm_evaluation *v; bool kl; } token_table;

static bool on_chunk(void *arg, uint32_t done, uint32_t of, double perplexity)
{
    lm_evaluation *v = arg;

    lm_detail("%u of %u chunks, perplexity %.4f", done, of, perplexity);
    return lm_interrupt_progress(&v->bar, (double)done / (double)of);
}

static void on_token(void *arg, const lm_eval_token *t)
{
    token_table *c = arg;

    if (!c->v->o->csv)
        return;
    lm_text_printf(&c->v->csv, "%u,%llu,%d,%.9g", t->chunk, (unsigned long long)t->position, t->id,
                   t->logprob);
    if (c->kl)
        lm_text_printf(&c->v->csv, ",%.9g,%.9g,%d", t->base_logprob, t->kl, t->same_top);
    lm_text_add_char(&c->v->csv, '\n');
}

static lm_status options_of(lm_evaluation *v, token_table *c, lm_eval_text_options *o, lm_error *e)
{
    *o = (lm_eval_text_options){
        .rule = (lm_eval_rule)v->o->rule,
        .stride = v->o->stride,
        .chunks = v->o->chunks,
        .state = v->o->state,
        .save_logits = v->o->save_logits,
        .progress = on_chunk,
        .progress_arg = v,
        .token = on_token,
        .token_arg = c,
    };
    o->context = v->o->run.context > 0 ? (uint32_t)v->o->run.context : CONTEXT;
    /* If the tokenizer adds BOS before a text, it is the first token of each chunk. */
    if (v->o->bare || !lm_model_tokenizer(v->model))
        return LM_OK;
    return lm_added_bos(lm_model_tokenizer(v->model), &o->replace_first, &o->bos, e);
}

static lm_status start(const lm_evaluation *v, const lm_model *m, uint32_t context, lm_engine **out,
                       lm_error *e)
{
    lm_engine_options engine;

    LM_TRY(lm_eval_engine(v, m, context, SEQUENCES, LOGIT_ROWS, &engine, e));
    return lm_start_engine(m, &engine, out, e);
}

/* ---- output ---- */

static void show_rule(lm_evaluation *v, const lm_perplexity *p)
{
    json_object_set_new(v->document, "rule", json_string(p->stride ? "sliding" : "halves"));
    json_object_set_new(v->document, "context", json_integer(p->context));
    json_object_set_new(v->document, "stride", p->stride ? json_integer(p->stride) : json_null());
    json_object_set_new(v->document, "chunks", json_integer(p->chunks));
    json_object_set_new(v->document, "tokens", json_integer((json_int_t)p->tokens));
    if (p->stride)
        lm_eval_figure(v, "rule", NULL, 0, "sliding window of %u tokens, stride %u", p->context, p->stride);
    else
        lm_eval_figure(v, "rule", NULL, 0,
                       p->chunks == 1 ? "second half of %u chunk of %u tokens"
                                      : "second halves of %u chunks of %u tokens",
                       p->chunks, p->context);
    lm_eval_figure(v, "tokens scored", NULL, 0, "%llu", (unsigned long long)p->tokens);
}

static void show_perplexity(lm_evaluation *v, const lm_perplexity *p)
{
    show_rule(v, p);
    lm_eval_figure(v, "perplexity", "perplexity", p->perplexity, "%.4f ± %.4f", p->perplexity, p->error);
    lm_eval_figure(v, "mean -log p", "nll", p->nll, "%.5f nats, %.5f bits a token", p->nll, p->nll / log(2));
    json_object_set_new(v->document, "stderr", lm_json_finite(p->error));
}

static void add_members(lm_evaluation *v, const lm_kl_figures *f)
{
    const struct { const char *key; double x; } figures[] = {
        { "kl_stderr", f->kl_error },
        { "p999_kl", f->kl_999 },
        { "p95_kl", f->kl_95 },
        { "p90_kl", f->kl_90 },
        { "p10_kl", f->kl_10 },
        { "p5_kl", f->kl_05 },
        { "p1_kl", f->kl_01 },
        { "min_kl", f->min_kl },
        { "mean_dp", f->mean_dp },
        { "dp_stderr", f->dp_error },
        { "rms_dp_stderr", f->rms_dp_error },
        { "max_dp", f->max_dp },
        { "p99_dp", f->dp_99 },
        { "p95_dp", f->dp_95 },
        { "p75_dp", f->dp_75 },
        { "median_dp", f->median_dp },
        { "p25_dp", f->dp_25 },
        { "p5_dp", f->dp_05 },
        { "p1_dp", f->dp_01 },
        { "min_dp", f->min_dp },
        { "stderr", f->model.error },
        { "base_stderr", f->base.error },
        { "ln_ratio", f->ln_ratio },
        { "ln_ratio_stderr", f->ln_ratio_error },
        { "correlation", f->correlation },
        { "same_top_stderr", f->same_top_error },
        { "median_kl", f->median_kl },
        { "p99_kl", f->kl_99 },
        { "max_kl", f->max_kl },
    };

    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        json_object_set_new(v->document, figures[i].key, lm_json_finite(figures[i].x));
}

static void show_kl(lm_evaluation *v, const lm_kl_figures *f)
{
    show_rule(v, &f->model);
    lm_eval_figure(v, "mean KL", "mean_kl", f->mean_kl, "%.6f ± %.6f nats", f->mean_kl, f->kl_error);
    lm_eval_figure(v, "KL percentiles", NULL, 0,
                   "50 %%: %.5f, 90 %%: %.5f, 95 %%: %.5f, 99 %%: %.5f, 99.9 %%: %.5f, max %.5f",
                   f->median_kl, f->kl_90, f->kl_95, f->kl_99, f->kl_999, f->max_kl);
    lm_eval_figure(v, "same top token", "same_top", f->same_top, "%.3f ± %.3f %%", 100 * f->same_top,
                   100 * f->same_top_error);
    lm_eval_figure(v, "RMS Δp", "rms_dp", f->rms_dp, "%.3f ± %.3f %%", 100 * f->rms_dp,
                   100 * f->rms_dp_error);
    lm_eval_figure(v, "mean Δp", NULL, 0, "%.3f ± %.3f %%", 100 * f->mean_dp, 100 * f->dp_error);
    lm_eval_figure(v, "perplexity", "perplexity", f->model.perplexity, "%.4f ± %.4f", f->model.perplexity,
                   f->model.error);
    lm_eval_figure(v, "base perplexity", "base_perplexity", f->base.perplexity, "%.4f ± %.4f",
                   f->base.perplexity, f->base.error);
    lm_eval_figure(v, "ln ratio", NULL, 0, "%.6f ± %.6f; correlation %.2f %%", f->ln_ratio, f->ln_ratio_error,
                   100 * f->correlation);
    add_members(v, f);
}

/* ---- perplexity and divergence ---- */

static lm_status perplexity(lm_evaluation *v, token_table *c, lm_error *e)
{
    lm_eval_text_options o;
    lm_perplexity        p;

    LM_TRY(options_of(v, c, &o, e));
    LM_TRY(start(v, v->model, o.context, &v->engine, e));
    lm_interrupt_watch(v->engine);
    lm_text_add_str(&v->csv, "chunk,position,id,logprob\n");
    v->bar           = lm_progress_start("reading");
    lm_status status = lm_eval_perplexity(v->engine, v->ids.ids, v->ids.n, &o, &p, e);
    lm_progress_end(&v->bar);
    LM_TRY(status);
    show_perplexity(v, &p);
    if (v->o->save_logits)
        lm_note("%s: logits of %u chunk%s", v->o->save_logits, p.chunks, p.chunks == 1 ? "" : "s");
    return LM_OK;
}

/* Open --base. *logits is its path if it is a file of logits; NULL if it is a model, which is opened with an
 * engine. */
static lm_status open_base(lm_evaluation *v, lm_eval_text_options *o, const char **logits, lm_error *e)
{
    uint32_t       chunks, vocab;
    lm_model_flags flags = v->o->model;
    FILE          *f     = fopen(v->o->base, "rb");
    char           head[8] = { 0 };
    bool file = f && fread(head, 1, sizeof head, f) == sizeof head && memcmp(head, "_logits_", 8) == 0;

    if (f)
        fclose(f);
    *logits = file ? v->o->base : NULL;
    if (file && v->o->file)
        return lm_fail(e, LM_USAGE, "--file", LM_NO_OFFSET,
                       "cannot be combined with a file of logits, which contains its text");
    if (file)
        return lm_eval_logits_describe(v->o->base, &o->context, &chunks, &vocab, e);
    if (!v->o->file)
        return lm_fail(e, LM_USAGE, v->kind, LM_NO_OFFSET, "requires --file");
    flags.model = NULL;
    LM_TRY(lm_open_model(v->cli, &flags, v->o->base, &v->base, e));
    return start(v, v->base, o->context, &v->base_engine, e);
}

static lm_status divergence(lm_evaluation *v, token_table *c, lm_error *e)
{
    lm_eval_text_options o;
    lm_kl_figures        f;
    const char          *logits;
    lm_model_info        info;

    if (!v->o->base)
        return lm_fail(e, LM_USAGE, v->kind, LM_NO_OFFSET, "requires --base, a model or a file of logits");
    if (v->o->save_logits)
        return lm_fail(e, LM_USAGE, "--save-logits", LM_NO_OFFSET, "applies only to perplexity");
    LM_TRY(options_of(v, c, &o, e));
    LM_TRY(open_base(v, &o, &logits, e));
    LM_TRY(start(v, v->model, o.context, &v->engine, e));
    lm_interrupt_watch(v->engine);
    lm_text_add_str(&v->csv, "chunk,position,id,logprob,base_logprob,kl,same_top\n");
    v->bar           = lm_progress_start("comparing");
    lm_status status = lm_eval_kl(v->engine, v->base_engine, logits, v->ids.ids, v->ids.n, &o, &f, e);
    lm_progress_end(&v->bar);
    LM_TRY(status);
    if (v->base)
        lm_model_describe(v->base, &info);
    const char *base = v->base ? info.name : v->o->base;
    json_object_set_new(v->document, "base", lm_json_of(base, strlen(base)));
    lm_eval_figure(v, "base", NULL, 0, "%.150s", base);
    show_kl(v, &f);
    return LM_OK;
}

lm_status lm_evaluate_text(lm_evaluation *v, lm_error *e)
{
    bool        kl = strcmp(v->kind, "kl") == 0;
    token_table c  = { .v = v, .kl = kl };

    if (!kl && v->o->base)
        return lm_fail(e, LM_USAGE, "--base", LM_NO_OFFSET, "applies only to kl");
    return kl ? divergence(v, &c, e) : perplexity(v, &c, e);
}
