/* http_exchange.c - what handlers read of a request and set of its response. */
#include "server/front/http_exchange.h"

#include <stdio.h>
#include <string.h>

#include "base/os/clock.h"
#include "server/front/memory.h"

const char *lm_exchange_method(const lm_exchange *x)
{
    return x->method;
}

const char *lm_exchange_path(const lm_exchange *x)
{
    return x->path;
}

const char *lm_exchange_query(const lm_exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->mhd, MHD_GET_ARGUMENT_KIND, name);
}

typedef struct other { const char *names, *found; } other;

static enum MHD_Result find_other(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    other *o = arg;
    /* Not a part of the list with several names. */
    size_t n = strcspn(name, ", ") == strlen(name) ? strlen(name) : 0;

    (void)kind;
    (void)value;
    for (const char *at = o->names; n && (at = strstr(at, name)); at += n)
        if ((at == o->names || at[-1] == ' ') && (at[n] == ',' || !at[n]))
            return MHD_YES;
    o->found = name;
    return MHD_NO;
}

const char *lm_exchange_other_query(const lm_exchange *x, const char *names)
{
    other o = { names, NULL };

    MHD_get_connection_values(x->mhd, MHD_GET_ARGUMENT_KIND, find_other, &o);
    return o.found;
}

const char *lm_exchange_header(const lm_exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, name);
}

const char *lm_exchange_body(const lm_exchange *x, size_t *n)
{
    *n = x->body.size;
    return x->body.data ? x->body.data : "";
}

uint64_t lm_exchange_connection(const lm_exchange *x)
{
    return x->conn->number;
}

double lm_exchange_seconds(const lm_exchange *x)
{
    return lm_clock_seconds() - x->received;
}

bool lm_exchange_is_encrypted(const lm_exchange *x)
{
    return x->http->o.tls_key != NULL;
}

void lm_exchange_head(lm_exchange *x, unsigned status, const char *type)
{
    x->status = status;
    x->type = type;
}

bool lm_exchange_is_left(const lm_exchange *x)
{
    return atomic_load(&x->conn->left);
}

void lm_exchange_add_header(lm_exchange *x, const char *name, const char *value)
{
    lm_http_header *h = x->headers + x->n_headers;

    if (x->n_headers == HEADERS || strlen(name) >= sizeof h->name ||
        !(h->value = lm_memory_text(value, strlen(value))))
        return;
    memcpy(h->name, name, strlen(name) + 1);
    x->n_headers++;
}

lm_text *lm_exchange_out(lm_exchange *x)
{
    return &x->out;
}

void lm_exchange_stream(lm_exchange *x)
{
    x->stream = true;
}

void lm_exchange_end(lm_exchange *x)
{
    x->ended = true;
}

void lm_exchange_later(lm_exchange *x, void (*more)(lm_exchange *, void *), void (*done)(void *), void *job)
{
    x->more = more;
    x->done = done;
    x->job = job;
}

void lm_exchange_every(lm_exchange *x, double seconds)
{
    x->every = seconds;
}

/* ---- memory ---- */

static void raise_maximum(lm_http *h, uint64_t now)
{
    uint64_t max = atomic_load_explicit(&h->max_held, memory_order_relaxed);

    while (now > max && !atomic_compare_exchange_weak(&h->max_held, &max, now))
        ;
}

bool lm_exchange_charge(lm_exchange *x, uint64_t bytes)
{
    lm_http *h = x->http;
    uint64_t now = atomic_load(&h->held);

    do
        if (h->o.memory_limit && (now > h->o.memory_limit || bytes > h->o.memory_limit - now))
            return false;
    while (!atomic_compare_exchange_weak(&h->held, &now, now + bytes));
    raise_maximum(h, now + bytes);
    x->held += bytes;
    return true;
}

void lm_exchange_adjust(lm_exchange *x, int64_t change)
{
    if (change < 0 && (uint64_t)-change > x->held)
        change = -(int64_t)x->held;
    x->held += (uint64_t)change;
    raise_maximum(x->http, atomic_fetch_add(&x->http->held, (uint64_t)change) + (uint64_t)change);
}

unsigned lm_exchange_no_memory(lm_exchange *x, uint64_t bytes, char why[200])
{
    uint64_t limit = x->http->o.memory_limit, alone = x->held + bytes;

    atomic_fetch_add(&x->http->refused, 1);
    if (alone > limit) {
        snprintf(why, 200,
                 "the request would hold %llu bytes of memory, and all requests together may hold %llu "
                 "(--max-request-memory)",
                 (unsigned long long)alone, (unsigned long long)limit);
        return 413;
    }
    snprintf(why, 200,
             "requests hold %llu bytes of memory, this one would take %llu more, and all together may hold "
             "%llu"
             " (--max-request-memory)",
             (unsigned long long)atomic_load(&x->http->held), (unsigned long long)bytes,
             (unsigned long long)limit);
    return 503;
}

void lm_exchange_memory(const lm_exchange *x, lm_http_memory *out)
{
    lm_http *h = x->http;

    *out = (lm_http_memory){ .used = atomic_load(&h->held),
                             .max = atomic_load(&h->max_held),
                             .limit = h->o.memory_limit,
                             .refused = atomic_load(&h->refused) };
}

void lm_exchange_refuse(lm_exchange *x, unsigned status, const char *why)
{
    x->http->o.refuse(x->http->o.arg, x, status, why);
    lm_exchange_add_header(x, "Connection", "close");
    x->ended = true;
}
