/* mixtures.c - mixtures of experts in a training step: routes and experts, forward and backward.
 *
 * Pairs (row, choice) are ordered by expert and then row. A row's experts, and the order in which their
 * outputs are added, depend only on the row. The backward pass recomputes gate and up. */
#include <math.h>
#include <string.h>

#include "train/passes.h"

/* ---- dispatch ---- */

typedef struct mixture {
    lm_frame *f;
    uint32_t  k, experts;
    uint64_t  pairs, wide, inner;        /* width of x and of a gate */
    uint32_t *row, *place, *start;       /* per pair; per (row, choice); per expert */
    uint8_t  *packed;                    /* rows in the format of the product */
    float    *gate, *up, *glu, *y;       /* [pairs][inner] x 3, [pairs][wide] */
    float    *back, *dy, *dx, *dweight;  /* [pairs][inner], [pairs][wide] x 2, [pairs] */
    const lm_matmul *kernel;
    const float *from;                   /* what is packed, and its width */
    uint64_t     stride, lanes;
    bool         gathered;
} mixture;

static uint64_t line(uint64_t bytes)
{
    return (bytes + 63) & ~UINT64_C(63);
}

static uint64_t packed_bytes(const lm_learner *l, const lm_plan *plan, const lm_kernels *kernels,
                             const lm_node *n, uint64_t pairs)
{
    uint64_t max = 0;

    for (uint32_t i = 0; i < 3; i++) {
        const lm_weight *w = &l->program->weights[n->weights[i]];
        const lm_matmul *m = lm_matrix_kernel(l, plan, kernels, n->weights[i]);
        uint64_t         b = m->x->pack ? m->x->bytes(w->dims[2]) : line(w->dims[2] * sizeof(float));
        max               = b > max ? b : max;
    }
    return max * pairs;
}

uint64_t lm_mixture_scratch(const lm_learner *l, const lm_plan *plan, const lm_kernels *kernels,
                            const lm_node *n, uint64_t rows)
{
    uint64_t pairs = rows * n->experts.top_k, wide = l->program->values[n->out].width,
             inner = n->experts.width;

    return line((2 * pairs + n->experts.n_experts + 1) * sizeof(uint32_t)) +
           packed_bytes(l, plan, kernels, n, pairs) +
           line(pairs * (4 * inner + 3 * wide + 1) * sizeof(float)) + 64;
}

static void lay_out(mixture *m, lm_frame *f)
{
    uint8_t *at = lm_shared_scratch(f->l) + (uint64_t)LM_TILE_FLOATS * sizeof(float);

    *m = (mixture){ .f = f,
                    .k = f->node->experts.top_k,
                    .experts = f->node->experts.n_experts,
                    .inner = f->node->experts.width };
    m->pairs = (uint64_t)f->rows * m->k;
    m->wide  = f->l->program->values[f->node->out].width;
    m->row   = (uint32_t *)(void *)at;
    m->place = m->row + m->pairs;
    m->start = m->place + m->pairs;
    at += line((2 * m->pairs + m->experts + 1) * sizeof(uint32_t));
    m->packed = at;
    at += packed_bytes(f->l, f->l->engine->plan, &f->l->engine->kernels, f->node, m->pairs);
    m->gate    = (float *)(void *)at;
    m->up      = m->gate + m->pairs * m->inner;
    m->glu     = m->up + m->pairs * m->inner;
    m->back    = m->glu + m->pairs * m->inner;
    m->y       = m->back + m->pairs * m->inner;
    m->dy      = m->y + m->pairs * m->wide;
    m->dx      = m->dy + m->pairs * m->wide;
    m->dweight = m->dx + m->pairs * m->wide;
}

static const float *route_of(const mixture *m, uint64_t row)
{
    return m->f->in[1].at + row * m->f->in[1].row;
}

