/* On libmicrohttpd: one daemon for each address, each with a thread of its own. A connection is suspended while its answer is made. One
 * word says how its exchange stands, and is changed in one piece:
 *
 *   BUSY     a worker has the exchange: nobody resumes the connection, so that it cannot end meanwhile
 *   SIGNAL   there is something for the connection since it was looked at last
 *   PARKED   the connection is suspended: whoever clears this bit resumes it, and nobody else may
 *
 * So each suspension is ended once. Who has not cleared PARKED does not touch the exchange afterwards: the front may be freeing it. */
#include "server/front/http_exchange.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lamina/heap.h"
#include "server/front/listen.h"

enum { MEMORY = 32 << 10, BLOCK = 16 << 10, UNUSED_SECONDS = 7 * 86400 };

/* ---- waking ---- */

/* By the front's thread. */
static void park(lm_exchange *x)
{
    unsigned now = atomic_load(&x->state);

    MHD_suspend_connection(x->mhd);
    do
        if ((now & SIGNAL) && !(now & BUSY)) {           /* it has come between the look and the suspension */
            MHD_resume_connection(x->mhd);
            return;
        }
    while (!atomic_compare_exchange_weak(&x->state, &now, now | PARKED));
}

/* Something has come, and `done` is no longer so. */
static void signal_exchange(lm_exchange *x, unsigned done)
{
    unsigned now = atomic_load(&x->state), next;

    do {
        next = (now & ~done) | SIGNAL;
        if (!(next & BUSY))
            next &= ~(unsigned)PARKED;
    } while (!atomic_compare_exchange_weak(&x->state, &now, next));
    if ((now & PARKED) && !(next & PARKED))
        MHD_resume_connection(x->mhd);
}

void lm_exchange_wake(lm_exchange *x)
{
    signal_exchange(x, 0);
}

static bool is_busy(lm_exchange *x)
{
    return atomic_load(&x->state) & BUSY;
}

/* Past libmicrohttpd, which answers nothing before a body is whole. As far as it goes out at once, and where nothing is encrypted. */
static void send_raw(const lm_connection *c, const char *text, size_t n)
{
    if (!c->http->o.tls_key)
        (void)!send(c->fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* By the watch's thread, which holds its lock: the exchange cannot end meanwhile. The client may have closed its end only: what is answered
 * at once is sent all the same, a text is not written any further. */
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
    static const char late[] = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    lm_connection *c = of;
    lm_exchange *x = atomic_load(&c->exchange);

    if (x && x->every > 0 && !atomic_load(&x->sending) && !atomic_load(&c->http->stops)) {
        lm_exchange_wake(x);             /* a sign of life is due, not the end */
        return;
    }
    if (x && !atomic_load(&x->whole))
        send_raw(c, late, sizeof late - 1);
    shutdown(c->fd, SHUT_RDWR);
    atomic_store(&c->gone, true);
    client_left(of);
}

/* ---- exchanges ---- */

static lm_exchange *exchange_new(lm_http *h, struct MHD_Connection *mhd, const char *path, const char *method)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    lm_exchange *x = calloc(1, sizeof *x);

    if (!x || !info || !info->socket_context || !(x->path = strdup(path)) || !(x->method = strdup(method))) {
        if (x) {
            free(x->path);
            free(x);
        }
        return NULL;
    }
    x->http = h;
    x->mhd = mhd;
    x->conn = info->socket_context;
    x->id = atomic_fetch_add(&h->ids, 1) + 1;
    atomic_fetch_add(&h->exchanges, 1);
    lm_watch_until(h->watch, x->conn->watched, h->o.body_seconds);
    atomic_store(&x->conn->exchange, x);
    return x;
}

