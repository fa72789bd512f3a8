/* answers.c - find the answers of a conversation in its rendering.
 *
 * An answer is what the template adds for it: from the end of the prompt rendered for the messages before it
 * to the end of the message. Some templates change earlier messages when a conversation continues: they
 * drop their reasoning. They are rendered once more with a mark in place of the answer: the answer is where
 * both renderings differ. It begins after the generation prompt before this place, and ends with its turn. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/jsontext.h"
#include "lamina/model.h"
#include "train/records.h"

/* Private characters, which no text begins or ends with. */
#define MARK "\xEE\x80\x80lamina\xEE\x80\x81"

typedef struct search {
    lm_record_reader *r;
    json_t           *messages, *tools, *variables;
    lm_rendering      all;
    size_t            reached;           /* end of the last answer in `all` */
} search;

typedef struct extent { size_t from, to; } extent;

static lm_status refuse(search *s, size_t i, const char *what)
{
    return lm_fail(s->r->e, LM_USAGE, "messages", LM_NO_OFFSET, "message %zu: %s", i, what);
}

/* ---- rendering ---- */

static void set_token(json_t *context, const char *key, const lm_tokenizer *t, lm_token id)
{
    size_t      n;
    const char *piece = id < 0 ? NULL : lm_tokenizer_piece(t, id, &n);

    if (piece)
        json_object_set_new(context, key, lm_json_text(piece, n));
}

/* Render the first `n` of some messages; `begin`: with the beginning of an answer. */
static lm_status render(search *s, json_t *messages, size_t n, bool begin, lm_rendering *out)
{
    json_t   *some = json_array(), *context = json_object();
    lm_text   json = { 0 };
    lm_status status;

    for (size_t i = 0; i < n; i++)
        json_array_append(some, json_array_get(messages, i));
    if (s->variables)
        json_object_update(context, s->variables);
    json_object_set_new(context, "messages", some);
    json_object_set_new(context, "add_generation_prompt", json_boolean(begin));
    if (s->tools)
        json_object_set(context, "tools", s->tools);
    set_token(context, "bos_token", s->r->tokenizer, lm_tokenizer_bos(s->r->tokenizer));
    set_token(context, "eos_token", s->r->tokenizer, lm_tokenizer_eos(s->r->tokenizer));
    bool made = lm_json_print(context, JSON_COMPACT, &json);
    json_decref(context);
    status = made ? lm_template_render(s->r->chat, json.data, json.size, out, s->r->e)
                  : lm_fail_memory(s->r->e, "a conversation", 0);
    lm_text_free(&json);
    if (status != LM_OK && s->r->e->where[0])            /* not a line of the template: one of the data */
        snprintf(s->r->e->where, sizeof s->r->e->where, "chat template");
    return status;
}

/* Tokenize the first `size` bytes of the conversation. */
static lm_status tokens_to(search *s, size_t size, lm_tokens *out)
{
    lm_rendering part = s->all;
    lm_span      last = { 0 };
    size_t       n    = 0;

    part.text.size = size;
    while (n < part.n_content && part.content[n].from < size)
        n++;
    part.n_content = n;
    if (n) {                             /* restored below */
        last = part.content[n - 1];
        part.content[n - 1].to = last.to < size ? last.to : size;
    }
    lm_status status = lm_tokenize_rendering(s->r->tokenizer, &part, false, out, s->r->e);
    if (n)
        part.content[n - 1] = last;
    return status;
}

/* ---- places ---- */

static bool begins(const lm_text *whole, const lm_text *with)
{
    return with->size <= whole->size && memcmp(whole->data, with->data, with->size) == 0;
}

static size_t common_begin(const lm_text *a, const lm_text *b)
{
    size_t n = 0;

    while (n < a->size && n < b->size && a->data[n] == b->data[n])
        n++;
    return n;
}

/* Return the common bytes at the end, without the first `from`. */
static size_t common_end(const lm_text *a, const lm_text *b, size_t from)
{
    size_t n = 0;

    while (n < a->size - from && n < b->size - from && a->data[a->size - 1 - n] == b->data[b->size - 1 - n])
        n++;
    return n;
}

