/* answer_parser.h - the incremental parser of an answer: reasoning, content, tool calls. */
#ifndef LM_TEXT_ANSWER_PARSER_H
#define LM_TEXT_ANSWER_PARSER_H

#include "text/answer/written.h"

typedef enum lm_answer_mode {
    LM_MODE_TEXT, LM_MODE_REASONING,
    LM_MODE_CALLS,                   /* behind the mark that opens them */
    LM_MODE_ARGUMENTS, LM_MODE_TAIL, /* of a call whose arguments are streamed */
    LM_MODE_HEADER, LM_MODE_BODY,    /* harmony: of a message */
} lm_answer_mode;

struct lm_answer {
    lm_answer_style   style;
    lm_answer_options o;
    const lm_answer_family *f;       /* that calls are looked for in; NULL: they are not */
    lm_answer_mode mode, before;     /* `before` the calls */
    lm_text   buffer;                /* not emitted yet */
    lm_text   space;                 /* white space held back: trimmed at the edges of a part */
    lm_text   raw;                   /* what may become a call; emitted as text if it does not */
    bool      edge;                  /* white space here is trimmed: nothing of this part has been emitted */
    bool      text_begun;            /* content has been emitted */
    bool      section;               /* CALLS: its opening mark has come */
    uint32_t  n_calls, in_section;   /* calls emitted; of them in this section */
    bool      ending;                /* no more input */
    bool      waits;                 /* nothing changes before a bracket comes */
    lm_balance balance;              /* ARGUMENTS */
    lm_written call;
    bool      analysis, recipient;   /* harmony: the message is reasoning, a call */
    char      id[80];
    void    (*on_event)(void *arg, const lm_answer_event *event);
    void     *arg;
};

void lm_answer_emit(lm_answer *a, lm_answer_kind kind, const char *text, size_t n, const char *id);       /* an event */
void lm_answer_emit_text(lm_answer *a, bool reasoning, const char *text, size_t n); /* reasoning or content, edges trimmed */
void lm_answer_part(lm_answer *a, bool trim);                                        /* another part begins: its leading space goes */
void lm_answer_call(lm_answer *a);                                                   /* of a->call; its arguments have not been emitted */
void lm_answer_arguments(lm_answer *a, const char *text, size_t n);
void lm_answer_call_end(lm_answer *a);
void lm_answer_consume(lm_answer *a, size_t n);

/* The first of the marks, NULL-ended: *at where it begins, *mark which (NULL: none). What is before *at is no part of any, whatever
 * follows. */
void lm_answer_find(const char *s, size_t n, const char *const *marks, bool final, size_t *at, const char **mark);

/* Stream the arguments of a call. False: more text is needed. */
bool lm_answer_step_arguments(lm_answer *a, bool final);

/* A step of harmony's; false: more text is needed. */
bool lm_answer_harmony(lm_answer *a, bool final);

#endif
