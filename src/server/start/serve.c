/* serve.c - serve.h: the parts of the server are created in the order in which they use each other: keys,
 * models, store, front; and freed in the reverse order. The sandbox closes files while there is one thread,
 * system calls once the sockets exist. Threads: the one that runs the server. */
#include "server/start/serve.h"

#include <unistd.h>

#include "server/store/archive.h"
#include "server/ask/call.h"
#include "server/ask/request_limits.h"
#include "server/dialects/page.h"
#include "server/front/listen.h"
#include "server/front/sandbox.h"
#include "server/front/memory.h"

enum { SENDING_MS = 5000 };

struct lm_server { lm_http *http; lm_models *models; lm_archive *archive; lm_keys *keys; };

static lm_status check_addresses(const lm_server_options *o, bool keys, bool insecure, bool *all_local,
                                 lm_error *e)
{
    *all_local = true;
    for (size_t i = 0; o->http.hosts[i]; i++) {
        if (lm_listen_is_local(o->http.hosts[i]))
            continue;
        *all_local = false;
        if (!insecure && !keys) {
            lm_fail(e, LM_USAGE, "--host", LM_NO_OFFSET,
                    "%s can be reached from other machines, and no API key is set", o->http.hosts[i]);
            lm_fail_hint(e, "set one with --api-key or --api-key-file; --insecure serves without a key");
            return LM_USAGE;
        }
    }
    return LM_OK;
}

lm_status lm_server_start(const lm_server_options *o, bool insecure, lm_server **out, lm_error *e)
{
    lm_server *s = lm_memory_zero(1, sizeof *s);
    lm_http_options http = o->http;
    bool all_local = true;
    lm_status status = s ? lm_keys_new(&o->keys, &s->keys, e) : lm_fail_memory(e, "the server", sizeof *s);

    json_set_alloc_funcs(lm_heap_alloc, lm_heap_free);   /* most of a request's memory is JSON: count it */
    if (status == LM_OK)
        status = check_addresses(o, lm_keys_required(s->keys), insecure, &all_local, e);
    if (status == LM_OK)
        status = lm_models_new(&o->models, &s->models, e);
    if (status == LM_OK && o->sandbox)               /* while there is only one thread */
        lm_sandbox_files(o->reads, o->writes, o->sockets);
    if (status == LM_OK)
        status = lm_models_check(s->models, e);
    if (status == LM_OK)
        status = lm_archive_open(o->store, &s->archive, e);
    if (status == LM_OK) {
        lm_models_at(s->models, 0)->o.archive = s->archive;
        lm_models_at(s->models, 0)->o.keys = s->keys;
        /* Other machines use names that are not known here. */
        lm_models_at(s->models, 0)->o.any_host |= !all_local;
        http.lane = lm_call_lane;
        http.handle = lm_call_handle;
        http.refuse = lm_call_refuse;
        http.arg = s->models;
        http.body_limit = http.body_limit ? http.body_limit : LM_LIMIT_BODY;
        status = lm_http_start(&http, &s->http, e);
    }
    if (status == LM_OK && o->sandbox)               /* its sockets exist now */
        lm_sandbox_calls();
    if (status == LM_OK)
        *out = s;
    else
        lm_server_free(s);
    return status;
}

const char *lm_server_unrestricted(void)
{
    return lm_sandbox_now()->why;
}

const char *lm_server_url(const lm_server *s, size_t i)
{
    return lm_http_url(s->http, i);
}

lm_status lm_server_reload(lm_server *s, size_t *n, lm_error *e)
{
    return lm_keys_reload(s->keys, n, e);
}

lm_status lm_server_load(lm_server *s, lm_error *e)
{
    return lm_models_begin(s->models, e);
}

bool lm_server_drain(lm_server *s, double seconds)
{
    bool ended;

    ended = lm_models_drain(s->models, seconds);         /* meanwhile new requests get 503 with Retry-After */
    lm_http_quiesce(s->http);
    /* All sequences have ended; their output is still on its way to clients, which may be slow, or gone. */
    for (unsigned i = 0; ended && i < SENDING_MS / 10 && lm_http_exchanges(s->http); i++)
        usleep(10000);
    return ended;
}

void lm_server_free(lm_server *s)
{
    if (!s)
        return;
    if (s->models)
        lm_models_quiesce(s->models);
    lm_http_stop(s->http);
    lm_models_free(s->models);
    lm_archive_close(s->archive);
    lm_keys_free(s->keys);
    lm_heap_free(s);
}

lm_status lm_server_usage(const char *store, const char *key, json_t **out, lm_error *e)
{
    char owner[33];

    lm_archive_owner(key, owner);
    return lm_archive_look(store, key ? owner : NULL, out, e);
}

const char *lm_server_page(size_t *size)
{
    *size = lm_page_plain_size;
    return (const char *)lm_page_plain;
}

static int add_piece(const char *text, size_t n, void *out)
{
    lm_text_add(out, text, n);
    return 0;
}

lm_status lm_server_describe(const char *prefix, lm_text *out, lm_error *e)
{
    json_t *document = lm_routes_document(prefix, prefix ? strlen(prefix) : 0);
    int rc = document ? json_dump_callback(document, add_piece, out, JSON_INDENT(2)) : -1;

    json_decref(document);
    lm_text_add_char(out, '\n');
    return rc == 0 && !out->failed ? LM_OK : lm_fail_memory(e, "the description of the server", 0);
}
