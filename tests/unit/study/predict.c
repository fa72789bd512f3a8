/* predict.c - the roofline uses the program's counts, and rates follow the slower resource. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "study/facts/counts.h"
#include "study/facts/predict.h"
#include "base/alloc.h"
#include "opened.h"
#include "program/builder.h"
#include "runtime/engine/engine_plan.h"

enum { WIDTH = 64, HEADS = 4, KV = 2, LANES = 16, VOCAB = 96, LAYERS = 2 };

static lm_program *program(uint32_t window)
{
    static const lm_name none[] = { { NULL, NULL } };
    lm_attention_spec s = {
        .n_heads = HEADS, .n_kv_heads = KV, .k_dim = LANES, .v_dim = LANES, .scale = 0.25f, .window = window
    };
    lm_builder          *b = lm_builder_new("test", "Test", NULL, none);
    lm_program          *p = NULL;
    lm_value             x = lm_embedding(b, "embed", VOCAB, WIDTH);

    lm_push(b, "layers", "ModuleList");
    for (uint32_t i = 0; i < LAYERS; i++) {
        lm_push_layer(b, i, "Layer");
        lm_value h = lm_rms_norm(b, "norm", x, 1e-5f);
        lm_value q = lm_linear(b, "q_proj", h, HEADS * LANES, false),
                 k = lm_linear(b, "k_proj", h, KV * LANES, false);
        lm_value v = lm_linear(b, "v_proj", h, KV * LANES, false);
        x          = lm_add(b, x, lm_linear(b, "o_proj", lm_attention(b, q, k, v, &s), WIDTH, false));
        lm_pop(b);
    }
    lm_pop(b);
    lm_context_length(b, 4096, false);
    assert_int_equal(lm_builder_finish(b, lm_head(b, "head", x, VOCAB, NULL), &p, NULL), LM_OK);
    return p;
}

typedef struct fixture {
    lm_program *p;
    lm_kernels  k;
    lm_dtype    types[64];
    lm_plan    *plan;
} fixture;

static void make(fixture *f, uint32_t window, lm_dtype type)
{
    lm_plan_options o = { .max_rows = 16,
                          .max_logits = 4,
                          .sequences = 4,
                          .context = 4096,
                          .cache = { LM_F16, LM_F16 },
                          .workers = 1 };

    memset(f, 0, sizeof *f);
    f->p = program(window);
    for (uint32_t w = 0; w < f->p->n_weights; w++)
        f->types[w] = f->p->weights[w].kind == LM_VECTOR ? LM_F32 : type;
    lm_kernels_init(&f->k, 0);
    o.kernels = &f->k;
    o.types   = f->types;
    assert_int_equal(lm_plan_new(f->p, &o, &f->plan, NULL), LM_OK);
}

static void drop(fixture *f)
{
    lm_plan_free(f->plan);
    lm_program_free(f->p);
}

static const lm_peaks machine = { .int8 = 2e9, .f16 = 1e9, .f32 = 5e8, .memory = 1e8, .by_type = true };

/* The operations equal those that the analyser counts, and a window bounds them. */
static void test_operations(void **state)
{
    static const uint64_t contexts[] = { 1, 17, 64, 1000 };
    (void)state;

    for (uint32_t window = 0; window <= 32; window += 32) {
        fixture       f;
        lm_prediction one;
        make(&f, window, LM_F16);
        for (size_t i = 0; i < 4; i++) {
            lm_predict_token(f.plan, &machine, contexts[i], 1, &one);
            assert_int_equal(one.operations, lm_flops_at(f.p, contexts[i]));
        }
        drop(&f);
    }
}

