/* sparse.c - the choice of keys, and attention to chosen keys alone, forward and backward, within a text. No
 * gradient passes through the choice, as in the models' own code. */
#include <math.h>

#include "runtime/ops/chosen.h"
#include "train/learner.h"

/* ---- the choice ---- */

/* Return how many keys, or entries, are visible to row r of a text; and the row that has one of them. */
static uint32_t visible(const lm_attention_spec *s, uint32_t r)
{
    return s->rate ? (r + 1) / s->rate : r + 1;
}

static uint32_t row_of_key(const lm_attention_spec *s, uint32_t j)
{
    return s->rate ? (j + 1) * s->rate - 1 : j;
}

/* Score the keys of a text up to row r, of all heads together or of one for its choice of blocks. */
static void score(const lm_frame *f, uint32_t first, uint32_t r, uint32_t choice, float *scores)
{
    const lm_attention_spec *s = &f->node->attention.spec;
    const float             *q = f->in[0].at + (first + r) * f->in[0].row;
    const float             *w = s->block ? NULL : f->in[2].at + (first + r) * f->in[2].row;
    uint32_t                 from = s->block ? choice : 0, to = s->block ? choice + 1 : s->n_heads;

    for (uint32_t j = 0; j < visible(s, r); j++) {
        const float *k = f->in[1].at + (first + row_of_key(s, j)) * f->in[1].row;
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
        if (visible(s, r) > s->top_k)
            score(f, first, r, c, scores);
        lm_choose_keys(s, scores, visible(s, r), out + (uint64_t)c * width);
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

/* ---- attention ----
 *
 * Keys have numbers: positions of the text, and behind them its entries. */

static bool is_entry(const lm_sparse_attention_args *x, uint32_t j)
{
    return j >= x->a->rows;
}

/* Return the row that has key j. */
static uint32_t row_of(const lm_sparse_attention_args *x, uint32_t j)
{
    return is_entry(x, j) ? row_of_key(x->spec, j - x->a->rows) : j;
}

static const float *key_of(const lm_sparse_attention_args *x, uint32_t j)
{
    return is_entry(x, j) ? lm_row_of(x->entries, row_of(x, j)) : x->a->k + j * x->a->k_row;
}

static const float *value_of(const lm_sparse_attention_args *x, uint32_t j)
{
    return is_entry(x, j) ? lm_row_of(x->entries, row_of(x, j)) : x->a->v + j * x->a->v_row;
}

static float score_of(const lm_sparse_attention_args *x, uint32_t r, uint32_t j)
{
    const lm_text_attention *a = x->a;

    return a->scale * x->kernels->dot(a->q + r * a->q_row, key_of(x, j), a->k_dim);
}

static float share_of(const lm_sparse_attention_args *x, uint32_t r, uint32_t j)
{
    return expf(score_of(x, r, j) - x->a->lse[r * x->a->lse_row]);
}

/* Return the gradient of a score: p (dout . v - dout . out). */
static float slope_of(const lm_sparse_attention_args *x, uint32_t r, uint32_t j, float delta)
{
    const lm_text_attention *a = x->a;

    return share_of(x, r, j) * (x->kernels->dot(a->dout + r * a->dout_row, value_of(x, j), a->v_dim) - delta);
}

static float delta_of(const lm_sparse_attention_args *x, uint32_t r)
{
    const lm_text_attention *a = x->a;

    return x->kernels->dot(a->dout + r * a->dout_row, a->out + r * a->out_row, a->v_dim);
}

/* Write the numbers of a window, then of the entries that row r sees, to keys; return how many. */
static uint32_t window_and_entries(const lm_sparse_attention_args *x, uint32_t r, uint32_t *keys)
{
    const lm_attention_spec *s      = x->spec;
    const float             *chosen = s->top_k ? x->chosen.at + r * x->chosen.row : NULL;
    uint32_t                 n      = 0, entries = visible(s, r);

    for (uint32_t j = lm_first_seen(s->window, false, r); j <= r; j++)
        keys[n++] = j;
    for (uint32_t i = 0; i < (chosen ? s->top_k : entries) && (!chosen || chosen[i] >= 0); i++)
        keys[n++] = x->a->rows + (chosen ? (uint32_t)chosen[i] : i);
    return n;
}

/* Write the keys that row r sees behind the scores, of which there are at most two for each row; return how
 * many. */
static uint32_t keys_of(const lm_sparse_attention_args *x, uint32_t r, uint32_t **keys)
{
    *keys = (uint32_t *)(void *)((float *)x->a->scratch + 2 * (uint64_t)x->a->rows);
    if (x->spec->rate)
        return window_and_entries(x, r, *keys);
    return lm_chosen_keys(x->spec, x->chosen.at + r * x->chosen.row, r, *keys);
}

void lm_sparse_attend(const lm_sparse_attention_args *x, uint32_t from, uint32_t to)
{
    const lm_text_attention *a      = x->a;
    float                   *scores = a->scratch;
    uint32_t                *keys;

    for (uint32_t r = from; r < to; r++) {
        float   *out = a->out + r * a->out_row, max = a->sink ? a->sink_score : -INFINITY, sum = 0;
        uint32_t n   = keys_of(x, r, &keys);
        for (uint32_t i = 0; i < n; i++) {
            scores[i] = score_of(x, r, keys[i]);
            max       = fmaxf(max, scores[i]);
        }
        sum = a->sink ? expf(a->sink_score - max) : 0;
        for (uint32_t i = 0; i < n; i++)
            sum += expf(scores[i] - max);
        a->lse[r * a->lse_row] = max + logf(sum);
        for (uint32_t i = 0; i < a->v_dim; i++)
            out[i] = 0;
        for (uint32_t i = 0; i < n; i++)
            lm_put_gradient(out, value_of(x, keys[i]), expf(scores[i] - max) / sum, a->v_dim, false);
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
            lm_put_gradient(a->dq + r * a->dq_row, key_of(x, keys[i]),
                            a->scale * slope_of(x, r, keys[i], delta), a->k_dim, false);
    }
}

/* Add what key j gets from row r, as a key and as a value. */
static void back_to_key(const lm_sparse_attention_args *x, uint32_t r, uint32_t j, float delta)
{
    const lm_text_attention *a  = x->a;
    float *entry = is_entry(x, j) && x->dentries.at ? lm_row_of(x->dentries, row_of(x, j)) : NULL,
          *dk = is_entry(x, j) ? entry : a->dk ? a->dk + j * a->dk_row : NULL,
          *dv = is_entry(x, j) ? entry : a->dv ? a->dv + j * a->dv_row : NULL;

    if (dk)
        lm_put_gradient(dk, a->q + r * a->q_row, a->scale * slope_of(x, r, j, delta), a->k_dim, false);
    if (dv)
        lm_put_gradient(dv, a->dout + r * a->dout_row, share_of(x, r, j), a->v_dim, false);
}

void lm_sparse_back_kv(const lm_sparse_attention_args *x, uint32_t from, uint32_t to)
{
    uint32_t *keys;

    for (uint32_t r = x->spec->rate ? from : x->spec->top_k; r < x->a->rows; r++) {
        float    delta = delta_of(x, r);
        uint32_t n     = keys_of(x, r, &keys);
        for (uint32_t i = 0; i < n; i++)
            if (row_of(x, keys[i]) >= from && row_of(x, keys[i]) < to)
                back_to_key(x, r, keys[i], delta);
    }
}
