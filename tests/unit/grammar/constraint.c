/* constraint.c - masks compared with the definition of a grammar: a token is allowed if its bytes match. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "lamina/grammar.h"
#include "text/token_bytes.h"

static lm_tokenizer  *tokenizer;
static lm_vocabulary *vocabulary;
static uint32_t       size, words;
static lm_text        bytes;                 /* the bytes of all tokens, concatenated */
static size_t        *at;                    /* [size + 1] */

static bool bit(const uint64_t *mask, lm_token id) { return mask[id / 64] >> (id % 64) & 1; }

/* ---- grammars to walk ---- */

static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"maxLength\":12},\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":31},"
    "\"units\":{\"enum\":[\"metric\",\"imperial\"]},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[a-z]{2,5}$\"},"
    "\"maxItems\":3}},\"required\":[\"city\",\"units\"]}",
    "{}",
    "{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"number\"},\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/n\"},{\"type\":\"null\"}]}},"
    "\"required\":[\"v\",\"next\"]}},\"$ref\":\"#/$defs/n\"}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"boolean\"}},\"additionalProperties\":{\"type\":\"string\",\"format\":\"date\"}}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"minLength\":12,\"maxLength\":40},\"b\":{\"type\":\"string\",\"minLength\":9},"
    "\"c\":{\"type\":\"string\",\"maxLength\":2147483647}},\"required\":[\"a\",\"b\",\"c\"]}",
    "{\"type\":\"array\",\"minItems\":3,\"maxItems\":9,\"items\":{\"type\":\"array\",\"maxItems\":2,\"items\":{\"enum\":[1,\"a\",\"ab\"]}}}",
};
static const char *const gbnfs[] = {
    "root ::= (\"<\" [^<>]* \">\")+",
    "root ::= expr\nexpr ::= term (\" \"? [-+*/] \" \"? term)*\nterm ::= [0-9]+ | \"(\" expr \")\"",
    "root ::= line \"\\n\" line\nline ::= .{0,30}",
    "root ::= [a-z]{3,9} \"-\" [a-z]{2,4} [a-z ]{0,12}",
    "root ::= (\"a\" | \"aa\" | \"ab\"){2,9} \"b\"? [a-b]{1,3}",
    "root ::= ([a-z]{2,3} \" \"?){2,5} \".\"",
    "root ::= word{2,4} \"!\"\nword ::= [a-z]{1,5} [ ,]",
    "root ::= [^!]{5,60} \"!\" [0-9]{3}",
    "root ::= ([ぁ-ん]+ | [a-z]+ | [α-ω]{2,4}) (\", \" root)?",
};

