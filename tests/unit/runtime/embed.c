/* embed.c - hidden states are those of transformers, for every family; pooled ones follow the definition;
 * steps do not matter. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/container.h"
#include "lamina/embed.h"

static char golden[500];

static lm_container *open_tensors(const char *path)
{
    lm_container *c = NULL;
    lm_error      e = { 0 };

    if (lm_container_open(path, NULL, &c, &e) != LM_OK)
        fail_msg("%s: %s: %s", e.file, e.where, e.message);
    return c;
}

/* The hidden states that transformers computed for one tiny model. */
typedef struct reference {
    lm_container *ids_file;
    lm_token      ids[256];
    size_t        n;
    uint32_t      width;
    const float  *hidden;            /* [n][width] */
} reference;

static reference open_reference(const lm_container *all, const lm_tensor_info *t)
{
    reference r = { .n = t->dims[0], .width = (uint32_t)t->dims[1], .hidden = lm_container_data(all, t) };
    char      path[800];
    int64_t   id;

    snprintf(path, sizeof path, "%s/%s/golden.safetensors", golden, t->name);
    r.ids_file = open_tensors(path);
    const char *ids = lm_container_data(r.ids_file, lm_container_find(r.ids_file, "input_ids"));
    assert_true(r.n <= 256);
    for (size_t i = 0; i < r.n; i++) {
        memcpy(&id, ids + i * sizeof id, sizeof id);
        r.ids[i] = (lm_token)id;
    }
    return r;
}

static lm_engine *open_engine(const lm_model *m, uint32_t rows)
{
    lm_engine_options o = { .context = 256,
                            .max_rows = rows,
                            .kv = LM_KV_F32,
                            .compute = LM_COMPUTE_F32,
                            .hidden = true,
                            .threads = 2 };
    lm_engine        *g = NULL;
    lm_error          e = { 0 };

    /* learned positions limit the context */
    while (lm_engine_new(m, &o, &g, &e) == LM_USAGE && o.context > 1)
        o.context /= 2;
    if (!g)
        fail_msg("%s: %s", e.where, e.message);
    return g;
}

static void embed(lm_engine *g, const reference *r, lm_pooling pooling, bool raw, float *out)
{
    lm_embed_options o = { .pooling = pooling, .raw = raw };
    lm_error         e = { 0 };

    if (lm_embed(g, r->ids, r->n, &o, out, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    assert_int_equal(lm_engine_length(g, 0), 0);
}

/* Return the largest difference, relative to the largest lane of `y`. */
static double distance(const float *x, const float *y, size_t n)
{
    double max = 0, scale = 0;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)x[i] - y[i]);
        max  = d > max ? d : max;
        scale = fabs((double)y[i]) > scale ? fabs((double)y[i]) : scale;
    }
    return max / scale;
}

/* Compute the mean of all rows, or the last row; normalised to length 1 unless `raw`. */
static void pooled(const reference *r, lm_pooling pooling, bool raw, float *out)
{
    double square = 0;

    for (uint32_t k = 0; k < r->width; k++) {
        double sum = 0;
        for (size_t i = pooling == LM_POOLING_LAST ? r->n - 1 : 0; i < r->n; i++)
            sum += r->hidden[i * r->width + k];
        out[k] = (float)(pooling == LM_POOLING_LAST ? sum : sum / (double)r->n);
        square += (double)out[k] * out[k];
    }
    for (uint32_t k = 0; !raw && k < r->width; k++)
        out[k] = (float)(out[k] / sqrt(square));
}

