/* quality.c - what the fast arithmetic costs on a real model: divergence from float32 and perplexity, against llama.cpp's
 * on the same data (tests/golden/smollm2, made by tools/oracle/smollm2.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/filemap.h"
#include "base/alloc.h"
#include "formats/container.h"
#include "lamina/lamina.h"
#include <jansson.h>

#define WINDOW 512

static lm_model *model;

static lm_container *open_data(const char *name)
{
    const char   *root = getenv("LAMINA_TESTS");
    char          path[600];
    lm_container *c = NULL;
    lm_error      e = { 0 };

    snprintf(path, sizeof path, "%s/golden/smollm2/%s", root ? root : "tests", name);
    if (lm_container_open(path, NULL, &c, &e) != LM_OK)
        fail_msg("%s: %s", path, e.message);
    return c;
}

static const void *data_of(lm_container *c, const char *name, uint64_t *dims)
{
    const lm_tensor_info *t = lm_container_find(c, name);

    assert_non_null(t);
    memcpy(dims, t->dims, 3 * sizeof *dims);
    return lm_container_data(c, t);
}

static lm_engine *open_engine(void)
{
    lm_engine_options o = { .context = WINDOW, .rows = WINDOW, .logit_rows = WINDOW };
    lm_engine        *g = NULL;
    lm_error          e = { 0 };

    if (lm_engine_new(model, &o, &g, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return g;
}

/* All of a sequence in one step, logits of every position. */
static void feed(lm_engine *g, const int64_t *ids, uint32_t n)
{
    static lm_row rows[WINDOW];
    lm_error      e = { 0 };

    assert_int_equal(lm_engine_truncate(g, 0, 0, NULL), LM_OK);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (lm_row){ 0, (lm_token)ids[i], i, true };
    if (lm_engine_step(g, rows, n, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
}

static double log_sum(const float *x, uint32_t n)
{
    double most = -INFINITY, sum = 0;

    for (uint32_t i = 0; i < n; i++)
        most = fmax(most, (double)x[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - most);
    return most + log(sum);
}

/* One number of llama.cpp's on the same data. */
static double peer(const char *field)
{
    const char *root = getenv("LAMINA_TESTS");
    char        path[600];

    snprintf(path, sizeof path, "%s/golden/smollm2/peer.json", root ? root : "tests");
    json_t *j    = json_load_file(path, 0, NULL);
    json_t *mode = json_object_get(json_object_get(j, "modes"), "default (F16 cache)");
    double  x    = json_number_value(json_object_get(mode, field));
    json_decref(j);
    assert_true(x > 0);
    return x;
}

/* sum p ln(p/q) over the reference's best ids and one outcome for all the others. */
static double divergence(const int32_t *ids, const float *logp, uint64_t n, const float *logits, uint32_t vocabulary)
{
    double total = log_sum(logits, vocabulary), kl = 0, p_rest = 1, q_rest = 1;

    for (uint64_t i = 0; i < n; i++) {
        double p = exp((double)logp[i]), lq = (double)logits[ids[i]] - total;
        kl += p * ((double)logp[i] - lq);
        p_rest -= p;
        q_rest -= exp(lq);
    }
    return p_rest > 1e-12 && q_rest > 1e-12 ? kl + p_rest * log(p_rest / q_rest) : kl;
}

static void divergence_is_below_llama_cpp(void **state)
{
    lm_container  *c = open_data("kl.safetensors");
    uint64_t       d[3], t[3];
    const int64_t *ids   = data_of(c, "input_ids", d);
    const int32_t *top   = data_of(c, "top_ids", t);
    const float   *logp  = data_of(c, "top_logprobs", t);
    lm_engine     *g     = open_engine();
    lm_model_info  info;
    double         sum = 0, most = 0, bar = peer("mean_kl_top");

    (void)state;
    lm_model_describe(model, &info);
    for (uint64_t b = 0; b < d[0]; b++) {
        feed(g, ids + b * d[1], (uint32_t)d[1]);
        for (uint64_t i = 0; i < d[1]; i++) {
            uint64_t at = (b * d[1] + i) * t[2];
            double   kl = divergence(top + at, logp + at, t[2], lm_engine_logits(g, i), info.n_vocab);
            sum += kl;
            most = fmax(most, kl);
        }
    }
    double mean = sum / (double)(d[0] * d[1]);
    printf("  %s: mean KL to float32 %.2e (llama.cpp %.2e), largest %.2e, %llu positions\n", lm_engine_cpu(g), mean, bar, most,
           (unsigned long long)(d[0] * d[1]));
    assert_true(mean <= bar);
    lm_engine_free(g);
    lm_container_close(c);
}

static void perplexity_is_within_a_fifth_of_a_percent(void **state)
{
    lm_container  *c = open_data("text.safetensors");
    uint64_t       d[3], r[3], n = 0;
    const int64_t *ids = data_of(c, "input_ids", d);
    const float   *nll = data_of(c, "nll", r);
    lm_engine     *g   = open_engine();
    lm_model_info  info;
    double         ours = 0, reference = 0;

    (void)state;
    lm_model_describe(model, &info);
    for (uint64_t from = 0; from < d[1]; from += WINDOW) {
        uint32_t size = (uint32_t)(d[1] - from < WINDOW ? d[1] - from : WINDOW);
        feed(g, ids + from, size);
        for (uint32_t i = 1; i < size; i++, n++) {
            const float *logits = lm_engine_logits(g, i - 1);
            ours += log_sum(logits, info.n_vocab) - (double)logits[ids[from + i]];
            reference += (double)nll[from + i];
        }
    }
    double a = exp(ours / (double)n), b = exp(reference / (double)n);
    printf("  %s: perplexity %.4f, float32 %.4f: %+.3f %% (llama.cpp %+.3f %%), %llu tokens\n", lm_engine_cpu(g), a, b,
           100 * (a / b - 1), 100 * (peer("perplexity_ratio") - 1), (unsigned long long)n);
    assert_true(n >= 6000);
    assert_true(fabs(a / b - 1) <= 0.002);
    lm_engine_free(g);
    lm_container_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divergence_is_below_llama_cpp),
        cmocka_unit_test(perplexity_is_within_a_fifth_of_a_percent),
    };
    const char *assets = getenv("LAMINA_ASSETS");
    char        path[600];
    lm_error    e = { 0 };

    snprintf(path, sizeof path, "%s/smollm2-135m-instruct-q4_1.gguf", assets ? assets : "build/assets");
    if (access(path, R_OK) != 0 && getenv("LAMINA_ALLOW_MISSING_ASSETS"))
        return 77;
    if (lm_model_open(path, NULL, &model, &e) != LM_OK) {
        fprintf(stderr, "%s: %s\n", path, e.message);
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lm_model_close(model);
    return failed;
}
