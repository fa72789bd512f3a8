/* The sampler against an independent implementation (tools/oracle/samplers.py), its draws against their
 * probabilities, and its guarantees: no allocation, no NaN, the same token for the same (seed, sequence,
 * position). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/sample/sampler.h"

enum { MAX_V = 1024, MAX_H = 1024 };

typedef struct golden {
    char               name[64], order[160];
    lm_sampler_options o;
    lm_logit_bias      bias[8];
    lm_token           history[MAX_H];
    size_t             n_history;
    lm_token           breaker_tails[8][8];
    lm_dry_breaker     breakers[8];
    size_t             n_breakers;
    float              logits[MAX_V];
    uint32_t           n_vocab;
    lm_token           keep[MAX_V];
    double             p[MAX_V];
    size_t             n_keep;
} golden;

static void set_option(golden *g, const char *name, const char *value)
{
    const struct { const char *name; float *f; int32_t *i; uint32_t *u; } all[] = {
        { "temperature", &g->o.temperature, NULL, NULL },
        { "dynatemp_range", &g->o.dynatemp_range, NULL, NULL },
        { "dynatemp_exponent", &g->o.dynatemp_exponent, NULL, NULL },
        { "top_k", NULL, &g->o.top_k, NULL },
        { "top_p", &g->o.top_p, NULL, NULL },
        { "min_p", &g->o.min_p, NULL, NULL },
        { "typical_p", &g->o.typical_p, NULL, NULL },
        { "top_n_sigma", &g->o.top_n_sigma, NULL, NULL },
        { "xtc_probability", &g->o.xtc_probability, NULL, NULL },
        { "xtc_threshold", &g->o.xtc_threshold, NULL, NULL },
        { "repeat_penalty", &g->o.repeat_penalty, NULL, NULL },
        { "presence_penalty", &g->o.presence_penalty, NULL, NULL },
        { "frequency_penalty", &g->o.frequency_penalty, NULL, NULL },
        { "repeat_last_n", NULL, &g->o.repeat_last_n, NULL },
        { "dry_multiplier", &g->o.dry_multiplier, NULL, NULL },
        { "dry_base", &g->o.dry_base, NULL, NULL },
        { "dry_allowed_length", NULL, &g->o.dry_allowed_length, NULL },
        { "dry_penalty_last_n", NULL, &g->o.dry_penalty_last_n, NULL },
        { "mirostat", NULL, &g->o.mirostat, NULL },
        { "mirostat_tau", &g->o.mirostat_tau, NULL, NULL },
        { "min_keep", NULL, NULL, &g->o.min_keep },
    };

    if (strcmp(name, "order") == 0) {
        snprintf(g->order, sizeof g->order, "%s", value);
        g->o.order = g->order;
        return;
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i].name, name) != 0)
            continue;
        if (all[i].f)
            *all[i].f = strtof(value, NULL);
        if (all[i].i)
            *all[i].i = (int32_t)strtol(value, NULL, 10);
        if (all[i].u)
            *all[i].u = (uint32_t)strtoul(value, NULL, 10);
        return;
    }
    fail_msg("%s: unknown option %s", g->name, name);
}

/* Read the next case of the file. Returns false at its end. */
static bool read_case(FILE *f, golden *g, char *line, int size)
{
    /* the cases use llama.cpp's numbers: 0 means 0, not the default */
    *g = (golden){ .o = lm_sampler_defaults() };
    while (fgets(line, size, f)) {
        char *save, *word = strtok_r(line, " \n", &save), *at;

        if (!word)
            continue;
        if (strcmp(word, "case") == 0) {
            snprintf(g->name, sizeof g->name, "%s", strtok_r(NULL, " \n", &save));
        } else if (strcmp(word, "set") == 0) {
            at = strtok_r(NULL, " \n", &save);
            set_option(g, at, strtok_r(NULL, " \n", &save));
        } else if (strcmp(word, "bias") == 0) {
            at = strtok_r(NULL, " \n", &save);
            g->bias[g->o.n_bias++] = (lm_logit_bias){ atoi(at), strtof(strtok_r(NULL, " \n", &save), NULL) };
            g->o.bias = g->bias;
        } else if (strcmp(word, "breaker") == 0) {
            lm_dry_breaker *b = &g->breakers[g->n_breakers];
            *b = (lm_dry_breaker){ .head = atoi(strtok_r(NULL, " \n", &save)),
                                   .tail = g->breaker_tails[g->n_breakers] };
            while ((at = strtok_r(NULL, " \n", &save)))
                b->tail[b->n_tail++] = atoi(at);
            g->n_breakers++;
        } else if (strcmp(word, "history") == 0) {
            while ((at = strtok_r(NULL, " \n", &save)))
                g->history[g->n_history++] = atoi(at);
        } else if (strcmp(word, "logits") == 0) {
            while ((at = strtok_r(NULL, " \n", &save)))
                g->logits[g->n_vocab++] = strtof(at, NULL);
        } else if (strcmp(word, "keep") == 0) {
            while ((at = strtok_r(NULL, " \n", &save))) {
                g->keep[g->n_keep] = (lm_token)strtol(at, &at, 10);
                g->p[g->n_keep++] = strtod(at + 1, NULL);
            }
            return true;
        }
    }
    return false;
}

