/* chosen.h - the keys that a query of sparse attention sees (program/builder.h, lm_select_keys). */
#ifndef LM_RUNTIME_CHOSEN_H
#define LM_RUNTIME_CHOSEN_H

#include "program/program.h"

/* Choose by the scores of the visible keys, of all heads or, in blocks, of one: scores [keys], which may be
 * overwritten. With at most top_k keys it takes all, and scores are not read. Write the choice, in rising
 * order, -1 past the last, to out [lm_choice_width(s)]. */
void lm_choose_keys(const lm_attention_spec *s, float *scores, uint32_t keys, float *out);

/* Write the positions of one choice up to `position`, in rising order, to keys [top_k]; return how many. */
uint32_t lm_chosen_keys(const lm_attention_spec *s, const float *chosen, uint32_t position, uint32_t *keys);

#endif
