/* answer_parser.h - the incremental parser of an answer: reasoning, content, tool calls. */
#ifndef LM_TEXT_ANSWER_PARSER_H
#define LM_TEXT_ANSWER_PARSER_H

#include "text/answer/written.h"

typedef enum lm_answer_mode {
    LM_MODE_TEXT, LM_MODE_REASONING,
    LM_MODE_CALLS,                   /* after the mark that opens them */
    LM_MODE_HEADER, LM_MODE_BODY,    /* harmony: of a message */
} lm_answer_mode;

struct lm_answer {
    lm_answer_style   style;
    lm_answer_options o;
    const lm_answer_family *f;       /* the family whose calls are parsed; NULL: calls are not parsed */
    lm_answer_mode mode, before;     /* `before`: the mode before the calls */
    lm_text   buffer;                /* not emitted yet */
    lm_text   space;                 /* white space held back: trimmed at the edges of a part */
    lm_text   raw;                   /* text that may become a call; emitted as text if it does not */
    bool      edge;                  /* at the start of a part: white space is trimmed, nothing of the part
                                        has been emitted */
    bool      text_begun;            /* content has been emitted */
    bool      reasoning_begun;       /* reasoning has been emitted */
    bool      joins;                 /* a line break comes before the next text of this part */
    bool      section;               /* CALLS: the opening mark of the section was read */
    const char *close;               /* the mark that closes it; NULL: none */
    uint32_t  n_calls, in_section;   /* calls emitted; those in this section */
    bool      ending;                /* no more input */
    bool      cut;                   /* ending: at a limit, so an unfinished call is reported */
    bool      partial;               /* the arguments of the call are not complete */
    size_t    enough;                /* size of the buffer at which it is read again */
    lm_written call;
    bool      open;                  /* the call has been emitted, with so many bytes of its arguments */
    size_t    sent;
    bool      analysis, recipient;   /* harmony: the message is reasoning; it is a call */
    bool      marked;                /* harmony: the content ends with the mark of a message of reasoning */
    char      id[80];
    void    (*on_event)(void *arg, const lm_answer_event *event);
    void     *arg;
};

/* emit an event */
void lm_answer_emit(lm_answer *a, lm_answer_kind kind, const char *text, size_t n, const char *id);
/* emit reasoning or content, edges trimmed */
void lm_answer_emit_text(lm_answer *a, bool reasoning, const char *text, size_t n);
/* begin another part; `trim`: without leading space */
void lm_answer_part(lm_answer *a, bool trim);
/* emit the start of a->call; its arguments follow */
void lm_answer_call(lm_answer *a);
void lm_answer_arguments(lm_answer *a, const char *text, size_t n);
void lm_answer_call_end(lm_answer *a);
void lm_answer_consume(lm_answer *a, size_t n);

/* Find the first of the marks, a list that ends with NULL, and the longest of those that begin there: *at is
 * where it begins, *mark which it is (NULL: none, or only a part of one). What precedes *at is not part of a
 * mark, whatever follows. */
void lm_answer_find(const char *s, size_t n, const char *const *marks, bool final, size_t *at,
                    const char **mark);

/* Read a call and emit it. DONE: `r` is after it; MORE: what no continuation changes has been emitted, if the
 * call is streamed; NONE: it is not a call. */
lm_answer_reading lm_answer_read_call(lm_answer *a, lm_reader *r);

/* Take one step in harmony's format; false: more text is needed. */
bool lm_answer_harmony(lm_answer *a, bool final);

#endif
