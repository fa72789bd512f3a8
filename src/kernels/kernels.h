/* kernels.h - compute on raw memory: what each kernel promises, and the table that the plan chooses from.
 *
 * As in dav1d, the table is first filled with the plain C version of every kernel, then overridden by each
 * higher instruction set that is present and allowed. Kernels are single-threaded; the caller divides the
 * work. They never allocate and never fail; NaN and infinity pass through.
 *
 * Determinism: on a given instruction set, a result depends only on its own row of the input. The order of
 * every sum is determined by the width, never by the number of rows, by the share of a thread, or by the rest
 * of the batch. */
#ifndef LM_KERNELS_H
#define LM_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/os/cpu.h"
#include "tensor/act.h"
#include "tensor/dtype.h"

/* ---- matrix times rows
 * ------------------------------------------------------------------------------------------- */

/* The layout of a row of activations for a kind of matmul. Several weight types share a layout, so an input
 * that feeds several matrices is packed once. */
typedef struct lm_activation {
    const char *name;                                                /* "f32", "q8 rows" */
    uint64_t  (*bytes)(uint64_t cols);                               /* of one packed row, a multiple of 64 */
    /* dst 64-byte aligned; NULL: x itself is used */
    void      (*pack)(void *dst, const float *x, uint64_t cols);
    /* the same layout at its highest precision; NULL: as pack */
    void      (*pack_fine)(void *dst, const float *x, uint64_t cols);
    /* the same layout with one scale, exact for a row of integers of eight bits times a factor, whose largest
     * magnitude is 127 times the factor; NULL: as pack */
    void      (*pack_rounded)(void *dst, const float *x, uint64_t cols);
} lm_activation;

/* The arithmetic of the products, which determines the peak that a kernel is measured against. */
typedef enum lm_arithmetic { LM_ARITHMETIC_F32, LM_ARITHMETIC_INT8, LM_ARITHMETIC_BF16 } lm_arithmetic;

typedef struct lm_matmul_args {
    const void  *w;              /* the whole matrix, in the layout of the kernel */
    uint64_t     rows, cols;     /* [rows][cols]: outputs, inputs */
    uint64_t     first, last;    /* outputs to compute; `first` is a multiple of row_group, `last` too or
                                    equal to rows */
    const void  *x;              /* packed rows */
    uint64_t     x_stride;       /* bytes between rows */
    uint64_t     n;              /* number of rows of x, >= 1 */
    float       *y;              /* y[t * y_stride + output] */
    uint64_t     y_stride;       /* floats */
    const float *bias;           /* [rows], or NULL */
    const float *add;            /* y = add + scale * (W x + bias); add may be y itself; NULL: nothing is
                                    added */
    uint64_t     add_stride;     /* floats */
    float        scale;          /* 1: no effect */
    void        *scratch;        /* of this worker, scratch_bytes(cols) bytes */
} lm_matmul_args;

typedef struct lm_matmul {
    const char *name;                                                /* "q4_1 avx2" */
    const lm_activation *x;
    lm_arithmetic arithmetic;
    /* outputs are divided among workers at multiples of this */
    uint32_t    row_group;
    uint64_t  (*scratch_bytes)(uint64_t cols);                       /* per worker; NULL: none */
    /* For a kernel with its own layout: the size of the packed matrix in bytes, and a function that packs
     * outputs [first, last) from rows as stored. NULL: the bytes of the file are used in place, at any
     * address. */
    uint64_t  (*packed_bytes)(uint64_t rows, uint64_t cols);
    void (*pack)(void *dst, const void *stored, uint64_t rows, uint64_t cols, uint64_t first, uint64_t last);
    void      (*run)(const lm_matmul_args *a);
    /* Compute outputs [first, to) of one row of x, from rows as stored of row_bytes bytes each, with the
     * results of `run`; `to` - first is a multiple of 8. NULL: `pack`, then `run`. */
    void      (*run_stored)(const lm_matmul_args *a, uint64_t row_bytes, uint64_t to);
    /* Unpack one row of the matrix to float32, for look-ups: dst [cols]. */
    void      (*row)(float *dst, const void *w, uint64_t rows, uint64_t cols, uint64_t row);
} lm_matmul;

/* Do m->run on a matrix as stored, in rows of `row_bytes` bytes. If `m` has its own layout, the matrix is
 * packed on the fly; the results are bit-identical. a->scratch: lm_stored_scratch(m, cols) bytes. */
