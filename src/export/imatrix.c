/* imatrix.c - reading both forms of llama-imatrix's file. */
#include "export/imatrix.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/cursor.h"
#include "base/filemap.h"
#include "base/map.h"
#include "formats/container.h"

enum { MOST_ENTRIES = 1 << 20, MOST_NAME = 1024 };

typedef struct entry { uint64_t n; const float *values; } entry;

struct lm_imatrix {
    lm_arena arena;
    lm_map  *names;                  /* of entries */
    entry   *entries;
    size_t   n_entries, capacity;
    uint32_t chunks;
    lm_view  dataset;
};

void lm_imatrix_free(lm_imatrix *m)
{
    if (!m)
        return;
    lm_map_free(m->names);
    lm_free(m->entries);
    lm_arena_free(&m->arena);
    lm_free(m);
}

/* Room for `n` numbers of the tensor, which is taken once. */
static lm_status add(lm_imatrix *m, lm_view name, uint64_t n, float **values, lm_error *e)
{
    char *own = lm_arena_alloc(&m->arena, name.size + 1);

    if (m->n_entries == m->capacity) {
        size_t capacity = m->capacity ? 2 * m->capacity : 256;
        entry *grown    = lm_realloc(m->entries, capacity * sizeof *grown);
        if (!grown)
            return lm_fail_memory(e, "importance", capacity * sizeof *grown);
        m->entries  = grown;
        m->capacity = capacity;
    }
    *values = lm_arena_new(&m->arena, n, float);
    if (!own || !*values)
        return lm_fail_memory(e, "importance", n * sizeof **values);
    memcpy(own, name.data, name.size);
    own[name.size] = '\0';
    if (!lm_map_add(m->names, (lm_view){ own, name.size }, m->n_entries))
        return lm_map_failed(m->names) ? lm_fail_memory(e, "importance", name.size)
                                       : lm_fail(e, LM_BAD_MODEL, own, LM_NO_OFFSET, "listed twice");
    m->entries[m->n_entries++] = (entry){ n, *values };
    return LM_OK;
}

static lm_status check(const float *values, uint64_t n, const char *name, lm_error *e)
{
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(values[i]) || values[i] < 0)
            return lm_fail(e, LM_BAD_MODEL, name, LM_NO_OFFSET, "importance %llu is %g", (unsigned long long)i, (double)values[i]);
    return LM_OK;
}

/* ---- GGUF ---- */

static lm_status read_sums(lm_imatrix *m, const lm_container *c, const lm_tensor_info *sums, lm_error *e)
{
    static const lm_view suffix = { ".in_sum2", 8 };
    char                 counts_name[256];
    lm_view              name = lm_view_of(sums->name);
    float               *values;

    name.size -= suffix.size;
    snprintf(counts_name, sizeof counts_name, "%.*s.counts", (int)name.size, name.data);
    const lm_tensor_info *counts = lm_container_find(c, counts_name);
    uint64_t              cols = sums->dims[sums->n_dims - 1], matrices = sums->elements / cols;
    if (!counts || counts->elements != matrices || sums->type != LM_F32 || counts->type != LM_F32)
        return lm_fail(e, LM_BAD_MODEL, sums->name, LM_NO_OFFSET, "has no counts of its %llu matrices in F32",
                       (unsigned long long)matrices);
    LM_TRY(add(m, name, sums->elements, &values, e));
    for (uint64_t k = 0; k < matrices; k++) {
        float count;
        lm_container_unpack(c, counts, k, 1, &count);
        lm_container_unpack(c, sums, k * cols, cols, values + k * cols);
        for (uint64_t i = 0; i < cols; i++)              /* an expert that was never chosen: all alike */
            values[k * cols + i] = count > 0 ? values[k * cols + i] / count : 1.0f;
    }
    return check(values, sums->elements, sums->name, e);
}

static lm_status read_gguf(lm_imatrix *m, const char *path, lm_error *e)
{
    lm_container *c;
    lm_meta_value sets, first;
    lm_status     status = LM_OK;
    lm_view       kind;

    LM_TRY(lm_container_open(path, NULL, &c, e));
    const lm_meta *meta = lm_container_meta(c);
    if (!lm_meta_has(meta, "general.type") || lm_meta_string(meta, "general.type", &kind, NULL) != LM_OK || !lm_view_is(kind, "imatrix"))
        status = lm_fail(e, LM_BAD_MODEL, "general.type", LM_NO_OFFSET, "the file is no importance matrix");
    if (status == LM_OK && lm_meta_has(meta, "imatrix.chunk_count"))
        status = lm_meta_u32(meta, "imatrix.chunk_count", 0, UINT32_MAX, &m->chunks, e);
    if (status == LM_OK && lm_meta_get(meta, "imatrix.datasets", &sets) && sets.kind == LM_META_ARRAY && lm_meta_at(&sets, 0, &first) &&
        first.kind == LM_META_STRING) {
        char *own = lm_arena_alloc(&m->arena, first.s.size + 1);
        if (own)
            m->dataset = (lm_view){ memcpy(own, first.s.data, first.s.size), first.s.size };
    }
    for (size_t i = 0; status == LM_OK && i < lm_container_n_tensors(c); i++) {
        const lm_tensor_info *t = lm_container_tensor(c, i);
        if (lm_view_ends(lm_view_of(t->name), LM_VIEW(".in_sum2")) && strlen(t->name) > 8 && t->n_dims)
            status = read_sums(m, c, t, e);
    }
    lm_container_close(c);
    return status == LM_OK ? LM_OK : lm_fail_in(e, path);
}

