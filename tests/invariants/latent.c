/* latent.c - latent attention of every golden that has one: both forms give the same logits, and the absorbed
 * one caches only the latent and the rotated lanes of each position. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "models.h"
#include "runtime/engine/state.h"

#define MAX  1024
#define ROWS  140                /* three pages */

/* Pages of states per sequence: that of the last position, that which a step writes, and one earlier. */
enum { STATE_PAGES = 3 };

static golden_model models[MAX];
static size_t       n_models;

/* Return the elements per position and layer according to config.json: kv_lora_rank + qk_rope_head_dim; 0
 * without a latent. */
static uint64_t elements_of(const golden_model *model)
{
    char    path[600];
    json_t *j;

    snprintf(path, sizeof path, "%.511s/config.json", model->folder);
    j               = json_load_file(path, 0, NULL);
    json_int_t rank = json_integer_value(json_object_get(j, "kv_lora_rank"));
    json_int_t rope = json_integer_value(json_object_get(j, "qk_rope_head_dim"));
    json_decref(j);
    return rank ? (uint64_t)(rank + rope) : 0;
}

static lm_engine *start(const lm_model *m, lm_compute compute, lm_kv_type kv, unsigned threads)
{
    lm_engine_options o = {
        .context = 192, .max_rows = ROWS, .max_logits = ROWS, .kv = kv, .compute = compute, .threads = threads
    };
    lm_engine        *g = NULL;
    lm_error          e = { 0 };

    if (lm_engine_new(m, &o, &g, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return g;
}

static lm_model *open_form(const golden_model *model, const char *form)
{
    lm_model_options o = { .mla = form };
    lm_model        *m = NULL;
    lm_error         e = { 0 };

    if (lm_model_open(model->path, &o, &m, &e) != LM_OK)
        fail_msg("%s: %s: %s", model->name, e.where, e.message);
    return m;
}

static void feed(lm_engine *g)
{
    lm_row   rows[ROWS];
    lm_error e = { 0 };

    for (uint32_t i = 0; i < ROWS; i++)
        rows[i] = (lm_row){ 0, (lm_token)((i * 2654435761u + 17) % g->program->n_vocab), i, true };
    if (lm_engine_step(g, rows, ROWS, &e) != LM_OK)
        fail_msg("%s", e.message);
}

static double difference(const lm_engine *a, const lm_engine *b)
{
    double worst = 0;

    for (uint32_t i = 0; i < ROWS; i++) {
        const float *x = lm_engine_logits(a, i), *y = lm_engine_logits(b, i);
        double       max = 0, apart = 0;
        for (uint32_t k = 0; k < a->program->n_vocab; k++) {
            apart = fmax(apart, fabs((double)x[k] - y[k]));
            max  = fmax(max, fabs(y[k]));
            assert_true(isfinite(x[k]));
        }
        worst = fmax(worst, apart / max);
    }
    return worst;
}

static void both_forms_agree(void **state)
{
    size_t seen = 0;

    (void)state;
    for (size_t i = 0; i < n_models; i++) {
        if (!elements_of(&models[i]))
            continue;
        lm_model  *absorbed = open_form(&models[i], NULL), *naive = open_form(&models[i], "naive");
        lm_engine *a = start(absorbed, LM_COMPUTE_F32, LM_KV_F32, 2),
                  *n = start(naive, LM_COMPUTE_F32, LM_KV_F32, 2);
        feed(a);
        feed(n);
        double apart = difference(a, n);
        printf("  %-36s naive and absorbed differ by %.2e\n", models[i].name, apart);
        if (!(apart <= 1e-5))
            fail_msg("%s: naive and absorbed differ by %g", models[i].name, apart);
        assert_int_equal(lm_program_parameters(absorbed->program), lm_program_parameters(naive->program));
        assert_int_equal(absorbed->weight_bytes, naive->weight_bytes);
        lm_engine_free(a);
        lm_engine_free(n);
        lm_model_close(absorbed);
        lm_model_close(naive);
        seen++;
    }
    assert_true(seen >= 8);
}

/* Return the bytes of a page: the states of a sequence, each at a multiple of 64 bytes. */
static uint64_t state_bytes(const lm_program *p)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < p->n_states; i++)
        bytes += (p->states[i].floats * sizeof(float) + 63) / 64 * 64;
    return bytes;
}

/* Return the elements of a position in all layers: latents, and the keys of indexers. */
static uint64_t cached(const lm_program *p, uint64_t latent)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_ATTENTION)
            sum += latent;
        else if (p->nodes[i].code == LM_OP_SELECT_KEYS)
            sum += p->nodes[i].attention.spec.k_dim;
    return sum;
}

/* The pages have positions × (latent + rotated lanes) × layers with attention × bytes of an element,
 * and those of the keys of indexers. */
static void the_cache_holds_the_latent_alone(void **state)
{
    static const struct {
        lm_kv_type type;
        uint64_t   bytes;
    } types[] = { { LM_KV_F16, 2 }, { LM_KV_F32, 4 }, { LM_KV_BF16, 2 } };

    (void)state;
    for (size_t i = 0; i < n_models; i++) {
        uint64_t elements = elements_of(&models[i]);
        if (!elements)
            continue;
        lm_model *m = open_form(&models[i], "absorbed");
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            lm_engine        *g = start(m, LM_COMPUTE_AUTO, types[t].type, 1);
            lm_engine_options o = {
                .context = 192, .max_rows = ROWS, .max_logits = ROWS, .kv = types[t].type, .threads = 1
            };
            lm_memory         planned, allocated;
            lm_error          e = { 0 };
            assert_int_equal(lm_engine_predict(m, &o, &planned, &e), LM_OK);
            lm_engine_allocated(g, &allocated);
            assert_int_equal(allocated.kv, 192 * cached(m->program, elements) * types[t].bytes +
                                               STATE_PAGES * state_bytes(m->program));
            assert_int_equal(allocated.kv, planned.kv);
            assert_int_equal(allocated.total, planned.total);
            lm_engine_free(g);
        }
        lm_model_close(m);
    }
}

static void another_form_is_rejected(void **state)
{
    lm_model_options o = { .mla = "expanded" };
    lm_model        *m = NULL;
    lm_error         e = { 0 };

    (void)state;
    assert_int_equal(lm_model_open(models[0].path, &o, &m, &e), LM_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_agree),
        cmocka_unit_test(the_cache_holds_the_latent_alone),
        cmocka_unit_test(another_form_is_rejected),
    };
    n_models = golden_models(models, MAX);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
