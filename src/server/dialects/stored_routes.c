/* Routes of the archive: GET and DELETE /v1/responses/{id}, its input items, GET /v1/usage. */
#include <stdlib.h>
#include <string.h>

#include "server/store/archive.h"
#include "server/dialects/responses.h"
#include "server/dialects/routes.h"

enum { MAX_LISTED = 100 };

static lm_archive *archive_of(const lm_call *c)
{
    return lm_models_at(c->models, 0)->o.archive;
}

static void owner_of(const lm_call *c, char owner[33])
{
    lm_call_owner(c, owner);
}

/* ---- previous responses ---- */

/* Insert the items of the JSON `text`, or of its `member`, at the beginning of `all`. */
static lm_status put_before(json_t *all, const char *text, const char *member, lm_error *e)
{
    json_t *o = json_loads(text, 0, NULL), *list = member ? json_object_get(o, member) : o;

    if (!json_is_array(list)) {
        json_decref(o);
        return lm_fail(e, LM_IO, "the store", LM_NO_OFFSET, "a stored response is damaged: it has no items");
    }
    for (size_t i = json_array_size(list); i--;)
        json_array_insert(all, 0, json_array_get(list, i));
    json_decref(o);
    return LM_OK;
}

lm_status lm_response_before(lm_call *c, const char *id, json_t *all, lm_error *e)
{
    char owner[33], at[64];
    lm_status status = LM_OK;

    owner_of(c, owner);
    if (strlen(id) >= sizeof at)
        return lm_fault(c, e, 404, "previous_response_id", "the response \"%.60s\" is not stored", id);
    memcpy(at, id, strlen(id) + 1);
    for (size_t n = 0; status == LM_OK && *at; n++) {
        lm_record r = { 0 };

        LM_TRY(lm_limit_check(LM_LIMIT_ID_PREVIOUS, n + 1, e));
        if ((status = lm_archive_get(archive_of(c), owner, at, &r, e)) != LM_OK)
            break;
        status = put_before(all, r.response, "output", e);
        if (status == LM_OK)
            status = put_before(all, r.input, NULL, e);
        memcpy(at, r.previous, sizeof at);
        lm_record_free(&r);
    }
    return status == LM_NOT_FOUND
               ? lm_fault(c, e, 404, "previous_response_id", "the response \"%.60s\" is not stored", at)
               : status;
}

/* ---- routes ---- */

static lm_status find(lm_call *c, lm_record *out, lm_error *e)
{
    char owner[33];

    owner_of(c, owner);
    return lm_archive_get(archive_of(c), owner, c->id, out, e);
}

static lm_status answer_get(lm_call *c, lm_error *e)
{
    const char *stream = lm_exchange_query(c->x, "stream");
    lm_record r = { 0 };
    json_t *o;

    if (stream && strcmp(stream, "true") == 0)
        return lm_fail(e, LM_USAGE, "stream", LM_NO_OFFSET,
                       "'stream' is not supported: a stored response is returned whole");
    LM_TRY(find(c, &r, e));
    o = json_loads(r.response, 0, NULL);
    lm_record_free(&r);
    return o ? lm_answer_json(c, o, e)
             : lm_fail(e, LM_IO, "the store", LM_NO_OFFSET, "a stored response is damaged: it is not JSON");
}

static lm_status answer_delete(lm_call *c, lm_error *e)
{
    char owner[33];

    owner_of(c, owner);
    LM_TRY(lm_archive_remove(archive_of(c), owner, c->id, e));
    return lm_answer_json(c, json_pack("{s:s, s:s, s:b}", "id", c->id, "object", "response", "deleted", true),
                          e);
}

