/* verify_models.c - open two models, run both over a text, and print how far their predictions are apart.
 *
 * Both engines read the same window of tokens (lm_diverge_text). A `pair` owns both models, both engines and
 * the ids. */
#include "cli/measure/verify_models.h"

#include <string.h>

#include "cli/base/interrupt.h"
#include "cli/base/output.h"
#include "cli/base/prompt.h"
#include "cli/base/tokenjson.h"

enum { LOGIT_ROWS = 64 };

typedef struct pair {
    lm_cli                *cli;
    const lm_verify_texts *texts;
    lm_model              *model[2];     /* the second is the reference */
    lm_engine             *engine[2];
    lm_tokens              ids;
    lm_divergence          found;
    lm_progress            bar;
    uint32_t               window;
    double                 kl_max;
} pair;

/* ---- tokens ---- */

static lm_status tokenize(pair *p, const char *text, size_t n, lm_error *e)
{
    const lm_tokenizer *a = lm_model_tokenizer(p->model[0]), *b = lm_model_tokenizer(p->model[1]);

    if (!a && !b)
        return lm_fail(e, LM_USAGE, "verify", LM_NO_OFFSET,
                       "neither model has a tokenizer; give token ids with --ids");
    return lm_tokenize(a ? a : b, text, n, p->texts->bare ? 0 : LM_ADD_SPECIAL, &p->ids, e);
}

static lm_status read_text(pair *p, lm_error *e)
{
    lm_text text = { 0 };

    if (p->texts->ids)
        return lm_read_ids(p->texts->ids, "--ids", &p->ids, e);
    if (p->texts->prompt)
        return tokenize(p, p->texts->prompt, strlen(p->texts->prompt), e);
    lm_status status = lm_read_file(p->texts->file, &text, e);
    if (status == LM_OK)
        status = tokenize(p, text.data ? text.data : "", text.size, e);
    lm_text_free(&text);
    return status;
}

/* ---- engines ---- */

/* Set the window to the whole text, at most --ctx-size or, if it is not given, at most the context of both
 * models. */
static void choose_window(pair *p)
{
    lm_model_info info;
    size_t        window = p->ids.n;

    if (p->texts->window && p->texts->window < window)
        window = p->texts->window;
    for (int i = 0; i < 2; i++) {
        lm_model_describe(p->model[i], &info);
        if (!p->texts->window && info.context_length && info.context_length < window)
            window = info.context_length;
    }
    p->window = (uint32_t)window;
}

static lm_status start(pair *p, const lm_engine_options *engine, lm_error *e)
{
    for (int i = 0; i < 2; i++) {
        lm_engine_options o = *engine;
        o.context = p->window;
        if (!o.max_rows)
            o.max_rows = o.context < 512 ? o.context : 512;
        o.max_logits = o.max_rows < LOGIT_ROWS ? o.max_rows : LOGIT_ROWS;
        LM_TRY(lm_start_engine(p->model[i], &o, &p->engine[i], e));
    }
    return LM_OK;
}

static bool on_token(void *arg, const lm_token_divergence *t)
{
    pair *p = arg;

    lm_progress_show(&p->bar, (double)t->position / (double)p->ids.n);
    return !lm_interrupted();
}

/* ---- output ---- */

