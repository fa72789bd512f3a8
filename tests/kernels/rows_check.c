/* rows_check.c - the kernels on rows of floats compared with the same formula in double. */
#include "check.h"

#include <float.h>

/* Tails of all kinds, and sizes around the block of 32. */
static const uint64_t sizes[] = {
    1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 130, 576, 1000
};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static const float scales[] = { 1.0f, 1e-20f, 1e4f, 30.0f };
enum { N_SCALES = sizeof scales / sizeof scales[0] };

/* The buffers of one case: inputs a and b, output y. */
typedef struct rows {
    const level *l;
    uint64_t n;
    float scale;
    float *a, *b, *y;
} rows;

static rows make(const level *l, uint64_t n, float scale)
{
    rows r = { l, n, scale, guarded(n * 4, 0), guarded(n * 4, 4 * rnd_below(3)), guarded(n * 4, 0) };

    rnd_floats(r.a, n, scale);
    rnd_floats(r.b, n, 1.0f);
    return r;
}

static void release(rows *r)
{
    guarded_free(r->a);
    guarded_free(r->b);
    guarded_free(r->y);
}

static void check_norms(rows *r)
{
    double squares = 0, sum = 0, centred = 0;
    float eps = 1e-5f;

    for (uint64_t i = 0; i < r->n; i++) {
        squares += (double)r->a[i] * r->a[i];
        sum += r->a[i];
    }
    double mean = sum / (double)r->n;
    for (uint64_t i = 0; i < r->n; i++)
        centred += (r->a[i] - mean) * (r->a[i] - mean);
    double root = 1 / sqrt(squares / (double)r->n + eps), deviation = 1 / sqrt(centred / (double)r->n + eps);

    for (int w = 0; w < 2; w++) {
        r->l->k.row.rms(r->y, r->a, w ? r->b : NULL, r->n, eps);
        for (uint64_t i = 0; i < r->n; i++) {
            double want = r->a[i] * root * (w ? r->b[i] : 1);
            check_close(r->y[i], want, 1e-5 * fabs(want) + 1e-40, "%s rms n=%d [%d]", r->l->name, (int)r->n,
                        (int)i);
        }
        r->l->k.row.layer_norm(r->y, r->a, w ? r->b : NULL, w ? r->b : NULL, r->n, eps);
        for (uint64_t i = 0; i < r->n; i++) {
            double v = (r->a[i] - mean) * deviation, want = w ? v * r->b[i] + r->b[i] : v;
            double size = (fabs(v) + fabs(r->a[i] * deviation)) * (w ? fabs(r->b[i]) : 1) +
                          (w ? fabs(r->b[i]) : 0);
            /* error of the mean */
            double shift = sqrt(squares / (double)r->n) * deviation * (w ? fabs(r->b[i]) : 1);
            check_close(r->y[i], want, 1e-5 * size + 2e-6 * shift + 1e-40, "%s layer_norm n=%d [%d]",
                        r->l->name, (int)r->n, (int)i);
        }
    }
}

static void check_arithmetic(rows *r)
{
    const lm_row_kernels *k = &r->l->k.row;
    float s = 0.37f;

    k->add(r->y, r->a, r->b, s, r->n);
    for (uint64_t i = 0; i < r->n; i++)
        check_close(r->y[i], r->a[i] + (double)s * r->b[i], 1e-6 * (fabs(r->a[i]) + fabs(r->b[i])), "%s add",
                    r->l->name);
    k->mul(r->y, r->a, r->b, r->n);
    for (uint64_t i = 0; i < r->n; i++)
        check(r->y[i] == r->a[i] * r->b[i], "%s mul", r->l->name);
    k->scale(r->y, r->a, s, r->n);
    for (uint64_t i = 0; i < r->n; i++)
        check(r->y[i] == r->a[i] * s, "%s scale", r->l->name);
    k->clamp(r->y, r->a, -0.5f, 1.5f, r->n);
    for (uint64_t i = 0; i < r->n; i++)
        check(r->y[i] == fminf(fmaxf(r->a[i], -0.5f), 1.5f), "%s clamp", r->l->name);
    k->softcap(r->y, r->a, 5.0f, r->n);
    for (uint64_t i = 0; i < r->n; i++)
        check_close(r->y[i], 5 * tanh((double)r->a[i] / 5), 3e-6, "%s softcap of %g", r->l->name,
                    (double)r->a[i]);
    memcpy(r->y, r->a, r->n * 4);                            /* in place */
    k->add(r->y, r->y, r->b, s, r->n);
    for (uint64_t i = 0; i < r->n; i++)
        check_close(r->y[i], r->a[i] + (double)s * r->b[i], 1e-6 * (fabs(r->a[i]) + fabs(r->b[i])),
                    "%s add in place", r->l->name);
}

