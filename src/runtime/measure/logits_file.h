/* logits_file.h - the logits of a model over a text, in the format of llama-perplexity --kl-divergence-base.
 *
 *   "_logits_" | i32 context | i32 vocabulary | i32 chunks | i32 tokens[chunks × context]
 *   per chunk, per position from context/2 to before the last: f32 step | f32 lowest | u16 codes[vocabulary],
 *       padded to an
 *   even number
 * log p = step · code + lowest. */
#ifndef LM_RUNTIME_LOGITS_FILE_H
#define LM_RUNTIME_LOGITS_FILE_H

#include "base/os/filemap.h"
#include "lamina/text.h"

typedef struct lm_logits_file {
    lm_filemap file;
    uint32_t   context, n_vocab, chunks;
    uint64_t   rows;                 /* of a chunk */
    uint64_t   row_bytes;
    uint64_t   first_row;            /* its offset in the file */
} lm_logits_file;

lm_status lm_logits_file_open(const char *path, lm_logits_file *out, lm_error *e);
void      lm_logits_file_close(lm_logits_file *f);

/* Copy the tokens of all chunks, [chunks × context]. */
void lm_logits_file_tokens(const lm_logits_file *f, lm_token *out);

typedef struct lm_coded_row { float step, lowest; const uint8_t *codes; } lm_coded_row;

lm_coded_row lm_logits_file_row(const lm_logits_file *f, uint32_t chunk, uint32_t row);

static inline float lm_coded_logprob(const lm_coded_row *r, uint32_t i)
{
    return r->step * (float)(uint16_t)(r->codes[2 * (uint64_t)i] | r->codes[2 * (uint64_t)i + 1] << 8) +
           r->lowest;
}

/* Return the bytes of a row; encode a row of logits. */
uint64_t  lm_coded_row_bytes(uint32_t n_vocab);
void      lm_coded_row_make(uint8_t *out, const float *logits, uint32_t n_vocab);
lm_status lm_logits_file_begin(lm_outfile *f, uint32_t context, uint32_t n_vocab, uint32_t chunks,
                               const lm_token *tokens, lm_error *e);

#endif
