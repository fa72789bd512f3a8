/* differences.c - gradients of whole programs compared with finite differences of the loss, for every golden
 * model: a missing or wrong rule shows without external references. Gradients are bitwise equal for any
 * threads, split of the calls and checkpointed layers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "models.h"
#include "program/adapt.h"
#include "runtime/model/model.h"
#include "train/learner.h"

enum { MAX = 1024, TEXTS = 3, ROWS = 30 };

#define LIMIT 0.02

static golden_model models[MAX];

static const uint32_t lengths[TEXTS] = { 13, 7, 10 };

/* Make random ids; the first two rows and the last row of each text have no label. */
static void make_rows(uint32_t n_vocab, uint64_t seed, int32_t *tokens, int32_t *labels, lm_train_text *texts)
{
    lm_rng   r = lm_rng_stream(7, seed);
    uint32_t at = 0;

    for (uint32_t t = 0; t < TEXTS; t++) {
        texts[t] = (lm_train_text){ at, lengths[t], t };
        for (uint32_t i = 0; i < lengths[t]; i++)
            tokens[at + i] = (int32_t)(lm_rng_u32(&r) % n_vocab);
        for (uint32_t i = 0; i < lengths[t]; i++)
            labels[at + i] = i < 2 || i + 1 == lengths[t] ? -100 : tokens[at + i + 1];
        at += lengths[t];
    }
}

static uint32_t labels_in(const int32_t *labels)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < ROWS; i++)
        n += labels[i] >= 0;
    return n;
}

static lm_model *open_model(const golden_model *g)
{
    lm_model_options o = lm_model_defaults();
    lm_model        *m = NULL;
    lm_error         e = { 0 };
    char             text[600];

    o.adaptable = true;
    if (lm_model_open(g->path, &o, &m, &e) != LM_OK)
        fail_msg("%s: %s", g->name, lm_error_text(&e, text, sizeof text));
    return m;
}

/* Mark every weight that has a gradient; the caller frees. */
static bool *all_weights(const lm_program *p)
{
    bool *wanted = calloc(p->n_weights + 1, sizeof *wanted);

    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
            if (p->nodes[i].weights[k] != LM_NONE && p->nodes[i].code != LM_OP_ROUTE &&
                !p->weights[p->nodes[i].weights[k]].constant)
                wanted[p->nodes[i].weights[k]] = true;
    return wanted;
}

static lm_learner *start(const char *name, const lm_model *m, const bool *wanted, lm_learner_options o)
{
    lm_learner *l = NULL;
    lm_error    e = { 0 };
    char        text[600];

    o.longest = o.longest ? o.longest : 13;
    o.rows    = o.rows ? o.rows : ROWS;
    if (lm_learner_new(m, m->program, wanted, &o, &l, &e) != LM_OK)
        fail_msg("%s: %s", name, lm_error_text(&e, text, sizeof text));
    return l;
}

static const lm_learner_options plain = { .threads = 2, .compute = LM_COMPUTE_F32 };

/* Return the loss at value + h direction. */
static double loss_at(lm_learner *l, lm_trained *t, const float *kept, const float *direction, double h,
                      const int32_t *tokens, const int32_t *labels, const lm_train_text *texts)
{
    for (uint64_t i = 0; i < t->elements; i++)
        t->value[i] = (float)((double)kept[i] + h * (double)direction[i]);
    return lm_learner_loss(l, tokens, labels, texts, TEXTS) / labels_in(labels);
}

/* Return the error of a tensor's gradient against the difference along itself plus a random direction,
 * relative to that derivative plus 1e-3 of `scale`, the norm of the longest gradient. */
static double difference(lm_learner *l, lm_trained *t, double scale, const int32_t *tokens,
                         const int32_t *labels, const lm_train_text *texts)
{
    float   *kept = malloc(t->elements * sizeof *kept), *d = malloc(t->elements * sizeof *d);
    double   norm = 0, size = 0, along = 0, best = INFINITY;
    lm_rng   r = lm_rng_stream(11, t->weight);

    memcpy(kept, t->value, t->elements * sizeof *kept);
    for (uint64_t i = 0; i < t->elements; i++)
        norm += (double)t->gradient[i] * (double)t->gradient[i];
    norm = sqrt(norm);
    for (uint64_t i = 0; i < t->elements; i++) {
        d[i] = (lm_rng_float(&r) - 0.5f) / sqrtf((float)t->elements / 12) * 0.5f +
               (norm > 0 ? t->gradient[i] / (float)norm : 0);
        size += (double)d[i] * (double)d[i];
        along += (double)d[i] * (double)t->gradient[i];
    }
    for (double h = 0.02 / sqrt(size); h > 3e-4 / sqrt(size); h /= 4) {
        double up = loss_at(l, t, kept, d, h, tokens, labels, texts),
               down = loss_at(l, t, kept, d, -h, tokens, labels, texts);
        double off = fabs((up - down) / (2 * h) - along) / (fabs(along) + 1e-3 * scale);
        best       = off < best ? off : best;
    }
    memcpy(t->value, kept, t->elements * sizeof *kept);
    free(kept);
    free(d);
    return best;
}

