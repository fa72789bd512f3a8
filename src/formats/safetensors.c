/* safetensors.c - read safetensors: one file, or a Hugging Face folder with one or many. */
#include "formats/safetensors.h"

#include <stdlib.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "formats/containerimpl.h"
#include "formats/jsonread.h"
#include "formats/metasource.h"

enum {
    MAX_HEADER   = 16 << 20,         /* the format allows 100 MB; 100 000 tensors take 12 */
    MAX_INDEX    = 64 << 20,
    MAX_NAME     = 1024,
    MAX_METADATA = 4096,             /* entries of __metadata__ */
    HEADER_DEPTH = 4,                /* {tensor: {shape: [ */
};

/* ---- the header of one file ---- */

typedef struct header_reader {
    lm_container *x;
    lm_json       j;
    uint32_t      part;
    lm_view      *keys, *values;     /* of __metadata__ */
    size_t        n_meta;
    bool          has_meta;
} header_reader;

static lm_status read_shape(header_reader *r, lm_tensor_info *t, lm_error *e)
{
    bool     more;
    uint64_t dim;

    t->n_dims = 0;
    LM_TRY(lm_json_open(&r->j, '[', &more, e));
    while (more) {
        if (t->n_dims == LM_MAX_DIMS)
            return lm_json_wrong(&r->j, e, "more than %d dimensions", LM_MAX_DIMS);
        LM_TRY(lm_json_u64(&r->j, "a dimension", &dim, e));
        if (dim > LM_MAX_DIM)
            return lm_json_wrong(&r->j, e, "a dimension of %" PRIu64, dim);
        t->dims[t->n_dims++] = dim;
        LM_TRY(lm_json_next(&r->j, '[', &more, e));
    }
    return LM_OK;
}

static lm_status read_offsets(header_reader *r, uint64_t offsets[2], lm_error *e)
{
    bool more;

    LM_TRY(lm_json_open(&r->j, '[', &more, e));
    for (int i = 0; i < 2; i++) {
        if (!more)
            return lm_json_wrong(&r->j, e, "data_offsets are not two numbers");
        LM_TRY(lm_json_u64(&r->j, "data_offsets", &offsets[i], e));
        LM_TRY(lm_json_next(&r->j, '[', &more, e));
    }
    return more ? lm_json_wrong(&r->j, e, "data_offsets are not two numbers") : LM_OK;
}

/* Read {"dtype": …, "shape": […], "data_offsets": […]}, each exactly once. */
static lm_status read_members(header_reader *r, lm_tensor_info *t, uint64_t offsets[2], lm_error *e)
{
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
    unsigned seen = 0, member;
    lm_view  name, type;
    bool     more;

    LM_TRY(lm_json_open(&r->j, '{', &more, e));
    while (more) {
        LM_TRY(lm_json_name(&r->j, &name, e));
        member = lm_view_is(name, "dtype") ? DTYPE : lm_view_is(name, "shape") ? SHAPE
               : lm_view_is(name, "data_offsets") ? OFFSETS : 0;
        if (!member)
            return lm_json_wrong(&r->j, e, "unknown member \"%.*s\"", (int)(name.size < 64 ? name.size : 64),
                                 name.data);
        if (seen & member)
            return lm_json_wrong(&r->j, e, "%s appears twice", name.data);
        seen |= member;
        if (member == SHAPE)
            LM_TRY(read_shape(r, t, e));
        else if (member == OFFSETS)
            LM_TRY(read_offsets(r, offsets, e));
        else {
            LM_TRY(lm_json_string(&r->j, &type, e));
            if (strlen(type.data) != type.size)
                return lm_json_wrong(&r->j, e, "a NUL in the dtype");
            LM_TRY(lm_dtype_from_safetensors(type.data, t->name, &t->type, e));
        }
        LM_TRY(lm_json_next(&r->j, '{', &more, e));
    }
    if (seen != (DTYPE | SHAPE | OFFSETS))
        return lm_json_wrong(&r->j, e, "%s is missing",
                             !(seen & DTYPE) ? "dtype" : !(seen & SHAPE) ? "shape" : "data_offsets");
    return LM_OK;
}

