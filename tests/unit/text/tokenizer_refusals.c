/* tokenizer_refusals.c - broken vocabularies: each is rejected with a status and a message, and none
 * crashes. */
#include "golden_text.h"

#include <math.h>

#include "base/alloc.h"
#include "text/tokenizer_files.h"
#include "text/vocab_spec.h"

#define MODEL(rest) \
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}" rest "}"
#define PRE(stage)  MODEL(",\"pre_tokenizer\":" stage)
#define DEC(stage)  MODEL(",\"decoder\":" stage)
#define POST(stage) MODEL(",\"post_processor\":" stage)

static lm_status from_json(const char *json, lm_tokenizer **out, lm_error *e)
{
    return lm_tokenizer_from_files(&(lm_tokenizer_files){ .folder = "x", .tokenizer = lm_view_of(json) },
                                   NULL, out, e);
}

static const struct broken { const char *json; lm_status status; const char *says; } documents[] = {
    { "", LM_BAD_MODEL, "tokenizer.json" },
    { "{", LM_BAD_MODEL, "line 1" },
    { "[]", LM_BAD_MODEL, "not a JSON object" },
    { "{}", LM_BAD_MODEL, "/model" },
    { "{\"a\":1,\"a\":2}", LM_BAD_MODEL, "duplicate" },
    { MODEL("") " x", LM_BAD_MODEL, "end of file expected" },
    { "{\"model\":\"\\ud800\"}", LM_BAD_MODEL, "Unicode" },
    { "{\"model\":7}", LM_BAD_MODEL, "'model' is not an object" },
    { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", LM_UNSUPPORTED, "'Unigram'" },
    { "{\"model\":{\"type\":\"WordPiece\"}}", LM_UNSUPPORTED, "'WordPiece'" },
    { "{\"model\":{\"type\":\"BPE\"}}", LM_BAD_MODEL, "vocab" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", LM_BAD_MODEL, "merges" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}}", LM_BAD_MODEL, "'vocab' is not an object" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", LM_BAD_MODEL, "id of 'a'" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1.5},\"merges\":[]}}", LM_BAD_MODEL, "id of 'a'" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"0\"},\"merges\":[]}}", LM_BAD_MODEL, "id of 'a'" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":16777216},\"merges\":[]}}", LM_BAD_MODEL, "id of 'a'" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1e300},\"merges\":[]}}", LM_BAD_MODEL, "id of 'a'" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\":0},\"merges\":[]}}", LM_BAD_MODEL, "token 0 is empty" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", LM_BAD_MODEL, "id 0 is given to 'a' and to 'b'" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}}", LM_BAD_MODEL, "merge 0: 'ab' is not in" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"ab\":1},\"merges\":[\"a b\"]}}", LM_BAD_MODEL, "merge 0: 'b' is not in" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", LM_BAD_MODEL, "merge 0 is not two pieces" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b c\"]}}", LM_BAD_MODEL, "merge 0 is not two pieces" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", LM_BAD_MODEL, "merge 0 is not two pieces" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",1]]}}", LM_BAD_MODEL, "merge 0 is not two pieces" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[7]}}", LM_BAD_MODEL, "merge 0 is not two pieces" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"<u>\"}}", LM_BAD_MODEL, "'<u>' is not in" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"end_of_word_suffix\":\"</w>\"}}", LM_UNSUPPORTED, "'</w>'" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"continuing_subword_prefix\":\"##\"}}", LM_UNSUPPORTED, "'##'" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"byte_fallback\":1}}", LM_BAD_MODEL, "'byte_fallback' is not true or false" },
    { MODEL(",\"added_tokens\":{}"), LM_BAD_MODEL, "'added_tokens' is not an array" },
    { MODEL(",\"added_tokens\":[7]"), LM_BAD_MODEL, "token 0 lacks" },
    { MODEL(",\"added_tokens\":[{\"id\":3}]"), LM_BAD_MODEL, "token 0 lacks" },
    { MODEL(",\"added_tokens\":[{\"content\":\"x\"}]"), LM_BAD_MODEL, "token 0 lacks" },
    { MODEL(",\"added_tokens\":[{\"id\":1,\"content\":\"x\"}]"), LM_BAD_MODEL, "id 1 is given to 'b' and to 'x'" },
    { MODEL(",\"added_tokens\":[{\"id\":3,\"content\":\"x\",\"special\":\"yes\"}]"), LM_BAD_MODEL, "'special' is not true or false" },
    { MODEL(",\"normalizer\":7"), LM_BAD_MODEL, "/normalizer" },
    { MODEL(",\"normalizer\":{\"type\":\"Precompiled\"}"), LM_UNSUPPORTED, "'Precompiled'" },
    { MODEL(",\"normalizer\":{\"type\":\"Sequence\"}"), LM_BAD_MODEL, "'normalizers' is not an array" },
    { MODEL(",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"x\"}"), LM_BAD_MODEL, "not empty" },
    { MODEL(",\"normalizer\":{\"type\":\"Replace\",\"content\":\"x\"}"), LM_BAD_MODEL, "'pattern' is not an object" },
    { PRE("{\"type\":\"BertPreTokenizer\"}"), LM_UNSUPPORTED, "'BertPreTokenizer'" },
    { PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"}}"), LM_UNSUPPORTED, "pattern '('" },
    { PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a\"}}"), LM_UNSUPPORTED, "unfinished class" },
    { PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\\\\\"}}"), LM_UNSUPPORTED, "lone backslash" },
    { PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{Nonsense}\"}}"), LM_UNSUPPORTED, "unknown property" },
    { PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{L\"}}"), LM_UNSUPPORTED, "not understood" },
    { PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a{1000}){1000}{1000}\"}}"), LM_UNSUPPORTED, "too large" },
    { PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\C\"}}"), LM_UNSUPPORTED, "disabled" },
    { PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Sideways\"}"), LM_UNSUPPORTED, "'Sideways'" },
    { PRE("{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"), LM_BAD_MODEL, "one character" },
    { PRE("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}"), LM_BAD_MODEL, "prepend_scheme" },
    { DEC("{\"type\":\"WordPiece\"}"), LM_UNSUPPORTED, "'WordPiece'" },
    { DEC("{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"ByteFallback\"}]}"), LM_UNSUPPORTED, "'ByteFallback' at this place" },
    { DEC("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"}"), LM_UNSUPPORTED, "a Regex to replace" },
    { DEC("{\"type\":\"Strip\",\"content\":\" \",\"start\":-1}"), LM_BAD_MODEL, "'start' is not an integer" },
    { POST("{\"type\":\"Nothing\"}"), LM_UNSUPPORTED, "'Nothing'" },
    { POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}]}"), LM_BAD_MODEL, "'<s>' is not in special_tokens" },
    { POST("{\"type\":\"TemplateProcessing\",\"single\":[]}"), LM_UNSUPPORTED, "without the text" },
    { POST("{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"s\"}}],\"special_tokens\":{\"s\":{\"ids\":[9]}}}"), LM_BAD_MODEL, "not in the vocabulary" },
    { POST("{\"type\":\"RobertaProcessing\",\"cls\":[\"a\",0],\"sep\":[\"x\",77]}"), LM_BAD_MODEL, "not in the vocabulary" },
};

