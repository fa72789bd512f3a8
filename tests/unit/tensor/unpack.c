/* unpack.c - every block of tests/golden/tensor/unpack.txt gives the reference's floats, bit for bit. */
#include "golden.h"

#include "tensor/dtype.h"

static size_t from_hex(const char *hex, uint8_t *out)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++)
        sscanf(hex + 2 * i, "%2hhx", &out[i]);
    return n;
}

/* Blocks unpack exactly at an odd address and twice in a row: neither alignment nor the position in a row
 * matters. */
static void blocks_unpack_to_the_bit(void **state)
{
    (void)state;
    FILE *f = golden_open("unpack.txt");
    char line[2048], name[16], hex[1024];
    unsigned long long want;
    bool seen[256] = { false };
    int lines = 0, types = 0;

    while (fgets(line, sizeof line, f)) {
        uint8_t bytes[2 * 512 + 1];
        float y[2 * 256];
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%15s %1023s %llx", name, hex, &want), 3);
        const lm_dtype_info *t = lm_dtype_named(name);
        if (!t || !t->unpack)
            fail_msg("no reader for %s", name);

        assert_int_equal(from_hex(hex, bytes + 1), t->bytes);
        memcpy(bytes + 1 + t->bytes, bytes + 1, t->bytes);
        t->unpack(y, bytes + 1, 2 * (size_t)t->block);
        for (int half = 0; half < 2; half++)
            if (fnv1a_floats(y + half * (int)t->block, t->block) != want)
                fail_msg("%s block %s (copy %d): values differ, first %g %g %g", name, hex, half,
                         (double)y[0], (double)y[1], (double)y[2]);
        types += !seen[t->type];
        seen[t->type] = true;
        lines++;
    }
    fclose(f);
    assert_int_equal(types, 29);
    assert_in_range(lines, 400, 100000);
    print_message("%d blocks of %d types equal\n", lines, types);
}

/* Integers and doubles unpack to the stored values. */
static void numbers_unpack(void **state)
{
    (void)state;
    float y[3];

    lm_dtype_of(LM_I8)->unpack(y, (int8_t[]){ -128, 0, 127 }, 3);
    assert_true(y[0] == -128 && y[1] == 0 && y[2] == 127);
    lm_dtype_of(LM_I16)->unpack(y, (int16_t[]){ -32768, 1, 32767 }, 3);
    assert_true(y[0] == -32768 && y[1] == 1 && y[2] == 32767);
    lm_dtype_of(LM_I32)->unpack(y, (int32_t[]){ INT32_MIN, -7, 16777216 }, 3);
    assert_true(y[0] == -0x1p31f && y[1] == -7 && y[2] == 16777216);
    lm_dtype_of(LM_I64)->unpack(y, (int64_t[]){ INT64_MIN, 5, 1 }, 3);
    assert_true(y[0] == -0x1p63f && y[1] == 5 && y[2] == 1);
    lm_dtype_of(LM_U64)->unpack(y, (uint64_t[]){ UINT64_MAX, 5, 1 }, 3);
    assert_true(y[0] == 0x1p64f && y[1] == 5 && y[2] == 1);
    lm_dtype_of(LM_BOOL)->unpack(y, (uint8_t[]){ 0, 1, 255 }, 3);
    assert_true(y[0] == 0 && y[1] == 1 && y[2] == 1);
    lm_dtype_of(LM_F64)->unpack(y, (double[]){ 0.1, -1e300, 1e-300 }, 3);
    assert_true(y[0] == 0.1f && y[1] == -__builtin_inff() && y[2] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_unpack_to_the_bit),
        cmocka_unit_test(numbers_unpack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
