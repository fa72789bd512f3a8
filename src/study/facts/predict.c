/* predict.c - compute the time of a plan from peak rates: the roofline model (Williams, Waterman, Patterson,
 * doi:10.1145/1498765.1498785), applied to each step. A step takes the longer of the time to read its bytes
 * and the time to compute its operations; the plan takes the sum. Nothing is measured here. */
#include "study/facts/predict.h"

#include "base/language.h"
#include "plan/cost.h"

enum { BY_INT8, BY_F16, BY_BF16, BY_F32, ARITHMETICS };

/* Sums over the steps of a plan. */
typedef struct sums {
    double   seconds, reading, computing;
    double   by[ARITHMETICS];            /* seconds of steps limited by this arithmetic … */
    double   by_memory;                  /* … or by reading */
    lm_wide  bytes, operations;
    bool     unknown;
} sums;

static double peak_of(const lm_peaks *k, int *arithmetic)
{
    const double rates[ARITHMETICS] = { k->int8, k->f16, k->bf16, k->f32 };
    static const int next[ARITHMETICS] = { BY_F16, BY_BF16, BY_F32, BY_F32 };

    if (*arithmetic == BY_BF16 && k->bf16 <= 0 && k->f16 > 0)
        *arithmetic = BY_F16;
    while (rates[*arithmetic] <= 0 && *arithmetic != BY_F32)
        *arithmetic = next[*arithmetic];
    return rates[*arithmetic];
}

static void add_step(sums *s, const lm_peaks *k, int arithmetic, const lm_step_costs *c)
{
    lm_wide bytes   = c->weight_bytes + c->cache_bytes;
    double  peak    = peak_of(k, &arithmetic);
    double compute = peak > 0 ? (double)c->operations / peak : 0,
           read = k->memory > 0 ? (double)bytes / k->memory : 0;

    s->unknown |= peak <= 0 && c->operations > 0;
    s->reading += read;
    s->computing += compute;
    s->seconds += compute > read ? compute : read;
    if (compute > read)
        s->by[arithmetic] += compute;
    else
        s->by_memory += read;
    s->bytes += bytes;
    s->operations += c->operations;
}

/* Return the arithmetic that the kernels use; on a device without such kernels, the one that suits the
 * weights' type, and float16 for the cache. */
static int arithmetic_of(const lm_plan *p, const lm_peaks *k, const lm_step *s, const lm_step_costs *c)
{
    static const int by[] = {
        [LM_ARITHMETIC_INT8] = BY_INT8, [LM_ARITHMETIC_BF16] = BY_BF16, [LM_ARITHMETIC_F32] = BY_F32
    };

    if (!k->by_type)
        return by[c->arithmetic];
    lm_dtype type = lm_is_product(s) ? p->weights[s->weight].type : LM_F16;
    return lm_dtype_of(type)->quantized ? BY_INT8
           : type == LM_BF16            ? BY_BF16
           : type == LM_F16             ? BY_F16
                                        : BY_F32;
}

static void add_forward(const lm_plan *p, const lm_peaks *k, const lm_forward *f, sums *out)
{
    lm_step_costs c;

    for (uint32_t i = 0; i < p->n_steps; i++) {
        lm_step_cost(p, &p->steps[i], f, &c);
        add_step(out, k, arithmetic_of(p, k, &p->steps[i], &c), &c);
    }
}

double lm_predict_step(const lm_plan *p, const lm_peaks *peaks, const lm_step *step, const lm_forward *f)
{
    lm_step_costs c;
    sums          s = { 0 };

    lm_step_cost(p, step, f, &c);
    add_step(&s, peaks, arithmetic_of(p, peaks, step, &c), &c);
    return s.seconds;
}

static void finish(const sums *s, uint64_t tokens, bool needs_arithmetic, lm_prediction *out)
{
    static const char *const names[ARITHMETICS] = { "int8", "f16", "bf16", "f32" };
    double                   max = s->by_memory;

    *out = (lm_prediction){ .seconds = s->seconds,
                            .reading = s->reading,
                            .computing = s->computing,
                            .bytes = s->bytes,
                            .operations = s->operations,
                            .limited_by = N_("memory"),
                            .known = s->seconds > 0 && !(s->unknown && needs_arithmetic) };
    for (int i = 0; i < ARITHMETICS; i++)
        if (s->by[i] > max) {
            max            = s->by[i];
            out->limited_by = names[i];
        }
    out->tokens_per_second = s->seconds > 0 ? (double)tokens / s->seconds : 0;
}

void lm_predict_prompt(const lm_plan *p, const lm_peaks *peaks, uint64_t tokens, lm_prediction *out)
{
    sums s = { 0 };

    for (uint64_t at = 0; at < tokens;) {
        uint64_t left = tokens - at, rows = left < p->options.max_rows ? left : p->options.max_rows;
        add_forward(p, peaks,
                    &(lm_forward){ .rows = rows, .first = at, .sequences = 1, .wanted = at + rows == tokens },
                    &s);
        at += rows;
    }
    finish(&s, tokens, true, out);
}

void lm_predict_token(const lm_plan *p, const lm_peaks *peaks, uint64_t context, uint64_t sequences,
                      lm_prediction *out)
{
    sums s = { 0 };

    add_forward(p, peaks,
                &(lm_forward){ .rows = 1,
                               .first = context ? context - 1 : 0,
                               .sequences = sequences,
                               .wanted = sequences },
                &s);
    finish(&s, sequences, s.reading <= s.computing, out);
}

lm_peaks lm_peaks_published(const lm_device *d)
{
    return (lm_peaks){ d->peak.int8, d->peak.f16, d->peak.bf16, d->peak.f32, d->memory_rate, true };
}

lm_peaks lm_peaks_measured(const lm_limits *l)
{
    return (lm_peaks){ .int8 = l->int8.all, .bf16 = l->bf16.all, .f32 = l->f32.all, .memory = l->memory.all };
}
