/* tokenizer_golden.c - ids and texts of the tokenizers library, made by tools/oracle/tokenizer_goldens.py. */
#include "golden_text.h"
#include "text/vocab_spec.h"

static const struct real { const char *name, *path; } reals[] = {
    { "mistral", "tokenizers/mistral/tokenizer.json" },   { "llama3_1", "tokenizers/llama3_1/tokenizer.json" },
    { "qwen3", "tokenizers/qwen3/tokenizer.json" },       { "deepseek_v3", "tokenizers/deepseek_v3/tokenizer.json" },
    { "smollm2", "smollm2-135m-instruct-q4_1.gguf" },     { "gpt2", "tokenizers/gpt2" },
};

static json_t *golden(const char *name, const char *kind)
{
    char path[512];

    path_in("LAMINA_TESTS", path, "golden/tokenizer/%s%s.jsonl", name, kind);
    return read_lines(path);
}

/* Compare a tokenizer with its goldens and print a row of the table. Returns whether all agree. */
static bool compare(const char *name, const char *path, const char *folder, const json_t *texts,
                    unsigned flags)
{
    char          file[256];
    lm_tokenizer *t;
    size_t        n_texts, n_rows;

    snprintf(file, sizeof file, "%s%s", folder, name);
    assert_ok(lm_tokenizer_open(path, NULL, &t, e));
    json_t *ids = golden(file, ".ids"), *rows = golden(file, ".decode");
    size_t same_texts = equal_texts(t, texts, ids, flags, &n_texts),
           same_rows = equal_decodes(t, rows, &n_rows);

    print_message("%-24s texts %zu/%zu  decodes %zu/%zu\n", name, same_texts, n_texts, same_rows, n_rows);
    json_decref(ids);
    json_decref(rows);
    lm_tokenizer_free(t);
    return same_texts == n_texts && same_rows == n_rows;
}

static void real_tokenizers_agree(void **state)
{
    json_t *texts = golden("texts", "");
    bool    all   = true;
    char    path[512];

    (void)state;
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        path_in("LAMINA_ASSETS", path, "%s", reals[i].path);
        if (!lm_path_is_file(path) && !lm_path_is_folder(path)) {
            if (!getenv("LAMINA_ALLOW_MISSING_ASSETS"))
                fail_msg("%s is missing: run scripts/setup", path);
            print_message("%-24s SKIPPED: %s is missing\n", reals[i].name, path);
            continue;
        }
        all &= compare(reals[i].name, path, "", texts, 0);
    }
    json_decref(texts);
    assert_true(all);
}

/* Small tokenizers, one per kind of component; special tokens are added. */
static const char *const kinds[] = {
    "added-flags", "bloom", "bytelevel-prefix-space", "classes", "digits-together", "falcon", "gemma", "gpt-4o",
    "metaspace-after-digits", "metaspace-always", "metaspace-first", "metaspace-never", "nfd", "nfkc-lower-strip",
    "nfkd-replace", "no-unk", "prepend", "roberta", "split-contiguous", "split-empty", "split-next", "split-previous",
    "whitespace", "whitespace-split",
};

static void every_kind_of_part_agrees(void **state)
{
    json_t *texts = golden("kinds/texts", "");
    bool    all   = true;
    char    path[512];

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        path_in("LAMINA_TESTS", path, "golden/tokenizer/kinds/%s.json", kinds[i]);
        all &= compare(kinds[i], path, "kinds/", texts, LM_ADD_SPECIAL);
    }
    json_decref(texts);
    assert_true(all);
}

/* ---- the names of tokenizer.ggml.pre ---- */
static void named_pre_tokenizers_cut_alike(void **state)
{
    json_t                *texts = golden("kinds/texts", ""), *all = golden("pre", ""), *row;
    lm_pretokenizer_work  *w     = calloc(1, sizeof *w);
    lm_regex_work          r     = { 0 };
    bool                   good  = true;
    size_t                 i;

    (void)state;
    json_array_foreach(all, i, row) {
        const char      *name = json_string_value(json_array_get(row, 0));
        lm_pretokenizer *p    = calloc(1, sizeof *p);
        lm_pre_traits    traits;
        size_t           same = 0, n = json_array_size(texts);

        assert_ok(lm_pre_by_name(name, p, &traits, "pre", e));
        lm_pretokenizer_finish(p);
        assert_true(p->bytes);
        for (size_t k = 0; k < n; k++) {
            const json_t *text = json_array_get(texts, k);
            pieces        got  = { .want = json_array_get(json_array_get(row, 1), k), .same = true };

            assert_ok(lm_regex_begin(&r, json_string_length(text), e));
            assert_ok(lm_pretokenize(p, w, &r, (lm_view){ json_string_value(text), json_string_length(text) },
                                     1, take_piece, &got, e));
            if (got.same && got.n == json_array_size(got.want))
                same++;
            else if (k - same < 3)
                print_message("%s cuts text %zu otherwise\n", name, k);
        }
        print_message("pre %-20s texts %zu/%zu\n", name, same, n);
        good &= same == n;
        lm_pretokenizer_free(p);
        free(p);
    }
    lm_pretokenizer_work_free(w);
    lm_regex_work_free(&r);
    free(w);
    json_decref(texts);
    json_decref(all);
    assert_true(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_tokenizers_agree),
        cmocka_unit_test(every_kind_of_part_agrees),
        cmocka_unit_test(named_pre_tokenizers_cut_alike),
    };

    return cmocka_run_group_tests_name("tokenizer_golden", tests, NULL, NULL);
}
