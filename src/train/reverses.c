/* reverses.c - the backward pass of every operation on the rows of a training step. */
#include <math.h>
#include <string.h>

#include "train/learner.h"
#include "train/passes.h"

static uint64_t width(const lm_frame *f, lm_value v)
{
    return f->l->program->values[v].width;
}

static float *row(lm_operand o, uint64_t i)
{
    return o.at + i * o.row;
}

static void put(float *to, const float *x, float factor, uint64_t n, bool first)
{
    for (uint64_t i = 0; i < n; i++)
        to[i] = first ? factor * x[i] : to[i] + factor * x[i];
}

/* ---- products ---- */

/* db += sum of dy over rows, for lanes [from, to). */
static void sum_rows(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f  = arg;
    float          *db = lm_trained_gradient(f->l, f->node->weights[1]);

    (void)worker;
    for (uint64_t i = 0; i < f->rows; i++)
        for (uint64_t k = from; k < to; k++)
            db[k] += row(f->dout, i)[k];
}

typedef struct dropping {
    lm_frame  *f;
    lm_operand x;
    bool       add;                      /* add x, after dropout, to the input's gradient; otherwise copy the
                                            input, after dropout, to x */
} dropping;

static void drop_rows(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const dropping *d = arg;
    uint64_t        n = width(d->f, d->f->node->in[0]);

    (void)worker;
    for (uint64_t i = from; i < to; i++) {
        if (!d->add)
            memcpy(row(d->x, i), row(d->f->in[0], i), n * sizeof(float));
        lm_train_drop(d->f->l, d->f->node->weights[0], i, row(d->x, i), n);
        if (d->add)
            put(row(d->f->din[0], i), row(d->x, i), 1, n, d->f->reverse->first[0]);
    }
}

static void linear(lm_frame *f)
{
    const lm_node   *n    = f->node;
    const lm_weight *w    = &f->l->program->weights[n->weights[0]];
    lm_operand       x    = f->in[0], dx = f->din[0];
    bool             drops = lm_train_drops(f->l, n->weights[0]);
    uint64_t         cols = w->dims[1];

    if (drops)
        x = dx = (lm_operand){ (float *)(void *)lm_shared_scratch(f->l), cols };
    if (f->reverse->trains[0]) {
        dropping d = { f, x, false };
        if (drops)
            lm_train_parallel(f->l, drop_rows, &d, f->rows, 16);
        lm_train_gemm(f->l, &(lm_gemm){ .c = lm_trained_gradient(f->l, n->weights[0]),
                                        .c_row = cols,
                                        .a = f->dout.at,
                                        .a_row = 1,
                                        .a_col = f->dout.row,
                                        .b = x.at,
                                        .b_row = x.row,
                                        .m = w->dims[0],
                                        .n = cols,
                                        .k = f->rows });
    }
    if (f->reverse->trains[1])
        lm_train_parallel(f->l, sum_rows, f, w->dims[0], 64);
    if (f->din[0].at) {
        dropping d = { f, dx, true };
        if (f->reverse->first[0] || drops)
            lm_train_clear(f->l, dx, f->rows, cols);
        lm_train_through(f->l, n->weights[0], 0, w->dims[0], f->dout, dx, f->rows);
        if (drops)
            lm_train_parallel(f->l, drop_rows, &d, f->rows, 16);
    }
}

static void head_linear(lm_frame *f)
{
    const lm_node   *n = f->node;
    const lm_weight *w = &f->l->program->weights[n->weights[0]];
    uint64_t         out = w->dims[1], in = w->dims[2], step = n->heads.shared ? 0 : in;
    float           *dw = lm_trained_gradient(f->l, n->weights[0]);

    for (uint32_t h = 0; dw && h < n->heads.n_heads; h++)
        lm_train_gemm(f->l, &(lm_gemm){ .c = dw + h * out * in,
                                        .c_row = in,
                                        .a = f->dout.at + h * out,
                                        .a_row = 1,
                                        .a_col = f->dout.row,
                                        .b = f->in[0].at + h * step,
                                        .b_row = f->in[0].row,
                                        .m = out,
                                        .n = in,
                                        .k = f->rows });
    if (!f->din[0].at)
        return;
    if (f->reverse->first[0])
        lm_train_clear(f->l, f->din[0], f->rows, width(f, n->in[0]));
    for (uint32_t h = 0; h < n->heads.n_heads; h++)
        lm_train_through(f->l, n->weights[0], h * out, (h + 1) * out,
                         (lm_operand){ f->dout.at + h * out, f->dout.row },
                         (lm_operand){ f->din[0].at + h * step, f->din[0].row }, f->rows);
}

/* ---- tables: rows with equal ids in order, lanes divided among workers ---- */

