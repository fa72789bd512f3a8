/* bench.h - the results of `lamina bench`, passed from the command to its renderers. */
#ifndef LM_CLI_BENCH_H
#define LM_CLI_BENCH_H

#include <jansson.h>

#include "cli/base/store.h"
#include "lamina/lamina.h"

typedef enum lm_bench_form {
    LM_BENCH_MD, LM_BENCH_CSV, LM_BENCH_JSON, LM_BENCH_JSONL,
} lm_bench_form;

/* One line of output. The test starts `depth` positions into the context, processes a prompt of `prompt`
 * tokens, then generates `gen` tokens; either may be 0. */
typedef struct lm_bench_result {
    lm_model_info info;
    const char *cpu, *level, *keys, *values, *compute;
    /* batch: tokens per step */
    uint32_t    prompt, gen, depth, sequences, n_batch, batch, threads, threads_batch, reps;
    bool        repack, mapped;
    double      tokens;                          /* per repetition, of all sequences */
    const double *samples;                       /* [reps] seconds per repetition, shortest first */
    double      load_seconds;
    double      mean, deviation, median, best;   /* tokens per second */
    double      mean_seconds, deviation_seconds;
    double      limit;                           /* tokens per second that the machine's peak rates allow */
    /* tokens per second, from kernels timed separately just before */
    double      predicted;
    lm_forecast forecast;
    const char *limited_by;                      /* "int8" "bf16" "f32" "memory" */
    /* of limited_by, in operations or bytes per second, measured just before */
    double      peak;
    double      busy;                            /* share of the probes' time taken by other work */
    /* how far the probes were below the best known results, which then set the limit */
    double      below;
    lm_memory   planned, memory;                 /* predicted by the plan, counted by the allocator */
    uint64_t    rss;                             /* maximum resident bytes before the first probe */
    int64_t     time;                            /* seconds since 1970 */
    bool        profiled;                        /* one more repetition was run with clocks: */
    lm_profile  profile;
    double      profile_seconds;                 /* its duration */
} lm_bench_result;

/* Append what precedes the first line of a form, a line, and what follows the last. MD lines are rows of a
 * table like llama-bench's. */
void lm_bench_head(lm_bench_form form, lm_text *out);
void lm_bench_line(lm_bench_form form, const lm_bench_result *r, bool first, lm_text *out);
void lm_bench_tail(lm_bench_form form, lm_text *out);

/* "pp512", "tg64 @ d4096", "pp512+tg64 x 4" */
void lm_bench_test_name(const lm_bench_result *r, char *out, size_t size);

/* ---- profile of a test (bench_profile.c) ---- */

void    lm_bench_profile_text(const lm_bench_result *r, const char *test, lm_store *store, lm_text *out);
json_t *lm_bench_profile_json(const lm_bench_result *r);

#endif
