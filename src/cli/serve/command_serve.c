/* lamina serve - serve models over HTTP with the APIs of OpenAI, Anthropic, ollama and llama.cpp. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "cli/base/interrupt.h"
#include "cli/base/output.h"
#include "cli/run/ensembling.h"
#include "cli/run/splitting.h"
#include "cli/serve/serve_options.h"

#define O(field) offsetof(lm_serve_flags, field)

static const char *const pooling_words[] = { "last", "mean", NULL };         /* indexed by lm_pooling */

static const lm_flag serve_flag_table[] = {
    { "--host", NULL, LM_FLAG_LIST, O(hosts), "ADDRESS",
      "address to listen at, or unix:PATH; may be repeated (127.0.0.1)", 0, 0, NULL },
    { "--port", NULL, LM_FLAG_INT, O(port), "N", "port; 0: any free one (8080)", 0, 65535, NULL },
    { "--api-key", NULL, LM_FLAG_LIST, O(keys), "KEY",
      "API key that clients must send; may be repeated", 0, 0, NULL },
    { "--api-key-file", NULL, LM_FLAG_TEXT, O(key_file), "FILE",
      "file with one API key per line, optionally followed by limits; read again at SIGHUP", 0, 0, NULL },
    { "--requests-per-minute", NULL, LM_FLAG_I64, O(quota.requests_minute), "N",
      "maximum requests per minute and key; without keys, of all clients; 0: no limit (0)", 0, 1e9, NULL },
    { "--tokens-per-minute", NULL, LM_FLAG_I64, O(quota.tokens_minute), "N",
      "maximum tokens per minute and key, prompts included; 0: no limit (0)", 0, 1e12, NULL },
    { "--tokens-per-day", NULL, LM_FLAG_I64, O(quota.tokens_day), "N",
      "maximum tokens per day (UTC) and key; 0: no limit (0)", 0, 1e15, NULL },
    { "--insecure", NULL, LM_FLAG_SWITCH, O(insecure), NULL,
      "allow other machines to connect without an API key", 0, 0, NULL },
    { "--sandbox", NULL, LM_FLAG_SWITCH, O(sandbox), NULL,
      "sandbox the server after startup (on by default)", 0, 0, NULL },
    { "--no-sandbox", NULL, LM_FLAG_SWITCH, O(no_sandbox), NULL, "do not sandbox the server", 0, 0, NULL },
    { "--allowed-host", NULL, LM_FLAG_LIST, O(allowed_hosts), "NAME",
      "name of this server in requests, as behind a proxy: NAME or NAME:PORT; may be repeated (any name "
      "where API keys are set)",
      0, 0, NULL },
    { "--cors-origins", NULL, LM_FLAG_LIST, O(origins), "ORIGIN",
      "web origin allowed to use the server; *: any; may be repeated", 0, 0, NULL },
    { "--ssl-key-file", NULL, LM_FLAG_TEXT, O(tls_key), "FILE", "private key (PEM) for HTTPS", 0, 0, NULL },
    { "--ssl-cert-file", NULL, LM_FLAG_TEXT, O(tls_cert), "FILE", "certificate (PEM) for HTTPS", 0, 0, NULL },
    { "--api-prefix", NULL, LM_FLAG_TEXT, O(prefix), "PATH",
      "path before that of every route and of the page: /llm", 0, 0, NULL },
    { "--alias", "-a", LM_FLAG_LIST, O(aliases), "NAME",
      "model name shown to clients (default: the file's name); commas separate further names; "
      "may be repeated, once per model in their order", 0, 0, NULL },
    { "--tags", NULL, LM_FLAG_TEXT, O(tags), "WORDS",
      "tags that GET /v1/models returns, separated by commas", 0, 0, NULL },
    { "--models-dir", NULL, LM_FLAG_TEXT, O(models_folder), "DIR",
      "also serve the .gguf files and model folders in DIR", 0, 0, NULL },
    { "--ensemble", NULL, LM_FLAG_LIST, O(ensembles), "NAME=A:W,B:W",
      "also serve models with the same vocabulary that choose each token together, with their weights "
      "(1 each); may be repeated",
      0, 0, NULL },
    { "--ensemble-rule", NULL, LM_FLAG_WORD, O(rule), "RULE",
      "how predictions are combined: mean of probabilities, logmean of log-probabilities, "
      "or contrast, the first model against the second (mean)",
      0, 0, lm_ensemble_rules },
    { "--mem-limit", NULL, LM_FLAG_SIZE, O(memory), "SIZE",
      "maximum memory of all loaded models: 16G (default: the available memory)", 0, 0, NULL },
    { "--keep-alive", NULL, LM_FLAG_TEXT, O(keep_alive), "TIME",
      "time until an idle model is unloaded: 300, 5m, -1: never (one model: never; several: 5m)",
      0, 0, NULL },
    { "--parallel", "-np", LM_FLAG_COUNT, O(parallel), "N",
      "requests generated concurrently (16)", 1, 1024, NULL },
    { "--cache-tokens", NULL, LM_FLAG_COUNT, O(cache_tokens), "N",
      "KV cache size in tokens, shared by all requests (default: four contexts)", 1, UINT32_MAX, NULL },
    { "--predict", "-n --n-predict", LM_FLAG_INT, O(predict), "N",
      "tokens to generate when a request sets no limit; -1: no limit (-1)", -1, INT32_MAX, NULL },
    { "--itl-target", NULL, LM_FLAG_DOUBLE, O(itl_target), "SECONDS",
      "target time between two tokens of a request while prompts are processed (default: twice the time of a "
      "step)", 1e-4, 100, NULL },
    { "--no-cache-prompt", NULL, LM_FLAG_SWITCH, O(no_prefixes), NULL,
      "do not cache prefixes of prompts", 0, 0, NULL },
    { "--prefix-store", NULL, LM_FLAG_TEXT, O(prefix_store), "DIR",
      "folder that stores cached prefixes across restarts", 0, 0, NULL },
    { "--store", NULL, LM_FLAG_TEXT, O(store), "FILE",
      "database that stores responses and token counts across restarts (default: in memory)", 0, 0, NULL },
    { "--slot-save-path", NULL, LM_FLAG_TEXT, O(slot_folder), "DIR",
      "folder for POST /slots/N?action=save|restore", 0, 0, NULL },
    { "--slots", NULL, LM_FLAG_SWITCH, O(slots), NULL, "enable GET /slots (default)", 0, 0, NULL },
    { "--no-slots", NULL, LM_FLAG_SWITCH, O(no_slots), NULL, "disable GET /slots", 0, 0, NULL },
    { "--metrics", NULL, LM_FLAG_SWITCH, O(metrics), NULL, "GET /metrics, for Prometheus", 0, 0, NULL },
    { "--no-ui", "--no-webui", LM_FLAG_SWITCH, O(no_page), NULL,
      "do not serve the web page at /", 0, 0, NULL },
    { "--allow-interventions", NULL, LM_FLAG_SWITCH, O(interventions), NULL,
      "let requests change values inside the model while they run (\"intervene\" of requests)", 0, 0, NULL },
    { "--lora-init-without-apply", NULL, LM_FLAG_SWITCH, O(loras_off), NULL,
      "adapters have the scale 0 until a request or POST /lora-adapters names them", 0, 0, NULL },
    { "--embeddings", "--embedding", LM_FLAG_SWITCH, O(embeddings), NULL, "POST /v1/embeddings", 0, 0, NULL },
    { "--pooling", NULL, LM_FLAG_WORD, O(pooling), "KIND",
      "default pooling of embeddings: the last token, or the mean of all (last)", 0, 0, pooling_words },
    { "--chat-template", NULL, LM_FLAG_TEXT, O(template_name), "NAME",
      "one of the model's chat templates (default: default)", 0, 0, NULL },
    { "--chat-template-file", NULL, LM_FLAG_TEXT, O(template_file), "FILE",
      "chat template to use instead of the model's", 0, 0, NULL },
    { "--reasoning", NULL, LM_FLAG_TEXT, O(reasoning), "on|off|auto",
      "default reasoning of models whose chat template can switch it (auto: the template's default)",
      0, 0, NULL },
    { "--max-connections", NULL, LM_FLAG_COUNT, O(connections), "N",
      "maximum concurrent connections (1024)", 1, 65536, NULL },
    { "--max-per-address", NULL, LM_FLAG_COUNT, O(per_address), "N",
      "maximum connections per address; 0: no limit (0)", 0, 65536, NULL },
    { "--max-queue", NULL, LM_FLAG_COUNT, O(queue), "N", "maximum queued requests (512)", 1, 65536, NULL },
    { "--max-body", NULL, LM_FLAG_COUNT, O(body_limit), "BYTES",
      "maximum size of a request body (8388608)", 1024, 1e9, NULL },
    { "--max-request-memory", NULL, LM_FLAG_SIZE, O(request_memory), "SIZE",
      "maximum memory of all requests together: bodies, conversations, prompts, grammars, answers (1G)",
      0, 0, NULL },
    { "--threads-http", NULL, LM_FLAG_COUNT, O(workers), "N",
      "threads for HTTP connections (2)", 1, 64, NULL },
    { "--openapi", NULL, LM_FLAG_SWITCH, O(openapi), NULL,
      "print the OpenAPI description of the server and exit", 0, 0, NULL },
    { "--sse-ping-interval", NULL, LM_FLAG_INT, O(ping), "SECONDS",
      "interval of keep-alive comments in idle streams; -1: never (10)", -1, 86400, NULL },
    { "--timeout", "-to", LM_FLAG_DOUBLE, O(timeout), "SECONDS",
      "maximum time of a request; it then ends with the output so far; 0: no limit (0)", 0, 1e6, NULL },
    { "--drain-timeout", NULL, LM_FLAG_DOUBLE, O(drain), "SECONDS",
      "time for running requests to end after SIGTERM (30)", 0, 86400, NULL },
    { 0 },
};

