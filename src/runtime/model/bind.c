/* bind.c - find the tensor of every weight of a program, and the weight of every tensor. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "runtime/model/model.h"

static const lm_tensor_info *find_named(const lm_model *m, const char *name)
{
    return lm_find_tensor(m->family, m->container, name);
}

static const lm_tensor_info *find_tensor(const lm_model *m, const lm_weight *w, const char **name)
{
    bool gguf = lm_container_kind_of(m->container) == LM_GGUF;

    *name = gguf ? w->gguf : w->gguf_only ? NULL : w->path;
    return *name ? find_named(m, *name) : NULL;
}

static void shape_text(char *out, size_t size, const uint64_t *dims, uint32_t n)
{
    size_t at = (size_t)snprintf(out, size, "[");

    for (uint32_t i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%" PRIu64, i ? ", " : "", dims[i]);
    if (at < size)
        snprintf(out + at, size - at, "]");
}

static bool is_transposed(const lm_model *m, const lm_weight *w)
{
    return w->transposed && lm_container_kind_of(m->container) != LM_GGUF;
}

/* Compare two shapes. ggml drops slowest dimensions of one: its files (every quantised file) store a matrix
 * of one row as a vector. */
static bool same_shape(const uint64_t *a, uint32_t n, const uint64_t *b, uint32_t n_b, bool ones_dropped)
{
    for (; ones_dropped && n > 1 && *a == 1; n--)
        a++;
    for (; ones_dropped && n_b > 1 && *b == 1; n_b--)
        b++;
    return n == n_b && memcmp(a, b, n * sizeof *a) == 0;
}

/* Return whether all elements are in one dimension. */
static bool is_vector(const lm_tensor_info *t, uint64_t elements)
{
    uint64_t product = 1, widest = 1;

    for (uint32_t i = 0; i < t->n_dims; i++) {
        product *= t->dims[i];
        widest = t->dims[i] > widest ? t->dims[i] : widest;
    }
    return product == elements && widest == elements;
}

static lm_status check_shape(const lm_model *m, const lm_weight *w, const lm_tensor_info *t, lm_error *e)
{
    char     want[96], have[160];
    bool     gguf = lm_container_kind_of(m->container) == LM_GGUF;
    uint64_t wanted[LM_MAX_DIMS], between[3] = { w->dims[0], 1, w->dims[1] };
    uint32_t n = lm_weight_dims(w, gguf, wanted);

    if (same_shape(wanted, n, t->dims, t->n_dims, gguf) ||
        (!gguf && (w->flat || w->padded || w->in_row || w->scalar) && is_vector(t, w->elements)))
        return LM_OK;
    if (w->one_between && (same_shape(between, 3, t->dims, t->n_dims, gguf) ||
                           same_shape(w->dims, 2, t->dims, t->n_dims, gguf)))
        return LM_OK;
    shape_text(want, sizeof want, wanted, n);
    shape_text(have, sizeof have, t->dims, t->n_dims);
    lm_fail(e, LM_BAD_MODEL, t->name, (int64_t)t->offset, "expected %s, the file has %s", want, have);
    return lm_fail_in(e, lm_container_file_of(m->container, t));
}

/* Integer types hold indices and masks; weights in them belong to a quantisation whose scales are stored
 * elsewhere. */
static bool is_integer(lm_dtype t)
{
    return t == LM_I8 || t == LM_I16 || t == LM_I32 || t == LM_I64 || t == LM_BOOL || t == LM_U8 ||
           t == LM_U16 || t == LM_U32 || t == LM_U64;
}

static lm_status take_tensor(lm_model *m, uint32_t i, const lm_tensor_info *t, lm_map *used, lm_error *e)
{
    /* codes in bytes, which bind_codes has checked */
    bool codes = m->types[i] == LM_MXFP4 && t->type == LM_U8;

    bool listed = m->program->weights[i].below > 0;          /* indices, which are checked when loaded */

    if (!lm_dtype_of(t->type)->unpack || (is_integer(t->type) != listed && !codes)) {
        lm_fail(e, LM_UNSUPPORTED, t->name, (int64_t)t->offset, "unsupported weight type %s",
                lm_dtype_of(t->type)->name);
        return lm_fail_in(e, lm_container_file_of(m->container, t));
    }
    if (m->transposed[i] && lm_dtype_of(t->type)->block != 1) {
        lm_fail(e, LM_UNSUPPORTED, t->name, (int64_t)t->offset, "blocks of %s cannot be transposed",
                lm_dtype_of(t->type)->name);
        return lm_fail_in(e, lm_container_file_of(m->container, t));
    }
    m->weight_bytes += t->bytes;
    return lm_map_set(used, lm_view_of(t->name), 1) ? LM_OK : lm_fail_memory(e, "tensors", 0);
}

