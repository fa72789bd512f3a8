/* save.h - a sequence in a file, with its tokens and state besides keys and values. Layout of the file: save.c. */
#ifndef LM_RUNTIME_SAVE_H
#define LM_RUNTIME_SAVE_H

#include "runtime/engine/state.h"

typedef struct lm_saved {
    lm_token *ids;                   /* [n] */
    uint32_t  n, n_held, n_prompt;   /* tokens; of which the sequence holds the first; of which were given */
    uint32_t  stop;                  /* lm_stop */
    double    mirostat;              /* surprise that it allows next, bits; NaN: no mirostat */
} lm_saved;

/* `t->n_held` is all that the sequence holds. */
lm_status lm_save_text(lm_engine *g, uint32_t sequence, const lm_saved *t, const char *path, lm_error *e);

/* Into an empty sequence. out->ids is the caller's: lm_free. n_held <= n <= context + 1, n_prompt <= n, `stop` is one that is delivered
 * without an error. On failure engine and *out are as before. */
lm_status lm_restore_text(lm_engine *g, uint32_t sequence, const char *path, lm_saved *out, lm_error *e);

/* In parts, so that a file is read beside steps of other sequences. _open reads the head, _pages the rest and the checksum: any thread.
 * _hold (LM_LIMIT: too few pages are free, to be tried again), _end and _drop: the thread that steps. Between _hold and _end the sequence
 * is the restoring's: no rows of it, nothing saved or shared. `path` must outlive it. After a failure: _drop. */
typedef struct lm_restoring lm_restoring;

lm_status lm_restore_open(lm_engine *g, uint32_t sequence, const char *path, bool adopts, lm_restoring **out, lm_error *e);
lm_status lm_restore_hold(lm_restoring *r, lm_error *e);
lm_status lm_restore_pages(lm_restoring *r, lm_error *e);
lm_status lm_restore_end(lm_restoring *r, lm_saved *out, lm_error *e);   /* out->ids: lm_free */
void      lm_restore_drop(lm_restoring *r);

/* As lm_engine_restore; but the sequence takes the adapters that the file's had, where the engine has them. */
lm_status lm_restore_adapted(lm_engine *g, uint32_t sequence, const char *path, lm_tokens *tokens, lm_error *e);

/* ---- what save.c and restore.c share ---- */

#define LM_SAVE_VERSION 4
enum { LM_SAVE_STRING = 16384 };      /* longest string that a file has */

/* What the contents depend on. */
enum { LM_SAVE_MODEL, LM_SAVE_OPTIONS, LM_SAVE_ARITHMETIC, LM_SAVE_INSTRUCTIONS, LM_SAVE_CACHE, LM_SAVE_PAGES, LM_SAVE_LAMINA,
       LM_SAVE_BINDINGS };

extern const char lm_save_magic[16];

/* LM_SAVE_BINDINGS strings, each ended by a NUL. */
lm_status lm_save_bindings(lm_engine *g, lm_text *out, lm_error *e);

lm_status lm_save_check_slot(const lm_engine *g, uint32_t sequence, lm_error *e);

static inline uint32_t lm_save_pages(uint32_t positions)
{
    return (uint32_t)(((uint64_t)positions + LM_PAGE - 1) / LM_PAGE);
}

#endif
