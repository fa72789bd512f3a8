/* turn_stages.h - the stages of a turn that lm_turn_answer runs, each in a file of its own. turn.h says what
 * each of them fills, and in which thread. On failure the turn stays the caller's. */
#ifndef LM_SERVER_TURN_STAGES_H
#define LM_SERVER_TURN_STAGES_H

#include "server/ask/turn.h"

/* Prepare: convert the options, except the grammar. Strings still point into the body. */
lm_status lm_turn_options_read(lm_call *c, lm_turn *t, lm_error *e);

/* Submit all sequences to the schedule. On failure nothing runs. */
lm_status lm_turn_submit(lm_call *c, lm_turn *t, lm_error *e);

/* Submit: read `trace` and `intervene`; create `traced` if one of them is given. LM_USAGE: an unknown member
 * of `trace`, or a combination with several outputs, a slot, or a response that has no place for traces. */
lm_status lm_turn_trace(lm_call *c, lm_turn *t, lm_error *e);

/* Submit, at its end: free what the request was made of, the body's values included, and keep what the stream
 * needs. */
void      lm_turn_release_request(lm_turn *t);

/* Stream: hand the exchange over to the turn, which reads the replies and is freed with the exchange. */
void      lm_turn_stream(lm_turn *t);

/* End: charge what the sequences have used, cancel those that run, free them and let go of the model. */
void      lm_turn_end_sequences(lm_turn *t);

/* Make an error of a grammar in use, which names no field, one about the constraint's. Returns `status`. */
lm_status lm_turn_name_constraint(const lm_turn *t, lm_status status, lm_error *e);

#endif
