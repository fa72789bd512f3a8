/* serve_options.c - the options of the server from the flags of `lamina serve`.
 *
 * Read lm_serve_options at the end first: the address, then each model and ensemble, then the sandbox, whose
 * folders follow from both. Models are opened for their structure and closed again, so that an error is
 * reported before the server starts. All lists and texts are in the store of the command. */
#include "cli/serve/serve_options.h"

#include <string.h>

#include "cli/base/output.h"
#include "cli/base/prompt.h"
#include "cli/run/ensembling.h"
#include "cli/serve/serve_models.h"
#include "cli/serve/serve_rights.h"

/* By default the cache has room for this many contexts, and for as many checkpoints (lamina/engine.h). */
enum { SHARED_CONTEXTS = 4 };

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

lm_status lm_serve_check_prefix(const char *prefix, lm_error *e)
{
    size_t n = prefix ? strlen(prefix) : 0;

    if (n && (*prefix != '/' || prefix[n - 1] == '/' || strpbrk(prefix, "?#% \t")))
        return lm_fail(e, LM_USAGE, "--api-prefix", LM_NO_OFFSET,
                       "\"%.100s\" is not a path as \"/llm\": it must begin with a slash and not end with one",
                       prefix);
    return LM_OK;
}

static lm_status http_options(lm_cli *cli, lm_serve_flags *o, lm_http_options *h, lm_error *e)
{
    static const char *const here[] = { "127.0.0.1", NULL };

    *h = (lm_http_options){ .hosts = o->hosts.n ? o->hosts.items : here,
                            .port = (uint16_t)o->port,
                            .prefix = o->prefix,
                            .connections = o->connections,
                            .per_address = o->per_address,
                            .workers = o->workers,
                            .queue = o->queue,
                            .body_limit = o->body_limit,
                            .memory_limit = o->request_memory };
    LM_TRY(lm_serve_check_prefix(o->prefix, e));
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
static lm_status lora_options(lm_cli *cli, const lm_serve_flags *o, const lm_model *m, lm_service_options *s,
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

static void print_warning(void *arg, lm_log_level level, const char *text)
{
    (void)arg;
    if (level == LM_LOG_WARNING)
        lm_warn("%s", text);
}

/* Set the engine's options, whose sizes depend on the model. The model is opened for its structure only. */
static lm_status engine_options(lm_cli *cli, lm_serve_flags *o, lm_service_options *s, lm_error *e)
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
    lm_sampling_flags sampling = o->sampling;
    lm_sampling_model(cli, &sampling, m);
    s->sampling = sampling.o;
    lm_model_close(m);
    uint64_t context = s->engine.context ? s->engine.context : s->card.context_length;
    s->engine.sequences = o->parallel;
    s->engine.checkpoints = o->parallel < SHARED_CONTEXTS ? o->parallel : SHARED_CONTEXTS;
    s->engine.max_logits = o->parallel * 2 < s->engine.max_rows ? o->parallel * 2 : s->engine.max_rows;
    s->engine.kv_positions = o->cache_tokens ? o->cache_tokens
                                             : context * s->engine.checkpoints;
    s->engine.hidden = o->embeddings;
    s->log.write = print_warning;
    return status;
}

/* Set the options of the further models of an ensemble. Their sizes are those of the first model; the context
 * is the shortest of all. Parameters and bytes of all models are added up in the card, which model lists
 * show. */
static lm_status other_options(lm_cli *cli, lm_serve_flags *o, const lm_ensemble *x, lm_service_options *s,
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
        others[i].engine.max_rows = s->engine.max_rows;
        others[i].engine.max_logits = s->engine.max_logits;
        others[i].engine.kv_positions = s->engine.kv_positions;
    }
    s->others = others;
    s->mixture = x->mixture;
    return status;
}

static lm_status ensemble_options(lm_cli *cli, lm_serve_flags *o, const char *text, lm_service_options *s,
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

static lm_status service_options(lm_cli *cli, lm_serve_flags *o, lm_service_options *s, lm_error *e)
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
static lm_status each_model(lm_cli *cli, lm_serve_flags *o, const lm_served_model *list, size_t n,
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
            lm_warn("%s is passed over: %s%s%s", list[i].path, *e->where ? e->where : "",
                    *e->where ? ": " : "", e->message);
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

static lm_status models_options(lm_cli *cli, lm_serve_flags *o, lm_models_options *all, lm_error *e)
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

static lm_status sandbox_options(lm_cli *cli, const lm_serve_flags *o, lm_server_options *all, lm_error *e)
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

lm_status lm_serve_options(lm_cli *cli, lm_serve_flags *o, lm_server_options *out, lm_error *e)
{
    LM_TRY(http_options(cli, o, &out->http, e));
    LM_TRY(models_options(cli, o, &out->models, e));
    return sandbox_options(cli, o, out, e);
}
