/* http.h - the HTTP/1.1 front: sockets, connections, limits and deadlines. It is independent of models.
 *
 * A complete request is passed to `handle`, by a thread of the lane that `lane` returns. The handler fills in
 * the exchange: a head and a body, or a function (lm_exchange_later) that continues the response after each
 * lm_exchange_wake. So no thread waits for a response, and a response is not generated faster than the client
 * reads it.
 *
 * Threads: an exchange is used by the thread that handles it; lm_exchange_wake may be called by any
 * thread. */
#ifndef LM_SERVER_HTTP_H
#define LM_SERVER_HTTP_H

#include "lamina/buffer.h"
#include "lamina/log.h"

typedef struct lm_http     lm_http;
typedef struct lm_exchange lm_exchange;

/* The threads that handle a request. */
typedef enum lm_http_lane {
    LM_LANE_WORKERS,                 /* a few workers */
    LM_LANE_FRONT,                   /* the front's own thread, at once: the handler does not block */
    LM_LANE_LONG,                    /* the workers, one of which is kept for other requests */
    LM_LANE_TRACES,                  /* a separate thread, one request at a time */
} lm_http_lane;

typedef struct lm_http_options {
    const char *const *hosts;        /* addresses, names or "unix:PATH", NULL-ended */
    uint16_t    port;                /* 0: any free one */
    const char *prefix;              /* of every path: "/llm"; NULL: none */
    const char *tls_key, *tls_cert;  /* contents of PEM files, both or neither */
    uint32_t    connections;         /* maximum at once, at each of `hosts`; 0: 1024 */
    uint32_t    per_address;         /* of which from one client address; 0: no limit */
    uint32_t    workers;             /* 0: 2 */
    uint32_t    queue;               /* maximum requests waiting for a worker; 0: 512 */
    uint32_t    traces;              /* maximum requests waiting in LM_LANE_TRACES; 0: 16 */
    size_t      body_limit;          /* bytes */
    uint64_t    memory_limit;        /* bytes that all exchanges together may hold; 0: no limit */
    double      header_seconds, body_seconds, stall_seconds, idle_seconds;      /* 0: 10, 60, 30, 120 */
    lm_http_lane (*lane)(void *arg, const char *method, const char *path);
    /* Returns false if the request has to wait. What it waits for calls lm_exchange_again, possibly before
     * this returns; then it is handled again. */
    bool      (*handle)(void *arg, lm_exchange *x);
    /* Makes the response to a request that is rejected before `handle`: too large, malformed … `status`: its
     * HTTP status. */
    void      (*refuse)(void *arg, lm_exchange *x, unsigned status, const char *why);
    void       *arg;
} lm_http_options;

/* Start a server, which is listening when this returns. LM_IO: an address cannot be used; LM_USAGE: an
 * address, key or certificate is not valid; LM_FAILED: a thread cannot be started. */
lm_status lm_http_start(const lm_http_options *o, lm_http **out, lm_error *e);

/* Accept no more connections; existing ones continue. Any thread, also two concurrently. */
void lm_http_quiesce(lm_http *h);

/* End every exchange, then all threads, and free the server. */
void lm_http_stop(lm_http *h);

/* Return the i-th URL ("http://127.0.0.1:8080"), one per address; NULL past the end. */
const char *lm_http_url(const lm_http *h, size_t i);

/* Return how many exchanges wait for a response, or are being answered; any thread. */
uint32_t lm_http_exchanges(const lm_http *h);

/* ---- memory of requests ---- */

typedef struct lm_http_memory {
    uint64_t used, max;              /* bytes of all exchanges: now, and the maximum so far */
    uint64_t limit;                  /* 0: none */
    uint64_t refused;                /* requests rejected for lack of memory */
} lm_http_memory;

/* Count `bytes` more as held by the exchange, until it ends. Returns false, without counting them, if all
 * exchanges would exceed the limit. The front counts bodies itself. Called by the thread that handles the
 * exchange. */
bool lm_exchange_charge(lm_exchange *x, uint64_t bytes);
/* Change the count by so many bytes, regardless of the limit. */
void lm_exchange_adjust(lm_exchange *x, int64_t change);

/* Count a rejection for lack of `bytes` more. Returns its HTTP status: 413 if the exchange alone would exceed
 * the limit, otherwise 503. Writes the message to `why`. */
unsigned lm_exchange_no_memory(lm_exchange *x, uint64_t bytes, char why[200]);

void lm_exchange_memory(const lm_exchange *x, lm_http_memory *out);

/* ---- a request ---- */

const char *lm_exchange_method(const lm_exchange *x);
/* The path, decoded, without the query and the prefix. "": it is the prefix alone; NULL: it does not begin
 * with the prefix. */
const char *lm_exchange_path(const lm_exchange *x);
const char *lm_exchange_whole_path(const lm_exchange *x);                    /* with the prefix */
const char *lm_exchange_query(const lm_exchange *x, const char *name);       /* NULL: missing */
/* A parameter that is not one of `names`, which ", " separates; NULL: none. */
const char *lm_exchange_other_query(const lm_exchange *x, const char *names);
const char *lm_exchange_header(const lm_exchange *x, const char *name);
const char *lm_exchange_body(const lm_exchange *x, size_t *n);
uint64_t    lm_exchange_connection(const lm_exchange *x);
double      lm_exchange_seconds(const lm_exchange *x);    /* since it was received completely */
bool        lm_exchange_is_encrypted(const lm_exchange *x);

/* ---- its response ---- */

/* Set the status, the Content-Type `type` (not copied) and headers (copied), in any order, before the first
 * byte of the body is sent. */
void lm_exchange_head(lm_exchange *x, unsigned status, const char *type);
void lm_exchange_add_header(lm_exchange *x, const char *name, const char *value);

/* Return the buffer to which the body is appended. */
lm_text *lm_exchange_out(lm_exchange *x);

/* Send the head and the body so far; more will follow. Without this nothing is sent before the end. */
void lm_exchange_stream(lm_exchange *x);

/* Mark the body as complete. */
void lm_exchange_end(lm_exchange *x);

/* Continue the response with `more`, which the front's thread calls after each lm_exchange_wake: it must not
 * block. The end of the exchange calls `done`, which frees `job`; after it `more` is not called, and
 * lm_exchange_wake must not be called once it has returned. */
void lm_exchange_later(lm_exchange *x, void (*more)(lm_exchange *x, void *job), void (*done)(void *job),
                       void *job);

/* Also call `more` after so many seconds without a wake (0: never), to send keep-alive events. */
void lm_exchange_every(lm_exchange *x, double seconds);

void lm_exchange_wake(lm_exchange *x);

/* Whether the client has closed its end: work that has not ended is not continued. Any thread, until the
 * exchange ends. */
bool lm_exchange_is_left(const lm_exchange *x);

/* Let a worker handle it again: once per time that `handle` returned false. The client may have left
 * meanwhile. Any thread. */
void lm_exchange_again(lm_exchange *x);

/* Whether lm_exchange_again was called for it. */
bool lm_exchange_is_again(const lm_exchange *x);

#endif