static void exchange_free(lm_exchange *x)
{
    /* Whoever is told of the connection's end holds the watch's lock, so after this nobody wakes the exchange from there. */
    atomic_store(&x->conn->exchange, NULL);
    lm_watch_until(x->http->watch, x->conn->watched, x->http->o.idle_seconds);
    if (x->done)
        x->done(x->job);
    for (size_t i = 0; i < x->n_headers; i++)
        free(x->headers[i].value);
    lm_text_free(&x->body);
    lm_text_free(&x->out);
    lm_exchange_hold(x, -(int64_t)x->held);
    free(x->method);
    free(x->path);
    atomic_fetch_sub(&x->http->exchanges, 1);
    free(x);
}

/* It has been read. */
static void drop_body(lm_exchange *x)
{
    lm_text_free(&x->body);
    lm_exchange_hold(x, -(int64_t)x->body_held);
    x->body_held = 0;
}

static bool handle(lm_exchange *x)
{
    if (!x->http->o.handle(x->http->o.arg, x))
        return false;                    /* whoever handles it again may have it already */
    drop_body(x);
    return true;
}

static void handle_item(lm_work_item *item)
{
    lm_exchange *x = (lm_exchange *)item;

    if (handle(x))
        signal_exchange(x, BUSY);
}

void lm_exchange_again(lm_exchange *x)
{
    for (; x->n_headers; x->n_headers--)
        free(x->headers[x->n_headers - 1].value);
    x->again = true;
    lm_workers_push(x->http->workers, &x->item);
}

bool lm_exchange_is_again(const lm_exchange *x)
{
    return x->again;
}

static void refuse(lm_exchange *x, unsigned status, const char *why)
{
    x->http->o.refuse(x->http->o.arg, x, status, why);
    lm_exchange_add_header(x, "Connection", "close");
    x->ended = true;
}

static void begin(lm_exchange *x)
{
    lm_http *h = x->http;

    lm_watch_until(h->watch, x->conn->watched, 0);
    atomic_fetch_or(&x->state, BUSY);
    if (h->o.quick(h->o.arg, x->method, x->path)) {
        if (handle(x))
            atomic_fetch_and(&x->state, ~(unsigned)BUSY);
        return;
    }
    if (lm_workers_add(h->workers, &x->item))
        return;
    atomic_fetch_and(&x->state, ~(unsigned)BUSY);
    refuse(x, 429, "too many requests wait already");
}

/* ---- sending ---- */

static bool has_more(lm_exchange *x)
{
    return x->taken < x->out.size || x->ended;
}

/* What the answer takes is counted, and not refused: how long it can get is bounded by what was asked. */
static void go_on(lm_exchange *x)
{
    lm_heap_watch w = { 0 };

    if (!x->more)
        return;
    lm_heap_begin(&w);
    x->more(x, x->job);
    lm_heap_end(&w);
    lm_exchange_hold(x, w.held);
}

/* Let the answer grow; false: nothing can be said yet. */
static bool grow(lm_exchange *x)
{
    if (has_more(x) || is_busy(x))
        return has_more(x) && !is_busy(x);
    go_on(x);
    if (x->out.failed)
        atomic_store(&x->conn->gone, true);
    return has_more(x);
}

/* Nobody is to read the answer. */
static bool is_gone(const lm_exchange *x)
{
    return atomic_load(&x->conn->gone) || (x->more && !x->ended && atomic_load(&x->conn->left));
}

static ssize_t next_bytes(void *arg, uint64_t at, char *to, size_t most)
{
    lm_exchange *x = arg;
    size_t n;

    (void)at;
    atomic_store(&x->sending, false);
    atomic_fetch_and(&x->state, ~(unsigned)SIGNAL);
    if (is_gone(x))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (!grow(x)) {
        if (is_gone(x))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        lm_watch_until(x->http->watch, x->conn->watched, x->every);
        park(x);
        return 0;
    }
    n = x->out.size - x->taken < most ? x->out.size - x->taken : most;
    if (!n)
        return MHD_CONTENT_READER_END_OF_STREAM;
    memcpy(to, x->out.data + x->taken, n);
    x->taken += n;
    if (x->taken == x->out.size) {
        lm_text_clear(&x->out);
        x->taken = 0;
    }
    atomic_store(&x->sending, true);
    lm_watch_until(x->http->watch, x->conn->watched, x->http->o.stall_seconds);
    return (ssize_t)n;
}

