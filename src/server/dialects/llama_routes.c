/* Routes that llama-server and vLLM have in addition to OpenAI's: tokens, templates, slots, properties. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ask/dialogue.h"
#include "server/ask/token_json.h"
#include "server/dialects/native.h"
#include "server/dialects/routes.h"
#include "server/front/sandbox.h"
#include "server/front/memory.h"

/* ---- /tokenize, /detokenize: llama.cpp- and vLLM-compatible ---- */

typedef struct tokenize_values { const char *content, *prompt, *model; bool add_special, parse_special,
        pieces; json_t *tokens; } tokenize_values;

#define V(field) offsetof(tokenize_values, field)

static const lm_field tokenize_fields[] = {
    { "content", LM_FIELD_STRING, V(content), 0, 0, NULL, false, "text (llama.cpp)" },
    { "prompt", LM_FIELD_STRING, V(prompt), 0, 0, NULL, false, "text (vLLM)" },
    { "add_special", LM_FIELD_BOOL, V(add_special), 0, 0, NULL, false,
      "add the special tokens that the tokenizer puts around a text (false; with prompt: true)" },
    { "add_special_tokens", LM_FIELD_BOOL, V(add_special), 0, 0, NULL, false, "vLLM's name of add_special" },
    { "parse_special", LM_FIELD_BOOL, V(parse_special), 0, 0, NULL, false,
      "recognise special tokens in the text (true)" },
    { "with_pieces", LM_FIELD_BOOL, V(pieces), 0, 0, NULL, false,
      "return ids with their texts; for a token that is not valid UTF-8, an array of its bytes" },
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false,
      "a name of /v1/models; any name if the server has one model" },
    { 0 },
};
static const lm_field_group tokenize_groups[] = { { tokenize_fields, 0 }, { 0 } };

static void tokenize_defaults(const lm_service *s, void *values)
{
    (void)s;
    ((tokenize_values *)values)->parse_special = true;
}

static json_t *piece_json(const lm_service *s, lm_token id)
{
    return json_pack("{s:i, s:o}", "id", id, "piece", lm_token_piece(s->tokenizer, id));
}

static lm_status answer_tokenize(lm_call *c, lm_error *e)
{
    const tokenize_values *v = c->values;
    const char *text = v->prompt ? v->prompt : v->content;
    bool vllm = v->prompt || json_is_string(json_object_get(c->body, "prompt"));
    bool special = v->add_special || (vllm && !json_is_false(json_object_get(c->body, "add_special")) &&
                                      !json_is_false(json_object_get(c->body, "add_special_tokens")));
    lm_tokens ids = { 0 };
    json_t *list;
    lm_status status;

    if (v->content && v->prompt)
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "'prompt' and 'content' cannot be combined");
    if (!text && (json_is_string(json_object_get(c->body, "content")) ||
                  json_is_string(json_object_get(c->body, "prompt"))))
        text = "";
    if (!text)
        return lm_fail(e, LM_USAGE, "content", LM_NO_OFFSET, "'content' is required");
    status = lm_tokenize(c->service->tokenizer, text, strlen(text),
                         (special ? LM_ADD_SPECIAL : 0u) | (v->parse_special ? 0u : LM_NO_PARSE_SPECIAL),
                         &ids, e);
    if (status != LM_OK)
        return status;
    list = json_array();
    for (size_t i = 0; i < ids.n; i++)
        json_array_append_new(list,
                              v->pieces ? piece_json(c->service, ids.ids[i]) : json_integer(ids.ids[i]));
    json_int_t n = (json_int_t)ids.n;
    lm_tokens_free(&ids);
    if (!vllm)
        return lm_answer_json(c, json_pack("{s:o}", "tokens", list), e);
    return lm_answer_json(c,
                          json_pack("{s:I, s:I, s:o}", "count", n, "max_model_len",
                                    (json_int_t)lm_engine_context(c->service->engine), "tokens", list),
                          e);
}

const lm_route lm_route_tokenize = {
    .method = "POST", .path = "/tokenize", .dialect = LM_DIALECT_NATIVE,
    .summary = "tokenize a text",
    .groups = tokenize_groups, .values_size = sizeof(tokenize_values), .defaults = tokenize_defaults,
    .handle = answer_tokenize,
};

