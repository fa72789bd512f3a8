/* The server, on libmicrohttpd: one daemon per address, each with its own thread. */
#include "server/front/http_exchange.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/front/listen.h"
#include "server/front/memory.h"

enum { MEMORY = 32 << 10, UNUSED_SECONDS = 7 * 86400 };

/* ---- connections ---- */

/* Called under the watch's lock, so the exchange cannot end meanwhile. The client may have closed only its
 * sending side: a complete response is still sent, but an unfinished one is not continued. */
static void client_left(void *of)
{
    lm_connection *c = of;
    lm_exchange *x = atomic_load(&c->exchange);

    atomic_store(&c->left, true);
    if (x)
        lm_exchange_wake(x);
}

static void client_due(void *of)
{
    static const char late[] =
        "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    lm_connection *c = of;
    lm_exchange *x = atomic_load(&c->exchange);

    if (x && x->every > 0 && !atomic_load(&x->sending) && !atomic_load(&c->http->stops)) {
        lm_exchange_wake(x);             /* a keep-alive event is due, not the end */
        return;
    }
    if (x && !atomic_load(&x->whole))
        lm_connection_send_raw(c, late, sizeof late - 1);
    shutdown(c->fd, SHUT_RDWR);
    atomic_store(&c->gone, true);
    client_left(of);
}

static void on_completed(void *arg, struct MHD_Connection *mhd, void **context,
                         enum MHD_RequestTerminationCode why)
{
    (void)arg, (void)mhd, (void)why;
    if (*context)
        lm_exchange_free(*context);
    *context = NULL;
}

static void on_connection(void *arg, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    lm_http *h = arg;
    lm_connection *c = *context;

    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (!c)
            return;
        lm_watch_drop(h->watch, c->watched);
        lm_heap_free(c);
        *context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info || !(c = lm_memory_zero(1, sizeof *c)))
        return;                          /* without a context its first request is rejected */
    c->http = h;
    c->fd = info->connect_fd;
    c->number = atomic_fetch_add(&h->numbers, 1) + 1;
    c->watched = lm_watch_add(h->watch, c->fd, c);
    lm_watch_until(h->watch, c->watched, h->o.header_seconds);
    /* libmicrohttpd 0.9.75 does not notice that a connection ends while an older one is idle, unless it has
     * its own timeout: then it is checked after every event. The watch decides how long connections may
     * stay. */
    MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)UNUSED_SECONDS);
    *context = c;
}

/* Decode a path or query, with %00 replaced by %01: a NUL would end the string early, and what follows it
 * would be ignored. */
static size_t unescape(void *arg, struct MHD_Connection *mhd, char *text)
{
    (void)arg, (void)mhd;
    for (char *at = text; (at = strstr(at, "%00")); at += 3)
        at[2] = '1';
    return MHD_http_unescape(text);
}

/* ---- starting and stopping ---- */

static void no_log(void *arg, const char *format, va_list list)
{
    (void)arg, (void)format, (void)list;
}

static void *option(const char *value)
{
    return (void *)(uintptr_t)value;                     /* options are `void *`; this kind is only read */
}

