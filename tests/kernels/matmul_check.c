/* matmul_check.c - matrix times rows: every stored type, exact and fast, compared with the product in double
 * of the same weights and the same packed activations; and bitwise independence of batches and splits. */
#include "check.h"

#include "kernels/byte_strips.h"
#include "kernels/q8_rows.h"
#include "tensor/dtype.h"

#ifdef __x86_64__
#include "kernels/x86/avx2/levels_avx2.h"
#endif

typedef struct product {
    const level *l;
    const lm_matmul *m;
    lm_dtype type;
    uint64_t rows, cols, n;
    uint8_t *stored, *packed, *x, *scratch;
    float *input, *y, *bias, *add;
    uint64_t stored_bytes, packed_bytes, x_stride;
} product;

static uint64_t row_bytes(lm_dtype type, uint64_t cols)
{
    const lm_dtype_info *t = lm_dtype_of(type);
    return cols / t->block * t->bytes;
}

/* Pack the matrix in uneven pieces, as several threads would. */
static void pack_matrix(product *p)
{
    if (!p->m->packed_bytes)
        return;
    p->packed_bytes = p->m->packed_bytes(p->rows, p->cols);
    p->packed = guarded((p->packed_bytes + 63) & ~UINT64_C(63), 0);
    memset(p->packed, 0xff, p->packed_bytes);
    for (uint64_t at = 0; at < p->rows;) {
        uint64_t to = at + p->m->row_group * (1 + rnd_below(3));
        to = to > p->rows ? p->rows : to;
        p->m->pack(p->packed, p->stored, p->rows, p->cols, at, to);
        at = to;
    }
}

static product make(const level *l, const lm_matmul *m, lm_dtype type, uint64_t rows, uint64_t cols,
                    uint64_t n, float scale)
{
    product p = { .l = l, .m = m, .type = type, .rows = rows, .cols = cols, .n = n };

    p.stored_bytes = rows * row_bytes(type, cols);
    p.stored = guarded(p.stored_bytes, m->packed_bytes ? 0 : rnd_below(4));
    rnd_matrix(type, p.stored, rows, cols);
    pack_matrix(&p);
    p.input = guarded(n * cols * 4, 0);
    rnd_floats(p.input, n * cols, scale);
    for (uint64_t t = 0; t < n && cols >= 64; t++)           /* some rows have blocks with outliers */
        for (uint32_t i = rnd_below(3); i > 0; i--)
            p.input[t * cols + rnd_below((uint32_t)cols)] *= 30;
    if (m->x->pack) {
        p.x_stride = m->x->bytes(cols);
        p.x = guarded(n * p.x_stride, 0);
        for (uint64_t t = 0; t < n; t++)
            (m->x->pack_fine && rnd_below(2) ? m->x->pack_fine
                                             : m->x->pack)(p.x + t * p.x_stride, p.input + t * cols, cols);
    } else {
        p.x_stride = cols * 4;
        p.x = (uint8_t *)p.input;
    }
    p.scratch = m->scratch_bytes ? guarded((m->scratch_bytes(cols) + 63) & ~UINT64_C(63), 0) : NULL;
    p.y = guarded(n * rows * 4, 0);
    p.bias = guarded(rows * 4, 0);
    p.add = guarded(n * rows * 4, 0);
    rnd_floats(p.bias, rows, scale);
    rnd_floats(p.add, n * rows, scale);
    return p;
}

static void release(product *p)
{
    guarded_free(p->stored);
    if (p->packed)
        guarded_free(p->packed);
    guarded_free(p->input);
    if (p->m->x->pack)
        guarded_free(p->x);
    if (p->scratch)
        guarded_free(p->scratch);
    guarded_free(p->y);
    guarded_free(p->bias);
    guarded_free(p->add);
}

static lm_matmul_args args_of(const product *p)
{
    return (lm_matmul_args){
        .w = p->packed ? p->packed : p->stored,
        .rows = p->rows, .cols = p->cols, .first = 0, .last = p->rows,
        .x = p->x, .x_stride = p->x_stride, .n = p->n,
        .y = p->y, .y_stride = p->rows,
        .scale = 1.0f, .scratch = p->scratch,
    };
}

