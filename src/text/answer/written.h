/* written.h - one call as a model wrote it, read from a text that may still be incomplete. */
#ifndef LM_TEXT_ANSWER_WRITTEN_H
#define LM_TEXT_ANSWER_WRITTEN_H

#include <jansson.h>

#include "text/answer/family.h"

/* MORE: a decision needs more text; never with `final`. */
typedef enum lm_answer_reading { LM_READ_MORE, LM_READ_NONE, LM_READ_DONE } lm_answer_reading;

typedef struct lm_reader {
    const char *s;                   /* [n] */
    size_t      n, at;
    bool        final;               /* no more text follows */
} lm_reader;

typedef struct lm_written {
    const lm_answer_tool *tool;
    const lm_answer_tool *parsed;    /* the tool of `schema`, which is parsed once even if the call is read
                                        several times; NULL: none yet */
    json_t *schema;                  /* NULL: the tool has no valid schema */
    lm_text id;                      /* empty: the model wrote none */
    lm_text arguments;               /* JSON; of an incomplete call, the start that no continuation changes */
    bool    complete;                /* the arguments are whole, and end at `end` */
    size_t  end;
} lm_written;

void       lm_reader_space(lm_reader *r);
lm_answer_reading lm_reader_mark(lm_reader *r, const char *mark);  /* match a mark here; skipped when DONE */
/* text before the mark; both are skipped */
lm_answer_reading lm_reader_until(lm_reader *r, const char *mark, size_t max, lm_text *out);
/* the length of the mark's start at the end of the text */
size_t lm_reader_part(const lm_reader *r, const char *mark);
/* a valid JSON object or array: [*from, at); if it is none, or not yet one, up to where this is known */
lm_answer_reading lm_reader_json(lm_reader *r, size_t *from);

const lm_answer_tool *lm_tool_of(const lm_answer_options *o, const char *name, size_t size);

/* Append the beginning of a text as JSON: no closing quote, and no character that is not whole. */
void lm_text_add_json_start(lm_text *out, const char *s, size_t n);

/* Read a call. On DONE `r` is after it, including its closing mark; otherwise out->tool (NULL: not known) and
 * out->arguments are what has been read. */
lm_answer_reading lm_call_read(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                               lm_written *out);
/* Read arguments that are a JSON object. */
lm_answer_reading lm_call_json(lm_reader *r, lm_written *out);

/* Read the closing mark of a call, which may be missing. */
lm_answer_reading lm_call_close(const lm_answer_family *f, lm_reader *r);

lm_answer_reading lm_call_tagged(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                                 lm_written *out);
/* The name of a call whose arguments are between marks, up to the first of them. */
lm_answer_reading lm_tagged_name(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                                 lm_written *out);
lm_answer_reading lm_call_nested(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                                 lm_written *out);
/* Whether a schema allows a type; what it does not restrict is allowed. */
bool lm_schema_allows(const json_t *schema, const char *type);
bool lm_schema_is_text(const json_t *schema);            /* and allows nothing else than a string */
/* Append the text as a value that the schema allows: as JSON if it is valid JSON, otherwise as a string.
 * `how`: -1: the schema decides, 0: it is JSON, 1: it is text. */
void lm_value_add(const json_t *schema, const char *text, size_t n, int how, lm_text *out);
const json_t *lm_written_schema(lm_written *out);        /* of the called tool */
/* f(a='x'): one of a list */
lm_answer_reading lm_call_python(const lm_answer_options *o, lm_reader *r, lm_written *out);
lm_answer_reading lm_call_gemma(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                                lm_written *out);

void lm_written_free(lm_written *w);

#endif
