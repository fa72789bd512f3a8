/* A report as blocks, and every writer on names that contain markup of its own format. */
#include "study/page/document.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "lamina/study.h"

static const char HOSTILE[] = "a|b <script>alert(1)</script> `c` ``d`` $x$ *e* _f_ [g](h) & # \\ ~~i~~";

static void open_document(lm_document *d)
{
    lm_document_init(d, NULL, 0);
    d->root.title = lm_doc_strdup(d, HOSTILE);
}

/* ---- construction ---- */

static void ids_are_unique_and_anchors(void **state)
{
    lm_document d;

    (void)state;
    lm_document_init(&d, NULL, 0);
    assert_string_equal(lm_doc_slug(&d, "Mistral 7B v0.1"), "mistral-7b-v0-1");
    assert_string_equal(lm_doc_slug(&d, "../<x>&"), "x");
    assert_string_equal(lm_doc_slug(&d, "模型"), "x");
    lm_block *a = lm_doc_open(&d, "part", NULL, "A");
    lm_doc_close(&d);
    lm_block *b = lm_doc_open(&d, "part", NULL, "B");
    lm_block *c = lm_doc_fold(&d, "part", "C");
    assert_string_equal(a->id, "part");
    assert_string_equal(b->id, "part-2");
    assert_string_equal(c->id, "part-3");
    d.prefix = "m-";
    assert_string_equal(lm_doc_open(&d, "part", NULL, "D")->id, "m-part");
    assert_string_equal(lm_doc_anchor(&d, "part"), "m-part");
    lm_document_free(&d);
}

static void sections_are_numbered_in_order(void **state)
{
    lm_document d;

    (void)state;
    lm_document_init(&d, NULL, 0);
    lm_block *one = lm_doc_open(&d, "a", NULL, "A");
    lm_block *inner = lm_doc_open(&d, "b", NULL, "B");
    lm_doc_close(&d);
    lm_doc_open(&d, "nothing", NULL, "said");
    lm_doc_drop_empty(&d);
    lm_doc_close(&d);
    lm_block *two = lm_doc_open(&d, "c", NULL, "C");
    lm_doc_text(&d, "x");
    lm_doc_drop_empty(&d);                   /* not empty: kept */
    lm_document_number(&d);
    assert_string_equal(one->number, "1");
    assert_string_equal(inner->number, "1.1");
    assert_null(inner->next);
    assert_string_equal(two->number, "2");
    assert_ptr_equal(d.at, &d.root);
    lm_doc_close(&d);                        /* one close too many is harmless */
    assert_ptr_equal(d.at, &d.root);
    lm_document_free(&d);
}

static void text_is_made_harmless(void **state)
{
    lm_document d;

    (void)state;
    lm_document_init(&d, NULL, 0);
    assert_string_equal(lm_doc_strdup(&d, "a\x1b[31mb"), "a\xEF\xBF\xBD[31mb");
    assert_string_equal(lm_doc_strdup(&d, "a\xff" "b"), "a\xEF\xBF\xBD" "b");
    /* right-to-left override */
    assert_string_equal(lm_doc_strdup(&d, "\xE2\x80\xAE" "txt"), "\xEF\xBF\xBD" "txt");
    assert_string_equal(lm_doc_strdup(&d, "မြန်မာ 模型"), "မြန်မာ 模型");
    lm_document_free(&d);
}

static void cells_keep_exact_numbers(void **state)
{
    lm_document d;

    (void)state;
    lm_document_init(&d, NULL, 0);
    lm_doc_table *t = lm_doc_table_of(&d, "t", NULL, "lr", "what", "bytes");
    lm_next_row(t);
    lm_cell(t, "x");
    lm_cell_count(t, LM_PLAIN, LM_UNIT_BYTES, 939524096);
    lm_cell(t, "there is no third column");
    assert_string_equal(t->last->cells[1].text, "940 MB");
    assert_int_equal(t->last->cells[1].count, 939524096);
    assert_int_equal(t->last->n, 2);
    lm_next_row(t);
    assert_string_equal(t->last->cells[1].text, "");         /* cells that are not given are empty */
    assert_int_equal(t->n_rows, 2);
    lm_document_free(&d);
}

