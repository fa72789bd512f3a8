/* tokenizer_patterns.c - patterns as Oniguruma reads them: goldens of tools/oracle/tokenizer_patterns.py. */
#include "golden_text.h"
#include "text/pretokenize.h"
#include "text/tokenizer_files.h"
#include "text/unicode/unicode_class.h"
#include "base/utf8.h"

static json_t *golden(const char *name)
{
    char path[512];

    path_in("LAMINA_TESTS", path, "golden/tokenizer/%s.jsonl", name);
    return read_lines(path);
}

static lm_view view_of(const json_t *text)
{
    return (lm_view){ json_string_value(text), json_string_length(text) };
}

/* ---- every character ---- */
static size_t characters(const char *text, size_t from, size_t to)
{
    size_t n = 0;

    for (; from < to; from++)
        n += ((unsigned char)text[from] & 0xC0) != 0x80;
    return n;
}

/* Return the next run of adjacent matches. */
static lm_match next_run(lm_matches *matches)
{
    lm_match run, m;

    assert_ok(lm_matches_next(matches, &run, e));
    for (lm_matches ahead = *matches; run.found; run.to = m.to, *matches = ahead) {
        assert_ok(lm_matches_next(&ahead, &m, e));
        if (!m.found || m.from != run.to)
            break;
    }
    return run;
}

/* Whether the matches of `pattern` are the odd runs of `want`. Prints the first character where they are
 * not. */
static bool same_runs(lm_view pattern, lm_view all, const json_t *want)
{
    lm_regex     *regex;
    lm_regex_work work = { 0 };
    size_t        at = 0, run = 0, cp = 0;
    bool          same = true;
    lm_match      m;

    assert_ok(lm_regex_new(pattern, "class", &regex, e));
    assert_ok(lm_regex_begin(&work, all.size, e));
    lm_matches matches = { .regex = regex, .work = &work, .subject = all };
    do {
        m = next_run(&matches);
        const size_t edges[] = { m.found ? m.from : all.size, m.found ? m.to : all.size };

        for (unsigned i = 0; i < 2 && same; i++) {
            size_t n = characters(all.data, at, edges[i]);

            at   = edges[i];
            same = n == (size_t)json_integer_value(json_array_get(want, run++)) ||
                   (!m.found && i == 1 && n == 0);
            if (!same)
                print_message("%.*s: run %zu from character %zu has %zu\n", (int)pattern.size, pattern.data,
                              run - 1, cp, n);
            cp += n;
        }
    } while (same && m.found);
    lm_regex_work_free(&work);
    lm_regex_free(regex);
    return same;
}

static void classes_hold_the_same_characters(void **state)
{
    json_t *rows = golden("classes"), *row;
    lm_text  all = { 0 }, shadow = { 0 };
    char    bytes[4];
    bool    good = true;
    size_t  i;

    (void)state;
    for (uint32_t cp = 0; cp < 0x110000; cp++)
        if (cp < 0xD800 || cp > 0xDFFF)
            lm_text_add(&all, bytes, lm_utf8_encode(cp, bytes));
    const char *seen = lm_pattern_text(lm_text_view(&all), &shadow);
    json_array_foreach(rows, i, row)
        good &= same_runs(view_of(json_array_get(row, 0)), (lm_view){ seen, all.size },
                          json_array_get(row, 1));
    assert_true(i > 30);
    lm_text_free(&all);
    lm_text_free(&shadow);
    json_decref(rows);
    assert_true(good);
}

/* ---- texts ---- */
static void patterns_cut_alike(void **state)
{
    json_t               *rows  = golden("patterns"), *row;
    const json_t         *texts = json_array_get(rows, 0);
    lm_pretokenizer_work *w     = calloc(1, sizeof *w);
    lm_regex_work         r     = { 0 };
    bool                  good  = true;
    size_t                i;

    (void)state;
    json_array_foreach(rows, i, row) {
        lm_pretokenizer *p       = calloc(1, sizeof *p);
        const char      *pattern = json_string_value(json_array_get(row, 0));

        if (i > 0)
            assert_ok(lm_pretokenizer_add_split(p, pattern, LM_ISOLATED, "split", e));
        for (size_t k = 0; i > 0 && k < json_array_size(texts); k++) {
            lm_view text = view_of(json_array_get(texts, k));
            pieces  got  = { .want = json_array_get(json_array_get(row, 1), k), .same = true };

            assert_ok(lm_regex_begin(&r, text.size, e));
            assert_ok(lm_pretokenize(p, w, &r, text, 0, take_piece, &got, e));
            if (!got.same || got.n != json_array_size(got.want)) {
                print_message("%s cuts '%s' otherwise\n", pattern, text.data);
                good = false;
            }
        }
        lm_pretokenizer_free(p);
        free(p);
    }
    assert_true(i > 20);
    lm_pretokenizer_work_free(w);
    lm_regex_work_free(&r);
    free(w);
    json_decref(rows);
    assert_true(good);
}

/* A piece is "first" if it comes from the input's first character, even if normalization has moved it. */
static void first_means_the_input_s_first_character(void **state)
{
    json_t *rows = golden("first"), *row, *pair;
    bool    good = true;
    size_t  i, k;

    (void)state;
    json_array_foreach(rows, i, row) {
        const lm_tokenizer_files files = { .folder = "x", .tokenizer = view_of(json_array_get(row, 0)) };
        lm_tokenizer            *t;

        assert_ok(lm_tokenizer_from_files(&files, NULL, &t, e));
        json_array_foreach(json_array_get(row, 1), k, pair) {
            lm_view   text = view_of(json_array_get(pair, 0));
            lm_tokens got  = { 0 };

            assert_ok(lm_tokenize(t, text.data, text.size, 0, &got, e));
            if (!same_ids(&got, json_array_get(pair, 1))) {
                print_message("tokenizer %zu, '%s'\n", i, text.data);
                show_ids("got", &got, NULL);
                show_ids("want", NULL, json_array_get(pair, 1));
                good = false;
            }
            lm_tokens_free(&got);
        }
        lm_tokenizer_free(t);
    }
    assert_true(i > 40);
    json_decref(rows);
    assert_true(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_hold_the_same_characters),
        cmocka_unit_test(patterns_cut_alike),
        cmocka_unit_test(first_means_the_input_s_first_character),
    };

    return cmocka_run_group_tests_name("tokenizer_patterns", tests, NULL, NULL);
}
