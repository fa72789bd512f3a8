/* lamina bench - measure how fast a model runs, in llama-bench's format, compared with the limits of the
 * machine. */
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "base/os/clock.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/measure/bench.h"
#include "cli/measure/bench_lists.h"
#include "cli/measure/bench_texts.h"
#include "cli/run/adapting.h"
#include "cli/run/splitting.h"

enum { MAX_REPS = 1000 };

typedef struct bench_options {
    lm_model_flags model;
    const char *prompts, *gens, *depths, *sequences, *threads, *batches, *micro_batches;
    lm_flag_list both;
    uint32_t    reps, threads_batch, delay;
    lm_cache_flags cache;
    lm_lora_flags lora;
    int         compute, form;
    int         limits;
    bool        no_warmup, no_repack, profile;
    const char *cpu;
} bench_options;

#define O(field) offsetof(bench_options, field)

static const char *const form_words[] = { "md", "csv", "json", "jsonl", NULL };

enum { LIMITS_MEASURED, LIMITS_STORED };
static const char *const limit_words[] = { "measured", "stored", NULL };

static const lm_flag bench_flag_table[] = {
    { "--n-prompt", "-p", LM_FLAG_TEXT, O(prompts), "N,…",
      "prompt lengths in tokens; 0: no prompt test (512). Ranges: 1-4, 64-512*2, 128-512+64", 0, 0, NULL },
    { "--n-gen", "-n", LM_FLAG_TEXT, O(gens), "N,…",
      "numbers of tokens to generate; 0: no generation test (64)", 0, 0, NULL },
    { "--prompt-gen", "-pg", LM_FLAG_LIST, O(both), "P,N",
      "test a prompt of P tokens followed by N generated tokens; may be repeated", 0, 0, NULL },
    { "--n-depth", "-d", LM_FLAG_TEXT, O(depths), "N,…",
      "tokens already in the context when a test starts (0)", 0, 0, NULL },
    { "--parallel", "-npl", LM_FLAG_TEXT, O(sequences), "N,…",
      "sequences generated in parallel (1)", 0, 0, NULL },
    { "--ubatch-size", "-ub", LM_FLAG_TEXT, O(micro_batches), "N,…",
      "physical batch size in tokens (512)", 0, 0, NULL },
    { "--batch-size", "-b", LM_FLAG_TEXT, O(batches), "N,…",
      "logical batch size in tokens; the smaller of -b and -ub applies (2048)", 0, 0, NULL },
    { "--threads", "-t", LM_FLAG_TEXT, O(threads), "N,…", "threads (default: physical cores)", 0, 0, NULL },
    { "--threads-batch", "-tb", LM_FLAG_COUNT, O(threads_batch), "N",
      "threads used to process prompts (default: same as --threads)", 0, 1024, NULL },
    { "--repetitions", "-r", LM_FLAG_COUNT, O(reps), "N", "repetitions of each test (5)", 1, MAX_REPS, NULL },
    { "--delay", NULL, LM_FLAG_COUNT, O(delay), "S",
      "pause before each test, in seconds (0)", 0, 3600, NULL },
    { "--compute", NULL, LM_FLAG_WORD, O(compute), "auto|fine|f32",
      "arithmetic (auto)", 0, 0, lm_compute_words },
    { "--cpu", NULL, LM_FLAG_TEXT, O(cpu), "LEVEL",
      "highest instruction set to use: ref, avx2, avx512 ... (default: the best available)", 0, 0, NULL },
    { "--no-repack", "-nr", LM_FLAG_SWITCH, O(no_repack), NULL,
      "run from the mapped file without repacking", 0, 0, NULL },
    { "--output", "-o", LM_FLAG_WORD, O(form),
      "md|csv|json|jsonl", "output format (md)", 0, 0, form_words },
    { "--profile", NULL, LM_FLAG_SWITCH, O(profile), NULL,
      "show time by kind of work: products, attention, packing, waiting ... (md, json and jsonl)",
      0, 0, NULL },
    { "--limits", NULL, LM_FLAG_WORD, O(limits), "measured|stored",
      "limits of the machine: measured before each test, or stored by an earlier measurement (measured)",
      0, 0, limit_words },
    { "--no-warmup", NULL, LM_FLAG_SWITCH, O(no_warmup), NULL,
      "include the first run in the measurement", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group bench_groups[] = {
    { "measurement", bench_flag_table, 0 },
    { "adapters", lm_lora_flag_table, O(lora) },
    { "KV cache", lm_cache_flag_table, O(cache) },
    { "model", lm_model_flag_table, O(model) },
    { "several ranks", lm_split_flag_table, O(model) },
    { 0 },
};

static void bench_defaults(void *options)
{
    *(bench_options *)options = (bench_options){
        .prompts = "512", .gens = "64", .depths = "0", .sequences = "1", .threads = "0", .batches = "2048",
        .micro_batches = "512", .cache = LM_CACHE_NOT_GIVEN, .reps = 5,
    };
}

/* ---- lists of numbers ---- */

/* "512,128" */
static lm_status read_pair(const char *text, lm_bench_list *out, lm_error *e)
{
    LM_TRY(lm_bench_read_list("--prompt-gen", text, 1, 1u << 24, out, e));
    if (out->n != 2)
        return lm_fail(e, LM_USAGE, "--prompt-gen", LM_NO_OFFSET, "\"%s\" is not two numbers", text);
    return LM_OK;
}

typedef struct lists {
    lm_bench_list prompts, gens, depths, sequences, threads, batches, micro_batches;
    lm_bench_list both[LM_BENCH_VALUES];
    uint32_t      n_both;
} lists;

static lm_status read_lists(const bench_options *o, lists *l, lm_error *e)
{
    l->n_both = 0;
    for (size_t i = 0; i < o->both.n; i++) {
        if (l->n_both == LM_BENCH_VALUES)
            return lm_fail(e, LM_USAGE, "--prompt-gen", LM_NO_OFFSET, "more than %d times", LM_BENCH_VALUES);
        LM_TRY(read_pair(o->both.items[i], &l->both[l->n_both++], e));
    }
    LM_TRY(lm_bench_read_list("--n-prompt", o->prompts, 0, 1u << 24, &l->prompts, e));
    LM_TRY(lm_bench_read_list("--n-gen", o->gens, 0, 1u << 24, &l->gens, e));
    LM_TRY(lm_bench_read_list("--n-depth", o->depths, 0, 1u << 24, &l->depths, e));
    LM_TRY(lm_bench_read_list("--parallel", o->sequences, 1, 4096, &l->sequences, e));
    LM_TRY(lm_bench_read_list("--threads", o->threads, 0, 1024, &l->threads, e));
    LM_TRY(lm_bench_read_list("--batch-size", o->batches, 1, 65536, &l->batches, e));
    return lm_bench_read_list("--ubatch-size", o->micro_batches, 1, 65536, &l->micro_batches, e);
}

/* ---- tests ---- */

/* The state of a test. The engine is recreated when threads, batch or the number of sequences change. */
typedef struct bench {
    lm_cli              *cli;
    const bench_options *o;
    lm_model            *m;
    lm_engine           *g;
    lm_loras             loras;
    lm_bench_texts       texts;
    lm_limits            limits;
    lm_bench_result      r;
    double               seconds[MAX_REPS];
    lm_bench_form        form;
    bool                 printed;
    lm_text               profiles;               /* of the tests so far, printed after the table */
} bench;

/* Reset every sequence to `depth` positions; process them again if they are not kept. */
static lm_status prepare(bench *b, lm_error *e)
{
    uint32_t kept;

    for (uint32_t s = 0; s < b->r.sequences; s++) {
        LM_TRY(lm_engine_keep(b->g, s, b->r.depth, &kept, e));
        if (kept < b->r.depth) {
            LM_TRY(lm_engine_truncate(b->g, s, 0, e));
            LM_TRY(lm_bench_read(&b->texts, s, 0, b->r.depth, e));
        }
    }
    return LM_OK;
}

static lm_status once(bench *b, uint32_t prompt, uint32_t gen, double *seconds, lm_error *e)
{
    double start;

    LM_TRY(prepare(b, e));
    start = lm_clock_seconds();
    for (uint32_t s = 0; prompt && s < b->r.sequences; s++)
        LM_TRY(lm_bench_read(&b->texts, s, b->r.depth, prompt, e));
    LM_TRY(lm_bench_write(&b->texts, prompt == 0, b->r.depth, gen, e));
    *seconds = lm_clock_seconds() - start;
    return LM_OK;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void summarise(bench *b)
{
    lm_bench_result *r = &b->r;
    double tokens = r->tokens, sum = 0, squares = 0, sums = 0, squared = 0;

    for (uint32_t i = 0; i < r->reps; i++) {
        double speed = tokens / b->seconds[i];
        sum += speed;
        squares += speed * speed;
        sums += b->seconds[i];
        squared += b->seconds[i] * b->seconds[i];
    }
    r->samples = b->seconds;
    r->mean = sum / r->reps;
    r->mean_seconds = sums / r->reps;
    r->deviation = r->reps > 1 ? sqrt(fmax(0, (squares - sum * sum / r->reps) / (r->reps - 1))) : 0;
    r->deviation_seconds = r->reps > 1 ? sqrt(fmax(0, (squared - sums * sums / r->reps) / (r->reps - 1))) : 0;
    qsort(b->seconds, r->reps, sizeof *b->seconds, by_size);
    r->best = tokens / b->seconds[0];
    r->median = tokens / (r->reps % 2 ? b->seconds[r->reps / 2]
                                      : (b->seconds[r->reps / 2 - 1] + b->seconds[r->reps / 2]) / 2);
}

/* Run one more repetition with clocks, so that the measured ones have none. */
static lm_status profile(bench *b, uint32_t prompt, uint32_t gen, lm_error *e)
{
    char test[64];

    LM_TRY(prepare(b, e));
    LM_TRY(lm_engine_profile_start(b->g, e));
    lm_status status = once(b, prompt, gen, &b->r.profile_seconds, e);
    lm_engine_profile_stop(b->g, &b->r.profile);
    LM_TRY(status);
    b->r.profiled = true;
    if (b->form == LM_BENCH_MD) {
        lm_bench_test_name(&b->r, test, sizeof test);
        lm_bench_profile_text(&b->r, test, &b->cli->store, &b->profiles);
    }
    return LM_OK;
}

static double at_peak(uint64_t ops, const lm_rate *rate, const lm_rate *otherwise)
{
    double peak = rate->all > 0 ? rate->all : otherwise->all;

    return peak > 0 ? (double)ops / peak : 0;
}

/* The minimum time at the peak rates, and the rate that determines it. */
typedef struct floor_time { double seconds; const char *by; } floor_time;

/* Return the longer of the time to compute `rows` rows and `logits` rows of logits, and `reading`, the
 * seconds of memory reads. */
static floor_time slower(const lm_limits *l, const lm_work *w, double rows, double logits, double reading)
{
    double int8 = at_peak(w->row.int8, &l->int8, &l->f32) * rows +
                  at_peak(w->logits.int8, &l->int8, &l->f32) * logits;
    double bf16 = at_peak(w->row.bf16, &l->bf16, &l->f32) * rows +
                  at_peak(w->logits.bf16, &l->bf16, &l->f32) * logits;
    double f32 = at_peak(w->row.f32, &l->f32, &l->f32) * rows +
                 at_peak(w->logits.f32, &l->f32, &l->f32) * logits;

    if (reading >= int8 + bf16 + f32)
        return (floor_time){ reading, "memory" };
    const char *max = int8 >= bf16 && int8 >= f32 ? "int8" : bf16 >= f32 ? "bf16" : "f32";
    return (floor_time){ int8 + bf16 + f32, max };
}

static void set_limit(bench *b)
{
    lm_bench_result *r = &b->r;
    const lm_limits *l = &b->limits;
    lm_work w;

    lm_engine_work(b->g, &w);
    double weights = (double)w.weight_bytes / l->memory.all,
           keys = (double)w.kv_bytes * r->sequences / l->memory.all;
    double batches = ceil((double)r->prompt / r->batch) * r->sequences, at = (double)r->depth + r->prompt;

    double rows = (double)r->prompt * r->sequences, tokens = (double)r->gen * r->sequences;
    floor_time p = slower(l, &w, rows, r->sequences, batches * (weights + keys / r->sequences * r->depth));
    floor_time g = slower(l, &w, tokens, tokens, r->gen * (weights + keys * at));
    r->limit      = r->tokens / ((r->prompt ? p.seconds : 0) + (r->gen ? g.seconds : 0));
    r->limited_by = r->prompt && (!r->gen || p.seconds > g.seconds) ? p.by : g.by;
    r->peak = r->limited_by[0] == 'm'   ? l->memory.all
              : r->limited_by[0] == 'i' ? l->int8.all
              : r->limited_by[0] == 'b' ? l->bf16.all
                                        : l->f32.all;
}

/* Predict the speed of the test. Generation is predicted at half its length, since the context grows during
 * it. */
static lm_status predict(bench *b, lm_error *e)
{
    lm_bench_result *r = &b->r;
    lm_forecast      steps = { 0 };
    double           seconds = 0;

    if (r->gen) {
        LM_TRY(lm_engine_forecast(b->g, 0, r->sequences, r->depth + r->prompt + r->gen / 2, &steps, e));
        seconds += r->gen * steps.seconds;
        r->forecast = steps;
    }
    if (r->prompt) {
        LM_TRY(lm_engine_forecast(b->g, r->prompt, r->sequences, r->depth, &r->forecast, e));
        seconds += r->forecast.seconds;
    }
    r->predicted = seconds > 0 && !r->forecast.unknown && !steps.unknown ? r->tokens / seconds : 0;
    return LM_OK;
}

static lm_status print_line(bench *b, lm_error *e)
{
    lm_text out = { 0 };

    if (!b->printed)
        lm_bench_head(b->form, &out);
    lm_bench_line(b->form, &b->r, !b->printed, &out);
    b->printed = true;
    lm_status status = lm_out_buf(&out, e);
    lm_text_free(&out);
    return status;
}

static uint64_t max_memory(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

static lm_status run_test(bench *b, uint32_t prompt, uint32_t gen, lm_error *e)
{
    lm_measure_options peaks = { .cpu = b->o->cpu, .threads = prompt ? b->r.threads_batch : b->r.threads,
                                 .fresh = b->o->limits == LIMITS_MEASURED };
    struct timespec rest = { .tv_sec = b->o->delay };
    double ignored;

    nanosleep(&rest, NULL);
    b->r.prompt = prompt;
    b->r.gen = gen;
    b->r.tokens = ((double)prompt + gen) * b->r.sequences;
    if (!b->o->no_warmup)
        LM_TRY(once(b, prompt, gen > 8 ? 8 : gen, &ignored, e));
    if (!b->r.rss)
        b->r.rss = max_memory();                         /* before the probes, which allocate memory too */
    LM_TRY(lm_machine_measure(&peaks, &b->limits, e));
    LM_TRY(predict(b, e));
    b->r.time = (int64_t)time(NULL);
    b->r.busy = b->limits.busy;
    b->r.below = b->limits.below;
    for (uint32_t i = 0; i < b->r.reps; i++)
        LM_TRY(once(b, prompt, gen, &b->seconds[i], e));
    summarise(b);
    if (b->o->profile)
        LM_TRY(profile(b, prompt, gen, e));
    set_limit(b);
    return print_line(b, e);
}

/* ---- combinations of tests ---- */

static lm_status start(bench *b, const lists *l, uint32_t threads, uint32_t batch, uint32_t sequences,
                       lm_error *e)
{
    uint32_t prompt = lm_bench_largest(&l->prompts), gen = lm_bench_largest(&l->gens),
             max = batch > sequences ? batch : sequences;
    uint32_t longest = prompt > gen ? prompt : gen;
    lm_engine_options o = {
        .sequences = sequences,
        .max_rows = max,
        .max_logits = sequences,
        .compute = (lm_compute)b->o->compute,
        .threads = threads,
        .threads_batch = b->o->threads_batch,
        .no_repack = b->o->no_repack,
        .cpu = b->o->cpu,
    };
    double from = lm_clock_seconds();

    LM_TRY(lm_cache_options(&b->o->cache, LM_KV_F16, &o, e));
    for (uint32_t i = 0; i < l->n_both; i++) {
        uint32_t both = l->both[i].at[0] + l->both[i].at[1];
        longest = both > longest ? both : longest;
    }
    o.context = lm_bench_largest(&l->depths) + longest;
    lm_bench_texts_close(&b->texts);
    lm_engine_free(b->g);
    b->g = NULL;
    if (o.context < 1)
        return lm_fail(e, LM_USAGE, "bench", LM_NO_OFFSET, "no test selected; use -p, -n or -pg");
    lm_loras_engine(&b->loras, &o);
    LM_TRY(lm_start_engine(b->m, &o, &b->g, e));
    LM_TRY(lm_bench_texts_open(b->g, batch, &b->cli->store, &b->texts, e));
    b->r.load_seconds = lm_clock_seconds() - from;
    b->r.threads = lm_engine_threads(b->g);
    b->r.threads_batch = lm_engine_threads_batch(b->g);
    b->r.level = lm_engine_cpu(b->g);
    b->r.batch = batch;
    b->r.sequences = sequences;
    lm_engine_allocated(b->g, &b->r.memory);
    return lm_engine_predict(b->m, &o, &b->r.planned, e);
}

static lm_status run_tests(bench *b, const lists *l, lm_error *e)
{
    for (uint32_t d = 0; d < l->depths.n; d++) {
        b->r.depth = l->depths.at[d];
        for (uint32_t i = 0; i < l->prompts.n; i++)
            if (l->prompts.at[i])
                LM_TRY(run_test(b, l->prompts.at[i], 0, e));
        for (uint32_t i = 0; i < l->gens.n; i++)
            if (l->gens.at[i])
                LM_TRY(run_test(b, 0, l->gens.at[i], e));
        for (uint32_t i = 0; i < l->n_both; i++)
            LM_TRY(run_test(b, l->both[i].at[0], l->both[i].at[1], e));
    }
    return LM_OK;
}

/* Run the tests for every number of sequences, with one number of threads and one batch size. */
static lm_status run_batch(bench *b, const lists *l, uint32_t threads, uint32_t batch, uint32_t micro_batch,
                           lm_error *e)
{
    b->r.n_batch = batch;
    for (uint32_t s = 0; s < l->sequences.n; s++) {
        LM_TRY(start(b, l, threads, batch < micro_batch ? batch : micro_batch, l->sequences.at[s], e));
        LM_TRY(run_tests(b, l, e));
    }
    return LM_OK;
}

static lm_status run_all(bench *b, const lists *l, lm_error *e)
{
    for (uint32_t t = 0; t < l->threads.n; t++)
        for (uint32_t k = 0; k < l->batches.n; k++)
            for (uint32_t u = 0; u < l->micro_batches.n; u++)
                LM_TRY(run_batch(b, l, l->threads.at[t], l->batches.at[k], l->micro_batches.at[u], e));
    lm_text tail = { 0 };
    lm_bench_tail(b->form, &tail);
    lm_text_add(&tail, b->profiles.data, b->profiles.size);
    tail.failed |= b->profiles.failed;
    b->cli->answered = true;
    lm_status status = lm_out_buf(&tail, e);
    lm_text_free(&tail);
    return status;
}

static lm_status run_bench(lm_cli *cli, void *options, lm_error *e)
{
    bench_options *o = options;
    bench *b = lm_store_new(&cli->store, 1, bench);
    lm_machine machine;
    lists l;

    if (!b)
        return lm_fail_memory(e, "bench", sizeof *b);
    if (o->profile && !cli->json && o->form == LM_BENCH_CSV)
        return lm_fail(e, LM_USAGE, "--profile", LM_NO_OFFSET,
                       "cannot be combined with -o %s; use md, json or jsonl", form_words[o->form]);
    LM_TRY(read_lists(o, &l, e));
    LM_TRY(lm_machine_describe(&machine, e));
    lm_engine_options types;
    LM_TRY(lm_cache_options(&o->cache, LM_KV_F16, &types, e));
    *b = (bench){ .cli = cli, .o = o, .form = cli->json ? LM_BENCH_JSON : (lm_bench_form)o->form };
    o->model.o.tokenizer_optional = true;
    LM_TRY(lm_open_model(cli, &o->model, cli->args[0], &b->m, e));
    lm_model_describe(b->m, &b->r.info);
    b->r.cpu = machine.cpu;
    b->r.keys = lm_kv_words[types.kv];
    b->r.values = lm_kv_words[types.kv_values];
    b->r.repack = !o->no_repack;
    b->r.mapped = !o->model.o.no_mmap;
    b->r.compute = lm_compute_words[o->compute];
    b->r.reps = o->reps;
    lm_status status = lm_loras_open(cli, &o->lora, b->m, &b->loras, e);
    if (status == LM_OK)
        status = run_all(b, &l, e);
    lm_text_free(&b->profiles);
    lm_bench_texts_close(&b->texts);
    lm_engine_free(b->g);
    lm_loras_close(&b->loras);
    lm_model_close(b->m);
    return status;
}

const lm_command lm_command_bench = {
    .name = "bench",
    .usage = "[MODEL] [-p 512] [-n 64] [-d 0] [-t N] [-r 5] [-o md|csv|json|jsonl]",
    .summary = "measure how fast a model runs, compared with the limits of the machine",
    .about = "  Columns and flags follow llama-bench. A list such as -p 128,512 gives one line per value.\n"
             "  \"limit\" is the upper bound set by this machine's peak arithmetic (prompts) or memory bandwidth (generation),\n"
             "  measured before each line. \"predicted\" is computed from the speed of each kernel measured alone; the percentage\n"
             "  is its error.\n",
    .groups = bench_groups,
    .foreign = true,
    .max_args = 1,
    .options_size = sizeof(bench_options),
    .defaults = bench_defaults,
    .run = run_bench,
};
