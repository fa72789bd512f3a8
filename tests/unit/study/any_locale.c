/* any_locale.c - a program whose locale has a decimal comma (0,5) produces the same pages and parses the same
 * numbers. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "base/number.h"
#include "base/str.h"
#include "lamina/study/compare.h"
#include "lamina/describe.h"
#include "lamina/study/device.h"
#include "lamina/study/report.h"
#include "lamina/text.h"
#include "opened.h"

static char folder[] = "/tmp/lamina-locale-XXXXXX";

/* The LC_NUMERIC file that localedef would write for a decimal comma (glibc's locale/localeinfo.h). A bare
 * system has neither such a locale nor the sources that localedef needs to build one. */
static const struct {
    uint32_t magic, n, offsets[6];
    char     point[2], separator[2], grouping[4];
    uint32_t wide_point, wide_separator;
    char     codeset[15];
} numeric = {
    0x20031115 ^ LC_NUMERIC, 6, { 32, 34, 36, 40, 44, 48 }, ",", ".", "\3\3", ',', '.', "ANSI_X3.4-1968",
};

static int make_locale(void **state)
{
    char path[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/xx_XX", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/xx_XX/LC_NUMERIC", folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(&numeric, 1, offsetof(__typeof__(numeric), codeset) + sizeof numeric.codeset, f);
    fclose(f);
    return setenv("LOCPATH", folder, 1);
}

static int remove_locale(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void choose(const char *name)
{
    char text[16];

    assert_non_null(setlocale(LC_NUMERIC, name));
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, strcmp(name, "C") == 0 ? "0.5" : "0,5");
}

static void numbers(void **state)
{
    char   text[32], *end;
    lm_text b = { 0 };

    (void)state;
    choose("xx_XX");
    lm_print(text, sizeof text, "%.2f %d", 1234.5, 7);
    assert_string_equal(text, "1234.50 7");
    assert_true(lm_read_double("1.5e3,", &end) == 1500 && *end == ',');
    assert_true(lm_read_float("0.1", NULL) == 0.1f);
    lm_text_printf(&b, "%g", 0.25);
    assert_string_equal(b.data, "0.25");
    snprintf(text, sizeof text, "%.1f", 0.5);            /* the program's own locale is unchanged */
    assert_string_equal(text, "0,5");
    lm_text_free(&b);
    choose("C");
}

static void add(lm_text *all, lm_status status, lm_text *t, const lm_error *e)
{
    if (status != LM_OK)
        fail_msg("%s: %s", e->where, e->message);
    lm_text_add(all, t->data, t->size);
    lm_text_free(t);
}

static lm_facts *facts_of(const lm_model *m, const char *device)
{
    lm_facts_options o = { 0 };
    lm_facts        *f = NULL;
    lm_error         e;

    if (lm_device_find(device, &o.device, &e) != LM_OK || lm_facts_new(m, &o, &f, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return f;
}

/* Append every kind of output that contains numbers, one after another. */
static void write_all(lm_text *all)
{
    static const char template[] = "{{ 1.5 * x }} {{ '%.2f' | format(x) }} {{ x | tojson }}",
                      context[] = "{\"x\": 0.125}";
    lm_model    *m[2] = { open_preset("deepseek-v2-lite"), open_preset("granite-3.1-2b") };
    lm_facts    *f[2] = { facts_of(m[0], "rtx-4090"), facts_of(m[1], "rtx-4090") };
    lm_text      t    = { 0 }, notes = { 0 };
    lm_error     e;
    lm_judgement j;
    lm_template *made = NULL;
    lm_rendering r    = { 0 };
    uint64_t     n    = 0;
    size_t       size;
    char        *tree, path[1024];

    for (lm_form form = LM_FORM_TEXT; form <= LM_FORM_HTML; form++) {
        lm_report_options o = { .form = form };
        add(all, lm_report_write(f, 2, &o, &t, &e), &t, &e);
    }
    add(all, lm_facts_json(f[1], NULL, &t, &e), &t, &e);
    add(all, lm_compare(f, 2, &(lm_compare_options){ .view = "all" }, &t, &e), &t, &e);
    for (size_t i = 0; lm_diagram_at(i, NULL); i++)
        for (size_t k = 0; k < 2; k++)
            if (lm_diagram(f[k], lm_diagram_at(i, NULL), &(lm_explain_options){ .form = LM_FORM_SVG }, &t,
                           &e) == LM_OK)
                add(all, LM_OK, &t, &e);
    add(all, lm_engine_plan_text(m[0], NULL, &t, &e), &t, &e);
    add(all, lm_model_program_text(m[1], &t, &e), &t, &e);
    assert_int_equal(lm_facts_judge(f[1], "params.total", "2.53 B", &j, &e), LM_OK);
    lm_text_printf(all, "%s %s %s %s\n", lm_claim_word(j.verdict), j.path, j.truth, j.why);
    snprintf(path, sizeof path, "%s/golden/explain/trees/qwen2.5-3b.txt", getenv("LAMINA_TESTS"));
    assert_int_equal(lm_file_read(path, 1 << 20, &tree, &size, &e), LM_OK);
    lm_status status = lm_describe_tree(tree, size, NULL, &t, &notes, &n, &e);
    add(all, status, &t, &e);
    add(all, status, &notes, &e);
    lm_free(tree);
    assert_int_equal(lm_template_new(template, sizeof template - 1, "t", &made, &e), LM_OK);
    assert_int_equal(lm_template_render(made, context, sizeof context - 1, &r, &e), LM_OK);
    assert_string_equal(r.text.data, "0.1875 0.12 0.125");
    lm_text_add(all, r.text.data, r.text.size);
    lm_rendering_free(&r);
    lm_template_free(made);
    for (size_t k = 0; k < 2; k++) {
        lm_facts_free(f[k]);
        lm_model_close(m[k]);
    }
}

static void pages(void **state)
{
    lm_text c = { 0 }, other = { 0 };

    (void)state;
    choose("C");
    write_all(&c);
    choose("xx_XX");
    write_all(&other);
    choose("C");
    assert_false(c.failed || other.failed);
    assert_int_equal(c.size, other.size);
    assert_memory_equal(c.data, other.data, c.size);
    lm_text_free(&c);
    lm_text_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(numbers), cmocka_unit_test(pages) };

    return cmocka_run_group_tests(tests, make_locale, remove_locale);
}
