/* sliders.c - make a plan per precision and number of sequences, resized for contexts and cache types. */
#include "study/page/sliders.h"

#include <inttypes.h>
#include <string.h>

#include "study/facts/counts.h"
#include "study/facts/ledger.h"
#include "study/facts/precision.h"
#include "study/facts/predict.h"
#include "base/language.h"

/* ---- stops ---- */

/* Initial position of the slider if no context was given, unless the model's context is shorter: few requests
 * are longer. */
enum { USUAL = 8192 };

static uint32_t add_stop(uint64_t *stops, uint32_t *n, uint64_t value)
{
    uint32_t at = 0;

    while (at < *n && stops[at] < value)
        at++;
    if ((at < *n && stops[at] == value) || *n == LM_STOPS)
        return at;
    memmove(&stops[at + 1], &stops[at], (*n - at) * sizeof *stops);
    stops[at] = value;
    ++*n;
    return at;
}

static void choose_stops(lm_facts *f, lm_sliders *s)
{
    static const lm_dtype kv[] = { LM_F32, LM_F16, LM_BF16, LM_Q8_0, LM_Q5_1, LM_Q4_0 };
    bool                  own  = false;
    uint64_t              max = f->s.program->context_length ? f->s.program->context_length : f->s.context;

    for (uint64_t c = 512; c < max && s->n_contexts + 2 < LM_STOPS; c *= 2)
        add_stop(s->contexts, &s->n_contexts, c);
    add_stop(s->contexts, &s->n_contexts, max);
    add_stop(s->contexts, &s->n_contexts, f->s.context);
    s->context = add_stop(s->contexts, &s->n_contexts,
                          f->s.context == max && max > USUAL ? USUAL : f->s.context);
    for (uint64_t b = 1; b <= 64; b *= 4)
        add_stop(s->batches, &s->n_batches, b);
    s->batch = add_stop(s->batches, &s->n_batches, f->s.batch);
    for (size_t i = 0; i < sizeof kv / sizeof *kv; i++) {
        s->kv[s->n_kv++] = (lm_cache_types){ kv[i], kv[i] };
        own |= f->s.cache.k == kv[i] && f->s.cache.v == kv[i];
    }
    if (!own)
        s->kv[s->n_kv++] = f->s.cache;
}

/* ---- a single plan ---- */

typedef struct taking {
    lm_facts   *f;
    lm_sliders *s;
    uint32_t    precision, batch;
    lm_status   status;
} taking;

static uint64_t state_bytes(const lm_plan *p, uint64_t *values)
{
    uint64_t max = 0;

    for (uint32_t i = 0; i < p->n_buffers; i++) {
        uint64_t end = p->buffers[i].offset + p->buffers[i].stride * p->buffers[i].rows;
        max         = end > max ? end : max;
    }
    *values = max;
    return p->slab_bytes - max - p->state.worker_bytes * p->options.workers;
}

static lm_stop_rate rate_of(const lm_prediction *x)
{
    return (lm_stop_rate){ x->known ? x->tokens_per_second : 0, x->limited_by };
}

static void take_rates(taking *t, const lm_plan *p, uint32_t kv)
{
    lm_peaks      peaks;
    lm_prediction x;

    lm_peaks_of(t->f, &peaks);
    if (t->batch == 0) {
        lm_predict_prompt(p, &peaks, 512, &x);
        t->s->prompt[t->precision][kv] = rate_of(&x);
    }
    for (uint32_t c = 0; c < t->s->n_contexts; c++) {
        lm_predict_token(p, &peaks, t->s->contexts[c], t->s->batches[t->batch], &x);
        t->s->generation[t->precision][kv][t->batch][c] = rate_of(&x);
    }
}

/* The cache and its bookkeeping do not depend on the precision: take them only once. */
static lm_status take_cache(taking *t, const lm_plan *base, uint32_t kv)
{
    lm_sliders *s = t->s;
    uint64_t    values;

    for (uint32_t c = 0; c < s->n_contexts; c++) {
        lm_plan *p;
        LM_TRY(lm_plan_resized(base, (uint32_t)s->contexts[c], s->kv[kv], &p, NULL));
        s->cache[kv][t->batch][c]       = p->kv_bytes;
        s->bookkeeping[t->batch][c]     = state_bytes(p, &values);
        lm_plan_free(p);
    }
    return LM_OK;
}