void     lm_stored_run(const lm_matmul *m, const lm_matmul_args *a, uint64_t row_bytes);
uint64_t lm_stored_scratch(const lm_matmul *m, uint64_t cols);

#define LM_DTYPE_SLOTS 64

/* ---- rows of floats
 * ---------------------------------------------------------------------------------------------- */

/* Consecutive rows of one sequence, and a block of LM_STATE_BLOCK columns of the state of one head:
 *   S <- a S;  u = beta (v - S^T k), without `delta`: beta v;  S <- S + k u^T;  o = S^T q
 * With `rates`: S <- exp(-exp(rates^T) decay) S + k (decay v)^T, with a decay per column.
 * With `rates` and `gated`, k_dim 1: a = exp(-8 decay softplus(rates)), S <- a S + sqrt(1 - a^2) v, o = S; at
 * the first position S <- v.
 * A row's result does not depend on `rows`, and is the same on every instruction set. */
#define LM_STATE_BLOCK 16
#define LM_MAX_RATES   256
typedef struct lm_recurrence_args {
    float       *state;          /* [k_dim][LM_STATE_BLOCK], updated */
    const float *q, *k, *v, *decay, *beta;   /* row 0: [k_dim], [k_dim], [columns], [1] or [k_dim], [1] */
    const float *rates;          /* [columns][k_dim], k_dim <= LM_MAX_RATES; `decay` is [columns], `beta` is
                                    unused; or NULL */
    float       *o;              /* [columns] */
    uint64_t     q_stride, k_stride, v_stride, decay_stride, beta_stride, o_stride;      /* floats */
    uint64_t     rows;
    uint32_t     k_dim, columns; /* columns <= LM_STATE_BLOCK */
    bool         delta, decay_by_channel;
    bool         gated, at_start;        /* at_start: row 0 is the first position of the sequence */
} lm_recurrence_args;

/* Consecutive rows of one sequence, and lanes [first, last) of them. */
typedef struct lm_conv_args {
    const float *before;         /* [taps - 1][lanes]: the rows before row 0, oldest first; NULL: zeros */
    float       *after;          /* [taps - 1][lanes]: the same after the last row; may be `before`; NULL: not
                                    computed */
    const float *x;
    uint64_t     x_stride;       /* floats between rows */
    float       *y;              /* not x */
    uint64_t     y_stride;
    const float *w;              /* [lanes][taps] */
    const float *bias;           /* [lanes] or NULL */
    uint64_t     lanes, first, last, rows;
    uint32_t     taps;           /* 2 to LM_MAX_TAPS */
} lm_conv_args;

#define LM_MAX_TAPS 64

typedef struct lm_xielu { float positive, negative, beta, eps; } lm_xielu;

typedef struct lm_row_kernels {
    /* y = w * x / sqrt(mean(x^2) + eps)          RMSNorm, arXiv 1910.07467.   x, y [width], may be the same;
     * w may be NULL */
    void (*rms)(float *y, const float *x, const float *w, uint64_t width, float eps);
    /* y = w * (x - mean) / sqrt(var + eps) + b   LayerNorm, arXiv 1607.06450; biased variance. w, b may be
     * NULL */
    void (*layer_norm)(float *y, const float *x, const float *w, const float *b, uint64_t width, float eps);
    /* y = a + scale * b; may alias */
    void (*add)(float *y, const float *a, const float *b, float scale, uint64_t n);
    void (*mul)(float *y, const float *a, const float *b, uint64_t n);
    /* y = scale * x */
    void (*scale)(float *y, const float *x, float scale, uint64_t n);
    /* y = cap * tanh(x / cap) */
    void (*softcap)(float *y, const float *x, float cap, uint64_t n);
    void (*clamp)(float *y, const float *x, float low, float high, uint64_t n);
    void (*act)(float *y, const float *x, lm_act act, uint64_t n);       /* not LM_ACT_XIELU */
    /* y = positive x^2 + beta x for x > 0, else negative (e^min(x, eps) - 1 - x) + beta x; may alias (arXiv
     * 2411.13010) */
    void (*xielu)(float *y, const float *x, const lm_xielu *a, uint64_t n);
    /* y = act(gate) * up; may alias */
    void (*glu)(float *y, const float *gate, const float *up, lm_act act, uint64_t n);
    /* y = act(min(gate, limit)) * (clamp(up, -limit, limit) + plus); may alias (arXiv 2508.10925) */
    void (*glu_clamped)(float *y, const float *gate, const float *up, lm_act act, float limit, float plus,
                        uint64_t n);
    /* Softmax in place, float32 sum in fixed order. */
    /* Results below the smallest normal number may be zero. */
    void (*softmax)(float *x, uint64_t n);
    /* Rotate the first `dim` lanes of each of n heads, `stride` floats apart, in place (RoFormer, arXiv
     * 2104.09864). cosine, sine [dim/2]. pair: lanes (2i, 2i+1) are rotated together, else (i, i + dim/2). */
    void (*rope)(float *x, uint64_t n, uint64_t stride, uint64_t dim, const float *cosine, const float *sine,
                 bool pair);
    void (*recur)(const lm_recurrence_args *a);
    /* y[t][c] = bias[c] + sum over j < taps, ascending, of w[c][j] x[t - taps + 1 + j][c]. A row's result
     * does not depend on `rows`, and is the same on every instruction set. */
    void (*convolve)(const lm_conv_args *a);
} lm_row_kernels;

