/* lamina inspect - what a model is, without running it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/inspect_page.h"
#include "cli/options.h"
#include "cli/output.h"

typedef struct inspect_options {
    lm_model_flags model;
    lm_run_flags   run;
    uint32_t       batch;
    bool           tensors, metadata, program, plan;
    lm_flag_list   query;
    const char    *precision, *view;
    uint32_t       tokens, depth;
    int32_t        layer;
    bool           compatible;
} inspect_options;

#define O(field) offsetof(inspect_options, field)

static const lm_flag inspect_flag_table[] = {
    { "--tensors", NULL, LM_FLAG_SWITCH, O(tensors), NULL, "every tensor: type, shape, bytes", 0, 0, NULL },
    { "--metadata", NULL, LM_FLAG_SWITCH, O(metadata), NULL, "every key of the file; long arrays are cut", 0, 0, NULL },
    { "--program", NULL, LM_FLAG_SWITCH, O(program), NULL, "the operations, as the engine and the analyses read them", 0, 0, NULL },
    { "--plan", NULL, LM_FLAG_SWITCH, O(plan), NULL, "how it would run here: steps, kernels, buffers, bytes", 0, 0, NULL },
    { "--query", NULL, LM_FLAG_LIST, O(query), "PATH",
      "a fact: parameters.total, kv.at[8192].bytes, layers[3].mlp.parameters ...; each use prints one more", 0, 0, NULL },
    { "--view", NULL, LM_FLAG_TEXT, O(view), "NAME",
      "overview, info, layers, tree, torchinfo, params, flops, kv, memory, rope, cards, diagram, formulas, tensors, program, plan, "
      "facts, all", 0, 0, NULL },
    { "--layer", NULL, LM_FLAG_INT, O(layer), "N", "only this decoder layer (layers, diagram, tensors)", 0, INT32_MAX, NULL },
    { "--depth", NULL, LM_FLAG_COUNT, O(depth), "N", "of trees (layers, tree, torchinfo, params)", 0, 64, NULL },
    { "--torchinfo-compat", NULL, LM_FLAG_SWITCH, O(compatible), NULL,
      "the torchinfo view as torchinfo 1.8.0 prints it, its known over-counts included", 0, 0, NULL },
    { "--precision", NULL, LM_FLAG_TEXT, O(precision), "TYPE", "as if the weights were stored so: f16, Q4_K_M, int4 ...", 0, 0, NULL },
    { "--tokens", NULL, LM_FLAG_COUNT, O(tokens), "N", "tokens of the pass that costs by module are shown for (4)", 1, 1 << 20, NULL },
    { "--context", "-c --ctx-size", LM_FLAG_INT, O(run.context), "N",
      "positions of a sequence; 0: the model's (default)", 0, INT32_MAX, NULL },
    { "--batch", NULL, LM_FLAG_COUNT, O(batch), "N", "sequences at once (1)", 1, 1 << 16, NULL },
    { "--kv-type", "-ctk", LM_FLAG_WORD, O(run.kv_type), "f16|f32|bf16|q8_0", "cache type (f16)", 0, 0, lm_kv_words },
    { "--compute", NULL, LM_FLAG_WORD, O(run.compute), "auto|fine|f32", "arithmetic of the plan (auto)", 0, 0, lm_compute_words },
    { "--cpu", NULL, LM_FLAG_TEXT, O(run.cpu), "LEVEL", "instruction set of the plan", 0, 0, NULL },
    { "--threads", "-t", LM_FLAG_COUNT, O(run.threads), "N", "threads of the plan", 0, 1024, NULL },
    { 0 },
};

static const lm_flag_group inspect_groups[] = {
    { "what to show", inspect_flag_table, 0 },
    { "model", lm_model_flag_table, O(model) },
    { 0 },
};

static void inspect_defaults(void *options)
{
    inspect_options *o = options;

    lm_run_defaults(&o->run);
    o->run.context = 0;
    o->batch = 1;
    o->layer = -1;
}

/* Texts that the library writes for people. */
static lm_status show_text(lm_cli *cli, lm_text *text, const char *key, lm_error *e)
{
    lm_status status;

    if (cli->json)
        status = lm_out_json(cli, json_pack("{s:o}", key, lm_json_text(text->data, text->n)), e);
    else
        status = lm_out_text(text->data, text->n, e);
    lm_text_free(text);
    return status;
}

