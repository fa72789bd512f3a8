/* hub_cache.c - finding models in a Hugging Face cache, and never outside it. */
#include "describe.h"

#include <sys/stat.h>

#include "base/alloc.h"
#include "formats/hub.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static const char *home;

static void folder(const char *below)
{
    char command[4096];

    snprintf(command, sizeof command, "mkdir -p '%s/%s'", home, below);
    assert_int_equal(system(command), 0);
}

static void file(const char *below, const char *content)
{
    write_text(in_folder(home, below), content);
}

static int make_cache(void **state)
{
    (void)state;
    home = fresh_folder();
    setenv("HF_HUB_CACHE", home, 1);
    folder("models--org--hf/refs");
    folder("models--org--hf/blobs");
    folder("models--org--hf/snapshots/" COMMIT);
    file("models--org--hf/refs/main", " " COMMIT "\n");
    file("models--org--hf/refs/v1", COMMIT);
    file("models--org--hf/refs/broken", "../../../etc");
    file("models--org--hf/refs/gone", "ffffffffffffffffffffffffffffffffffffffff");
    file("models--org--hf/blobs/1", "{}");
    assert_int_equal(symlink("../../blobs/1",
                             in_folder(home, "models--org--hf/snapshots/" COMMIT "/config.json")),
                     0);
    assert_int_equal(symlink("../../blobs/2",
                             in_folder(home, "models--org--hf/snapshots/" COMMIT "/model.safetensors")),
                     0);

    folder("models--org--GGUF/refs");
    folder("models--org--GGUF/snapshots/" COMMIT "/Q6_K");
    file("models--org--GGUF/refs/main", COMMIT);
    file("models--org--GGUF/snapshots/" COMMIT "/m-Q4_K_M.gguf", "");
    file("models--org--GGUF/snapshots/" COMMIT "/m-Q4_K_S.gguf", "");
    file("models--org--GGUF/snapshots/" COMMIT "/mmproj-Q8_0.gguf", "");
    file("models--org--GGUF/snapshots/" COMMIT "/Q6_K/m-Q6_K-00001-of-00002.gguf", "");
    file("models--org--GGUF/snapshots/" COMMIT "/Q6_K/m-Q6_K-00002-of-00002.gguf", "");
    assert_int_equal(symlink("../../blobs/3",
                             in_folder(home, "models--org--GGUF/snapshots/" COMMIT "/m-BF16.gguf")),
                     0);

    folder("models--one/refs");
    folder("models--one/snapshots/" COMMIT);
    file("models--one/refs/main", COMMIT);
    file("models--one/snapshots/" COMMIT "/x.Q8_0.gguf", "");
    folder("models--org--empty/refs");
    folder("models--org--empty/snapshots/" COMMIT);
    file("models--org--empty/refs/main", COMMIT);
    return 0;
}

static int remove_cache(void **state)
{
    (void)state;
    remove_folder(home);
    return 0;
}

static void assert_resolves(const char *id, const char *revision, const char *want)
{
    char *path;

    assert_ok(lm_hub_resolve(id, revision, &path, e));
    assert_string_equal(path, in_folder(home, want));
    lm_free(path);
}

static void repositories_resolve_to_their_snapshot(void **state)
{
    (void)state;
    assert_resolves("org/hf", NULL, "models--org--hf/snapshots/" COMMIT);
    assert_resolves("org/hf", "v1", "models--org--hf/snapshots/" COMMIT);
    assert_resolves("org/hf", COMMIT, "models--org--hf/snapshots/" COMMIT);
}

static void gguf_files_are_picked_by_type(void **state)
{
    (void)state;
    assert_resolves("org/GGUF", NULL, "models--org--GGUF/snapshots/" COMMIT "/m-Q4_K_M.gguf");
    assert_resolves("org/GGUF:q4_k_s", NULL, "models--org--GGUF/snapshots/" COMMIT "/m-Q4_K_S.gguf");
    assert_resolves("org/GGUF:Q6_K", NULL,
                    "models--org--GGUF/snapshots/" COMMIT "/Q6_K/m-Q6_K-00001-of-00002.gguf");
    assert_resolves("one", NULL, "models--one/snapshots/" COMMIT "/x.Q8_0.gguf");
    assert_resolves("one:Q8_0", NULL, "models--one/snapshots/" COMMIT "/x.Q8_0.gguf");
}

