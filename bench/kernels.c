/* kernels.c - measure every matrix kernel of this machine in GOP/s and GB/s, next to the peaks measured at
 * the same time.
 *
 *   bench_kernels [--level NAME] [--type WORD] [--rows N] [--cols N] [--tokens N,…] [--hot] [--stored]
 *       [--fine] [--exact]
 *
 * One thread, timed by its own processor time, the minimum of several rounds: other work on the machine
 * hardly counts. Copies of the matrix are used in rotation so that they come from memory; --hot keeps one
 * strip pair in cache, --stored packs the rows of a file as they are multiplied. --exact: the float32
 * kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kernels/kernels.h"
#include "kernels/probe.h"

typedef struct options {
    const char *level, *type;
    uint64_t    rows, cols, tokens[16];
    size_t      n_tokens;
    bool        hot, stored, fine, exact;
} options;

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t noise = UINT64_C(88172645463325252);

static uint64_t random_bits(void)
{
    noise ^= noise << 13;
    noise ^= noise >> 7;
    noise ^= noise << 17;
    return noise;
}

/* ---- peaks ---- */

static double peak(const lm_probe_loop *loop, enum lm_probe_kind kind)
{
    static _Alignas(64) unsigned char data[LM_PROBE_BYTES];
    double best = 0;

    if (!loop->run)
        return 0;
    lm_probe_fill(data, kind, 1);
    for (int i = 0; i < 12; i++) {
        double from = cpu_seconds();
        loop->run(data, 100000);
        double rate = 1e5 * (double)loop->operations / (cpu_seconds() - from);
        best = rate > best ? rate : best;
    }
    return best;
}

static double reading(const lm_probes *p, const uint8_t *memory, size_t bytes)
{
    size_t stride = bytes / 4 & ~(size_t)65535, at = 0;
    double best = 0;
    volatile uint64_t sink = 0;

    for (int i = 0; i < 16; i++) {
        double from = cpu_seconds();
        for (int k = 0; k < 16; k++, at = at + 65536 < stride ? at + 65536 : 0)
            sink += p->read(memory + at, stride, 65536);
        double rate = 16.0 * 4 * 65536 / (cpu_seconds() - from);
        best = rate > best ? rate : best;
    }
    return best;
}

/* ---- one kernel ---- */

enum { REPEATS = 64 };               /* runs of a cached kernel between two clock readings, as a reading takes
                                        as long as a tile */

/* Return a size that exceeds any cache. */
static uint64_t memory_bytes(void)
{
    long last = sysconf(_SC_LEVEL3_CACHE_SIZE);

    return (UINT64_C(192) << 20) + (last > 0 ? 3 * (uint64_t)last : 0);
}

typedef struct job {
    lm_matmul_args a;
    const lm_matmul *m;
    uint8_t *w;
    uint64_t bytes, copies;
    uint64_t row_bytes;              /* of a row as stored; 0: w is packed */
} job;

static void run(job *j)
{
    if (j->row_bytes)
        lm_stored_run(j->m, &j->a, j->row_bytes);
    else
        j->m->run(&j->a);
}

static void fill_stored(lm_dtype type, uint8_t *p, uint64_t bytes, uint64_t cols, uint64_t rows)
{
    const lm_dtype_info *t = lm_dtype_of(type);
    float x[4096];

    if (!t->pack) {
        for (uint64_t i = 0; i < bytes; i++)
            p[i] = (uint8_t)(random_bits() >> 20 & 0x3f);
        return;
    }
    uint64_t row = cols / t->block * t->bytes, some = rows < 16 ? rows : 16;
    for (uint64_t r = 0; r < some; r++) {
        for (uint64_t at = 0; at < cols;) {
            uint64_t n = cols - at < 4096 ? cols - at : 4096;
            for (uint64_t i = 0; i < n; i++)
                x[i] = (float)((int)(random_bits() >> 40 & 2047) - 1024) * 1e-4f;
            t->pack(p + r * row + at / t->block * t->bytes, x, n);
            at += n;
        }
    }
    for (uint64_t r = some; r < rows; r++)
        memcpy(p + r * row, p + r % some * row, row);
}

