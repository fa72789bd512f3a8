/* container.c - what GGUF and safetensors containers have in common. */
#include "formats/containerimpl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/utf8.h"
#include "formats/gguf.h"
#include "formats/jsonread.h"
#include "formats/metasource.h"
#include "formats/safetensors.h"

const char *const lm_folder_texts[] = {
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json",
    "added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja", NULL,
};

/* ---- construction ---- */

lm_status lm_container_new(const char *path, lm_container_kind kind, const lm_container_options *o,
                           lm_container **out, lm_error *e)
{
    lm_container *c = lm_alloc_zero(1, sizeof *c);

    if (!c)
        return lm_fail_memory(e, "a container", sizeof *c);
    c->kind           = kind;
    c->reading = o ? (lm_filemap_options){ o->no_mmap, o->progress, o->progress_arg }
                   : (lm_filemap_options){ 0 };
    c->structure_only = o && o->structure_only;
    c->path           = lm_arena_strdup(&c->arena, path);
    if (!c->path) {
        lm_container_close(c);
        return lm_fail_memory(e, "a container", strlen(path));
    }
    *out = c;
    return LM_OK;
}

void lm_container_close(lm_container *c)
{
    if (!c)
        return;
    for (lm_json_file *d = c->documents; d; d = d->next) {
        lm_free(d->text);
        lm_meta_free(d->meta);
    }
    if (!c->meta_borrowed)
        lm_meta_free(c->meta);
    for (size_t i = 0; i < c->n_files; i++)
        lm_filemap_close(&c->files[i]);
    lm_free(c->files);
    lm_free(c->tensors);
    lm_map_free(c->by_name);
    lm_arena_free(&c->arena);
    lm_free(c);
}

/* Files that are mistaken for models, by their first bytes. */
static const struct {
    const char *head;
    const char *what, *hint;
} foreign[] = {
    { "version https://git-", "a Git LFS pointer, not the file itself", "git lfs pull" },
    { "PK\3\4", "a zip archive, perhaps PyTorch weights", "convert it to safetensors with the program that made it" },
    { "lmgg", "GGML from before GGUF", "convert the original model again" },
    { "fmgg", "GGML from before GGUF", "convert the original model again" },
    { "tjgg", "GGML from before GGUF", "convert the original model again" },
    { "<!DOCTYPE", "a web page", "the download went wrong: fetch the file again" },
    { "<html", "a web page", "the download went wrong: fetch the file again" },
    { "\x80\2", "a Python pickle, perhaps PyTorch weights", "convert it to safetensors with the program that made it" },
};

/* Return whether a file begins as safetensors do: the size of the header in 8 bytes, which may begin like a
 * magic number, and the header. */
static bool is_safetensors(const uint8_t *head, size_t n)
{
    return n > 8 && memcmp(head + 4, "\0\0\0\0{", 5) == 0;
}

lm_status lm_container_refuse_foreign(const char *path, const uint8_t *head, size_t n, lm_error *e)
{
    for (size_t i = 0; !is_safetensors(head, n) && i < sizeof foreign / sizeof *foreign; i++) {
        size_t size = strlen(foreign[i].head);
        if (n < size || memcmp(head, foreign[i].head, size))
            continue;
        lm_fail(e, LM_UNSUPPORTED, NULL, LM_NO_OFFSET, "%s", foreign[i].what);
        lm_fail_hint(e, "%s", foreign[i].hint);
        lm_fail_in(e, path);
        return LM_UNSUPPORTED;
    }
    return LM_OK;
}

enum { HEAD = 32 };

lm_status lm_container_reserve_file(lm_container *c, lm_error *e)
{
    if (c->n_files == c->files_capacity) {
        size_t      capacity = c->files_capacity ? c->files_capacity * 2 : 4;
        lm_filemap *grown = lm_realloc(c->files, capacity * sizeof *grown);
        if (!grown)
            return lm_fail_memory(e, "a container", capacity * sizeof *grown);
        c->files          = grown;
        c->files_capacity = capacity;
    }
    return LM_OK;
}

lm_status lm_container_add_file(lm_container *c, const char *path, uint32_t *part, lm_error *e)
{
    LM_TRY(lm_container_reserve_file(c, e));
    LM_TRY(lm_filemap_open_with(path, &c->reading, &c->files[c->n_files], e));
    const lm_filemap *f = &c->files[c->n_files];
    uint8_t           head[HEAD];
    size_t            n = f->size < HEAD ? f->size : HEAD;
    *part = (uint32_t)c->n_files++;
    LM_TRY(lm_container_copy(f, 0, n, head, e));
    return lm_container_refuse_foreign(path, head, n, e);
}

