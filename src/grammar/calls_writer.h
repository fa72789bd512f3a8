/* calls_writer.h - the pieces of GBNF that grammars of tool calls consist of. */
#ifndef LM_GRAMMAR_CALLS_WRITER_H
#define LM_GRAMMAR_CALLS_WRITER_H

#include "lamina/grammar.h"
#include "text/answer/family.h"

typedef struct lm_calls_writer {
    const lm_answer_style  *style;
    const lm_answer_family *f;
    const lm_tokenizer     *tokenizer;
    lm_text  out;                    /* GBNF */
    lm_text  texts;                  /* schemas and their names, each with a NUL */
    size_t   n;                      /* number of schemas */
    unsigned untils;
    lm_error *e;
} lm_calls_writer;

/* Return the control token that has this spelling, or that begins it; -1: it is, or begins as, plain text. */
lm_token lm_calls_control(const lm_calls_writer *w, const char *mark);
lm_token lm_calls_leading(const lm_calls_writer *w, const char *mark);

void lm_calls_literal(lm_calls_writer *w, const char *text, size_t n);
void lm_calls_text(lm_calls_writer *w, const char *text);

/* White space that a model may leave out, or write otherwise than its template does. */
void lm_calls_gap(lm_calls_writer *w);
void lm_calls_comma(lm_calls_writer *w);

/* Write text in which control tokens are written as tokens; NULL: nothing. */
void lm_calls_mark(lm_calls_writer *w, const char *text);

/* Write "key" : with white space anywhere, and a string as JSON. */
void lm_calls_key(lm_calls_writer *w, const char *key);
void lm_calls_string(lm_calls_writer *w, const char *value);

/* Write a reference to a rule that matches any text up to and including a mark; the rule goes to `rules`. */
void lm_calls_until(lm_calls_writer *w, lm_text *rules, const char *mark);

#endif
