/* ggufwrite.c - write GGUF version 3. */
#include "formats/gguf.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "formats/containerimpl.h"
#include "formats/ggufmeta.h"

enum { VERSION = 3, ALIGNMENT = 32, MAX_TENSOR_NAME = 64, MAX_DIMS = 4 };

typedef struct written_tensor {
    lm_tensor_info info;
    uint64_t       padded;
} written_tensor;

struct lm_gguf_writer {
    lm_arena        arena;
    char           *path;
    lm_outfile     *file;
    lm_text          keys, directory;     /* as they will be in the file */
    uint64_t        n_keys;
    lm_map         *names;               /* of keys and tensors, distinguished by their first byte */
    written_tensor *tensors;
    size_t          n_tensors, capacity;
    uint64_t        data_size;           /* of the tensors declared so far, padded */
    size_t          current;             /* the tensor being written */
    uint64_t        at;                  /* its bytes written so far */
    bool            begun;
    lm_error        error;               /* the first error while adding; code LM_OK: none */
};

lm_status lm_gguf_create(const char *path, lm_gguf_writer **out, lm_error *e)
{
    lm_gguf_writer *w = lm_alloc_zero(1, sizeof *w);
    lm_status       status;

    if (!w)
        return lm_fail_memory(e, "a GGUF writer", sizeof *w);
    w->path  = lm_arena_strdup(&w->arena, path);
    w->names = lm_map_new(256);
    if (!w->path || !w->names)
        LM_TRY_GOTO(status, lm_fail_memory(e, "a GGUF writer", sizeof *w), done);
    LM_TRY_GOTO(status, lm_outfile_open(path, &w->file, e), done);
    *out = w;
    return LM_OK;

done:
    lm_gguf_abort(w);
    return status;
}

void lm_gguf_abort(lm_gguf_writer *w)
{
    if (!w)
        return;
    lm_outfile_abort(w->file);
    lm_text_free(&w->keys);
    lm_text_free(&w->directory);
    lm_map_free(w->names);
    lm_free(w->tensors);
    lm_arena_free(&w->arena);
    lm_free(w);
}

/* ---- little-endian pieces ---- */

static void put(lm_text *b, uint64_t v, size_t bytes)
{
    uint8_t p[8];

    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)(v >> 8 * i);
    lm_text_add(b, p, bytes);
}

static void put_string(lm_text *b, lm_view v)
{
    put(b, v.size, 8);
    lm_text_add_view(b, v);
}

