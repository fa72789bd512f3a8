/* feed.c - read rows of a GGUF file, or of a folder in the order of a GGUF file. */
#include "export/files/feed.h"

#include <string.h>
#include <sys/stat.h>

#include "export/tensors/overflow.h"

static lm_status open_folder(lm_container *folder, lm_feed *f, lm_error *e)
{
    LM_TRY(lm_gguf_view_open(folder, &f->carrier, e));
    lm_status status = lm_gguf_view_preview(f->carrier, NULL, e);
    if (status != LM_OK)
        lm_feed_close(f);
    else
        f->seen = f->carrier->seen;
    return status;
}

lm_status lm_feed_open(const char *path, lm_feed *out, lm_error *e)
{
    lm_container *c;

    *out = (lm_feed){ 0 };
    LM_TRY(lm_container_open(path, NULL, &c, e));
    if (lm_container_kind_of(c) != LM_GGUF)
        return open_folder(c, out, e);
    out->seen = out->file = c;
    return LM_OK;
}

void lm_feed_close(lm_feed *f)
{
    lm_gguf_view_close(f->carrier);
    lm_container_close(f->file);
    *f = (lm_feed){ 0 };
}

static uint64_t cols_of(const lm_tensor_info *t)
{
    return t->n_dims ? t->dims[t->n_dims - 1] : 1;
}

lm_status lm_feed_floats(const lm_feed *f, size_t i, uint64_t from, uint64_t n, float *out, lm_error *e)
{
    if (f->carrier)
        return lm_gguf_view_floats(f->carrier, i, from, n, out, e);
    const lm_tensor_info *t = lm_container_tensor(f->file, i);
    lm_container_unpack(f->file, t, from * cols_of(t), n * cols_of(t), out);
    return LM_OK;
}

/* Read rows whose stored bytes differ from those of the file: norms that a checkpoint stores less one, and
 * types missing from GGUF. */
static lm_status unpacked_bytes(const lm_feed *f, size_t i, uint64_t from, uint64_t n, void *out, lm_error *e)
{
    const lm_gguf_tensor_view *t = &f->carrier->tensors[i];

    if (t->type == LM_F32 || t->type == LM_I32)
        LM_TRY(lm_gguf_view_floats(f->carrier, i, from, n, out, e));
    if (t->type == LM_I32)                       /* indices, in place */
        lm_pack_whole(LM_I32, out, out, n * t->cols);
    if (t->type == LM_F32 || t->type == LM_I32)
        return LM_OK;
    return lm_fail(e, LM_UNSUPPORTED, t->name, LM_NO_OFFSET, "cannot make %s from %s",
                   lm_dtype_of(t->type)->name, lm_dtype_of(t->stored)->name);
}

lm_status lm_feed_bytes(const lm_feed *f, size_t i, uint64_t from, uint64_t n, void *out, lm_error *e)
{
    if (f->carrier)
        return lm_gguf_view_is_raw(f->carrier, i) ? lm_gguf_view_bytes(f->carrier, i, from, n, out, e)
                                                : unpacked_bytes(f, i, from, n, out, e);
    const lm_tensor_info *t = lm_container_tensor(f->file, i);
    uint64_t              row = t->bytes / (t->elements / cols_of(t));
    memcpy(out, (const uint8_t *)lm_container_data(f->file, t) + from * row, n * row);
    return LM_OK;
}

void lm_feed_drop(const lm_feed *f, size_t i)
{
    if (f->carrier) {
        lm_gguf_view_drop(f->carrier, i);
        return;
    }
    const lm_tensor_info *t = lm_container_tensor(f->file, i);
    lm_filemap_drop(lm_container_file(f->file, t->part), t->offset, t->bytes);
}

/* ---- input files ---- */

static const lm_container *files_of(const lm_feed *f)
{
    return f->carrier ? f->carrier->folder : f->file;
}

lm_status lm_feed_refuse(const lm_feed *f, const char *path, lm_error *e)
{
    struct stat a, b;

    if (stat(path, &b) != 0)
        return LM_OK;
    for (size_t i = 0; i < lm_container_n_files(files_of(f)); i++)
        if (stat(lm_container_file(files_of(f), i)->path, &a) == 0 && a.st_dev == b.st_dev &&
            a.st_ino == b.st_ino)
            return lm_fail(e, LM_USAGE, path, LM_NO_OFFSET, "input and output are the same file");
    return LM_OK;
}

lm_status lm_feed_check(const lm_feed *f, lm_error *e)
{
    for (size_t i = 0; i < lm_container_n_files(files_of(f)); i++)
        LM_TRY(lm_filemap_check(lm_container_file(files_of(f), i), e));
    return LM_OK;
}

const char *lm_feed_path(const lm_feed *f)
{
    return lm_container_path(files_of(f));
}

lm_view lm_feed_notes(const lm_feed *f)
{
    return f->carrier ? lm_text_view(&f->carrier->notes) : lm_view_of("");
}
