/* hash.c - SHA-256 on the examples of FIPS 180-4; BLAKE2b-256 as Python's hashlib computes it, whole and in
 * pieces. */
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

static void blake2b_in_pieces(void **state)
{
    static const char of_abc[] = "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319";
    static const char of_none[] = "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8";
    lm_blake2b h;
    char       hex[2 * LM_BLAKE2B_BYTES + 1];

    (void)state;
    lm_blake2b_begin(&h);
    lm_blake2b_hex(&h, hex);
    assert_string_equal(hex, of_none);
    for (size_t cut = 0; cut <= 3; cut++) {
        lm_blake2b_begin(&h);
        lm_blake2b_add(&h, "abc", cut);
        lm_blake2b_add(&h, "abc" + cut, 3 - cut);
        lm_blake2b_hex(&h, hex);
        assert_string_equal(hex, of_abc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(published_examples),
                                        cmocka_unit_test(blake2b_in_pieces) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
