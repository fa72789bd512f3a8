/* safetensorswrite.c - write safetensors. */
#include "formats/safetensors.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/utf8.h"
#include "formats/containerimpl.h"
#include "formats/jsonread.h"

enum { MAX_NAME = 1024, HEADER_ALIGNMENT = 8 };

struct lm_safetensors_writer {
    lm_arena    arena;
    char       *path;
    lm_outfile *file;
    lm_text      meta, tensors;       /* JSON members */
    lm_map     *names;
    uint64_t    data_size, written, data_at;     /* data_at: the offset of the data in the file, once the
                                                    header is written */
    bool        begun;
    lm_error    error;               /* the first error while declaring */
};

lm_status lm_safetensors_create(const char *path, lm_safetensors_writer **out, lm_error *e)
{
    lm_safetensors_writer *w = lm_alloc_zero(1, sizeof *w);
    lm_status              status;

    if (!w)
        return lm_fail_memory(e, "a safetensors writer", sizeof *w);
    w->path  = lm_arena_strdup(&w->arena, path);
    w->names = lm_map_new(256);
    if (!w->path || !w->names)
        LM_TRY_GOTO(status, lm_fail_memory(e, "a safetensors writer", sizeof *w), done);
    LM_TRY_GOTO(status, lm_outfile_open(path, &w->file, e), done);
    *out = w;
    return LM_OK;

done:
    lm_safetensors_abort(w);
    return status;
}

void lm_safetensors_abort(lm_safetensors_writer *w)
{
    if (!w)
        return;
    lm_outfile_abort(w->file);
    lm_text_free(&w->meta);
    lm_text_free(&w->tensors);
    lm_map_free(w->names);
    lm_arena_free(&w->arena);
    lm_free(w);
}

static void put_json_string(lm_text *b, lm_view v)
{
    lm_text_add_char(b, '"');
    for (size_t i = 0; i < v.size; i++) {
        unsigned char c = (unsigned char)v.data[i];
        if (c < 0x20 || c == 0x7f)
            lm_text_printf(b, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            lm_text_printf(b, "\\%c", c);
        else
            lm_text_add_char(b, (char)c);
    }
    lm_text_add_char(b, '"');
}

/* Claim a name, which may be used once. `sort`: 'm' for metadata, 't' for tensors. */
static lm_status claim(lm_safetensors_writer *w, char sort, const char *name, lm_error *e)
{
    char *own = lm_arena_printf(&w->arena, "%c%s", sort, name);

    if (w->begun)
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "declared after the header was written");
    if (!lm_utf8_is_valid(lm_view_of(name)))
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "not UTF-8");
    if (own && lm_map_add(w->names, lm_view_of(own), 1))
        return LM_OK;
    if (!own || lm_map_failed(w->names))
        return lm_fail_memory(e, "a safetensors writer", strlen(name));
    return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "declared twice");
}

void lm_safetensors_add_meta(lm_safetensors_writer *w, const char *key, const char *value)
{
    if (w->error.code != LM_OK || claim(w, 'm', key, &w->error) != LM_OK)
        return;
    if (!lm_utf8_is_valid(lm_view_of(value))) {
        lm_fail(&w->error, LM_USAGE, key, LM_NO_OFFSET, "its value is not UTF-8");
        return;
    }
    lm_text_add_str(&w->meta, w->meta.size ? "," : "");
    put_json_string(&w->meta, lm_view_of(key));
    lm_text_add_char(&w->meta, ':');
    put_json_string(&w->meta, lm_view_of(value));
}

/* Spell the type as in a header: the table's name in capitals, if the reader knows it. */
static lm_status spell(lm_dtype type, const char *tensor, char out[16], lm_error *e)
{
    const lm_dtype_info *d = lm_dtype_of(type);
    lm_dtype             back;
    size_t               n = strlen(d->name);

    for (size_t i = 0; i <= n && n < 16; i++)
        out[i] = (char)(d->name[i] >= 'a' && d->name[i] <= 'z' ? d->name[i] - 'a' + 'A' : d->name[i]);
    if (n >= 16 || lm_dtype_from_safetensors(out, tensor, &back, NULL) != LM_OK || back != type)
        return lm_fail(e, LM_USAGE, tensor, LM_NO_OFFSET, "safetensors have no type %s", d->name);
    return LM_OK;
}