static double exact_act(double x, lm_act act)
{
    switch (act) {
    case LM_ACT_SILU: return x / (1 + exp(-x));
    case LM_ACT_GELU: return x / 2 * (1 + erf(x / sqrt(2)));
    case LM_ACT_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case LM_ACT_GELU_QUICK: return x / (1 + exp(-1.702 * x));
    case LM_ACT_RELU: return x > 0 ? x : 0;
    case LM_ACT_RELU2: return x > 0 ? x * x : 0;
    case LM_ACT_SIGMOID: return 1 / (1 + exp(-x));
    case LM_ACT_TANH: return tanh(x);
    case LM_ACT_SOFTPLUS: return x > 20 ? x : log1p(exp(x));
    case LM_ACT_XIELU:
    case LM_ACT_COUNT: break;
    }
    return x;
}

static void check_xielu(rows *r)
{
    static const lm_xielu a = { 0.75f, 1.25f, 0.5f, -1e-6f };

    for (uint64_t i = 0; i < r->n; i += 3)                   /* near 0, where e^x - 1 - x cancels */
        r->a[i] *= 1e-3f;
    r->l->k.row.xielu(r->y, r->a, &a, r->n);
    for (uint64_t i = 0; i < r->n; i++) {
        double x = r->a[i], under = expm1(fmin(x, a.eps)) - x,
               want = x * a.beta + (x > 0 ? a.positive * x * x : a.negative * under);
        check_close(r->y[i], want, 1e-6 * (fabs(want) + fabs(x)), "%s xielu of %g", r->l->name, x);
    }
    memcpy(r->b, r->a, r->n * 4);
    r->l->k.row.xielu(r->b, r->b, &a, r->n);                 /* in place */
    check(memcmp(r->b, r->y, r->n * 4) == 0, "%s xielu in place", r->l->name);
}

static void check_acts(rows *r)
{
    for (lm_act act = 0; act < LM_ACT_XIELU; act++) {
        r->l->k.row.act(r->y, r->a, act, r->n);
        for (uint64_t i = 0; i < r->n; i++) {
            double want = exact_act(r->a[i], act), size = fabs(want) + fabs((double)r->a[i]);
            if (act == LM_ACT_SIGMOID || act == LM_ACT_TANH)
                size = 1;
            check_close(r->y[i], want, 1e-6 * size + 1e-38, "%s act %d of %g", r->l->name, (int)act,
                        (double)r->a[i]);
        }
        r->l->k.row.glu(r->y, r->a, r->b, act, r->n);
        for (uint64_t i = 0; i < r->n; i++) {
            double gate = exact_act(r->a[i], act),
                   size = (fabs(gate) + fabs((double)r->a[i]) + 1) * fabs(r->b[i]);
            check_close(r->y[i], gate * r->b[i], 2e-6 * size + 1e-38, "%s glu %d", r->l->name, (int)act);
        }
        r->l->k.row.glu_clamped(r->y, r->a, r->b, act, 1.5f, 1, r->n);
        for (uint64_t i = 0; i < r->n; i++) {
            double x = fmin(r->a[i], 1.5), gate = exact_act(x, act), up = fmax(fmin(r->b[i], 1.5), -1.5) + 1;
            double size = (fabs(gate) + fabs(x) + 1) * (fabs(up) + 1);
            check_close(r->y[i], gate * up, 2e-6 * size + 1e-38, "%s clamped glu %d", r->l->name, (int)act);
        }
    }
}

static void check_softmax(rows *r)
{
    double max = -INFINITY, sum = 0;

    for (uint64_t i = 0; i < r->n; i++)
        max = fmax(max, r->a[i]);
    for (uint64_t i = 0; i < r->n; i++)
        sum += exp(r->a[i] - max);
    memcpy(r->y, r->a, r->n * 4);
    r->l->k.row.softmax(r->y, r->n);
    for (uint64_t i = 0; i < r->n; i++) {
        double want = exp(r->a[i] - max) / sum;
        check_close(r->y[i], want, 1e-5 * want + 1.2e-38, "%s softmax n=%d [%d]", r->l->name, (int)r->n,
                    (int)i);
    }
}

