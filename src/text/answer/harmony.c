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
    "<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>", NULL
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

/* Read the channel and the recipient from a header. */
static void read_header(lm_answer *a, const char *s, size_t n)
{
    const char *to = find(s, n, "to=functions."), *end = s + n, *channel = find(s, n, "<|channel|>");

    a->analysis  = channel && end - channel >= 19 && memcmp(channel + 11, "analysis", 8) == 0;
    a->recipient = false;
    if (!to)
        return;
    to += 13;
    const char *until = to;
    while (until < end && *until != ' ' && *until != '<')
        until++;
    a->call.tool = lm_tool_of(&a->o, to, (size_t)(until - to));
    a->recipient = a->call.tool != NULL;
}

static bool step_header(lm_answer *a, bool final)
{
    bool begins;
    const char *at;

    if (!look(a, final, &begins))
        return false;
    lm_text_clear(&a->raw);
    lm_answer_part(a, !a->text_begun || a->n_calls);
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
    if (a->recipient) {
        a->balance = (lm_balance){ 0 };
        a->waits = false;
    }
    return true;
}

/* Emit a call once it is complete. */
static bool step_call(lm_answer *a, bool final)
{
    lm_reader r = { a->buffer.data, a->buffer.size, 0, final };
    size_t from;
    lm_answer_reading was;

    lm_reader_space(&r);
    was = lm_reader_json(&r, &from);
    if (was == LM_READ_MORE)
        return false;
    if (was == LM_READ_NONE || r.s[from] != '{') {
        lm_answer_emit_text(a, false, a->raw.data, a->raw.size);
        a->recipient = false;
        return true;
    }
    lm_answer_call(a);
    lm_answer_arguments(a, r.s + from, r.at - from);
    lm_answer_call_end(a);
    lm_answer_consume(a, r.at);
    a->recipient = false;
    lm_answer_part(a, true);
    return true;
}

bool lm_answer_harmony(lm_answer *a, bool final)
{
    const char *mark;
    size_t at;

    if (a->mode == LM_MODE_HEADER)
        return step_header(a, final);
    if (a->recipient)
        return step_call(a, final);
    lm_answer_find(a->buffer.data, a->buffer.size, body_ends, final, &at, &mark);
    lm_answer_emit_text(a, a->analysis && !a->o.keep_reasoning, a->buffer.data, at);
    lm_answer_consume(a, at);
    if (!mark)
        return false;
    a->mode = LM_MODE_HEADER;
    if (mark[2] != 's' && mark[3] != 'h')                /* <|start|>, <|channel|>: the next header begins
                                                            with it */
        lm_answer_consume(a, strlen(mark));
    return true;
}
