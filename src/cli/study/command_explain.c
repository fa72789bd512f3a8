/* lamina explain - explain a component with the numbers of a model. */
#include <string.h>

#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/base/prompt.h"
#include "cli/run/inspect.h"
#include "cli/study/pieces.h"
#include "lamina/study.h"

typedef struct explain_options {
    lm_model_flags model;
    lm_run_flags   run;
    uint32_t       batch;
    const char    *prompt, *ids, *diagram, *name;
    int32_t        layer;                /* -1: not given */
    const char    *output;
    bool           markdown, svg, code, force;
    int            in;                   /* lm_listing_language; -1: not given */
} explain_options;

#define O(field) offsetof(explain_options, field)

static const char *const listing_words[] = { "pytorch", "numpy", NULL };

static const lm_flag explain_flag_table[] = {
    { "--md", "--markdown", LM_FLAG_SWITCH, O(markdown), NULL,
      "write Markdown with LaTeX formulas and Mermaid diagrams", 0, 0, NULL },
    { "--prompt", "-p", LM_FLAG_TEXT, O(prompt), "TEXT",
      "text of forward; text whose cache is shown (kv, kv-cache, --diagram cache); "
      "text whose merges are shown (tokenizer)",
      0, 0, NULL },
    { "--ids", NULL, LM_FLAG_TEXT, O(ids), "IDS", "text of forward as token ids: 1,2,3", 0, 0, NULL },
    { "--diagram", NULL, LM_FLAG_TEXT, O(diagram), "NAME",
      "show one diagram of MODEL; with --md as Mermaid source", 0, 0, NULL },
    { "--code", NULL, LM_FLAG_SWITCH, O(code), NULL,
      "write MODEL, or the component of TOPIC, as a program that runs, with one line per operation",
      0, 0, NULL },
    { "--in", NULL, LM_FLAG_WORD, O(in), "pytorch|numpy",
      "language of --code (pytorch)", 0, 0, listing_words },
    { "--svg", NULL, LM_FLAG_SWITCH, O(svg), NULL, "write the diagram as SVG", 0, 0, NULL },
    { "--output", "-o", LM_FLAG_OUTPUT, O(output), "FILE", "output file", 0, 0, NULL },
    { "--force", NULL, LM_FLAG_SWITCH, O(force), NULL, "replace FILE if it exists", 0, 0, NULL },
    { "--name", NULL, LM_FLAG_TEXT, O(name), "NAME", "title of the model", 0, 0, NULL },
    { "--layer", NULL, LM_FLAG_INT, O(layer), "N",
      "layer shown by --diagram layer and forward (0)", 0, INT32_MAX, NULL },
    { "--context", "-c --ctx-size", LM_FLAG_INT, O(run.context), "N",
      "context length in tokens; 0: the model's (default)", 0, INT32_MAX, NULL },
    { "--batch", NULL, LM_FLAG_COUNT, O(batch), "N", "number of sequences (1)", 1, 1 << 16, NULL },
    { 0 },
};

static const lm_flag_group explain_groups[] = {
    { "output", explain_flag_table, 0 },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { "model", lm_model_flag_table, O(model) },
    { 0 },
};

static void explain_defaults(void *options)
{
    explain_options *o = options;

    lm_run_defaults(&o->run);
    o->run.context = 0;
    o->batch       = 1;
    o->layer       = -1;
    o->in          = -1;
}

/* ---- list of topics ---- */

/* List the aliases of topics on wrapped lines, and append them to `all`. */
static void list_aliases(lm_text *out, json_t *all)
{
    const char *alias, *topic = NULL;
    size_t      at = 0;

    lm_text_printf(out, "  %-14s", _("also"));
    for (size_t i = 0; (alias = lm_topic_alias_at(i, &topic)); i++) {
        at += strlen(alias) + 1;
        if (at > 60) {
            lm_text_printf(out, "\n%16s", "");
            at = strlen(alias) + 1;
        }
        lm_text_printf(out, " %s", alias);
        json_array_append_new(all, json_pack("{s:s, s:s}", "alias", alias, "topic", topic));
    }
    lm_text_add_char(out, '\n');
}

