/* overflow.c - values beyond what F16, or the F16 scale of a block, can hold are counted in every type, and
 * limited on request. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "export/tensors/overflow.h"

enum { N = 256 };

/* A wave of this height, whose first value is the highest. */
static void fill(float *x, float height)
{
    for (int i = 0; i < N; i++)
        x[i] = height * cosf(0.7f * (float)i);
}

static uint64_t packed(lm_dtype t, float height, bool clamp, float *read)
{
    lm_overflows m = { 0 };
    float      x[N];
    uint8_t    out[8 * N];

    fill(x, height);
    lm_pack_checked(lm_dtype_of(t)->quantized ? lm_quantize_row : NULL, t, out, x, N, NULL, clamp, &m);
    lm_dtype_of(t)->unpack(read, out, N);
    return m.n;
}

static void values_beyond_a_type_are_counted(void **state)
{
    float y[N];

    (void)state;
    for (uint32_t i = 0; i < 64; i++) {
        const lm_dtype_info *d = lm_dtype_find(i);
        if (!d || !d->unpack || !lm_can_quantize((lm_dtype)i))
            continue;
        bool holds = i == LM_F32 || i == LM_F64 || i == LM_BF16 || i == LM_MXFP4;
        assert_int_equal(packed((lm_dtype)i, 1, false, y), 0);
        assert_int_equal(packed((lm_dtype)i, 65504, false, y), 0);
        if (packed((lm_dtype)i, 1e12f, false, y) != 0 && holds)
            fail_msg("%s", d->name);
        if (packed((lm_dtype)i, 1e12f, false, y) == 0 && !holds)
            fail_msg("%s", d->name);
        packed((lm_dtype)i, 1e12f, true, y);
        for (int k = 0; k < N; k++)
            assert_true(isfinite(y[k]));
    }
}

static void the_number_and_the_largest_are_in_the_error(void **state)
{
    lm_overflows m = { 0 };
    lm_error   e = { 0 };
    lm_text    notes = { 0 };
    lm_dtype   to = LM_F16;
    float      x[4] = { 1, -70000, 65519, 65520 };
    uint8_t    out[8];
    lm_overflow_rule named = { .notes = &notes }, clamped = { .clamp = true, .notes = &notes };

    (void)state;
    lm_pack_checked(NULL, LM_F16, out, x, 4, NULL, false, &m);
    assert_int_equal(lm_overflows_end(&m, "w", &to, &named, &e), LM_UNSUPPORTED);
    assert_non_null(strstr(e.message, "2 values of up to 7e+04 do not fit f16"));
    assert_int_equal(notes.size, 0);
    lm_pack_checked(NULL, LM_F16, out, x, 4, NULL, true, &m);
    assert_int_equal(lm_overflows_end(&m, "w", &to, &clamped, &e), LM_OK);
    assert_non_null(strstr(notes.data, "w: 2 values of up to 7e+04 limited to 65504"));
    assert_true(x[1] == -65504 && x[3] == 65504);
    assert_int_equal(lm_overflows_end(&m, "w", &to, &named, &e), LM_OK);
    assert_int_equal(to, LM_F16);
    lm_text_free(&notes);
}

/* A type that nobody named becomes BF16, or F32 if that does not hold the value either. */
static void another_type_holds_them(void **state)
{
    static const struct { float value; lm_dtype type; } cases[] = {
        { 60000, LM_F16 }, { 3e5f, LM_BF16 }, { 3.38e38f, LM_BF16 }, { 3.4e38f, LM_F32 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lm_overflows     m    = { 0 };
        lm_text          notes = { 0 };
        lm_overflow_rule own  = { .own = true, .notes = &notes };
        lm_dtype         to   = LM_F16;
        float            x    = cases[i].value;
        uint8_t          out[2];
        lm_pack_checked(NULL, LM_F16, out, &x, 1, NULL, false, &m);
        assert_int_equal(lm_overflows_end(&m, "w", &to, &own, NULL), LM_OK);
        assert_int_equal(to, cases[i].type);
        assert_true((notes.size > 0) == (to != LM_F16));
        lm_text_free(&notes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_beyond_a_type_are_counted),
        cmocka_unit_test(the_number_and_the_largest_are_in_the_error),
        cmocka_unit_test(another_type_holds_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