/* ---- attention over a paged cache
 * -------------------------------------------------------------------------------- */

#define LM_PAGE  64              /* positions in a page */
#define LM_RANGE 1024            /* positions of one partial softmax, before it is merged with the earlier
                                    ones; whole pages */

/* The contents of one layer's part of a page. */
typedef struct lm_kv_shape {
    uint32_t n_kv_heads;
    uint32_t k_dim, v_dim;
    lm_dtype k_type, v_type;     /* LM_F16, LM_F32, LM_BF16; LM_Q8_0, LM_Q4_0, LM_Q4_1, LM_Q5_0, LM_Q5_1:
                                    multiples of 32 lanes */
    bool     v_in_k;             /* values are the first v_dim lanes of the keys; nothing is stored for them
                                    (MLA) */
} lm_kv_shape;

/* Return the number of lanes that are multiplied by a Hadamard matrix at a time before a head is stored in
 * blocks (0: none). This spreads outliers over all lanes and so keeps scales small (QuaRot, arXiv
 * 2404.00456). Queries are multiplied too, so scores do not change. The output is multiplied as well, by the
 * size for values: the matrix is its own inverse. The values of a latent are its keys. */
static inline uint32_t lm_hadamard_of_keys(const lm_kv_shape *kv)
{
    uint32_t all = kv->v_in_k ? kv->k_dim | kv->v_dim : kv->k_dim;

    return !lm_dtype_of(kv->k_type)->quantized ? 0 : all % 64 == 0 ? 64 : all % 32 == 0 ? 32 : 0;
}

static inline uint32_t lm_hadamard_of_values(const lm_kv_shape *kv)
{
    if (kv->v_in_k)
        return lm_hadamard_of_keys(kv);
    return !lm_dtype_of(kv->v_type)->quantized ? 0 : kv->v_dim % 64 == 0 ? 64 : 32;
}

/* Return the bytes of the partial result of `queries` queries over one range: values [queries][v_dim], then
 * the maximum and the sum of each query, all float32. */
static inline uint64_t lm_attention_partial_bytes(const lm_kv_shape *kv, uint64_t queries)
{
    return queries * ((((uint64_t)kv->v_dim + 2) * sizeof(float) + 63) & ~UINT64_C(63));
}

/* Return the first position that is visible to the query at `position`; `chunked`: the window begins at a
 * multiple of its width. */
static inline uint32_t lm_first_seen(uint32_t window, bool chunked, uint32_t position)
{
    if (window && chunked)
        return position - position % window;
    return window && position >= window ? position - window + 1 : 0;
}

/* Queries at consecutive positions of one sequence against one key/value head. Key j is visible to the query
 * at position p if lm_first_seen <= j <= p. The keys and values of these positions are
 * already stored. */