static const lm_field detokenize_fields[] = {
    { "tokens", LM_FIELD_ARRAY, V(tokens), 0, 0, NULL, true, "token ids" },
    { "model", LM_FIELD_STRING, V(model), 0, 0, NULL, false,
      "a name of /v1/models; any name if the server has one model" },
    { 0 },
};
static const lm_field_group detokenize_groups[] = { { detokenize_fields, 0 }, { 0 } };

static lm_status answer_detokenize(lm_call *c, lm_error *e)
{
    const tokenize_values *v = c->values;
    lm_tokens ids = { 0 };
    lm_text text = { 0 };
    lm_status status = LM_OK;

    for (size_t i = 0; status == LM_OK && i < json_array_size(v->tokens); i++) {
        const json_t *id = json_array_get(v->tokens, i);

        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= c->service->info.n_vocab)
            status = lm_fail(e, LM_USAGE, "tokens", LM_NO_OFFSET, "element %zu is not a token id below %u", i,
                             c->service->info.n_vocab);
        else
            status = lm_tokens_add(&ids, (lm_token)json_integer_value(id), e);
    }
    if (status == LM_OK)
        status = lm_detokenize(c->service->tokenizer, ids.ids, ids.n, 0, &text, e);
    lm_tokens_free(&ids);
    if (status == LM_OK)
        status = lm_answer_json(c,
                                json_pack("{s:s%, s:s%}", "content", text.data ? text.data : "", text.size,
                                          "prompt", text.data ? text.data : "", text.size),
                                e);
    lm_text_free(&text);
    return status;
}

const lm_route lm_route_detokenize = {
    .method = "POST", .path = "/detokenize", .dialect = LM_DIALECT_NATIVE,
    .summary = "convert token ids to text",
    .groups = detokenize_groups, .values_size = sizeof(tokenize_values), .handle = answer_detokenize,
};

/* ---- /tokenizer_info: used by lm-eval ---- */

static json_t *special_json(const lm_service *s, lm_token id)
{
    size_t n = 0;
    const char *piece = id >= 0 ? lm_tokenizer_piece(s->tokenizer, id, &n) : NULL;

    return piece ? json_stringn(piece, n) : json_null();
}

static lm_status answer_tokenizer_info(lm_call *c, lm_error *e)
{
    const lm_service *s = c->service;

    return lm_answer_json(c,
                          json_pack("{s:s, s:o, s:o, s:n, s:s?, s:I}", "tokenizer_class", "lamina",
                                    "bos_token", special_json(s, lm_tokenizer_bos(s->tokenizer)), "eos_token",
                                    special_json(s, lm_tokenizer_eos(s->tokenizer)), "pad_token",
                                    "chat_template", s->template_source, "max_model_len",
                                    (json_int_t)lm_engine_context(s->engine)),
                          e);
}

const lm_route lm_route_tokenizer_info = {
    .method = "GET", .path = "/tokenizer_info", .flags = LM_ROUTE_QUICK, .dialect = LM_DIALECT_OPENAI,
    .summary = "return the special tokens and the chat template",
    .handle = answer_tokenizer_info,
};

/* ---- /apply-template ---- */

typedef struct template_turn { lm_turn turn; json_t *continue_final; } template_turn;

static const lm_field template_fields[] = {
    { "model", LM_FIELD_STRING, offsetof(lm_turn, body.model), 0, 0, NULL, false,
      "a name of /v1/models; any name if the server has one model" },
    { "messages", LM_FIELD_ARRAY, offsetof(lm_turn, body.messages), 0, 0, NULL, true, "the conversation" },
    { "chat_template_kwargs", LM_FIELD_OBJECT, offsetof(lm_turn, body.kwargs), 0, 0, NULL, false,
      "further variables of the chat template" },
    { "add_generation_prompt", LM_FIELD_BOOL, offsetof(lm_turn, generation_prompt), 0, 0, NULL, false,
      "add the start of the answer to the prompt (true)" },
    { "continue_final_message", LM_FIELD_ANY, offsetof(template_turn, continue_final), 0, 0, NULL, false,
      "as in /v1/chat/completions" },
    { "tools", LM_FIELD_ARRAY, offsetof(lm_turn, body.tools), 0, 0, NULL, false,
      "functions, as in /v1/chat/completions" },
    { "reasoning_effort", LM_FIELD_STRING, offsetof(lm_turn, body.effort), 0, 0, NULL, false,
      "as in /v1/chat/completions" },
    { 0 },
};
static const lm_field_group template_groups[] = { { template_fields, 0 }, { 0 } };

