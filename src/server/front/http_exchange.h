/* http_exchange.h - what the parts of the front door share: a server, its connections, their exchanges. Who may call what: http.h. */
#ifndef LM_SERVER_HTTP_EXCHANGE_H
#define LM_SERVER_HTTP_EXCHANGE_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "server/front/http.h"
#include "server/front/watch.h"
#include "server/front/workers.h"

enum { MAX_ADDRESSES = 8, HEADERS = 12, NAMES = 64 };
enum { BUSY = 1, SIGNAL = 2, PARKED = 4 };

typedef struct lm_http_header { char name[NAMES]; char *value; } lm_http_header;

typedef struct lm_connection {
    lm_http    *http;
    lm_watched  watched;
    int         fd;
    uint64_t    number;
    atomic_bool left;                    /* its client has closed its end */
    atomic_bool gone;                    /* it may not stay: nothing more is sent */
    _Atomic(lm_exchange *) exchange;     /* whom to wake */
} lm_connection;

struct lm_exchange {
    lm_work_item item;                   /* first: workers find the exchange by it */
    lm_http     *http;
    lm_connection *conn;
    struct MHD_Connection *mhd;
    uint64_t     id;
    char        *method, *path;
    lm_text      body, out;
    uint64_t     held, body_held;        /* bytes counted of it; of which its body's */
    size_t       taken;                  /* bytes of `out` that went out */
    unsigned     status;                 /* 0: no head yet */
    const char  *type;
    lm_http_header headers[HEADERS];
    size_t       n_headers;
    bool         stream, ended, again;
    atomic_bool  whole;                  /* the request is here to its end */
    void       (*more)(lm_exchange *x, void *job);
    void       (*done)(void *job);
    void        *job;
    double       every;
    atomic_uint  state;                  /* of BUSY, SIGNAL, PARKED: http_parking.c. Who clears PARKED resumes; only the front frees, and
                                            only while neither BUSY nor PARKED is set */
    atomic_bool  sending;                /* bytes are on their way, and the client has not taken them */
};

struct lm_http {
    lm_http_options   o;
    struct MHD_Daemon *daemons[MAX_ADDRESSES];
    atomic_int        listeners[MAX_ADDRESSES];          /* -1: closed. Who has taken it out closes it: two threads may end the server */
    char             *urls[MAX_ADDRESSES + 1];
    size_t            n;
    lm_watch         *watch;
    lm_workers       *workers;
    atomic_bool       stops;
    atomic_uint       connections, exchanges;
    atomic_uint_fast64_t held, most_held, refused;       /* bytes of all exchanges; requests refused for want of memory */
    atomic_ullong     ids, numbers;
};

/* Suspend the connection until there is something for it. By the front's thread. */
void lm_exchange_park(lm_exchange *x);

/* Something has come, and the bits of `done` are no longer so. */
void lm_exchange_signal(lm_exchange *x, unsigned done);
bool lm_exchange_is_busy(lm_exchange *x);

/* What libmicrohttpd calls with each part of a request, and whenever its connection is resumed. `http` is an lm_http, `exchange` begins as
 * NULL. */
enum MHD_Result lm_http_receive(void *http, struct MHD_Connection *mhd, const char *path, const char *method, const char *version,
                                const char *data, size_t *size, void **exchange);
void            lm_exchange_free(lm_exchange *x);

/* By a worker. */
void lm_exchange_handle(lm_work_item *item);

/* An error before anything was answered; the connection ends with it. */
void lm_exchange_refuse(lm_exchange *x, unsigned status, const char *why);

/* What is wrong with a request by its head alone, as a status of HTTP; 0: nothing. */
unsigned lm_exchange_check_head(lm_exchange *x, const char *version, const char **why);

/* Whether a body of the announced length can be held, before it is sent. 0: it can. */
unsigned lm_exchange_check_room(lm_exchange *x, char why[200]);

/* 0: it was added. */
unsigned lm_exchange_add_to_body(lm_exchange *x, const char *data, size_t n, char why[200]);

/* Go on with the answer of a request that is here to its end, and whenever the connection is resumed, until a response is queued. */
enum MHD_Result lm_exchange_advance(lm_exchange *x);
enum MHD_Result lm_exchange_respond(lm_exchange *x);

/* Past libmicrohttpd, which answers nothing before a body is whole. As far as it goes out at once, and where nothing is encrypted. */
void lm_connection_send_raw(const lm_connection *c, const char *text, size_t n);

#endif
