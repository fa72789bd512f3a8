/* The properties and slots of llama-server: /props, /slots, and saving, restoring and erasing a slot. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialects/native.h"
#include "server/dialects/routes.h"
#include "server/front/memory.h"
#include "server/front/sandbox.h"

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
    json_object_set_new(all, "tool_call_format", json_pack("s?", lm_answer_style_name(&s->style)));
    json_object_set_new(all, "tool_calls_unread", json_pack("s?", s->style.unread));
    json_object_set_new(all, "bos_token", lm_special_json(s, lm_tokenizer_bos(s->tokenizer)));
    json_object_set_new(all, "eos_token", lm_special_json(s, lm_tokenizer_eos(s->tokenizer)));
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
        if (!lm_schedule_slot_owned(s->schedule, i, lm_call_key(c)))
            slot = (lm_slot_info){ .busy = slot.busy };
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
      "name of a file in --slot-save-path, of this API key" },
    { 0 },
};
static const lm_field_group slot_groups[] = { { slot_fields, 0 }, { 0 } };

/* Write the path of a saved slot. Names are those of the API key: the file's name begins with its owner, so
 * that no key can tell a file of another key from a missing one. */
static lm_status slot_path(const lm_call *c, const char *name, lm_text *path, lm_error *e)
{
    char owner[33];

    if (!name || !*name || *name == '.' || strchr(name, '/') || strlen(name) > 96)
        return lm_fail(e, LM_USAGE, "filename", LM_NO_OFFSET,
                       "'filename' must be a file name of 1 to 96 bytes without folders");
    lm_call_owner(c, owner);
    lm_text_printf(path, "%s/%s%s%s", c->service->o.slot_folder, owner, *owner ? "." : "", name);
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
    lm_error e = w->error;
    json_t *o;
    char *text;

    if (w->status != LM_OK) {
        if (w->status == LM_NOT_FOUND && strcmp(w->error.where, "slot") == 0)
            lm_fail(&e, LM_USAGE, "id_slot", LM_NO_OFFSET, "slot %u has content, but none of this key",
                    j->slot);
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
    lm_models_retain(j->service);
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
