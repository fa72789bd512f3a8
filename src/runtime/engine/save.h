/* save.h - a sequence in a file, with its tokens and its state in addition to keys and values. File layout:
 * save.c. */
#ifndef LM_RUNTIME_SAVE_H
#define LM_RUNTIME_SAVE_H

#include "runtime/engine/state.h"

typedef struct lm_saved {
    lm_token *ids;                   /* [n] */
    uint32_t  n, n_held, n_prompt;   /* tokens; how many of them the sequence holds, how many are the prompt:
                                        each from the first on */
    uint32_t  stop;                  /* lm_stop */
    double    mirostat;              /* surprise that it allows next, bits; NaN: no mirostat */
} lm_saved;

/* Save a sequence to a file. `t->n_held` must be all positions that the sequence holds. */
lm_status lm_save_text(lm_engine *g, uint32_t sequence, const lm_saved *t, const char *path, lm_error *e);

/* Restore into an empty sequence. The caller frees out->ids: lm_free. n_held <= n <= context + 1, n_prompt <=
 * n, `stop` is one that is delivered without an error. On failure engine and *out are unchanged. */
lm_status lm_restore_text(lm_engine *g, uint32_t sequence, const char *path, lm_saved *out, lm_error *e);

/* Restore in parts, so that a file is read while other sequences step. lm_restore_open reads the head,
 * lm_restore_pages the rest and the checksum: any thread. lm_restore_allocate (LM_LIMIT: too few pages are
 * free; it can be tried again), lm_restore_end and lm_restore_drop: the thread that steps. Between
 * lm_restore_allocate and lm_restore_end the sequence belongs to the restore: no rows of it, no saving, no
 * sharing. `path` must outlive it. Free it with lm_restore_drop, also after a failure. */
typedef struct lm_restoring lm_restoring;

lm_status lm_restore_open(lm_engine *g, uint32_t sequence, const char *path, bool adopts, lm_restoring **out,
                          lm_error *e);
lm_status lm_restore_allocate(lm_restoring *r, lm_error *e);
lm_status lm_restore_pages(lm_restoring *r, lm_error *e);
lm_status lm_restore_end(lm_restoring *r, lm_saved *out, lm_error *e);   /* out->ids: lm_free */
void      lm_restore_drop(lm_restoring *r);

/* Restore like lm_engine_restore, except that the sequence takes the adapters of the file, if the engine has
 * them. */
lm_status lm_restore_adapted(lm_engine *g, uint32_t sequence, const char *path, lm_tokens *tokens,
                             lm_error *e);

/* ---- shared by save.c and restore.c ---- */

#define LM_SAVE_VERSION 4
enum { LM_SAVE_STRING = 16384 };      /* maximum length of a string in a file */

/* The strings that name what the contents depend on. */
enum {
    LM_SAVE_MODEL,
    LM_SAVE_OPTIONS,
    LM_SAVE_ARITHMETIC,
    LM_SAVE_INSTRUCTIONS,
    LM_SAVE_CACHE,
    LM_SAVE_PAGES,
    LM_SAVE_LAMINA,
    LM_SAVE_BINDINGS
};

extern const char lm_save_magic[16];

/* Append the LM_SAVE_BINDINGS strings, each terminated by a NUL. */
lm_status lm_save_bindings(lm_engine *g, lm_text *out, lm_error *e);

lm_status lm_save_check_slot(const lm_engine *g, uint32_t sequence, lm_error *e);

static inline uint32_t lm_save_pages(uint32_t positions)
{
    return (uint32_t)(((uint64_t)positions + LM_PAGE - 1) / LM_PAGE);
}

/* Clear a layer's part of page number `page` from position `slot` of the page on: its entries (states.c). */
void lm_clear_entries(const lm_kv_layer *l, uint8_t *part, uint32_t page, uint32_t slot);

#endif
