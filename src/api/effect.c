/* effect.c - run the same sequence repeatedly. */
#include "api/effect.h"

#include <math.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "runtime/engine/variant.h"
#include "runtime/measure/compare.h"
#include "runtime/measure/stretches.h"

enum { SEQUENCES = 4, MAX_ROWS = 512 };

typedef struct reading { lm_effect *f; bool first; atomic_bool bad; } reading;

static lm_engine_options options_of(const lm_effect *f, const lm_engine_options *o)
{
    const uint64_t    max = UINT64_C(128) << 20;         /* bytes of logits */
    lm_engine_options x = o ? *o : (lm_engine_options){ 0 };

    x.compute    = LM_COMPUTE_F32;
    x.no_repack  = false;
    x.context    = f->chunk;
    x.sequences  = f->chunks < SEQUENCES ? f->chunks : SEQUENCES;
    x.max_rows       = f->chunk * x.sequences < MAX_ROWS ? f->chunk * x.sequences : MAX_ROWS;
    x.max_logits = (uint64_t)x.max_rows * f->n_vocab * sizeof(float) > max
                       ? (uint32_t)(max / sizeof(float) / f->n_vocab)
                       : x.max_rows;
    x.max_logits = x.max_logits ? x.max_logits : 1;
    x.kv_positions = 0;
    x.hidden     = false;
    return x;
}

lm_status lm_effect_new(const lm_model *m, const lm_engine_options *o, lm_caller_weights *values, void *arg,
                        const lm_token *ids, size_t n, uint32_t chunk, uint32_t chunks, lm_effect *out,
                        lm_error *e)
{
    lm_effect f = { .ids = ids, .chunk = chunk, .n_vocab = m->program->n_vocab };

    if (m->program->context_length && f.chunk > m->program->context_length)
        f.chunk = m->program->context_length;
    f.chunks = n / f.chunk < chunks ? (uint32_t)(n / f.chunk) : chunks;
    if (!f.chunks)
        return lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET, "%zu tokens; a chunk of %u at least", n, f.chunk);
    lm_engine_options       x = options_of(&f, o);
    const lm_engine_variant v = { .caller_weights = values, .caller_weights_arg = arg };
    uint64_t                bytes = (uint64_t)f.chunks * f.chunk * f.n_vocab * sizeof *f.first;
    LM_TRY(lm_engine_new_variant(m, &x, &v, &f.g, e));
    f.first = lm_alloc(bytes);
    f.kl    = lm_alloc_zero((size_t)f.chunks * f.chunk, sizeof *f.kl);
    *out    = f;
    if (f.first && f.kl)
        return LM_OK;
    lm_effect_free(out);
    return lm_fail(e, LM_NO_FIT, "expectations", LM_NO_OFFSET, "cannot allocate %llu MB",
                   (unsigned long long)(bytes >> 20));
}

void lm_effect_free(lm_effect *f)
{
    lm_engine_free(f->g);
    lm_free(f->first);
    lm_free(f->kl);
    *f = (lm_effect){ 0 };
}

static double log_norm(const float *x, uint32_t n)
{
    float  top = x[lm_argmax(x, n)];
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)expf(x[i] - top);
    return (double)top + log(sum);
}

static void take_row(void *arg, const lm_stretch *s, uint32_t row, const float *const *logits)
{
    reading    *r     = arg;
    lm_effect  *f     = r->f;
    size_t      at    = (size_t)s->tag * f->chunk + row;
    float      *first = f->first + at * f->n_vocab;
    double      norm  = log_norm(logits[0], f->n_vocab), kl = 0;

    for (uint32_t i = 0; r->first && i < f->n_vocab; i++)
        first[i] = (float)((double)logits[0][i] - norm);
    for (uint32_t i = 0; !r->first && i < f->n_vocab; i++) {
        float p = expf(first[i]);
        kl += p > 0 ? (double)p * ((double)first[i] - ((double)logits[0][i] - norm)) : 0;
    }
    f->kl[at] = kl > 0 || isnan(kl) ? kl : 0;
    if (isnan(norm) || isnan(kl))
        atomic_store(&r->bad, true);
}

static lm_status read_chunks(lm_effect *f, uint32_t from, uint32_t n, bool first, lm_error *e)
{
    uint32_t max = lm_engine_sequences(f->g);
    reading  r    = { .f = f, .first = first };

    for (uint32_t i = from; i < from + n;) {
        lm_stretch s[SEQUENCES];
        uint32_t   k = 0;
        for (; k < max && i < from + n; k++, i++) {
            s[k] = (lm_stretch){
                .sequence = k, .ids = f->ids + (size_t)i * f->chunk, .n = f->chunk, .first = -1, .tag = i
            };
            LM_TRY(lm_engine_truncate(f->g, k, 0, e));
        }
        LM_TRY(lm_read_stretches(&f->g, 1, s, k, take_row, &r, e));
    }
    if (atomic_load(&r.bad))
        return lm_fail(e, LM_FAILED, "logits", LM_NO_OFFSET, "not a number");
    return LM_OK;
}

lm_status lm_effect_begin(lm_effect *f, lm_error *e)
{
    return read_chunks(f, 0, f->chunks, true, e);
}

lm_status lm_effect_kl(lm_effect *f, uint32_t from, uint32_t n, double *out, lm_error *e)
{
    double sum = 0;

    LM_TRY(read_chunks(f, from, n, false, e));
    for (size_t i = (size_t)from * f->chunk; i < (size_t)(from + n) * f->chunk; i++)
        sum += f->kl[i];
    *out = sum / (double)n / (double)f->chunk;
    return LM_OK;
}
