/* products.c - products of a training step with gradients, computed by all workers. */
#include <string.h>

#include "train/passes.h"

/* ---- dx += dy W, with a piece of W at a time as float32 ---- */

typedef struct unpacking {
    lm_learner *l;
    uint32_t    weight;
    uint64_t    first, rows, cols;       /* row `first`, counted over all matrices, is the beginning of the
                                            tile */
    float      *tile, scale;
} unpacking;

static void unpack_rows(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const unpacking *u = arg;

    (void)worker;
    for (uint64_t i = from; i < to;) {
        uint64_t which = (u->first + i) / u->rows, at = (u->first + i) % u->rows,
                 n = u->rows - at < to - i ? u->rows - at : to - i;
        lm_matrix_rows(u->l, u->weight, which, at, at + n, u->tile + i * u->cols);
        i += n;
    }
    for (uint64_t i = from * u->cols; u->scale != 1 && i < to * u->cols; i++)
        u->tile[i] *= u->scale;
}

enum { ROW_BLOCK = 48, COLUMN_BLOCK = 256 };

typedef struct blocks {
    lm_learner *l;
    lm_gemm     g;
    uint64_t    rows, columns;           /* number of blocks */
    uint64_t    row_block;
} blocks;

static void multiply_block(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const blocks *p = arg;

    (void)worker;
    for (uint64_t i = from; i < to; i++) {
        uint64_t m = i / p->columns * p->row_block, n = i % p->columns * COLUMN_BLOCK;
        lm_gemm  g = p->g;
        g.c += m * g.c_row + n;
        g.a += m * g.a_row;
        g.b += n;
        g.m = g.m - m < p->row_block ? g.m - m : p->row_block;
        g.n = g.n - n < COLUMN_BLOCK ? g.n - n : COLUMN_BLOCK;
        p->l->kernels.gemm(&g);
    }
}

void lm_train_gemm(lm_learner *l, const lm_gemm *g)
{
    blocks p = {
        .l = l, .g = *g, .row_block = ROW_BLOCK, .columns = (g->n + COLUMN_BLOCK - 1) / COLUMN_BLOCK
    };

    p.rows = (g->m + p.row_block - 1) / p.row_block;
    lm_train_parallel(l, multiply_block, &p, p.rows * p.columns, 1);
}

void lm_train_through(lm_learner *l, uint32_t weight, uint64_t from, uint64_t to, lm_operand dy,
                      lm_operand dx, uint64_t n, float scale)
{
    const lm_weight *w    = &l->program->weights[weight];
    uint64_t cols = w->dims[w->n_dims - 1], rows = w->dims[w->n_dims - 2], tile = LM_TILE_FLOATS / cols;
    const float     *own  = lm_trained_value(l, weight);

    tile = tile < 64 ? 64 : tile;
    for (uint64_t at = from; at < to; at += tile) {
        uint64_t  k = to - at < tile ? to - at : tile;
        unpacking u = { l, weight, at, rows, cols, (float *)(void *)lm_shared_scratch(l), scale };
        if (!own)
            lm_train_parallel(l, unpack_rows, &u, k, 16);
        lm_train_gemm(l, &(lm_gemm){ .c = dx.at,
                                     .c_row = dx.row,
                                     .a = dy.at + (at - from),
                                     .a_row = dy.row,
                                     .a_col = 1,
                                     .b = own ? own + at * cols : u.tile,
                                     .b_row = cols,
                                     .m = n,
                                     .n = cols,
                                     .k = k });
    }
}

typedef struct clearing {
    lm_operand x;
    uint64_t   n;
} clearing;

static void clear_rows(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const clearing *c = arg;

    (void)worker;
    for (uint64_t i = from; i < to; i++)
        memset(c->x.at + i * c->x.row, 0, c->n * sizeof(float));
}

void lm_train_clear(lm_learner *l, lm_operand x, uint64_t rows, uint64_t n)
{
    clearing c = { x, n };

    lm_train_parallel(l, clear_rows, &c, rows, 64);
}
