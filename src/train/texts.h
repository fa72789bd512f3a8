/* texts.h - data to learn from: texts as tokens, each with what its losses are taken of. */
#ifndef LM_TRAIN_TEXTS_H
#define LM_TRAIN_TEXTS_H

#include "base/str.h"
#include "lamina/train.h"

/* Tokens and labels of all texts lie side by side. A label stands with the token before which it is predicted: label i of a text is the
 * token i + 1, or -100. */
typedef struct lm_train_data {
    int32_t  *tokens, *labels;
    uint64_t  n, capacity;
    uint64_t *first;                     /* [texts + 1]: where each begins */
    uint64_t  texts, room;
    uint64_t  trained;                   /* labels */
    uint64_t  left_out, shortened, bad;
    char      form[32];                  /* "messages" */
    char      hash[65];                  /* of the file's bytes */
    char      found[96];                 /* how trained tokens of conversations were found */
} lm_train_data;

void lm_train_data_free(lm_train_data *d);

typedef struct lm_read_options {
    const lm_model *model;
    uint32_t        most;                /* tokens of a text */
    bool            cut, skip_bad, all;
} lm_read_options;

/* Of a file of data; `rest` gets a share of the texts, chosen by their content. NULL: none. */
lm_status lm_train_read(const char *path, const lm_read_options *o, double share, lm_train_data *out, lm_train_data *rest, lm_error *e);

/* Of a safetensors file with input_ids and labels. */
lm_status lm_train_read_ids(const char *path, uint32_t n_vocab, lm_train_data *out, lm_error *e);

/* One more text; its labels are of tokens where `mask` is set (NULL: everywhere but at the first). Counted as left out where nothing is
 * labelled. */
lm_status lm_train_add(lm_train_data *d, const lm_token *ids, const bool *mask, size_t n, const lm_read_options *o, lm_error *e);

/* A record (a JSON object) as ids and mask; defined for each form (records.c). `mask` is of ids, grown with them. */
typedef struct lm_record {
    lm_tokens ids;
    bool     *mask;
    size_t    masked;
} lm_record;

/* Rows to learn from: texts that share one, in the order of an epoch. */
typedef struct lm_train_rows {
    uint64_t *texts;                     /* numbers of texts, row after row */
    uint64_t *first;                     /* [n + 1]: where each row's begin */
    uint64_t  n;
} lm_train_rows;

/* Texts in an order that depends on seed and epoch alone, put into rows of at most `room` tokens: the fullest that has room, within a
 * thousand texts. `pack` false: one in each, `shuffle` false: as they are. */
lm_status lm_train_rows_of(const lm_train_data *d, uint32_t room, bool pack, bool shuffle, uint64_t seed, uint32_t epoch,
                           lm_train_rows *out, lm_error *e);
void      lm_train_rows_free(lm_train_rows *r);

#endif