static lm_grammar *grammar(size_t i, bool any_order)
{
    const size_t       n = sizeof schemas / sizeof *schemas;
    lm_grammar_options o = { .any_order = any_order };
    lm_grammar        *g = NULL;
    lm_error           e;
    lm_status          status = i < n ? lm_grammar_json_schema(schemas[i], strlen(schemas[i]), &o, &g, &e)
                                      : lm_grammar_gbnf(gbnfs[i - n], strlen(gbnfs[i - n]), &o, &g, &e);

    if (status != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return g;
}

/* ---- the definition ---- */

/* Whether the text may continue with this token. */
static bool goes_on(const lm_grammar *g, lm_text *text, lm_token id)
{
    size_t n = at[id + 1] - at[id], before = text->size, fits;
    bool   whole;

    if (n == 0)
        return false;
    lm_text_add(text, bytes.data + at[id], n);
    assert_int_equal(lm_grammar_matches(g, text->data, text->size, &whole, &fits, NULL), LM_OK);
    text->size = before;
    return fits == before + n;
}

static uint32_t next_random(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }

static void check_mask(const lm_grammar *g, lm_constraint *c, const uint64_t *mask, lm_text *text,
                       uint32_t *seed)
{
    bool   whole;
    size_t fits;

    for (unsigned i = 0; i < 400; i++) {                 /* tokens of all kinds */
        lm_token id = (lm_token)((next_random(seed) >> 4) % size);
        if (lm_tokenizer_is_end(tokenizer, id))
            continue;
        if (bit(mask, id) != goes_on(g, text, id))
            fail_msg("after '%s' token %d is %s", text->data, id, bit(mask, id) ? "let through" : "kept out");
    }
    /* allowed tokens */
    for (lm_token id = (lm_token)(next_random(seed) % 64); (uint32_t)id < size; id += 61)
        if (bit(mask, id) && !lm_tokenizer_is_end(tokenizer, id))
            assert_true(goes_on(g, text, id));
    assert_int_equal(lm_grammar_matches(g, text->data ? text->data : "", text->size, &whole, &fits, NULL),
                     LM_OK);
    assert_int_equal(whole, bit(mask, lm_tokenizer_eos(tokenizer)));
    assert_int_equal(whole, lm_constraint_complete(c));
}

/* Return a random allowed token. */
static lm_token choose(const uint64_t *mask, uint32_t *seed)
{
    uint32_t from = (next_random(seed) >> 3) % size;

    for (uint32_t i = 0; i < size; i++) {
        lm_token id = (lm_token)((from + i) % size);
        if (bit(mask, id) && (!lm_tokenizer_is_end(tokenizer, id) || next_random(seed) >> 30 == 0))
            return id;
    }
    return lm_tokenizer_eos(tokenizer);
}

static void walk(const lm_grammar *g, uint32_t seed, unsigned steps)
{
    uint64_t      *mask = calloc(words, sizeof *mask), *again = calloc(words, sizeof *again);
    lm_constraint *c, *twin;
    lm_text        text = { 0 };
    lm_error       e;

    assert_int_equal(lm_constraint_new(g, vocabulary, &c, &e), LM_OK);
    for (unsigned k = 0; k < steps && !lm_constraint_ended(c); k++) {
        assert_int_equal(lm_constraint_mask(c, mask, &e), LM_OK);
        check_mask(g, c, mask, &text, &seed);
        lm_token id = choose(mask, &seed);
        assert_int_equal(lm_constraint_clone(c, &twin, &e), LM_OK);
        assert_int_equal(lm_constraint_accept(c, id, &e), LM_OK);
        assert_int_equal(lm_constraint_rollback(c, 1, &e), LM_OK);
        assert_int_equal(lm_constraint_mask(c, again, &e), LM_OK);
        assert_memory_equal(mask, again, words * sizeof *mask);
        assert_int_equal(lm_constraint_accept(c, id, &e), LM_OK);
        assert_int_equal(lm_constraint_mask(twin, again, &e), LM_OK);
        assert_memory_equal(mask, again, words * sizeof *mask);
        lm_constraint_free(twin);
        lm_text_add(&text, bytes.data + at[id], at[id + 1] - at[id]);
    }
    lm_constraint_free(c);
    lm_text_free(&text);
    free(mask);
    free(again);
}

/* Along random texts of each grammar every mask follows from the bytes of the tokens; rollback and cloning
 * change nothing. */
static void masks_are_what_bytes_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas + sizeof gbnfs / sizeof *gbnfs; i++) {
        lm_grammar *g = grammar(i, i % 2);
        for (uint32_t seed = 1; seed < 4; seed++)
            walk(g, seed * 977, 40);
        lm_grammar_free(g);
    }
}

/* A token by name allows only that token, or any other one. Its text does not match it, and control tokens
 * match nowhere else. */
static void tokens_by_name(void **state)
{
    static const char *text = "root ::= <|im_start|> \"a\"+ !<|im_start|> <[5]>";
    lm_grammar_options o = { .tokenizer = tokenizer };
    lm_token start = lm_tokenizer_find(tokenizer, "<|im_start|>"), a = lm_tokenizer_find(tokenizer, "a");
    uint64_t          *mask = calloc(words, sizeof *mask);
    lm_grammar        *g;
    lm_constraint     *c;
    lm_error           e;
    uint32_t           count = 0;

    (void)state;
    assert_int_equal(lm_grammar_gbnf(text, strlen(text), &o, &g, &e), LM_OK);
    assert_int_equal(lm_constraint_new(g, vocabulary, &c, &e), LM_OK);
    lm_grammar_free(g);
    assert_int_equal(lm_constraint_mask(c, mask, &e), LM_OK);
    for (uint32_t i = 0; i < size; i++)
        count += bit(mask, (lm_token)i);
    assert_int_equal(count, 1);
    assert_true(bit(mask, start));
    assert_int_equal(lm_constraint_accept(c, a, &e), LM_FAILED);
    assert_int_equal(lm_constraint_accept(c, start, &e), LM_OK);
    assert_int_equal(lm_constraint_mask(c, mask, &e), LM_OK);
    assert_true(bit(mask, a) && !bit(mask, start));
    assert_int_equal(lm_constraint_accept(c, a, &e), LM_OK);
    assert_int_equal(lm_constraint_mask(c, mask, &e), LM_OK);
    for (uint32_t i = 0; i < size; i++)                  /* any token except that one and the end tokens */
        assert_int_equal(bit(mask, (lm_token)i),
                         (lm_token)i != start && !lm_tokenizer_is_end(tokenizer, (lm_token)i));
    assert_int_equal(lm_constraint_accept(c, 300, &e), LM_OK);
    assert_int_equal(lm_constraint_accept(c, 5, &e), LM_OK);
    assert_true(lm_constraint_complete(c));
    assert_int_equal(lm_constraint_accept(c, lm_tokenizer_eos(tokenizer), &e), LM_OK);
    assert_true(lm_constraint_ended(c));
    assert_int_equal(lm_constraint_mask(c, mask, &e), LM_FAILED);
    lm_constraint_free(c);
    free(mask);
}

