/* forwards.c - the forward pass of every operation on the rows of a training step, with the kernels of the
 * engine. */
#include <math.h>
#include <string.h>

#include "runtime/engine/route.h"
#include "base/rng.h"
#include "runtime/engine/steps.h"
#include "train/passes.h"

static uint64_t width(const lm_frame *f, lm_value v)
{
    return f->l->program->values[v].width;
}

static float *row(lm_operand o, uint64_t i)
{
    return o.at + i * o.row;
}

/* ---- look-ups ---- */

static void embed(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f = arg;

    (void)worker;
    for (uint64_t i = from; i < to; i++)
        lm_matrix_rows(f->l, f->node->weights[0], 0, (uint64_t)f->l->tokens[i], (uint64_t)f->l->tokens[i] + 1,
                       row(f->out, i));
}

static void position(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f = arg;

    (void)worker;
    for (uint64_t i = from; i < to; i++) {
        uint64_t at = (uint64_t)f->l->positions[i] + f->node->position.offset;
        lm_matrix_rows(f->l, f->node->weights[0], 0, at, at + 1, row(f->out, i));
    }
}

static void sinusoid(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f = arg;

    (void)worker;
    for (uint64_t i = from; i < to; i++)
        lm_sinusoid_row(f->node->position.layout, f->l->positions[i] + f->node->position.offset,
                        (uint32_t)width(f, f->node->out), row(f->out, i));
}

/* ---- products ---- */

/* Apply dropout to a row: draws depend only on seed, step, weight, text, position and lane. */
void lm_train_drop(const lm_learner *l, uint32_t weight, uint64_t at, float *x, uint64_t n)
{
    const lm_train_text *t = l->texts;
    uint32_t             draws[4];

    while (at >= t->first + t->rows)
        t++;
    uint64_t stream = (t->id << 20 | (at - t->first)) ^ (l->step * UINT64_C(0x9e3779b97f4a7c15));
    uint32_t keep   = (uint32_t)((1.0 - (double)l->options.dropout) * 4294967295.0);
    float    scale  = 1.0f / (1.0f - l->options.dropout);
    for (uint64_t i = 0; i < n; i++) {
        if (i % 4 == 0)
            lm_rng_block(l->options.seed ^ 0x64726f70, stream, (uint64_t)weight << 32 | i / 4, draws);
        x[i] = draws[i % 4] <= keep ? x[i] * scale : 0.0f;
    }
}

bool lm_train_drops(const lm_learner *l, uint32_t weight)
{
    const char *end = strstr(l->program->weights[weight].path, ".lora_A.weight");

    return l->options.dropout > 0 && end && lm_trained_value(l, weight);
}

typedef struct packing {
    const lm_frame  *f;
    const lm_matmul *matmul;
    uint8_t         *to;
    uint64_t         stride, groups, width;
    bool             drops;
} packing;

static void pack_rows(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const packing       *p    = arg;
    const lm_activation *a    = p->matmul->x;
    uint64_t             each = p->stride / p->groups, n = p->groups * p->width;
    float               *copy = lm_worker_scratch(p->f->l, worker);
    void (*pack)(void *, const float *,
                 uint64_t) = p->f->l->options.compute == LM_COMPUTE_FINE && a->pack_fine ? a->pack_fine
                                                                                         : a->pack;

    for (uint64_t i = from; i < to; i++) {
        const float *x = row(p->f->in[0], i);
        if (p->drops) {
            float *dropped = pack ? copy : (float *)(void *)(p->to + i * p->stride);
            memcpy(dropped, x, n * sizeof *x);
            lm_train_drop(p->f->l, p->f->node->weights[0], i, dropped, n);
            x = dropped;
        }
        for (uint64_t k = 0; pack && k < p->groups; k++)
            pack(p->to + i * p->stride + k * each, x + k * p->width, p->width);
    }
}

/* Return the rows of the first input in the format of the product's kernel. */
static const uint8_t *packed(lm_frame *f, const lm_matmul *m, uint64_t groups, uint64_t *stride)
{
    uint64_t n     = width(f, f->node->in[0]) / groups;
    bool     drops = lm_train_drops(f->l, f->node->weights[0]);
    packing  p     = { f, m, lm_shared_scratch(f->l), 0, groups, n, drops };

    if (!m->x->pack && !drops) {
        *stride = f->in[0].row * sizeof(float);
        return (const uint8_t *)f->in[0].at;
    }
    p.stride = *stride = groups * (m->x->pack ? m->x->bytes(n) : (n * sizeof(float) + 63) / 64 * 64);
    lm_train_parallel(f->l, pack_rows, &p, f->rows, 16);
    return p.to;
}

static void linear(lm_frame *f)
{
    lm_matrix      m = lm_matrix_of(f->l, f->node->weights[0], 0);
    uint64_t       stride;
    const uint8_t *x = packed(f, m.matmul, 1, &stride);

    lm_matrix_multiply(f->l, &m, x, stride, f->rows, f->out, lm_vector_of(f->l, f->node->weights[1]));
}

static void head_linear(lm_frame *f)
{
    uint32_t       heads = f->node->heads.n_heads;
    bool           shared = f->node->heads.shared;
    lm_matrix      m = lm_matrix_of(f->l, f->node->weights[0], 0);
    uint64_t       stride;
    const uint8_t *x    = packed(f, m.matmul, shared ? 1 : heads, &stride);
    uint64_t each = shared ? 0 : m.matmul->x->pack ? m.matmul->x->bytes(m.cols) : m.cols * sizeof(float);

    for (uint32_t h = 0; h < heads; h++) {
        m = lm_matrix_of(f->l, f->node->weights[0], h);
        lm_matrix_multiply(f->l, &m, x + h * each, stride, f->rows,
                           (lm_operand){ f->out.at + h * m.rows, f->out.row }, NULL);
    }
}