static enum MHD_Result respond(lm_exchange *x)
{
    struct MHD_Response *r;
    enum MHD_Result sent;
    char id[32];

    if (x->ended)
        r = MHD_create_response_from_buffer(x->out.size, x->out.size ? x->out.data : "", MHD_RESPMEM_MUST_COPY);
    else
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, next_bytes, x, NULL);
    if (!r)
        return MHD_NO;
    snprintf(id, sizeof id, "req_%llx", (unsigned long long)x->id);
    MHD_add_response_header(r, "x-request-id", id);
    MHD_add_response_header(r, "Server", "lamina");
    if (x->type)
        MHD_add_response_header(r, "Content-Type", x->type);
    for (size_t i = 0; i < x->n_headers; i++)
        MHD_add_response_header(r, x->headers[i].name, x->headers[i].value);
    if (x->ended) {
        atomic_store(&x->sending, true);
        lm_watch_until(x->http->watch, x->conn->watched, x->http->o.stall_seconds);
    }
    sent = MHD_queue_response(x->mhd, x->status ? x->status : 500, r);
    MHD_destroy_response(r);
    return sent;
}

/* Called by libmicrohttpd again whenever the connection is resumed, until a response is queued. */
static enum MHD_Result advance(lm_exchange *x)
{
    atomic_fetch_and(&x->state, ~(unsigned)SIGNAL);
    if (is_busy(x)) {
        park(x);
        return MHD_YES;
    }
    if (is_gone(x))
        return MHD_NO;
    if (!x->ended && !(x->stream && x->status))
        go_on(x);
    if (x->out.failed)
        return MHD_NO;
    if (x->ended || (x->stream && x->status))
        return respond(x);
    if (!x->more) {                      /* handled, and nothing was said: a defect, answered all the same */
        refuse(x, 500, "the request has no answer");
        return respond(x);
    }
    lm_watch_until(x->http->watch, x->conn->watched, x->every);
    park(x);
    return MHD_YES;
}

/* ---- what comes in ---- */

typedef struct header_check { unsigned hosts, lengths, chunked; const char *wrong; } header_check;

static enum MHD_Result check_header(void *arg, enum MHD_ValueKind kind, const char *name, size_t n_name, const char *value, size_t n_value)
{
    header_check *c = arg;

    (void)kind;
    if (strlen(name) != n_name || (value && strlen(value) != n_value))
        c->wrong = "a header holds a NUL byte";
    if (strcasecmp(name, "Host") == 0)
        c->hosts++;
    if (strcasecmp(name, "Content-Length") == 0)
        c->lengths++;
    if (strcasecmp(name, "Transfer-Encoding") == 0)
        c->chunked++;
    return MHD_YES;
}

/* What is wrong with a request by its head alone; 0: nothing. */
static unsigned check_head(lm_exchange *x, const char *version, const char **why)
{
    header_check c = { 0 };
    const char *coding = lm_exchange_header(x, "Transfer-Encoding");

    MHD_get_connection_values_n(x->mhd, MHD_HEADER_KIND, check_header, &c);
    *why = c.wrong;
    if (!c.wrong && (c.lengths > 1 || (c.lengths && c.chunked)))
        *why = "the length of the body is given twice";
    else if (!c.wrong && c.hosts != 1 && strcmp(version, MHD_HTTP_VERSION_1_1) == 0)
        *why = "a request has one Host header";
    if (*why)
        return 400;
    if (coding && strcasecmp(coding, "chunked") != 0) {
        *why = "the only Transfer-Encoding is chunked";
        return 501;
    }
    return 0;
}

