/* sender.h - who may send requests: under which names this server may be called, and which web pages may use it.
 *
 * A page of another place may neither read answers nor have work done, and may not pass for this machine by a name that it has pointed
 * here (DNS rebinding). What a browser says of a page (Origin, Sec-Fetch-Site) cannot be changed by the page. */
#ifndef LM_SERVER_SENDER_H
#define LM_SERVER_SENDER_H

#include <stdbool.h>

typedef struct lm_sender {
    const char *host, *origin, *site, *mode;     /* headers: Host, Origin, Sec-Fetch-Site, Sec-Fetch-Mode; NULL: not there */
    const char *method;
    bool        tls;                 /* the connection is encrypted here */
    const char *const *hosts;        /* names that Host may be besides those of this machine, NULL-ended; NULL: none */
    const char *const *origins;      /* of pages that may use the server: "*", "localhost" (this machine, any port), "null" or an origin */
    bool        any_host;            /* Host may be anything: the server has keys, or serves other machines */
} lm_sender;

/* Whether the name that it calls the server by is one of the server's. */
bool lm_sender_host_allowed(const lm_sender *s);

/* Whether its origin is listed. */
bool lm_sender_origin_listed(const lm_sender *s);

/* Whether it is no page, or one that may use the server: of the server itself (same scheme, host and port) or listed. */
bool lm_sender_page_allowed(const lm_sender *s);

/* Whether a page has sent it. */
bool lm_sender_is_page(const lm_sender *s);

#endif