/* Write the name of part k: of "….experts.*.w1.weight" expert k's tensor, of "….norms.*.weight" head k's.
 * GGUF files of early 2024 have "blk.0.ffn_gate.k.weight" where later ones have all experts in
 * "blk.0.ffn_gate_exps.weight". */
static void part_name(const lm_model *m, const lm_weight *w, uint64_t k, char *name, size_t size)
{
    bool        gguf  = lm_container_kind_of(m->container) == LM_GGUF;
    const char *whole = gguf ? w->gguf : w->path,
               *place = gguf ? strstr(whole, "_exps.") : strchr(whole, '*');

    snprintf(name, size, "%.*s%s%" PRIu64 "%s", (int)(place - whole), whole, gguf ? "." : "", k,
             gguf ? place + 5 : place + 1);
}

static bool is_in_parts(const lm_model *m, const lm_weight *w)
{
    char name[256];

    if (lm_container_kind_of(m->container) != LM_GGUF)
        return strchr(w->path, '*') != NULL;
    if (!w->gguf || !strstr(w->gguf, "_exps.") || lm_container_find(m->container, w->gguf))
        return false;
    part_name(m, w, 0, name, sizeof name);
    return lm_container_find(m->container, name) != NULL;
}

static lm_status part_tensor(const lm_model *m, const lm_weight *w, uint64_t k, const lm_tensor_info **out,
                             lm_error *e)
{
    char name[256];

    part_name(m, w, k, name, sizeof name);
    *out = find_named(m, name);
    if (*out)
        return LM_OK;
    lm_fail(e, LM_BAD_MODEL, name, LM_NO_OFFSET, "missing from the file");
    return lm_fail_in(e, lm_container_path(m->container));
}

/* Bind experts, or norms of heads, that are stored one by one: all must exist, with the same shape and
 * type. */
static lm_status bind_each(lm_model *m, uint32_t i, lm_map *used, lm_error *e)
{
    const lm_weight *w      = &m->program->weights[i];
    lm_weight        single = *w;

    single.n_dims  = w->n_dims - 1;
    single.dims[0] = w->dims[1];
    single.dims[1] = w->dims[2];
    m->each[i]     = lm_arena_new(&m->arena, w->dims[0], const lm_tensor_info *);
    if (!m->each[i])
        return lm_fail_memory(e, "tensors", w->dims[0]);
    for (uint64_t k = 0; k < w->dims[0]; k++) {
        const lm_tensor_info *t;
        LM_TRY(part_tensor(m, w, k, &t, e));
        LM_TRY(check_shape(m, &single, t, e));
        LM_TRY(take_tensor(m, i, t, used, e));
        m->each[i][k] = t;
        if (t->type != m->each[i][0]->type) {
            lm_fail(e, LM_UNSUPPORTED, t->name, (int64_t)t->offset,
                    "parts of one weight are stored in different types");
            return lm_fail_in(e, lm_container_file_of(m->container, t));
        }
    }
    m->tensors[i] = m->each[i][0];
    m->types[i]   = m->tensors[i]->type;
    return LM_OK;
}

/* Bind the matrices of heads: stored with others in one tensor, or all heads of this kind in a separate
 * tensor, flat or not. */
