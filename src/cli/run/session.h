/* session.h - a conversation: its messages, and an engine with the processed ones in its cache. */
#ifndef LM_CLI_SESSION_H
#define LM_CLI_SESSION_H

#include "cli/base/options.h"
#include "cli/base/prompt.h"
#include "cli/base/sampling.h"
#include "cli/run/adapting.h"
#include "cli/run/constraining.h"
#include "cli/run/display.h"
#include "cli/run/drafting.h"
#include "lamina/chat.h"

typedef struct lm_session {
    lm_cli            *cli;
    lm_model          *model;
    lm_engine         *engine;
    lm_loras           loras;
    const lm_draft_flags *draft;
    lm_drafting        drafting;
    lm_constraining    constraining;         /* applied to each answer */
    lm_prompt_template            chat;
    lm_sampling_flags *sampling;
    lm_sampler        *sampler;          /* NULL: created for the next answer */
    uint64_t           regenerations;    /* each uses another seed */
    json_t            *messages;         /* [{role, content}] */
    lm_chat_cache     *cache;            /* of the engine's sequence */
    int64_t            predict;
    lm_flag_list       stops;

    lm_generation      last;             /* the last answer; text and ids owned */
    uint64_t           answers, read, reused, generated, continued, drafted, accepted;
    double             read_seconds, generate_seconds;
} lm_session;

/* Add a message; `role` "system" replaces an earlier system message. */
lm_status lm_session_add(lm_session *s, const char *role, const char *text, size_t n, lm_error *e);

/* Remove the last message if its role is `role`. Return whether it was removed. */
bool lm_session_drop(lm_session *s, const char *role);

void lm_session_drop_system(lm_session *s);

/* Return the system message, or NULL. */
const char *lm_session_system(const lm_session *s);

/* Remove all messages except a system message. */
void lm_session_reset(lm_session *s);

/* Create the sampler if there is none. Invalid options are rejected here. */
lm_status lm_session_sampler(lm_session *s, lm_error *e);

/* Answer the conversation, without processing again the prefix that is in the cache. On success the answer is
 * in s->last and is also added as a message; on failure the messages are unchanged. */
lm_status lm_session_answer(lm_session *s, lm_error *e);

/* Replace the last answer by a new one with another seed. On failure the previous answer is kept. LM_USAGE:
 * there is no answer. */
lm_status lm_session_regenerate(lm_session *s, lm_error *e);

/* Save the conversation to a JSON file, and load it. */
lm_status lm_session_save(const lm_session *s, const char *path, lm_error *e);
lm_status lm_session_load(lm_session *s, const char *path, lm_error *e);

void lm_session_close(lm_session *s);

#endif
