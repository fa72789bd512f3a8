/* schemes.c - measure the cost of each activation format: divergence from float32 and perplexity of a model,
 * as a Markdown table.
 *
 *   bench_schemes [MODEL.gguf] [FOLDER] [--only TEXT]
 *
 * FOLDER: tests/golden/smollm2, made for that model. Rows "by" the engine run its own kernels; simulated rows
 * round every input of an integer product as the scheme does and multiply in float32. "Products" is the
 * number of columns multiplied, second bytes in groups of four, per column of the input. --only: the rows
 * whose name contains TEXT. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tests/invariants/fidelity.h"
#include "kernels/levels.h"

typedef enum seconds_bytes {
    NO_SECONDS,
    OF_OUTLIERS,                 /* values above `above` times the mean of the blocks' largest magnitudes have
                                    a second byte */
    OF_BLOCKS                    /* all values of a block whose largest magnitude exceeds `above` times the
                                    root mean square of these */
} seconds_bytes;

typedef enum scaling { TO_LARGEST, LEAST_ERROR, POWERS_OF_TWO } scaling;

typedef struct scheme {
    const char   *name;
    bool          as_is;         /* the engine's own kernels, in mode `compute` */
    lm_compute    compute;
    bool          bf16;          /* attention multiplies bfloat16 */
    uint32_t      columns;       /* columns that share a scale */
    seconds_bytes seconds;
    float         above;
    scaling       scaling;
} scheme;

static const scheme schemes[] = {
    { .name = "float32", .as_is = true, .compute = LM_COMPUTE_F32 },
    { .name = "15 bits, a scale for each 128 (`--compute fine`)", .as_is = true, .compute = LM_COMPUTE_FINE },
    { .name = "8 bits for each 128, second bytes above 1.6 × the mean (`auto`)", .as_is = true },
    { .name = "the same, attention in bfloat16", .as_is = true, .bf16 = true },
    { .name = "128, above 1.6 ×", .columns = 128, .seconds = OF_OUTLIERS, .above = 1.6f },
    { .name = "128, above 1.4 ×", .columns = 128, .seconds = OF_OUTLIERS, .above = 1.4f },
    { .name = "128, above 1.8 ×", .columns = 128, .seconds = OF_OUTLIERS, .above = 1.8f },
    { .name = "64, above 1.6 ×", .columns = 64, .seconds = OF_OUTLIERS, .above = 1.6f },
    { .name = "64, above 2.0 ×", .columns = 64, .seconds = OF_OUTLIERS, .above = 2.0f },
    { .name = "64, above 2.5 ×", .columns = 64, .seconds = OF_OUTLIERS, .above = 2.5f },
    { .name = "64, above 3.5 ×", .columns = 64, .seconds = OF_OUTLIERS, .above = 3.5f },
    { .name = "256, above 1.3 ×", .columns = 256, .seconds = OF_OUTLIERS, .above = 1.3f },
    { .name = "256, above 1.5 ×", .columns = 256, .seconds = OF_OUTLIERS, .above = 1.5f },
    { .name = "256, above 1.7 ×", .columns = 256, .seconds = OF_OUTLIERS, .above = 1.7f },
    { .name = "32, 15 bits in blocks above 1.7 × the root mean square", .columns = 32, .seconds = OF_BLOCKS, .above = 1.7f },
    { .name = "the same, attention in bfloat16", .columns = 32, .seconds = OF_BLOCKS, .above = 1.7f, .bf16 = true },
    { .name = "8 bits for each 256", .columns = 256 },
    { .name = "8 bits for each 128", .columns = 128 },
    { .name = "8 bits for each 32", .columns = 32 },
    { .name = "8 bits for each 32, scales by least error", .columns = 32, .scaling = LEAST_ERROR },
    { .name = "8 bits for each 16", .columns = 16 },
    { .name = "powers of two for each 32", .columns = 32, .scaling = POWERS_OF_TWO },
    { .name = "powers of two for each 32, 15 bits in blocks above 2 ×", .columns = 32, .seconds = OF_BLOCKS,
      .above = 2.0f,
      .scaling = POWERS_OF_TWO },
};

static const scheme *running;
static atomic_ullong packed, second;             /* columns: all, and those with a second product */

/* ---- rounding ---- */

static float largest(const float *x, uint64_t n)
{
    float max = 0;

    for (uint64_t i = 0; i < n; i++)
        max = fmaxf(max, fabsf(x[i]));
    return max;
}

/* Round x to multiples of d within ±limit × d. */
static void round_to(float *y, const float *x, uint64_t n, float d, float limit)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = d > 0 ? d * fminf(fmaxf(rintf(x[i] / d), -limit), limit) : 0;
}

static float least_error(const float *x, uint64_t n, float d)
{
    float best = d, min = INFINITY, y[256];

    for (int i = 0; i < 32; i++) {
        float tried = d * (1.0f - (float)i / 2048), error = 0;
        round_to(y, x, n, tried, 127);
        for (uint64_t k = 0; k < n; k++)
            error += (y[k] - x[k]) * (y[k] - x[k]);
        best = error < min ? tried : best;
        min = fminf(error, min);
    }
    return best;
}

/* Return the magnitude above which a part of the row is an outlier. */
static float top_of(const float *x, uint64_t cols)
{
    double   sum = 0;
    uint64_t n = 0;

    for (uint64_t from = 0; from < cols; from += 32, n++) {
        double max = (double)largest(x + from, cols - from < 32 ? cols - from : 32);
        sum += running->seconds == OF_BLOCKS ? max * max : max;
    }
    sum /= (double)n;
    return running->above * (float)(running->seconds == OF_BLOCKS ? sqrt(sum) : sum);
}

