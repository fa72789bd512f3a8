/* chat.c - a conversation on one sequence of an engine: lamina/chat.h.
 *
 * Messages are kept as texts and rendered for each reply, which continues from the cache.
 *
 * Owns the messages, the template and the sampler; the model and the engine if lm_chat_open made them. Read
 * lm_chat_reply first. */
#include "lamina/chat.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/generate/sequence.h"

enum { USUAL_CONTEXT = 4096 };

typedef struct message {
    lm_role role;
    lm_text text;
} message;

struct lm_chat {
    lm_model           *model;               /* owned, as `owned`: of lm_chat_open; NULL: the caller's */
    lm_engine          *owned, *engine;
    const lm_tokenizer *tokenizer;
    lm_template        *form;
    lm_sampler         *sampler;
    message            *messages;            /* [capacity] */
    size_t              n, capacity;
    lm_chat_cache      *cache;
};

lm_chat_options lm_chat_defaults(void)
{
    return (lm_chat_options){ 0 };
}

/* ---- creation ---- */

static lm_status read_template(lm_chat *c, const lm_model *m, const char *source, lm_error *e)
{
    lm_model_info info;

    source = source ? source : lm_model_chat_template(m, NULL);
    if (!source) {
        lm_fail(e, LM_USAGE, "model", LM_NO_OFFSET, "the model has no chat template");
        return lm_fail_hint(e, "set `chat_template`");
    }
    lm_model_describe(m, &info);
    return lm_template_new(source, strlen(source), info.source, &c->form, e);
}

static lm_status prepare(lm_chat *c, lm_engine *g, const lm_chat_options *o, lm_error *e)
{
    lm_sampler_options sampler = o->sampler;
    const lm_model *m = lm_engine_model(g);
    lm_model_info   info;

    c->engine    = g;
    c->tokenizer = lm_model_tokenizer(m);
    if (o->sequence >= lm_engine_sequences(g))
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "%u; the engine has %u", o->sequence,
                       lm_engine_sequences(g));
    if (!c->tokenizer)
        return lm_fail(e, LM_USAGE, "model", LM_NO_OFFSET, "the model has no tokenizer");
    LM_TRY(read_template(c, m, o->chat_template, e));
    lm_model_describe(m, &info);
    if (memcmp(&sampler, &(lm_sampler_options){ 0 }, sizeof sampler) == 0) {
        sampler = lm_sampler_defaults();
        lm_model_sampling(m, &sampler);
    }
    LM_TRY(lm_sampler_new(&sampler, info.n_vocab, c->tokenizer, &c->sampler, e));
    return lm_chat_cache_new(g, o->sequence, &c->cache, e);
}

lm_status lm_chat_new(lm_engine *g, const lm_chat_options *o, lm_chat **out, lm_error *e)
{
    LM_REQUIRE(e, g && out);
    LM_CHECK_RESERVED(e, o);
    lm_chat_options defaults = lm_chat_defaults();
    lm_chat        *c        = lm_alloc_zero(1, sizeof *c);
    lm_status status = c ? prepare(c, g, o ? o : &defaults, e) : lm_fail_memory(e, "the chat", sizeof *c);

    if (status == LM_OK)
        *out = c;
    else
        lm_chat_free(c);
    return status;
}

static lm_status open_engine(const char *name, const lm_chat_options *o, lm_model **m, lm_engine **g,
                             lm_error *e)
{
    lm_engine_options engine = o->engine;
    lm_model_info     info;
    lm_text           path   = { 0 };
    lm_status         status = lm_model_locate(name, &path, e);

    if (status == LM_OK)
        status = lm_model_open(path.data, &o->model, m, e);
    lm_text_free(&path);
    LM_TRY(status);
    lm_model_describe(*m, &info);
    if (!engine.checkpoints)
        engine.checkpoints = LM_CHAT_CHECKPOINTS;
    if (!engine.context)
        engine.context = info.context_length && info.context_length < USUAL_CONTEXT ? info.context_length
                                                                                    : USUAL_CONTEXT;
    return lm_engine_new(*m, &engine, g, e);
}

lm_status lm_chat_open(const char *model, const lm_chat_options *o, lm_chat **out, lm_error *e)
{
    LM_REQUIRE(e, out);
    LM_CHECK_RESERVED(e, o);
    lm_chat_options defaults = lm_chat_defaults();
    lm_model       *m        = NULL;
    lm_engine      *g        = NULL;
    lm_chat        *c        = NULL;
    lm_status       status   = open_engine(model, o ? o : &defaults, &m, &g, e);

    if (status == LM_OK)
        status = lm_chat_new(g, o, &c, e);
    if (status != LM_OK) {
        lm_engine_free(g);
        lm_model_close(m);
        return status;
    }
    c->model = m;
    c->owned = g;
    *out     = c;
    return LM_OK;
}

void lm_chat_free(lm_chat *c)
{
    if (!c)
        return;
    lm_chat_truncate(c, 0);
    lm_free(c->messages);
    lm_chat_cache_free(c->cache);
    lm_sampler_free(c->sampler);
    lm_template_free(c->form);
    lm_engine_free(c->owned);
    lm_model_close(c->model);
    lm_free(c);
}

/* ---- messages ---- */

static lm_status reserve(lm_chat *c, lm_error *e)
{
    size_t   capacity = c->capacity ? 2 * c->capacity : 8;
    message *grown;

    if (c->n < c->capacity)
        return LM_OK;
    grown = lm_realloc(c->messages, capacity * sizeof *grown);
    if (!grown)
        return lm_fail_memory(e, "the conversation", capacity * sizeof *grown);
    c->messages = grown;
    c->capacity = capacity;
    return LM_OK;
}

