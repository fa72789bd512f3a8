/* talk.h - the state of `lamina chat`, shared by its loop and its slash commands. */
#ifndef LM_CLI_TALK_H
#define LM_CLI_TALK_H

#include "cli/run/lines.h"
#include "cli/run/session.h"

typedef struct lm_talk_flags {
    lm_model_flags    model;
    lm_run_flags      run;
    lm_lora_flags     lora;
    lm_sampling_flags sampling;
    lm_draft_flags    draft;
    lm_constraint_flags constraint;
    lm_template_flags chat;
    const char       *system, *load;
    bool              escape, no_escape, single, lock;
    int64_t           predict;
    lm_flag_list      stops;
} lm_talk_flags;

typedef struct lm_talk {
    lm_session    s;
    lm_talk_flags *o;
    lm_lines     *lines;
    bool          quit;
} lm_talk;

extern const lm_flag lm_talk_flag_table[];           /* offsets in lm_talk_flags */

/* Show the session's last answer if `status` is LM_OK. */
lm_status lm_talk_show(lm_talk *t, lm_status status, lm_error *e);

/* Run the command of a line that begins with a slash. LM_USAGE: there is no such command. */
lm_status lm_talk_command(lm_talk *t, const char *line, lm_error *e);

#endif
