/* imatrix.h - the importance of each input of a model's matrices, for lm_quantize: collected over a text, merged, read and written as
 * llama-imatrix's files. */
#ifndef LAMINA_IMATRIX_H
#define LAMINA_IMATRIX_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For each matrix the sums of the squares of its inputs, and how many rows they were taken over. Used by one thread at a time. */
typedef struct lm_imatrix lm_imatrix;

/* Without entries. Freed with lm_imatrix_free. */
lm_status lm_imatrix_new(lm_imatrix **out, lm_error *e);

/* llama-imatrix's GGUF form (`NAME.in_sum2` [matrices, cols], `NAME.counts` [matrices]) or the older one (.dat), whose rows are not
 * known: a chunk of it counts as 512. LM_BAD_MODEL: neither, or broken. */
lm_status lm_imatrix_open(const char *path, lm_imatrix **out, lm_error *e);
void      lm_imatrix_free(lm_imatrix *m);

typedef struct lm_imatrix_options {      /* all zero: the defaults */
    uint32_t chunk;                      /* tokens read at a time, each chunk from an empty cache; 0: 512 */
    uint32_t first;                      /* chunk to begin with */
    uint32_t chunks;                     /* at most; 0: all of the text. A last one that is not whole is left out */
    bool     replace_first;              /* put `bos` in place of the first token of each chunk */
    lm_token bos;
    bool     head;                       /* of output.weight too, where the head is a matrix of its own */
    const char *dataset;                 /* what the text is called in the file; NULL: nothing */
    /* Called after each chunk: how many of how many, the perplexity so far. false: LM_CANCELLED; what was collected stays. */
    bool   (*progress)(void *arg, uint32_t done, uint32_t of, double perplexity);
    void    *progress_arg;
    uint64_t reserved[4];                /* zero */
} lm_imatrix_options;

lm_imatrix_options lm_imatrix_defaults(void);

typedef struct lm_imatrix_result {
    uint32_t chunks;                     /* read */
    uint32_t entries;                    /* in the matrix now */
    double   perplexity, perplexity_error;   /* of the second half of each chunk, as llama-imatrix says it: exp of the mean, and what its
                                                standard error makes of it */
    uint64_t reserved[4];                /* zero */
} lm_imatrix_result;

/* Read chunks of a text of n ids into sequence 0 of an engine, whose text is forgotten, and add what the matrices of its layers are
 * multiplied with: in double, in an order that depends on nothing but the text. Only weights that GGUF has a name for. LM_USAGE: fewer than
 * two chunks' ids, an id outside the vocabulary, a chunk longer than the context; LM_FAILED: inputs that are not finite. `result` may be
 * NULL. */
lm_status lm_imatrix_collect(lm_imatrix *m, lm_engine *g, const lm_token *ids, size_t n, const lm_imatrix_options *o,
                             lm_imatrix_result *result, lm_error *e);

/* Add the sums and rows of `from`. LM_BAD_MODEL: an entry has another shape there. */
lm_status lm_imatrix_merge(lm_imatrix *m, const lm_imatrix *from, lm_error *e);

/* Whole or not at all; a file at `path` is replaced. `older`: the form before GGUF. */
lm_status lm_imatrix_save(const lm_imatrix *m, const char *path, bool older, lm_error *e);

uint32_t    lm_imatrix_chunks(const lm_imatrix *m);
uint32_t    lm_imatrix_chunk_size(const lm_imatrix *m);              /* tokens */
const char *lm_imatrix_dataset(const lm_imatrix *m, size_t i);       /* NULL past the end */

/* One entry, in the order of names. Statistics are of the mean squares of all matrices' inputs, as llama-imatrix shows them. */
typedef struct lm_imatrix_entry {
    const char   *name;                  /* "blk.0.attn_q.weight" */
    uint64_t      cols;
    uint32_t      matrices;              /* experts or heads; else 1 */
    uint32_t      unseen;                /* matrices without a row */
    const double *sums;                  /* [matrices × cols] */
    const uint64_t *rows;                /* [matrices] */
    double        sum, min, max, mean, deviation;
    double        active;                /* share above 1e-5 */
    double        entropy;               /* bits; at most log2(matrices × cols) */
    double        outliers;              /* share more than one deviation above the mean */
    double        cosine;                /* with the same tensor one layer before; NaN: there is none */
    uint64_t      reserved[4];           /* zero */
} lm_imatrix_entry;

/* false past the end. Pointers are valid until the matrix is added to. */
bool lm_imatrix_at(const lm_imatrix *m, size_t i, lm_imatrix_entry *out);

#ifdef __cplusplus
}
#endif
#endif
