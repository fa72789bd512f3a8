/* imatrix_file.c - read and write both formats of llama-imatrix. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cursor.h"
#include "base/os/filemap.h"
#include "base/utf8.h"
#include "export/quantize/imatrix.h"
#include "formats/gguf.h"

enum { MAX_ENTRIES = 1 << 20, MAX_NAME = 1024 };

static lm_status check(const lm_imatrix_sums *s, lm_error *e)
{
    for (uint64_t i = 0; i < s->matrices * s->cols; i++)
        if (!isfinite(s->sums[i]) || s->sums[i] < 0)
            return lm_fail(e, LM_BAD_MODEL, s->name, LM_NO_OFFSET, "importance %llu is %g",
                           (unsigned long long)i, s->sums[i]);
    return LM_OK;
}

static lm_status entry_once(lm_imatrix *m, lm_view name, uint64_t cols, uint64_t matrices,
                            lm_imatrix_sums **out, lm_error *e)
{
    size_t before = m->n_entries;

    LM_TRY(lm_imatrix_entry_of(m, name, cols, matrices, out, e));
    return m->n_entries > before ? LM_OK
                                 : lm_fail(e, LM_BAD_MODEL, (*out)->name, LM_NO_OFFSET, "listed twice");
}

/* ---- GGUF ---- */

static lm_status read_sums(lm_imatrix *m, const lm_container *c, const lm_tensor_info *t, lm_error *e)
{
    char             counts_name[256];
    lm_view          name = lm_view_of(t->name);
    lm_imatrix_sums *s;

    name.size -= strlen(".in_sum2");
    snprintf(counts_name, sizeof counts_name, "%.*s.counts", (int)name.size, name.data);
    const lm_tensor_info *counts = lm_container_find(c, counts_name);
    uint64_t              cols = t->dims[t->n_dims - 1], matrices = t->elements / cols;
    if (!counts || counts->elements != matrices || t->type != LM_F32 || counts->type != LM_F32 ||
        matrices > UINT32_MAX)
        return lm_fail(e, LM_BAD_MODEL, t->name, LM_NO_OFFSET, "has no counts of its %llu matrices in F32",
                       (unsigned long long)matrices);
    LM_TRY(entry_once(m, name, cols, matrices, &s, e));
    float *row = lm_alloc(cols * sizeof *row);
    if (!row)
        return lm_fail_memory(e, "importance", cols * sizeof *row);
    lm_status status = LM_OK;
    for (uint64_t k = 0; status == LM_OK && k < matrices; k++) {
        float count;
        lm_container_unpack(c, counts, k, 1, &count);
        if (!(count >= 0 && count <= 9e15f))
            status = lm_fail(e, LM_BAD_MODEL, counts->name, LM_NO_OFFSET, "count %llu is %g",
                             (unsigned long long)k, (double)count);
        else
            s->rows[k] = (uint64_t)count;
        lm_container_unpack(c, t, k * cols, cols, row);
        for (uint64_t i = 0; i < cols; i++)
            s->sums[k * cols + i] = (double)row[i];
    }
    lm_free(row);
    return status == LM_OK ? check(s, e) : status;
}

static lm_status read_keys(lm_imatrix *m, const lm_meta *meta, lm_error *e)
{
    lm_meta_value sets, one;
    lm_view       kind;

    if (!lm_meta_has(meta, "general.type") || lm_meta_string(meta, "general.type", &kind, NULL) != LM_OK ||
        !lm_view_is(kind, "imatrix"))
        return lm_fail(e, LM_BAD_MODEL, "general.type", LM_NO_OFFSET, "the file is not an importance matrix");
    if (lm_meta_has(meta, "imatrix.chunk_count"))
        LM_TRY(lm_meta_u32(meta, "imatrix.chunk_count", 0, UINT32_MAX, &m->chunks, e));
    if (lm_meta_has(meta, "imatrix.chunk_size"))
        LM_TRY(lm_meta_u32(meta, "imatrix.chunk_size", 0, UINT32_MAX, &m->chunk_size, e));
    if (lm_meta_get(meta, "imatrix.datasets", &sets) && sets.kind == LM_META_ARRAY)
        for (uint64_t i = 0; lm_meta_at(&sets, i, &one) && one.kind == LM_META_STRING; i++)
            LM_TRY(lm_imatrix_add_dataset(m, one.s, e));
    return LM_OK;
}

