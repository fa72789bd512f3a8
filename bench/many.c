/* many.c - measure the cost of a schedule: the same sequences run through bare lm_sequences_step and through
 * lm_schedule with its queue, rings and readers, alternately in one process.
 *
 *   build/bench/bench/bench_many MODEL [AT_ONCE] [TOKENS] [ROUNDS] [LONG]
 *
 * Sequences have prompts of 16 tokens, are sampled with the defaults and ignore end tokens. Prints tokens per
 * second of both and their ratio. Then eight sequences generate while a prompt of LONG tokens arrives; the
 * gaps between their tokens before it and while it is processed are printed. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lamina/lamina.h"

enum { PROMPT = 16, MAX = 512 };

typedef struct bench {
    lm_model   *m;
    lm_engine  *g;
    uint32_t    n_vocab, n;
    int64_t     tokens;
    lm_token    prompts[MAX][PROMPT];
} bench;

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static lm_status bare(bench *b, double *took, lm_error *e)
{
    lm_sequence *all[MAX];
    lm_sampler  *samplers[MAX];
    lm_row      *rows = calloc(lm_engine_max_rows(b->g), sizeof *rows);
    lm_batch     step = { .rows = rows };
    uint32_t     running = b->n;
    lm_status    status = LM_OK;
    lm_event     event;

    for (uint32_t i = 0; i < b->n; i++) {
        lm_sequence_options o = { .sequence = i, .draw = i, .max_tokens = b->tokens, .ignore_eos = true };
        lm_engine_truncate(b->g, i, 0, NULL);
        LM_TRY(lm_sampler_new(NULL, b->n_vocab, NULL, &samplers[i], e));
        LM_TRY(lm_sequence_new(b->g, samplers[i], &o, &all[i], e));
        LM_TRY(lm_sequence_prompt(all[i], b->prompts[i], PROMPT, 0, e));
    }
    double from = seconds();
    while (running && status == LM_OK) {
        status = lm_sequences_step(b->g, all, b->n, &step, e);
        for (uint32_t i = 0; i < b->n; i++)
            while (lm_sequence_event(all[i], &event))
                running -= event.kind == LM_EVENT_END;
    }
    *took = seconds() - from;
    for (uint32_t i = 0; i < b->n; i++) {
        lm_sequence_free(all[i]);
        lm_sampler_free(samplers[i]);
        lm_engine_truncate(b->g, i, 0, NULL);
    }
    free(rows);
    return status;
}

static lm_status scheduled(bench *b, double *took, lm_error *e)
{
    lm_schedule   *s;
    lm_reply      *replies[MAX];
    lm_reply_event event;

    LM_TRY(lm_schedule_new(b->g, NULL, &s, e));
    double from = seconds();
    for (uint32_t i = 0; i < b->n; i++) {
        lm_request r = { .prompt = b->prompts[i], .n_prompt = PROMPT,
                         .sequence = { .draw = i, .max_tokens = b->tokens, .ignore_eos = true } };
        LM_TRY(lm_schedule_submit(s, &r, &replies[i], e));
    }
    for (uint32_t i = 0; i < b->n; i++)
        while (lm_reply_wait(replies[i], -1, &event))
            ;
    *took = seconds() - from;
    for (uint32_t i = 0; i < b->n; i++)
        lm_reply_free(replies[i]);
    lm_schedule_free(s);
    return LM_OK;
}

/* ---- gaps ---- */

enum { WRITERS = 8, GAPS = 1 << 16 };

typedef struct writer {
    lm_reply *reply;
    double    gaps[2][GAPS];             /* before the long prompt; while it is processed */
    size_t    n[2];
} writer;

static atomic_int phase;                 /* 0: before the long prompt, 1: while it is processed, 2: after
                                            it */

