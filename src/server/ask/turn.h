/* turn.h - a request for output, from the fields of its body to the last byte of its answer: one object that
 * is filled in stages.
 *
 *   parse    The field tables and the route's handler set the fields: `body`, `constraints`, and the scalars
 *            below them. Thread: a worker.
 *   prepare  lm_turn_answer makes what the schedule takes of them: `made` to `loras`, with the prompts and
 *            the grammar. Thread: the worker.
 *   submit   lm_turn_submit creates `choices`, each with its reply, and sets what the answer contains in any
 *            case. Thread: the worker.
 *   stream   turn_stream.c: events of the replies become the content of the choices. Thread: the front.
 *   end      turn_stream.c frees everything. Thread: the front.
 *
 * Ownership. The struct of a dialect begins with an lm_turn; further members are fields of this dialect, and
 * what its writer needs. This struct is the `values` of the call, which frees it if the request ends before
 * the schedule has taken it (lm_turn_begin). After a successful submission it is the job of the exchange, and
 * is freed with the exchange.
 *
 * Threads. One thread at a time: the worker until lm_turn_answer has returned, then a thread of the front,
 * which holds the connection. The schedule's threads never see the turn: they have the hooks of its sequences
 * and wake the exchange.
 *
 * A new field: a member here if several dialects share it, or in the dialect's struct, and one row in the
 * dialect's table of fields. */
#ifndef LM_SERVER_TURN_H
#define LM_SERVER_TURN_H

#include "server/ask/call.h"
#include "server/ask/constraints.h"
#include "server/ask/prompts.h"
#include "server/ask/tools.h"
#include "server/models/traced.h"
#include "server/store/api_keys.h"

typedef struct lm_turn lm_turn;

/* Values of fields that point into the body of the request. They are NULL once the turn is submitted, because
 * the body is freed then. */
typedef struct lm_turn_body {
    const char *model;               /* read before, by lm_call_find */
    json_t     *prompt, *messages;   /* messages: for lm_dialogue_prompt in the form of OpenAI's chat */
    json_t     *kwargs;              /* further variables of the chat template */
    json_t     *tools, *tool_choice, *enforced;          /* as lm_tools_read takes them */
    const char *effort;              /* of reasoning: none, minimal, low, medium, high, xhigh, max */
    json_t     *stop, *stop_ids, *logit_bias, *samplers, *breakers, *preserved, *lora;
    json_t     *trace, *intervene, *stream_options;
} lm_turn_body;

/* The dialect calls `field` by the name `sent`, which errors use. */
typedef struct lm_field_alias { const char *field, *sent; } lm_field_alias;

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
    json_t   *tokens;                /* [{id, logprob, top}]: all; in a stream, those whose text was not
                                        sent yet. NULL: not requested */
    double    first;                 /* time of the first token in seconds; 0: none yet */
    uint64_t  n_tokens, n_reasoning; /* so far; of which up to the end of reasoning */
    bool      ended, new_line;       /* new_line: the output contains a line feed */
    bool      late;                  /* max_ms have passed: the sequence is being cancelled */
    lm_stop   stop;
    const char *stop_word;           /* with LM_STOP_STRING, the string; else NULL */
    lm_usage  usage;                 /* valid once it has ended */
} lm_choice;

/* How a dialect answers. A worker calls `prepare` and `sequence`; the thread that streams calls the others.
 * All but `text`, `end`, `finish` and `fault` may be NULL. */
typedef struct lm_writer {
    lm_dialect  dialect;
    const char *type;                /* Content-Type of a stream */
    const char *id_prefix;           /* "chatcmpl-" */
    bool        always;              /* text, part and end are also called without a stream */
    /* Set what the writer needs of the request. */
    lm_status (*prepare)(lm_call *c, lm_turn *t, lm_error *e);
    /* Set further options of sequence i. */
    void (*sequence)(lm_turn *t, size_t i, lm_sequence_options *o);
    /* At the start of a stream. */
    void (*begin)(lm_turn *t);
    /* New text of a stream. */
    void (*text)(lm_turn *t, lm_choice *c, const char *text, size_t n);
    /* New reasoning or tool calls of a stream; NULL: they are left out. */
    void (*part)(lm_turn *t, lm_choice *c, const lm_answer_event *event);
    /* At the end of one output of a stream. */
    void (*end)(lm_turn *t, lm_choice *c);
    /* At the end of all: the rest of a stream, or the document. */
    void (*finish)(lm_turn *t);
    /* An error in the middle of a stream. */
    void (*fault)(lm_turn *t, const lm_error *e);
    /* Progress of a prompt, in a stream; takes `progress`. */
    void (*progress)(lm_turn *t, lm_choice *c, json_t *progress);
    /* The trace of a token, in a stream; takes `trace`. NULL: traces are rejected. */
    void (*trace)(lm_turn *t, lm_choice *c, json_t *trace);
    /* No events for a while in a stream. */
    void (*alive)(lm_turn *t);
    /* Free what the dialect's struct owns. */
    void (*release)(lm_turn *t);
} lm_writer;

