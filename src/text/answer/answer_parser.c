/* answer_parser.c - split an answer, as it arrives, into reasoning, content and calls.
 *
 * Only what no continuation can change is emitted. Text that may be the start of a mark is held back; a call
 * is held back until it is complete (or, if a grammar guarantees that it will be, what of its arguments may
 * change). */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "text/answer/answer_parser.h"

enum { MAX_MARKS = 40, GROWTH = 128 };

/* ---- marks ---- */

static bool is_one_of(const char *mark, const char *const *list)
{
    for (size_t i = 0; list && list[i]; i++)
        if (list[i] == mark)
            return true;
    return false;
}

/* Return whether the buffer begins with the mark or with a prefix of it, ignoring leading white space. */
static bool may_begin_with(const lm_answer *a, const char *mark)
{
    lm_reader r = { a->buffer.data, a->buffer.size, 0, false };

    lm_reader_space(&r);
    return lm_reader_mark(&r, mark) != LM_READ_NONE;
}

/* Collect the marks that have a meaning in the current mode. */
static void marks_of(const lm_answer *a, const char *out[MAX_MARKS])
{
    const lm_answer_family *f = a->style.family;
    size_t n = 0;

    for (size_t i = 0; a->o.ends && a->o.ends[i] && n < 16; i++)
        out[n++] = a->o.ends[i];
    if (a->f && a->f->section.open)
        out[n++] = a->f->section.open;
    for (size_t i = 0; a->f && i < LM_FAMILY_ALSO && a->f->also[i].open; i++)
        out[n++] = a->f->also[i].open;
    if (a->f && a->f->call.open)
        out[n++] = a->f->call.open;
    if (!a->o.keep_reasoning && a->style.reasoning) {
        if (a->mode == LM_MODE_REASONING)
            out[n++] = a->style.reasoning_end;
        else if (!a->text_begun && may_begin_with(a, a->style.reasoning))
            out[n++] = a->style.reasoning;
    }
    for (size_t i = 0; f && a->mode == LM_MODE_TEXT && i < LM_FAMILY_DROPS && f->drops[i]; i++)
        out[n++] = f->drops[i];
    out[n] = NULL;
}

/* ---- calls ---- */

static void to_calls(lm_answer *a, bool section)
{
    a->before     = a->mode;
    a->mode       = LM_MODE_CALLS;
    a->section    = section;
    a->close      = a->f->section.close;
    a->in_section = 0;
    lm_text_clear(&a->raw);
}

static void calls_over(lm_answer *a)
{
    a->mode = a->before = LM_MODE_TEXT;
    lm_text_clear(&a->raw);
}

/* Content follows the calls. The white space between them belongs to it: [n] of the buffer. */
static void content_follows(lm_answer *a, size_t n)
{
    size_t from = n;

    if (a->cut)                                          /* the rest is part of a call or of a mark */
        from = n = a->buffer.size;
    while (!a->cut && from && strchr(" \t\r\n", a->buffer.data[from - 1]))
        from--;
    lm_answer_emit_text(a, false, a->buffer.data + from, n - from);
    lm_answer_consume(a, n);
    calls_over(a);
}

/* Emit what has been held back as text after all: at least one byte of it; what follows is examined again. */
static void not_a_call(lm_answer *a, size_t n)
{
    bool reasoning = a->before == LM_MODE_REASONING;

    if (a->ending && (a->n_calls || a->cut)) {           /* a further call that was cut off is neither a call
                                                            nor text */
        lm_text_clear(&a->raw);
        lm_answer_consume(a, a->buffer.size);
        a->mode = LM_MODE_TEXT;
        return;
    }
    a->mode = a->in_section ? LM_MODE_TEXT : a->before;
    if (a->raw.size) {
        lm_answer_emit_text(a, reasoning && !a->in_section, a->raw.data, a->raw.size);
    } else if (a->buffer.size) {
        if (!n || n > a->buffer.size)
            n = 1;
        lm_answer_emit_text(a, reasoning && !a->in_section, a->buffer.data, n);
        lm_answer_consume(a, n);
    }
    lm_text_clear(&a->raw);
    if (a->mode == LM_MODE_TEXT)
        a->text_begun = true;
}

