/* datafile.c - read a data file: JSON lines of records, a text, or tensors of ids. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/textfile.h"
#include "formats/safetensors.h"
#include "lamina/model.h"
#include "train/records.h"

enum { MAX_BYTES = 1 << 30 };

typedef struct reading {
    lm_record_reader records;
    double           share;
    lm_train_data   *out, *rest;         /* for training; held out (NULL: nothing is) */
} reading;

/* Decide by content whether a text is held out, so that adding data moves no text between the sets. */
static bool held_out(const lm_token *ids, size_t n, double share)
{
    lm_blake2b h;
    uint8_t digest[LM_BLAKE2B_BYTES];
    uint32_t draw;

    lm_blake2b_begin(&h);
    lm_blake2b_add(&h, ids, n * sizeof *ids);
    lm_blake2b_end(&h, digest);
    memcpy(&draw, digest, sizeof draw);
    return (double)draw < share * 4294967296.0;
}

static lm_status add(reading *g, const lm_token *ids, const bool *mask, size_t n)
{
    lm_train_data *to = g->rest && held_out(ids, n, g->share) ? g->rest : g->out;

    return lm_train_add(to, ids, mask, n, g->records.o, g->records.e);
}

/* ---- JSON lines ---- */

/* Fail with the reason, or skip the record if that was requested. What a template or a tokenizer cannot do
 * with a record is a fault of the data. */
static lm_status reject(reading *g, lm_status status)
{
    if (status == LM_NO_MEMORY)
        return status;
    if (g->records.o->skip_bad) {
        g->out->bad++;
        return LM_OK;
    }
    if (status == LM_FAILED || status == LM_LIMIT)
        g->records.e->code = status = LM_USAGE;
    return status;
}

static lm_status on_record(void *arg, json_t *value, const char *why, const lm_text *line, lm_error *e)
{
    reading       *g = arg;
    lm_text_record record = { 0 };
    lm_status      status;

    (void)line;
    if (!value)
        return reject(g, lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "not JSON: %s", why));
    status = lm_record_read(&g->records, value, &record);
    if (status == LM_OK)
        status = add(g, record.ids.ids, record.mask, record.ids.n);
    lm_tokens_free(&record.ids);
    lm_free(record.mask);
    return status == LM_OK ? LM_OK : reject(g, status);
}

static lm_status read_records(reading *g, const lm_text *data)
{
    lm_text_lines lines = { .file = fmemopen(data->data, data->size, "r"), .name = g->records.path };

    if (!lines.file)
        return lm_fail_errno(g->records.e, g->records.path, "cannot be read");
    lm_status status = lm_jsonl_each(&lines, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, true, on_record, g,
                                     g->records.e);
    fclose(lines.file);
    return status;
}

/* ---- texts ---- */

/* Cut one text into rows. */
static lm_status read_text(reading *g, const char *text, size_t size)
{
    lm_text_record record = { 0 };
    uint32_t       max = g->records.o->max;
    lm_status      status = lm_record_plain_text(&g->records, text, size, &record);

    if (!max || record.ids.n <= max)
        g->rest = NULL;                  /* a single row is trained */
    for (size_t at = 0, n; status == LM_OK && at < record.ids.n; at += n) {
        n = max && record.ids.n - at > max ? max : record.ids.n - at;
        status = add(g, record.ids.ids + at, NULL, n);
    }
    lm_tokens_free(&record.ids);
    return status;
}

/* Read texts separated by lines without letters. */
static lm_status read_paragraphs(reading *g, const char *data, size_t size)
{
    size_t from = 0, to = 0, end;

    for (size_t at = 0; at < size; at = end) {
        const char *newline = memchr(data + at, '\n', size - at);
        end = newline ? (size_t)(newline - data) + 1 : size;
        size_t full = end;
        while (full > at && strchr(" \t\r\n", data[full - 1]))
            full--;
        if (full > at) {
            from = from == to ? at : from;
            to   = full;
        }
        if ((full == at || end == size) && to > from) {
            lm_text_record record = { 0 };
            lm_status      status = lm_record_plain_text(&g->records, data + from, to - from, &record);
            if (status == LM_OK)
                status = add(g, record.ids.ids, NULL, record.ids.n);
            lm_tokens_free(&record.ids);
            LM_TRY(status);
            from = to = end;
        } else if (full == at) {
            from = to = end;
        }
    }
    return LM_OK;
}

static lm_status read_texts(reading *g, lm_text *data)
{
    LM_TRY(lm_check_text(data, 0, g->records.path, g->records.e));
    return g->records.o->paragraphs ? read_paragraphs(g, data->data, data->size)
                                    : read_text(g, data->data, data->size);
}

/* ---- files ---- */

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

static lm_status load(const char *path, lm_text *out, lm_error *e)
{
    FILE *f = fopen(path, "rb");

    if (!f)
        return lm_fail_errno(e, path, "cannot be opened");
    lm_status status = lm_read_bytes(f, path, MAX_BYTES, out, e);
    fclose(f);
    return status;
}

static lm_status read_all(reading *g, lm_text *data)
{
    const char *source = lm_model_chat_template(g->records.o->model, NULL);
    lm_blake2b  h;

    lm_blake2b_begin(&h);
    lm_blake2b_add(&h, data->data, data->size);
    lm_blake2b_hex(&h, g->out->hash);
    if (!data->size)
        return lm_fail(g->records.e, LM_USAGE, "training data", LM_NO_OFFSET, "is empty");
    if (source)
        LM_TRY(lm_template_new(source, strlen(source), "the model's chat template", &g->records.chat,
                               g->records.e));
    LM_TRY(ends_in(g->records.path, ".txt") ? read_texts(g, data) : read_records(g, data));
    lm_record_describe(&g->records, g->out);
    if (g->out->texts || (g->rest && g->rest->texts))
        return LM_OK;
    return lm_fail(g->records.e, LM_USAGE, "training data", LM_NO_OFFSET,
                   "no text is left: %llu left out, %llu could not be read",
                   (unsigned long long)g->out->left_out, (unsigned long long)g->out->bad);
}

lm_status lm_train_read(const char *path, const lm_read_options *o, double share, lm_train_data *out,
                        lm_train_data *rest, lm_error *e)
{
    lm_error own = { 0 };
    lm_text data = { 0 };
    reading g = { .records = { .o = o, .tokenizer = lm_model_tokenizer(o->model), .path = path,
                               .e = e ? e : &own },
                  .share = share, .out = out, .rest = rest };

    if (!g.records.tokenizer)
        return lm_fail(e, LM_USAGE, "training data", LM_NO_OFFSET, "the model has no tokenizer");
    lm_status status = load(path, &data, g.records.e);
    if (status == LM_OK)
        status = read_all(&g, &data) == LM_OK ? LM_OK : lm_fail_in(g.records.e, path);
    lm_template_free(g.records.chat);
    json_decref(g.records.unused);
    lm_text_free(&data);
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
