/* convertgguf.c - create GGUF files from folders and from other GGUF files. */
#include <string.h>

#include "base/alloc.h"
#include "export/convert/conversion.h"
#include "export/synth/synthesis.h"

static uint64_t all_bytes(const lm_conversion *c)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < c->n; i++)
        sum += c->tensors[i].bytes;
    return sum;
}

/* Check that every part may be written under its name, and that there is enough disk space. */
static lm_status check_target(lm_conversion *c, const lm_parts_plan *p, const lm_container *in, lm_error *e)
{
    for (uint32_t k = 0; k < p->n; k++) {
        char *path = lm_part_path(p, k, &c->arena);
        if (!path)
            return lm_fail_memory(e, "a path", strlen(p->path));
        c->path = k ? c->path : path;
        /* later parts without a first one are left over from an interrupted run and may be replaced */
        lm_status status = lm_check_new_file(c, in, path, e);
        if (status != LM_OK && (k == 0 || (e && strstr(e->message, "same file"))))
            return status;
    }
    return lm_check_space(c->out, all_bytes(c), e);
}

typedef struct copying { lm_conversion *c; const lm_container *in; } copying;

static lm_status sink(void *file, const void *data, size_t n, lm_error *e)
{
    return lm_gguf_write(file, data, n, e);
}

static lm_status copy_tensor(void *arg, size_t i, lm_gguf_writer *w, lm_error *e)
{
    lm_conversion *c = ((copying *)arg)->c;

    return lm_move_tensor(&c->moving, &c->tensors[i], i, sink, w, e);
}

static lm_status check_inputs(void *arg, lm_error *e)
{
    const copying *copy = arg;

    return copy->c->moving.again ? lm_overflows_again(e) : lm_check_inputs(copy->in, e);
}

static lm_status write_file(lm_conversion *c, lm_parts_plan *p, const lm_container *in, lm_error *e)
{
    copying         copy   = { c, in };
    lm_parts_source source = { &copy, copy_tensor, check_inputs };

    lm_plan_parts(p, c->tensors, c->n);
    c->files = p->n;
    LM_TRY(check_target(c, p, in, e));
    if (c->o->dry_run)
        return LM_OK;
    LM_TRY(lm_moving_begin(&c->moving, c->tensors, c->n, c->o->threads, e));
    lm_status status = lm_write_parts(p, &source, c->tensors, c->n, &c->arena, e);
    if (!c->moving.again)
        return status;
    c->moving.again = false;
    c->moving.done  = 0;
    lm_plan_parts(p, c->tensors, c->n);
    c->files = p->n;
    LM_TRY(check_target(c, p, in, e));
    return lm_write_parts(p, &source, c->tensors, c->n, &c->arena, e);
}

/* ---- conversion of a folder ---- */

static lm_status carried_bytes(void *arg, size_t i, uint64_t from, uint64_t n, void *out, lm_error *e)
{
    return lm_gguf_view_bytes(arg, i, from, n, out, e);
}

static lm_status carried_floats(void *arg, size_t i, uint64_t from, uint64_t n, float *out, lm_error *e)
{
    return lm_gguf_view_floats(arg, i, from, n, out, e);
}

static void drop_carried(void *arg, size_t i)
{
    lm_gguf_view_drop(arg, i);
}

static lm_status list_carried(lm_conversion *c, lm_error *e)
{
    c->n       = c->carrier->n;
    c->tensors = lm_arena_new(&c->arena, c->n + 1, lm_moved);
    if (!c->tensors)
        return lm_fail_memory(e, "tensors", c->n * sizeof *c->tensors);
    for (size_t i = 0; i < c->n; i++) {
        const lm_gguf_tensor_view *t = &c->carrier->tensors[i];
        c->tensors[i] = (lm_moved){ .name = t->name,
                                    .from = t->stored,
                                    .to = t->type,
                                    .own = !c->type || t->type != *c->type,
                                    .raw = lm_gguf_view_is_raw(c->carrier, i),
                                    .n_dims = t->n_dims,
                                    .dims = { t->dims[0], t->dims[1], t->dims[2] },
                                    .elements = t->elements,
                                    .rows = t->rows,
                                    .cols = t->cols };
        LM_TRY(lm_moved_measure(&c->tensors[i], e));
    }
    return LM_OK;
}

