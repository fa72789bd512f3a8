/* Facts as the library returns them: paths, missing facts and allocation failures. */
#include "lamina/study/facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "opened.h"

static void values_by_path(void **state)
{
    lm_model *m = open_preset("llama-3.2-3b");
    lm_facts *f = NULL;

    (void)state;
    assert_int_equal(lm_facts_new(m, NULL, &f, NULL), LM_OK);
    assert_int_equal(lm_facts_count(f, "parameters.total"), 3212749824);
    assert_int_equal(lm_facts_count(f, "kv.at[%d].bytes", 8192), 939524096);
    assert_int_equal(lm_facts_count(f, "layers[%d].self_attn.q_proj.parameters", 3), 9437184);
    assert_int_equal(lm_facts_count(f, "model.layers.3.self_attn.q_proj.parameters"), 9437184);
    assert_string_equal(lm_facts_text(f, "attention.type"), "GQA");
    assert_true(lm_facts_truth(f, "architecture.tied") && lm_facts_has(f, "rope.theta[63]") &&
                !lm_facts_has(f, "rope.theta[64]"));
    assert_int_equal(lm_facts_check(f, NULL), LM_OK);
    lm_facts_free(f);
    lm_model_close(m);
}

static void missing_paths_are_named(void **state)
{
    static const char *const paths[] = {
        "parameters.totl", "parameters.total.more", "layers[28]", "layers", "kv.at", "kv.at.x", "kv.at[", "kv.at[-1]", "[1]", ".", "a..b",
        "kv.", "model.layers.99.mlp",
    };
    lm_model *m = open_preset("llama-3.2-1b");
    lm_facts *f = NULL;

    (void)state;
    assert_int_equal(lm_facts_new(m, NULL, &f, NULL), LM_OK);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const lm_fact *x = NULL;
        lm_error       e = { 0 };
        bool there = strcmp(paths[i], "layers") == 0 || strcmp(paths[i], "kv.at") == 0;
        assert_int_equal(lm_facts_find(f, paths[i], &x, &e), there ? LM_OK : LM_NOT_FOUND);
        assert_true(there || *e.message);
    }
    lm_error e;
    assert_int_equal(lm_facts_find(f, "parameters.totl", &(const lm_fact *){ 0 }, &e), LM_NOT_FOUND);
    assert_non_null(strstr(e.message, "total"));
    assert_int_equal(lm_facts_count(f, "no.such.fact"), 0);
    assert_int_equal(lm_facts_check(f, &e), LM_NOT_FOUND);
    lm_facts_free(f);
    lm_model_close(m);
}

/* When any allocation fails, the call returns an error and leaves nothing behind. */
static void memory_may_run_out(void **state)
{
    lm_model *m      = open_preset("llama-3.2-1b");
    uint64_t  before = lm_alloc_statistics().live_bytes;
    bool      whole  = false;

    (void)state;
    for (uint64_t n = 1; n < 4000 && !whole; n += n < 40 ? 1 : 37) {
        lm_view_options v = { 0 };
        lm_facts       *f = NULL;
        lm_text         page = { 0 }, json = { 0 };
        lm_alloc_fail_at(n);
        lm_status status = lm_facts_new(m, NULL, &f, NULL);
        if (status == LM_OK)
            status = lm_facts_view(f, &v, &page, NULL);
        if (status == LM_OK)
            status = lm_facts_json(f, "parameters", &json, NULL);
        lm_alloc_fail_at(0);
        assert_true(status == LM_OK || status == LM_NO_MEMORY || status == LM_NOT_FOUND);
        whole = status == LM_OK && n > 200;
        lm_text_free(&page);
        lm_text_free(&json);
        lm_facts_free(f);
        assert_int_equal(lm_alloc_statistics().live_bytes, before);
    }
    assert_true(whole);
    lm_model_close(m);
}

static void claims(void **state)
{
    static const struct { const char *quantity, *claim; lm_claim verdict; } table[] = {
        { "params.total", "3,212,749,824", LM_CLAIM_CONFIRMED }, { "params.total", "3.21B", LM_CLAIM_ROUNDED },
        { "params.total", "3.6B", LM_CLAIM_WRONG },              { "params.total", "many", LM_CLAIM_NOT_CHECKABLE },
        { "kv.at[8192].bytes", "896 MB", LM_CLAIM_CONFIRMED },   { "kv.at[8192].bytes", "940 MB", LM_CLAIM_ROUNDED },
        { "attention_type", "MHA", LM_CLAIM_WRONG },             { "weight_tying", "yes", LM_CLAIM_CONFIRMED },
        { "norm.eps", "1e-05", LM_CLAIM_CONFIRMED },             { "share.norm", "<0.1%", LM_CLAIM_CONFIRMED },
        { "colour", "blue", LM_CLAIM_NOT_CHECKABLE },
    };
    lm_model *m = open_preset("llama-3.2-3b");
    lm_facts *f = NULL;

    (void)state;
    assert_int_equal(lm_facts_new(m, NULL, &f, NULL), LM_OK);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        lm_judgement j;
        assert_int_equal(lm_facts_judge(f, table[i].quantity, table[i].claim, &j, NULL), LM_OK);
        if (j.verdict != table[i].verdict)
            fail_msg("%s %s: %s", table[i].quantity, table[i].claim, lm_claim_word(j.verdict));
    }
    lm_facts_free(f);
    lm_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_by_path),
        cmocka_unit_test(missing_paths_are_named),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(claims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
