/* halves.c - the two 16-bit floats, for every bit pattern. */
#include "golden.h"

#include <math.h>

#include "tensor/dtype.h"

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Return the value of a half by its definition, in double. */
static double f16_value(uint16_t h)
{
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double sign = h >> 15 ? -1 : 1;

    if (exponent == 31)
        return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24));
}

static void f16_reads_every_pattern(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = lm_f16_to_f32((uint16_t)h);
        double want = f16_value((uint16_t)h);
        if (isnan(want))
            assert_true(isnan(f) && !!signbit(f) == (h >> 15));
        else
            assert_true((double)f == want && !!signbit(f) == (h >> 15));
    }
}

/* f16 -> f32 -> f16 is the identity (a signalling NaN comes back quiet). */
static void f16_round_trips(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        bool nan = (h & 0x7fff) > 0x7c00;
        assert_int_equal(lm_f32_to_f16(lm_f16_to_f32((uint16_t)h)), nan ? h | 0x200 : h);
    }
}

/* Between all adjacent f16 values the exact midpoint rounds to the even neighbour, any other value to the
 * nearer one. */
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint16_t h = 0; h < 0x7bff; h++) {
        float low = lm_f16_to_f32(h), high = lm_f16_to_f32((uint16_t)(h + 1));
        float middle = (low + high) * 0.5f;          /* exact: one bit more */
        assert_int_equal(lm_f32_to_f16(middle), h & 1 ? h + 1 : h);
        assert_int_equal(lm_f32_to_f16(nextafterf(middle, 0)), h);
        assert_int_equal(lm_f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(lm_f32_to_f16(-middle), (h & 1 ? h + 1 : h) | 0x8000);
    }
    assert_int_equal(lm_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(lm_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(lm_f32_to_f16(3e38f), 0x7c00);
    assert_int_equal(lm_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(lm_f32_to_f16(float_of(0x7f800001)), 0x7e00);
    assert_int_equal(lm_f32_to_f16(1e-45f), 0);
}

static void bf16_round_trips(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        bool nan = (h & 0x7fff) > 0x7f80;
        assert_int_equal(bits_of(lm_bf16_to_f32((uint16_t)h)), h << 16);
        assert_int_equal(lm_f32_to_bf16(lm_bf16_to_f32((uint16_t)h)), nan ? h | 0x40 : h);
        if (nan || (h & 0x7fff) == 0x7f80)
            continue;
        assert_int_equal(lm_f32_to_bf16(float_of(h << 16 | 0x7fff)), h);
        assert_int_equal(lm_f32_to_bf16(float_of(h << 16 | 0x8000)), h + (h & 1));
        assert_int_equal(lm_f32_to_bf16(float_of(h << 16 | 0x8001)), h + 1);
    }
    assert_int_equal(lm_f32_to_bf16(float_of(0x7f800001)), 0x7fc0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_reads_every_pattern),
        cmocka_unit_test(f16_round_trips),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_round_trips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
