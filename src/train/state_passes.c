/* state_passes.c - operations with a state in training: a state begins at zero in each text. */
#include <string.h>

#include "train/passes.h"

/* ---- causal_conv: workers divide the lanes ---- */

static void convolve(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f = arg;
    const lm_node  *n = f->node;

    (void)worker;
    for (uint32_t i = 0; i < f->l->n_texts; i++) {
        const lm_train_text *t = &f->l->texts[i];
        f->l->engine->kernels.row.convolve(&(lm_conv_args){
            .x        = lm_row_of(f->in[0], t->first),
            .x_stride = f->in[0].row,
            .y        = lm_row_of(f->out, t->first),
            .y_stride = f->out.row,
            .w        = lm_vector_of(f->l, n->weights[0]),
            .bias     = lm_vector_of(f->l, n->weights[1]),
            .lanes    = f->l->program->values[n->out].width,
            .first    = from,
            .last     = to,
            .rows     = t->rows,
            .taps     = n->conv.taps,
        });
    }
}

void lm_train_convolve(lm_frame *f)
{
    lm_train_parallel(f->l, convolve, f, f->l->program->values[f->node->out].width, 64);
}

/* dx[t] += sum over j of w[j] dy[t + taps - 1 - j], within the text. */
static void back_to_rows(const lm_frame *f, const lm_train_text *t, uint64_t from, uint64_t to)
{
    const float *w    = lm_vector_of(f->l, f->node->weights[0]);
    uint32_t     taps = f->node->conv.taps;

    for (uint32_t i = 0; i < t->rows; i++) {
        float *dx = lm_row_of(f->din[0], t->first + i);
        for (uint64_t c = from; c < to; c++) {
            float sum = 0;
            for (uint32_t later = 0; later < taps && i + later < t->rows; later++)
                sum += w[c * taps + taps - 1 - later] * lm_row_of(f->dout, t->first + i + later)[c];
            dx[c] = f->reverse->first[0] ? sum : dx[c] + sum;
        }
    }
}

/* dw[j] += sum over t of dy[t] x[t - taps + 1 + j], within the text. */
static void back_to_taps(const lm_frame *f, const lm_train_text *t, float *dw, uint64_t from, uint64_t to)
{
    uint32_t taps = f->node->conv.taps;

    for (uint32_t i = 0; i < t->rows; i++)
        for (uint32_t earlier = 0; earlier < taps && earlier <= i; earlier++) {
            const float *x  = lm_row_of(f->in[0], t->first + i - earlier);
            const float *dy = lm_row_of(f->dout, t->first + i);
            for (uint64_t c = from; c < to; c++)
                dw[c * taps + taps - 1 - earlier] += dy[c] * x[c];
        }
}

static void back(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f  = arg;
    float          *dw = f->reverse->trains[0] ? lm_trained_gradient(f->l, f->node->weights[0]) : NULL;
    float          *db = f->reverse->trains[1] ? lm_trained_gradient(f->l, f->node->weights[1]) : NULL;

    (void)worker;
    for (uint32_t i = 0; i < f->l->n_texts; i++) {
        const lm_train_text *t = &f->l->texts[i];
        if (f->din[0].at)
            back_to_rows(f, t, from, to);
        if (dw)
            back_to_taps(f, t, dw, from, to);
        for (uint32_t k = 0; db && k < t->rows; k++)
            for (uint64_t c = from; c < to; c++)
                db[c] += lm_row_of(f->dout, t->first + k)[c];
    }
}

void lm_train_convolve_back(lm_frame *f)
{
    lm_train_parallel(f->l, back, f, f->l->program->values[f->node->out].width, 64);
}

/* ---- linear_recurrence, selective_scan, gated_recurrence: workers divide the blocks of the states; in
 * reverse the key heads, lanes and entries, or lanes ---- */