lm_status lm_container_add_tensor(lm_container *c, const lm_tensor_info *t, lm_error *e)
{
    if (c->n_tensors == c->tensors_capacity) {
        size_t          capacity = c->tensors_capacity ? c->tensors_capacity * 2 : 64;
        lm_tensor_info *grown = lm_realloc(c->tensors, capacity * sizeof *grown);
        if (!grown)
            return lm_fail_memory(e, "the tensor table", capacity * sizeof *grown);
        c->tensors          = grown;
        c->tensors_capacity = capacity;
    }
    c->tensors[c->n_tensors++] = *t;
    return LM_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const lm_tensor_info *x = *(lm_tensor_info *const *)a, *y = *(lm_tensor_info *const *)b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;       /* empty ones first: they do not overlap what starts
                                                      here */
    return x < y ? -1 : x > y;
}

lm_status lm_container_by_offset(lm_container *c, size_t first, lm_tensor_info ***order, lm_error *e)
{
    size_t           n = c->n_tensors - first;
    lm_tensor_info **sorted = lm_arena_new(&c->arena, n ? n : 1, lm_tensor_info *);

    if (!sorted)
        return lm_fail_memory(e, "the tensor table", n * sizeof *sorted);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &c->tensors[first + i];
    qsort(sorted, n, sizeof *sorted, compare_offsets);
    *order = sorted;
    return LM_OK;
}

lm_status lm_container_seal(lm_container *c, lm_error *e)
{
    if (!(c->by_name = lm_map_new(c->n_tensors)))
        return lm_fail_memory(e, "the tensor table", c->n_tensors);
    for (size_t i = 0; i < c->n_tensors + c->n_keyed; i++) {
        const lm_tensor_info *t = &c->tensors[i];
        uint64_t              other;

        if (lm_map_add(c->by_name, lm_view_of(t->name), i))
            continue;
        if (lm_map_failed(c->by_name) || !lm_map_get(c->by_name, lm_view_of(t->name), &other))
            return lm_fail_memory(e, "the tensor table", c->n_tensors);
        const char *first = strrchr(lm_container_file_of(c, &c->tensors[other]), '/');
        lm_status   s = c->tensors[other].part == t->part
                            ? lm_fail(e, LM_BAD_MODEL, t->name, LM_NO_OFFSET, "the tensor appears twice")
                            : lm_fail(e, LM_BAD_MODEL, t->name, LM_NO_OFFSET, "the tensor is in %s too",
                                      first ? first + 1 : lm_container_file_of(c, &c->tensors[other]));
        lm_fail_in(e, lm_container_file_of(c, t));
        return s;
    }
    return LM_OK;
}

lm_status lm_tensor_measure(lm_tensor_info *t, int64_t at, lm_error *e)
{
    uint64_t row = t->n_dims ? t->dims[t->n_dims - 1] : 1, rows = 1, bytes;

    for (uint32_t i = 0; i + 1 < t->n_dims; i++)
        if (!lm_mul_u64(rows, t->dims[i], &rows))
            return lm_fail(e, LM_BAD_MODEL, t->name, at,
                           "the product of its dimensions does not fit 64 bits");
    for (uint32_t i = t->n_dims; i < LM_MAX_DIMS; i++)
        t->dims[i] = 1;
    if (!lm_mul_u64(rows, row, &t->elements) || t->elements > LM_MAX_ELEMENTS)
        return lm_fail(e, LM_BAD_MODEL, t->name, at, "more than 2^48 elements");
    if (row % lm_dtype_of(t->type)->block)
        return lm_fail(e, LM_BAD_MODEL, t->name, at,
                       "rows of %" PRIu64 " elements are not whole blocks of %u (%s)", row,
                       lm_dtype_of(t->type)->block, lm_dtype_of(t->type)->name);
    if (!lm_dtype_row_bytes(t->type, row, &bytes) || !lm_mul_u64(bytes, rows, &t->bytes))
        return lm_fail(e, LM_BAD_MODEL, t->name, at, "its size does not fit 64 bits");
    return LM_OK;
}

typedef struct copy_job {
    void       *to;
    const void *from;
    size_t      n;
} copy_job;

static lm_status copy_bytes(void *arg)
{
    const copy_job *job = arg;

    memcpy(job->to, job->from, job->n);
    return LM_OK;
}

lm_status lm_container_copy(const lm_filemap *f, size_t at, size_t n, void *to, lm_error *e)
{
    copy_job job = { to, n ? f->data + at : NULL, n };

    return n ? lm_filemap_guard(copy_bytes, &job, f->path, e) : LM_OK;
}

