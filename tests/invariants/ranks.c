/* ranks.c - a model run by several ranks gives the logits of one rank: bit for bit with exact splits, up to
 * rounding otherwise. Ranks are threads here, which meet at a barrier; each has its own model and engine. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lamina/lamina.h"
#include "models.h"
#include "runtime/model/divide.h"

enum { MAX = 1024, RANKS = 8, PROMPT = 21, STEPS = 3, ROWS = PROMPT + STEPS };

/* A message between two ranks: the sender waits until it is received. */
typedef struct box {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    const void     *message;
    uint64_t        bytes;
} box;

typedef struct meeting {
    pthread_barrier_t everybody, stage[RANKS];
    box               boxes[RANKS][RANKS];           /* from, to */
    const void       *mine[RANKS];
    uint32_t          ranks, parts;
} meeting;

typedef struct seat {
    meeting *m;
    uint32_t rank;
} seat;

static lm_status gather(void *arg, bool everybody, const void *mine, const uint64_t *bytes, void *all,
                        lm_error *e)
{
    seat              *s     = arg;
    uint8_t           *to    = all;
    uint32_t           n     = everybody ? s->m->ranks : s->m->parts, first = everybody ? 0 : s->rank / n * n;
    pthread_barrier_t *barrier = everybody ? &s->m->everybody : &s->m->stage[s->rank / n];

    (void)e;
    s->m->mine[s->rank] = mine;
    pthread_barrier_wait(barrier);
    for (uint32_t r = 0; r < n; to += bytes[r++])
        memcpy(to, s->m->mine[first + r], bytes[r]);
    pthread_barrier_wait(barrier);
    return LM_OK;
}

static lm_status send(void *arg, uint32_t to, const void *message, uint64_t bytes, lm_error *e)
{
    seat *s = arg;
    box  *b = &s->m->boxes[s->rank][to];

    (void)e;
    pthread_mutex_lock(&b->lock);
    b->message = message;
    b->bytes   = bytes;
    pthread_cond_broadcast(&b->changed);
    while (b->message)
        pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
    return LM_OK;
}

static lm_status receive(void *arg, uint32_t from, void *message, uint64_t bytes, lm_error *e)
{
    seat *s = arg;
    box  *b = &s->m->boxes[from][s->rank];

    (void)e;
    pthread_mutex_lock(&b->lock);
    while (!b->message)
        pthread_cond_wait(&b->changed, &b->lock);
    bool whole = b->bytes == bytes;
    if (whole)
        memcpy(message, b->message, bytes);
    b->message = NULL;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return whole ? LM_OK : LM_FAILED;
}

/* A hook that does nothing: every rank here creates and steps its own engine. */
static lm_status lead(void *arg, void *message, uint64_t bytes, lm_error *e)
{
    (void)arg, (void)message, (void)bytes, (void)e;
    return LM_OK;
}

typedef struct run {
    const char       *path;
    lm_engine_options options;
    uint32_t          ranks, parts, rank;
    bool              exact;
    meeting          *m;
    float            *logits;            /* [ROWS][V], of rank 0; NULL: not requested */
    uint32_t          vocab;
    lm_status         status;
    lm_error          error;
    bool              as_planned;
} run;

static lm_status steps(run *r, lm_engine *g)
{
    lm_row rows[PROMPT];

    for (uint32_t at = 0, n; at < ROWS; at += n) {
        n = at ? 1 : PROMPT;
        for (uint32_t i = 0; i < n; i++)
            rows[i] = (lm_row){ 0, (lm_token)(((at + i) * 7 + 3) % r->vocab), at + i, true };
        LM_TRY(lm_engine_step(g, rows, n, &r->error));
        for (uint32_t i = 0; r->logits && i < n; i++)
            memcpy(r->logits + (size_t)(at + i) * r->vocab, lm_engine_logits(g, i), r->vocab * sizeof(float));
    }
    return LM_OK;
}