/* Sort pairs by expert with a counting sort. */
static void sort(mixture *m)
{
    memset(m->start, 0, (m->experts + 1) * sizeof *m->start);
    for (uint32_t i = 0; i < m->f->rows; i++)
        for (uint32_t k = 0; k < m->k; k++)
            m->start[(uint32_t)route_of(m, i)[m->k + k] + 1]++;
    for (uint32_t e = 0; e < m->experts; e++)
        m->start[e + 1] += m->start[e];
    for (uint32_t i = 0; i < m->f->rows; i++)
        for (uint32_t k = 0; k < m->k; k++) {
            uint32_t place             = m->start[(uint32_t)route_of(m, i)[m->k + k]]++;
            m->row[place]              = i;
            m->place[i * m->k + k]     = place;
        }
    memmove(m->start + 1, m->start, m->experts * sizeof *m->start);
    m->start[0] = 0;
}

static void pack_dispatched(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const mixture *m = arg;
    void (*pack)(void *, const float *, uint64_t) = m->f->l->options.compute == LM_COMPUTE_FINE &&
                                                            m->kernel->x->pack_fine
                                                        ? m->kernel->x->pack_fine
                                                        : m->kernel->x->pack;

    (void)worker;
    for (uint64_t i = from; i < to; i++) {
        const float *x = m->gathered ? m->f->in[0].at + m->row[i] * m->f->in[0].row : m->from + i * m->lanes;
        if (pack)
            pack(m->packed + i * m->stride, x, m->lanes);
        else
            memcpy(m->packed + i * m->stride, x, m->lanes * sizeof *x);
    }
}

/* Pack the rows of all pairs for the `which`-th weight: rows of x, or of `from`. */
static void pack(mixture *m, uint32_t which, const float *from)
{
    m->kernel   = lm_matrix_of(m->f->l, m->f->node->weights[which], 0).matmul;
    m->gathered = !from;
    m->from     = from;
    m->lanes    = which < 2 ? m->wide : m->inner;
    m->stride   = m->kernel->x->pack ? m->kernel->x->bytes(m->lanes) : line(m->lanes * sizeof(float));
    lm_train_parallel(m->f->l, pack_dispatched, m, m->pairs, 16);
}

/* Multiply every expert with the rows assigned to it. */
static void multiply(mixture *m, uint32_t which, float *to)
{
    const float *bias = lm_vector_of(m->f->l, m->f->node->weights[which + 3]);
    uint64_t     out  = which < 2 ? m->inner : m->wide;

    for (uint32_t e = 0; e < m->experts; e++) {
        uint32_t  n = m->start[e + 1] - m->start[e];
        lm_matrix w = lm_matrix_of(m->f->l, m->f->node->weights[which], e);
        if (n)
            lm_matrix_multiply(m->f->l, &w, m->packed + m->start[e] * m->stride, m->stride, n,
                               (lm_operand){ to + m->start[e] * out, out }, bias ? bias + e * out : NULL, 1);
    }
}

/* Return the weight of a pair, and its expert. */
static float weight_of(const mixture *m, uint64_t pair, uint32_t *expert)
{
    const float *route = route_of(m, m->row[pair]);
    uint32_t     k     = lm_choice_of(m->row, m->place, m->k, pair);

    *expert = (uint32_t)route[m->k + k];
    return route[k];
}

/* Weights of the input multiply gate and up, which have no biases then. */
static void gates(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const mixture        *m = arg;
    const lm_node        *n = m->f->node;
    const lm_row_kernels *k = &m->f->l->engine->kernels.row;
    uint32_t              expert;

    (void)worker;
    for (uint64_t i = from; i < to; i++) {
        if (n->experts.scaled_input) {
            float w = weight_of(m, i, &expert);
            k->scale(m->gate + i * m->inner, m->gate + i * m->inner, w, m->inner);
            k->scale(m->up + i * m->inner, m->up + i * m->inner, w, m->inner);
        }
        if (n->experts.limit > 0)
            k->glu_clamped(m->glu + i * m->inner, m->gate + i * m->inner, m->up + i * m->inner,
                           n->experts.act, n->experts.limit, n->experts.plus, m->inner);
        else
            k->glu(m->glu + i * m->inner, m->gate + i * m->inner, m->up + i * m->inner, n->experts.act,
                   m->inner);
    }
}

