/* call_model.c - the model of a request, its owner and its priority. */
#include "server/store/api_keys.h"
#include "server/store/archive.h"
#include "server/ask/call.h"

static void add_names(const lm_models *m, lm_text *out)
{
    for (size_t i = 0; lm_models_at(m, i); i++)
        lm_text_printf(out, "%s%s", i ? ", " : "", lm_models_at(m, i)->name);
    lm_text_add_char(out, 0);
}

/* A single model answers under any name. */
lm_status lm_call_find(lm_call *c, lm_error *e)
{
    const json_t *given = json_object_get(c->body, "model");
    if (!json_string_length(given) && c->route->dialect == LM_DIALECT_OLLAMA)       /* its older name */
        given = json_object_get(c->body, "name");
    const char *name = json_is_string(given) ? json_string_value(given) : lm_exchange_query(c->x, "model");
    lm_text names = { 0 };
    lm_status status;

    if (lm_models_count(c->models) == 1)
        return LM_OK;
    if (name && (c->service = lm_models_find(c->models, name)))
        return LM_OK;
    c->service = lm_models_at(c->models, 0);
    add_names(c->models, &names);
    status = name ? lm_fault(c, e, 404, "model", "the model \"%.60s\" does not exist; this server has %.300s",
                             name, names.data)
                  : lm_fault(c, e, 400, "model",
                             "'model' is required, because this server has several models: %.300s",
                             names.data);
    lm_text_free(&names);
    return status;
}

/* Stop counting the call's memory, and start again: around lm_models_use, which may pass the exchange to
 * another worker. */
static void stop_counting(lm_call *c)
{
    lm_heap_end(c->heap);
    lm_exchange_adjust(c->x, -(int64_t)c->heap->granted);
    c->heap->granted = 0;
}

static void start_counting(lm_call *c)
{
    uint64_t held = c->heap->held > 0 ? (uint64_t)c->heap->held : 0;

    lm_exchange_adjust(c->x, (int64_t)held);
    c->heap->granted = held;
    lm_heap_begin(c->heap);
}

lm_status lm_call_model(lm_call *c, lm_error *e)
{
    if (c->uses)
        return LM_OK;
    stop_counting(c);
    lm_use use = lm_models_use(c->service, c->x, e);
    if (use == LM_USE_LATER) {
        c->later = true;
        return LM_CANCELLED;
    }
    start_counting(c);
    c->uses = use == LM_USE_READY;
    if (c->uses)
        return LM_OK;
    if (e->code == LM_NO_FIT)
        c->status = 507;
    else if (e->code != LM_CANCELLED && e->code != LM_NO_MEMORY)
        c->status = 500;
    return e->code;
}

const char *lm_call_key(const lm_call *c)
{
    return lm_keys_required(c->keys) ? c->key : NULL;
}

void lm_call_owner(const lm_call *c, char out[33])
{
    lm_keys_owner(c->keys, c->key, out);
}

void lm_call_account(const lm_call *c, lm_account *out)
{
    *out = (lm_account){ .archive = lm_models_at(c->models, 0)->o.archive,
                         .keys = c->keys,
                         .service = c->service };
    lm_call_owner(c, out->owner);
}

void lm_account_charge(const lm_account *a, uint64_t prompt, uint64_t cached, uint64_t generated)
{
    lm_keys_charge(a->keys, a->owner, prompt + generated);
    lm_archive_count(a->archive, a->owner, a->service->name, prompt, cached, generated);
}

int32_t lm_call_priority(const lm_call *c, int32_t wanted)
{
    int32_t priority = lm_keys_priority(c->keys, c->key, wanted);

    if (wanted != LM_PRIORITY_NONE && priority != wanted)
        lm_field_warn(c->warnings, "priority: %d is below the priority of the API key; %d is used",
                      (int)wanted, (int)priority);
    return -priority;
}