static lm_status add(lm_chat *c, lm_role role, const char *text, size_t size, lm_error *e)
{
    message m = { .role = role };

    LM_TRY(reserve(c, e));
    lm_text_add_utf8(&m.text, text, size);
    if (m.text.failed) {
        lm_text_free(&m.text);
        return lm_fail_memory(e, "a message", size);
    }
    c->messages[c->n++] = m;
    return LM_OK;
}

lm_status lm_chat_add(lm_chat *c, lm_role role, const char *text, lm_error *e)
{
    LM_REQUIRE(e, c && text);
    if (role != LM_ROLE_USER && role != LM_ROLE_ASSISTANT && role != LM_ROLE_SYSTEM)
        return lm_fail(e, LM_USAGE, "role", LM_NO_OFFSET, "%d is not a role", (int)role);
    return add(c, role, text, strlen(text), e);
}

size_t lm_chat_length(const lm_chat *c)
{
    return c ? c->n : 0;
}

const char *lm_chat_message(const lm_chat *c, size_t i, lm_role *role, size_t *size)
{
    if (!c || i >= c->n)
        return NULL;
    if (role)
        *role = c->messages[i].role;
    if (size)
        *size = c->messages[i].text.size;
    return c->messages[i].text.data ? c->messages[i].text.data : "";
}

void lm_chat_truncate(lm_chat *c, size_t n)
{
    while (c && c->n > n)
        lm_text_free(&c->messages[--c->n].text);
}

lm_engine *lm_chat_engine(const lm_chat *c)
{
    return c ? c->engine : NULL;
}

/* ---- the prompt ---- */

static void add_token(const lm_chat *c, const char *name, lm_token id, lm_text *out)
{
    size_t      n     = 0;
    const char *piece = id >= 0 ? lm_tokenizer_piece(c->tokenizer, id, &n) : NULL;

    if (!piece)
        return;
    lm_text_printf(out, ",\"%s\":", name);
    lm_text_add_json(out, piece, n);
}

static void add_messages(const lm_chat *c, lm_text *out)
{
    static const char *const roles[] = { "user", "assistant", "system" };

    lm_text_add_char(out, '[');
    for (size_t i = 0; i < c->n; i++) {
        const message *m = &c->messages[i];
        lm_text_printf(out, "%s{\"role\":\"%s\",\"content\":", i ? "," : "", roles[m->role]);
        lm_text_add_json(out, m->text.data ? m->text.data : "", m->text.size);
        lm_text_add_char(out, '}');
    }
    lm_text_add_char(out, ']');
}

/* Render the variables that transformers passes to a template. Fails if the template has left out a
 * message. */
static lm_status render(const lm_chat *c, lm_rendering *out, lm_error *e)
{
    lm_text   messages = { 0 }, variables = { 0 };
    lm_status status;

    add_messages(c, &messages);
    lm_text_add_str(&variables, "{\"add_generation_prompt\":true");
    add_token(c, "bos_token", lm_tokenizer_bos(c->tokenizer), &variables);
    add_token(c, "eos_token", lm_tokenizer_eos(c->tokenizer), &variables);
    lm_text_add_str(&variables, ",\"messages\":");
    lm_text_add(&variables, messages.data, messages.size);
    lm_text_add_char(&variables, '}');
    if (messages.failed || variables.failed)
        status = lm_fail_memory(e, "the conversation", variables.size);
    else
        status = lm_template_render(c->form, variables.data, variables.size, out, e);
    if (status == LM_OK)
        status = lm_messages_rendered(messages.data, messages.size, &out->text, e);
    lm_text_free(&messages);
    lm_text_free(&variables);
    return status;
}

lm_status lm_chat_tokens(const lm_chat *c, lm_tokens *out, lm_error *e)
{
    lm_rendering r = { 0 };
    lm_status    status;

    LM_REQUIRE(e, c && out);
    if (!c->n)
        return lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET, "the conversation is empty");
    status = render(c, &r, e);
    if (status == LM_OK)
        status = lm_tokenize_rendering(c->tokenizer, &r, false, out, e);
    lm_rendering_free(&r);
    return status;
}

/* ---- replies ---- */

static lm_status reply(lm_chat *c, lm_generate_options *o, lm_generation *out, lm_error *e)
{
    lm_tokens prompt = { 0 };
    lm_status status;

    if (o->sequence.no_text || o->sequence.prompt_only)
        status = lm_fail(e, LM_USAGE, o->sequence.no_text ? "no_text" : "prompt_only", LM_NO_OFFSET,
                         "a reply needs its text");
    else
        status = lm_chat_tokens(c, &prompt, e);
    if (status == LM_OK)
        status = lm_chat_cache_generate(c->cache, c->sampler, prompt.ids, prompt.n, o, out, e);
    else
        lm_sequence_release_hooks(&o->sequence);
    lm_tokens_free(&prompt);
    if (status == LM_OK)
        status = add(c, LM_ROLE_ASSISTANT, out->text.data ? out->text.data : "", out->text.size, e);
    return status;
}

lm_status lm_chat_reply(lm_chat *c, const lm_generate_options *o, lm_generation *out, lm_error *e)
{
    lm_generate_options own = o ? *o : lm_generate_defaults();
    lm_generation       made = { 0 };
    lm_status           status;

    if (!c) {
        lm_sequence_release_hooks(&own.sequence);
        return lm_fail_null(e, __func__);
    }
    status = reply(c, &own, &made, e);
    if (status == LM_OK && out)
        *out = made;
    else
        lm_generation_free(&made);
    return status;
}
