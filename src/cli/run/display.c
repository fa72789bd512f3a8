/* display.c - run a generation with callbacks that show it, then say how it went.
 *
 * The callbacks run on the thread that calls lm_display_run, and write to standard output while the engine
 * computes. The first error of standard output is kept in the lm_display and ends the generation. */
#include "cli/run/display.h"

#include <string.h>

#include "cli/base/interrupt.h"
#include "cli/base/tokenjson.h"

static bool on_text(void *arg, const char *piece, size_t n)
{
    lm_display *a = arg;

    a->ended_line = piece[n - 1] == '\n';
    if (a->stream && a->write.code == LM_OK && lm_out_wrapped(&a->wrap, piece, n, &a->write) != LM_OK)
        return false;
    return !lm_interrupted();
}

static bool on_token(void *arg, lm_token id, float logprob, const lm_logprob *top, uint32_t k)
{
    lm_display *a = arg;
    const lm_tokenizer *t = lm_model_tokenizer(a->model);
    json_t *j = lm_token_json(t, id, logprob);

    json_object_set_new(j, "top", lm_top_json(t, top, k));
    json_array_append_new(a->positions, j);
    return true;
}

static bool on_prefill(void *arg, size_t done, size_t total)
{
    lm_display *a = arg;

    if (done < total)
        lm_progress_show(&a->bar, (double)done / (double)total);
    else
        lm_progress_end(&a->bar);
    return !lm_interrupted();
}

lm_status lm_display_run(lm_display *a, lm_engine *g, lm_sampler *s, const lm_tokens *prompt,
                         lm_chat_cache *cache, lm_generate_options *o, lm_generation *out, lm_error *e)
{
    lm_status status;

    a->bar = lm_progress_start("reading the prompt");
    a->positions = a->logprobs ? json_array() : NULL;
    o->sequence.logprobs = (int32_t)a->logprobs;
    o->text = on_text;
    o->token = a->logprobs ? on_token : NULL;
    o->prefill = on_prefill;
    o->arg = a;
    status = cache ? lm_chat_cache_generate(cache, s, prompt->ids, prompt->n, o, out, e)
                   : lm_generate(g, s, prompt->ids, prompt->n, 0, o, out, e);
    lm_progress_end(&a->bar);
    lm_text_free(&a->wrap.word);
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
        [LM_STOP_NONE] = "nothing",
        [LM_STOP_EOS] = "end of turn",
        [LM_STOP_LENGTH] = "length",
        [LM_STOP_STRING] = "stop string",
        [LM_STOP_CONTEXT] = "the context is full",
        [LM_STOP_CANCELLED] = "interrupted",
        [LM_STOP_FAILED] = "an error",
    };

    return phrases[s];
}

size_t lm_display_continued(const lm_generation *x)
{
    return x->ids.n ? x->ids.n - 1 : 0;
}

/* Write the warning about a failed draft model to `out`. Return false if there is none. */
static bool warning(const lm_generation *x, lm_text *out)
{
    char why[1024];

    if (x->draft_error.code == LM_OK)
        return false;
    lm_text_printf(out, "the draft model was given up: %s", lm_error_text(&x->draft_error, why, sizeof why));
    return true;
}

void lm_display_warn(const lm_generation *x)
{
    lm_text line = { 0 };

    if (warning(x, &line))
        lm_warn("%s", line.data ? line.data : "");
    lm_text_free(&line);
}

json_t *lm_display_warning(const lm_generation *x)
{
    lm_text line = { 0 };
    json_t *out = warning(x, &line) ? lm_json_of(line.data, line.size) : NULL;

    lm_text_free(&line);
    return out;
}

void lm_display_summary(const lm_generation *x, lm_text *out)
{
    char a[LM_FORMATTED], b[LM_FORMATTED], c[LM_FORMATTED];
    size_t read = x->n_prompt - x->n_reused;

    lm_text_printf(out, "prompt %s token%s", lm_format_count(a, x->n_prompt), x->n_prompt == 1 ? "" : "s");
    if (x->n_reused)
        lm_text_printf(out, ", %s of them new,", lm_format_count(a, read));
    lm_text_printf(out, " in %s (%s)", lm_format_time(b, x->prompt_seconds),
                   lm_format_rate(c, read, x->prompt_seconds));
    lm_text_printf(out, "  ·  generated %s token%s in %s (%s)", lm_format_count(a, x->ids.n),
                   x->ids.n == 1 ? "" : "s", lm_format_time(b, x->generate_seconds),
                   lm_format_rate(c, lm_display_continued(x), x->generate_seconds));
    if (x->n_drafted)
        lm_text_printf(out, "  ·  %s of %s draft tokens accepted", lm_format_count(a, x->n_accepted),
                       lm_format_count(b, x->n_drafted));
    lm_text_printf(out, "  ·  stopped: %s", stop_phrase(x->stop));
}

static json_t *rate(size_t n, double seconds)
{
    return n && seconds > 0 ? json_real((double)n / seconds) : json_null();
}

json_t *lm_display_stop_string(const lm_generation *x, const char *const *stops)
{
    const char *stop = x->stop == LM_STOP_STRING && x->stopped_by >= 0 ? stops[x->stopped_by] : NULL;

    return stop ? lm_json_of(stop, strlen(stop)) : json_null();
}

json_t *lm_display_timings(const lm_generation *x)
{
    size_t read = x->n_prompt - x->n_reused;

    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:o}",
                     "prompt_tokens", (json_int_t)x->n_prompt, "reused_tokens", (json_int_t)x->n_reused,
                     "generated_tokens", (json_int_t)x->ids.n, "drafted_tokens", (json_int_t)x->n_drafted,
                     "accepted_tokens", (json_int_t)x->n_accepted, "prompt_seconds", x->prompt_seconds,
                     "generate_seconds", x->generate_seconds,
                     "prompt_per_second", rate(read, x->prompt_seconds),
                     "generated_per_second", rate(lm_display_continued(x), x->generate_seconds));
}
