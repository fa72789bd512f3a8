/* gguf.c - read GGUF: one file, or the parts of a split model.
 *
 * The head of a file (header, keys, tensor directory) is measured in the mapping and copied into memory, and
 * only the copy is trusted: a file that changes or shrinks while it is open cannot mislead later code. */
#include "formats/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/cursor.h"
#include "formats/containerimpl.h"
#include "formats/ggufmeta.h"

enum {
    HEADER_BYTES      = 24,
    MIN_TENSOR_BYTES  = 8 + 1 + 4 + 8 + 4 + 8,
    MAX_TENSOR_NAME   = 64,
    MAX_DIMS          = 4,
    DEFAULT_ALIGNMENT = 32,
    MAX_ALIGNMENT     = 1 << 20,
    MAX_HEAD          = 512 << 20,   /* bytes before the tensor data; a vocabulary of 256 k words takes 20
                                        MB */
    MAX_KEYS          = 1 << 16,     /* a model has about 50, and each takes more memory here than in the
                                        file */
    MAX_TENSORS       = 1 << 20,
};

typedef struct gguf_header {
    uint64_t n_tensors, n_keys;
} gguf_header;

static lm_status read_header(lm_cursor *c, gguf_header *out, lm_error *e)
{
    lm_view     magic;
    uint32_t    version;
    gguf_header h = { 0 };
    lm_status   s;

    if (c->size < HEADER_BYTES && !(c->size >= 4 && memcmp(c->data, "GGUF", 4)))
        return lm_fail(e, LM_BAD_MODEL, "header", 0, "%zu bytes are too few for a GGUF header", c->size);
    LM_TRY(lm_cursor_view(c, "header", 4, &magic, e));
    if (memcmp(magic.data, "GGUF", 4))
        return lm_fail(e, LM_BAD_MODEL, "header", 0, "does not begin with \"GGUF\"");
    LM_TRY(lm_cursor_u32(c, "version", &version, e));
    if (version && !(version & 0xffff))
        return lm_fail(e, LM_UNSUPPORTED, "version", 4, "a big-endian GGUF file");
    if (version == 1) {
        s = lm_fail(e, LM_UNSUPPORTED, "version", 4, "GGUF version 1");
        lm_fail_hint(e, "convert the model again with a current tool");
        return s;
    }
    if (version != 2 && version != 3)
        return lm_fail(e, LM_UNSUPPORTED, "version", 4, "GGUF version %" PRIu32 ", supported: 2 and 3",
                       version);
    LM_TRY(lm_cursor_u64(c, "number of tensors", &h.n_tensors, e));
    LM_TRY(lm_cursor_u64(c, "number of keys", &h.n_keys, e));
    if (h.n_tensors > lm_cursor_left(c) / MIN_TENSOR_BYTES)
        return lm_fail(e, LM_BAD_MODEL, "number of tensors", 8,
                       "%" PRIu64 " do not fit in the %zu bytes behind it", h.n_tensors, lm_cursor_left(c));
    if (h.n_keys > lm_cursor_left(c) / GGUF_MIN_KEY_BYTES)
        return lm_fail(e, LM_BAD_MODEL, "number of keys", 16,
                       "%" PRIu64 " do not fit in the %zu bytes behind it", h.n_keys, lm_cursor_left(c));
    if (h.n_tensors > MAX_TENSORS)
        return lm_fail(e, LM_UNSUPPORTED, "number of tensors", 8, "%" PRIu64 ", this program reads %d",
                       h.n_tensors, MAX_TENSORS);
    if (h.n_keys > MAX_KEYS)
        return lm_fail(e, LM_UNSUPPORTED, "number of keys", 16, "%" PRIu64 ", this program reads %d",
                       h.n_keys, MAX_KEYS);
    *out = h;
    return LM_OK;
}

/* Copy a view into a C string that is short enough for a message. */
static const char *brief(lm_view v, char text[161])
{
    snprintf(text, 161, "%.*s", (int)(v.size < 160 ? v.size : 160), v.data);
    return text;
}

static lm_status tensor_name(lm_cursor *c, lm_view *out, lm_error *e)
{
    int64_t at = (int64_t)c->at;

    LM_TRY(lm_cursor_string(c, "tensor name", MAX_TENSOR_NAME, out, e));
    return lm_tensor_check_name(*out, MAX_TENSOR_NAME, at, e);
}

