/* senders.c - the host names by which a server may be addressed, and the web pages that may use it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "server/ask/sender.h"

static const char *const no_list[] = { NULL };
static const char *const names[]   = { "llm.example.com", "other.example:8443", NULL };
static const char *const pages[]   = { "https://app.example", "localhost", NULL };
static const char *const any[]     = { "*", NULL };
static const char *const null_too[] = { "null", NULL };

static void hosts(void **state)
{
    static const struct { const char *host; bool alone, listed; } rows[] = {
        { "localhost", true, true },           { "LocalHost:8080", true, true },  { "127.0.0.1", true, true },
        { "127.0.0.1:1", true, true },         { "[::1]:8080", true, true },      { NULL, true, true },
        { "llm.example.com", false, true },    { "LLM.example.com:443", false, true },
        { "other.example:8443", false, true }, { "other.example", false, false }, { "other.example:8444", false, false },
        { "evil.example", false, false },      { "evil://localhost", false, false },
        { "localhost.evil.example", false, false }, { "localhost/", false, false }, { "localhost:8080/x", false, false },
        { "x@localhost", false, false },       { "localhost:", false, false },    { "localhost:99999", false, false },
        { "[::1", false, false },              { "[::1]x", false, false },        { "localhost#", false, false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lm_sender s = { .host = rows[i].host, .method = "GET", .hosts = no_list };
        if (lm_sender_host_allowed(&s) != rows[i].alone)
            fail_msg("%s alone", rows[i].host);
        s.hosts = names;
        if (lm_sender_host_allowed(&s) != rows[i].listed)
            fail_msg("%s with a list", rows[i].host);
        s.any_host = true;
        assert_true(lm_sender_host_allowed(&s));
    }
}

static void origins(void **state)
{
    static const struct {
        const char *host, *origin, *site, *mode, *method;
        bool tls;
        const char *const *list;
        bool allowed;
    } rows[] = {
        /* not sent by a page */
        { "localhost:8080", NULL, NULL, NULL, "POST", false, no_list, true },
        { "localhost:8080", NULL, "none", "navigate", "GET", false, no_list, true },
        /* the server's own page */
        { "localhost:8080", "http://localhost:8080", NULL, NULL, "POST", false, no_list, true },
        { "LOCALHOST:8080", "http://localhost:8080", "same-origin", "cors", "POST", false, no_list, true },
        { "localhost", "http://localhost:80", NULL, NULL, "POST", false, no_list, true },
        { "llm.example", "https://llm.example", NULL, NULL, "POST", true, no_list, true },
        { "llm.example", "https://llm.example", "same-origin", "cors", "POST", false, no_list,
          true },     /* behind a TLS proxy */
        /* another port, scheme, name */
        { "127.0.0.1:8080", "http://127.0.0.1:9", NULL, NULL, "POST", false, no_list, false },
        { "127.0.0.1:8080", "http://127.0.0.1", NULL, NULL, "POST", false, no_list, false },
        { "localhost:8080", "https://localhost:8080", NULL, NULL, "POST", false, no_list, false },
        { "localhost:8080", "http://localhost:8080.evil.example", NULL, NULL, "POST", false, no_list, false },
        { "localhost:8080", "http://localhost:8080@evil.example", NULL, NULL, "POST", false, no_list, false },
        { "localhost:8080", "http://evil.example", NULL, NULL, "POST", false, no_list, false },
        { "localhost:8080", "localhost:8080", NULL, NULL, "POST", false, no_list, false },
        /* opaque origins */
        { "localhost:8080", "null", NULL, NULL, "POST", false, no_list, false },
        { "localhost:8080", "null", "cross-site", "no-cors", "POST", false, no_list, false },
        { "localhost:8080", "null", NULL, NULL, "POST", false, null_too, true },
        { "localhost:8080", "null", NULL, NULL, "POST", false, any, true },
        /* an image, a script or a form of another page; a link that is followed */
        { "localhost:8080", NULL, "cross-site", "no-cors", "GET", false, no_list, false },
        { "localhost:8080", NULL, "same-site", "no-cors", "GET", false, no_list, false },
        { "localhost:8080", NULL, "cross-site", "navigate", "POST", false, no_list, false },
        { "localhost:8080", NULL, "cross-site", "navigate", "GET", false, no_list, true },
        /* listed */
        { "localhost:8080", "https://app.example", "cross-site", "cors", "POST", false, pages, true },
        { "localhost:8080", "https://APP.example:443", "cross-site", "cors", "POST", false, pages, true },
        { "localhost:8080", "http://app.example", NULL, NULL, "POST", false, pages, false },
        { "localhost:8080", "http://localhost:3000", NULL, NULL, "POST", false, pages, true },
        { "localhost:8080", "http://[::1]:3000", NULL, NULL, "POST", false, pages, true },
        { "localhost:8080", "http://localhost.evil.example", NULL, NULL, "POST", false, pages, false },
        { "localhost:8080", "http://evil.example", "cross-site", "cors", "POST", false, any, true },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lm_sender s = { .host = rows[i].host,
                        .origin = rows[i].origin,
                        .site = rows[i].site,
                        .mode = rows[i].mode,
                        .method = rows[i].method,
                        .tls = rows[i].tls,
                        .origins = rows[i].list };
        if (lm_sender_page_allowed(&s) != rows[i].allowed)
            fail_msg("row %zu: Host %s, Origin %s, site %s", i, rows[i].host, rows[i].origin, rows[i].site);
    }
    printf("count: senders %zu\n", sizeof rows / sizeof *rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(hosts), cmocka_unit_test(origins) };

    return cmocka_run_group_tests_name("senders", tests, NULL, NULL);
}