static void look_up(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f = arg;
    const lm_node  *n = f->node;
    lm_trained     *t = &f->l->trained[f->l->which[n->weights[0]]];
    float          *d = t->looked_up ? t->looked_up : t->gradient;
    uint64_t        w = width(f, n->out);

    (void)worker;
    for (uint64_t i = 0; i < f->rows; i++) {
        uint64_t at = n->code == LM_OP_EMBED ? (uint64_t)f->l->tokens[i]
                                             : (uint64_t)f->l->positions[i] + n->position.offset;
        for (uint64_t k = from; k < to; k++)
            d[at * w + k] += row(f->dout, i)[k];
    }
}

/* ---- norms ---- */

static void norm(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame            *f      = arg;
    const lm_node             *n      = f->node;
    const lm_gradient_kernels *k      = &f->l->kernels;
    uint64_t groups = n->norm.groups, w = width(f, n->out) / groups, next = n->norm.own ? w : 0;
    const float               *scale  = lm_vector_of(f->l, n->weights[0]);

    (void)worker;
    for (uint64_t i = from; i < to; i++)
        for (uint64_t g = 0; g < groups; g++) {
            float       *dx = row(f->din[0], i) + g * w;
            const float *x = row(f->in[0], i) + g * w, *dy = row(f->dout, i) + g * w;
            if (n->code == LM_OP_RMS_NORM)
                k->rms(dx, x, dy, scale, w, n->norm.eps, f->reverse->first[0]);
            else
                k->layer_norm(dx, x, dy, scale ? scale + g * next : NULL, w, n->norm.eps,
                              f->reverse->first[0]);
        }
}

/* One worker processes all rows: sums of vectors are cheap. */
static void norm_weights(lm_frame *f)
{
    const lm_node *n      = f->node;
    uint64_t       groups = n->norm.groups, w = width(f, n->out) / groups, next = n->norm.own ? w : 0;
    float         *dw = f->reverse->trains[0] ? lm_trained_gradient(f->l, n->weights[0]) : NULL;
    float         *db = f->reverse->trains[1] ? lm_trained_gradient(f->l, n->weights[1]) : NULL;

    for (uint64_t i = 0; (dw || db) && i < f->rows; i++)
        for (uint64_t g = 0; g < groups; g++)
            if (n->code == LM_OP_RMS_NORM)
                f->l->kernels.rms_weight(dw, row(f->in[0], i) + g * w, row(f->dout, i) + g * w, w,
                                         n->norm.eps);
            else
                f->l->kernels.layer_norm_weight(dw ? dw + g * next : NULL, db, row(f->in[0], i) + g * w,
                                                row(f->dout, i) + g * w, w, n->norm.eps);
}

/* ---- rows ---- */

/* Rotate with the sine negated. The magnitude is a factor in both directions: this is the transpose, not the
 * inverse. */
static void rope(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame     *f    = arg;
    const lm_rope_spec *s    = &f->l->program->ropes[f->node->rope.table].spec;
    const lm_buffer    *t    = &f->l->turn->buffers[f->l->turn->tables[f->node->rope.table]];
    uint32_t            half = s->dim / 2;
    float              *sine = lm_worker_scratch(f->l, worker), *x = sine + s->dim;
    uint64_t            w    = width(f, f->node->out);

    for (uint64_t i = from; i < to; i++) {
        const float *cosine = (const float *)(const void *)(f->l->slab + t->offset + i * t->stride);
        for (uint32_t k = 0; k < half; k++)
            sine[k] = -cosine[half + k];
        memcpy(x, row(f->dout, i), w * sizeof *x);
        f->l->engine->kernels.row.rope(x, f->node->rope.n_heads, f->node->rope.head_dim, s->dim, cosine, sine,
                                       s->pairing == LM_ROPE_PAIR);
        put(row(f->din[0], i), x, 1, w, f->reverse->first[0]);
    }
}

/* One gate per row: its gradient is a sum over lanes. */
static void gate(const lm_frame *f, uint64_t i)
{
    const lm_row_kernels *k = &f->l->engine->kernels.row;
    uint64_t              w = width(f, f->node->out);
    const float          *x = row(f->in[1], i), *dy = row(f->dout, i);
    float                 a, sum;
    double                exact = 0;

    k->act(&a, row(f->in[0], i), f->node->glu.act, 1);
    for (uint64_t j = 0; f->din[0].at && j < w; j++)
        exact += (double)dy[j] * (double)x[j];
    sum = (float)exact;
    if (f->din[0].at)
        f->l->kernels.act(row(f->din[0], i), row(f->in[0], i), &sum, f->node->glu.act, 1,
                          f->reverse->first[0]);
    if (f->din[1].at)
        put(row(f->din[1], i), dy, a, w, f->reverse->first[1]);
}