static lm_status read_tensor(header_reader *r, lm_view name, int64_t at, lm_error *e)
{
    lm_tensor_info t = { .name = name.data, .part = r->part };
    uint64_t       offsets[2];

    LM_TRY(lm_tensor_check_name(name, MAX_NAME, at, e));
    r->j.where = t.name;
    LM_TRY(read_members(r, &t, offsets, e));
    LM_TRY(lm_tensor_measure(&t, at, e));
    if (offsets[1] < offsets[0] || offsets[1] - offsets[0] != t.bytes)
        return lm_fail(e, LM_BAD_MODEL, t.name, at,
                       "data_offsets [%" PRIu64 ", %" PRIu64 "] do not span the %" PRIu64
                       " bytes of its shape",
                       offsets[0], offsets[1], t.bytes);
    t.offset   = offsets[0];
    r->j.where = NULL;
    return lm_container_add_tensor(r->x, &t, e);
}

/* Read "__metadata__", which contains strings only. */
static lm_status read_metadata(header_reader *r, lm_error *e)
{
    bool more;

    if (r->has_meta)
        return lm_json_wrong(&r->j, e, "__metadata__ appears twice");
    r->has_meta = true;
    r->keys     = lm_arena_new(&r->x->arena, MAX_METADATA, lm_view);
    r->values   = lm_arena_new(&r->x->arena, MAX_METADATA, lm_view);
    if (!r->keys || !r->values)
        return lm_fail_memory(e, "__metadata__", MAX_METADATA * sizeof *r->keys);
    r->j.where = "__metadata__";
    LM_TRY(lm_json_open(&r->j, '{', &more, e));
    while (more) {
        if (r->n_meta == MAX_METADATA)
            return lm_json_wrong(&r->j, e, "more than %d entries", MAX_METADATA);
        LM_TRY(lm_json_name(&r->j, &r->keys[r->n_meta], e));
        LM_TRY(lm_json_string(&r->j, &r->values[r->n_meta], e));
        for (size_t i = 0; i < r->n_meta; i++)
            if (lm_view_equal(r->keys[i], r->keys[r->n_meta]))
                return lm_json_wrong(&r->j, e, "\"%.*s\" appears twice",
                                     (int)(r->keys[i].size < 64 ? r->keys[i].size : 64), r->keys[i].data);
        r->n_meta++;
        LM_TRY(lm_json_next(&r->j, '{', &more, e));
    }
    r->j.where = NULL;
    return LM_OK;
}

static lm_status read_header(header_reader *r, lm_error *e)
{
    lm_view name;
    bool    more;

    if (r->j.text[0] != '{')
        return lm_fail(e, LM_BAD_MODEL, "header", 8, "does not begin with '{'");
    LM_TRY(lm_json_open(&r->j, '{', &more, e));
    while (more) {
        int64_t at = (int64_t)(r->j.base + r->j.at);
        LM_TRY(lm_json_name(&r->j, &name, e));
        if (lm_view_is(name, "__metadata__"))
            LM_TRY(read_metadata(r, e));
        else
            LM_TRY(read_tensor(r, name, at, e));
        LM_TRY(lm_json_next(&r->j, '{', &more, e));
    }
    return lm_json_end(&r->j, e);
}

/* Check that the tensors tile the data exactly: no hole, no overlap, nothing after the last; then make the
 * offsets relative to the file. */
static lm_status check_tiling(lm_container *x, size_t first, uint64_t data_start, uint64_t data_size,
                              lm_error *e)
{
    lm_tensor_info **order;
    uint64_t         last = 0;

    LM_TRY(lm_container_by_offset(x, first, &order, e));
    for (size_t i = 0; i < x->n_tensors - first; i++) {
        lm_tensor_info *t = order[i];
        if (t->offset < last)
            return lm_fail(e, LM_BAD_MODEL, t->name, LM_NO_OFFSET, "its bytes overlap those of %s",
                           order[i - 1]->name);
        if (t->offset > last)
            return lm_fail(e, LM_BAD_MODEL, t->name, LM_NO_OFFSET,
                           "%" PRIu64 " bytes before it belong to no tensor", t->offset - last);
        if (t->bytes > data_size - last)
            return lm_fail(e, LM_BAD_MODEL, t->name, LM_NO_OFFSET,
                           "ends past the %" PRIu64 " bytes of tensor data", data_size);
        last = t->offset + t->bytes;
        t->offset += data_start;
    }
    if (last != data_size)
        return lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET,
                       "%" PRIu64 " bytes behind the last tensor belong to none", data_size - last);
    return LM_OK;
}

