/* records.c - convert data records to tokens, and mark which of them are trained.
 *
 * The answers of a conversation are what the template adds for each: from the end of the prompt rendered for
 * the messages before it to the end of the message. If that prompt is not a prefix of the whole conversation,
 * the answers cannot be located, which is an error. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "base/hash.h"
#include "base/jsontext.h"
#include "formats/safetensors.h"
#include "lamina/model.h"
#include "train/texts.h"

enum { MAX_BYTES = 1 << 30 };

typedef enum form { MESSAGES, PAIR, ALPACA, SHAREGPT, PLAIN, IDS, FORMS } form;

static const char *const form_names[FORMS] = {
    "messages", "prompt and completion", "instruction and output", "conversations", "text", "input_ids"
};

typedef struct reader {
    const lm_read_options *o;
    const lm_tokenizer    *tokenizer;
    lm_template           *chat;         /* NULL: the model has no chat template */
    const char            *path;
    form                   form;
    bool                   known;
    lm_error              *e;
} reader;

static lm_status refuse(reader *r, const char *why)
{
    return lm_fail(r->e, LM_USAGE, NULL, LM_NO_OFFSET, "%s", why);
}

/* ---- conversations ---- */

static void set_token(json_t *context, const char *key, const lm_tokenizer *t, lm_token id)
{
    size_t      n;
    const char *piece = id < 0 ? NULL : lm_tokenizer_piece(t, id, &n);

    if (piece)
        json_object_set_new(context, key, lm_json_text(piece, n));
}

/* Render the first `n` messages with the template, and tokenize the result. */
static lm_status render(reader *r, json_t *messages, size_t n, json_t *tools, bool begin, lm_rendering *text,
                        lm_tokens *ids)
{
    json_t   *some = json_array(), *context = json_object();
    lm_status status;

    for (size_t i = 0; i < n; i++)
        json_array_append(some, json_array_get(messages, i));
    json_object_set_new(context, "messages", some);
    json_object_set_new(context, "add_generation_prompt", json_boolean(begin));
    if (tools)
        json_object_set(context, "tools", tools);
    set_token(context, "bos_token", r->tokenizer, lm_tokenizer_bos(r->tokenizer));
    set_token(context, "eos_token", r->tokenizer, lm_tokenizer_eos(r->tokenizer));
    lm_text json = { 0 };
    bool    made = lm_json_print(context, JSON_COMPACT, &json);
    json_decref(context);
    if (!made) {
        lm_text_free(&json);
        return lm_fail_memory(r->e, "a conversation", 0);
    }
    status = lm_template_render(r->chat, json.data, json.size, text, r->e);
    lm_text_free(&json);
    if (status == LM_OK)
        status = lm_tokenize_rendering(r->tokenizer, text, false, ids, r->e);
    return status;
}

static size_t common(const lm_tokens *a, const lm_tokens *b)
{
    size_t n = 0;

    while (n < a->n && n < b->n && a->ids[n] == b->ids[n])
        n++;
    return n;
}

static bool begins(const lm_text *whole, const lm_text *with)
{
    return with->size <= whole->size && memcmp(whole->data, with->data, with->size) == 0;
}

/* Mark the tokens of answer `i`. */
static lm_status mark_answer(reader *r, json_t *messages, size_t i, json_t *tools, const lm_rendering *all,
                             const lm_tokens *ids, bool *mask)
{
    lm_rendering before = { 0 }, after = { 0 };
    lm_tokens    a = { 0 }, b = { 0 };
    bool         ends = false;
    lm_status    status = render(r, messages, i, tools, true, &before, &a);

    if (status == LM_OK)
        status = render(r, messages, i + 1, tools, false, &after, &b);
    if (status == LM_OK && !(begins(&after.text, &before.text) && begins(&all->text, &after.text)))
        status = refuse(r, "the chat template renders a conversation differently when it continues, so its "
                           "answers cannot be found; train on all of it");
    for (size_t k = common(&a, ids), to = common(&b, ids); status == LM_OK && k < to; k++) {
        mask[k] = true;
        ends |= lm_model_is_end(r->o->model, ids->ids[k]);
    }
    if (status == LM_OK && !ends)
        status = refuse(r, "the chat template ends an answer with no token that ends the model's text, so it "
                           "would never learn to stop; train on all of it");
    lm_rendering_free(&before);
    lm_rendering_free(&after);
    lm_tokens_free(&a);
    lm_tokens_free(&b);
    return status;
}