/* Return the list of the items selected by the query's limit, order and after. */
static lm_status list_items(lm_call *c, json_t *items, json_t **out, lm_error *e)
{
    const char *limit = lm_exchange_query(c->x, "limit"), *order = lm_exchange_query(c->x, "order");
    const char *after = lm_exchange_query(c->x, "after");
    char *end = "";
    size_t n = json_array_size(items), max = limit ? strtoul(limit, &end, 10) : 20, i = 0;
    bool rising = order && strcmp(order, "asc") == 0;

    if (*end || max < 1 || max > MAX_LISTED)
        return lm_fail(e, LM_USAGE, "limit", LM_NO_OFFSET, "'limit' is \"%.20s\"; it must be from 1 to %d",
                       limit, MAX_LISTED);
    if (order && !rising && strcmp(order, "desc"))
        return lm_fail(e, LM_USAGE, "order", LM_NO_OFFSET,
                       "'order' has the unknown value \"%.40s\": expected asc or desc", order);
    for (size_t j = 0; after && j < n && !i; j++) {
        const json_t *item = json_array_get(items, rising ? j : n - 1 - j);
        const char *id = json_string_value(json_object_get(item, "id"));
        if (id && strcmp(id, after) == 0)
            i = j + 1;
    }
    if (after && !i)
        return lm_fail(e, LM_USAGE, "after", LM_NO_OFFSET,
                       "'after' is \"%.40s\": the response has no input item with this id", after);
    json_t *data = json_array();
    for (; i < n && json_array_size(data) < max; i++)
        json_array_append(data, json_array_get(items, rising ? i : n - 1 - i));
    json_t *first = json_object_get(json_array_get(data, 0), "id");
    json_t *last = json_object_get(json_array_get(data, json_array_size(data) - 1), "id");
    *out = json_pack("{s:s, s:b, s:O?, s:O?, s:o}", "object", "list", "has_more", i < n, "first_id", first,
                     "last_id", last, "data", data);
    return LM_OK;
}

static lm_status answer_input_items(lm_call *c, lm_error *e)
{
    lm_record r = { 0 };
    json_t *items, *o = NULL;
    lm_status status;

    LM_TRY(find(c, &r, e));
    items = json_loads(r.input, 0, NULL);
    lm_record_free(&r);
    status = items ? list_items(c, items, &o, e)
                   : lm_fail(e, LM_IO, "the store", LM_NO_OFFSET,
                             "a stored response is damaged: its items are not JSON");
    json_decref(items);
    return status == LM_OK ? lm_answer_json(c, o, e) : status;
}

static lm_status answer_usage(lm_call *c, lm_error *e)
{
    char owner[33];
    json_t *list;

    owner_of(c, owner);
    LM_TRY(lm_archive_usage(archive_of(c), owner, &list, e));
    return lm_answer_json(c, json_pack("{s:s, s:o}", "object", "list", "data", list), e);
}

const lm_route lm_route_response = {
    .method = "GET", .path = "/v1/responses/{id}", .also = "/responses/{id}", .flags = LM_ROUTE_ALL,
    .dialect = LM_DIALECT_OPENAI,
    .summary = "return a stored response",
    .handle = answer_get, .query = "stream",
};
const lm_route lm_route_response_delete = {
    .method = "DELETE", .path = "/v1/responses/{id}", .also = "/responses/{id}", .flags = LM_ROUTE_ALL,
    .dialect = LM_DIALECT_OPENAI,
    .summary = "delete a stored response",
    .handle = answer_delete,
};
const lm_route lm_route_response_items = {
    .method = "GET", .path = "/v1/responses/{id}/input_items", .also = "/responses/{id}/input_items",
    .flags = LM_ROUTE_ALL, .dialect = LM_DIALECT_OPENAI,
    .summary = "return a stored response's input; limit, order and after as in OpenAI's API",
    .handle = answer_input_items, .query = "limit, order, after",
};
const lm_route lm_route_usage = {
    .method = "GET", .path = "/v1/usage", .flags = LM_ROUTE_ALL, .dialect = LM_DIALECT_OPENAI,
    .summary = "return the requests of this key and their tokens, by day (UTC) and model",
    .handle = answer_usage,
};
