/* overflow.c - pack rows into types that cannot hold every value: F16, and blocks whose scales are F16. */
#include "export/tensors/overflow.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"

#define F16_MAX 65504.0f
#define BF16_MAX 3.38953139e38f
enum { BLOCK = 256, BYTES = 1024 };

static float largest_of(const float *x, uint64_t n)
{
    float max = 0;

    for (uint64_t i = 0; i < n; i++)
        max = fmaxf(max, fabsf(x[i]));
    return max;
}

/* Return the largest value that always fits. */
static float limit_of(lm_dtype to)
{
    return to == LM_F32 || to == LM_F64 ? INFINITY : to == LM_BF16 ? BF16_MAX : F16_MAX;
}

static void count(lm_overflows *m, uint64_t n, float largest)
{
    uint32_t bits, seen = __atomic_load_n(&m->largest, __ATOMIC_RELAXED);

    memcpy(&bits, &largest, sizeof bits);            /* floats above 0 are ordered like their bits */
    __atomic_fetch_add(&m->n, n, __ATOMIC_RELAXED);
    while (bits > seen && !__atomic_compare_exchange_n(&m->largest, &seen, bits, false, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED))
        ;
}

static void limit(float *x, uint64_t n, float max)
{
    for (uint64_t i = 0; i < n; i++)
        x[i] = fminf(fmaxf(x[i], -max), max);
}

void lm_pack_whole(lm_dtype to, uint8_t *out, const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        int64_t v     = (int64_t)x[i];
        int32_t small = (int32_t)x[i];
        if (to == LM_I64)
            memcpy(out + i * sizeof v, &v, sizeof v);
        else
            memcpy(out + i * sizeof small, &small, sizeof small);
    }
}

static void pack(lm_quantize_fn *quantize, lm_dtype to, uint8_t *out, const float *x, uint64_t n,
                 const float *importance)
{
    if (to == LM_I32 || to == LM_I64)            /* indices, which float32 holds exactly */
        lm_pack_whole(to, out, x, n);
    else if (quantize)
        quantize(to, out, x, n, importance);
    else
        lm_dtype_of(to)->pack(out, x, n);
}

/* Count the values of a block that are lost to its scale: those that a block of the same values at a smaller
 * scale, a power of two, would hold. */
static uint64_t lost_in_block(lm_quantize_fn *quantize, lm_dtype to, const float *x, const float *importance,
                              float max)
{
    const lm_dtype_info *d = lm_dtype_of(to);
    float                y[BLOCK], z[BLOCK], small[BLOCK];
    uint8_t              bytes[BYTES];
    uint64_t             lost = 0;
    int                  exponent;

    frexpf(max, &exponent);
    for (uint32_t i = 0; i < d->block; i++)
        small[i] = ldexpf(x[i], -exponent);
    pack(quantize, to, bytes, x, d->block, importance);
    d->unpack(y, bytes, d->block);
    pack(quantize, to, bytes, small, d->block, importance);
    d->unpack(z, bytes, d->block);
    for (uint32_t i = 0; i < d->block; i++)
        lost += !(fabsf(ldexpf(y[i], -exponent) - z[i]) <= 0.01f);
    return lost;
}

void lm_pack_checked(lm_quantize_fn *quantize, lm_dtype to, uint8_t *out, float *x, uint64_t cols,
                     const float *importance, bool clamp, lm_overflows *m)
{
    const lm_dtype_info *d    = lm_dtype_of(to);
    float                max = limit_of(to);

    for (uint64_t at = largest_of(x, cols) > max ? 0 : cols; at < cols; at += d->block) {
        float largest = largest_of(x + at, d->block);
        if (largest <= max || isinf(largest))
            continue;
        const float *weights = importance ? importance + at : NULL;
        uint64_t     lost    = lost_in_block(quantize, to, x + at, weights, largest);
        if (!lost)
            continue;
        count(m, lost, largest);
        if (clamp)
            limit(x + at, d->block, max);
    }
    pack(quantize, to, out, x, cols, importance);
}

lm_status lm_overflows_again(lm_error *e)
{
    return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "a tensor got another type");
}

/* Name the limit of a type: ", whose scales are f16". */
static const char *limit_named(const lm_dtype_info *d)
{
    return d->block > 1 ? ", whose scales are f16" : d->type == LM_F16 ? ", which ends at 65504" : "";
}

lm_status lm_overflows_end(lm_overflows *m, const char *tensor, lm_dtype *to, const lm_overflow_rule *rule,
                         lm_error *e)
{
    const lm_dtype_info *d = lm_dtype_of(*to);
    lm_overflows         was = *m;
    float                largest;

    *m = (lm_overflows){ 0 };
    if (!was.n)
        return LM_OK;
    memcpy(&largest, &was.largest, sizeof largest);
    if (rule->clamp) {
        lm_text_printf(rule->notes, "%s: %" PRIu64 " value%s of up to %.3g limited to %.6g, which %s holds\n",
                       tensor, was.n, was.n == 1 ? "" : "s", (double)largest, (double)limit_of(*to), d->name);
        return LM_OK;
    }
    if (rule->own) {
        *to = largest <= BF16_MAX ? LM_BF16 : LM_F32;
        lm_text_printf(rule->notes, "%s: %" PRIu64 " value%s of up to %.3g do%s not fit %s%s: stored as %s\n",
                       tensor, was.n, was.n == 1 ? "" : "s", (double)largest, was.n == 1 ? "es" : "", d->name,
                       limit_named(d), lm_dtype_of(*to)->name);
        return LM_OK;
    }
    lm_fail(e, LM_UNSUPPORTED, tensor, LM_NO_OFFSET, "%" PRIu64 " value%s of up to %.3g do%s not fit %s%s",
            was.n, was.n == 1 ? "" : "s", (double)largest, was.n == 1 ? "es" : "", d->name,
            limit_named(d));
    return lm_fail_hint(e, "use bf16 or f32 for it, or `clamp` to limit such values");
}