/* Whether a body of the length that is told can be held; before it is sent. 0: it can. */
static unsigned check_room(lm_exchange *x, char why[200])
{
    const char *length = lm_exchange_header(x, "Content-Length");
    uint64_t bytes = length ? strtoull(length, NULL, 10) : 0;

    if (length && (strlen(length) > 15 || bytes > x->http->o.body_limit)) {
        snprintf(why, 200, "the body has %.40s bytes; at most %zu are allowed", length, x->http->o.body_limit);
        return 413;
    }
    if (!bytes || lm_exchange_take(x, bytes)) {
        lm_exchange_hold(x, -(int64_t)bytes);            /* counted as it comes */
        return 0;
    }
    return lm_exchange_no_memory(x, bytes, why);
}

/* 0: it was added. */
static unsigned add_to_body(lm_exchange *x, const char *data, size_t n, char why[200])
{
    uint64_t before = x->body.capacity, more;

    if (x->body.size + n > x->http->o.body_limit) {
        snprintf(why, 200, "the body has more than %zu bytes, which are allowed", x->http->o.body_limit);
        return 413;
    }
    lm_text_add(&x->body, data, n);
    more = x->body.capacity - before;
    if (!more || lm_exchange_take(x, more)) {
        x->body_held += more;
        return 0;
    }
    lm_text_free(&x->body);
    return lm_exchange_no_memory(x, more, why);
}

/* In the middle of a body that is not read to its end. */
static void refuse_raw(lm_exchange *x, unsigned status, const char *why)
{
    lm_text all = { 0 };

    refuse(x, status, why);
    lm_text_printf(&all, "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n", status,
                   MHD_get_reason_phrase_for(status), x->type ? x->type : "text/plain", x->out.size);
    for (size_t i = 0; i < x->n_headers; i++)
        lm_text_printf(&all, "%s: %s\r\n", x->headers[i].name, x->headers[i].value);
    lm_text_add_str(&all, "\r\n");
    lm_text_add(&all, x->out.data, x->out.size);
    if (!all.failed)
        send_raw(x->conn, all.data, all.size);
    shutdown(x->conn->fd, SHUT_WR);
    lm_text_free(&all);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *mhd, const char *path, const char *method, const char *version,
                                  const char *data, size_t *size, void **context)
{
    lm_exchange *x = *context;
    char said[200];
    const char *why;
    unsigned status;

    if (!x) {
        if (!(x = *context = exchange_new(arg, mhd, path, method)))
            return MHD_NO;
        if (!(status = check_head(x, version, &why)) && (status = check_room(x, said)))
            why = said;
        if (status) {
            refuse(x, status, why);
            return respond(x);
        }
        return MHD_YES;
    }
    if (*size) {
        if ((status = add_to_body(x, data, *size, said))) {
            refuse_raw(x, status, said);
            return MHD_NO;
        }
        *size = 0;
        return x->body.failed ? MHD_NO : MHD_YES;
    }
    if (!atomic_load(&x->whole)) {
        atomic_store(&x->whole, true);
        begin(x);
    }
    return advance(x);
}

static void on_completed(void *arg, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode why)
{
    (void)arg, (void)mhd, (void)why;
    if (*context)
        exchange_free(*context);
    *context = NULL;
}

static void on_connection(void *arg, struct MHD_Connection *mhd, void **context, enum MHD_ConnectionNotificationCode what)
{
    lm_http *h = arg;
    lm_connection *c = *context;

    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (!c)
            return;
        lm_watch_drop(h->watch, c->watched);
        atomic_fetch_sub(&h->connections, 1);
        free(c);
        *context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info || !(c = calloc(1, sizeof *c)))
        return;                          /* without a context it is refused with its first request */
    c->http = h;
    c->fd = info->connect_fd;
    c->number = atomic_fetch_add(&h->numbers, 1) + 1;
    c->watched = lm_watch_add(h->watch, c->fd, c);
    lm_watch_until(h->watch, c->watched, h->o.header_seconds);
    atomic_fetch_add(&h->connections, 1);
    /* libmicrohttpd 0.9.75 forgets connections that end while an older one is idle, unless they have a time-out of their own: then it looks
     * at each after every event. How long they may stay is the watch's affair. */
    MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)UNUSED_SECONDS);
    *context = c;
}

