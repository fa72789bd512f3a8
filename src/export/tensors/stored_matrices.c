/* stored_matrices.c - find the bytes of a program's weights in a container. */
#include "export/tensors/stored_matrices.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "tensor/blocks.h"

/* How the rows of a weight are stored. */
typedef enum layout {
    PLAIN,                           /* [matrices][out][in] */
    EACH,                            /* one tensor per matrix */
    TURNED,                          /* [in][out] */
    JOINT,                           /* among the rows of other weights */
    JOINT_TURNED,                    /* the same, but the program uses the transpose */
    ALONE_TURNED,                    /* [matrices][in][out] */
    BETWEEN,                         /* every few rows of one tensor per matrix */
    BETWEEN_TURNED,                  /* every few columns of one tensor per matrix */
    CODES,                           /* four-bit codes and exponents in separate tensors */
} layout;

typedef struct place {
    layout                 how;
    const lm_tensor_info  *tensor, *exponents;
    const lm_tensor_info **each;
    lm_dtype               type;
    lm_row_order           order;    /* of the stored rows */
    uint64_t               rows, cols;
} place;

struct lm_matrices {
    const lm_container *c;
    const lm_family    *family;
    const lm_config    *config;
    const lm_program   *p;
    lm_arena            arena;
    place              *places;
    lm_map             *used;
    const lm_tensor_info *unused;
    size_t              n_unused;
};

static bool is_gguf(const lm_matrices *m)
{
    return lm_container_kind_of(m->c) == LM_GGUF;
}

/* ---- lookup of tensors ---- */

static const lm_tensor_info *find(const lm_matrices *m, const char *name)
{
    return name ? lm_find_tensor(m->family, m->c, name) : NULL;
}

static lm_status missing(const lm_matrices *m, const char *name, lm_error *e)
{
    lm_fail(e, LM_BAD_MODEL, name, LM_NO_OFFSET, "missing from the file");
    return lm_fail_in(e, lm_container_path(m->c));
}

/* Check the shape of a tensor. ggml omits the slowest dimensions of size one. */
static lm_status check(const lm_matrices *m, const lm_tensor_info *t, uint64_t elements, uint64_t cols,
                       lm_error *e)
{
    uint64_t last = t->n_dims ? t->dims[t->n_dims - 1] : 1;

    if (t->elements == elements && (last == cols || (t->n_dims == 1 && last == elements)))
        return LM_OK;
    lm_fail(e, LM_BAD_MODEL, t->name, (int64_t)t->offset,
            "expected %" PRIu64 " elements in rows of %" PRIu64 ", the file has %" PRIu64
            " in rows of %" PRIu64,
            elements, cols, t->elements, last);
    return lm_fail_in(e, lm_container_file_of(m->c, t));
}

static lm_status take(lm_matrices *m, place *at, const lm_tensor_info *t, lm_error *e)
{
    const lm_dtype_info *type = lm_dtype_of(t->type);
    bool integer = t->type == LM_I8 || t->type == LM_I16 || t->type == LM_I32 || t->type == LM_I64 ||
                   t->type >= LM_BOOL;

    bool listed = m->p->weights[at - m->places].below > 0;

    if (at->how != CODES && (!type->unpack || integer != listed)) {
        lm_fail(e, LM_UNSUPPORTED, t->name, (int64_t)t->offset, "unsupported weight type %s", type->name);
        return lm_fail_in(e, lm_container_file_of(m->c, t));
    }
    if ((at->how == TURNED || at->how == ALONE_TURNED || at->how == BETWEEN_TURNED) && type->block != 1) {
        lm_fail(e, LM_UNSUPPORTED, t->name, (int64_t)t->offset, "blocks of %s cannot be transposed",
                type->name);
        return lm_fail_in(e, lm_container_file_of(m->c, t));
    }
    if (at->type != t->type && at->how == EACH && at->each[0] != t) {
        lm_fail(e, LM_UNSUPPORTED, t->name, (int64_t)t->offset,
                "parts of one weight are stored in different types");
        return lm_fail_in(e, lm_container_file_of(m->c, t));
    }
    at->type = at->how == CODES ? LM_MXFP4 : t->type;
    return lm_map_set(m->used, lm_view_of(t->name), 1) ? LM_OK : lm_fail_memory(e, "tensors", 0);
}

/* Return the name of tensor k of a weight stored one matrix at a time: "….experts.*.w1.weight"; in early
 * files "blk.0.ffn_gate.k.weight". */
