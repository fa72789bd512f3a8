/* trace_html.c - a trace as one HTML document: the server's page, which shows the trace that it contains and
 * needs no server. */
#include <string.h>

#include "cli/measure/trace.h"

#ifdef LM_WITHOUT_SERVER

lm_status lm_trace_html(const lm_tracing *t, const char *path, lm_error *e)
{
    (void)t;
    return lm_fail(e, LM_UNSUPPORTED, "--output", LM_NO_OFFSET,
                   "%s: this build has no pages, because it has no server", path);
}

#else

#include "server/start/serve.h"

/* Append {"model", "trace"} as the contents of a script element: without "<", which could end it. In JSON,
 * "<" occurs only in strings. */
static lm_status add_document(const lm_tracing *t, lm_text *out, lm_error *e)
{
    lm_model_info info;
    lm_text       document = { 0 };

    lm_model_describe(t->model, &info);
    lm_text_add_str(&document, "{\"model\":");
    lm_text_add_json(&document, info.name, strlen(info.name));
    lm_text_add_str(&document, ",\"trace\":");
    lm_status status = lm_tracer_json(t->tracer, &document, e);
    lm_text_add_char(&document, '}');
    for (size_t at = 0; status == LM_OK && at < document.size;) {
        const char *mark = memchr(document.data + at, '<', document.size - at);
        size_t      n    = mark ? (size_t)(mark - document.data) - at : document.size - at;
        lm_text_add(out, document.data + at, n);
        if (mark)
            lm_text_add_str(out, "\\u003c");
        at += n + (mark != NULL);
    }
    if (document.failed)
        out->failed = true;
    lm_text_free(&document);
    return status;
}

/* Return the size of what precedes the end of the body. */
static size_t size_of_body(const char *page, size_t size)
{
    static const char end[] = "</body>";
    size_t            at = size;

    while (at && (size - at < sizeof end - 1 || memcmp(page + at, end, sizeof end - 1) != 0))
        at--;
    return at;
}

lm_status lm_trace_html(const lm_tracing *t, const char *path, lm_error *e)
{
    size_t      size;
    const char *page = lm_server_page(&size);
    size_t      body = size_of_body(page, size);
    lm_text     text = { 0 };

    lm_text_add(&text, page, body);
    lm_text_add_str(&text, "<script type=\"application/json\" id=\"trace\">");
    lm_status status = add_document(t, &text, e);
    lm_text_add_str(&text, "</script>");
    lm_text_add(&text, page + body, size - body);
    if (status == LM_OK)
        status = lm_text_save(&text, path, e);
    lm_text_free(&text);
    return status;
}

#endif
