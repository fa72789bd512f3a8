/* lamina fit - check whether a model fits a machine, with how much context and how many sequences, and how
 * fast it would run. */
#include <string.h>

#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/study/fit_page.h"
#include "cli/study/fit_tables.h"

enum { MAX_MODELS = 16 };

typedef struct fit_options {
    lm_model_flags model;
    lm_run_flags   run;
    const char    *device, *precision;
    uint64_t       ram, vram;            /* bytes; 0: not given */
    uint32_t       batch, prompt;
    double         price;
    bool           fleet, throughput;
} fit_options;

#define O(field) offsetof(fit_options, field)

static const lm_flag fit_flag_table[] = {
    { "--device", NULL, LM_FLAG_TEXT, O(device), "NAME",
      "device from the catalogue (lamina devices), or all (default: this machine)", 0, 0, NULL },
    { "--ram", NULL, LM_FLAG_SIZE, O(ram), "SIZE",
      "available memory, instead of this machine's: 16G (decimal), 16GiB (binary)", 0, 0, NULL },
    { "--vram", NULL, LM_FLAG_SIZE, O(vram), "SIZE",
      "memory of a device that is not in the catalogue, less what its driver needs; a card sold with 24 GB "
      "has 24GiB", 0, 0, NULL },
    { "--fleet", NULL, LM_FLAG_SWITCH, O(fleet), NULL,
      "check whether all MODELs fit together, and how many copies fit", 0, 0, NULL },
    { "--throughput", NULL, LM_FLAG_SWITCH, O(throughput), NULL,
      "show tokens per second by number of sequences, in the best precision", 0, 0, NULL },
    { "--price", NULL, LM_FLAG_DOUBLE, O(price), "X",
      "cost of one machine-hour; adds the lowest possible cost per million tokens", 0, 1e9, NULL },
    { "--context", "-c --ctx-size", LM_FLAG_INT, O(run.context), "N",
      "context length in tokens; 0: the model's full context (default: the same, at most 8192)",
      0, INT32_MAX, NULL },
    { "--batch", NULL, LM_FLAG_COUNT, O(batch), "N", "number of sequences (1)", 1, 1 << 16, NULL },
    { "--precision", NULL, LM_FLAG_TEXT, O(precision), "TYPE",
      "weight precision: f16, Q8_0, Q4_K_M ... (default: the common ones)", 0, 0, NULL },
    { "--prompt", NULL, LM_FLAG_COUNT, O(prompt), "N",
      "prompt length for the predicted speed, in tokens (512)", 1, 1 << 24, NULL },
    { "--ubatch-size", "-ub", LM_FLAG_COUNT, O(run.ubatch), "N",
      "physical batch size in tokens (512)", 1, 1 << 16, NULL },
    { "--threads", "-t", LM_FLAG_COUNT, O(run.threads), "N", "threads on this machine", 0, 1024, NULL },
    { "--cpu", NULL, LM_FLAG_TEXT, O(run.cpu), "LEVEL", "instruction set on this machine", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group fit_groups[] = {
    { "fit", fit_flag_table, 0 },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { "model", lm_model_flag_table, O(model) },
    { 0 },
};

static void fit_defaults(void *options)
{
    fit_options *o = options;

    lm_run_defaults(&o->run);
    o->batch = 1;
}

/* Print a note if the size is decimal, since manufacturers of cards write GB for 2^30 bytes. */
static void note_card(uint64_t bytes)
{
    double decimal = (double)bytes / 1e9;

    if (bytes % 1000000000 == 0)
        lm_note("--vram is decimal: %.0f GB are %.1f GiB; a card sold with %.0f GB has %.0f GiB: "
                "--vram %.0fGiB", decimal, (double)bytes / (1 << 30), decimal, decimal, decimal);
}

static lm_status find_place(const fit_options *o, lm_fit_place *at, lm_fit_options *fit, lm_error *e)
{
    if ((o->device != NULL) + (o->vram != 0) > 1 || (o->ram && o->vram))
        return lm_fail(e, LM_USAGE, "fit", LM_NO_OFFSET, "--vram cannot be combined with --device or --ram");
    if (o->device && strcmp(o->device, "all") != 0)
        LM_TRY(lm_device_find(o->device, &at->device, e));
    fit->memory = o->ram ? o->ram : o->vram;
    if (o->vram)
        note_card(o->vram);
    at->here = !o->device && !o->vram;
    lm_engine_options types;
    LM_TRY(lm_cache_options(&o->run.cache, LM_KV_F16, &types, e));
    lm_cache_words(&types, at->kv);
    fit->device = at->device;
    fit->no_speed = o->vram != 0;
    fit->precision = o->precision;
    fit->prompt = o->prompt;
    return LM_OK;
}

/* Get the machine's peak rates, needed for speeds: stored results, or a new measurement. */
static lm_status measure_here(const fit_options *o, lm_fit_place *at, lm_fit_options *fit, lm_error *e)
{
    if (!at->here)
        return LM_OK;
    LM_TRY(lm_machine_measure(&(lm_measure_options){ .cpu = o->run.cpu, .threads = o->run.threads },
                              &at->limits, e));
    fit->limits = lm_limits_usable(&at->limits);
    return LM_OK;
}

static lm_status open_model(lm_cli *cli, fit_options *o, const char *name, lm_fit_options *fit,
                            lm_fitted *out, lm_model **m, lm_error *e)
{
    o->model.o.weights_optional = o->model.o.tokenizer_optional = o->model.heads = true;
    LM_TRY(lm_open_model(cli, &o->model, name, m, e));
    lm_model_describe(*m, &out->info);
    out->info.name = lm_store_strdup(&cli->store, out->info.name);
    out->has_weights = out->info.weight_bytes > 0;
    lm_status status = out->info.name ? lm_engine_flags(&o->run, *m, 0, &fit->engine, e)
                                      : lm_fail_memory(e, "fit", 0);
    fit->engine.sequences = o->batch;
    if (status != LM_OK)
        lm_model_close(*m);
    return status;
}

static lm_status measure(lm_cli *cli, fit_options *o, const char *name, lm_fit_options *fit, lm_fitted *out,
                         lm_error *e)
{
    lm_model *m = NULL;

    LM_TRY(open_model(cli, o, name, fit, out, &m, e));
    lm_status status = lm_fit_model(m, fit, &out->fit, e);
    lm_model_close(m);
    return status;
}

static lm_status no_fit(uint64_t min, const char *precision, uint64_t memory, lm_error *e)
{
    char a[LM_FORMATTED], b[LM_FORMATTED];

    return lm_fail(e, LM_NO_FIT, "memory", LM_NO_OFFSET, "%s: %s are needed, there are %s", precision,
                   lm_format_bytes(a, min), lm_format_bytes(b, memory));
}

/* Print the JSON document or the page, and free both. The document also contains the error if the model does
 * not fit. Return the verdict, unless printing fails. */
static lm_status print(lm_cli *cli, json_t *json, lm_text *page, lm_status verdict, lm_error *e)
{
    if (cli->json && verdict != LM_OK)
        json_object_set_new(json, "error", lm_json_error(e));
    lm_status status = cli->json ? lm_out_json(cli, json, e) : lm_out_buf(page, e);

    if (!cli->json)
        json_decref(json);
    lm_text_free(page);
    return status == LM_OK ? verdict : status;
}

static lm_status fit_one(lm_cli *cli, fit_options *o, const lm_fit_place *at, lm_fit_options *fit,
                         lm_error *e)
{
    lm_fitted x = { 0 };
    lm_text page = { 0 };
    lm_status verdict = LM_OK;

    LM_TRY(measure(cli, o, cli->n_args ? cli->args[0] : NULL, fit, &x, e));
    const lm_fit_row *r = &x.fit.rows[x.has_weights && !o->precision ? 0 : x.fit.n - 1];
    if (x.fit.best < 0)
        verdict = no_fit(r->total, r->precision, x.fit.memory, e);
    if (!cli->json)
        lm_fit_page(&x, at, &cli->store, &page);
    return print(cli, cli->json ? lm_fit_json(&x, at) : NULL, &page, verdict, e);
}

/* ---- tables of devices and of throughput ---- */

static lm_status fit_devices(lm_cli *cli, const lm_model *m, lm_fitted *x, lm_fit_options *fit, lm_error *e)
{
    lm_fit_table t = { .cli = cli, .x = x };
    size_t fitting = 0;
    char kv[LM_CACHE_WORDS];
    lm_text page = { 0 };

    fit->sizes_only = true;
    for (size_t i = 0; (fit->device = lm_device_at(i)); i++) {
        LM_TRY(lm_fit_model(m, fit, &x->fit, e));
        lm_fit_table_device(&t, fit->device);
        fitting += x->fit.best >= 0;
    }
    lm_fit_table_devices_end(&t, lm_cache_words(&fit->engine, kv), &page);
    lm_status verdict = fitting ? LM_OK
                                : lm_fail(e, LM_NO_FIT, "memory", LM_NO_OFFSET,
                                          "no device in the catalogue has enough memory");
    return print(cli, t.json, &page, verdict, e);
}

/* Show the throughput in the best precision with 1, 2, 4 … sequences, up to the maximum that fits. */
static lm_status fit_throughput(lm_cli *cli, const fit_options *o, const lm_model *m, lm_fitted *x,
                                lm_fit_options *fit, const lm_fit_place *at, lm_error *e)
{
    lm_fit_table t = { .cli = cli, .x = x, .price = o->price };
    lm_text page = { 0 };

    LM_TRY(lm_fit_model(m, fit, &x->fit, e));
    if (x->fit.best < 0)
        return no_fit(x->fit.rows[x->fit.n - 1].total, x->fit.rows[x->fit.n - 1].precision, x->fit.memory, e);
    lm_fit_row best = x->fit.rows[x->fit.best];
    bool stored = strcmp(best.precision, "as stored") == 0;
    fit->precision = stored ? NULL : best.precision;
    fit->memory = x->fit.memory;
    uint64_t reserve = x->fit.reserve;
    fit->sizes_only = true;
    for (uint64_t n = 1;; n = 2 * n < best.max_sequences ? 2 * n : best.max_sequences) {
        fit->engine.sequences = (uint32_t)n;
        LM_TRY(lm_fit_model(m, fit, &x->fit, e));
        lm_fit_table_batch(&t, &x->fit.rows[0]);
        if (n >= best.max_sequences)
            break;
    }
    x->fit.reserve = reserve;                    /* not of `memory`, which is what it left */
    lm_fit_table_batches_end(&t, at, &page);
    return print(cli, t.json, &page, LM_OK, e);
}

/* Return whether the throughput table is shown; --price implies it. */
static bool is_throughput(const fit_options *o)
{
    return o->throughput || o->price > 0;
}

static lm_status fit_table(lm_cli *cli, fit_options *o, const lm_fit_place *at, lm_fit_options *fit,
                           lm_error *e)
{
    lm_fitted x = { 0 };
    lm_model *m = NULL;

    LM_TRY(open_model(cli, o, cli->n_args ? cli->args[0] : NULL, fit, &x, &m, e));
    lm_status status = is_throughput(o) ? fit_throughput(cli, o, m, &x, fit, at, e)
                                        : fit_devices(cli, m, &x, fit, e);
    lm_model_close(m);
    return status;
}

/* ---- several models ---- */

/* Choose the most exact precision in which all models fit together. Models with weights keep their stored
 * types. */
static void choose_rows(lm_fitted *x, size_t n)
{
    for (size_t level = 0; level < LM_FIT_ROWS; level++) {
        bool more = false;
        for (size_t i = 0; i < n; i++) {
            size_t row = x[i].has_weights ? 0 : level;
            while (row + 1 < x[i].fit.n && x[i].fit.rows[row].larger)
                row++;
            x[i].row = (int)(row < x[i].fit.n ? row : x[i].fit.n - 1);
            more |= !x[i].has_weights && (size_t)x[i].row + 1 < x[i].fit.n;
        }
        if (!more || lm_fleet_total(x, n) <= x[0].fit.memory)
            return;
    }
}

static lm_status fit_fleet(lm_cli *cli, fit_options *o, const lm_fit_place *at, lm_fit_options *fit,
                           lm_error *e)
{
    lm_fitted *x = lm_store_new(&cli->store, cli->n_args, lm_fitted);
    lm_status verdict = LM_OK;
    lm_text page = { 0 };

    if (!x)
        return lm_fail_memory(e, "fit", 0);
    for (size_t i = 0; i < cli->n_args; i++) {
        LM_TRY(measure(cli, o, cli->args[i], fit, &x[i], e));
        /* free memory changes as models are opened: use the first value */
        fit->memory = x[0].fit.memory;
    }
    choose_rows(x, cli->n_args);
    uint64_t total = lm_fleet_total(x, cli->n_args);
    if (total > x[0].fit.memory)
        verdict = no_fit(total, "all of them", x[0].fit.memory, e);
    if (!cli->json)
        lm_fleet_page(x, cli->n_args, at, &cli->store, &page);
    return print(cli, cli->json ? lm_fleet_json(x, cli->n_args, at) : NULL, &page, verdict, e);
}

static lm_status fit_command(lm_cli *cli, void *options, lm_error *e)
{
    fit_options *o = options;
    lm_fit_place at = { 0 };
    lm_fit_options fit = { 0 };

    if (!o->fleet && cli->n_args > 1)
        return lm_fail(e, LM_USAGE, cli->args[1], LM_NO_OFFSET,
                       "several models given; use --fleet to fit them together");
    if (o->fleet && !cli->n_args)
        return lm_fail(e, LM_USAGE, "--fleet", LM_NO_OFFSET, "requires models");
    bool all = o->device && strcmp(o->device, "all") == 0;
    if (all && (o->fleet || o->ram || o->vram))
        return lm_fail(e, LM_USAGE, "--device", LM_NO_OFFSET,
                       "\"all\" cannot be combined with --fleet, --ram or --vram");
    if ((all || o->fleet || o->vram) && is_throughput(o))
        return lm_fail(e, LM_USAGE, "fit", LM_NO_OFFSET,
                       "--throughput and --price cannot be combined with --device all, --fleet or --vram");
    LM_TRY(find_place(o, &at, &fit, e));
    LM_TRY(measure_here(o, &at, &fit, e));
    if (all || is_throughput(o))
        return fit_table(cli, o, &at, &fit, e);
    return o->fleet ? fit_fleet(cli, o, &at, &fit, e) : fit_one(cli, o, &at, &fit, e);
}

const lm_command lm_command_fit = {
    .name = "fit",
    .usage = "[MODEL] [--device NAME | --ram 16G | --vram 24GiB] [--context N] | --fleet MODEL ...",
    .summary = "check whether a model fits a machine, and how fast it would run",
    .about = "  Sizes are those of the engine's plan, including weights mapped from the file. Speeds are "
             "upper bounds set by memory\n"
             "  bandwidth and arithmetic throughput. Exit status 4 if the model does not fit. MODEL may be a "
             "preset, a\n"
             "  config.json, or a folder without weights.\n",
    .groups = fit_groups,
    .max_args = MAX_MODELS,
    .options_size = sizeof(fit_options),
    .defaults = fit_defaults,
    .run = fit_command,
};