static const char *find_last(const char *text, size_t n, const char *what, size_t size)
{
    for (size_t at = n >= size ? n - size + 1 : 0; at-- > 0;)
        if (memcmp(text + at, what, size) == 0)
            return text + at;
    return NULL;
}

/* Return the messages with the mark as the content of one. */
static json_t *marked(json_t *messages, size_t i)
{
    json_t *list = json_copy(messages), *m = json_copy(json_array_get(messages, i));

    json_object_set_new(m, "content", json_string(MARK));
    json_array_set_new(list, i, m);
    return list;
}

static bool has_mark(const lm_text *t)
{
    const char *first = memmem(t->data, t->size, MARK, sizeof MARK - 1);

    return first && find_last(t->data, t->size, MARK, sizeof MARK - 1) == first;
}

/* Return the end of the last generation prompt `lead` before `at`, or of as much of it as is directly before
 * `at`: some templates drop its <think> from earlier answers. SIZE_MAX: there is none. */
static size_t after_lead(const search *s, const char *lead, size_t n, size_t at)
{
    const char *text = s->all.text.data + s->reached;

    if (!n)
        return at;
    for (size_t k = n; at >= s->reached && k > 0; k--) {
        const char *found = find_last(text, at - s->reached, lead, k);
        size_t end = found ? (size_t)(found - s->all.text.data) + k : 0;
        if (found && (k == n || end == at))
            return end;
    }
    return SIZE_MAX;
}

/* Find answer `i` in a conversation that was changed after it. `after`: the messages up to the answer;
 * `before`: those before it, with the beginning of an answer. */
static lm_status find_changed(search *s, size_t i, const lm_rendering *before, const lm_rendering *after,
                              extent *out)
{
    lm_rendering plain = { 0 }, whole = { 0 }, part = { 0 };
    json_t      *list = marked(s->messages, i);
    lm_status    status = render(s, s->messages, i, false, &plain);

    if (status == LM_OK)
        status = render(s, list, json_array_size(list), false, &whole);
    if (status == LM_OK)
        status = render(s, list, i + 1, false, &part);
    json_decref(list);
    if (status == LM_OK && has_mark(&whole.text) && has_mark(&part.text)) {
        size_t at = common_begin(&s->all.text, &whole.text), tail;
        size_t n = common_begin(&before->text, &plain.text);
        size_t end = s->all.text.size - common_end(&s->all.text, &whole.text, at);
        lm_text rest = { .data = s->all.text.data + end, .size = s->all.text.size - end };
        lm_text close = after->text;
        tail = common_end(&after->text, &part.text, common_begin(&after->text, &part.text));
        close.data += close.size - tail;
        close.size = tail;
        out->from = after_lead(s, before->text.data + n, before->text.size - n, at);
        out->to   = end + common_begin(&rest, &close);
    }
    lm_rendering_free(&plain);
    lm_rendering_free(&whole);
    lm_rendering_free(&part);
    return status;
}

/* ---- parts that a template leaves out ---- */

/* Return whether a text shows a value: its longest word is there, because templates trim and quote text. */
static bool shows(const char *text, size_t size, const char *value)
{
    size_t best = 0, at = 0;

    for (size_t i = 0, n; value && value[i] && i < 400; i += n ? n : 1) {
        for (n = 0; isalnum((unsigned char)value[i + n]) && n < 64; n++)
            ;
        at   = n > best ? i : at;
        best = n > best ? n : best;
    }
    return !best || memmem(text, size, value + at, best);
}

/* Reject an answer of which the template leaves out a part: the model would learn another one. */
static lm_status check_shown(search *s, size_t i, const char *text, size_t size)
{
    static const char *const parts[] = { "content", "reasoning_content", "thinking" };
    json_t *m = json_array_get(s->messages, i), *call;
    size_t k;

    json_array_foreach(json_object_get(m, "tool_calls"), k, call)
        if (!shows(text, size, json_string_value(json_object_get(json_object_get(call, "function"), "name"))))
            return refuse(s, i, "the chat template does not show its tool_calls");
    for (k = 0; k < sizeof parts / sizeof *parts; k++)
        if (!shows(text, size, json_string_value(json_object_get(m, parts[k]))))
            return lm_fail(s->r->e, LM_USAGE, "messages", LM_NO_OFFSET,
                           "message %zu: the chat template does not show its %s", i, parts[k]);
    return LM_OK;
}