static void numbers_by_unit(void **state)
{
    char text[LM_DOC_FIGURE];

    (void)state;
    assert_string_equal(lm_doc_count_text(text, LM_BOTH, LM_UNIT_BYTES, 939524096), "940 MB (896 MiB)");
    assert_string_equal(lm_doc_count_text(text, LM_EXACT, LM_UNIT_BYTES, 939524096), "939,524,096");
    assert_string_equal(lm_doc_count_text(text, LM_PLAIN, LM_UNIT_FLOPS, 6425149440), "6.43 GFLOP");
    assert_string_equal(lm_doc_count_text(text, LM_PLAIN, LM_UNIT_LAYERS, 28), "28");
    assert_string_equal(lm_doc_number_text(text, LM_PLAIN, LM_UNIT_PERCENT, 66.666), "66.67 %");
    assert_string_equal(lm_doc_number_text(text, LM_EXACT, LM_UNIT_NONE, 1e-5), "1e-05");
    assert_string_equal(lm_doc_number_text(text, LM_PLAIN, LM_UNIT_FLOPS_PER_SECOND, 165.2e12),
                        "165 TFLOP/s");
    assert_string_equal(lm_doc_number_text(text, LM_PLAIN, LM_UNIT_SECONDS, 0.0125), "12.5 ms");
}

/* ---- writers ---- */

static void say_hostile(lm_document *d)
{
    lm_doc_open(d, "s", "O-1", HOSTILE);
    lm_doc_text(d, HOSTILE);
    lm_doc_text(d, "# no heading");
    lm_doc_text(d, "1. no item");
    lm_doc_item_of(d, '+', HOSTILE);
    lm_doc_warning(d, HOSTILE);
    lm_doc_table *t = lm_doc_table_of(d, "t", HOSTILE, "ll", HOSTILE, "");
    lm_next_row(t);
    lm_cell(t, HOSTILE);
    lm_cell_code(t, HOSTILE);
    lm_doc_fold(d, "f", HOSTILE);
    lm_doc_verbatim(d, "```\nend\n```` </details>", 23);
    lm_doc_close(d);
    lm_doc_close(d);
    lm_document_number(d);
}

/* Outside code spans there is no tag except our own, no bar that would end a cell and no dollar that would
 * begin a formula. */
static void check_markdown_line(const char *line, size_t n)
{
    char text[1024];

    snprintf(text, sizeof text, "%.*s", (int)n, line);
    if (strchr(text, '`'))                   /* a code span may contain anything except its own fence */
        return;
    assert_null(strstr(text, "<script"));
    for (const char *p = text; (p = strchr(p, '$')); p++)
        assert_true(p >= text + 6 && strncmp(p - 6, "<span>$</span>", 14) == 0);
    if (text[0] == '#')
        assert_true(strncmp(text, "# a", 3) == 0 || strncmp(text, "## 1 ", 5) == 0);
}

static void markdown_stays_text(void **state)
{
    lm_document d;
    lm_text      b = { 0 };

    (void)state;
    open_document(&d);
    say_hostile(&d);
    lm_document_markdown(&d, false, &b);
    assert_false(b.failed || d.failed);
    assert_null(strstr(b.data, "<script>alert(1)</script> \\`"));
    assert_non_null(strstr(b.data, "\n\\# no heading\n"));
    assert_non_null(strstr(b.data, "\n1\\. no item\n"));
    assert_non_null(strstr(b.data, "<a id=\"s\"></a>"));
    assert_non_null(strstr(b.data, "](#s)\n"));
    assert_non_null(strstr(b.data, "\n`````text\n```\nend\n```` </details>\n`````\n"));
    assert_non_null(strstr(b.data, "<details id=\"f\"><summary>a&#124;b &lt;script&gt;"));
    for (const char *p = b.data; *p;) {
        size_t n = strcspn(p, "\n");
        check_markdown_line(p, n);
        p += n + (p[n] == '\n');
    }
    /* the row of the table has four bars; all others are escaped */
    const char *row = strstr(b.data, "|---|---|\n");
    assert_non_null(row);
    row += 10;
    unsigned bars = 0;
    for (size_t i = 0; row[i] != '\n'; i++)
        bars += row[i] == '|' && row[i - 1] != '\\';
    assert_int_equal(bars, 3);
    lm_text_free(&b);
    lm_document_free(&d);
}

