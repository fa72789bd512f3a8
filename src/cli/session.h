/* session.h - a conversation: its messages, and the engine that holds what it has read of them already. */
#ifndef LM_CLI_SESSION_H
#define LM_CLI_SESSION_H

#include "cli/adapting.h"
#include "cli/answer.h"
#include "cli/constraining.h"
#include "cli/drafting.h"
#include "cli/options.h"
#include "cli/prompt.h"

typedef struct lm_session {
    lm_cli            *cli;
    lm_model          *model;
    lm_engine         *engine;
    lm_loras           loras;
    const lm_draft_flags *draft;
    lm_drafting        drafting;
    lm_constraining    constraining;         /* of each answer */
    lm_chat            chat;
    lm_sampling_flags *sampling;
    lm_sampler        *sampler;          /* NULL: made anew for the next answer */
    uint64_t           regenerations;    /* each draws with another seed */
    json_t            *messages;         /* [{role, content}] */
    lm_tokens          held;             /* ids whose keys and values are in the cache */
    int64_t            predict;
    lm_flag_list       stops;

    lm_generation      last;             /* the last answer; text and ids owned */
    uint64_t           answers, read, reused, generated, continued, drafted, accepted;
    double             read_seconds, generate_seconds;
} lm_session;

/* Add a message; `role` "system" replaces an earlier system message. */
lm_status lm_session_add(lm_session *s, const char *role, const char *text, size_t n, lm_error *e);

/* Take the last message away if `role` said it. */
bool lm_session_drop(lm_session *s, const char *role);

void lm_session_drop_system(lm_session *s);

/* The system message; NULL: none. */
const char *lm_session_system(const lm_session *s);

/* Forget everything but a system message. */
void lm_session_reset(lm_session *s);

/* Make the sampler where there is none: impossible options are refused here. */
lm_status lm_session_sampler(lm_session *s, lm_error *e);

/* Answer the conversation: what the cache holds of it is not read again. On success s->last is the answer and it is a
 * message too; on failure the messages are as before. */
lm_status lm_session_answer(lm_session *s, lm_error *e);

/* Answer the last message again with other draws: on failure the answer before stays. LM_USAGE: there is none. */
lm_status lm_session_regenerate(lm_session *s, lm_error *e);

/* The conversation as a JSON file, and back. */
lm_status lm_session_save(const lm_session *s, const char *path, lm_error *e);
lm_status lm_session_load(lm_session *s, const char *path, lm_error *e);

void lm_session_close(lm_session *s);

#endif
