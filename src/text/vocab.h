/* vocab.h - the pieces of a vocabulary, by id and by spelling. */
#ifndef LM_TEXT_VOCAB_H
#define LM_TEXT_VOCAB_H

#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "base/str.h"
#include "lamina/text.h"

enum {
    LM_MAX_VOCAB = 1 << 24,
    LM_MAX_PIECE = 1 << 16,     /* bytes */
};

/* Token types, numbered as in GGUF. */
typedef enum lm_piece_type {
    LM_PIECE_NORMAL = 1, LM_PIECE_UNKNOWN, LM_PIECE_CONTROL, LM_PIECE_USER, LM_PIECE_UNUSED, LM_PIECE_BYTE,
} lm_piece_type;

typedef struct lm_vocab_piece {
    const char *text;           /* NUL-terminated; NULL: no such token (padding, a hole in the numbering) */
    uint32_t    size;
    uint8_t     type;           /* lm_piece_type */
    bool        special;        /* left out by LM_SKIP_SPECIAL */
    bool        end;            /* ends a generation */
    bool        outside;        /* an added token, not part of the model: merging never produces it */
} lm_vocab_piece;

typedef struct lm_vocab {
    lm_arena  arena;
    lm_vocab_piece *pieces;
    uint32_t  n, capacity;      /* ids are below n */
    uint32_t  longest;          /* bytes of the longest piece */
    lm_map   *ids;
} lm_vocab;

lm_status lm_vocab_init(lm_vocab *v, uint32_t expected, lm_error *e);
void      lm_vocab_free(lm_vocab *v);

/* Make space for ids below n; new ones have no token. */
lm_status lm_vocab_grow(lm_vocab *v, uint32_t n, lm_error *e);

/* Give an id its spelling (copied). LM_BAD_MODEL, naming `where`: the id or the spelling is taken, the
 * spelling is empty or too long, the id too large. */
lm_status lm_vocab_add(lm_vocab *v, uint32_t id, lm_view text, lm_piece_type type, const char *where,
                       lm_error *e);

/* Return the id of a piece; -1: no such piece. */
lm_token lm_vocab_find(const lm_vocab *v, lm_view text);

static inline bool lm_vocab_has(const lm_vocab *v, lm_token id)
{
    return id >= 0 && (uint32_t)id < v->n && v->pieces[id].text;
}

#endif
