/* lamina serve - serve models over HTTP with the APIs of OpenAI, Anthropic, ollama and llama.cpp. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "cli/run/adapting.h"
#include "cli/run/ensembling.h"
#include "cli/base/interrupt.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/base/prompt.h"
#include "cli/serve/serve_models.h"
#include "cli/serve/serve_rights.h"
#include "cli/run/splitting.h"
#include "server/start/serve.h"

typedef struct serve_options {
    lm_model_flags    model;
    lm_run_flags      run;
    lm_sampling_flags sampling;
    lm_lora_flags     loras;
    lm_flag_list      hosts, keys, origins, allowed_hosts, aliases, ensembles;
    const char       *models_folder, *keep_alive;
    uint64_t          memory, request_memory;
    const char       *key_file, *tls_key, *tls_cert, *slot_folder, *template_file, *template_name;
    const char       *prefix_store, *store, *tags, *reasoning;
    lm_quota         quota;
    int32_t           port, predict, rule, ping, pooling;
    uint32_t          parallel, cache_tokens, connections, per_address, workers, queue, body_limit;
    double            timeout, drain, itl_target;
    lm_limits         limits;        /* stored limits of the machine, if they have been measured */
    bool              openapi, insecure, sandbox, no_sandbox, metrics, slots, no_slots, embeddings;
    bool              interventions, no_prefixes, no_page, loras_off;
} serve_options;

#define O(field) offsetof(serve_options, field)

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
    serve_options *o = options;

    lm_run_defaults(&o->run);
    lm_sampling_defaults(&o->sampling);
    o->port = 8080;
    o->predict = -1;
    o->ping = 10;
    o->parallel = 16;
    o->drain = 30;
    o->request_memory = 1000000000;
}

/* ---- files ---- */

static lm_status read_pem(lm_cli *cli, const char *path, const char **out, lm_error *e)
{
    lm_text text = { 0 };
    lm_status status = lm_read_file(path, &text, e);

    if (status == LM_OK && !(*out = lm_store_strndup(&cli->store, text.data ? text.data : "", text.size)))
        status = lm_fail_memory(e, "a file", text.size);
    lm_text_free(&text);
    return status;
}

/* ---- options ---- */

static lm_status front_options(lm_cli *cli, serve_options *o, lm_http_options *h, lm_error *e)
{
    static const char *const here[] = { "127.0.0.1", NULL };

    *h = (lm_http_options){ .hosts = o->hosts.n ? o->hosts.items : here,
                            .port = (uint16_t)o->port,
                            .connections = o->connections,
                            .per_address = o->per_address,
                            .workers = o->workers,
                            .queue = o->queue,
                            .body_limit = o->body_limit,
                            .memory_limit = o->request_memory };
    if (!o->tls_key != !o->tls_cert)
        return lm_fail(e, LM_USAGE, "--ssl-key-file", LM_NO_OFFSET,
                       "HTTPS needs both --ssl-key-file and --ssl-cert-file");
    if (o->tls_key) {
        LM_TRY(read_pem(cli, o->tls_key, &h->tls_key, e));
        LM_TRY(read_pem(cli, o->tls_cert, &h->tls_cert, e));
    }
    return LM_OK;
}

/* Set the adapters of the service. They are opened and closed here to report errors before the server starts;
 * the server opens them again with the model. */
static lm_status lora_options(lm_cli *cli, const serve_options *o, const lm_model *m, lm_service_options *s,
                              lm_error *e)
{
    lm_loras list;

    LM_TRY(lm_loras_open(cli, &o->loras, m, &list, e));
    s->loras = list.paths;
    s->lora_scales = list.scales;
    for (size_t i = 0; o->loras_off && i < list.n; i++)
        list.scales[i] = 0;
    lm_loras_close(&list);
    return LM_OK;
}

