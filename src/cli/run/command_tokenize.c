/* lamina tokenize, lamina detokenize - convert text to token ids and back, exactly as the model's tokenizer
 * does. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/columns.h"
#include "cli/base/jsonl.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/base/prompt.h"
#include "cli/base/tokenjson.h"

typedef struct token_options {
    lm_model_flags model;                                /* only --model and --pre */
    const char    *prompt, *file, *jsonl;
    bool           add_special, no_parse_special, skip_special, text, count;
} token_options;

#define O(field) offsetof(token_options, field)
#define MODEL_FLAGS \
    { "--model", "-m", LM_FLAG_TEXT, O(model.model), "MODEL", \
      "model; same as the first argument", 0, 0, NULL }, \
    { "--pre", NULL, LM_FLAG_TEXT, O(model.o.pre), "NAME", \
      "pre-tokenizer to use when a GGUF file names an unknown one", 0, 0, NULL }

static const lm_flag tokenize_flag_table[] = {
    { "--prompt", "-p", LM_FLAG_TEXT, O(prompt), "TEXT",
      "text to tokenize (default: standard input)", 0, 0, NULL },
    { "--file", "-f", LM_FLAG_TEXT, O(file), "FILE",
      "read the text from FILE, including its final newline; -: standard input", 0, 0, NULL },
    { "--jsonl", NULL, LM_FLAG_TEXT, O(jsonl), "FILE",
      "read one JSON string per line, print its ids per line", 0, 0, NULL },
    { "--add-special", NULL, LM_FLAG_SWITCH, O(add_special), NULL,
      "add the tokenizer's special tokens (BOS ...)", 0, 0, NULL },
    { "--no-parse-special", NULL, LM_FLAG_SWITCH, O(no_parse_special), NULL,
      "treat special tokens in the text as plain text", 0, 0, NULL },
    { "--text", NULL, LM_FLAG_SWITCH, O(text), NULL,
      "show the text of each token next to its vocabulary entry (default: on a terminal)", 0, 0, NULL },
    { "--count", NULL, LM_FLAG_SWITCH, O(count), NULL,
      "print only the number of tokens; with --jsonl one number per line", 0, 0, NULL },
    MODEL_FLAGS,
    { 0 },
};

static const lm_flag detokenize_flag_table[] = {
    { "--jsonl", NULL, LM_FLAG_TEXT, O(jsonl), "FILE",
      "read one JSON array of ids per line, print a JSON string per line", 0, 0, NULL },
    { "--skip-special", NULL, LM_FLAG_SWITCH, O(skip_special), NULL, "omit special tokens", 0, 0, NULL },
    MODEL_FLAGS,
    { 0 },
};

static const lm_flag_group tokenize_groups[] = { { "tokenizing", tokenize_flag_table, 0 }, { 0 } };
static const lm_flag_group detokenize_groups[] = { { "detokenizing", detokenize_flag_table, 0 }, { 0 } };

/* The state shared by the lines of a --jsonl file. */
typedef struct work {
    lm_tokenizer *tokenizer;
    unsigned      flags;
    bool          count;                                 /* print the number of ids in place of the ids */
} work;

static lm_status start(lm_cli *cli, token_options *o, const char *model, work *w, lm_error *e)
{
    const char *path = NULL, *warning;
    lm_tokenizer_options t = { .pre = o->model.o.pre };

    *w = (work){ .count = o->count };
    w->flags = (o->add_special ? LM_ADD_SPECIAL : 0u) | (o->no_parse_special ? LM_NO_PARSE_SPECIAL : 0u) |
               (o->skip_special ? LM_SKIP_SPECIAL : 0u);
    LM_TRY(lm_find_weights(cli, &o->model, model, &path, e));
    LM_TRY(lm_tokenizer_open(path, &t, &w->tokenizer, e));
    for (size_t i = 0; (warning = lm_tokenizer_warning(w->tokenizer, i)); i++)
        lm_warn("%s", warning);
    return LM_OK;
}

/* ---- tokenize ---- */

static lm_status tokenize_line(void *arg, json_t *value, const char *why, const lm_text *line, lm_error *e)
{
    work *w = arg;
    lm_tokens t = { 0 };
    lm_status status;

    (void)line;
    if (!json_is_string(value))
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "not a JSON string%s%s", why ? ": " : "",
                       why ? why : "");
    status = lm_tokenize(w->tokenizer, json_string_value(value), json_string_length(value), w->flags, &t, e);
    if (status == LM_OK)
        status = lm_jsonl_write(w->count ? json_integer((json_int_t)t.n) : lm_ids_json(t.ids, t.n), e);
    lm_tokens_free(&t);
    return status;
}

/* Append to `out` the text that each token completes, n strings. A character split over several tokens
 * belongs to the last of them. */
