/* GET /metrics: Prometheus text, in lamina's names and in those of llama.cpp and vLLM, so that dashboards go on working. */
#include <stdio.h>

#include "server/routes.h"

typedef struct figure { const char *name, *kind, *help; double value; } figure;

static void add(lm_text *out, const figure *f, const char *model)
{
    lm_text_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s{model_name=\"%s\"} %.17g\n", f->name, f->help, f->name, f->kind,
                   f->name, model, f->value);
}

static void add_own(lm_text *out, const lm_schedule_statistics *s, const char *model)
{
    const figure list[] = {
        { "lamina_steps_total", "counter", "Forward passes.", (double)s->steps },
        { "lamina_rows_prompt_total", "counter", "Rows of prompts in forward passes.", (double)s->prompt_rows },
        { "lamina_rows_generated_total", "counter", "Rows of generated tokens in forward passes.", (double)s->written_rows },
        { "lamina_rows_speculated_total", "counter", "Rows of speculated tokens in forward passes.", (double)s->guessed_rows },
        { "lamina_speculated_accepted_total", "counter", "Speculated tokens that were accepted.", (double)s->guesses_right },
        { "lamina_requests_total", "counter", "Requests accepted.", (double)s->submitted },
        { "lamina_requests_refused_total", "counter", "Requests refused by the scheduler.", (double)s->refused },
        { "lamina_preemptions_total", "counter", "Times a text gave its pages back and was read again.", (double)s->preempted },
        { "lamina_cached_tokens_total", "counter", "Prompt tokens found in the prefix cache.", (double)s->cached_tokens },
        { "lamina_step_seconds_total", "counter", "Seconds in forward passes.", s->step_seconds },
        { "lamina_pages", "gauge", "Pages of the cache.", (double)s->pages },
        { "lamina_pages_used", "gauge", "Pages of the cache in use.", (double)s->pages_used },
        { "lamina_itl_target_seconds", "gauge", "Time between two tokens that prompts are cut for.", s->itl_target },
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        add(out, list + i, model);
}

static void add_native(lm_text *out, const lm_schedule_statistics *s, const char *model)
{
    double rows = (double)(s->prompt_rows + s->written_rows), written = s->step_seconds * (rows > 0 ? (double)s->written_rows / rows : 0);
    double read = s->step_seconds - written;
    const figure list[] = {
        { "llamacpp:prompt_tokens_total", "counter", "Number of prompt tokens processed.", (double)(s->prompt_tokens - s->cached_tokens) },
        { "llamacpp:prompt_seconds_total", "counter", "Prompt process time.", read },
        { "llamacpp:tokens_predicted_total", "counter", "Number of generation tokens processed.", (double)s->tokens },
        { "llamacpp:tokens_predicted_seconds_total", "counter", "Predict process time.", written },
        { "llamacpp:n_decode_total", "counter", "Total number of forward passes.", (double)s->steps },
        { "llamacpp:n_busy_slots_per_decode", "counter", "Average number of busy slots per forward pass.",
          s->steps ? rows / (double)s->steps : 0 },
        { "llamacpp:prompt_tokens_seconds", "gauge", "Average prompt throughput in tokens/s.",
          read > 0 ? (double)s->prompt_rows / read : 0 },
        { "llamacpp:predicted_tokens_seconds", "gauge", "Average generation throughput in tokens/s.",
          written > 0 ? (double)s->tokens / written : 0 },
        { "llamacpp:kv_cache_usage_ratio", "gauge", "KV-cache usage. 1 means 100 percent usage.",
          s->pages ? (double)s->pages_used / (double)s->pages : 0 },
        { "llamacpp:requests_processing", "gauge", "Number of requests processing.", s->reading + s->writing },
        { "llamacpp:requests_deferred", "gauge", "Number of requests deferred.", s->waiting },
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        add(out, list + i, model);
}

static void add_vllm(lm_text *out, const lm_schedule_statistics *s, const char *model)
{
    const figure list[] = {
        { "vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", s->reading + s->writing },
        { "vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", s->waiting },
        { "vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.",
          s->pages ? (double)s->pages_used / (double)s->pages : 0 },
        { "vllm:prefix_cache_queries", "counter", "Prefix cache queries, in terms of number of queried tokens.", (double)s->prompt_tokens },
        { "vllm:prefix_cache_hits", "counter", "Prefix cache hits, in terms of number of cached tokens.", (double)s->cached_tokens },
        { "vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", (double)s->prompt_tokens },
        { "vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", (double)s->tokens },
        { "vllm:num_preemptions_total", "counter", "Cumulative number of preemption from the engine.", (double)s->preempted },
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        add(out, list + i, model);
    lm_text_add_str(out, "# HELP vllm:request_success_total Count of successfully processed requests.\n# TYPE "
                         "vllm:request_success_total counter\n");
    for (int stop = LM_STOP_EOS; stop <= LM_STOP_CONTEXT; stop++)
        lm_text_printf(out, "vllm:request_success_total{model_name=\"%s\",finished_reason=\"%s\"} %llu\n", model,
                       lm_stop_word((lm_stop)stop), (unsigned long long)s->ended[stop]);
}

static lm_status answer_metrics(lm_call *c, lm_error *e)
{
    lm_schedule_statistics s;
    char model[128], began[32];

    if (!c->service->o.metrics)
        return lm_fault(c, e, 501, NULL, "metrics are off: start the server with --metrics");
    lm_schedule_describe(c->service->schedule, &s);
    lm_escape(model, sizeof model, c->service->name);
    for (char *at = model; *at; at++)
        if (*at == '"' || *at == '\\')
            *at = '_';
    snprintf(began, sizeof began, "%lld", (long long)c->service->began);
    lm_exchange_add_header(c->x, "Process-Start-Time-Unix", began);
    add_own(lm_exchange_out(c->x), &s, model);
    add_native(lm_exchange_out(c->x), &s, model);
    add_vllm(lm_exchange_out(c->x), &s, model);
    lm_exchange_head(c->x, 200, "text/plain; version=0.0.4; charset=utf-8");
    lm_exchange_end(c->x);
    return LM_OK;
}

const lm_route lm_route_metrics = { "GET", "/metrics", NULL, LM_ROUTE_QUICK, LM_DIALECT_NATIVE, "figures for Prometheus", NULL, 0, NULL,
        answer_metrics };
