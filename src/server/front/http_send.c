/* http_send.c - sending responses: whole, or in chunks as they are generated. Threads: the front's. */
#include "server/front/http_exchange.h"

#include <string.h>
#include <strings.h>
#include <time.h>

#include "lamina/heap.h"

static const char *reason(unsigned status)
{
    static const struct { unsigned status; const char *words; } reasons[] = {
        { 200, "OK" }, { 304, "Not Modified" }, { 308, "Permanent Redirect" }, { 400, "Bad Request" }, { 401, "Unauthorized" }, { 403, "Forbidden" },
        { 404, "Not Found" }, { 405, "Method Not Allowed" }, { 408, "Request Timeout" }, { 409, "Conflict" },
        { 413, "Content Too Large" }, { 414, "URI Too Long" }, { 415, "Unsupported Media Type" },
        { 429, "Too Many Requests" }, { 431, "Request Header Fields Too Large" },
        { 500, "Internal Server Error" }, { 501, "Not Implemented" }, { 503, "Service Unavailable" },
        { 505, "HTTP Version Not Supported" }, { 507, "Insufficient Storage" },
    };

    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].words;
    return status < 400 ? "OK" : "Error";
}

static void add_date(lm_text *to)
{
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t now = time(NULL);
    struct tm t;

    if (gmtime_r(&now, &t))
        lm_text_printf(to, "Date: %.3s, %02d %.3s %d %02d:%02d:%02d GMT\r\n", days + 3 * t.tm_wday,
                       t.tm_mday, months + 3 * t.tm_mon, t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

void lm_exchange_refuse(lm_exchange *x, unsigned status, const char *why)
{
    x->http->o.refuse(x->http->o.arg, x, status, why);
    x->head.closes = true;
    x->ended = true;
}

/* Continue the response. Its memory is counted but not limited: the limits of the request bound its
 * length. */
static void continue_job(lm_exchange *x)
{
    lm_heap_watch w = { 0 };

    if (!x->more)
        return;
    lm_heap_begin(&w);
    x->more(x, x->job);
    lm_heap_end(&w);
    lm_exchange_adjust(x, w.held);
}

/* Whether no client will read the rest of the response. The client may have closed only its sending side: a
 * complete response is still sent, but an unfinished one is not continued. */
static bool is_gone(const lm_exchange *x)
{
    return x->conn->gone || x->out.failed || (x->more && !x->ended && atomic_load(&x->conn->left));
}

static bool is_head_request(const lm_exchange *x)
{
    return strcmp(x->head.method, "HEAD") == 0;
}

/* A response whose length is not known is sent in chunks; to a client of HTTP/1.0, until the connection is
 * closed. */
static void add_framing(lm_exchange *x, lm_text *to)
{
    if (x->ended && x->status != 304)                /* which has no body, and would have another length */
        lm_text_printf(to, "Content-Length: %zu\r\n", x->out.size);
    else if (x->ended)
        ;
    else if (x->head.old)
        x->head.closes = true;
    else
        lm_text_add_str(to, "Transfer-Encoding: chunked\r\n");
    if (x->head.closes || x->head.old)
        lm_text_printf(to, "Connection: %s\r\n", x->head.closes ? "close" : "keep-alive");
}

/* Add the head; then the body follows, or the first part of it. */
static void add_head(lm_exchange *x, lm_text *to)
{
    unsigned status = x->status ? x->status : 500;

    lm_text_printf(to, "HTTP/1.1 %u %s\r\n", status, reason(status));
    add_date(to);
    add_framing(x, to);
    lm_text_printf(to, "x-request-id: req_%llx\r\nServer: lamina\r\n", (unsigned long long)x->id);
    if (x->type)
        lm_text_printf(to, "Content-Type: %s\r\n", x->type);
    for (size_t i = 0; i < x->n_headers; i++)
        lm_text_printf(to, "%s: %s\r\n", x->headers[i].name, x->headers[i].value);
    lm_text_add_str(to, "\r\n");
    x->begun = true;
    if (x->ended && !is_head_request(x))
        lm_text_add(to, x->out.data, x->out.size);
    if (x->ended || is_head_request(x)) {
        x->finished = true;
        lm_text_free(&x->out);
    }
}

/* Add what there is of a response in parts. */
static void add_part(lm_exchange *x, lm_text *to)
{
    if (x->out.size && !x->head.old)
        lm_text_printf(to, "%zx\r\n", x->out.size);
    lm_text_add(to, x->out.data, x->out.size);
    if (x->out.size && !x->head.old)
        lm_text_add_str(to, "\r\n");
    if (x->ended && !x->head.old)
        lm_text_add_str(to, "0\r\n\r\n");
    lm_text_clear(&x->out);
    x->finished = x->ended;
}

/* Whether something can be sent: a part of a stream, or everything. */
static bool is_ready(const lm_exchange *x)
{
    return x->ended || (x->begun ? x->out.size > 0 : x->stream && x->status);
}

lm_advance lm_exchange_produce(lm_exchange *x)
{
    lm_connection *c = x->conn;

    if (atomic_load(&x->busy)) {
        c->due = 0;
        return LM_WAIT;
    }
    if (is_gone(x))
        return LM_CLOSE;
    if (!is_ready(x))
        continue_job(x);
    if (is_gone(x))
        return LM_CLOSE;
    if (!is_ready(x) && x->more) {
        lm_connection_until(c, x->every);
        return LM_WAIT;
    }
    if (!is_ready(x))                    /* a bug: handled without a response; respond anyway */
        lm_exchange_refuse(x, 500, "the request has no response");
    c->due = 0;
    if (x->begun)
        add_part(x, &c->out);
    else
        add_head(x, &c->out);
    return c->out.failed ? LM_CLOSE : LM_GO;
}
