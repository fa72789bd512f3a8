/* recurrence.c - the reverse of linear_recurrence.
 *
 * With S' = a S_before, w = S'^T k (by the delta rule, else 0) and u = beta (v - w), a row computes
 * S = S' + k u^T and o = S^T q. The gradient dS of S after the row comes from later rows:
 *   dS += q do^T, dq = S do, du = dS^T k, dw = -beta du (or 0), dv = beta du, dbeta = du (v - w),
 *   dk = dS u + S' dw, dS' = dS + k dw^T, da = the sum of dS' S_before, dS_before = a dS'
 * States are stored every `interval` rows and recomputed in between: 2 sqrt(rows) states in all. */
#include <math.h>
#include <string.h>

#include "train/passes.h"

typedef struct head_pass {
    const lm_recurrence_rows *r;
    uint32_t     head, key, k_dim, v_dim;
    bool         first_of_key;           /* the first head that reads this key head */
    size_t       state;                  /* floats of S */
    uint64_t     interval;
    float       *stored, *inside;        /* [interval] states: before every interval, before its rows */
    float       *gradient, *back, *u, *du, *dw;      /* dS; v - w, u and their gradients [v_dim] */
} head_pass;

static uint64_t interval_of(uint64_t rows)
{
    uint64_t n = (uint64_t)ceil(sqrt((double)rows));

    return n ? n : 1;
}

uint64_t lm_recurrence_scratch(const lm_recurrence *r, uint64_t rows)
{
    return ((2 * interval_of(rows) + 1) * r->k_dim + 4) * r->v_dim * sizeof(float);
}

/* ---- one row ---- */

static const float *input(const head_pass *p, uint32_t k, uint64_t row, uint64_t lane)
{
    return lm_row_of(p->r->in[k], row) + lane;
}

static float decay_of(const head_pass *p, uint64_t row, uint32_t i)
{
    return p->r->spec->decay_by_channel ? input(p, 3, row, (uint64_t)p->head * p->k_dim)[i]
                                        : *input(p, 3, row, p->head);
}

static float dot(const float *x, const float *y, uint32_t n)
{
    float sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static void add_scaled(float *y, const float *x, float scale, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] += scale * x[i];
}

/* Compute v - w and u from the state before a row. */
static void correct(const head_pass *p, const float *before, uint64_t row)
{
    const float *k    = input(p, 1, row, (uint64_t)p->key * p->k_dim);
    float        beta = *input(p, 4, row, p->head);

    memcpy(p->back, input(p, 2, row, (uint64_t)p->head * p->v_dim), p->v_dim * sizeof *p->back);
    for (uint32_t i = 0; p->r->spec->delta && i < p->k_dim; i++)
        add_scaled(p->back, before + (size_t)i * p->v_dim, -decay_of(p, row, i) * k[i], p->v_dim);
    for (uint32_t j = 0; j < p->v_dim; j++)
        p->u[j] = beta * p->back[j];
}

/* after = a before + k u^T; they may be the same memory. */
static void advance(const head_pass *p, const float *before, float *after, uint64_t row)
{
    const float *k = input(p, 1, row, (uint64_t)p->key * p->k_dim);

    correct(p, before, row);
    for (uint32_t i = 0; i < p->k_dim; i++) {
        float a = decay_of(p, row, i);
        for (uint32_t j = 0; j < p->v_dim; j++)
            after[(size_t)i * p->v_dim + j] = a * before[(size_t)i * p->v_dim + j] + k[i] * p->u[j];
    }
}

static void put(lm_operand to, uint64_t row, uint64_t lane, float x, bool first)
{
    if (to.at)
        lm_put_gradient(lm_row_of(to, row) + lane, &x, 1, 1, first);
}