static int code_at(const lm_q8_row *r, uint64_t k)
{
    return r->low[k / 32].q[k % 32] + (lm_q8_is_wide(r, k / 32) ? 128 * r->high[k / 32].q[k % 32] : 0);
}

/* Get row t of x as the kernel sees it. */
static void seen_input(const product *p, uint64_t t, double *x)
{
    if (!p->m->x->pack) {
        for (uint64_t k = 0; k < p->cols; k++)
            x[k] = p->input[t * p->cols + k];
        return;
    }
    if (!strcmp(p->m->x->name, "bf16")) {
        const uint16_t *half = (const void *)(p->x + t * p->x_stride);
        for (uint64_t k = 0; k < p->cols; k++)
            x[k] = (double)lm_bf16_to_f32(half[k]);
        return;
    }
    lm_q8_row q = lm_q8_row_at(p->x + t * p->x_stride, p->cols);
    for (uint64_t k = 0; k < p->cols; k++)
        x[k] = (double)q.low[k / 32].d * code_at(&q, k);
}

/* Return the product of a row. `size`: the sum of magnitudes, with the largest weight of each block of 32. */
static double product_of(const float *w, const double *x, uint64_t cols, double *size)
{
    double sum = 0;

    *size = 0;
    for (uint64_t k = 0; k < cols; k += 32) {
        double max = 0, seen = 0;
        for (uint64_t i = k; i < k + 32 && i < cols; i++) {
            double magnitude = fabs((double)w[i]);
            sum += w[i] * x[i];
            max = magnitude > max ? magnitude : max;
            seen += fabs(x[i]);
        }
        *size += max * seen;
    }
    return sum;
}

/* Compare y = add + scale (W x + bias) with double. The bound grows with the terms of one accumulator;
 * integer kernels split a weight into code and offset, so each block counts with its largest weight. */
static void against_double(const product *p, bool all)
{
    static float w[4096];
    lm_matmul_args a = args_of(p);
    double *x = calloc(p->n * p->cols, sizeof *x);

    if (all) {
        a.bias = p->bias;
        a.add = p->add;
        a.add_stride = p->rows;
        a.scale = 0.7f;
    }
    if (!x)
        abort();
    p->m->run(&a);
    for (uint64_t t = 0; t < p->n; t++)
        seen_input(p, t, x + t * p->cols);
    for (uint64_t o = 0; o < p->rows; o++) {
        lm_dtype_of(p->type)->unpack(w, p->stored + o * row_bytes(p->type, p->cols), p->cols);
        for (uint64_t t = 0; t < p->n; t++) {
            double size, sum = product_of(w, x + t * p->cols, p->cols, &size);
            double want = sum, bound = 6e-8 * (double)(p->cols / 8 + 24) * size + 1e-38;
            if (all) {
                want = p->add[t * p->rows + o] + (double)0.7f * (sum + p->bias[o]);
                bound += 2e-7 * (fabs(want) + fabs(p->add[t * p->rows + o]) + fabs(p->bias[o]) + fabs(sum));
            }
            check_close(p->y[t * p->rows + o], want, bound, "%s (%s) %dx%d n=%d row %d output %d", p->m->name,
                        p->l->name, (int)p->rows, (int)p->cols, (int)p->n, (int)t, (int)o);
        }
    }
    free(x);
}

/* One row alone and outputs computed in pieces have the same bits as together. */
static void same_in_any_cut(const product *p)
{
    lm_matmul_args a = args_of(p);
    float *one = guarded(p->n * p->rows * 4, 0);

    p->m->run(&a);
    memset(one, 0xff, p->n * p->rows * 4);
    for (uint64_t t = 0; t < p->n; t++) {
        a.n = 1;
        a.x = p->x + t * p->x_stride;
        a.y = one + t * p->rows;
        for (uint64_t at = 0; at < p->rows; at = a.last) {
            a.first = at;
            a.last = at + p->m->row_group * (1 + rnd_below(2));
            a.last = a.last > p->rows ? p->rows : a.last;
            p->m->run(&a);
        }
    }
    for (uint64_t i = 0; i < p->n * p->rows; i++)
        check(same_bits(one[i], p->y[i]),
              "%s (%s) %dx%d n=%d: row %d output %d depends on the batch or the cut", p->m->name, p->l->name,
              (int)p->rows, (int)p->cols, (int)p->n, (int)(i / p->rows), (int)(i % p->rows));
    guarded_free(one);
}

