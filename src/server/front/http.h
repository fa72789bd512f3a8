/* http.h - the HTTP/1.1 front: sockets, connections, limits and deadlines. It knows nothing of models.
 *
 * A request that is whole is given to `handle`: by the front's own thread where `quick` says so, else by one of a few workers.
 * Handling fills in the
 * exchange: a head and a body, or a function that goes on later (lm_exchange_later) each time that lm_exchange_wake is called. So nothing
 * waits in a thread, and what a client does not read is not made.
 *
 * Threads: an exchange is used by whoever handles it; lm_exchange_wake by any thread. */
#ifndef LM_SERVER_HTTP_H
#define LM_SERVER_HTTP_H

#include "lamina/buffer.h"
#include "lamina/log.h"

typedef struct lm_http     lm_http;
typedef struct lm_exchange lm_exchange;

typedef struct lm_http_options {
    const char *const *hosts;        /* addresses, names or "unix:PATH", NULL-ended */
    uint16_t    port;                /* 0: any that is free */
    const char *tls_key, *tls_cert;  /* texts of PEM files, both or neither */
    uint32_t    connections;         /* most at once; 0: 1024 */
    uint32_t    per_address;         /* of one client; 0: as many */
    uint32_t    workers;             /* 0: 2 */
    uint32_t    queue;               /* requests that wait for a worker; 0: 512 */
    size_t      body_limit;          /* bytes */
    uint64_t    memory_limit;        /* bytes that all exchanges may hold together; 0: any */
    double      header_seconds, body_seconds, stall_seconds, idle_seconds;      /* 0: 10, 60, 30, 120 */
    bool      (*quick)(void *arg, const char *method, const char *path);        /* handled at once, without waiting for anything */
    /* False: not yet. What the request waits for calls lm_exchange_again, maybe before this returns, and it is handled once more. */
    bool      (*handle)(void *arg, lm_exchange *x);
    /* Makes the answer to a request that never reaches `handle`: too large, malformed … `status` is set. */
    void      (*refuse)(void *arg, lm_exchange *x, unsigned status, const char *why);
    void       *arg;
} lm_http_options;

/* Listening when it returns. LM_IO: an address that cannot be had; LM_USAGE: one that is none, keys that are none. */
lm_status lm_http_start(const lm_http_options *o, lm_http **out, lm_error *e);

/* No more connections; those that are there go on. By any thread, also by two at once. */
void lm_http_quiesce(lm_http *h);

/* Ends every exchange, then all threads. */
void lm_http_stop(lm_http *h);

/* "http://127.0.0.1:8080", one for each address, NULL past the end. */
const char *lm_http_url(const lm_http *h, size_t i);

uint32_t lm_http_connections(const lm_http *h);          /* now; any thread */
uint32_t lm_http_exchanges(const lm_http *h);            /* of which wait for an answer, or are being answered */

/* ---- what requests hold ---- */

typedef struct lm_http_memory {
    uint64_t used, most;             /* bytes of all exchanges: now, and as many as there ever were */
    uint64_t limit;                  /* 0: none */
    uint64_t refused;                /* requests, for want of it */
} lm_http_memory;

/* Bytes more that the exchange holds, until it ends; false: with them all would hold more than they may, and it holds what it did. Bodies
 * are the front's and counted by it. By whoever handles the exchange. */
bool lm_exchange_take(lm_exchange *x, uint64_t bytes);
/* What it holds changes by so much, whatever the limit. */
void lm_exchange_hold(lm_exchange *x, int64_t change);

/* The exchange is refused for want of `bytes` more: the status, 413 where it would be too much alone, else 503, and why. */
unsigned lm_exchange_no_memory(lm_exchange *x, uint64_t bytes, char why[200]);

void lm_exchange_memory(const lm_exchange *x, lm_http_memory *out);

/* ---- a request ---- */

const char *lm_exchange_method(const lm_exchange *x);
const char *lm_exchange_path(const lm_exchange *x);                          /* decoded, without the query */
const char *lm_exchange_query(const lm_exchange *x, const char *name);       /* NULL: not there */
const char *lm_exchange_header(const lm_exchange *x, const char *name);
const char *lm_exchange_body(const lm_exchange *x, size_t *n);
uint64_t    lm_exchange_id(const lm_exchange *x);        /* one for each of this process */
uint64_t    lm_exchange_connection(const lm_exchange *x);
bool        lm_exchange_is_encrypted(const lm_exchange *x);

/* ---- its answer ---- */

/* Before the first byte of the body is taken, in any order. `type`: Content-Type. Headers are copied. */
void lm_exchange_head(lm_exchange *x, unsigned status, const char *type);
void lm_exchange_add_header(lm_exchange *x, const char *name, const char *value);

/* What is appended here is the body. */
lm_text *lm_exchange_out(lm_exchange *x);

/* The head and what is there of the body may go out; more will come. Without this nothing goes out before the end. */
void lm_exchange_stream(lm_exchange *x);

/* The body is whole. */
void lm_exchange_end(lm_exchange *x);

/* Go on with `more`, by the front's thread, after each lm_exchange_wake: it must not wait. `job` is freed with the exchange, after
 * which `more` is
 * not called; lm_exchange_wake must not be called once `done` has returned. */
void lm_exchange_later(lm_exchange *x, void (*more)(lm_exchange *x, void *job), void (*done)(void *job), void *job);

/* Also called after so many seconds without a wake (0: never), for signs of life. */
void lm_exchange_every(lm_exchange *x, double seconds);

void lm_exchange_wake(lm_exchange *x);

/* Handle it again, by a worker: once for each time that `handle` returned false. Its client may have left meanwhile. Any thread. */
void lm_exchange_again(lm_exchange *x);

/* Whether it is handled again. */
bool lm_exchange_is_again(const lm_exchange *x);

#endif