static double measure(job *j, const options *o)
{
    const int repeats = o->hot ? REPEATS : 1;
    double best = 1e30;
    uint64_t turn = 0;

    for (uint64_t i = 0; i < j->copies; i++) {       /* the copy read next is the one read longest ago */
        j->a.w = j->w + i * j->bytes;
        run(j);
    }
    double start = cpu_seconds();
    for (int i = 0; i < 200 && (i < 5 || cpu_seconds() - start < 0.25); i++) {
        j->a.w = j->w + turn++ % j->copies * j->bytes;
        double from = cpu_seconds();
        for (int r = 0; r < repeats; r++)
            run(j);
        double took = (cpu_seconds() - from) / repeats;
        best = took < best ? took : best;
    }
    return best;
}

static void *memory(uint64_t bytes)
{
    void *p = lm_alloc_aligned((bytes + 63) & ~UINT64_C(63), 64);

    if (!p) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return p;
}

static void bench(const lm_matmul *m, lm_dtype type, const options *o, const lm_probes *probes)
{
    uint64_t rows = o->hot ? m->row_group * 2 : o->rows, cols = o->cols, row, stored;
    if (!lm_dtype_row_bytes(type, cols, &row))
        return;
    stored = row * rows;
    job j = { .m = m, .row_bytes = o->stored ? row : 0 };
    j.bytes  = m->packed_bytes && !o->stored ? m->packed_bytes(rows, cols) : (stored + 63) & ~UINT64_C(63);
    j.copies = o->hot ? 1 : 1 + memory_bytes() / j.bytes;
    j.w      = memory(j.bytes * j.copies);
    uint8_t *plain = memory(stored);
    fill_stored(type, plain, stored, cols, rows);
    for (uint64_t c = 0; c < j.copies; c++) {
        if (m->packed_bytes && !o->stored && c == 0)
            m->pack(j.w, plain, rows, cols, 0, rows);
        else
            memcpy(j.w + c * j.bytes, c ? j.w : plain, c ? j.bytes : stored);
    }
    double int8 = peak(&probes->int8, LM_PROBE_INT8), bf16 = peak(&probes->bf16, LM_PROBE_BF16),
           f32 = peak(&probes->f32, LM_PROBE_F32);
    double top = m->arithmetic == LM_ARITHMETIC_INT8   ? int8
                 : m->arithmetic == LM_ARITHMETIC_BF16 ? bf16
                                                       : f32;
    double memory_rate = reading(probes, j.w, j.bytes * j.copies);
    printf("%-26s", m->name);
    for (size_t i = 0; i < o->n_tokens; i++) {
        uint64_t n = o->tokens[i], stride = m->x->pack ? m->x->bytes(cols) : (cols * 4 + 63) & ~UINT64_C(63);
        uint64_t scratch_bytes = o->stored          ? lm_stored_scratch(m, cols) + 64
                                 : m->scratch_bytes ? m->scratch_bytes(cols)
                                                    : 64;
        float *x = memory(n * cols * 4), *y = memory(n * rows * 4);
        uint8_t *packed = memory(n * stride), *scratch = memory(scratch_bytes);
        for (uint64_t k = 0; k < n * cols; k++) {        /* approximately normal */
            int sum = 0;
            for (int u = 0; u < 4; u++)
                sum += (int)(random_bits() >> 40 & 1023) - 512;
            x[k] = (float)sum * 1e-3f;
        }
        for (uint64_t t = 0; t < n; t++) {
            if (m->x->pack)
                (o->fine && m->x->pack_fine ? m->x->pack_fine
                                            : m->x->pack)(packed + t * stride, x + t * cols, cols);
            else
                memcpy(packed + t * stride, x + t * cols, cols * 4);
        }
        j.a = (lm_matmul_args){ .w = j.w,
                                .rows = rows,
                                .cols = cols,
                                .last = rows,
                                .x = packed,
                                .x_stride = stride,
                                .n = n,
                                .y = y,
                                .y_stride = rows,
                                .scale = 1,
                                .scratch = scratch };
        double s = measure(&j, o), rate = 2.0 * (double)(rows * cols * n) / s, gb = (double)j.bytes / s;
        if (n == 1 && !o->hot)
            printf("  n=1 %5.1f GB/s %3.0f %%", gb * 1e-9, 100 * gb / memory_rate);
        else
            printf("  n=%-3d %6.1f %3.0f %%", (int)n, rate * 1e-9, 100 * rate / top);
        lm_free_aligned(x, (n * cols * 4 + 63) & ~UINT64_C(63));
        lm_free_aligned(y, (n * rows * 4 + 63) & ~UINT64_C(63));
        lm_free_aligned(packed, (n * stride + 63) & ~UINT64_C(63));
        lm_free_aligned(scratch, (scratch_bytes + 63) & ~UINT64_C(63));
    }
    printf("   of %.0f GOP/s, %.1f GB/s\n", top * 1e-9, memory_rate * 1e-9);
    fflush(stdout);
    lm_free_aligned(j.w, (j.bytes * j.copies + 63) & ~UINT64_C(63));
    lm_free_aligned(plain, (stored + 63) & ~UINT64_C(63));
}