static void template_defaults(const lm_service *s, void *values)
{
    lm_turn_defaults(s, values);
}

static lm_status answer_template(lm_call *c, lm_error *e)
{
    const template_turn *v = c->values;
    lm_turn *t = c->values;
    lm_tokens ids = { 0 };
    lm_text text = { 0 };
    const json_t *on = v->continue_final;

    lm_turn_begin(c, t, NULL);
    t->continue_final = on ? !json_is_false(on)
                           : !json_is_true(json_object_get(c->body, "add_generation_prompt"));
    t->only_shown = true;
    t->reasoning_field = "reasoning_effort";
    lm_status status = lm_dialogue_prompt(c, t, &ids, &text, e);
    lm_tokens_free(&ids);
    if (status == LM_OK)
        status = lm_answer_json(c, json_pack("{s:s%}", "prompt", text.data ? text.data : "", text.size), e);
    lm_text_free(&text);
    return status;
}

const lm_route lm_route_apply_template = {
    .method = "POST", .path = "/apply-template", .dialect = LM_DIALECT_NATIVE,
    .summary = "render a conversation as the prompt",
    .groups = template_groups, .values_size = sizeof(template_turn), .defaults = template_defaults,
    .handle = answer_template,
};

/* ---- /props, /slots ---- */

/* The properties of a server with several models, when the request names none. */
static json_t *router_json(const lm_call *c)
{
    json_t *list = json_array();

    for (size_t i = 0; lm_models_at(c->models, i); i++)
        json_array_append_new(list, json_string(lm_models_at(c->models, i)->name));
    return json_pack("{s:s, s:o, s:s, s:b, s:b}", "role", "router", "models", list, "build_info",
                     lm_version(), "models_autoload", 1, "endpoint_metrics", c->service->o.metrics);
}

static json_t *sleeping_json(const lm_service *s)
{
    return json_pack("{s:s, s:s, s:s, s:b, s:b, s:b}", "model_alias", s->name, "model_path", s->o.path,
                     "build_info", lm_version(), "is_sleeping", 1, "endpoint_slots", !s->o.no_slots,
                     "endpoint_metrics", s->o.metrics);
}

static json_t *props_json(const lm_service *s)
{
    lm_turn defaults = { 0 };
    json_t *settings;

    lm_turn_defaults(s, &defaults);
    settings = lm_native_settings(s, &defaults, 0);
    json_t *all = json_pack("{s:{s:I, s:o}, s:i, s:s, s:s, s:{s:b, s:b}}", "default_generation_settings",
                            "n_ctx", (json_int_t)lm_engine_context(s->engine), "params", settings,
                            "total_slots", (int)lm_schedule_slots(s->schedule), "model_alias", s->name,
                            "model_path", s->info.source, "modalities", "vision", 0, "audio", 0);

    json_object_set_new(all, "chat_template",
                        s->template_source ? json_string(s->template_source) : json_null());
    json_object_set_new(all, "bos_token", special_json(s, lm_tokenizer_bos(s->tokenizer)));
    json_object_set_new(all, "eos_token", special_json(s, lm_tokenizer_eos(s->tokenizer)));
    json_object_set_new(all, "build_info", json_string(lm_version()));
    json_object_set_new(all, "is_sleeping", json_false());
    json_object_set_new(all, "endpoint_slots", json_boolean(!s->o.no_slots));
    json_object_set_new(all, "endpoint_props", json_false());
    json_object_set_new(all, "endpoint_metrics", json_boolean(s->o.metrics));
    return all;
}

/* Return the properties without loading a model. */
static lm_status answer_props(lm_call *c, lm_error *e)
{
    const lm_sandbox *now = lm_sandbox_now();
    json_t *o;

    if (lm_models_count(c->models) > 1 && !lm_exchange_query(c->x, "model")) {
        o = router_json(c);
    } else {
        LM_TRY(lm_call_find(c, e));
        bool here = lm_models_peek(c->service);
        o = here ? props_json(c->service) : sleeping_json(c->service);
        if (here)
            lm_models_unpeek(c->service);
    }
    if (!o)
        return lm_fail_memory(e, "the answer", 0);
    json_object_set_new(o, "sandbox",
                        json_pack("{s:b, s:b, s:s}", "files", now->files, "calls", now->calls, "why",
                                  now->why));
    return lm_answer_json(c, o, e);
}