lm_status lm_tensor_check_name(lm_view name, size_t max, int64_t offset, lm_error *e)
{
    if (!name.size)
        return lm_fail(e, LM_BAD_MODEL, "tensor table", offset, "a tensor without a name");
    if (name.size > max)
        return lm_fail(e, LM_BAD_MODEL, "tensor table", offset,
                       "a tensor name of %zu bytes, at most %zu are allowed", name.size, max);
    for (size_t i = 0; i < name.size; i++)
        if ((unsigned char)name.data[i] < 0x20 || name.data[i] == 0x7f)
            return lm_fail(e, LM_BAD_MODEL, "tensor table", offset,
                           "control character 0x%02x in a tensor name", (unsigned char)name.data[i]);
    if (!lm_utf8_is_valid(name))
        return lm_fail(e, LM_BAD_MODEL, "tensor table", offset, "a tensor name is not UTF-8");
    return LM_OK;
}

/* ---- opening ---- */

static lm_status open_structure(const char *path, const lm_container_options *o, lm_container **out,
                                lm_error *e)
{
    lm_container *c;
    lm_status     status;
    char         *text = NULL, *slash;
    size_t        size;

    LM_TRY(lm_container_new(path, LM_SAFETENSORS, o, &c, e));
    LM_TRY_GOTO(status, lm_file_read(path, LM_MAX_JSON, &text, &size, e), done);
    LM_TRY_GOTO(status, lm_meta_take_json(text, size, path, LM_JSON_DEPTH, &c->meta, e), done);
    if (!(c->folder = lm_arena_strdup(&c->arena, path)))
        LM_TRY_GOTO(status, lm_fail_memory(e, "a container", strlen(path)), done);
    slash = strrchr(c->folder, '/');
    if (slash == c->folder)
        slash[1] = '\0';                        /* the root keeps its slash */
    else if (slash)
        slash[0] = '\0';
    else if (!(c->folder = lm_arena_strdup(&c->arena, ".")))
        LM_TRY_GOTO(status, lm_fail_memory(e, "a container", strlen(path)), done);
    LM_TRY_GOTO(status, lm_container_seal(c, e), done);
    LM_TRY_GOTO(status, lm_container_unnest(c, strrchr(path, '/') ? strrchr(path, '/') + 1 : path, e), done);
    *out = c;
    return LM_OK;

done:
    lm_container_close(c);
    return status;
}

/* Read the first bytes of a file without reading the rest. */
static lm_status read_head(const char *path, uint8_t head[HEAD], size_t *n, lm_error *e)
{
    lm_filemap f;

    LM_TRY(lm_filemap_open(path, true, &f, e));
    *n          = f.size < HEAD ? f.size : HEAD;
    lm_status s = lm_container_copy(&f, 0, *n, head, e);
    lm_filemap_close(&f);
    return s;
}

lm_status lm_container_open(const char *path, const lm_container_options *o, lm_container **out, lm_error *e)
{
    lm_view name = lm_view_of(path);
    uint8_t head[HEAD];
    size_t  n = 0;

    if (lm_path_is_folder(path))
        return lm_safetensors_open(path, o, out, e);
    LM_TRY(read_head(path, head, &n, e));
    LM_TRY(lm_container_refuse_foreign(path, head, n, e));
    if (n >= 4 && !memcmp(head, "GGUF", 4))
        return lm_gguf_open(path, o, out, e);
    if (lm_view_ends(name, LM_VIEW(".safetensors")) ||
        (n > 8 && head[8] == '{' && !head[7] && !head[6] && !head[5]))
        return lm_safetensors_open(path, o, out, e);
    if (lm_view_ends(name, LM_VIEW(".json")) && o && o->structure_only)
        return open_structure(path, o, out, e);
    if (lm_view_ends(name, LM_VIEW(".gguf")))
        return lm_gguf_open(path, o, out, e);
    lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "neither GGUF nor safetensors");
    lm_fail_in(e, path);
    return LM_BAD_MODEL;
}

lm_status lm_container_open_file(lm_filemap *file, const lm_container_options *o, lm_container **out,
                                 lm_error *e)
{
    uint8_t   head[HEAD];
    size_t    n      = file->size < HEAD ? file->size : HEAD;
    lm_status status = lm_container_copy(file, 0, n, head, e);

    if (status == LM_OK)
        status = lm_container_refuse_foreign(file->path, head, n, e);
    if (status == LM_OK && (n < 4 || memcmp(head, "GGUF", 4) != 0)) {
        status = lm_fail(e, LM_UNSUPPORTED, NULL, LM_NO_OFFSET,
                         "is not a GGUF file; open other models by path");
        lm_fail_in(e, file->path);
    }
    if (status == LM_OK)
        return lm_gguf_open_file(file, o, out, e);
    lm_filemap_close(file);
    return status;
}