/* Compute gate, up and the activation for each pair. */
static void begin(mixture *m)
{
    sort(m);
    pack(m, 0, NULL);
    multiply(m, 0, m->gate);
    if (!lm_experts_have_gate(m->f->node)) {
        memcpy(m->up, m->gate, m->pairs * m->inner * sizeof *m->up);
        lm_train_parallel(m->f->l, gates, m, m->pairs, 16);
        return;
    }
    if (lm_matrix_of(m->f->l, m->f->node->weights[1], 0).matmul != m->kernel)
        pack(m, 1, NULL);
    multiply(m, 1, m->up);
    lm_train_parallel(m->f->l, gates, m, m->pairs, 16);
}

static void combine(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const mixture        *m = arg;
    const lm_row_kernels *r = &m->f->l->engine->kernels.row;

    (void)worker;
    for (uint64_t i = from; i < to; i++) {
        float *y = m->f->out.at + i * m->f->out.row;
        for (uint32_t k = 0; k < m->k; k++) {
            const float *x = m->y + m->place[i * m->k + k] * m->wide;
            float        w = m->f->node->experts.scaled_input ? 1 : route_of(m, i)[k];
            if (k == 0)
                r->scale(y, x, w, m->wide);
            else
                r->add(y, y, x, w, m->wide);
        }
    }
}

void lm_train_experts(lm_frame *f)
{
    mixture m;

    lay_out(&m, f);
    begin(&m);
    pack(&m, 2, m.glu);
    multiply(&m, 2, m.y);
    lm_train_parallel(f->l, combine, &m, f->rows, 16);
}

/* ---- backward ---- */

/* Copy the output gradient of each pair's row, not yet weighted, and clear the other gradients. */
static void spread(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const mixture *m = arg;

    (void)worker;
    for (uint64_t i = from; i < to; i++) {
        memcpy(m->dy + i * m->wide, m->f->dout.at + m->row[i] * m->f->dout.row, m->wide * sizeof(float));
        memset(m->back + i * m->inner, 0, m->inner * sizeof(float));
        memset(m->dx + i * m->wide, 0, m->wide * sizeof(float));
    }
}

/* Return dy of a pair times its output, before the weight. */
static float along_output(const mixture *m, uint64_t pair, const float *bias)
{
    const float *back = m->back + pair * m->inner, *dy = m->dy + pair * m->wide;
    float        sum = 0;

    for (uint64_t k = 0; k < m->inner; k++)
        sum += back[k] * m->glu[pair * m->inner + k];
    for (uint64_t k = 0; bias && k < m->wide; k++)
        sum += dy[k] * bias[k];
    return sum;
}

/* back = W_d^T dy: compute the gradient of the routing weight, then replace gate and up by their
 * gradients. */
static void gates_back(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const mixture *m     = arg;
    const lm_node *n     = m->f->node;
    const float   *bias  = lm_vector_of(m->f->l, n->weights[5]);
    bool           gated = lm_experts_have_gate(n), scaled = n->experts.scaled_input;

    (void)worker;
    for (uint64_t i = from; i < to; i++) {
        float   *gate = m->gate + i * m->inner, *up = m->up + i * m->inner, *back = m->back + i * m->inner;
        float   *dy = m->dy + i * m->wide, sum;
        uint32_t expert = 0;
        float    w = weight_of(m, i, &expert), outer = scaled ? 1 : w, inner = scaled ? w : 1;
        sum = scaled ? 0 : along_output(m, i, bias ? bias + expert * m->wide : NULL);
        for (uint64_t k = 0; k < m->wide; k++)
            dy[k] *= outer;
        for (uint64_t k = 0; k < m->inner; k++) {
            float dg, du;
            lm_glu_lane_back(&m->f->l->kernels, gate[k], up[k], outer * back[k], n->experts.act,
                             n->experts.limit, n->experts.plus, &dg, &du);
            dg += gated ? 0 : du;
            sum += scaled ? dg * gate[k] + du * up[k] : 0;
            gate[k] = inner * dg;
            up[k]   = inner * du;
        }
        /* gate and up are multiplied by w; a sigmoid that is 0 has no slope */
        m->dweight[i] = scaled ? (w > 0 ? sum / w : 0) : sum;
    }
}