static void broken_documents_are_rejected_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
        lm_error      e = { .offset = LM_NO_OFFSET };
        lm_tokenizer *t = NULL;
        char          text[1200];
        lm_status     status = from_json(documents[i].json, &t, &e);

        if (status == LM_OK)
            fail_msg("accepted: %s", documents[i].json);
        lm_error_text(&e, text, sizeof text);
        if (status != documents[i].status || !strstr(text, documents[i].says))
            fail_msg("%s\n  is refused with %s: %s\n  instead of %s: …%s…", documents[i].json,
                     lm_status_word(status), text, lm_status_word(documents[i].status), documents[i].says);
        assert_null(t);
    }
}

static void nesting_ends_somewhere(void **state)
{
    static const struct { const char *open, *close, *says; } kinds[] = {
        { "{\"type\":\"Sequence\",\"pretokenizers\":[", "]}", "nested deeper" },
        { "[", "]", "maximum parsing depth" },
    };

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        lm_text        json = { 0 };
        lm_tokenizer *t;
        unsigned      depth = k ? 100000 : 40;

        lm_text_add_str(&json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"pre_tokenizer\":");
        for (unsigned i = 0; i < depth; i++)
            lm_text_add_str(&json, kinds[k].open);
        for (unsigned i = 0; i < depth; i++)
            lm_text_add_str(&json, kinds[k].close);
        lm_text_add_str(&json, "}");
        assert_fails(k ? LM_BAD_MODEL : LM_UNSUPPORTED, kinds[k].says, from_json(json.data, &t, e));
        lm_text_free(&json);
    }
}