static int by_head(const void *a, const void *b)
{
    lm_token x = ((const lm_dry_breaker *)a)->head, y = ((const lm_dry_breaker *)b)->head;
    return (x > y) - (x < y);
}

/* Shape a case with breakers. Cases give them as token sequences; the history takes them as if it had found
 * them in a vocabulary. */
static void shape_with_breakers(golden *g, lm_candidates *c)
{
    lm_breakers set = { .owners = 1, .items = g->breakers, .n = g->n_breakers };
    lm_history h;

    qsort(g->breakers, g->n_breakers, sizeof *g->breakers, by_head);
    assert_int_equal(lm_history_init(&h, &g->o, g->n_vocab, &set, NULL), LM_OK);
    for (size_t i = 0; i < g->n_history; i++)
        lm_history_add(&h, g->history[i]);
    c->n = g->n_vocab;
    c->sorted = false;
    for (uint32_t i = 0; i < g->n_vocab; i++)
        c->items[i] = (lm_candidate){ .id = (lm_token)i, .logit = g->logits[i] };
    lm_history_dry(&h, &g->o, c);
    lm_candidates_sort(c);
    lm_candidates_softmax(c);
    lm_history_free(&h);
}

static void compare(const golden *g, const lm_candidates *c)
{
    if (c->n != g->n_keep)
        fail_msg("%s: %zu tokens are left, the reference keeps %zu", g->name, c->n, g->n_keep);
    for (size_t i = 0; i < c->n; i++) {
        if (c->items[i].id != g->keep[i])
            fail_msg("%s: place %zu is token %d, the reference has %d", g->name, i, c->items[i].id,
                     g->keep[i]);
        if (fabs(c->items[i].p - g->p[i]) > 1e-5 * g->p[i] + 1e-12)
            fail_msg("%s: token %d has p %.9g, the reference has %.9g", g->name, g->keep[i], c->items[i].p,
                     g->p[i]);
    }
}