const lm_route lm_route_props = {
    .method = "GET", .path = "/props", .flags = LM_ROUTE_QUICK | LM_ROUTE_ALL, .dialect = LM_DIALECT_NATIVE,
    .summary = "return the server's properties",
    .handle = answer_props, .query = "model, autoload",
};

static lm_status answer_slots(lm_call *c, lm_error *e)
{
    const lm_service *s = c->service;
    json_t *list;

    if (s->o.no_slots)
        return lm_fault(c, e, 501, NULL, "slots are off: start the server without --no-slots");
    list = json_array();
    for (uint32_t i = 0; i < lm_schedule_slots(s->schedule); i++) {
        lm_slot_info slot;

        if (lm_schedule_slot(s->schedule, i, &slot, e) != LM_OK)
            continue;
        json_array_append_new(list, json_pack("{s:i, s:I, s:b, s:b, s:I, s:I, s:I}", "id", (int)i, "n_ctx",
                                              (json_int_t)lm_engine_context(s->engine), "speculative", 0,
                                              "is_processing", slot.busy, "n_prompt_tokens",
                                              (json_int_t)slot.n_prompt, "n_held", (json_int_t)slot.n_held,
                                              "n_decoded", (json_int_t)slot.n_tokens));
    }
    return lm_answer_json(c, list, e);
}

const lm_route lm_route_slots = {
    .method = "GET", .path = "/slots", .flags = LM_ROUTE_QUICK, .dialect = LM_DIALECT_NATIVE,
    .summary = "return the state of each slot",
    .handle = answer_slots,
};

typedef struct slot_values { const char *filename; } slot_values;
static const lm_field slot_fields[] = {
    { "filename", LM_FIELD_STRING, offsetof(slot_values, filename), 0, 0, NULL, false,
      "name of a file in --slot-save-path" },
    { 0 },
};
static const lm_field_group slot_groups[] = { { slot_fields, 0 }, { 0 } };

static lm_status slot_path(const lm_call *c, const char *name, lm_text *path, lm_error *e)
{
    if (!name || !*name || *name == '.' || strchr(name, '/') || strlen(name) > 96)
        return lm_fail(e, LM_USAGE, "filename", LM_NO_OFFSET,
                       "'filename' must be a file name of 1 to 96 bytes without folders");
    lm_text_printf(path, "%s/%s", c->service->o.slot_folder, name);
    return path->failed ? lm_fail_memory(e, "a path", strlen(name)) : LM_OK;
}

/* The result of a slot task, and the exchange that waits for it. Shared by the task and the exchange, freed
 * by the last of both. `x` is NULL when the exchange has ended. */
typedef struct slot_wait {
    atomic_uint owners;
    pthread_mutex_t lock;            /* protects the rest */
    lm_exchange *x;
    bool      done;
    lm_status status;
    size_t    n;
    lm_error  error;
} slot_wait;

/* The job of the exchange. */
typedef struct slot_job {
    slot_wait     *wait;
    lm_service    *service;
    uint32_t       slot;
    lm_slot_action action;
    char           filename[128];
} slot_job;

static void drop_wait(void *arg)
{
    slot_wait *w = arg;

    if (atomic_fetch_sub(&w->owners, 1) != 1)
        return;
    pthread_mutex_destroy(&w->lock);
    lm_heap_free(w);
}

/* Called by a thread of the schedule. */
static void slot_done(void *arg, lm_status status, size_t n, const lm_error *error)
{
    slot_wait *w = arg;

    pthread_mutex_lock(&w->lock);
    w->status = status;
    w->n = n;
    if (error)
        w->error = *error;
    w->done = true;
    if (w->x)
        lm_exchange_wake(w->x);
    pthread_mutex_unlock(&w->lock);
}

static void slot_job_done(void *arg)
{
    slot_job *j = arg;

    pthread_mutex_lock(&j->wait->lock);
    j->wait->x = NULL;
    pthread_mutex_unlock(&j->wait->lock);
    drop_wait(j->wait);
    lm_models_release(j->service);
    lm_heap_free(j);
}