static lm_status list_topics(lm_cli *cli, lm_error *e)
{
    const char *topic, *summary = NULL;
    lm_text      out = { 0 };
    json_t     *all = json_array(), *diagrams = json_array(), *aliases = json_array();

    lm_text_add_str(&out, "lamina explain TOPIC [MODEL]\n\n");
    for (size_t i = 0; (topic = lm_topic_at(i, &summary)); i++) {
        lm_text_printf(&out, "  %-14s %s\n", topic, _(summary));
        json_array_append_new(all, json_pack("{s:s, s:s, s:s}", "topic", topic, "summary", summary,
                                             "example", lm_topic_example(topic)));
    }
    list_aliases(&out, aliases);
    lm_text_add_str(&out, "\nlamina explain --diagram NAME [MODEL]\n\n");
    for (size_t i = 0; (topic = lm_diagram_at(i, &summary)); i++) {
        lm_text_printf(&out, "  %-14s %s\n", topic, _(summary));
        json_array_append_new(diagrams, json_pack("{s:s, s:s}", "diagram", topic, "summary", summary));
    }
    lm_status status = LM_OK;
    if (cli->json)
        status = lm_out_json(cli, json_pack("{s:O, s:O, s:O}", "topics", all, "aliases", aliases,
                                            "diagrams", diagrams), e);
    else
        status = lm_out_buf(&out, e);
    json_decref(all);
    json_decref(diagrams);
    json_decref(aliases);
    lm_text_free(&out);
    return status;
}

/* ---- page ---- */

/* Return whether `topic` is the topic `wanted` or an alias of it. */
static bool is_about(const char *topic, const char *wanted)
{
    const char *alias, *leads;

    for (size_t i = 0; (alias = lm_topic_alias_at(i, &leads)); i++)
        if (strcmp(alias, topic) == 0 && strcmp(leads, wanted) == 0)
            return true;
    return strcmp(topic, wanted) == 0;
}

/* Return whether this is the name of a topic. A model file of that name is given as "./NAME". */
static bool is_topic(const char *name)
{
    return name && lm_topic_example(name) != NULL;
}

static lm_status write(const explain_options *o, lm_facts *f, const char *topic, lm_explain_options *page,
                       lm_text *text, lm_error *e)
{
    lm_listing_language in = o->in < 0 ? LM_LISTING_PYTORCH : (lm_listing_language)o->in;

    if (o->code)
        return is_topic(topic) ? lm_listing_topic(f, topic, in, text, e) : lm_listing_write(f, in, text, e);
    if (!o->diagram)
        return lm_explain(f, topic, page, text, e);
    if (page->form == LM_FORM_JSON)
        page->form = LM_FORM_MARKDOWN;
    return lm_diagram(f, o->diagram, page, text, e);
}

static lm_status show(lm_cli *cli, const explain_options *o, const lm_model *m, const char *topic,
                      const char *example, lm_error *e)
{
    lm_facts_options   options = { .name = o->name };
    lm_explain_options page = { .form = cli->json     ? LM_FORM_JSON
                                        : o->svg      ? LM_FORM_SVG
                                        : o->markdown ? LM_FORM_MARKDOWN
                                                      : LM_FORM_TEXT,
                                .columns = lm_out_width(),
                                .lines = lm_out_is_terminal(),
                                .example = example,
                                .layer = o->layer < 0 ? 0 : (uint32_t)o->layer,
                                .language = cli->json ? LM_ENGLISH : cli->language };
    lm_facts          *f = NULL;
    lm_text            text = { 0 };
    lm_status          status;

    page.text = o->prompt;
    if (o->prompt && !is_about(topic, "tokenizer"))
        LM_TRY((lm_model_tokenizer(m) ? lm_prompt_pieces(cli, m, o->prompt, &page.pieces, &page.n_pieces, e)
                                      : lm_prompt_words(cli, o->prompt, &page.pieces, &page.n_pieces, e)));
    page.words = o->prompt && !lm_model_tokenizer(m);
    LM_TRY(lm_engine_flags(&o->run, m, 0, &options.engine, e));
    options.engine.sequences = o->batch;
    LM_TRY(lm_facts_new(m, &options, &f, e));
    status = write(o, f, topic, &page, &text, e);
    lm_facts_free(f);
    if (status != LM_OK)
        return status;
    if (cli->json && o->code) {
        status = lm_out_json(cli, json_pack("{s:s, s:o}", "language", listing_words[o->in < 0 ? 0 : o->in],
                                            "code", lm_json_of(text.data, text.size)), e);
    } else if (cli->json && o->diagram) {
        status = lm_out_json(cli, json_pack("{s:s, s:o}", "diagram", o->diagram,
                                            "mermaid", lm_json_of(text.data, text.size)), e);
    } else if (cli->json) {
        status = lm_out_json_text(cli, &text, e);
    } else if (o->output) {
        status = lm_text_save(&text, o->output, e);
    } else {
        status = lm_out_text(text.data, text.size, e);
    }
    lm_text_free(&text);
    return status;
}

