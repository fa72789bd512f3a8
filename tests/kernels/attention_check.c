/* attention_check.c - attention over a paged cache compared with the definition in double, for all
 * parameters: type, dimensions, group, position, window, softcap, slopes, sinks, order of pages. */
#include "check.h"
#include "kernels/attention_parts.h"

typedef struct scene {
    const level *l;
    const lm_attention_kernels *a;
    bool fast;                                   /* with products of bfloat16 */
    lm_kv_shape kv;
    uint32_t group, rows, position, window, total;
    float softcap, scale;
    bool slopes, slopes_half, sinks, chunked;    /* chunked: key j is visible if j / window == p / window */
    uint64_t page_stride;
    uint32_t *pages;
    uint8_t *base;
    float *q, *k, *v, *out, *slope, *sink;       /* k [total][heads][k_dim] as the cache stores them
                                                    (rounded) */
    double *k_seen, *v_seen;                     /* the same, as the kernels multiply them */
    uint8_t *scratch;
} scene;

static const char *name_of(lm_dtype type)
{
    return lm_dtype_of(type)->name;
}

/* Return the first position that is visible at position p, by definition. */
static uint32_t first_seen(const scene *s, uint32_t p)
{
    if (s->chunked)
        return p / s->window * s->window;
    return s->window && p >= s->window ? p - s->window + 1 : 0;
}

/* Multiply runs of `lanes` elements by the Hadamard matrix, by definition. */
static void by_hadamard(double *x, uint32_t width, uint32_t lanes)
{
    static double sign[64][64];                  /* computed once: a third of the test's time otherwise */
    double y[64];

    for (uint32_t i = 0; sign[0][0] == 0 && i < 64 * 64; i++)
        sign[63 - i / 64][63 - i % 64] = __builtin_popcount((63 - i / 64) & (63 - i % 64)) % 2 ? -1 : 1;
    for (uint32_t from = 0; lanes && from < width; from += lanes) {
        memset(y, 0, sizeof y);
        for (uint32_t k = 0; k < lanes; k++)
            for (uint32_t i = 0; i < lanes; i++)
                y[i] += sign[k][i] * x[from + k];
        for (uint32_t i = 0; i < lanes; i++)
            x[from + i] = y[i] / sqrt(lanes);
    }
}

/* Replace `x` by what a cache of this type returns for it, still multiplied by the Hadamard matrix. One row
 * in eight is compared with the definition of the transform; all rows would take a sixth of the test's
 * time. */
static void rounded(lm_dtype type, uint32_t lanes, float *x, uint32_t n)
{
    static uint32_t rows;
    bool compared = rows++ % 8 == 0;
    double exact[1024];
    for (uint32_t i = 0; compared && i < n; i++)
        exact[i] = x[i];
    by_hadamard(exact, compared ? n : 0, lanes);
    hadamard(x, n, lanes);
    for (uint32_t i = 0; compared && i < n; i++)
        check_close(x[i], exact[i], 1e-5, "hadamard %u of %u", lanes, n);

    uint8_t bytes[4096];

    lm_dtype_of(type)->pack(bytes, x, n);
    lm_dtype_of(type)->unpack(x, bytes, n);
}

