/* records.h - data records as tokens, with a mark on those that are trained. */
#ifndef LM_TRAIN_RECORDS_H
#define LM_TRAIN_RECORDS_H

#include <jansson.h>

#include "lamina/text.h"
#include "train/texts.h"

/* A text as ids and mask (NULL: all). `mask` has one element per id. */
typedef struct lm_text_record {
    lm_tokens ids;
    bool     *mask;
} lm_text_record;

typedef enum lm_record_form {
    LM_RECORD_MESSAGES, LM_RECORD_PAIR, LM_RECORD_ALPACA, LM_RECORD_SHAREGPT, LM_RECORD_TEXT, LM_RECORD_IDS,
    LM_RECORD_FORMS
} lm_record_form;

typedef struct lm_record_reader {
    const lm_read_options *o;
    const lm_tokenizer    *tokenizer;
    lm_template           *chat;         /* NULL: the model has no chat template */
    const char            *path;
    lm_record_form         form;         /* of the first record, and so of all */
    bool                   known;
    json_t                *unused;       /* names of members that no record uses, as an object's */
    lm_error              *e;
} lm_record_reader;

/* Read a record. LM_USAGE: it is of another form, or a member cannot be used. */
lm_status lm_record_read(lm_record_reader *r, json_t *record, lm_text_record *out);

/* Read a text, with the token that ends it. */
lm_status lm_record_plain_text(lm_record_reader *r, const char *text, size_t size, lm_text_record *out);

/* Write the form, and the names of unused members. */
void lm_record_describe(const lm_record_reader *r, lm_train_data *out);

/* ---- answers.c ---- */

/* A conversation; messages before `from` are not trained. `tools` and `variables` may be NULL. */
typedef struct lm_conversation {
    json_t *messages, *tools, *variables;
    size_t  from;
} lm_conversation;

/* Render a conversation, and mark its answers. Members that say whether a message is trained are used and
 * removed. */
lm_status lm_record_conversation(lm_record_reader *r, const lm_conversation *c, lm_text_record *out);

/* ---- switches.c ---- */

/* Read a member that says whether something is trained: weight, train, training, loss or masked. *trained is
 * false if it is not, and unchanged if there is no such member. LM_USAGE: it is neither yes nor no. */
lm_status lm_record_trained(lm_record_reader *r, const json_t *object, bool *trained);
/* Return whether `name` is such a member. */
bool lm_record_is_switch(const char *name);
/* Note a member that is not used. LM_USAGE: its name says that it changes what is trained. */
lm_status lm_record_unused(lm_record_reader *r, const char *name);
/* Return the number of common tokens at the beginning. */
size_t lm_record_common(const lm_tokens *a, const lm_tokens *b);

#endif
