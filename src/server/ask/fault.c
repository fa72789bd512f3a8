/* fault.c - errors in the form of each dialect: OpenAI's error object, llama.cpp's with numbers as codes,
 * Anthropic's, ollama's. Threads: any. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ask/call.h"
#include "server/front/memory.h"

typedef struct fault_kind { unsigned status; const char *type, *code, *anthropic; } fault_kind;

static const fault_kind kinds[] = {
    { 400, "invalid_request_error", NULL, "invalid_request_error" },
    { 401, "authentication_error", "invalid_api_key", "authentication_error" },
    { 403, "permission_error", NULL, "permission_error" },
    { 404, "not_found_error", NULL, "not_found_error" },
    { 405, "invalid_request_error", "method_not_allowed", "invalid_request_error" },
    { 413, "invalid_request_error", "request_too_large", "request_too_large" },
    { 415, "invalid_request_error", "unsupported_media_type", "invalid_request_error" },
    { 429, "rate_limit_exceeded", "rate_limit_exceeded", "rate_limit_error" },
    { 500, "server_error", NULL, "api_error" },
    { 501, "not_supported_error", NULL, "invalid_request_error" },
    { 503, "unavailable_error", NULL, "overloaded_error" },
    { 507, "insufficient_memory_error", "model_does_not_fit", "api_error" },
};

static const fault_kind *kind_of(unsigned status)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].status == status)
            return kinds + i;
    return kinds + (status < 500 ? 0 : 8);
}

static unsigned status_of(const lm_error *e)
{
    switch (e->code) {
    case LM_USAGE:
    case LM_LIMIT:       return 400;
    case LM_NOT_FOUND:   return 404;
    case LM_NO_FIT:      return 429;
    case LM_UNSUPPORTED: return 501;
    case LM_CANCELLED:   return 503;
    default:             return 500;
    }
}

lm_status lm_fault(lm_call *c, lm_error *e, unsigned status, const char *where, const char *format, ...)
{
    char text[sizeof e->message];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    c->status = status;
    return lm_error_set(e, status < 500 ? LM_USAGE : LM_FAILED, where, LM_NO_OFFSET, text);
}

/* Find "'field'" in the message; NULL: the message does not name the field. */
static const char *named_in(const char *message, const char *field)
{
    size_t n = strlen(field);

    for (const char *at = strchr(message, '\''); n && at; at = strchr(at + 1, '\''))
        if (strncmp(at + 1, field, n) == 0 && at[1 + n] == '\'')
            return at;
    return NULL;
}

lm_status lm_fault_rename(lm_status status, const char *field, const char *sent, lm_error *e)
{
    lm_error why = *e;
    const char *at;

    if (status == LM_OK || strcmp(why.where, field))
        return status;
    if (!(at = named_in(why.message, field)))
        return lm_fail(e, status, sent, LM_NO_OFFSET, "%s", why.message);
    return lm_fail(e, status, sent, LM_NO_OFFSET, "%.*s'%s'%s", (int)(at - why.message), why.message, sent,
                   at + strlen(field) + 2);
}

/* Put the field before a message that names neither it nor its element ("tools[2] …"): clients often show the
 * message alone. Either may be cut within a character. */
static void name_field(lm_error *e)
{
    char text[sizeof e->message];
    size_t n = strlen(e->where);

    if (!n || named_in(e->message, e->where) || (!strncmp(e->message, e->where, n) && e->message[n] == '['))
        return;
    snprintf(text, sizeof text, "%.100s: %.280s", e->where, e->message);
    lm_escape(e->message, sizeof e->message, text);
}

/* Whether the message is like "900 tokens; the context size is 512"; if so, return both numbers, for clients
 * that use them. */
static bool is_too_long(const lm_error *e, unsigned long long *prompt, unsigned long long *context)
{
    static const char between[] = " tokens; the context size is ";
    char *end;

    if (e->code != LM_LIMIT)
        return false;
    *prompt = strtoull(e->message, &end, 10);
    if (end == e->message || strncmp(end, between, sizeof between - 1))
        return false;
    *context = strtoull(end + sizeof between - 1, NULL, 10);
    return true;
}

/* Write the message of each dialect's own server: agents look for it, to shorten their history. The code is
 * in OpenAI's message as well: exceptions of its Python library print the message alone, and LangChain looks
 * there. */
static void write_too_long(lm_dialect d, unsigned long long prompt, unsigned long long context, lm_error *out)
{
    static const char *const words[] = {
        [LM_DIALECT_OPENAI] =
            "This model's maximum context length is %2$llu tokens. However, your prompt has %1$llu tokens "
            "(context_length_exceeded).",
        [LM_DIALECT_NATIVE] =
            "the request (%1$llu tokens) exceeds the available context size (%2$llu tokens)",
        [LM_DIALECT_ANTHROPIC] = "prompt is too long: %1$llu tokens > %2$llu maximum",
        [LM_DIALECT_OLLAMA] =
            "the input length exceeds the context length: %1$llu tokens; the context size is %2$llu",
    };

    snprintf(out->message, sizeof out->message, words[d], prompt, context);
}