static void fill_cache(scene *s)
{
    const lm_attention_kernels *a = s->a;
    uint32_t heads = s->kv.n_kv_heads, n_pages = (s->total + LM_PAGE - 1) / LM_PAGE;

    s->page_stride = a->page_bytes(&s->kv);
    check(s->page_stride % 64 == 0, "%s page_bytes is a multiple of 64", s->l->name);
    s->base = guarded((n_pages + 1) * s->page_stride, 0);
    /* elements that are not stored are NaN */
    memset(s->base, 0xff, (n_pages + 1) * s->page_stride);
    s->pages = guarded(n_pages * 4, 0);
    for (uint32_t i = 0; i < n_pages; i++)
        s->pages[i] = n_pages - i;                                   /* page 0 stays unused */
    for (uint32_t p = 0; p < s->total; p++) {
        float *k = s->k + (uint64_t)p * heads * s->kv.k_dim, *v = s->v + (uint64_t)p * heads * s->kv.v_dim;
        rnd_floats(k, (size_t)heads * s->kv.k_dim, 1.0f);
        rnd_floats(v, (size_t)heads * s->kv.v_dim, 1.0f);
    }
    for (uint32_t p = 0, n; p < s->total; p += n) {                  /* several positions of a page at once */
        uint64_t k_stride = (uint64_t)heads * s->kv.k_dim, v_stride = (uint64_t)heads * s->kv.v_dim;
        uint32_t length = LM_PAGE - p % LM_PAGE < s->total - p ? LM_PAGE - p % LM_PAGE : s->total - p;
        n = 1 + (uint32_t)(rnd() % length);
        a->store(&s->kv, s->base + s->pages[p / LM_PAGE] * s->page_stride, p % LM_PAGE, n,
                 s->k + p * k_stride, k_stride, s->kv.v_in_k ? NULL : s->v + p * v_stride, v_stride);
    }
    for (uint32_t p = 0; p < s->total; p++) {
        float *k = s->k + (uint64_t)p * heads * s->kv.k_dim, *v = s->v + (uint64_t)p * heads * s->kv.v_dim;
        for (uint32_t h = 0; h < heads; h++) {
            rounded(s->kv.k_type, lm_hadamard_of_keys(&s->kv), k + h * s->kv.k_dim, s->kv.k_dim);
            if (s->kv.v_in_k)
                memcpy(v + h * s->kv.v_dim, k + h * s->kv.k_dim, s->kv.v_dim * 4);
            else
                rounded(s->kv.v_type, lm_hadamard_of_values(&s->kv), v + h * s->kv.v_dim, s->kv.v_dim);
        }
    }
    /* freed pages: any page number */
    for (uint32_t i = 0; i < first_seen(s, s->position) / LM_PAGE; i++)
        s->pages[i] = 0x7fffffff;
}

static float to_bf16(float x)
{
    uint16_t half;
    float    back;

    lm_dtype_of(LM_BF16)->pack(&half, &x, 1);
    lm_dtype_of(LM_BF16)->unpack(&back, &half, 1);
    return back;
}

/* Return the value that the kernels multiply. */
static double factor(const scene *s, float x)
{
    return (double)(s->fast ? to_bf16(x) : x);
}

/* Convert all values in one call: a call per product took half of the test's time. The caller frees. */
static double *factors(const scene *s, const float *x, size_t n)
{
    double *seen = malloc(n * sizeof *seen);

    if (!seen)
        abort();
    for (size_t i = 0; i < n; i++)
        seen[i] = factor(s, x[i]);
    return seen;
}

static void make(scene *s)
{
    uint32_t heads = s->kv.n_kv_heads;

    s->total = s->position + s->rows;
    s->k = guarded((size_t)s->total * heads * s->kv.k_dim * 4, 0);
    s->v = guarded((size_t)s->total * heads * s->kv.v_dim * 4, 0);
    s->q = guarded((size_t)s->rows * s->group * s->kv.k_dim * 4, 0);
    s->out = guarded((size_t)s->rows * s->group * s->kv.v_dim * 4, 0);
    s->slope = guarded(s->group * 4, 0);
    s->sink = guarded(s->group * 4, 0);
    s->scale = 1.0f / sqrtf((float)s->kv.k_dim);
    fill_cache(s);
    s->k_seen = factors(s, s->k, (size_t)s->total * heads * s->kv.k_dim);
    s->v_seen = factors(s, s->v, (size_t)s->total * heads * s->kv.v_dim);
    rnd_floats(s->q, (size_t)s->rows * s->group * s->kv.k_dim, 2.0f);
    rnd_floats(s->slope, s->group, 0.1f);
    rnd_floats(s->sink, s->group, 2.0f);
    s->scratch = guarded((s->a->scratch_bytes(&s->kv, s->group) + 63) & ~UINT64_C(63), 0);
}