/* ---- the older form ---- */

/* i32 entries, each: i32 length, name, i32 calls, i32 n, f32[n] multiplied by calls; then i32 chunks, i32 length, data set. */
static lm_status read_entries(lm_imatrix *m, lm_cursor *c, lm_error *e)
{
    uint32_t n, length, calls, many;
    lm_view  name;
    float   *values;

    LM_TRY(lm_cursor_u32(c, "entries", &n, e));
    if (n < 1 || n > MOST_ENTRIES)
        return lm_fail(e, LM_BAD_MODEL, "entries", 0, "%u, expected 1 to %d", n, MOST_ENTRIES);
    for (uint32_t i = 0; i < n; i++) {
        LM_TRY(lm_cursor_u32(c, "name", &length, e));
        if (length < 1 || length > MOST_NAME)
            return lm_fail(e, LM_BAD_MODEL, "name", (int64_t)c->at, "%u bytes, expected 1 to %d", length, MOST_NAME);
        LM_TRY(lm_cursor_view(c, "name", length, &name, e));
        LM_TRY(lm_cursor_u32(c, "calls", &calls, e));
        LM_TRY(lm_cursor_u32(c, "values", &many, e));
        if (!many || many > lm_cursor_left(c) / sizeof(float))
            return lm_fail(e, LM_BAD_MODEL, "values", (int64_t)c->at, "%u, more than the file has", many);
        LM_TRY(add(m, name, many, &values, e));
        lm_view bytes;
        LM_TRY(lm_cursor_view(c, "values", many * sizeof(float), &bytes, e));
        memcpy(values, bytes.data, bytes.size);
        for (uint32_t k = 0; calls && k < many; k++)
            values[k] /= (float)calls;
        LM_TRY(check(values, many, "values", e));
    }
    if (lm_cursor_left(c) >= 8) {
        LM_TRY(lm_cursor_u32(c, "chunks", &m->chunks, e));
        LM_TRY(lm_cursor_u32(c, "data set", &length, e));
        LM_TRY(lm_cursor_view(c, "data set", length, &name, e));
        char *own = lm_arena_alloc(&m->arena, name.size + 1);
        if (own)
            m->dataset = (lm_view){ memcpy(own, name.data, name.size), name.size };
    }
    return LM_OK;
}

static lm_status read_older(lm_imatrix *m, const lm_filemap *file, const char *path, lm_error *e)
{
    lm_cursor c      = { .data = file->data, .size = file->size, .file = path };
    lm_status status = read_entries(m, &c, e);

    return status == LM_OK ? LM_OK : lm_fail_in(e, path);
}

/* ---- the door ---- */

lm_status lm_imatrix_open(const char *path, lm_imatrix **out, lm_error *e)
{
    lm_imatrix *m = lm_alloc_zero(1, sizeof *m);
    lm_filemap  file;
    lm_status   status;

    if (!m || !(m->names = lm_map_new(256))) {
        lm_imatrix_free(m);
        return lm_fail_memory(e, path, sizeof *m);
    }
    LM_TRY_GOTO(lm_filemap_open(path, false, &file, e));
    bool gguf = file.size >= 4 && memcmp(file.data, "GGUF", 4) == 0;
    status    = gguf ? LM_OK : read_older(m, &file, path, e);
    lm_filemap_close(&file);
    if (gguf)
        status = read_gguf(m, path, e);
    if (status == LM_OK && !m->n_entries) {
        lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "no importance in it");
        status = lm_fail_in(e, path);
    }

done:
    if (status == LM_OK)
        *out = m;
    else
        lm_imatrix_free(m);
    return status;
}

const float *lm_imatrix_of(const lm_imatrix *m, const char *tensor, uint64_t *n)
{
    uint64_t i;

    if (!lm_map_get(m->names, lm_view_of(tensor), &i))
        return NULL;
    *n = m->entries[i].n;
    return m->entries[i].values;
}

size_t lm_imatrix_entries(const lm_imatrix *m)
{
    return m->n_entries;
}

uint32_t lm_imatrix_chunks(const lm_imatrix *m)
{
    return m->chunks;
}

lm_view lm_imatrix_dataset(const lm_imatrix *m)
{
    return m->dataset;
}