static lm_status bind_heads(lm_model *m, uint32_t i, lm_map *used, lm_error *e)
{
    const lm_weight      *w      = &m->program->weights[i];
    lm_weight             stored = *w;
    const char           *name   = w->joint.path;
    const lm_tensor_info *t;
    uint64_t              hit;

    stored.path      = w->joint.path;
    stored.gguf      = w->joint.gguf;
    stored.n_dims    = 2;
    t                = find_tensor(m, &stored, &name);
    m->jointly[i]    = t;
    m->transposed[i] = t ? w->joint.transposed : w->joint.alone_transposed;
    if (t) {
        stored.dims[0] = w->dims[0] * w->joint.of;
        stored.dims[1] = w->dims[w->joint.transposed ? 1 : 2];
        if (w->joint.by_head) {
            stored.n_dims  = 3;
            stored.dims[2] = stored.dims[1];
            stored.dims[1] = w->joint.of;
            stored.dims[0] = w->dims[0];
        }
    } else if (lm_container_kind_of(m->container) == LM_GGUF && w->gguf &&
               (t = lm_container_find(m->container, w->gguf))) {
        stored.n_dims  = t->n_dims == 2 ? 2 : 3;
        stored.dims[1] = w->dims[w->joint.alone_transposed ? 2 : 1];
        stored.dims[2] = w->dims[w->joint.alone_transposed ? 1 : 2];
        if (stored.n_dims == 2) {
            stored.dims[0] *= stored.dims[1];
            stored.dims[1] = stored.dims[2];
        }
    } else {
        lm_fail(e, LM_BAD_MODEL,
                w->gguf && lm_container_kind_of(m->container) == LM_GGUF ? w->gguf : w->joint.path,
                LM_NO_OFFSET, "missing from the file");
        return lm_fail_in(e, lm_container_path(m->container));
    }
    LM_TRY(check_shape(m, &stored, t, e));
    m->tensors[i] = t;
    m->types[i]   = t->type;
    if (lm_map_get(used, lm_view_of(t->name), &hit))
        return LM_OK;
    bool transposed      = m->transposed[i];
    m->transposed[i] = false;    /* blocks that must be transposed are unpacked */
    lm_status status = take_tensor(m, i, t, used, e);
    m->transposed[i] = transposed;
    return status;
}

/* Bind a tensor of codes and a tensor of exponents, one per block (OCP Microscaling, four bits). */
static lm_status bind_codes(lm_model *m, uint32_t i, lm_map *used, lm_error *e)
{
    const lm_weight      *w      = &m->program->weights[i];
    const lm_tensor_info *t      = find_named(m, w->interleaved.codes);
    const lm_tensor_info *scales = find_named(m, w->interleaved.exponents);
    lm_weight             stored = *w;
    uint64_t              hit;

    if (!t || !scales) {
        lm_fail(e, LM_BAD_MODEL, t ? w->interleaved.exponents : w->interleaved.path, LM_NO_OFFSET,
                "missing from the file");
        return lm_fail_in(e, lm_container_path(m->container));
    }
    if (w->dims[2] % 32 || t->type != LM_U8 || scales->type != LM_U8 || t->n_dims != 4 || t->dims[3] != 16) {
        lm_fail(e, LM_BAD_MODEL, t->name, (int64_t)t->offset,
                "not MXFP4: expected blocks of 32 four-bit codes with exponents");
        return lm_fail_in(e, lm_container_file_of(m->container, t));
    }
    stored.dims[1] = w->interleaved.of;
    stored.dims[2] = w->dims[2] / 32;
    LM_TRY(check_shape(m, &stored, scales, e));
    lm_tensor_info blocks = *t;
    blocks.n_dims         = 3;
    LM_TRY(check_shape(m, &stored, &blocks, e));
    m->tensors[i]   = t;
    m->exponents[i] = scales;
    m->types[i]     = LM_MXFP4;
    if (!lm_map_get(used, lm_view_of(t->name), &hit)) {
        LM_TRY(take_tensor(m, i, scales, used, e));
        LM_TRY(take_tensor(m, i, t, used, e));
    }
    m->transposed[i] = true;
    return LM_OK;
}

/* Bind a weight that shares a tensor with other weights of the experts. */
static lm_status bind_interleaved(lm_model *m, uint32_t i, lm_map *used, lm_error *e)
{
    const lm_weight      *w      = &m->program->weights[i];
    const lm_tensor_info *t      = lm_container_kind_of(m->container) == LM_GGUF
                                       ? lm_container_find(m->container, w->interleaved.gguf)
                                       : find_named(m, w->interleaved.path);
    lm_weight             stored = *w;
    uint64_t              hit;

    m->interleaved[i] = true;
    if (!t && w->interleaved.codes)
        return bind_codes(m, i, used, e);
    if (!t) {
        lm_fail(e, LM_BAD_MODEL, w->interleaved.path, LM_NO_OFFSET, "missing from the file");
        return lm_fail_in(e, lm_container_path(m->container));
    }
    stored.dims[1] = w->interleaved.transposed ? w->dims[2] : w->interleaved.of;
    stored.dims[2] = w->interleaved.transposed ? w->interleaved.of : w->dims[2];
    LM_TRY(check_shape(m, &stored, t, e));
    m->tensors[i] = t;
    m->types[i]   = t->type;
    if (!lm_map_get(used, lm_view_of(t->name), &hit))
        LM_TRY(take_tensor(m, i, t, used, e));
    m->transposed[i] = w->interleaved.transposed || w->interleaved.step != 1;
    return LM_OK;
}

