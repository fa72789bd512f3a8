/* http_receive.c - an exchange from the head of its request until it is handled, by a worker or at once. */
#include "server/front/http_exchange.h"

#include <stdio.h>
#include <string.h>

#include "base/os/clock.h"
#include "server/front/memory.h"

static lm_exchange *exchange_new(lm_connection *c)
{
    lm_exchange *x = lm_memory_zero(1, sizeof *x);

    if (!x)
        return NULL;
    x->http = c->front->http;
    x->conn = c;
    x->id = atomic_fetch_add(&x->http->ids, 1) + 1;
    atomic_fetch_add(&x->http->exchanges, 1);
    c->exchange = x;
    return x;
}

void lm_exchange_free(lm_exchange *x)
{
    if (x->done)
        x->done(x->job);
    for (size_t i = 0; i < x->n_headers; i++)
        lm_heap_free(x->headers[i].value);
    lm_text_free(&x->body);
    lm_text_free(&x->out);
    lm_exchange_adjust(x, -(int64_t)x->held);
    lm_head_free(&x->head);
    atomic_fetch_sub(&x->http->exchanges, 1);
    lm_heap_free(x);
}

/* Check that a body of the announced length can be held, before it is sent. Returns 0, or the HTTP status to
 * reject the request with. */
static unsigned check_memory(lm_exchange *x, char why[200])
{
    uint64_t bytes = x->head.length;

    if (bytes > x->http->o.body_limit) {
        snprintf(why, 200, "the body has %.40s bytes; at most %zu are allowed",
                 lm_head_field(&x->head, "Content-Length"), x->http->o.body_limit);
        return 413;
    }
    if (!bytes || lm_exchange_charge(x, bytes)) {
        lm_exchange_adjust(x, -(int64_t)bytes);          /* counted as it arrives */
        return 0;
    }
    return lm_exchange_no_memory(x, bytes, why);
}

unsigned lm_exchange_add_to_body(lm_exchange *x, const char *data, size_t n, char why[200])
{
    uint64_t before = x->body.capacity, more;

    if (x->body.size + n > x->http->o.body_limit) {
        snprintf(why, 200, "the body has more than %zu bytes, the maximum", x->http->o.body_limit);
        return 413;
    }
    lm_text_add(&x->body, data, n);
    more = x->body.capacity - before;
    if (!x->body.failed && (!more || lm_exchange_charge(x, more))) {
        x->body_held += more;
        return 0;
    }
    lm_text_free(&x->body);
    return lm_exchange_no_memory(x, more, why);
}

/* Return the path behind the prefix; NULL: it has another beginning. */
static const char *path_of(const lm_exchange *x)
{
    const char *prefix = x->http->o.prefix, *path = x->head.path;
    size_t n = prefix ? strlen(prefix) : 0;

    return strncmp(path, prefix ? prefix : "", n) == 0 && (!path[n] || path[n] == '/') ? path + n : NULL;
}

lm_advance lm_exchange_reject(lm_connection *c, unsigned status, const char *why)
{
    if (!exchange_new(c))
        return LM_CLOSE;
    c->exchange->head = (lm_http_head){ .method = "", .path = "" };
    lm_exchange_refuse(c->exchange, status, why);
    c->phase = LM_PHASE_ANSWER;
    return LM_GO;
}

lm_advance lm_exchange_begin(lm_connection *c, const char *head, size_t n)
{
    lm_exchange *x = exchange_new(c);
    char text[200];
    const char *why;
    unsigned status;

    if (!x)
        return LM_CLOSE;
    c->due = 0;
    if (!(status = lm_head_read(head, n, &x->head, &why)) && (status = check_memory(x, text)))
        why = text;
    x->path = path_of(x);
    if (status) {
        lm_exchange_refuse(x, status, why);
        c->phase = LM_PHASE_ANSWER;
        return LM_GO;
    }
    c->body = (lm_body){ .left = x->head.chunked ? 0 : x->head.length, .chunked = x->head.chunked };
    c->phase = LM_PHASE_BODY;
    lm_connection_until(c, x->http->o.body_seconds);
    if (x->head.expects && c->taken == c->in.size && !lm_body_is_whole(&c->body))
        lm_text_add_str(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    return c->out.failed ? LM_CLOSE : LM_GO;
}

/* ---- handling ---- */

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
    lm_connection *c = x->conn;

    if (handle(x))
        lm_wakes_release(&c->front->wakes, &c->wake, &x->busy);
}

void lm_exchange_wake(lm_exchange *x)
{
    lm_wakes_add(&x->conn->front->wakes, &x->conn->wake);
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

void lm_exchange_start(lm_exchange *x)
{
    lm_http *h = x->http;
    lm_http_lane lane = h->o.lane(h->o.arg, x->head.method, x->path);

    x->received = lm_clock_seconds();
    x->workers = lane == LM_LANE_TRACES ? h->tracers : h->workers;
    atomic_store(&x->busy, true);
    if (lane == LM_LANE_FRONT) {
        if (handle(x))
            atomic_store(&x->busy, false);
        return;
    }
    x->item.large = lane == LM_LANE_LONG || x->body.size >= LARGE_BODY;
    if (lm_workers_add(x->workers, &x->item))
        return;
    atomic_store(&x->busy, false);
    lm_exchange_refuse(x, 429, "too many requests are waiting");
}
