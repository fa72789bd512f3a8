/* turn_trace.h - `trace` and `intervene` of a request for output. */
#ifndef LM_SERVER_TURN_TRACE_H
#define LM_SERVER_TURN_TRACE_H

#include "server/ask/turn.h"

/* Read both fields; create the turn's `traced` if one of them is given. LM_USAGE: an unknown member of `trace`, or a combination with
 * several outputs, a slot, or a response that has no place for traces. */
lm_status lm_turn_trace(lm_call *call, lm_turn *t, const lm_turn_options *o, lm_error *e);

#endif