/* ---- access ---- */

lm_container_kind     lm_container_kind_of(const lm_container *c) { return c->kind; }
const char           *lm_container_path(const lm_container *c) { return c->path; }
const char           *lm_container_warning(const lm_container *c) { return c->warning; }
const lm_meta        *lm_container_meta(const lm_container *c) { return c->meta; }
size_t                lm_container_n_tensors(const lm_container *c) { return c->n_tensors; }
size_t                lm_container_n_files(const lm_container *c) { return c->n_files; }

const lm_tensor_info *lm_container_tensor(const lm_container *c, size_t i)
{
    return i < c->n_tensors ? &c->tensors[i] : NULL;
}

const lm_filemap *lm_container_file(const lm_container *c, size_t i)
{
    return i < c->n_files ? &c->files[i] : NULL;
}

const lm_tensor_info *lm_container_find(const lm_container *c, const char *name)
{
    uint64_t i;

    return lm_map_get(c->by_name, lm_view_of(name), &i) ? &c->tensors[i] : NULL;
}

const void *lm_container_data(const lm_container *c, const lm_tensor_info *t)
{
    return t->made ? t->made : c->files[t->part].data + t->offset;
}

const char *lm_container_file_of(const lm_container *c, const lm_tensor_info *t)
{
    return c->files[t->part].path;
}

void lm_container_unpack(const lm_container *c, const lm_tensor_info *t, uint64_t from, uint64_t n,
                         float *out)
{
    const lm_dtype_info *d = lm_dtype_of(t->type);

    d->unpack(out, (const uint8_t *)lm_container_data(c, t) + from / d->block * d->bytes, (size_t)n);
}

/* ---- other files of a folder ---- */

lm_status lm_container_document(lm_container *c, const char *name, lm_json_file **out, lm_error *e)
{
    lm_json_file *d;

    if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "not the name of a file in the model's folder");
    for (d = c->documents; d && strcmp(d->name, name); d = d->next)
        ;
    if (!d) {
        if (!(d = lm_arena_new(&c->arena, 1, lm_json_file)) || !(d->name = lm_arena_strdup(&c->arena, name)))
            return lm_fail_memory(e, name, sizeof *d);
        d->next      = c->documents;
        c->documents = d;
    }
    *out = d;
    return LM_OK;
}

/* Read a file of the folder. `*text` NULL: it does not exist. */
static lm_status read_document(const lm_container *c, const char *name, char **path, char **text,
                               size_t *size, lm_error *e)
{
    lm_arena   *arena = &((lm_container *)(uintptr_t)c)->arena;      /* documents are read on first use */
    struct stat link;

    *text = NULL;
    *size = 0;
    if (!c->folder)
        return LM_OK;
    if (!(*path = lm_arena_printf(arena, "%s/%s", c->folder, name)))
        return lm_fail_memory(e, name, strlen(name));
    if (lstat(*path, &link) != 0)
        return errno == ENOENT || errno == ENOTDIR ? LM_OK : lm_fail_errno(e, *path, "cannot be read");
    if (S_ISLNK(link.st_mode) && stat(*path, &link) && errno == ENOENT) {
        lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "a link to a missing file; the download is incomplete");
        lm_fail_in(e, *path);
        return LM_BAD_MODEL;
    }
    return lm_file_read(*path, LM_MAX_JSON, text, size, e);
}

lm_status lm_container_text(lm_container *c, const char *name, lm_view *out, lm_error *e)
{
    lm_json_file *d = NULL;
    char        *path;

    LM_TRY(lm_container_document(c, name, &d, e));
    if (!d->read) {
        LM_TRY(read_document(c, name, &path, &d->text, &d->size, e));
        d->read = true;
    }
    *out = (lm_view){ d->text, d->size };
    return LM_OK;
}

lm_status lm_container_json(lm_container *c, const char *name, const lm_meta **out, lm_error *e)
{
    lm_json_file *d = NULL;
    char        *path, *text;
    size_t       size;

    LM_TRY(lm_container_document(c, name, &d, e));
    if (!d->parsed) {
        LM_TRY(read_document(c, name, &path, &text, &size, e));
        if (text)
            LM_TRY(lm_meta_take_json(text, size, path, LM_JSON_DEPTH, &d->meta, e));
        d->parsed = true;
    }
    *out = d->meta;
    return LM_OK;
}
