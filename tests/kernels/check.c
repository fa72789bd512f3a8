#include "check.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os/clock.h"

enum { CANARY = 0xa5, FRONT = 64 };

static uint64_t state = 1;
static long     checks, failures;

/* ---- memory
 * ------------------------------------------------------------------------------------------------------ */

typedef struct guard {
    uint8_t *map, *at;
    size_t   size, bytes, after;
    struct guard *next;
} guard;

static guard *guards;

void *guarded(size_t bytes, size_t misaligned)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (bytes + misaligned + FRONT + page - 1) / page * page;
    guard *g = calloc(1, sizeof *g);
    uint8_t *map = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (!g || map == MAP_FAILED || mprotect(map + size, page, PROT_NONE)) {
        perror("guarded memory");
        exit(1);
    }
    memset(map, CANARY, size);
    *g = (guard){ map, map + size - misaligned - bytes, size + page, bytes, misaligned, guards };
    guards = g;
    return g->at;
}

void guarded_free(void *p)
{
    for (guard **link = &guards; *link; link = &(*link)->next) {
        guard *g = *link;
        bool clean = true;
        if (g->at != p)
            continue;
        for (uint8_t *c = g->map; c < g->at; c++)
            clean = clean && *c == CANARY;
        for (size_t i = 0; i < g->after; i++)
            clean = clean && g->at[g->bytes + i] == CANARY;
        check(clean, "memory around a buffer of %zu bytes was written", g->bytes);
        munmap(g->map, g->size);
        *link = g->next;
        free(g);
        return;
    }
    abort();
}

/* ---- random numbers
 * ---------------------------------------------------------------------------------------------- */

uint32_t rnd(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 32);
}

uint32_t rnd_below(uint32_t n)
{
    return (uint32_t)((uint64_t)rnd() * n >> 32);
}

float rnd_normal(void)
{
    uint32_t sum = 0;                            /* of twelve 16-bit numbers */
    for (int i = 0; i < 6; i++) {
        uint32_t two = rnd();
        sum += (two & 0xffff) + (two >> 16);
    }
    return (float)sum * 0x1p-16f - 6.0f;
}

void rnd_floats(float *x, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        x[i] = rnd_normal() * scale;
}

/* Pack random floats if the type can be packed; otherwise draw random bytes until all floats are finite and
 * small. */
void rnd_matrix(lm_dtype type, void *dst, uint64_t rows, uint64_t cols)
{
    const lm_dtype_info *t = lm_dtype_of(type);
    float x[256];
    uint8_t *p = dst;

    for (uint64_t i = 0; i < rows * cols; i += t->block, p += t->bytes) {
        if (t->pack) {
            rnd_floats(x, t->block, ldexpf(1.0f, (int)rnd_below(9) - 8));
            t->pack(p, x, t->block);
            continue;
        }
        bool finite = false;
        while (!finite) {
            for (uint32_t k = 0; k < t->bytes; k++)
                p[k] = (uint8_t)rnd();
            t->unpack(x, p, t->block);
            finite = true;
            for (uint32_t k = 0; k < t->block; k++)
                finite = finite && fabsf(x[k]) < 1e4f;
        }
    }
}

/* ---- checks
 * ------------------------------------------------------------------------------------------------------ */

static void failed(const char *format, va_list args, const char *detail)
{
    failures++;
    if (failures > 20)
        return;
    fputs("FAILED: ", stderr);
    vfprintf(stderr, format, args);
    fprintf(stderr, "%s\n", detail);
}

void check(bool ok, const char *format, ...)
{
    va_list args;

    checks++;
    if (ok)
        return;
    va_start(args, format);
    failed(format, args, "");
    va_end(args);
}

void check_close(double got, double want, double bound, const char *format, ...)
{
    va_list args;
    char detail[128];

    checks++;
    if (fabs(got - want) <= bound || (isnan(got) && isnan(want)) || got == want)
        return;
    snprintf(detail, sizeof detail, ": got %.9g, want %.9g, allowed %.3g", got, want, bound);
    va_start(args, format);
    failed(format, args, detail);
    va_end(args);
}

bool same_bits(float a, float b)
{
    return !memcmp(&a, &b, sizeof a) || (isnan(a) && isnan(b));
}

/* ---- time
 * -------------------------------------------------------------------------------------------------------- */

double best_seconds(void (*call)(void *), void *arg)
{
    double best = 1e30, start = lm_clock_seconds();

    for (int i = 0; i < 1000 && (i < 3 || lm_clock_seconds() - start < 0.2); i++) {
        double from = lm_clock_seconds();
        call(arg);
        double took = lm_clock_seconds() - from;
        best = took < best ? took : best;
    }
    return best;
}

/* ---- the program
 * ------------------------------------------------------------------------------------------------- */

enum { LEVELS = 16 };

/* Find every level of this machine, and those with strips also as tuned for the other vendor. */
static size_t find_levels(level out[LEVELS])
{
    static const char *const tuned[][3] = {
        { "sse41", "sse41, AMD", "sse41, Intel" },
        { "avx2", "avx2, AMD", "avx2, Intel" },
        { "avxvnni", "avxvnni, AMD", "avxvnni, Intel" },
        { "avx512vnni", "avx512vnni, AMD", "avx512vnni, Intel" },
    };
    lm_cpu mask, last = ~0u;
    size_t n = 0;

    for (size_t i = 0; lm_cpu_level_name(i) && n + 2 <= LEVELS; i++) {
        level l = { .name = lm_cpu_level_name(i) };
        if (lm_cpu_level(l.name, &mask, NULL) != LM_OK || last == (mask & lm_cpu_detected()))
            continue;
        last = l.cpu = mask & lm_cpu_detected();
        out[n++] = l;
        for (size_t t = 0; t < sizeof tuned / sizeof *tuned; t++) {
            if (strcmp(l.name, tuned[t][0]))
                continue;
            l.name = tuned[t][l.cpu & LM_CPU_INTEL ? 1 : 2];
            l.cpu ^= LM_CPU_INTEL;
            out[n++] = l;
        }
    }
    return n;
}

static void usage(void)
{
    fputs("usage: test_kernels [--seed N] [--level NAME] [--batches | --bench]\n", stderr);
    exit(2);
}

int main(int argc, char **argv)
{
    uint64_t seed = (uint64_t)time(NULL);
    const char *only = NULL;
    bool bench = false, batches = false;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench"))
            bench = true;
        else if (!strcmp(argv[i], "--batches"))
            batches = true;
        else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--level") && i + 1 < argc)
            only = argv[++i];
        else
            usage();
    }

    int levels = 0;
    level all[LEVELS];
    size_t n = find_levels(all);
    for (size_t i = 0; i < n; i++) {
        level l = all[i];
        if (only && (strlen(only) != strcspn(l.name, ",") || strncmp(only, l.name, strlen(only))))
            continue;
        lm_kernels_init(&l.k, l.cpu);
        state = seed;
        levels++;
        if (bench) {
            bench_rows(&l);
            bench_matmul(&l);
            bench_attention(&l);
            continue;
        }
        if (batches) {
            check_batches(&l);
            continue;
        }
        long before = checks;
        check_rows(&l);
        check_matmul(&l);
        check_attention(&l);
        printf("%-22s %ld checks\n", l.name, checks - before);
    }
    if (bench)
        return 0;
    if (batches)
        printf("count: combinations of type, level, rows and threads with equal bits %ld\n",
               checks - failures);
    printf("%d levels, %ld checks, %ld failed (seed %llu)\n", levels, checks, failures,
           (unsigned long long)seed);
    return failures || !levels ? 1 : 0;
}