static lm_status start_daemon(lm_http *h, const char *host, lm_error *e)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                     MHD_USE_ERROR_LOG | (h->o.tls_key ? MHD_USE_TLS : 0);
    struct MHD_OptionItem tls[] = { { MHD_OPTION_HTTPS_MEM_KEY, 0, option(h->o.tls_key) },
                                    { MHD_OPTION_HTTPS_MEM_CERT, 0, option(h->o.tls_cert) },
                                    { MHD_OPTION_HTTPS_PRIORITIES, 0,
                                      option("NORMAL:-VERS-TLS1.0:-VERS-TLS1.1") },
                                    { MHD_OPTION_END, 0, NULL } };
    lm_text url = { 0 };
    struct MHD_Daemon *d;
    int fd;

    LM_TRY(lm_listen(host, h->o.port, &fd, &url, e));
    atomic_store(&h->listeners[h->n], fd);
    d = MHD_start_daemon(flags, 0, NULL, NULL, lm_http_receive, h,
                         MHD_OPTION_EXTERNAL_LOGGER, no_log, NULL,
                         MHD_OPTION_LISTEN_SOCKET, fd,
                         MHD_OPTION_STRICT_FOR_CLIENT, 1,
                         MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY,
                         MHD_OPTION_CONNECTION_LIMIT, h->o.connections,
                         MHD_OPTION_PER_IP_CONNECTION_LIMIT, h->o.per_address,
                         MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
                         MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
                         h->o.tls_key ? MHD_OPTION_ARRAY : MHD_OPTION_END, tls, MHD_OPTION_END);
    if (!d) {
        close(fd);
        lm_text_free(&url);
        return h->o.tls_key ? lm_fail(e, LM_USAGE, "--ssl-key-file", LM_NO_OFFSET,
                                      "key and certificate cannot be used together")
                            : lm_fail(e, LM_FAILED, "--host", LM_NO_OFFSET, "cannot serve at %s", host);
    }
    h->daemons[h->n] = d;
    lm_text whole = { 0 };
    if (strncmp(url.data, "unix:", 5))
        lm_text_add_str(&whole, h->o.tls_key ? "https://" : "http://");
    lm_text_add_str(&whole, url.data);
    lm_text_free(&url);
    h->urls[h->n++] = whole.data;
    return whole.failed ? lm_fail_memory(e, "the address", 64) : LM_OK;
}

lm_status lm_http_start(const lm_http_options *o, lm_http **out, lm_error *e)
{
    lm_http *h = lm_memory_zero(1, sizeof *h);
    lm_status status;

    if (!h)
        return lm_fail_memory(e, "the server", sizeof *h);
    h->o = *o;
    h->o.connections = o->connections ? o->connections : 1024;
    h->o.body_limit = o->body_limit;
    h->o.header_seconds = o->header_seconds > 0 ? o->header_seconds : 10;
    h->o.body_seconds = o->body_seconds > 0 ? o->body_seconds : 60;
    h->o.stall_seconds = o->stall_seconds > 0 ? o->stall_seconds : 30;
    h->o.idle_seconds = o->idle_seconds > 0 ? o->idle_seconds : 120;
    status = lm_watch_new(h->o.connections * MAX_ADDRESSES, client_left, client_due, &h->watch, e);
    if (status == LM_OK)
        status = lm_workers_new(o->workers ? o->workers : 2, o->queue ? o->queue : 512, lm_exchange_handle,
                                &h->workers, e);
    if (status == LM_OK)
        status = lm_workers_new(1, o->traces ? o->traces : 16, lm_exchange_handle, &h->tracers, e);
    for (size_t i = 0; status == LM_OK && o->hosts[i]; i++)
        status = i < MAX_ADDRESSES
                     ? start_daemon(h, o->hosts[i], e)
                     : lm_fail(e, LM_USAGE, "--host", LM_NO_OFFSET, "at most %d addresses", MAX_ADDRESSES);
    if (status == LM_OK)
        *out = h;
    else
        lm_http_stop(h);
    return status;
}

void lm_http_quiesce(lm_http *h)
{
    for (size_t i = 0; i < h->n; i++) {
        int fd = atomic_exchange(&h->listeners[i], -1);

        if (fd < 0 || MHD_quiesce_daemon(h->daemons[i]) < 0)
            continue;
        close(fd);
        if (strncmp(h->urls[i], "unix:", 5) == 0)
            unlink(h->urls[i] + 5);
    }
}

void lm_http_stop(lm_http *h)
{
    if (!h)
        return;
    atomic_store(&h->stops, true);
    lm_http_quiesce(h);
    /* Handles all waiting requests first, so that none remains that would not be woken. */
    lm_workers_free(h->workers);
    lm_workers_free(h->tracers);
    if (h->watch)
        for (unsigned i = 0; i < 200 && atomic_load(&h->exchanges); i++) {
            lm_watch_all_due(h->watch);
            usleep(10000);
        }
    for (size_t i = 0; i < h->n; i++) {
        MHD_stop_daemon(h->daemons[i]);
        lm_heap_free(h->urls[i]);
    }
    lm_watch_free(h->watch);
    lm_heap_free(h);
}

const char *lm_http_url(const lm_http *h, size_t i)
{
    return i < h->n ? h->urls[i] : NULL;
}

uint32_t lm_http_exchanges(const lm_http *h)
{
    return atomic_load(&h->exchanges);
}