/* Return whether the only argument is MODEL: a preset, a file or a folder, and no topic. */
static bool is_overview(const lm_cli *cli, const explain_options *o)
{
    lm_text path = { 0 };
    bool    model = !o->diagram && !o->code && cli->n_args == 1 && !is_topic(cli->args[0]) &&
                    lm_model_locate(cli->args[0], &path, NULL) == LM_OK;

    lm_text_free(&path);
    return model;
}

/* Show the whole of a model, as `lamina inspect` does. */
static lm_status overview(lm_cli *cli, explain_options *o, lm_error *e)
{
    lm_inspect_options whole = { .run = o->run, .batch = o->batch, .layer = -1 };
    lm_engine_options  engine;
    lm_model          *m = NULL;

    if (o->markdown || o->svg || o->output || o->name || o->prompt)
        return lm_fail(e, LM_USAGE, cli->args[0], LM_NO_OFFSET,
                       "the overview has one form; give a topic first: lamina explain attention MODEL");
    o->model.o.weights_optional   = true;
    o->model.o.tokenizer_optional = true;
    LM_TRY(lm_open_model(cli, &o->model, cli->args[0], &m, e));
    lm_status status = lm_engine_flags(&whole.run, m, 0, &engine, e);
    engine.sequences = whole.batch;
    if (status == LM_OK)
        status = lm_inspect_facts(cli, &whole, m, &engine, e);
    lm_model_close(m);
    return status;
}

/* Choose the model. *model NULL: the one given by -m, or the demo model. Without MODEL this is a preset that
 * has the component, whose *example is a note for the page; with a prompt it is the demo model, which has a
 * tokenizer. */
static lm_status choose(lm_cli *cli, const explain_options *o, const char **model, const char **example,
                        lm_error *e)
{
    const char      *topic = cli->args[0];
    const lm_preset *preset = NULL;
    /* the first argument is MODEL, not TOPIC */
    bool whole = o->diagram || (o->code && !is_topic(topic));

    *model = whole ? topic : cli->args[1];
    if (*model || whole || o->model.model || o->prompt)
        return LM_OK;
    if (!lm_topic_example(topic))
        return lm_explain(NULL, topic, NULL, NULL, e);   /* lists the topics */
    LM_TRY(lm_preset_find(lm_topic_example(topic), &preset, e));
    *model   = lm_store_printf(&cli->store, LM_PRESET_PREFIX "%s", preset->name);
    *example = lm_store_printf(&cli->store,
                               _("example: %s (%s); use lamina explain %s MODEL for another model"),
                               preset->title, preset->source, topic);
    return *model && *example ? LM_OK : lm_fail_memory(e, "a path", 0);
}

/* ---- forward pass ---- */

static bool is_forward(const lm_cli *cli, const explain_options *o)
{
    return !o->diagram && !o->code && cli->n_args && strcmp(cli->args[0], "forward") == 0;
}

