/* lamina trace - show what happens inside a model while it processes a text: surprise, logit lens, heads,
 * experts, and the effect of changing a part. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/interrupt.h"
#include "cli/base/jsonl.h"
#include "cli/base/output.h"
#include "cli/base/prompt.h"
#include "cli/base/tokenjson.h"
#include "cli/measure/trace.h"
#include "trace/tracejson.h"

#define O(field) offsetof(lm_trace_flags, field)

static const lm_flag trace_flag_table[] = {
    { "--prompt", "-p", LM_FLAG_TEXT, O(prompt), "TEXT",
      "text to trace (default: standard input)", 0, 0, NULL },
    { "--file", "-f", LM_FLAG_TEXT, O(file), "FILE",
      "file to trace, without its last newline; -: standard input", 0, 0, NULL },
    { "--ids", NULL, LM_FLAG_TEXT, O(ids), "IDS", "text as token ids: 1,2,3", 0, 0, NULL },
    { "--chat", NULL, LM_FLAG_SWITCH, O(chat), NULL,
      "wrap the text as a user message with the model's chat template", 0, 0, NULL },
    { "--system", "-sys", LM_FLAG_TEXT, O(system), "TEXT", "system message, with --chat", 0, 0, NULL },
    { "--predict", "-n --n-predict", LM_FLAG_COUNT, O(predict), "N",
      "maximum number of tokens to generate after the text, greedily (0)", 0, 1 << 20, NULL },
    { "--no-add-special", NULL, LM_FLAG_SWITCH, O(bare), NULL,
      "do not add the tokenizer's special tokens (BOS ...)", 0, 0, NULL },
    { "--no-parse-special", NULL, LM_FLAG_SWITCH, O(no_special), NULL,
      "treat special tokens in the text as plain text", 0, 0, NULL },
    { 0 },
};

static const lm_flag look_flag_table[] = {
    { "--at", NULL, LM_FLAG_INT, O(at), "N",
      "position to examine, counted from 0; negative: from the end (default: the last that predicts a token)",
      0, 0, NULL },
    { "--all", NULL, LM_FLAG_SWITCH, O(all), NULL,
      "examine every position (--json, pages; default of a page: the last 32)", 0, 0, NULL },
    { "--top", NULL, LM_FLAG_COUNT, O(top), "K", "alternatives of each token (5)", 0, 1000, NULL },
    { "--lens", NULL, LM_FLAG_COUNT, O(lens), "K",
      "tokens that the lens shows after each layer; 0: no lens (5)", 0, 1000, NULL },
    { "--lens-parts", NULL, LM_FLAG_SWITCH, O(parts), NULL,
      "use the lens also after each attention", 0, 0, NULL },
    { "--attention", NULL, LM_FLAG_TEXT, O(attention), "L.H",
      "picture of the attention of head H of layer L", 0, 0, NULL },
    { "--times", NULL, LM_FLAG_SWITCH, O(times), NULL, "measure the time of each operation", 0, 0, NULL },
    { "--values", NULL, LM_FLAG_LIST, O(values), "PATTERN",
      "values to write to --output: model.layers.*.mlp, layers.3.self_attn#weights; may be repeated",
      0, 0, NULL },
    { "--output", "-o", LM_FLAG_OUTPUT, O(output), "FILE",
      "file to write: .html, the whole trace as a page; with --values .safetensors, or .npy of a single "
      "value", 0, 0, NULL },
    { "--force", NULL, LM_FLAG_SWITCH, O(force), NULL, "replace FILE if it exists", 0, 0, NULL },
    { 0 },
};

static const lm_flag change_flag_table[] = {
    { "--set", NULL, LM_FLAG_LIST, O(set), "PATH=F",
      "multiply a value by F: PATH=0 removes it; PATH#head3, PATH#neuron7, PATH#expert2 change a part; may "
      "be repeated", 0, 0, NULL },
    { "--add", NULL, LM_FLAG_LIST, O(add), "[PATH=]FILE[:SCALE]",
      "add a control vector, to all its layers or to one value; may be repeated", 0, 0, NULL },
    { "--patch", NULL, LM_FLAG_LIST, O(patch), "PATH@POS=FILE[@ROW]",
      "replace a value by a row of a file of --values at a position; may be repeated", 0, 0, NULL },
    { "--compare", NULL, LM_FLAG_TEXT, O(other), "MODEL",
      "second model with the same vocabulary, compared token by token", 0, 0, NULL },
    { "--vector", NULL, LM_FLAG_OUTPUT, O(vector), "FILE", "make a control vector from --pairs", 0, 0, NULL },
    { "--pairs", NULL, LM_FLAG_TEXT, O(pairs), "FILE",
      "JSON lines [\"text with the property\", \"text without\"] (or arrays of token ids), for --vector",
      0, 0, NULL },
    { 0 },
};

static const lm_flag_group trace_groups[] = {
    { "text", trace_flag_table, 0 },
    { "output", look_flag_table, 0 },
    { "interventions", change_flag_table, 0 },
    { "model", lm_model_flag_table, O(model) },
    { "engine", lm_run_flag_table, O(run) },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { 0 },
};

static void trace_defaults(void *options)
{
    lm_trace_flags *o = options;

    lm_run_defaults(&o->run);
    o->at   = INT32_MIN;
    o->top  = 5;
    o->lens = 5;
}

/* ---- tokens ---- */