/* The rows of the file, multiplied without packing the matrix first, give the same bits: all rows of x
 * together, and the last one alone. */
static void same_as_stored(const product *p)
{
    lm_matmul_args a = args_of(p);
    uint64_t bytes = lm_stored_scratch(p->m, p->cols);
    float *got = guarded(p->n * p->rows * 4, 0);

    if (!p->m->pack) {
        guarded_free(got);
        return;
    }
    p->m->run(&a);
    a.w = p->stored;
    a.y = got;
    a.scratch = guarded((bytes + 63) & ~UINT64_C(63), 0);
    memset(got, 0xff, p->n * p->rows * 4);
    for (uint64_t alone = 0; alone < 2; alone++) {
        lm_stored_run(p->m, &a, row_bytes(p->type, p->cols));
        for (uint64_t i = 0; i < p->n * p->rows; i++)
            check(same_bits(got[i], p->y[i]), "%s (%s) %dx%d n=%d: row %d output %d, rows as stored%s",
                  p->m->name, p->l->name, (int)p->rows, (int)p->cols, (int)p->n, (int)(i / p->rows),
                  (int)(i % p->rows), alone ? ", alone" : "");
        a.n = 1;
        a.x = p->x + (p->n - 1) * p->x_stride;
        a.y = got + (p->n - 1) * p->rows;
        memset(a.y, 0xff, p->rows * 4);
    }
    guarded_free(a.scratch);
    guarded_free(got);
}

/* row() gives the bits of the type's unpack. */
static void looked_up_rows(const product *p)
{
    float *got = guarded(p->cols * 4, 0), *want = guarded(p->cols * 4, 0);

    for (uint64_t o = 0; o < p->rows; o++) {
        p->m->row(got, p->packed ? p->packed : p->stored, p->rows, p->cols, o);
        lm_dtype_of(p->type)->unpack(want, p->stored + o * row_bytes(p->type, p->cols), p->cols);
        bool same = true;
        for (uint64_t k = 0; k < p->cols; k++)
            same = same && same_bits(got[k], want[k]);
        check(same, "%s (%s): row %d of %d is not what was stored", p->m->name, p->l->name, (int)o,
              (int)p->rows);
    }
    guarded_free(got);
    guarded_free(want);
}

static void one_case(const level *l, const lm_matmul *m, lm_dtype type, uint64_t rows, uint64_t cols,
                     uint64_t n, float scale)
{
    product p = make(l, m, type, rows, cols, n, scale);

    against_double(&p, false);
    against_double(&p, true);
    same_in_any_cut(&p);
    same_as_stored(&p);
    looked_up_rows(&p);
    release(&p);
}

/* Use random bytes as blocks: any scale, infinities and NaN. Nothing may crash, and an output must not depend
 * on other rows. */
static void hostile_weights(const level *l, const lm_matmul *m, lm_dtype type, uint64_t cols)
{
    product p = make(l, m, type, 9, cols, 2, 1.0f);
    lm_matmul_args a = args_of(&p);

    for (uint64_t i = 0; i < p.stored_bytes; i++)
        p.stored[i] = (uint8_t)rnd();
    if (m->packed_bytes)
        m->pack(p.packed, p.stored, p.rows, p.cols, 0, p.rows);
    m->run(&a);
    looked_up_rows(&p);
    same_in_any_cut(&p);
    same_as_stored(&p);
    release(&p);
}

