/* predict.c - a plan against peaks. */
#include "analysis/predict.h"

#include <math.h>

/* A forward: `rows` new positions of each of `sequences`, from position `first` on. */
typedef struct forward { uint64_t rows, sequences, first, wanted; } forward;

enum { BY_INT8, BY_F16, BY_BF16, BY_F32, ARITHMETICS };

/* Sums over steps. */
typedef struct sums {
    double   seconds, reading, computing;
    double   by[ARITHMETICS];            /* seconds of steps that this arithmetic limits … */
    double   by_memory;                  /* … or reading */
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

static void add_step(sums *s, const lm_peaks *k, int arithmetic, double operations, double bytes)
{
    double peak    = peak_of(k, &arithmetic);
    double compute = peak > 0 ? operations / peak : 0, read = k->memory > 0 ? bytes / k->memory : 0;

    s->unknown |= peak <= 0 && operations > 0;
    s->reading += read;
    s->computing += compute;
    s->seconds += compute > read ? compute : read;
    if (compute > read)
        s->by[arithmetic] += compute;
    else
        s->by_memory += read;
    s->bytes += (lm_wide)bytes;
    s->operations += (lm_wide)operations;
}

/* ---- products ---- */

static int arithmetic_of(const lm_plan *p, const lm_peaks *k, const lm_step *s)
{
    lm_dtype type = p->weights[s->weight].type;

    if (!k->by_type)
        return s->matmul->arithmetic == LM_ARITHMETIC_INT8   ? BY_INT8
               : s->matmul->arithmetic == LM_ARITHMETIC_BF16 ? BY_BF16
                                                             : BY_F32;
    return lm_dtype_of(type)->quantized ? BY_INT8 : type == LM_BF16 ? BY_BF16 : type == LM_F16 ? BY_F16 : BY_F32;
}

/* Experts that `visits` of `n` choose, on average, when every one is as likely. */
static double distinct(double n, double visits)
{
    return n * (1 - pow(1 - 1 / n, visits));
}

static void add_product(const lm_plan *p, const lm_peaks *k, const lm_step *s, const forward *f, sums *out)
{
    const lm_weight *w     = &p->program->weights[s->weight];
    double           bytes = (double)p->weights[s->weight].bytes;
    double           rows  = (double)(s->domain == LM_WANTED_ROWS ? f->wanted : f->rows * f->sequences) * s->times;
    bool             many  = w->kind == LM_EXPERTS;

    if (many)
        bytes *= distinct((double)w->dims[0], rows) / (double)w->dims[0];
    add_step(out, k, arithmetic_of(p, k, s), 2 * (double)w->dims[many] * (double)w->dims[many + 1] * rows, bytes);
}

/* ---- attention ---- */

static void add_attention(const lm_plan *p, const lm_peaks *k, const lm_step *s, const forward *f, sums *out)
{
    const lm_node *n     = &p->program->nodes[s->node];
    uint64_t       last  = f->first + f->rows, window = n->attention.spec.window;
    uint64_t       keys  = lm_keys_seen(last, window) - lm_keys_seen(f->first, window), held = last;
    const lm_kv_layer *at = &p->layers[n->attention.cache];
    lm_cost        c;

    lm_node_cost(p->program, n, &c);
    if (window && held > window + f->rows - 1)
        held = window + f->rows - 1;
    double bytes = (double)p->attention->page_bytes(&at->shape) / LM_PAGE * (double)held * (double)f->sequences;
    add_step(out, k, k->by_type ? BY_F16 : BY_F32, 2 * (double)c.key_mult_adds * (double)keys * (double)f->sequences, bytes);
}

/* ---- forwards ---- */

static void add_forward(const lm_plan *p, const lm_peaks *k, const forward *f, sums *out)
{
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const lm_step *s = &p->steps[i];
        if (s->domain == LM_WANTED_ROWS && !f->wanted)
            continue;
        if (s->code == LM_STEP_MATMUL || s->code == LM_STEP_EXPERTS)
            add_product(p, k, s, f, out);
        else if (s->code == LM_STEP_ATTENTION)
            add_attention(p, k, s, f, out);
    }
}

static void finish(const sums *s, uint64_t tokens, lm_prediction *out)
{
    static const char *const names[ARITHMETICS] = { "int8", "f16", "bf16", "f32" };
    double                   most = s->by_memory;

    *out = (lm_prediction){ .seconds = s->seconds, .reading = s->reading, .computing = s->computing, .bytes = s->bytes,
                            .operations = s->operations, .unknown = s->unknown, .limited_by = "memory" };
    for (int i = 0; i < ARITHMETICS; i++)
        if (s->by[i] > most) {
            most            = s->by[i];
            out->limited_by = names[i];
        }
    out->tokens_per_second = s->seconds > 0 ? (double)tokens / s->seconds : 0;
}

void lm_predict_prompt(const lm_plan *p, const lm_peaks *peaks, uint64_t tokens, lm_prediction *out)
{
    sums s = { 0 };

    for (uint64_t at = 0; at < tokens;) {
        uint64_t left = tokens - at, rows = left < p->options.rows ? left : p->options.rows;
        add_forward(p, peaks, &(forward){ rows, 1, at, at + rows == tokens }, &s);
        at += rows;
    }
    finish(&s, tokens, out);
}

void lm_predict_token(const lm_plan *p, const lm_peaks *peaks, uint64_t context, uint64_t sequences, lm_prediction *out)
{
    sums s = { 0 };

    add_forward(p, peaks, &(forward){ 1, sequences, context ? context - 1 : 0, sequences }, &s);
    finish(&s, sequences, out);
}