static lm_status chat_tokens(lm_tracing *t, const char *text, size_t n, lm_tokens *out, lm_error *e)
{
    lm_prompt_template         chat;
    lm_template_flags options = { 0 };
    json_t         *messages = json_array();

    LM_TRY(lm_prompt_template_open(t->model, &options, &chat, e));
    if (t->o->system)
        json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content", t->o->system));
    json_array_append_new(messages, json_pack("{s:s, s:o}", "role", "user", "content", lm_json_of(text, n)));
    lm_status status = lm_prompt_template_tokens(&chat, messages, out, NULL, e);
    json_decref(messages);
    lm_prompt_template_close(&chat);
    return status;
}

static lm_status tokenize(lm_tracing *t, const char *text, size_t n, lm_tokens *out, lm_error *e)
{
    const lm_tokenizer *k     = lm_model_tokenizer(t->model);
    unsigned flags = (t->o->bare ? 0u : LM_ADD_SPECIAL) | (t->o->no_special ? LM_NO_PARSE_SPECIAL : 0u);

    if (!k)
        return lm_fail(e, LM_USAGE, "--prompt", LM_NO_OFFSET, "the model has no tokenizer; use --ids");
    if (t->o->chat)
        return chat_tokens(t, text ? text : "", n, out, e);
    return lm_tokenize(k, text ? text : "", n, flags, out, e);
}

static lm_status read_text(lm_tracing *t, lm_error *e)
{
    const lm_trace_flags *o      = t->o;
    lm_text               text   = { 0 };
    lm_status             status = LM_OK;

    if (o->ids)
        status = lm_read_ids(o->ids, "--ids", &t->ids, e);
    else if (o->prompt)
        status = tokenize(t, o->prompt, strlen(o->prompt), &t->ids, e);
    else
        status = lm_read_text(o->file ? o->file : "-", &text, e);
    if (status == LM_OK && !o->ids && !o->prompt)
        status = tokenize(t, text.data, text.size, &t->ids, e);
    lm_text_free(&text);
    if (status == LM_OK && !t->ids.n)
        return lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET, "no tokens to trace");
    return status;
}

/* ---- options ---- */

/* List the interventions in the library's syntax. *out is NULL-ended and valid as long as the command runs;
 * NULL: there are none. */