static void missing_repositories_are_reported(void **state)
{
    char *path;

    (void)state;
    assert_fails(LM_NOT_FOUND, "org/none: ", lm_hub_resolve("org/none", NULL, &path, e));
    assert_fails(LM_NOT_FOUND, "not in the cache", lm_hub_resolve("org/hf", "nobranch", &path, e));
    assert_fails(LM_NOT_FOUND, "not in the cache", lm_hub_resolve("org/hf", "gone", &path, e));
    assert_fails(LM_NOT_FOUND, "neither safetensors nor GGUF", lm_hub_resolve("org/empty", NULL, &path, e));
    assert_fails(LM_NOT_FOUND, "no GGUF files, so no type to choose",
                 lm_hub_resolve("org/hf:Q8_0", NULL, &path, e));
    assert_fails(LM_NOT_FOUND, "has this type", lm_hub_resolve("org/GGUF:Q4_K", NULL, &path, e));
    /* a projector */
    assert_fails(LM_NOT_FOUND, "has this type", lm_hub_resolve("org/GGUF:Q8_0", NULL, &path, e));
    assert_fails(LM_BAD_MODEL, "the download is incomplete", lm_hub_resolve("org/GGUF:BF16", NULL, &path, e));
    assert_fails(LM_BAD_MODEL, "refs/broken: not a commit", lm_hub_resolve("org/hf", "broken", &path, e));
}

static lm_status resolve_both(lm_error *e)
{
    char *path;

    LM_TRY(lm_hub_resolve("org/hf", NULL, &path, e));
    lm_free(path);
    LM_TRY(lm_hub_resolve("org/GGUF:Q6_K", NULL, &path, e));
    lm_free(path);
    LM_TRY(lm_hub_cache(&path, e));
    lm_free(path);
    return LM_OK;
}

static void resolving_survives_no_memory(void **state)
{
    (void)state;
    assert_survives_no_memory(resolve_both);
}

static void names_cannot_leave_the_cache(void **state)
{
    static const char *const ids[] = { "",       "/",        "a/",      "/a",     "a/b/c",   "..",   "../x",
                                       "org/..", "org/../x", ".hidden", "org/.x", "-x",      "a--b", "a b",
                                       "a\\b",   "a:b:c",    "a:",      "a:../x", "org/x\n", "~" };
    static const char *const revisions[] = { "", "..", "../main", "refs/main", "/", "a b", ".x" };
    char                     longest[300], *path;

    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        assert_fails(LM_USAGE, "not a model id", lm_hub_resolve(ids[i], NULL, &path, e));
    for (size_t i = 0; i < sizeof revisions / sizeof *revisions; i++)
        assert_fails(LM_USAGE, "not the name of a revision",
                     lm_hub_resolve("org/hf", revisions[i], &path, e));
    memset(longest, 'a', sizeof longest);
    longest[299] = 0;
    assert_fails(LM_USAGE, "not a model id", lm_hub_resolve(longest, NULL, &path, e));
}

static void the_cache_is_where_the_variables_say(void **state)
{
    char *path;

    (void)state;
    assert_ok(lm_hub_cache(&path, e));
    assert_string_equal(path, home);
    lm_free(path);
    unsetenv("HF_HUB_CACHE");
    setenv("HOME", "/h", 1);
    unsetenv("HF_HOME");
    unsetenv("XDG_CACHE_HOME");
    assert_ok(lm_hub_cache(&path, e));
    assert_string_equal(path, "/h/.cache/huggingface/hub");
    lm_free(path);
    setenv("XDG_CACHE_HOME", "/x", 1);
    assert_ok(lm_hub_cache(&path, e));
    assert_string_equal(path, "/x/huggingface/hub");
    lm_free(path);
    setenv("HF_HOME", "/y", 1);
    assert_ok(lm_hub_cache(&path, e));
    assert_string_equal(path, "/y/hub");
    lm_free(path);
    setenv("HF_HUB_CACHE", home, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repositories_resolve_to_their_snapshot),
        cmocka_unit_test(gguf_files_are_picked_by_type),
        cmocka_unit_test(missing_repositories_are_reported),
        cmocka_unit_test(resolving_survives_no_memory),
        cmocka_unit_test(names_cannot_leave_the_cache),
        cmocka_unit_test(the_cache_is_where_the_variables_say),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
