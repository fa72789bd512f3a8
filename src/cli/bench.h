/* bench.h - what `lamina bench` measures, between the command and its renderers. */
#ifndef LM_CLI_BENCH_H
#define LM_CLI_BENCH_H

#include <jansson.h>

#include "cli/store.h"
#include "lamina/lamina.h"

typedef enum lm_bench_form { LM_BENCH_MD, LM_BENCH_CSV, LM_BENCH_JSON, LM_BENCH_JSONL, LM_BENCH_SQL } lm_bench_form;

/* One line: a prompt of `prompt` tokens and then `gen` single steps, either of which may be 0, `depth` positions into the context. */
typedef struct lm_bench_result {
    lm_model_info info;
    const char *cpu, *level, *keys, *values, *compute;
    uint32_t    prompt, gen, depth, sequences, n_batch, batch, threads, threads_batch, reps;     /* batch: tokens in a step */
    bool        repack, mapped;
    double      tokens;                          /* of a repetition, all sequences */
    const double *samples;                       /* [reps]: seconds of each, shortest first */
    double      load_seconds;
    double      mean, deviation, median, best;   /* tokens a second */
    double      mean_seconds, deviation_seconds;
    double      limit;                           /* tokens a second if nothing but the machine's peaks counted */
    double      predicted;                       /* tokens a second, from kernels timed by themselves just before */
    lm_forecast forecast;
    const char *limited_by;                      /* "int8" "bf16" "f32" "memory" */
    double      peak;                            /* of that, in operations or bytes a second, measured just before */
    double      busy;                            /* share of the probes' time that other work took */
    double      below;                           /* how far they stayed below the best known of the machine, which the limit then is */
    lm_memory   planned, memory;                 /* what the plan says, what the allocator counts */
    uint64_t    rss;                             /* bytes, the most before the first probe */
    int64_t     time;                            /* seconds since 1970 */
    bool        profiled;                        /* one repetition more, with clocks: */
    lm_profile  profile;
    double      profile_seconds;                 /* that it took */
} lm_bench_result;

/* Ahead of the first line of a form, and a line; MD prints a row of a table as llama-bench does. */
void lm_bench_head(lm_bench_form form, lm_text *out);
void lm_bench_line(lm_bench_form form, const lm_bench_result *r, bool first, lm_text *out);
void lm_bench_tail(lm_bench_form form, lm_text *out);

/* "pp512", "tg64 @ d4096", "pp512+tg64 x 4" */
void lm_bench_test_name(const lm_bench_result *r, char *out, size_t size);

/* ---- where the time of a test went (bench_profile.c) ---- */

void    lm_bench_profile_text(const lm_bench_result *r, const char *test, lm_store *store, lm_text *out);
json_t *lm_bench_profile_json(const lm_bench_result *r);

#endif