static void *one_rank(void *arg)
{
    run          *r = arg;
    seat          s = { r->m, r->rank };
    uint64_t      changes = 0;
    lm_rank_exchange   x = { &s, r->rank, r->ranks, r->parts, gather, send, receive, lead, &changes };
    lm_model     *m = NULL;
    lm_engine    *g = NULL;
    lm_model_info info;
    lm_memory     planned, taken;

    r->status = lm_model_open(r->path, NULL, &m, &r->error);
    if (r->status == LM_OK && r->ranks > 1)
        r->status = lm_model_divide(m, &(lm_division){ r->parts, r->ranks / r->parts, r->rank, r->exact }, &x,
                                    &r->error);
    if (r->status == LM_OK)
        r->status = lm_engine_predict(m, &r->options, &planned, &r->error);
    if (r->status == LM_OK)
        r->status = lm_engine_new(m, &r->options, &g, &r->error);
    if (r->status == LM_OK) {
        lm_model_describe(m, &info);
        r->vocab = info.n_vocab;
        lm_engine_allocated(g, &taken);
        r->as_planned = taken.weights == planned.weights && taken.kv == planned.kv &&
                        taken.scratch == planned.scratch;
        r->status     = steps(r, g);
    }
    lm_engine_free(g);
    lm_model_close(m);
    return NULL;
}

static void open_meeting(meeting *m, uint32_t parts, uint32_t stages)
{
    *m = (meeting){ .ranks = parts * stages, .parts = parts };
    pthread_barrier_init(&m->everybody, NULL, m->ranks);
    for (uint32_t s = 0; s < stages; s++)
        pthread_barrier_init(&m->stage[s], NULL, parts);
    for (uint32_t i = 0; i < RANKS * RANKS; i++) {
        pthread_mutex_init(&m->boxes[i / RANKS][i % RANKS].lock, NULL);
        pthread_cond_init(&m->boxes[i / RANKS][i % RANKS].changed, NULL);
    }
}

static void close_meeting(meeting *m)
{
    pthread_barrier_destroy(&m->everybody);
    for (uint32_t s = 0; s < m->ranks / m->parts; s++)
        pthread_barrier_destroy(&m->stage[s]);
    for (uint32_t i = 0; i < RANKS * RANKS; i++) {
        pthread_mutex_destroy(&m->boxes[i / RANKS][i % RANKS].lock);
        pthread_cond_destroy(&m->boxes[i / RANKS][i % RANKS].changed);
    }
}

/* Run all ranks and store the logits of rank 0. */
static void run_ranks(const char *name, const run *like, uint32_t parts, uint32_t stages, bool exact,
                      float *logits)
{
    static meeting m;
    run            runs[RANKS];
    pthread_t      threads[RANKS];
    char           text[600];
    uint32_t       ranks = parts * stages;

    open_meeting(&m, parts, stages);
    for (uint32_t r = 0; r < ranks; r++) {
        runs[r]        = *like;
        runs[r].ranks  = ranks;
        runs[r].parts  = parts;
        runs[r].rank   = r;
        runs[r].exact  = exact;
        runs[r].m      = &m;
        runs[r].logits = r ? NULL : logits;
        pthread_create(&threads[r], NULL, one_rank, &runs[r]);
    }
    for (uint32_t r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    close_meeting(&m);
    for (uint32_t r = 0; r < ranks; r++) {
        if (runs[r].status != LM_OK)
            fail_msg("%s, rank %u of %u x %u: %s", name, r, parts, stages,
                     lm_error_text(&runs[r].error, text, sizeof text));
        if (!runs[r].as_planned)
            fail_msg("%s, rank %u of %u x %u: memory is not as planned", name, r, parts, stages);
    }
}

static double difference(const float *a, const float *b, size_t n)
{
    double max = 0, largest = 0;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        max     = d > max ? d : max;
        largest  = fabs((double)a[i]) > largest ? fabs((double)a[i]) : largest;
    }
    return max / (largest > 0 ? largest : 1);
}