/* Both pairings match the definition; lanes past `dim` and between heads keep their bits. */
static void check_rope(const level *l)
{
    for (uint64_t dim = 2; dim <= 80; dim += dim < 20 ? 2 : 10) {
        for (int pair = 0; pair < 2; pair++) {
            uint64_t heads = 3, stride = dim + rnd_below(9), n = (heads - 1) * stride + dim;
            float *x = guarded(n * 4, 0), *c = guarded(dim * 2, 0), *s = guarded(dim * 2, 0), before[512];
            rnd_floats(x, n, 1.0f);
            memcpy(before, x, n * 4);
            for (uint64_t i = 0; i < dim / 2; i++) {
                float angle = rnd_normal() * 100;
                c[i] = cosf(angle);
                s[i] = sinf(angle);
            }
            l->k.row.rope(x, heads, stride, dim, c, s, pair);
            for (uint64_t h = 0; h < heads; h++) {
                for (uint64_t i = 0; i < dim / 2; i++) {
                    uint64_t at = h * stride + (pair ? 2 * i : i), other = at + (pair ? 1 : dim / 2);
                    double a = before[at], b = before[other];
                    check_close(x[at], a * c[i] - b * s[i], 1e-6 * (fabs(a) + fabs(b)), "%s rope dim=%d",
                                l->name, (int)dim);
                    check_close(x[other], b * c[i] + a * s[i], 1e-6 * (fabs(a) + fabs(b)), "%s rope dim=%d",
                                l->name, (int)dim);
                }
                for (uint64_t i = dim; i < stride && h + 1 < heads; i++)
                    check(same_bits(x[h * stride + i], before[h * stride + i]), "%s rope touched a free lane",
                          l->name);
            }
            guarded_free(x);
            guarded_free(c);
            guarded_free(s);
        }
    }
}

/* Infinities and NaN propagate, and the functions have their limits there. */
static void check_limits(const level *l)
{
    static const float x[8] = { INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, 0.0f, -0.0f, 1e-40f };
    static const double want[LM_ACT_COUNT][6] = {
        [LM_ACT_SILU] = { INFINITY, 0, NAN, FLT_MAX, 0, 0 },
        [LM_ACT_GELU] = { INFINITY, 0, NAN, FLT_MAX, 0, 0 },
        [LM_ACT_GELU_TANH] = { INFINITY, 0, NAN, FLT_MAX, 0, 0 },
        [LM_ACT_GELU_QUICK] = { INFINITY, 0, NAN, FLT_MAX, 0, 0 },
        [LM_ACT_RELU] = { INFINITY, 0, NAN, FLT_MAX, 0, 0 },
        [LM_ACT_RELU2] = { INFINITY, 0, NAN, INFINITY, 0, 0 },
        [LM_ACT_SIGMOID] = { 1, 0, NAN, 1, 0, 0.5 },
        [LM_ACT_TANH] = { 1, -1, NAN, 1, -1, 0 },
        [LM_ACT_SOFTPLUS] = { INFINITY, 0, NAN, FLT_MAX, 0, 0.6931471805599453 },
    };
    float y[8];

    for (lm_act act = 0; act < LM_ACT_XIELU; act++) {
        l->k.row.act(y, x, act, 8);
        for (int i = 0; i < 6; i++)
            check_close(y[i], want[act][i], 1e-6, "%s act %d of %g", l->name, (int)act, (double)x[i]);
    }
    l->k.row.clamp(y, x, -1.0f, 1.0f, 8);
    check(y[0] == 1 && y[1] == -1 && isnan(y[2]), "%s clamp of infinities and NaN", l->name);
    memcpy(y, x, sizeof y);
    l->k.row.softmax(y, 8);
    check(isnan(y[3]), "%s softmax hides a NaN", l->name);

    float masked[9] = { -INFINITY, 1, -INFINITY, 1, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY };
    l->k.row.softmax(masked, 9);
    check(masked[0] == 0 && masked[1] == 0.5f && masked[3] == 0.5f && masked[8] == 0,
          "%s softmax of masked scores", l->name);
}

