/* sender.c - sender.h: names and origins are parsed (RFC 6454) and compared. Read from the end upwards.
 * Threads: any. */
#include "server/ask/sender.h"

#include <stdlib.h>
#include <string.h>

/* A name and a port; in an origin, also a scheme. */
typedef struct address { const char *scheme, *name; size_t n_scheme, n_name; unsigned port; } address;

/* Parse "name", "name:port", "[v6]" or "[v6]:port"; `port` 0: not given. False: none of these. */
static bool read_name(const char *at, address *out)
{
    char *end;

    out->name = at;
    if (*at == '[') {
        const char *close = strchr(at, ']');
        if (!close)
            return false;
        out->n_name = (size_t)(close + 1 - at);
    } else {
        out->n_name = strcspn(at, ":/@?#\\");
    }
    at += out->n_name;
    out->port = 0;
    if (*at != ':')
        return !*at;
    if (at[1] < '0' || at[1] > '9' || strlen(at + 1) > 5)
        return false;
    out->port = (unsigned)strtoul(at + 1, &end, 10);
    return !*end && out->port <= 65535;
}

static bool read_origin(const char *at, address *out)
{
    const char *scheme = strstr(at, "://");

    if (!scheme)
        return false;
    out->scheme = at;
    out->n_scheme = (size_t)(scheme - at);
    return read_name(scheme + 3, out);
}

static bool equal(const char *a, size_t n, const char *b, size_t m)
{
    return n == m && strncasecmp(a, b, n) == 0;
}

static unsigned port_of(const address *a)
{
    if (a->port)
        return a->port;
    return equal(a->scheme, a->n_scheme, "https", 5)  ? 443
           : equal(a->scheme, a->n_scheme, "http", 4) ? 80
                                                      : 0;
}

static bool same_origin(const address *a, const address *b)
{
    return equal(a->scheme, a->n_scheme, b->scheme, b->n_scheme) &&
           equal(a->name, a->n_name, b->name, b->n_name) && port_of(a) == port_of(b);
}

static bool is_here(const address *a)
{
    static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (equal(a->name, a->n_name, names[i], strlen(names[i])))
            return true;
    return false;
}

/* ---- host names ---- */

bool lm_sender_host_allowed(const lm_sender *s)
{
    address host, listed;

    if (!s->host || s->any_host || !*s->host)            /* HTTP/1.0, or a Unix socket */
        return true;
    if (!read_name(s->host, &host))
        return false;
    if (is_here(&host))
        return true;
    for (size_t i = 0; s->hosts && s->hosts[i]; i++)
        if (read_name(s->hosts[i], &listed) && equal(host.name, host.n_name, listed.name, listed.n_name) &&
            (!listed.port || listed.port == host.port))
            return true;
    return false;
}

/* ---- web pages ---- */

bool lm_sender_is_page(const lm_sender *s)
{
    return s->origin || (s->site && strcmp(s->site, "none") != 0);
}

bool lm_sender_origin_listed(const lm_sender *s)
{
    address origin, listed;
    bool read = s->origin && read_origin(s->origin, &origin);

    for (size_t i = 0; s->origin && s->origins && s->origins[i]; i++) {
        const char *one = s->origins[i];
        if (strcmp(one, "*") == 0 || strcmp(one, s->origin) == 0)
            return true;
        if (read && strcmp(one, "localhost") == 0 && is_here(&origin))
            return true;
        if (read && read_origin(one, &listed) && same_origin(&origin, &listed))
            return true;
    }
    return false;
}

/* Whether the page came from this server. Behind a proxy that ends TLS, only the browser knows that. */
static bool is_own(const lm_sender *s)
{
    address origin, own = { .scheme = s->tls ? "https" : "http", .n_scheme = s->tls ? 5 : 4 };

    if (s->site && strcmp(s->site, "same-origin") == 0)
        return true;
    return s->origin && s->host && read_origin(s->origin, &origin) && read_name(s->host, &own) &&
           same_origin(&origin, &own);
}

/* Whether the user followed a link: the browser shows the answer as a page of its own, and a GET has no
 * effect. */
static bool is_navigation(const lm_sender *s)
{
    return !s->origin && s->mode && strcmp(s->mode, "navigate") == 0 && strcmp(s->method, "GET") == 0;
}

bool lm_sender_page_allowed(const lm_sender *s)
{
    return !lm_sender_is_page(s) || lm_sender_origin_listed(s) || is_own(s) || is_navigation(s);
}