static void check_model(const char *path, const reference *r)
{
    lm_model *m = NULL;
    lm_error  e = { 0 };
    float *ours = malloc(2 * r->n * r->width * sizeof *ours), *again = ours + r->n * r->width, expected[512];

    if (lm_model_open(path, NULL, &m, &e) != LM_OK)
        fail_msg("%s: %s: %s", path, e.where, e.message);
    lm_engine *g = open_engine(m, 64), *narrow = open_engine(m, 5);
    assert_int_equal(lm_engine_hidden_width(g), r->width);
    embed(g, r, LM_POOLING_NONE, true, ours);
    double far = distance(ours, r->hidden, r->n * r->width);
    if (!(far <= 1e-4))
        fail_msg("%s: %g from transformers", path, far);
    for (int k = 0; k < 4; k++) {
        lm_pooling pooling = k & 1 ? LM_POOLING_MEAN : LM_POOLING_LAST;
        embed(g, r, pooling, k & 2, again);
        pooled(r, pooling, k & 2, expected);
        far = distance(again, expected, r->width);
        if (!(far <= 1e-4))
            fail_msg("%s: pooled %g from transformers", path, far);
    }
    if (!strstr(path, "longrope")) {
        embed(narrow, r, LM_POOLING_NONE, true, again);
        assert_memory_equal(ours, again, r->n * r->width * sizeof *ours);
    }
    lm_engine_free(g);
    lm_engine_free(narrow);
    lm_model_close(m);
    free(ours);
}

static void hidden_states_equal_transformers(void **state)
{
    char path[800];
    int  twins = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/embed/hidden.safetensors", golden);
    lm_container *all = open_tensors(path);
    assert_true(lm_container_n_tensors(all) >= 30);
    for (size_t i = 0; i < lm_container_n_tensors(all); i++) {
        const lm_tensor_info *t = lm_container_tensor(all, i);
        reference             r = open_reference(all, t);
        snprintf(path, sizeof path, "%s/%s", golden, t->name);
        check_model(path, &r);
        snprintf(path, sizeof path, "%s/%s/model.gguf", golden, t->name);
        if (access(path, R_OK) == 0) {
            check_model(path, &r);
            twins++;
        }
        lm_container_close(r.ids_file);
    }
    assert_true(twins > 10);
    lm_container_close(all);
}

static void models_without_vectors_are_rejected(void **state)
{
    lm_engine_options without = { .context = 16 };
    lm_embed_options  o = { .pooling = (lm_pooling)7 };
    lm_token          ids[65] = { 1, 2, 3 };
    lm_model         *m = NULL;
    lm_engine        *g = NULL;
    lm_error          e = { 0 };
    float             out[64];
    char              path[800];

    (void)state;
    snprintf(path, sizeof path, "%s/llama/gqa", golden);
    assert_int_equal(lm_model_open(path, NULL, &m, NULL), LM_OK);
    assert_int_equal(lm_engine_new(m, &without, &g, NULL), LM_OK);
    assert_int_equal(lm_engine_hidden_width(g), 0);
    assert_int_equal(lm_embed(g, ids, 3, NULL, out, &e), LM_USAGE);
    lm_engine_free(g);
    without.hidden = true;
    assert_int_equal(lm_engine_new(m, &without, &g, NULL), LM_OK);
    assert_null(lm_engine_hidden(g, 0));
    assert_int_equal(lm_embed(g, ids, 0, NULL, out, &e), LM_USAGE);
    assert_int_equal(lm_embed(g, ids, 3, &o, out, &e), LM_USAGE);
    assert_int_equal(lm_embed(g, ids, 17, NULL, out, &e), LM_LIMIT);
    ids[2] = 1 << 30;
    assert_int_equal(lm_embed(g, ids, 3, NULL, out, &e), LM_USAGE);
    assert_int_equal(lm_engine_length(g, 0), 0);
    ids[2] = 3;
    assert_int_equal(lm_embed(g, ids, 3, NULL, out, &e), LM_OK);
    lm_engine_free(g);
    lm_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hidden_states_equal_transformers),
        cmocka_unit_test(models_without_vectors_are_rejected),
    };
    const char *root = getenv("LAMINA_TESTS");

    snprintf(golden, sizeof golden, "%.400s/golden", root ? root : "tests");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