static void equals_the_reference(void **state)
{
    static golden g;
    static char line[1 << 16];
    static lm_candidate items[2 * MAX_V];
    char path[4096];
    size_t n = 0;
    FILE *f;

    (void)state;
    snprintf(path, sizeof path, "%s/golden/sampler/cases.txt", getenv("LAMINA_TESTS"));
    f = fopen(path, "r");
    assert_non_null(f);
    for (; read_case(f, &g, line, sizeof line); n++) {
        const lm_candidates *c;
        lm_sampler *s;
        lm_error e = { 0 };

        if (g.n_breakers) {
            lm_candidates own = { .items = items, .spare = items + MAX_V };
            shape_with_breakers(&g, &own);
            compare(&g, &own);
            continue;
        }
        if (lm_sampler_new(&g.o, g.n_vocab, NULL, &s, &e) != LM_OK)
            fail_msg("%s: %s %s", g.name, e.where, e.message);
        for (size_t i = 0; i < g.n_history; i++)
            lm_sampler_accept(s, g.history[i]);
        assert_int_equal(lm_sampler_shape(s, g.logits, 0, n, &c, &e), LM_OK);
        compare(&g, c);
        lm_sampler_free(s);
    }
    fclose(f);
    print_message("%zu cases\n", n);
    assert_true(n >= 150);
}

/* In 40,000 draws at a fixed seed every frequency is within 4.5 standard deviations of its probability. */
static void frequencies_follow_probabilities(void **state)
{
    enum { V = 9, N = 40000 };
    const float logits[V] = { 0.1f, 2.0f, -1.0f, 1.2f, 0.0f, 1.9f, -3.0f, 0.7f, -0.2f };
    lm_sampler_options o = lm_sampler_defaults();
    const lm_candidates *c;
    double p[V] = { 0 }, sequences[V] = { 0 }, positions[V] = { 0 };
    lm_sampler *s;
    lm_token id;

    (void)state;
    o.seed = 77;
    o.top_k = 8;
    o.min_p = 0;
    assert_int_equal(lm_sampler_new(&o, V, NULL, &s, NULL), LM_OK);
    assert_int_equal(lm_sampler_shape(s, logits, 0, 0, &c, NULL), LM_OK);
    for (size_t i = 0; i < c->n; i++)
        p[c->items[i].id] = c->items[i].p;
    for (uint64_t i = 0; i < N; i++) {
        assert_int_equal(lm_sampler_pick(s, logits, 3, i, &id, NULL), LM_OK);
        positions[id]++;
        assert_int_equal(lm_sampler_pick(s, logits, i, 3, &id, NULL), LM_OK);
        sequences[id]++;
    }
    for (size_t i = 0; i < V; i++) {
        double sd = sqrt(p[i] * (1 - p[i]) / N);
        assert_true(fabs(positions[i] / N - p[i]) <= 4.5 * sd);
        assert_true(fabs(sequences[i] / N - p[i]) <= 4.5 * sd);
    }
    lm_sampler_free(s);
}

/* XTC applies with the requested probability, independently of the token drawn at the same position. */
static void xtc_is_drawn_with_its_probability(void **state)
{
    enum { N = 20000 };
    const float logits[3] = { 1.0f, 0.9f, 0.0f };
    lm_sampler_options o = lm_sampler_defaults();
    double applied = 0, both = 0, first = 0;
    lm_sampler *s;

    (void)state;
    o.xtc_probability = 0.3f;
    o.temperature = 1;
    o.top_p = 1;
    assert_int_equal(lm_sampler_new(&o, 3, NULL, &s, NULL), LM_OK);
    for (uint64_t i = 0; i < N; i++) {
        const lm_candidates *c;
        lm_token id;
        bool cut;
        assert_int_equal(lm_sampler_shape(s, logits, 0, i, &c, NULL), LM_OK);
        cut = c->n < 3;
        assert_int_equal(lm_sampler_pick(s, logits, 0, i, &id, NULL), LM_OK);
        applied += cut;
        if (!cut) {
            first += id == 0;
            both++;
        }
    }
    assert_true(fabs(applied / N - 0.3) < 4.5 * sqrt(0.21 / N));
    double p = exp(1.0) / (exp(1.0) + exp(0.9) + 1);
    assert_true(fabs(first / both - p) < 4.5 * sqrt(p * (1 - p) / both));
    lm_sampler_free(s);
}

