/* A hundred texts on the demo model: the log-probability of every token equals transformers' to 1e-4
 * relative, whatever the number of rows in a step; invalid arguments are rejected. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "lamina/lamina.h"

static lm_model  *model;
static lm_engine *exact;

static lm_engine *engine(uint32_t logit_rows)
{
    lm_engine_options o = {
        .context = 512, .max_rows = 512, .max_logits = logit_rows, .kv = LM_KV_F32, .compute = LM_COMPUTE_F32
    };
    lm_engine *g = NULL;
    lm_error e;

    if (lm_engine_new(model, &o, &g, &e) != LM_OK)
        fail_msg("%s", e.message);
    return g;
}

typedef struct compared { const json_t *expected; double worst, sum; size_t n; uint32_t ranks; } compared;

static bool compare(void *arg, const lm_token_score *t)
{
    compared *c = arg;
    double theirs = json_real_value(json_array_get(c->expected, t->position - 1));
    double d = fabs(t->logprob - theirs) / fmax(1, fabs(theirs));

    assert_int_equal(t->position, ++c->n);
    assert_int_equal(t->n_top, 2);
    assert_true(t->top[0].logprob >= t->top[1].logprob);
    assert_int_equal(t->rank == 0, t->top[0].logprob == (float)t->logprob);
    c->worst = d > c->worst ? d : c->worst;
    c->sum += t->logprob;
    return true;
}

static size_t ids_of(const json_t *text, lm_token *out, size_t max)
{
    const json_t *ids = json_object_get(text, "ids");
    size_t n = json_array_size(ids);

    assert_in_range(n, 2, max);
    for (size_t i = 0; i < n; i++)
        out[i] = (lm_token)json_integer_value(json_array_get(ids, i));
    return n;
}

/* Of the 100 texts, which differ in nothing but their words, every third is scored; with sanitizers every
 * thirtieth. */
#ifdef __SANITIZE_ADDRESS__
enum { EVERY = 30 };
#else
enum { EVERY = 3 };
#endif

static void costs_of_texts_equal_the_reference(void **state)
{
    char path[512], *line = NULL;
    size_t room = 0, texts = 0;
    double worst = 0;
    (void)state;

    snprintf(path, sizeof path, "%s/golden/smollm2/scores.jsonl", getenv("LAMINA_TESTS"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (; getline(&line, &room, f) > 0; texts++) {
        if (texts % EVERY)
            continue;
        json_t *text = json_loads(line, 0, NULL);
        compared c = { .expected = json_object_get(text, "logprobs") };
        lm_score_options o = { .top = 2, .token = compare, .arg = &c };
        lm_token ids[512];
        size_t n = ids_of(text, ids, 512);
        lm_score s;
        lm_error e;

        if (lm_score_text(exact, ids, n, &o, &s, &e) != LM_OK)
            fail_msg("%s", e.message);
        assert_int_equal(s.n_tokens, n);
        assert_int_equal(c.n, n - 1);
        assert_true(s.logprob == c.sum);
        assert_true(fabs(log(s.perplexity) + s.logprob / (double)(n - 1)) < 1e-12);
        worst = c.worst > worst ? c.worst : worst;
        json_decref(text);
    }
    free(line);
    fclose(f);
    assert_int_equal(texts, 100);
    if (!(worst < 1e-4))
        fail_msg("a token's log-probability differs by %g", worst);
    printf("largest difference %.2g\n", worst);
}

static void rows_in_a_step_do_not_matter(void **state)
{
    static const lm_token ids[] = { 504, 2365, 6354, 16438, 27003, 690, 260, 23790, 2767, 30, 504, 2365 };
    lm_engine *one = engine(1), *five = engine(5);
    lm_score a, b;
    (void)state;

    assert_int_equal(lm_score_text(one, ids, 12, NULL, &a, NULL), LM_OK);
    assert_int_equal(lm_score_text(five, ids, 12, NULL, &b, NULL), LM_OK);
    assert_memory_equal(&a, &b, sizeof a);
    lm_engine_free(one);
    lm_engine_free(five);
}

static bool stop(void *arg, const lm_token_score *t)
{
    (void)arg;
    return t->position < 3;
}

static void wrong_input_is_rejected(void **state)
{
    static lm_token ids[600];
    lm_token beyond[] = { 5, 49152 };
    lm_score s = { .n_tokens = 77 };
    (void)state;

    assert_int_equal(lm_score_text(exact, ids, 0, NULL, &s, NULL), LM_USAGE);
    assert_int_equal(lm_score_text(exact, NULL, 3, NULL, &s, NULL), LM_USAGE);
    assert_int_equal(lm_score_text(NULL, ids, 3, NULL, &s, NULL), LM_USAGE);
    assert_int_equal(lm_score_text(exact, ids, 3, NULL, NULL, NULL), LM_USAGE);
    assert_int_equal(lm_score_text(exact, beyond, 2, NULL, &s, NULL), LM_USAGE);
    assert_int_equal(lm_score_text(exact, ids, 513, NULL, &s, NULL), LM_LIMIT);
    assert_int_equal(lm_score_text(exact, ids, 9, &(lm_score_options){ .sequence = 1 }, &s, NULL), LM_USAGE);
    assert_int_equal(lm_score_text(exact, ids, 9, &(lm_score_options){ .top = 49153 }, &s, NULL), LM_USAGE);
    assert_int_equal(lm_score_text(exact, ids, 9, &(lm_score_options){ .token = stop }, &s, NULL),
                     LM_CANCELLED);
    assert_int_equal(s.n_tokens, 77);                    /* written on success only */
    assert_int_equal(lm_score_text(exact, ids, 1, NULL, &s, NULL), LM_OK);
    assert_true(s.logprob == 0 && isnan(s.perplexity));
}

static int open_all(void **state)
{
    char path[512];
    (void)state;

    snprintf(path, sizeof path, "%s/smollm2-135m-instruct-q4_1.gguf", getenv("LAMINA_ASSETS"));
    assert_int_equal(lm_model_open(path, NULL, &model, NULL), LM_OK);
    exact = engine(64);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    lm_engine_free(exact);
    lm_model_close(model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_of_texts_equal_the_reference),
        cmocka_unit_test(rows_in_a_step_do_not_matter),
        cmocka_unit_test(wrong_input_is_rejected),
    };
    return cmocka_run_group_tests_name("runtime/score", tests, open_all, close_all);
}