lm_status lm_convert_to_gguf(lm_conversion *c, lm_error *e)
{
    lm_container *folder = c->container;

    c->container = NULL;
    LM_TRY(lm_gguf_view_open(folder, &c->carrier, e));
    c->family      = c->carrier->family->name;
    uint32_t id    = lm_gguf_view_choose(c->carrier, c->type);
    LM_TRY(lm_gguf_view_preview(c->carrier, c->o->name, e));
    lm_text_add_view(&c->notes, lm_text_view(&c->carrier->notes));
    LM_TRY(list_carried(c, e));
    lm_parts_plan p = { .path = c->out,
                        .keys = lm_container_meta(c->carrier->seen),
                        .file_type = id,
                        .max_bytes = c->o->part_bytes,
                        .max_tensors = c->o->part_tensors };
    c->moving.source = (lm_row_source){ c->carrier, carried_bytes, carried_floats, drop_carried };
    return write_file(c, &p, c->carrier->folder, e);
}

/* ---- conversion of a GGUF file ---- */

typedef struct stored {
    const lm_container *in;
    const lm_tensor_info *t;
    uint64_t cols, from, n;
    void *out;
} stored;

static lm_status copy_guarded(void *arg)
{
    const stored *s = arg;
    uint64_t      row = s->t->bytes / (s->t->elements / s->cols);

    memcpy(s->out, (const uint8_t *)lm_container_data(s->in, s->t) + s->from * row, s->n * row);
    return LM_OK;
}

static lm_status unpack_guarded(void *arg)
{
    const stored *s = arg;

    lm_container_unpack(s->in, s->t, s->from * s->cols, s->n * s->cols, s->out);
    return LM_OK;
}

static lm_status stored_bytes(void *arg, size_t i, uint64_t from, uint64_t n, void *out, lm_error *e)
{
    const lm_conversion  *c = arg;
    const lm_tensor_info *t = lm_container_tensor(c->container, i);

    return lm_filemap_guard(copy_guarded, &(stored){ c->container, t, c->tensors[i].cols, from, n, out },
                            lm_container_file_of(c->container, t), e);
}

static lm_status stored_floats(void *arg, size_t i, uint64_t from, uint64_t n, float *out, lm_error *e)
{
    const lm_conversion  *c = arg;
    const lm_tensor_info *t = lm_container_tensor(c->container, i);

    return lm_filemap_guard(unpack_guarded, &(stored){ c->container, t, c->tensors[i].cols, from, n, out },
                            lm_container_file_of(c->container, t), e);
}

static void drop_stored(void *arg, size_t i)
{
    const lm_conversion  *c = arg;
    const lm_tensor_info *t = lm_container_tensor(c->container, i);

    lm_filemap_drop(lm_container_file(c->container, t->part), t->offset, t->bytes);
}

/* List the tensors. Matrices get the requested type; tensors that are F32 in all files keep theirs. */
static lm_status list_stored(lm_conversion *c, bool *changed, lm_error *e)
{
    c->n       = lm_container_n_tensors(c->container);
    c->tensors = lm_arena_new(&c->arena, c->n + 1, lm_moved);
    if (!c->tensors)
        return lm_fail_memory(e, "tensors", c->n * sizeof *c->tensors);
    for (size_t i = 0; i < c->n; i++) {
        const lm_tensor_info *t = lm_container_tensor(c->container, i);
        lm_moved             *m = &c->tensors[i];
        *m = (lm_moved){
            .name = t->name, .from = t->type, .to = t->type, .n_dims = t->n_dims, .elements = t->elements
        };
        memcpy(m->dims, t->dims, t->n_dims * sizeof *m->dims);
        m->cols = t->n_dims ? t->dims[t->n_dims - 1] : 1;
        m->rows = t->elements / m->cols;
        if (c->type && lm_is_packed(t->name, t->n_dims) && lm_dtype_of(t->type)->unpack)
            m->to = m->cols % lm_dtype_of(*c->type)->block ? LM_F16 : *c->type;
        m->own = !c->type || m->to != *c->type;
        m->raw = m->to == m->from;
        *changed |= !m->raw;
        LM_TRY(lm_moved_measure(m, e));
    }
    return LM_OK;
}

lm_status lm_convert_gguf_again(lm_conversion *c, lm_error *e)
{
    static const char *const retyped[] = { "general.file_type", NULL };
    static const uint32_t    ids[]     = { [LM_F32] = 0, [LM_F16] = 1, [LM_Q8_0] = 7, [LM_BF16] = 32 };
    bool                     changed   = false;

    LM_TRY(list_stored(c, &changed, e));
    lm_parts_plan p = { .path = c->out,
                        .keys = lm_container_meta(c->container),
                        .file_type = -1,
                        .max_bytes = c->o->part_bytes,
                        .max_tensors = c->o->part_tensors };
    if (changed) {
        p.except    = retyped;
        p.file_type = ids[*c->type];
    }
    if (c->o->name)
        lm_text_add_str(&c->notes, "the name of a GGUF file that is cut anew is left as it is\n");
    c->moving.source = (lm_row_source){ c, stored_bytes, stored_floats, drop_stored };
    return write_file(c, &p, c->container, e);
}
