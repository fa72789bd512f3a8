/* bpe.h - byte-pair encoding of one word (Sennrich et al. 2016), in the two forms that models use.
 *
 * MERGES  (GPT-2, Llama 3, and every BPE tokenizer.json): a list of pairs in order of rank; of all adjacent
 * pairs the
 *         lowest rank merges first, the leftmost of equal ones.
 * SCORES  (SentencePiece in GGUF): two neighbours merge if their concatenation is a token; the highest score
 * first,
 *         the leftmost of equal ones.
 *
 * A heap with stale-entry checks and a linked list of symbols: O(n log n) time, linear memory. */
#ifndef LM_TEXT_BPE_H
#define LM_TEXT_BPE_H

#include "text/vocab.h"
#include "text/watched.h"

/* id: of left and right together */
typedef struct lm_merge { uint32_t left, right, rank, id; } lm_merge;

typedef struct lm_bpe {
    const lm_vocab *vocab;
    lm_merge       *merges;           /* open addressing; left == UINT32_MAX: empty */
    uint32_t        mask;             /* slots - 1 */
    uint64_t        key;              /* random, so that a file cannot choose its collisions */
    uint32_t        n_merges;
    uint32_t       *rank_of;          /* SCORES: [vocab->n] rank by falling score, equal scores share one;
                                         else NULL */
    lm_token        byte_piece[256];  /* the piece of a byte in the byte alphabet; -1: none */
    lm_token        byte_token[256];  /* "<0x00>" … "<0xFF>"; -1: none */
    lm_token        low_piece[0x600]; /* one-character pieces below U+0600; the others are looked up */
    lm_token        unknown;          /* -1: characters without a piece are dropped */
    bool            fuse_unknown, byte_fallback, ignore_merges;
} lm_bpe;

/* Make the tables from `vocab`, which must be complete. */
void      lm_bpe_init(lm_bpe *b, const lm_vocab *vocab);
void      lm_bpe_free(lm_bpe *b);
/* once, before the first lm_bpe_add */
lm_status lm_bpe_reserve(lm_bpe *b, uint32_t n_merges, lm_error *e);
/* Add a pair of tokens that merges into a third; a later rank for the same pair replaces the earlier one. */
void      lm_bpe_add(lm_bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
/* Use the SCORES form with [vocab->n] finite scores. */
lm_status lm_bpe_scores(lm_bpe *b, const float *scores, lm_error *e);

/* Memory for encoding, reused from word to word. All zero: empty. */
typedef struct lm_bpe_work {
    lm_merge_watch    *watch;         /* NULL: merges are not watched */
    void              *watcher;
    struct lm_bpe_symbol *symbols;
    struct lm_pending *heap;
    size_t            capacity, heap_capacity, n, n_heap;
} lm_bpe_work;

void lm_bpe_work_free(lm_bpe_work *w);

/* Append the ids of one word. `bytes`: the word is raw text to be spelled in the byte alphabet; otherwise its
 * characters are looked up as they are. The word is valid UTF-8, below 2 GiB. */
lm_status lm_bpe_encode(const lm_bpe *b, lm_bpe_work *w, lm_view word, bool bytes, lm_tokens *out,
                        lm_error *e);

#endif
