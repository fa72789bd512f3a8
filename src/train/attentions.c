/* attentions.c - attention within each text of a training step, forward and backward. */
#include <math.h>
#include <string.h>

#include "train/learner.h"

enum { ROWS = 64 };                      /* queries or keys per task of a worker */

static float *slopes_of(const lm_frame *f, float *slopes)
{
    if (!(f->node->attention.spec.alibi > 0))
        return NULL;
    lm_alibi_slopes(&f->node->attention.spec, slopes);
    return slopes;
}

typedef struct pieces {
    lm_frame    *f;
    const float *slopes;                 /* per head, or NULL */
    uint64_t     each;                   /* number of pieces of all texts */
} pieces;

/* Return the n-th piece of ROWS rows of the step's texts. */
static const lm_train_text *piece_of(const lm_learner *l, uint64_t n, uint32_t *from, uint32_t *to)
{
    const lm_train_text *t = l->texts;

    for (uint64_t has; n >= (has = (t->rows + ROWS - 1) / ROWS); t++)
        n -= has;
    *from = (uint32_t)n * ROWS;
    *to   = *from + ROWS < t->rows ? *from + ROWS : t->rows;
    return t;
}

static uint64_t count_pieces(const lm_learner *l)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < l->n_texts; i++)
        n += (l->texts[i].rows + ROWS - 1) / ROWS;
    return n;
}

static lm_text_attention arguments(const pieces *p, const lm_train_text *t, uint32_t head, unsigned worker)
{
    const lm_frame          *f  = p->f;
    const lm_attention_spec *s  = &f->node->attention.spec;
    uint32_t                 kv = head / (s->n_heads / s->n_kv_heads);
    const float             *sinks = lm_vector_of(f->l, f->node->weights[0]);
    lm_operand               v     = s->v_in_k ? f->in[1] : f->in[2];
    lm_text_attention a = {
        .q = f->in[0].at + t->first * f->in[0].row + head * s->k_dim,
        .q_row = f->in[0].row,
        .k = f->in[1].at + t->first * f->in[1].row + kv * s->k_dim,
        .k_row = f->in[1].row,
        .v = v.at + t->first * v.row + kv * (s->v_in_k ? s->k_dim : s->v_dim),
        .v_row = v.row,
        .out = f->out.at + t->first * f->out.row + head * s->v_dim,
        .out_row = f->out.row,
        .lse = f->kept.at + t->first * f->kept.row + head,
        .lse_row = f->kept.row,
        .rows = t->rows,
        .k_dim = s->k_dim,
        .v_dim = s->v_dim,
        .window = s->window,
        .chunked = s->chunked,
        .scale = s->scale,
        .softcap = s->softcap,
        .slope = p->slopes ? p->slopes[head] : 0,
        .slope_half = s->alibi_half,
        .sink = sinks != NULL,
        .sink_score = sinks ? sinks[head] : 0,
        .scratch = lm_worker_scratch(f->l, worker),
    };
    lm_operand dv = s->v_in_k ? f->din[1] : f->din[2];
    if (f->dout.at)
        a.dout = f->dout.at + t->first * f->dout.row + head * s->v_dim, a.dout_row = f->dout.row;
    if (f->din[0].at)
        a.dq = f->din[0].at + t->first * f->din[0].row + head * s->k_dim, a.dq_row = f->din[0].row;
    if (f->din[1].at)
        a.dk = f->din[1].at + t->first * f->din[1].row + kv * s->k_dim, a.dk_row = f->din[1].row;
    if (dv.at)
        a.dv = dv.at + t->first * dv.row + kv * (s->v_in_k ? s->k_dim : s->v_dim), a.dv_row = dv.row;
    return a;
}

/* Divide rows [from, to) of a text at the first that sees only chosen keys, or entries; without such rows, at
 * `to`. */
static uint32_t dense_end(const lm_frame *f, uint32_t from, uint32_t to)
{
    uint32_t top_k = f->node->attention.spec.top_k;

    if (f->node->attention.spec.rate)
        return from;
    return !top_k || to <= top_k ? to : from > top_k ? from : top_k;
}

static lm_operand rows_of(lm_operand x, uint32_t rate, const lm_train_text *t)
{
    return rate && x.at ? (lm_operand){ x.at + t->first * x.row, x.row } : (lm_operand){ 0 };
}

/* The same attention with the keys that are chosen for a query head. */
static lm_sparse_attention_args sparse_of(const lm_frame *f, const lm_train_text *t, uint32_t head,
                                          const lm_text_attention *a)
{
    const lm_attention_spec *s    = &f->node->attention.spec;
    uint32_t                 kv   = head / (s->n_heads / s->n_kv_heads),
             from                 = lm_seen_choice(s, kv) * lm_choice_width(s);

    return (lm_sparse_attention_args){
        .a       = a,
        .spec    = s,
        .chosen  = { s->top_k ? f->in[3].at + t->first * f->in[3].row + from : NULL, f->in[3].row },
        .entries  = rows_of(f->in[4], s->rate, t),
        .dentries = rows_of(f->din[4], s->rate, t),
        .kernels = &f->l->kernels,
    };
}

