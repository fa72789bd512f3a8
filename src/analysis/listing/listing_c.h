/* listing_c.h - listings in C: what its files share. */
#ifndef LM_ANALYSIS_LISTING_C_H
#define LM_ANALYSIS_LISTING_C_H

#include "analysis/listing/listing.h"

/* The functions that the operations call. LM_UNSUPPORTED names what has no form in C. */
lm_status lm_listing_c_helpers(const lm_listing *l, lm_text *out, lm_error *e);

/* Of these, those of attention, and those of experts and latents. */
void lm_listing_c_attention(const lm_listing *l, lm_text *out);
void lm_listing_c_mixtures(const lm_listing *l, lm_text *out);

/* What an operation makes, as an expression; the sum over experts takes lines of its own, and `name` is what it goes to. */
void lm_listing_c_value(const lm_listing *l, const lm_node *n, lm_text *out);
void lm_listing_c_experts(const lm_listing *l, const lm_node *n, const char *name, lm_text *out);

/* Headers, memory and weights; without `checkpoint` a weight that was not loaded is made up. */
void lm_listing_c_begin(const lm_listing *l, bool made_up, lm_text *out);

/* The function of an activation: "silu"; the C library has `tanh`, of doubles. */
const char *lm_listing_c_act(lm_act a);

/* main of a whole model. */
void lm_listing_c_main(const lm_listing *l, lm_text *out);

#endif
