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
    atomic_uint  state;                  /* of BUSY, SIGNAL, PARKED: http.c. Who clears PARKED resumes; only the front frees, and only
                                            while neither BUSY nor PARKED is set */
    atomic_bool  sending;                /* bytes are on their way, and the client has not taken them */
};

struct lm_http {
    lm_http_options   o;
    struct MHD_Daemon *daemons[MAX_ADDRESSES];
    int               listeners[MAX_ADDRESSES];
    char             *urls[MAX_ADDRESSES + 1];
    size_t            n;
    lm_watch         *watch;
    lm_workers       *workers;
    atomic_bool       stops;
    atomic_uint       connections, exchanges;
    atomic_uint_fast64_t held, most_held, refused;       /* bytes of all exchanges; requests refused for want of memory */
    atomic_ullong     ids, numbers;
};

#endif