/* Set the engine's options, whose sizes depend on the model. The model is opened for its structure only. */
static lm_status engine_options(lm_cli *cli, serve_options *o, lm_service_options *s, lm_error *e)
{
    lm_model_options look = o->model.o;
    lm_model *m;

    look.structure_only = true;
    LM_TRY(lm_model_open(s->path, &look, &m, e));
    lm_status status = lm_engine_flags(&o->run, m, 0, &s->engine, e);
    if (status == LM_OK)
        status = lm_keep_card(cli, m, &s->card, e);
    if (status == LM_OK)
        status = lora_options(cli, o, m, s, e);
    lm_model_close(m);
    uint64_t context = s->engine.context ? s->engine.context : s->card.context_length;
    s->engine.sequences = o->parallel;
    s->engine.logit_rows = o->parallel * 2;
    s->engine.kv_positions = o->cache_tokens ? o->cache_tokens
                                             : context * (o->parallel < 4 ? o->parallel : 4);
    s->engine.hidden = o->embeddings;
    return status;
}

/* Set the options of the further models of an ensemble. Their sizes are those of the first model; the context
 * is the shortest of all. Parameters and bytes of all models are added up in the card, which model lists
 * show. */
static lm_status other_options(lm_cli *cli, serve_options *o, const lm_ensemble *x, lm_service_options *s,
                               lm_error *e)
{
    lm_service_other *others = lm_store_new(&cli->store, x->mixture.n, lm_service_other);
    lm_model_options look = o->model.o;
    lm_model *first, *m = NULL;
    lm_model_info info;

    if (!others)
        return lm_fail_memory(e, "the models", sizeof *others);
    look.structure_only = true;
    LM_TRY(lm_model_open(s->path, &look, &first, e));
    lm_status status = LM_OK;
    uint64_t context = s->engine.context ? s->engine.context : s->card.context_length;
    for (uint32_t i = 0; i + 1 < x->mixture.n && status == LM_OK; i++) {
        status = lm_find_weights(cli, &o->model, x->paths[1 + i], &others[i].path, e);
        if (status == LM_OK)
            status = lm_model_open(others[i].path, &look, &m, e);
        if (status == LM_OK && (status = lm_draft_fits(m, first, e)) != LM_OK)
            lm_fail_in(e, others[i].path);
        if (status == LM_OK)
            status = lm_engine_flags(&o->run, m, 0, &others[i].engine, e);
        if (status == LM_OK) {
            lm_model_describe(m, &info);
            uint64_t own = others[i].engine.context ? others[i].engine.context : info.context_length;
            context = own < context ? own : context;
            s->card.parameters += info.parameters;
            s->card.weight_bytes += info.weight_bytes;
        }
        lm_model_close(m);
        m = NULL;
    }
    lm_model_close(first);
    s->engine.context = s->card.context_length = (uint32_t)context;
    for (uint32_t i = 0; i + 1 < x->mixture.n; i++) {
        others[i].engine.context = (uint32_t)context;
        others[i].engine.sequences = s->engine.sequences;
        others[i].engine.rows = s->engine.rows;
        others[i].engine.logit_rows = s->engine.logit_rows;
        others[i].engine.kv_positions = s->engine.kv_positions;
    }
    s->others = others;
    s->mixture = x->mixture;
    return status;
}

static lm_status ensemble_options(lm_cli *cli, serve_options *o, const char *text, lm_service_options *s,
                                  lm_error *e)
{
    lm_ensemble x;

    LM_TRY(lm_ensemble_read(cli, text, o->rule, &x, e));
    if (!x.name || !*x.name)
        return lm_fail(e, LM_USAGE, "--ensemble", LM_NO_OFFSET, "needs a name for requests: NAME=A:W,B:W");
    s->name = x.name;
    LM_TRY(lm_find_weights(cli, &o->model, x.paths[0], &s->path, e));
    LM_TRY(engine_options(cli, o, s, e));
    return other_options(cli, o, &x, s, e);
}

