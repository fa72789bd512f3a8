/* reverses.c - the backward pass of every operation on the rows of a training step. */
#include <string.h>

#include "train/learner.h"
#include "train/passes.h"

static uint64_t width(const lm_frame *f, lm_value v)
{
    return f->l->program->values[v].width;
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
            db[k] += lm_row_of(f->dout, i)[k];
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
            memcpy(lm_row_of(d->x, i), lm_row_of(d->f->in[0], i), n * sizeof(float));
        lm_train_drop(d->f->l, d->f->node->weights[0], i, lm_row_of(d->x, i), n);
        if (d->add)
            lm_put_gradient(lm_row_of(d->f->din[0], i), lm_row_of(d->x, i), 1, n, d->f->reverse->first[0]);
    }
}

static void linear(lm_frame *f)
{
    const lm_node   *n    = f->node;
    const lm_weight *w    = &f->l->program->weights[n->weights[0]];
    const float     *scale = lm_vector_of(f->l, n->weights[2]);
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
        lm_train_through(f->l, n->weights[0], 0, w->dims[0], f->dout, dx, f->rows, scale ? *scale : 1);
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
                         (lm_operand){ f->din[0].at + h * step, f->din[0].row }, f->rows, 1);
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
        uint64_t at = n->code == LM_OP_EMBED ? lm_row_of_token(f->l->program, n, (uint64_t)f->l->tokens[i])
                                             : (uint64_t)f->l->positions[i] + n->position.offset;
        for (uint64_t k = from; k < to; k++)
            d[at * w + k] += lm_row_of(f->dout, i)[k];
    }
}

/* ---- rows ---- */

static void back_of(const lm_frame *f, lm_rows_back *b)
{
    *b = (lm_rows_back){ .kernels = &f->l->kernels, .dout = f->dout, .first = f->reverse->first };
    lm_train_rows(f, &b->rows);
    memcpy(b->din, f->din, sizeof b->din);
    for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
        b->dw[k] = f->reverse->trains[k] ? lm_trained_gradient(f->l, f->node->weights[k]) : NULL;
}

static void rows(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f = arg;
    lm_rows_back    b;

    back_of(f, &b);
    lm_row_ops[f->node->code]->reverse(&b, from, to, lm_worker_scratch(f->l, worker));
}

/* One worker computes the gradients of weights: sums of vectors are cheap. */
static void row_operation(lm_frame *f)
{
    const lm_row_op *op = lm_row_ops[f->node->code];
    bool             trains = false, goes_back = false;
    lm_rows_back     b;

    back_of(f, &b);
    for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
        trains |= b.dw[k] != NULL;
    for (uint32_t k = 0; k < f->node->n_in; k++)
        goes_back |= f->din[k].at != NULL;
    if (trains)
        op->reverse_weights(&b, 0, f->rows);
    if (goes_back)
        lm_train_parallel(f->l, rows, f, f->rows, 16);
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
    case LM_OP_CAUSAL_CONV:
        lm_train_convolve_back(f);
        return;
    case LM_OP_LINEAR_RECURRENCE:
        lm_train_recur_back(f);
        return;
    case LM_OP_SELECTIVE_SCAN:
        lm_train_scan_back(f);
        return;
    case LM_OP_GATED_RECURRENCE:
        lm_train_gated_back(f);
        return;
    case LM_OP_COMPRESS:
        lm_train_compress_back(f);
        return;
    case LM_OP_EXPERTS:
        lm_train_experts_back(f);
        return;
    case LM_OP_EMBED:
    case LM_OP_POSITION:
        lm_train_parallel(f->l, look_up, f, width(f, f->node->out), 64);
        return;
    default:
        row_operation(f);
    }
}