static json_t *pair_json(const pair *p)
{
    const lm_divergence *d = &p->found;
    lm_model_info        info[2];
    json_t              *j = json_object();

    lm_model_describe(p->model[0], &info[0]);
    lm_model_describe(p->model[1], &info[1]);
    json_object_set_new(j, "model", json_string(info[0].name));
    json_object_set_new(j, "base", json_string(info[1].name));
    json_object_set_new(j, "tokens", json_integer((json_int_t)d->n_tokens));
    json_object_set_new(j, "context", json_integer(p->window));
    const struct { const char *key; double x; } figures[] = {
        { "mean_kl", d->mean_kl },       { "median_kl", d->median_kl },
        { "p90_kl", d->p90_kl },         { "p95_kl", d->p95_kl },
        { "p99_kl", d->p99_kl },         { "max_kl", d->max_kl },
        { "same_top", d->same_top },     { "mean_dp", d->mean_dp },
        { "rms_dp", d->rms_dp },         { "max_dp", d->max_dp },
        { "perplexity", d->perplexity }, { "base_perplexity", d->reference_perplexity },
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        json_object_set_new(j, figures[i].key, lm_json_finite(figures[i].x));
    json_object_set_new(j, "max_position", json_integer((json_int_t)d->max_position));
    json_object_set_new(j, "kl_max", p->kl_max >= 0 ? json_real(p->kl_max) : json_null());
    json_object_set_new(j, "agrees", p->kl_max >= 0 ? json_boolean(d->mean_kl <= p->kl_max) : json_null());
    return j;
}

static void pair_text(const pair *p, lm_text *out)
{
    const lm_divergence *d = &p->found;
    lm_model_info        info[2];
    char                 n[LM_FORMATTED], w[LM_FORMATTED];

    lm_model_describe(p->model[0], &info[0]);
    lm_model_describe(p->model[1], &info[1]);
    lm_text_printf(out, "model            %s\nreference        %s\n", info[0].name, info[1].name);
    lm_text_printf(out, "tokens           %s, read %s at a time\n", lm_format_count(n, d->n_tokens),
                   lm_format_count(w, p->window));
    lm_text_printf(out, "KL divergence    mean %.4g, median %.4g, 90 %% %.4g, 95 %% %.4g, 99 %% %.4g nats\n",
                   d->mean_kl, d->median_kl, d->p90_kl, d->p95_kl, d->p99_kl);
    lm_text_printf(out, "largest          %.4g nats at position %zu\n", d->max_kl, d->max_position);
    lm_text_printf(out, "same top token   %.2f %%\n", 100 * d->same_top);
    lm_text_printf(out, "Δp               mean %+.3f %%, RMS %.3f %%, largest %.3f %%\n", 100 * d->mean_dp,
                   100 * d->rms_dp, 100 * d->max_dp);
    lm_text_printf(out, "perplexity       %.4f; reference %.4f\n", d->perplexity, d->reference_perplexity);
    if (p->kl_max >= 0)
        lm_text_printf(out, "verdict          %s (mean KL divergence at most %.3g)\n",
                       d->mean_kl <= p->kl_max ? "agrees" : "DIFFERS", p->kl_max);
}

/* Print the results. Return LM_DIFFERS if the mean divergence exceeds --kl-max; the JSON document then
 * contains the error too. */
static lm_status print_verdict(const pair *p, const char *reference, lm_error *e)
{
    lm_status verdict = LM_OK, status;
    lm_text   text = { 0 };

    if (p->kl_max >= 0 && !(p->found.mean_kl <= p->kl_max)) {
        lm_fail(e, LM_DIFFERS, "logits", LM_NO_OFFSET, "mean KL divergence %.3g, at most %.3g is allowed",
                p->found.mean_kl, p->kl_max);
        verdict = lm_fail_in(e, reference);
    }
    if (p->cli->json) {
        json_t *document = pair_json(p);
        if (verdict != LM_OK)
            json_object_set_new(document, "error", lm_json_error(e));
        status = lm_out_json(p->cli, document, e);
    } else {
        pair_text(p, &text);
        status = lm_out_buf(&text, e);
        lm_text_free(&text);
    }
    return status == LM_OK ? verdict : status;
}

static lm_status compare(pair *p, lm_model_flags *flags, const char *const models[2],
                         const lm_engine_options *engine, lm_error *e)
{
    lm_diverge_options o = { .token = on_token, .arg = p };

    for (int i = 0; i < 2; i++)
        LM_TRY(lm_open_model(p->cli, flags, models[i], &p->model[i], e));
    LM_TRY(lm_same_vocabulary(p->model[0], p->model[1], e));
    LM_TRY(read_text(p, e));
    if (p->ids.n < 2)
        return lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET,
                       "%zu token%s; two at least are needed to compare models", p->ids.n,
                       p->ids.n == 1 ? "" : "s");
    choose_window(p);
    o.window = p->window;
    LM_TRY(start(p, engine, e));
    p->bar           = lm_progress_start("comparing");
    lm_status status = lm_diverge_text(p->engine[0], p->engine[1], p->ids.ids, p->ids.n, &o, &p->found, e);
    lm_progress_end(&p->bar);
    LM_TRY(status);
    return print_verdict(p, models[1], e);
}

lm_status lm_verify_models(lm_cli *cli, lm_model_flags *flags, const char *const models[2],
                           const lm_verify_texts *texts, const lm_engine_options *engine, double kl_max,
                           lm_error *e)
{
    pair p = { .cli = cli, .texts = texts, .kl_max = kl_max };

    flags->o.tokenizer_optional = texts->ids != NULL;
    lm_interrupt_watch(NULL);
    lm_status status = compare(&p, flags, models, engine, e);
    for (int i = 0; i < 2; i++) {
        lm_engine_free(p.engine[i]);
        lm_model_close(p.model[i]);
    }
    lm_tokens_free(&p.ids);
    return status;
}
