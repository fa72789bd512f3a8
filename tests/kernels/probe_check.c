/* probe_check.c - the probes do the work that is counted: every byte is read, every round is computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "kernels/probe.h"

/* Get the probes of a level. Returns false if this processor lacks it. */
static bool probes_of(const char *level, lm_probes *out)
{
    lm_cpu mask;

    if (lm_cpu_level(level, &mask, NULL) != LM_OK ||
        strcmp(lm_cpu_name(mask & lm_cpu_detected()), level) != 0)
        return false;
    lm_probes_init(out, mask & lm_cpu_detected());
    return true;
}

/* Flipping one bit of any byte in the range changes the result; bytes outside it do not. */
static void every_byte_is_read(void **state)
{
    enum { N = 1024, STRIDE = 4096 };
    lm_probes p;
    uint8_t  *data = lm_alloc_aligned(4 * STRIDE, 64);

    (void)state;
    for (size_t i = 0; i < 4 * STRIDE; i++)
        data[i] = (uint8_t)(i * 37 >> 3);
    for (size_t l = 0; lm_cpu_level_name(l); l++) {
        if (!probes_of(lm_cpu_level_name(l), &p))
            continue;
        uint64_t before = p.read(data, STRIDE, N);
        for (size_t i = 0; i < 4 * STRIDE; i++) {
            data[i] ^= 1;
            assert_int_equal(p.read(data, STRIDE, N) != before, i % STRIDE < N);
            data[i] ^= 1;
        }
        assert_true(p.read(data, STRIDE, N) == before);
    }
    lm_free_aligned(data, 4 * STRIDE);
}

/* Rounds continue where the previous ones stopped, and each changes the result: none is skipped or merged
 * with another. */
static void every_round_is_computed(const lm_probe_loop *loop, enum lm_probe_kind kind)
{
    unsigned char *a = lm_alloc_aligned(LM_PROBE_BYTES, 64), *b = lm_alloc_aligned(LM_PROBE_BYTES, 64);
    unsigned char *before = lm_alloc_aligned(LM_PROBE_BYTES, 64);

    if (loop->run) {
        assert_non_null(loop->instruction);
        assert_true(loop->operations >= 2);
        lm_probe_fill(a, kind, 1);
        lm_probe_fill(b, kind, 1);
        for (uint64_t n = 1; n <= 4; n++) {
            memcpy(before, a, LM_PROBE_BYTES);
            loop->run(a, 1);
            assert_memory_not_equal(a, before, LM_PROBE_BYTES);
        }
        loop->run(b, 4);
        assert_memory_equal(a, b, LM_PROBE_BYTES);
    }
    lm_free_aligned(a, LM_PROBE_BYTES);
    lm_free_aligned(b, LM_PROBE_BYTES);
    lm_free_aligned(before, LM_PROBE_BYTES);
}

static void loops(void **state)
{
    lm_probes p;

    (void)state;
    for (size_t l = 0; lm_cpu_level_name(l); l++) {
        if (!probes_of(lm_cpu_level_name(l), &p))
            continue;
        every_round_is_computed(&p.int8, LM_PROBE_INT8);
        every_round_is_computed(&p.bf16, LM_PROBE_BF16);
        every_round_is_computed(&p.f32, LM_PROBE_F32);
    }
}

/* vpdpbusd counts as 4 products and 4 additions per lane, and the sums are those of that many products. */
static void counted_operations_are_done(void **state)
{
    enum { ROUNDS = 3, LANES = 16 };
    lm_probes p;

    (void)state;
    if (!probes_of("avx512vnni", &p))
        return;
    int32_t *data = lm_alloc_aligned(LM_PROBE_BYTES, 64), *model = lm_alloc_aligned(LM_PROBE_BYTES, 64);
    size_t   chains = p.int8.operations / (8 * LANES);
    lm_probe_fill(data, LM_PROBE_INT8, 2);
    memcpy(model, data, LM_PROBE_BYTES);
    for (size_t i = 0; i < chains * LANES; i++) {
        const uint8_t *x = (const uint8_t *)(model + (chains * LANES) + i % LANES);
        const int8_t  *w = (const int8_t *)(model + (chains + 1) * LANES + i % LANES);
        uint32_t       v = (uint32_t)model[i];
        for (int k = 0; k < 4; k++)
            v += ROUNDS * (uint32_t)(x[k] * w[k]);
        model[i] = (int32_t)v;
    }
    p.int8.run(data, ROUNDS);
    assert_memory_equal(data, model, LM_PROBE_BYTES);
    lm_free_aligned(data, LM_PROBE_BYTES);
    lm_free_aligned(model, LM_PROBE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_is_read),
        cmocka_unit_test(loops),
        cmocka_unit_test(counted_operations_are_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