static lm_status show_report(lm_cli *cli, const lm_model *m, lm_report what, const lm_engine_options *o, lm_error *e)
{
    lm_text text = { 0 };
    lm_buf page = { 0 };
    json_t *j;
    lm_status status;

    LM_TRY(lm_model_report(m, what, o, &text, e));
    j = json_loadb(text.data, text.n, JSON_DECODE_ANY, NULL);
    lm_text_free(&text);
    if (!j)
        return lm_fail_memory(e, "the report", 0);
    if (cli->json)
        return lm_out_json(cli, j, e);
    if (what == LM_REPORT_TENSORS)
        lm_inspect_tensors(j, &page);
    else
        lm_inspect_metadata(j, &page);
    json_decref(j);
    status = lm_out_buf(&page, e);
    lm_buf_free(&page);
    return status;
}

/* A value with its unit and where it comes from. NULL: out of memory. */
static json_t *fact_json(const lm_fact *x, const char *path, const lm_text *value)
{
    json_t *v = json_loadb(value->data, value->n, JSON_DECODE_ANY, NULL);

    return v ? json_pack("{s:s, s:o, s:s, s:s, s:s?}", "query", path, "value", v, "unit", lm_unit_name(x->unit), "origin",
                         lm_origin_name(x->origin), "how", x->how)
             : NULL;
}

/* Bare values, a line for each that is no group; with --json an object, or a list of them where several were asked for. */
static lm_status show_queries(lm_cli *cli, const inspect_options *o, lm_facts *f, lm_error *e)
{
    json_t *list = json_array(), *one = NULL;
    lm_buf out = { 0 };
    lm_status status = LM_OK;

    for (size_t i = 0; i < o->query.n && status == LM_OK; i++) {
        const lm_fact *x = NULL;
        lm_text value = { 0 };
        status = lm_facts_find(f, o->query.items[i], &x, e);
        if (status == LM_OK)
            status = lm_facts_json(f, o->query.items[i], &value, e);
        if (status == LM_OK && cli->json)
            status = json_array_append_new(list, fact_json(x, o->query.items[i], &value)) == 0 ? LM_OK
                         : lm_fail_memory(e, "the report", value.n);
        else if (status == LM_OK && x->kind == LM_FACT_COUNT)
            lm_buf_printf(&out, "%" PRIu64 "\n", x->count);
        else if (status == LM_OK)
            lm_buf_printf(&out, "%s\n", x->kind == LM_FACT_TEXT ? x->text : value.data);
        lm_text_free(&value);
    }
    if (status == LM_OK && !cli->json)
        status = lm_out_buf(&out, e);
    lm_buf_free(&out);
    if (status != LM_OK || !cli->json) {
        json_decref(list);
        return status;
    }
    if (o->query.n > 1)
        return lm_out_json(cli, list, e);
    one = json_incref(json_array_get(list, 0));
    json_decref(list);
    return lm_out_json(cli, one, e);
}

/* What the library wrote as JSON, laid out like every document here. */
static lm_status show_json(lm_cli *cli, lm_text *text, lm_error *e)
{
    json_t *j = json_loadb(text->data, text->n, JSON_DECODE_ANY, NULL);

    lm_text_free(text);
    return j ? lm_out_json(cli, j, e) : lm_fail_memory(e, "the report", 0);
}

static lm_status show_view(lm_cli *cli, const inspect_options *o, lm_facts *f, lm_error *e)
{
    lm_view_options view = {
        .view = o->view,
        .layer = o->layer,
        .depth = o->depth,
        .columns = lm_out_width(),
        .lines = lm_out_is_terminal(),
        .compatible = o->compatible,
        .language = cli->json ? LM_ENGLISH : cli->language,
        .json = cli->json,
    };
    lm_text text = { 0 };

    if (o->compatible)
        lm_note("as torchinfo 1.8.0 prints it: a tied head counts twice, products ignore the length of the sequence, look-ups "
                "count as products, activations are doubled; without --torchinfo-compat the table is right");
    LM_TRY(lm_facts_view(f, &view, &text, e));
    return cli->json ? show_json(cli, &text, e) : show_text(cli, &text, "text", e);
}

/* Every fact, as one document. */
static lm_status show_document(lm_cli *cli, lm_facts *f, lm_error *e)
{
    lm_text text = { 0 };

    LM_TRY(lm_facts_json(f, NULL, &text, e));
    return show_json(cli, &text, e);
}