/* Text is free until the trigger, however it is split; then it follows the grammar, with or without the
 * trigger itself. */
static void triggers_start_the_grammar(void **state)
{
    static const char *text = "root ::= \"<tool>\" [0-9]+ \"</tool>\"";
    const lm_trigger with = { .word = "<tool>" }, behind = { .word = "</think>", .before = true },
                     wrong = { .word = "<fool>" };
    lm_grammar        *g, *lazy, *after, *never;
    bool               whole;
    size_t             fits;
    lm_error           e;

    (void)state;
    assert_int_equal(lm_grammar_gbnf(text, strlen(text), NULL, &g, &e), LM_OK);
    assert_int_equal(lm_grammar_after(g, &with, 1, false, &lazy, &e), LM_OK);
    assert_int_equal(lm_grammar_after(g, &behind, 1, true, &after, &e), LM_OK);
    assert_int_equal(lm_grammar_after(g, &wrong, 1, true, &never, &e), LM_USAGE);
    lm_grammar_free(g);
    const struct { const lm_grammar *g; const char *text; bool whole; } cases[] = {
        { lazy, "any text", true },          { lazy, "a <too <tool>12</tool>", true }, { lazy, "<tool>x", false },
        { lazy, "<<tool>7</tool>", true },   { lazy, "<tool>7</tool> more", false },   { after, "I think", false },
        { after, "hm</think><tool>1</tool>", true }, { after, "hm</thin</think>x", false }, { lazy, "", true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(lm_grammar_matches(cases[i].g, cases[i].text, strlen(cases[i].text), &whole, &fits,
                                            &e),
                         LM_OK);
        if (whole != cases[i].whole)
            fail_msg("%s", cases[i].text);
    }
    lm_constraint *c;
    uint64_t      *mask = calloc(words, sizeof *mask);
    assert_int_equal(lm_constraint_new(lazy, vocabulary, &c, &e), LM_OK);
    assert_int_equal(lm_constraint_mask(c, mask, &e), LM_OK);
    assert_true(bit(mask, lm_tokenizer_find(tokenizer, "<|im_start|>")) &&
                bit(mask, lm_tokenizer_eos(tokenizer)));
    lm_constraint_free(c);
    lm_grammar_free(lazy);
    lm_grammar_free(after);
    free(mask);
}

/* The hook of a sequence takes the tokens of its first call as the prompt. */
static void hook_masks_logits(void **state)
{
    static const char *const words_of[] = { "yes", "no" };
    lm_token ids[4] = { 1, 2, lm_tokenizer_find(tokenizer, "y"), 0 }, es = lm_tokenizer_find(tokenizer, "es");
    float         *logits = calloc(size, sizeof *logits);
    lm_grammar    *g;
    lm_constraint *c;
    lm_error       e;

    (void)state;
    assert_int_equal(lm_grammar_choice(words_of, 2, NULL, &g, &e), LM_OK);
    assert_int_equal(lm_constraint_new(g, vocabulary, &c, &e), LM_OK);
    assert_int_equal(lm_constraint_logits(c, logits, size, ids, 2, &e), LM_OK);
    assert_true(logits[ids[2]] == 0 && logits[es] < -1e30f);
    for (uint32_t i = 0; i < size; i++)
        logits[i] = 0;
    assert_int_equal(lm_constraint_logits(c, logits, size, ids, 3, &e), LM_OK);
    assert_true(logits[ids[2]] < -1e30f && logits[es] == 0);
    lm_constraint_free(c);
    lm_grammar_free(g);
    free(logits);
}

/* A mask that was computed once is computed again without an allocation. */
static void steady_state_allocates_nothing(void **state)
{
    lm_grammar    *g = grammar(0, true);
    lm_constraint *c;
    uint64_t      *mask = calloc(words, sizeof *mask);
    lm_error       e;

    (void)state;
    assert_int_equal(lm_constraint_new(g, vocabulary, &c, &e), LM_OK);
    for (unsigned round = 0; round < 3; round++) {
        uint64_t before = lm_alloc_statistics().calls;
        uint32_t seed = 5;
        lm_constraint_reset(c);
        for (unsigned k = 0; k < 60 && !lm_constraint_ended(c); k++) {
            assert_int_equal(lm_constraint_mask(c, mask, &e), LM_OK);
            assert_int_equal(lm_constraint_accept(c, choose(mask, &seed), &e), LM_OK);
        }
        if (round)
            assert_int_equal(lm_alloc_statistics().calls, before);
    }
    lm_constraint_free(c);
    lm_grammar_free(g);
    free(mask);
}

/* A grammar whose states keep growing in number runs in bounded memory: nested counters, over two million
 * tokens. */
static void memory_is_bounded(void **state)
{
    static const char *text = "([ab]{0,90000}c){0,90000}";
    lm_token           a = lm_tokenizer_find(tokenizer, "a"), c_token = lm_tokenizer_find(tokenizer, "c");
    uint64_t           live = 0;
    lm_grammar        *g;
    lm_constraint     *c;
    lm_error           e;

    (void)state;
    assert_int_equal(lm_grammar_regex(text, strlen(text), NULL, &g, &e), LM_OK);
    assert_int_equal(lm_constraint_new(g, vocabulary, &c, &e), LM_OK);
    for (unsigned round = 0; round < 26; round++) {
        for (unsigned i = 0; i < 90000; i++)
            assert_int_equal(lm_constraint_accept(c, a, &e), LM_OK);
        assert_int_equal(lm_constraint_accept(c, a, &e), LM_FAILED);
        assert_int_equal(lm_constraint_accept(c, c_token, &e), LM_OK);
        if (round == 12)
            live = lm_alloc_statistics().live_bytes;
    }
    assert_true(lm_alloc_statistics().live_bytes < live + (16 << 20));
    lm_constraint_free(c);
    lm_grammar_free(g);
}

/* A stack of 200,000 open brackets unwinds completely. */
static void deep_texts_are_read(void **state)
{
    static const char *text = "root ::= pair*\npair ::= \"(\" pair* \")\"";
    lm_token           open = lm_tokenizer_find(tokenizer, "("), close = lm_tokenizer_find(tokenizer, ")");
    lm_grammar        *g;
    lm_constraint     *c;
    lm_error           e;

    (void)state;
    assert_int_equal(lm_grammar_gbnf(text, strlen(text), NULL, &g, &e), LM_OK);
    assert_int_equal(lm_constraint_new(g, vocabulary, &c, &e), LM_OK);
    for (unsigned i = 0; i < 200000; i++)
        assert_int_equal(lm_constraint_accept(c, open, &e), LM_OK);
    for (unsigned i = 0; i < 200000; i++)
        assert_int_equal(lm_constraint_accept(c, close, &e), LM_OK);
    assert_true(lm_constraint_complete(c));
    assert_int_equal(lm_constraint_accept(c, close, &e), LM_FAILED);
    lm_constraint_free(c);
    lm_grammar_free(g);
}

static int open_all(void **state)
{
    lm_error e;
    bool     text;

    char     path[4096];

    (void)state;
    snprintf(path, sizeof path, "%s/smollm2-135m-instruct-q4_1.gguf", getenv("LAMINA_ASSETS"));
    if (lm_tokenizer_open(path, NULL, &tokenizer, &e) != LM_OK ||
        lm_vocabulary_new(tokenizer, 0, NULL, 0, &vocabulary, &e) != LM_OK) {
        print_message("%s\n", e.message);
        return 1;
    }
    size  = lm_vocabulary_size(vocabulary);
    words = (size + 63) / 64;
    at    = calloc(size + 1, sizeof *at);
    for (uint32_t i = 0; i < size; i++) {
        at[i] = bytes.size;
        if (lm_token_spelled(tokenizer, (lm_token)i, &text, &bytes, &e) != LM_OK)
            return 1;
    }
    at[size] = bytes.size;
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    lm_vocabulary_free(vocabulary);
    lm_tokenizer_free(tokenizer);
    lm_text_free(&bytes);
    free(at);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_what_bytes_say),
        cmocka_unit_test(tokens_by_name),
        cmocka_unit_test(triggers_start_the_grammar),
        cmocka_unit_test(hook_masks_logits),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(deep_texts_are_read),
        cmocka_unit_test(steady_state_allocates_nothing),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