/* Return the error of a model's worst tensor on one set of rows. */
static double worst_of(const char *name, const lm_model *m, uint64_t seed, uint32_t *tensors)
{
    int32_t       tokens[ROWS], labels[ROWS];
    lm_train_text texts[TEXTS];
    bool         *wanted  = all_weights(m->program);
    lm_learner   *l       = start(name, m, wanted, plain);
    double        longest = 0, off = 0;
    uint32_t      bad     = 0;

    make_rows(m->program->n_vocab, seed, tokens, labels, texts);
    lm_learner_begin(l, labels_in(labels));
    lm_learner_rows(l, tokens, labels, texts, TEXTS);
    lm_learner_end(l);
    for (uint32_t k = 0; k < l->n_trained; k++)
        for (uint64_t j = 0; j < l->trained[k].elements; j++)
            longest = fmax(longest, fabs((double)l->trained[k].gradient[j]));
    assert_true(longest > 0 && isfinite(longest));
    for (uint32_t k = 0; k < l->n_trained; k++) {
        double d = difference(l, &l->trained[k], longest, tokens, labels, texts);
        bad      = d > off ? l->trained[k].weight : bad;
        off      = fmax(off, d);
    }
    *tensors = l->n_trained;
    printf("  %-32s %3u tensors, loss %.5f, worst difference %.1e: %s\n", name, l->n_trained,
           l->loss / labels_in(labels), off, m->program->weights[bad].path);
    lm_learner_free(l);
    free(wanted);
    return off;
}

/* The gradient passes rounded rows as if they were not: it is none of differences. */
static bool rounds(const lm_program *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_ROUND)
            return true;
    return false;
}

/* GGUF twins contain the same numbers, so only Llama's, whose rows are permuted, is tested as well. Where a
 * router is nearly undecided, the loss is discontinuous: such a model is retried on other rows. */
static void gradients_are_differences(void **state)
{
    size_t n = golden_models(models, MAX), count = 0, tensors = 0;
    double worst = 0;

    (void)state;
    for (size_t i = 0; i < n; i += EVERY) {
        uint32_t each;
        if (strstr(models[i].name, "one-token") ||
            (strstr(models[i].name, " gguf") && !strstr(models[i].name, "llama/gqa")))
            continue;
        lm_model *m   = open_model(&models[i]);
        double    off = rounds(m->program) ? 0 : 1;
        each          = 0;
        for (uint64_t seed = 25; off > LIMIT && seed < 28; seed++)
            off = worst_of(models[i].name, m, seed, &each);
        if (off > LIMIT)
            fail_msg("%s: %.2g", models[i].name, off);
        worst = fmax(worst, off);
        tensors += each;
        count++;
        lm_model_close(m);
    }
    printf("%zu models, %zu tensors, worst %.1e\n", count, tensors, worst);
}

/* ---- bitwise equality ---- */

/* Return all gradients of one step, with the texts split into calls by `cut`: if bit t is set, a call ends
 * after text t. */
static float *gradients(const char *name, const lm_model *m, const bool *wanted, lm_learner_options o,
                        unsigned cut, uint64_t *count)
{
    int32_t       tokens[ROWS], labels[ROWS];
    lm_train_text texts[TEXTS];
    lm_learner   *l = start(name, m, wanted, o);
    uint64_t      n = 0;

    make_rows(m->program->n_vocab, 25, tokens, labels, texts);
    lm_learner_begin(l, labels_in(labels));
    for (uint32_t from = 0, to; from < TEXTS; from = to) {
        lm_train_text part[TEXTS];
        for (to = from + 1; to < TEXTS && !(cut >> (to - 1) & 1); to++)
            ;
        for (uint32_t t = from; t < to; t++)
            part[t - from] = (lm_train_text){ texts[t].first - texts[from].first, texts[t].rows, t };
        lm_learner_rows(l, tokens + texts[from].first, labels + texts[from].first, part, to - from);
    }
    lm_learner_end(l);
    for (uint32_t k = 0; k < l->n_trained; k++)
        n += l->trained[k].elements;
    float *all = malloc((n + 2) * sizeof *all), *at = all;
    for (uint32_t k = 0; k < l->n_trained; at += l->trained[k++].elements)
        memcpy(at, l->trained[k].gradient, l->trained[k].elements * sizeof *at);
    memcpy(at, &l->loss, sizeof l->loss);
    *count = n + 2;
    lm_learner_free(l);
    return all;
}

