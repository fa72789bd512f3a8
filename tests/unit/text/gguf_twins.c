/* gguf_twins.c - a vocabulary given as GGUF keys produces the same ids as its tokenizer.json.
 *
 * The keys are made here as llama.cpp's converter makes them: byte-level pieces as they are, added tokens raw
 * with type control or user-defined, SentencePiece pieces with scores that fall as the rank of the merge that
 * makes them rises. By definition the two forms agree on every text, except with overlapping added tokens,
 * which these files do not have. (llama.cpp itself would differ for Qwen, where it leaves out NFC.) */
#include "golden_text.h"
#include "text/vocab_spec.h"

/* around: the ids before and after each text in the golden, which are not of the text; not 0: a small
 * tokenizer of golden/tokenizer/kinds */
typedef struct twin { const char *name, *path, *model, *pre; size_t around[2]; } twin;

static const twin twins[] = {
    { "mistral", "tokenizers/mistral/tokenizer.json", "llama", NULL, { 0 } },
    { "llama3_1", "tokenizers/llama3_1/tokenizer.json", "gpt2", "llama-bpe", { 0 } },
    { "qwen3", "tokenizers/qwen3/tokenizer.json", "gpt2", "qwen2", { 0 } },
    { "deepseek_v3", "tokenizers/deepseek_v3/tokenizer.json", "gpt2", "deepseek-v3", { 0 } },
    { "kinds/gemma", "golden/tokenizer/kinds/gemma.json", "gemma4", NULL, { 1, 2 } },
};

typedef struct keys {
    lm_view *tokens, *merges;
    float   *scores;
    int32_t *types;
    char    *text;          /* memory of the joined merges */
} keys;

static lm_view view_of(const json_t *s) { return (lm_view){ json_string_value(s), json_string_length(s) }; }

static void set(keys *k, size_t id, lm_view text, int32_t type)
{
    k->tokens[id] = text;
    k->types[id]  = type;
}

static void read_tokens(const json_t *root, const twin *w, keys *k, lm_vocab_spec *s)
{
    json_t     *vocab = json_object_get(json_object_get(root, "model"), "vocab"), *value;
    json_t     *added = json_object_get(root, "added_tokens"), *one;
    const char *key;
    size_t      size, i;
    bool        llama = strcmp(w->model, "gpt2") != 0;

    s->n = (uint32_t)json_object_size(vocab);
    json_array_foreach(added, i, one)
        if (json_integer_value(json_object_get(one, "id")) >= s->n)
            s->n = (uint32_t)json_integer_value(json_object_get(one, "id")) + 1;
    k->tokens = calloc(s->n, sizeof *k->tokens);
    k->types  = calloc(s->n, sizeof *k->types);
    k->scores = calloc(s->n, sizeof *k->scores);
    json_object_keylen_foreach(vocab, key, size, value) {
        size_t id = (size_t)json_integer_value(value);
        set(k, id, (lm_view){ key, size },
            llama && size == 6 && strncmp(key, "<0x", 3) == 0 ? LM_PIECE_BYTE : LM_PIECE_NORMAL);
    }
    json_array_foreach(added, i, one)
        set(k, (size_t)json_integer_value(json_object_get(one, "id")),
            view_of(json_object_get(one, "content")),
            json_is_true(json_object_get(one, "special")) ? LM_PIECE_CONTROL : LM_PIECE_USER);
    if (llama)
        k->types[0] = LM_PIECE_UNKNOWN;
}

static void read_merges(const json_t *root, keys *k, lm_vocab_spec *s)
{
    json_t *merges = json_object_get(json_object_get(root, "model"), "merges"), *one;
    size_t  i, bytes = 0, at = 0;

    s->n_merges = (uint32_t)json_array_size(merges);
    k->merges   = calloc(s->n_merges, sizeof *k->merges);
    json_array_foreach(merges, i, one)
        bytes += json_is_string(one) ? json_string_length(one)
                                     : json_string_length(json_array_get(one, 0)) +
                                           json_string_length(json_array_get(one, 1)) + 1;
    k->text = malloc(bytes + 1);
    json_array_foreach(merges, i, one) {
        size_t start = at;
        for (size_t half = 0; half < (json_is_array(one) ? 2u : 1u); half++) {
            lm_view v = view_of(json_is_array(one) ? json_array_get(one, half) : one);
            if (half)
                k->text[at++] = ' ';
            memcpy(k->text + at, v.data, v.size);
            at += v.size;
        }
        k->merges[i] = (lm_view){ k->text + start, at - start };
    }
}

