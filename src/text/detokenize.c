/* detokenize.c - convert ids to text, at once and as a stream. */
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "text/bytelevel.h"
#include "text/token_bytes.h"
#include "text/tokenizer.h"

struct lm_stream {
    const lm_tokenizer *t;
    unsigned            flags;
    bool                continues;
    bool                whole_runs;     /* byte tokens are held until their run ends (lm_detokenize) */
    bool                any, written;   /* a piece has been seen; text has been written */
    uint32_t            stripped;       /* characters taken from the start */
    uint32_t            tail;           /* characters held back because they may be the end */
    lm_text              held;           /* bytes that do not form a character yet */
    lm_text              piece, other;   /* memory for the current piece */
};

void lm_decoder_free(lm_detokenizer_rule *d)
{
    for (unsigned i = 0; i < d->n; i++)
        lm_regex_free(d->steps[i].pattern);
    *d = (lm_detokenizer_rule){ 0 };
}

/* ---- writing ---- */
static lm_status append(lm_text *out, const char *s, size_t n, lm_error *e)
{
    return lm_text_append(out, s, n, "the text", e);
}

/* On failure, cut `out` back to its earlier size. */
static lm_status whole(lm_text *out, size_t before, lm_status status)
{
    if (status != LM_OK)
        lm_text_cut(out, before);
    return status;
}

/* Write valid text: drop the characters to strip at the start, and hold back those that may have to be
 * stripped at the end. */
static lm_status emit(lm_stream *s, const char *text, size_t n, lm_text *out, lm_error *e)
{
    const lm_detokenizer_rule *d     = &s->t->decoder;
    lm_view           strip = d->strip;

    if (n == 0)
        return LM_OK;
    if (!s->continues && !s->written)
        while (s->stripped < d->start && lm_view_starts((lm_view){ text, n }, strip)) {
            text += strip.size;
            n    -= strip.size;
            s->stripped++;
        }
    if (n == 0)
        return LM_OK;
    s->written = true;
    size_t tail = 0;
    while (tail < d->stop && lm_view_ends((lm_view){ text, n - tail * strip.size }, strip))
        tail++;
    bool only_tail = tail * strip.size == n;
    while (s->tail > 0 && (!only_tail || s->tail + tail > d->stop)) {
        LM_TRY(append(out, strip.data, strip.size, e));
        s->tail--;
    }
    s->tail += (uint32_t)tail;
    return append(out, text, n - tail * strip.size, e);
}

/* ---- bytes to characters ---- */
/* Write the held bytes that are certain. `each`: one U+FFFD per bad byte, otherwise one per ill-formed
 * subpart. `end`: no more bytes follow. */
static lm_status drain(lm_stream *s, bool each, bool end, lm_text *out, lm_error *e)
{
    size_t at = 0, n = s->held.size;

    while (at < n) {
        size_t good = lm_utf8_valid_prefix(s->held.data + at, n - at);

        LM_TRY(emit(s, s->held.data + at, good, out, e));
        at += good;
        if (at == n)
            break;
        lm_utf8 c = lm_utf8_next(s->held.data + at, n - at);
        if (c.state == LM_UTF8_CUT && !end)
            break;
        for (unsigned i = 0; i < (each ? c.size : 1u); i++)
            LM_TRY(emit(s, LM_REPLACEMENT, 3, out, e));
        at += c.size;
    }
    if (at)
        memmove(s->held.data, s->held.data + at, n - at);
    s->held.size = n - at;
    return LM_OK;
}

/* End a run of byte tokens. With `whole_runs`, as in the reference, the run is text only if all of it is
 * valid UTF-8. */
static lm_status end_run(lm_stream *s, lm_text *out, lm_error *e)
{
    size_t n = s->held.size;

    if (!s->whole_runs || n == 0 || lm_utf8_valid_prefix(s->held.data, n) == n)
        return drain(s, true, true, out, e);
    s->held.size = 0;
    for (size_t i = 0; i < n; i++)
        LM_TRY(emit(s, LM_REPLACEMENT, 3, out, e));
    return LM_OK;
}

/* Return the byte that "<0x41>" represents, or -1. */
static int byte_of(lm_view s)
{
    if (s.size != 6 || memcmp(s.data, "<0x", 3) != 0 || s.data[5] != '>' || lm_hex_digit(s.data[3]) < 0 ||
        lm_hex_digit(s.data[4]) < 0)
        return -1;
    return lm_hex_digit(s.data[3]) << 4 | lm_hex_digit(s.data[4]);
}