static lm_status read_gguf(lm_imatrix *m, const char *path, lm_error *e)
{
    lm_container *c;

    LM_TRY(lm_container_open(path, NULL, &c, e));
    lm_status status = read_keys(m, lm_container_meta(c), e);
    for (size_t i = 0; status == LM_OK && i < lm_container_n_tensors(c); i++) {
        const lm_tensor_info *t = lm_container_tensor(c, i);
        if (lm_view_ends(lm_view_of(t->name), LM_VIEW(".in_sum2")) && strlen(t->name) > strlen(".in_sum2") &&
            t->n_dims)
            status = read_sums(m, c, t, e);
    }
    lm_container_close(c);
    return status == LM_OK ? LM_OK : lm_fail_in(e, path);
}

static lm_status write_gguf(const lm_imatrix *m, const char *path, lm_error *e)
{
    lm_gguf_writer  *w;
    lm_imatrix_entry s;
    lm_view         *sets = lm_alloc((m->n_datasets + 1) * sizeof *sets);
    lm_text          name = { 0 };
    lm_status        status;

    if (!sets)
        return lm_fail_memory(e, path, m->n_datasets * sizeof *sets);
    for (size_t i = 0; i < m->n_datasets; i++)
        sets[i] = lm_view_of(m->datasets[i]);
    status = lm_gguf_create(path, &w, e);
    if (status != LM_OK) {
        lm_free(sets);
        return status;
    }
    lm_gguf_add_string(w, "general.type", LM_VIEW("imatrix"));
    lm_gguf_add_strings(w, "imatrix.datasets", sets, m->n_datasets);
    lm_gguf_add_u32(w, "imatrix.chunk_count", m->chunks);
    lm_gguf_add_u32(w, "imatrix.chunk_size", m->chunk_size);
    lm_free(sets);
    for (size_t i = 0; lm_imatrix_at(m, i, &s); i++) {
        name.size = 0;
        lm_text_printf(&name, "%s.in_sum2", s.name);
        lm_gguf_add_tensor(w, name.data ? name.data : "", LM_F32, 2, (uint64_t[]){ s.matrices, s.cols });
        name.size = 0;
        lm_text_printf(&name, "%s.counts", s.name);
        lm_gguf_add_tensor(w, name.data ? name.data : "", LM_F32, 2, (uint64_t[]){ s.matrices, 1 });
    }
    bool failed = name.failed;
    lm_text_free(&name);
    status = failed ? lm_fail_memory(e, path, 0) : lm_gguf_begin(w, e);
    for (size_t i = 0; status == LM_OK && lm_imatrix_at(m, i, &s); i++) {
        for (uint64_t k = 0; status == LM_OK && k < s.matrices * s.cols; k++)
            status = lm_gguf_write(w, &(float){ (float)s.sums[k] }, sizeof(float), e);
        for (uint32_t k = 0; status == LM_OK && k < s.matrices; k++)
            status = lm_gguf_write(w, &(float){ (float)s.rows[k] }, sizeof(float), e);
    }
    if (status == LM_OK)
        return lm_gguf_commit(w, e);
    lm_gguf_abort(w);
    return status;
}

/* ---- the older format ---- */

/* i32 entries, each: i32 length, name, i32 calls, i32 n, f32[n] = mean × calls; then i32 chunks, i32 length,
 * name of the dataset. */

static lm_status read_entry(lm_imatrix *m, lm_cursor *c, lm_error *e)
{
    uint32_t         length, calls, many;
    lm_view          name, bytes;
    lm_imatrix_sums *s;

    LM_TRY(lm_cursor_u32(c, "name", &length, e));
    if (length < 1 || length > MAX_NAME)
        return lm_fail(e, LM_BAD_MODEL, "name", (int64_t)c->at, "%u bytes, expected 1 to %d", length,
                       MAX_NAME);
    LM_TRY(lm_cursor_view(c, "name", length, &name, e));
    LM_TRY(lm_cursor_u32(c, "calls", &calls, e));
    LM_TRY(lm_cursor_u32(c, "values", &many, e));
    if (!many || many > lm_cursor_left(c) / sizeof(float))
        return lm_fail(e, LM_BAD_MODEL, "values", (int64_t)c->at, "%u, more than the file has", many);
    LM_TRY(entry_once(m, name, many, 1, &s, e));
    LM_TRY(lm_cursor_view(c, "values", many * sizeof(float), &bytes, e));
    s->rows[0] = calls ? (uint64_t)calls * LM_OLDER_CHUNK : 1;
    for (uint32_t k = 0; k < many; k++) {
        float value;
        memcpy(&value, bytes.data + k * sizeof value, sizeof value);
        s->sums[k] = (double)value * (calls ? LM_OLDER_CHUNK : 1);
    }
    return check(s, e);
}

