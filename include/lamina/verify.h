/* verify.h - compare the engine with reference results. */
#ifndef LAMINA_VERIFY_H
#define LAMINA_VERIFY_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One position compared. */
typedef struct lm_verdict_row {
    uint64_t sequence, position;
    double   rel_err, kl;
    bool     argmax_equal;
    uint64_t reserved[2];            /* zero */
} lm_verdict_row;

typedef struct lm_verify_options {
    lm_engine_options engine;        /* compute mode, instruction set, threads, cache type */
    double      tol;                 /* tolerated relative error; 0: 1e-4; negative: 0 */
    double      kl_max;              /* if not 0: tolerated mean KL, instead of the relative error; negative:
                                        0 */
    const char *dump;                /* write the computed values to this safetensors file; NULL: do not */
    /* called for each row, in the calling thread; may be NULL */
    void      (*row)(void *arg, const lm_verdict_row *row);
    void       *arg;
    uint64_t    reserved[4];         /* zero */
} lm_verify_options;

lm_verify_options lm_verify_defaults(void);

typedef struct lm_verdict {
    char     source[256];            /* source of the reference */
    uint64_t rows;                   /* positions compared */
    double   tol, max_rel_err, mean_kl, max_kl, argmax_agreement;
    uint64_t worst_row;
    bool     has_greedy;
    uint64_t greedy_common, greedy_total;
    bool     greedy_agrees;          /* equal where the reference's margin exceeds the tolerance */
    bool     bitwise_known;          /* false: the three ways differ by definition (reason in `note`) */
    bool     chunked, stepwise;      /* bitwise equal to all-at-once */
    bool     has_taps;
    uint64_t taps;                   /* compared */
    bool     diverges;               /* a tap differs */
    char     first_path[192];
    uint64_t first_position;
    double   first_rel_err;
    char     note[192];
    bool     agrees;
    uint64_t greedy_sequence, greedy_step;       /* position of the first greedy id that disagrees, from 0 */
    uint64_t reserved[6];            /* zero */
} lm_verdict;

/* GOLDEN: input_ids I64 [B,T], logits F32 [B,T,V] or [B,P,V] with logit_positions I64 [P], greedy_ids I64
 * [B,N], tap.PATH F32 [B,T,width]. `o` NULL: float32 arithmetic and cache. LM_OK whatever the verdict; errors
 * only when no verdict was possible. */
lm_status lm_verify(const lm_model *m, const char *golden, const lm_verify_options *o, lm_verdict *out,
                    lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