/* Weights are read once whatever the number of sequences, the cache once per sequence. */
static void test_bytes(void **state)
{
    fixture       f;
    lm_prediction one, four;
    lm_kv_counts  kv;
    uint64_t      weights = 0;
    (void)state;

    make(&f, 0, LM_F16);
    for (uint32_t w = 0; w < f.p->n_weights; w++)
        if (f.p->weights[w].kind == LM_MATRIX)
            weights += 2 * f.p->weights[w].elements;
    lm_count_kv(f.p, (lm_cache_types){ LM_F16, LM_F16 }, 100, 1, &kv);
    lm_predict_token(f.plan, &machine, 100, 1, &one);
    lm_predict_token(f.plan, &machine, 100, 4, &four);
    assert_int_equal(one.bytes, weights + kv.bytes_at_context);
    assert_int_equal(four.bytes, weights + 4 * kv.bytes_at_context);
    assert_true(four.tokens_per_second > one.tokens_per_second);
    drop(&f);
}

/* ---- published models: separate matrices per head (MLA), experts, windows ---- */

/* Return the bytes of float16 weights that one token's products read; only the experts that it visits
 * count. */
static uint64_t bytes_of_products(const lm_program *p)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->code == LM_OP_LINEAR || n->code == LM_OP_HEAD_LINEAR)
            bytes += 2 * p->weights[n->weights[0]].elements;
        for (uint32_t k = 0; n->code == LM_OP_EXPERTS && k < 3; k++)
            bytes += 2 * p->weights[n->weights[k]].elements / n->experts.n_experts * n->experts.top_k;
    }
    return bytes;
}

static void predict_preset(const char *name, uint64_t context)
{
    lm_engine_options o     = { .cpu = "ref", .threads = 1, .context = 8192, .sequences = 2 };
    lm_model         *m     = open_preset(name);
    lm_dtype         *types = lm_alloc((m->program->n_weights + 1) * sizeof *types);
    lm_arena          arena = { 0 };
    lm_plan          *plan  = NULL;
    lm_kernels        k;
    lm_prediction     one, two;
    lm_kv_counts      kv;
    lm_engine_subject subject = { .model = m, .options = &o, .types = types };

    assert_non_null(types);
    for (uint32_t w = 0; w < m->program->n_weights; w++)
        types[w] = m->program->weights[w].kind == LM_VECTOR ? LM_F32 : LM_F16;
    assert_int_equal(lm_engine_plan(&subject, &k, &arena, &plan, NULL), LM_OK);
    lm_count_kv(m->program, (lm_cache_types){ LM_F16, LM_F16 }, context, 1, &kv);
    lm_predict_token(plan, &machine, context, 1, &one);
    lm_predict_token(plan, &machine, context, 2, &two);
    assert_true(one.operations == lm_flops_at(m->program, context));
    assert_true(one.bytes == bytes_of_products(m->program) + kv.bytes_at_context);
    assert_true(two.operations == 2 * one.operations);
    assert_true(two.bytes > one.bytes && two.bytes <= 2 * one.bytes);
    lm_plan_free(plan);
    lm_arena_free(&arena);
    lm_free(types);
    lm_model_close(m);
}

static void test_published_models(void **state)
{
    static const char *const names[] = { "deepseek-v2-lite",  "deepseek-v2", "deepseek-v3",
                                         "mixtral-8x7b-v0.1", "gemma-2-2b",  "mistral-7b-v0.1",
                                         "llama-3.2-3b" };
    (void)state;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        predict_preset(names[i], 1);
        predict_preset(names[i], 5000);
    }
}

/* The time lies between that of the slower of the two resources and their sum; the limit names the slower
 * one. */
static void test_limits(void **state)
{
    fixture       f;
    lm_prediction token, prompt, slow;
    lm_peaks      weak = machine;
    (void)state;

    make(&f, 0, LM_Q8_0);
    lm_predict_token(f.plan, &machine, 1, 1, &token);
    assert_string_equal(token.limited_by, "memory");
    lm_predict_prompt(f.plan, &machine, 64, &prompt);
    assert_string_equal(prompt.limited_by, "int8");
    assert_true(prompt.seconds >= fmax(prompt.reading, prompt.computing) &&
                prompt.seconds <= prompt.reading + prompt.computing);
    weak.int8 = 0;                       /* the next wider type computes */
    lm_predict_prompt(f.plan, &weak, 64, &slow);
    assert_string_equal(slow.limited_by, "f16");
    assert_true(slow.seconds > prompt.seconds);
    drop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_published_models),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
