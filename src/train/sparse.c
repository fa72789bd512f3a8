/* sparse.c - the choice of keys, and attention to chosen keys alone, forward and backward, within a text. No
 * gradient passes through the choice, as in the models' own code. */
#include <math.h>

#include "runtime/ops/chosen.h"
#include "train/learner.h"

/* ---- the choice ---- */

/* Score the keys of a text up to row r, of all heads together or of one for its choice of blocks. */
static void score(const lm_frame *f, uint32_t first, uint32_t r, uint32_t choice, float *scores)
{
    const lm_attention_spec *s = &f->node->attention.spec;
    const float             *q = f->in[0].at + (first + r) * f->in[0].row;
    const float             *w = s->block ? NULL : f->in[2].at + (first + r) * f->in[2].row;
    uint32_t                 from = s->block ? choice : 0, to = s->block ? choice + 1 : s->n_heads;

    for (uint32_t j = 0; j <= r; j++) {
        const float *k = f->in[1].at + (first + j) * f->in[1].row;
        scores[j]      = 0;
        for (uint32_t h = from; h < to; h++) {
            float x = f->l->kernels.dot(q + (uint64_t)h * s->k_dim, k, s->k_dim);
            scores[j] += w ? w[h] * (x > 0 ? x : 0) : x;
        }
    }
}

/* Choose the keys of row r of a text that begins at row `first`. */
static void choose(const lm_frame *f, uint32_t first, uint32_t r, float *scores)
{
    const lm_attention_spec *s   = &f->node->attention.spec;
    float                   *out = f->out.at + (first + r) * f->out.row;
    uint32_t                 width = lm_choice_width(s);

    for (uint32_t c = 0; c * width < lm_chosen_width(s); c++) {
        if (r >= s->top_k)
            score(f, first, r, c, scores);
        lm_choose_keys(s, scores, r, out + (uint64_t)c * width);
    }
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

static float score_of(const lm_sparse_attention_args *x, uint32_t r, uint32_t j)
{
    const lm_text_attention *a = x->a;

    return a->scale * x->kernels->dot(a->q + r * a->q_row, a->k + j * a->k_row, a->k_dim);
}

/* Return the gradient of a score: p (dout . v - dout . out). */
static float slope_of(const lm_sparse_attention_args *x, uint32_t r, uint32_t j, float delta)
{
    const lm_text_attention *a = x->a;
    float                    p = expf(score_of(x, r, j) - a->lse[r * a->lse_row]);

    return p * (x->kernels->dot(a->dout + r * a->dout_row, a->v + j * a->v_row, a->v_dim) - delta);
}

static float delta_of(const lm_sparse_attention_args *x, uint32_t r)
{
    const lm_text_attention *a = x->a;

    return x->kernels->dot(a->dout + r * a->dout_row, a->out + r * a->out_row, a->v_dim);
}

/* Write the positions that row r sees, behind the scores; return how many. */
static uint32_t keys_of(const lm_sparse_attention_args *x, uint32_t r, uint32_t **keys)
{
    *keys = (uint32_t *)(void *)((float *)x->a->scratch + x->a->rows);
    return lm_chosen_keys(x->spec, x->chosen.at + r * x->chosen.row, r, *keys);
}

void lm_sparse_attend(const lm_sparse_attention_args *x, uint32_t from, uint32_t to)
{
    const lm_text_attention *a      = x->a;
    float                   *scores = a->scratch;
    uint32_t                *keys;

    for (uint32_t r = from; r < to; r++) {
        float   *out = a->out + r * a->out_row, max = -INFINITY, sum = 0;
        uint32_t n   = keys_of(x, r, &keys);
        for (uint32_t i = 0; i < n; i++) {
            scores[i] = score_of(x, r, keys[i]);
            max       = fmaxf(max, scores[i]);
        }
        for (uint32_t i = 0; i < n; i++)
            sum += expf(scores[i] - max);
        a->lse[r * a->lse_row] = max + logf(sum);
        for (uint32_t i = 0; i < a->v_dim; i++)
            out[i] = 0;
        for (uint32_t i = 0; i < n; i++)
            lm_put_gradient(out, a->v + keys[i] * a->v_row, expf(scores[i] - max) / sum, a->v_dim, false);
    }
}

void lm_sparse_back_q(const lm_sparse_attention_args *x, uint32_t from, uint32_t to)
{
    const lm_text_attention *a = x->a;
    uint32_t                *keys;

    for (uint32_t r = from; r < to; r++) {
        float    delta = delta_of(x, r);
        uint32_t n     = keys_of(x, r, &keys);
        for (uint32_t i = 0; i < n; i++)
            lm_put_gradient(a->dq + r * a->dq_row, a->k + keys[i] * a->k_row,
                            a->scale * slope_of(x, r, keys[i], delta), a->k_dim, false);
    }
}

void lm_sparse_back_kv(const lm_sparse_attention_args *x, uint32_t from, uint32_t to)
{
    const lm_text_attention *a = x->a;
    uint32_t                *keys;

    for (uint32_t r = x->spec->top_k; r < a->rows; r++) {
        float    delta = delta_of(x, r);
        uint32_t n     = keys_of(x, r, &keys);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t j = keys[i];
            if (j < from || j >= to)
                continue;
            if (a->dk)
                lm_put_gradient(a->dk + j * a->dk_row, a->q + r * a->q_row,
                                a->scale * slope_of(x, r, j, delta), a->k_dim, false);
            if (a->dv)
                lm_put_gradient(a->dv + j * a->dv_row, a->dout + r * a->dout_row,
                                expf(score_of(x, r, j) - a->lse[r * a->lse_row]), a->v_dim, false);
        }
    }
}