static const lm_flag_group serve_groups[] = {
    { "server", serve_flag_table, 0 },
    { "model", lm_model_flag_table, O(model) },
    { "engine", lm_run_flag_table, O(run) },
    { "several ranks", lm_split_flag_table, O(model) },
    { "adapters", lm_lora_flag_table, O(loras) },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { "sampling defaults", lm_sampling_flag_table, O(sampling) },
    { 0 },
};

static void serve_defaults(void *options)
{
    lm_serve_flags *o = options;

    lm_run_defaults(&o->run);
    lm_sampling_defaults(&o->sampling);
    o->port = 8080;
    o->predict = -1;
    o->ping = 10;
    o->parallel = 16;
    o->drain = 30;
    o->request_memory = 1000000000;
}

static void reload(lm_server *s)
{
    lm_error e = { 0 };
    size_t n = 0;

    if (lm_server_reload(s, &n, &e) == LM_OK)
        lm_note("%zu API key%s from now on", n, n == 1 ? "" : "s");
    else
        lm_warn("API keys stay as they are: %s%s%s", e.where, *e.where ? ": " : "", e.message);
}

/* Wait for one of the signals `ends`, or until a rank of the cluster is lost. If `reloads`, SIGHUP does not
 * end the wait but reloads the API keys. The signals were blocked before threads were created, so no other
 * thread receives them. */
