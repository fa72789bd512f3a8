/* values.c - save values to a file row by row: memory use does not grow with the length of the sequence. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "formats/safetensors.h"
#include "trace/tracer.h"

typedef struct lm_trace_file {
    lm_safetensors_writer *tensors;  /* or */
    lm_outfile            *array;
    uint64_t               header;   /* bytes before the data of an array */
    uint32_t               length, rows;
    uint64_t               ids;      /* their offset */
} lm_trace_file;

/* ---- selection of values ---- */

static lm_status add_saved(lm_tracer *t, lm_trace_saved s, lm_error *e)
{
    for (size_t i = 0; i < t->n_saved; i++)
        if (strcmp(t->saved[i].path, s.path) == 0)
            return LM_OK;
    lm_trace_saved *more = lm_realloc(t->saved, (t->n_saved + 1) * sizeof *more);
    if (!more)
        return lm_fail_memory(e, "values", t->n_saved);
    t->saved = more;
    t->saved[t->n_saved++] = s;
    return LM_OK;
}

static lm_status find_values(lm_tracer *t, const char *pattern, bool *some, lm_error *e)
{
    for (uint32_t i = 0; i < t->p->n_nodes; i++) {
        lm_value    v    = t->p->nodes[i].out;
        const char *path = t->p->nodes[i].path;
        if (strchr(path, '#') || lm_program_value(t->p, path) != v || !lm_trace_matches(pattern, path))
            continue;
        *some = true;
        LM_TRY(add_saved(t, (lm_trace_saved){ path, v, LM_NONE, t->p->values[v].width, 0 }, e));
    }
    return LM_OK;
}

/* The same value may have the path of an operation and that of an enclosing module. */
static lm_status find_modules(lm_tracer *t, const char *pattern, bool *some, lm_error *e)
{
    for (uint32_t m = 0; m < t->p->n_modules; m++) {
        const lm_module *x = &t->p->modules[m];
        if (x->out == LM_NONE || !x->path[0] || !lm_trace_matches(pattern, x->path))
            continue;
        *some = true;
        LM_TRY(add_saved(t, (lm_trace_saved){ x->path, x->out, LM_NONE, t->p->values[x->out].width, 0 }, e));
    }
    return LM_OK;
}

static lm_status find_weights(lm_tracer *t, const char *pattern, bool *some, lm_error *e)
{
    for (size_t k = 0; k < t->n_keys; k++) {
        const lm_node *n    = &t->p->nodes[t->keys[k].node];
        const char    *path = lm_trace_block(t->p, n->module);
        if (!lm_trace_matches(pattern, path))
            continue;
        char *name = lm_arena_printf(&t->arena, "%s#weights", path);
        if (!name)
            return lm_fail_memory(e, "values", 0);
        *some = true;
        LM_TRY(add_saved(t, (lm_trace_saved){ name, LM_NONE, (uint32_t)k, n->attention.spec.n_heads, 0 }, e));
    }
    return LM_OK;
}

lm_status lm_trace_find_saved(lm_tracer *t, lm_error *e)
{
    for (size_t i = 0; t->o.values && t->o.values[i]; i++) {
        const char *pattern = t->o.values[i];
        size_t      n       = strlen(pattern);
        bool        some    = false;
        if (n > 8 && strcmp(pattern + n - 8, "#weights") == 0) {
            char *stem = lm_arena_strndup(&t->arena, pattern, n - 8);
            if (!stem)
                return lm_fail_memory(e, "values", n);
            LM_TRY(find_weights(t, stem, &some, e));
        } else if (strcmp(pattern, "logits") == 0) {
            some = true;
            LM_TRY(add_saved(t, (lm_trace_saved){ "logits", t->p->logits, LM_NONE, t->p->n_vocab, 0 }, e));
        } else {
            LM_TRY(find_modules(t, pattern, &some, e));
            LM_TRY(find_values(t, pattern, &some, e));
        }
        if (!some) {
            lm_fail(e, LM_USAGE, pattern, LM_NO_OFFSET, "no value of this model has this path");
            return lm_trace_hint(t->p, pattern, e);
        }
    }
    return LM_OK;
}

/* ---- the file ---- */

static lm_status begin_array(lm_tracer *t, const char *path, uint32_t length, lm_error *e)
{
    const lm_trace_saved *s = t->saved;
    char                  head[256], shape[96];
    int                   n;

    if (t->n_saved != 1) {
        lm_fail(e, LM_USAGE, "values", LM_NO_OFFSET,
                "%zu of them; a .npy file holds one, a .safetensors file any number", t->n_saved);
        return lm_fail_in(e, path);
    }
    if (s->value == LM_NONE)
        snprintf(shape, sizeof shape, "(%u, %u, %u)", s->width, length, length);
    else
        snprintf(shape, sizeof shape, "(%u, %u)", length, s->width);
    n = snprintf(head, sizeof head, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shape);
    while ((n + 10 + 1) % 64)
        head[n++] = ' ';
    head[n++]       = '\n';
    t->file->header = 10 + (uint64_t)n;
    LM_TRY(lm_outfile_open(path, &t->file->array, e));
    LM_TRY(lm_outfile_write(t->file->array, "\x93NUMPY\x01\x00", 8, e));
    LM_TRY(lm_outfile_write(t->file->array, (uint8_t[]){ (uint8_t)n, (uint8_t)(n >> 8) }, 2, e));
    return lm_outfile_write(t->file->array, head, (size_t)n, e);
}