/* ---- rows ---- */

static void norm(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame       *f      = arg;
    const lm_node        *n      = f->node;
    const lm_row_kernels *k      = &f->l->engine->kernels.row;
    uint64_t              groups = n->norm.groups, w = width(f, n->out) / groups, next = n->norm.own ? w : 0;
    const float *scale = lm_vector_of(f->l, n->weights[0]), *shift = lm_vector_of(f->l, n->weights[1]);

    (void)worker;
    for (uint64_t i = from; i < to; i++)
        for (uint64_t g = 0; g < groups; g++)
            if (n->code == LM_OP_RMS_NORM)
                k->rms(row(f->out, i) + g * w, row(f->in[0], i) + g * w, scale, w, n->norm.eps);
            else
                k->layer_norm(row(f->out, i) + g * w, row(f->in[0], i) + g * w,
                              scale ? scale + g * next : NULL, shift, w, n->norm.eps);
}

static void rope(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame     *f = arg;
    const lm_rope_spec *s = &f->l->program->ropes[f->node->rope.table].spec;
    const lm_buffer    *t = &f->l->turn->buffers[f->l->turn->tables[f->node->rope.table]];

    (void)worker;
    for (uint64_t i = from; i < to; i++) {
        const float *cosine = (const float *)(const void *)(f->l->slab + t->offset + i * t->stride);
        memcpy(row(f->out, i), row(f->in[0], i), width(f, f->node->out) * sizeof(float));
        f->l->engine->kernels.row.rope(row(f->out, i), f->node->rope.n_heads, f->node->rope.head_dim, s->dim,
                                       cosine, cosine + s->dim / 2, s->pairing == LM_ROPE_PAIR);
    }
}

static void glu(const lm_frame *f, const lm_row_kernels *k, uint64_t i)
{
    uint64_t w = width(f, f->node->out);

    if (width(f, f->node->in[0]) == w) {
        k->glu(row(f->out, i), row(f->in[0], i), row(f->in[1], i), f->node->glu.act, w);
        return;
    }
    float gate;
    k->act(&gate, row(f->in[0], i), f->node->glu.act, 1);
    k->scale(row(f->out, i), row(f->in[1], i), gate, w);
}

static void columns(const lm_frame *f, uint64_t i)
{
    uint32_t groups = f->node->columns.groups;
    uint64_t from = width(f, f->node->in[0]) / groups, w = width(f, f->node->out) / groups;

    for (uint32_t g = 0; g < groups; g++)
        memcpy(row(f->out, i) + g * w, row(f->in[0], i) + g * from + f->node->columns.offset,
               w * sizeof(float));
}

static void join(const lm_frame *f, uint64_t i)
{
    uint32_t groups = f->node->join.groups;
    uint64_t first = width(f, f->node->in[0]) / groups, second = width(f, f->node->out) / groups - first;

    for (uint32_t g = 0; g < groups; g++) {
        float *to = row(f->out, i) + g * (first + second);
        memcpy(to, row(f->in[0], i) + g * first, first * sizeof(float));
        memcpy(to + first, row(f->in[1], i) + (f->node->join.shared ? 0 : g * second),
               second * sizeof(float));
    }
}

static void route(const lm_frame *f, uint64_t i)
{
    float scores[LM_MAX_EXPERTS];

    lm_route_row(&f->node->route.spec, row(f->in[0], i), lm_vector_of(f->l, f->node->weights[0]), scores,
                 row(f->out, i), &f->l->engine->kernels.row);
}

static void rows(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame       *f = arg;
    const lm_node        *n = f->node;
    const lm_row_kernels *k = &f->l->engine->kernels.row;
    uint64_t              w = width(f, n->out);

    (void)worker;
    for (uint64_t i = from; i < to; i++)
        switch (n->code) {
        case LM_OP_ADD:
            k->add(row(f->out, i), row(f->in[0], i), row(f->in[1], i), 1, w);
            break;
        case LM_OP_SCALE:
            k->scale(row(f->out, i), row(f->in[0], i), n->scale.factor, w);
            break;
        case LM_OP_GLU:
            glu(f, k, i);
            break;
        case LM_OP_ACT:
            k->act(row(f->out, i), row(f->in[0], i), n->glu.act, w);
            break;
        case LM_OP_SOFTCAP:
            k->softcap(row(f->out, i), row(f->in[0], i), n->scale.factor, w);
            break;
        case LM_OP_CLAMP:
            k->clamp(row(f->out, i), row(f->in[0], i), -n->scale.factor, n->scale.factor, w);
            break;
        case LM_OP_COLUMNS:
            columns(f, i);
            break;
        case LM_OP_JOIN:
            join(f, i);
            break;
        case LM_OP_ROUTE:
            route(f, i);
            break;
        default:
            break;
        }
}

void lm_train_forward(lm_frame *f)
{
    static const lm_items by_row[LM_OP_COUNT] = {
        [LM_OP_EMBED] = embed,   [LM_OP_POSITION] = position, [LM_OP_SINUSOID] = sinusoid,
        [LM_OP_RMS_NORM] = norm, [LM_OP_LAYER_NORM] = norm,   [LM_OP_ROPE] = rope,
    };

    static void (*const whole[LM_OP_COUNT])(lm_frame *) = {
        [LM_OP_LINEAR] = linear,                [LM_OP_HEAD_LINEAR] = head_linear,
        [LM_OP_ATTENTION] = lm_train_attention, [LM_OP_EXPERTS] = lm_train_experts,
    };

    if (whole[f->node->code])
        whole[f->node->code](f);
    else
        lm_train_parallel(f->l, by_row[f->node->code] ? by_row[f->node->code] : rows, f, f->rows, 16);
}
