/* lamina estimate - compute parameters by formula and compare with the count, for a model that need not
 * exist. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/flags.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/base/prompt.h"
#include "lamina/study.h"

typedef struct estimate_options {
    lm_model_flags model;
    lm_sizes       sizes;
    const char    *tree, *output, *name;
    bool           markdown, config, force;
} estimate_options;

#define O(field) offsetof(estimate_options, field)

static const lm_flag estimate_flag_table[] = {
    { "--hidden", NULL, LM_FLAG_COUNT, O(sizes.hidden), "N",
      "width of the residual stream", 1, 1 << 20, NULL },
    { "--layers", NULL, LM_FLAG_COUNT, O(sizes.layers), "N", "decoder layers", 1, 1024, NULL },
    { "--vocab", NULL, LM_FLAG_COUNT, O(sizes.vocab), "N", "vocabulary size", 1, INT32_MAX, NULL },
    { "--heads", NULL, LM_FLAG_COUNT, O(sizes.heads), "N", "query heads", 1, 1024, NULL },
    { "--kv-heads", NULL, LM_FLAG_COUNT, O(sizes.kv_heads), "N",
      "key/value heads (default: --heads)", 1, 1024, NULL },
    { "--head-dim", NULL, LM_FLAG_COUNT, O(sizes.head_dim), "N",
      "head dimension (default: hidden / heads)", 1, 65536, NULL },
    { "--ffn", "--intermediate", LM_FLAG_COUNT, O(sizes.intermediate), "N",
      "width of the MLP", 1, 1 << 20, NULL },
    { "--context", "-c --ctx-size", LM_FLAG_COUNT, O(sizes.context), "N",
      "context length in tokens (4096)", 1, INT32_MAX, NULL },
    { "--tied", NULL, LM_FLAG_SWITCH, O(sizes.tied), NULL,
      "tie the output head to the embedding table", 0, 0, NULL },
    { "--plain", NULL, LM_FLAG_SWITCH, O(sizes.plain), NULL,
      "use a two-matrix MLP and LayerNorm", 0, 0, NULL },
    { "--bias", NULL, LM_FLAG_SWITCH, O(sizes.bias), NULL, "use biases in all linear layers", 0, 0, NULL },
    { "--qkv-bias", NULL, LM_FLAG_SWITCH, O(sizes.qkv_bias), NULL,
      "use biases in the q, k and v projections only", 0, 0, NULL },
    { "--from-tree", NULL, LM_FLAG_TEXT, O(tree), "FILE",
      "read the sizes from a module tree printed by transformers", 0, 0, NULL },
    { 0 },
};

static const lm_flag estimate_show_table[] = {
    { "--md", "--markdown", LM_FLAG_SWITCH, O(markdown), NULL,
      "write Markdown with LaTeX formulas", 0, 0, NULL },
    { "--config", NULL, LM_FLAG_SWITCH, O(config), NULL,
      "write only the config.json: of the sizes, of the module tree, or of MODEL", 0, 0, NULL },
    { "--output", "-o", LM_FLAG_OUTPUT, O(output), "FILE",
      "output file (default: standard output)", 0, 0, NULL },
    { "--force", NULL, LM_FLAG_SWITCH, O(force), NULL, "replace FILE if it exists", 0, 0, NULL },
    { "--name", NULL, LM_FLAG_TEXT, O(name), "NAME", "title of the model", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group estimate_groups[] = {
    { "sizes", estimate_flag_table, 0 },
    { "output", estimate_show_table, 0 },
    { "model", lm_model_flag_table, O(model) },
    { 0 },
};

/* Print the notes about values missing from a tree to stderr, one per line. */
static void print_notes(const lm_text *notes)
{
    for (const char *p = notes->data; p && *p;) {
        size_t n = strcspn(p, "\n");
        lm_note("%.*s", (int)n, p);
        p += n + (p[n] == '\n');
    }
}

