/* http_connection.c - a connection from its first byte until it is closed: it receives a head, then a body,
 * waits for the answer and sends it, and begins again. Read from lm_connection_advance upwards. Threads: the
 * front's. */
#include "server/front/http_exchange.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/front/memory.h"

enum { LINGER_SECONDS = 2 };

/* ---- bytes ---- */

static ssize_t receive(lm_connection *c)
{
    char *to = c->front->scratch;

    return c->tls ? lm_tls_recv(c->tls, to, READ_BYTES) : recv(c->fd, to, READ_BYTES, 0);
}

/* Append to `in` what has arrived, and forget what was processed: an idle connection holds no memory. */
static lm_advance fill(lm_connection *c)
{
    size_t rest = c->in.size - c->taken;

    if (rest)
        memmove(c->in.data, c->in.data + c->taken, rest);
    else
        lm_text_free(&c->in);
    c->in.size = rest;
    c->taken = 0;
    errno = 0;
    ssize_t n = receive(c);
    if (n <= 0)
        return n && (errno == EAGAIN || errno == EINTR) ? LM_WAIT : LM_CLOSE;
    lm_text_add(&c->in, c->front->scratch, (size_t)n);
    return c->in.failed ? LM_CLOSE : LM_GO;
}

/* Send `out`. */
static lm_advance flush(lm_connection *c)
{
    while (c->sent < c->out.size) {
        const char *from = c->out.data + c->sent;
        size_t size = c->out.size - c->sent;
        ssize_t n = c->tls ? lm_tls_send(c->tls, from, size) : send(c->fd, from, size, MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (!c->due)
                lm_connection_until(c, c->front->http->o.stall_seconds);
            return LM_WAIT;
        }
        if (n < 0) {
            c->gone = true;
            return LM_CLOSE;
        }
        c->sent += (size_t)n;
        c->due = 0;
    }
    lm_text_free(&c->out);
    c->sent = 0;
    return LM_GO;
}

/* Send nothing more, and wait for the end of the client. */
static void hang_up(lm_connection *c)
{
    if (c->tls)
        lm_tls_end(c->tls);
    shutdown(c->fd, SHUT_WR);
    c->phase = LM_PHASE_LINGER;
    lm_connection_until(c, LINGER_SECONDS);
}

/* ---- phases ---- */

/* Whether the client speaks no TLS: what it sends is discarded. */
static bool is_plain(lm_connection *c)
{
    if (!c->tls || errno != EIO)
        return false;
    lm_tls_close(c->tls);
    c->tls = NULL;
    hang_up(c);
    return true;
}

static lm_advance receive_head(lm_connection *c)
{
    size_t n, size;

    for (;;) {
        const char *at = c->in.data + c->taken;
        n = c->in.size - c->taken;
        if (n >= 2 && !memcmp(at, "\r\n", 2)) {          /* before a request: RFC 9112, 2.2 */
            c->taken += 2;
            continue;
        }
        if ((size = n ? lm_head_size(at, n, c->seen) : 0) || n > LM_HEAD_BYTES)
            break;
        c->seen = n;
        lm_advance p = fill(c);
        if (p != LM_GO)
            return p == LM_CLOSE && is_plain(c) ? LM_GO : p;
        if (c->used && !n)
            lm_connection_until(c, c->front->http->o.header_seconds);
    }
    c->seen = 0;
    const char *head = c->in.data + c->taken;
    if (size <= LM_HEAD_BYTES && size) {
        c->taken += size;
        return lm_exchange_begin(c, head, size);
    }
    return memchr(head, '\n', LM_HEAD_BYTES)
               ? lm_exchange_reject(c, 431, "the head of the request has more than 32768 bytes")
               : lm_exchange_reject(c, 414, "the first line of the request has more than 32768 bytes");
}

static lm_advance refuse(lm_connection *c, unsigned status, const char *why)
{
    lm_exchange_refuse(c->exchange, status, why);
    c->phase = LM_PHASE_ANSWER;
    return LM_GO;
}

static lm_advance receive_body(lm_connection *c)
{
    lm_exchange *x = c->exchange;
    char text[200];
    const char *why;
    unsigned status;
    size_t size;

    double due = c->due;

    if (flush(c) == LM_CLOSE)              /* "100 Continue" */
        return LM_CLOSE;
    c->due = due;
    while (!lm_body_is_whole(&c->body)) {
        if (c->taken == c->in.size) {
            lm_advance p = fill(c);
            if (p != LM_GO)
                return p;
        }
        c->taken += lm_body_take(&c->body, c->in.data + c->taken, c->in.size - c->taken, &size, &why);
        if (why)
            return refuse(c, 400, why);
        if (size && (status = lm_exchange_add_to_body(x, c->in.data + c->taken - size, size, text)))
            return refuse(c, status, text);
    }
    c->phase = LM_PHASE_ANSWER;
    c->due = 0;
    lm_exchange_start(x);
    return LM_GO;
}

/* The response is sent: wait for the next request, or for the end. */
static void end_exchange(lm_connection *c)
{
    bool closes = c->exchange->head.closes || atomic_load(&c->front->http->stops);

    lm_exchange_free(c->exchange);
    c->exchange = NULL;
    c->used = true;
    c->phase = LM_PHASE_HEAD;
    lm_connection_until(c, c->front->http->o.idle_seconds);
    if (closes)
        hang_up(c);
}

static lm_advance answer(lm_connection *c)
{
    lm_advance p = flush(c);

    if (p != LM_GO)
        return p;
    if (!c->exchange->finished)
        return lm_exchange_produce(c->exchange);
    end_exchange(c);
    return LM_GO;
}

/* Discard one piece at a time: a client that sends without end must not keep the thread. */
static lm_advance discard(lm_connection *c)
{
    ssize_t n = receive(c);

    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)) ? LM_WAIT : LM_CLOSE;
}

/* Whether a worker has the exchange: then the connection is closed when the worker has released it. */
static bool stays(lm_connection *c)
{
    c->gone = true;
    return c->exchange && atomic_load(&c->exchange->busy);
}

bool lm_connection_advance(lm_connection *c)
{
    static lm_advance (*const phases[])(lm_connection *) = {
        [LM_PHASE_HEAD] = receive_head,
        [LM_PHASE_BODY] = receive_body,
        [LM_PHASE_ANSWER] = answer,
        [LM_PHASE_LINGER] = discard,
    };
    lm_advance p;

    do
        p = phases[c->phase](c);
    while (p == LM_GO);
    return p == LM_WAIT || stays(c);
}

bool lm_connection_due(lm_connection *c)
{
    char text[100];

    if (c->phase == LM_PHASE_BODY && !c->out.size) {
        snprintf(text, sizeof text, "the body was not received within %g seconds",
                 c->front->http->o.body_seconds);
        refuse(c, 408, text);
    } else if (c->phase != LM_PHASE_ANSWER || c->out.size) {
        return stays(c);
    }
    return lm_connection_advance(c);
}

void lm_connection_free(lm_connection *c)
{
    if (c->exchange)
        lm_exchange_free(c->exchange);
    lm_wakes_remove(&c->front->wakes, &c->wake);
    if ((*c->link = c->next))
        c->next->link = c->link;
    c->front->n--;
    lm_tls_close(c->tls);
    close(c->fd);
    lm_text_free(&c->in);
    lm_text_free(&c->out);
    lm_heap_free(c);
}
