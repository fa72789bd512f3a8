/* call.c - the way of a request before its handler: route, sender, key, query, state of the server, body,
 * model, fields, limits; and after it: the error, and everything that the call owns. Read from `run` upwards,
 * then lm_call_handle.
 *
 * The call lives on the stack of the worker that handles it (for quick routes: of the front). It owns the
 * body, the warnings and the values. A handler may give the values away (turn.h); nothing else of the call
 * outlives lm_call_handle. If the model has to be loaded first, another worker may have the exchange before
 * lm_models_use returns: then `later` is set, and nothing more is done with the exchange. */
#include "server/ask/call.h"

#include <math.h>
#include <string.h>

#include "base/json_exact.h"
#include "lamina/heap.h"
#include "server/ask/json_body.h"
#include "server/ask/request_limits.h"
#include "server/ask/sender.h"
#include "server/store/archive.h"
#include "server/store/api_keys.h"
#include "server/front/memory.h"

/* ---- routes ---- */

/* Whether `path` matches the n bytes of `pattern`. "{id}" matches one part of the path, "{model}" all that is
 * left, since names such as org/name have slashes; it is copied to `id`. */
static bool matches(const char *pattern, size_t n, const char *path, char id[LM_PATH_ID])
{
    const char *end = pattern + n;

    while (pattern < end) {
        if (*pattern == '{') {
            size_t size = strncmp(pattern, "{model}", 7) ? strcspn(path, "/") : strlen(path);
            if (!size || size >= LM_PATH_ID)
                return false;
            memcpy(id, path, size);
            id[size] = 0;
            path += size;
            pattern = memchr(pattern, '}', (size_t)(end - pattern));
            pattern++;
            continue;
        }
        if (*pattern++ != *path++)
            return false;
    }
    return !*path;
}

static bool route_matches(const lm_route *r, const char *path, char id[LM_PATH_ID])
{
    if (matches(r->path, strlen(r->path), path, id))
        return true;
    for (const char *at = r->also; at && *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (matches(at, n, path, id))
            return true;
        at += n;
    }
    return false;
}

/* Return the route of a path and method; NULL: none. Other methods of the path are appended to `allow`, which
 * may be NULL. */
static const lm_route *find_route(const char *method, const char *path, char id[LM_PATH_ID], lm_text *allow)
{
    const lm_route *r;

    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    for (size_t i = 0; (r = lm_route_at(i)); i++) {
        if (!route_matches(r, path, id))
            continue;
        if (strcmp(r->method, method) == 0)
            return r;
        if (allow)
            lm_text_printf(allow, "%s%s", allow->size ? ", " : "", r->method);
    }
    return NULL;
}

lm_http_lane lm_call_lane(void *models, const char *method, const char *path)
{
    char id[LM_PATH_ID];
    const lm_route *r = path ? find_route(method, path, id, NULL) : NULL;

    (void)models;
    if (!r || r->flags & LM_ROUTE_QUICK)
        return LM_LANE_FRONT;
    if (r->flags & LM_ROUTE_TRACES)
        return LM_LANE_TRACES;
    return r->flags & LM_ROUTE_LONG ? LM_LANE_LONG : LM_LANE_WORKERS;
}

/* ---- the sender ---- */

static const char *key_of(const lm_exchange *x)
{
    const char *bearer = lm_exchange_header(x, "Authorization");

    if (bearer && strncasecmp(bearer, "Bearer ", 7) == 0)
        return bearer + 7 + strspn(bearer + 7, " ");
    return lm_exchange_header(x, "X-Api-Key");
}

static lm_sender sender_of(const lm_call *c)
{
    const lm_service_options *o = &c->service->o;
    lm_exchange *x = c->x;

    return (lm_sender){ .host = lm_exchange_header(x, "Host"),
                        .origin = lm_exchange_header(x, "Origin"),
                        .site = lm_exchange_header(x, "Sec-Fetch-Site"),
                        .mode = lm_exchange_header(x, "Sec-Fetch-Mode"),
                        .method = lm_exchange_method(x),
                        .tls = lm_exchange_is_encrypted(x),
                        .hosts = o->allowed_hosts,
                        .origins = o->origins,
                        .any_host = o->any_host || lm_keys_required(c->keys) };
}

