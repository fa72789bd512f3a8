/* allot.h - choose a type per tensor for a given size, by the divergence that each type causes on a text. */
#ifndef LAMINA_ALLOT_H
#define LAMINA_ALLOT_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_allot_options {    /* all zero: the defaults; a text and a size are needed */
    lm_engine_options engine;        /* threads, cpu; sizes are chosen here, arithmetic is float32 */
    const lm_token *ids;             /* [n]: a text typical of the model's use */
    size_t          n;
    uint32_t        chunk, chunks;   /* tokens per chunk, and maximum chunks; 0: 256, 2. Half of the chunks
                                        are used to choose, the others to evaluate */
    double          bits_per_weight; /* average over all tensors, or … */
    uint64_t        bytes;           /* … total bytes; one of the two is 0 */
    const char *const *types;        /* NULL-ended: candidate types; NULL: those of quantize from q2_k to
                                        q8_0, for less than 4.25 bits per weight also iq3 and iq2, for less
                                        than 3 iq1 */
    const char     *imatrix;         /* as of lm_quantize_options */
    double          seconds;         /* time limit for measuring; tensors not measured get the mean of their
                                        kind. 0: no limit */
    const char     *state;           /* file of earlier results, which are not measured again; NULL: none */
    /* Called periodically with 0…1 and the current activity, in the calling thread. Return false to cancel:
     * LM_CANCELLED. */
    bool          (*progress)(void *arg, double fraction, const char *what);
    void           *progress_arg;
    uint64_t        reserved[8];     /* zero */
} lm_allot_options;

lm_allot_options lm_allot_defaults(void);

/* One upgrade of a tensor, in order of gain per byte. */
typedef struct lm_allot_step {
    const char *tensor;              /* "blk.0.ffn_down.weight" */
    const char *from;
    const char *to;
    uint64_t    bytes;               /* of all tensors after this step */
    double      estimate;            /* estimated mean divergence after it, nats per token: the sum over
                                        single tensors */
    double      kl;                  /* measured with all tensors together, on the evaluation chunks; NaN if
                                        not measured */
    uint64_t    reserved[2];         /* zero */
} lm_allot_step;

typedef struct lm_allotment {
    const char *const *keep;         /* "^blk\.0\.ffn_down\.weight$=q4_k": for lm_quantize_options.keep */
    size_t      n_keep;
    const lm_allot_step *steps;      /* the first: every tensor in its smallest type, tensor NULL */
    size_t      n_steps;
    uint64_t    bytes, elements;
    double      bits_per_weight, kl; /* of the chosen types; kl is measured */
    size_t      tried, untried;      /* tensors */
    double      seconds;
    void       *impl;                /* private */
    uint64_t    reserved[4];         /* zero */
} lm_allotment;

/* Measure the divergence of each tensor in one type, with all others unchanged: its smallest type, or with
 * less than 4.25 bits per weight the largest one within the budget's average. For other types it is scaled by
 * the square of their errors. Then spend bytes where they reduce the divergence most. Types that quantize
 * makes only with importance are used for the tensors that `imatrix` contains. The joint matrix of latent
 * attention in older GGUF files (attn_kv_b) gets q8_0. Memory: 4 bytes per weight. LM_USAGE: no text, no
 * size, or a size that is too small; LM_UNSUPPORTED: a tensor that GGUF has no name for; LM_NO_FIT. */
lm_status lm_allot(const lm_model *m, const lm_allot_options *o, lm_allotment *out, lm_error *e);
void      lm_allot_free(lm_allotment *a);

#ifdef __cplusplus
}
#endif
#endif
