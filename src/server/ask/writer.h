/* writer.h - what the writers of all dialects use: how an event goes out, and what every answer says alike. */
#ifndef LM_SERVER_WRITER_H
#define LM_SERVER_WRITER_H

#include "server/ask/turn.h"

/* Tokens of an answer, each prompt counted once however many answers it has. Those of prompts that were in the cache are among the
 * prompts', those of reasoning among the written. */
typedef struct lm_turn_usage { uint64_t prompt, cached, written, reasoning; } lm_turn_usage;

lm_turn_usage lm_turn_used(const lm_turn *t);

/* The arguments of a call of lm_choice.calls; NULL: they are no object, the call was cut off. The caller's. */
json_t *lm_turn_arguments(const json_t *call);

/* The finish reason, in OpenAI's terms: "stop", "length" … */
const char *lm_turn_reason(const lm_choice *c);

/* `o`, whole, and nothing else. Takes `o`. */
void lm_turn_add(lm_turn *t, json_t *o);

/* `o` as an event of server-sent events: "data: …", with a line "event: NAME" before it unless `name` is NULL. Takes `o`. */
void lm_turn_send(lm_turn *t, const char *name, json_t *o);

/* `o` as a line of its own. Takes `o`. */
void lm_turn_line(lm_turn *t, json_t *o);

/* What lm_writer.alive of server-sent events is: a comment. */
void lm_turn_waiting(lm_turn *t);

/* What lm_writer.fault of dialects without an event of its own for errors is. */
void lm_turn_fault(lm_turn *t, const lm_error *e);

/* Add what responses of every dialect contain on request: warnings, `cache`, `ensemble`, `__verbose`. */
void lm_turn_extras(const lm_turn *t, json_t *o);

/* Add what events of a stream contain on request: timings so far. */
void lm_turn_piece(const lm_turn *t, const lm_choice *c, json_t *o);

/* llama.cpp's "timings" of a text that has ended. */
json_t *lm_turn_timings(const lm_choice *c);

#endif
