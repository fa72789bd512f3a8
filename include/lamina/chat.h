/* chat.h - a conversation with a model: add messages, stream replies.
 *
 *   lm_chat *c = NULL;  lm_error e;
 *   lm_generate_options how = { .text = print };
 *   lm_chat_open("model.gguf", NULL, &c, &e);              model, engine and sampler in one
 *   lm_chat_add(c, LM_ROLE_USER, "What is the capital of France?", &e);
 *   lm_chat_reply(c, &how, NULL, &e);                      calls `print` with each new piece of text
 *   lm_chat_add(c, LM_ROLE_USER, "And of Italy?", &e);
 *   lm_chat_reply(c, &how, NULL, &e);                      processes only what is new
 *   lm_chat_free(c);
 *
 * The model's chat template renders the whole conversation for each reply, with the begin and end tokens of
 * the model's files. Its own special tokens are recognised; those spelled in messages are plain text. What
 * the engine already holds is not processed again. The same messages and options give the same replies.
 *
 * Threads: a chat is used by one thread at a time. lm_engine_cancel(lm_chat_engine(c)) may be called from any
 * thread, and ends a reply with LM_STOP_CANCELLED. */
#ifndef LAMINA_CHAT_H
#define LAMINA_CHAT_H

#include "lamina/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lm_role { LM_ROLE_USER, LM_ROLE_ASSISTANT, LM_ROLE_SYSTEM } lm_role;

/* All zero: the defaults. Nothing of it is used after lm_chat_open or lm_chat_new, except what an engine
 * uses. */
typedef struct lm_chat_options {
    lm_sampler_options sampler;      /* all zero: the defaults, and what the model's files say
                                        (lm_model_sampling) */
    const char *chat_template;       /* source of the template; NULL: the model's */
    uint32_t    sequence;            /* lm_chat_new: the engine's sequence that holds the conversation, used
                                        by nothing else */
    lm_model_options  model;         /* lm_chat_open only */
    lm_engine_options engine;        /* lm_chat_open only; context 0: 4096, or the model's if smaller */
    uint64_t    reserved[4];         /* zero */
} lm_chat_options;

lm_chat_options lm_chat_defaults(void);

typedef struct lm_chat lm_chat;

/* Open a model by the name of lm_model_locate (a file, a folder, "org/name"; NULL: the demo model) and create
 * an engine for it. The chat owns both. Errors are those of lm_model_locate, lm_model_open, lm_engine_new and
 * lm_chat_new. */
lm_status lm_chat_open(const char *model, const lm_chat_options *o, lm_chat **out, lm_error *e);

/* Start a chat on an engine, which must outlive it and whose sequence is emptied. LM_USAGE: the model has no
 * tokenizer or no chat template, the engine has no such sequence, or invalid sampler options. Other errors
 * are those of lm_template_new. */
lm_status lm_chat_new(lm_engine *g, const lm_chat_options *o, lm_chat **out, lm_error *e);
void      lm_chat_free(lm_chat *c);

/* Add a message at the end; `text` is copied, and invalid UTF-8 becomes U+FFFD. LM_USAGE: an unknown role. */
lm_status lm_chat_add(lm_chat *c, lm_role role, const char *text, lm_error *e);

/* Generate a reply to the conversation and add it as a message. `o` as of lm_generate (NULL: the defaults),
 * except sequence.sequence, which is the chat's. `out` may be NULL; otherwise free it with
 * lm_generation_free.
 *
 * A reply that a callback, a limit or a full context has ended is added as far as it was generated; out->stop
 * returns the reason. On failure the messages are unchanged. LM_LIMIT: the conversation does not fit in the
 * context: lm_chat_truncate removes messages. LM_USAGE: no messages, options without text (sequence.no_text,
 * prompt_only), or a template that leaves out a message. Other errors are those of lm_template_render and
 * lm_generate. */
lm_status lm_chat_reply(lm_chat *c, const lm_generate_options *o, lm_generation *out, lm_error *e);

/* Append the tokens of the conversation and the beginning of a reply, for another loop than lm_chat_reply:
 * lm_sequence_prompt, lm_request.prompt. Errors as of lm_chat_reply. */
lm_status lm_chat_tokens(const lm_chat *c, lm_tokens *out, lm_error *e);

/* Return the number of messages, and the i-th: its role, and its text (*size may be NULL), valid until
 * messages are added or removed; NULL past the last. */
size_t      lm_chat_length(const lm_chat *c);
const char *lm_chat_message(const lm_chat *c, size_t i, lm_role *role, size_t *size);

/* Remove messages from the end until `n` are left: 0 begins anew, lm_chat_length - 1 takes a reply back. */
void lm_chat_truncate(lm_chat *c, size_t n);

/* Return the engine, for lm_engine_cancel, lm_engine_length …; its model is lm_engine_model. */
lm_engine *lm_chat_engine(const lm_chat *c);

/* ---- other renderings ---- */

/* What an engine holds of a conversation on one of its sequences, for callers that render prompts
 * themselves. lm_chat uses one. */
typedef struct lm_chat_cache lm_chat_cache;

#define LM_CHAT_CHECKPOINTS 4        /* lm_engine_options.checkpoints of lm_chat_open, if they are 0 */

/* Start an empty cache on an engine, which must outlive it, and empty the sequence, which nothing else may
 * use. LM_USAGE: the engine has no such sequence. */
lm_status lm_chat_cache_new(lm_engine *g, uint32_t sequence, lm_chat_cache **out, lm_error *e);
void      lm_chat_cache_free(lm_chat_cache *c);

/* Call lm_generate, from the longest prefix of the prompt that the sequence or an earlier prompt or reply has
 * left. A sequence that cannot be cut back (states, windows) continues from one of the engine's checkpoints,
 * when a template drops reasoning or a message is edited. `o` as of lm_generate (NULL: the defaults), except
 * sequence.sequence, which is the cache's. After a failure the sequence is empty. Errors as of
 * lm_generate. */
lm_status lm_chat_cache_generate(lm_chat_cache *c, lm_sampler *s, const lm_token *prompt, size_t n,
                                 const lm_generate_options *o, lm_generation *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