static bool part_name(const lm_matrices *m, const lm_weight *w, uint64_t k, char *name, size_t size)
{
    const char *whole = is_gguf(m) ? w->gguf : w->path, *star = !whole       ? NULL
                                                                : is_gguf(m) ? strstr(whole, "_exps.")
                                                                             : strchr(whole, '*');

    if (!star || (is_gguf(m) && lm_container_find(m->c, whole)))
        return false;
    snprintf(name, size, "%.*s%s%" PRIu64 "%s", (int)(star - whole), whole, is_gguf(m) ? "." : "", k,
             is_gguf(m) ? star + 5 : star + 1);
    return true;
}

static lm_status place_each(lm_matrices *m, const lm_weight *w, place *at, lm_error *e)
{
    char name[256];

    at->how  = EACH;
    at->each = lm_arena_new(&m->arena, w->dims[0], const lm_tensor_info *);
    if (!at->each)
        return lm_fail_memory(e, "tensors", w->dims[0]);
    for (uint64_t k = 0; k < w->dims[0]; k++) {
        part_name(m, w, k, name, sizeof name);
        if (!(at->each[k] = find(m, name)))
            return missing(m, name, e);
        LM_TRY(check(m, at->each[k], at->rows * at->cols, at->cols, e));
        at->type = k ? at->type : at->each[k]->type;
        LM_TRY(take(m, at, at->each[k], e));
    }
    at->tensor = at->each[0];
    return LM_OK;
}

static lm_status place_heads(lm_matrices *m, const lm_weight *w, place *at, lm_error *e)
{
    at->tensor = find(m, is_gguf(m) ? w->joint.gguf : w->joint.path);
    if (at->tensor) {
        at->how = w->joint.transposed ? JOINT_TURNED : JOINT;
        LM_TRY(check(m, at->tensor, w->dims[0] * w->joint.of * w->dims[w->joint.transposed ? 1 : 2],
                     w->dims[w->joint.transposed ? 1 : 2], e));
        return take(m, at, at->tensor, e);
    }
    if (!is_gguf(m) || !(at->tensor = find(m, w->gguf)))
        return missing(m, is_gguf(m) && w->gguf ? w->gguf : w->joint.path, e);
    at->how = w->joint.alone_transposed ? ALONE_TURNED : PLAIN;
    LM_TRY(check(m, at->tensor, w->elements, w->dims[w->joint.alone_transposed ? 1 : 2], e));
    return take(m, at, at->tensor, e);
}

static lm_status place_between(lm_matrices *m, const lm_weight *w, place *at, lm_error *e)
{
    at->tensor = find(m, is_gguf(m) ? w->interleaved.gguf : w->interleaved.path);
    if (at->tensor) {
        at->how = w->interleaved.transposed ? BETWEEN_TURNED : BETWEEN;
        uint64_t last = w->n_dims == 2              ? w->interleaved.of
                        : w->interleaved.transposed ? w->interleaved.of
                                                    : w->dims[2];
        LM_TRY(check(m, at->tensor, w->dims[0] * w->interleaved.of * (w->n_dims == 2 ? 1 : w->dims[2]), last,
                     e));
        return take(m, at, at->tensor, e);
    }
    at->tensor    = w->interleaved.codes ? find(m, w->interleaved.codes) : NULL;
    at->exponents = at->tensor ? find(m, w->interleaved.exponents) : NULL;
    if (!at->tensor || !at->exponents)
        return missing(m, at->tensor ? w->interleaved.exponents : w->interleaved.path, e);
    at->how        = CODES;
    uint64_t blocks = w->dims[0] * w->interleaved.of * (w->dims[2] / 32);
    if (w->dims[2] % 32 || at->tensor->type != LM_U8 || at->exponents->type != LM_U8) {
        lm_fail(e, LM_BAD_MODEL, at->tensor->name, (int64_t)at->tensor->offset,
                "not MXFP4: expected blocks of 32 four-bit codes with exponents");
        return lm_fail_in(e, lm_container_file_of(m->c, at->tensor));
    }
    LM_TRY(check(m, at->tensor, blocks * 16, 16, e));
    LM_TRY(check(m, at->exponents, blocks, w->dims[2] / 32, e));
    LM_TRY(take(m, at, at->exponents, e));
    return take(m, at, at->tensor, e);
}

