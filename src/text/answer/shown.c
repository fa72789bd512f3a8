/* shown.c - render a conversation with a tool call, and cut out what the model would have written. */
#include "text/answer/shown.h"

#include <jansson.h>
#include <string.h>

#include "base/jsontext.h"
#include "lamina/text.h"
#include "text/answer/answer_parser.h"

/* ---- rendering ---- */

static json_t *probe_arguments(bool bare)
{
    static const char *const keys[] = LM_PROBE_KEYS;

    return bare ? json_object() : json_pack("{s:s, s:i}", keys[0], "Old Town", keys[1], 7);
}

static json_t *probe_schema(void)
{
    static const char *const keys[] = LM_PROBE_KEYS;

    return json_pack("{s:s, s:{s:{s:s}, s:{s:s}}, s:[s, s]}", "type", "object", "properties", keys[0], "type",
                     "string", keys[1], "type", "integer", "required", keys[0], keys[1]);
}

/* How the message of an assistant is given. */
typedef struct given {
    const char *id, *content;
    bool        as_text;             /* the arguments are JSON in a string */
    bool        bare;                /* there are none */
} given;

/* An assistant's message with n calls, or with text. */
static json_t *answer_of(unsigned n, const given *g)
{
    json_t *message = json_pack("{s:s, s:s?}", "role", "assistant", "content", g->content);
    json_t *calls = json_array();

    for (unsigned i = 0; i < n; i++) {
        json_t *arguments = probe_arguments(g->bare);
        lm_text text = { 0 };
        if (g->as_text && lm_json_print(arguments, 0, &text)) {
            json_decref(arguments);
            arguments = json_stringn(text.data, text.size);
        }
        lm_text_free(&text);
        json_array_append_new(calls, json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", g->id, "type", "function",
                                               "function", "name", LM_PROBE_NAME, "arguments", arguments));
    }
    if (n)
        json_object_set_new(message, "tool_calls", calls);
    else
        json_decref(calls);
    return message;
}

/* Render a question and an answer (NULL: the beginning of one); steals `answer`. */
static bool render(const lm_template *t, json_t *answer, lm_text *out)
{
    json_t *tool = json_pack("{s:s, s:{s:s, s:s, s:o}}", "type", "function", "function", "name",
                             LM_PROBE_NAME, "description", "a probe", "parameters", probe_schema());
    json_t *context = json_pack("{s:[{s:s, s:s}, o*], s:[o], s:b, s:s, s:s, s:s}", "messages", "role", "user",
                                "content", "Hi", answer, "tools", tool, "add_generation_prompt", !answer,
                                "bos_token", "", "eos_token", "", "now", "2026-01-01");
    lm_text text = { 0 };
    lm_rendering r = { 0 };
    bool done = context && lm_json_print(context, 0, &text) &&
                lm_template_render(t, text.data, text.size, &r, NULL) == LM_OK;

    lm_text_clear(out);
    if (done)
        lm_text_add(out, r.text.data, r.text.size);
    lm_rendering_free(&r);
    lm_text_free(&text);
    json_decref(context);
    return done;
}

/* ---- cutting ---- */

/* The opening bracket of the mark that `at` is inside of; `at` if there is none. */
size_t lm_mark_before(const char *s, size_t at)
{
    for (size_t i = at; i > 0; i--) {
        if (s[i - 1] == '>' || s[i - 1] == '\n')
            break;
        if (s[i - 1] == '<')
            return i - 1;
    }
    return at;
}

size_t lm_mark_after(const char *s, size_t n, size_t at)
{
    if (lm_mark_before(s, at) == at)
        return at;
    while (at < n && s[at] != '>')
        at++;
    return at < n ? at + 1 : at;
}

/* The length of what two texts have in common at their start, without a part of a mark. */
static size_t common(const lm_text *whole, const lm_text *other)
{
    size_t n = 0;

    while (n < whole->size && n < other->size && whole->data[n] == other->data[n])
        n++;
    return n < other->size ? lm_mark_before(whole->data, n) : n;
}