static lm_status conversation(reader *r, json_t *messages, size_t from, json_t *tools, lm_text_record *out)
{
    lm_rendering all = { 0 };
    size_t n = json_array_size(messages);
    lm_status status;

    if (!r->chat)
        return refuse(r, "the model has no chat template for conversations");
    for (size_t i = 0; i < n; i++)
        if (!json_is_string(json_object_get(json_array_get(messages, i), "role")))
            return refuse(r, "a message without a role");
    status = render(r, messages, n, tools, false, &all, &out->ids);
    out->mask = status == LM_OK ? lm_alloc_zero(out->ids.n + 1, sizeof *out->mask) : NULL;
    if (status == LM_OK && !out->mask)
        status = lm_fail_memory(r->e, "a conversation", out->ids.n);
    for (size_t i = 0; status == LM_OK && i < n; i++) {
        const char *role = json_string_value(json_object_get(json_array_get(messages, i), "role"));
        if (!r->o->all && i >= from && strcmp(role, "assistant") == 0)
            status = mark_answer(r, messages, i, tools, &all, &out->ids, out->mask);
    }
    for (size_t i = 0; status == LM_OK && r->o->all && i < out->ids.n; i++)
        out->mask[i] = i > 0;
    lm_rendering_free(&all);
    return status;
}

static json_t *message(const char *role, json_t *content)
{
    return json_pack("{s:s, s:O}", "role", role, "content", content);
}

/* ---- texts and pairs ---- */

static lm_status end_text(reader *r, lm_tokens *ids)
{
    lm_token eos = lm_tokenizer_eos(r->tokenizer);

    if (eos >= 0 && (!ids->n || !lm_model_is_end(r->o->model, ids->ids[ids->n - 1])))
        return lm_tokens_add(ids, eos, r->e);
    return LM_OK;
}

static lm_status plain(reader *r, const char *text, size_t size, lm_text_record *out)
{
    LM_TRY(lm_tokenize(r->tokenizer, text, size, LM_ADD_SPECIAL | LM_NO_PARSE_SPECIAL, &out->ids, r->e));
    return end_text(r, &out->ids);
}

/* A merge across the boundary moves it: the first token that differs belongs to the completion. */
static lm_status pair(reader *r, const char *prompt, const char *completion, lm_text_record *out)
{
    lm_text both = { 0 };
    lm_tokens before = { 0 };
    lm_status status;

    lm_text_printf(&both, "%s%s", prompt, completion);
    if (both.failed)
        return lm_fail_memory(r->e, "a text", 0);
    status = lm_tokenize(r->tokenizer, prompt, strlen(prompt), LM_ADD_SPECIAL | LM_NO_PARSE_SPECIAL, &before,
                         r->e);
    if (status == LM_OK)
        status = plain(r, both.data, both.size, out);
    if (status == LM_OK && before.n && lm_model_is_end(r->o->model, before.ids[before.n - 1]))
        before.n--;                      /* the token that the tokenizer appends to every text */
    size_t from = common(&before, &out->ids);
    out->mask = status == LM_OK ? lm_alloc_zero(out->ids.n + 1, sizeof *out->mask) : NULL;
    if (status == LM_OK && !out->mask)
        status = lm_fail_memory(r->e, "a text", out->ids.n);
    for (size_t i = r->o->all ? 1 : from; status == LM_OK && i < out->ids.n; i++)
        out->mask[i] = true;
    lm_tokens_free(&before);
    lm_text_free(&both);
    return status;
}

