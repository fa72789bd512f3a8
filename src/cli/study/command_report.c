/* lamina report - write a complete report about one or several models. */
#include <string.h>

#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/study/pieces.h"
#include "lamina/study.h"

enum { MAX_MODELS = 16 };

typedef struct report_options {
    lm_model_flags model;
    lm_run_flags   run;
    lm_flag_list   names;                /* titles of the models, in their order */
    const char    *output, *precision, *device, *prompt;
    int            format;               /* index into format_words; -1: from the file extension */
    uint32_t       batch, tokens, rank, columns;
    bool           brief, force;                /* replace an existing file (checked by lm_flags_read) */
} report_options;

#define O(field) offsetof(report_options, field)

static const char *const format_words[] = { "html", "md", "pandoc", "json", "txt", NULL };
static const lm_form     formats[]      =     /* in the order of format_words */
    { LM_FORM_HTML, LM_FORM_MARKDOWN, LM_FORM_PANDOC, LM_FORM_JSON, LM_FORM_TEXT };

static const char *word_of(lm_form form)
{
    size_t i = 0;

    while (formats[i] != form)
        i++;
    return format_words[i];
}

static const lm_flag report_flag_table[] = {
    { "--output", "-o", LM_FLAG_OUTPUT, O(output), "FILE",
      "output file: .html, .md, .json or .txt; -: standard output (default)", 0, 0, NULL },
    { "--force", NULL, LM_FLAG_SWITCH, O(force), NULL, "replace FILE if it exists", 0, 0, NULL },
    { "--format", NULL, LM_FLAG_WORD, O(format), "html|md|pandoc|json|txt",
      "output format, overriding the file extension (default on standard output: txt); "
      "md is for GitHub", 0, 0, format_words },
    { "--name", NULL, LM_FLAG_LIST, O(names), "NAME",
      "title of the model; repeat for each MODEL, in their order", 0, 0, NULL },
    { "--prompt", "-p", LM_FLAG_TEXT, O(prompt), "TEXT",
      "show the cache for the tokens of this text; the first model must have a tokenizer", 0, 0, NULL },
    { "--short", NULL, LM_FLAG_SWITCH, O(brief), NULL,
      "only the overview of each model: about a page", 0, 0, NULL },
    { "--columns", NULL, LM_FLAG_COUNT, O(columns), "N", "line width of txt (100)", 40, 1000, NULL },
    { 0 },
};

static const lm_flag setting_flag_table[] = {
    { "--context", "-c --ctx-size", LM_FLAG_INT, O(run.context), "N",
      "context length in tokens; 0: each model's (default)", 0, INT32_MAX, NULL },
    { "--batch", NULL, LM_FLAG_COUNT, O(batch), "N", "number of sequences (1)", 1, 1 << 16, NULL },
    { "--precision", NULL, LM_FLAG_TEXT, O(precision), "TYPE",
      "assumed weight precision: f16, Q4_K_M, int4 ...", 0, 0, NULL },
    { "--tokens", NULL, LM_FLAG_COUNT, O(tokens), "N",
      "tokens in the forward pass whose cost is shown by module (4)", 1, 1 << 20, NULL },
    { "--device", NULL, LM_FLAG_TEXT, O(device), "NAME",
      "device from the catalogue (lamina devices) instead of this machine", 0, 0, NULL },
    { "--rank", NULL, LM_FLAG_COUNT, O(rank), "N", "rank of the LoRA adapters (16)", 1, 1 << 16, NULL },
    { 0 },
};

static const lm_flag_group report_groups[] = {
    { "document", report_flag_table, 0 },
    { "assumptions", setting_flag_table, 0 },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { "model", lm_model_flag_table, O(model) },
    { 0 },
};

static void report_defaults(void *options)
{
    report_options *o = options;

    lm_run_defaults(&o->run);
    o->run.context = 0;
    o->batch       = 1;
    o->format      = -1;
    o->columns     = 100;
}

/* ---- models ---- */

/* The open models and their facts, which point into them. */
typedef struct opened {
    lm_model *model[MAX_MODELS];
    lm_facts *facts[MAX_MODELS];
    size_t    n;
} opened;

static lm_status open_one(lm_cli *cli, report_options *o, const char *name, opened *x, lm_error *e)
{
    lm_facts_options options = { .precision = o->precision, .tokens = o->tokens, .rank = o->rank,
                                 .name = x->n < o->names.n ? o->names.items[x->n] : NULL };

    if (o->device)
        LM_TRY(lm_device_find(o->device, &options.device, e));
    o->model.o.weights_optional = true;
    o->model.o.tokenizer_optional = !o->prompt || x->n;
    LM_TRY(lm_open_model(cli, &o->model, name, &x->model[x->n], e));
    lm_status status = lm_engine_flags(&o->run, x->model[x->n], 0, &options.engine, e);
    options.engine.sequences = o->batch;
    if (status == LM_OK)
        status = lm_facts_new(x->model[x->n], &options, &x->facts[x->n], e);
    x->n++;
    return status;
}

