/* verify_models.h - `lamina verify MODEL OTHER -f TEXT`: compare two models on a text, without a golden. */
#ifndef LM_CLI_VERIFY_MODELS_H
#define LM_CLI_VERIFY_MODELS_H

#include "cli/base/options.h"

typedef struct lm_verify_texts {
    const char *prompt, *file, *ids;     /* at most one is set */
    uint32_t    window;                  /* tokens processed at a time; 0: all, at most the models' context */
    bool        bare;                    /* add no special tokens */
} lm_verify_texts;

/* Compare two models on a text and print the result. `models`: paths or names, the second is the reference.
 * LM_DIFFERS: the mean KL divergence exceeds `kl_max`; negative: no limit. */
lm_status lm_verify_models(lm_cli *cli, lm_model_flags *flags, const char *const models[2],
                           const lm_verify_texts *texts, const lm_engine_options *engine, double kl_max,
                           lm_error *e);

#endif
