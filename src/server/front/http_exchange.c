/* http_exchange.c - what handlers read of a request and set of its response. */
#include "server/front/http_exchange.h"

#include <stdio.h>
#include <string.h>

#include "base/os/clock.h"
#include "server/front/memory.h"

void lm_connection_until(lm_connection *c, double seconds)
{
    c->due = seconds > 0 ? lm_clock_seconds() + seconds : 0;
}

const char *lm_exchange_method(const lm_exchange *x)
{
    return x->head.method;
}

const char *lm_exchange_path(const lm_exchange *x)
{
    return x->path;
}

const char *lm_exchange_whole_path(const lm_exchange *x)
{
    return x->head.path;
}

const char *lm_exchange_query(const lm_exchange *x, const char *name)
{
    for (size_t i = 0; i < x->head.n_query; i++)
        if (strcmp(x->head.query[i].name, name) == 0)
            return x->head.query[i].value;
    return NULL;
}

/* Whether ", " separates `names`, and one of them is `name`. */
static bool is_listed(const char *names, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = names; *at; at += strcspn(at, ","), at += strspn(at, ", "))
        if (strcspn(at, ",") == n && memcmp(at, name, n) == 0)
            return true;
    return false;
}

const char *lm_exchange_other_query(const lm_exchange *x, const char *names)
{
    for (size_t i = 0; i < x->head.n_query; i++)
        if (!is_listed(names, x->head.query[i].name))
            return x->head.query[i].name;
    return NULL;
}

const char *lm_exchange_header(const lm_exchange *x, const char *name)
{
    return lm_head_field(&x->head, name);
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
    return x->http->tls != NULL;
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
