/* writer.h - functions for the writers of all dialects: sending events, and what all responses have in
 * common. They append to t->out, and are called in the stage `stream` of a turn. */
#ifndef LM_SERVER_WRITER_H
#define LM_SERVER_WRITER_H

#include "server/ask/turn.h"

/* The tokens of a response. Each prompt is counted once, however many outputs it has. `prompt` includes
 * `cached`, `written` includes `reasoning`. */
typedef struct lm_turn_usage { uint64_t prompt, cached, written, reasoning; } lm_turn_usage;

lm_turn_usage lm_turn_used(const lm_turn *t);

/* Return the arguments of a call of lm_choice.calls; the caller frees them. NULL: not an object, because the
 * call was cut off. */
json_t *lm_turn_arguments(const json_t *call);
/* the same of a call that was cut off: its complete members */
json_t *lm_turn_arguments_so_far(const json_t *call);

/* Return the finish reason in OpenAI's terms: "stop", "length" … */
const char *lm_turn_reason(const lm_choice *c);

/* Append `o` and nothing else. Takes `o`. */
void lm_turn_add(lm_turn *t, json_t *o);

/* Append `o` as a server-sent event: "data: …", with a line "event: NAME" before it unless `name` is NULL.
 * Takes `o`. */
void lm_turn_send(lm_turn *t, const char *name, json_t *o);

/* Append `o` as a separate line. Takes `o`. */
void lm_turn_line(lm_turn *t, json_t *o);

/* For lm_writer.alive, with server-sent events: append a comment. */
void lm_turn_waiting(lm_turn *t);

/* For lm_writer.fault, in dialects without a special event for errors. */
void lm_turn_fault(lm_turn *t, const lm_error *e);

/* Add what responses of every dialect contain on request: warnings, `cache`, `ensemble`, `trace`,
 * `__verbose`. */
void lm_turn_extras(const lm_turn *t, json_t *o);

/* Add what events of a stream contain on request: timings so far. */
void lm_turn_piece(const lm_turn *t, const lm_choice *c, json_t *o);

/* Return llama.cpp's "timings" of an output that has ended. */
json_t *lm_turn_timings(const lm_choice *c);

#endif
