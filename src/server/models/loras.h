/* loras.h - low-rank adapters of a server's model: which a request has, and what all have that do not say. An adapter's id is its place
 * on the command line, from 0. */
#ifndef LM_SERVER_LORAS_H
#define LM_SERVER_LORAS_H

#include "server/models/service.h"

/* By service.c: what the options name is counted; opened for the model; closed. */
lm_status lm_loras_take(lm_service *s, lm_error *e);
lm_status lm_loras_load(lm_service *s, lm_error *e);
void      lm_loras_unload(lm_service *s);

/* The scales that a list [{"id", "scale"}, ...] gives, those that it does not name 0; without a list, those of the server. *out
 * [n_loras] is the caller's, free(); NULL where the server has no adapters. LM_USAGE: the list. */
lm_status lm_loras_read(const lm_service *s, const json_t *list, float **out, lm_error *e);

/* [{"id", "scale"}, ...] of all; `scales` NULL: those of the server. */
json_t   *lm_loras_json(const lm_service *s, const float *scales);

/* lm_schedule_fingerprint; another one where the scales of the server are no longer those that it began with. */
void      lm_loras_fingerprint(const lm_service *s, char out[24]);

#endif
