/* turn.h - the sequences of a request, from their prompts to the last byte of the response. A turn reads the replies of the schedule when
 * they have new events; a writer, one per dialect, formats the response. */
#ifndef LM_SERVER_TURN_H
#define LM_SERVER_TURN_H

#include "server/ask/params.h"
#include "server/ask/tools.h"
#include "server/models/traced.h"

typedef struct lm_turn lm_turn;

/* One of the sequences. */
typedef struct lm_choice {
    uint32_t  index;                 /* index of the prompt * outputs per prompt + index of the output */
    lm_reply *reply;
    size_t    n_prompt;
    lm_text   text;                  /* output so far; empty if the writer gets each piece */
    lm_answer *answer;               /* parses the output; NULL: all of it is text */
    lm_text   reasoning, arguments;  /* reasoning so far, empty likewise; arguments of the current call */
    json_t   *calls;                 /* [{id, name, arguments}]; NULL: none */
    json_t   *contributions;         /* [{id, logprob, members}]; NULL: not requested */
    json_t   *trace;                 /* [{token, row}] of a whole answer; NULL: not requested, or a stream */
    json_t   *tokens;                /* [{id, logprob, top}]: all; in a stream, those whose text was not sent yet. NULL: not requested */
    double    first;                 /* time of the first token in seconds; 0: none yet */
    uint64_t  n_tokens, n_reasoning; /* so far; of which up to the end of reasoning */
    bool      ended, new_line;       /* new_line: the output contains a line feed */
    bool      late;                  /* most_seconds have passed: the sequence is being cancelled */
    lm_stop   stop;
    const char *stop_word;           /* with LM_STOP_STRING, the string; else NULL */
    lm_usage  usage;                 /* valid once it has ended */
} lm_choice;

typedef struct lm_writer {
    lm_dialect  dialect;
    const char *type;                /* Content-Type of a stream */
    bool        always;              /* text, part and end are also called without a stream */
    void (*begin)(lm_turn *t);                                               /* at the start of a stream; may be NULL */
    void (*text)(lm_turn *t, lm_choice *c, const char *text, size_t n);      /* new text of a stream */
    void (*part)(lm_turn *t, lm_choice *c, const lm_answer_event *event);    /* new reasoning or tool calls of a stream; NULL: left out */
    void (*end)(lm_turn *t, lm_choice *c);                                   /* at the end of one output of a stream */
    void (*finish)(lm_turn *t);                                              /* at the end of all: the rest of a stream, or the document */
    void (*fault)(lm_turn *t, const lm_error *e);                            /* an error in the middle of a stream */
    void (*progress)(lm_turn *t, lm_choice *c, json_t *progress);            /* of a prompt, in a stream; takes `progress`; may be NULL */
    void (*trace)(lm_turn *t, lm_choice *c, json_t *trace);                  /* of a token, in a stream; takes `trace`; NULL: refused */
    void (*alive)(lm_turn *t);                                               /* no events for a while in a stream; may be NULL */
    size_t own_size;                                                         /* bytes of lm_turn.own, which is all zeros at first */
    void (*drop)(void *own);                                                 /* frees what `own` points to; NULL: nothing */
    void (*each)(void *own, size_t i, lm_sequence_options *o);               /* sets further options of sequence i; may be NULL */
} lm_writer;

struct lm_turn {
    lm_service  *service;
    lm_exchange *x;
    lm_text     *out;                /* of the exchange */
    const lm_writer *writer;
    lm_choice   *choices;
    size_t       n;
    uint32_t     each;               /* outputs per prompt */
    bool         stream, headed;
    bool         is_past;            /* a sequence ended at its deadline; `warnings` contains that */
    char         id[40];             /* "chatcmpl-…" */
    char         fingerprint[24];    /* lm_loras_fingerprint */
    lm_account   account;
    lm_traced   *traced;             /* NULL: neither a trace nor interventions are requested */
    bool         shows_trace, shows_surprise;
    bool         counted;            /* its tokens were charged to `account` */
    int64_t      created;
    json_t      *warnings;           /* NULL: none */
    json_t      *prompt;             /* the first one, as the model sees it; NULL: not requested */
    const char **stops;              /* NULL-ended; NULL: none */
    const char  *constraint;         /* the field that the grammar came from; NULL: there is no grammar */
    bool         explain_cache, contributions, timings;
    double       began, last_event;       /* seconds */
    double       ping;               /* seconds; < 0: never */
    double       most_seconds;       /* maximum of each output from its first token on; 0: no limit */
    double       deadline;           /* seconds from the start of the request for each output; 0: no limit */
    lm_tools    *tools;              /* NULL: all is text */
    void        *own;                /* the writer's */
};

/* What to generate; lm_turn_start copies what it needs later. */
typedef struct lm_turn_options {
    const lm_params       *params;
    const lm_prepared *parts;     /* made from `params` */
    const lm_prompts     *prompts;
    const char *id_prefix;           /* "chatcmpl-" */
    int32_t     logprobs;            /* as in lm_sequence_options */
    bool        prompt_only;
    lm_tools   *tools;               /* how the output is parsed; NULL: all is text. Becomes the turn's, also on failure */
    void       *own;                 /* the writer's, from malloc: becomes the turn's, also on failure */
} lm_turn_options;

/* Free a writer's `own` that no turn has taken. */
void lm_writer_drop(const lm_writer *w, void *own);

/* Submit all sequences to the schedule, and hand the exchange to the turn. On failure nothing runs. */
lm_status lm_turn_start(lm_call *c, const lm_turn_options *o, const lm_writer *w, lm_error *e);

#endif