static lm_status describe_tree(const estimate_options *o, lm_text *config, uint64_t *parameters, lm_error *e)
{
    lm_text tree = { 0 }, notes = { 0 };

    lm_status status = lm_read_document(o->tree, UINT64_C(16) << 20, &tree, e);
    if (status == LM_OK)
        status = lm_describe_tree(tree.data, tree.size, &o->sizes, config, &notes, parameters, e);
    lm_text_free(&tree);
    if (status != LM_OK)
        return lm_fail_in(e, o->tree);
    print_notes(&notes);
    lm_text_free(&notes);
    return LM_OK;
}

/* Fail if the number of parameters in the tree is not that of the program derived from it, counted with or
 * without tied weights. */
static lm_status check_tree(const estimate_options *o, lm_facts *f, uint64_t parameters, lm_error *e)
{
    uint64_t counted = lm_facts_count(f, "parameters.untied_total"),
             stored = lm_facts_count(f, "parameters.total");

    if (!o->tree || parameters == counted || parameters == stored)
        return LM_OK;
    lm_fail(e, LM_UNSUPPORTED, "module tree", LM_NO_OFFSET,
            "holds %" PRIu64 " parameters, the program derived from it %" PRIu64
            ": something in it is not understood",
            parameters, counted);
    return lm_fail_in(e, o->tree);
}

static lm_status deliver(const estimate_options *o, const lm_text *text, lm_error *e)
{
    return o->output ? lm_text_save(text, o->output, e) : lm_out_text(text->data, text->size, e);
}

static lm_status show(lm_cli *cli, const estimate_options *o, const lm_model *m, uint64_t parameters,
                      lm_error *e)
{
    lm_explain_options page = { .form = cli->json     ? LM_FORM_JSON
                                        : o->markdown ? LM_FORM_MARKDOWN
                                                      : LM_FORM_TEXT,
                                .columns = lm_out_width(),
                                .lines = lm_out_is_terminal(),
                                .language = cli->language };
    lm_facts          *f = NULL;
    lm_text            text = { 0 };

    LM_TRY(lm_facts_new(m, &(lm_facts_options){ .name = o->name }, &f, e));
    lm_status status = check_tree(o, f, parameters, e);
    if (status == LM_OK)
        status = lm_explain(f, "estimate", &page, &text, e);
    lm_facts_free(f);
    if (status != LM_OK)
        return status;
    status = cli->json ? lm_out_json_text(cli, &text, e) : deliver(o, &text, e);
    lm_text_free(&text);
    return status;
}

/* Write the model's own config.json, with its floats unchanged. */
static lm_status show_own_config(lm_cli *cli, const estimate_options *o, const lm_model *m, lm_error *e)
{
    lm_facts      *f = NULL;
    const lm_fact *container = NULL;
    lm_fact_info   kind;
    lm_text        text = { 0 };

    LM_TRY(lm_facts_new(m, NULL, &f, e));
    lm_status status = lm_facts_find(f, "model.container", &container, e);
    lm_fact_describe(container, &kind);
    if (status == LM_OK && strcmp(kind.id ? kind.id : "", "gguf") == 0)
        status = lm_fail(e, LM_USAGE, "--config", LM_NO_OFFSET,
                         "a GGUF file has no config.json; give a preset or a folder");
    if (status == LM_OK)
        status = lm_facts_json(f, "config", &text, e);
    lm_facts_free(f);
    json_t *j = status == LM_OK && cli->json ? json_loadb(text.data, text.size, 0, NULL) : NULL;
    if (status == LM_OK && cli->json)
        status = j ? lm_out_foreign_json(cli, j, e) : lm_fail_memory(e, "a description", 0);
    else if (status == LM_OK)
        lm_text_add_char(&text, '\n');
    if (status == LM_OK && !cli->json)
        status = text.failed ? lm_fail_memory(e, "a description", text.size) : deliver(o, &text, e);
    lm_text_free(&text);
    return status;
}

