/* http.c - http.h: a front for each address, and the threads that all of them share. */
#include "server/front/http_exchange.h"

#include "server/front/memory.h"

lm_status lm_http_start(const lm_http_options *o, lm_http **out, lm_error *e)
{
    lm_http *h = lm_memory_zero(1, sizeof *h);
    lm_status status = LM_OK;

    if (!h)
        return lm_fail_memory(e, "the server", sizeof *h);
    h->o = *o;
    h->o.connections = o->connections ? o->connections : 1024;
    h->o.header_seconds = o->header_seconds > 0 ? o->header_seconds : 10;
    h->o.body_seconds = o->body_seconds > 0 ? o->body_seconds : 60;
    h->o.stall_seconds = o->stall_seconds > 0 ? o->stall_seconds : 30;
    h->o.idle_seconds = o->idle_seconds > 0 ? o->idle_seconds : 120;
    if (o->tls_key)
        status = lm_tls_new(o->tls_key, o->tls_cert, &h->tls, e);
    if (status == LM_OK)
        status = lm_workers_new(o->workers ? o->workers : 2, o->queue ? o->queue : 512, lm_exchange_handle,
                                &h->workers, e);
    if (status == LM_OK)
        status = lm_workers_new(1, o->traces ? o->traces : 16, lm_exchange_handle, &h->tracers, e);
    for (size_t i = 0; status == LM_OK && o->hosts[i]; i++) {
        status = i < MAX_ADDRESSES
                     ? lm_front_start(h, o->hosts[i], &h->fronts[i], e)
                     : lm_fail(e, LM_USAGE, "--host", LM_NO_OFFSET, "at most %d addresses", MAX_ADDRESSES);
        h->n += status == LM_OK;
    }
    if (status == LM_OK)
        *out = h;
    else
        lm_http_stop(h);
    return status;
}

void lm_http_quiesce(lm_http *h)
{
    for (size_t i = 0; i < h->n; i++)
        lm_front_quiesce(h->fronts[i]);
}

void lm_http_stop(lm_http *h)
{
    if (!h)
        return;
    atomic_store(&h->stops, true);
    lm_http_quiesce(h);
    /* They handle all waiting requests first, so that the fronts may free every exchange. */
    lm_workers_free(h->workers);
    lm_workers_free(h->tracers);
    for (size_t i = 0; i < h->n; i++)
        lm_front_free(h->fronts[i]);
    lm_tls_free(h->tls);
    lm_heap_free(h);
}

const char *lm_http_url(const lm_http *h, size_t i)
{
    return i < h->n ? h->fronts[i]->url : NULL;
}

uint32_t lm_http_exchanges(const lm_http *h)
{
    return atomic_load(&h->exchanges);
}
