/* ends.h - which tokens end a generation.
 *
 * What the model's files list comes first. A folder's eos_token_id and eos_token are complete. The keys of
 * GGUF (formats/endkeys.h) are complete for their kind: eot_token_id for the end of a turn, eom_token_id for
 * the end of a call; an eos_token_id alone leaves both open. The well-known spellings are for kinds that no
 * file lists. */
#ifndef LM_TEXT_ENDS_H
#define LM_TEXT_ENDS_H

#include <jansson.h>

#include "text/tokenizer.h"

/* Kinds whose end tokens the model's files list. */
enum { LM_ENDS_TURN = 1, LM_ENDS_CALL = 2, LM_ENDS_ALL = LM_ENDS_TURN | LM_ENDS_CALL,
       LM_ENDS_GAP = 4 };      /* the end of a gap that is filled: no file lists it, and it always ends */

/* Mark an id as the end of a generation. false: it is outside the vocabulary, and ignored. */
bool lm_tokenizer_mark_end(lm_tokenizer *t, int64_t id);

/* Mark the ids of "eos_token_id", an id or a list of them, in a generation_config.json or config.json. */
void lm_tokenizer_list_ends(lm_tokenizer *t, const json_t *o);

/* Mark the well-known spellings of the kinds that are not in t->ends_listed. */
void lm_ends_by_name(lm_tokenizer *t);

/* Return the kind of end token that a token's spelling names in this vocabulary; 0: none. */
unsigned lm_end_kind(const lm_tokenizer *t, lm_token id);

#endif