static void row_back(const head_pass *p, const float *before, uint64_t row)
{
    const lm_recurrence_rows *r = p->r;
    const float *q    = input(p, 0, row, (uint64_t)p->key * p->k_dim);
    const float *k    = input(p, 1, row, (uint64_t)p->key * p->k_dim);
    const float *dout = lm_row_of(r->dout, row) + (size_t)p->head * p->v_dim;
    float        beta = *input(p, 4, row, p->head), all = 0;

    correct(p, before, row);
    memset(p->du, 0, p->v_dim * sizeof *p->du);
    for (uint32_t i = 0; i < p->k_dim; i++) {
        float *ds = p->gradient + (size_t)i * p->v_dim;
        add_scaled(ds, dout, q[i], p->v_dim);
        add_scaled(p->du, ds, k[i], p->v_dim);
    }
    for (uint32_t j = 0; j < p->v_dim; j++) {
        p->dw[j] = r->spec->delta ? -beta * p->du[j] : 0;
        put(r->din[2], row, (uint64_t)p->head * p->v_dim + j, beta * p->du[j], r->first[2]);
    }
    put(r->din[4], row, p->head, dot(p->du, p->back, p->v_dim), r->first[4]);
    for (uint32_t i = 0; i < p->k_dim; i++) {
        const float *s = before + (size_t)i * p->v_dim;
        float       *ds = p->gradient + (size_t)i * p->v_dim, a = decay_of(p, row, i);
        uint64_t     lane = (uint64_t)p->key * p->k_dim + i;
        put(r->din[0], row, lane, a * dot(s, dout, p->v_dim) + k[i] * dot(p->u, dout, p->v_dim),
            r->first[0] && p->first_of_key);
        put(r->din[1], row, lane, dot(ds, p->u, p->v_dim) + a * dot(s, p->dw, p->v_dim),
            r->first[1] && p->first_of_key);
        add_scaled(ds, p->dw, k[i], p->v_dim);
        float da = dot(ds, s, p->v_dim);
        all += da;
        if (r->spec->decay_by_channel)
            put(r->din[3], row, (uint64_t)p->head * p->k_dim + i, da, r->first[3]);
        for (uint32_t j = 0; j < p->v_dim; j++)
            ds[j] *= a;
    }
    if (!r->spec->decay_by_channel)
        put(r->din[3], row, p->head, all, r->first[3]);
}

/* ---- all rows of a text ---- */

static void head_back(const head_pass *p)
{
    uint64_t rows = p->r->rows, n = p->interval, last = rows ? (rows - 1) / n : 0;

    memset(p->stored, 0, p->state * sizeof(float));
    for (uint64_t i = 0; i < last; i++) {
        float *next = p->stored + (i + 1) * p->state;
        memcpy(next, p->stored + i * p->state, p->state * sizeof(float));
        for (uint64_t t = i * n; t < (i + 1) * n; t++)
            advance(p, next, next, t);
    }
    memset(p->gradient, 0, p->state * sizeof(float));
    for (uint64_t i = last + 1; i-- > 0;) {
        uint64_t end = (i + 1) * n < rows ? (i + 1) * n : rows;
        memcpy(p->inside, p->stored + i * p->state, p->state * sizeof(float));
        for (uint64_t t = i * n; t + 1 < end; t++)
            advance(p, p->inside + (t - i * n) * p->state, p->inside + (t - i * n + 1) * p->state, t);
        for (uint64_t t = end; t-- > i * n;)
            row_back(p, p->inside + (t - i * n) * p->state, t);
    }
}

void lm_recurrence_back(const lm_recurrence_rows *r, uint32_t key_head, float *scratch)
{
    const lm_recurrence *spec = r->spec;
    uint64_t             n = interval_of(r->rows);
    size_t               state = (size_t)spec->k_dim * spec->v_dim;
    head_pass            p = {
        .r            = r,
        .key          = key_head,
        .k_dim        = spec->k_dim,
        .v_dim        = spec->v_dim,
        .first_of_key = true,
        .state        = state,
        .interval     = n,
        .stored       = scratch,
        .inside       = scratch + n * state,
        .gradient     = scratch + 2 * n * state,
        .back         = scratch + (2 * n + 1) * state,
    };

    p.u  = p.back + spec->v_dim;
    p.du = p.u + spec->v_dim;
    p.dw = p.du + spec->v_dim;
    for (p.head = 0; p.head < spec->n_heads; p.head++)
        if (lm_key_head(spec, p.head) == key_head) {
            head_back(&p);
            p.first_of_key = false;
        }
}
