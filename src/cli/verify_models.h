/* verify_models.h - `lamina verify MODEL OTHER -f TEXT`: two models on one text, without a golden. */
#ifndef LM_CLI_VERIFY_MODELS_H
#define LM_CLI_VERIFY_MODELS_H

#include "cli/options.h"

typedef struct lm_verify_texts {
    const char *prompt, *file, *ids;     /* one of them, or none */
    uint32_t    window;                  /* tokens read at a time; 0: the context */
    bool        bare;                    /* no special tokens are added */
} lm_verify_texts;

/* `models`: paths or names, the second is the reference. `kl_max` negative: nothing is judged. LM_DIFFERS when the mean is above it. */
lm_status lm_verify_models(lm_cli *cli, lm_model_flags *flags, const char *const models[2], const lm_verify_texts *texts,
                           const lm_engine_options *engine, double kl_max, lm_error *e);

#endif
