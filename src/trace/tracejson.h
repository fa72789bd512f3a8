/* tracejson.h - traces as JSON values, for programs that add them to documents of their own.
 *
 * Threads: lm_trace_event_take and lm_trace_failure may be called while a schedule steps the tracer's engine;
 * lm_trace_event_json by any thread, while the tracer lives. Values belong to the caller. */
#ifndef LM_TRACE_TRACEJSON_H
#define LM_TRACE_TRACEJSON_H

#include <jansson.h>

#include "lamina/trace.h"

/* All results, as lm_tracer_json writes them. `flat`: also the lists of the values of all rows, which repeat
 * what the rows contain. */
lm_status lm_trace_document(lm_tracer *t, bool flat, json_t **out, lm_error *e);

/* The traceable values, as lm_trace_paths writes them. */
lm_status lm_trace_paths_document(const lm_model *m, json_t **out, lm_error *e);

/* A token that was generated, and the row that predicted it, which is no longer the tracer's. */
typedef struct lm_trace_event lm_trace_event;

/* Take the token `id` at `position` > 0, with its row, out of the tracer. LM_USAGE: it was not predicted. The
 * caller frees it, in the thread that takes it if allocations are counted (lamina/heap.h). */
lm_status lm_trace_event_take(lm_tracer *t, uint32_t position, lm_token id, lm_trace_event **out,
                              lm_error *e);
void      lm_trace_event_free(lm_trace_event *x);

/* Return the error of tracing a row while a schedule steps the engine; LM_OK: none. */
lm_status lm_trace_failure(lm_tracer *t, lm_error *e);

/* The event as lm_tracer_event writes it: {"token", "row"}. */
lm_status lm_trace_event_json(const lm_tracer *t, const lm_trace_event *x, json_t **out, lm_error *e);

#endif