static void wait_for_end(lm_server *s, const sigset_t *ends, bool reloads, const lm_cluster *cluster)
{
    const struct timespec often = { .tv_sec = 0, .tv_nsec = 100000000 };

    for (int number = 0; number <= 0 || (reloads && number == SIGHUP);) {
        if (cluster) {
            number = sigtimedwait(ends, NULL, &often);
            if (lm_cluster_lost(cluster))
                return;
        } else if (sigwait(ends, &number)) {
            number = 0;
        }
        if (reloads && number == SIGHUP)
            reload(s);
    }
}

/* End the server after another rank was lost. Running requests have failed already; waiting ones are answered
 * with an error. */
static lm_status end_lost(lm_server *s, lm_error *e)
{
    lm_server_drain(s, 1);
    return lm_fail(e, LM_IO, "ranks", LM_NO_OFFSET, "another rank was lost; the server stops");
}

/* The thread that waits for running requests, while the main thread waits for a second signal. */
static void *drain(void *server)
{
    lm_server_drain(server, -1);
    return NULL;
}

static lm_status serve_until_signal(lm_server *s, const lm_serve_flags *o, const sigset_t *ends, lm_error *e)
{
    struct timespec wait = { .tv_sec = 0, .tv_nsec = 50000000 };
    struct timespec began, now;
    double seconds = o->drain;
    pthread_t thread;

    wait_for_end(s, ends, o->key_file != NULL, o->model.o.cluster);
    if (lm_cluster_lost(o->model.o.cluster))
        return end_lost(s, e);
    lm_note("shutting down: waiting up to %g s for active requests; send the signal again to stop now",
            seconds);
    if (pthread_create(&thread, NULL, drain, s))
        return lm_fail(e, LM_FAILED, "the server", LM_NO_OFFSET, "cannot start a thread");
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (;;) {
        if (pthread_tryjoin_np(thread, NULL) == 0)
            return LM_OK;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (sigtimedwait(ends, NULL, &wait) > 0 || (double)(now.tv_sec - began.tv_sec) >= seconds)
            break;
    }
    lm_note("ended before all requests were answered");
    lm_server_drain(s, 0);
    pthread_join(thread, NULL);
    return LM_OK;
}

