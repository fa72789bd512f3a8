/* hash.c - SHA-256 of FIPS 180-4's examples, of bytes and of files. */
#include "unit.h"

#include <sys/stat.h>

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
}

static void files(void **state)
{
    char        path[256];
    const char *folder = make_folder();
    char       *a      = malloc(1000000);
    lm_sha256   out    = { "unchanged" };
    lm_error    e;

    (void)state;
    assert_non_null(a);
    memset(a, 'a', 1000000);
    path_in(path, folder, "a");
    write_file(path, a, 1000000);
    assert_int_equal(lm_sha256_file(folder, &out, &e), LM_IO);
    assert_string_equal(out.hex, "unchanged");
    assert_int_equal(lm_sha256_file(path, &out, &e), LM_OK);
    assert_string_equal(out.hex, million);
    write_file(path, "", 0);
    assert_int_equal(lm_sha256_file(path, &out, &e), LM_OK);
    assert_string_equal(out.hex, empty);
    unlink(path);
    assert_int_equal(lm_sha256_file(path, &out, &e), LM_IO);
    assert_string_equal(e.file, path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(lm_sha256_file(path, &out, &e), LM_IO);               /* without waiting for a writer */
    unlink(path);
    rmdir(folder);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(published_examples), cmocka_unit_test(files) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