/* ---- linear recurrences ---- */

enum { RECUR_ROWS = 7, RECUR_KEYS = 21 };

/* The definition of a selective scan, in double. */
static void exact_scan(const lm_recurrence_args *a, double *state, double *o)
{
    for (uint64_t t = 0; t < a->rows; t++)
        for (uint32_t c = 0; c < a->columns; c++) {
            double delta = (double)a->decay[t * a->decay_stride + c], sum = 0;
            for (uint32_t i = 0; i < a->k_dim; i++) {
                double *s = &state[i * LM_STATE_BLOCK + c];
                *s = exp(-exp((double)a->rates[c * a->k_dim + i]) * delta) * *s +
                     delta * (double)a->v[t * a->v_stride + c] * (double)a->k[t * a->k_stride + i];
                sum += *s * (double)a->q[t * a->q_stride + i];
            }
            o[t * LM_STATE_BLOCK + c] = sum;
        }
}

/* The definition of a gated recurrence, in double. */
static void exact_gated(const lm_recurrence_args *a, double *state, double *o)
{
    for (uint64_t t = 0; t < a->rows; t++)
        for (uint32_t c = 0; c < a->columns; c++) {
            double p = (double)a->rates[c],
                   log_a = -8 * (double)a->decay[t * a->decay_stride + c] * (p > 20 ? p : log1p(exp(p))),
                   x = (double)a->v[t * a->v_stride + c];
            state[c] = t == 0 && a->at_start ? x : exp(log_a) * state[c] + sqrt(1 - exp(2 * log_a)) * x;
            o[t * LM_STATE_BLOCK + c] = state[c];
        }
}

/* The definition, in double. */
static void exact_recurrence(const lm_recurrence_args *a, double *state, double *o)
{
    if (a->gated) {
        exact_gated(a, state, o);
        return;
    }
    if (a->rates) {
        exact_scan(a, state, o);
        return;
    }
    for (uint64_t t = 0; t < a->rows; t++) {
        const float *q = a->q + t * a->q_stride, *k = a->k + t * a->k_stride;
        const float *d = a->decay + t * a->decay_stride;
        for (uint32_t c = 0; c < a->columns; c++) {
            double back = 0, u, sum = 0;
            for (uint32_t i = 0; i < a->k_dim; i++) {
                state[i * LM_STATE_BLOCK + c] *= (double)d[a->decay_by_channel ? i : 0];
                back += state[i * LM_STATE_BLOCK + c] * (double)k[i];
            }
            u = (double)a->beta[t * a->beta_stride] *
                ((double)a->v[t * a->v_stride + c] - (a->delta ? back : 0));
            for (uint32_t i = 0; i < a->k_dim; i++) {
                state[i * LM_STATE_BLOCK + c] += (double)k[i] * u;
                sum += state[i * LM_STATE_BLOCK + c] * (double)q[i];
            }
            o[t * LM_STATE_BLOCK + c] = sum;
        }
    }
}

static float *random_rows(uint64_t n, float scale)
{
    float *x = guarded(RECUR_ROWS * n * 4, 0);

    rnd_floats(x, RECUR_ROWS * n, scale);
    return x;
}

/* The state and the outputs have the same bits as those of the first level, and whatever the rows are cut
 * into; padding stays zero. */
enum { BY_DELTA = 1, BY_CHANNEL = 2, SCANS = 4, GATED, GATED_START, FORMS };

