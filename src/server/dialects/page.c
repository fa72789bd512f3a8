/* GET /: the page for browsers; a line of text, which shows that the server is running, for other clients. */
#include "server/dialects/page.h"

#include <string.h>

#include "server/dialects/routes.h"

static bool header_has(lm_exchange *x, const char *name, const char *word)
{
    const char *value = lm_exchange_header(x, name);

    return value && strcasestr(value, word);
}

/* Whether the client accepts gzip; a weight of 0 means that it does not. */
static bool takes_gzip(lm_exchange *x)
{
    return header_has(x, "Accept-Encoding", "gzip") && !header_has(x, "Accept-Encoding", "gzip;q=0");
}

static void answer_page(lm_exchange *x)
{
    bool small = takes_gzip(x);

    lm_exchange_add_header(x, "ETag", lm_page_etag);
    lm_exchange_add_header(x, "Cache-Control", "no-cache");
    lm_exchange_add_header(x, "Vary", "Accept, Accept-Encoding");
    if (header_has(x, "If-None-Match", lm_page_etag)) {
        lm_exchange_head(x, 304, NULL);
        lm_exchange_end(x);
        return;
    }
    lm_exchange_add_header(x, "Content-Security-Policy", lm_page_policy);
    lm_exchange_add_header(x, "X-Content-Type-Options", "nosniff");
    lm_exchange_add_header(x, "Referrer-Policy", "no-referrer");
    lm_exchange_add_header(x, "Cross-Origin-Opener-Policy", "same-origin");
    if (small)
        lm_exchange_add_header(x, "Content-Encoding", "gzip");
    lm_exchange_head(x, 200, "text/html; charset=utf-8");
    lm_text_add(lm_exchange_out(x), (const char *)(small ? lm_page_gzip : lm_page_plain),
                small ? lm_page_gzip_size : lm_page_plain_size);
    lm_exchange_end(x);
}

static lm_status answer_root(lm_call *c, lm_error *e)
{
    (void)e;
    if (!c->service->o.no_page && header_has(c->x, "Accept", "text/html"))
        answer_page(c->x);
    else
        lm_answer_text(c->x, 200, "text/plain; charset=utf-8", "lamina is running\n");
    return LM_OK;
}

const lm_route lm_route_root = {
    .method = "GET", .path = "/", .flags = LM_ROUTE_OPEN | LM_ROUTE_QUICK | LM_ROUTE_LOADING,
    .dialect = LM_DIALECT_OLLAMA,
    .summary = "return the browser page, or a line of text to other clients",
    .handle = answer_root,
};