static void check_type(const level *l, const lm_matmul *m, lm_dtype type)
{
    uint64_t block = lm_dtype_of(type)->block;

    if (m->packed_bytes) {                                   /* a packed layout takes as many bytes as the
                                                                file */
        uint64_t rows = 4 * m->row_group, cols = block < 32 ? 512 : 2 * block;
        uint64_t stored = rows * row_bytes(type, cols), packed = m->packed_bytes(rows, cols);
        check(packed <= stored + 63, "%s %s: %llu bytes packed into %llu", l->name, m->name,
              (unsigned long long)stored, (unsigned long long)packed);
    }
    one_case(l, m, type, 1, block, 1, 1.0f);
    one_case(l, m, type, 8, 2 * block, 4, 1.0f);
    one_case(l, m, type, 17, 3 * block, 3, 1e-12f);
    one_case(l, m, type, 35, block, 7, 1e6f);
    one_case(l, m, type, 5, block * (1 + 512 / block), 9, 1.0f);
    if (m->arithmetic == LM_ARITHMETIC_INT8) {
        one_case(l, m, type, 40, block, 199, 1.0f);          /* enough rows that kernels unpack a group of
                                                                weights */
        one_case(l, m, type, 19, 4096, 6, 1.0f); /* more blocks with high bytes than fit in a
                                                                kernel's list */
    }
    if (block == 1) {
        one_case(l, m, type, 70, 300, 13, 1.0f);             /* several tiles, strips and sums */
        for (uint64_t cols = 2; cols < 20; cols++)
            one_case(l, m, type, 6, cols, 4, 1.0f);
    }
    hostile_weights(l, m, type, 2 * block);
}

static bool same_part(const lm_q8_block *a, const lm_q8_block *b)
{
    return !memcmp(a->q, b->q, 32) && !memcmp(&a->start, &b->start, 12);
}

static bool same_row(const lm_q8_row *g, const lm_q8_row *w, uint64_t cols)
{
    if (g->head->wide != w->head->wide || memcmp(g->wide, w->wide, lm_q8_mask_bytes(cols)) ||
        memcmp(g->listed, w->listed, w->head->wide * sizeof *w->listed))
        return false;
    for (uint64_t b = 0; b < cols / 32; b++) {
        const lm_q8_block *a = &g->low[b], *c = &w->low[b];
        if (!same_part(a, c) || !same_bits(a->d, c->d) || !same_bits(a->ratio, c->ratio) ||
            !same_bits(a->sum, c->sum) || !same_bits(a->half_sum[0], c->half_sum[0]) ||
            !same_bits(a->half_sum[1], c->half_sum[1]))
            return false;
        if (lm_q8_is_wide(w, b) &&
            (!same_part(&g->high[b], &w->high[b]) || g->high[b].fours != w->high[b].fours))
            return false;
    }
    return true;
}

static double row_max(const float *in, uint64_t cols)
{
    double max = 0;

    for (uint64_t k = 0; k < cols; k++)
        max = isfinite(in[k]) && fabs((double)in[k]) > max ? fabs((double)in[k]) : max;
    return max;
}

/* A value is off by at most half a code, and codes are no coarser than the group's largest magnitude
 * requires. */
static void check_codes(const level *l, const lm_q8_row *r, const float *in, uint64_t cols, bool fine)
{
    double max = 0, of_row = row_max(in, cols);              /* most: the largest magnitude of the group */

    for (uint64_t k = 0; k < cols; k++) {
        uint64_t b = k / 32, group = k / (32 * LM_Q8_GROUP) * (32 * LM_Q8_GROUP);
        double step = (double)r->low[b].d, seen = step * code_at(r, k);
        for (uint64_t i = k; k == group && i < group + 32 * LM_Q8_GROUP && i < cols; i++)
            max = fmax(i == k ? 0 : max, fabs((double)in[i]));
        if (!isfinite(step))
            continue;
        check(lm_q8_is_wide(r, b) || !fine, "%s: a block of a fine row has eight bits", l->name);
        check(step <= 1.001 * max / (fine ? 16256 : 127) || step <= 1e-9 * of_row, "%s: codes too coarse",
              l->name);
        check_close(seen, in[k], 0.51 * step + (double)LM_Q8_LEAST, "%s: activation packed", l->name);
    }
}