static void glu(const lm_frame *f, uint64_t i)
{
    uint64_t w = width(f, f->node->out);

    if (width(f, f->node->in[0]) != w)
        gate(f, i);
    else
        f->l->kernels.glu(f->din[0].at ? row(f->din[0], i) : NULL, f->din[1].at ? row(f->din[1], i) : NULL,
                          row(f->in[0], i), row(f->in[1], i), row(f->dout, i), f->node->glu.act, w,
                          f->reverse->first[0], f->reverse->first[1]);
}

static void columns(const lm_frame *f, uint64_t i)
{
    uint32_t groups = f->node->columns.groups;
    uint64_t from = width(f, f->node->in[0]) / groups, w = width(f, f->node->out) / groups;

    if (f->reverse->first[0])
        memset(row(f->din[0], i), 0, groups * from * sizeof(float));
    for (uint32_t g = 0; g < groups; g++)
        put(row(f->din[0], i) + g * from + f->node->columns.offset, row(f->dout, i) + g * w, 1, w, false);
}

static void join(const lm_frame *f, uint64_t i)
{
    uint32_t groups = f->node->join.groups;
    uint64_t first = width(f, f->node->in[0]) / groups, second = width(f, f->node->out) / groups - first;
    bool     shared = f->node->join.shared;

    for (uint32_t g = 0; g < groups; g++) {
        const float *dy = row(f->dout, i) + g * (first + second);
        if (f->din[0].at)
            put(row(f->din[0], i) + g * first, dy, 1, first, f->reverse->first[0]);
        if (f->din[1].at)
            put(row(f->din[1], i) + (shared ? 0 : g * second), dy + first, 1, second,
                f->reverse->first[1] && !(shared && g));
    }
}

static void softcap(const lm_frame *f, uint64_t i)
{
    float        cap = f->node->scale.factor, *dx = row(f->din[0], i);
    const float *y = row(f->out, i), *dy = row(f->dout, i);

    for (uint64_t k = 0, w = width(f, f->node->out); k < w; k++) {
        float t = y[k] / cap, d = dy[k] * (1.0f - t * t);
        dx[k]   = f->reverse->first[0] ? d : dx[k] + d;
    }
}

static void clamp(const lm_frame *f, uint64_t i)
{
    float        limit = f->node->scale.factor, *dx = row(f->din[0], i);
    const float *x = row(f->in[0], i), *dy = row(f->dout, i);

    for (uint64_t k = 0, w = width(f, f->node->out); k < w; k++) {
        float d = x[k] >= -limit && x[k] <= limit ? dy[k] : 0.0f;
        dx[k]   = f->reverse->first[0] ? d : dx[k] + d;
    }
}

static void rows(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f = arg;
    const lm_node  *n = f->node;
    uint64_t        w = width(f, n->out);

    (void)worker;
    for (uint64_t i = from; i < to; i++)
        switch (n->code) {
        case LM_OP_ADD:
            for (uint32_t k = 0; k < 2; k++)
                if (f->din[k].at)
                    put(row(f->din[k], i), row(f->dout, i), 1, w, f->reverse->first[k]);
            break;
        case LM_OP_SCALE:
            put(row(f->din[0], i), row(f->dout, i), n->scale.factor, w, f->reverse->first[0]);
            break;
        case LM_OP_GLU:
            glu(f, i);
            break;
        case LM_OP_ACT:
            f->l->kernels.act(row(f->din[0], i), row(f->in[0], i), row(f->dout, i), n->glu.act, w,
                              f->reverse->first[0]);
            break;
        case LM_OP_COLUMNS:
            columns(f, i);
            break;
        case LM_OP_JOIN:
            join(f, i);
            break;
        case LM_OP_SOFTCAP:
            softcap(f, i);
            break;
        case LM_OP_CLAMP:
            clamp(f, i);
            break;
        case LM_OP_ROUTE:
            lm_train_route_back(&n->route.spec, row(f->in[0], i), row(f->out, i), row(f->dout, i),
                                row(f->din[0], i), f->reverse->first[0], &f->l->engine->kernels.row);
            break;
        default:
            break;
        }
}

void lm_train_reverse(lm_frame *f)
{
    switch (f->node->code) {
    case LM_OP_LINEAR:
        linear(f);
        return;
    case LM_OP_HEAD_LINEAR:
        head_linear(f);
        return;
    case LM_OP_ATTENTION:
        lm_train_attention_back(f);
        return;
    case LM_OP_EXPERTS:
        lm_train_experts_back(f);
        return;
    case LM_OP_EMBED:
    case LM_OP_POSITION:
        lm_train_parallel(f->l, look_up, f, width(f, f->node->out), 64);
        return;
    case LM_OP_RMS_NORM:
    case LM_OP_LAYER_NORM:
        norm_weights(f);
        if (f->din[0].at)
            lm_train_parallel(f->l, norm, f, f->rows, 16);
        return;
    case LM_OP_ROPE:
        lm_train_parallel(f->l, rope, f, f->rows, 16);
        return;
    default:
        lm_train_parallel(f->l, rows, f, f->rows, 16);
    }
}
