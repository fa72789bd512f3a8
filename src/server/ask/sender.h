/* sender.h - which senders are accepted: the host names of this server, and the web pages that may use it.
 *
 * A page of another origin can neither read answers nor cause work, and cannot pass for this machine by a
 * domain name that it has pointed here (DNS rebinding). A page cannot change the headers in which the browser
 * identifies it (Origin, Sec-Fetch-Site). */
#ifndef LM_SERVER_SENDER_H
#define LM_SERVER_SENDER_H

#include <stdbool.h>

typedef struct lm_sender {
    const char *host, *origin, *site, *mode;     /* headers: Host, Origin, Sec-Fetch-Site, Sec-Fetch-Mode;
                                                    NULL: missing */
    const char *method;
    bool        tls;                 /* the connection is encrypted here */
    const char *const *hosts;        /* names allowed in Host in addition to those of this machine,
                                        NULL-ended; NULL: none */
    const char *const *origins;      /* of pages that may use the server: "*", "localhost" (this machine,
                                        any port), "null" or an origin */
    bool        any_host;            /* Host may be anything: the server has keys, or serves other machines */
} lm_sender;

/* Whether Host is a name of this server. */
bool lm_sender_host_allowed(const lm_sender *s);

/* Whether the sender's origin is listed. */
bool lm_sender_origin_listed(const lm_sender *s);

/* Whether the sender is not a page, or a page that may use the server: its own (same scheme, host and port)
 * or a listed one. A link that the user follows is allowed from every page. */
bool lm_sender_page_allowed(const lm_sender *s);

/* Whether a web page sent the request. */
bool lm_sender_is_page(const lm_sender *s);

#endif