/* ---- forms ---- */

static lm_status messages_of(reader *r, json_t *record, lm_text_record *out)
{
    json_t *messages = json_object_get(record, "messages"), *tools = json_object_get(record, "tools");

    if (!json_is_array(messages) || !json_array_size(messages))
        return refuse(r, "\"messages\" is not a list of messages");
    return conversation(r, messages, 0, json_is_null(tools) ? NULL : tools, out);
}

static lm_status pair_of(reader *r, json_t *record, lm_text_record *out)
{
    json_t *prompt = json_object_get(record, "prompt"), *completion = json_object_get(record, "completion");

    if (json_is_string(prompt) && json_is_string(completion))
        return pair(r, json_string_value(prompt), json_string_value(completion), out);
    if (!json_is_array(prompt) || !json_is_array(completion))
        return refuse(r, "\"prompt\" and \"completion\" must be two texts or two lists of messages");
    json_t *all = json_array();
    json_array_extend(all, prompt);
    json_array_extend(all, completion);
    lm_status status = conversation(r, all, json_array_size(prompt), json_object_get(record, "tools"), out);
    json_decref(all);
    return status;
}

static lm_status alpaca_of(reader *r, json_t *record, lm_text_record *out)
{
    json_t *output = json_object_get(record, "output");
    const char *instruction = json_string_value(json_object_get(record, "instruction")), *input;
    lm_text text = { 0 };
    lm_status status;

    input = json_string_value(json_object_get(record, "input"));
    if (!instruction || !json_is_string(output))
        return refuse(r, "\"instruction\" and \"output\" must be texts");
    if (r->chat) {
        lm_text_printf(&text, input && *input ? "%s\n\n%s" : "%s", instruction, input);
        json_t *content = lm_json_text(text.data ? text.data : "", text.size);
        json_t *all = json_pack("[o, o]", message("user", content), message("assistant", output));
        json_decref(content);
        status = all ? conversation(r, all, 0, NULL, out) : lm_fail_memory(r->e, "a conversation", 0);
        json_decref(all);
    } else {
        lm_text_printf(&text,
                       input && *input ? "### Instruction:\n%s\n\n### Input:\n%s\n\n### Response:\n"
                                       : "### Instruction:\n%s\n\n### Response:\n",
                       instruction, input);
        status = text.failed ? lm_fail_memory(r->e, "a text", 0)
                             : pair(r, text.data, json_string_value(output), out);
    }
    lm_text_free(&text);
    return status;
}

static lm_status sharegpt_of(reader *r, json_t *record, lm_text_record *out)
{
    static const char *const roles[][2] = { { "human", "user" },        { "user", "user" },
                                            { "gpt", "assistant" },     { "assistant", "assistant" },
                                            { "chatgpt", "assistant" }, { "system", "system" },
                                            { "tool", "tool" },         { "function", "tool" } };
    json_t *turns = json_object_get(record, "conversations"), *all = json_array(), *turn;
    size_t i;
    lm_status status = json_is_array(turns) && json_array_size(turns)
                           ? LM_OK
                           : refuse(r, "\"conversations\" is not a list of turns");

    json_array_foreach(turns, i, turn) {
        const char *from = json_string_value(json_object_get(turn, "from")), *role = NULL;
        json_t *value = json_object_get(turn, "value");
        for (size_t k = 0; from && k < sizeof roles / sizeof *roles; k++)
            role = strcmp(from, roles[k][0]) == 0 ? roles[k][1] : role;
        if (status == LM_OK && (!role || !json_is_string(value)))
            status = refuse(r, "a turn needs \"from\" (human, gpt, system, tool) and a text \"value\"");
        if (status == LM_OK)
            json_array_append_new(all, message(role, value));
    }
    if (status == LM_OK)
        status = conversation(r, all, 0, json_object_get(record, "tools"), out);
    json_decref(all);
    return status;
}