static void take(void *arg, const lm_plan *base)
{
    taking     *t = arg;
    lm_sliders *s = t->s;

    s->weights[t->precision] = base->weight_bytes;
    s->mapped[t->precision]  = base->mapped_bytes;
    state_bytes(base, &s->values[t->precision][t->batch]);
    for (uint32_t k = 0; k < s->n_kv && t->status == LM_OK; k++) {
        lm_plan *p;
        t->status = lm_plan_resized(base, base->options.context, s->kv[k], &p, NULL);
        if (t->status == LM_UNSUPPORTED) {           /* the heads do not fit the blocks of this type: it is
                                                        not offered */
            memmove(&s->kv[k], &s->kv[k + 1], (s->n_kv - k - 1) * sizeof *s->kv);
            s->n_kv--;
            k--;
            t->status = LM_OK;
            continue;
        }
        if (t->status != LM_OK)
            return;
        s->threads[t->precision][k] = p->state.worker_bytes * p->options.workers;
        if (s->rated)
            take_rates(t, p, k);
        lm_plan_free(p);
        if (t->precision == 0)
            t->status = take_cache(t, base, k);
    }
}

/* ---- all plans ---- */

static lm_status take_precision(lm_facts *f, lm_sliders *s, const char *name, const lm_dtype *types)
{
    uint32_t p = s->n_precisions;

    for (uint32_t b = 0; b < s->n_batches; b++) {
        taking t = { f, s, p, b, LM_OK };
        LM_TRY(f->s.borrow(f->s.arg, types, s->contexts[0], s->batches[b], take, &t, NULL));
        LM_TRY(t.status);
    }
    if (strcmp(name, f->s.precision) == 0)
        s->precision = p;
    s->precisions[s->n_precisions++] = name;
    return LM_OK;
}

static lm_status take_all(lm_facts *f, lm_sliders *s)
{
    static const char *const choice[] = { "f32", "f16", "bf16", "Q8_0", "Q6_K", "Q4_K_M", "IQ4_XS" };

    if (f->s.tensors)
        LM_TRY(take_precision(f, s, "as stored", NULL));
    for (size_t i = 0; lm_precision_at(i); i++) {
        const lm_precision *x      = lm_precision_at(i);
        bool                wanted = strcmp(x->name, f->s.precision) == 0;
        for (size_t k = 0; k < sizeof choice / sizeof *choice; k++)
            wanted |= strcmp(choice[k], x->name) == 0;
        wanted |= !x->usual && lm_precision_shown(x, f->s.program);
        if (!wanted || x->bits > 0)
            continue;
        const lm_dtype *types = lm_types_as(f, i);
        if (!types)
            return LM_NO_MEMORY;
        LM_TRY(take_precision(f, s, x->name, types));
    }
    return s->n_precisions ? LM_OK : LM_UNSUPPORTED;
}

lm_sliders *lm_sliders_of(lm_facts *f)
{
    lm_sliders  *s = lm_arena_new(&f->arena, 1, lm_sliders);
    lm_kv_counts c;
    lm_peaks     peaks;

    f->failed |= !s;
    if (!s || !f->s.borrow)
        return NULL;
    s->rated      = lm_peaks_of(f, &peaks);
    s->generation = s->rated ? lm_arena_array(&f->arena, LM_STOPS, sizeof *s->generation) : NULL;
    f->failed |= s->rated && !s->generation;
    if (f->failed)
        return NULL;
    choose_stops(f, s);
    if (take_all(f, s) != LM_OK)
        return NULL;
    for (uint32_t k = 0; k < s->n_kv; k++) {
        lm_count_kv(f->s.program, s->kv[k], f->s.context, 1, &c);
        s->per_token[k] = c.bytes_per_token;
        s->kv_now       = s->kv[k].k == f->s.cache.k && s->kv[k].v == f->s.cache.v ? k : s->kv_now;
    }
    for (uint32_t i = 0; i < s->n_contexts; i++) {
        s->flops[i]   = lm_flops_at(f->s.program, s->contexts[i]);
        s->prefill[i] = lm_flops_prefill(f->s.program, s->contexts[i]);
    }
    return s;
}

/* ---- JSON ---- */

static void put_list(lm_text *out, const uint64_t *x, uint32_t n)
{
    lm_text_add_char(out, '[');
    for (uint32_t i = 0; i < n; i++)
        lm_text_printf(out, "%s%" PRIu64, i ? "," : "", x[i]);
    lm_text_add_char(out, ']');
}

/* Write 128-bit numbers, rounded to doubles from 2^64 on: JavaScript numbers are doubles anyway. */
static void put_wide_list(lm_text *out, const lm_wide *x, uint32_t n)
{
    lm_text_add_char(out, '[');
    for (uint32_t i = 0; i < n; i++)
        if (x[i] <= UINT64_MAX)
            lm_text_printf(out, "%s%" PRIu64, i ? "," : "", (uint64_t)x[i]);
        else
            lm_text_printf(out, "%s%.17g", i ? "," : "", (double)x[i]);
    lm_text_add_char(out, ']');
}