static void release(scene *s)
{
    void *const all[] = { s->base, s->pages, s->k, s->v, s->q, s->out, s->slope, s->sink, s->scratch };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        guarded_free(all[i]);
    free(s->k_seen);
    free(s->v_seen);
}

static lm_attention_args args_of(const scene *s, uint32_t head)
{
    return (lm_attention_args){
        .kv = &s->kv,
        .head = head,
        .group = s->group,
        .q = s->q,
        .q_stride = (uint64_t)s->group * s->kv.k_dim,
        .out = s->out,
        .out_stride = (uint64_t)s->group * s->kv.v_dim,
        .rows = s->rows,
        .position = s->position,
        .window = s->window,
        .chunked = s->chunked,
        .pages = s->pages,
        .base = s->base,
        .page_stride = s->page_stride,
        .scale = s->scale,
        .softcap = s->softcap,
        .slopes = s->slopes ? s->slope : NULL,
        .slopes_half = s->slopes_half,
        .sinks = s->sinks ? s->sink : NULL,
        .scratch = s->scratch,
    };
}

/* Bound the magnitudes after a multiplication by the Hadamard matrix. */
static void spread(double *x, uint32_t width, uint32_t lanes)
{
    for (uint32_t from = 0; lanes && from < width; from += lanes) {
        double sum = 0;
        for (uint32_t i = 0; i < lanes; i++)
            sum += x[from + i];
        for (uint32_t i = 0; i < lanes; i++)
            x[from + i] = sum / sqrt(lanes);
    }
}