static void check_recurrence(const level *l, uint32_t k_dim, uint32_t columns, int form)
{
    static lm_kernels reference;
    bool              gated = form >= GATED;
    uint32_t          decays = form & SCANS ? columns : form & BY_CHANNEL ? k_dim : 1;
    uint64_t          states = (uint64_t)k_dim * LM_STATE_BLOCK;
    float *q = random_rows(k_dim, 0.5f), *k = random_rows(k_dim, 0.3f), *v = random_rows(columns, 1),
          *d = random_rows(decays, 0.4f), *beta = random_rows(1, 1), *state = guarded(states * 4, 0),
          *rates = guarded((uint64_t)columns * k_dim * 4, 0), *y = guarded(RECUR_ROWS * columns * 4, 0);
    float  before[RECUR_KEYS * LM_STATE_BLOCK], kept[RECUR_KEYS * LM_STATE_BLOCK];
    float  o[RECUR_ROWS * LM_STATE_BLOCK];
    double exact[RECUR_KEYS * LM_STATE_BLOCK], out[RECUR_ROWS * LM_STATE_BLOCK];
    lm_recurrence_args a = {
        .state = state, .q = q, .k = k, .v = v, .decay = d, .beta = beta, .o = y,
        .rates = form & SCANS ? rates : NULL,
        .q_stride = k_dim, .k_stride = k_dim, .v_stride = columns, .decay_stride = decays, .beta_stride = 1,
        .o_stride = columns, .rows = RECUR_ROWS, .k_dim = k_dim, .columns = columns,
        .delta = form & BY_DELTA, .decay_by_channel = form & BY_CHANNEL,
        .gated = gated, .at_start = form == GATED_START,
    };

    lm_kernels_init_ref(&reference);
    rnd_floats(before, states, 1);
    rnd_floats(rates, (uint64_t)columns * k_dim, gated ? 6 : 1);
    for (uint64_t i = 0; i < (uint64_t)RECUR_ROWS * decays; i++)
        d[i] = fabsf(d[i]);              /* decays and steps are not negative: padding stays +0 */
    for (uint64_t i = 0; i < states; i++) {
        before[i] = i % LM_STATE_BLOCK < columns ? before[i] : 0;
        exact[i]  = (double)before[i];
    }
    exact_recurrence(&a, exact, out);
    memcpy(state, before, states * 4);
    reference.row.recur(&a);
    memcpy(kept, state, states * 4);
    memcpy(o, y, RECUR_ROWS * columns * 4);
    for (uint64_t t = 0; t < RECUR_ROWS; t++)
        for (uint32_t c = 0; c < columns; c++)
            check_close(o[t * columns + c], out[t * LM_STATE_BLOCK + c], 1e-4, "recurrence of %d keys",
                        (int)k_dim);
    memcpy(state, before, states * 4);
    for (uint64_t t = 0; t < RECUR_ROWS; t += a.rows) {
        a.rows = t + 3 < RECUR_ROWS ? 3 : RECUR_ROWS - t;
        a.at_start = t == 0 && form == GATED_START;
        a.q = q + t * k_dim;
        a.k = k + t * k_dim;
        a.v = v + t * columns;
        a.decay = d + t * decays;
        a.beta = beta + t;
        a.o = y + t * columns;
        l->k.row.recur(&a);
    }
    check(memcmp(y, o, RECUR_ROWS * columns * 4) == 0 && memcmp(state, kept, states * 4) == 0,
          "%s recurrence of %d keys, %d columns has other bits", l->name, (int)k_dim, (int)columns);
    for (uint64_t i = 0; i < states; i++)
        check(i % LM_STATE_BLOCK < columns || state[i] == 0, "%s recurrence fills the padding", l->name);
    float *const all[] = { q, k, v, d, beta, state, rates, y };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        guarded_free(all[i]);
}

static void check_recurrences(const level *l)
{
    static const uint32_t keys[] = { 1, 3, 4, 16, RECUR_KEYS }, columns[] = { 1, 5, LM_STATE_BLOCK };

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
            for (int form = 0; form < FORMS; form++)
                if (form < GATED || keys[i] == 1)
                    check_recurrence(l, keys[i], columns[c], form);
}

/* ---- convolutions ---- */

enum { CONV_LANES = 700, CONV_FIRST = 3, CONV_LAST = CONV_LANES - 2 };

static double exact_convolution(const lm_conv_args *a, int64_t t, uint64_t c)
{
    double sum = a->bias ? (double)a->bias[c] : 0;

    for (int64_t j = 0; j < a->taps; j++) {
        int64_t row = t - a->taps + 1 + j;
        float   x   = row >= 0   ? a->x[(uint64_t)row * a->x_stride + c]
                      : a->before ? a->before[(uint64_t)(row + a->taps - 1) * a->lanes + c]
                                  : 0;
        sum += (double)a->w[c * a->taps + (uint64_t)j] * (double)x;
    }
    return sum;
}

/* The sums and the kept rows have the same bits as those of the first level, and whatever the rows are cut
 * into; other lanes are left as they are. */
