/* compress.c - the entries of compressed attention in training, forward and backward.
 *
 * With p_j, the softmax of the gates of the positions that a row's mean is of, y = sum of p_j x_j and
 *   dx_j = p_j dy, dg_j = p_j dy (x_j - y), dbias = the sum of dg_j over blocks
 * Only the last row of a block is read, so the gradient of all others is zero and they are passed over. */
#include <math.h>
#include <string.h>

#include "runtime/ops/compressed.h"
#include "train/learner.h"

static uint64_t lanes_of(const lm_frame *f)
{
    return f->l->program->values[f->node->out].width;
}

static void compress_lanes(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f     = arg;
    float          *state = lm_worker_scratch(f->l, worker);
    const float    *bias  = lm_vector_of(f->l, f->node->weights[0]);

    for (uint32_t i = 0; i < f->l->n_texts; i++) {
        const lm_train_text *t = &f->l->texts[i];
        for (uint32_t r = 0; r < t->rows; r++)
            lm_compress_row(f->node, r, lm_row_of(f->in[0], t->first + r), lm_row_of(f->in[1], t->first + r),
                            bias, state, lm_row_of(f->out, t->first + r), lanes_of(f), from, to);
    }
}

void lm_train_compress(lm_frame *f)
{
    lm_train_parallel(f->l, compress_lanes, f, lanes_of(f), 64);
}

/* The positions [first, end) of a text that a row's mean is of, and the lane of kv at each: those before
 * `own` are of the block before. */
typedef struct members {
    uint32_t first, own, end;
    uint64_t before, lane;
} members;

static members members_of(const lm_node *n, uint32_t row, uint64_t lane, uint64_t lanes)
{
    uint32_t rate = n->compress.rate, own = row - row % rate;
    bool     both = n->compress.overlap;

    return (members){ both && own ? own - rate : own, own, row + 1, lane, both ? lanes + lane : lane };
}

static uint64_t lane_at(const members *m, uint32_t j)
{
    return j < m->own ? m->before : m->lane;
}

/* One lane of one row of a text. */
static void back_of_row(const lm_frame *f, const float *bias, float *d_bias, const lm_train_text *t,
                        uint32_t row, uint64_t lane)
{
    float    d = lm_row_of(f->dout, t->first + row)[lane], y = lm_row_of(f->out, t->first + row)[lane];
    uint64_t width = f->l->program->values[f->node->in[0]].width;
    members  m = members_of(f->node, row, lane, lanes_of(f));
    float    max = -INFINITY, sum = 0;
    uint32_t rate = f->node->compress.rate;

#define SCORE(j) \
    (lm_row_of(f->in[1], t->first + (j))[lane_at(&m, j)] + bias[(j) % rate * width + lane_at(&m, j)])
    for (uint32_t j = m.first; j < m.end; j++)
        max = fmaxf(max, SCORE(j));
    for (uint32_t j = m.first; j < m.end; j++)
        sum += expf(SCORE(j) - max);
    for (uint32_t j = m.first; j < m.end; j++) {
        uint64_t at = lane_at(&m, j);
        float p = expf(SCORE(j) - max) / sum, dg = p * d * (lm_row_of(f->in[0], t->first + j)[at] - y);
        if (f->din[0].at)
            lm_row_of(f->din[0], t->first + j)[at] += p * d;
        if (f->din[1].at)
            lm_row_of(f->din[1], t->first + j)[at] += dg;
        if (d_bias)
            d_bias[j % rate * width + at] += dg;
    }
#undef SCORE
}

static void clear_lanes(const lm_frame *f, uint64_t from, uint64_t to)
{
    for (uint32_t k = 0; k < 2; k++)
        for (uint64_t i = 0; f->din[k].at && f->reverse->first[k] && i < f->rows; i++) {
            float *d = lm_row_of(f->din[k], i);
            memset(d + from, 0, (to - from) * sizeof *d);
            if (f->node->compress.overlap)
                memset(d + lanes_of(f) + from, 0, (to - from) * sizeof *d);
        }
}

static void back_lanes(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f = arg;
    const float *bias = lm_vector_of(f->l, f->node->weights[0]);
    float *d_bias = f->reverse->trains[0] ? lm_trained_gradient(f->l, f->node->weights[0]) : NULL;

    (void)worker;
    clear_lanes(f, from, to);
    for (uint32_t i = 0; i < f->l->n_texts; i++)
        for (uint32_t r = 0; r < f->l->texts[i].rows; r++)
            for (uint64_t lane = from; lane < to; lane++)
                if (lm_row_of(f->dout, f->l->texts[i].first + r)[lane] != 0)
                    back_of_row(f, bias, d_bias, &f->l->texts[i], r, lane);
}

void lm_train_compress_back(lm_frame *f)
{
    lm_train_parallel(f->l, back_lanes, f, lanes_of(f), 64);
}