static lm_status show_config(lm_cli *cli, const estimate_options *o, const lm_text *config, lm_error *e)
{
    json_t *j = json_loadb(config->data, config->size, 0, NULL);
    lm_text out = { 0 };

    if (!j)
        return lm_fail_memory(e, "a description", 0);
    if (cli->json)
        return lm_out_foreign_json(cli, j, e);
    char *text = json_dumps(j, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
    if (text)
        lm_text_printf(&out, "%s\n", text);
    lm_status status = text && !out.failed ? deliver(o, &out, e) : lm_fail_memory(e, "a description", 0);
    lm_text_free(&out);
    free(text);
    json_decref(j);
    return status;
}

/* Estimate a model described by sizes or by a module tree. */
static lm_status estimate_described(lm_cli *cli, const estimate_options *o, lm_error *e)
{
    uint64_t  parameters = 0;
    lm_text   config = { 0 };
    lm_model *m = NULL;
    lm_status status;

    status = o->tree ? describe_tree(o, &config, &parameters, e) : lm_describe_sizes(&o->sizes, &config, e);
    if (status != LM_OK) {
        for (const lm_flag *f = estimate_flag_table; f->name; f++) /* the error may be about a missing flag */
            lm_flag_name_error(f, e);
        return status;
    }
    if (o->config) {
        status = show_config(cli, o, &config, e);
        lm_text_free(&config);
        return status;
    }
    status = lm_model_open_config(config.data, config.size, o->tree ? o->tree : _("a model of these sizes"),
                                  &m, e);
    lm_text_free(&config);
    if (status == LM_OK)
        status = show(cli, o, m, parameters, e);
    lm_model_close(m);
    return status;
}

/* Reject flags that would have no effect. */
static lm_status check(const lm_cli *cli, const estimate_options *o, bool model, lm_error *e)
{
    /* valid with a tree */
    static const char *const unneeded[] = {
        "--heads", "--head-dim", "--context", "--tied", "--from-tree", NULL,
    };
    const lm_flag *size  = lm_flags_given(cli, estimate_flag_table, model || !o->tree ? NULL : unneeded);
    const lm_flag *other = lm_flags_given(cli, lm_model_flag_table, NULL);

    if (model && size)
        return lm_fail(e, LM_USAGE, size->name, LM_NO_OFFSET, "cannot be combined with MODEL");
    if (o->output && cli->json)
        return lm_fail(e, LM_USAGE, "--output", LM_NO_OFFSET, "cannot be combined with --json");
    if (o->config && o->name)
        return lm_fail(e, LM_USAGE, "--name", LM_NO_OFFSET, "cannot be combined with --config");
    if (o->config && o->markdown)
        return lm_fail(e, LM_USAGE, "--md", LM_NO_OFFSET, "cannot be combined with --config");
    if (o->tree && size)
        return lm_fail(e, LM_USAGE, size->name, LM_NO_OFFSET, "already given by the module tree; "
                       "only --heads, --head-dim, --context and --tied may be set");
    if (!model && other)
        return lm_fail(e, LM_USAGE, other->name, LM_NO_OFFSET, "requires MODEL");
    return LM_OK;
}

static lm_status estimate(lm_cli *cli, void *options, lm_error *e)
{
    estimate_options *o     = options;
    lm_model         *m     = NULL;
    bool              given = cli->n_args || o->model.model;

    LM_TRY(check(cli, o, given, e));
    if (!given)
        return estimate_described(cli, o, e);
    o->model.o.weights_optional = o->model.o.tokenizer_optional = true;
    LM_TRY(lm_open_model(cli, &o->model, cli->args[0], &m, e));
    lm_status status = o->config ? show_own_config(cli, o, m, e) : show(cli, o, m, 0, e);
    lm_model_close(m);
    return status;
}

const lm_command lm_command_estimate = {
    .name = "estimate",
    .usage = "MODEL [--config] | --hidden N --layers N --heads N --ffn N --vocab N [--kv-heads N] …"
             " | --from-tree FILE",
    .summary = "estimate parameters by formula and compare with the exact count",
    .about = "  The sizes become a config.json, which is read like any other. A module tree is the output of "
             "print(model) in\n"
             "  transformers; values it lacks are taken from a published model of the same widths, or must "
             "be given as flags.\n"
             "  --config with a preset writes its config.json, to be changed and given as MODEL.\n",
    .groups = estimate_groups,
    .max_args = 1,
    .options_size = sizeof(estimate_options),
    .run = estimate,
};
