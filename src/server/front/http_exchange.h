/* http_exchange.h - shared declarations of the HTTP front: a server, its connections, their exchanges.
 * Threads: http.h. */
#ifndef LM_SERVER_HTTP_EXCHANGE_H
#define LM_SERVER_HTTP_EXCHANGE_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "server/front/http.h"
#include "server/front/watch.h"
#include "server/front/workers.h"

enum { MAX_ADDRESSES = 8, HEADERS = 12, NAMES = 64 };
enum { LARGE_BODY = 256 << 10 };         /* bytes; requests with such bodies never occupy all workers */
enum { BUSY = 1, SIGNAL = 2, PARKED = 4 };

typedef struct lm_http_header { char name[NAMES]; char *value; } lm_http_header;

typedef struct lm_connection {
    lm_http    *http;
    lm_watched  watched;
    int         fd;
    uint64_t    number;
    atomic_bool left;                    /* its client has closed its end */
    atomic_bool gone;                    /* it is to be closed: nothing more is sent */
    _Atomic(lm_exchange *) exchange;     /* to wake; NULL: none */
} lm_connection;

struct lm_exchange {
    lm_work_item item;                   /* first member: workers cast it to the exchange */
    lm_http     *http;
    lm_connection *conn;
    lm_workers  *workers;                /* of its lane */
    double       received;               /* when it was complete; lm_clock_seconds */
    struct MHD_Connection *mhd;
    uint64_t     id;
    char        *method, *path;
    lm_text      body, out;
    uint64_t     held, body_held;        /* bytes counted for it; of which for its body */
    size_t       taken;                  /* bytes of `out` already sent */
    unsigned     status;                 /* 0: no head yet */
    const char  *type;
    lm_http_header headers[HEADERS];
    size_t       n_headers;
    bool         stream, ended, again;
    atomic_bool  whole;                  /* the request was received completely */
    void       (*more)(lm_exchange *x, void *job);
    void       (*done)(void *job);
    void        *job;
    double       every;
    /* BUSY, SIGNAL, PARKED: http_parking.c. The thread that clears PARKED resumes the connection; only the
     * front frees, and only while neither BUSY nor PARKED is set. */
    atomic_uint  state;
    atomic_bool  sending;                /* libmicrohttpd has bytes that the client has not received yet */
};

struct lm_http {
    lm_http_options   o;
    struct MHD_Daemon *daemons[MAX_ADDRESSES];
    atomic_int        listeners[MAX_ADDRESSES];          /* -1: closed. The thread that sets -1 closes it:
                                                            two threads may end the server */
    char             *urls[MAX_ADDRESSES + 1];
    size_t            n;
    lm_watch         *watch;
    lm_workers       *workers, *tracers;
    atomic_bool       stops;
    atomic_uint       exchanges;
    atomic_uint_fast64_t held, max_held, refused;        /* bytes of all exchanges; requests rejected for
                                                            lack of memory */
    atomic_ullong     ids, numbers;
};

/* Suspend the connection until lm_exchange_signal. Called by the front's thread. */
void lm_exchange_park(lm_exchange *x);

/* Set SIGNAL and clear the bits of `done`; resume the connection if it is suspended and not BUSY. */
void lm_exchange_signal(lm_exchange *x, unsigned done);
bool lm_exchange_is_busy(lm_exchange *x);

/* Called by libmicrohttpd with each part of a request, and whenever its connection is resumed. `http` is an
 * lm_http; *exchange is NULL at the beginning of a request. */
enum MHD_Result lm_http_receive(void *http, struct MHD_Connection *mhd, const char *path, const char *method,
                                const char *version, const char *data, size_t *size, void **exchange);
void            lm_exchange_free(lm_exchange *x);

/* Called by a worker. */
void lm_exchange_handle(lm_work_item *item);

/* Respond with an error, before any other response; the connection is closed after it. */
void lm_exchange_refuse(lm_exchange *x, unsigned status, const char *why);

/* Check the head of a request. Returns 0, or the HTTP status to reject it with. */
unsigned lm_exchange_check_head(lm_exchange *x, const char *version, const char **why);

/* Check that a body of the announced length can be held, before it is sent. Returns 0, or the HTTP status to
 * reject the request with. */
unsigned lm_exchange_check_memory(lm_exchange *x, char why[200]);

/* Append to the body. Returns 0, or the HTTP status to reject the request with. */
unsigned lm_exchange_add_to_body(lm_exchange *x, const char *data, size_t n, char why[200]);

/* Continue the response to a completely received request; called again whenever the connection is resumed,
 * until a response is queued. */
enum MHD_Result lm_exchange_advance(lm_exchange *x);
enum MHD_Result lm_exchange_respond(lm_exchange *x);

/* Send bytes without libmicrohttpd, which sends nothing before a body is complete. Sends only what the socket
 * accepts at once, and nothing if the server uses TLS. */
void lm_connection_send_raw(const lm_connection *c, const char *text, size_t n);

#endif