/* Cut what the answer adds to the prompt, up to what a plain answer has after its text as well. */
static void cut(lm_text *whole, const lm_text *prompt, const lm_text *plain, const char *reasoning_end)
{
    size_t from = common(whole, prompt), same = 0, to;

    if (from < prompt->size && from < common(whole, plain))
        from = common(whole, plain);                     /* the prompt of an earlier turn is another */
    while (same < whole->size - from && same < plain->size &&
           whole->data[whole->size - same - 1] == plain->data[plain->size - same - 1])
        same++;
    to = lm_mark_after(whole->data, whole->size, whole->size - same);
    lm_text_cut(whole, to);
    const char *name = strstr(whole->data + from, LM_PROBE_NAME), *end = whole->data + from;
    for (const char *at = end; name && reasoning_end && (at = strstr(at, reasoning_end)) && at < name;)
        end = at += strlen(reasoning_end);
    memmove(whole->data, end, whole->size - (size_t)(end - whole->data));
    lm_text_cut(whole, whole->size - (size_t)(end - whole->data));
}

static bool shows_probe(const lm_text *t)
{
    static const char *const keys[] = LM_PROBE_KEYS;

    return t->size && strstr(t->data, LM_PROBE_NAME) && strstr(t->data, keys[0]) &&
           strstr(t->data, keys[1]) && strstr(t->data, "Old Town");
}

void lm_shown_render(const lm_template *t, const char *id, const char *reasoning_end, lm_shown *out)
{
    static const char *const contents[] = { "", NULL };
    lm_text plain = { 0 };
    given g = { .id = id, .content = "x" };

    render(t, NULL, &out->prompt);
    render(t, answer_of(0, &g), &plain);
    for (unsigned i = 0; i < 4 && !shows_probe(&out->one); i++) {
        g = (given){ .id = id, .content = contents[i / 2], .as_text = i % 2 };
        if (render(t, answer_of(1, &g), &out->one))
            cut(&out->one, &out->prompt, &plain, reasoning_end);
    }
    if (!shows_probe(&out->one)) {
        lm_text_clear(&out->one);
    } else {
        if (render(t, answer_of(2, &g), &out->two))
            cut(&out->two, &out->prompt, &plain, reasoning_end);
        g.bare = true;
        if (render(t, answer_of(1, &g), &out->bare))
            cut(&out->bare, &out->prompt, &plain, reasoning_end);
    }
    lm_text_free(&plain);
}

void lm_shown_free(lm_shown *s)
{
    lm_text_free(&s->one);
    lm_text_free(&s->two);
    lm_text_free(&s->bare);
    lm_text_free(&s->prompt);
}

/* ---- reading back ---- */

typedef struct heard { lm_text arguments; unsigned calls; bool bare, wrong; } heard;

static void on_event(void *arg, const lm_answer_event *event)
{
    heard *h = arg;

    if (event->kind == LM_ANSWER_ARGUMENTS) {
        lm_text_add(&h->arguments, event->text, event->size);
    } else if (event->kind == LM_ANSWER_CALL_END) {
        json_t *want = probe_arguments(h->bare),
               *got = json_loadb(h->arguments.data ? h->arguments.data : "", h->arguments.size, 0, NULL);
        h->wrong |= !json_equal(want, got);
        h->calls++;
        lm_text_clear(&h->arguments);
        json_decref(want);
        json_decref(got);
    }
}

bool lm_shown_is_read(const lm_answer_family *f, const lm_text *shown, unsigned calls, bool bare)
{
    json_t *schema = probe_schema();
    lm_text text = { 0 };
    lm_answer_tool tool = { .name = LM_PROBE_NAME };
    lm_answer_style style = { .family = f };
    lm_answer_options o = { .tools = &tool, .n_tools = 1 };
    lm_answer *a = NULL;
    heard h = { .bare = bare };

    if (lm_json_print(schema, 0, &text))
        tool.parameters = text.data;
    bool read = tool.parameters && lm_answer_new(&style, &o, &a, NULL) == LM_OK &&
                lm_answer_feed(a, shown->data ? shown->data : "", shown->size, on_event, &h, NULL) == LM_OK &&
                lm_answer_end(a, on_event, &h, NULL) == LM_OK && h.calls == calls && !h.wrong;
    lm_answer_free(a);
    lm_text_free(&h.arguments);
    lm_text_free(&text);
    json_decref(schema);
    return read;
}