static lm_status check_tools(search *s)
{
    json_t *tool;
    size_t  i;

    json_array_foreach(s->tools, i, tool) {
        json_t     *f = json_object_get(tool, "function");
        const char *name = json_string_value(json_object_get(f ? f : tool, "name"));
        if (!name || !shows(s->all.text.data, s->all.text.size, name))
            return lm_fail(s->r->e, LM_USAGE, "tools", LM_NO_OFFSET,
                           name ? "the chat template does not show %.60s" : "a tool has no name", name);
    }
    return LM_OK;
}

/* ---- marks ---- */

static lm_status mark_tokens(search *s, size_t i, extent x, const lm_tokens *ids, bool *mask)
{
    lm_tokens a = { 0 }, b = { 0 };
    bool      ends = false;
    lm_status status = tokens_to(s, x.from, &a);

    if (status == LM_OK)
        status = tokens_to(s, x.to, &b);
    size_t to = lm_record_common(&b, ids);
    for (size_t k = lm_record_common(&a, ids); status == LM_OK && k < to; k++) {
        mask[k] = true;
        ends |= lm_model_is_end(s->r->o->model, ids->ids[k]);
    }
    if (status == LM_OK && !ends)
        status = refuse(s, i, "the chat template ends an answer with no token that ends the model's text, so it "
                              "would never learn to stop; train on all of it");
    lm_tokens_free(&a);
    lm_tokens_free(&b);
    return status;
}

/* Mark the tokens of answer `i`, or only pass it. */
static lm_status mark_answer(search *s, size_t i, bool trained, const lm_tokens *ids, bool *mask)
{
    lm_rendering before = { 0 }, after = { 0 };
    extent       x = { SIZE_MAX, 0 };
    lm_status    status = render(s, s->messages, i, true, &before);

    if (status == LM_OK)
        status = render(s, s->messages, i + 1, false, &after);
    if (status == LM_OK && begins(&after.text, &before.text) && begins(&s->all.text, &after.text))
        x = (extent){ before.text.size, after.text.size };
    else if (status == LM_OK)
        status = find_changed(s, i, &before, &after, &x);
    if (status == LM_OK && trained && (x.from == SIZE_MAX || x.from > x.to))
        status = refuse(s, i, "the chat template changes earlier messages, and this answer cannot be found in "
                              "the conversation; train on all of it");
    size_t same = common_begin(&before.text, &after.text);
    if (status == LM_OK && trained)
        status = check_shown(s, i, after.text.data + same, after.text.size - same);
    if (status == LM_OK && trained)
        status = mark_tokens(s, i, x, ids, mask);
    if (status == LM_OK && x.from != SIZE_MAX && x.to > s->reached)
        s->reached = x.to;
    lm_rendering_free(&before);
    lm_rendering_free(&after);
    return status;
}

/* ---- conversations ---- */

/* Take the members that say whether messages are trained out of copies of them. */
static lm_status take_switches(lm_record_reader *r, const lm_conversation *c, json_t *messages, bool *trained)
{
    size_t i, k;
    const char *name;
    json_t *m, *value;
    void *next;

    json_array_foreach(c->messages, i, m) {
        const char *role = json_string_value(json_object_get(m, "role"));
        bool answer = role && strcmp(role, "assistant") == 0 && i >= c->from, on = answer;
        LM_TRY(lm_record_trained(r, m, &on));
        json_t *copy = json_deep_copy(m);
        json_array_append_new(messages, copy);
        k = 0;
        json_object_foreach_safe(copy, next, name, value) {
            if (!lm_record_is_switch(name))
                continue;
            k++;
            if (!answer && on)
                return lm_fail(r->e, LM_USAGE, "messages", LM_NO_OFFSET,
                               "message %zu: \"%s\": only answers of the assistant are trained", i, name);
            json_object_del(copy, name);
        }
        if (k && r->o->all)
            return lm_fail(r->e, LM_USAGE, "messages", LM_NO_OFFSET,
                           "message %zu says whether it is trained; train on answers, not on all", i);
        trained[i] = answer && on;
    }
    return LM_OK;
}