static lm_status check_forward(const explain_options *o, lm_error *e)
{
    if (o->prompt && o->ids)
        return lm_fail(e, LM_USAGE, "--ids", LM_NO_OFFSET, "cannot be combined with --prompt");
    if (o->run.context || o->batch != 1)
        return lm_fail(e, LM_USAGE, o->run.context ? "--context" : "--batch", LM_NO_OFFSET,
                       "does not apply to forward");
    if (o->run.cache.both >= 0 || o->run.cache.keys >= 0 || o->run.cache.values >= 0)
        return lm_fail(e, LM_USAGE, "--cache-type-k", LM_NO_OFFSET,
                       "does not apply to forward, which keeps float32");
    if (o->svg || o->name)
        return lm_fail(e, LM_USAGE, o->svg ? "--svg" : "--name", LM_NO_OFFSET, "does not apply to forward");
    return LM_OK;
}

static lm_status forward_tokens(const explain_options *o, const lm_model *m, lm_tokens *ids, lm_error *e)
{
    const char *text = o->prompt ? o->prompt : "The cat sat on the";

    if (o->ids)
        return lm_read_ids(o->ids, "--ids", ids, e);
    if (!lm_model_tokenizer(m))
        return lm_fail(e, LM_USAGE, "--prompt", LM_NO_OFFSET,
                       "this model has no tokenizer; --ids takes token ids");
    return lm_tokenize(lm_model_tokenizer(m), text, strlen(text), LM_ADD_SPECIAL, ids, e);
}

/* Reject what the toy of a preset cannot show. */
static lm_status check_toy(const explain_options *o, lm_error *e)
{
    if (o->ids)
        return lm_fail(e, LM_USAGE, "--ids", LM_NO_OFFSET,
                       "does not apply to the toy of a preset, whose tokens are words; use --prompt");
    if (o->layer >= 0)
        return lm_fail(e, LM_USAGE, "--layer", LM_NO_OFFSET,
                       "does not apply to the toy of a preset, which is shown whole");
    return LM_OK;
}

static lm_status forward(lm_cli *cli, explain_options *o, lm_error *e)
{
    lm_explain_options given = lm_explain_defaults();
    lm_tokens          ids   = { 0 };
    lm_text            text  = { 0 };
    lm_model          *m     = NULL;

    given.form     = cli->json ? LM_FORM_JSON : o->markdown ? LM_FORM_MARKDOWN : LM_FORM_TEXT;
    given.language = cli->language;
    given.layer    = o->layer < 0 ? 0 : (uint32_t)o->layer;
    given.text     = o->prompt;
    o->model.o.tokenizer_optional = true;
    o->model.o.weights_optional   = true;
    LM_TRY(lm_open_model(cli, &o->model, cli->args[1], &m, e));
    bool      toy    = lm_explain_needs_toy(m);
    lm_status status = toy ? check_toy(o, e) : forward_tokens(o, m, &ids, e);
    if (status == LM_OK && toy)
        status = lm_explain_toy(m, &given, &text, e);
    else if (status == LM_OK)
        status = lm_explain_forward(m, ids.ids, ids.n, &given, &text, e);
    if (status == LM_OK && cli->json)
        status = lm_out_json_text(cli, &text, e);
    else if (status == LM_OK)
        status = o->output ? lm_text_save(&text, o->output, e) : lm_out_text(text.data, text.size, e);
    lm_text_free(&text);
    lm_tokens_free(&ids);
    lm_model_close(m);
    return status;
}

/* Check the flags that select the subject: code, a diagram or a topic. */
static lm_status check_subject(const lm_cli *cli, const explain_options *o, lm_error *e)
{
    if (o->code && (o->diagram || o->markdown || o->svg))
        return lm_fail(e, LM_USAGE, "--code", LM_NO_OFFSET,
                       "takes one MODEL or a TOPIC, and no diagram or other form");
    if (o->code && cli->n_args > 1 && !is_topic(cli->args[0]))
        return lm_fail(e, LM_USAGE, cli->args[0], LM_NO_OFFSET, "unknown topic; lamina explain lists them");
    if (o->in >= 0 && !o->code)
        return lm_fail(e, LM_USAGE, "--in", LM_NO_OFFSET, "applies only to --code");
    if (o->diagram && cli->n_args > 1)
        return lm_fail(e, LM_USAGE, cli->args[1], LM_NO_OFFSET, "--diagram takes one MODEL and no topic");
    if (o->name && !cli->n_args && !o->diagram && !o->code)
        return lm_fail(e, LM_USAGE, "--name", LM_NO_OFFSET, "requires a topic or a diagram");
    return LM_OK;
}