static bool separates(const lm_answer *a, char c)
{
    const char *close = a->close;

    if (c == ']' && close && strcmp(close, "]") == 0)
        return false;
    if (c == '[' || c == ']')
        return a->section && a->f->form != LM_FORM_NAMED && a->f->form != LM_FORM_TAGGED &&
               a->f->form != LM_FORM_NESTED;
    return c && strchr(" \t\r\n,;", c);
}

/* Handle the end of the output where a call was due: without any call, all of it is text. Returns whether
 * text is left. */
static bool end_calls(lm_answer *a)
{
    if (!a->in_section && a->section) {
        not_a_call(a, a->buffer.size);
        return a->buffer.size;
    }
    calls_over(a);
    lm_answer_consume(a, a->buffer.size);
    return false;
}

/* Read the mark that closes a section of calls. LM_READ_DONE: it was read after a call, and the calls are
 * over. */
static lm_answer_reading close_section(lm_answer *a, lm_reader *r)
{
    lm_reader from = *r;
    lm_answer_reading was = LM_READ_NONE;

    if ((a->section || a->in_section) && a->close)
        was = lm_reader_mark(r, a->close);
    if (was == LM_READ_DONE && a->in_section) {
        lm_answer_consume(a, r->at);
        calls_over(a);
        return LM_READ_DONE;
    }
    *r = from;
    return was == LM_READ_MORE ? was : LM_READ_NONE;
}

/* Handle text where a call was due. `begun`: its opening mark was read. */
static void no_call_follows(lm_answer *a, size_t skipped, bool begun)
{
    const lm_answer_family *f = a->f;

    if (a->in_section && !f->call.open && !a->close) {
        content_follows(a, skipped);
    } else if (begun && f->prompted && !a->text_begun && !a->n_calls) {
        lm_answer_consume(a, a->cut ? a->buffer.size : strlen(f->call.open));        /* the prompt's own */
        calls_over(a);
    } else {
        not_a_call(a, skipped + (begun && f->call.open ? strlen(f->call.open) : 1));
    }
}

static bool step_calls(lm_answer *a, bool final)
{
    lm_reader r = { a->buffer.data, a->buffer.size, 0, final };
    lm_answer_reading was;

    while (r.at < r.n && separates(a, r.s[r.at]))
        r.at++;
    size_t skipped = r.at;
    if (r.at == r.n) {
        return final && end_calls(a);
    }
    if ((was = close_section(a, &r)) != LM_READ_NONE)
        return was == LM_READ_DONE;
    if (a->in_section && a->f->between && (was = lm_reader_mark(&r, a->f->between)) != LM_READ_NONE) {
        lm_answer_consume(a, was == LM_READ_DONE ? r.at : 0);
        return was == LM_READ_DONE;
    }
    was = a->f->call.open ? lm_reader_mark(&r, a->f->call.open) : LM_READ_DONE;
    bool begun = was == LM_READ_DONE;
    if (begun) {
        lm_reader_space(&r);
        was = lm_answer_read_call(a, &r);
    } else if (was == LM_READ_NONE && a->in_section && !(a->section && a->close)) {
        content_follows(a, skipped);
        return true;
    }
    if (was == LM_READ_MORE)
        return false;
    if (was == LM_READ_NONE) {
        no_call_follows(a, skipped, begun);
        return true;
    }
    a->in_section++;
    lm_text_clear(&a->raw);
    lm_answer_consume(a, r.at);
    return true;
}

/* ---- text ---- */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Return whether the answer begins like a call of a family without an opening mark. */
static bool begins_bare(lm_answer *a)
{
    size_t at = 0;

    if (!a->f || !a->f->bare || a->text_begun || a->n_calls || a->mode != LM_MODE_TEXT)
        return false;
    while (at < a->buffer.size && strchr(" \t\r\n", a->buffer.data[at]) && a->buffer.data[at])
        at++;
    for (size_t i = 0; i < LM_FAMILY_ALSO && a->f->also[i].open; i++) {  /* it may begin with a bracket */
        lm_reader r = { a->buffer.data, a->buffer.size, at, false };
        if (at < a->buffer.size && lm_reader_mark(&r, a->f->also[i].open) != LM_READ_NONE)
            return false;
    }
    return at < a->buffer.size && strchr(a->f->form == LM_FORM_PYTHON ? "[" : "{[", a->buffer.data[at]) &&
           a->buffer.data[at];
}

