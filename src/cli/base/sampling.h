/* sampling.h - flags of samplers, shared by the commands that generate text. */
#ifndef LM_CLI_SAMPLING_H
#define LM_CLI_SAMPLING_H

#include "cli/base/command.h"

typedef struct lm_sampling_flags {
    lm_sampler_options o;
    lm_flag_list       bias;             /* "ID+BIAS", "ID-BIAS", "ID-inf" */
    lm_flag_list       breakers;         /* "none": no breakers */
    bool               ignore_eos;       /* for lm_constraining_open */
} lm_sampling_flags;

extern const lm_flag lm_sampling_flag_table[];

void lm_sampling_defaults(lm_sampling_flags *f);

/* Replace the settings that no flag of the command line gives by those of the model's files. */
void lm_sampling_model(const lm_cli *cli, lm_sampling_flags *f, const lm_model *m);

/* Set sampler options from the flags; their pointers are valid as long as the command runs. A seed of
 * UINT64_MAX is replaced by a random one, which is also stored in `f`. */
lm_status lm_sampling_options(lm_cli *cli, lm_sampling_flags *f, lm_sampler_options *out, lm_error *e);

#endif
