/* bench_texts.h - the sequences that `lamina bench` runs. Their tokens are drawn at random, since speed does
 * not depend on them. */
#ifndef LM_CLI_BENCH_TEXTS_H
#define LM_CLI_BENCH_TEXTS_H

#include "cli/base/store.h"
#include "lamina/sequence.h"

typedef struct lm_bench_texts {
    lm_engine    *g;
    lm_sequence **all;               /* [n], owned: one per slot of the engine */
    uint32_t      n, n_vocab;
    uint32_t      batch;             /* maximum number of prompt tokens per step */
    lm_row       *rows;              /* [lm_engine_max_rows] */
    lm_token     *ids;               /* [the engine's context + 1] */
    uint64_t      noise;
} lm_bench_texts;

/* Make a sequence for every slot of an engine. Its arrays are allocated from `store`. Free the sequences with
 * lm_bench_texts_close before the engine. */
lm_status lm_bench_texts_open(lm_engine *g, uint32_t batch, lm_store *store, lm_bench_texts *out,
                              lm_error *e);
void      lm_bench_texts_close(lm_bench_texts *t);

/* Process a prompt of `n` tokens in sequence i, which holds `at` positions, in steps of up to `batch` tokens,
 * with logits of the last token. */
lm_status lm_bench_read(lm_bench_texts *t, uint32_t i, uint32_t at, uint32_t n, lm_error *e);

/* Generate `n` tokens in every sequence, one per step: from where lm_bench_read left them, or if `fresh`
 * after the `at` positions that they hold. */
lm_status lm_bench_write(lm_bench_texts *t, bool fresh, uint32_t at, uint32_t n, lm_error *e);

#endif