struct lm_turn {
    /* ---- parse ---- */
    lm_turn_body body;
    lm_constraints constraints;      /* points into the body likewise */
    lm_sampler_options sampling;     /* 0 means 0; `prepare` adds the seed, biases, breakers and the order */
    int64_t     seed;                /* -1: random; `prepare` replaces it */
    int64_t     max_tokens;          /* default: the server's `predict`; <= 0: until the context is full */
    uint32_t    n;                   /* outputs per prompt */
    bool        prompt_only;         /* process the prompt, generate nothing */
    bool        logprobs;
    uint32_t    top_logprobs;
    bool        stream, ignore_eos, cache_prompt, timings, explain_cache, contributions, progress, verbose;
    bool        truncate;            /* shorten a prompt that is longer than the context:
                                        lm_dialogue_truncate */
    int64_t     keep_first;          /* tokens at its beginning that are kept then; < 0: as many as fit */
    bool        sampled;             /* log-probabilities are those after sampling */
    int32_t     slot;                /* id_slot; -1: any */
    int32_t     priority;            /* lower ones first; LM_PRIORITY_NONE: that of the key */
    int32_t     ping;                /* seconds; < 0: never; 0: 1 second */
    int64_t     max_ms;              /* maximum of each output from its first token on, once it has a line
                                        feed; <= 0: no limit */
    double      timeout;             /* seconds; 0: the server's */
    /* Of a conversation. */
    bool        generation_prompt;   /* the prompt ends with the header of the answer */
    bool        continue_final;      /* continue the last message if it is the assistant's and has no tool
                                        calls */
    bool        parallel_calls;      /* several tool calls in one answer */
    bool        parse_tool_calls;    /* false: they are returned as content */
    bool        merge_reasoning;     /* return reasoning as content */
    bool        only_shown;          /* the prompt is not answered: tools that the template leaves out
                                        cause a warning, not an error */
    lm_thinking thinking;
    int64_t     reasoning_budget;    /* maximum tokens of reasoning; -1: no limit */
    const char *reasoning_field;     /* the field for reasoning, for errors and warnings */
    /* Set by the handler. */
    const lm_writer *writer;
    /* Set body.messages or fill `prompts`, once the options are valid. */
    lm_status (*read)(lm_call *c, lm_turn *t, lm_error *e);
    lm_field_alias aliases[4];       /* up to the first whose field is NULL */

    /* ---- prepare ---- */
    json_t     *made;                /* array of the values that a dialect has made of the body's
                                        (lm_turn_keep); NULL: none */
    lm_prompts  prompts;
    lm_tools    tools;               /* of a conversation; otherwise all zero: the output is not parsed */
    lm_grammar *grammar;             /* that each output must match; NULL: none */
    json_t     *stop_texts;          /* array: owns the strings of `stops` */
    const char **stops, **breakers;  /* NULL-ended; NULL: none */
    lm_tokens   stop_ids, shown;
    lm_logit_bias *bias;
    lm_text     order;               /* of samplers */
    lm_whitespace whitespace;        /* between the parts of tool call arguments */
    int32_t     schedule_priority;   /* as the schedule defines it: higher ones first */
    double      deadline;            /* seconds from the submission until each sequence ends with its
                                        output so far; 0: none */
    float      *loras;               /* scales of the server's adapters; NULL: it has none */

    /* ---- submit ---- */
    lm_service *service;             /* held until the end; NULL: not submitted */
    lm_exchange *x;
    lm_text    *out;                 /* of the exchange */
    lm_choice  *choices;
    size_t      n_choices;           /* prompts.n * n */
    char        id[40];              /* "chatcmpl-…" */
    char        fingerprint[24];     /* lm_loras_fingerprint */
    lm_account  account;
    lm_traced  *traced;              /* NULL: neither a trace nor interventions are requested */
    bool        shows_trace, shows_surprise;
    const char *constraint;          /* the field that the grammar came from, a literal; NULL: there is no
                                        grammar */
    json_t     *warnings;            /* NULL: none */
    json_t     *prompt_text;         /* the first prompt as the model sees it; NULL: not requested */
    int64_t     created;
    double      began;               /* seconds */

    /* ---- stream ---- */
    bool        headers_sent;
    bool        past_deadline;       /* a sequence ended at its deadline; `warnings` contains that */
    bool        charged;             /* its tokens were charged to `account` */
    double      last_event;          /* seconds */
};

/* Shared fields: of all dialects; further ones of dialects that can carry a trace, and of those that cannot.
 * Offsets in lm_turn. */
extern const lm_field lm_turn_fields[], lm_turn_trace_fields[], lm_turn_no_trace_fields[];

/* Set the server's defaults. `t` is the first member of a struct of zeros. */
void      lm_turn_defaults(const lm_service *s, lm_turn *t);

/* Let the call free the turn, which is its `values`: the handler calls it before it creates anything. */
void      lm_turn_begin(lm_call *c, lm_turn *t, const lm_writer *w);

/* Let the turn free `made`, a value that the handler has made of the body's, with the body. Returns `made`,
 * also if that is NULL. */
json_t   *lm_turn_keep(lm_turn *t, json_t *made);

/* Prepare and submit the turn. Checks and their order are the same in all dialects: options, the conversation
 * or the prompts (t->read), whether they fit the context and the queue, and last the grammar, because
 * compiling it can take long. LM_OK: the turn is not the call's any more. LM_USAGE names the field. */
lm_status lm_turn_answer(lm_call *c, lm_turn *t, lm_error *e);

/* Only count the tokens of the conversation that `read` reads. */
lm_status lm_turn_count(lm_call *c, lm_turn *t, json_int_t *n, lm_error *e);

/* Check logprobs and top_logprobs of OpenAI's chat. LM_USAGE: the latter without the former. */
lm_status lm_turn_check_logprobs(const lm_turn *t, lm_error *e);

/* Free everything except the struct itself. A turn that was not submitted; lm_call_handle and the end of the
 * exchange call it. */
void      lm_turn_release(lm_turn *t);

#endif