static uint32_t heads_of(const char *path, uint32_t *vocab, uint32_t *context, uint32_t *layers)
{
    lm_model     *m = NULL;
    lm_model_info info;
    lm_error      e = { 0 };

    assert_int_equal(lm_model_open(path, NULL, &m, &e), LM_OK);
    lm_model_describe(m, &info);
    lm_model_close(m);
    *vocab   = info.n_vocab;
    *context = info.context_length;
    *layers  = info.n_layers;
    return info.n_heads;
}

/* A split by layers splits no sum, so its logits are those of one rank. */
static void compare_layers(const golden_model *g, const run *like, const float *alone, uint32_t heads,
                           uint32_t layers, float *split, size_t n, size_t *count, double *worst)
{
    for (uint32_t stages = 2; stages <= 4 && stages <= layers; stages++, ++*count) {
        run_ranks(g->name, like, 1, stages, false, split);
        if (memcmp(alone, split, n * sizeof *alone) != 0)
            fail_msg("%s: %u runs of layers differ from one by %.3g", g->name, stages,
                     difference(alone, split, n));
    }
    if (heads < 2 || layers < 2)
        return;
    run_ranks(g->name, like, 2, 2, true, split);
    if (memcmp(alone, split, n * sizeof *alone) != 0)
        fail_msg("%s: an exact split in parts and layers differs from one rank by %.3g", g->name,
                 difference(alone, split, n));
    run_ranks(g->name, like, 2, 2, false, split);
    double d = difference(alone, split, n);
    *worst   = d > *worst ? d : *worst;
    *count += 2;
}

static double compare(const golden_model *g, lm_compute compute, uint32_t heads, uint32_t layers,
                      uint32_t vocab, size_t *count)
{
    run    like  = { .path = g->path, .vocab = vocab };
    size_t n     = (size_t)ROWS * vocab;
    float *alone = malloc(n * sizeof *alone), *split = malloc(n * sizeof *split);
    double worst = 0;

    like.options = (lm_engine_options){ .context = ROWS,
                                        .max_rows = PROMPT,
                                        .max_logits = PROMPT,
                                        .threads = 1,
                                        .compute = compute,
                                        .kv = LM_KV_F32 };
    assert_non_null(alone);
    assert_non_null(split);
    run_ranks(g->name, &like, 1, 1, false, alone);
    for (uint32_t ranks = 2; ranks <= 4 && ranks <= heads; ranks++) {
        run_ranks(g->name, &like, ranks, 1, true, split);
        if (memcmp(alone, split, n * sizeof *alone) != 0)
            fail_msg("%s: %u ranks with an exact split differ from one by %.3g", g->name, ranks,
                     difference(alone, split, n));
        run_ranks(g->name, &like, ranks, 1, false, split);
        double d = difference(alone, split, n);
        worst    = d > worst ? d : worst;
        *count += 2;
    }
    compare_layers(g, &like, alone, heads, layers, split, n, count, &worst);
    free(alone);
    free(split);
    return worst;
}

static void ranks_give_the_logits_of_one(void **state)
{
    static golden_model models[MAX];
    size_t              n = golden_models(models, MAX), count = 0;

    (void)state;
    for (size_t i = 0; i < n; i += EVERY) {
        uint32_t vocab, context, layers, heads = heads_of(models[i].path, &vocab, &context, &layers);
        if (context && context < ROWS)
            continue;
        double exact = compare(&models[i], LM_COMPUTE_F32, heads, layers, vocab, &count);
        if (exact > 1e-5)
            fail_msg("%s: split sums differ from whole ones by %.3g", models[i].name, exact);
        double fast = compare(&models[i], LM_COMPUTE_AUTO, heads, layers, vocab, &count);
        printf("  %-40s %u heads  float32 %8.2e  fast %8.2e\n", models[i].name, heads, exact, fast);
    }
    printf("count: splits over ranks %zu\n", count);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(ranks_give_the_logits_of_one) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
