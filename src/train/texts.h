/* texts.h - training data: texts as tokens, with the labels of their losses. */
#ifndef LM_TRAIN_TEXTS_H
#define LM_TRAIN_TEXTS_H

#include "base/str.h"
#include "lamina/train.h"

/* Tokens and labels of all texts are consecutive. A label is stored at the token that predicts it: label i of
 * a text is token i + 1, or -100. */
typedef struct lm_train_data {
    int32_t  *tokens, *labels;
    uint64_t  n, capacity;
    uint64_t *first;                     /* [texts + 1]: start of each text */
    uint64_t  texts, text_capacity;
    uint64_t  trained;                   /* number of labels */
    uint64_t  left_out, shortened, bad;
    char      form[32];                  /* "messages" */
    char      hash[65];                  /* of the file's bytes */
    char      unused[200];               /* names of members of records that are not used */
} lm_train_data;

void lm_train_data_free(lm_train_data *d);

typedef struct lm_read_options {
    const lm_model *model;
    uint32_t        max;                 /* maximum tokens per text */
    bool            cut, skip_bad, all;
    bool            paragraphs;          /* a text file has texts separated by blank lines; else one text */
} lm_read_options;

/* Read a data file; `rest` (NULL: none) gets a share of the texts, chosen by their content. */
lm_status lm_train_read(const char *path, const lm_read_options *o, double share, lm_train_data *out,
                        lm_train_data *rest, lm_error *e);

/* Read a safetensors file with input_ids and labels. */
lm_status lm_train_read_ids(const char *path, uint32_t n_vocab, lm_train_data *out, lm_error *e);

/* Add a text. Tokens with `mask` set get labels (NULL: all except the first). A text without labels is
 * counted as left out. */
lm_status lm_train_add(lm_train_data *d, const lm_token *ids, const bool *mask, size_t n,
                       const lm_read_options *o, lm_error *e);

/* Rows of an epoch, in order: the texts that share each row. */
typedef struct lm_train_rows {
    uint64_t *texts;                     /* indices of texts, row by row */
    uint64_t *first;                     /* [n + 1]: start of each row in `texts` */
    uint64_t  n;
} lm_train_rows;

/* Arrange the texts in an order that depends only on seed and epoch, and pack them into rows of at most
 * `room` tokens: each text into the fullest row with enough room, within windows of a thousand texts. `pack`
 * false: one text per row, `shuffle` false: in the original order. */
lm_status lm_train_rows_of(const lm_train_data *d, uint32_t room, bool pack, bool shuffle, uint64_t seed,
                           uint32_t epoch, lm_train_rows *out, lm_error *e);
void      lm_train_rows_free(lm_train_rows *r);

#endif
