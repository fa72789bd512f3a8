/* trie.h - the bytes of a vocabulary's tokens, as a tree in the order of its walk. */
#ifndef LM_GRAMMAR_TRIE_H
#define LM_GRAMMAR_TRIE_H

#include "lamina/grammar.h"

enum {
    LM_TRIE_DEPTH = 512,             /* longer tokens (runs of blanks, mostly) are never offered */
    LM_TRIE_SHORT = 32,              /* lengths up to which the tokens that are no longer are known as masks */
};

struct lm_vocabulary {
    uint32_t   refs;                 /* atomic */
    uint32_t   size, n_words;        /* tokens; 64-bit words of a mask */
    uint32_t   n;                    /* nodes, in depth-first order: node i's first child is i + 1 where that is deeper */
    uint8_t   *byte;                 /* [n] */
    uint16_t  *depth;                /* [n] from 0 */
    uint32_t  *skip;                 /* [n] the first node that is not below this one */
    uint32_t  *first;                /* [n + 1] where the tokens that end at this node begin in `ids` */
    lm_token  *ids;                  /* sorted by their bytes */
    uint32_t  *text_at;              /* [size + 1] the bytes of each token in `text`; nothing where it has none */
    uint8_t   *text;
    uint8_t   *special;              /* [size] bit 0: a control token; bit 1: ends a text */
    lm_token  *ends;
    uint32_t   n_ends, longest;
    uint16_t  *deepest;              /* [n] bytes of the longest token at or below the node */
    lm_token  *by_length;            /* as `ids`, the longest first */
    uint32_t   n_ids;
    uint64_t  *up_to;                /* [LM_TRIE_SHORT][n_words] tokens of at most so many bytes */
};

enum { LM_TOKEN_CONTROL = 1, LM_TOKEN_ENDS = 2 };

const lm_vocabulary *lm_vocabulary_keep(const lm_vocabulary *v);      /* one more owner */

#endif