static lm_status service_options(lm_cli *cli, serve_options *o, lm_service_options *s, lm_error *e)
{
    *s = (lm_service_options){ .model = o->model.o,
                               .sampling = o->sampling.o,
                               .predict = o->predict,
                               .template_name = o->template_name,
                               .metrics = o->metrics,
                               .no_slots = o->no_slots,
                               .embeddings = o->embeddings,
                               .interventions = o->interventions,
                               .no_page = o->no_page,
                               .slot_folder = o->slot_folder,
                               .origins = o->origins.items,
                               .allowed_hosts = o->allowed_hosts.items,
                               .schedule = { .queue = o->queue,
                                             .itl_target = o->itl_target,
                                             .no_prefixes = o->no_prefixes,
                                             .prefix_store = o->prefix_store } };
    s->tags = o->tags;
    s->ping = o->ping;
    s->pooling = o->pooling;
    s->timeout = o->timeout;
    s->verbose = cli->verbose;
    if (o->reasoning && strcmp(o->reasoning, "on") == 0)
        s->thinking = LM_THINKING_ON;
    else if (o->reasoning && strcmp(o->reasoning, "off") == 0)
        s->thinking = LM_THINKING_OFF;
    else if (o->reasoning && strcmp(o->reasoning, "auto"))
        return lm_fail(e, LM_USAGE, "--reasoning", LM_NO_OFFSET, "\"%s\": expected on, off or auto",
                       o->reasoning);
    if (o->slots && o->no_slots)
        return lm_fail(e, LM_USAGE, "--slots", LM_NO_OFFSET, "cannot be combined with --no-slots");
    if (o->sampling.bias.n || o->sampling.breakers.n || o->sampling.ignore_eos)
        return lm_fail(e, LM_USAGE,
                       o->sampling.bias.n       ? "--logit-bias"
                       : o->sampling.breakers.n ? "--dry-sequence-breaker"
                                                : "--ignore-eos",
                       LM_NO_OFFSET, "not a default of the server: requests set it");
    s->model.sliding_window = o->model.window;
    if (o->template_file)
        LM_TRY(read_pem(cli, o->template_file, &s->template_source, e));
    return LM_OK;
}

/* Set the options of every model and ensemble. A model that was found in a folder and cannot be opened is
 * skipped with a warning. */
static lm_status each_model(lm_cli *cli, serve_options *o, const lm_served_model *list, size_t n,
                            lm_models_options *all, lm_error *e)
{
    lm_service_options common, *services = lm_store_new(&cli->store, n + o->ensembles.n, lm_service_options);

    if (!services)
        return lm_fail_memory(e, "the models", (n + o->ensembles.n) * sizeof *services);
    LM_TRY(service_options(cli, o, &common, e));
    lm_measure_options kept = { .cpu = o->run.cpu, .threads = o->run.threads, .kept_only = true };
    if (lm_machine_measure(&kept, &o->limits, NULL) == LM_OK)
        common.limits = &o->limits;          /* read now: the sandbox prevents it later */
    all->services = services;
    all->n = 0;
    for (size_t i = 0; i < n; i++) {
        lm_service_options *s = services + all->n;

        *s = common;
        s->path = list[i].path;
        s->name = list[i].name;
        s->aliases = list[i].aliases;
        lm_status status = engine_options(cli, o, s, e);
        if (status != LM_OK && !list[i].found)
            return status;
        if (status == LM_OK)
            all->n++;
        else
            lm_warn("%s is passed over: %s", list[i].path, e->message);
    }
    for (size_t i = 0; i < o->ensembles.n; i++) {
        services[all->n] = common;
        LM_TRY(ensemble_options(cli, o, o->ensembles.items[i], services + all->n, e));
        all->n++;
    }
    return all->n ? LM_OK
                  : lm_fail(e, LM_NOT_FOUND, "--models-dir", LM_NO_OFFSET, "no model in %s can be served",
                            o->models_folder);
}

