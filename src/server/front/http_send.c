/* Sending responses: whole, or in parts as they are generated. */
#include "server/front/http_exchange.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "lamina/heap.h"

enum { BLOCK = 16 << 10 };

void lm_connection_send_raw(const lm_connection *c, const char *text, size_t n)
{
    if (!c->http->o.tls_key)
        (void)!send(c->fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static bool has_more(lm_exchange *x)
{
    return x->taken < x->out.size || x->ended;
}

/* Continue the response. Its memory is counted but not limited: the limits of the request bound its
 * length. */
static void continue_job(lm_exchange *x)
{
    lm_heap_watch w = { 0 };

    if (!x->more)
        return;
    lm_heap_begin(&w);
    x->more(x, x->job);
    lm_heap_end(&w);
    lm_exchange_adjust(x, w.held);
}

/* Continue the response if there is nothing to send; false: there still is nothing. */
static bool grow(lm_exchange *x)
{
    if (has_more(x) || lm_exchange_is_busy(x))
        return has_more(x) && !lm_exchange_is_busy(x);
    continue_job(x);
    if (x->out.failed)
        atomic_store(&x->conn->gone, true);
    return has_more(x);
}

/* Whether no client will read the rest of the response. */
static bool is_gone(const lm_exchange *x)
{
    return atomic_load(&x->conn->gone) || (x->more && !x->ended && atomic_load(&x->conn->left));
}

static ssize_t next_bytes(void *arg, uint64_t at, char *to, size_t max)
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
        lm_exchange_park(x);
        return 0;
    }
    n = x->out.size - x->taken < max ? x->out.size - x->taken : max;
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

enum MHD_Result lm_exchange_respond(lm_exchange *x)
{
    struct MHD_Response *r;
    enum MHD_Result sent;
    char id[32];

    if (x->ended)
        r = MHD_create_response_from_buffer(x->out.size, x->out.size ? x->out.data : "",
                                            MHD_RESPMEM_MUST_COPY);
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

enum MHD_Result lm_exchange_advance(lm_exchange *x)
{
    atomic_fetch_and(&x->state, ~(unsigned)SIGNAL);
    if (lm_exchange_is_busy(x)) {
        lm_exchange_park(x);
        return MHD_YES;
    }
    if (is_gone(x))
        return MHD_NO;
    if (!x->ended && !(x->stream && x->status))
        continue_job(x);
    if (x->out.failed)
        return MHD_NO;
    if (x->ended || (x->stream && x->status))
        return lm_exchange_respond(x);
    if (!x->more) {                      /* a bug: handled without a response; respond anyway */
        lm_exchange_refuse(x, 500, "the request has no response");
        return lm_exchange_respond(x);
    }
    lm_watch_until(x->http->watch, x->conn->watched, x->every);
    lm_exchange_park(x);
    return MHD_YES;
}