static lm_status place_weight(lm_matrices *m, uint32_t i, lm_error *e)
{
    const lm_weight *w  = &m->p->weights[i];
    place           *at = &m->places[i];
    char             name[256];

    at->cols = w->dims[w->n_dims - 1];
    at->rows = w->n_dims > 1 ? w->elements / lm_weight_matrices(w) / at->cols : 1;
    if (strchr(w->path, '*') && w->n_dims == 2)              /* one vector per expert or head */
        at->rows = w->kind == LM_EXPERTS ? at->rows : 1;
    if (w->kind == LM_HEADS)
        return place_heads(m, w, at, e);
    if (is_gguf(m) ? w->interleaved.gguf && find(m, w->interleaved.gguf) : w->interleaved.path != NULL)
        return place_between(m, w, at, e);
    if (part_name(m, w, 0, name, sizeof name))
        return place_each(m, w, at, e);
    const char *own = is_gguf(m) ? w->gguf : w->gguf_only ? NULL : w->path;
    if (!(at->tensor = find(m, own)))
        return missing(m, own ? own : w->path, e);
    at->how = !is_gguf(m) && w->transposed && w->n_dims == 2 ? TURNED : PLAIN;
    uint64_t cols = at->how == TURNED            ? w->dims[0]
                    : w->heads && !is_gguf(m) ? w->elements / w->heads
                                              : w->dims[w->n_dims - 1];
    LM_TRY(check(m, at->tensor, w->elements, cols, e));
    return take(m, at, at->tensor, e);
}

/* Return whether a tensor has frequencies or masks, which old checkpoints store and every reader computes. */
static bool is_made_again(const char *name)
{
    static const char *const ends[] = { "rotary_emb.inv_freq",    ".attn.bias",
                                        ".attn.masked_bias",      ".attention.bias",
                                        ".attention.masked_bias", "rope_freqs.weight",
                                        "attn_rot_embd" };

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (lm_view_ends(lm_view_of(name), lm_view_of(ends[i])))
            return true;
    return false;
}

static void count_unused(lm_matrices *m)
{
    uint64_t hit;

    for (size_t i = 0; i < lm_container_n_tensors(m->c); i++) {
        const lm_tensor_info *t = lm_container_tensor(m->c, i);
        if (lm_map_get(m->used, lm_view_of(t->name), &hit) || is_made_again(t->name) ||
            (m->config->tied && strcmp(t->name, "lm_head.weight") == 0))
            continue;
        m->unused = m->unused ? m->unused : t;
        m->n_unused++;
    }
}

lm_status lm_matrices_new(const lm_container *c, const lm_family *f, const lm_config *config,
                          const lm_program *p, lm_matrices **out, lm_error *e)
{
    lm_matrices *m      = lm_alloc_zero(1, sizeof *m);
    lm_status    status = LM_OK;

    if (!m)
        return lm_fail_memory(e, "tensors", sizeof *m);
    *m        = (lm_matrices){ .c = c, .family = f, .config = config, .p = p };
    m->places = lm_arena_new(&m->arena, p->n_weights + 1, place);
    m->used   = lm_map_new(p->n_weights);
    if (!m->places || !m->used)
        status = lm_fail_memory(e, "tensors", p->n_weights * sizeof *m->places);
    for (uint32_t i = 0; status == LM_OK && i < p->n_weights; i++)
        status = place_weight(m, i, e);
    if (status != LM_OK) {
        lm_matrices_free(m);
        return status;
    }
    count_unused(m);
    *out = m;
    return LM_OK;
}

void lm_matrices_free(lm_matrices *m)
{
    if (!m)
        return;
    lm_map_free(m->used);
    lm_arena_free(&m->arena);
    lm_free(m);
}

void lm_matrices_set_order(lm_matrices *m, uint32_t weight, lm_row_order order)
{
    place *at = &m->places[weight];

    at->order = order;
    if (m->p->weights[weight].n_dims == 1 && lm_row_order_changes(&order)) {
        at->rows = m->p->weights[weight].dims[0];
        at->cols = 1;
    }
}

const lm_tensor_info *lm_matrices_unused(const lm_matrices *m, size_t *n)
{
    *n = m->n_unused;
    return m->unused;
}

const lm_tensor_info *lm_matrices_joint(const lm_matrices *m, uint32_t weight)
{
    return m->places[weight].tensor;
}

lm_dtype lm_matrices_type(const lm_matrices *m, uint32_t weight)
{
    return m->places[weight].type;
}

