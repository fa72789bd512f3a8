/* written.h - one call as a model has written it, read from a text that may not be all there yet. */
#ifndef LM_TEXT_ANSWER_WRITTEN_H
#define LM_TEXT_ANSWER_WRITTEN_H

#include <jansson.h>

#include "text/answer/family.h"

/* MORE: any decision needs more text; never with `final`. */
typedef enum lm_reading { LM_READ_MORE, LM_READ_NONE, LM_READ_DONE } lm_reading;

typedef struct lm_reader {
    const char *s;                   /* [n] */
    size_t      n, at;
    bool        final;               /* there is no more text */
} lm_reader;

/* A value of JSON by its brackets, byte by byte; what it holds is not checked. */
typedef struct lm_balance { unsigned depth; bool string, escape, begun; } lm_balance;

typedef struct lm_written {
    const lm_answer_tool *tool;
    const lm_answer_tool *parsed;    /* whose `schema` it is: parsed once, however often the call is read again; NULL: none yet */
    json_t *schema;                  /* NULL: it is none */
    lm_text id;                      /* empty: the model wrote none */
    lm_text arguments;               /* JSON, of a whole call */
} lm_written;

bool       lm_balance_add(lm_balance *b, char c);                  /* true: the value, an object or array, ends with c */
void       lm_reader_space(lm_reader *r);
lm_reading lm_reader_mark(lm_reader *r, const char *mark);         /* stands here; passed over when DONE */
lm_reading lm_reader_until(lm_reader *r, const char *mark, size_t most, lm_text *out);     /* text before it, both passed over */
lm_reading lm_reader_json(lm_reader *r, size_t *from);             /* an object or array, sound JSON: [*from, at) */

const lm_answer_tool *lm_tool_of(const lm_answer_options *o, const char *name, size_t size);

/* A whole call. On DONE `r` is behind it, its closing mark included. */
lm_reading lm_call_read(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r, lm_written *out);

/* Up to the "{" of its arguments, which are a JSON object in the text; NONE also where they cannot be told before the end. */
lm_reading lm_call_head(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r, lm_written *out);
/* OBJECT: what follows the arguments, up to the end of the call. */
lm_reading lm_call_tail(const lm_answer_family *f, lm_reader *r);

lm_reading lm_call_tagged(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r, lm_written *out);
lm_reading lm_call_python(const lm_answer_options *o, lm_reader *r, lm_written *out);        /* f(a='x'): one of a list */
lm_reading lm_call_gemma(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r, lm_written *out);

void lm_written_free(lm_written *w);

#endif
