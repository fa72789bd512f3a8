/* lamina embed - compute embedding vectors of texts: the model's last hidden state. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/interrupt.h"
#include "cli/base/jsonl.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/base/prompt.h"
#include "cli/base/tokenjson.h"
#include "cli/run/display.h"

typedef struct embed_options {
    lm_model_flags model;
    lm_run_flags   run;
    const char    *prompt, *file, *jsonl;
    int            pooling;
    bool           normalize, raw, no_special;
} embed_options;

#define O(field) offsetof(embed_options, field)

/* indexed by lm_pooling */
static const char *const pooling_words[] = { "last", "mean", "none", NULL };

static const lm_flag embed_flag_table[] = {
    { "--prompt", "-p", LM_FLAG_TEXT, O(prompt), "TEXT",
      "text to embed (default: standard input)", 0, 0, NULL },
    { "--file", "-f", LM_FLAG_TEXT, O(file), "FILE",
      "read the text from FILE; -: standard input", 0, 0, NULL },
    { "--jsonl", NULL, LM_FLAG_TEXT, O(jsonl), "FILE",
      "read one JSON string or array of token ids per line, print one vector per line", 0, 0, NULL },
    { "--pooling", NULL, LM_FLAG_WORD, O(pooling), "last|mean|none",
      "vector of the last token, mean of all tokens, or one vector per token (last)", 0, 0, pooling_words },
    { "--normalize", NULL, LM_FLAG_SWITCH, O(normalize), NULL,
      "scale vectors to length 1 (default for last and mean)", 0, 0, NULL },
    { "--no-normalize", NULL, LM_FLAG_SWITCH, O(raw), NULL,
      "do not scale vectors (default for none)", 0, 0, NULL },
    { "--no-parse-special", NULL, LM_FLAG_SWITCH, O(no_special), NULL,
      "treat special tokens in the text as plain text", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group embed_groups[] = {
    { "texts and vectors", embed_flag_table, 0 },
    { "model", lm_model_flag_table, O(model) },
    { "engine", lm_run_flag_table, O(run) },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { 0 },
};

static void embed_defaults(void *options)
{
    embed_options *o = options;

    lm_run_defaults(&o->run);
    o->run.compute = LM_COMPUTE_F32;
}

/* The state shared by all texts, freed by embed(). */
typedef struct work {
    lm_model        *model;
    lm_engine       *engine;
    lm_embed_options o;
    unsigned         flags;              /* for lm_tokenize */
    float           *vectors;            /* of the current text: [n_vectors][width] */
    size_t           n_vectors;
    uint32_t         width;
} work;

/* ---- vectors of a text ---- */

static lm_status tokens_of(const work *w, const char *text, size_t n, lm_tokens *out, lm_error *e)
{
    const lm_tokenizer *t = lm_model_tokenizer(w->model);

    if (!t)
        return lm_fail(e, LM_USAGE, "--prompt", LM_NO_OFFSET,
                       "the model has no tokenizer: give --jsonl with arrays of token ids");
    return lm_tokenize(t, text, n, w->flags, out, e);
}

static lm_status vectors_of(work *w, const lm_tokens *ids, lm_error *e)
{
    size_t n = w->o.pooling == LM_POOLING_NONE ? ids->n : 1;
    float *grown = realloc(w->vectors, (n + !n) * w->width * sizeof *grown);

    if (!grown)
        return lm_fail_memory(e, "vectors", n * w->width * sizeof *grown);
    w->vectors = grown;
    w->n_vectors = n;
    LM_TRY(lm_embed(w->engine, ids->ids, ids->n, &w->o, w->vectors, e));
    for (size_t i = 0; i < n * w->width; i++)
        if (!isfinite(w->vectors[i]))
            return lm_fail(e, LM_FAILED, "embedding", LM_NO_OFFSET, "dimension %zu is not a number",
                           i % w->width);
    return LM_OK;
}

/* Append a vector. Nine digits distinguish every float32. */
static void add_vector(lm_text *out, const float *x, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++)
        lm_text_printf(out, "%c%.9g", i ? ',' : '[', (double)x[i]);
    lm_text_add_char(out, ']');
}

static lm_status print_vectors(const work *w, lm_error *e)
{
    bool each = w->o.pooling == LM_POOLING_NONE;
    lm_text line = { 0 };
    lm_status status;

    for (size_t i = 0; i < w->n_vectors; i++) {
        if (each)
            lm_text_add_char(&line, i ? ',' : '[');
        add_vector(&line, w->vectors + i * w->width, w->width);
    }
    lm_text_add_str(&line, each ? "]\n" : "\n");
    status = line.failed ? lm_fail_memory(e, "a line of output", line.size)
                         : lm_out_text(line.data, line.size, e);
    lm_text_free(&line);
    return status;
}

static json_t *vector_json(const float *x, uint32_t width)
{
    json_t *out = json_array();

    for (uint32_t i = 0; i < width; i++)
        json_array_append_new(out, json_real((double)x[i]));
    return out;
}

static lm_status print_document(lm_cli *cli, const work *w, const lm_tokens *ids, lm_error *e)
{
    json_t *vectors;
    lm_model_info info;

    lm_model_describe(w->model, &info);
    if (w->o.pooling == LM_POOLING_NONE) {
        vectors = json_array();
        for (size_t i = 0; i < w->n_vectors; i++)
            json_array_append_new(vectors, vector_json(w->vectors + i * w->width, w->width));
    } else {
        vectors = vector_json(w->vectors, w->width);
    }
    return lm_out_json(cli, json_pack("{s:s, s:s, s:b, s:I, s:o, s:o}", "model", info.name,
                                      "pooling", pooling_words[w->o.pooling], "normalized", !w->o.raw,
                                      "width", (json_int_t)w->width, "ids", lm_ids_json(ids->ids, ids->n),
                                      "embedding", vectors), e);
}

/* ---- input ---- */

static lm_status embed_line(void *arg, json_t *value, const char *why, const lm_text *line, lm_error *e)
{
    work *w = arg;
    lm_tokens ids = { 0 };
    lm_status status;

    (void)line;
    if (json_is_string(value))
        status = tokens_of(w, json_string_value(value), json_string_length(value), &ids, e);
    else if (json_is_array(value))
        status = lm_ids_of(value, &ids, e);
    else
        status = lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET,
                         "neither a JSON string nor an array of token ids%s%s", why ? ": " : "",
                         why ? why : "");
    if (status == LM_OK)
        status = vectors_of(w, &ids, e);
    if (status == LM_OK)
        status = print_vectors(w, e);
    lm_tokens_free(&ids);
    return status;
}