void lm_matrices_values(const lm_matrices *m, uint32_t weight, float *x, uint64_t n)
{
    lm_weight_from_stored(&m->p->weights[weight], is_gguf(m), x, n);
}

uint64_t lm_matrices_count(const lm_matrices *m, uint32_t weight)
{
    const place *at = &m->places[weight];

    return m->p->weights[weight].elements / at->rows / at->cols;
}

uint64_t lm_matrices_rows(const lm_matrices *m, uint32_t weight)
{
    return m->places[weight].rows;
}

uint64_t lm_matrices_cols(const lm_matrices *m, uint32_t weight)
{
    return m->places[weight].cols;
}

/* ---- reading rows ---- */

/* A checkpoint's block has codes 2i and 2i + 1 in byte i; GGUF has codes i and i + 16. */
static void take_block(lm_mxfp4 *b, const uint8_t *codes, uint8_t exponent)
{
    b->e = exponent;
    for (unsigned i = 0; i < 16; i++) {
        unsigned shift = 4 * (i & 1), low = codes[i / 2] >> shift & 15, high = codes[i / 2 + 8] >> shift & 15;
        b->qs[i]       = (uint8_t)(low | high << 4);
    }
}

typedef struct reading {
    const lm_matrices *m;
    uint32_t           weight;
    uint64_t           k, from, n;
    uint8_t           *out;
} reading;

/* Copy elements `stride` apart, beginning with `first`. */
static void column(uint8_t *out, const uint8_t *data, uint64_t first, uint64_t stride, uint64_t n,
                   size_t size)
{
    for (uint64_t i = 0; i < n; i++)
        memcpy(out + i * size, data + (first + i * stride) * size, size);
}

static void read_row(const reading *r, const place *at, const uint8_t *data, uint64_t row, uint64_t row_bytes,
                     uint8_t *out)
{
    const lm_weight *w    = &r->m->p->weights[r->weight];
    size_t           size = lm_dtype_of(at->type)->bytes;
    uint64_t         of   = at->how >= BETWEEN ? w->interleaved.of : w->joint.of;
    uint64_t place_in = at->how >= BETWEEN ? w->interleaved.first + row * w->interleaved.step
                                           : w->joint.first + row;

    switch (at->how) {
    case PLAIN:
        memcpy(out, data + (r->k * at->rows + row) * row_bytes, row_bytes);
        break;
    case EACH:
        memcpy(out, data + row * row_bytes, row_bytes);
        break;
    case TURNED:
        column(out, data, row, at->rows, at->cols, size);
        break;
    case JOINT:
    case BETWEEN:
        memcpy(out, data + (r->k * of + place_in) * row_bytes, row_bytes);
        break;
    case JOINT_TURNED:
        column(out, data, (r->k * of + w->joint.first) * at->rows + row, at->rows, at->cols, size);
        break;
    case ALONE_TURNED:
        column(out, data, r->k * at->cols * at->rows + row, at->rows, at->cols, size);
        break;
    case BETWEEN_TURNED:
        column(out, data, r->k * at->cols * of + place_in, of, at->cols, size);
        break;
    case CODES:
        break;
    }
}

static void read_codes(const reading *r, const place *at)
{
    const lm_weight *w      = &r->m->p->weights[r->weight];
    const uint8_t *codes = lm_container_data(r->m->c, at->tensor),
                  *scales = lm_container_data(r->m->c, at->exponents);
    uint64_t         blocks = at->cols / 32;
    lm_mxfp4        *out    = (lm_mxfp4 *)(void *)r->out;

    for (uint64_t i = 0; i < r->n; i++) {
        uint64_t first = (r->k * w->interleaved.of + w->interleaved.first +
                          (r->from + i) * w->interleaved.step) *
                         blocks;
        for (uint64_t b = 0; b < blocks; b++)
            take_block(&out[i * blocks + b], codes + (first + b) * 16, scales[first + b]);
    }
}

/* Read vectors of experts whose elements are interleaved with those of others. */
static void read_sparse(const reading *r, const place *at, const uint8_t *data)
{
    const lm_weight *w    = &r->m->p->weights[r->weight];
    size_t           size = lm_dtype_of(at->type)->bytes;

    for (uint64_t i = 0; i < r->n; i++)
        column(r->out + i * at->cols * size, data, (r->from + i) * w->interleaved.of + w->interleaved.first,
               w->interleaved.step, at->cols, size);
}

