/* searches.c - rows packed as llama.cpp's quantisers pack them, to the byte, or with less error, by every
 * instruction set. */
#include "golden.h"

#include <math.h>

#include "kernels/quantize.h"

enum { MAX_COLS = 2304, MAX_ROWS = 5, MAX = 2 * MAX_COLS, CODED = 16 * 1024 };

/* The inputs of tools/oracle/searches.py: exact arithmetic only, so the floats are the same on every
 * machine. */
static uint64_t lcg;

static double uniform(void)
{
    lcg = lcg * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(lcg >> 40) / 16777216.0;
}

static float bell(void)
{
    double sum = 0;

    for (int i = 0; i < 12; i++)
        sum += uniform();
    return (float)(sum - 6.0);
}

static void make_input(const char *label, int rows, int cols, float *x)
{
    static const char *const labels[] = {
        "normal", "heavy", "shifted", "uniform", "spiky", "sparse", "tiny"
    };
    unsigned which = 0;

    while (which < 7 && strcmp(labels[which], label) != 0)
        which++;
    assert_in_range(which, 0, 6);
    lcg = which + 100 * (unsigned)cols;
    for (int i = 0; i < rows * cols; i++) {
        float b = bell();
        switch (which) {
        case 0: x[i] = b; break;
        case 1: x[i] = b * b * b * 0.125f; break;
        case 2: x[i] = b * 0.0625f + 0.25f; break;
        case 3: x[i] = (float)(uniform() - 0.5); break;
        case 4: x[i] = b * (i % 97 ? 1.0f : 16.0f); break;
        case 5: x[i] = i % 512 < 300 || i % 3 ? 0.0f : b; break;
        default: x[i] = b * ldexpf(1.0f, -(i / 64 % 80));
        }
    }
}

static void make_importance(int cols, float *out)
{
    lcg = (unsigned)cols;
    for (int i = 0; i < cols; i++) {
        float b = bell();
        out[i] = i % 17 ? b * b : 0.0f;
    }
}

typedef struct way { const char *name; lm_quantize_fn *run; } way;

static size_t ways(way out[3])
{
    size_t n = 0;

    out[n++] = (way){ "ref", lm_quantizer(0) };
#ifdef __x86_64__
    if (lm_cpu_detected() & LM_CPU_AVX2)
        out[n++] = (way){ "avx2", lm_quantizer(LM_CPU_AVX2) };
    if (lm_cpu_detected() & LM_CPU_AVX512)
        out[n++] = (way){ "avx512", lm_quantizer(LM_CPU_AVX2 | LM_CPU_AVX512) };
#endif
    return n;
}

static void bytes_equal_llama_cpp(void **state)
{
    (void)state;
    static float   x[MAX + MAX_COLS];
    static uint8_t packed[4 * MAX];
    FILE *f = golden_open("searches.txt");
    char line[256], name[16], label[16];
    unsigned long long input, wanted;
    way run[3];
    size_t n = ways(run);
    int cols, given, lines = 0, bad = 0;

    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%15s %15s %d %d %llx %llx", name, label, &cols, &given, &input,
                                &wanted),
                         6);
        assert_in_range(cols, 256, MAX_COLS);
        const lm_dtype_info *t = lm_dtype_named(name);
        int rows = cols == MAX_COLS ? 2 : MAX_ROWS, many = rows * cols;
        assert_non_null(t);
        assert_true(lm_can_quantize(t->type));
        make_input(label, rows, cols, x);
        make_importance(cols, x + many);
        assert_true(fnv1a(x, sizeof *x * (size_t)(many + (given ? cols : 0))) == input);
        size_t stride = (size_t)cols / t->block * t->bytes;
        for (size_t w = 0; w < n; w++) {
            for (int r = 0; r < rows; r++)
                run[w].run(t->type, packed + (size_t)r * stride, x + r * cols, (uint64_t)cols,
                           given ? x + many : NULL);
            if (fnv1a(packed, (size_t)rows * stride) != wanted) {
                print_error("%s %s, %d columns, importance %d, %s: other bytes\n", name, label, cols, given,
                            run[w].name);
                bad++;
            }
        }
        lines++;
    }
    fclose(f);
    assert_int_equal(bad, 0);
    assert_int_equal(lines, 336);
    print_message("%d rows of %zu instruction sets\n", lines, n);
}

/* The importance-weighted error of the codebook types, relative to the weighted square of the numbers. */
static double weighted_error(const lm_dtype_info *t, const float *x, const float *w, int rows, int cols,
                             lm_quantize_fn *run, uint8_t *packed)
{
    static float y[CODED];
    double       error = 0, all = 0;
    size_t       stride = (size_t)cols / t->block * t->bytes;

    for (int r = 0; r < rows; r++)
        run(t->type, packed + (size_t)r * stride, x + r * cols, (uint64_t)cols, w);
    t->unpack(y, packed, (size_t)(rows * cols));
    for (int i = 0; i < rows * cols; i++) {
        double weight = w ? (double)w[i % cols] : 1;
        error += weight * ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        all += weight * (double)x[i] * x[i];
    }
    return error / all;
}

/* The codebook types lose no more than with llama.cpp's quantisers, and their bytes do not depend on the
 * instruction set. */
static void codebooks_lose_no_more_than_llama_cpp(void **state)
{
    (void)state;
    enum { ROWS = 16, COLS = 1024 };
    static float   x[CODED + COLS];
    static uint8_t packed[CODED], again[CODED];
    FILE              *f = golden_open("codebooks.txt");
    char               line[256], name[16], label[16];
    unsigned long long input;
    double             theirs, worst = 0;
    way                run[3];
    size_t             n = ways(run);
    int                given, lines = 0, bad = 0;

    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%15s %15s %d %llx %lf", name, label, &given, &input, &theirs), 5);
        const lm_dtype_info *t = lm_dtype_named(name);
        assert_non_null(t);
        make_input(label, ROWS, COLS, x);
        make_importance(COLS, x + CODED);
        assert_true(fnv1a(x, sizeof *x * (size_t)(CODED + (given ? COLS : 0))) == input);
        const float *w    = given ? x + CODED : NULL;
        double       ours = weighted_error(t, x, w, ROWS, COLS, run[0].run, packed);
        worst             = ours > worst * theirs ? ours / theirs : worst;
        if (!(ours <= theirs)) {
            print_error("%s %s, importance %d: error %.6g, llama.cpp %.6g (%+.2f %%)\n", name, label, given,
                        ours, theirs, 100 * (ours / theirs - 1));
            bad++;
        }
        weighted_error(t, x, w, ROWS, COLS, run[n - 1].run, again);
        assert_memory_equal(packed, again, CODED / t->block * t->bytes);
        lines++;
    }
    fclose(f);
    assert_int_equal(bad, 0);
    assert_int_equal(lines, 98);
    print_message("%d packs, worst error / llama.cpp's = %.4f\n", lines, worst);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(bytes_equal_llama_cpp),
                                        cmocka_unit_test(codebooks_lose_no_more_than_llama_cpp) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