static const char *code_of(const lm_error *e, const fault_kind *k)
{
    if (strcmp(e->where, "the store") == 0)
        return "store_failed";
    if (k->status == 404 && strcmp(e->where, "previous_response_id") == 0)
        return "previous_response_not_found";
    return k->code;
}

static json_t *openai(const lm_error *given, const fault_kind *k, bool numbered)
{
    unsigned long long prompt = 0, context = 0;
    bool long_prompt = is_too_long(given, &prompt, &context);
    lm_error out = *given, *e = &out;

    if (long_prompt)
        write_too_long(numbered ? LM_DIALECT_NATIVE : LM_DIALECT_OPENAI, prompt, context, e);
    else
        name_field(e);
    const char *code = k->status == 404 && strcmp(e->where, "model") == 0 ? "model_not_found" : code_of(e, k);
    json_t *o = json_pack("{s:s, s:s, s:s?}", "message", e->message, "type",
                          long_prompt ? "exceed_context_size_error" : k->type, "param",
                          *e->where ? e->where : NULL);

    if (long_prompt)
        code = "context_length_exceeded";
    if (numbered)
        json_object_set_new(o, "code", json_integer(k->status));
    else
        json_object_set_new(o, "code", code ? json_string(code) : json_null());
    if (long_prompt) {
        json_object_set_new(o, "n_prompt_tokens", json_integer((json_int_t)prompt));
        json_object_set_new(o, "n_ctx", json_integer((json_int_t)context));
    }
    if (*e->hint)
        json_object_set_new(o, "hint", json_string(e->hint));
    return json_pack("{s:o}", "error", o);
}

json_t *lm_fault_json(lm_dialect d, unsigned status, const lm_error *e)
{
    const fault_kind *k = kind_of(status ? status : status_of(e));
    lm_error out = *e;
    unsigned long long prompt = 0, context = 0;

    if (d >= LM_DIALECT_ANTHROPIC && is_too_long(e, &prompt, &context))
        write_too_long(d, prompt, context, &out);
    else
        name_field(&out);
    if (d == LM_DIALECT_ANTHROPIC)
        return json_pack("{s:s, s:{s:s, s:s}}", "type", "error", "error", "type", k->anthropic, "message",
                         out.message);
    if (d == LM_DIALECT_OLLAMA)
        return json_pack("{s:s}", "error", out.message);
    return openai(e, k, d == LM_DIALECT_NATIVE);
}

void lm_answer_text(lm_exchange *x, unsigned status, const char *type, const char *text)
{
    lm_exchange_head(x, status, type);
    lm_text_add_str(lm_exchange_out(x), text);
    lm_exchange_end(x);
}

void lm_answer_fault(lm_exchange *x, lm_dialect d, unsigned status, double retry, const lm_error *e)
{
    char seconds[24] = "2";

    json_t *o = lm_fault_json(d, status, e);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

    status = status ? status : status_of(e);
    if (retry > 0)
        snprintf(seconds, sizeof seconds, "%.0f", ceil(retry));
    if (status == 429 || status == 503)
        lm_exchange_add_header(x, "Retry-After", seconds);
    if (status == 507)
        lm_exchange_add_header(x, "x-should-retry", "false");
    if (status == 401)
        lm_exchange_add_header(x, "WWW-Authenticate", "Bearer");
    lm_text_clear(lm_exchange_out(x));
    lm_answer_text(x, status, "application/json; charset=utf-8",
                   text ? text : "{\"error\":{\"message\":\"out of memory\"}}");
    lm_heap_free(text);
    json_decref(o);
}

bool lm_fault_is_late(const lm_error *e)
{
    return e->code == LM_LIMIT && strcmp(e->where, "deadline") == 0;
}

lm_status lm_answer_document(lm_exchange *x, json_t *document, json_t *warnings, lm_error *e)
{
    char *text;

    if (json_is_object(document) && json_array_size(warnings))
        json_object_set(document, "warnings", warnings);
    text = document ? json_dumps(document, JSON_COMPACT) : NULL;
    json_decref(document);
    if (!text)
        return lm_fail_memory(e, "the answer", 0);
    lm_answer_text(x, 200, "application/json; charset=utf-8", text);
    lm_heap_free(text);
    return LM_OK;
}

lm_status lm_answer_json(lm_call *c, json_t *document, lm_error *e)
{
    return lm_answer_document(c->x, document, c->warnings, e);
}
