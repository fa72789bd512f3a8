/* lamina inspect - show a model's structure, size and cost without running it. */
#include <string.h>

#include "cli/base/output.h"
#include "cli/run/inspect.h"
#include "cli/run/inspect_page.h"
#include "cli/run/splitting.h"

#define O(field) offsetof(lm_inspect_options, field)

static const lm_flag inspect_flag_table[] = {
    { "--tensors", NULL, LM_FLAG_SWITCH, O(tensors), NULL,
      "list all tensors with type, shape and bytes", 0, 0, NULL },
    { "--metadata", NULL, LM_FLAG_SWITCH, O(metadata), NULL,
      "list all metadata keys; long arrays are truncated", 0, 0, NULL },
    { "--program", NULL, LM_FLAG_SWITCH, O(program), NULL,
      "show the program: the operations that the engine and all reports read", 0, 0, NULL },
    { "--backward", NULL, LM_FLAG_SWITCH, O(backward), NULL,
      "with --program: show the backward pass, with an adapter on every linear layer", 0, 0, NULL },
    { "--plan", NULL, LM_FLAG_SWITCH, O(plan), NULL,
      "show the plan for this machine: steps, kernels, buffers, bytes", 0, 0, NULL },
#ifndef LM_WITHOUT_STUDY
    { "--query", NULL, LM_FLAG_LIST, O(query), "PATH",
      "print one fact: parameters.total, kv.at[8192].bytes, layers[3].mlp.parameters ...; may be repeated",
      0, 0, NULL },
    { "--view", NULL, LM_FLAG_TEXT, O(view), "NAME",
      "overview, info, layers, tree, torchinfo, params, flops, kv, memory, rope, cards, diagram, formulas, "
      "tensors, program, plan, "
      "facts, all", 0, 0, NULL },
    { "--layer", NULL, LM_FLAG_INT, O(layer), "N",
      "show only decoder layer N (layers, diagram, tensors)", 0, INT32_MAX, NULL },
    { "--depth", NULL, LM_FLAG_COUNT, O(depth), "N",
      "maximum depth of trees (layers, tree, torchinfo, params)", 0, 64, NULL },
    { "--torchinfo-compat", NULL, LM_FLAG_SWITCH, O(compatible), NULL,
      "print the torchinfo view exactly as torchinfo 1.8.0 does, including its known over-counts",
      0, 0, NULL },
    { "--name", NULL, LM_FLAG_TEXT, O(name), "NAME", "title of the model", 0, 0, NULL },
    { "--precision", NULL, LM_FLAG_TEXT, O(precision), "TYPE",
      "assumed weight precision: f16, Q4_K_M, int4 ...", 0, 0, NULL },
    { "--tokens", NULL, LM_FLAG_COUNT, O(tokens), "N",
      "tokens in the forward pass whose cost is shown by module (4)", 1, 1 << 20, NULL },
#endif
    { "--context", "-c --ctx-size", LM_FLAG_INT, O(run.context), "N",
      "context length in tokens; 0: the model's (default)", 0, INT32_MAX, NULL },
    { "--batch", NULL, LM_FLAG_COUNT, O(batch), "N", "number of sequences (1)", 1, 1 << 16, NULL },
    { "--compute", NULL, LM_FLAG_WORD, O(run.compute), "auto|fine|f32",
      "arithmetic assumed by the plan (auto)", 0, 0, lm_compute_words },
    { "--cpu", NULL, LM_FLAG_TEXT, O(run.cpu), "LEVEL", "instruction set assumed by the plan", 0, 0, NULL },
    { "--threads", "-t", LM_FLAG_COUNT, O(run.threads), "N", "threads assumed by the plan", 0, 1024, NULL },
    { 0 },
};

static const lm_flag_group inspect_groups[] = {
    { "output", inspect_flag_table, 0 },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { "model", lm_model_flag_table, O(model) },
    { "several ranks", lm_split_inspect_table, O(model) },
    { 0 },
};

static void inspect_defaults(void *options)
{
    lm_inspect_options *o = options;

    lm_run_defaults(&o->run);
    o->run.context = 0;
    o->batch = 1;
    o->layer = -1;
}

static lm_status show_report(lm_cli *cli, const lm_model *m, lm_report what, lm_error *e)
{
    lm_text text = { 0 };
    lm_text page = { 0 };
    json_t *j;
    lm_status status;

    LM_TRY(lm_model_report(m, what, &text, e));
    j = json_loadb(text.data, text.size, JSON_DECODE_ANY, NULL);
    lm_text_free(&text);
    if (!j)
        return lm_fail_memory(e, "the report", 0);
    if (cli->json)
        return (what == LM_REPORT_TENSORS ? lm_out_json : lm_out_foreign_json)(cli, j, e);
    if (what == LM_REPORT_TENSORS)
        lm_inspect_tensors(j, &page);
    else
        lm_inspect_metadata(j, &page);
    json_decref(j);
    status = lm_out_buf(&page, e);
    lm_text_free(&page);
    return status;
}