static lm_status text_of(reader *r, json_t *record, lm_text_record *out)
{
    json_t *text = json_object_get(record, "text");

    if (!json_is_string(text))
        return refuse(r, "\"text\" is not a string");
    return plain(r, json_string_value(text), json_string_length(text), out);
}

static lm_status ids_of(reader *r, json_t *record, lm_text_record *out)
{
    json_t *ids = json_object_get(record, "input_ids"), *labels = json_object_get(record, "labels");
    size_t n = json_array_size(ids);

    if (!n || (labels && json_array_size(labels) != n))
        return refuse(r, "\"input_ids\" must be a list of token ids, and \"labels\" as long");
    out->mask = lm_alloc_zero(n + 1, sizeof *out->mask);
    if (!out->mask)
        return lm_fail_memory(r->e, "a text", n);
    for (size_t i = 0; i < n; i++) {
        json_t *id = json_array_get(ids, i), *label = labels ? json_array_get(labels, i) : id;
        json_int_t x = json_integer_value(id), y = json_integer_value(label);
        if (!json_is_integer(id) || !json_is_integer(label) || x < 0 ||
            (uint64_t)x >= lm_tokenizer_size(r->tokenizer))
            return refuse(r, "\"input_ids\" contains an id that is not a token of the model");
        if (y != -100 && y != x)
            return refuse(r, "a label is neither -100 nor its token");
        out->mask[i] = i > 0 && y != -100;
        LM_TRY(lm_tokens_add(&out->ids, (lm_token)x, r->e));
    }
    return LM_OK;
}

typedef lm_status (*form_reader)(reader *r, json_t *record, lm_text_record *out);

static const form_reader form_readers[FORMS] = {
    messages_of, pair_of, alpaca_of, sharegpt_of, text_of, ids_of
};

static lm_status form_of(reader *r, json_t *record, form *out)
{
    static const char *const keys[FORMS] = { "messages",      "prompt", "instruction",
                                             "conversations", "text",   "input_ids" };

    if (!json_is_object(record))
        return refuse(r, "not a JSON object");
    if (json_object_get(record, "chosen") && json_object_get(record, "rejected"))
        return refuse(r, "preferences (chosen, rejected) are not learnt from");
    for (form f = 0; f < FORMS; f++)
        if (json_object_get(record, keys[f])) {
            *out = f;
            return LM_OK;
        }
    return refuse(r, "has none of the keys messages, prompt, instruction, conversations, text, input_ids");
}

static lm_status read_record(reader *r, const char *line, size_t n, lm_text_record *out)
{
    json_error_t why;
    json_t *record = json_loadb(line, n, JSON_REJECT_DUPLICATES, &why);
    form f = FORMS;
    lm_status status;

    if (!record)
        return lm_fail(r->e, LM_USAGE, NULL, LM_NO_OFFSET, "no JSON: %s", why.text);
    status = form_of(r, record, &f);
    if (status == LM_OK && r->known && f != r->form)
        status = lm_fail(r->e, LM_USAGE, NULL, LM_NO_OFFSET, "is a record of %s; those before it are of %s",
                         form_names[f], form_names[r->form]);
    if (status == LM_OK)
        status = form_readers[f](r, record, out);
    if (status == LM_OK && !r->known) {
        r->form = f;
        r->known = true;
    }
    json_decref(record);
    return status;
}

/* ---- files ---- */

/* Decide by content whether a text is held out, so that adding data moves no text between the sets. */
static bool held_out(const lm_text_record *record, double share)
{
    lm_blake2b h;
    uint8_t digest[LM_BLAKE2B_BYTES];
    uint32_t draw;

    lm_blake2b_begin(&h);
    lm_blake2b_add(&h, record->ids.ids, record->ids.n * sizeof *record->ids.ids);
    lm_blake2b_end(&h, digest);
    memcpy(&draw, digest, sizeof draw);
    return (double)draw < share * 4294967296.0;
}

static void free_record(lm_text_record *r)
{
    lm_tokens_free(&r->ids);
    lm_free(r->mask);
}