/* dW += dy^T x of each routed expert, in row order; and its bias. */
static void sum_weights(mixture *m, uint32_t which, const float *dy, uint64_t out, const float *x,
                        uint64_t in)
{
    lm_learner *l  = m->f->l;
    float      *dw = m->f->reverse->trains[which] ? lm_trained_gradient(l, m->f->node->weights[which]) : NULL;
    float *db = m->f->reverse->trains[which + 3] ? lm_trained_gradient(l, m->f->node->weights[which + 3])
                                                 : NULL;

    for (uint32_t e = 0; e < m->experts; e++) {
        uint64_t at = m->start[e], n = m->start[e + 1] - at;
        if (dw && n)
            lm_train_gemm(l, &(lm_gemm){ .c = dw + e * out * in,
                                         .c_row = in,
                                         .a = dy + at * out,
                                         .a_row = 1,
                                         .a_col = out,
                                         .b = x + at * in,
                                         .b_row = in,
                                         .m = out,
                                         .n = in,
                                         .k = n });
        for (uint64_t i = at; db && i < at + n; i++)
            for (uint64_t k = 0; k < out; k++)
                db[e * out + k] += dy[i * out + k];
    }
}

/* dx += dy W of each routed expert. */
static void through(mixture *m, uint32_t which, float *dy, uint64_t out, float *dx, uint64_t in)
{
    for (uint32_t e = 0; e < m->experts; e++) {
        uint64_t at = m->start[e], n = m->start[e + 1] - at;
        if (n)
            lm_train_through(m->f->l, m->f->node->weights[which], e * out, (e + 1) * out,
                             (lm_operand){ dy + at * out, out }, (lm_operand){ dx + at * in, in }, n, 1);
    }
}

static void gather_inputs(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const mixture *m = arg;

    (void)worker;
    for (uint64_t i = from; i < to; i++)
        memcpy(m->y + i * m->wide, m->f->in[0].at + m->row[i] * m->f->in[0].row, m->wide * sizeof(float));
}

static void collect(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const mixture  *m = arg;
    const lm_frame *f = m->f;

    (void)worker;
    for (uint64_t i = from; i < to; i++) {
        float *dx = f->din[0].at ? f->din[0].at + i * f->din[0].row : NULL,
              *dr = f->din[1].at ? f->din[1].at + i * f->din[1].row : NULL;
        for (uint32_t k = 0; k < m->k; k++) {
            uint64_t pair = m->place[i * m->k + k];
            bool     fresh = k == 0 && f->reverse->first[0];
            for (uint64_t j = 0; dx && j < m->wide; j++)
                dx[j] = fresh ? m->dx[pair * m->wide + j] : dx[j] + m->dx[pair * m->wide + j];
            if (dr)
                dr[k] = f->reverse->first[1] ? m->dweight[pair] : dr[k] + m->dweight[pair];
        }
    }
}

void lm_train_experts_back(lm_frame *f)
{
    mixture m;

    lay_out(&m, f);
    begin(&m);
    lm_train_parallel(f->l, spread, &m, m.pairs, 16);
    through(&m, 2, m.dy, m.wide, m.back, m.inner);
    lm_train_parallel(f->l, gates_back, &m, m.pairs, 16);
    sum_weights(&m, 2, m.dy, m.wide, m.glu, m.inner);
    if (f->reverse->trains[0] || f->reverse->trains[1])
        lm_train_parallel(f->l, gather_inputs, &m, m.pairs, 16);
    bool gated = lm_experts_have_gate(f->node);
    sum_weights(&m, 0, m.gate, m.inner, m.y, m.wide);
    if (gated)
        sum_weights(&m, 1, m.up, m.inner, m.y, m.wide);
    if (f->din[0].at) {
        through(&m, 0, m.gate, m.inner, m.dx, m.wide);
        if (gated)
            through(&m, 1, m.up, m.inner, m.dx, m.wide);
    }
    lm_train_parallel(f->l, collect, &m, f->rows, 16);
}