/* Use four sums, so that an addition does not wait for the previous one. */
static double dot_of(const double *x, const double *y, uint32_t n)
{
    double sum[4] = { 0 };

    for (uint32_t i = 0; i < n; i++)
        sum[i % 4] += x[i] * y[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Compute one query by definition. `size`: the same sum of magnitudes. */
static void definition(const scene *s, uint32_t head, uint32_t r, uint32_t g, double *want, double *size)
{
    static double scores[4 * LM_RANGE];
    uint32_t p = s->position + r, first = first_seen(s, p),
             heads = s->kv.n_kv_heads;
    float q[1024];
    double q_seen[1024], max = s->sinks ? s->sink[g] : -INFINITY, sum = 0;

    memcpy(q, s->q + ((uint64_t)r * s->group + g) * s->kv.k_dim, s->kv.k_dim * sizeof *q);
    hadamard(q, s->kv.k_dim, lm_hadamard_of_keys(&s->kv));
    for (uint32_t i = 0; i < s->kv.k_dim; i++)
        q_seen[i] = factor(s, q[i]);
    for (uint32_t j = first; j <= p; j++) {
        double dot = dot_of(q_seen, s->k_seen + ((uint64_t)j * heads + head) * s->kv.k_dim, s->kv.k_dim);
        if (s->slopes && s->slopes_half)
            dot += to_bf16(s->slope[g] * to_bf16((float)j));
        dot *= s->scale;
        if (s->softcap > 0)
            dot = s->softcap * tanh(dot / s->softcap);
        if (s->slopes && !s->slopes_half)
            dot -= (double)s->slope[g] * (p - j);
        scores[j] = dot;
        max = dot > max ? dot : max;
    }
    for (uint32_t i = 0; i < s->kv.v_dim; i++)
        want[i] = size[i] = 0;
    for (uint32_t j = first; j <= p; j++) {
        const double *v = s->v_seen + ((uint64_t)j * heads + head) * s->kv.v_dim;
        double e = exp(scores[j] - max);
        sum += e;
        for (uint32_t i = 0; i < s->kv.v_dim; i++) {
            want[i] += e * v[i];
            size[i] += e * fabs(v[i]);
        }
    }
    if (s->sinks)
        sum += exp(s->sink[g] - max);
    for (uint32_t i = 0; i < s->kv.v_dim; i++) {
        want[i] /= sum;
        size[i] /= sum;
    }
    by_hadamard(want, s->kv.v_dim, lm_hadamard_of_values(&s->kv));
    spread(size, s->kv.v_dim, lm_hadamard_of_values(&s->kv));
}

/* Queries, keys and values are already rounded here; the fast kernels also round probabilities: half a unit
 * in the last of eight bits, once in the numerator and once in the denominator. A slope takes scores down to
 * minus the distance; e^x turns the rounding error of such a score into a relative error. */
static void against_definition(const scene *s)
{
    static double want[1024], size[1024];
    const double far = s->slopes ? s->position + s->rows : 0,
                 part = (s->fast ? 2 * 0x1p-8 + 1e-4 : 2e-5) + 0x1p-23 * far;

    for (uint32_t h = 0; h < s->kv.n_kv_heads; h++) {
        lm_attention_args a = args_of(s, h);
        s->a->run(&a);
        for (uint32_t r = 0; r < s->rows; r++) {
            for (uint32_t g = 0; g < s->group; g++) {
                definition(s, h, r, g, want, size);
                for (uint32_t i = 0; i < s->kv.v_dim; i++)
                    check_close(
                        s->out[((uint64_t)r * s->group + g) * s->kv.v_dim + i], want[i],
                        part * size[i] + 1e-30,
                        "%s attention%s %s/%s k=%u v=%u group=%u position=%u+%u window=%u head=%u lane=%u",
                        s->l->name, s->fast ? " (fast)" : "", name_of(s->kv.k_type), name_of(s->kv.v_type),
                        s->kv.k_dim, s->kv.v_dim, s->group, s->position, r, s->window, h, i);
            }
        }
    }
}

/* Each row alone has the same bits as together with others. */
static void rows_alone(const scene *s)
{
    size_t n = (size_t)s->group * s->kv.v_dim;
    float *one = guarded(n * 4, 0);
    lm_attention_args a = args_of(s, s->kv.n_kv_heads - 1);

    s->a->run(&a);
    for (uint32_t r = 0; r < s->rows; r++) {
        lm_attention_args b = a;
        b.rows = 1;
        b.position = s->position + r;
        b.q = s->q + r * a.q_stride;
        b.out = one;
        s->a->run(&b);
        for (size_t i = 0; i < n; i++)
            check(same_bits(one[i], s->out[r * n + i]), "%s attention: row %u of %u depends on the others",
                  s->l->name, r, s->rows);
    }
    guarded_free(one);
}

/* Query heads [first, first + count) of the group alone have the same bits as together with the others. */
static void heads_alone(const scene *s)
{
    lm_attention_args a = args_of(s, s->kv.n_kv_heads - 1);
    size_t n = (size_t)s->group * s->kv.v_dim;
    float *some = guarded((size_t)s->rows * n * 4, 0);

    s->a->run(&a);
    for (uint32_t first = 0, count = 2; first < s->group; first += count) {
        lm_attention_args b = a;
        b.group = s->group - first < count ? s->group - first : count;
        b.q = a.q + (size_t)first * s->kv.k_dim;
        b.out = some + (size_t)first * s->kv.v_dim;
        b.slopes = a.slopes ? a.slopes + first : NULL;
        b.sinks = a.sinks ? a.sinks + first : NULL;
        s->a->run(&b);
    }
    for (size_t i = 0; i < s->rows * n; i++)
        check(same_bits(some[i], s->out[i]), "%s attention: a query head depends on the others of its group",
              s->l->name);
    guarded_free(some);
}

/* Ranges computed in reverse order and merged give the bits of one call. */
static void in_ranges(const scene *s)
{
    uint64_t queries = (uint64_t)s->rows * s->group, n = queries * s->kv.v_dim,
             bytes = lm_attention_partial_bytes(&s->kv, queries);
    uint32_t first = first_seen(s, s->position) / LM_RANGE;
    uint32_t count = (s->position + s->rows - 1) / LM_RANGE - first + 1;
    uint8_t *partials = guarded(count * bytes, 0);
    float *merged = guarded(n * 4, 0);
    lm_attention_args a = args_of(s, s->kv.n_kv_heads - 1), b = a;

    s->a->run(&a);
    b.out = NULL;
    for (uint32_t k = count; k-- > 0;)
        s->a->run_range(&b, first + k, partials + k * bytes);
    b.out = merged;
    s->a->merge(&b, partials, count);
    for (size_t i = 0; i < n; i++)
        check(same_bits(merged[i], s->out[i]),
              "%s attention%s %s/%s k=%u: %u ranges of position %u+%u differ from one call", s->l->name,
              s->fast ? " (fast)" : "", name_of(s->kv.k_type), name_of(s->kv.v_type), s->kv.k_dim, count,
              s->position, s->rows);
    guarded_free(merged);
    guarded_free(partials);
}

/* Check one scene with the kernels of `like`. */
static void one_scene(const scene *like, scene s)
{
    s.l = like->l;
    s.a = like->a;
    s.fast = like->fast;
    make(&s);
    against_definition(&s);
    rows_alone(&s);
    heads_alone(&s);
    in_ranges(&s);
    release(&s);
}

/* Whether the dimensions are whole blocks of their types. */
static bool whole_blocks(const lm_kv_shape *kv)
{
    return kv->k_dim % lm_dtype_of(kv->k_type)->block == 0 &&
           (kv->v_in_k || kv->v_dim % lm_dtype_of(kv->v_type)->block == 0);
}

/* Queries that see several ranges, tiles that cross into the next range, windows that begin in another
 * range. */
static void deep_scenes(const scene *like, lm_dtype keys, lm_dtype values)
{
    static const uint32_t dims[][2] = { { 64, 64 }, { 32, 96 }, { 20, 13 } };

    for (int d = 0; d < 3; d++) {
        lm_kv_shape kv = { 2, dims[d][0], dims[d][1], keys, values, false };
        if (!whole_blocks(&kv))
            continue;
        one_scene(like, (scene){ .kv = kv, .group = 3, .rows = 1, .position = 3 * LM_RANGE });
        one_scene(like, (scene){ .kv = kv,
                                 .group = 5,
                                 .rows = 5,
                                 .position = 2 * LM_RANGE + 70,
                                 .sinks = true,
                                 .softcap = 20.0f });
        one_scene(like,
                  (scene){ .kv = kv, .group = 2, .rows = 40, .position = LM_RANGE - 20, .slopes = true });
        one_scene(like, (scene){ .kv = kv,
                                 .group = 1,
                                 .rows = 33,
                                 .position = 2 * LM_RANGE - 10,
                                 .window = LM_RANGE,
                                 .sinks = true });
        one_scene(like, (scene){ .kv = kv,
                                 .group = 1,
                                 .rows = 7,
                                 .position = 3 * LM_RANGE - 3,
                                 .window = 2 * LM_RANGE + 1 });
        one_scene(like, (scene){ .kv = kv,
                                 .group = 2,
                                 .rows = 40,
                                 .position = 2 * LM_RANGE - 20,
                                 .window = LM_RANGE,
                                 .chunked = true });
        one_scene(like, (scene){ .kv = kv,
                                 .group = 1,
                                 .rows = 7,
                                 .position = 3 * LM_RANGE - 3,
                                 .window = LM_RANGE + 70,
                                 .chunked = true,
                                 .sinks = true });
        one_scene(like, (scene){ .kv = kv,
                                 .group = 2,
                                 .rows = 3,
                                 .position = 2 * LM_RANGE - 1,
                                 .window = 20,
                                 .slopes = true,
                                 .slopes_half = true });
    }
}

/* Keys of one type, values of another. */
static void types_scenes(const scene *like, lm_dtype keys, lm_dtype values)
{
    static const uint32_t dims[][2] = { { 64, 64 }, { 32, 96 },  { 128, 128 }, { 20, 13 },
                                        { 7, 8 },   { 256, 40 }, { 96, 13 },   { 9, 64 } };

    for (int d = 0; d < 8; d++) {
        lm_kv_shape kv = { 2, dims[d][0], dims[d][1], keys, values, false };
        if (!whole_blocks(&kv))
            continue;
        one_scene(like, (scene){ .kv = kv, .group = 1, .rows = 1, .position = 0 });
        one_scene(like, (scene){ .kv = kv, .group = 3, .rows = 1, .position = 200 });
        one_scene(like, (scene){ .kv = kv, .group = 2, .rows = 70, .position = 30 });
        one_scene(like,
                  (scene){ .kv = kv, .group = 2, .rows = 20, .position = 110, .window = 17, .slopes = true });
        one_scene(
            like,
            (scene){
                .kv = kv, .group = 2, .rows = 20, .position = 310, .slopes = true, .slopes_half = true });
        one_scene(like,
                  (scene){ .kv = kv, .group = 1, .rows = 5, .position = 190, .window = 64, .softcap = 3.0f });
        one_scene(like,
                  (scene){ .kv = kv, .group = 3, .rows = 5, .position = 190, .window = 64, .chunked = true });
        one_scene(like,
                  (scene){
                      .kv = kv, .group = 2, .rows = 40, .position = 110, .window = 17, .chunked = true });
        one_scene(like, (scene){ .kv = kv,
                                 .group = 4,
                                 .rows = 3,
                                 .position = 62,
                                 .sinks = true,
                                 .slopes = true,
                                 .softcap = 20.0f });
        one_scene(like,
                  (scene){ .kv = kv, .group = 2, .rows = 40, .position = 100, .window = 1, .sinks = true });
    }
}

/* The latent of MLA: values are the first lanes of the keys. */
static void latent_scenes(const scene *like, lm_dtype type)
{
    one_scene(like, (scene){ .kv = { 1, 96, 64, type, type, true }, .group = 5, .rows = 4, .position = 130 });
    one_scene(like,
              (scene){ .kv = { 1, 576, 512, type, type, true }, .group = 2, .rows = 2, .position = 63 });
    one_scene(like, (scene){ .kv = { 1, 32, 21, type, type, true },
                             .group = 3,
                             .rows = 20,
                             .position = 70,
                             .window = 30 });
    one_scene(like, (scene){ .kv = { 1, 96, 64, type, type, true },
                             .group = 8,
                             .rows = 3,
                             .position = 2 * LM_RANGE + 9 });
    if (!lm_dtype_of(type)->quantized)
        one_scene(like, (scene){ .kv = { 2, 9, 7, type, type, true }, .group = 1, .rows = 3, .position = 5 });
}

/* With sanitizers, which are ten times slower, only a quarter of the types is checked in full. */
#ifdef __SANITIZE_ADDRESS__
enum { EVERY = 4 };
#else
enum { EVERY = 1 };
#endif

/* Check every type with itself in full, and every other pair in less depth. */
static void check_kernels(const level *l, const lm_attention_kernels *a, bool fast)
{
    static const lm_dtype types[] = { LM_F16, LM_F32, LM_BF16, LM_Q4_1, LM_Q4_0, LM_Q5_0, LM_Q8_0, LM_Q5_1 };
    const scene like = { .l = l, .a = a, .fast = fast };

    for (int k = 0; k < 8; k++) {
        for (int v = 0; v < 8; v++) {
            lm_kv_shape kv = { 2, 64, 32, types[k], types[v], false };
            if (k == v && k % EVERY == 0)
                types_scenes(&like, types[k], types[v]);
            one_scene(&like, (scene){ .kv = kv, .group = 3, .rows = 1, .position = 200 });
            one_scene(&like,
                      (scene){
                          .kv = kv, .group = 2, .rows = 20, .position = 110, .window = 17, .slopes = true });
        }
        if (k % EVERY)
            continue;
        deep_scenes(&like, types[k], types[k]);
        latent_scenes(&like, types[k]);
    }
    types_scenes(&like, LM_Q8_0, LM_F16);
    if (EVERY > 1)
        return;
    types_scenes(&like, LM_F16, LM_Q4_0);
    types_scenes(&like, LM_BF16, LM_F16);
    types_scenes(&like, LM_F32, LM_Q5_1);
    deep_scenes(&like, LM_Q8_0, LM_Q5_1);
}

void check_attention(const level *l)
{
    static lm_attention_kernels exact, fast;                 /* as in check_rows */

    if (memcmp(&exact, &l->k.attention, sizeof exact))
        check_kernels(l, &l->k.attention, false);
    if (memcmp(&fast, &l->k.attention_fast, sizeof fast) && l->k.attention_fast.run != l->k.attention.run)
        check_kernels(l, &l->k.attention_fast, true);
    exact = l->k.attention;
    fast  = l->k.attention_fast;
}

/* ---- time
 * -------------------------------------------------------------------------------------------------------- */

static void call_run(void *arg)
{
    lm_attention_args a = args_of(arg, 0);
    ((scene *)arg)->a->run(&a);
}

static void time_kernels(const level *l, const lm_attention_kernels *a, const char *name)
{
    static const lm_dtype types[] = { LM_F16, LM_BF16, LM_F32, LM_Q8_0, LM_Q4_0, LM_Q5_1 };

    for (int t = 0; t < 6; t++) {
        const char *type = lm_dtype_of(types[t])->name;
        scene decode = { .l = l,
                         .a = a,
                         .kv = { 1, 64, 64, types[t], types[t], false },
                         .group = 4,
                         .rows = 1,
                         .position = 1023 };
        scene latent = { .l = l,
                         .a = a,
                         .kv = { 1, 576, 512, types[t], types[t], true },
                         .group = 8,
                         .rows = 1,
                         .position = 1023 };
        scene prompt = { .l = l,
                         .a = a,
                         .kv = { 1, 64, 64, types[t], types[t], false },
                         .group = 4,
                         .rows = 64,
                         .position = 448 };
        scene deep = { .l = l,
                       .a = a,
                       .kv = { 1, 64, 64, types[t], types[t], false },
                       .group = 4,
                       .rows = 64,
                       .position = 4032 };
        scene alone = { .l = l,
                        .a = a,
                        .kv = { 1, 128, 128, types[t], types[t], false },
                        .group = 1,
                        .rows = 64,
                        .position = 448 };
        make(&decode);
        make(&prompt);
        make(&alone);
        make(&deep);
        make(&latent);
        double m = best_seconds(call_run, &latent), o = best_seconds(call_run, &alone);
        double d = best_seconds(call_run, &decode), p = best_seconds(call_run, &prompt);
        double q = best_seconds(call_run, &deep);
        printf("%-10s %s %-4s ns a key and query of 64 lanes: decode at 1024 %.2f, prompt of 64 at 448 %.2f, "
               "at 4032 %.2f, one head of 128 %.2f\n",
               l->name, name, type, d / (1024 * 4) * 1e9, p / (64 * 4 * 480) * 1e9, q / (64 * 4 * 4064) * 1e9,
               o / (64 * 480) * 1e9 / 2);
        printf("%-10s %s %-4s latent of 576, 8 heads, decode at 1024: %.2f ns a key and query\n", l->name,
               name, type, m / (1024 * 8) * 1e9);
        release(&latent);
        release(&decode);
        release(&prompt);
        release(&alone);
        release(&deep);
    }
}

void bench_attention(const level *l)
{
    time_kernels(l, &l->k.attention, "attention");
    if (l->k.attention_fast.run != l->k.attention.run)
        time_kernels(l, &l->k.attention_fast, "attention (fast)");
}