static lm_status bind_weight(lm_model *m, uint32_t i, lm_map *used, lm_error *e)
{
    const lm_weight *w = &m->program->weights[i];
    const char      *name;

    if (w->kind == LM_HEADS)
        return bind_heads(m, i, used, e);
    if (lm_container_kind_of(m->container) == LM_GGUF
            ? w->interleaved.gguf && lm_container_find(m->container, w->interleaved.gguf)
            : w->interleaved.path != NULL)
        return bind_interleaved(m, i, used, e);
    if (is_in_parts(m, w))
        return bind_each(m, i, used, e);
    const lm_tensor_info *t = find_tensor(m, w, &name);
    if (!t && w->gguf_key && name == w->gguf)
        lm_fail(e, LM_BAD_MODEL, w->gguf_key, LM_NO_OFFSET, "not a list of float32 with an entry for every layer");
    else if (!t)
        lm_fail(e, LM_BAD_MODEL, name ? name : w->path, LM_NO_OFFSET, "missing from the file");
    if (!t)
        return lm_fail_in(e, lm_container_path(m->container));
    LM_TRY(check_shape(m, w, t, e));
    m->tensors[i]    = t;
    m->types[i]      = t->type;
    m->transposed[i] = is_transposed(m, w);
    return take_tensor(m, i, t, used, e);
}

/* A tied head may be stored again; identical bytes are not a second head (registry.c decides that). */
static bool is_tied_copy(const lm_model *m, const char *name)
{
    return m->config.tied && strcmp(name, "lm_head.weight") == 0;
}

static lm_status check_unused(lm_model *m, const lm_map *used, bool allow_unused, lm_error *e)
{
    const lm_tensor_info *first = NULL;
    size_t                count = 0;
    uint64_t              hit;

    for (size_t i = 0; i < lm_container_n_tensors(m->container); i++) {
        const lm_tensor_info *t = lm_container_tensor(m->container, i);
        if (lm_map_get(used, lm_view_of(t->name), &hit) || is_tied_copy(m, t->name) ||
            lm_family_ignores(m->family, m->program->n_layers, t->name))
            continue;
        first = first ? first : t;
        count++;
    }
    if (!count)
        return LM_OK;
    if (allow_unused) {
        lm_text_printf(&m->warnings, "%zu tensor%s that nothing uses, the first is %s\n", count,
                       count > 1 ? "s" : "", first->name);
        return LM_OK;
    }
    if (count > 1)
        lm_fail(e, LM_BAD_MODEL, first->name, (int64_t)first->offset, "unused tensor, like %zu more",
                count - 1);
    else
        lm_fail(e, LM_BAD_MODEL, first->name, (int64_t)first->offset, "unused tensor");
    lm_fail_in(e, lm_container_file_of(m->container, first));
    return lm_fail_hint(e, "use `allow_unused` to ignore unused tensors");
}

lm_status lm_model_bind(lm_model *m, bool allow_unused, lm_error *e)
{
    const lm_program *p      = m->program;
    lm_status         status = LM_OK;

    m->tensors   = lm_arena_new(&m->arena, p->n_weights + 1, const lm_tensor_info *);
    m->exponents = lm_arena_new(&m->arena, p->n_weights + 1, const lm_tensor_info *);
    m->each      = lm_arena_new(&m->arena, p->n_weights + 1, const lm_tensor_info **);
    lm_map *used = lm_map_new(p->n_weights);
    if (!m->tensors || !m->exponents || !m->each || !used)
        status = lm_fail_memory(e, "tensors", 0);
    for (uint32_t i = 0; status == LM_OK && i < p->n_weights; i++)
        status = bind_weight(m, i, used, e);
    if (status == LM_OK)
        status = check_unused(m, used, allow_unused, e);
    lm_map_free(used);
    return status;
}