/* mu follows the surprise of accepted tokens; picking alone changes nothing. */
static void mirostat_learns_from_accepted_tokens(void **state)
{
    enum { V = 64, N = 3000 };
    float logits[V];
    lm_sampler_options o = lm_sampler_defaults();
    lm_sampler *s;
    double surprise = 0, norm = 0;
    lm_token id, again;

    (void)state;
    for (int i = 0; i < V; i++) {
        logits[i] = -0.12f * (float)i;
        norm += exp((double)logits[i]);
    }
    o.mirostat = 2;
    o.mirostat_tau = 3;
    o.temperature = 1;
    assert_int_equal(lm_sampler_new(&o, V, NULL, &s, NULL), LM_OK);
    for (uint64_t i = 0; i < N; i++) {
        const lm_candidates *c;
        assert_int_equal(lm_sampler_pick(s, logits, 0, i, &id, NULL), LM_OK);
        assert_int_equal(lm_sampler_pick(s, logits, 0, i, &again, NULL), LM_OK);
        assert_int_equal(id, again);
        lm_sampler_shape(s, logits, 0, i, &c, NULL);
        for (size_t k = 0; k < c->n; k++)
            if (c->items[k].id == id)
                surprise -= log2(c->items[k].p);
        lm_sampler_accept(s, id);
    }
    /* The feedback keeps the mean surprise at tau. */
    assert_true(fabs(surprise / N - 3) < 0.05);
    lm_sampler_free(s);
}

static void draws_depend_on_seed_sequence_and_position_only(void **state)
{
    float logits[50];
    lm_sampler_options o = lm_sampler_defaults();
    lm_sampler *a, *b;
    int differ = 0;

    (void)state;
    for (int i = 0; i < 50; i++)
        logits[i] = (float)(i * 7 % 50) * 0.05f;
    o.seed = 5;
    assert_int_equal(lm_sampler_new(&o, 50, NULL, &a, NULL), LM_OK);
    assert_int_equal(lm_sampler_new(&o, 50, NULL, &b, NULL), LM_OK);
    for (uint64_t i = 0; i < 100; i++) {
        lm_token x, y, z;
        lm_sampler_pick(a, logits, 1, i, &x, NULL);
        lm_sampler_pick(b, logits, 1, 99 - i, &z, NULL);   /* in a different order of calls */
        lm_sampler_pick(b, logits, 1, i, &y, NULL);
        assert_int_equal(x, y);
        lm_sampler_pick(a, logits, 2, i, &y, NULL);
        differ += x != y;
    }
    assert_true(differ > 50);
    lm_sampler_free(a);
    lm_sampler_free(b);
}

static void broken_logits_are_errors(void **state)
{
    lm_sampler_options o = lm_sampler_defaults();

    (void)state;
    for (int greedy = 0; greedy < 2; greedy++) {
        float nan[4] = { 0, NAN, 1, 2 }, none[4] = { -INFINITY, -INFINITY, -INFINITY, -INFINITY },
              inf[4] = { 0, INFINITY, 0, 0 };
        lm_sampler *s;
        lm_token id = -7;
        lm_error e;
        o.greedy = greedy;
        assert_int_equal(lm_sampler_new(&o, 4, NULL, &s, NULL), LM_OK);
        assert_int_equal(lm_sampler_pick(s, nan, 0, 0, &id, &e), LM_FAILED);
        assert_string_equal(e.message, "the logit of token 1 is NaN");
        assert_int_equal(lm_sampler_pick(s, none, 0, 0, &id, &e), LM_FAILED);
        assert_int_equal(lm_sampler_pick(s, inf, 0, 0, &id, &e), LM_FAILED);
        assert_int_equal(id, -7);
        lm_sampler_free(s);
    }
}

/* Biases of zero, more than a few, make the sampler list every token, which top_k alone or with few biases
 * does not need: the same candidates. There are few values, so there are many ties. */