/* Return whether the mark at the start of the buffer, inside reasoning, begins a call: LM_READ_DONE if the
 * output ends without the mark that ends reasoning. A call that this mark follows is quoted. */
static lm_answer_reading call_ends_reasoning(lm_answer *a, size_t mark, bool section, bool final)
{
    const char *const ends[] = { a->style.reasoning_end, NULL }, *end;
    lm_reader r = { a->buffer.data, a->buffer.size, mark, final };
    lm_answer_reading was = LM_READ_DONE;
    size_t at;

    lm_reader_space(&r);
    if (section && a->f->call.open) {
        was = lm_reader_mark(&r, a->f->call.open);
        lm_reader_space(&r);
    } else if (section && r.at < r.n && r.s[r.at] == '[') {
        r.at++;
        lm_reader_space(&r);
    }
    if (was == LM_READ_DONE)
        was = lm_call_read(a->f, &a->o, &r, &a->call);
    if (was == LM_READ_NONE && a->cut && final)
        return LM_READ_DONE;
    if (was != LM_READ_DONE)
        return was;
    lm_answer_find(a->buffer.data, a->buffer.size, ends, true, &at, &end);
    return end ? LM_READ_NONE : final ? LM_READ_DONE : LM_READ_MORE;
}

/* Handle a mark that begins calls. `section`: it is around all of them. */
static bool begin_calls(lm_answer *a, const char *mark, bool section, bool final)
{
    lm_answer_reading was = LM_READ_DONE;

    if (a->mode == LM_MODE_REASONING)
        was = call_ends_reasoning(a, strlen(mark), section, final);
    if (was == LM_READ_MORE)
        return false;
    if (was == LM_READ_NONE) {
        lm_answer_emit_text(a, true, mark, strlen(mark));
        lm_answer_consume(a, strlen(mark));
        return true;
    }
    to_calls(a, section);
    for (size_t i = 0; i < LM_FAMILY_ALSO; i++)
        if (mark == a->f->also[i].open)
            a->close = a->f->also[i].close;
    if (!section)
        return true;
    if (a->space.size && !a->edge)
        lm_text_add(&a->raw, a->space.data, a->space.size), lm_text_clear(&a->space);
    lm_text_add_str(&a->raw, mark);
    lm_answer_consume(a, strlen(mark));
    return true;
}

static bool is_section(const lm_answer_family *f, const char *mark)
{
    bool is = mark == f->section.open;

    for (size_t i = 0; i < LM_FAMILY_ALSO; i++)
        is |= mark == f->also[i].open;
    return is;
}

static bool step_text(lm_answer *a, bool final)
{
    const char *marks[MAX_MARKS], *mark;
    size_t at;

    if (begins_bare(a)) {
        to_calls(a, true);
        return true;
    }
    marks_of(a, marks);
    lm_answer_find(a->buffer.data, a->buffer.size, marks, final && !a->n_calls && !a->cut, &at, &mark);
    if (final && a->cut && !a->n_calls && !mark && is_word(a->buffer.data[at < a->buffer.size ? at : 0]))
        at = a->buffer.size;                             /* part of a mark that begins like a word is text,
                                                            any other is not, nor after a call */
    lm_answer_emit_text(a, a->mode == LM_MODE_REASONING, a->buffer.data, at);
    lm_answer_consume(a, at);
    if (!mark)
        return false;
    if (is_one_of(mark, a->o.ends)) {
        lm_answer_consume(a, strlen(mark));
        return true;
    }
    if (a->f && is_section(a->f, mark))
        return begin_calls(a, mark, true, final);
    if (a->f && mark == a->f->call.open)
        return begin_calls(a, mark, false, final);
    if (mark == a->style.reasoning || mark == a->style.reasoning_end) {
        a->mode = mark == a->style.reasoning ? LM_MODE_REASONING : LM_MODE_TEXT;
        lm_answer_part(a, true);
    } else {
        lm_answer_part(a, !a->text_begun);
    }
    lm_answer_consume(a, strlen(mark));
    return true;
}