/* ---- one piece ---- */
static lm_view strip_ends(const lm_decode_step *step, lm_view s)
{
    for (uint32_t i = 0; i < step->start && lm_view_starts(s, step->text); i++) {
        s.data += step->text.size;
        s.size -= step->text.size;
    }
    for (uint32_t i = 0; i < step->stop && lm_view_ends(s, step->text); i++)
        s.size -= step->text.size;
    return s;
}

/* Apply one step: write `in`, rewritten, to `out`. */
static lm_status take_step(lm_stream *s, const lm_decode_step *step, lm_view in, lm_text *out, lm_error *e)
{
    lm_matches matches = { .regex = step->pattern, .subject = in };    /* a literal: needs no memory */
    size_t     at      = 0, size;
    lm_match   m       = { 0 };

    switch (step->kind) {
    case LM_DECODE_REPLACE:
        while (in.size > 0) {
            LM_TRY(lm_matches_next(&matches, &m, e));
            if (!m.found)
                break;
            lm_text_add(out, in.data + at, m.from - at);
            lm_text_add_view(out, step->text);
            at = m.to;
        }
        lm_text_add(out, in.data + at, in.size - at);
        break;
    case LM_DECODE_STRIP:
        lm_text_add_view(out, strip_ends(step, in));
        break;
    case LM_DECODE_METASPACE:
        for (; at < in.size; at += size) {
            lm_utf8_decode(in.data + at, &size);
            if (!lm_view_equal((lm_view){ in.data + at, size }, step->text))
                lm_text_add(out, in.data + at, size);
            else if (s->any || s->continues || !step->drop_first)
                lm_text_add_char(out, ' ');
        }
        break;
    }
    return LM_OK;
}

/* Apply all steps to a piece; *out is a view of the piece itself, of s->piece or of s->other. */
static lm_status take_steps(lm_stream *s, const lm_vocab_piece *p, lm_view *out, lm_error *e)
{
    const lm_detokenizer_rule *d   = &s->t->decoder;
    lm_text          *now = &s->piece, *next = &s->other;

    *out = (lm_view){ p->text, p->size };
    for (unsigned i = 0; i < d->n; i++) {
        lm_text_clear(next);
        LM_TRY(take_step(s, &d->steps[i], *out, next, e));
        if (!lm_text_reserve(next, 0) || next->failed)
            return lm_fail_memory(e, "a piece", p->size);
        *out         = lm_text_view(next);
        lm_text *old = now;
        now          = next;
        next         = old;
    }
    return LM_OK;
}

/* Return whether a piece is spelled as plain text although the others are spelled in the byte alphabet. */
static bool is_raw(const lm_detokenizer_rule *d, const lm_vocab_piece *p)
{
    return d->raw_added &&
           (p->type == LM_PIECE_CONTROL || p->type == LM_PIECE_USER || p->type == LM_PIECE_UNKNOWN);
}

static lm_status decode_piece(lm_stream *s, const lm_vocab_piece *p, lm_text *out, lm_error *e)
{
    const lm_detokenizer_rule *d = &s->t->decoder;
    lm_view           text;

    LM_TRY(take_steps(s, p, &text, e));
    if (d->spaced && s->any)
        LM_TRY(emit(s, " ", 1, out, e));
    s->any = true;
    if (d->bytelevel) {
        if (is_raw(d, p))
            lm_text_add_view(&s->held, text);
        else
            lm_bytelevel_read(&s->held, text.data, text.size);
        return s->held.failed ? lm_fail_memory(e, "a piece", p->size) : drain(s, false, false, out, e);
    }
    int byte = d->fallback ? byte_of(text) : -1;
    if (byte >= 0) {
        lm_text_add_char(&s->held, (char)byte);
        if (s->held.failed)
            return lm_fail_memory(e, "a piece", p->size);
        return s->whole_runs ? LM_OK : drain(s, true, false, out, e);
    }
    LM_TRY(end_run(s, out, e));
    return emit(s, text.data, text.size, out, e);
}

