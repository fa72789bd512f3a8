/* ternary.c - present packed matrices, and those to be rounded, as matrices of -1, 0 and 1 (arXiv
 * 2402.17764).
 *
 * Checkpoints pack four rows in bytes: bits 2 k of row i are row i + k n of the matrix, for n packed rows;
 * its factor is the tensor weight_scale. Those that are still trained store floats, of which every pass takes
 * the nearest such matrix: its factor is the mean magnitude. */
#include "formats/containerimpl.h"

#include <math.h>
#include <string.h>

#include "tensor/blocks.h"

enum { CODE_ONE = 2, ONE_F16 = 0x3c00 };     /* code k is the value k - 1 */

typedef struct making {
    lm_container         *c;
    const lm_tensor_info *from;
    lm_tensor_info        to;
    uint8_t              *out;
    float                *row, scale;        /* of a matrix of floats: [cols]; its mean magnitude */
} making;

static const uint16_t values[4] = { 0xbf80, 0, 0x3f80, 0x4000 };     /* of codes, as BF16 */

/* Write a row of codes, one per byte at bits `shift`. */
static void put_row(const making *m, uint64_t row, const uint8_t *codes, unsigned shift)
{
    uint64_t  cols  = m->to.dims[1];
    lm_tq2_0 *block = (lm_tq2_0 *)(void *)m->out + row * (cols / LM_K_BLOCK);
    uint16_t *bf16  = (uint16_t *)(void *)m->out + row * cols;

    for (uint64_t i = 0; m->to.type == LM_BF16 && i < cols; i++)
        bf16[i] = values[codes[i] >> shift & 3];
    for (uint64_t b = 0; m->to.type == LM_TQ2_0 && b < cols / LM_K_BLOCK; b++, block++) {
        block->d = ONE_F16;
        for (unsigned half = 0; half < 2; half++) {
            const uint8_t *x = codes + b * LM_K_BLOCK + 128 * half;
            for (unsigned i = 0; i < 32; i++)
                block->qs[32 * half + i] =
                    (uint8_t)((x[i] >> shift & 3) | (x[i + 32] >> shift & 3) << 2 |
                              (x[i + 64] >> shift & 3) << 4 | (x[i + 96] >> shift & 3) << 6);
        }
    }
}

static lm_status unpack(void *arg)
{
    const making  *m      = arg;
    const uint8_t *packed = lm_container_data(m->c, m->from);
    uint64_t       rows = m->from->dims[0], cols = m->from->dims[1];

    for (unsigned k = 0; k < 4; k++)
        for (uint64_t i = 0; i < rows; i++)
            put_row(m, k * rows + i, packed + i * cols, 2 * k);
    return LM_OK;
}

/* Round a matrix of floats divided by its mean magnitude. */
static lm_status round_floats(void *arg)
{
    making  *m    = arg;
    uint64_t rows = m->from->dims[0], cols = m->from->dims[1];
    uint8_t *codes = (uint8_t *)(m->row + cols);
    double   sum   = 0;

    for (uint64_t i = 0; i < rows; i++) {
        lm_container_unpack(m->c, m->from, i * cols, cols, m->row);
        for (uint64_t k = 0; k < cols; k++)
            sum += fabs((double)m->row[k]);
    }
    m->scale = (float)fmax(sum / (double)(rows * cols), 1e-5);
    for (uint64_t i = 0; i < rows; i++) {
        lm_container_unpack(m->c, m->from, i * cols, cols, m->row);
        for (uint64_t k = 0; k < cols; k++) {
            float x  = m->row[k] / m->scale;
            codes[k] = x > 0.5f ? CODE_ONE : x < -0.5f ? 0 : 1;
        }
        put_row(m, i, codes, 0);
    }
    return LM_OK;
}

/* Replace tensor i by a matrix of `rows` rows that `work` writes. */
static lm_status replace(making *m, size_t i, uint64_t rows, lm_status (*work)(void *), lm_error *e)
{
    lm_container *c = m->c;

    m->from    = &c->tensors[i];
    m->to      = *m->from;
    m->to.type = m->from->dims[1] % LM_K_BLOCK ? LM_BF16 : LM_TQ2_0;
    m->to.dims[0] = rows;
    LM_TRY(lm_tensor_measure(&m->to, (int64_t)m->from->offset, e));
    if (!(m->out = lm_arena_alloc(&c->arena, (size_t)m->to.bytes)))
        return lm_fail_memory(e, m->to.name, m->to.bytes);
    LM_TRY(lm_filemap_guard(work, m, lm_container_file_of(c, m->from), e));
    m->to.made    = m->out;
    c->tensors[i] = m->to;
    return LM_OK;
}

static const char *scale_name(lm_container *c, const char *name)
{
    return lm_arena_printf(&c->arena, "%s_scale", name);
}

static bool is_matrix(const lm_tensor_info *t)
{
    return t->n_dims == 2 && t->elements && lm_view_ends(lm_view_of(t->name), LM_VIEW(".weight"));
}

/* The embedding and the head stay as they are. */
static bool is_table(const char *name)
{
    return lm_view_ends(lm_view_of(name), LM_VIEW("embed_tokens.weight")) ||
           lm_view_ends(lm_view_of(name), LM_VIEW("lm_head.weight"));
}

/* Round a matrix of floats, and add a tensor for its factor. */
static lm_status round_matrix(making *m, size_t i, lm_error *e)
{
    lm_container  *c    = m->c;
    uint64_t       cols = c->tensors[i].dims[1];
    lm_tensor_info t    = c->tensors[i];
    float         *scale = lm_arena_new(&c->arena, 1, float);

    m->row = lm_arena_alloc(&c->arena, (size_t)cols * (sizeof(float) + 1));
    t.name = scale_name(c, t.name);
    if (!m->row || !scale || !t.name)
        return lm_fail_memory(e, c->tensors[i].name, cols * sizeof(float));
    LM_TRY(replace(m, i, c->tensors[i].dims[0], round_floats, e));
    *scale    = m->scale;
    t.type    = LM_F32;
    t.n_dims  = 1;
    t.dims[0] = 1;
    t.made    = scale;
    LM_TRY(lm_tensor_measure(&t, (int64_t)t.offset, e));
    return lm_container_add_tensor(c, &t, e);
}

lm_status lm_container_ternary(lm_container *c, bool online, lm_error *e)
{
    making m = { .c = c };

    for (size_t i = 0, n = c->n_tensors; i < n; i++) {
        const lm_tensor_info *t = &c->tensors[i];
        const char           *name = is_matrix(t) ? scale_name(c, t->name) : NULL;
        if (!name)
            continue;
        bool scaled = lm_container_find(c, name);
        if (t->type == LM_U8 && scaled)
            LM_TRY(replace(&m, i, 4 * t->dims[0], unpack, e));
        else if (online && !scaled && !is_table(t->name) && lm_dtype_of(t->type)->unpack && t->type != LM_U8)
            LM_TRY(round_matrix(&m, i, e));
    }
    if (!online)
        return LM_OK;
    lm_map_free(c->by_name);
    c->by_name = NULL;
    return lm_container_seal(c, e);
}
