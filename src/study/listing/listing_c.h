/* listing_c.h - listings in C: declarations shared by their files. */
#ifndef LM_ANALYSIS_LISTING_C_H
#define LM_ANALYSIS_LISTING_C_H

#include "study/listing/listing.h"

/* Append the functions that the operations call. LM_UNSUPPORTED names an operation that cannot be expressed in C. */
lm_status lm_listing_c_helpers(const lm_listing *l, lm_text *out, lm_error *e);

/* The functions of attention, and of experts and latents; part of the helpers above. */
void lm_listing_c_attention(const lm_listing *l, lm_text *out);
void lm_listing_c_mixtures(const lm_listing *l, lm_text *out);

/* Append the result of an operation as an expression. The sum over experts needs separate lines, which assign to `name`. */
void lm_listing_c_value(const lm_listing *l, const lm_node *n, lm_text *out);
void lm_listing_c_experts(const lm_listing *l, const lm_node *n, const char *name, lm_text *out);

/* Append headers, memory and weights. `made_up`: weights that were not loaded are random. */
void lm_listing_c_begin(const lm_listing *l, bool made_up, lm_text *out);

/* Return the function of an activation: "silu"; the C library's `tanh` is for doubles. */
const char *lm_listing_c_act(lm_act a);

/* Append main of a whole model. */
void lm_listing_c_main(const lm_listing *l, lm_text *out);

#endif
