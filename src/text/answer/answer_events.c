/* answer_events.c - emit the events of an answer, and find marks in it. */
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "text/answer/answer_parser.h"

/* ---- events ---- */

void lm_answer_emit(lm_answer *a, lm_answer_kind kind, const char *text, size_t n, const char *id)
{
    lm_answer_event event = {
        .kind = kind, .call = kind >= LM_ANSWER_CALL ? a->n_calls : 0, .text = text, .size = n, .id = id,
        .incomplete = kind == LM_ANSWER_CALL_END && a->partial
    };

    a->on_event(a->arg, &event);
}

void lm_answer_emit_text(lm_answer *a, bool reasoning, const char *text, size_t n)
{
    lm_answer_kind kind = reasoning ? LM_ANSWER_REASONING : LM_ANSWER_CONTENT;
    size_t end = n;

    while (end && strchr(" \t\r\n", text[end - 1]) && text[end - 1])
        end--;
    if (end) {
        size_t from = 0;
        if (a->edge)
            while (from < end && strchr(" \t\r\n", text[from]) && text[from])
                from++;
        if (!a->edge && a->space.size)
            lm_answer_emit(a, kind, a->space.data, a->space.size, NULL);
        if (a->joins)
            lm_answer_emit(a, kind, "\n", 1, NULL);
        lm_text_clear(&a->space);
        a->edge = a->joins = false;
        a->text_begun |= !reasoning;
        a->reasoning_begun |= reasoning;
        lm_answer_emit(a, kind, text + from, end - from, NULL);
    }
    if (!a->edge)
        lm_text_add(&a->space, text + end, n - end);
}

void lm_answer_part(lm_answer *a, bool trim)
{
    lm_text_clear(&a->space);
    a->edge = trim;
}

static void make_id(lm_answer *a)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    lm_answer_ids rule = a->f->ids;
    uint64_t x = a->o.ids + 0x9e3779b97f4a7c15u * (a->n_calls + 1);
    size_t n = 0, size = rule == LM_IDS_NINE ? 9 : 24;

    if (a->call.id.size && a->call.id.size < sizeof a->id) {
        memcpy(a->id, a->call.id.data, a->call.id.size + 1);
        return;
    }
    if (rule == LM_IDS_KIMI) {
        snprintf(a->id, sizeof a->id, "functions.%.50s:%u", a->call.tool->name, a->n_calls);
        return;
    }
    if (rule == LM_IDS_CALL || rule == LM_IDS_COUNTER) {
        memcpy(a->id, "call_", 5);
        n = 5;
        size += 5;
    }
    for (uint64_t state = x; n < size; n++) {            /* splitmix64 */
        state += 0x9e3779b97f4a7c15u;
        x = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        a->id[n] = digits[(x ^ x >> 31) % 62];
    }
    a->id[n] = 0;
}

void lm_answer_call(lm_answer *a)
{
    if (!a->text_begun || a->before == LM_MODE_REASONING)
        lm_answer_part(a, true);                         /* white space in front of calls stays in case more
                                                            content follows them */
    make_id(a);
    lm_answer_emit(a, LM_ANSWER_CALL, a->call.tool->name, strlen(a->call.tool->name), a->id);
}

void lm_answer_arguments(lm_answer *a, const char *text, size_t n)
{
    if (n)
        lm_answer_emit(a, LM_ANSWER_ARGUMENTS, text, n, a->id);
}

void lm_answer_call_end(lm_answer *a)
{
    lm_answer_emit(a, LM_ANSWER_CALL_END, NULL, 0, a->id);
    a->n_calls++;
    a->partial = false;
    lm_text_clear(&a->call.id);
    lm_text_clear(&a->call.arguments);
}

/* Of a message of harmony only the arguments remain to be read; its header named the tool. */
static lm_answer_reading read_call(lm_answer *a, lm_reader *r)
{
    if (a->f->form != LM_FORM_HARMONY || a->f->call.open)
        return lm_call_read(a->f, &a->o, r, &a->call);
    lm_reader_space(r);
    return lm_call_json(r, &a->call);
}

lm_answer_reading lm_answer_read_call(lm_answer *a, lm_reader *r)
{
    lm_answer_reading was = read_call(a, r);
    const lm_written *c = &a->call;
    bool streams = a->o.eager && c->tool && c->arguments.size;

    if (was == LM_READ_NONE && (streams || (a->cut && c->tool))) {       /* it has begun */
        a->partial = !c->complete;
        r->at      = c->complete ? c->end : r->final ? r->n : r->at;
        was        = LM_READ_DONE;
    }
    if (was == LM_READ_NONE || (was == LM_READ_MORE && !streams))
        return was;
    if (!a->open) {
        a->sent = 0;
        lm_answer_call(a);
    }
    lm_answer_arguments(a, c->arguments.data + a->sent, c->arguments.size - a->sent);
    a->open = was != LM_READ_DONE;
    a->sent = c->arguments.size;
    if (!a->open)
        lm_answer_call_end(a);
    return was;
}

void lm_answer_consume(lm_answer *a, size_t n)
{
    memmove(a->buffer.data, a->buffer.data + n, a->buffer.size - n);
    lm_text_cut(&a->buffer, a->buffer.size - n);
}

/* ---- marks ---- */

void lm_answer_find(const char *s, size_t n, const char *const *marks, bool final, size_t *at,
                    const char **mark)
{
    for (size_t i = 0; i < n; i++) {
        const char *longest = NULL;
        size_t length = 0;
        bool whole = false;
        for (size_t m = 0; marks[m]; m++) {
            size_t size = strlen(marks[m]), here = n - i < size ? n - i : size;
            if (s[i] != marks[m][0] || size <= length || memcmp(s + i, marks[m], here) != 0)
                continue;
            if (here < size && final)
                continue;
            longest = marks[m];
            length = size;
            whole = here == size;
        }
        if (longest) {
            *at   = i;
            *mark = whole ? longest : NULL;
            return;
        }
    }
    *at   = n;
    *mark = NULL;
}
