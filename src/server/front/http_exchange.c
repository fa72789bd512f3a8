/* http_exchange.c - what handlers see of a request, and say of its answer. */
#include "server/front/http_exchange.h"

#include <stdlib.h>
#include <string.h>

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

const char *lm_exchange_header(const lm_exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, name);
}

const char *lm_exchange_body(const lm_exchange *x, size_t *n)
{
    *n = x->body.size;
    return x->body.data ? x->body.data : "";
}

uint64_t lm_exchange_id(const lm_exchange *x)
{
    return x->id;
}

uint64_t lm_exchange_connection(const lm_exchange *x)
{
    return x->conn->number;
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

void lm_exchange_add_header(lm_exchange *x, const char *name, const char *value)
{
    lm_http_header *h = x->headers + x->n_headers;

    if (x->n_headers == HEADERS || strlen(name) >= sizeof h->name || !(h->value = strdup(value)))
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