static lm_status show(lm_cli *cli, const lm_inspect_options *o, const lm_model *m, lm_error *e)
{
    lm_engine_options engine;
    lm_model_info info;
    lm_text text = { 0 };

    LM_TRY(lm_engine_flags(&o->run, m, 0, &engine, e));
    engine.sequences = o->batch;
    if (o->query.n || o->view || o->layer >= 0)
        return lm_inspect_facts(cli, o, m, &engine, e);
    lm_model_describe(m, &info);
    if (o->tensors && !info.storage) {
        lm_fail(e, LM_USAGE, info.name, LM_NO_OFFSET, "this model has no weights, so it has no tensors");
        return lm_fail_hint(e, "--view tensors lists what such a file holds");
    }
    if (o->tensors)
        return show_report(cli, m, LM_REPORT_TENSORS, e);
    if (o->metadata)
        return show_report(cli, m, LM_REPORT_METADATA, e);
    if (o->program) {
        LM_TRY(o->backward ? lm_train_program_text(m, NULL, &text, e) : lm_model_program_text(m, &text, e));
        return lm_inspect_text(cli, &text, "program", e);
    }
    if (o->plan) {
        LM_TRY(lm_engine_plan_text(m, &engine, &text, e));
        return lm_inspect_text(cli, &text, "plan", e);
    }
    return lm_inspect_facts(cli, o, m, &engine, e);
}

static bool is_among(const char *const *words, const char *word)
{
    while (*words && strcmp(*words, word) != 0)
        words++;
    return *words;
}

/* Reject combinations of outputs, and flags that would have no effect on the chosen view. */
static lm_status check(const lm_inspect_options *o, lm_error *e)
{
    const struct {
        bool        given;
        const char *flag, *views[6];
    } flags[] = {
        { o->layer >= 0, "--layer", { "layers", "diagram", "tensors", "all" } },
        { o->depth > 0, "--depth", { "layers", "tree", "torchinfo", "params", "all" } },
        { o->compatible, "--torchinfo-compat", { "torchinfo", "all" } },
        { o->name != NULL, "--name", { "overview", "facts", "all" } },
    };
    const int   reports = o->tensors + o->metadata + o->program + o->plan + (o->query.n > 0);
    const char *view    = reports ? "" : o->view ? o->view : o->layer >= 0 ? "layers" : "overview";
    lm_text      list    = { 0 };

    if (o->backward && !o->program)
        return lm_fail(e, LM_USAGE, "--backward", LM_NO_OFFSET, "requires --program");
    if (reports + (o->view != NULL) > 1)
        return lm_fail(e, LM_USAGE, "inspect", LM_NO_OFFSET,
                       "--query, --view, --tensors, --metadata, --program and --plan cannot be combined");
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (!flags[i].given || is_among(flags[i].views, view))
            continue;
        for (const char *const *v = flags[i].views; *v; v++)
            lm_text_printf(&list, "%s%s", list.size ? ", " : "", *v);
        lm_fail(e, LM_USAGE, flags[i].flag, LM_NO_OFFSET, "applies only to --view %s",
                list.data ? list.data : "");
        lm_text_free(&list);
        return LM_USAGE;
    }
    return LM_OK;
}

static lm_status inspect(lm_cli *cli, void *options, lm_error *e)
{
    lm_inspect_options *o = options;
    lm_model *m = NULL;
    lm_status status;

    LM_TRY(check(o, e));
    o->model.o.weights_optional = o->model.o.tokenizer_optional = o->model.heads = true;
    LM_TRY(lm_split_simulate(&o->model, e));
    LM_TRY(lm_open_model(cli, &o->model, cli->args[0], &m, e));
    status = show(cli, o, m, e);
    lm_model_close(m);
    return status;
}

const lm_command lm_command_inspect = {
    .name = "inspect",
#ifdef LM_WITHOUT_STUDY
    .usage = "[MODEL] --tensors | --metadata | --program | --plan"
             " [--context N]",
#else
    .usage = "[MODEL] [--view NAME | --query PATH | --tensors | --metadata | --program | --plan]"
             " [--context N]",
#endif
    .summary = "show a model's structure, size and cost",
    .about = "  MODEL may also be a preset (lamina presets), a config.json, or a folder without weights.\n"
             "  Without MODEL, uses the demo model.\n",
    .groups = inspect_groups,
    .max_args = 1,
    .options_size = sizeof(lm_inspect_options),
    .defaults = inspect_defaults,
    .run = inspect,
};
