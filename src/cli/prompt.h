/* prompt.h - what the model reads: text as it is, or a conversation through the model's template. */
#ifndef LM_CLI_PROMPT_H
#define LM_CLI_PROMPT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/command.h"

/* The most bytes of a text, or of one line of JSON: no prompt is near it, and what never ends is told from what is long. */
#define LM_MAX_INPUT ((size_t)256 << 20)

/* What errors call the file at `path`. */
const char *lm_input_name(const char *path);

/* A file's bytes, or standard input's for "-". LM_LIMIT past LM_MAX_INPUT. */
lm_status lm_read_file(const char *path, lm_text *out, lm_error *e);

/* A file's text, or standard input's for "-"; one newline at the end is left out. */
lm_status lm_read_text(const char *path, lm_text *out, lm_error *e);

/* The next line into `out` (cleared first) with its newline, which the last one may lack; *end: there is none.
 * Errors name no file; LM_LIMIT past LM_MAX_INPUT. */
lm_status lm_read_line(FILE *f, lm_text *out, bool *end, lm_error *e);

/* \n \t \r \0 \\ \" \' \xHH as the characters they stand for, appended to `out`; other backslashes stay. */
void lm_unescape(const char *text, lm_text *out);

/* A text of the command line, appended to `out`, its escapes obeyed if `escapes`. */
void lm_add_given(const char *text, bool escapes, lm_text *out);

/* The same for each of a list, which lives as long as the command. */
lm_status lm_unescape_all(lm_cli *cli, lm_flag_list *list, bool escapes, lm_error *e);

/* "1,2,3" or "1 2 3" or a JSON array, appended to `out`; `where` is for errors. */
lm_status lm_read_ids(const char *text, const char *where, lm_tokens *out, lm_error *e);

typedef struct lm_chat_options {
    const char *template_name;           /* one of the model's; NULL: the default */
    const char *template_file;           /* instead of the model's */
    const char *kwargs;                  /* a JSON object of further variables */
    bool        parse_content;           /* special tokens spelled in messages are special */
} lm_chat_options;

/* A model's template, compiled, with its variables. */
typedef struct lm_chat {
    const lm_tokenizer *tokenizer;
    lm_template        *template;
    json_t             *variables;       /* bos_token, eos_token … and those of `kwargs` */
    lm_text             wide;            /* numbers beyond 64 bits of variables and messages: lm_text_add_wide_numbers */
    bool                parse_content;
} lm_chat;

/* A new object of what transformers hands to templates: bos_token, eos_token, where the tokenizer has them. */
json_t *lm_special_variables(const lm_tokenizer *t);

/* LM_USAGE when the model has no template or no tokenizer. */
lm_status lm_chat_open(const lm_model *m, const lm_chat_options *o, lm_chat *out, lm_error *e);
void      lm_chat_close(lm_chat *c);

/* Ids of a conversation (a JSON array of messages), a new answer begun. Template text is tokenised with special tokens,
 * messages without. `rendered` may be NULL. */
lm_status lm_chat_tokens(const lm_chat *c, json_t *messages, lm_tokens *out, lm_text *rendered, lm_error *e);

#endif