static lm_status interventions_of(lm_tracing *t, const char *const **out, lm_error *e)
{
    const lm_trace_flags *o = t->o;
    size_t                n = o->set.n + o->add.n + o->patch.n, at = 0;
    const char          **list = lm_store_new(&t->cli->store, n + 1, const char *);

    *out = NULL;
    if (!list)
        return lm_fail_memory(e, "flags", n);
    for (size_t i = 0; i < o->set.n; i++)
        list[at++] = o->set.items[i];
    for (size_t i = 0; i < o->add.n; i++) {
        const char *text = o->add.items[i], *equals = strchr(text, '=');
        size_t      size = strlen(text) + 2;
        char       *s    = lm_store_new(&t->cli->store, size, char);
        if (!s)
            return lm_fail_memory(e, "flags", size);
        if (equals)
            snprintf(s, size, "%.*s+%s", (int)(equals - text), text, equals + 1);
        else
            snprintf(s, size, "+%s", text);
        list[at++] = s;
    }
    for (size_t i = 0; i < o->patch.n; i++)
        list[at++] = o->patch.items[i];
    if (n)
        *out = list;
    return LM_OK;
}

static lm_status read_head(lm_tracing *t, lm_error *e)
{
    char *end = NULL;

    if (!t->o->attention)
        return LM_OK;
    unsigned long layer = strtoul(t->o->attention, &end, 10);
    unsigned long head  = *end == '.' && end > t->o->attention ? strtoul(end + 1, &end, 10) : ULONG_MAX;
    if (*end || layer > 100000 || head > 100000)
        return lm_fail(e, LM_USAGE, "--attention", LM_NO_OFFSET, "\"%s\" is not LAYER.HEAD", t->o->attention);
    t->head[0] = (uint32_t)layer;
    t->head[1] = (uint32_t)head;
    return LM_OK;
}

enum { PAGE_ROWS = 32 };

static bool is_page(const char *path)
{
    size_t n = path ? strlen(path) : 0;

    return n > 5 && strcmp(path + n - 5, ".html") == 0;
}

static lm_status options_of(lm_tracing *t, lm_trace_options *out, lm_error *e)
{
    const lm_trace_flags *o = t->o;

    *out = lm_trace_defaults();
    LM_TRY(lm_engine_flags(&o->run, t->model, t->ids.n + o->predict, &out->engine, e));
    out->engine.max_rows = out->engine.max_logits = 0;
    out->top         = o->top;
    out->lens        = o->lens;
    out->lens_parts  = o->parts;
    out->attribution = out->norms = out->experts = out->attention = true;
    out->times       = o->times;
    out->values      = o->values.items;
    if (o->attention) {
        out->heads   = t->head;
        out->n_heads = 1;
    }
    return LM_OK;
}

/* ---- tracing ---- */

/* Examine one row; for a page the last PAGE_ROWS, since each takes 100 kB and more; or all. */
static lm_status look(lm_tracing *t, size_t n, lm_error *e)
{
    if (t->o->all || t->o->attention)
        return lm_tracer_look(t->tracer, UINT32_MAX, e);
    if (!is_page(t->o->output) || t->o->at != INT32_MIN)
        return lm_tracer_look(t->tracer, t->row, e);
    for (size_t row = n > PAGE_ROWS ? n - PAGE_ROWS : 0; row < n; row++)
        LM_TRY(lm_tracer_look(t->tracer, (uint32_t)row, e));
    return LM_OK;
}

/* Generate the continuation first, then process the whole text again with tracing. */
static lm_status run(lm_tracing *t, lm_error *e)
{
    const lm_token *ids;
    size_t          n;
    lm_tokens       all = { 0 };
    lm_status       status;

    LM_TRY(lm_tracer_read(t->tracer, t->ids.ids, t->o->predict ? t->ids.n : 0, e));
    LM_TRY(lm_tracer_write(t->tracer, t->o->predict, e));
    ids = lm_tracer_ids(t->tracer, &n);
    status = t->o->predict ? lm_tokens_append(&all, ids, n, e)
                           : lm_tokens_append(&all, t->ids.ids, t->ids.n, e);
    if (status == LM_OK)
        status = lm_trace_row_selected(t, all.n, &t->row, e);
    if (status == LM_OK)
        status = look(t, all.n, e);
    if (status == LM_OK)
        status = lm_tracer_restart(t->tracer, e);
    if (status == LM_OK && t->o->values.n)
        status = lm_tracer_save(t->tracer, t->o->output, (uint32_t)all.n, e);
    if (status == LM_OK)
        status = lm_tracer_read(t->tracer, all.ids, all.n, e);
    if (status == LM_OK && t->o->values.n)
        status = lm_tracer_saved(t->tracer, e);
    lm_tokens_free(&all);
    return status;
}