static int compare_in_file(const void *a, const void *b)
{
    const lm_tensor_info *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : strcmp(x->name, y->name);
}

static lm_status read_length(const lm_filemap *f, uint64_t *out, lm_error *e)
{
    uint8_t  b[8];
    uint64_t n = 0;

    if (f->size < sizeof b)
        return lm_fail(e, LM_BAD_MODEL, "header", 0, "%zu bytes are too few for a safetensors header",
                       f->size);
    LM_TRY(lm_container_copy(f, 0, sizeof b, b, e));
    for (size_t i = sizeof b; i-- > 0;)
        n = n << 8 | b[i];
    if (n > f->size - sizeof b)
        return lm_fail(e, LM_BAD_MODEL, "header", 0, "a header of %" PRIu64 " bytes in a file of %zu", n,
                       f->size);
    if (n > MAX_HEADER)
        return lm_fail(e, LM_UNSUPPORTED, "header", 0, "a header of %" PRIu64 " bytes, this program reads %d",
                       n, MAX_HEADER);
    if (n < 2)
        return lm_fail(e, LM_BAD_MODEL, "header", 0, "a header of %" PRIu64 " bytes", n);
    *out = n;
    return LM_OK;
}

/* Read one file. `meta`: receives its __metadata__; NULL: it is not needed. */
static lm_status read_file(lm_container *x, const char *path, lm_meta **meta, lm_error *e)
{
    header_reader     r = { .x = x };
    const lm_filemap *f;
    size_t            first = x->n_tensors;
    uint64_t          n = 0;
    char             *text;

    LM_TRY(lm_container_add_file(x, path, &r.part, e));
    f = &x->files[r.part];
    LM_TRY(read_length(f, &n, e));
    if (!(text = lm_arena_alloc(&x->arena, (size_t)n + 1)))
        return lm_fail_memory(e, "a safetensors header", n);
    LM_TRY(lm_container_copy(f, 8, (size_t)n, text, e));
    r.j = (lm_json){ .text = text, .size = (size_t)n, .file = f->path, .base = 8, .max_depth = HEADER_DEPTH };
    LM_TRY(read_header(&r, e));
    LM_TRY(check_tiling(x, first, n + 8, f->size - 8 - n, e));
    if (x->n_tensors > first)
        qsort(x->tensors + first, x->n_tensors - first, sizeof *x->tensors, compare_in_file);
    return meta ? lm_meta_from_strings(r.keys, r.values, r.n_meta, f->path, meta, e) : LM_OK;
}

static lm_status read_file_in(lm_container *x, const char *path, lm_meta **meta, lm_error *e)
{
    lm_status s = read_file(x, path, meta, e);

    if (s != LM_OK)
        lm_fail_in(e, path);
    return s;
}

/* ---- the index of a sharded model ---- */

typedef struct shard_index {
    lm_arena  arena;
    lm_json   j;
    lm_map   *shards;                /* file name -> position in `files` */
    lm_view  *files;
    size_t    n_files, files_capacity;
    lm_map   *tensors;               /* tensor name -> position in `files` */
    lm_view  *names;
    size_t    n_names, names_capacity;
} shard_index;

static lm_status append(lm_view **list, size_t *n, size_t *capacity, lm_view v, lm_error *e)
{
    if (*n == *capacity) {
        size_t   more = *capacity ? *capacity * 2 : 64;
        lm_view *grown = lm_realloc(*list, more * sizeof *grown);
        if (!grown)
            return lm_fail_memory(e, "the index of a model", more * sizeof *grown);
        *list     = grown;
        *capacity = more;
    }
    (*list)[(*n)++] = v;
    return LM_OK;
}

/* Return whether it is a plain name of a safetensors file in this folder. */
static bool plain_shard_name(lm_view v)
{
    if (!lm_view_ends(v, LM_VIEW(".safetensors")) || v.size > 255 || v.data[0] == '.')
        return false;
    for (size_t i = 0; i < v.size; i++)
        if ((unsigned char)v.data[i] < 0x20 || v.data[i] == 0x7f || strchr("/\\:", v.data[i]))
            return false;
    return true;
}