static void close_all(opened *x)
{
    for (size_t i = 0; i < x->n; i++) {
        lm_facts_free(x->facts[i]);
        lm_model_close(x->model[i]);
    }
}

/* ---- document ---- */

static lm_status choose_form(const lm_cli *cli, const report_options *o, lm_form *out, lm_error *e)
{
    if (o->format >= 0)
        *out = formats[o->format];
    else if (!o->output || strcmp(o->output, "-") == 0)
        *out = cli->json ? LM_FORM_JSON : LM_FORM_TEXT;
    else if (!lm_report_form(o->output, out))
        return lm_fail(e, LM_USAGE, o->output, LM_NO_OFFSET,
                       "unknown file extension; use .html, .md, .json or .txt, or --format");
    return LM_OK;
}

static lm_status deliver(lm_cli *cli, const report_options *o, lm_form form, const lm_text *text, lm_error *e)
{
    char figure[LM_FORMATTED];

    if (o->output && strcmp(o->output, "-") != 0) {
        LM_TRY(lm_text_save(text, o->output, e));
        lm_note("%s: %s", o->output, lm_format_bytes(figure, text->size));
        if (cli->json)
            return lm_out_json(cli, json_pack("{s:o, s:s, s:I}",
                                              "file", lm_json_of(o->output, strlen(o->output)),
                                              "format", word_of(form), "bytes", (json_int_t)text->size), e);
        return LM_OK;
    }
    cli->answered |= cli->json;
    return lm_out_text(text->data, text->size, e);
}

/* Write the forward pass of a preset's toy for a page about one model. A preset whose toy cannot be made has
 * none. */
static lm_status write_forward(const opened *x, lm_report_options *r, lm_text *out, lm_error *e)
{
    if (r->form != LM_FORM_HTML || r->brief || x->n != 1 || !lm_explain_needs_toy(x->model[0]))
        return LM_OK;
    lm_explain_options o = lm_explain_defaults();
    o.language       = r->language;
    lm_status status = lm_explain_toy(x->model[0], &o, out, e);
    r->forward       = out->data;
    return status == LM_UNSUPPORTED ? LM_OK : status;
}

static lm_status report(lm_cli *cli, void *options, lm_error *e)
{
    report_options   *o = options;
    lm_report_options r = { .language = cli->language, .columns = o->columns, .brief = o->brief };
    opened            x = { 0 };
    lm_text           text = { 0 }, forward = { 0 };

    LM_TRY(choose_form(cli, o, &r.form, e));
    if (cli->json && r.form != LM_FORM_JSON && (!o->output || strcmp(o->output, "-") == 0))
        return lm_fail(e, LM_USAGE, "--json", LM_NO_OFFSET,
                       "requires --format json when writing to standard output");
    LM_TRY(lm_check_names(&o->names, cli->n_args ? cli->n_args : 1, e));
    r.lines          = true;
    lm_status status = LM_OK;
    for (size_t i = 0; i < cli->n_args && status == LM_OK; i++)
        status = open_one(cli, o, cli->args[i], &x, e);
    if (!cli->n_args)
        status = open_one(cli, o, NULL, &x, e);
    if (status == LM_OK && o->prompt)
        status = lm_prompt_pieces(cli, x.model[0], o->prompt, &r.pieces, &r.n_pieces, e);
    if (status == LM_OK)
        status = write_forward(&x, &r, &forward, e);
    if (status == LM_OK)
        status = lm_report_write(x.facts, x.n, &r, &text, e);
    if (status == LM_OK)
        status = deliver(cli, o, r.form, &text, e);
    lm_text_free(&text);
    lm_text_free(&forward);
    close_all(&x);
    return status;
}

const lm_command lm_command_report = {
    .name = "report",
    .usage = "MODEL... -o FILE.(html|md|json|txt)",
    .summary = "write a complete report about one or several models",
    .about = "  MODEL may be a preset (lamina presets), a config.json, a folder or a .gguf file. Without "
             "MODEL, uses the demo model.\n"
             "  A report about several models compares them first and then describes each.\n",
    .groups = report_groups,
    .max_args = MAX_MODELS,
    .options_size = sizeof(report_options),
    .defaults = report_defaults,
    .run = report,
};
