/* harmony.c - gpt-oss: an answer consists of messages, each with a channel and, if it is a call, a recipient.
 *
 *   <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>
 *   … to=functions.f<|channel|>commentary json<|message|>{…}<|call|>        the recipient before or after the
 *       channel */
#include <string.h>

#include "text/answer/answer_parser.h"

enum { MAX_HEADER = 512 };

static const char *const header_begins[] = { "<|channel|>", "<|start|>", " to=", "to=" };
static const char *const body_ends[] = {
    "<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>", "<|eom|>", "<|eot|>", NULL
};

/* Return the position of a word; NULL: not found. */
static const char *find(const char *s, size_t n, const char *word)
{
    size_t size = strlen(word);

    for (size_t i = 0; i + size <= n; i++)
        if (memcmp(s + i, word, size) == 0)
            return s + i;
    return NULL;
}

/* Set *begins if a header may start here. False: more text is needed. */
static bool look(const lm_answer *a, bool final, bool *begins)
{
    lm_reader r = { a->buffer.data, a->buffer.size, 0, final };
    bool more = false;

    *begins = false;
    lm_reader_space(&r);
    for (size_t i = 0; i < 4; i++) {
        lm_reader here = r;
        lm_answer_reading was = lm_reader_mark(&here, header_begins[i]);
        *begins |= was == LM_READ_DONE;
        more |= was == LM_READ_MORE;
        here = (lm_reader){ a->buffer.data, a->buffer.size, 0, final };
        was = lm_reader_mark(&here, header_begins[i]);
        *begins |= was == LM_READ_DONE;
        more |= was == LM_READ_MORE;
    }
    return *begins || !more;
}

/* Return the end of the word that begins here. */
static const char *word_end(const char *s, const char *end)
{
    while (s < end && *s != ' ' && *s != '<')
        s++;
    return s;
}

/* Read the channel and the recipient from a header. The last channel counts. What is sent to something that
 * is neither a supplied tool nor the user (to=python, to=container.exec: tools of the model's training) is
 * not meant for the user: it is reasoning. */
static void read_header(lm_answer *a, const char *s, size_t n)
{
    const char *end = s + n, *to = find(s, n, "to="), *channel = NULL;

    for (const char *at = s; (at = find(at, (size_t)(end - at), "<|channel|>")); at += 11)
        channel = at + 11;
    a->analysis  = channel && end - channel >= 8 && memcmp(channel, "analysis", 8) == 0;
    a->recipient = false;
    if (!to)
        return;
    to += 3;
    bool function = end - to > 10 && memcmp(to, "functions.", 10) == 0;
    const char *name = to + (function ? 10 : 0), *until = word_end(name, end);
    size_t size = (size_t)(until - name);
    bool known = (size == 9 && memcmp(name, "assistant", 9) == 0) ||
                 (size == 4 && memcmp(name, "user", 4) == 0);
    a->call.tool = lm_tool_of(&a->o, name, size);
    a->recipient = a->call.tool != NULL;
    if (size == 4 && memcmp(name, "self", 4) == 0)
        a->analysis = known = true;
    a->analysis |= !function && !a->recipient && !known;
}

/* The header that was read, without the mark that starts the message and the name of its author. */
static const char *header_of(const lm_answer *a)
{
    const char *at = find(a->raw.data, a->raw.size, "<|channel|>");

    return at ? at : a->raw.data;
}