/* Score every piece by the rank of its first merge; a piece that no merge produces scores below all
 * others. */
static void score(keys *k, const lm_vocab_spec *s)
{
    lm_map *ids = lm_map_new(s->n_merges);
    char    joined[256];

    assert_non_null(ids);
    for (uint32_t id = 0; id < s->n; id++)
        assert_true(lm_map_add(ids, k->tokens[id], id));
    for (uint32_t i = 0; i < s->n_merges; i++) {
        const char *space = memchr(k->merges[i].data, ' ', k->merges[i].size);
        size_t      left  = (size_t)(space - k->merges[i].data), right = k->merges[i].size - left - 1;
        uint64_t    id;

        memcpy(joined, k->merges[i].data, left);
        memcpy(joined + left, space + 1, right);
        assert_true(lm_map_get(ids, (lm_view){ joined, left + right }, &id));
        if (k->scores[id] == 0)
            k->scores[id] = -(float)i - 1;
    }
    for (uint32_t id = 0; id < s->n; id++)
        if (k->scores[id] == 0)
            k->scores[id] = -1e9F;
    lm_map_free(ids);
}

/* Remove the ids around the text from a row of ids, from each row of a list. */
static void take_off(json_t *rows, const size_t around[2])
{
    if (json_is_array(json_array_get(rows, 0))) {
        for (size_t i = 0; i < json_array_size(rows); i++)
            take_off(json_array_get(rows, i), around);
        return;
    }
    for (size_t i = 0; i < around[0]; i++)
        json_array_remove(rows, 0);
    for (size_t i = 0; i < around[1]; i++)
        json_array_remove(rows, json_array_size(rows) - 1);
}

static bool compare(const twin *w)
{
    char          path[512];
    keys          k = { 0 };
    lm_vocab_spec s = { .model = w->model,
                        .pre = w->pre,
                        .bos = -1,
                        .eos = -1,
                        .unknown = strcmp(w->model, "gemma4") == 0 ? 0 : -1,
                        .add_bos = -1,
                        .add_eos = -1,
                        .add_space_prefix = -1 };
    json_error_t  why;
    lm_tokenizer *t;
    size_t        n_texts, n_rows;

    path_in(w->around[0] ? "LAMINA_TESTS" : "LAMINA_ASSETS", path, "%s", w->path);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &why);
    if (!root) {
        if (!getenv("LAMINA_ALLOW_MISSING_ASSETS"))
            fail_msg("%s: %s: run scripts/setup", path, why.text);
        print_message("%-24s SKIPPED: %s is missing\n", w->name, path);
        return true;
    }
    read_tokens(root, w, &k, &s);
    read_merges(root, &k, &s);
    if (strcmp(w->model, "llama") == 0) {
        score(&k, &s);
        s.n_merges = 0;
    }
    s.tokens = k.tokens;
    s.merges = k.merges;
    s.types  = k.types;
    s.scores = k.scores;
    assert_ok(lm_tokenizer_from_spec(&s, NULL, &t, e));

    path_in("LAMINA_TESTS", path, "golden/tokenizer/%stexts.jsonl", w->around[0] ? "kinds/" : "");
    json_t *texts = read_lines(path);
    path_in("LAMINA_TESTS", path, "golden/tokenizer/%s.ids.jsonl", w->name);
    json_t *ids = read_lines(path);
    take_off(ids, w->around);
    path_in("LAMINA_TESTS", path, "golden/tokenizer/%s.decode.jsonl", w->name);
    json_t *rows = read_lines(path);
    size_t  same_texts = equal_texts(t, texts, ids, 0, &n_texts), same_rows = equal_decodes(t, rows, &n_rows);
    print_message("%-24s texts %zu/%zu  decodes %zu/%zu\n", w->name, same_texts, n_texts, same_rows, n_rows);

    json_decref(texts);
    json_decref(ids);
    json_decref(rows);
    json_decref(root);
    lm_tokenizer_free(t);
    free(k.tokens);
    free(k.types);
    free(k.scores);
    free(k.merges);
    free(k.text);
    return same_texts == n_texts && same_rows == n_rows;
}

static void gguf_keys_give_the_ids_of_tokenizer_json(void **state)
{
    bool all = true;

    (void)state;
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++)
        all &= compare(&twins[i]);
    assert_true(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(gguf_keys_give_the_ids_of_tokenizer_json) };

    return cmocka_run_group_tests_name("gguf_twins", tests, NULL, NULL);
}
