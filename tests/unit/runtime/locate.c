/* Model names and the files they refer to: paths first, then the cache; an ambiguous name is never resolved
 * by guessing. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "lamina/model.h"

static char root[] = "/tmp/lamina-locate-XXXXXX";

static void put(const char *name)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof path, "%s/models/%s", root, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

static void expect(const char *name, const char *file)
{
    char path[512];
    lm_text out = { 0 };
    lm_error e;

    snprintf(path, sizeof path, "%s/models/%s", root, file);
    if (lm_model_locate(name, &out, &e) != LM_OK)
        fail_msg("%s: %s %s", name ? name : "(none)", e.where, e.message);
    assert_string_equal(out.data, path);
    lm_text_free(&out);
}

static void names_of_the_cache(void **state)
{
    (void)state;
    expect("tiny.Q4_0.gguf", "tiny.Q4_0.gguf");
    expect("tiny.q4_0", "tiny.Q4_0.gguf");
    expect("TINY", "tiny.Q4_0.gguf");
    expect("big", "big-00001-of-00003.gguf");
    expect("exact", "exact.gguf");                       /* although exact-Q8_0.gguf exists */
    expect("exact-q8_0", "exact-Q8_0.gguf");
    expect(NULL, "SmolLM2-135M-Instruct.Q4_1.gguf");
}

static void missing_and_ambiguous_models(void **state)
{
    lm_text out = { 0 };
    lm_error e;

    (void)state;
    assert_int_equal(lm_model_locate("twice", &out, &e), LM_USAGE);
    assert_non_null(strstr(e.message, "twice-Q4_0.gguf"));
    assert_non_null(strstr(e.message, "twice-Q8_0.gguf"));
    assert_int_equal(lm_model_locate("tin", &out, &e), LM_NOT_FOUND);
    assert_string_equal(e.where, "tin");
    assert_int_equal(lm_model_locate("./tiny.gguf", &out, &e), LM_NOT_FOUND);
    assert_int_equal(lm_model_locate("org/name", &out, &e), LM_NOT_FOUND);
    assert_int_equal(lm_model_locate("", &out, &e), LM_USAGE);
    assert_null(out.data);
}

static void paths_come_first(void **state)
{
    lm_text out = { 0 };

    (void)state;
    assert_int_equal(lm_model_locate(root, &out, NULL), LM_OK);
    assert_string_equal(out.data, root);
    lm_text_free(&out);
}

static int make_cache(void **state)
{
    static const char *const files[] = { "tiny.Q4_0.gguf",          "big-00001-of-00003.gguf",
                                         "big-00002-of-00003.gguf", "exact.gguf",
                                         "exact-Q8_0.gguf",         "twice-Q4_0.gguf",
                                         "twice-Q8_0.gguf",         "SmolLM2-135M-Instruct.Q4_1.gguf" };
    char models[512];

    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(models, sizeof models, "%s/models", root);
    assert_int_equal(mkdir(models, 0700), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        put(files[i]);
    setenv("LAMINA_CACHE", root, 1);
    setenv("HF_HUB_CACHE", root, 1);
    return 0;
}

static int remove_cache(void **state)
{
    char command[600];

    (void)state;
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_the_cache),
        cmocka_unit_test(missing_and_ambiguous_models),
        cmocka_unit_test(paths_come_first),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
