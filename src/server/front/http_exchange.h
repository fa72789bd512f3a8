/* http_exchange.h - shared declarations of the HTTP front: a server, the front of each of its addresses, its
 * connections, their exchanges.
 *
 * Ownership. The thread of a front owns its connections, and each the exchange of its current request, which
 * it lends to a worker while `busy` is set. Threads: http.h. */
#ifndef LM_SERVER_HTTP_EXCHANGE_H
#define LM_SERVER_HTTP_EXCHANGE_H

#include <stdatomic.h>

#include "server/front/http.h"
#include "server/front/http_head.h"
#include "server/front/http_wakes.h"
#include "server/front/tls.h"
#include "server/front/workers.h"

enum { MAX_ADDRESSES = 8, HEADERS = 12, NAMES = 64 };
enum { LARGE_BODY = 256 << 10 };         /* bytes; requests with such bodies never occupy all workers */
enum { READ_BYTES = 64 << 10 };

typedef struct lm_http_header { char name[NAMES]; char *value; } lm_http_header;

/* What a connection does. */
typedef enum lm_phase {
    LM_PHASE_HEAD,                   /* receives the head of a request, or waits for one */
    LM_PHASE_BODY,
    LM_PHASE_ANSWER,                 /* the request is handled and answered; nothing is received */
    LM_PHASE_LINGER,                 /* everything is sent: discards what the client still sends, as closing
                                        now could destroy the answer on its way */
} lm_phase;

/* What follows after a function of a connection: go on, wait for the socket or a wake, or close it. */
typedef enum lm_advance { LM_GO, LM_WAIT, LM_CLOSE } lm_advance;

typedef struct lm_connection {
    lm_wake      wake;                   /* first member: the front casts it to the connection */
    struct lm_connection *next, **link;  /* of the front's list */
    struct lm_front *front;
    lm_tls_session  *tls;                /* NULL: no TLS */
    int          fd;
    uint32_t     events;                 /* that epoll waits for */
    uint64_t     number;
    unsigned char address[16];           /* of the client; zero: a unix socket */
    lm_phase     phase;
    bool         used;                   /* it has had a request */
    lm_text      in, out;                /* received, and to be sent … */
    size_t       taken, seen, sent;      /* … of which processed; examined for the end of a head; sent */
    lm_body      body;
    double       due;                    /* lm_clock_seconds; 0: never */
    atomic_bool  left;                   /* its client has closed its end */
    bool         gone;                   /* nothing can be sent any more */
    lm_exchange *exchange;               /* NULL: none */
} lm_connection;

struct lm_exchange {
    lm_work_item item;                   /* first member: workers cast it to the exchange */
    lm_http     *http;
    lm_connection *conn;
    lm_workers  *workers;                /* of its lane */
    double       received;               /* when it was complete; lm_clock_seconds */
    uint64_t     id;
    const char  *path;                   /* lm_exchange_path */
    lm_http_head      head;
    lm_text      body, out;
    uint64_t     held, body_held;        /* bytes counted for it; of which for its body */
    unsigned     status;                 /* 0: no head yet */
    const char  *type;
    lm_http_header headers[HEADERS];
    size_t       n_headers;
    bool         stream, ended, again;
    bool         begun, finished;        /* the head of the response is in the connection's `out`; all is */
    void       (*more)(lm_exchange *x, void *job);
    void       (*done)(void *job);
    void        *job;
    double       every;
    atomic_bool  busy;                   /* a worker has it, or it waits for one */
};

/* One for each address. */
typedef struct lm_front {
    lm_http     *http;
    pthread_t    thread;
    atomic_bool  runs;
    int          epoll;
    lm_wakes     wakes;
    pthread_mutex_t lock;                /* protects `listener`: two threads may end the server */
    int          listener;               /* -1: closed */
    double       accepts_at;             /* no connection is accepted before, for lack of descriptors */
    lm_connection *first;
    uint32_t     n;
    char        *url;
    char         scratch[READ_BYTES];
} lm_front;

struct lm_http {
    lm_http_options   o;
    lm_tls           *tls;
    lm_front         *fronts[MAX_ADDRESSES];
    size_t            n;
    lm_workers       *workers, *tracers;
    atomic_bool       stops;
    atomic_uint       exchanges;
    atomic_uint_fast64_t held, max_held, refused;        /* bytes of all exchanges; requests rejected for
                                                            lack of memory */
    atomic_ullong     ids, numbers;
};

/* Let lm_connection_due be called after so many seconds; 0: never. */
void      lm_connection_until(lm_connection *c, double seconds);

/* ---- http_front.c ---- */

/* Listen at the address, and start its thread. */
lm_status lm_front_start(lm_http *h, const char *host, lm_front **out, lm_error *e);
/* Accept no more connections. Any thread. */
void      lm_front_quiesce(lm_front *f);
/* Close all connections and free it; http->stops is set. */
void      lm_front_free(lm_front *f);

/* ---- http_connection.c ---- */

/* Let the connection do what it can; false: close it. */
bool        lm_connection_advance(lm_connection *c);
/* Its time is over; false: close it. */
bool        lm_connection_due(lm_connection *c);
void        lm_connection_free(lm_connection *c);

/* ---- http_receive.c ---- */

/* Create the exchange of a request, from its head. Sets the next phase. */
lm_advance lm_exchange_begin(lm_connection *c, const char *head, size_t n);
/* Respond with an error to a request whose head is not read. */
lm_advance lm_exchange_reject(lm_connection *c, unsigned status, const char *why);
/* Append to the body. Returns 0, or the HTTP status to reject the request with. */
unsigned    lm_exchange_add_to_body(lm_exchange *x, const char *data, size_t n, char why[200]);
/* The request is complete: handle it. */
void        lm_exchange_start(lm_exchange *x);
void        lm_exchange_free(lm_exchange *x);
/* Called by a worker. */
void        lm_exchange_handle(lm_work_item *item);

/* ---- http_send.c ---- */

/* Respond with an error, before any other response; the connection is closed after it. */
void        lm_exchange_refuse(lm_exchange *x, unsigned status, const char *why);
/* Append the next part of the response to `out` of the connection. */
lm_advance lm_exchange_produce(lm_exchange *x);

#endif