/* Packed activations of every level equal those of plain C, for every kind of float. */
static void check_activations(const level *l, const lm_activation *x, bool fine)
{
    static const float special[] = { 0.0f, -0.0f, 1e-45f, 1e-37f, -3e38f, INFINITY, -INFINITY, NAN };
    uint64_t cols = 70 * 32, bytes = lm_q8_bytes(cols);
    float *in = guarded(cols * 4, 0);
    uint8_t *got = guarded(bytes, 0), *want = guarded(bytes, 0);

    check(x->bytes(cols) == bytes, "%s: bytes of a packed row", l->name);
    for (int round = 0; round < 200; round++) {
        memset(got, 0x55, bytes);
        memset(want, 0xaa, bytes);
        rnd_floats(in, cols, ldexpf(1.0f, (int)rnd_below(200) - 100));
        for (int i = 0; i < round % 5; i++)
            in[rnd_below((uint32_t)cols)] = special[rnd_below(8)];
        for (int i = 0; i < round % 7; i++)
            in[rnd_below((uint32_t)cols)] *= 50;             /* blocks with outliers */
        if (round == 0)
            memset(in, 0, cols * 4);
        lm_q8_row g = lm_q8_row_at(got, cols), w = lm_q8_row_at(want, cols);
        (fine ? x->pack_fine : x->pack)(got, in, cols);
        lm_q8_pack(want, in, cols, fine);
        check(same_row(&g, &w, cols), "%s: packed activations differ from plain C (round %d)", l->name,
              round);
        check_codes(l, &g, in, cols, fine);
    }
    guarded_free(in);
    guarded_free(got);
    guarded_free(want);
}

/* Check that rows of integers of eight bits times a factor are packed exactly, whatever the factor. */
static void check_rounded(const level *l, const lm_activation *x)
{
    enum { COLS = 288 };
    static float in[COLS];
    uint64_t     bytes = x->bytes(COLS);
    void        *got   = guarded(bytes, 0);

    for (int round = 0; round < 50; round++) {
        float      factor = ldexpf(1 + (float)rnd_below(1000) / 1000, (int)rnd_below(60) - 30);
        bool       exact  = true;
        int        codes[COLS];
        lm_q8_row  g = lm_q8_row_at(got, COLS);
        for (int i = 0; i < COLS; i++) {
            codes[i] = i == round ? 127 : (int)rnd_below(255) - 127;
            in[i]    = (float)codes[i] * factor;
        }
        x->pack_rounded(got, in, COLS);
        for (int b = 0; b < COLS / 32; b++) {
            int sum = 0;
            for (int i = 0; i < 32; i++) {
                exact &= g.low[b].q[i] == codes[32 * b + i];
                sum += codes[32 * b + i];
            }
            exact &= g.low[b].start == -128 * sum && g.low[b].sum == (float)sum && g.low[b].ratio == 1 &&
                     !lm_q8_is_wide(&g, (uint64_t)b) && fabsf(g.low[b].d - factor) <= 2e-7f * factor;
        }
        check(exact && g.head->wide == 0, "%s: a rounded row is packed inexactly (round %d)", l->name, round);
    }
    guarded_free(got);
}

/* Whether a lower level has the same kernel or activation, which then has been checked already. */
static bool is_known(const void *m)
{
    static const void *known[1024];
    static size_t n;

    for (size_t i = 0; i < n; i++)
        if (known[i] == m)
            return true;
    if (n < sizeof known / sizeof *known)
        known[n++] = m;
    return false;
}

#ifdef __x86_64__
static void check_strip(const level *l, lm_byte_unpack *unpack, lm_dtype type, uint64_t cols, uint32_t n)
{
    const uint64_t bytes = cols / 32 * LM_BYTE_UNIT;
    lm_matmul_args a = { .cols = cols, .rows = n, .last = n };
    uint8_t *stored = guarded(n * row_bytes(type, cols), 0), *want = guarded(bytes, 0),
            *got = guarded(bytes, 0);

    rnd_matrix(type, stored, n, cols);
    a.w = stored;
    memset(want, 0, bytes);
    lm_byte_unpack_ref(type)(want, &a, 0, n);
    unpack(got, &a, 0, n);
    for (uint64_t i = 0; i < bytes; i++) {
        uint64_t in = i % LM_BYTE_UNIT;
        check(got[i] == want[i] || in % 64 / 4 >= n, "%s unpack %s %dx%d: byte %d of unit %d", l->name,
              lm_dtype_of(type)->name, (int)n, (int)cols, (int)in, (int)(i / LM_BYTE_UNIT));
    }
    guarded_free(stored);
    guarded_free(want);
    guarded_free(got);
}