static lm_status describe(const char *prefix, lm_error *e)
{
    lm_text text = { 0 };

    LM_TRY(lm_serve_check_prefix(prefix, e));
    lm_status status = lm_server_describe(prefix, &text, e);
    if (status == LM_OK)
        status = lm_out_text(text.data, text.size, e);
    lm_text_free(&text);
    return status;
}

static lm_status serve(lm_cli *cli, void *options, lm_error *e)
{
    lm_serve_flags *o = options;
    lm_server_options all = { 0 };
    lm_server *s = NULL;
    sigset_t ends;

    if (o->openapi)
        return describe(o->prefix, e);
    LM_TRY(lm_serve_options(cli, o, &all, e));
    all.store = o->store;
    all.keys = (lm_keys_options){ .keys = o->keys.items, .file = o->key_file, .limits = o->quota };
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_DUMPABLE, 0);               /* keep API keys and requests out of core files */
    LM_TRY(lm_server_start(&all, o->insecure, &s, e));
    if (*lm_server_unrestricted())
        lm_warn("--sandbox: %s", lm_server_unrestricted());
    for (size_t i = 0; lm_server_url(s, i); i++)
        lm_print_line("listening on %s", lm_server_url(s, i));
    lm_status status = lm_server_load(s, e);
    if (status == LM_OK) {
        if (all.models.n == 1)
            lm_note("ready: %s", all.models.services->path);
        else
            lm_note("ready: %zu models, each loaded on its first request", all.models.n);
        status = serve_until_signal(s, o, &ends, e);
    }
    lm_server_free(s);
    return status;
}

const lm_command lm_command_serve = {
    .name = "serve",
    .usage = "[MODEL ...] [--models-dir DIR] [--host ADDRESS] [--port N] [--api-key KEY]"
             " [--parallel N] [-c N]",
    .summary = "serve models over HTTP",
    .about = "  Speaks the APIs of OpenAI (/v1/chat/completions ...), Anthropic (/v1/messages), ollama "
             "(/api/chat ...) and\n"
             "  llama.cpp (/completion, /slots ...); /openapi.json describes them. -c sets the context size "
             "per request, --parallel\n"
             "  the number of requests generated concurrently.\n"
             "  Several models are loaded when requests name them, as far as memory allows, and unloaded "
             "when idle.\n"
             "  SIGTERM and Ctrl-C let running requests finish; a second one ends them. Flags can be set in "
             "the environment:\n"
             "  LAMINA_ARG_CTX_SIZE=4096 is --ctx-size 4096.\n",
    .groups = serve_groups,
    .foreign = true,
    .max_args = SIZE_MAX,
    .environment = true,
    .options_size = sizeof(lm_serve_flags),
    .defaults = serve_defaults,
    .run = serve,
};
