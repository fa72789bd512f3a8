/* gradients.h - the kernels of training besides the forward pass: products of plain matrices, gradients of
 * row operations, attention that stores the logarithm of each softmax sum, and the loss.
 *
 * The guarantees are those of kernels.h: single-threaded, no allocation, no failure. Sums over rows run in
 * ascending order, one row after the other, and start from the value in memory, so a sum does not depend on
 * how rows were divided into calls. */
#ifndef LM_KERNELS_GRADIENTS_H
#define LM_KERNELS_GRADIENTS_H

#include "kernels/kernels.h"

/* C[m][n] += sum over k of A(m, k) B[k][n], k ascending, each sum starting from the value in C. A(m, k) is
 * a[m * a_row + k * a_col]; strides in floats. */
typedef struct lm_gemm {
    float       *c;
    uint64_t     c_row;
    const float *a;
    uint64_t     a_row, a_col;
    const float *b;
    uint64_t     b_row;
    uint64_t     m, n, k;
} lm_gemm;

/* Attention within one sequence, float32. Key j is visible to query i if j <= i and (window == 0 or i - j <
 * window; chunked: or j / window == i / window). Row strides are in floats; rows of the sequence are numbered
 * from 0. */
typedef struct lm_text_attention {
    const float *q, *k, *v;              /* lanes of row 0 of one query head, one key head, one value head */
    uint64_t     q_row, k_row, v_row;
    float       *out;                    /* written by forward, read by reverse */
    uint64_t     out_row;
    float       *lse;                    /* log of the sum of exponentials of each row */
    uint64_t     lse_row;
    const float *dout;                   /* gradient of out */
    uint64_t     dout_row;
    float       *dq, *dk, *dv;           /* added to */
    uint64_t     dq_row, dk_row, dv_row;
    uint32_t     rows, k_dim, v_dim, window;
    bool         chunked;
    float        scale, softcap;
    float        slope;                  /* ALiBi; 0: none */
    bool         slope_half;             /* the bias is slope * j in bfloat16, added before the scale */
    bool         sink;
    float        sink_score;
    void        *scratch;                /* lm_text_attention_scratch(rows, k_dim, v_dim) */
} lm_text_attention;

uint64_t lm_text_attention_scratch(uint64_t rows, uint64_t k_dim, uint64_t v_dim);

typedef struct lm_gradient_kernels {
    void (*gemm)(const lm_gemm *g);
    /* dx of y = w x / rms(x), written if `first`, else added to; w may be NULL. */
    void (*rms)(float *dx, const float *x, const float *dy, const float *w, uint64_t width, float eps,
                bool first);
    void (*layer_norm)(float *dx, const float *x, const float *dy, const float *w, uint64_t width, float eps,
                       bool first);
    /* dw += dy x̂, db += dy of one row; NULL: not computed. */
    void (*rms_weight)(float *dw, const float *x, const float *dy, uint64_t width, float eps);
    void (*layer_norm_weight)(float *dw, float *db, const float *x, const float *dy, uint64_t width,
                              float eps);
    /* dx = dy act'(x); dgate = dy up act'(gate), dup = dy act(gate); each is written if its `first`, else
     * added to; NULL: not computed. */
    void (*act)(float *dx, const float *x, const float *dy, lm_act act, uint64_t n, bool first);
    void (*glu)(float *dgate, float *dup, const float *gate, const float *up, const float *dy, lm_act act,
                uint64_t n, bool first_gate, bool first_up);
    /* Compute rows [from, to) of out and lse. */
    void (*attend)(const lm_text_attention *a, uint32_t from, uint32_t to);
    /* Add to dq of rows [from, to). */
    void (*attend_back_q)(const lm_text_attention *a, uint32_t from, uint32_t to);
    /* Add to dk and dv (NULL: not computed; dv may be part of dk) of keys [from, to), over all rows to which
     * they are visible. */
    void (*attend_back_kv)(const lm_text_attention *a, uint32_t from, uint32_t to);
    /* Cross-entropy of a row of n logits: returns lse - z[label], and z becomes (softmax - onehot) *
     * weight. */
    double (*loss)(float *z, uint64_t n, uint32_t label, float weight);
    float (*dot)(const float *a, const float *b, uint64_t n);
} lm_gradient_kernels;

/* The gradients of one lane of lm_row_kernels.glu_clamped; limit 0: of glu. */
static inline void lm_glu_lane_back(const lm_gradient_kernels *k, float gate, float up, float dy, lm_act act,
                                    float limit, float plus, float *dgate, float *dup)
{
    bool over = limit > 0 && gate > limit, past = limit > 0 && (up < -limit || up > limit);

    if (limit > 0) {
        gate = over ? limit : gate;
        up   = (past ? (up < 0 ? -limit : limit) : up) + plus;
    }
    k->glu(dgate, dup, &gate, &up, &dy, act, 1, true, true);
    *dgate = over ? 0 : *dgate;
    *dup   = past ? 0 : *dup;
}

void lm_gradient_kernels_init(lm_gradient_kernels *k, lm_cpu cpu);

void lm_gradient_kernels_init_ref(lm_gradient_kernels *k);
void lm_gradient_kernels_init_avx2(lm_gradient_kernels *k);
void lm_gradient_kernels_init_avx512(lm_gradient_kernels *k);

#endif