static void answer_slot(lm_exchange *x, const slot_job *j, const slot_wait *w)
{
    static const char *const words[] = {
        [LM_SLOT_SAVE] = "n_saved", [LM_SLOT_RESTORE] = "n_restored", [LM_SLOT_ERASE] = "n_erased"
    };
    bool restores = j->action == LM_SLOT_RESTORE;
    lm_error e = w->error;
    json_t *o;
    char *text;

    if (w->status != LM_OK) {
        if (w->status == LM_NOT_FOUND && !restores)
            lm_fail(&e, LM_USAGE, "id_slot", LM_NO_OFFSET, "slot %u has no content of this key", j->slot);
        else if (w->status == LM_NOT_FOUND || w->status == LM_BAD_MODEL || w->status == LM_DIFFERS)
            lm_fail(&e, LM_USAGE, "filename", LM_NO_OFFSET, "%.200s", w->error.message);
        lm_answer_fault(x, LM_DIALECT_NATIVE, 0, 0, &e);
        return;
    }
    o = json_pack("{s:I, s:s?, s:I}", "id_slot", (json_int_t)j->slot, "filename",
                  j->action == LM_SLOT_ERASE ? NULL : j->filename, words[j->action], (json_int_t)w->n);
    text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    lm_answer_text(x, text ? 200 : 500, "application/json; charset=utf-8", text ? text : "{}");
    lm_heap_free(text);
}

static void more_of_slot(lm_exchange *x, void *job)
{
    slot_job *j = job;
    bool done;

    pthread_mutex_lock(&j->wait->lock);
    done = j->wait->done;
    pthread_mutex_unlock(&j->wait->lock);
    if (done)
        answer_slot(x, j, j->wait);
}

static lm_status start_slot(lm_call *c, uint32_t slot, lm_slot_action action, const char *filename,
                            const char *path, lm_error *e)
{
    slot_job *j = lm_memory_zero(1, sizeof *j);
    slot_wait *w = lm_memory_zero(1, sizeof *w);
    lm_slot_task t = { .action = action,
                       .slot = slot,
                       .path = path,
                       .salt = lm_call_key(c),
                       .done = slot_done,
                       .release = drop_wait,
                       .arg = w };
    lm_status status;

    if (!j || !w) {
        lm_heap_free(j);
        lm_heap_free(w);
        return lm_fail_memory(e, "the request", sizeof *w);
    }
    atomic_init(&w->owners, 2);
    pthread_mutex_init(&w->lock, NULL);
    w->x = c->x;
    *j = (slot_job){ .wait = w, .service = c->service, .slot = slot, .action = action };
    snprintf(j->filename, sizeof j->filename, "%s", filename ? filename : "");
    lm_models_hold(j->service);
    status = lm_schedule_slot_start(c->service->schedule, &t, e);
    if (status == LM_OK)
        lm_exchange_later(c->x, more_of_slot, slot_job_done, j);
    else
        slot_job_done(j);
    return status;
}

static lm_status answer_slot_action(lm_call *c, lm_error *e)
{
    static const char *const words[] = {
        [LM_SLOT_SAVE] = "save", [LM_SLOT_RESTORE] = "restore", [LM_SLOT_ERASE] = "erase"
    };
    const slot_values *v = c->values;
    const char *action = lm_exchange_query(c->x, "action");
    unsigned long slot = strtoul(c->id, NULL, 10);
    lm_text path = { 0 };
    lm_status status = LM_OK;
    int which = 0;

    if (!*c->id || strspn(c->id, "0123456789") != strlen(c->id) ||
        slot >= lm_schedule_slots(c->service->schedule))
        return lm_fail(e, LM_USAGE, "id_slot", LM_NO_OFFSET, "the slot %.20s does not exist", c->id);
    while (which < 3 && (!action || strcmp(words[which], action)))
        which++;
    if (which == 3)
        return lm_fail(e, LM_USAGE, "action", LM_NO_OFFSET, "'action' must be save, restore or erase");
    if (!c->service->o.slot_folder)
        return lm_fault(c, e, 501, NULL, "slots cannot be saved: start the server with --slot-save-path");
    if (which != LM_SLOT_ERASE)
        status = slot_path(c, v->filename, &path, e);
    if (status == LM_OK)
        status = start_slot(c, (uint32_t)slot, (lm_slot_action)which, v->filename, path.data, e);
    lm_text_free(&path);
    return status;
}

const lm_route lm_route_slot_action = {
    .method = "POST", .path = "/slots/{id}", .dialect = LM_DIALECT_NATIVE,
    .summary = "save, restore or erase the content of a slot (?action=)",
    .groups = slot_groups, .values_size = sizeof(slot_values), .handle = answer_slot_action,
    .query = "action, model",
};