static void top_k_keeps_what_all_tokens_give(void **state)
{
    enum { V = 500, MANY = 40 };
    static const int32_t ks[] = { 1, 2, 7, 40, V, 2000 };
    static const float biases[] = { 0.0f, 3.0f, -2.0f, -INFINITY };
    lm_logit_bias bias[MANY];
    float logits[V];
    uint32_t seed = 1, compared = 0;
    (void)state;

    for (size_t round = 0; round < 120; round++) {
        size_t given = round % 5;
        lm_sampler *few, *all;
        const lm_candidates *a, *b;
        lm_sampler_options o = lm_sampler_defaults();
        for (size_t i = 0; i < V; i++) {
            seed = seed * 1664525u + 1013904223u;
            unsigned draw = seed >> 24;
            logits[i] = draw < 40 + 2 * round - given ? -INFINITY
                        : draw % 16 == 0              ? -0.0f
                                                      : (float)(draw % 16) - 8.0f;
        }
        logits[499] = 0.0f;
        for (size_t i = 0; i < MANY; i++)
            bias[i] = (lm_logit_bias){ (lm_token)((round * 7 + i * 11) % 499),
                                       i < given ? biases[(round + i) % 4] : 0.0f };
        o.temperature = 0.7f;
        o.top_k = ks[round % (sizeof ks / sizeof *ks)];
        o.bias = bias;
        o.n_bias = MANY;
        assert_int_equal(lm_sampler_new(&o, V, NULL, &all, NULL), LM_OK);
        o.n_bias = given;
        assert_int_equal(lm_sampler_new(&o, V, NULL, &few, NULL), LM_OK);
        assert_int_equal(lm_sampler_shape(few, logits, 0, round, &a, NULL), LM_OK);
        assert_int_equal(lm_sampler_shape(all, logits, 0, round, &b, NULL), LM_OK);
        assert_int_equal(a->n, b->n);
        for (size_t i = 0; i < a->n; i++, compared++) {
            assert_int_equal(a->items[i].id, b->items[i].id);
            assert_true(a->items[i].p == b->items[i].p);
        }
        lm_sampler_free(few);
        lm_sampler_free(all);
    }
    assert_true(compared > 1000);
}

static void impossible_options_are_named(void **state)
{
    const struct { const char *where; size_t at; float value; } bad[] = {
        { "top_p", offsetof(lm_sampler_options, top_p), 1.5f },
        { "top_p", offsetof(lm_sampler_options, top_p), NAN },
        { "min_p", offsetof(lm_sampler_options, min_p), 1.1f },
        { "temperature", offsetof(lm_sampler_options, temperature), INFINITY },
        { "repeat_penalty", offsetof(lm_sampler_options, repeat_penalty), -1 },
        { "mirostat_tau", offsetof(lm_sampler_options, mirostat_tau), 1e9f },
    };
    lm_sampler_options o = lm_sampler_defaults();
    lm_sampler *s;
    lm_error e;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o = lm_sampler_defaults();
        memcpy((char *)&o + bad[i].at, &bad[i].value, sizeof(float));
        assert_int_equal(lm_sampler_new(&o, 4, NULL, &s, &e), LM_USAGE);
        assert_string_equal(e.where, bad[i].where);
    }
    o = lm_sampler_defaults();
    o.order = "top_k;top_q";
    assert_int_equal(lm_sampler_new(&o, 4, NULL, &s, &e), LM_USAGE);
    assert_non_null(strstr(e.message, "top_q"));
    assert_non_null(strstr(e.hint, "top_n_sigma"));
    o = lm_sampler_defaults();
    o.mirostat = 1;
    assert_int_equal(lm_sampler_new(&o, 4, NULL, &s, &e), LM_USAGE);
    o = lm_sampler_defaults();
    o.bias = &(lm_logit_bias){ 4, 1 };
    o.n_bias = 1;
    assert_int_equal(lm_sampler_new(&o, 4, NULL, &s, &e), LM_USAGE);
    assert_string_equal(e.where, "logit_bias");
}