static lm_status declare(lm_safetensors_writer *w, lm_tensor_info *t, lm_error *e)
{
    char     type[16];
    uint64_t end;

    LM_TRY(lm_tensor_check_name(lm_view_of(t->name), MAX_NAME, LM_NO_OFFSET, e));
    if (!strcmp(t->name, "__metadata__"))
        return lm_fail(e, LM_USAGE, t->name, LM_NO_OFFSET, "not a name for a tensor");
    if (t->n_dims > LM_MAX_DIMS)
        return lm_fail(e, LM_USAGE, t->name, LM_NO_OFFSET, "%" PRIu32 " dimensions, at most %d", t->n_dims,
                       LM_MAX_DIMS);
    LM_TRY(spell(t->type, t->name, type, e));
    LM_TRY(lm_tensor_measure(t, LM_NO_OFFSET, e));
    LM_TRY(claim(w, 't', t->name, e));
    if (!lm_add_u64(w->data_size, t->bytes, &end))
        return lm_fail(e, LM_USAGE, t->name, LM_NO_OFFSET, "the size of the file does not fit 64 bits");

    lm_text_add_str(&w->tensors, w->tensors.size ? "," : "");
    put_json_string(&w->tensors, lm_view_of(t->name));
    lm_text_printf(&w->tensors, ":{\"dtype\":\"%s\",\"shape\":[", type);
    for (uint32_t i = 0; i < t->n_dims; i++)
        lm_text_printf(&w->tensors, "%s%" PRIu64, i ? "," : "", t->dims[i]);
    lm_text_printf(&w->tensors, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", w->data_size, end);
    w->data_size = end;
    return LM_OK;
}

void lm_safetensors_add_tensor(lm_safetensors_writer *w, const char *name, lm_dtype type, uint32_t n_dims,
                               const uint64_t *dims)
{
    lm_tensor_info t = { .name = name, .type = type, .n_dims = n_dims };

    if (w->error.code != LM_OK)
        return;
    for (uint32_t i = 0; i < n_dims && i < LM_MAX_DIMS; i++)
        t.dims[i] = dims[i];
    declare(w, &t, &w->error);
}

lm_status lm_safetensors_begin(lm_safetensors_writer *w, lm_error *e)
{
    lm_text    head = { 0 };
    uint8_t   length[8];
    lm_status status = LM_OK;

    if (w->begun)
        lm_fail(&w->error, LM_USAGE, NULL, LM_NO_OFFSET, "the header is written already");
    if (w->error.code != LM_OK) {
        if (e)
            *e = w->error;
        lm_fail_in(e, w->path);
        return w->error.code;
    }
    w->begun = true;
    lm_text_add_char(&head, '{');
    if (w->meta.size) {
        lm_text_add_str(&head, "\"__metadata__\":{");
        lm_text_add_view(&head, lm_text_view(&w->meta));
        lm_text_add_str(&head, w->tensors.size ? "}," : "}");
    }
    lm_text_add_view(&head, lm_text_view(&w->tensors));
    lm_text_add_char(&head, '}');
    while (head.size % HEADER_ALIGNMENT && !head.failed)
        lm_text_add_char(&head, ' ');
    if (head.failed || w->meta.failed || w->tensors.failed)
        LM_TRY_GOTO(status, lm_fail_memory(e, "a safetensors header", head.size), done);
    for (size_t i = 0; i < sizeof length; i++)
        length[i] = (uint8_t)((uint64_t)head.size >> 8 * i);
    LM_TRY_GOTO(status, lm_outfile_write(w->file, length, sizeof length, e), done);
    LM_TRY_GOTO(status, lm_outfile_write(w->file, head.data, head.size, e), done);
    w->data_at = sizeof length + head.size;

done:
    lm_text_free(&head);
    return status;
}

lm_status lm_safetensors_write(lm_safetensors_writer *w, const void *data, size_t n, lm_error *e)
{
    if (!w->begun || n > w->data_size - w->written)
        return lm_fail(e, LM_USAGE, w->path, LM_NO_OFFSET,
                       "%zu bytes more than the tensors that were declared", n);
    LM_TRY(lm_outfile_write(w->file, data, n, e));
    w->written += n;
    return LM_OK;
}

lm_status lm_safetensors_write_at(lm_safetensors_writer *w, uint64_t offset, const void *data, size_t n,
                                  lm_error *e)
{
    if (!w->begun || offset > w->data_size || n > w->data_size - offset)
        return lm_fail(e, LM_USAGE, w->path, LM_NO_OFFSET, "bytes past the tensors that were declared");
    LM_TRY(lm_outfile_write_at(w->file, w->data_at + offset, data, n, e));
    w->written += n;
    return LM_OK;
}

lm_status lm_safetensors_commit(lm_safetensors_writer *w, lm_error *e)
{
    lm_status status;

    if (!w->begun || w->written != w->data_size) {
        status = lm_fail(e, LM_USAGE, w->path, LM_NO_OFFSET, "%" PRIu64 " of %" PRIu64 " bytes were written",
                         w->written, w->data_size);
    } else {
        status  = lm_outfile_commit(w->file, e);
        w->file = NULL;
    }
    lm_safetensors_abort(w);
    return status;
}