static lm_status read_guarded(void *arg)
{
    const reading   *r  = arg;
    const place     *at = &r->m->places[r->weight];
    const lm_weight *w  = &r->m->p->weights[r->weight];
    uint64_t         row_bytes = 0;
    const uint8_t   *data = lm_container_data(r->m->c, at->each ? at->each[r->k] : at->tensor);

    lm_dtype_row_bytes(at->type, at->cols, &row_bytes);          /* whole blocks: checked by the container */
    if (at->how == CODES) {
        read_codes(r, at);
    } else if (at->how == BETWEEN && w->n_dims == 2) {
        read_sparse(r, at, data);
    } else if ((at->how == PLAIN || at->how == EACH) && !lm_row_order_changes(&at->order)) {
        memcpy(r->out, data + ((at->how == PLAIN ? r->k * at->rows : 0) + r->from) * row_bytes,
               r->n * row_bytes);
    } else {
        for (uint64_t i = 0; i < r->n; i++)
            read_row(r, at, data, lm_row_of_gguf(&at->order, r->from + i), row_bytes, r->out + i * row_bytes);
    }
    return LM_OK;
}

lm_status lm_matrices_read(const lm_matrices *m, uint32_t weight, uint64_t k, uint64_t from, uint64_t n,
                           void *out, lm_error *e)
{
    const place *at = &m->places[weight];
    reading      r  = { m, weight, k, from, n, out };

    if (at->how == JOINT_TURNED && lm_dtype_of(at->type)->block != 1)
        return lm_fail(e, LM_UNSUPPORTED, at->tensor->name, LM_NO_OFFSET, "blocks of %s cannot be transposed",
                       lm_dtype_of(at->type)->name);
    return lm_filemap_guard(read_guarded, &r, lm_container_file_of(m->c, at->tensor), e);
}

/* Read columns of [rows][cols] from `from` on, each as a row; or rows that are stored as such columns. */
static lm_status turn_guarded(void *arg)
{
    const reading   *r    = arg;
    const place     *at   = &r->m->places[r->weight];
    const lm_weight *w    = &r->m->p->weights[r->weight];
    size_t           size = lm_dtype_of(at->type)->bytes;
    const uint8_t   *data = lm_container_data(r->m->c, at->each ? at->each[r->k] : at->tensor);

    if (at->how == JOINT_TURNED) {
        uint64_t row = 0;
        lm_dtype_row_bytes(at->type, at->rows, &row);            /* whole blocks: checked by the container */
        memcpy(r->out, data + (r->k * w->joint.of + w->joint.first + r->from) * row, r->n * row);
        return LM_OK;
    }
    uint64_t first = at->how == EACH    ? 0
                     : at->how == JOINT ? (r->k * w->joint.of + w->joint.first) * at->cols
                                        : r->k * at->rows * at->cols;
    for (uint64_t i = 0; i < at->rows; i++)
        for (uint64_t c = 0; c < r->n; c++)
            memcpy(r->out + (c * at->rows + i) * size, data + (first + i * at->cols + r->from + c) * size,
                   size);
    return LM_OK;
}

bool lm_matrices_can_turn(const lm_matrices *m, uint32_t weight)
{
    const place *at = &m->places[weight];

    return at->how == JOINT_TURNED ||
           ((at->how == PLAIN || at->how == EACH || at->how == JOINT) && lm_dtype_of(at->type)->block == 1 &&
            !lm_row_order_changes(&at->order));
}

lm_status lm_matrices_read_turned(const lm_matrices *m, uint32_t weight, uint64_t k, uint64_t from,
                                  uint64_t n, void *out, lm_error *e)
{
    const place *at = &m->places[weight];
    reading      r  = { m, weight, k, from, n, out };

    if (!lm_matrices_can_turn(m, weight))
        return lm_fail(e, LM_UNSUPPORTED, at->tensor->name, LM_NO_OFFSET, "blocks of %s cannot be transposed",
                       lm_dtype_of(at->type)->name);
    return lm_filemap_guard(turn_guarded, &r, lm_container_file_of(m->c, at->tensor), e);
}

void lm_matrices_drop(const lm_matrices *m, uint32_t weight)
{
    const place     *at = &m->places[weight];
    uint64_t         n  = at->each ? m->p->weights[weight].dims[0] : 1;

    for (uint64_t k = 0; k < n; k++) {
        const lm_tensor_info *t = at->each ? at->each[k] : at->tensor;
        lm_filemap_drop(lm_container_file(m->c, t->part), t->offset, t->bytes);
    }
}