/* ---- GGUF keys ---- */
#define V(s) { s, sizeof(s) - 1 }

static const lm_view good_tokens[] = {
    V("<unk>"), V("<s>"), V("</s>"), V("a"), V("b"), V("ab"), V("<0x41>")
};
static const int32_t   good_types[]   = { 2, 3, 3, 1, 1, 1, 6 };
static const float     good_scores[]  = { 0, 0, 0, -1, -2, -3, 0 };
static const lm_view   good_merges[]  = { V("a b") };
static const lm_view twice[] = { V("<unk>"), V("<s>"), V("</s>"), V("a"), V("a"), V("ab"), V("<0x41>") };
static const lm_view hollow[] = { V("<unk>"), V("<s>"), V("</s>"), V("a"), V(""), V("ab"), V("<0x41>") };
static const lm_view not_utf8[] = {
    V("<unk>"), V("<s>"), V("</s>"), V("a"), V("\xff"), V("ab"), V("<0x41>")
};
static const lm_view bad_byte[] = { V("<unk>"), V("<s>"), V("</s>"), V("a"), V("b"), V("ab"), V("0x41") };
static const int32_t   bad_types[]    = { 2, 3, 3, 1, 7, 1, 6 };
static const lm_view   no_space[]     = { V("ab") };
static const lm_view   space_first[]  = { V(" ab") };
static const lm_view   space_last[]   = { V("ab ") };
static const lm_view   strangers[]    = { V("x y") };
static const int64_t   far[]          = { 7 };

static lm_vocab_spec good(const char *model)
{
    return (lm_vocab_spec){ .model = model,
                            .pre = "gpt-2",
                            .n = 7,
                            .tokens = good_tokens,
                            .types = good_types,
                            .scores = good_scores,
                            .merges = good_merges,
                            .n_merges = 1,
                            .bos = 1,
                            .eos = 2,
                            .unknown = 0,
                            .add_bos = -1,
                            .add_eos = -1,
                            .add_space_prefix = -1,
                            .where = "tokenizer.ggml." };
}

static void broken_keys_are_rejected_by_name(void **state)
{
    static float scores[7];
    lm_tokenizer *t;

    (void)state;
    for (int llama = 0; llama < 2; llama++) {
        lm_vocab_spec s = good(llama ? "llama" : "gpt2");
        assert_ok(lm_tokenizer_from_spec(&s, NULL, &t, e));
        lm_tokenizer_free(t);
    }
#define REFUSED(change, status, says)                                                       \
    do {                                                                                    \
        lm_vocab_spec s = good("gpt2");                                                     \
        change;                                                                             \
        assert_fails(status, says, lm_tokenizer_from_spec(&s, NULL, &t, e));                \
    } while (0)
    REFUSED(s.model = "t5", LM_UNSUPPORTED, "tokenizer.ggml.model: tokenizers of the kind 't5'");
    REFUSED(s.model = NULL, LM_UNSUPPORTED, "tokenizer.ggml.model");
    REFUSED(s.pre = "no-such-pre", LM_UNSUPPORTED, "'no-such-pre'");
    REFUSED(s.n = 0, LM_BAD_MODEL, "tokenizer.ggml.tokens: 0 tokens");
    REFUSED(s.n = UINT32_MAX, LM_BAD_MODEL, "4294967295 tokens");
    REFUSED(s.tokens = twice, LM_BAD_MODEL, "tokens 3 and 4 are both 'a'");
    REFUSED(s.tokens = hollow, LM_BAD_MODEL, "token 4 is empty");
    REFUSED(s.tokens = not_utf8, LM_BAD_MODEL, "token 4 is not valid UTF-8");
    REFUSED(s.tokens = bad_byte, LM_BAD_MODEL, "spelled '0x41'");
    REFUSED(s.types = bad_types, LM_BAD_MODEL, "tokenizer.ggml.token_type: token 4 has type 7");
    REFUSED(s.merges = no_space, LM_BAD_MODEL, "merge 0, 'ab', is not two pieces");
    REFUSED(s.merges = space_first, LM_BAD_MODEL, "is not two pieces");
    REFUSED(s.merges = space_last, LM_BAD_MODEL, "is not two pieces");
    REFUSED(s.merges = strangers, LM_BAD_MODEL, "1 of 1 merges name pieces");
    REFUSED(s.bos = 7, LM_BAD_MODEL, "tokenizer.ggml.bos_token_id: id 7");
    REFUSED(s.eos = INT64_MAX, LM_BAD_MODEL, "tokenizer.ggml.eos_token_id");
    REFUSED((s.ends = far, s.n_ends = 1), LM_BAD_MODEL, "id 7");
    REFUSED((s.add_bos = 1, s.bos = -1), LM_BAD_MODEL, "no bos_token_id");
    REFUSED((s.add_eos = 1, s.eos = -1), LM_BAD_MODEL, "no eos_token_id");
    scores[3] = (float)NAN;
    REFUSED((s.model = "llama", s.scores = scores), LM_BAD_MODEL, "score of token 3");
    REFUSED((s.model = "llama", s.unknown = 9), LM_BAD_MODEL, "unknown_token_id");
#undef REFUSED
}