/* Add one text, from a line of JSON or plain; `line` counts from 1. */
static lm_status take(reader *r, const char *text, size_t n, uint64_t line, bool json, double share,
                      lm_train_data *out, lm_train_data *rest)
{
    lm_text_record record = { 0 };
    lm_status status = json ? read_record(r, text, n, &record) : plain(r, text, n, &record);
    char where[32];

    if (status == LM_OK)
        status = lm_train_add(rest && held_out(&record, share) ? rest : out, record.ids.ids, record.mask,
                              record.ids.n, r->o, r->e);
    free_record(&record);
    if (status == LM_OK || status == LM_NO_MEMORY)
        return status;
    if (r->o->skip_bad) {
        out->bad++;
        return LM_OK;
    }
    snprintf(where, sizeof where, "line %llu", (unsigned long long)line);
    lm_error why = *r->e;
    lm_fail(r->e, status == LM_FAILED || status == LM_LIMIT ? LM_USAGE : status, where, LM_NO_OFFSET,
            "%s%s%s", why.where, *why.where ? ": " : "", why.message);
    return lm_fail_in(r->e, r->path);
}

static lm_status read_lines(reader *r, const char *data, size_t size, double share, lm_train_data *out,
                            lm_train_data *rest)
{
    uint64_t line = 0;

    for (size_t at = 0, n; at < size; at += n + 1) {
        const char *end = memchr(data + at, '\n', size - at);
        n = end ? (size_t)(end - data) - at : size - at;
        line++;
        if (n && data[at + n - 1] == '\r' && n == 1)
            continue;
        if (n == 0)
            continue;
        LM_TRY(take(r, data + at, n, line, true, share, out, rest));
    }
    return LM_OK;
}

/* Read texts separated by empty lines. */
static lm_status read_texts(reader *r, const char *data, size_t size, double share, lm_train_data *out,
                            lm_train_data *rest)
{
    uint64_t line = 1, first = 1;
    size_t from = 0;

    for (size_t at = 0; at <= size; at++) {
        bool gap = at == size || (data[at] == '\n' && at + 1 < size && data[at + 1] == '\n');
        if (gap && at > from)
            LM_TRY(take(r, data + from, at - from, first, false, share, out, rest));
        if (at < size && data[at] == '\n')
            line++;
        if (gap) {
            while (at + 1 < size && data[at + 1] == '\n') {
                at++;
                line++;
            }
            from = at + 1;
            first = line;
        }
    }
    return LM_OK;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

static lm_status open_chat(reader *r, lm_error *e)
{
    const char *source = lm_model_chat_template(r->o->model, NULL);

    return source ? lm_template_new(source, strlen(source), "the model's chat template", &r->chat, e) : LM_OK;
}

lm_status lm_train_read(const char *path, const lm_read_options *o, double share, lm_train_data *out,
                        lm_train_data *rest, lm_error *e)
{
    lm_error own = { 0 };
    reader r = { .o = o, .tokenizer = lm_model_tokenizer(o->model), .path = path, .e = e ? e : &own };
    lm_blake2b h;
    char *data = NULL;
    size_t size = 0;
    lm_status status;

    if (!r.tokenizer)
        return lm_fail(r.e, LM_USAGE, "training data", LM_NO_OFFSET, "the model has no tokenizer");
    LM_TRY(lm_file_read(path, MAX_BYTES, &data, &size, r.e));
    lm_blake2b_begin(&h);
    lm_blake2b_add(&h, data, size);
    lm_blake2b_hex(&h, out->hash);
    status = open_chat(&r, r.e);
    if (status == LM_OK)
        status = (ends_in(path, ".txt") ? read_texts : read_lines)(&r, data, size, share, out, rest);
    snprintf(out->form, sizeof out->form, "%s", r.known ? form_names[r.form] : "text");
    if (status == LM_OK && !out->texts && !(rest && rest->texts)) {
        status = lm_fail(r.e, LM_USAGE, "training data", LM_NO_OFFSET,
                         size == 0 ? "is empty" : "no text is left: %llu left out, %llu could not be read",
                         (unsigned long long)out->left_out, (unsigned long long)out->bad);
        lm_fail_in(r.e, path);
    }
    lm_template_free(r.chat);
    lm_free(data);
    return status;
}

/* ---- tokenized data ---- */

static lm_status find_ids(const lm_container *c, const char *name, const lm_tensor_info **out, lm_error *e)
{
    *out = lm_container_find(c, name);
    if (!*out)
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "is not in the file");
    if ((*out)->type != LM_I64 || (*out)->n_dims != 2)
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "must be I64 [rows, tokens]");
    return LM_OK;
}

