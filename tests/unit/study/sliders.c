/* Every stop of the sliders shows exactly the bytes that the engine plans at those settings, and the speed
 * that it predicts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "study/page/sliders.h"
#include "opened.h"

static const lm_limits limits = { .level = "avx2",
                                  .int8 = { .all = 400e9 },
                                  .bf16 = { .all = 90e9 },
                                  .f32 = { .all = 80e9 },
                                  .memory = { .all = 12e9 },
                                  .threads = 2 };

static lm_kv_type type_of(lm_dtype type)
{
    static const lm_dtype types[] = {
        [LM_KV_F16] = LM_F16,   [LM_KV_F32] = LM_F32,   [LM_KV_BF16] = LM_BF16,
        [LM_KV_Q8_0] = LM_Q8_0, [LM_KV_Q4_0] = LM_Q4_0, [LM_KV_Q5_1] = LM_Q5_1
    };
    int i = 0;

    while (types[i] != type)
        i++;
    return (lm_kv_type)i;
}

static lm_facts *facts_at(const lm_model *m, uint64_t context, uint64_t batch, lm_cache_types kv,
                          const char *precision)
{
    lm_facts_options o = { .limits = &limits, .precision = precision };
    lm_facts        *f = NULL;
    lm_error         e;

    o.engine.context   = (uint32_t)context;
    o.engine.sequences = (uint32_t)batch;
    o.engine.threads   = 2;
    o.engine.kv        = type_of(kv.k);
    o.engine.kv_values = type_of(kv.v);
    o.engine.kv_apart  = true;
    if (lm_facts_new(m, &o, &f, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return f;
}

static void same(double a, double b)
{
    assert_true(a == b || (a - b < 1e-9 * b && b - a < 1e-9 * b));
}

static void compare_stop(const lm_model *m, const lm_sliders *s, uint32_t p, uint32_t k, uint32_t b,
                         uint32_t c)
{
    lm_facts *f = facts_at(m, s->contexts[c], s->batches[b], s->kv[k], s->precisions[p]);

    assert_int_equal(s->weights[p], lm_facts_count(f, "memory.weights"));
    assert_int_equal(s->mapped[p], lm_facts_count(f, "memory.mapped"));
    assert_int_equal(s->cache[k][b][c], lm_facts_count(f, "memory.kv"));
    assert_int_equal(s->values[p][b] + s->threads[p][k] + s->bookkeeping[b][c],
                     lm_facts_count(f, "memory.scratch"));
    assert_int_equal(s->per_token[k], lm_facts_count(f, "kv.bytes_per_token"));
    assert_int_equal(s->flops[c], lm_facts_count(f, "flops.at_context"));
    assert_int_equal(s->prefill[c], lm_facts_count(f, "flops.prefill"));
    unsigned long long at = s->contexts[c];
    same(s->generation[p][k][b][c].tokens_per_second,
         lm_facts_number(f, "speed.generation_at[%llu].tokens_per_second", at));
    assert_string_equal(s->generation[p][k][b][c].limited_by,
                        lm_facts_text(f, "speed.generation_at[%llu].limited_by", at));
    same(s->prompt[p][k].tokens_per_second, lm_facts_number(f, "speed.prompt.tokens_per_second"));
    assert_string_equal(s->prompt[p][k].limited_by, lm_facts_text(f, "speed.prompt.limited_by"));
    assert_int_equal(lm_facts_check(f, NULL), LM_OK);
    lm_facts_free(f);
}

/* Grouped and latent attention, windows, experts, learned positions with a hard context, ALiBi. */
static void stops_are_what_is_planned(void **state)
{
    static const char *const presets[] = {
        "llama-3.2-1b", "deepseek-v2-lite", "gemma-2-2b", "granite-3.0-1b-a400m", "gpt2", "mpt-7b", "phi-1.5"
    };
    unsigned                 n = 0;

    (void)state;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        lm_model   *m = open_preset(presets[i]);
        lm_facts   *f = facts_at(m, 0, 0, (lm_cache_types){ LM_F16, LM_F16 }, NULL);
        lm_sliders *s = lm_sliders_of(f);
        assert_non_null(s);
        assert_true(s->n_contexts >= 2 && s->n_batches >= 4 && s->n_kv >= 3 && s->n_precisions >= 6 &&
                    s->rated);
        /* a commonly used length */
        assert_int_equal(s->contexts[s->context], f->s.context < 8192 ? f->s.context : 8192);
        assert_int_equal(s->batches[s->batch], 1);
        assert_int_equal(s->kv[s->kv_now].k, LM_F16);
        assert_int_equal(s->kv[s->kv_now].v, LM_F16);
        assert_string_equal(s->precisions[s->precision], f->s.precision);
        uint32_t all = s->n_precisions * s->n_kv * s->n_batches * s->n_contexts;
        /* 13 divides no number of stops: all occur */
        for (uint32_t at = (uint32_t)i; at < all; at += 13, n++)
            compare_stop(m, s, at % s->n_precisions, at / s->n_precisions % s->n_kv,
                         at / s->n_precisions / s->n_kv % s->n_batches,
                         at / s->n_precisions / s->n_kv / s->n_batches);
        lm_facts_free(f);
        lm_model_close(m);
    }
    assert_true(n > 150);
}

/* The requested settings are a stop, too. */
static void own_settings_are_stops(void **state)
{
    lm_model   *m = open_preset("llama-3.2-1b");
    lm_facts   *f = facts_at(m, 3000, 7, (lm_cache_types){ LM_Q8_0, LM_Q4_0 }, "Q5_K_M");
    lm_sliders *s = lm_sliders_of(f);

    (void)state;
    assert_non_null(s);
    assert_int_equal(s->contexts[s->context], 3000);
    assert_int_equal(s->batches[s->batch], 7);
    assert_int_equal(s->kv[s->kv_now].k, LM_Q8_0);
    assert_int_equal(s->kv[s->kv_now].v, LM_Q4_0);
    assert_string_equal(s->precisions[s->precision], "Q5_K_M");
    compare_stop(m, s, s->precision, s->kv_now, s->batch, s->context);
    lm_facts_free(f);
    lm_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(stops_are_what_is_planned),
                                        cmocka_unit_test(own_settings_are_stops) };

    return cmocka_run_group_tests_name("sliders", tests, NULL, NULL);
}