static void json_gives_text_back(void **state)
{
    lm_document d;
    lm_text      b = { 0 };

    (void)state;
    open_document(&d);
    say_hostile(&d);
    lm_document_json(&d, &b);
    json_t *j = json_loads(b.data, 0, NULL);
    assert_non_null(j);
    assert_string_equal(json_string_value(json_object_get(j, "title")), HOSTILE);
    json_t *section = json_array_get(json_object_get(j, "blocks"), 0);
    json_t *table   = json_array_get(json_object_get(section, "blocks"), 5);
    assert_string_equal(json_string_value(json_object_get(table, "kind")), "table");
    json_t *cell = json_array_get(json_array_get(json_object_get(table, "rows"), 0), 1);
    assert_string_equal(json_string_value(json_object_get(cell, "text")), HOSTILE);
    json_decref(j);
    lm_text_free(&b);
    lm_document_free(&d);
}

static void text_draws_trees_and_breaks_long_cells(void **state)
{
    lm_document d;
    lm_text      b = { 0 };

    (void)state;
    lm_document_init(&d, NULL, 0);
    lm_doc_table *t = lm_doc_table_of(&d, "t", NULL, "ll", "", "");
    t->tree         = true;
    static const struct {
        unsigned depth;
        const char *name;
    } rows[] = { { 1, "a" }, { 2, "b" }, { 2, "c" }, { 1, "d" }, { 2, "e" } };
    for (size_t i = 0; i < 5; i++) {
        lm_inner_row(t, rows[i].depth);
        lm_cell(t, rows[i].name);
    }
    lm_document_text(&d, &(lm_document_manner){ 80, true }, &b);
    assert_string_equal(b.data, "  ├─ a\n  │  ├─ b\n  │  └─ c\n  └─ d\n     └─ e\n");
    lm_text_clear(&b);
    lm_document_free(&d);
    lm_document_init(&d, NULL, 0);
    t = lm_doc_table_of(&d, "t", NULL, "ll", "", "");
    lm_next_row(t);
    lm_cell(t, "name");
    lm_cell(t, "a sentence that is longer than the line has columns");
    lm_document_text(&d, &(lm_document_manner){ 40, true }, &b);
    assert_string_equal(b.data, "  name  a sentence that is longer than\n        the line has columns\n");
    lm_text_free(&b);
    lm_document_free(&d);
}

/* ---- memory ---- */

static size_t report_once(lm_facts *f, lm_form form)
{
    lm_report_options o    = { .form = form };
    lm_text           text = { 0 };
    lm_error          e;
    lm_status         status = lm_report_write(&f, 1, &o, &text, &e);
    size_t            n      = status == LM_OK ? text.size : 0;

    assert_true(status == LM_OK || status == LM_NO_MEMORY);
    lm_text_free(&text);
    return n;
}

/* An allocation failure at any point is an error and leaks nothing. */
static void memory_may_run_out(void **state)
{
    lm_model_options o = { .weights_optional = true };
    lm_model        *m = NULL;
    size_t           failures = 0;

    (void)state;
    assert_int_equal(lm_model_open(LM_PRESET_PREFIX "gpt2", &o, &m, NULL), LM_OK);
    for (uint64_t n = 1; n < 60000; n += n < 40 ? 1 : n / 2) {
        lm_facts *f = NULL;
        if (lm_facts_new(m, NULL, &f, NULL) != LM_OK)
            fail();
        lm_alloc_fail_at(n);
        size_t size = report_once(f, LM_FORM_MARKDOWN);
        lm_alloc_fail_at(0);
        failures += size == 0;
        lm_facts_free(f);
    }
    assert_true(failures > 30);
    lm_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_unique_and_anchors),
        cmocka_unit_test(sections_are_numbered_in_order),
        cmocka_unit_test(text_is_made_harmless),
        cmocka_unit_test(cells_keep_exact_numbers),
        cmocka_unit_test(numbers_by_unit),
        cmocka_unit_test(markdown_stays_text),
        cmocka_unit_test(json_gives_text_back),
        cmocka_unit_test(text_draws_trees_and_breaks_long_cells),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