/* All zeros and lm_sampler_defaults mean the same; with `literal`, 0 means 0. */
static void zero_is_the_default(void **state)
{
    const lm_sampler_options zero = { .seed = 3 };
    lm_sampler_options given = lm_sampler_defaults(), resolved, same = lm_sampler_resolve(&zero);
    lm_error e;

    (void)state;
    given.seed = 3;
    resolved   = lm_sampler_resolve(&given);
    /* both are off, one as 0 and one as -1 */
    resolved.top_n_sigma = same.top_n_sigma = 0;
    assert_memory_equal(&resolved, &same, sizeof same);
    assert_true(same.temperature == 0.8f && same.top_k == 40 && same.repeat_last_n == 64 &&
                same.dry_penalty_last_n == -1);

    given.temperature = given.top_p = given.min_p = given.dynatemp_exponent = given.mirostat_tau = 0;
    given.top_k = given.repeat_last_n = given.dry_penalty_last_n = given.dry_allowed_length = 0;
    assert_int_equal(lm_sampler_check(&given, &e), LM_OK);
    resolved = lm_sampler_resolve(&given);
    assert_memory_equal(&resolved, &given, sizeof given);
    given.min_p = -0.5f;
    assert_int_equal(lm_sampler_check(&given, &e), LM_USAGE);
    assert_string_equal(e.where, "min_p");
    assert_int_equal(lm_sampler_check(&(lm_sampler_options){ .repeat_last_n = -2 }, &e), LM_USAGE);
    assert_int_equal(lm_sampler_check(&(lm_sampler_options){ .reserved = { 1 } }, &e), LM_USAGE);
}

/* `greedy`, a negative temperature and a literal temperature of 0 choose the best token, whatever else is
 * set. */
static void greedy_is_the_best_token(void **state)
{
    const float logits[3] = { 1, 1.01f, 0 };
    const lm_sampler_options ways[] = {
        { .greedy = true },
        { .greedy = true, .temperature = 2 },
        { .temperature = -1 },
        { .literal = true, .top_p = 1, .typical_p = 1, .repeat_penalty = 1 }
    };

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        lm_sampler *s;
        lm_token id = 0;
        assert_int_equal(lm_sampler_new(&ways[i], 3, NULL, &s, NULL), LM_OK);
        for (uint64_t k = 0; k < 50; k++) {
            assert_int_equal(lm_sampler_pick(s, logits, 0, k, &id, NULL), LM_OK);
            assert_int_equal(id, 1);
        }
        lm_sampler_free(s);
    }
}

static void nothing_is_rejected_unread(void **state)
{
    lm_sampler *s = NULL;
    lm_token id;
    float logits[2] = { 0, 1 };
    lm_logprob top = { 0 };

    (void)state;
    assert_int_equal(lm_sampler_new(NULL, 2, NULL, NULL, NULL), LM_USAGE);
    assert_int_equal(lm_sampler_new(&(lm_sampler_options){ .n_bias = 1 }, 2, NULL, &s, NULL), LM_USAGE);
    assert_int_equal(lm_sampler_new(NULL, 2, NULL, &s, NULL), LM_OK);
    assert_int_equal(lm_sampler_vocabulary(s), 2);
    assert_int_equal(lm_sampler_pick(NULL, logits, 0, 0, &id, NULL), LM_USAGE);
    assert_int_equal(lm_sampler_pick(s, NULL, 0, 0, &id, NULL), LM_USAGE);
    assert_int_equal(lm_sampler_pick(s, logits, 0, 0, NULL, NULL), LM_USAGE);
    assert_int_equal(lm_sampler_check(NULL, NULL), LM_USAGE);
    assert_true(lm_logprobs(NULL, 2, 0, &top, 1) == -INFINITY && top.id == -1);
    lm_sampler_reset(NULL);
    lm_sampler_accept(NULL, 1);
    lm_sampler_free(NULL);
    lm_sampler_free(s);
}