/* A NUL would end the path early: what comes behind it would not count. */
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

static lm_status start_daemon(lm_http *h, const char *host, lm_error *e)
{

    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG |
                     (h->o.tls_key ? MHD_USE_TLS : 0);
    struct MHD_OptionItem tls[] = { { MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)h->o.tls_key },
                                    { MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)h->o.tls_cert },
                                    { MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)"NORMAL:-VERS-TLS1.0:-VERS-TLS1.1" },
                                    { MHD_OPTION_END, 0, NULL } };
    lm_text url = { 0 };
    struct MHD_Daemon *d;

    LM_TRY(lm_listen(host, h->o.port, &h->listeners[h->n], &url, e));
    d = MHD_start_daemon(flags, 0, NULL, NULL, on_request, h,
                         MHD_OPTION_EXTERNAL_LOGGER, no_log, NULL,
                         MHD_OPTION_LISTEN_SOCKET, h->listeners[h->n],
                         MHD_OPTION_STRICT_FOR_CLIENT, 1,
                         MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY,
                         MHD_OPTION_CONNECTION_LIMIT, h->o.connections,
                         MHD_OPTION_PER_IP_CONNECTION_LIMIT, h->o.per_address,
                         MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
                         MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
                         h->o.tls_key ? MHD_OPTION_ARRAY : MHD_OPTION_END, tls, MHD_OPTION_END);
    if (!d) {
        close(h->listeners[h->n]);
        lm_text_free(&url);
        return h->o.tls_key ? lm_fail(e, LM_USAGE, "--ssl-key-file", LM_NO_OFFSET, "key and certificate cannot be used together")
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
    lm_http *h = calloc(1, sizeof *h);
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
        status = lm_workers_new(o->workers ? o->workers : 2, o->queue ? o->queue : 512, handle_item, &h->workers, e);
    for (size_t i = 0; status == LM_OK && o->hosts[i]; i++)
        status = i < MAX_ADDRESSES ? start_daemon(h, o->hosts[i], e)
                                   : lm_fail(e, LM_USAGE, "--host", LM_NO_OFFSET, "at most %d addresses", MAX_ADDRESSES);
    if (status == LM_OK)
        *out = h;
    else
        lm_http_stop(h);
    return status;
}

void lm_http_quiesce(lm_http *h)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->listeners[i] >= 0 && MHD_quiesce_daemon(h->daemons[i]) >= 0) {
            close(h->listeners[i]);
            if (strncmp(h->urls[i], "unix:", 5) == 0)
                unlink(h->urls[i] + 5);
            h->listeners[i] = -1;
        }
}

void lm_http_stop(lm_http *h)
{
    if (!h)
        return;
    atomic_store(&h->stops, true);
    lm_http_quiesce(h);
    lm_workers_free(h->workers);         /* what waits is handled: nobody is left who would not be woken */
    if (h->watch)
        for (unsigned i = 0; i < 200 && atomic_load(&h->exchanges); i++) {
            lm_watch_all_due(h->watch);
            usleep(10000);
        }
    for (size_t i = 0; i < h->n; i++) {
        MHD_stop_daemon(h->daemons[i]);
        free(h->urls[i]);
    }
    lm_watch_free(h->watch);
    free(h);
}

const char *lm_http_url(const lm_http *h, size_t i)
{
    return i < h->n ? h->urls[i] : NULL;
}

uint32_t lm_http_connections(const lm_http *h)
{
    return atomic_load(&h->connections);
}

uint32_t lm_http_exchanges(const lm_http *h)
{
    return atomic_load(&h->exchanges);
}
