/* trie.h - the bytes of a vocabulary's tokens as a trie in depth-first order. */
#ifndef LM_GRAMMAR_TRIE_H
#define LM_GRAMMAR_TRIE_H

#include "lamina/grammar.h"

enum {
    LM_TRIE_DEPTH = 512,             /* longer tokens (mostly runs of white space) are never allowed */
    LM_TRIE_SHORT = 32,              /* token lengths below which `up_to` has a mask */
};

struct lm_vocabulary {
    uint32_t   refs;                 /* atomic */
    uint32_t   size, n_words;        /* tokens; 64-bit words of a mask */
    uint32_t   n;                    /* nodes, in depth-first order: the first child of node i is i + 1 if
                                        that is deeper */
    uint8_t   *byte;                 /* [n] */
    uint16_t  *depth;                /* [n] from 0 */
    uint32_t  *skip;                 /* [n] the first node that is not below this one */
    uint32_t  *first;                /* [n + 1] index in `ids` of the first token that ends at this node */
    lm_token  *ids;                  /* sorted by their bytes */
    uint32_t  *text_at;              /* [size + 1] offset of each token's bytes in `text`; tokens without
                                        bytes are empty */
    uint8_t   *text;
    uint8_t   *special;              /* [size] bit 0: control token; bit 1: end-of-text token */
    lm_token  *ends;
    uint32_t   n_ends, longest;
    uint16_t  *deepest;              /* [n] bytes of the longest token at or below the node */
    lm_token  *by_length;            /* like `ids`, longest first */
    uint32_t   n_ids;
    uint64_t  *up_to;                /* [LM_TRIE_SHORT][n_words] tokens of at most that many bytes */
};

enum { LM_TOKEN_CONTROL = 1, LM_TOKEN_ENDS = 2 };

lm_vocabulary *lm_vocabulary_ref(const lm_vocabulary *v);       /* add a reference */

#endif
