/* batches_check.c - the guarantee of kernels.h on batches and threads, bit for bit: every stored type on
 * every level, exact and fast, in batches of 1 to 100 rows on 1 to 4 threads, equals each row alone on one
 * thread. */
#include <pthread.h>

#include "check.h"

#include "tensor/dtype.h"

enum { MAX = 100, THREADS = 4, MAX_ROWS = 80 };

static const uint64_t batches[] = { 1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33, 64, 100 };

typedef struct share {
    const lm_matmul *m;
    lm_matmul_args   a;
    pthread_t        thread;
} share;

static void *work(void *arg)
{
    share *s = arg;

    if (s->a.first < s->a.last)
        s->m->run(&s->a);
    return NULL;
}

/* Compute all outputs, split between groups of rows, as the executor does. */
static void run_on(const lm_matmul *m, const lm_matmul_args *a, uint8_t *const scratch[THREADS],
                   uint64_t threads)
{
    share s[THREADS];
    uint64_t groups = (a->rows + m->row_group - 1) / m->row_group;

    for (uint64_t i = 0; i < threads; i++) {
        uint64_t last = groups * (i + 1) / threads * m->row_group;
        s[i] = (share){ .m = m, .a = *a };
        s[i].a.first = groups * i / threads * m->row_group;
        s[i].a.last = last < a->rows ? last : a->rows;
        s[i].a.scratch = scratch[i];
        if (i > 0 && pthread_create(&s[i].thread, NULL, work, &s[i])) {
            perror("thread");
            exit(1);
        }
    }
    work(&s[0]);
    for (uint64_t i = 1; i < threads; i++)
        pthread_join(s[i].thread, NULL);
}

static void *memory(uint64_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) & ~UINT64_C(63));

    if (!p) {
        perror("memory");
        exit(1);
    }
    return p;
}

/* Check one shape. Returns the number of combinations compared. */
static long one_shape(const level *l, const lm_matmul *m, lm_dtype type, uint64_t rows, uint64_t cols)
{
    const lm_dtype_info *t = lm_dtype_of(type);
    uint64_t stored_bytes = rows * (cols / t->block * t->bytes),
             stride = m->x->pack ? m->x->bytes(cols) : (cols * 4 + 63) & ~UINT64_C(63);
    uint8_t *stored = memory(stored_bytes),
            *packed = m->packed_bytes ? memory(m->packed_bytes(rows, cols)) : NULL;
    uint8_t *x = memory(MAX * stride), *scratch[THREADS];
    float *alone = memory(MAX * rows * 4), *y = memory(MAX * rows * 4), *row = memory(cols * 4),
          *bias = memory(rows * 4);
    long combinations = 0;

    rnd_matrix(type, stored, rows, cols);
    rnd_floats(bias, rows, 1.0f);
    if (packed)
        m->pack(packed, stored, rows, cols, 0, rows);
    for (uint64_t r = 0; r < MAX; r++) {
        rnd_floats(row, cols, 1.0f);
        for (uint32_t i = rnd_below(3); i > 0; i--)              /* blocks with outliers */
            row[rnd_below((uint32_t)cols)] *= 30;
        if (m->x->pack)
            m->x->pack(x + r * stride, row, cols);
        else
            memcpy(x + r * stride, row, cols * 4);
    }
    for (int i = 0; i < THREADS; i++)
        scratch[i] = memory(m->scratch_bytes ? m->scratch_bytes(cols) : 64);

    lm_matmul_args a = { .w = packed ? packed : stored,
                         .rows = rows,
                         .cols = cols,
                         .last = rows,
                         .x_stride = stride,
                         .n = 1,
                         .y_stride = rows,
                         .bias = bias,
                         .scale = 0.7f };
    for (uint64_t r = 0; r < MAX; r++) {
        a.x = x + r * stride;
        a.y = alone + r * rows;
        run_on(m, &a, scratch, 1);
    }
    a.x = x;
    a.y = y;
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (uint64_t threads = 1; threads <= THREADS; threads++, combinations++) {
            bool same = true;
            a.n = batches[b];
            memset(y, 0xff, MAX * rows * 4);
            run_on(m, &a, scratch, threads);
            for (uint64_t i = 0; i < a.n * rows; i++)
                same = same && same_bits(y[i], alone[i]);
            check(same, "%s (%s) %dx%d: %d rows on %d threads differ from one alone", m->name, l->name,
                  (int)rows, (int)cols, (int)a.n, (int)threads);
        }
    free(stored);
    free(packed);
    free(x);
    free(alone);
    free(y);
    free(row);
    free(bias);
    for (int i = 0; i < THREADS; i++)
        free(scratch[i]);
    return combinations;
}

/* Check two random shapes: a small K that the type allows and any number of outputs. */
static long one_type(const level *l, const lm_matmul *m, lm_dtype type)
{
    uint64_t block = lm_dtype_of(type)->block, max = block >= 256 ? 3 : block >= 32 ? 640 / block : 150;
    long combinations = 0;

    for (int i = 0; i < 2; i++)
        combinations += one_shape(l, m, type, 1 + rnd_below(MAX_ROWS),
                                  block * (1 + rnd_below((uint32_t)max)));
    return combinations;
}

void check_batches(const level *l)
{
    long combinations = 0;
    int types = 0;

    for (uint32_t id = 0; id < LM_DTYPE_SLOTS; id++) {
        if (!l->k.exact[id])
            continue;
        types++;
        combinations += one_type(l, l->k.exact[id], (lm_dtype)id);
        if (l->k.fast[id] != l->k.exact[id])
            combinations += one_type(l, l->k.fast[id], (lm_dtype)id);
    }
    printf("%-10s %d types, %ld combinations of type, arithmetic, shape, rows and threads\n", l->name, types,
           combinations);
}
