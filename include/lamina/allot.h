/* allot.h - which type each tensor of a file gets, for a number of bytes: by what each costs in divergence, measured on a text. */
#ifndef LAMINA_ALLOT_H
#define LAMINA_ALLOT_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_allot_options {    /* all zero: the defaults; a text and a size are needed */
    lm_engine_options engine;        /* threads, cpu; sizes are chosen here, arithmetic is float32 */
    const lm_token *ids;             /* [n]: a text like those that the model is for */
    size_t          n;
    uint32_t        chunk, chunks;   /* tokens that are read at once, and how often at most; 0: 256, 2. Half of the chunks choose, others
                                        judge */
    double          bits_per_weight; /* of all tensors together … */
    uint64_t        bytes;           /* … or bytes of them; one of both is 0 */
    const char *const *types;        /* NULL-ended: from which to choose; NULL: those that quantize has, from q2_k to q8_0 */
    const char     *imatrix;         /* as of lm_quantize_options */
    double          seconds;         /* for trying tensors; those that are not reached are taken for the mean of their kind. 0: no limit */
    const char     *state;           /* file of results so far: what is there is not tried again; NULL: none */
    bool          (*progress)(void *arg, double fraction, const char *what);     /* 0…1; false: LM_CANCELLED */
    void           *progress_arg;
    uint64_t        reserved[8];     /* zero */
} lm_allot_options;

lm_allot_options lm_allot_defaults(void);

/* What is bought, the best for a byte first. */
typedef struct lm_allot_step {
    const char *tensor;              /* "blk.0.ffn_down.weight" */
    const char *from;
    const char *to;
    uint64_t    bytes;               /* of all tensors, after it */
    double      estimate;            /* of the mean divergence then, nats a token: the sum of what each tensor costs by itself */
    double      kl;                  /* as measured with all together, on the chunks that judge; NaN where it was not */
    uint64_t    reserved[2];         /* zero */
} lm_allot_step;

typedef struct lm_allotment {
    const char *const *keep;         /* "^blk\.0\.ffn_down\.weight$=q4_k": for lm_quantize_options.keep */
    size_t      n_keep;
    const lm_allot_step *steps;      /* the first: every tensor in its smallest type, tensor NULL */
    size_t      n_steps;
    uint64_t    bytes, elements;
    double      bits_per_weight, kl; /* of what was chosen, as measured */
    size_t      tried, untried;      /* tensors */
    double      seconds;
    void       *impl;                /* the library's own */
    uint64_t    reserved[4];         /* zero */
} lm_allotment;

/* Each tensor is put into the model once in its smallest type, all others as they are; its divergence goes to other types with the square
 * of their errors. Then bytes are spent where a byte wins most. Memory: 4 bytes for each weight. LM_USAGE: no text, no size or one that is
 * too small; LM_UNSUPPORTED: latent attention, whose matrices files keep in several forms; LM_NO_FIT. */
lm_status lm_allot(const lm_model *m, const lm_allot_options *o, lm_allotment *out, lm_error *e);
void      lm_allot_free(lm_allotment *a);

#ifdef __cplusplus
}
#endif
#endif
