/* Checks of a request as it arrives: its head, and the size of its body. */
#include "server/front/http_exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct header_check { unsigned hosts, lengths, chunked; const char *wrong; } header_check;

static enum MHD_Result check_header(void *arg, enum MHD_ValueKind kind, const char *name, size_t n_name,
                                    const char *value, size_t n_value)
{
    header_check *c = arg;

    (void)kind;
    /* "Content-Length : 5" is a header of another name to one server, and a length to another: RFC 9112,
     * 5.1 */
    if (!n_name || strcspn(name, " \t()<>@,;:\\\"/[]?={}") != n_name)
        c->wrong = "a header has a name that is empty or contains a blank or a separator";
    if (strlen(name) != n_name || (value && strlen(value) != n_value))
        c->wrong = "a header contains a NUL byte";
    if (strcasecmp(name, "Host") == 0)
        c->hosts++;
    if (strcasecmp(name, "Content-Length") == 0)
        c->lengths++;
    if (strcasecmp(name, "Transfer-Encoding") == 0)
        c->chunked++;
    return MHD_YES;
}

unsigned lm_exchange_check_head(lm_exchange *x, const char *version, const char **why)
{
    header_check c = { 0 };
    const char *coding = lm_exchange_header(x, "Transfer-Encoding");

    MHD_get_connection_values_n(x->mhd, MHD_HEADER_KIND, check_header, &c);
    *why = c.wrong;
    if (!c.wrong && c.lengths + c.chunked > 1)
        *why = "the length of the body is given twice";
    else if (!c.wrong && c.chunked && strcmp(version, MHD_HTTP_VERSION_1_0) == 0)
        *why = "a request in HTTP/1.0 cannot have a Transfer-Encoding";
    else if (!c.wrong && c.hosts != 1 && strcmp(version, MHD_HTTP_VERSION_1_1) == 0)
        *why = "a request must have exactly one Host header";
    if (*why)
        return 400;
    if (coding && strcasecmp(coding, "chunked") != 0) {
        *why = "the only supported Transfer-Encoding is chunked";
        return 501;
    }
    return 0;
}

unsigned lm_exchange_check_memory(lm_exchange *x, char why[200])
{
    const char *length = lm_exchange_header(x, "Content-Length");
    uint64_t bytes = length ? strtoull(length, NULL, 10) : 0;

    if (length && (strlen(length) > 15 || bytes > x->http->o.body_limit)) {
        snprintf(why, 200, "the body has %.40s bytes; at most %zu are allowed", length,
                 x->http->o.body_limit);
        return 413;
    }
    if (!bytes || lm_exchange_charge(x, bytes)) {
        lm_exchange_adjust(x, -(int64_t)bytes);          /* counted as it arrives */
        return 0;
    }
    return lm_exchange_no_memory(x, bytes, why);
}

unsigned lm_exchange_add_to_body(lm_exchange *x, const char *data, size_t n, char why[200])
{
    uint64_t before = x->body.capacity, more;

    if (x->body.size + n > x->http->o.body_limit) {
        snprintf(why, 200, "the body has more than %zu bytes, the maximum", x->http->o.body_limit);
        return 413;
    }
    lm_text_add(&x->body, data, n);
    more = x->body.capacity - before;
    if (!more || lm_exchange_charge(x, more)) {
        x->body_held += more;
        return 0;
    }
    lm_text_free(&x->body);
    return lm_exchange_no_memory(x, more, why);
}