/* Return whether a diagram or a topic shows the tokens of --prompt. */
static bool shows_prompt(const char *diagram, const char *topic)
{
    return (diagram && strcmp(diagram, "cache") == 0) || strcmp(topic, "kv") == 0 ||
           strcmp(topic, "kv-cache") == 0 || is_about(topic, "tokenizer");
}

/* Reject flags that would have no effect. */
static lm_status check(const lm_cli *cli, const explain_options *o, lm_error *e)
{
    const char *topic = o->diagram || o->code ? "" : cli->n_args ? cli->args[0] : "";

    LM_TRY(check_subject(cli, o, e));
    if (is_forward(cli, o))
        return check_forward(o, e);
    if (o->ids)
        return lm_fail(e, LM_USAGE, "--ids", LM_NO_OFFSET, "applies only to forward");
    if (o->layer >= 0 && !(o->diagram && strcmp(o->diagram, "layer") == 0))
        return lm_fail(e, LM_USAGE, "--layer", LM_NO_OFFSET, "applies only to forward and --diagram layer");
    if (o->prompt && !shows_prompt(o->diagram, topic))
        return lm_fail(e, LM_USAGE, "--prompt", LM_NO_OFFSET,
                       "applies only to forward, kv, kv-cache, tokenizer and --diagram cache");
    if (o->svg && (!o->diagram || cli->json || o->markdown))
        return lm_fail(e, LM_USAGE, "--svg", LM_NO_OFFSET,
                       "requires exactly one --diagram, without --md or --json");
    if (o->output && (cli->json || (!cli->n_args && !o->diagram && !o->code)))
        return lm_fail(e, LM_USAGE, "--output", LM_NO_OFFSET,
                       "requires a topic or a diagram, and cannot be combined with --json");
    return LM_OK;
}

static lm_status explain(lm_cli *cli, void *options, lm_error *e)
{
    explain_options *o     = options;
    const char      *model = NULL, *example = NULL;
    lm_model        *m = NULL;
    lm_status        status;

    LM_TRY(check(cli, o, e));
    if (!cli->n_args && !o->diagram && !o->code)
        return list_topics(cli, e);
    if (is_forward(cli, o))
        return forward(cli, o, e);
    if (is_overview(cli, o))
        return overview(cli, o, e);
    LM_TRY(choose(cli, o, &model, &example, e));
    o->model.o.weights_optional = true;
    o->model.o.tokenizer_optional = true;
    LM_TRY(lm_open_model(cli, &o->model, model, &m, e));
    status = show(cli, o, m, cli->args[0], example, e);
    lm_model_close(m);
    return status;
}

const lm_command lm_command_explain = {
    .name = "explain",
    .usage = "[[TOPIC] [MODEL] | forward [MODEL] | --diagram NAME [MODEL] | --code [TOPIC] [MODEL]]"
             " [--md | --svg]",
    .summary = "explain a component of a model, with its arithmetic",
    .about =
        "  Without TOPIC, shows an overview of MODEL, or lists the topics. Without MODEL, uses a published model\n"
        "  that has the component.\n"
        "  forward runs a text through a model and shows what each operation makes of it. For a preset, "
        "which has no weights, a\n"
        "  small model of its form with random weights is created and shown whole.\n"
        "  MODEL may be a preset, a config.json, a folder or a .gguf file.\n",
    .groups = explain_groups,
    .max_args = 2,
    .options_size = sizeof(explain_options),
    .defaults = explain_defaults,
    .run = explain,
};