static lm_status read_text(const embed_options *o, lm_text *out, lm_error *e)
{
    if (!o->prompt)
        return lm_read_text(o->file ? o->file : "-", out, e);
    lm_text_add_str(out, o->prompt);
    return out->failed ? lm_fail_memory(e, "the text", strlen(o->prompt)) : LM_OK;
}

/* Create the engine for a text of `tokens` tokens; 0: unknown. */
static lm_status start(const embed_options *o, work *w, size_t tokens, lm_error *e)
{
    lm_engine_options engine;

    LM_TRY(lm_engine_flags(&o->run, w->model, tokens, &engine, e));
    engine.hidden = true;
    LM_TRY(lm_cache_options(&o->run.cache, LM_KV_F32, &engine, e));
    LM_TRY(lm_start_engine(w->model, &engine, &w->engine, e));
    w->width = lm_engine_hidden_width(w->engine);
    lm_interrupt_watch(w->engine);
    return LM_OK;
}

static lm_status embed_text(lm_cli *cli, const embed_options *o, work *w, lm_error *e)
{
    lm_text text = { 0 };
    lm_tokens ids = { 0 };
    lm_status status = read_text(o, &text, e);

    if (status == LM_OK)
        status = tokens_of(w, text.data ? text.data : "", text.size, &ids, e);
    if (status == LM_OK)
        status = start(o, w, ids.n, e);
    if (status == LM_OK)
        status = vectors_of(w, &ids, e);
    if (status == LM_OK)
        status = cli->json ? print_document(cli, w, &ids, e) : print_vectors(w, e);
    lm_tokens_free(&ids);
    lm_text_free(&text);
    return status;
}

static lm_status embed(lm_cli *cli, void *options, lm_error *e)
{
    embed_options *o = options;
    work w = { .o.pooling = (lm_pooling)o->pooling,
               .flags = LM_ADD_SPECIAL | (o->no_special ? LM_NO_PARSE_SPECIAL : 0u) };
    lm_status status;

    if ((o->prompt != NULL) + (o->file != NULL) + (o->jsonl != NULL) > 1)
        return lm_fail(e, LM_USAGE, cli->command->name, LM_NO_OFFSET,
                       "--prompt, --file and --jsonl cannot be combined");
    if (o->normalize && o->raw)
        return lm_fail(e, LM_USAGE, "--normalize", LM_NO_OFFSET, "cannot be combined with --no-normalize");
    w.o.raw = o->raw || (o->pooling == LM_POOLING_NONE && !o->normalize);
    o->model.o.tokenizer_optional = o->jsonl != NULL;
    lm_interrupt_watch(NULL);
    status = lm_open_model(cli, &o->model, cli->args[0], &w.model, e);
    if (status == LM_OK && o->jsonl)
        status = start(o, &w, 0, e);
    if (status == LM_OK)
        status = o->jsonl ? lm_jsonl_read(o->jsonl, false, embed_line, &w, e) : embed_text(cli, o, &w, e);
    lm_interrupt_watch(NULL);
    lm_engine_free(w.engine);
    lm_model_close(w.model);
    free(w.vectors);
    return status;
}

const lm_command lm_command_embed = {
    .name = "embed",
    .usage = "[MODEL] [-p TEXT | -f FILE | --jsonl FILE] [--pooling last|mean|none]"
             " [--normalize | --no-normalize]",
    .summary = "compute embedding vectors of texts",
    .about = "  Prints the last hidden state, after the final norm, as a JSON array of numbers on one line; "
             "with --pooling none\n"
             "  an array of arrays. Computes and caches in float32 by default; --compute auto -ctk f16 is "
             "faster.\n",
    .groups = embed_groups,
    .foreign = true,
    .max_args = 1,
    .options_size = sizeof(embed_options),
    .defaults = embed_defaults,
    .run = embed,
};