static void the_option_replaces_an_unknown_pre(void **state)
{
    lm_vocab_spec s = good("gpt2");
    lm_tokenizer *t;

    (void)state;
    s.pre = "no-such-pre";
    assert_ok(lm_tokenizer_from_spec(&s, &(lm_tokenizer_options){ .pre = "qwen2" }, &t, e));
    assert_non_null(strstr(lm_tokenizer_summary(t), "pre qwen2"));
    lm_tokenizer_free(t);
    assert_fails(LM_USAGE, "'neither'",
                 lm_tokenizer_from_spec(&s, &(lm_tokenizer_options){ .pre = "neither" }, &t, e));
    /* The option does not override a known pre-tokenizer. */
    s.pre = "gpt-2";
    assert_ok(lm_tokenizer_from_spec(&s, &(lm_tokenizer_options){ .pre = "qwen2" }, &t, e));
    assert_non_null(strstr(lm_tokenizer_summary(t), "pre gpt-2"));
    lm_tokenizer_free(t);
}

/* Each allocation fails once: the call returns an error and leaks nothing. */
static void running_out_of_memory_is_an_error(void **state)
{
    char           path[512];
    char          *data;
    size_t         size;
    const uint64_t before = lm_alloc_statistics().live_bytes;
    bool           done   = false;

    (void)state;
    path_in("LAMINA_TESTS", path, "golden/tokenizer/kinds/prepend.json");
    assert_ok(lm_file_read(path, 1 << 20, &data, &size, e));
    const uint64_t held = lm_alloc_statistics().live_bytes;
    for (uint64_t n = 1; !done; n++) {
        lm_tokenizer *t   = NULL;
        lm_tokens     ids = { 0 };
        lm_text       text = { 0 };
        lm_error      e   = { .offset = LM_NO_OFFSET };

        assert_true(n < 5000);
        lm_alloc_fail_at(n);
        lm_tokenizer_files files  = { .folder = "x", .tokenizer = { data, size } };
        lm_status          status = lm_tokenizer_from_files(&files, NULL, &t, &e);
        if (status == LM_OK)
            status = lm_tokenize(t, "Hello  the <lr> w\xc3\xb6rld\xff <0x41>", 27, LM_ADD_SPECIAL, &ids, &e);
        if (status == LM_OK)
            status = lm_detokenize(t, ids.ids, ids.n, 0, &text, &e);
        done = status == LM_OK;
        lm_alloc_fail_at(0);
        if (!done)
            assert_int_equal(status, LM_NO_MEMORY);
        lm_tokenizer_free(t);
        lm_tokens_free(&ids);
        lm_text_free(&text);
        assert_int_equal(lm_alloc_statistics().live_bytes, held);
    }
    lm_free(data);
    assert_int_equal(lm_alloc_statistics().live_bytes, before);
}

/* A broken character and the bytes that end it are written in parts. If memory runs out for any of them, the
 * text stays unchanged. */
