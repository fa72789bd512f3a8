/* program_difference.h - whether a written file describes the same model as its source. */
#ifndef LM_EXPORT_PROGRAM_DIFFERENCE_H
#define LM_EXPORT_PROGRAM_DIFFERENCE_H

#include "arch/config.h"

/* Return the first difference between what the model read from the file computes and what the described model
 * computes; NULL: none. Differences in storage do not count: fused projections and the pairing of lanes. */
const char *lm_program_difference(const lm_program *meant, const lm_config *m, const lm_program *read,
                                  const lm_config *r);

/* Read a GGUF file, of which only keys and tensors exist, as a configuration: LM_UNSUPPORTED if it does not
 * describe the same model, or a tensor is no weight of it. */
lm_status lm_read_back(lm_container *seen, const lm_family *family, const lm_program *meant,
                       const lm_config *m, lm_config *out, lm_error *e);

#endif