static lm_status read_entries(lm_imatrix *m, lm_cursor *c, lm_error *e)
{
    uint32_t n, length;
    lm_view  name;

    LM_TRY(lm_cursor_u32(c, "entries", &n, e));
    if ((n < 1 || n > MAX_ENTRIES) && lm_utf8_is_valid((lm_view){ (const char *)c->data, c->size })) {
        lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "a text, not an importance matrix");
        return lm_fail_hint(e, "measure a matrix over this text, and give its file");
    }
    if (n < 1 || n > MAX_ENTRIES)
        return lm_fail(e, LM_BAD_MODEL, "entries", 0, "%u, expected 1 to %d", n, MAX_ENTRIES);
    for (uint32_t i = 0; i < n; i++)
        LM_TRY(read_entry(m, c, e));
    m->chunk_size = LM_OLDER_CHUNK;
    if (lm_cursor_left(c) < 8)
        return LM_OK;
    LM_TRY(lm_cursor_u32(c, "chunks", &m->chunks, e));
    LM_TRY(lm_cursor_u32(c, "data set", &length, e));
    LM_TRY(lm_cursor_view(c, "data set", length, &name, e));
    return length ? lm_imatrix_add_dataset(m, name, e) : LM_OK;
}

static lm_status read_older(lm_imatrix *m, const lm_filemap *file, const char *path, lm_error *e)
{
    lm_cursor c      = { .data = file->data, .size = file->size, .file = path };
    lm_status status = lm_container_refuse_foreign(path, file->data, file->size, e);

    if (status == LM_OK)
        status = read_entries(m, &c, e);
    return status == LM_OK ? LM_OK : lm_fail_in(e, path);
}

static lm_status put(lm_outfile *f, const void *data, size_t n, lm_error *e)
{
    return lm_outfile_write(f, data, n, e);
}

static lm_status put_u32(lm_outfile *f, uint64_t n, lm_error *e)
{
    return put(f, &(uint32_t){ (uint32_t)n }, sizeof(uint32_t), e);
}

static lm_status put_older(const lm_imatrix *m, lm_outfile *f, lm_error *e)
{
    lm_imatrix_entry s;
    const char      *set   = m->n_datasets ? m->datasets[0] : "";
    uint32_t         calls = m->chunks ? m->chunks : 1;

    LM_TRY(put_u32(f, m->n_entries, e));
    for (size_t i = 0; lm_imatrix_at(m, i, &s); i++) {
        LM_TRY(put_u32(f, strlen(s.name), e));
        LM_TRY(put(f, s.name, strlen(s.name), e));
        LM_TRY(put_u32(f, calls, e));
        LM_TRY(put_u32(f, s.matrices * s.cols, e));
        for (uint64_t k = 0; k < s.matrices * s.cols; k++) {
            uint64_t rows = s.rows[k / s.cols];
            float    v    = rows ? (float)(s.sums[k] / (double)rows) * (float)calls : (float)calls;
            LM_TRY(put(f, &v, sizeof v, e));
        }
    }
    LM_TRY(put_u32(f, calls, e));
    LM_TRY(put_u32(f, strlen(set), e));
    return put(f, set, strlen(set), e);
}

/* ---- entry points ---- */

lm_status lm_imatrix_open(const char *path, lm_imatrix **out, lm_error *e)
{
    LM_REQUIRE(e, path && out);
    lm_imatrix *m;
    lm_filemap  file;

    LM_TRY(lm_imatrix_new(&m, e));
    lm_status status = lm_filemap_open(path, false, &file, e);
    if (status == LM_OK) {
        bool gguf = file.size >= 4 && memcmp(file.data, "GGUF", 4) == 0;
        status    = gguf ? LM_OK : read_older(m, &file, path, e);
        lm_filemap_close(&file);
        if (gguf)
            status = read_gguf(m, path, e);
    }
    if (status == LM_OK && !m->n_entries) {
        lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "no importance in it");
        status = lm_fail_in(e, path);
    }
    if (status == LM_OK)
        *out = m;
    else
        lm_imatrix_free(m);
    return status;
}

lm_status lm_imatrix_save(const lm_imatrix *m, const char *path, bool older, lm_error *e)
{
    LM_REQUIRE(e, m && path);
    lm_outfile *f;

    if (!older)
        return write_gguf(m, path, e);
    LM_TRY(lm_outfile_open(path, &f, e));
    lm_status status = put_older(m, f, e);
    if (status == LM_OK)
        return lm_outfile_commit(f, e);
    lm_outfile_abort(f);
    return status;
}