/* Allow pages of the sender's origin to read the answer, if it is a listed one. */
static void allow_origin(const lm_sender *s, lm_exchange *x)
{
    if (!lm_sender_origin_listed(s))
        return;
    lm_exchange_add_header(x, "Access-Control-Allow-Origin", s->origin);
    lm_exchange_add_header(x, "Vary", "Origin");
}

static lm_status check_sender(lm_call *c, const lm_sender *s, lm_error *e)
{
    if (!lm_sender_host_allowed(s))
        return lm_fault(c, e, 403, "Host",
                        "\"%.100s\" is not a name of this server: add it with --allowed-host, or set an API "
                        "key",
                        s->host);
    if (strcmp(s->method, "OPTIONS") == 0)
        return LM_OK;
    if (!lm_sender_page_allowed(s))
        return lm_fault(c, e, 403, s->origin ? "Origin" : "Sec-Fetch-Site",
                        "pages of \"%.100s\" may not use this server: add their origin with --cors-origins",
                        s->origin ? s->origin : s->site);
    allow_origin(s, c->x);
    return LM_OK;
}

/* Clients in pages send headers of their own, as x-stainless-lang: a listed origin may send any. */
static void answer_options(const lm_sender *s, lm_exchange *x)
{
    const char *asked = lm_sender_origin_listed(s) ? lm_exchange_header(x, "Access-Control-Request-Headers")
                                                   : NULL;

    allow_origin(s, x);
    lm_exchange_add_header(x, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    lm_exchange_add_header(x, "Access-Control-Allow-Headers",
                           asked
                               ? asked
                               : "Authorization, Content-Type, X-Api-Key, Anthropic-Version, Anthropic-Beta");
    lm_exchange_add_header(x, "Access-Control-Max-Age", "600");
    lm_exchange_head(x, 200, NULL);
    lm_exchange_end(x);
}

static lm_status check_state(lm_call *c, lm_error *e)
{
    lm_error why = { 0 };

    if (c->route->flags & LM_ROUTE_LOADING)
        return LM_OK;
    switch (lm_models_state(c->models, &why)) {
    case LM_SERVICE_LOADING:  return lm_fault(c, e, 503, NULL, "Loading model");
    case LM_SERVICE_DRAINING: return lm_fault(c, e, 503, NULL, LM_SERVER_ENDS);
    case LM_SERVICE_FAILED:
        return lm_fault(c, e, 500, NULL, "the model could not be loaded: %.200s", why.message);
    default:                  return LM_OK;
    }
}

static uint64_t used_today(void *archive, const char *owner)
{
    return lm_archive_today(archive, owner);
}

/* Enforce the limits of the key for routes that cause work. A request that has waited for its model was
 * counted before. */
static lm_status check_limits(lm_call *c, lm_error *e)
{
    const char *why;

    if (c->route->flags & (LM_ROUTE_ALL | LM_ROUTE_LOADING | LM_ROUTE_QUICK | LM_ROUTE_OPEN) ||
        lm_exchange_is_again(c->x) ||
        lm_keys_take(c->keys, c->key, used_today, lm_models_at(c->models, 0)->o.archive, &c->retry, &why))
        return LM_OK;
    return lm_fault(c, e, 429, NULL, "the limit of %s is reached: try again in %.0f s", why, ceil(c->retry));
}

/* ---- the body ---- */

/* Scan the text of a body, which need not be valid, once before it is parsed: return the number of nested
 * levels of arrays and objects, and append to `wide` the numbers that the parser cannot represent. jansson's
 * own limit of 2048 levels is deeper than code that walks the document should recurse. */
static size_t scan_body(const char *text, size_t n, lm_text *wide)
{
    size_t depth = 0, max = 0, i = 0;

    while (i < n) {
        size_t from = i++;

        if (text[from] == '"') {
            while (i < n && text[i] != '"')
                i += text[i] == '\\' ? 2 : 1;
            i++;
        } else if (text[from] == '{' || text[from] == '[') {
            max = ++depth > max ? depth : max;
        } else if ((text[from] == '}' || text[from] == ']') && depth) {
            depth--;
        } else if (text[from] == '-' || (text[from] >= '0' && text[from] <= '9')) {
            while (i < n && text[i] && strchr("0123456789.eE+-", text[i]))
                i++;
            lm_text_add_wide_numbers(wide, text + from, i - from);
        }
    }
    return max;
}

/* Web pages can send some types, such as forms and plain text, without a CORS preflight, so only this one
 * counts as JSON. Plain `curl -d`, as in many examples for this API, declares a form: that and a missing type
 * are accepted unless a page sent the request. */
static bool is_json(const char *type, const lm_sender *s)
{
    size_t n = type ? strcspn(type, "; \t") : 0;

    if (!type)
        return !lm_sender_is_page(s);
    return (n == 16 && strncasecmp(type, "application/json", n) == 0) ||
           (n == 33 && strncasecmp(type, "application/x-www-form-urlencoded", n) == 0 &&
            !lm_sender_is_page(s));
}

static lm_status read_body(lm_call *c, const lm_sender *s, lm_error *e)
{
    size_t n, mended, depth;
    const char *text = lm_exchange_body(c->x, &n), *coding = lm_exchange_header(c->x, "Content-Encoding");
    json_error_t why;

    if (!c->route->groups)
        return LM_OK;
    if (coding && *coding && strcasecmp(coding, "identity"))
        return lm_fault(c, e, 415, "Content-Encoding",
                        "the content coding \"%.40s\" is not supported: send the body uncompressed", coding);
    if (!is_json(lm_exchange_header(c->x, "Content-Type"), s))
        return lm_fault(c, e, 415, "Content-Type", "the content type must be application/json");
    if ((depth = scan_body(text, n, &c->wide)) > LM_LIMIT_DEPTH)
        return lm_fault(c, e, 400, NULL,
                        "the body has %zu nested levels of arrays and objects; at most %d are allowed", depth,
                        LM_LIMIT_DEPTH);
    mended = 0;
    c->body = n ? lm_json_body(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &mended, &why)
                : json_object();
    if (!c->body)
        return lm_fault(c, e, 400, NULL, "the request body is not valid JSON: %.150s (line %d, column %d)",
                        why.text, why.line, why.column);
    if (c->wide.failed || !(c->warnings = json_array()))
        return lm_fail_memory(e, "the request", n);
    if (mended)
        lm_field_warn(c->warnings, "the body contains %zu invalid characters; each was replaced with U+FFFD",
                      mended);
    if (c->route->flags & LM_ROUTE_LIST) {
        if (!json_is_array(c->body))
            return lm_fault(c, e, 400, NULL, "the request body must be a JSON array");
        c->body = json_pack("{s:o}", c->route->groups->fields->name, c->body);
        return c->body ? LM_OK : lm_fail_memory(e, "the request", n);
    }
    if (!json_is_object(c->body))
        return lm_fault(c, e, 400, NULL, "the request body must be a JSON object");
    return LM_OK;
}

static lm_status read_fields(lm_call *c, lm_error *e)
{
    if (!c->body)
        return LM_OK;
    if (!(c->values = lm_memory_zero(1, c->route->values_size)))
        return lm_fail_memory(e, "the request", c->route->values_size);
    if (c->route->defaults)
        c->route->defaults(c->service, c->values);
    return lm_fields_read(c->route->groups, c->body, c->values, c->warnings, e);
}

static lm_status check_query(lm_call *c, lm_error *e)
{
    const char *known = c->route->query, *other = known ? lm_exchange_other_query(c->x, known) : NULL;

    if (!other)
        return LM_OK;
    return lm_fail(e, LM_USAGE, other, LM_NO_OFFSET, "unknown query parameter '%.40s'; %s accepts %s", other,
                   c->route->path, known);
}

/* The prefix alone: the page's own addresses are relative to the folder. */
static void redirect(lm_exchange *x, const char *prefix)
{
    lm_text to = { 0 };

    lm_text_printf(&to, "%s/", prefix);
    if (!to.failed)
        lm_exchange_add_header(x, "Location", to.data);
    lm_text_free(&to);
    lm_exchange_head(x, 308, NULL);
    lm_exchange_end(x);
}

static lm_status run(lm_call *c, lm_text *allow, lm_error *e)
{
    const char *method = lm_exchange_method(c->x), *path = lm_exchange_path(c->x);
    const char *whole = lm_exchange_whole_path(c->x);
    lm_sender sender = sender_of(c);

    LM_TRY(check_sender(c, &sender, e));
    if (strcmp(method, "OPTIONS") == 0) {
        answer_options(&sender, c->x);
        return LM_OK;
    }
    if (path && !*path) {
        redirect(c->x, whole);
        return LM_OK;
    }
    if (!path || !(c->route = find_route(method, path, c->id, allow))) {
        if (!allow->size)
            return lm_fault(c, e, 404, NULL, "the path %.100s does not exist", whole);
        lm_exchange_add_header(c->x, "Allow", allow->data);
        return lm_fault(c, e, 405, NULL, "the method %.20s is not allowed for %.100s", method, whole);
    }
    c->key = key_of(c->x);
    if (!(c->route->flags & LM_ROUTE_OPEN) && !lm_keys_admit(c->keys, c->key))
        return lm_fault(c, e, 401, NULL,
                        c->key ? "Invalid API Key" : "an API key is required: Authorization: Bearer KEY");
    LM_TRY(check_query(c, e));
    LM_TRY(check_state(c, e));
    LM_TRY(read_body(c, &sender, e));
    if (!(c->route->flags & (LM_ROUTE_ALL | LM_ROUTE_LOADING)))
        LM_TRY(lm_call_find(c, e));
    LM_TRY(read_fields(c, e));
    LM_TRY(check_limits(c, e));
    if (!(c->route->flags & (LM_ROUTE_ALL | LM_ROUTE_LOADING | LM_ROUTE_ASKS)))
        LM_TRY(lm_call_model(c, e));
    return c->route->handle(c, e);
}

static lm_dialect dialect_of(const char *path)
{
    if (!path)
        return LM_DIALECT_OPENAI;
    if (strncmp(path, "/v1/messages", 12) == 0)
        return LM_DIALECT_ANTHROPIC;
    return strncmp(path, "/api/", 5) == 0 ? LM_DIALECT_OLLAMA : LM_DIALECT_OPENAI;
}

/* ---- memory ---- */

static bool may_hold(void *x, uint64_t bytes)
{
    return lm_exchange_charge(x, bytes);
}

static void answer_no_memory(lm_call *c, const lm_heap_watch *w, lm_error *e)
{
    char why[200];
    unsigned status = lm_exchange_no_memory(c->x, w->wanted, why);

    lm_fault(c, e, status, NULL, "%s", why);
}

bool lm_call_handle(void *models, lm_exchange *x)
{
    lm_heap_watch w = { .more = may_hold, .arg = x };
    lm_call c = { .models = models, .service = lm_models_at(models, 0), .x = x, .heap = &w };
    lm_text allow = { 0 };
    lm_error e = { 0 };
    lm_status status;

    c.keys = c.service->o.keys;
    lm_heap_begin(&w);
    status = run(&c, &allow, &e);
    if (status != LM_OK && !c.later && w.wanted)
        answer_no_memory(&c, &w, &e);
    w.more = NULL;
    if (status != LM_OK && !c.later)
        lm_answer_fault(x, c.route ? c.route->dialect : dialect_of(lm_exchange_path(x)), c.status, c.retry,
                        &e);
    lm_text_free(&allow);
    json_decref(c.body);
    json_decref(c.warnings);
    lm_text_free(&c.wide);
    if (c.values && c.release)
        c.release(c.values);
    lm_heap_free(c.values);
    if (!c.later) {                      /* otherwise another worker has it by now */
        lm_heap_end(&w);
        lm_exchange_adjust(x, w.held - (int64_t)w.granted);
    }
    if (c.uses)
        lm_models_release(c.service);
    return !c.later;
}

void lm_call_refuse(void *models, lm_exchange *x, unsigned status, const char *why)
{
    lm_call c = { .models = models };
    lm_error e = { 0 };

    lm_fault(&c, &e, status, NULL, "%s", why);
    lm_answer_fault(x, dialect_of(lm_exchange_path(x)), status, 0, &e);
}
