/* pack.c - packing loses no more than llama.cpp's quantiser does on the same floats, and any float can be
 * packed. */
#include "golden.h"

#include <math.h>

#include "base/rng.h"
#include "tensor/dtype.h"

enum { N = 64 * 256 };

/* The inputs of tools/oracle/dtypes.py: exact arithmetic only, so the floats are the same on every
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

static void make_input(const char *label, float *x)
{
    static const char *const labels[] = { "normal", "heavy", "shifted", "uniform", "spiky" };
    unsigned which = 0;

    while (which < 5 && strcmp(labels[which], label))
        which++;
    assert_in_range(which, 0, 4);
    lcg = which + 1;
    for (int i = 0; i < N; i++) {
        float b;
        switch (which) {
        case 0: x[i] = bell(); break;
        case 1: b = bell(); x[i] = b * b * b * 0.125f; break;
        case 2: x[i] = bell() * 0.0625f + 0.25f; break;
        case 3: x[i] = (float)(uniform() - 0.5); break;
        default: x[i] = bell() * (i % 97 ? 1.0f : 16.0f);
        }
    }
}

static double relative_error(const float *x, const float *y)
{
    double error = 0, power = 0;
    for (int i = 0; i < N; i++) {
        error += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        power += (double)x[i] * x[i];
    }
    return sqrt(error / power);
}

static void error_is_within_one_percent(void **state)
{
    (void)state;
    static float x[N], y[N];
    static uint8_t bytes[N * 4];
    FILE *f = golden_open("pack.txt");
    char line[256], name[16], label[16], packed[32];
    unsigned long long input;
    double reference, worst = 0;
    int lines = 0, bad = 0;

    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%15s %15s %llx %lf %31s", name, label, &input, &reference, packed), 5);
        const lm_dtype_info *t = lm_dtype_named(name);
        if (!t || !t->pack)
            fail_msg("no writer for %s", name);

        make_input(label, x);
        assert_true(fnv1a(x, sizeof x) == input);
        t->pack(bytes, x, N);
        t->unpack(y, bytes, N);
        double error = relative_error(x, y);
        worst = fmax(worst, error / reference);
        if (error > reference * 1.01) {
            print_error("%s %s: error %.6g, llama.cpp %.6g (%+.2f %%)\n", name, label, error, reference,
                        100 * (error / reference - 1));
            bad++;
        }
        if (strcmp(packed, "-") && fnv1a(bytes, N / t->block * t->bytes) != strtoull(packed, NULL, 16)) {
            print_error("%s %s: packed bytes differ from the reference\n", name, label);
            bad++;
        }
        lines++;
    }
    fclose(f);
    assert_int_equal(bad, 0);
    assert_int_equal(lines, 105);
    print_message("%d packs, worst error / llama.cpp's = %.4f\n", lines, worst);
}

static const float extremes[] = { 0.0f, -0.0f, 1e-45f, -1e-40f, 1e-8f, 65504.0f, 1e20f, -3e38f, 3e38f,
                                  INFINITY, -INFINITY, NAN };
enum { N_EXTREMES = sizeof extremes / sizeof extremes[0] };

/* Packing writes exactly the right number of bytes, whatever the floats (under ubsan: no conversion out of
 * range). */
static void any_float_packs(void **state)
{
    (void)state;
    float x[256], y[256];
    uint8_t bytes[256 * 8 + 16];

    for (uint32_t id = 0; id < 256; id++) {
        const lm_dtype_info *t = lm_dtype_find(id);
        if (!t || !t->pack)
            continue;
        size_t size = 256 / t->block * t->bytes;
        for (int a = 0; a < N_EXTREMES; a++) {
            for (int b = 0; b < N_EXTREMES; b++) {
                for (int i = 0; i < 256; i++)
                    x[i] = i % 3 ? extremes[a] : extremes[b];
                memset(bytes, 0xa5, sizeof bytes);
                t->pack(bytes + 1, x, 256);
                t->unpack(y, bytes + 1, 256);
                assert_int_equal(bytes[0], 0xa5);
                assert_int_equal(bytes[size + 1], 0xa5);
            }
        }
    }
}

/* Zeros stay zeros, a block does not depend on its neighbours, and a single element that is not zero keeps
 * its value. */
static void zeros_and_single_values(void **state)
{
    (void)state;
    float x[512] = { 0 }, y[512];
    uint8_t bytes[512 * 8];

    for (uint32_t id = 0; id < 256; id++) {
        const lm_dtype_info *t = lm_dtype_find(id);
        if (!t || !t->pack)
            continue;
        memset(x, 0, sizeof x);
        t->pack(bytes, x, 512);
        t->unpack(y, bytes, 512);
        for (int i = 0; i < 512; i++)
            if (y[i] != 0.0f)
                fail_msg("%s: zero became %g", t->name, (double)y[i]);
        x[256 + 77] = -0.75f;
        t->pack(bytes, x, 512);
        t->unpack(y, bytes, 512);
        for (int i = 0; i < 256; i++)
            assert_true(y[i] == 0.0f);
        /* codebooks have no zero */
        float slack = strspn(t->name + 2, "123") && t->name[0] == 'i' ? 0.15f : 0.05f;
        if (!(fabsf(y[256 + 77] + 0.75f) < slack))
            fail_msg("%s: -0.75 among zeros became %g", t->name, (double)y[256 + 77]);
    }
}

/* Quick packing writes whole blocks and nothing else, accepts any float, has an RMS error of at most 1.5
 * times that of the search, and writes the same bytes where there is no search to skip. */
static void quick_packs(void **state)
{
    (void)state;
    enum { M = 64 * 256 };
    static float x[M], y[M], z[M];
    static uint8_t slow[M * 8], quick[M * 8 + 1];

    lm_rng_irwin_hall(x, M, 3, 4, 0, 1);
    for (uint32_t id = 0; id < 256; id++) {
        const lm_dtype_info *t = lm_dtype_find(id);
        if (!t || !t->pack)
            continue;
        size_t size = M / t->block * t->bytes;
        double best = 0, error = 0;
        t->pack(slow, x, M);
        t->unpack(y, slow, M);
        quick[size] = 0xa5;
        lm_pack_quickly(t->type, quick, x, M);
        t->unpack(z, quick, M);
        assert_int_equal(quick[size], 0xa5);
        for (int i = 0; i < M; i++) {
            best += (double)(y[i] - x[i]) * (double)(y[i] - x[i]);
            error += (double)(z[i] - x[i]) * (double)(z[i] - x[i]);
        }
        if (!(error <= best * 2.25))
            fail_msg("%s: error %g, with the search %g", t->name, error, best);
        if (t->block <= 32 && t->type != LM_IQ4_NL)
            assert_memory_equal(quick, slow, size);
        for (int a = 0; a < N_EXTREMES; a++) {
            for (int i = 0; i < 256; i++)
                z[i] = i % 3 ? extremes[a] : -0.5f;
            lm_pack_quickly(t->type, quick, z, 256);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_packs),
        cmocka_unit_test(error_is_within_one_percent),
        cmocka_unit_test(any_float_packs),
        cmocka_unit_test(zeros_and_single_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
