/* emit.c - hold back text that a stop string, an end or an incomplete character may still claim, and emit
 * the rest. */
#include "runtime/generate/emit.h"

#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "runtime/generate/stops.h"

static size_t longest(const char *const *stops)
{
    size_t max = 0;

    for (size_t i = 0; stops && stops[i]; i++)
        max = strlen(stops[i]) > max ? strlen(stops[i]) : max;
    return max;
}

lm_status lm_emit_open(lm_emit *x, const lm_tokenizer *t, bool special, const char *const *stops, lm_error *e)
{
    enum { PIECE = 256 };                                /* most tokens are shorter */
    lm_stream *stream = NULL;

    if (t) {
        LM_TRY(lm_stream_new(t, special ? 0 : LM_SKIP_SPECIAL, true, &stream, e));
        if (!lm_text_reserve(&x->pending, longest(stops) + PIECE)) {
            lm_stream_free(stream);
            return lm_fail_memory(e, "the text", longest(stops) + PIECE);
        }
    }
    lm_stream_free(x->stream);
    lm_text_clear(&x->pending);
    x->stream = stream;
    x->stops  = stops;
    x->tokenizer = t;
    x->ready  = 0;
    x->stopped_by = -1;
    x->closed = x->taken = false;
    return LM_OK;
}

void lm_emit_close(lm_emit *x)
{
    lm_stream_free(x->stream);
    lm_text_free(&x->pending);
    *x = (lm_emit){ 0 };
}

void lm_emit_show(lm_emit *x, const lm_token *shown, size_t n)
{
    x->shown   = shown;
    x->n_shown = n;
}

/* Append a special token as the vocabulary spells it, if it is to be shown; the stream outputs nothing for
 * it. */
static void show(lm_emit *x, lm_token id)
{
    size_t      size;
    const char *piece;

    for (size_t i = 0; i < x->n_shown; i++)
        if (x->shown[i] == id && lm_tokenizer_is_special(x->tokenizer, id) &&
            (piece = lm_tokenizer_piece(x->tokenizer, id, &size)))
            lm_text_add(&x->pending, piece, size);
}

static void drop_ready(lm_emit *x)
{
    if (x->ready)
        memmove(x->pending.data, x->pending.data + x->ready, x->pending.size - x->ready);
    x->pending.size -= x->ready;
    x->ready = 0;
    x->taken = false;
}

/* Return the index of the stop string at `at`; -1: none. */
static int32_t stop_at(const lm_emit *x, size_t at)
{
    for (int32_t i = 0; x->stops && x->stops[i]; i++) {
        size_t n = strlen(x->stops[i]);
        if (n && n <= x->pending.size - at && memcmp(x->pending.data + at, x->stops[i], n) == 0)
            return i;
    }
    return -1;
}

/* Find how much of the pending text may be delivered now. */
static void scan(lm_emit *x, bool last, bool *stopped)
{
    x->ready = lm_stop_scan(x->stops, x->pending.data, x->pending.size, last, stopped);
    if (!*stopped)
        return;
    x->closed       = true;
    x->stopped_by   = stop_at(x, x->ready);
    x->pending.size = x->ready;                          /* the stop string and what follows it are never
                                                            delivered */
}

lm_status lm_emit_push(lm_emit *x, lm_token id, bool *stopped, lm_error *e)
{
    *stopped = false;
    if (!x->stream || x->closed)
        return LM_OK;
    drop_ready(x);
    LM_TRY(lm_stream_push(x->stream, id, &x->pending, e));
    show(x, id);
    scan(x, false, stopped);
    return LM_OK;
}

lm_status lm_emit_end(lm_emit *x, lm_error *e)
{
    bool stopped;

    if (!x->stream || x->closed)
        return LM_OK;
    x->closed = true;
    drop_ready(x);
    LM_TRY(lm_stream_end(x->stream, &x->pending, e));
    scan(x, true, &stopped);
    return LM_OK;
}

const char *lm_emit_take(lm_emit *x, size_t *size)
{
    *size    = x->taken ? 0 : x->ready;
    x->taken = true;
    return x->pending.data;
}