static void usage(void)
{
    fputs("usage: bench_kernels [--level NAME] [--type WORD] [--rows N] [--cols N] [--tokens N,…] [--hot] "
          "[--stored] [--fine] [--exact]\n",
          stderr);
    exit(2);
}

static void read_tokens(options *o, const char *text)
{
    o->n_tokens = 0;
    for (char *end; *text && o->n_tokens < 16; text = *end ? end + 1 : end)
        o->tokens[o->n_tokens++] = strtoull(text, &end, 10);
}

int main(int argc, char **argv)
{
    options o = { .rows = 8192, .cols = 2048 };
    lm_kernels k;
    lm_probes probes;
    lm_cpu cpu = lm_cpu_usable(), mask;

    read_tokens(&o, "1,4,6,64");
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--hot")) {
            o.hot = true;
            continue;
        }
        if (!strcmp(argv[i], "--stored")) {
            o.stored = true;
            continue;
        }
        if (!strcmp(argv[i], "--fine")) {
            o.fine = true;
            continue;
        }
        if (!strcmp(argv[i], "--exact")) {
            o.exact = true;
            continue;
        }
        if (!value)
            usage();
        if (!strcmp(argv[i], "--level"))
            o.level = value;
        else if (!strcmp(argv[i], "--type"))
            o.type = value;
        else if (!strcmp(argv[i], "--rows"))
            o.rows = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--cols"))
            o.cols = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--tokens"))
            read_tokens(&o, value);
        else
            usage();
        i++;
    }
    if (o.level) {
        if (lm_cpu_level(o.level, &mask, NULL) != LM_OK)
            usage();
        cpu = lm_cpu_detected() & mask;
    }
    lm_kernels_init(&k, cpu);
    lm_probes_init(&probes, cpu);
    printf("%s, one thread, %d x %d%s; share of the peak and of reading memory\n", lm_cpu_name(cpu),
           (int)o.rows, (int)o.cols, o.hot ? ", in cache" : "");
    for (uint32_t id = 0; id < LM_DTYPE_SLOTS; id++) {
        if (!k.fast[id] || (o.type && strcmp(o.type, lm_dtype_of((lm_dtype)id)->name)))
            continue;
        bench(o.exact ? k.exact[id] : k.fast[id], (lm_dtype)id, &o, &probes);
    }
    return 0;
}
