/* loras.h - low-rank adapters of a server's model: the scales of a request, and the server's for requests
 * without any. An adapter's id is its index on the command line, from 0. Threads: any,
 * except lm_loras_take, _load and _unload, which the owner of the service calls. */
#ifndef LM_SERVER_LORAS_H
#define LM_SERVER_LORAS_H

#include "server/models/service.h"

/* For service.c: count the adapters of the options and copy their scales; open them for the model; close
 * them. */
lm_status lm_loras_take(lm_service *s, lm_error *e);
lm_status lm_loras_load(lm_service *s, lm_error *e);
void      lm_loras_unload(lm_service *s);

/* Read the scales from a list [{"id", "scale"}, ...]; adapters that it does not contain have scale 0. Without
 * a list, return the server's scales. The caller frees *out [n_loras] with free; NULL: the server has no
 * adapters. LM_USAGE: an invalid list. */
lm_status lm_loras_read(const lm_service *s, const json_t *list, float **out, lm_error *e);

/* Return [{"id", "scale"}, ...] of all adapters; `scales` NULL: the server's. */
json_t   *lm_loras_json(const lm_service *s, const float *scales);

/* Write lm_schedule_fingerprint, or another one if the server's scales are no longer those of its start. */
void      lm_loras_fingerprint(const lm_service *s, char out[24]);

#endif