static void recur(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame      *f = arg;
    const lm_recurrence *r = &f->node->recurrence.spec;
    lm_recurrence_args   a = { .state = lm_worker_scratch(f->l, worker), .at_start = true };

    for (uint64_t unit = from; unit < to; unit++)
        for (uint32_t i = 0; i < f->l->n_texts; i++) {
            memset(a.state, 0, (size_t)r->k_dim * LM_STATE_COLUMNS * sizeof *a.state);
            lm_recurrence_block(r, unit, f->in, f->out,
                                r->selective || r->gated ? lm_vector_of(f->l, f->node->weights[0]) : NULL,
                                f->l->texts[i].first, &a);
            a.rows = f->l->texts[i].rows;
            f->l->engine->kernels.row.recur(&a);
        }
}

void lm_train_recur(lm_frame *f)
{
    const lm_recurrence *r = &f->node->recurrence.spec;

    lm_train_parallel(f->l, recur, f, (uint64_t)r->n_heads * lm_recurrence_blocks(r), 1);
}

static lm_operand rows_from(lm_operand x, uint64_t first)
{
    return (lm_operand){ x.at ? lm_row_of(x, first) : NULL, x.row };
}

static lm_recurrence_rows rows_of_text(const lm_frame *f, const lm_train_text *t)
{
    lm_recurrence_rows r = { .spec  = &f->node->recurrence.spec,
                             .first = f->reverse->first,
                             .rows  = t->rows,
                             .dout  = rows_from(f->dout, t->first) };

    for (uint32_t k = 0; k < f->node->n_in; k++) {
        r.in[k]  = rows_from(f->in[k], t->first);
        r.din[k] = rows_from(f->din[k], t->first);
    }
    return r;
}

static void recur_back(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f = arg;

    for (uint64_t key = from; key < to; key++)
        for (uint32_t i = 0; i < f->l->n_texts; i++) {
            lm_recurrence_rows r = rows_of_text(f, &f->l->texts[i]);
            lm_recurrence_back(&r, (uint32_t)key, lm_worker_scratch(f->l, worker));
        }
}

void lm_train_recur_back(lm_frame *f)
{
    lm_train_parallel(f->l, recur_back, f, f->node->recurrence.spec.n_key_heads, 1);
}

static void scan_back_lanes(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f       = arg;
    uint32_t        weight  = f->node->weights[0];
    float          *d_rates = f->reverse->trains[0] ? lm_trained_gradient(f->l, weight) : NULL;

    for (uint32_t i = 0; i < f->l->n_texts; i++) {
        lm_recurrence_rows r = rows_of_text(f, &f->l->texts[i]);
        for (uint64_t lane = from; lane < to; lane++)
            lm_scan_back_lane(&r, lm_vector_of(f->l, weight), d_rates, lane,
                              lm_worker_scratch(f->l, worker));
    }
}

static void scan_back_entries(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f = arg;

    for (uint32_t i = 0; i < f->l->n_texts; i++) {
        lm_recurrence_rows r = rows_of_text(f, &f->l->texts[i]);
        for (uint64_t n = from; n < to; n++)
            lm_scan_back_entry(&r, lm_vector_of(f->l, f->node->weights[0]), n,
                               lm_worker_scratch(f->l, worker));
    }
}

void lm_train_scan_back(lm_frame *f)
{
    const lm_recurrence *r = &f->node->recurrence.spec;

    lm_train_parallel(f->l, scan_back_lanes, f, r->v_dim, 16);
    if (f->din[0].at || f->din[1].at)
        lm_train_parallel(f->l, scan_back_entries, f, r->k_dim, 1);
}

static void gated_back(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const lm_frame *f      = arg;
    uint32_t        weight = f->node->weights[0];
    float          *d      = f->reverse->trains[0] ? lm_trained_gradient(f->l, weight) : NULL;

    for (uint32_t i = 0; i < f->l->n_texts; i++) {
        lm_recurrence_rows r = rows_of_text(f, &f->l->texts[i]);
        for (uint64_t lane = from; lane < to; lane++)
            lm_gated_back_lane(&r, lm_vector_of(f->l, weight)[lane], d ? d + lane : NULL, lane,
                               lm_worker_scratch(f->l, worker));
    }
}

void lm_train_gated_back(lm_frame *f)
{
    lm_train_parallel(f->l, gated_back, f, f->node->recurrence.spec.v_dim, 16);
}