static lm_status read_texts(const work *w, const lm_tokens *t, json_t *out, lm_error *e)
{
    lm_stream *stream = NULL;
    lm_text text = { 0 };
    lm_status status = lm_stream_new(w->tokenizer, 0, true, &stream, e);

    for (size_t i = 0; i < t->n && status == LM_OK; i++) {
        text.size = 0;
        status = lm_stream_push(stream, t->ids[i], &text, e);
        if (status == LM_OK && i + 1 == t->n)
            status = lm_stream_end(stream, &text, e);
        if (status == LM_OK &&
            json_array_append_new(out, lm_json_of(text.data ? text.data : "", text.size)) != 0)
            status = lm_fail_memory(e, "the output", text.size);
    }
    lm_text_free(&text);
    lm_stream_free(stream);
    return status;
}

/* Print "id  piece" per token, and the quoted text in a further column if `texts` is not NULL. */
static lm_status print_lines(const work *w, const lm_tokens *t, const json_t *texts, lm_error *e)
{
    enum { COLUMN = 16 };
    lm_text out = { 0 };
    lm_status status;

    for (size_t i = 0; i < t->n; i++) {
        size_t n = 0, start;
        const char *piece = lm_tokenizer_piece(w->tokenizer, t->ids[i], &n);
        lm_text_printf(&out, texts ? "%7d  " : "%d  ", t->ids[i]);
        start = out.size;
        lm_add_piece(&out, piece, n);
        if (texts && !out.failed) {
            size_t wide = lm_text_columns(out.data + start);
            char *quoted = json_dumps(json_array_get(texts, i), JSON_ENCODE_ANY);
            lm_text_printf(&out, "%*s  %s", wide < COLUMN ? (int)(COLUMN - wide) : 0, "",
                           quoted ? quoted : "");
            free(quoted);
        }
        lm_text_add_char(&out, '\n');
    }
    status = lm_out_buf(&out, e);
    lm_text_free(&out);
    return status;
}

static json_t *pieces_json(const work *w, const lm_tokens *t)
{
    json_t *pieces = json_array();

    for (size_t i = 0; i < t->n; i++) {
        size_t n = 0;
        const char *piece = lm_tokenizer_piece(w->tokenizer, t->ids[i], &n);
        json_array_append_new(pieces, lm_json_of(piece, n));
    }
    return pieces;
}

static lm_status print_count(lm_cli *cli, size_t n, lm_error *e)
{
    lm_text out = { 0 };

    if (cli->json)
        return lm_out_json(cli, json_pack("{s:I}", "count", (json_int_t)n), e);
    lm_text_printf(&out, "%zu\n", n);
    return lm_out_free(&out, e);
}

static lm_status print_tokens(lm_cli *cli, const token_options *o, const work *w, const lm_tokens *t,
                              lm_error *e)
{
    bool shown = cli->json || o->text || lm_out_is_terminal();
    json_t *texts = shown ? json_array() : NULL;
    lm_status status = shown ? read_texts(w, t, texts, e) : LM_OK;

    if (status == LM_OK && cli->json)
        status = lm_out_json(cli, json_pack("{s:o, s:o, s:O}", "ids", lm_ids_json(t->ids, t->n),
                                            "pieces", pieces_json(w, t), "texts", texts), e);
    else if (status == LM_OK)
        status = print_lines(w, t, texts, e);
    json_decref(texts);
    return status;
}

static lm_status tokenize_text(lm_cli *cli, const token_options *o, const work *w, lm_error *e)
{
    lm_text text = { 0 };
    lm_tokens t = { 0 };
    lm_status status = LM_OK;

    if (o->prompt)
        lm_text_add_str(&text, o->prompt);
    else
        status = lm_read_file(o->file ? o->file : "-", &text, e);
    if (status == LM_OK && text.failed)
        status = lm_fail_memory(e, "the text", text.size);
    if (status == LM_OK)
        status = lm_tokenize(w->tokenizer, text.data ? text.data : "", text.size, w->flags, &t, e);
    if (status == LM_OK)
        status = w->count ? print_count(cli, t.n, e) : print_tokens(cli, o, w, &t, e);
    lm_tokens_free(&t);
    lm_text_free(&text);
    return status;
}

static lm_status tokenize(lm_cli *cli, void *options, lm_error *e)
{
    token_options *o = options;
    work w;
    lm_status status;

    if ((o->prompt != NULL) + (o->file != NULL) + (o->jsonl != NULL) > 1)
        return lm_fail(e, LM_USAGE, cli->command->name, LM_NO_OFFSET,
                       "--prompt, --file and --jsonl cannot be combined");
    if (o->count && o->text)
        return lm_fail(e, LM_USAGE, "--count", LM_NO_OFFSET, "cannot be combined with --text");
    status = start(cli, o, cli->args[0], &w, e);
    if (status == LM_OK)
        status = o->jsonl ? lm_jsonl_read(o->jsonl, false, tokenize_line, &w, e)
                          : tokenize_text(cli, o, &w, e);
    lm_tokenizer_free(w.tokenizer);
    return status;
}

