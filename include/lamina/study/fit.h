/* study/fit.h - does a model fit, how far, and how fast would it be: the plan against a machine, in each
 * precision.
 *
 * Nothing is estimated: every size is that of a plan, and the longest context and the most sequences are the
 * last for which a plan fits. Speeds are the roofline of the plan's steps: what the machine allows at
 * best. */
#ifndef LAMINA_FIT_H
#define LAMINA_FIT_H

#include "lamina/study/device.h"
#include "lamina/engine.h"
#include "lamina/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_fit_options {
    lm_engine_options  engine;           /* context, sequences, cache type, rows …; as for lm_engine_new */
    const lm_device   *device;           /* NULL: this machine */
    const lm_limits   *limits;           /* of this machine (lm_machine_measure), for its speeds; NULL: they
                                            are not known */
    uint64_t           memory;           /* bytes that the model can have; 0: the device's less its reserve,
                                            or what is available here */
    bool               no_speed;         /* nothing is known of the machine but its memory: device is not
                                            looked at */
    bool               sizes_only;       /* neither longest nor max_sequences is looked for: they stay 0 */
    const char        *precision;        /* only this one; NULL: as stored where there are weights, and all
                                            usual ones */
    uint32_t           prompt;           /* tokens of the prompt whose speed is predicted; 0: 512, or the
                                            context */
    uint64_t           reserved[4];  /* zero */
} lm_fit_options;

lm_fit_options lm_fit_defaults(void);

typedef struct lm_fit_speed {
    double      rate;                    /* tokens a second; 0: not known */
    const char *limited_by;              /* "memory", or an arithmetic: "int8" "f16" "bf16" "f32" */
    uint64_t    reserved[1];         /* zero */
} lm_fit_speed;

typedef struct lm_fit_row {
    const char  *precision;              /* "as stored", "bf16", "Q4_K_M" */
    uint64_t     weights;                /* bytes, mapped ones included */
    uint64_t     kv, scratch, total;
    bool         fits;
    bool         tight;                  /* fits, but less than 5 % of the memory is left */
    bool         larger;                 /* than what the model is published in: nothing is gained by it */
    uint64_t     longest;                /* maximum context of the requested sequences, at most the model's;
                                            0: none */
    uint64_t     max_sequences;          /* maximum sequences of the requested context; 0: none */
    lm_fit_speed prompt, token;          /* one prompt; all sequences together, their contexts full */
    uint64_t     reserved[4];        /* zero */
} lm_fit_row;

enum { LM_FIT_ROWS = 16 };

typedef struct lm_fit {
    uint64_t    memory;                  /* bytes that the model can have */
    uint64_t    context, sequences, context_length, prompt;
    const char *level;                   /* whose kernels the plan is made for; "ref": weights as stored */
    size_t      n;
    lm_fit_row  rows[LM_FIT_ROWS];       /* from the most exact to the smallest */
    int         best;                    /* the most exact row that fits and gains something; as stored where
                                            there are weights; -1: none */
    uint64_t    reserve;                 /* bytes of the device that others need (lm_device_reserve), not in
                                            `memory` */
    uint64_t    reserved[3];         /* zero */
} lm_fit;

/* Nothing is measured and nothing is written. LM_OK also when nothing fits. LM_USAGE for an unknown precision
 * or impossible options. */
lm_status lm_fit_model(const lm_model *m, const lm_fit_options *o, lm_fit *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
