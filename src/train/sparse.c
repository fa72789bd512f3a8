/* sparse.c - the choice of keys, and attention to chosen keys alone, forward and backward, within a text. No
 * gradient passes through the choice, as in the models' own code. */
#include <math.h>

#include "runtime/ops/best.h"
#include "train/learner.h"

static float dot(const float *a, const float *b, uint32_t n)
{
    float sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(float *to, const float *x, float factor, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] += factor * x[i];
}

/* ---- the choice ---- */

/* Choose the keys of row r of a text that begins at row `first`. */
static void choose(const lm_frame *f, uint32_t first, uint32_t r, float *scores)
{
    const lm_attention_spec *s   = &f->node->attention.spec;
    const float             *q   = f->in[0].at + (first + r) * f->in[0].row;
    const float             *w   = f->in[2].at + (first + r) * f->in[2].row;
    float                   *out = f->out.at + (first + r) * f->out.row;

    if (r < s->top_k) {
        for (uint32_t j = 0; j < s->top_k; j++)
            out[j] = j <= r ? (float)j : -1;
        return;
    }
    for (uint32_t j = 0; j <= r; j++) {
        const float *k = f->in[1].at + (first + j) * f->in[1].row;
        scores[j]      = 0;
        for (uint32_t h = 0; h < s->n_heads; h++) {
            float score = dot(q + (uint64_t)h * s->k_dim, k, s->k_dim);
            scores[j] += w[h] * (score > 0 ? score : 0);
        }
    }
    lm_best(scores, r + 1, s->top_k, out);
}

static void select_rows(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame      *f = arg;
    const lm_train_text *t = f->l->texts;

    for (uint64_t i = from; i < to; i++) {
        while (i >= (uint64_t)t->first + t->rows)
            t++;
        choose(f, t->first, (uint32_t)i - t->first, lm_worker_scratch(f->l, worker));
    }
}

void lm_train_select(lm_frame *f)
{
    lm_train_parallel(f->l, select_rows, f, f->rows, 1);
}

/* ---- attention ---- */

static float score_of(const lm_text_attention *a, uint32_t r, uint32_t j)
{
    return a->scale * dot(a->q + r * a->q_row, a->k + j * a->k_row, a->k_dim);
}

/* Return the gradient of a score: p (dout . v - dout . out). */
static float slope_of(const lm_text_attention *a, uint32_t r, uint32_t j, float delta)
{
    float p = expf(score_of(a, r, j) - a->lse[r * a->lse_row]);

    return p * (dot(a->dout + r * a->dout_row, a->v + j * a->v_row, a->v_dim) - delta);
}

static float delta_of(const lm_text_attention *a, uint32_t r)
{
    return dot(a->dout + r * a->dout_row, a->out + r * a->out_row, a->v_dim);
}

void lm_sparse_attend(const lm_text_attention *a, const lm_operand *chosen, uint32_t top_k, uint32_t from,
                      uint32_t to)
{
    float *scores = a->scratch;

    for (uint32_t r = from; r < to; r++) {
        const float *keys = chosen->at + r * chosen->row;
        float       *out  = a->out + r * a->out_row, max = -INFINITY, sum = 0;
        for (uint32_t i = 0; i < top_k; i++) {
            scores[i] = score_of(a, r, (uint32_t)keys[i]);
            max       = fmaxf(max, scores[i]);
        }
        for (uint32_t i = 0; i < top_k; i++)
            sum += expf(scores[i] - max);
        a->lse[r * a->lse_row] = max + logf(sum);
        for (uint32_t i = 0; i < a->v_dim; i++)
            out[i] = 0;
        for (uint32_t i = 0; i < top_k; i++)
            add_scaled(out, a->v + (uint32_t)keys[i] * a->v_row, expf(scores[i] - max) / sum, a->v_dim);
    }
}

void lm_sparse_back_q(const lm_text_attention *a, const lm_operand *chosen, uint32_t top_k, uint32_t from,
                      uint32_t to)
{
    for (uint32_t r = from; r < to; r++) {
        const float *keys  = chosen->at + r * chosen->row;
        float        delta = delta_of(a, r);
        for (uint32_t i = 0; i < top_k; i++) {
            uint32_t j = (uint32_t)keys[i];
            add_scaled(a->dq + r * a->dq_row, a->k + j * a->k_row, a->scale * slope_of(a, r, j, delta),
                       a->k_dim);
        }
    }
}

void lm_sparse_back_kv(const lm_text_attention *a, const lm_operand *chosen, uint32_t top_k, uint32_t from,
                       uint32_t to)
{
    for (uint32_t r = top_k; top_k && r < a->rows; r++) {
        const float *keys  = chosen->at + r * chosen->row;
        float        delta = delta_of(a, r);
        for (uint32_t i = 0; i < top_k; i++) {
            uint32_t j = (uint32_t)keys[i];
            if (j < from || j >= to)
                continue;
            if (a->dk)
                add_scaled(a->dk + j * a->dk_row, a->q + r * a->q_row,
                           a->scale * slope_of(a, r, j, delta), a->k_dim);
            if (a->dv)
                add_scaled(a->dv + j * a->dv_row, a->dout + r * a->dout_row,
                           expf(score_of(a, r, j) - a->lse[r * a->lse_row]), a->v_dim);
        }
    }
}
