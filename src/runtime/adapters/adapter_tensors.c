/* adapter_tensors.c - the tensors of an adapter, module by module. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/adapters/adapter_file.h"

lm_adapter_entry *lm_adapter_entry_of(lm_adapter_file *f, const char *name, size_t n)
{
    /* in existing files, tensors of a module follow each other */
    for (size_t i = f->n_entries; i-- > 0;)
        if (strncmp(f->entries[i].name, name, n) == 0 && !f->entries[i].name[n])
            return &f->entries[i];
    if (f->n_entries == f->capacity) {
        size_t more = f->capacity ? 2 * f->capacity : 64;
        void  *p    = lm_realloc(f->entries, more * sizeof *f->entries);
        if (!p)
            return NULL;
        f->entries  = p;
        f->capacity = more;
    }
    char *own = lm_arena_strndup(&f->arena, name, n);
    if (!own)
        return NULL;
    f->entries[f->n_entries] = (lm_adapter_entry){ .name = own };
    return &f->entries[f->n_entries++];
}

lm_status lm_adapter_wrong(const lm_adapter_file *f, const lm_tensor_info *t, lm_status code, lm_error *e,
                           const char *format, ...)
{
    char    text[300];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lm_fail(e, code, t->name, (int64_t)t->offset, "%s", text);
    return lm_fail_in(e, lm_container_file_of(f->tensors, t));
}

uint64_t lm_adapter_in(const lm_adapter_file *f, const lm_adapter_entry *x)
{
    bool rows = f->turned || (x->table && f->format == LM_ADAPTER_GGUF);

    return x->a->dims[rows ? 0 : 1];
}

uint64_t lm_adapter_out(const lm_adapter_file *f, const lm_adapter_entry *x)
{
    return x->b->dims[f->turned ? 1 : 0];
}

void lm_adapter_unpack(const lm_adapter_file *f, const lm_tensor_info *t, bool turned, float *out)
{
    uint64_t rows = t->n_dims > 1 ? t->dims[0] : 1, cols = t->elements / rows;

    if (!turned) {
        lm_container_unpack(f->tensors, t, 0, t->elements, out);
        return;
    }
    for (uint64_t r = 0; r < rows; r++)                  /* only for float types: see `check_numbers` */
        for (uint64_t c = 0; c < cols; c++)
            lm_container_unpack(f->tensors, t, r * cols + c, 1, out + c * rows + r);
}
