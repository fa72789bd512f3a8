/* prompt.h - input of the model: plain text, token ids, or a conversation rendered by the model's chat
 * template. */
#ifndef LM_CLI_PROMPT_H
#define LM_CLI_PROMPT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/textfile.h"
#include "cli/base/command.h"

/* Return the name of the file in errors: `path`, or "standard input" for "-". */
const char *lm_input_name(const char *path);

/* Append the text of a file, or of standard input for "-", as base/textfile.h defines texts. LM_LIMIT: more
 * than LM_MAX_INPUT bytes. */
lm_status lm_read_file(const char *path, lm_text *out, lm_error *e);

/* Append the text of a regular file of at most `max` bytes: a document, not endless input. */
lm_status lm_read_document(const char *path, uint64_t max, lm_text *out, lm_error *e);

/* The same as lm_read_file without one newline, \n or \r\n, at the end. */
lm_status lm_read_text(const char *path, lm_text *out, lm_error *e);

/* Append the tokens of such a text. `flags`: those of lm_tokenize. */
lm_status lm_read_tokens(const char *path, const lm_tokenizer *t, unsigned flags, lm_tokens *out,
                         lm_error *e);

/* If the tokenizer adds BOS before a text, set *added and *bos. */
lm_status lm_added_bos(const lm_tokenizer *t, bool *added, lm_token *bos, lm_error *e);

/* Append a text of the command line. With `escapes`, \n \t \r \0 \\ \" \' \xHH are replaced by their
 * characters; other backslashes are kept. */
void lm_add_given(const char *text, bool escapes, lm_text *out);

/* The same for each item of a list, whose new items are valid as long as the command runs. */
lm_status lm_unescape_all(lm_cli *cli, lm_flag_list *list, bool escapes, lm_error *e);

/* Append the token ids in "1,2,3", "1 2 3" or a JSON array. `where` is the location in errors. */
lm_status lm_read_ids(const char *text, const char *where, lm_tokens *out, lm_error *e);

typedef struct lm_template_flags {
    const char *template_name;           /* one of the model's; NULL: the default */
    const char *template_file;           /* instead of the model's */
    const char *kwargs;                  /* a JSON object of further variables */
    bool        parse_content;           /* parse special tokens in messages */
} lm_template_flags;

/* A compiled chat template with its variables. */
typedef struct lm_prompt_template {
    const lm_tokenizer *tokenizer;
    lm_template        *template;
    json_t             *variables;       /* bos_token, eos_token … and those of `kwargs` */
    /* the numbers beyond 64 bits in variables and messages: lm_text_add_wide_numbers */
    lm_text             wide;
    bool                parse_content;
} lm_prompt_template;

/* Return a new object with the variables that transformers passes to templates: bos_token and eos_token, if
 * the tokenizer has them. */
json_t *lm_special_variables(const lm_tokenizer *t);

/* Compile the template. LM_USAGE: the model has no tokenizer or no such template, or a variable is not
 * allowed. */
lm_status lm_prompt_template_open(const lm_model *m, const lm_template_flags *o, lm_prompt_template *out,
                                  lm_error *e);
void      lm_prompt_template_close(lm_prompt_template *c);

/* Append the ids of a conversation (a JSON array of messages) with the beginning of a new answer. Special
 * tokens are parsed in the template's own text, in messages only with `parse_content`. `rendered` (may be
 * NULL) receives the rendered text. */
lm_status lm_prompt_template_tokens(const lm_prompt_template *c, json_t *messages, lm_tokens *out,
                                    lm_text *rendered, lm_error *e);

#endif
