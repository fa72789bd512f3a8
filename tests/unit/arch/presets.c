/* Published models by name: which model a name means, and whether it has as many parameters as others
 * count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "lamina/study/facts.h"
#include "lamina/preset.h"

/* ---- counts ---- */

static lm_status open_preset(const char *name, lm_model **m, lm_error *e)
{
    char path[128];

    snprintf(path, sizeof path, LM_PRESET_PREFIX "%s", name);
    return lm_model_open(path, &(lm_model_options){ .structure_only = true }, m, e);
}

/* Read the next line that is not a comment and split it at its tabs. Returns the number of columns, 0 at the
 * end. */
static int columns(FILE *f, char line[512], char *cell[8])
{
    while (fgets(line, 512, f)) {
        int   n    = 0;
        char *rest = line;
        if (*line == '#')
            continue;
        line[strcspn(line, "\n")] = '\0';
        while (n < 8 && (cell[n] = strsep(&rest, "\t")))
            n++;
        return n;
    }
    return 0;
}

static FILE *open_golden(const char *name)
{
    char  path[512];
    FILE *f;

    snprintf(path, sizeof path, "%s/golden/presets/%s", getenv("LAMINA_TESTS"), name);
    f = fopen(path, "r");
    assert_non_null(f);
    return f;
}

static uint64_t number(const char *s)
{
    return strtoull(s, NULL, 10);
}

static void published_counts(void **state)
{
    FILE *f = open_golden("published.tsv");
    char  line[512], *cell[8];
    int   rows = 0;

    (void)state;
    for (; columns(f, line, cell); rows++) {
        lm_model *m = NULL;
        lm_facts *facts = NULL;
        lm_error  e;
        assert_int_equal(open_preset(cell[0], &m, &e), LM_OK);
        assert_int_equal(lm_facts_new(m, NULL, &facts, &e), LM_OK);
        assert_int_equal(lm_facts_count(facts, "parameters.total"), number(cell[1]));
        assert_int_equal(lm_facts_count(facts, "parameters.untied_total"), number(cell[2]));
        assert_int_equal(lm_facts_count(facts, "parameters.active"), number(cell[3]));
        assert_int_equal(lm_facts_check(facts, &e), LM_OK);
        lm_facts_free(facts);
        lm_model_close(m);
    }
    fclose(f);
    assert_int_equal(rows, 11);
}

/* Every preset of a supported family has the parameters of the model that transformers builds from it. */
static void counts_equal_transformers(void **state)
{
    FILE *f = open_golden("transformers.tsv");
    char  line[512], *cell[8];
    int   rows = 0, equal = 0;
    size_t n = 0;

    (void)state;
    for (; columns(f, line, cell); rows++) {
        lm_model *m = NULL;
        lm_error  e;
        lm_status status = open_preset(cell[0], &m, &e);
        if (status == LM_UNSUPPORTED && strcmp(e.where, "model_type") == 0)
            continue;
        if (status != LM_OK)
            fail_msg("%s: %s: %s", cell[0], e.where, e.message);
        lm_model_info info;
        lm_model_describe(m, &info);
        if (strcmp(cell[1], "-") != 0 && info.parameters != number(cell[1]))
            fail_msg("%s: %llu parameters, transformers counts %s", cell[0],
                     (unsigned long long)info.parameters, cell[1]);
        if (lm_model_warning(m, 0))
            fail_msg("%s: %s", cell[0], lm_model_warning(m, 0));
        lm_model_close(m);
        equal++;
    }
    fclose(f);
    while (lm_preset_at(n))
        n++;
    assert_int_equal(rows, n);               /* tools/oracle/presets.py has counted them all */
    assert_true(equal >= 142);
}

/* ---- names ---- */

static void names_as_people_write_them(void **state)
{
    static const char *const names[][2] = {
        { "llama-3.2-3b", "llama-3.2-3b" },
        { "Llama 3.2 3B", "llama-3.2-3b" },
        { "llama3.2:3b", "llama-3.2-3b" },
        { "meta-llama/Llama-3.2-3B-Instruct", "llama-3.2-3b" },
        { "granite 3b", "granite-3b-code-base" },
        { "Granite 3B", "granite-3b-code-base" },
        { "DeepSeek 2.6875", "deepseek-llm-7b" },
        { "deepseek-v2-236b", "deepseek-v2" },
        { "GPT-2", "gpt2" },
        { "gpt2 124m", "gpt2" },
        { "Mistral 7B", "mistral-7b-v0.1" },
        { "8x22b", "mixtral-8x22b" },
        { "Qwen2.5-3B", "qwen2.5-3b" },
        { "nemo", "mistral-nemo-12b" },
        { "GPT-3", "gpt-3-175b" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const lm_preset *p;
        lm_error         e;
        if (lm_preset_find(names[i][0], &p, &e) != LM_OK)
            fail_msg("%s: %s", names[i][0], e.message);
        assert_string_equal(p->name, names[i][1]);
    }
}

static void unclear_names(void **state)
{
    const lm_preset *p = NULL;
    lm_error         e;

    (void)state;
    assert_int_equal(lm_preset_find("llama 3.2", &p, &e), LM_USAGE);
    assert_non_null(strstr(e.message, "llama-3.2-1b, llama-3.2-3b"));
    assert_int_equal(lm_preset_find("7b", &p, &e), LM_USAGE);
    assert_non_null(strstr(e.message, "others"));
    e.hint[0] = '\0';
    assert_int_equal(lm_preset_find("lama-3.2-1b", &p, &e), LM_NOT_FOUND);
    assert_non_null(strstr(e.hint, "llama-3.2-1b"));
    assert_int_equal(lm_preset_find("", &p, &e), LM_NOT_FOUND);
    assert_int_equal(lm_preset_find("///", &p, &e), LM_NOT_FOUND);
    assert_null(p);
}

/* Each name and alias finds its own preset. */
static void every_name_is_its_own(void **state)
{
    const lm_preset *p, *found;
    lm_error         e;

    (void)state;
    for (size_t i = 0; (p = lm_preset_at(i)); i++) {
        assert_int_equal(lm_preset_find(p->name, &found, &e), LM_OK);
        assert_ptr_equal(found, p);
        assert_int_equal(lm_preset_find(p->title, &found, &e), LM_OK);
        assert_ptr_equal(found, p);
        for (const char *const *a = p->aliases; *a; a++) {
            if (lm_preset_find(*a, &found, &e) != LM_OK || found != p)
                fail_msg("%s of %s", *a, p->name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_counts),           cmocka_unit_test(counts_equal_transformers),
        cmocka_unit_test(names_as_people_write_them), cmocka_unit_test(unclear_names),
        cmocka_unit_test(every_name_is_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