/* ---- measuring the head ---- */

typedef struct head_scan {
    lm_cursor c;
    lm_error *e;
} head_scan;

static lm_status scan_head(void *arg)
{
    head_scan  *s = arg;
    lm_cursor  *c = &s->c;
    lm_error   *e = s->e;
    gguf_header h = { 0 };
    uint32_t    u;
    lm_view     v, name;
    char        text[161];

    LM_TRY(read_header(c, &h, e));
    for (uint64_t i = 0; i < h.n_keys; i++) {
        LM_TRY(lm_gguf_key_name(c, &name, e));
        brief(name, text);
        LM_TRY(lm_cursor_u32(c, text, &u, e));
        LM_TRY(lm_gguf_skip_value(c, u, text, e));
    }
    for (uint64_t i = 0; i < h.n_tensors; i++) {
        LM_TRY(tensor_name(c, &name, e));
        brief(name, text);
        LM_TRY(lm_cursor_u32(c, text, &u, e));
        if (u < 1 || u > MAX_DIMS)
            return lm_fail(e, LM_BAD_MODEL, text, (int64_t)c->at - 4,
                           "%" PRIu32 " dimensions, 1 to 4 are allowed", u);
        LM_TRY(lm_cursor_view(c, text, 8 * u + 4 + 8, &v, e));
    }
    return LM_OK;
}

/* Copy the bytes of the head. */
static lm_status load_head(const lm_filemap *f, uint8_t **out, size_t *size, lm_error *e)
{
    head_scan scan = { .c = { .data = f->data, .size = f->size, .file = f->path }, .e = e };
    uint8_t  *bytes;
    size_t    n;

    LM_TRY(lm_filemap_guard(scan_head, &scan, f->path, e));
    n = scan.c.at;
    if (n > MAX_HEAD)
        return lm_fail(e, LM_UNSUPPORTED, "header", LM_NO_OFFSET,
                       "%zu bytes of metadata, this program reads %d", n, MAX_HEAD);
    if (!(bytes = lm_alloc(n)))
        return lm_fail_memory(e, "the metadata of a GGUF file", n);
    lm_status s = lm_container_copy(f, 0, n, bytes, e);
    if (s != LM_OK) {
        lm_free(bytes);
        return s;
    }
    *out  = bytes;
    *size = n;
    return LM_OK;
}

/* ---- the tensor directory ---- */

/* Read the dimensions, which the file lists innermost first. */
static lm_status read_dims(lm_cursor *c, lm_tensor_info *t, lm_error *e)
{
    uint64_t ne;

    LM_TRY(lm_cursor_u32(c, t->name, &t->n_dims, e));
    if (t->n_dims < 1 || t->n_dims > MAX_DIMS)
        return lm_fail(e, LM_BAD_MODEL, t->name, (int64_t)c->at - 4,
                       "%" PRIu32 " dimensions, 1 to 4 are allowed", t->n_dims);
    for (uint32_t i = t->n_dims; i-- > 0;) {
        LM_TRY(lm_cursor_u64(c, t->name, &ne, e));
        if (!ne || ne > LM_MAX_DIM)
            return lm_fail(e, LM_BAD_MODEL, t->name, (int64_t)c->at - 8, "a dimension of %" PRIu64, ne);
        t->dims[i] = ne;
    }
    return LM_OK;
}

/* Read one entry. Its offset is still relative to the data. */
static lm_status read_tensor(lm_container *x, lm_cursor *c, uint32_t part, uint64_t alignment, lm_error *e)
{
    lm_tensor_info t = { .part = part };
    size_t         start = c->at;
    uint32_t       type;
    lm_view        name;

    LM_TRY(tensor_name(c, &name, e));
    if (!(t.name = lm_arena_strndup(&x->arena, name.data, name.size)))
        return lm_fail_memory(e, "the tensor table", name.size);
    LM_TRY(read_dims(c, &t, e));
    LM_TRY(lm_cursor_u32(c, t.name, &type, e));
    LM_TRY(lm_dtype_from_gguf(type, t.name, &t.type, e));
    LM_TRY(lm_tensor_measure(&t, (int64_t)start, e));
    LM_TRY(lm_cursor_u64(c, t.name, &t.offset, e));
    if (t.offset % alignment)
        return lm_fail(e, LM_BAD_MODEL, t.name, (int64_t)c->at - 8,
                       "offset %" PRIu64 " is not a multiple of %" PRIu64, t.offset, alignment);
    return lm_container_add_tensor(x, &t, e);
}