static lm_status read_mapping(shard_index *s, lm_error *e)
{
    lm_view  name, file;
    uint64_t shard;

    LM_TRY(lm_json_name(&s->j, &name, e));
    LM_TRY(lm_json_string(&s->j, &file, e));
    if (!plain_shard_name(file))
        return lm_json_wrong(&s->j, e, "\"%.*s\" is not the name of a safetensors file in this folder",
                             (int)(file.size < 128 ? file.size : 128), file.data);
    if (!lm_map_get(s->shards, file, &shard)) {
        shard = s->n_files;
        if (shard == LM_MAX_FILES)
            return lm_json_wrong(&s->j, e, "more than %u files", LM_MAX_FILES);
        LM_TRY(append(&s->files, &s->n_files, &s->files_capacity, file, e));
        if (!lm_map_add(s->shards, file, shard))
            return lm_fail_memory(e, "the index of a model", s->n_files);
    }
    if (!lm_map_add(s->tensors, name, shard))
        return lm_map_failed(s->tensors) ? lm_fail_memory(e, "the index of a model", s->n_names)
                                         : lm_json_wrong(&s->j, e, "tensor \"%.*s\" appears twice",
                                                         (int)(name.size < 128 ? name.size : 128), name.data);
    return append(&s->names, &s->n_names, &s->names_capacity, name, e);
}

static lm_status read_index(shard_index *s, lm_error *e)
{
    lm_view name;
    bool    more, inner, found = false;

    LM_TRY(lm_json_open(&s->j, '{', &more, e));
    while (more) {
        LM_TRY(lm_json_name(&s->j, &name, e));
        if (lm_view_is(name, "weight_map")) {
            if (found)
                return lm_json_wrong(&s->j, e, "weight_map appears twice");
            found      = true;
            s->j.where = "weight_map";
            LM_TRY(lm_json_open(&s->j, '{', &inner, e));
            while (inner) {
                LM_TRY(read_mapping(s, e));
                LM_TRY(lm_json_next(&s->j, '{', &inner, e));
            }
            s->j.where = NULL;
        } else {
            LM_TRY(lm_json_skip(&s->j, e));
        }
        LM_TRY(lm_json_next(&s->j, '{', &more, e));
    }
    LM_TRY(lm_json_end(&s->j, e));
    if (!found || !s->n_names)
        return lm_json_wrong(&s->j, e, found ? "weight_map is empty" : "weight_map is missing");
    return LM_OK;
}

/* Check that each tensor of the index is in the file that the index names. A tensor that is missing from the
 * index is only a warning: either nothing uses it, or the loader reports it. */
static lm_status compare_with_index(lm_container *x, const shard_index *s, lm_error *e)
{
    size_t   unlisted = 0;
    uint64_t shard;

    LM_TRY(lm_container_seal(x, e));
    for (size_t i = 0; i < s->n_names; i++) {
        const char           *name = s->names[i].data;
        const lm_tensor_info *t = strlen(name) == s->names[i].size ? lm_container_find(x, name) : NULL;

        lm_map_get(s->tensors, s->names[i], &shard);
        if (t && t->part == shard)
            continue;
        lm_fail(e, LM_BAD_MODEL, name, LM_NO_OFFSET, "the index says it is in %s, it is %s%s",
                s->files[shard].data, t ? "in " : "not there",
                t ? strrchr(lm_container_file_of(x, t), '/') + 1 : "");
        lm_fail_in(e, s->j.file);
        return LM_BAD_MODEL;
    }
    for (size_t i = 0; i < x->n_tensors; i++)
        unlisted += !lm_map_get(s->tensors, lm_view_of(x->tensors[i].name), &shard);
    if (unlisted)
        x->warning = lm_arena_printf(&x->arena, "%s: %zu tensors of its files are not in the index",
                                     s->j.file, unlisted);
    return unlisted && !x->warning ? lm_fail_memory(e, "a warning", 0) : LM_OK;
}

static lm_status exists(const char *path, bool *out, lm_error *e)
{
    struct stat st;

    *out = !stat(path, &st);
    if (*out || lstat(path, &st))
        return LM_OK;
    lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "a link to a missing file; the download is incomplete");
    lm_fail_in(e, path);
    return LM_BAD_MODEL;
}