static void attend(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const pieces *p = arg;

    for (uint64_t i = from; i < to; i++) {
        uint32_t             first, last;
        const lm_train_text *t = piece_of(p->f->l, i % p->each, &first, &last);
        lm_text_attention    a = arguments(p, t, (uint32_t)(i / p->each), worker);
        lm_sparse_attention_args sparse = sparse_of(p->f, t, (uint32_t)(i / p->each), &a);
        uint32_t                 middle = dense_end(p->f, first, last);
        if (first < middle)
            p->f->l->kernels.attend(&a, first, middle);
        lm_sparse_attend(&sparse, middle, last);
    }
}

void lm_train_attention(lm_frame *f)
{
    float  slopes[LM_MAX_EXPERTS];
    pieces p = { f, slopes_of(f, slopes), count_pieces(f->l) };

    lm_train_parallel(f->l, attend, &p, p.each * f->node->attention.spec.n_heads, 1);
}

static void back_to_queries(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const pieces *p = arg;

    for (uint64_t i = from; i < to; i++) {
        uint32_t             first, last;
        const lm_train_text *t = piece_of(p->f->l, i % p->each, &first, &last);
        lm_text_attention    a = arguments(p, t, (uint32_t)(i / p->each), worker);
        lm_sparse_attention_args sparse = sparse_of(p->f, t, (uint32_t)(i / p->each), &a);
        uint32_t                 middle = dense_end(p->f, first, last);
        if (first < middle)
            p->f->l->kernels.attend_back_q(&a, first, middle);
        lm_sparse_back_q(&sparse, middle, last);
    }
}

/* Compute the gradients of pieces of keys and values. Each adds the contributions of the heads of its group
 * in order. */
static void back_to_keys(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const pieces *p     = arg;
    uint32_t      group = p->f->node->attention.spec.n_heads / p->f->node->attention.spec.n_kv_heads;

    for (uint64_t i = from; i < to; i++) {
        uint32_t             first, last;
        const lm_train_text *t = piece_of(p->f->l, i % p->each, &first, &last);
        for (uint32_t h = 0; h < group; h++) {
            lm_text_attention a = arguments(p, t, (uint32_t)(i / p->each) * group + h, worker);
            lm_sparse_attention_args sparse =
                sparse_of(p->f, t, (uint32_t)(i / p->each) * group + h, &a);
            a.rows = dense_end(p->f, 0, t->rows);
            if (first < a.rows)
                p->f->l->kernels.attend_back_kv(&a, first, last < a.rows ? last : a.rows);
            a.rows = t->rows;
            if (p->f->node->attention.spec.top_k || p->f->node->attention.spec.rate)
                lm_sparse_back_kv(&sparse, first, last);
        }
    }
}

/* d sink = - sum over rows of exp(sink - lse) (dout . out). */
static void back_to_sinks(lm_frame *f)
{
    const lm_attention_spec *s     = &f->node->attention.spec;
    const float             *sinks = lm_vector_of(f->l, f->node->weights[0]);
    float                   *to    = lm_trained_gradient(f->l, f->node->weights[0]);

    for (uint32_t h = 0; to && h < s->n_heads; h++)
        for (uint32_t i = 0; i < f->rows; i++) {
            float delta = 0;
            for (uint32_t k = 0; k < s->v_dim; k++)
                delta += f->dout.at[i * f->dout.row + h * s->v_dim + k] *
                         f->out.at[i * f->out.row + h * s->v_dim + k];
            to[h] -= expf(sinks[h] - f->kept.at[i * f->kept.row + h]) * delta;
        }
}

static void clear(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f = arg;

    (void)worker;
    for (uint64_t i = from; i < to; i++)
        for (uint32_t k = 0; k < f->node->n_in; k++)
            if (f->din[k].at && f->reverse->first[k])
                memset(f->din[k].at + i * f->din[k].row, 0,
                       f->l->program->values[f->node->in[k]].width * sizeof(float));
}

void lm_train_attention_back(lm_frame *f)
{
    float  slopes[LM_MAX_EXPERTS];
    pieces p = { f, slopes_of(f, slopes), count_pieces(f->l) };

    lm_train_parallel(f->l, clear, f, f->rows, 64);
    if (f->din[0].at)
        lm_train_parallel(f->l, back_to_queries, &p, p.each * f->node->attention.spec.n_heads, 1);
    if (f->din[1].at || f->din[2].at || (f->node->attention.spec.rate && f->din[4].at))
        lm_train_parallel(f->l, back_to_keys, &p, p.each * f->node->attention.spec.n_kv_heads, 1);
    back_to_sinks(f);
}