static void check_convolution(const level *l, uint32_t taps, bool has_before, bool has_bias)
{
    static lm_kernels reference;
    uint64_t          state    = (uint64_t)(taps - 1) * CONV_LANES;
    uint64_t          all_rows = (uint64_t)RECUR_ROWS * CONV_LANES;
    float *x = random_rows(CONV_LANES, 1), *before = guarded(state * 4, 0),
          *bias = guarded(CONV_LANES * 4, 0), *w = guarded((uint64_t)taps * CONV_LANES * 4, 0),
          *y = guarded(all_rows * 4, 0), *o = guarded(all_rows * 4, 0), *after = guarded(state * 4, 0),
          *kept = guarded(state * 4, 0);
    lm_conv_args a = {
        has_before ? before : NULL, kept, x, CONV_LANES, o, CONV_LANES, w, has_bias ? bias : NULL,
        CONV_LANES, CONV_FIRST, CONV_LAST, RECUR_ROWS, taps,
    };

    lm_kernels_init_ref(&reference);
    rnd_floats(before, state, 1);
    rnd_floats(bias, CONV_LANES, 1);
    rnd_floats(w, (uint64_t)taps * CONV_LANES, 0.5f);
    memset(o, 0, all_rows * 4);
    memset(y, 0, all_rows * 4);
    memset(kept, 0, state * 4);
    memset(after, 0, state * 4);
    reference.row.convolve(&a);
    for (int64_t t = 0; t < RECUR_ROWS; t++)
        for (uint64_t c = CONV_FIRST; c < CONV_LAST; c++)
            check_close(o[(uint64_t)t * CONV_LANES + c], exact_convolution(&a, t, c), 1e-4,
                        "convolution of %d taps", (int)taps);
    a.after = after;
    for (uint64_t t = 0; t < RECUR_ROWS; t += a.rows) {
        a.rows = t + 3 < RECUR_ROWS ? 3 : RECUR_ROWS - t;
        a.x    = x + t * CONV_LANES;
        a.y    = y + t * CONV_LANES;
        l->k.row.convolve(&a);
        a.before = after;
    }
    check(memcmp(y, o, all_rows * 4) == 0 && memcmp(after, kept, state * 4) == 0,
          "%s convolution of %d taps has other bits", l->name, (int)taps);
    float *const all[] = { x, before, bias, w, y, o, after, kept };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        guarded_free(all[i]);
}

static void check_convolutions(const level *l)
{
    static const uint32_t taps[] = { 2, 3, 4, 7, LM_MAX_TAPS };

    for (size_t i = 0; i < sizeof taps / sizeof *taps; i++)
        for (int form = 0; form < 4; form++)
            check_convolution(l, taps[i], form & 1, form & 2);
}

void check_rows(const level *l)
{
    static lm_row_kernels last;                              /* levels are in rising order: unchanged kernels
                                                                have been checked */

    if (!memcmp(&last, &l->k.row, sizeof last))
        return;
    last = l->k.row;
    for (int i = 0; i < N_SIZES; i++) {
        for (int s = 0; s < N_SCALES; s++) {
            rows r = make(l, sizes[i], scales[s]);
            check_norms(&r);
            check_arithmetic(&r);
            check_acts(&r);
            check_softmax(&r);
            check_xielu(&r);
            release(&r);
        }
    }
    check_rope(l);
    check_limits(l);
    check_recurrences(l);
    check_convolutions(l);
}

/* ---- time
 * -------------------------------------------------------------------------------------------------------- */

enum { BENCH = 4096 };

static void call_rms(void *arg)
{
    rows *r = arg;
    r->l->k.row.rms(r->y, r->a, r->b, r->n, 1e-5f);
}

static void call_glu(void *arg)
{
    rows *r = arg;
    r->l->k.row.glu(r->y, r->a, r->b, LM_ACT_SILU, r->n);
}

static void call_softmax(void *arg)
{
    rows *r = arg;
    memcpy(r->y, r->a, r->n * 4);
    r->l->k.row.softmax(r->y, r->n);
}

void bench_rows(const level *l)
{
    rows r = make(l, BENCH, 1.0f);

    printf("%-10s rms %.2f  silu*up %.2f  softmax %.2f  ns/element\n", l->name,
           best_seconds(call_rms, &r) / BENCH * 1e9, best_seconds(call_glu, &r) / BENCH * 1e9,
           best_seconds(call_softmax, &r) / BENCH * 1e9);
    release(&r);
}
