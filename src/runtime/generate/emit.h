/* emit.h - turn tokens into the text that may be delivered: whole characters, and nothing that may still
 * become a stop string. */
#ifndef LM_RUNTIME_EMIT_H
#define LM_RUNTIME_EMIT_H

#include "lamina/text.h"

/* All zero: no text. */
typedef struct lm_emit {
    lm_stream         *stream;
    const char *const *stops;            /* NULL-ended, or NULL; not owned */
    lm_text            pending;          /* `ready` bytes that may be delivered, then those that are held
                                            back */
    size_t             ready;
    bool               taken;            /* the ready bytes have been taken */
    bool               closed;           /* a stop string ended the text */
    int32_t            stopped_by;       /* index of that stop string; -1: none */
    const lm_tokenizer *tokenizer;
    const lm_token    *shown;            /* [n_shown]: special tokens that are part of the text anyway; not
                                            owned */
    size_t             n_shown;
} lm_emit;

/* Start an empty text and close the one that was open. `t` NULL: no text. */
lm_status lm_emit_open(lm_emit *x, const lm_tokenizer *t, bool special, const char *const *stops,
                       lm_error *e);
void      lm_emit_close(lm_emit *x);

/* Set the special tokens that are part of every text until lm_emit_close. */
void      lm_emit_show(lm_emit *x, const lm_token *shown, size_t n);

/* Add a token. *stopped: a stop string has ended the text. */
lm_status lm_emit_push(lm_emit *x, lm_token id, bool *stopped, lm_error *e);

/* End the text after its last token: nothing is held back. */
lm_status lm_emit_end(lm_emit *x, lm_error *e);

/* Return what may be delivered and was not taken yet, valid until the next token; *size 0: nothing. */
const char *lm_emit_take(lm_emit *x, size_t *size);

#endif