static lm_status read_shards(lm_container *x, const char *index_path, lm_error *e)
{
    shard_index s = { .shards = lm_map_new(16), .tensors = lm_map_new(256) };
    lm_status   status = LM_OK;
    char       *text = NULL, *path;
    size_t      size;
    bool        there;

    if (!s.shards || !s.tensors)
        LM_TRY_GOTO(status, lm_fail_memory(e, "the index of a model", 0), done);
    LM_TRY_GOTO(status, lm_file_read(index_path, MAX_INDEX, &text, &size, e), done);
    s.j = (lm_json){ .text = text, .size = size, .file = index_path, .max_depth = 16 };
    LM_TRY_GOTO(status, read_index(&s, e), done);
    for (size_t i = 0; i < s.n_files; i++) {
        if (!(path = lm_arena_printf(&x->arena, "%s/%s", x->folder, s.files[i].data)))
            LM_TRY_GOTO(status, lm_fail_memory(e, "a file name", s.files[i].size), done);
        LM_TRY_GOTO(status, exists(path, &there, e), done);
        if (!there) {
            status = lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "named in the index, but missing");
            lm_fail_in(e, path);
            goto done;
        }
        LM_TRY_GOTO(status, read_file_in(x, path, NULL, e), done);
    }
    LM_TRY_GOTO(status, compare_with_index(x, &s, e), done);

done:
    lm_map_free(s.shards);
    lm_map_free(s.tensors);
    lm_free(s.files);
    lm_free(s.names);
    lm_free(text);
    return status;
}

/* ---- a folder ---- */

/* Fail for a folder without config.json, which may be an adapter's. */
static lm_status no_config(lm_container *x, lm_error *e)
{
    const lm_meta *adapter = NULL;
    lm_view        base    = { 0 };

    if (lm_container_json(x, "adapter_config.json", &adapter, NULL) == LM_OK && adapter) {
        lm_meta_string(adapter, "base_model_name_or_path", &base, NULL);
        lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "an adapter%s%.*s, not a model", base.size ? " for " : "",
                (int)base.size, base.data ? base.data : "");
    } else {
        lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "the folder has no config.json");
    }
    lm_fail_in(e, x->path);
    return LM_BAD_MODEL;
}

static lm_status read_config(lm_container *x, lm_error *e)
{
    const lm_meta *m;
    lm_meta_value  root;
    lm_json_file  *config;

    LM_TRY(lm_container_json(x, "config.json", &m, e));
    if (!m)
        return no_config(x, e);
    if (!lm_meta_get(m, "", &root) || root.kind != LM_META_OBJECT) {
        lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "JSON: expected an object, found %s",
                lm_meta_kind_name(root.kind));
        lm_fail_in(e, lm_meta_file(m));
        return LM_BAD_MODEL;
    }
    LM_TRY(lm_container_document(x, "config.json", &config, e));
    x->meta          = config->meta;
    x->meta_borrowed = true;
    return LM_OK;
}

static lm_status read_folder(lm_container *x, lm_error *e)
{
    char     *single = lm_arena_printf(&x->arena, "%s/model.safetensors", x->folder);
    char     *index = lm_arena_printf(&x->arena, "%s/model.safetensors.index.json", x->folder);
    bool      there;

    if (!single || !index)
        return lm_fail_memory(e, "a file name", strlen(x->folder));
    LM_TRY(read_config(x, e));
    if (x->structure_only)
        return lm_container_seal(x, e);
    LM_TRY(exists(single, &there, e));
    if (there) {
        LM_TRY(read_file_in(x, single, NULL, e));
        return lm_container_seal(x, e);
    }
    LM_TRY(exists(index, &there, e));
    if (there)
        return read_shards(x, index, e);
    lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET,
            "the folder has neither model.safetensors nor model.safetensors.index.json");
    lm_fail_in(e, x->path);
    return LM_BAD_MODEL;
}

lm_status lm_safetensors_open(const char *path, const lm_container_options *o, lm_container **out,
                              lm_error *e)
{
    lm_container *x;
    lm_status     status;

    LM_TRY(lm_container_new(path, LM_SAFETENSORS, o, &x, e));
    if (lm_path_is_folder(path)) {
        size_t n = strlen(x->path);
        while (n > 1 && x->path[n - 1] == '/')
            x->path[--n] = 0;
        x->folder = x->path;
        LM_TRY_GOTO(status, read_folder(x, e), done);
        LM_TRY_GOTO(status, lm_container_unnest(x, "config.json", e), done);
    } else {
        LM_TRY_GOTO(status, read_file_in(x, x->path, &x->meta, e), done);
        LM_TRY_GOTO(status, lm_container_seal(x, e), done);
    }
    *out = x;
    return LM_OK;

done:
    lm_container_close(x);
    return status;
}
