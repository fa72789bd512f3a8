/* openai.h - shared parts of the responses to OpenAI's /v1/chat/completions and /v1/completions (openai.c);
 * embedding vectors, which other dialects return too (embeddings.c). */
#ifndef LM_SERVER_OPENAI_H
#define LM_SERVER_OPENAI_H

#include "server/ask/read_job.h"
#include "server/ask/writer.h"

/* Return a document, or a chunk of a stream. Takes ownership of `choices`. */
json_t *lm_openai_document(const lm_turn *t, const char *object, json_t *choices);

/* End a response. A document has `choices` and usage. In a stream `choices` is empty; a last chunk has usage
 * if it is `wanted`, and [DONE] follows. Takes ownership of `choices` and `usage`. */
void    lm_openai_finish(lm_turn *t, const char *object, json_t *choices, bool wanted, json_t *usage);

/* Send a chunk without choices that has the trace of a token. Takes ownership of both. */
void    lm_openai_trace(lm_turn *t, json_t *chunk, json_t *trace);

/* ---- custom tools ---- */

/* Make the function of a custom tool: {description, parameters, strict}, with one string, `input`. `format`:
 * {type: text} or NULL: any text; {type: grammar}: one that matches `grammar`, {syntax: lark or regex,
 * definition}, which is added to the description. *enforced: what the arguments must match; NULL: the
 * parameters. LM_USAGE: the format or the grammar is not valid. */
lm_status lm_openai_custom(const json_t *format, const json_t *grammar, const char *about, json_t **function,
                           json_t **enforced, lm_error *e);

/* Convert the custom tools of a turn of Chat Completions, the choice among them and earlier calls to those of
 * functions. *customs: an object whose members are the names of custom tools, the caller's. */
lm_status lm_openai_customs(lm_turn *t, json_t **customs, lm_error *e);

/* Return the arguments of a call of a custom tool, of which the end may be missing: then of its string. NULL:
 * there is not even its beginning. */
json_t   *lm_openai_input(const char *arguments, size_t n);

/* Return "usage". */
json_t *lm_openai_usage(const lm_turn_usage *u);

/* Whether `stream_options` requests usage. */
lm_status lm_openai_wants_usage(lm_call *c, json_t *stream_options, bool *wanted, lm_error *e);

/* Compute the vectors of the texts of `input` (as in lm_prompts_read); `document` makes the response from
 * them. `dimensions`: only the first of them; 0: all. `truncate`: cut texts that are longer than the context.
 * `raw`: vectors are not normalized; otherwise each has length 1. */
lm_status lm_embeddings(lm_call *c, json_t *input, uint32_t dimensions, bool truncate, bool raw,
                        json_t *(*document)(const lm_read_job *r), lm_error *e);

/* For `document`: return the vector of text i, an array of numbers or, if requested, base64; NULL: out of
 * memory. */
json_t   *lm_embedding_json(const lm_read_job *r, size_t i);

#endif