/* Check that every tensor of this file lies in its data and overlaps no other; then make the offsets relative
 * to the file. Gaps are allowed, because writers reorder tensors. */
static lm_status place_tensors(lm_container *x, size_t first, uint64_t data_start, uint64_t file_size,
                               lm_error *e)
{
    uint64_t         room = file_size > data_start ? file_size - data_start : 0, end, last = 0;
    lm_tensor_info **order;

    for (size_t i = first; i < x->n_tensors; i++) {
        lm_tensor_info *t = &x->tensors[i];
        if (!lm_add_u64(t->offset, t->bytes, &end) || end > room)
            return lm_fail(e, LM_BAD_MODEL, t->name, LM_NO_OFFSET,
                           "its %" PRIu64 " bytes at %" PRIu64 " end past the %" PRIu64
                           " bytes of tensor data",
                           t->bytes, t->offset, room);
    }
    LM_TRY(lm_container_by_offset(x, first, &order, e));
    for (size_t i = 0; i < x->n_tensors - first; i++) {
        if (order[i]->offset < last)
            return lm_fail(e, LM_BAD_MODEL, order[i]->name, LM_NO_OFFSET, "its bytes overlap those of %s",
                           order[i - 1]->name);
        last = order[i]->offset + order[i]->bytes;
    }
    for (size_t i = first; i < x->n_tensors; i++)
        x->tensors[i].offset += data_start;
    return LM_OK;
}

static lm_status read_alignment(const lm_meta *m, uint64_t *out, lm_error *e)
{
    static const char key[] = "general.alignment";
    uint64_t          a = DEFAULT_ALIGNMENT;
    uint32_t          type = lm_gguf_type_of(m, key);

    if (type != GGUF_TYPES) {
        if (type != GGUF_U32)
            return lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "not a 32-bit unsigned integer");
        LM_TRY(lm_meta_u64(m, key, 1, MAX_ALIGNMENT, &a, e));
        if (a & (a - 1))
            return lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "%" PRIu64 " is not a power of two", a);
    }
    *out = a;
    return LM_OK;
}

/* ---- one file ---- */

static lm_status read_directory(lm_container *x, lm_cursor *c, uint32_t part, uint64_t n, const lm_meta *m,
                                lm_error *e)
{
    size_t   first = x->n_tensors;
    uint64_t alignment = DEFAULT_ALIGNMENT, data_start = 0;

    LM_TRY(read_alignment(m, &alignment, e));
    for (uint64_t i = 0; i < n; i++)
        LM_TRY(read_tensor(x, c, part, alignment, e));
    if (!lm_align_u64(c->at, alignment, &data_start))
        return lm_fail(e, LM_BAD_MODEL, "header", LM_NO_OFFSET, "its size does not fit 64 bits");
    return place_tensors(x, first, data_start, x->files[part].size, e);
}

/* Read the last file of the container. */
static lm_status read_part(lm_container *x, lm_meta **out, lm_error *e)
{
    uint32_t    part  = (uint32_t)x->n_files - 1;
    const char *path  = x->files[part].path;
    uint8_t    *bytes = NULL;
    lm_meta    *m = NULL;
    lm_cursor   c = { .file = path };
    gguf_header h = { 0 };
    lm_status   status;

    LM_TRY_GOTO(status, load_head(&x->files[part], &bytes, &c.size, e), done);
    c.data = bytes;
    status = read_header(&c, &h, e);
    if (status != LM_OK) {
        lm_free(bytes);
        goto done;
    }
    LM_TRY_GOTO(status, lm_gguf_read_keys(&c, bytes, h.n_keys, path, &m, e), done);
    LM_TRY_GOTO(status, read_directory(x, &c, part, h.n_tensors, m, e), done);
    *out = m;
    return LM_OK;

done:
    lm_meta_free(m);
    lm_fail_in(e, path);
    return status;
}

/* ---- split models ---- */

typedef struct split_name {
    size_t   prefix;                 /* bytes before "-00001-of-00002.gguf" */
    unsigned no, count;              /* no: from 1 */
} split_name;

