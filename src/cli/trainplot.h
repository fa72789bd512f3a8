/* trainplot.h - plot the loss of a training run. */
#ifndef LM_CLI_TRAINPLOT_H
#define LM_CLI_TRAINPLOT_H

#include "lamina/error.h"

/* Write FOLDER/loss.svg from FOLDER/log.jsonl: the loss of every step, its running mean, and the validation losses. */
lm_status lm_train_plot(const char *folder, lm_error *e);

#endif
