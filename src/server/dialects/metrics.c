/* GET /metrics: Prometheus text with the metric names of lamina, llama.cpp and vLLM, so that existing
 * dashboards work. */
#include <stddef.h>
#include <stdio.h>

#include "server/dialects/routes.h"
#include "server/front/memory.h"

typedef struct figure { const char *name, *kind, *help; double value; } figure;

/* Write the metrics of one model under one program's names. Their number, which is returned, and order are
 * the same for every model. */
typedef size_t figures_of(figure *out, const lm_schedule_statistics *s);

static figures_of native_figures;

enum { MAX_FIGURES = 20, MAX_NAME = 128 };

/* A model, and its statistics if it is in memory (`here`). */
typedef struct sample {
    char name[MAX_NAME];
    lm_model_status status;
    bool here;
    lm_schedule_statistics s;
} sample;

static size_t copy(figure *out, const figure *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = list[i];
    return n;
}

static void add_head(lm_text *out, const char *name, const char *kind, const char *help)
{
    lm_text_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

/* Add the metrics of all models. The samples of a metric must be adjacent in this format. */
static void add(lm_text *out, figures_of *f, const sample *all, size_t n)
{
    static const lm_schedule_statistics none;
    figure list[MAX_FIGURES], names[MAX_FIGURES];
    size_t many = f(names, &none);

    for (size_t i = 0; i < many; i++) {
        add_head(out, names[i].name, names[i].kind, names[i].help);
        for (const sample *x = all; x < all + n; x++) {
            if (!x->here)
                continue;
            f(list, &x->s);
            if (n == 1 && f == native_figures)           /* without a label, as llama-server writes them */
                lm_text_printf(out, "%s %.17g\n", list[i].name, list[i].value);
            else
                lm_text_printf(out, "%s{model_name=\"%s\"} %.17g\n", list[i].name, x->name, list[i].value);
        }
    }
}

static size_t own_figures(figure *out, const lm_schedule_statistics *s)
{
    const figure list[] = {
        { "lamina_steps_total", "counter", "Forward passes.", (double)s->steps },
        { "lamina_rows_prompt_total", "counter", "Rows of prompts in forward passes.",
          (double)s->prompt_rows },
        { "lamina_rows_generated_total", "counter", "Rows of generated tokens in forward passes.",
          (double)s->written_rows },
        { "lamina_rows_speculated_total", "counter", "Rows of speculated tokens in forward passes.",
          (double)s->draft_rows },
        { "lamina_speculated_accepted_total", "counter", "Speculated tokens that were accepted.",
          (double)s->draft_accepted },
        { "lamina_requests_total", "counter", "Requests accepted.", (double)s->submitted },
        { "lamina_requests_refused_total", "counter", "Requests rejected by the scheduler.",
          (double)s->refused },
        { "lamina_preemptions_total", "counter",
          "Preemptions: sequences that were recomputed because the cache was full.", (double)s->preempted },
        { "lamina_cached_tokens_total", "counter", "Prompt tokens found in the prefix cache.",
          (double)s->cached_tokens },
        { "lamina_step_seconds_total", "counter", "Seconds in forward passes.", s->step_seconds },
        { "lamina_pages", "gauge", "Pages of the cache.", (double)s->pages },
        { "lamina_pages_used", "gauge", "Pages of the cache in use.", (double)s->pages_used },
        { "lamina_itl_target_seconds", "gauge", "Time between two tokens that the scheduler aims at.",
          s->itl_target },
    };

    return copy(out, list, sizeof list / sizeof *list);
}

static size_t native_figures(figure *out, const lm_schedule_statistics *s)
{
    double rows = (double)(s->prompt_rows + s->written_rows),
           written = s->step_seconds * (rows > 0 ? (double)s->written_rows / rows : 0);
    double read = s->step_seconds - written;
    const figure list[] = {
        { "llamacpp:prompt_tokens_total", "counter", "Number of prompt tokens processed.",
          (double)(s->prompt_tokens - s->cached_tokens) },
        { "llamacpp:prompt_tokens_cached_total", "counter", "Number of prompt tokens reused from the cache.",
          (double)s->cached_tokens },
        { "llamacpp:prompt_seconds_total", "counter", "Prompt process time.", read },
        { "llamacpp:tokens_predicted_total", "counter", "Number of generation tokens processed.",
          (double)s->tokens },
        { "llamacpp:tokens_predicted_seconds_total", "counter", "Predict process time.", written },
        { "llamacpp:n_decode_total", "counter", "Total number of forward passes.", (double)s->steps },
        { "llamacpp:n_busy_slots_per_decode", "gauge", "Average number of busy slots per forward pass.",
          s->steps ? rows / (double)s->steps : 0 },
        { "llamacpp:spec_decode_num_draft_tokens_total", "counter", "Number of drafted tokens.",
          (double)s->draft_rows },
        { "llamacpp:spec_decode_num_accepted_tokens_total", "counter",
          "Number of drafted tokens that were accepted.", (double)s->draft_accepted },
        { "llamacpp:prompt_tokens_seconds", "gauge", "Average prompt throughput in tokens/s.",
          read > 0 ? (double)s->prompt_rows / read : 0 },
        { "llamacpp:predicted_tokens_seconds", "gauge", "Average generation throughput in tokens/s.",
          written > 0 ? (double)s->tokens / written : 0 },
        { "llamacpp:kv_cache_usage_ratio", "gauge", "KV-cache usage. 1 means 100 percent usage.",
          s->pages ? (double)s->pages_used / (double)s->pages : 0 },
        { "llamacpp:requests_processing", "gauge", "Number of requests processing.",
          s->reading + s->writing },
        { "llamacpp:requests_deferred", "gauge", "Number of requests deferred.", s->waiting },
    };

    return copy(out, list, sizeof list / sizeof *list);
}

static size_t vllm_figures(figure *out, const lm_schedule_statistics *s)
{
    const figure list[] = {
        { "vllm:num_requests_running", "gauge", "Number of requests in model execution batches.",
          s->reading + s->writing },
        { "vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", s->waiting },
        { "vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.",
          s->pages ? (double)s->pages_used / (double)s->pages : 0 },
        { "vllm:prefix_cache_queries", "counter",
          "Prefix cache queries, in terms of number of queried tokens.", (double)s->prompt_tokens },
        { "vllm:prefix_cache_hits", "counter", "Prefix cache hits, in terms of number of cached tokens.",
          (double)s->cached_tokens },
        { "vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.",
          (double)s->prompt_tokens },
        { "vllm:generation_tokens_total", "counter", "Number of generation tokens processed.",
          (double)s->tokens },
        { "vllm:num_preemptions_total", "counter", "Cumulative number of preemption from the engine.",
          (double)s->preempted },
    };

    return copy(out, list, sizeof list / sizeof *list);
}

static void add_histogram(lm_text *out, const char *name, const char *model, const lm_histogram *h)
{
    unsigned long long n = 0;

    for (size_t i = 0; i + 1 < LM_HISTOGRAM_COUNTS; i++) {
        n += h->counts[i];
        lm_text_printf(out, "%s_bucket{model_name=\"%s\",le=\"%g\"} %llu\n", name, model,
                       lm_histogram_bound(i), n);
    }
    n += h->counts[LM_HISTOGRAM_COUNTS - 1];
    lm_text_printf(out, "%s_bucket{model_name=\"%s\",le=\"+Inf\"} %llu\n", name, model, n);
    lm_text_printf(out, "%s_sum{model_name=\"%s\"} %.17g\n%s_count{model_name=\"%s\"} %llu\n", name, model,
                   h->seconds, name, model, n);
}

/* Add the histograms, under lamina's and vLLM's names. */
static void add_durations(lm_text *out, const sample *all, size_t n)
{
    static const struct { const char *names[2], *help; size_t at;
    } list[] = {
        { { "lamina_queue_seconds", "vllm:request_queue_time_seconds" },
          "Time of a sequence in the queue.",
          offsetof(lm_schedule_statistics, queue) },
        { { "lamina_prompt_seconds", "vllm:request_prefill_time_seconds" },
          "Time from the queue to the first token.",
          offsetof(lm_schedule_statistics, prompt) },
        { { "lamina_time_to_first_token_seconds", "vllm:time_to_first_token_seconds" },
          "Time from the request to the first token.",
          offsetof(lm_schedule_statistics, first) },
        { { "lamina_inter_token_seconds", "vllm:inter_token_latency_seconds" },
          "Time between two tokens of a sequence.",
          offsetof(lm_schedule_statistics, between) },
        { { "lamina_generation_seconds", "vllm:request_decode_time_seconds" },
          "Time from the first token to the end.",
          offsetof(lm_schedule_statistics, generation) },
        { { "lamina_request_seconds", "vllm:e2e_request_latency_seconds" },
          "Time from the request to the end.",
          offsetof(lm_schedule_statistics, whole) },
    };

    for (size_t i = 0; i < 2 * (sizeof list / sizeof *list); i++) {
        const char *name = list[i / 2].names[i % 2];
        add_head(out, name, "histogram", list[i / 2].help);
        for (const sample *x = all; x < all + n; x++)
            if (x->here)
                add_histogram(out, name, x->name,
                              (const lm_histogram *)(const void *)((const char *)&x->s + list[i / 2].at));
    }
}

static void add_ends(lm_text *out, const sample *all, size_t n)
{
    add_head(out, "vllm:request_success_total", "counter", "Count of successfully processed requests.");
    for (const sample *x = all; x < all + n; x++)
        for (int stop = LM_STOP_EOS; x->here && stop <= LM_STOP_CONTEXT; stop++)
            lm_text_printf(out, "vllm:request_success_total{model_name=\"%s\",finished_reason=\"%s\"} %llu\n",
                           x->name, lm_stop_word((lm_stop)stop), (unsigned long long)x->s.ended[stop]);
}

/* Add the load state of all models, in memory or not. */
static void add_states(lm_text *out, const sample *all, size_t n)
{
    add_head(out, "lamina_model_loaded", "gauge", "1 while the model is in memory.");
    for (const sample *x = all; x < all + n; x++)
        lm_text_printf(out, "lamina_model_loaded{model_name=\"%s\"} %d\n", x->name, x->here);
    add_head(out, "lamina_model_loads_total", "counter", "Times the model was loaded.");
    for (const sample *x = all; x < all + n; x++)
        lm_text_printf(out, "lamina_model_loads_total{model_name=\"%s\"} %llu\n", x->name,
                       (unsigned long long)x->status.loads);
    add_head(out, "lamina_model_bytes", "gauge",
             "Bytes of memory that the model takes while it is loaded; 0: never loaded yet.");
    for (const sample *x = all; x < all + n; x++)
        lm_text_printf(out, "lamina_model_bytes{model_name=\"%s\"} %llu\n", x->name,
                       (unsigned long long)x->status.bytes);
}

/* Add the memory held by the server's requests. */
static void add_memory(lm_text *out, const lm_exchange *x)
{
    lm_http_memory m;

    lm_exchange_memory(x, &m);
    add_head(out, "lamina_request_memory_bytes", "gauge",
             "Bytes that requests hold: bodies, conversations, prompts, grammars, responses.");
    lm_text_printf(out, "lamina_request_memory_bytes %llu\n", (unsigned long long)m.used);
    add_head(out, "lamina_request_memory_peak_bytes", "gauge",
             "Maximum of lamina_request_memory_bytes since the start.");
    lm_text_printf(out, "lamina_request_memory_peak_bytes %llu\n", (unsigned long long)m.max);
    add_head(out, "lamina_request_memory_limit_bytes", "gauge", "Bytes that requests may hold; 0: no limit.");
    lm_text_printf(out, "lamina_request_memory_limit_bytes %llu\n", (unsigned long long)m.limit);
    add_head(out, "lamina_requests_refused_for_memory_total", "counter",
             "Requests rejected because they would hold too much memory.");
    lm_text_printf(out, "lamina_requests_refused_for_memory_total %llu\n", (unsigned long long)m.refused);
}

static void take(sample *out, lm_service *s)
{
    lm_escape(out->name, sizeof out->name, s->name);
    for (char *at = out->name; *at; at++)
        if (*at == '"' || *at == '\\')
            *at = '_';
    lm_models_status(s, &out->status);
    out->here = lm_models_peek(s);
    if (!out->here)
        return;
    lm_schedule_describe(s->schedule, &out->s);
    lm_models_unpeek(s);
}

static lm_status answer_metrics(lm_call *c, lm_error *e)
{
    size_t n = lm_models_count(c->models);
    lm_text *out = lm_exchange_out(c->x);
    char began[32];
    sample *all;

    if (!c->service->o.metrics)
        return lm_fault(c, e, 501, NULL, "metrics are off: start the server with --metrics");
    if (!(all = lm_memory_zero(n, sizeof *all)))
        return lm_fail_memory(e, "figures", n * sizeof *all);
    for (size_t i = 0; i < n; i++)
        take(all + i, lm_models_at(c->models, i));
    snprintf(began, sizeof began, "%lld", (long long)c->service->began);
    lm_exchange_add_header(c->x, "Process-Start-Time-Unix", began);
    add(out, own_figures, all, n);
    add(out, native_figures, all, n);
    add(out, vllm_figures, all, n);
    add_durations(out, all, n);
    add_ends(out, all, n);
    add_states(out, all, n);
    add_memory(out, c->x);
    lm_heap_free(all);
    lm_exchange_head(c->x, 200, "text/plain; version=0.0.4; charset=utf-8");
    lm_exchange_end(c->x);
    return LM_OK;
}

const lm_route lm_route_metrics = {
    .method = "GET", .path = "/metrics", .flags = LM_ROUTE_QUICK | LM_ROUTE_ALL, .dialect = LM_DIALECT_NATIVE,
    .summary = "metrics for Prometheus",
    .handle = answer_metrics,
};