static bool five_digits(const char *p, unsigned *out)
{
    unsigned v = 0;

    for (int i = 0; i < 5; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        v = v * 10 + (unsigned)(p[i] - '0');
    }
    *out = v;
    return true;
}

static bool read_split_name(const char *path, split_name *out)
{
    enum { TAIL = sizeof "-00001-of-00002.gguf" - 1 };
    size_t      n = strlen(path);
    const char *tail = path + n - TAIL;
    split_name  s;

    if (n < TAIL || tail[0] != '-' || !five_digits(tail + 1, &s.no) || memcmp(tail + 6, "-of-", 4) ||
        !five_digits(tail + 10, &s.count) || strcmp(tail + 15, ".gguf"))
        return false;
    s.prefix = n - TAIL;
    *out     = s;
    return true;
}

/* Check that part `no` declares itself as that part of that many, with the same architecture as the first. */
static lm_status check_part(const lm_meta *first, const lm_meta *m, const split_name *s, unsigned no,
                            lm_error *e)
{
    uint32_t v;
    lm_view  a, b;

    LM_TRY(lm_meta_u32(m, "split.count", 1, LM_MAX_FILES, &v, e));
    if (v != s->count)
        return lm_fail(e, LM_BAD_MODEL, "split.count", LM_NO_OFFSET, "%" PRIu32 ", but the file name says %u",
                       v, s->count);
    LM_TRY(lm_meta_u32(m, "split.no", 0, LM_MAX_FILES, &v, e));
    if (v + 1 != no)
        return lm_fail(e, LM_BAD_MODEL, "split.no", LM_NO_OFFSET,
                       "%" PRIu32 " (from 0), but the file name says %u (from 1)", v, no);
    if (m != first && lm_meta_has(m, "general.architecture")) {
        LM_TRY(lm_meta_string(first, "general.architecture", &a, e));
        LM_TRY(lm_meta_string(m, "general.architecture", &b, e));
        if (!lm_view_equal(a, b))
            return lm_fail(e, LM_BAD_MODEL, "general.architecture", LM_NO_OFFSET,
                           "another one than in the first part");
    }
    return LM_OK;
}

/* Fail because a part is missing; the error names the file that was given. */
static lm_status lack_part(const char *given, const char *path, const split_name *s, unsigned no, lm_error *e)
{
    const char *slash = strrchr(path, '/');

    lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "is part %u of %u, and part %u is missing: %s", s->no,
            s->count, no, slash ? slash + 1 : path);
    return lm_fail_in(e, given);
}

static lm_status read_split(lm_container *x, const split_name *s, lm_error *e)
{
    lm_status status = LM_OK;
    lm_meta  *m = NULL;
    char     *path = NULL;
    uint64_t  total;
    uint32_t  part;

    if (!s->no || s->no > s->count || s->count > LM_MAX_FILES)
        return lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "part %u of %u", s->no, s->count);
    for (unsigned no = 1; no <= s->count; no++) {
        path = lm_arena_printf(&x->arena, "%.*s-%05u-of-%05u.gguf", (int)s->prefix, x->path, no, s->count);
        if (!path)
            LM_TRY_GOTO(status, lm_fail_memory(e, "a file name", s->prefix), done);
        if (no != s->no && !lm_path_is_file(path))
            LM_TRY_GOTO(status, lack_part(x->path, path, s, no, e), done);
        LM_TRY_GOTO(status, lm_container_add_file(x, path, &part, e), done);
        LM_TRY_GOTO(status, read_part(x, &m, e), done);
        LM_TRY_GOTO(status, check_part(x->meta ? x->meta : m, m, s, no, e), done);
        if (x->meta)
            lm_meta_free(m);
        else
            x->meta = m;
        m = NULL;
    }
    path = x->files[0].path;
    if (lm_meta_has(x->meta, "split.tensors.count")) {
        LM_TRY_GOTO(status, lm_meta_u64(x->meta, "split.tensors.count", 0, UINT64_MAX, &total, e), done);
        if (total != x->n_tensors)
            LM_TRY_GOTO(status,
                        lm_fail(e, LM_BAD_MODEL, "split.tensors.count", LM_NO_OFFSET,
                                "%" PRIu64 ", but the parts have %zu", total, x->n_tensors),
                        done);
    }
    return LM_OK;

