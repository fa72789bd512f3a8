/* ggufparts.c - write a model as several files, split like llama-gguf-split does: all keys in the first file,
 * a count in each. */
#include "export/files/ggufparts.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"

void lm_plan_parts(lm_parts_plan *p, lm_moved *tensors, size_t n)
{
    uint64_t bytes = 0;
    uint32_t part = 0, in_part = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t padded = (tensors[i].bytes + 31) / 32 * 32;
        bool full = (p->max_bytes && bytes + padded > p->max_bytes) ||
                    (p->max_tensors && in_part == p->max_tensors);
        if (in_part && full) {
            part++;
            bytes = in_part = 0;
        }
        tensors[i].part = part;
        bytes += padded;
        in_part++;
    }
    p->n = part + 1;
}

char *lm_part_path(const lm_parts_plan *p, uint32_t k, lm_arena *arena)
{
    size_t stem = strlen(p->path);

    if (p->n == 1)
        return lm_arena_strdup(arena, p->path);
    if (stem > 5 && strcmp(p->path + stem - 5, ".gguf") == 0)
        stem -= 5;
    return lm_arena_printf(arena, "%.*s-%05u-of-%05u.gguf", (int)stem, p->path, k + 1, p->n);
}

static lm_status begin(const lm_parts_plan *p, void *arg, uint32_t k, const lm_moved *tensors, size_t n,
                       lm_gguf_writer *w, lm_error *e)
{
    if (k == 0) {
        lm_gguf_add_some(w, p->keys, "", p->except);
        if (p->file_type >= 0)
            lm_gguf_add_u32(w, "general.file_type", (uint32_t)p->file_type);
        if (p->more_keys)
            p->more_keys(arg, w);
    }
    if (p->n > 1) {
        lm_gguf_add_u16(w, "split.no", (uint16_t)k);
        lm_gguf_add_u16(w, "split.count", (uint16_t)p->n);
        lm_gguf_add_i32(w, "split.tensors.count", (int32_t)n);
    }
    for (size_t i = 0; i < n; i++)
        if (tensors[i].part == k)
            lm_gguf_add_tensor(w, tensors[i].name, tensors[i].to, tensors[i].n_dims, tensors[i].dims);
    return lm_gguf_begin(w, e);
}

static lm_status fill(const lm_parts_plan *p, lm_gguf_writer **files, const lm_parts_source *source,
                      const lm_moved *tensors, size_t n, lm_arena *arena, lm_error *e)
{
    for (uint32_t k = 0; k < p->n; k++) {
        char *path = lm_part_path(p, k, arena);
        if (!path)
            return lm_fail_memory(e, "a path", strlen(p->path));
        LM_TRY(lm_gguf_create(path, &files[k], e));
        LM_TRY(begin(p, source->arg, k, tensors, n, files[k], e));
        for (size_t i = 0; i < n; i++)
            if (tensors[i].part == k)
                LM_TRY(source->tensor(source->arg, i, files[k], e));
    }
    return source->check(source->arg, e);
}

lm_status lm_write_parts(const lm_parts_plan *p, const lm_parts_source *source, const lm_moved *tensors,
                         size_t n, lm_arena *arena, lm_error *e)
{
    if (p->n > UINT16_MAX)
        return lm_fail(e, LM_USAGE, "parts", LM_NO_OFFSET, "%u files are too many: allow larger ones", p->n);
    lm_gguf_writer **files = lm_alloc_zero(p->n, sizeof *files);
    if (!files)
        return lm_fail_memory(e, "files", p->n * sizeof *files);
    lm_status status = fill(p, files, source, tensors, n, arena, e);
    for (uint32_t k = p->n; k-- > 0 && status == LM_OK;) {
        lm_gguf_writer *w = files[k];
        files[k]          = NULL;
        status            = lm_gguf_commit(w, e);
    }
    for (uint32_t k = 0; k < p->n; k++)
        lm_gguf_abort(files[k]);
    lm_free(files);
    return status;
}
