/* GET and POST /lora-adapters, as in llama-server. */
#include <string.h>

#include "server/models/loras.h"
#include "server/dialects/routes.h"
#include "server/front/memory.h"

/* Describe adapter `i`. If the model is not in memory (`here` false), only the options of the server are
 * known. */
static json_t *one_json(const lm_service *s, size_t i, float scale, bool here)
{
    json_t *o = json_pack("{s:I, s:s, s:f, s:s, s:s}", "id", (json_int_t)i, "path", s->o.loras[i], "scale",
                          (double)scale, "task_name", "", "prompt_prefix", "");
    lm_adapter_info info;

    if (!o || !here)
        return o;
    lm_adapter_describe(s->loras[i], &info);
    json_object_set_new(o, "task_name", json_string(info.task_name ? info.task_name : ""));
    json_object_set_new(o, "prompt_prefix", json_string(info.prompt_prefix ? info.prompt_prefix : ""));
    json_object_set_new(o, "name", json_string(info.name));
    json_object_set_new(o, "format", json_string(info.format));
    json_object_set_new(o, "rank", json_integer(info.rank));
    json_object_set_new(o, "base_model", info.base ? json_string(info.base) : json_null());
    return o;
}

static lm_status answer_loras(lm_call *c, lm_error *e)
{
    lm_service *s = c->service;
    float *scales = NULL;
    json_t *list = json_array();
    bool here = lm_models_peek(s);
    lm_status status = lm_loras_read(s, NULL, &scales, e);

    for (size_t i = 0; status == LM_OK && i < s->n_loras; i++)
        json_array_append_new(list, one_json(s, i, scales[i], here));
    if (here)
        lm_models_unpeek(s);
    lm_heap_free(scales);
    if (status == LM_OK)
        return lm_answer_json(c, list, e);
    json_decref(list);
    return status;
}

const lm_route lm_route_loras = {
    .method = "GET", .path = "/lora-adapters", .flags = LM_ROUTE_QUICK | LM_ROUTE_ALL,
    .dialect = LM_DIALECT_NATIVE,
    .summary = "list low-rank adapters (--lora) and their default scales",
    .handle = answer_loras,
};

typedef struct loras_values { json_t *list; } loras_values;

static const lm_field loras_fields[] = {
    { "lora", LM_FIELD_ARRAY, offsetof(loras_values, list), 0, 0, NULL, true,
      "[{id, scale}, ...]; adapters that it does not name have the scale 0 from now on" },
    { 0 },
};
static const lm_field_group loras_groups[] = { { loras_fields, 0 }, { 0 } };

static lm_status set_loras(lm_call *c, lm_error *e)
{
    const loras_values *v = c->values;
    lm_service *s = c->service;
    float *scales = NULL;

    LM_TRY(lm_loras_read(s, v->list, &scales, e));
    pthread_mutex_lock(&s->lora_lock);
    if (scales)
        memcpy(s->lora_scales, scales, s->n_loras * sizeof *scales);
    pthread_mutex_unlock(&s->lora_lock);
    lm_heap_free(scales);
    return lm_answer_json(c, json_pack("{s:b}", "success", 1), e);
}

const lm_route lm_route_set_loras = {
    .method = "POST", .path = "/lora-adapters", .flags = LM_ROUTE_QUICK | LM_ROUTE_ALL | LM_ROUTE_LIST,
    .dialect = LM_DIALECT_NATIVE,
    .summary = "set the default scales of adapters",
    .groups = loras_groups, .values_size = sizeof(loras_values), .handle = set_loras,
};