static void work(lm_answer *a, bool final)
{
    bool on = true;

    while (on && a->buffer.size) {
        switch (a->mode) {
        case LM_MODE_TEXT:
        case LM_MODE_REASONING: on = step_text(a, final); break;
        case LM_MODE_CALLS:     on = step_calls(a, final); break;
        case LM_MODE_HEADER:
        case LM_MODE_BODY:      on = lm_answer_harmony(a, final); break;
        }
    }
}

/* ---- public functions ---- */

lm_status lm_answer_new(const lm_answer_style *s, const lm_answer_options *o, lm_answer **out, lm_error *e)
{
    LM_REQUIRE(e, s && out);
    lm_answer *a = lm_alloc_zero(1, sizeof *a);

    if (!a)
        return lm_fail_memory(e, "an answer", sizeof *a);
    a->style = *s;
    if (o)
        a->o = *o;
    a->f    = a->o.n_tools ? s->family : NULL;
    a->o.eager |= a->f && a->f->streams;
    a->mode = a->o.in_reasoning && !a->o.keep_reasoning ? LM_MODE_REASONING : LM_MODE_TEXT;
    a->edge = a->mode == LM_MODE_REASONING;
    const lm_answer_family *f = s->family;
    if (f && f->form == LM_FORM_HARMONY)
        a->mode = LM_MODE_HEADER;
    if (f && f->prompted && !a->o.in_reasoning)
        lm_text_add_str(&a->buffer, f->call.open);
    *out = a;
    return LM_OK;
}

static lm_status memory_of(lm_answer *a, lm_error *e)
{
    bool failed = a->buffer.failed || a->space.failed || a->raw.failed || a->call.id.failed ||
                  a->call.arguments.failed;

    return failed ? lm_fail_memory(e, "an answer", a->buffer.size) : LM_OK;
}

lm_status lm_answer_feed(lm_answer *a, const char *text, size_t size,
                         void (*on_event)(void *arg, const lm_answer_event *event), void *arg, lm_error *e)
{
    LM_REQUIRE(e, a && (text || !size) && on_event);
    lm_text_add(&a->buffer, text, size);
    a->on_event = on_event;
    a->arg      = arg;
    /* what could not be decided is read again from its start, so only if there is noticeably more of it */
    if (a->buffer.size >= a->enough) {
        work(a, false);
        a->enough = a->buffer.size + a->buffer.size / GROWTH;
    }
    return memory_of(a, e);
}

static lm_status end(lm_answer *a, bool cut, void (*on_event)(void *arg, const lm_answer_event *event),
                     void *arg, lm_error *e)
{
    a->on_event = on_event;
    a->arg      = arg;
    work(a, false);
    a->ending   = true;
    a->cut      = cut;
    work(a, true);
    if (a->mode == LM_MODE_CALLS && a->raw.size && !a->in_section && !a->n_calls && !cut)
        lm_answer_emit_text(a, a->before == LM_MODE_REASONING, a->raw.data, a->raw.size);
    if (a->space.size && !a->edge && a->mode == LM_MODE_TEXT && !a->n_calls && (a->text_begun || !cut))
        lm_answer_emit(a, LM_ANSWER_CONTENT, a->space.data, a->space.size, NULL);
    lm_text_clear(&a->space);
    a->mode   = LM_MODE_TEXT;
    a->ending = a->cut = false;
    return memory_of(a, e);
}

lm_status lm_answer_end(lm_answer *a, void (*on_event)(void *arg, const lm_answer_event *event), void *arg,
                        lm_error *e)
{
    LM_REQUIRE(e, a && on_event);
    return end(a, false, on_event, arg, e);
}

lm_status lm_answer_cut(lm_answer *a, void (*on_event)(void *arg, const lm_answer_event *event), void *arg,
                        lm_error *e)
{
    LM_REQUIRE(e, a && on_event);
    return end(a, true, on_event, arg, e);
}

void lm_answer_free(lm_answer *a)
{
    if (!a)
        return;
    lm_text_free(&a->buffer);
    lm_text_free(&a->space);
    lm_text_free(&a->raw);
    lm_written_free(&a->call);
    lm_free(a);
}
