/* diff.h - compare two models of one shape: the changes made by quantisation or fine-tuning, per tensor, per
 * layer on a text, and which tensors should be stored more precisely. */
#ifndef LAMINA_DIFF_H
#define LAMINA_DIFF_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LM_DIFF_BINS = 64 };

/* A tensor of `a` and its counterpart in `b`, matched by path in the program, independently of names, order
 * and packing in the files. */
typedef struct lm_diff_tensor {
    const char *name;                /* as in GGUF, or in folders where neither is a GGUF file */
    const char *a;                   /* stored types: "bf16" … */
    const char *b;                   /* … "q4_k" */
    uint64_t    elements, a_bytes, b_bytes;
    double      cosine;              /* sum a b / sqrt(sum a² sum b²); 1 if both are zero */
    double      snr_db;              /* 10 log10(sum a² / sum (a - b)²); infinity if they are equal */
    double      relative;            /* sqrt(sum (a - b)² / sum a²) */
    double      max_abs;             /* largest |a - b| … */
    uint64_t    matrix, row, column; /* … its first position: rows and columns as in `a` … */
    float       a_value, b_value;    /* … and the values there */
    uint64_t    equal;               /* number of equal elements */
    uint64_t    bins[LM_DIFF_BINS];  /* the others: bins[i] counts 2^(i-48) <= |a - b| < 2^(i-47); the ends
                                        include values beyond */
    uint64_t    reserved[4];         /* zero */
} lm_diff_tensor;

typedef struct lm_diff_layer {
    const char *path;                /* "model.layers.3" */
    int32_t     layer;               /* -1: the embedding */
    double      relative;            /* norm of the difference of the residual streams relative to a's norm:
                                        mean over the tokens */
    double      added;               /* the part of it added by this layer */
    uint64_t    reserved[2];         /* zero */
} lm_diff_layer;

/* Tensors to store more precisely; measured together, not summed. */
typedef struct lm_diff_advice {
    const char *const *tensors;      /* [n] */
    size_t      n;
    const char *to;                  /* "q6_k"; if rows do not fit its blocks, the type that quantize uses,
                                        given here if it is the same for all */
    uint64_t    bytes;               /* additional bytes */
    double      kl, kl_before;       /* nats per token, on the part of the text that was not used to choose */
    uint64_t    reserved[2];         /* zero */
} lm_diff_advice;

typedef struct lm_diff_options {     /* all zero: the defaults, tensors alone */
    lm_engine_options engine;        /* threads, compute, cpu; sizes are chosen by lm_diff */
    const lm_token *ids;             /* [n]: a text; NULL: none */
    size_t          n;
    uint32_t        chunk;           /* tokens per chunk; each chunk starts with an empty cache; 0: 256 */
    uint32_t        chunks;          /* at most; 0: 4 */
    const char     *raise;           /* type to try on tensors of `b`; NULL: "q6_k"; "": none */
    uint32_t        candidates;      /* maximum tensors to try, those with the largest weighted error first;
                                        0: 24 */
    /* Called periodically with 0…1 and the current activity, in the calling thread. Return false to cancel:
     * LM_CANCELLED. */
    bool          (*progress)(void *arg, double fraction, const char *what);
    void           *progress_arg;
    uint64_t        reserved[8];     /* zero */
} lm_diff_options;

lm_diff_options lm_diff_defaults(void);

typedef struct lm_diff_result {
    const lm_diff_tensor *tensors;   size_t n_tensors;       /* in the order of the program */
    const char *const *only_a;       size_t n_only_a;        /* without a counterpart of the same shape */
    const char *const *only_b;       size_t n_only_b;
    uint64_t    a_bytes, b_bytes;    /* of all tensors of the programs */
    /* on the text; 0 without one: */
    const lm_diff_layer *layers;     size_t n_layers;
    uint64_t    tokens;              /* of whole chunks */
    double      mean_kl, max_kl;     /* of b from a, nats per token, over all tokens */
    double      same_top;            /* share of tokens with the same most probable next token */
    bool        flips;               /* same_top < 1; then the first difference: */
    uint32_t    flip_position;       /* position of the row in its chunk */
    uint32_t    flip_chunk;
    int32_t     flip_layer;          /* the first layer after which the logit lens gives different tokens; -1:
                                        the embedding */
    int32_t     flip_settled;        /* the first layer after which they differ in all further layers */
    const lm_diff_advice *advice;    size_t n_advice;        /* each includes the one before; empty if nothing
                                                                helps */
    const char *advice_note;         /* reason if there is none; else NULL */
    double      seconds;
    void       *impl;                /* private */
    uint64_t    reserved[8];         /* zero */
} lm_diff_result;

/* Compare `b` with the reference `a`. Containers and types may differ; weights are matched by their path in
 * the program, so the families must be the same. With a text both models run as stored; candidates run in
 * float32 on one copy of all weights (4 bytes each). LM_USAGE: different families or vocabularies, or a text
 * shorter than a chunk. LM_NO_FIT: not enough memory. */
lm_status lm_diff(const lm_model *a, const lm_model *b, const lm_diff_options *o, lm_diff_result *out,
                  lm_error *e);
void      lm_diff_free(lm_diff_result *r);

#ifdef __cplusplus
}
#endif
#endif
