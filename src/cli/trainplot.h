/* trainplot.h - a training run as a plot. */
#ifndef LM_CLI_TRAINPLOT_H
#define LM_CLI_TRAINPLOT_H

#include "lamina/error.h"

/* FOLDER/loss.svg from FOLDER/log.jsonl: the loss of every step, its running mean, and the validations. */
lm_status lm_train_plot(const char *folder, lm_error *e);

#endif
