/* bench_texts.h - the texts that `lamina bench` runs: sequences whose tokens are drawn at random, for the speed does not depend on
 * them. */
#ifndef LM_CLI_BENCH_TEXTS_H
#define LM_CLI_BENCH_TEXTS_H

#include "cli/store.h"
#include "lamina/sequence.h"

typedef struct lm_bench_texts {
    lm_engine    *g;
    lm_sequence **all;               /* [n], owned: one in each slot of the engine */
    uint32_t      n, n_vocab;
    uint32_t      batch;             /* most prompt tokens in a step */
    lm_row       *rows;              /* [the engine's most] */
    lm_token     *ids;               /* [the engine's context + 1] */
    uint64_t      noise;
} lm_bench_texts;

/* For all sequences of an engine. What it takes of `store` lives as long as that; the sequences end with lm_bench_texts_close, before
 * the engine does. */
lm_status lm_bench_texts_open(lm_engine *g, uint32_t batch, lm_store *store, lm_bench_texts *out, lm_error *e);
void      lm_bench_texts_close(lm_bench_texts *t);

/* A prompt: `n` positions of text i, which holds `at`, in steps as large as they may be; the last one's logits. */
lm_status lm_bench_read(lm_bench_texts *t, uint32_t i, uint32_t at, uint32_t n, lm_error *e);

/* Every text one token further, `n` times: from where lm_bench_read has left them, or `fresh` from the `at` positions that they hold. */
lm_status lm_bench_write(lm_bench_texts *t, bool fresh, uint32_t at, uint32_t n, lm_error *e);

#endif