/* Note the members of messages that the template does not name. */
static lm_status check_members(lm_record_reader *r, json_t *messages)
{
    static const char *const known[] = { "role", "content", "refusal", "tool_calls", "function_call",
                                         "tool_call_id", "reasoning", "reasoning_content", "thinking", NULL };
    const char *name;
    json_t *m, *value;
    size_t i;

    json_array_foreach(messages, i, m)
        json_object_foreach(m, name, value) {
            size_t k = 0;
            while (known[k] && strcmp(known[k], name))
                k++;
            if (!known[k] && !json_is_null(value) && !lm_template_uses(r->chat, name))
                LM_TRY(lm_record_unused(r, name));
        }
    return LM_OK;
}

/* Replace messages as people write them by those that templates know. */
static lm_status normalise(lm_record_reader *r, json_t **messages)
{
    lm_text given = { 0 }, read = { 0 }, warnings = { 0 };
    lm_status status = lm_json_print(*messages, JSON_COMPACT, &given)
                           ? lm_messages_read(given.data, given.size, &warnings, &read, r->e)
                           : lm_fail_memory(r->e, "a conversation", 0);

    if (status == LM_OK && warnings.size)
        status = lm_fail(r->e, LM_USAGE, NULL, LM_NO_OFFSET, "%.*s", (int)strcspn(warnings.data, "\n"),
                         warnings.data);
    json_t *list = status == LM_OK ? lm_json_read(read.data, read.size, JSON_ALLOW_NUL, NULL) : NULL;
    if (status == LM_OK && !list)
        status = lm_fail_memory(r->e, "a conversation", 0);
    if (list) {
        json_decref(*messages);
        *messages = list;
    }
    lm_text_free(&given);
    lm_text_free(&read);
    lm_text_free(&warnings);
    return status;
}

static lm_status check_rendered(search *s)
{
    lm_text json = { 0 };
    lm_status status = lm_json_print(s->messages, JSON_COMPACT, &json)
                           ? lm_messages_rendered(json.data, json.size, &s->all.text, s->r->e)
                           : lm_fail_memory(s->r->e, "a conversation", 0);

    lm_text_free(&json);
    return status == LM_OK ? check_tools(s) : status;
}

static lm_status read(search *s, const bool *trained, lm_text_record *out)
{
    size_t n = json_array_size(s->messages);

    LM_TRY(check_members(s->r, s->messages));
    LM_TRY(render(s, s->messages, n, false, &s->all));
    LM_TRY(check_rendered(s));
    LM_TRY(lm_tokenize_rendering(s->r->tokenizer, &s->all, false, &out->ids, s->r->e));
    out->mask = lm_alloc_zero(out->ids.n + 1, sizeof *out->mask);
    if (!out->mask)
        return lm_fail_memory(s->r->e, "a conversation", out->ids.n);
    for (size_t i = 0; i < n && !s->r->o->all; i++) {
        const json_t *role = json_object_get(json_array_get(s->messages, i), "role");
        if (strcmp(json_string_value(role), "assistant") == 0)
            LM_TRY(mark_answer(s, i, trained[i], &out->ids, out->mask));
    }
    for (size_t i = 1; i < out->ids.n && s->r->o->all; i++)
        out->mask[i] = true;
    return LM_OK;
}

lm_status lm_record_conversation(lm_record_reader *r, const lm_conversation *c, lm_text_record *out)
{
    search s = { .r = r, .messages = json_array(), .tools = c->tools, .variables = c->variables };
    bool  *trained = lm_alloc_zero(json_array_size(c->messages) + 1, sizeof *trained);
    lm_status status = !r->chat ? lm_fail(r->e, LM_USAGE, NULL, LM_NO_OFFSET,
                                          "the model has no chat template for conversations")
                       : trained ? take_switches(r, c, s.messages, trained)
                                 : lm_fail_memory(r->e, "a conversation", 0);

    if (status == LM_OK)
        status = normalise(r, &s.messages);
    if (status == LM_OK)
        status = read(&s, trained, out);
    lm_rendering_free(&s.all);
    json_decref(s.messages);
    lm_free(trained);
    return status;
}