typedef struct lm_attention_args {
    const lm_kv_shape *kv;
    uint32_t        head;        /* index of the key/value head */
    uint32_t        group;       /* query heads that share it */
    const float    *q;           /* q[r * q_stride + g * k_dim + lane], rotated */
    uint64_t        q_stride;    /* floats between rows */
    float          *out;         /* out[r * out_stride + g * v_dim + lane] */
    uint64_t        out_stride;
    uint32_t        rows;        /* consecutive positions */
    uint32_t        position;    /* of row 0 */
    uint32_t        window;      /* 0: none */
    bool            chunked;
    const uint32_t *pages;       /* page number of positions 64 i …; entries entirely outside the window may
                                    have any value */
    const uint8_t  *base;        /* page p of this layer is at base + p * page_stride */
    uint64_t        page_stride;
    float           scale;       /* scores = scale * q.k */
    float           softcap;     /* > 0: scores = cap * tanh(scores / cap) */
    const float    *slopes;      /* ALiBi, arXiv 2108.12409: scores -= slopes[g] * (p - j); [group] or NULL */
    bool            slopes_half; /* instead: scores = scale * (q.k + bf16(slopes[g] * bf16(j))) */
    const float    *sinks;       /* attention sinks: scores without values that count in the softmax; [group]
                                    or NULL */
    void           *scratch;     /* of this worker, scratch_bytes(kv, group) bytes */
} lm_attention_args;

typedef struct lm_attention_kernels {
    /* of one layer's part, a multiple of 64 */
    uint64_t (*page_bytes)(const lm_kv_shape *kv);
    uint64_t (*scratch_bytes)(const lm_kv_shape *kv, uint32_t group);
    /* Store positions slot … slot + rows - 1 (in 0…63) of a page. Each position has k [n_kv_heads][k_dim] and
     * v [n_kv_heads][v_dim] (unused if v_in_k); strides are in floats. */
    void (*store)(const lm_kv_shape *kv, uint8_t *page, uint32_t slot, uint32_t rows, const float *k,
                  uint64_t k_stride, const float *v, uint64_t v_stride);
    /* Copy the keys and values of those positions of a page whose bits are set in `slots`, bit for bit and in
     * rising order, to the positions from `slot` on, which end within the page. */
    void (*copy)(const lm_kv_shape *kv, uint8_t *page, uint32_t slot, const uint8_t *from, uint64_t slots);
    /* Score all keys of a page of one key/value head for the choice of sparse attention:
     * out [64], out[j] = sum over h of w[h] max(q[h] . key j, 0); q [n_heads][k_dim] is multiplied by the
     * Hadamard matrix where keys are. w NULL: out [h * stride + j] = q[h] . key j. scratch: 64 k_dim floats.
     * The same on every instruction set. */
    void (*index)(const lm_kv_shape *kv, const uint8_t *page, const float *q, const float *w,
                  uint32_t n_heads, float *scratch, float *out, uint64_t stride);
    /* Compute attention. Positions 0 to LM_RANGE - 1 are range 0, and so on. In each range visible to a row,
     * an online softmax processes the pages in ascending order; the ranges are merged in ascending order. A
     * row's result does not depend on `rows`. */
    void     (*run)(const lm_attention_args *a);
    /* The same in pieces, bit for bit. run_range computes the partial result of all rows over one range; it
     * ignores `out` and `sinks`. merge computes `out` from `n` contiguous partials: the first range visible
     * to row 0 up to the last visible to the last row. */
    void     (*run_range)(const lm_attention_args *a, uint32_t range, void *partial);
    void     (*merge)(const lm_attention_args *a, const void *partials, uint32_t n);
} lm_attention_kernels;

/* ---- kernel table
 * ------------------------------------------------------------------------------------------------ */

typedef struct lm_kernels {
    lm_cpu               cpu;
    /* By stored type. `exact`: float32 arithmetic, for every type that can be unpacked. `fast`: a faster
     * kernel if there is one, else the same pointer. NULL if a type cannot be used as a matrix. */
    const lm_matmul     *exact[LM_DTYPE_SLOTS];
    const lm_matmul     *fast[LM_DTYPE_SLOTS];
    lm_row_kernels       row;
    /* `attention` uses float32. `attention_fast` uses products of bfloat16 if that is faster: queries, keys,
     * values and probabilities are rounded to bfloat16, sums are float32. Both read the same pages. */
    lm_attention_kernels attention, attention_fast;
} lm_kernels;

/* Fill the table with the best kernels of an instruction set (0: plain C). Thread-safe, without global
 * state. */
void lm_kernels_init(lm_kernels *k, lm_cpu cpu);

/* The parts of lm_kernels_init, one function per level; each overrides the kernels that it improves. */
void lm_kernels_init_ref(lm_kernels *k);
void lm_kernels_init_sse41(lm_kernels *k);
void lm_kernels_init_avx2(lm_kernels *k);
void lm_kernels_init_avx512(lm_kernels *k);
void lm_kernels_init_amx(lm_kernels *k);
void lm_kernels_init_neon(lm_kernels *k);

#endif