/* ---- the public functions ---- */
lm_status lm_stream_new(const lm_tokenizer *t, unsigned flags, bool continues, lm_stream **out, lm_error *e)
{
    LM_REQUIRE(e, t && out);
    lm_stream *s = lm_alloc_zero(1, sizeof *s);

    if (!s)
        return lm_fail_memory(e, "a stream", sizeof *s);
    s->t         = t;
    s->flags     = flags;
    s->continues = continues;
    if (!lm_text_reserve(&s->held, t->vocab.longest) || !lm_text_reserve(&s->piece, t->vocab.longest) ||
        !lm_text_reserve(&s->other, t->vocab.longest)) {
        lm_stream_free(s);
        return lm_fail_memory(e, "a stream", t->vocab.longest);
    }
    *out = s;
    return LM_OK;
}

lm_status lm_stream_push(lm_stream *s, lm_token id, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, s && out);
    const lm_vocab *v = &s->t->vocab;

    if (id < 0 || (uint32_t)id >= v->n)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "token id %d is outside the vocabulary of %u", id,
                       v->n);
    const lm_vocab_piece *p = &v->pieces[id];
    if (!p->text || ((s->flags & LM_SKIP_SPECIAL) && p->special))
        return LM_OK;
    const size_t before = out->size;
    return whole(out, before, decode_piece(s, p, out, e));
}

lm_status lm_stream_end(lm_stream *s, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, s && out);
    const size_t before = out->size;
    lm_status    status = s->t->decoder.bytelevel ? drain(s, false, true, out, e) : end_run(s, out, e);

    s->tail = 0;
    return whole(out, before, status);
}

void lm_stream_free(lm_stream *s)
{
    if (!s)
        return;
    lm_text_free(&s->held);
    lm_text_free(&s->piece);
    lm_text_free(&s->other);
    lm_free(s);
}

lm_status lm_detokenize(const lm_tokenizer *t, const lm_token *ids, size_t n, unsigned flags, lm_text *out,
                        lm_error *e)
{
    LM_REQUIRE(e, t && (ids || !n) && out);
    const size_t before = out->size;
    lm_stream   *s;

    LM_TRY(lm_stream_new(t, flags, false, &s, e));
    s->whole_runs    = true;
    lm_status status = append(out, "", 0, e);
    for (size_t i = 0; i < n && status == LM_OK; i++)
        status = lm_stream_push(s, ids[i], out, e);
    if (status == LM_OK)
        status = lm_stream_end(s, out, e);
    lm_stream_free(s);
    return whole(out, before, status);
}

lm_status lm_token_spelled(const lm_tokenizer *t, lm_token id, bool *text, lm_text *out, lm_error *e)
{
    lm_stream s = { .t = t, .continues = true, .any = true };
    lm_view   piece;

    *text = lm_vocab_has(&t->vocab, id) && !t->vocab.pieces[id].special &&
            t->vocab.pieces[id].type != LM_PIECE_CONTROL && t->vocab.pieces[id].type != LM_PIECE_UNKNOWN &&
            t->vocab.pieces[id].type != LM_PIECE_UNUSED;
    if (!*text)
        return LM_OK;
    const lm_vocab_piece *p = &t->vocab.pieces[id];
    const lm_detokenizer_rule *d = &t->decoder;
    lm_status         status = take_steps(&s, p, &piece, e);
    if (status == LM_OK) {
        int byte = d->fallback && !d->bytelevel ? byte_of(piece) : -1;
        if (d->spaced)
            lm_text_add_char(out, ' ');
        if (byte >= 0)
            lm_text_add_char(out, (char)byte);
        else if (d->bytelevel && !is_raw(d, p))
            lm_bytelevel_read(out, piece.data, piece.size);
        else
            lm_text_add_view(out, piece);
        if (out->failed)
            status = lm_fail_memory(e, "a piece", p->size);
    }
    lm_text_free(&s.piece);
    lm_text_free(&s.other);
    return status;
}

lm_status lm_token_bytes(const lm_tokenizer *t, lm_token id, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, t && out);
    const size_t before = out->size;
    bool         text;

    if (id < 0 || (uint32_t)id >= t->vocab.n)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "token id %d is outside the vocabulary of %u", id,
                       t->vocab.n);
    lm_status status = lm_token_spelled(t, id, &text, out, e);
    if (status == LM_OK && !text && t->vocab.pieces[id].text)
        status = append(out, t->vocab.pieces[id].text, t->vocab.pieces[id].size, e);
    return whole(out, before, status);
}
