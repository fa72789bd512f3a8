/* matrices.c - frozen and trained weights of a learner, and products with them. */
#include <string.h>

#include "runtime/engine/steps.h"
#include "train/learner.h"

float *lm_trained_value(const lm_learner *l, uint32_t weight)
{
    return weight == LM_NONE || l->which[weight] == LM_NONE ? NULL : l->trained[l->which[weight]].value;
}

float *lm_trained_gradient(const lm_learner *l, uint32_t weight)
{
    return weight == LM_NONE || l->which[weight] == LM_NONE ? NULL : l->trained[l->which[weight]].gradient;
}

const float *lm_vector_of(const lm_learner *l, uint32_t weight)
{
    const float *own = lm_trained_value(l, weight);

    return own || weight == LM_NONE ? own : l->engine->weight[weight];
}

const lm_matmul *lm_matrix_kernel(const lm_learner *l, const lm_plan *plan, const lm_kernels *k,
                                  uint32_t weight)
{
    return l->which[weight] != LM_NONE ? k->exact[LM_F32] : plan->weights[weight].matmul;
}

lm_matrix lm_matrix_of(const lm_learner *l, uint32_t weight, uint64_t which)
{
    const lm_weight *w   = &l->program->weights[weight];
    const float     *own = lm_trained_value(l, weight);
    lm_matrix        m   = { .rows = w->dims[w->n_dims - 2], .cols = w->dims[w->n_dims - 1], .stored = true };

    if (own) {
        m.matmul    = l->engine->kernels.exact[LM_F32];
        m.w         = own + which * m.rows * m.cols;
        m.row_bytes = m.cols * sizeof(float);
        return m;
    }
    const lm_placement *at = &l->engine->plan->weights[weight];
    m.matmul    = at->matmul;
    m.w = l->engine->matrices[weight] ? l->engine->matrices[weight][which] : l->engine->weight[weight];
    m.row_bytes = at->row_bytes;
    m.stored    = at->kind == LM_MAPPED;
    return m;
}

void lm_matrix_rows(const lm_learner *l, uint32_t weight, uint64_t which, uint64_t from, uint64_t to,
                    float *out)
{
    lm_matrix m = lm_matrix_of(l, weight, which);

    if (lm_trained_value(l, weight)) {
        memcpy(out, (const float *)m.w + from * m.cols, (to - from) * m.cols * sizeof *out);
        return;
    }
    const lm_placement *at = &l->engine->plan->weights[weight];
    for (uint64_t r = from; r < to; r++, out += m.cols)
        if (m.stored)
            lm_dtype_of(at->type)->unpack(out, (const uint8_t *)m.w + r * at->row_bytes, m.cols);
        else
            m.matmul->row(out, m.w, m.rows, m.cols, r);
}

/* ---- chunks ---- */

typedef struct sharing {
    lm_items items;
    void    *arg;
    uint64_t n, grain;
} sharing;

static void run_chunk(void *arg, unsigned worker, unsigned chunk)
{
    sharing *s = arg;
    uint64_t from = chunk * s->grain, to = from + s->grain;

    s->items(s->arg, from, to < s->n ? to : s->n, worker);
}

void lm_train_parallel(lm_learner *l, lm_items items, void *arg, uint64_t n, uint64_t grain)
{
    sharing s = { items, arg, n, grain ? grain : 1 };

    while ((n + s.grain - 1) / s.grain > 4096)
        s.grain *= 2;
    if (n)
        lm_pool_run_chunks(l->pool, run_chunk, &s, (unsigned)((n + s.grain - 1) / s.grain));
}

/* ---- products ---- */

typedef struct product {
    lm_learner      *l;
    const lm_matrix *m;
    lm_matmul_args   args;
} product;

static void multiply_outputs(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    product       *p = arg;
    lm_matmul_args a = p->args;

    a.first   = from * p->m->matmul->row_group;
    a.last    = to * p->m->matmul->row_group < a.rows ? to * p->m->matmul->row_group : a.rows;
    a.scratch = lm_worker_scratch(p->l, worker);
    if (p->m->stored)
        lm_stored_run(p->m->matmul, &a, p->m->row_bytes);
    else
        p->m->matmul->run(&a);
}

void lm_matrix_multiply(lm_learner *l, const lm_matrix *m, const uint8_t *x, uint64_t x_stride, uint64_t n,
                        lm_operand y, const float *bias, float scale)
{
    uint64_t groups = (m->rows + m->matmul->row_group - 1) / m->matmul->row_group;
    uint64_t grain  = groups / (8 * (uint64_t)lm_pool_threads(l->pool));
    product p = { l,
                  m,
                  { .w = m->w,
                    .rows = m->rows,
                    .cols = m->cols,
                    .x = x,
                    .x_stride = x_stride,
                    .n = n,
                    .y = y.at,
                    .y_stride = y.row,
                    .bias = bias,
                    .scale = scale } };

    lm_train_parallel(l, multiply_outputs, &p, groups, grain ? grain : 1);
}