static bool step_header(lm_answer *a, bool final)
{
    bool begins;
    const char *at;

    if (!look(a, final && !a->cut, &begins))
        return false;
    lm_text_clear(&a->raw);
    lm_answer_part(a, true);
    if (!begins) {                                       /* not a message: plain text */
        a->analysis = a->recipient = false;
        a->mode = LM_MODE_BODY;
        return true;
    }
    at = find(a->buffer.data, a->buffer.size, "<|message|>");
    if (!at && !final && a->buffer.size < MAX_HEADER)
        return false;
    if (!at || at - a->buffer.data > MAX_HEADER) {
        a->analysis = a->recipient = false;
        a->mode = LM_MODE_BODY;
        /* the output ended inside a header: drop it */
        if (!at && final && a->buffer.size < MAX_HEADER) {
            lm_answer_consume(a, a->buffer.size);
            return false;
        }
        lm_answer_emit_text(a, false, a->buffer.data, 1);
        lm_answer_consume(a, 1);
        return true;
    }
    read_header(a, a->buffer.data, (size_t)(at - a->buffer.data));
    size_t used = (size_t)(at - a->buffer.data) + 11;
    lm_text_add(&a->raw, a->buffer.data, used);
    lm_answer_consume(a, used);
    a->mode = LM_MODE_BODY;
    bool apart = a->analysis && !a->o.keep_reasoning;
    a->joins = apart ? a->reasoning_begun : a->text_begun && !a->marked;
    if (a->o.keep_reasoning && a->analysis)
        lm_answer_emit_text(a, false, header_of(a), strlen(header_of(a)));
    a->in_section = 0;
    return true;
}

/* Read a call between tags. */
static bool step_tagged_call(lm_answer *a, bool final)
{
    lm_reader r = { a->buffer.data, a->buffer.size, 0, final };
    lm_answer_reading was;

    for (;;) {
        const char *const marks[] = { a->f->section.open, a->f->section.close, a->f->call.open };
        size_t i = 0;
        lm_reader_space(&r);
        for (was = LM_READ_NONE; i < 3 && was == LM_READ_NONE; i += was == LM_READ_NONE)
            was = lm_reader_mark(&r, marks[i]);
        if (was != LM_READ_DONE || i == 2)
            break;
        lm_answer_consume(a, r.at);
        a->recipient = i == 0;
        if (i == 1)
            return true;
        r = (lm_reader){ a->buffer.data, a->buffer.size, 0, final };
    }
    if (was == LM_READ_NONE && a->cut) {                 /* part of the mark before or after the calls */
        if (!a->in_section) {
            a->partial = true;
            lm_answer_call(a);
            lm_answer_call_end(a);
        }
        lm_answer_consume(a, a->buffer.size);
        return false;
    }
    if (was == LM_READ_DONE)
        was = lm_answer_read_call(a, &r);
    if (was == LM_READ_MORE)
        return false;
    if (was == LM_READ_NONE) {
        a->recipient = false;
        return true;
    }
    a->in_section++;
    lm_answer_consume(a, r.at);
    return true;
}

static bool step_call(lm_answer *a, bool final)
{
    lm_reader r = { a->buffer.data, a->buffer.size, 0, final };
    lm_answer_reading was = lm_answer_read_call(a, &r);

    if (was == LM_READ_MORE)
        return false;
    if (was == LM_READ_NONE)
        lm_answer_emit_text(a, false, a->raw.data, a->raw.size);
    else
        lm_answer_consume(a, r.at), lm_answer_part(a, true);
    a->recipient = false;
    return true;
}

bool lm_answer_harmony(lm_answer *a, bool final)
{
    const char *mark;
    size_t at;

    if (a->mode == LM_MODE_HEADER)
        return step_header(a, final);
    if (a->recipient)
        return a->f->call.open ? step_tagged_call(a, final) : step_call(a, final);
    lm_answer_find(a->buffer.data, a->buffer.size, body_ends, final && !a->cut, &at, &mark);
    lm_answer_emit_text(a, a->analysis && !a->o.keep_reasoning, a->buffer.data, at);
    lm_answer_consume(a, at);
    if (!mark)
        return false;
    if (a->o.keep_reasoning && a->analysis && mark[2] == 'e')
        lm_answer_emit_text(a, false, mark, strlen(mark));
    a->marked = a->o.keep_reasoning && a->analysis;
    a->mode = LM_MODE_HEADER;
    if (mark[2] != 's' && mark[3] != 'h')                /* <|start|>, <|channel|>: the next header begins
                                                            with it */
        lm_answer_consume(a, strlen(mark));
    return true;
}