static uint32_t float_bits(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

/* ---- keys ---- */

/* Claim a name, which may be used once. `sort`: 'k' for keys, 't' for tensors. */
static bool claim(lm_gguf_writer *w, char sort, lm_view name)
{
    char *own;

    if (w->error.code != LM_OK)
        return false;
    if (w->begun) {
        lm_fail(&w->error, LM_USAGE, name.data, LM_NO_OFFSET, "added after the header was written");
        return false;
    }
    own = lm_arena_alloc(&w->arena, name.size + 2);
    if (own) {
        own[0] = sort;
        memcpy(own + 1, name.data, name.size);
        if (lm_map_add(w->names, (lm_view){ own, name.size + 1 }, 1))
            return true;
    }
    if (!own || lm_map_failed(w->names))
        lm_fail_memory(&w->error, "a GGUF writer", name.size);
    else
        lm_fail(&w->error, LM_USAGE, own + 1, LM_NO_OFFSET, "added twice");
    return false;
}

static bool begin_key(lm_gguf_writer *w, const char *key, uint32_t type)
{
    if (!claim(w, 'k', lm_view_of(key)))
        return false;
    put_string(&w->keys, lm_view_of(key));
    put(&w->keys, type, 4);
    w->n_keys++;
    return true;
}

static bool begin_array(lm_gguf_writer *w, const char *key, uint32_t element, size_t n)
{
    if (!begin_key(w, key, GGUF_ARRAY))
        return false;
    put(&w->keys, element, 4);
    put(&w->keys, n, 8);
    return true;
}

void lm_gguf_add_u32(lm_gguf_writer *w, const char *key, uint32_t v)
{
    if (begin_key(w, key, GGUF_U32))
        put(&w->keys, v, 4);
}

void lm_gguf_add_u16(lm_gguf_writer *w, const char *key, uint16_t v)
{
    if (begin_key(w, key, GGUF_U16))
        put(&w->keys, v, 2);
}

void lm_gguf_add_i32(lm_gguf_writer *w, const char *key, int32_t v)
{
    if (begin_key(w, key, GGUF_I32))
        put(&w->keys, (uint32_t)v, 4);
}

void lm_gguf_add_f32(lm_gguf_writer *w, const char *key, float v)
{
    if (begin_key(w, key, GGUF_F32))
        put(&w->keys, float_bits(v), 4);
}

void lm_gguf_add_bool(lm_gguf_writer *w, const char *key, bool v)
{
    if (begin_key(w, key, GGUF_BOOL))
        put(&w->keys, v, 1);
}

void lm_gguf_add_string(lm_gguf_writer *w, const char *key, lm_view v)
{
    if (begin_key(w, key, GGUF_STRING))
        put_string(&w->keys, v);
}

void lm_gguf_add_strings(lm_gguf_writer *w, const char *key, const lm_view *v, size_t n)
{
    if (begin_array(w, key, GGUF_STRING, n))
        for (size_t i = 0; i < n; i++)
            put_string(&w->keys, v[i]);
}

void lm_gguf_add_f32s(lm_gguf_writer *w, const char *key, const float *v, size_t n)
{
    if (begin_array(w, key, GGUF_F32, n))
        for (size_t i = 0; i < n; i++)
            put(&w->keys, float_bits(v[i]), 4);
}

void lm_gguf_add_i32s(lm_gguf_writer *w, const char *key, const int32_t *v, size_t n)
{
    if (begin_array(w, key, GGUF_I32, n))
        for (size_t i = 0; i < n; i++)
            put(&w->keys, (uint32_t)v[i], 4);
}

void lm_gguf_add_bools(lm_gguf_writer *w, const char *key, const bool *v, size_t n)
{
    if (begin_array(w, key, GGUF_BOOL, n))
        for (size_t i = 0; i < n; i++)
            put(&w->keys, v[i], 1);
}

static bool excepted(lm_view key, const char *const *except)
{
    if (lm_view_is(key, "general.alignment") || lm_view_starts(key, LM_VIEW("split.")))
        return true;
    for (; except && *except; except++)
        if (lm_view_starts(key, lm_view_of(*except)))
            return true;
    return false;
}

void lm_gguf_add_some(lm_gguf_writer *w, const lm_meta *m, const char *prefix, const char *const *except)
{
    lm_meta_value v;
    lm_view       key;

    if (!lm_gguf_is_meta(m)) {
        if (w->error.code == LM_OK)
            lm_fail(&w->error, LM_USAGE, lm_meta_file(m), LM_NO_OFFSET, "not the metadata of a GGUF file");
        return;
    }
    for (size_t i = 0; lm_meta_entry(m, i, &key, &v); i++) {
        if (excepted(key, except) || !lm_view_starts(key, lm_view_of(prefix)))
            continue;
        if (!claim(w, 'k', key))
            return;
        lm_text_add_view(&w->keys, lm_gguf_raw_entry(m, i));
        w->n_keys++;
    }
}

/* ---- tensors ---- */

static lm_status check_tensor(lm_tensor_info *t, uint64_t *padded, lm_error *e)
{
    lm_dtype known;

    LM_TRY(lm_tensor_check_name(lm_view_of(t->name), MAX_TENSOR_NAME, LM_NO_OFFSET, e));
    LM_TRY(lm_dtype_from_gguf((uint32_t)t->type, t->name, &known, e));
    if (t->n_dims < 1 || t->n_dims > MAX_DIMS)
        return lm_fail(e, LM_USAGE, t->name, LM_NO_OFFSET, "%" PRIu32 " dimensions, GGUF has 1 to 4",
                       t->n_dims);
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (!t->dims[i] || t->dims[i] > LM_MAX_DIM)
            return lm_fail(e, LM_USAGE, t->name, LM_NO_OFFSET, "a dimension of %" PRIu64, t->dims[i]);
    LM_TRY(lm_tensor_measure(t, LM_NO_OFFSET, e));
    if (!lm_align_u64(t->bytes, ALIGNMENT, padded))
        return lm_fail(e, LM_USAGE, t->name, LM_NO_OFFSET, "its size does not fit 64 bits");
    return LM_OK;
}

static bool append_tensor(lm_gguf_writer *w, written_tensor t)
{
    if (w->n_tensors == w->capacity) {
        size_t          capacity = w->capacity ? w->capacity * 2 : 64;
        written_tensor *grown = lm_realloc(w->tensors, capacity * sizeof *grown);
        if (!grown) {
            lm_fail_memory(&w->error, "a GGUF writer", capacity * sizeof *grown);
            return false;
        }
        w->tensors  = grown;
        w->capacity = capacity;
    }
    w->tensors[w->n_tensors++] = t;
    return true;
}

void lm_gguf_add_tensor(lm_gguf_writer *w, const char *name, lm_dtype type, uint32_t n_dims,
                        const uint64_t *dims)
{
    lm_tensor_info t = { .name = name, .type = type, .n_dims = n_dims };
    uint64_t       padded = 0;

    if (w->error.code != LM_OK)
        return;
    for (uint32_t i = 0; i < n_dims && i < LM_MAX_DIMS; i++)
        t.dims[i] = dims[i];
    t.name = lm_arena_strdup(&w->arena, name);
    if (!t.name) {
        lm_fail_memory(&w->error, "a GGUF writer", strlen(name));
        return;
    }
    if (check_tensor(&t, &padded, &w->error) != LM_OK || !claim(w, 't', lm_view_of(name)) ||
        !append_tensor(w, (written_tensor){ t, padded }))
        return;
    put_string(&w->directory, lm_view_of(name));
    put(&w->directory, n_dims, 4);
    for (uint32_t i = n_dims; i-- > 0;)
        put(&w->directory, dims[i], 8);
    put(&w->directory, (uint32_t)type, 4);
    put(&w->directory, w->data_size, 8);
    if (!lm_add_u64(w->data_size, padded, &w->data_size))
        lm_fail(&w->error, LM_USAGE, name, LM_NO_OFFSET, "the size of the file does not fit 64 bits");
}

/* ---- preview ---- */

static lm_status preview_keys(const lm_gguf_writer *w, lm_meta **out, lm_error *e)
{
    uint8_t  *bytes = w->keys.failed ? NULL : lm_alloc(w->keys.size + 1);
    lm_cursor c     = { .data = bytes, .size = w->keys.size, .file = w->path };

    if (!bytes)
        return lm_fail_memory(e, "the keys of a GGUF file", w->keys.size);
    memcpy(bytes, w->keys.data, w->keys.size);
    return lm_gguf_read_keys(&c, bytes, w->n_keys, w->path, out, e);
}

lm_status lm_gguf_preview(const lm_gguf_writer *w, lm_container **out, lm_error *e)
{
    lm_container *c;
    lm_status     status;

    if (w->error.code != LM_OK) {
        if (e)
            *e = w->error;
        return w->error.code;
    }
    LM_TRY(lm_container_new(w->path, LM_GGUF, &(lm_container_options){ .structure_only = true }, &c, e));
    LM_TRY_GOTO(status, preview_keys(w, &c->meta, e), done);
    for (size_t i = 0; i < w->n_tensors; i++) {
        lm_tensor_info t = w->tensors[i].info;
        t.name           = lm_arena_strdup(&c->arena, t.name);
        LM_TRY_GOTO(status,
                    t.name ? lm_container_add_tensor(c, &t, e) : lm_fail_memory(e, "the tensor table", 0),
                    done);
    }
    LM_TRY_GOTO(status, lm_container_seal(c, e), done);
    *out = c;
    return LM_OK;

done:
    lm_container_close(c);
    return status;
}

/* ---- writing ---- */

static const uint8_t zeros[ALIGNMENT];

lm_status lm_gguf_begin(lm_gguf_writer *w, lm_error *e)
{
    lm_text    head = { 0 };
    lm_status status;

    if (w->keys.failed || w->directory.failed)
        lm_fail_memory(&w->error, "a GGUF header", w->keys.size + w->directory.size);
    if (w->begun)
        lm_fail(&w->error, LM_USAGE, NULL, LM_NO_OFFSET, "the header is written already");
    if (w->error.code != LM_OK) {
        if (e)
            *e = w->error;
        lm_fail_in(e, w->path);
        return w->error.code;
    }
    w->begun = true;
    lm_text_add_str(&head, "GGUF");
    put(&head, VERSION, 4);
    put(&head, w->n_tensors, 8);
    put(&head, w->n_keys, 8);
    if (head.failed)
        LM_TRY_GOTO(status, lm_fail_memory(e, "a GGUF header", 24), done);
    size_t size = head.size + w->keys.size + w->directory.size;
    LM_TRY_GOTO(status, lm_outfile_write(w->file, head.data, head.size, e), done);
    LM_TRY_GOTO(status, lm_outfile_write(w->file, w->keys.data, w->keys.size, e), done);
    LM_TRY_GOTO(status, lm_outfile_write(w->file, w->directory.data, w->directory.size, e), done);
    LM_TRY_GOTO(status, lm_outfile_write(w->file, zeros, (ALIGNMENT - size % ALIGNMENT) % ALIGNMENT, e),
                done);

done:
    lm_text_free(&head);
    return status;
}

lm_status lm_gguf_write(lm_gguf_writer *w, const void *data, size_t n, lm_error *e)
{
    const uint8_t *p = data;

    while (n) {
        if (!w->begun || w->current == w->n_tensors)
            return lm_fail(e, LM_USAGE, w->path, LM_NO_OFFSET,
                           "%zu bytes more than the tensors that were declared", n);
        const written_tensor *t = &w->tensors[w->current];
        uint64_t              left = t->info.bytes - w->at;
        size_t                take = n < left ? n : (size_t)left;

        LM_TRY(lm_outfile_write(w->file, p, take, e));
        p += take;
        n -= take;
        w->at += take;
        if (w->at < t->info.bytes)
            continue;
        LM_TRY(lm_outfile_write(w->file, zeros, (size_t)(t->padded - t->info.bytes), e));
        w->current++;
        w->at = 0;
    }
    return LM_OK;
}

lm_status lm_gguf_commit(lm_gguf_writer *w, lm_error *e)
{
    lm_status status = LM_OK;

    if (!w->begun || w->current != w->n_tensors) {
        status = lm_fail(e, LM_USAGE, w->path, LM_NO_OFFSET, "%zu of %zu tensors were written", w->current,
                         w->n_tensors);
    } else {
        status  = lm_outfile_commit(w->file, e);
        w->file = NULL;
    }
    lm_gguf_abort(w);
    return status;
}