static lm_status show_facts(lm_cli *cli, const inspect_options *o, const lm_model *m, const lm_engine_options *engine, lm_error *e)
{
    lm_facts_options options = { .engine = *engine, .precision = o->precision, .tokens = o->tokens };
    lm_facts *f = NULL;
    lm_status status;

    LM_TRY(lm_facts_new(m, &options, &f, e));
    bool whole = cli->json && !o->view && o->layer < 0;
    status     = o->query.n ? show_queries(cli, o, f, e) : whole ? show_document(cli, f, e) : show_view(cli, o, f, e);
    lm_facts_free(f);
    return status;
}

static lm_status show(lm_cli *cli, const inspect_options *o, const lm_model *m, lm_error *e)
{
    lm_engine_options engine;
    lm_model_info info;
    lm_text text = { 0 };

    LM_TRY(lm_engine_flags(&o->run, m, 0, &engine, e));
    engine.sequences = o->batch;
    if (o->query.n || o->view || o->layer >= 0)
        return show_facts(cli, o, m, &engine, e);
    lm_model_describe(m, &info);
    if (o->tensors && !info.storage) {
        lm_fail(e, LM_USAGE, info.name, LM_NO_OFFSET, "a description without weights has no tensors");
        return lm_fail_hint(e, "--view tensors lists what such a file holds");
    }
    if (o->tensors)
        return show_report(cli, m, LM_REPORT_TENSORS, &engine, e);
    if (o->metadata)
        return show_report(cli, m, LM_REPORT_METADATA, &engine, e);
    if (o->program) {
        LM_TRY(lm_model_program_text(m, &text, e));
        return show_text(cli, &text, "program", e);
    }
    if (o->plan) {
        LM_TRY(lm_engine_plan_text(m, &engine, &text, e));
        return show_text(cli, &text, "plan", e);
    }
    return show_facts(cli, o, m, &engine, e);
}

static bool is_among(const char *const *words, const char *word)
{
    while (*words && strcmp(*words, word) != 0)
        words++;
    return *words;
}

/* One thing is shown, and flags of some views are given with one of them: every flag does something, or is an error. */
static lm_status check(const inspect_options *o, lm_error *e)
{
    const struct {
        bool        given;
        const char *flag, *views[6];
    } flags[] = {
        { o->layer >= 0, "--layer", { "layers", "diagram", "tensors", "all" } },
        { o->depth > 0, "--depth", { "layers", "tree", "torchinfo", "params", "all" } },
        { o->compatible, "--torchinfo-compat", { "torchinfo", "all" } },
    };
    const int   reports = o->tensors + o->metadata + o->program + o->plan + (o->query.n > 0);
    const char *view    = reports ? "" : o->view ? o->view : o->layer >= 0 ? "layers" : "overview";
    lm_buf      list    = { 0 };

    if (reports + (o->view != NULL) > 1)
        return lm_fail(e, LM_USAGE, "inspect", LM_NO_OFFSET, "one of --query, --view, --tensors, --metadata, --program and --plan");
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (!flags[i].given || is_among(flags[i].views, view))
            continue;
        for (const char *const *v = flags[i].views; *v; v++)
            lm_buf_printf(&list, "%s%s", list.size ? ", " : "", *v);
        lm_fail(e, LM_USAGE, flags[i].flag, LM_NO_OFFSET, "only for --view %s", list.data ? list.data : "");
        lm_buf_free(&list);
        return LM_USAGE;
    }
    return LM_OK;
}

static lm_status inspect(lm_cli *cli, void *options, lm_error *e)
{
    inspect_options *o = options;
    lm_model *m = NULL;
    lm_status status;

    LM_TRY(check(o, e));
    o->model.o.weights_optional = o->model.o.tokenizer_optional = true;
    LM_TRY(lm_open_model(cli, &o->model, cli->args[0], &m, e));
    status = show(cli, o, m, e);
    lm_model_close(m);
    return status;
}

const lm_command lm_command_inspect = {
    .name = "inspect",
    .usage = "[MODEL] [--view NAME | --query PATH | --tensors | --metadata | --program | --plan] [--context N]",
    .summary = "show what a model is made of and what it takes",
    .about = "  MODEL may also be a preset (lamina presets), a config.json, or a folder without weights.\n"
             "  Without MODEL it is the demo model.\n",
    .groups = inspect_groups,
    .max_args = 1,
    .options_size = sizeof(inspect_options),
    .defaults = inspect_defaults,
    .run = inspect,
};