static void a_failed_stream_leaves_the_text(void **state)
{
    char          path[512], *data;
    size_t        size, failures = 0;
    lm_tokenizer *t = NULL;

    (void)state;
    path_in("LAMINA_TESTS", path, "golden/tokenizer/kinds/prepend.json");
    assert_ok(lm_file_read(path, 1 << 20, &data, &size, e));
    assert_ok(lm_tokenizer_from_files(&(lm_tokenizer_files){ .folder = "x", .tokenizer = { data, size } },
                                      NULL, &t, e));
    const lm_token first = lm_tokenizer_find(t, "<0xE2>"), second = lm_tokenizer_find(t, "<0x82>"),
                   word = lm_tokenizer_find(t, "H");
    const lm_token ids[] = { first, second, word, first, second };
    const size_t   n     = sizeof ids / sizeof *ids;

    for (size_t held = 0; held < 600; held++) {
        lm_stream *s      = NULL;
        lm_text    text   = { 0 };
        lm_status  status = LM_OK;
        size_t     before = 0;

        while (text.size < held)
            lm_text_add_char(&text, 'x');
        assert_ok(lm_stream_new(t, 0, false, &s, e));
        lm_alloc_fail_at(1);
        for (size_t i = 0; i <= n && status == LM_OK; i++) {
            before = text.size;
            status = i < n ? lm_stream_push(s, ids[i], &text, NULL) : lm_stream_end(s, &text, NULL);
        }
        lm_alloc_fail_at(0);
        failures += status != LM_OK;
        if (status != LM_OK) {
            assert_int_equal(status, LM_NO_MEMORY);
            assert_int_equal(text.size, before);
        }
        lm_text_free(&text);
        lm_stream_free(s);
    }
    assert_in_range(failures, 1, 599);
    lm_tokenizer_free(t);
    lm_free(data);
}

/* A failed allocation does not corrupt the memory that texts share: later texts are tokenized correctly. */
static void texts_after_a_failed_allocation_are_complete(void **state)
{
    static const char broken[] = "Hello  the <lr> w\xc3\xb6rld\xff <0x41> \xe2\x82 unseen before";
    static const char sound[]  = "Hello  the <lr> w\xc3\xb6rld";
    char              path[512], *data;
    size_t            size;
    lm_tokenizer     *t = NULL, *fresh = NULL;
    lm_tokens         right = { 0 };
    bool              repair_failed = false;

    (void)state;
    path_in("LAMINA_TESTS", path, "golden/tokenizer/kinds/prepend.json");
    assert_ok(lm_file_read(path, 1 << 20, &data, &size, e));
    const lm_tokenizer_files files = { .folder = "x", .tokenizer = { data, size } };
    assert_ok(lm_tokenizer_from_files(&files, NULL, &fresh, e));
    assert_ok(lm_tokenize(fresh, sound, sizeof sound - 1, 0, &right, e));
    for (uint64_t n = 1; n < 50; n++) {
        lm_tokens ids = { 0 };
        lm_error  why = { .offset = LM_NO_OFFSET };

        assert_ok(lm_tokenizer_from_files(&files, NULL, &t, e));
        lm_alloc_fail_at(n);
        bool failed = lm_tokenize(t, broken, sizeof broken - 1, 0, &ids, &why) != LM_OK;
        lm_alloc_fail_at(0);
        repair_failed |= failed && strcmp(why.where, "a text") == 0;
        ids.n = 0;
        assert_ok(lm_tokenize(t, sound, sizeof sound - 1, 0, &ids, e));
        assert_int_equal(ids.n, right.n);
        assert_memory_equal(ids.ids, right.ids, right.n * sizeof *right.ids);
        lm_tokens_free(&ids);
        lm_tokenizer_free(t);
    }
    assert_true(repair_failed);
    lm_tokens_free(&right);
    lm_tokenizer_free(fresh);
    lm_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_documents_are_rejected_by_name),
        cmocka_unit_test(nesting_ends_somewhere),
        cmocka_unit_test(broken_keys_are_rejected_by_name),
        cmocka_unit_test(the_option_replaces_an_unknown_pre),
        cmocka_unit_test(running_out_of_memory_is_an_error),
        cmocka_unit_test(a_failed_stream_leaves_the_text),
        cmocka_unit_test(texts_after_a_failed_allocation_are_complete),
    };

    return cmocka_run_group_tests_name("tokenizer_refusals", tests, NULL, NULL);
}