/* The page's "limits": the words; each rate stores an index into them. */
static const char *const limits[] = { "memory", "int8", "f16", "bf16", "f32" };

static unsigned limit_of(const char *word)
{
    unsigned i = 0;

    while (i + 1 < sizeof limits / sizeof *limits && strcmp(limits[i], word) != 0)
        i++;
    return i;
}

static void put_rates(lm_text *out, const lm_stop_rate *x, uint32_t n)
{
    lm_text_add_char(out, '[');
    for (uint32_t i = 0; i < n; i++)
        lm_text_printf(out, "%s%.7g,%u", i ? "," : "", x[i].tokens_per_second, limit_of(x[i].limited_by));
    lm_text_add_char(out, ']');
}

static void put_speed(const lm_sliders *s, lm_text *out)
{
    lm_text_add_str(out, ",\"limits\":[");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        lm_text_add_str(out, i ? "," : "");
        lm_fact_json_text(i ? limits[i] : _("memory"), out);
    }
    lm_text_add_str(out, "],\"prompt\":[");
    for (uint32_t p = 0; p < s->n_precisions; p++) {
        lm_text_add_str(out, p ? "," : "");
        put_rates(out, s->prompt[p], s->n_kv);
    }
    lm_text_add_str(out, "],\"generation\":[");
    for (uint32_t p = 0; p < s->n_precisions; p++)
        for (uint32_t k = 0; k < s->n_kv; k++)
            for (uint32_t b = 0; b < s->n_batches; b++) {
                lm_text_add_str(out, p + k + b ? "," : "");
                put_rates(out, s->generation[p][k][b], s->n_contexts);
            }
    lm_text_add_char(out, ']');
}

void lm_sliders_json(const lm_sliders *s, lm_text *out)
{
    char name[LM_CACHE_TYPES_NAME];

    lm_text_printf(out, "{\"now\":[%u,%u,%u,%u],\"contexts\":", s->context, s->batch, s->kv_now,
                   s->precision);
    put_list(out, s->contexts, s->n_contexts);
    lm_text_add_str(out, ",\"batches\":");
    put_list(out, s->batches, s->n_batches);
    lm_text_add_str(out, ",\"kv\":[");
    for (uint32_t k = 0; k < s->n_kv; k++)
        lm_text_printf(out, "%s\"%s\"", k ? "," : "", lm_cache_types_name(s->kv[k], name));
    lm_text_add_str(out, "],\"precisions\":[");
    for (uint32_t p = 0; p < s->n_precisions; p++)
        lm_text_printf(out, "%s\"%s\"", p ? "," : "", _(s->precisions[p]));
    lm_text_add_str(out, "],\"weights\":");
    put_list(out, s->weights, s->n_precisions);
    lm_text_add_str(out, ",\"mapped\":");
    put_list(out, s->mapped, s->n_precisions);
    lm_text_add_str(out, ",\"perToken\":");
    put_list(out, s->per_token, s->n_kv);
    lm_text_add_str(out, ",\"flops\":");
    put_wide_list(out, s->flops, s->n_contexts);
    lm_text_add_str(out, ",\"prefill\":");
    put_wide_list(out, s->prefill, s->n_contexts);
    for (int what = 0; what < 3; what++) {
        static const char *const names[] = { "values", "threads", "bookkeeping" };
        uint32_t                 rows = what < 2 ? s->n_precisions : s->n_batches;
        lm_text_printf(out, ",\"%s\":[", names[what]);
        for (uint32_t i = 0; i < rows; i++) {
            lm_text_add_str(out, i ? "," : "");
            put_list(out, what == 0 ? s->values[i] : what == 1 ? s->threads[i] : s->bookkeeping[i],
                     what == 0 ? s->n_batches : what == 1 ? s->n_kv : s->n_contexts);
        }
        lm_text_add_char(out, ']');
    }
    lm_text_add_str(out, ",\"cache\":[");
    for (uint32_t k = 0; k < s->n_kv; k++)
        for (uint32_t b = 0; b < s->n_batches; b++) {
            lm_text_add_str(out, k + b ? "," : "");
            put_list(out, s->cache[k][b], s->n_contexts);
        }
    lm_text_add_char(out, ']');
    if (s->rated)
        put_speed(s, out);
    lm_text_add_char(out, '}');
}
