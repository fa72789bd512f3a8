/* trace_request.h - what a request wants to know about the model while it processes a text, and what it
 * changes in the model. */
#ifndef LM_SERVER_TRACE_REQUEST_H
#define LM_SERVER_TRACE_REQUEST_H

#include "server/ask/call.h"

/* What to return per row. */
typedef struct lm_trace_values {
    json_t  *lens, *attention, *weights;
    uint32_t top;
    bool     lens_parts, attribution, norms, experts;
} lm_trace_values;

extern const lm_field lm_trace_fields[];          /* values: lm_trace_values */

enum { LM_TRACE_TOP = 5 };               /* default of `top` */

/* Options of a tracer, and what they point to. */
typedef struct lm_trace_request {
    lm_trace_options o;
    uint32_t   *layers, *heads;
    const char **changes;
} lm_trace_request;

/* Read what to return, and the interventions in `intervene` (NULL: none). lm_trace_request_free frees `out`,
 * also on failure. The error of a server that does not allow interventions has status 403. */
lm_status lm_trace_request_read(lm_call *c, const lm_trace_values *v, const json_t *intervene,
                                lm_trace_request *out, lm_error *e);
void      lm_trace_request_free(lm_trace_request *a);

/* Whether anything is returned besides the predictions of tokens. */
bool      lm_trace_request_looks(const lm_trace_request *a);

/* Create a tracer of the call's model, with room for so many positions. Its memory counts as held by the
 * request: if that exceeds the limit of all requests, the error is lm_exchange_no_memory's. */
lm_status lm_trace_request_start(lm_call *c, lm_trace_request *a, uint64_t positions, lm_tracer **out,
                                 lm_error *e);

#endif
