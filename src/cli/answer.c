#include "cli/answer.h"

#include <string.h>

#include "base/error.h"
#include "cli/interrupt.h"

static bool on_text(void *arg, const char *piece, size_t n)
{
    lm_answer *a = arg;

    a->ended_line = piece[n - 1] == '\n';
    if (a->stream && a->write.code == LM_OK && lm_out_text(piece, n, &a->write) != LM_OK)
        return false;
    return !lm_interrupted();
}

static json_t *token_json(const lm_answer *a, lm_token id, float logprob)
{
    size_t n = 0;
    const lm_tokenizer *t = lm_model_tokenizer(a->model);
    const char *piece = t ? lm_tokenizer_piece(t, id, &n) : NULL;
    json_t *j = json_pack("{s:i}", "id", id);
    lm_text text = { 0 };

    json_object_set_new(j, "piece", piece ? lm_json_text(piece, n) : json_null());
    if (t && lm_detokenize(t, &id, 1, 0, &text, NULL) == LM_OK)
        json_object_set_new(j, "text", lm_json_text(text.data, text.n));
    lm_text_free(&text);
    json_object_set_new(j, "logprob", logprob > -1e30f ? json_real((double)logprob) : json_null());
    return j;
}

static bool on_token(void *arg, lm_token id, float logprob, const lm_logprob *top, uint32_t k)
{
    lm_answer *a = arg;
    json_t *j = token_json(a, id, logprob), *best = json_array();

    for (uint32_t i = 0; i < k && top[i].id >= 0; i++)
        json_array_append_new(best, token_json(a, top[i].id, top[i].logprob));
    json_object_set_new(j, "top", best);
    json_array_append_new(a->positions, j);
    return true;
}

static bool on_prefill(void *arg, size_t done, size_t total)
{
    lm_answer *a = arg;

    if (done < total)
        lm_progress_show(&a->bar, (double)done / (double)total);
    else
        lm_progress_end(&a->bar);
    return !lm_interrupted();
}

lm_status lm_answer_run(lm_answer *a, lm_engine *g, lm_sampler *s, const lm_tokens *prompt, size_t reuse,
                        lm_generate_options *o, lm_generation *out, lm_error *e)
{
    lm_status status;

    a->bar = lm_progress_start("reading the prompt");
    a->positions = a->logprobs ? json_array() : NULL;
    o->logprobs = a->logprobs;
    o->text = on_text;
    o->token = a->logprobs ? on_token : NULL;
    o->prefill = on_prefill;
    o->arg = a;
    status = lm_generate(g, a->model, s, prompt->ids, prompt->n, reuse, o, out, e);
    lm_progress_end(&a->bar);
    if (status == LM_OK && a->write.code != LM_OK) {
        lm_generation_free(out);
        if (e)
            *e = a->write;
        status = a->write.code;
    }
    if (status != LM_OK) {
        json_decref(a->positions);
        a->positions = NULL;
    }
    return status;
}

static const char *stop_phrase(lm_stop s)
{
    static const char *const phrases[] = {
        [LM_STOP_NONE] = "nothing",         [LM_STOP_EOS] = "end of turn",          [LM_STOP_LENGTH] = "length",
        [LM_STOP_STRING] = "stop string",   [LM_STOP_CONTEXT] = "the context is full", [LM_STOP_CANCELLED] = "interrupted",
    };

    return phrases[s];
}

size_t lm_answer_continued(const lm_generation *x)
{
    return x->ids.n ? x->ids.n - 1 : 0;
}

void lm_answer_summary(const lm_generation *x, lm_buf *out)
{
    char a[LM_FIGURE], b[LM_FIGURE], c[LM_FIGURE];
    size_t read = x->n_prompt - x->n_reused;

    lm_buf_printf(out, "prompt %s token%s", lm_figure_count(a, x->n_prompt), x->n_prompt == 1 ? "" : "s");
    if (x->n_reused)
        lm_buf_printf(out, ", %s of them new,", lm_figure_count(a, read));
    lm_buf_printf(out, " in %s (%s)", lm_figure_time(b, x->prompt_seconds), lm_figure_rate(c, read, x->prompt_seconds));
    lm_buf_printf(out, "  ·  generated %s token%s in %s (%s)", lm_figure_count(a, x->ids.n), x->ids.n == 1 ? "" : "s",
                  lm_figure_time(b, x->generate_seconds), lm_figure_rate(c, lm_answer_continued(x), x->generate_seconds));
    if (x->n_drafted)
        lm_buf_printf(out, "  ·  %s of %s guesses right", lm_figure_count(a, x->n_accepted), lm_figure_count(b, x->n_drafted));
    lm_buf_printf(out, "  ·  stopped: %s", stop_phrase(x->stop));
}

static json_t *rate(size_t n, double seconds)
{
    return n && seconds > 0 ? json_real((double)n / seconds) : json_null();
}

json_t *lm_answer_timings(const lm_generation *x)
{
    size_t read = x->n_prompt - x->n_reused;

    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:o}", "prompt_tokens", (json_int_t)x->n_prompt, "reused_tokens",
                     (json_int_t)x->n_reused, "generated_tokens", (json_int_t)x->ids.n, "drafted_tokens", (json_int_t)x->n_drafted,
                     "accepted_tokens", (json_int_t)x->n_accepted, "prompt_seconds", x->prompt_seconds, "generate_seconds",
                     x->generate_seconds, "prompt_per_second", rate(read, x->prompt_seconds), "generated_per_second",
                     rate(lm_answer_continued(x), x->generate_seconds));
}

json_t *lm_ids_json(const lm_token *ids, size_t n)
{
    json_t *out = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, json_integer(ids[i]));
    return out;
}