static void *listen_to(void *arg)
{
    writer        *w = arg;
    lm_reply_event event;
    double         last = 0, now;

    while (lm_reply_wait(w->reply, -1, &event)) {
        if (event.event.kind != LM_EVENT_TOKEN)
            continue;
        int p = atomic_load(&phase);
        now   = seconds();
        if (last > 0 && p < 2 && w->n[p] < GAPS)
            w->gaps[p][w->n[p]++] = now - last;
        last = now;
    }
    return NULL;
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void tell_gaps(const char *when, writer *w, int p)
{
    static double all[WRITERS * GAPS];
    size_t        n = 0;

    for (int i = 0; i < WRITERS; i++)
        for (size_t k = 0; k < w[i].n[p]; k++)
            all[n++] = w[i].gaps[p][k];
    if (n == 0)
        return;
    qsort(all, n, sizeof *all, rising);
    printf("%s: %zu gaps, median %.1f ms, p99 %.1f ms, most %.1f ms\n", when, n, 1e3 * all[n / 2],
           1e3 * all[n * 99 / 100], 1e3 * all[n - 1]);
}

static lm_status long_prompt(bench *b, lm_schedule *s, uint32_t length, lm_error *e)
{
    static writer  w[WRITERS];
    pthread_t      threads[WRITERS];
    lm_token      *ids = calloc(length, sizeof *ids);
    lm_request r = { .prompt = ids, .n_prompt = length, .sequence = { .max_tokens = 1, .ignore_eos = true } };
    lm_reply      *reply;
    lm_reply_event event;

    for (uint32_t i = 0; ids && i < length; i++)
        ids[i] = (lm_token)((i * 7919 + 13) % b->n_vocab);
    for (int i = 0; i < WRITERS; i++) {
        lm_request q = { .prompt = b->prompts[i],
                         .n_prompt = PROMPT,
                         .sequence = { .draw = (uint64_t)i, .ignore_eos = true } };
        LM_TRY(lm_schedule_submit(s, &q, &w[i].reply, e));
        pthread_create(&threads[i], NULL, listen_to, &w[i]);
    }
    nanosleep(&(struct timespec){ .tv_sec = 4 }, NULL);
    double from = seconds();
    atomic_store(&phase, 1);
    LM_TRY(lm_schedule_submit(s, &r, &reply, e));
    while (lm_reply_wait(reply, -1, &event))
        ;
    atomic_store(&phase, 2);
    printf("%u tokens were read in %.1f s\n", length, seconds() - from);
    lm_reply_free(reply);
    for (int i = 0; i < WRITERS; i++)
        lm_reply_cancel(w[i].reply);
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
        lm_reply_free(w[i].reply);
    }
    tell_gaps("before it came", w, 0);
    tell_gaps("while it was read", w, 1);
    free(ids);
    return LM_OK;
}

static lm_status gaps(bench *b, uint32_t length, lm_error *e)
{
    lm_engine_options o = { .context = length + 1024, .sequences = WRITERS + 1 };
    lm_schedule      *s;
    lm_engine        *g;
    lm_model_info     info;

    lm_model_describe(b->m, &info);
    if (o.context > info.context_length)
        o.context = info.context_length;
    LM_TRY(lm_engine_new(b->m, &o, &g, e));
    double from = seconds();
    LM_TRY(lm_schedule_new(g, NULL, &s, e));
    printf("the schedule was made in %.2f s\n", seconds() - from);
    lm_status status = long_prompt(b, s, length, e);
    lm_schedule_free(s);
    lm_engine_free(g);
    return status;
}

static lm_status run(bench *b, const char *path, int rounds, uint32_t length, lm_error *e)
{
    lm_engine_options o = { .context = 2048, .sequences = b->n };
    lm_model_info     info;
    double            took[2] = { 0 }, sum[2] = { 0 };

    LM_TRY(lm_model_open(path, NULL, &b->m, e));
    lm_model_describe(b->m, &info);
    b->n_vocab = info.n_vocab;
    for (uint32_t i = 0; i < b->n; i++)
        for (uint32_t k = 0; k < PROMPT; k++)
            b->prompts[i][k] = (lm_token)((i * 7919 + k * 104729 + 11) % info.n_vocab);
    LM_TRY(lm_engine_new(b->m, &o, &b->g, e));
    for (int i = 0; i < rounds; i++) {
        LM_TRY(bare(b, &took[0], e));
        LM_TRY(scheduled(b, &took[1], e));
        double tokens = (double)b->n * (double)b->tokens;
        printf("%u texts, %lld tokens each: %.1f bare, %.1f scheduled, %.1f %%\n", b->n, (long long)b->tokens,
               tokens / took[0], tokens / took[1], 100 * took[0] / took[1]);
        fflush(stdout);
        sum[0] += took[0];
        sum[1] += took[1];
    }
    if (rounds > 0)
        printf("all rounds: %.1f %%\n", 100 * sum[0] / sum[1]);
    return length ? gaps(b, length, e) : LM_OK;
}

int main(int argc, char **argv)
{
    static bench b;
    lm_error     e = { 0 };
    char         line[1024];

    b.n      = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 32;
    b.tokens = argc > 3 ? strtol(argv[3], NULL, 10) : 128;
    if (argc < 2 || b.n < 1 || b.n > MAX || b.tokens < 1) {
        fprintf(stderr, "usage: %s MODEL [AT_ONCE] [TOKENS] [ROUNDS] [LONG]\n", argv[0]);
        return 2;
    }
    lm_status status = run(&b, argv[1], argc > 4 ? (int)strtol(argv[4], NULL, 10) : 5,
                           argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 10) : 4096, &e);
    if (status != LM_OK)
        fprintf(stderr, "error: %s\n", lm_error_text(&e, line, sizeof line));
    lm_engine_free(b.g);
    lm_model_close(b.m);
    return status != LM_OK;
}
