/* hash.c - SHA-256 of FIPS 180-4's examples. */
#include "unit.h"

#include "base/hash.h"

static const char abc[]     = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
static const char empty[]   = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
static const char blocks[]  = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
static const char million[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

static void published_examples(void **state)
{
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

    (void)state;
    assert_string_equal(lm_sha256_bytes("abc", 3).hex, abc);
    assert_string_equal(lm_sha256_bytes(NULL, 0).hex, empty);
    assert_string_equal(lm_sha256_bytes(two, sizeof two - 1).hex, blocks);
    char *a = malloc(1000000);
    assert_non_null(a);
    assert_string_equal(lm_sha256_bytes(memset(a, 'a', 1000000), 1000000).hex, million);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(published_examples) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