/* The vector code that unpacks small types writes the bytes of the plain code. */
static void check_unpack(const level *l, lm_byte_unpack *(*unpack_of)(lm_dtype))
{
#define X(id, word, ...)                                                         \
    for (uint32_t n = 1; n <= LM_BYTE_ROWS; n += 5) {                            \
        check_strip(l, unpack_of(id), id, lm_dtype_of(id)->block, n);            \
        check_strip(l, unpack_of(id), id, 3 * lm_dtype_of(id)->block, n);        \
    }
    LM_BYTE_TYPES(X)
#undef X
}
#endif

void check_matmul(const level *l)
{
#ifdef __x86_64__
    if (strncmp(l->name, "sse41", 5) == 0)
        check_unpack(l, lm_byte_unpack_sse41);
    if (strncmp(l->name, "avx2", 4) == 0)
        check_unpack(l, lm_byte_unpack_avx2);
#endif

    const lm_activation *packed = l->k.fast[LM_Q8_0]->x;

    for (uint32_t id = 0; id < LM_DTYPE_SLOTS; id++) {
        const lm_dtype_info *t = lm_dtype_find(id);
        bool matrix = t && t->in_files &&
                      (t->quantized || (id != LM_I8 && id != LM_I16 && id != LM_I32 && id != LM_I64));
        check(matrix == !!l->k.exact[id] && matrix == !!l->k.fast[id], "%s: type %u in the table", l->name,
              id);
        if (!matrix || !l->k.exact[id] || !l->k.fast[id])
            continue;
        if (!is_known(l->k.exact[id]))
            check_type(l, l->k.exact[id], t->type);
        if (!is_known(l->k.fast[id]))
            check_type(l, l->k.fast[id], t->type);
    }
    if (packed->pack && !is_known(packed)) {
        check_activations(l, packed, false);
        check_activations(l, packed, true);
        if (packed->pack_rounded)
            check_rounded(l, packed);
    }
}

/* ---- time
 * -------------------------------------------------------------------------------------------------------- */

static void call_run(void *arg)
{
    lm_matmul_args a = args_of(arg);
    ((product *)arg)->m->run(&a);
}

static void call_pack_x(void *arg)
{
    product *p = arg;
    for (uint64_t t = 0; t < p->n; t++)
        p->m->x->pack(p->x + t * p->x_stride, p->input + t * p->cols, p->cols);
}

static void call_pack(void *arg)
{
    product *p = arg;
    p->m->pack(p->packed, p->stored, p->rows, p->cols, 0, p->rows);
}

static void bench_one(const level *l, const lm_matmul *m, lm_dtype type)
{
    static const uint64_t batch[] = { 1, 4, 64 };
    uint64_t rows = 1536, cols = 2048;

    printf("%-10s %-20s", l->name, m->name);
    for (int i = 0; i < 3; i++) {
        product p = make(l, m, type, rows, cols, batch[i], 1.0f);
        double s = best_seconds(call_run, &p);
        printf("  n=%-2d %6.1f GOP/s", (int)batch[i], 2e-9 * (double)(rows * cols * batch[i]) / s);
        if (i == 0)
            printf(" %5.1f GB/s", 1e-9 * (double)(p.packed ? p.packed_bytes : p.stored_bytes) / s);
        if (i == 2 && p.packed)
            printf("  pack %.2f, x %.2f ns/element",
                   best_seconds(call_pack, &p) / (double)(rows * cols) * 1e9,
                   m->x->pack ? best_seconds(call_pack_x, &p) / (double)(p.n * cols) * 1e9 : 0.0);
        release(&p);
    }
    putchar('\n');
}

void bench_matmul(const level *l)
{
    for (uint32_t id = 0; id < LM_DTYPE_SLOTS; id++) {
        if (!l->k.exact[id])
            continue;
        bench_one(l, l->k.exact[id], (lm_dtype)id);
        if (l->k.fast[id] != l->k.exact[id])
            bench_one(l, l->k.fast[id], (lm_dtype)id);
    }
}