static lm_status show(lm_tracing *t, lm_error *e)
{
    json_t *document = NULL;

    if (is_page(t->o->output))
        LM_TRY(lm_trace_html(t, t->o->output, e));
    if (t->o->output && !t->cli->json) {
        lm_note("%s: written", t->o->output);
        return LM_OK;
    }
    if (!t->cli->json)
        return t->o->attention ? lm_trace_picture(t, e) : lm_trace_page(t, e);
    LM_TRY(lm_trace_document(t->tracer, true, &document, e));
    return lm_out_json(t->cli, document, e);
}

static lm_status trace_text(lm_tracing *t, lm_error *e)
{
    lm_trace_options   o, changed;
    const char *const *interventions;
    lm_model          *other = NULL;

    LM_TRY(read_text(t, e));
    LM_TRY(read_head(t, e));
    LM_TRY(options_of(t, &o, e));
    LM_TRY(interventions_of(t, &interventions, e));
    if (t->o->other) {
        lm_model_flags second = t->o->model;
        second.model = NULL;
        second.o.tokenizer_optional = true;
        LM_TRY(lm_open_model(t->cli, &second, t->o->other, &other, e));
        changed          = o;
        lm_status status = lm_trace_versus(t, &o, other, &changed, e);
        lm_model_close(other);
        return status;
    }
    changed               = o;
    changed.interventions = interventions;
    if (interventions && !t->o->values.n && !t->o->attention && !is_page(t->o->output))
        return lm_trace_versus(t, &o, t->model, &changed, e);
    LM_TRY(lm_tracer_new(t->model, &changed, &t->tracer, e));
    lm_interrupt_watch(lm_tracer_engine(t->tracer));
    lm_status status = run(t, e);
    lm_interrupt_watch(NULL);
    return status == LM_OK ? show(t, e) : status;
}

/* ---- control vector ---- */

typedef struct gathering {
    lm_tracing *t;
    lm_tokens  *texts;
    size_t      n, capacity;
} gathering;

static lm_status add_text(gathering *g, const json_t *text, lm_error *e)
{
    if (!json_is_string(text) && !json_is_array(text))
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "not [\"text with\", \"text without\"]");
    if (g->n == g->capacity) {
        size_t     capacity = 2 * g->capacity + 64;
        lm_tokens *more     = realloc(g->texts, capacity * sizeof *more);
        if (!more)
            return lm_fail_memory(e, "pairs", capacity);
        g->texts    = more;
        g->capacity = capacity;
    }
    g->texts[g->n] = (lm_tokens){ 0 };
    g->n++;
    if (json_is_array(text))
        return lm_ids_of(text, &g->texts[g->n - 1], e);
    return tokenize(g->t, json_string_value(text), json_string_length(text), &g->texts[g->n - 1], e);
}

static lm_status add_pair(void *arg, json_t *value, const char *why, const lm_text *line, lm_error *e)
{
    (void)line;
    if (!json_is_array(value) || json_array_size(value) != 2)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "not [\"text with\", \"text without\"]%s%s",
                       why ? ": " : "", why ? why : "");
    LM_TRY(add_text(arg, json_array_get(value, 0), e));
    return add_text(arg, json_array_get(value, 1), e);
}