static lm_status begin_tensors(lm_tracer *t, const char *path, uint32_t length, lm_error *e)
{
    uint64_t at = 0;

    LM_TRY(lm_safetensors_create(path, &t->file->tensors, e));
    lm_safetensors_add_meta(t->file->tensors, "source", t->m->name);
    for (size_t i = 0; i < t->n_saved; i++) {
        lm_trace_saved *s       = &t->saved[i];
        bool            weights = s->value == LM_NONE;
        uint64_t        dims[3] = { weights ? s->width : length, weights ? length : s->width, length }, bytes;
        s->offset = at;
        lm_safetensors_add_tensor(t->file->tensors, s->path, LM_F32, weights ? 3 : 2, dims);
        if (!lm_mul_u64(dims[0] * dims[1], weights ? (uint64_t)length * 4 : 4, &bytes))
            return lm_fail(e, LM_USAGE, s->path, LM_NO_OFFSET, "does not fit a file");
        at += bytes;
    }
    t->file->ids = at;
    lm_safetensors_add_tensor(t->file->tensors, "ids", LM_I64, 1, (uint64_t[]){ length });
    return lm_safetensors_begin(t->file->tensors, e);
}

lm_status lm_tracer_save(lm_tracer *t, const char *path, uint32_t length, lm_error *e)
{
    size_t n = path ? strlen(path) : 0;

    LM_REQUIRE(e, t && path);
    if (!t->n_saved)
        return lm_fail(e, LM_USAGE, "values", LM_NO_OFFSET, "none are requested");
    if (!length)
        return lm_fail(e, LM_USAGE, "values", LM_NO_OFFSET, "of no row");
    lm_trace_drop_file(t);
    t->file = lm_alloc_zero(1, sizeof *t->file);
    if (!t->file)
        return lm_fail_memory(e, "values", sizeof *t->file);
    t->file->length  = length;
    lm_status status = n > 4 && strcmp(path + n - 4, ".npy") == 0 ? begin_array(t, path, length, e)
                                                                  : begin_tensors(t, path, length, e);
    if (status != LM_OK)
        lm_trace_drop_file(t);
    return status;
}

static lm_status put(lm_trace_file *f, const lm_trace_saved *s, uint64_t offset, const float *x, uint64_t n,
                     lm_error *e)
{
    if (f->array)
        return lm_outfile_write_at(f->array, f->header + offset * 4, x, n * 4, e);
    return lm_safetensors_write_at(f->tensors, s->offset + offset * 4, x, n * 4, e);
}

static lm_status save_weights(lm_tracer *t, const lm_trace_saved *s, size_t i, uint32_t position, lm_error *e)
{
    const lm_trace_keys *k      = &t->keys[s->keys];
    const float         *q      = lm_engine_value(t->g, t->p->nodes[k->node].in[0], i);
    uint64_t             length = t->file->length;

    for (uint32_t h = 0; h < s->width; h++) {
        memset(t->lanes, 0, length * sizeof *t->lanes);
        if (q)
            lm_trace_head_weights(t, k, h, position, q, lm_trace_chosen(t, k, i), t->lanes);
        LM_TRY(put(t->file, s, (h * length + position) * length, t->lanes, length, e));
    }
    return LM_OK;
}

lm_status lm_trace_save_row(lm_tracer *t, size_t i, uint32_t position, lm_error *e)
{
    lm_trace_file *f = t->file;

    if (!f || position >= f->length)
        return LM_OK;
    for (size_t k = 0; k < t->n_saved; k++) {
        const lm_trace_saved *s = &t->saved[k];
        const float          *x = s->value == LM_NONE ? NULL : lm_engine_value(t->g, s->value, i);
        if (s->value == LM_NONE)
            LM_TRY(save_weights(t, s, i, position, e));
        else if (x)
            LM_TRY(put(f, s, (uint64_t)position * s->width, x, s->width, e));
        else
            return lm_fail(e, LM_FAILED, s->path, LM_NO_OFFSET, "is not computed for every row");
    }
    if (f->tensors)
        LM_TRY(lm_safetensors_write_at(f->tensors, f->ids + (uint64_t)position * 8,
                                       &(int64_t){ t->g->tokens[i] }, 8, e));
    f->rows++;
    return LM_OK;
}

lm_status lm_tracer_saved(lm_tracer *t, lm_error *e)
{
    LM_REQUIRE(e, t);
    lm_trace_file *f = t->file;
    lm_status      status;

    if (!f)
        return lm_fail(e, LM_USAGE, "values", LM_NO_OFFSET, "no file was begun");
    if (f->rows != f->length) {
        status = lm_fail(e, LM_USAGE, "values", LM_NO_OFFSET, "%u rows of %u were read", f->rows, f->length);
        lm_trace_drop_file(t);
        return status;
    }
    status = f->array ? lm_outfile_commit(f->array, e) : lm_safetensors_commit(f->tensors, e);
    lm_free(f);
    t->file = NULL;
    return status;
}

void lm_trace_drop_file(lm_tracer *t)
{
    if (!t->file)
        return;
    lm_outfile_abort(t->file->array);
    lm_safetensors_abort(t->file->tensors);
    lm_free(t->file);
    t->file = NULL;
}
