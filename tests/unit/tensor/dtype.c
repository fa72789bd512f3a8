/* dtype.c - the table, its sizes compared with the formats' list, and the errors for types that cannot be
 * read. */
#include "golden.h"

#include "tensor/dtype.h"

/* id, elements, bytes: as the GGUF specification lists them. */
static const uint32_t sizes[][3] = {
    { 0, 1, 4 },      { 1, 1, 2 },      { 2, 32, 18 },    { 3, 32, 20 },    { 6, 32, 22 },    { 7, 32, 24 },
    { 8, 32, 34 },    { 9, 32, 36 },    { 10, 256, 84 },  { 11, 256, 110 }, { 12, 256, 144 }, { 13, 256, 176 },
    { 14, 256, 210 }, { 15, 256, 292 }, { 16, 256, 66 },  { 17, 256, 74 },  { 18, 256, 98 },  { 19, 256, 50 },
    { 20, 32, 18 },   { 21, 256, 110 }, { 22, 256, 82 },  { 23, 256, 136 }, { 24, 1, 1 },     { 25, 1, 2 },
    { 26, 1, 4 },     { 27, 1, 8 },     { 28, 1, 8 },     { 29, 256, 56 },  { 30, 1, 2 },     { 34, 256, 54 },
    { 35, 256, 66 },  { 39, 32, 17 },   { 40, 64, 36 },   { 41, 128, 18 },  { 42, 64, 18 },
};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static void every_gguf_type_has_its_size(void **state)
{
    (void)state;
    uint32_t found = 0;

    for (int i = 0; i < N_SIZES; i++) {
        const lm_dtype_info *t = lm_dtype_find(sizes[i][0]);
        assert_non_null(t);
        assert_int_equal(t->type, sizes[i][0]);
        assert_int_equal(t->block, sizes[i][1]);
        assert_int_equal(t->bytes, sizes[i][2]);
        assert_non_null(t->unpack);
        assert_ptr_equal(lm_dtype_named(t->name), t);
        assert_ptr_equal(lm_dtype_of(t->type), t);
    }
    for (uint32_t id = 0; id < 200; id++)
        found += lm_dtype_find(id) != NULL;
    assert_int_equal(found, N_SIZES);
    assert_null(lm_dtype_find(UINT32_MAX));
    assert_string_equal(lm_dtype_named("Q4_K")->name, "q4_k");
    assert_null(lm_dtype_named("q4_k_m"));
    assert_null(lm_dtype_named(""));
}

static void row_bytes_are_checked(void **state)
{
    (void)state;
    uint64_t bytes = 7;

    assert_true(lm_dtype_row_bytes(LM_Q4_K, 4096, &bytes));
    assert_int_equal(bytes, 16 * 144);
    assert_true(lm_dtype_row_bytes(LM_F32, 0, &bytes));
    assert_int_equal(bytes, 0);
    bytes = 7;
    assert_false(lm_dtype_row_bytes(LM_Q4_K, 4095, &bytes));               /* not whole blocks */
    assert_false(lm_dtype_row_bytes(LM_F32, UINT64_MAX / 4 + 1, &bytes));  /* more than 2^64 */
    assert_false(lm_dtype_row_bytes(LM_F64, UINT64_C(1) << 61, &bytes));
    assert_false(lm_dtype_row_bytes((lm_dtype)5, 32, &bytes));             /* not a type */
    assert_int_equal(bytes, 7);
    assert_true(lm_dtype_row_bytes(LM_Q8_0, UINT64_MAX & ~UINT64_C(31), &bytes) == false);
    /* smaller than its elements */
    assert_true(lm_dtype_row_bytes(LM_Q4_0, UINT64_MAX & ~UINT64_C(31), &bytes));
}

static void refused(uint32_t id, const char *part, const char *hint)
{
    lm_error e = { 0 };
    lm_dtype type = LM_I64;

    assert_int_equal(lm_dtype_from_gguf(id, "blk.0.attn_q.weight", &type, &e), LM_UNSUPPORTED);
    assert_int_equal(type, LM_I64);
    assert_string_equal(e.where, "blk.0.attn_q.weight");
    if (!strstr(e.message, part) || !strstr(e.hint, hint))
        fail_msg("type %u: message \"%s\", hint \"%s\"", id, e.message, e.hint);
}

static void unreadable_types_are_named(void **state)
{
    (void)state;
    refused(4, "4 (Q4_2) was removed", "convert");
    refused(31, "31 (Q4_0_4_4) was removed", "convert");
    refused(36, "I2_S of ik_llama.cpp", "convert");
    refused(38, "IQ4_NL_8_8", "convert");
    refused(9, "9 (q8_1) is a format of activations", "convert");
    refused(15, "15 (q8_k)", "convert");
    refused(133, "133 (Q6_0) exists only in ik_llama.cpp", "mainline");
    refused(144, "IQ4_KS", "mainline");
    refused(202, "202 (a layout of its own) exists only in ik_llama.cpp", "mainline");
    refused(200, "unknown tensor type 200", "");
    refused(201, "unknown tensor type 201", "");
    refused(43, "unknown tensor type 43", "");
    refused(UINT32_MAX, "unknown tensor type 4294967295", "");

    for (int i = 0; i < N_SIZES; i++) {
        lm_dtype type;
        bool activation = sizes[i][0] == 9 || sizes[i][0] == 15;
        assert_int_equal(lm_dtype_from_gguf(sizes[i][0], "x", &type, NULL),
                         activation ? LM_UNSUPPORTED : LM_OK);
        if (!activation)
            assert_int_equal(type, sizes[i][0]);
    }
}

static void safetensors_names(void **state)
{
    (void)state;
    static const char *const known[] = { "F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8",
                                         "U64", "U32", "U16", "U8",   "BOOL" };
    lm_error e = { 0 };
    lm_dtype type;

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(lm_dtype_from_safetensors(known[i], "w", &type, &e), LM_OK);
        assert_ptr_equal(lm_dtype_of(type), lm_dtype_named(known[i]));
    }
    assert_int_equal(lm_dtype_from_safetensors("F8_E4M3", "w", &type, &e), LM_UNSUPPORTED);
    assert_non_null(strstr(e.message, "F8_E4M3"));
    assert_int_equal(lm_dtype_from_safetensors("bf16", "w", &type, &e), LM_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gguf_type_has_its_size),
        cmocka_unit_test(row_bytes_are_checked),
        cmocka_unit_test(unreadable_types_are_named),
        cmocka_unit_test(safetensors_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
