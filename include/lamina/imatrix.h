/* imatrix.h - importance matrices for lm_quantize: collect them over a text, merge them, read and write
 * llama-imatrix's files. */
#ifndef LAMINA_IMATRIX_H
#define LAMINA_IMATRIX_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Per matrix: the sums of squares of its inputs, and the number of rows summed. Used by one thread at a
 * time. */
typedef struct lm_imatrix lm_imatrix;

/* Create an empty one. Free it with lm_imatrix_free. */
lm_status lm_imatrix_new(lm_imatrix **out, lm_error *e);

/* Open a file of llama-imatrix: GGUF (`NAME.in_sum2` [matrices, cols], `NAME.counts` [matrices]) or the older
 * .dat format, which does not store rows: a chunk of it counts as 512. LM_BAD_MODEL: another format, or
 * damaged. */
lm_status lm_imatrix_open(const char *path, lm_imatrix **out, lm_error *e);
void      lm_imatrix_free(lm_imatrix *m);

typedef struct lm_imatrix_options {      /* all zero: the defaults */
    uint32_t chunk;                      /* tokens per chunk; each chunk starts with an empty cache; 0: 512 */
    uint32_t first;                      /* first chunk to process */
    uint32_t chunks;                     /* maximum number; 0: all. An incomplete last chunk is skipped */
    bool     replace_first;              /* put `bos` in place of the first token of each chunk */
    lm_token bos;
    bool     head;                       /* collect output.weight as well, if the head is a separate matrix */
    const char *dataset;                 /* name of the text, stored in the file; NULL: none */
    /* Called after each chunk, in the calling thread: chunks done, all chunks, perplexity so far. Return
     * false to cancel: LM_CANCELLED; the sums so far remain. */
    bool   (*progress)(void *arg, uint32_t done, uint32_t of, double perplexity);
    void    *progress_arg;
    uint64_t reserved[4];                /* zero */
} lm_imatrix_options;

lm_imatrix_options lm_imatrix_defaults(void);

typedef struct lm_imatrix_result {
    uint32_t chunks;                     /* processed */
    uint32_t entries;                    /* after this call */
    double   perplexity, perplexity_error;   /* of the second half of each chunk, as in llama-imatrix: exp of
                                                the mean, and its standard error */
    uint64_t reserved[4];                /* zero */
} lm_imatrix_result;

/* Process chunks of a text of n ids in sequence 0 of an engine, whose content is discarded, and add the
 * squared inputs of the matrices of its layers: in double, in an order that depends only on the text.
 * Includes weights that GGUF has a name for. LM_USAGE: fewer ids than two chunks, an id outside the
 * vocabulary, a chunk longer than the context; LM_FAILED: inputs that are not finite. `result` may be NULL.
 * */
lm_status lm_imatrix_collect(lm_imatrix *m, lm_engine *g, const lm_token *ids, size_t n,
                             const lm_imatrix_options *o, lm_imatrix_result *result, lm_error *e);

/* Add the sums and rows of `from`. LM_BAD_MODEL: an entry has a different shape. */
lm_status lm_imatrix_merge(lm_imatrix *m, const lm_imatrix *from, lm_error *e);

/* Save atomically; an existing file is replaced. `older`: the format before GGUF. */
lm_status lm_imatrix_save(const lm_imatrix *m, const char *path, bool older, lm_error *e);

uint32_t    lm_imatrix_chunks(const lm_imatrix *m);
uint32_t    lm_imatrix_chunk_size(const lm_imatrix *m);              /* tokens */
const char *lm_imatrix_dataset(const lm_imatrix *m, size_t i);       /* NULL past the end */

/* One entry, sorted by name. Statistics are of the mean squares of the inputs, as llama-imatrix shows
 * them. */
typedef struct lm_imatrix_entry {
    const char   *name;                  /* "blk.0.attn_q.weight" */
    uint64_t      cols;
    uint32_t      matrices;              /* number of experts or heads; else 1 */
    uint32_t      unseen;                /* number of matrices without a row */
    const double *sums;                  /* [matrices × cols] */
    const uint64_t *rows;                /* [matrices] */
    double        sum, min, max, mean, deviation;
    double        active;                /* share above 1e-5 */
    double        entropy;               /* bits; at most log2(matrices × cols) */
    double        outliers;              /* share more than one deviation above the mean */
    double        cosine;                /* similarity to the same tensor of the previous layer; NaN: none */
    uint64_t      reserved[4];           /* zero */
} lm_imatrix_entry;

/* The i-th entry; false past the end. Pointers are valid until sums are added. */
bool lm_imatrix_at(const lm_imatrix *m, size_t i, lm_imatrix_entry *out);

#ifdef __cplusplus
}
#endif
#endif