static void picking_allocates_nothing(void **state)
{
    enum { V = 5000 };
    static float logits[V];
    lm_sampler_options o = lm_sampler_defaults();
    lm_sampler *s;
    uint64_t before;
    lm_token id;

    (void)state;
    for (int i = 0; i < V; i++)
        logits[i] = (float)(i * 37 % V) * 0.001f;
    o.dry_multiplier = 1;
    o.repeat_penalty = 1.1f;
    o.typical_p = 0.9f;
    o.top_k = -1;
    o.xtc_probability = 0.5f;
    assert_int_equal(lm_sampler_new(&o, V, NULL, &s, NULL), LM_OK);
    before = lm_alloc_statistics().calls;
    for (uint64_t i = 0; i < 200; i++) {
        assert_int_equal(lm_sampler_pick(s, logits, 0, i, &id, NULL), LM_OK);
        lm_sampler_accept(s, id);
    }
    assert_int_equal(lm_alloc_statistics().calls, before);
    lm_sampler_free(s);
}

/* A token is no longer counted when it is more than repeat_last_n tokens old, even after the ring has
 * wrapped. */
static void penalties_forget(void **state)
{
    const float logits[4] = { 1, 1, 1, 1 };
    lm_sampler_options o = lm_sampler_defaults();
    const lm_candidates *c;
    lm_sampler *s;

    (void)state;
    o.presence_penalty = 100;
    o.repeat_last_n = 2;
    assert_int_equal(lm_sampler_new(&o, 4, NULL, &s, NULL), LM_OK);
    for (int i = 0; i < 9; i++)
        lm_sampler_accept(s, i % 4);
    assert_int_equal(lm_sampler_shape(s, logits, 0, 0, &c, NULL), LM_OK);    /* 3 and 0 were the last two */
    assert_int_equal(c->n, 2);
    assert_int_equal(c->items[0].id, 1);
    assert_int_equal(c->items[1].id, 2);
    lm_sampler_reset(s);
    assert_int_equal(lm_sampler_shape(s, logits, 0, 0, &c, NULL), LM_OK);
    assert_int_equal(c->n, 4);
    lm_sampler_free(s);
}

static void log_probabilities(void **state)
{
    const float logits[5] = { 1, 3, 3, -INFINITY, 2 };
    double norm = log(exp(1.0) + 2 * exp(3.0) + exp(2.0));
    lm_logprob top[6];

    (void)state;
    assert_true(fabs((double)lm_logprobs(logits, 5, 4, top, 3) - (2 - norm)) < 1e-6);
    assert_int_equal(top[0].id, 1);
    assert_int_equal(top[1].id, 2);
    assert_int_equal(top[2].id, 4);
    assert_true(fabs((double)top[0].logprob - (3 - norm)) < 1e-6);
    assert_true(lm_logprobs(logits, 5, 3, top, 6) == -INFINITY);
    assert_int_equal(top[3].id, 0);
    assert_int_equal(top[4].id, 3);
    assert_int_equal(top[5].id, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_reference),
        cmocka_unit_test(frequencies_follow_probabilities),
        cmocka_unit_test(xtc_is_drawn_with_its_probability),
        cmocka_unit_test(mirostat_learns_from_accepted_tokens),
        cmocka_unit_test(draws_depend_on_seed_sequence_and_position_only),
        cmocka_unit_test(broken_logits_are_errors),
        cmocka_unit_test(top_k_keeps_what_all_tokens_give),
        cmocka_unit_test(impossible_options_are_named),
        cmocka_unit_test(zero_is_the_default),
        cmocka_unit_test(greedy_is_the_best_token),
        cmocka_unit_test(nothing_is_rejected_unread),
        cmocka_unit_test(picking_allocates_nothing),
        cmocka_unit_test(penalties_forget),
        cmocka_unit_test(log_probabilities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