/* A row ends with its last label; the rest is padding. */
static lm_status read_row(const int64_t *ids, const int64_t *labels, uint64_t width, uint32_t n_vocab,
                          lm_train_data *out, lm_error *e)
{
    lm_tokens row = { 0 };
    bool *mask = lm_alloc_zero(width + 1, sizeof *mask);
    uint64_t n = 0;
    lm_status status = mask ? LM_OK : lm_fail_memory(e, "input_ids", width);

    for (uint64_t i = 0; i < width; i++)
        n = labels[i] != -100 ? i + 1 : n;
    for (uint64_t i = 0; status == LM_OK && i < n; i++) {
        mask[i] = i > 0 && labels[i] != -100;
        if (ids[i] < 0 || (uint64_t)ids[i] >= n_vocab || (labels[i] != -100 && labels[i] != ids[i]))
            status = lm_fail(e, LM_USAGE, "input_ids", LM_NO_OFFSET,
                             "%lld is not a token of the model, or its label is neither -100 nor the token",
                             (long long)ids[i]);
        else
            status = lm_tokens_add(&row, (lm_token)ids[i], e);
    }
    if (status == LM_OK && n)
        status = lm_train_add(out, row.ids, mask, row.n, NULL, e);
    lm_tokens_free(&row);
    lm_free(mask);
    return status;
}

lm_status lm_train_read_ids(const char *path, uint32_t n_vocab, lm_train_data *out, lm_error *e)
{
    lm_container *c = NULL;
    const lm_tensor_info *ids, *labels;
    lm_blake2b h;
    lm_status status;

    LM_TRY(lm_container_open(path, NULL, &c, e));
    LM_TRY_GOTO(status, find_ids(c, "input_ids", &ids, e), done);
    LM_TRY_GOTO(status, find_ids(c, "labels", &labels, e), done);
    if (ids->dims[0] != labels->dims[0] || ids->dims[1] != labels->dims[1]) {
        status = lm_fail(e, LM_USAGE, "labels", LM_NO_OFFSET, "are of another shape than input_ids");
        goto done;
    }
    lm_blake2b_begin(&h);
    lm_blake2b_add(&h, lm_container_data(c, ids), ids->bytes);
    lm_blake2b_add(&h, lm_container_data(c, labels), labels->bytes);
    lm_blake2b_hex(&h, out->hash);
    snprintf(out->form, sizeof out->form, "input_ids");
    int64_t *rows = lm_alloc(2 * ids->bytes + 16);       /* the file does not guarantee alignment */
    if (!rows) {
        status = lm_fail_memory(e, "input_ids", 2 * ids->bytes);
        goto done;
    }
    memcpy(rows, lm_container_data(c, ids), ids->bytes);
    memcpy(rows + ids->elements, lm_container_data(c, labels), ids->bytes);
    for (uint64_t b = 0; status == LM_OK && b < ids->dims[0]; b++)
        status = read_row(rows + b * ids->dims[1], rows + ids->elements + b * ids->dims[1], ids->dims[1],
                          n_vocab, out, e);
    lm_free(rows);
    if (status == LM_OK && !out->texts)
        status = lm_fail(e, LM_USAGE, "labels", LM_NO_OFFSET, "nothing is labelled");
done:
    if (status != LM_OK)
        lm_fail_in(e, path);
    lm_container_close(c);
    return status;
}
