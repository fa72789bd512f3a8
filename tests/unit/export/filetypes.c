/* The type of every tensor in every kind of file is the one that llama.cpp's quantiser chooses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "export/filetype.h"
#include "formats/container.h"
#include "lamina/synth.h"

static int by_name(const void *a, const void *b)
{
    const lm_tensor_info *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

/* "3*f32 q6_k", in the order of the tensors' names. */
static void runs(const lm_container *c, lm_buf *out)
{
    size_t                 n    = lm_container_n_tensors(c), run = 0;
    const lm_tensor_info **list = calloc(n, sizeof *list);

    assert_non_null(list);
    for (size_t i = 0; i < n; i++)
        list[i] = lm_container_tensor(c, i);
    qsort(list, n, sizeof *list, by_name);
    for (size_t i = 0; i < n; i++) {
        run++;
        if (i + 1 < n && list[i + 1]->type == list[i]->type)
            continue;
        lm_buf_add_str(out, out->size ? " " : "");
        if (run > 1)
            lm_buf_printf(out, "%zu*", run);
        lm_buf_add_str(out, lm_dtype_of(list[i]->type)->name);
        run = 0;
    }
    free(list);
}

static void check(const char *model, const char *type, const char *want)
{
    char          config[512], path[] = "/tmp/lamina-types-XXXXXX.gguf";
    lm_container *c   = NULL;
    lm_buf        got = { 0 };
    lm_error      e;
    int           fd = mkstemps(path, 5);

    assert_true(fd >= 0);
    close(fd);
    snprintf(config, sizeof config, "%s/golden/filetypes/%s.json", getenv("LAMINA_TESTS"), model);
    if (lm_synth(config, path, &(lm_synth_options){ .type = type, .threads = 1, .overwrite = true }, NULL, &e) != LM_OK)
        fail_msg("%s %s: %s", model, type, e.message);
    assert_int_equal(lm_container_open(path, NULL, &c, &e), LM_OK);
    runs(c, &got);
    if (strcmp(got.data, want) != 0)
        fail_msg("%s as %s\nllama.cpp %s\nhere      %s", model, type, want, got.data);
    lm_buf_free(&got);
    lm_container_close(c);
    unlink(path);
}

static void as_llama_cpp_chooses(void **state)
{
    char   path[512], *line = NULL, *rest;
    size_t size = 0;
    int    rows = 0;
    FILE  *f;

    (void)state;
    snprintf(path, sizeof path, "%s/golden/filetypes/types.tsv", getenv("LAMINA_TESTS"));
    f = fopen(path, "r");
    assert_non_null(f);
    for (; getline(&line, &size, f) > 0; rows++) {
        line[strcspn(line, "\n")] = '\0';
        rest                      = line;
        char *model = strsep(&rest, "\t"), *type = strsep(&rest, "\t");
        assert_non_null(rest);
        check(model, type, rest);
    }
    free(line);
    fclose(f);
    assert_true(rows >= 136);
}

static void names_of_types(void **state)
{
    const lm_file_type *t;
    lm_error            e;

    (void)state;
    assert_int_equal(lm_file_type_named("Q4_K", &t, &e), LM_OK);
    assert_string_equal(t->name, "q4_k_m");
    assert_int_equal(lm_file_type_named("MXFP4", &t, &e), LM_OK);
    assert_string_equal(t->name, "mxfp4_moe");
    assert_int_equal(lm_file_type_named("iq2_xs", &t, &e), LM_USAGE);        /* nothing here packs it */
    assert_int_equal(lm_file_type_named("", &t, &e), LM_USAGE);
    for (size_t i = 0; lm_file_type_at(i); i++)
        assert_non_null(lm_dtype_of(lm_file_type_at(i)->base)->pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(names_of_types), cmocka_unit_test(as_llama_cpp_chooses) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
