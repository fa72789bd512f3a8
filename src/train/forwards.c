/* forwards.c - the forward pass of every operation on the rows of a training step, with the kernels of the
 * engine. */
#include <string.h>

#include "base/rng.h"
#include "runtime/engine/steps.h"
#include "train/passes.h"

static uint64_t width(const lm_frame *f, lm_value v)
{
    return f->l->program->values[v].width;
}

/* ---- look-ups ---- */

static void embed(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f = arg;

    (void)worker;
    for (uint64_t i = from; i < to; i++) {
        uint64_t row = lm_row_of_token(f->l->program, f->node, (uint64_t)f->l->tokens[i]);
        lm_matrix_rows(f->l, f->node->weights[0], 0, row, row + 1, lm_row_of(f->out, i));
    }
}

static void position(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f = arg;

    (void)worker;
    for (uint64_t i = from; i < to; i++) {
        uint64_t at = (uint64_t)f->l->positions[i] + f->node->position.offset;
        lm_matrix_rows(f->l, f->node->weights[0], 0, at, at + 1, lm_row_of(f->out, i));
    }
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
    const lm_program    *g       = p->f->l->program;
    bool rounded = g->nodes[g->values[p->f->node->in[0]].producer].code == LM_OP_ROUND && a->pack_rounded,
         fine    = p->f->l->options.compute == LM_COMPUTE_FINE && a->pack_fine;
    void (*pack)(void *, const float *, uint64_t) = rounded ? a->pack_rounded : fine ? a->pack_fine : a->pack;

    for (uint64_t i = from; i < to; i++) {
        const float *x = lm_row_of(p->f->in[0], i);
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

    const float   *scale = lm_vector_of(f->l, f->node->weights[2]);

    lm_matrix_multiply(f->l, &m, x, stride, f->rows, f->out, lm_vector_of(f->l, f->node->weights[1]),
                       scale ? *scale : 1);
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
                           (lm_operand){ f->out.at + h * m.rows, f->out.row }, NULL, 1);
    }
}

/* ---- rows ---- */

void lm_train_rows(const lm_frame *f, lm_rows *r)
{
    const lm_node *n = f->node;

    *r = (lm_rows){
        .program   = f->l->program,
        .node      = n,
        .kernels   = &f->l->engine->kernels.row,
        .out       = f->out,
        .positions = f->l->positions,
        .tokens    = f->l->tokens,
    };
    memcpy(r->in, f->in, sizeof r->in);
    for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
        if (n->weights[k] != LM_NONE && f->l->program->weights[n->weights[k]].kind == LM_VECTOR)
            r->weights[k] = lm_vector_of(f->l, n->weights[k]);
    if (n->code == LM_OP_ROPE) {
        const lm_buffer *t = &f->l->turn->buffers[f->l->turn->tables[n->rope.table]];
        r->rotation = (lm_operand){ (float *)(void *)(f->l->slab + t->offset), t->stride / sizeof(float) };
    }
}

static void rows(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f = arg;
    lm_rows         r;

    (void)worker;
    lm_train_rows(f, &r);
    lm_row_ops[f->node->code]->forward(&r, from, to);
}

void lm_train_forward(lm_frame *f)
{
    static void (*const whole[LM_OP_COUNT])(lm_frame *) = {
        [LM_OP_LINEAR] = linear,                [LM_OP_HEAD_LINEAR] = head_linear,
        [LM_OP_CAUSAL_CONV] = lm_train_convolve, [LM_OP_LINEAR_RECURRENCE] = lm_train_recur,
        [LM_OP_SELECTIVE_SCAN] = lm_train_recur, [LM_OP_GATED_RECURRENCE] = lm_train_recur,
        [LM_OP_ATTENTION] = lm_train_attention, [LM_OP_SELECT_KEYS] = lm_train_select,
        [LM_OP_EXPERTS] = lm_train_experts,     [LM_OP_COMPRESS] = lm_train_compress,
    };
    lm_op_code code = f->node->code;

    if (whole[code])
        whole[code](f);
    else
        lm_train_parallel(f->l, code == LM_OP_EMBED ? embed : code == LM_OP_POSITION ? position : rows, f,
                          f->rows, 16);
}