done:
    lm_meta_free(m);
    if (path)
        lm_fail_in(e, path);
    return status;
}

static lm_status read_single(lm_container *x, lm_error *e)
{
    uint32_t count = 1;

    LM_TRY(read_part(x, &x->meta, e));
    if (lm_meta_has(x->meta, "split.count"))
        LM_TRY(lm_meta_u32(x->meta, "split.count", 0, LM_MAX_FILES, &count, e));
    if (count > 1)
        return lm_fail(e, LM_BAD_MODEL, "split.count", LM_NO_OFFSET,
                       "one of %" PRIu32 " parts, but its name does not end in -00001-of-%05" PRIu32 ".gguf",
                       count, count);
    return LM_OK;
}

/* Return whether the file itself declares that it is one of several parts, because its name alone proves
 * nothing. A file that cannot be read counts as one, so that reading the parts reports what is wrong with
 * it. */
static bool has_split_keys(const char *path, const lm_container_options *o)
{
    lm_container *x = NULL;
    uint32_t      count = 2, part;

    if (lm_container_new(path, LM_GGUF, o, &x, NULL) == LM_OK &&
        lm_container_add_file(x, path, &part, NULL) == LM_OK && read_part(x, &x->meta, NULL) == LM_OK &&
        !lm_meta_has(x->meta, "split.count"))
        count = 1;
    else if (x && x->meta && lm_meta_u32(x->meta, "split.count", 0, LM_MAX_FILES, &count, NULL) != LM_OK)
        count = 2;
    lm_container_close(x);
    return count > 1;
}

/* ---- numbers of layers that are lists of the metadata ---- */

static lm_status add_keyed(lm_container *x, lm_error *e)
{
    static const char *const lists[] = { "xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps" };
    size_t                   named = x->n_tensors;
    lm_status                status = LM_OK;

    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        uint64_t n  = 0;
        size_t   at = lm_gguf_floats_at(x->meta, lists[k], &n);
        for (uint64_t i = 0; at && i < n && status == LM_OK; i++) {
            lm_tensor_info t = {
                .type = LM_F32, .n_dims = 1, .dims = { 1 }, .offset = at + i * sizeof(float)
            };
            t.name = lm_arena_printf(&x->arena, "blk.%" PRIu64 ".%s", i, lists[k]);
            status = t.name ? lm_tensor_measure(&t, (int64_t)at, e) : lm_fail_memory(e, lists[k], 0);
            if (status == LM_OK)
                status = lm_container_add_tensor(x, &t, e);
        }
    }
    x->n_keyed   = x->n_tensors - named;
    x->n_tensors = named;
    return status;
}

lm_status lm_gguf_open(const char *path, const lm_container_options *o, lm_container **out, lm_error *e)
{
    lm_container *x;
    lm_status     status;
    split_name    s;
    uint32_t      part;

    LM_TRY(lm_container_new(path, LM_GGUF, o, &x, e));
    if (read_split_name(path, &s) && s.count > 1 && has_split_keys(path, o))
        LM_TRY_GOTO(status, read_split(x, &s, e), done);
    else {
        LM_TRY_GOTO(status, lm_container_add_file(x, path, &part, e), done);
        LM_TRY_GOTO(status, read_single(x, e), done);
    }
    LM_TRY_GOTO(status, add_keyed(x, e), done);
    LM_TRY_GOTO(status, lm_container_seal(x, e), done);
    *out = x;
    return LM_OK;

done:
    lm_container_close(x);
    lm_fail_in(e, path);
    return status;
}

lm_status lm_gguf_open_file(lm_filemap *file, const lm_container_options *o, lm_container **out, lm_error *e)
{
    lm_container *x      = NULL;
    lm_status     status = lm_container_new(file->path, LM_GGUF, o, &x, e);

    if (status == LM_OK)
        status = lm_container_reserve_file(x, e);
    if (status != LM_OK) {
        lm_filemap_close(file);
        lm_container_close(x);
        return status;
    }
    x->files[x->n_files++] = *file;
    LM_TRY_GOTO(status, read_single(x, e), done);
    LM_TRY_GOTO(status, add_keyed(x, e), done);
    LM_TRY_GOTO(status, lm_container_seal(x, e), done);
    *out = x;
    return LM_OK;

done:
    lm_fail_in(e, x->path);
    lm_container_close(x);
    return status;
}