static lm_status models_options(lm_cli *cli, serve_options *o, lm_models_options *all, lm_error *e)
{
    lm_served_model *list;
    lm_machine machine;
    size_t n;

    if (o->rule && !o->ensembles.n)
        return lm_fail(e, LM_USAGE, "--ensemble-rule", LM_NO_OFFSET, "requires --ensemble");
    LM_TRY(lm_served_models(cli, &o->model, o->models_folder, o->ensembles.n > 0, &o->aliases, &list, &n, e));
    if (o->model.o.cluster && (n > 1 || o->models_folder || o->ensembles.n))
        return lm_fail(e, LM_USAGE, "--split", LM_NO_OFFSET, "several ranks serve one model,"
                       " without --models-dir and --ensemble");
    if (o->model.o.cluster && o->prefix_store)
        return lm_fail(e, LM_USAGE, "--prefix-store", LM_NO_OFFSET,
                       "cannot be combined with --split: each rank has a part of a prefix");
    if (n + o->ensembles.n > 1 && o->loras.files.n)
        return lm_fail(e, LM_USAGE, "--lora", LM_NO_OFFSET, "an adapter belongs to one model; %zu are served",
                       n + o->ensembles.n);
    if (o->ensembles.n && o->loras.files.n)
        return lm_fail(e, LM_USAGE, "--lora", LM_NO_OFFSET, "cannot be combined with --ensemble");
    LM_TRY(each_model(cli, o, list, n, all, e));
    all->stays = all->n == 1 && !o->keep_alive;
    all->keep_alive = 300;
    all->memory = o->memory;
    if (o->keep_alive && !lm_duration_read(o->keep_alive, &all->keep_alive))
        return lm_fail(e, LM_USAGE, "--keep-alive", LM_NO_OFFSET,
                       "\"%s\" is not a time: expected seconds, or a time as 5m", o->keep_alive);
    if (!o->memory && all->n > 1 && lm_machine_describe(&machine, NULL) == LM_OK)
        all->memory = machine.available;
    return LM_OK;
}

static lm_status sandbox_options(lm_cli *cli, const serve_options *o, lm_server_options *all, lm_error *e)
{
    const char *slash = o->store ? strrchr(o->store, '/') : NULL;
    const char *folder = slash      ? lm_store_strndup(&cli->store, o->store, (size_t)(slash - o->store) + 1)
                         : o->store ? "."
                                    : NULL;
    const char *const stores[] = { o->prefix_store, o->slot_folder, folder };

    if (o->sandbox && o->no_sandbox)
        return lm_fail(e, LM_USAGE, "--sandbox", LM_NO_OFFSET, "cannot be combined with --no-sandbox");
    if (o->sandbox && o->model.o.cluster)
        return lm_fail(e, LM_USAGE, "--sandbox", LM_NO_OFFSET,
                       "cannot be combined with --split: MPI needs rights that it takes away");
    all->sandbox = !o->no_sandbox && !o->model.o.cluster;
    return all->sandbox ? lm_serve_rights(cli, o->key_file, stores, sizeof stores / sizeof *stores, all, e)
                        : LM_OK;
}

/* ---- serving ---- */

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

static lm_status serve_until_signal(lm_server *s, const serve_options *o, const sigset_t *ends, lm_error *e)
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

static lm_status describe(lm_error *e)
{
    lm_text text = { 0 };
    lm_status status = lm_server_describe(&text, e);

    if (status == LM_OK)
        status = lm_out_text(text.data, text.size, e);
    lm_text_free(&text);
    return status;
}

static lm_status serve(lm_cli *cli, void *options, lm_error *e)
{
    serve_options *o = options;
    lm_server_options all = { 0 };
    lm_server *s = NULL;
    sigset_t ends;

    if (o->openapi)
        return describe(e);
    LM_TRY(front_options(cli, o, &all.http, e));
    LM_TRY(models_options(cli, o, &all.models, e));
    LM_TRY(sandbox_options(cli, o, &all, e));
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
    .about = "  Speaks the APIs of OpenAI (/v1/chat/completions ...), Anthropic (/v1/messages), ollama (/api/chat ...) and\n"
             "  llama.cpp (/completion, /slots ...); /openapi.json describes them. -c sets the context size per request, --parallel\n"
             "  the number of requests generated concurrently.\n"
             "  Several models are loaded when requests name them, as far as memory allows, and unloaded when idle.\n"
             "  SIGTERM and Ctrl-C let running requests finish; a second one ends them. Flags can be set in the environment:\n"
             "  LAMINA_ARG_CTX_SIZE=4096 is --ctx-size 4096.\n",
    .groups = serve_groups,
    .foreign = true,
    .max_args = SIZE_MAX,
    .environment = true,
    .options_size = sizeof(serve_options),
    .defaults = serve_defaults,
    .run = serve,
};