static lm_status make_vector(lm_tracing *t, lm_error *e)
{
    gathering         g = { .t = t };
    lm_engine_options o;
    lm_status         status = lm_jsonl_read(t->o->pairs, false, add_pair, &g, e);

    if (status == LM_OK)
        status = lm_engine_flags(&t->o->run, t->model, 1, &o, e);
    if (status == LM_OK) {
        o.max_rows = o.max_logits = 0;
        status = lm_trace_vector(t->model, &o, g.texts, g.n / 2, t->o->vector, e);
    }
    for (size_t i = 0; i < g.n; i++)
        lm_tokens_free(&g.texts[i]);
    free(g.texts);
    LM_TRY(status);
    if (t->cli->json)
        return lm_out_json(t->cli,
                           json_pack("{s:s, s:I}", "vector", t->o->vector, "pairs", (json_int_t)(g.n / 2)),
                           e);
    lm_note("%s: written from %zu pair%s", t->o->vector, g.n / 2, g.n == 2 ? "" : "s");
    return LM_OK;
}

/* ---- the command ---- */

static lm_status check_output(const lm_trace_flags *o, lm_error *e)
{
    if (o->values.n && !o->output)
        return lm_fail(e, LM_USAGE, "--values", LM_NO_OFFSET, "requires --output");
    if (o->output && !o->values.n && !is_page(o->output))
        return lm_fail(e, LM_USAGE, "--output", LM_NO_OFFSET,
                       "%s does not end in .html, and other files require --values", o->output);
    if (is_page(o->output) && (o->values.n || o->attention || o->other))
        return lm_fail(e, LM_USAGE,
                       o->values.n    ? "--values"
                       : o->attention ? "--attention"
                                      : "--compare",
                       LM_NO_OFFSET, "cannot be combined with a page, %s", o->output);
    return LM_OK;
}

static lm_status check(const lm_cli *cli, const lm_trace_flags *o, lm_error *e)
{
    const char *name = cli->command->name;

    if ((o->prompt != NULL) + (o->file != NULL) + (o->ids != NULL) > 1)
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "--prompt, --file and --ids cannot be combined");
    if ((o->vector != NULL) != (o->pairs != NULL))
        return lm_fail(e, LM_USAGE, o->vector ? "--vector" : "--pairs", LM_NO_OFFSET,
                       "--vector and --pairs require each other");
    LM_TRY(check_output(o, e));
    if (o->other && (o->values.n || o->attention || o->set.n || o->add.n || o->patch.n))
        return lm_fail(e, LM_USAGE, "--compare", LM_NO_OFFSET,
                       "cannot be combined with --values, --attention, --set, --add or --patch");
    if (o->system && !o->chat)
        return lm_fail(e, LM_USAGE, "--system", LM_NO_OFFSET, "requires --chat");
    if (o->ids && o->chat)
        return lm_fail(e, LM_USAGE, "--chat", LM_NO_OFFSET, "cannot be combined with --ids");
    return LM_OK;
}

static lm_status trace(lm_cli *cli, void *options, lm_error *e)
{
    lm_trace_flags *o = options;
    lm_tracing      t = { .cli = cli, .o = o };

    LM_TRY(check(cli, o, e));
    o->model.o.tokenizer_optional = o->ids != NULL;
    LM_TRY(lm_open_model(cli, &o->model, cli->args[0], &t.model, e));
    lm_status status = o->vector ? make_vector(&t, e) : trace_text(&t, e);
    lm_interrupt_watch(NULL);
    lm_tracer_free(t.tracer);
    lm_model_close(t.model);
    lm_tokens_free(&t.ids);
    return status;
}

const lm_command lm_command_trace = {
    .name = "trace",
    .usage = "[MODEL] [-p TEXT | -f FILE | --ids IDS] [-n N] [--at N] [flags]",
    .summary = "show what happens inside a model while it processes a text",
    .about = "  Shows the surprise of each token in bits, and for one position what the model would predict "
             "after each layer (the\n"
             "  logit lens), what each attention and MLP adds to the next token, where heads look, and which "
             "experts are used. The\n"
             "  weights are used as they are stored. With --set, --add or --patch, shows how the predictions "
             "change.\n",
    .groups = trace_groups,
    .foreign = true,
    .max_args = 1,
    .options_size = sizeof(lm_trace_flags),
    .defaults = trace_defaults,
    .run = trace,
};