/* Round the columns of one scale. Second bytes of outliers are counted in groups of four columns, as kernels
 * multiply them. */
static void round_group(float *y, const float *x, uint64_t n, float top)
{
    float    max = largest(x, n), eight = max;
    bool     wide = running->seconds == OF_BLOCKS && max > top;
    uint64_t seconds = wide ? n : 0;

    if (running->seconds == OF_OUTLIERS) {
        eight = 0;
        for (uint64_t i = 0; i < n; i += 4) {
            float four = largest(x + i, n - i < 4 ? n - i : 4);
            eight = four <= top ? fmaxf(eight, four) : eight;
        }
    }
    float d = wide ? max / 16256 : fmaxf(eight / 127, max / 16256);
    if (running->scaling == POWERS_OF_TWO && d > 0)
        d = exp2f(ceilf(log2f(d)));
    if (running->scaling == LEAST_ERROR)
        d = least_error(x, n, d);
    for (uint64_t i = 0; running->seconds == OF_OUTLIERS && i < n; i += 4)
        seconds += largest(x + i, n - i < 4 ? n - i : 4) > 127.5f * d ? 4 : 0;
    round_to(y, x, n, d, running->seconds == NO_SECONDS ? 127 : 16256);
    atomic_fetch_add(&second, seconds);
    atomic_fetch_add(&packed, n);
}

static uint64_t row_bytes(uint64_t cols)
{
    return lm_f32_row_bytes(cols);
}

static void round_row(void *dst, const float *x, uint64_t cols)
{
    float *y = dst, top = running->seconds ? top_of(x, cols) : 0;

    for (uint64_t from = 0; from < cols; from += running->columns)
        round_group(y + from, x + from, cols - from < running->columns ? cols - from : running->columns, top);
}

/* ---- kernel replacement: the linker redirects the engine's calls of lm_kernels_init here ---- */

void __real_lm_kernels_init(lm_kernels *k, lm_cpu cpu);
void __wrap_lm_kernels_init(lm_kernels *k, lm_cpu cpu);

void __wrap_lm_kernels_init(lm_kernels *k, lm_cpu cpu)
{
    static const lm_activation rounded = { .name = "rounded", .bytes = row_bytes, .pack = round_row };
    static lm_matmul           kernels[LM_DTYPE_SLOTS];

    __real_lm_kernels_init(k, cpu);
    for (int i = 0; running && !running->as_is && i < LM_DTYPE_SLOTS; i++)
        if (k->fast[i] && k->fast[i]->arithmetic == LM_ARITHMETIC_INT8) {
            kernels[i]   = *k->exact[i];
            kernels[i].x = &rounded;
            k->fast[i]   = &kernels[i];
        }
    if (running && !running->bf16)
        k->attention_fast = k->attention;
}

/* ---- the table ---- */

static lm_status run(const lm_model *m, const char *folder, const scheme *s, lm_error *e)
{
    lm_engine_options o = { .compute = s->compute, .cpu = s->bf16 ? "avx512bf16" : NULL };
    fidelity          f;

    running = s;
    atomic_store(&packed, 0);
    atomic_store(&second, 0);
    LM_TRY(fidelity_of(m, folder, &o, &f, e));
    printf("| %s | %s | %.2e | %+.3f %% | ", s->name, s->as_is ? "engine" : "simulated", f.mean_kl,
           100 * (f.perplexity / f.reference - 1));
    if (packed)
        printf("%.2f |\n", 1 + (double)second / (double)packed);
    else
        printf("– |\n");
    fflush(stdout);
    return LM_OK;
}

static int failed(const lm_error *e)
{
    fprintf(stderr, "bench_schemes: error: %s%s%s: %s\n", e->file, e->file[0] && e->where[0] ? ": " : "",
            e->where, e->message);
    return 1;
}

int main(int argc, char **argv)
{
    const char *model = "build/assets/smollm2-135m-instruct-q4_1.gguf", *folder = "tests/golden/smollm2",
               *only = "";
    int         given = 0;
    lm_model   *m     = NULL;
    lm_error    e     = { 0 };
    lm_cpu      mask;
    bool        bf16  = lm_cpu_level("avx512bf16", &mask, &e) == LM_OK && (lm_cpu_detected() & mask) == mask;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else if (argv[i][0] != '-' && given < 2)
            *(given++ ? &folder : &model) = argv[i];
        else
            return fprintf(stderr, "usage: bench_schemes [MODEL.gguf] [FOLDER] [--only TEXT]\n"), 2;
    }
    if (lm_model_open(model, NULL, &m, &e) != LM_OK)
        return failed(&e);
    printf("| activations | by | mean KL | perplexity | products |\n| --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        const scheme *s = &schemes[i];
        if (!strstr(s->name, only))
            continue;
        if (s->bf16 && !bf16)
            printf("| %s | not on this processor | – | – | – |\n", s->name);
        else if (run(m, folder, s, &e) != LM_OK)
            return failed(&e);
    }
    printf("| 8 bits for each 32 | llama.cpp | %.2e | %+.3f %% | 1 |\n", fidelity_peer(folder, "mean_kl_top"),
           100 * (fidelity_peer(folder, "perplexity_ratio") - 1));
    lm_model_close(m);
    return 0;
}