static void bits_do_not_depend_on(const char *name, lm_compute compute, float dropout)
{
    size_t   n = golden_models(models, MAX), i = 0;
    uint64_t count, again;

    while (i < n && strcmp(models[i].name, name) != 0)
        i++;
    assert_true(i < n);
    lm_model *m      = open_model(&models[i]);
    bool     *wanted = all_weights(m->program);
    static const struct {
        uint32_t threads, checkpoint;
        unsigned cut;
    } ways[] = { { 2, 0, 0 }, { 5, 0, 0 }, { 3, LM_TURN_AUTO - 1, 0 },
                 { 2, 1, 3 }, { 1, 0, 1 }, { 2, LM_TURN_AUTO - 1, 2 } };
    lm_learner_options o     = { .threads = 1, .compute = compute, .dropout = dropout, .seed = 3 };
    float             *first = gradients(name, m, wanted, o, 0, &count);
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        o.threads     = ways[k].threads;
        o.checkpoint  = ways[k].checkpoint;
        float *others = gradients(name, m, wanted, o, ways[k].cut, &again);
        assert_int_equal(count, again);
        if (memcmp(first, others, count * sizeof *first) != 0)
            fail_msg("%s: %u threads, %u layers checkpointed, cut %u: other bits", name, o.threads,
                     o.checkpoint, ways[k].cut);
        free(others);
    }
    free(first);
    free(wanted);
    lm_model_close(m);
}

static void threads_cuts_and_checkpoints_change_no_bit(void **state)
{
    static const char *const names[] = { "llama/gqa",  "gemma2/caps",        "gemma2/windows",
                                         "gpt2/plain", "deepseek_v2/groups", "gpt_oss/floats",
                                         "mpt/alibi",  "qwen2_moe/shared" };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = golden_models(models, MAX), k = 0;
        while (k < n && strcmp(models[k].name, names[i]) != 0)
            k++;
        if (k == n)
            continue;
        bits_do_not_depend_on(names[i], LM_COMPUTE_F32, 0);
        bits_do_not_depend_on(names[i], LM_COMPUTE_AUTO, 0);
    }
}

/* Allocated bytes equal planned bytes exactly, for all kinds of checkpointing. */
static void planned_is_allocated(void **state)
{
    size_t n = golden_models(models, MAX);

    (void)state;
    for (size_t i = 0; i < n; i += 5 * EVERY) {
        lm_model *m = open_model(&models[i]);
        if (strstr(models[i].name, "one-token")) {
            lm_model_close(m);
            continue;
        }
        bool *wanted = all_weights(m->program);
        for (uint32_t layers = 0; layers < 3; layers++) {
            lm_learner_options o = { .rows = ROWS,
                                     .longest = 13,
                                     .threads = 2,
                                     .compute = layers & 1 ? LM_COMPUTE_AUTO : LM_COMPUTE_F32,
                                     .checkpoint = layers,
                                     .optimise = layers != 1 };
            lm_learner_memory  planned, taken;
            lm_learner        *l = start(models[i].name, m, wanted, o);
            assert_int_equal(lm_learner_predict(m, m->program, wanted, &o, &planned, NULL), LM_OK);
            taken = lm_learner_allocated(l);
            assert_int_equal(planned.total, taken.total);
            assert_int_equal(planned.base, taken.base);
            assert_int_equal(planned.state, taken.state);
            assert_int_equal(planned.activations, taken.activations);
            assert_int_equal(planned.checkpointed, taken.checkpointed);
            lm_learner_free(l);
        }
        free(wanted);
        lm_model_close(m);
    }
}

/* A memory limit is met by checkpointing as few layers as possible; a limit below the minimum is an error. */
static void a_limit_is_enforced(void **state)
{
    lm_model          *m      = open_golden_model("smollm3/every-fourth", 0);
    bool              *wanted = all_weights(m->program);
    lm_learner_options o      = { .rows = 512, .longest = 512, .threads = 1, .compute = LM_COMPUTE_F32 };
    lm_learner_memory  free_of, all, between;
    lm_error           e = { 0 };

    (void)state;
    assert_int_equal(lm_learner_predict(m, m->program, wanted, &o, &free_of, &e), LM_OK);
    o.checkpoint = m->program->n_layers;
    assert_int_equal(lm_learner_predict(m, m->program, wanted, &o, &all, &e), LM_OK);
    assert_true(all.total < free_of.total);
    o.checkpoint = LM_TURN_AUTO;
    o.limit      = (all.total + free_of.total) / 2;
    assert_int_equal(lm_learner_predict(m, m->program, wanted, &o, &between, &e), LM_OK);
    assert_true(between.total <= o.limit && between.checkpointed > 0);
    o.limit = free_of.total;
    assert_int_equal(lm_learner_predict(m, m->program, wanted, &o, &between, &e), LM_OK);
    assert_int_equal(between.checkpointed, 0);
    o.limit = all.total - 1;
    assert_int_equal(lm_learner_predict(m, m->program, wanted, &o, &between, &e), LM_NO_FIT);
    free(wanted);
    lm_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(threads_cuts_and_checkpoints_change_no_bit),
        cmocka_unit_test(planned_is_allocated),
        cmocka_unit_test(a_limit_is_enforced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
