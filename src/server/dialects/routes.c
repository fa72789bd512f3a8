/* The table of all routes, and /openapi.json, which is generated from it; docs/server/api.md is generated
 * from that. */
#include <string.h>

#include "server/ask/request_limits.h"
#include "server/dialects/routes.h"

static const lm_route *const table[] = {
#define X(name) &lm_route_##name,
#ifdef LM_WITHOUT_STUDY
#define E(name)
#else
#define E(name) &lm_route_##name,
#endif
    LM_ROUTES(X, E)
#undef E
#undef X
    NULL,
};

const lm_route *lm_route_at(size_t i)
{
    return i < sizeof table / sizeof *table ? table[i] : NULL;
}

static json_t *field_schema(const lm_field *f)
{
    const char *type = lm_field_type(f);
    json_t *o = json_pack("{s:s}", "description",
                          f->help                        ? f->help
                          : f->kind == LM_FIELD_IGNORED ? "accepted and has no effect"
                                                         : "");

    if (type)
        json_object_set_new(o, "type", json_string(type));
    if (f->kind == LM_FIELD_REFUSED)
        json_object_set_new(o, "deprecated", json_true());
    if (f->kind == LM_FIELD_WORD) {
        json_t *words = json_array();
        for (size_t i = 0; f->words[i]; i++)
            json_array_append_new(words, json_string(f->words[i]));
        json_object_set_new(o, "enum", words);
    }
    if ((f->min != 0 || f->max != 0) && type) {
        bool whole = strcmp(type, "integer") == 0;
        json_object_set_new(o, "minimum", whole ? json_integer((json_int_t)f->min) : json_real(f->min));
        json_object_set_new(o, "maximum",
                            whole ? json_integer(f->max < 0x1p63 ? (json_int_t)f->max : INT64_MAX)
                                  : json_real(f->max));
    }
    return o;
}

static json_t *body_schema(const lm_route *r)
{
    if (r->flags & LM_ROUTE_LIST)
        return field_schema(r->groups->fields);
    json_t *properties = json_object(), *required = json_array(), *o;

    for (const lm_field_group *g = r->groups; g->fields; g++)
        for (const lm_field *f = g->fields; f->name; f++) {
            json_object_set_new(properties, f->name, field_schema(f));
            if (f->required)
                json_array_append_new(required, json_string(f->name));
        }
    o = json_pack("{s:s, s:o}", "type", "object", "properties", properties);
    if (json_array_size(required))
        json_object_set(o, "required", required);
    json_decref(required);
    return o;
}

static json_t *query_parameters(const char *names)
{
    json_t *list = json_array();

    for (size_t n; *names; names += n + strspn(names + n, ", ")) {
        n = strcspn(names, ",");
        json_array_append_new(list, json_pack("{s:s%, s:s, s:{s:s}}", "name", names, n, "in", "query",
                                              "schema", "type", "string"));
    }
    return list;
}

static json_t *operation(const lm_route *r)
{
    json_t *o = json_pack("{s:s, s:{s:{s:s}}}", "summary", r->summary, "responses", "200", "description",
                          "success");

    if (r->groups)
        json_object_set_new(o, "requestBody",
                            json_pack("{s:{s:{s:o}}}", "content", "application/json", "schema",
                                      body_schema(r)));
    if (r->query)
        json_object_set_new(o, "parameters", query_parameters(r->query));
    if (r->flags & LM_ROUTE_OPEN)
        json_object_set_new(o, "security", json_array());
    if (r->also)
        json_object_set_new(o, "x-also", json_string(r->also));
    return o;
}

static void method_name(const char *method, char out[8])
{
    size_t i = 0;

    for (; method[i] && i < 7; i++)
        out[i] = (char)(method[i] | 0x20);
    out[i] = 0;
}

json_t *lm_routes_document(const char *prefix, size_t n_prefix)
{
    json_t *paths = json_object();

    for (size_t i = 0; table[i]; i++) {
        char method[8];
        json_t *at = json_object_get(paths, table[i]->path);

        if (!at)
            json_object_set_new(paths, table[i]->path, at = json_object());
        method_name(table[i]->method, method);
        json_object_set_new(at, method, operation(table[i]));
    }
    return json_pack("{s:s, s:{s:s, s:s}, s:[{s:s%}], s:o, s:{s:{s:{s:s, s:s}}}, s:[{s:[]}], s:o}", "openapi",
                     "3.1.0", "info", "title", "lamina", "version", lm_version(), "servers", "url",
                     n_prefix ? prefix : "/", n_prefix ? n_prefix : 1, "paths", paths, "components",
                     "securitySchemes", "key", "type", "http", "scheme", "bearer", "security", "key",
                     "x-limits", lm_limits_json());
}

static lm_status answer_openapi(lm_call *c, lm_error *e)
{
    const char *path = lm_exchange_path(c->x), *whole = lm_exchange_whole_path(c->x);

    return lm_answer_json(c, lm_routes_document(whole, strlen(whole) - strlen(path)), e);
}

const lm_route lm_route_openapi = {
    .method = "GET", .path = "/openapi.json", .flags = LM_ROUTE_OPEN | LM_ROUTE_QUICK | LM_ROUTE_LOADING,
    .dialect = LM_DIALECT_OPENAI,
    .summary = "return this description",
    .handle = answer_openapi,
};
