/* diff.h - two models of one shape beside each other: what a quantisation or a fine-tune has changed, tensor by tensor, layer by layer on a
 * text, and what a few bytes more would mend. */
#ifndef LAMINA_DIFF_H
#define LAMINA_DIFF_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LM_DIFF_BINS = 64 };

/* One tensor of `a` and its partner in `b`, found by its place in the program: containers may name, order and pack them as they like. */
typedef struct lm_diff_tensor {
    const char *name;                /* as in GGUF, or in folders where neither is a GGUF file */
    const char *a;                   /* types that are stored: "bf16" … */
    const char *b;                   /* … "q4_k" */
    uint64_t    elements, a_bytes, b_bytes;
    double      cosine;              /* sum a b / sqrt(sum a² sum b²); 1 where both are zero */
    double      snr_db;              /* 10 log10(sum a² / sum (a - b)²); infinity where they are equal */
    double      relative;            /* sqrt(sum (a - b)² / sum a²) */
    double      max_abs;             /* largest |a - b| … */
    uint64_t    matrix, row, column; /* … where, first of its like: rows and columns as `a` has them … */
    float       a_value, b_value;    /* … and what stands there */
    uint64_t    equal;               /* elements that are */
    uint64_t    bins[LM_DIFF_BINS];  /* others: bins[i] have 2^(i-48) <= |a - b| < 2^(i-47); the ends take what lies beyond */
    uint64_t    reserved[4];         /* zero */
} lm_diff_tensor;

typedef struct lm_diff_layer {
    const char *path;                /* "model.layers.3" */
    int32_t     layer;               /* -1: the embedding */
    double      relative;            /* length of the difference of the residual streams by that of a's: mean over the tokens of the text */
    double      added;               /* of that, what this layer's own contribution differs by */
    uint64_t    reserved[2];         /* zero */
} lm_diff_layer;

/* Tensors that are stored more finely. They are measured together, not added up. */
typedef struct lm_diff_advice {
    const char *const *tensors;      /* [n] */
    size_t      n;
    const char *to;                  /* "q6_k"; where rows do not fit, the type that quantize gives them: it stands here where it is
                                        that of all */
    uint64_t    bytes;               /* more than now */
    double      kl, kl_before;       /* nats a token, on the part of the text that nothing was chosen by */
    uint64_t    reserved[2];         /* zero */
} lm_diff_advice;

typedef struct lm_diff_options {     /* all zero: the defaults, tensors alone */
    lm_engine_options engine;        /* threads, compute, cpu; what its sizes are is chosen here */
    const lm_token *ids;             /* [n]: a text; NULL: none */
    size_t          n;
    uint32_t        chunk;           /* tokens that are read at once, each time from an empty cache; 0: 256 */
    uint32_t        chunks;          /* at most; 0: 4 */
    const char     *raise;           /* type that is tried on tensors of `b`; NULL: "q6_k". "": nothing is tried */
    uint32_t        candidates;      /* tensors that it is tried on, those first whose error weighs most; 0: 24 */
    /* Called now and then with 0…1 and what is done. false: LM_CANCELLED. */
    bool          (*progress)(void *arg, double fraction, const char *what);
    void           *progress_arg;
    uint64_t        reserved[8];     /* zero */
} lm_diff_options;

lm_diff_options lm_diff_defaults(void);

typedef struct lm_diff_result {
    const lm_diff_tensor *tensors;   size_t n_tensors;       /* in the order of the program */
    const char *const *only_a;       size_t n_only_a;        /* without a partner of the same shape */
    const char *const *only_b;       size_t n_only_b;
    uint64_t    a_bytes, b_bytes;    /* of all tensors of the programs */
    /* on the text; 0 without one: */
    const lm_diff_layer *layers;     size_t n_layers;
    uint64_t    tokens;              /* of whole chunks */
    double      mean_kl, max_kl;     /* of b from a, nats a token, over all tokens */
    double      same_top;            /* share of tokens after which both expect the same one */
    bool        flips;               /* not always: the first place where they do not … */
    uint32_t    flip_position;       /* … tokens before it, in its chunk, less one … */
    uint32_t    flip_chunk;
    int32_t     flip_layer;          /* … the first layer after which the streams, read through the last norm and the head, name other
                                        tokens; -1: the embedding */
    int32_t     flip_settled;        /* … and the first from which on they do to the end */
    const lm_diff_advice *advice;    size_t n_advice;        /* each holds the one before; none where nothing helps */
    const char *advice_note;         /* why there is none; NULL */
    double      seconds;
    void       *impl;                /* the library's own */
    uint64_t    reserved[8];         /* zero */
} lm_diff_result;

/* `b` beside `a`, which is what it should be. The models may lie in any containers and types; weights meet by their path in the program, so
 * the families must be the same. With a text both run as they are stored, and what is tried runs in float32, on one copy of all weights
 * in memory (4 bytes each). LM_USAGE: models of other families or vocabularies, a text shorter than a chunk. LM_NO_FIT: no memory for
 * that. */
lm_status lm_diff(const lm_model *a, const lm_model *b, const lm_diff_options *o, lm_diff_result *out, lm_error *e);
void      lm_diff_free(lm_diff_result *r);

#ifdef __cplusplus
}
#endif
#endif
