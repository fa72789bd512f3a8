/* turn.h - the sequences of a request, from their prompts to the last byte of the response. It reads the replies of the schedule
 * whenever there is something to send; how it looks is a writer's, one for each dialect. */
#ifndef LM_SERVER_TURN_H
#define LM_SERVER_TURN_H

#include "server/ask/params.h"
#include "server/ask/tools.h"

typedef struct lm_turn lm_turn;

/* One of the sequences. */
typedef struct lm_choice {
    uint32_t  index;                 /* prompt * n + which */
    lm_reply *reply;
    size_t    n_prompt;
    lm_text   text;                  /* all so far; in a stream nothing */
    lm_answer *answer;               /* reads it; NULL: all is text */
    lm_text   reasoning, arguments;  /* all so far; in a stream no reasoning. Of the call that is being sent */
    json_t   *calls;                 /* [{id, name, arguments}]; NULL: none */
    json_t   *contributions;         /* [{id, logprob, members}]; NULL: not requested */
    json_t   *tokens;                /* [{id, logprob, top}] whose text was not sent yet; not in a stream: all. NULL: not requested */
    double    first;                 /* when its first token came; seconds, 0: none did */
    uint64_t  n_tokens, n_reasoning; /* so far; of them up to the end of reasoning */
    bool      ended, new_line;       /* new_line: there is one in the text */
    bool      late;                  /* most_seconds have passed: it is being ended */
    lm_stop   stop;
    const char *stop_word;           /* with LM_STOP_STRING, the string; else NULL */
    lm_usage  usage;                 /* when it has ended */
} lm_choice;

typedef struct lm_writer {
    lm_dialect  dialect;
    const char *type;                /* Content-Type of a stream */
    bool        always;              /* text, part and end are called of an answer that is no stream, too */
    void (*begin)(lm_turn *t);                                               /* a stream's head goes out; may be NULL */
    void (*text)(lm_turn *t, lm_choice *c, const char *text, size_t n);      /* new text of a stream */
    void (*part)(lm_turn *t, lm_choice *c, const lm_answer_event *event);    /* the same of what is no content; NULL: left out */
    void (*end)(lm_turn *t, lm_choice *c);                                   /* of one text of a stream */
    void (*finish)(lm_turn *t);                                              /* all have ended: the rest of a stream, or the document */
    void (*fault)(lm_turn *t, const lm_error *e);                            /* in the middle of a stream */
    void (*progress)(lm_turn *t, lm_choice *c, json_t *progress);            /* of a prompt, in a stream: takes it; may be NULL */
    void (*alive)(lm_turn *t);                                               /* nothing else for a while, in a stream; may be NULL */
    size_t own_size;                                                         /* of lm_turn.own, which begins as zeros */
    void (*drop)(void *own);                                                 /* frees what it holds; NULL: nothing */
    void (*each)(void *own, size_t i, lm_sequence_options *o);               /* more of what text i is to do; may be NULL */
} lm_writer;

struct lm_turn {
    lm_service  *service;
    lm_exchange *x;
    lm_text     *out;                /* of the exchange */
    const lm_writer *writer;
    lm_choice   *choices;
    size_t       n;
    uint32_t     each;               /* texts for each prompt */
    bool         stream, headed;
    bool         is_past;            /* a sequence ended because of its deadline, as `warnings` say */
    char         id[40];             /* "chatcmpl-…" */
    char         fingerprint[24];    /* lm_loras_fingerprint */
    lm_account   account;
    int64_t      created;
    json_t      *warnings;           /* NULL: none */
    json_t      *prompt;             /* as the model reads the first one; NULL: not requested */
    const char **stops;              /* NULL-ended; NULL: none */
    const char  *constraint;         /* the field that its grammar came from; NULL: there is no grammar */
    bool         explain_cache, contributions, timings;
    double       began, last_event;       /* seconds */
    double       ping;               /* seconds; < 0: never */
    double       most_seconds;       /* of each text from its first token on; 0: any */
    double       deadline;           /* of each text from the beginning on; 0: none */
    lm_tools    *tools;              /* NULL: all is text */
    void        *own;                /* the writer's */
};

/* What to generate; lm_turn_start copies what it needs later. */
typedef struct lm_turn_options {
    const lm_params       *params;
    const lm_prepared *parts;     /* made of it */
    const lm_prompts     *prompts;
    const char *id_prefix;           /* "chatcmpl-" */
    int32_t     logprobs;            /* as in lm_sequence_options */
    bool        prompt_only;
    lm_tools   *tools;               /* how the answer is read; NULL: all is text. Becomes the turn's, also on failure */
    void       *own;                 /* the writer's, from malloc: becomes the turn's, also on failure */
} lm_turn_options;

/* Free the writer's own that no turn has taken. */
void lm_writer_drop(const lm_writer *w, void *own);

/* Submit all sequences to the schedule, and hand the exchange to the turn. On failure nothing runs. */
lm_status lm_turn_start(lm_call *c, const lm_turn_options *o, const lm_writer *w, lm_error *e);

#endif