/* ---- detokenize ---- */

static lm_status detokenize_line(void *arg, json_t *value, const char *why, const lm_text *line, lm_error *e)
{
    work *w = arg;
    lm_tokens t = { 0 };
    lm_text text = { 0 };
    lm_status status;

    (void)line;
    if (!value)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "not a JSON array of token ids: %s", why);
    status = lm_ids_of(value, &t, e);
    if (status == LM_OK)
        status = lm_detokenize(w->tokenizer, t.ids, t.n, w->flags, &text, e);
    if (status == LM_OK)
        status = lm_jsonl_write(lm_json_of(text.data ? text.data : "", text.size), e);
    lm_text_free(&text);
    lm_tokens_free(&t);
    return status;
}

static lm_status print_text(lm_cli *cli, const lm_text *text, lm_error *e)
{
    if (cli->json)
        return lm_out_json(cli, json_pack("{s:o}",
                                          "text", lm_json_of(text->data ? text->data : "", text->size)), e);
    LM_TRY(lm_out_text(text->data, text->size, e));
    return lm_out_text("\n", 1, e);
}

/* Detokenize the ids in the arguments, or on standard input if there are none. */
static lm_status detokenize_ids(lm_cli *cli, const char *const *args, const work *w, lm_error *e)
{
    lm_text given = { 0 };
    lm_tokens t = { 0 };
    lm_text text = { 0 };
    lm_status status = LM_OK;

    for (size_t i = 0; args[i]; i++)
        lm_text_printf(&given, "%s ", args[i]);
    if (!args[0])
        status = lm_read_file("-", &given, e);
    if (status == LM_OK && given.failed)
        status = lm_fail_memory(e, "token ids", given.size);
    if (status == LM_OK)
        status = lm_read_ids(given.data ? given.data : "", NULL, &t, e);
    if (status == LM_OK)
        status = lm_detokenize(w->tokenizer, t.ids, t.n, w->flags, &text, e);
    if (status == LM_USAGE && args[0])
        snprintf(e->where, sizeof e->where, "ID");
    if (status != LM_OK && !args[0])
        lm_fail_in(e, "standard input");
    if (status == LM_OK)
        status = print_text(cli, &text, e);
    lm_text_free(&text);
    lm_tokens_free(&t);
    lm_text_free(&given);
    return status;
}

/* Return whether the first argument is ids rather than MODEL: it consists of numbers, and no file has this
 * name. */
static bool is_ids(const char *argument)
{
    return argument && argument[strspn(argument, "0123456789,[] ")] == 0 && access(argument, F_OK) != 0;
}

static lm_status detokenize(lm_cli *cli, void *options, lm_error *e)
{
    token_options *o = options;
    bool named = !o->model.model && cli->args[0] && !is_ids(cli->args[0]);
    const char *const *ids = cli->args + named;
    work w;
    lm_status status;

    if (o->jsonl && ids[0])
        return lm_fail(e, LM_USAGE, cli->command->name, LM_NO_OFFSET, "ids and --jsonl cannot be combined");
    status = start(cli, o, named ? cli->args[0] : NULL, &w, e);
    if (status == LM_OK)
        status = o->jsonl ? lm_jsonl_read(o->jsonl, false, detokenize_line, &w, e)
                          : detokenize_ids(cli, ids, &w, e);
    lm_tokenizer_free(w.tokenizer);
    return status;
}

const lm_command lm_command_tokenize = {
    .name = "tokenize",
    .usage = "[MODEL] [-p TEXT | -f FILE | --jsonl FILE] [--add-special] [--no-parse-special]",
    .summary = "convert text to tokens",
    .about = "  MODEL is a .gguf file, a Hugging Face folder, or a bare tokenizer.json. Prints one line per "
             "token: its id and\n"
             "  its vocabulary entry; on a terminal or with --text also the text that is complete with it. "
             "Special tokens in the\n"
             "  text are parsed; none are added without --add-special.\n",
    .groups = tokenize_groups,
    .max_args = 1,
    .options_size = sizeof(token_options),
    .run = tokenize,
};

const lm_command lm_command_detokenize = {
    .name = "detokenize",
    .usage = "[MODEL] [ID... | --jsonl FILE] [--skip-special]",
    .summary = "convert token ids to text",
    .about = "  Reads ids from the arguments or from standard input: 1 2 3, 1,2,3 or [1,2,3].\n",
    .groups = detokenize_groups,
    .max_args = SIZE_MAX,
    .options_size = sizeof(token_options),
    .run = detokenize,
};
