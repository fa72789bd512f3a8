/* An exchange from its first byte until it is handled, by a worker or at once. */
#include "server/front/http_exchange.h"

#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/os/clock.h"
#include "server/front/memory.h"

/* Return the path of a request target, which may be absolute: http://host/path (RFC 9112, 3.2.2). */
static const char *path_of(const char *target)
{
    const char *at = strncasecmp(target, "http://", 7) == 0    ? target + 7
                     : strncasecmp(target, "https://", 8) == 0 ? target + 8
                                                               : NULL;

    if (!at)
        return target;
    at += strcspn(at, "/");
    return *at ? at : "/";
}

static lm_exchange *exchange_new(lm_http *h, struct MHD_Connection *mhd, const char *path, const char *method)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    lm_exchange *x = lm_memory_zero(1, sizeof *x);

    if (!x || !info || !info->socket_context || !(x->path = lm_memory_text(path, strlen(path))) ||
        !(x->method = lm_memory_text(method, strlen(method)))) {
        if (x) {
            lm_heap_free(x->path);
            lm_heap_free(x);
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

void lm_exchange_free(lm_exchange *x)
{
    /* The watch's callbacks run under its lock, which lm_watch_until takes: after it, no callback wakes the
     * exchange. */
    atomic_store(&x->conn->exchange, NULL);
    lm_watch_until(x->http->watch, x->conn->watched, x->http->o.idle_seconds);
    if (x->done)
        x->done(x->job);
    for (size_t i = 0; i < x->n_headers; i++)
        lm_heap_free(x->headers[i].value);
    lm_text_free(&x->body);
    lm_text_free(&x->out);
    lm_exchange_adjust(x, -(int64_t)x->held);
    lm_heap_free(x->method);
    lm_heap_free(x->path);
    atomic_fetch_sub(&x->http->exchanges, 1);
    lm_heap_free(x);
}

/* Free the body after it was read. */
static void drop_body(lm_exchange *x)
{
    lm_text_free(&x->body);
    lm_exchange_adjust(x, -(int64_t)x->body_held);
    x->body_held = 0;
}

static bool handle(lm_exchange *x)
{
    if (!x->http->o.handle(x->http->o.arg, x))
        return false;                    /* the thread that handles it again may already have it */
    drop_body(x);
    return true;
}

void lm_exchange_handle(lm_work_item *item)
{
    lm_exchange *x = (lm_exchange *)item;

    if (handle(x))
        lm_exchange_signal(x, BUSY);
}

void lm_exchange_again(lm_exchange *x)
{
    for (; x->n_headers; x->n_headers--)
        lm_heap_free(x->headers[x->n_headers - 1].value);
    x->again = true;
    lm_workers_push(x->workers, &x->item);
}

bool lm_exchange_is_again(const lm_exchange *x)
{
    return x->again;
}

static void begin(lm_exchange *x)
{
    lm_http *h = x->http;
    lm_http_lane lane = h->o.lane(h->o.arg, x->method, x->path);

    lm_watch_until(h->watch, x->conn->watched, 0);
    atomic_fetch_or(&x->state, BUSY);
    x->received = lm_clock_seconds();
    if (lane == LM_LANE_FRONT) {
        if (handle(x))
            atomic_fetch_and(&x->state, ~(unsigned)BUSY);
        return;
    }
    x->item.large = lane == LM_LANE_LONG || x->body.size >= LARGE_BODY;
    x->workers = lane == LM_LANE_TRACES ? h->tracers : h->workers;
    if (lm_workers_add(x->workers, &x->item))
        return;
    atomic_fetch_and(&x->state, ~(unsigned)BUSY);
    lm_exchange_refuse(x, 429, "too many requests are waiting");
}

/* Reject a request in the middle of its body, the rest of which is not read. */
static void refuse_raw(lm_exchange *x, unsigned status, const char *why)
{
    lm_text all = { 0 };

    lm_exchange_refuse(x, status, why);
    lm_text_printf(&all, "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n", status,
                   MHD_get_reason_phrase_for(status), x->type ? x->type : "text/plain", x->out.size);
    for (size_t i = 0; i < x->n_headers; i++)
        lm_text_printf(&all, "%s: %s\r\n", x->headers[i].name, x->headers[i].value);
    lm_text_add_str(&all, "\r\n");
    lm_text_add(&all, x->out.data, x->out.size);
    if (!all.failed)
        lm_connection_send_raw(x->conn, all.data, all.size);
    shutdown(x->conn->fd, SHUT_WR);
    lm_text_free(&all);
}

enum MHD_Result lm_http_receive(void *arg, struct MHD_Connection *mhd, const char *path, const char *method,
                                const char *version, const char *data, size_t *size, void **context)
{
    lm_exchange *x = *context;
    char text[200];
    const char *why;
    unsigned status;

    if (!x) {
        if (!(x = *context = exchange_new(arg, mhd, path_of(path), method)))
            return MHD_NO;
        if (!(status = lm_exchange_check_head(x, version, &why)) &&
            (status = lm_exchange_check_memory(x, text)))
            why = text;
        if (status) {
            lm_exchange_refuse(x, status, why);
            return lm_exchange_respond(x);
        }
        return MHD_YES;
    }
    if (*size) {
        if ((status = lm_exchange_add_to_body(x, data, *size, text))) {
            refuse_raw(x, status, text);
            return MHD_NO;
        }
        *size = 0;
        return x->body.failed ? MHD_NO : MHD_YES;
    }
    if (!atomic_load(&x->whole)) {
        atomic_store(&x->whole, true);
        begin(x);
    }
    return lm_exchange_advance(x);
}
