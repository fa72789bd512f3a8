/* fetch.c - HTTP requests with redirects and retries. */
#include "hub/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { REDIRECTS = 10, TRIES = 5, LONGEST_WAIT = 300 };

bool hub_stopped(const hub_net *n)
{
    return n->given_up || (n->stop && n->stop());
}

/* ---- URLs ---- */

static size_t origin_size(const char *url)
{
    const char *host = strstr(url, "://");

    return host ? (size_t)(host - url) + 3 + strcspn(host + 3, "/?#") : 0;
}

/* Normalise an origin: "https://HOST:443" becomes "https://host". */
static void origin_of(const char *url, char out[600])
{
    size_t      n    = origin_size(url);
    const char *port = NULL;

    snprintf(out, 600, "%.*s", (int)(n < 599 ? n : 599), url);
    for (char *c = out; *c; c++)
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
    port = strncmp(out, "https://", 8) == 0 ? ":443" : ":80";
    n    = strlen(out);
    if (n > strlen(port) && strcmp(out + n - strlen(port), port) == 0)
        out[n - strlen(port)] = '\0';
}

bool hub_same_origin(const char *a, const char *b)
{
    char x[600], y[600];

    origin_of(a, x);
    origin_of(b, y);
    return *x && strcmp(x, y) == 0;
}

/* Return a URL without its query, which may contain a signature. */
static const char *shown(const char *url, char out[256])
{
    snprintf(out, 256, "%.*s", (int)strcspn(url, "?#"), url);
    return out;
}

static void read_token_file(const char *folder, const char *name, char out[512])
{
    char  path[1024];
    FILE *f;

    snprintf(path, sizeof path, "%s%s", folder, name);
    if ((f = fopen(path, "r"))) {
        out[fread(out, 1, 511, f)] = '\0';
        fclose(f);
    }
}

lm_status hub_net_read(hub_net *n, lm_error *e)
{
    static const char *const names[] = { "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN" };
    const char *endpoint = getenv("HF_ENDPOINT"), *v;

    endpoint = endpoint && *endpoint ? endpoint : "https://huggingface.co";
    snprintf(n->endpoint, sizeof n->endpoint, "%s", endpoint);
    for (size_t k = strlen(n->endpoint); k && n->endpoint[k - 1] == '/'; k--)
        n->endpoint[k - 1] = '\0';
    if ((strncmp(n->endpoint, "https://", 8) != 0 && strncmp(n->endpoint, "http://", 7) != 0) ||
        strpbrk(n->endpoint, " \t\r\n@"))
        return lm_fail(e, LM_USAGE, "HF_ENDPOINT", LM_NO_OFFSET,
                       "not an address that begins with https:// or http://");
    n->token[0] = '\0';
    for (int i = 0; i < 2 && !*n->token; i++)
        if ((v = getenv(names[i])))
            snprintf(n->token, sizeof n->token, "%s", v);
    if (!*n->token && (v = getenv("HF_TOKEN_PATH")))
        read_token_file(v, "", n->token);
    else if (!*n->token && (v = getenv("HF_HOME")))
        read_token_file(v, "/token", n->token);
    else if (!*n->token && (v = getenv("HOME")))
        read_token_file(v, "/.cache/huggingface/token", n->token);
    size_t skip = strspn(n->token, " \t\r\n");
    memmove(n->token, n->token + skip, strlen(n->token + skip) + 1);
    n->token[strcspn(n->token, " \t\r\n")] = '\0';
    return LM_OK;
}

#ifdef LM_WITHOUT_HUB

static lm_status get(hub_net *n, const char *url, int64_t from, int64_t to, hub_sink *sink, void *arg,
                     hub_answer *a, lm_error *e)
{
    (void)n, (void)url, (void)from, (void)to, (void)sink, (void)arg, (void)a;
    return lm_fail(e, LM_UNSUPPORTED, NULL, LM_NO_OFFSET,
                   "this program was built without libcurl, which fetches models");
}

#else

#include <curl/curl.h>
#include <dlfcn.h>

static struct {
    CURL              *(*init)(void);
    CURLcode           (*set)(CURL *, CURLoption, ...);
    CURLcode           (*perform)(CURL *);
    CURLcode           (*info)(CURL *, CURLINFO, ...);
    void               (*cleanup)(CURL *);
    struct curl_slist *(*append)(struct curl_slist *, const char *);
    void               (*free_list)(struct curl_slist *);
    const char        *(*text)(CURLcode);
    time_t             (*date)(const char *, const time_t *);
} lib;

/* Load libcurl from wherever the system has it, on first use only. */
static lm_status load(lm_error *e)
{
    static const struct { const char *name; void *at; } symbols[] = {
        { "curl_easy_init", &lib.init }, { "curl_easy_setopt", &lib.set }, { "curl_easy_perform", &lib.perform },
        { "curl_easy_getinfo", &lib.info }, { "curl_easy_cleanup", &lib.cleanup }, { "curl_slist_append", &lib.append },
        { "curl_slist_free_all", &lib.free_list }, { "curl_easy_strerror", &lib.text }, { "curl_getdate", &lib.date },
    };
    void *so;

    if (lib.date)
        return LM_OK;
    so = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    so = so ? so : dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; so && i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(so, symbols[i].name);
        memcpy(symbols[i].at, &found, sizeof found);
        if (!found)
            so = NULL;
    }
    return so ? LM_OK
              : lm_fail(e, LM_UNSUPPORTED, "libcurl.so.4", LM_NO_OFFSET,
                        "not on this machine; it fetches models");
}

typedef struct exchange {
    hub_net    *n;
    hub_sink   *sink;
    void       *arg;
    hub_answer *a;
    CURL       *curl;
    char        location[4096], code[64], message[512];
    double      wait;                /* Retry-After; < 0: not present */
    int64_t     to;                  /* last requested byte; -1: to the end */
    uint64_t    got;
    bool        refused;             /* rejected by the sink */
} exchange;

static const char *value_of(const char *line, const char *name, size_t *n)
{
    size_t k = strlen(name);

    if (*n < k + 1 || strncasecmp(line, name, k) != 0 || line[k] != ':')
        return NULL;
    const char *v = line + k + 1, *end = line + *n;
    while (v < end && (*v == ' ' || *v == '\t'))
        v++;
    while (end > v && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
        end--;
    *n = (size_t)(end - v);
    return v;
}

static void take(const char *line, size_t n, const char *name, char *out, size_t size)
{
    const char *v = value_of(line, name, &n);

    if (v)
        snprintf(out, size, "%.*s", (int)(n < size ? n : size - 1), v);
}

static void take_next(exchange *x, const char *link)
{
    const char *end = strchr(link, '>');

    if (link[0] == '<' && end && strstr(end, "rel=\"next\""))
        snprintf(x->a->next, sizeof x->a->next, "%.*s", (int)(end - link - 1), link + 1);
}

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    exchange *x = arg;
    char      text[4096] = "";

    n *= size;
    if (n > 5 && strncmp(line, "HTTP/", 5) == 0) {
        x->a->from = x->a->total = -1;
        x->a->next[0] = x->location[0] = x->code[0] = x->message[0] = '\0';
        x->wait = -1;
    }
    take(line, n, "Location", x->location, sizeof x->location);
    take(line, n, "X-Error-Code", x->code, sizeof x->code);
    take(line, n, "X-Error-Message", x->message, sizeof x->message);
    take(line, n, "Link", text, sizeof text);
    take_next(x, text);
    text[0] = '\0';
    take(line, n, "Content-Range", text, sizeof text);
    if (strncmp(text, "bytes ", 6) == 0 && strchr(text, '/')) {
        x->a->from  = strtoll(text + 6, NULL, 10);
        x->a->total = strtoll(strchr(text, '/') + 1, NULL, 10);
    }
    text[0] = '\0';
    take(line, n, "Retry-After", text, sizeof text);
    if (*text) {
        char  *rest;
        long   seconds = strtol(text, &rest, 10);
        time_t when    = *rest ? lib.date(text, NULL) : -1;
        x->wait        = *rest ? (when > 0 ? (double)(when - time(NULL)) : -1) : (double)seconds;
    }
    return n;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    exchange *x = arg;

    n *= size;
    lib.info(x->curl, CURLINFO_RESPONSE_CODE, &x->a->status);
    if (x->a->status != 200 && x->a->status != 206)
        return n;
    x->got += n;
    if (x->sink(x->arg, x->a, data, n))
        return n;
    x->refused = true;
    return 0;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    exchange *x = arg;

    (void)a, (void)b, (void)c, (void)d;
    return hub_stopped(x->n);
}

static long seconds_of(const char *variable, long otherwise)
{
    const char *v = getenv(variable);
    long        n = v ? strtol(v, NULL, 10) : 0;

    return n > 0 && n < 86400 ? n : otherwise;
}

/* Send one request without following redirects. */
static CURLcode ask(exchange *x, const char *url, int64_t from)
{
    char               text[640];
    struct curl_slist *list = lib.append(NULL, "Accept-Encoding: identity");
    const char        *certificates = getenv("SSL_CERT_FILE");

    certificates = certificates ? certificates : getenv("REQUESTS_CA_BUNDLE");
    if (*x->n->token && hub_same_origin(url, x->n->endpoint)) {
        snprintf(text, sizeof text, "Authorization: Bearer %s", x->n->token);
        list = lib.append(list, text);
    }
    lib.set(x->curl, CURLOPT_URL, url);
    lib.set(x->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    lib.set(x->curl, CURLOPT_USERAGENT, "lamina");
    lib.set(x->curl, CURLOPT_HTTPHEADER, list);
    lib.set(x->curl, CURLOPT_FOLLOWLOCATION, 0L);
    lib.set(x->curl, CURLOPT_NOSIGNAL, 1L);
    lib.set(x->curl, CURLOPT_CONNECTTIMEOUT, seconds_of("HF_HUB_ETAG_TIMEOUT", 10));
    lib.set(x->curl, CURLOPT_LOW_SPEED_LIMIT, 1024L);
    lib.set(x->curl, CURLOPT_LOW_SPEED_TIME, seconds_of("HF_HUB_DOWNLOAD_TIMEOUT", 30));
    lib.set(x->curl, CURLOPT_HEADERFUNCTION, on_header);
    lib.set(x->curl, CURLOPT_HEADERDATA, x);
    lib.set(x->curl, CURLOPT_WRITEFUNCTION, on_body);
    lib.set(x->curl, CURLOPT_WRITEDATA, x);
    lib.set(x->curl, CURLOPT_NOPROGRESS, 0L);
    lib.set(x->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    lib.set(x->curl, CURLOPT_XFERINFODATA, x);
    if (certificates)
        lib.set(x->curl, CURLOPT_CAINFO, certificates);
    snprintf(text, sizeof text, x->to < 0 ? "%lld-" : "%lld-%lld", (long long)from, (long long)x->to);
    lib.set(x->curl, CURLOPT_RANGE, from > 0 || x->to >= 0 ? text : NULL);
    x->a->status  = 0;
    CURLcode code = lib.perform(x->curl);
    lib.info(x->curl, CURLINFO_RESPONSE_CODE, &x->a->status);
    lib.set(x->curl, CURLOPT_HTTPHEADER, NULL);
    lib.free_list(list);
    return code;
}

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static lm_status follow(const exchange *x, const char *from, char url[4096], lm_error *e)
{
    char   old[4096], seen[256];
    size_t n = origin_size(from);

    snprintf(old, sizeof old, "%s", from);
    if (!*x->location)
        return lm_fail(e, LM_IO, shown(old, seen), LM_NO_OFFSET, "a redirect that leads nowhere");
    bool own = x->location[0] == '/' && x->location[1] != '/';
    if (snprintf(url, 4096, "%.*s%s", own ? (int)(n < 1024 ? n : 1024) : 0, old, x->location) >= 4096)
        return lm_fail(e, LM_IO, shown(old, seen), LM_NO_OFFSET, "redirected to an address that is too long");
    if (strncmp(url, "https://", 8) != 0 &&
        (strncmp(old, "https://", 8) == 0 || strncmp(url, "http://", 7) != 0))
        return lm_fail(e, LM_IO, shown(old, seen), LM_NO_OFFSET, "redirected to what is not https");
    return LM_OK;
}

static lm_status explain(const exchange *x, const char *url, lm_error *e)
{
    char        seen[256];
    const char *what = shown(url, seen);
    long        s    = x->a->status;

    if ((s == 401 || s == 403) && strcmp(x->code, "GatedRepo") == 0)
        return lm_fail(
            e, LM_IO, what, LM_NO_OFFSET, "%s",
            s == 401
                ? "status 401: a gated model; log in: set HF_TOKEN to a token of an account that has access"
                : "status 403: a gated model whose terms this account has not accepted");
    if (s == 401)
        return lm_fail(e, LM_IO, what, LM_NO_OFFSET, "status 401: no such model, or %s",
                       *x->n->token ? "the token is not valid for it" : "a private one: set HF_TOKEN");
    if (s == 403)
        return lm_fail(e, LM_IO, what, LM_NO_OFFSET, "status 403: access is denied%s%s",
                       *x->message ? ": " : "", x->message);
    if (s == 404)
        return lm_fail(e, LM_NOT_FOUND, what, LM_NO_OFFSET, "status 404: %s",
                       strcmp(x->code, "RevisionNotFound") == 0 ? "the model has no such revision"
                       : strcmp(x->code, "EntryNotFound") == 0  ? "the model has no such file"
                                                                : "there is no such model");
    if (s == 416)
        return lm_fail(e, LM_IO, what, LM_NO_OFFSET,
                       "status 416: the file is shorter than what is here already");
    if (s == 429)
        return lm_fail(e, LM_IO, what, LM_NO_OFFSET, "status 429: too many requests; try again later%s",
                       *x->n->token ? "" : ", or set HF_TOKEN");
    if (s >= 500)
        return lm_fail(e, LM_IO, what, LM_NO_OFFSET, "status %ld: the server fails", s);
    return lm_fail(e, LM_IO, what, LM_NO_OFFSET, "status %ld", s);
}

static lm_status pause_for(hub_net *n, double seconds, lm_error *e)
{
    for (double end = seconds; end > 0; end -= 0.05) {
        if (hub_stopped(n))
            return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
        nanosleep(&(struct timespec){ .tv_nsec = 50 * 1000 * 1000 }, NULL);
    }
    return LM_OK;
}

/* Follow redirects until another response arrives. */
static lm_status through(exchange *x, const char *first, int64_t from, char url[4096], CURLcode *code,
                         lm_error *e)
{
    char next[4096];

    snprintf(url, 4096, "%s", first);
    for (int hops = 0;; hops++) {
        *code = ask(x, url, from);
        if (*code != CURLE_OK || !is_redirect(x->a->status))
            return LM_OK;
        if (hops == REDIRECTS)
            return lm_fail(e, LM_IO, first, LM_NO_OFFSET, "more than %d redirects", REDIRECTS);
        LM_TRY(follow(x, url, next, e));
        snprintf(url, 4096, "%s", next);
    }
}

static lm_status get(hub_net *n, const char *url, int64_t from, int64_t to, hub_sink *sink, void *arg,
                     hub_answer *a, lm_error *e)
{
    exchange  x = { .n = n, .sink = sink, .arg = arg, .a = a, .to = to };
    char      last[4096], seen[256], line[200];
    lm_status status = LM_OK;

    LM_TRY(load(e));
    if (!(x.curl = lib.init()))
        return lm_fail(e, LM_NO_MEMORY, "libcurl", LM_NO_OFFSET, "cannot begin");
    for (int tries = 0; status == LM_OK; tries++) {
        CURLcode code;
        if ((status = through(&x, url, from, last, &code, e)) != LM_OK)
            break;
        if (code == CURLE_OK && (a->status == 200 || a->status == 206))
            break;
        bool again = code != CURLE_OK ? !x.refused && !x.got && code != CURLE_ABORTED_BY_CALLBACK
                                      : a->status == 408 || a->status == 429 || a->status >= 500;
        if (code == CURLE_ABORTED_BY_CALLBACK) {
            status = lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
        } else if (!again || tries + 1 == TRIES || x.wait > LONGEST_WAIT) {
            status = x.refused ? LM_IO            /* the sink has set the error */
                     : code != CURLE_OK
                         ? lm_fail(e, LM_IO, shown(last, seen), LM_NO_OFFSET, "%s", lib.text(code))
                         : explain(&x, last, e);
        } else {
            double wait = x.wait >= 0 && code == CURLE_OK ? x.wait : 0.25 * (double)(1 << tries);
            if (code == CURLE_OK && x.wait >= 1 && n->notice) {
                snprintf(line, sizeof line, "the server requests a pause of %ld s (status %ld)", (long)wait,
                         a->status);
                n->notice(line);
            }
            status = pause_for(n, wait, e);
        }
    }
    lib.cleanup(x.curl);
    return status;
}

#endif

lm_status hub_get(hub_net *n, const char *url, int64_t from, hub_sink *sink, void *arg, hub_answer *a,
                  lm_error *e)
{
    return get(n, url, from, -1, sink, arg, a, e);
}

typedef struct part { uint64_t from, want, got, size; uint8_t *out; const char *url; lm_error *e; } part;

static bool take_part(void *arg, const hub_answer *a, const void *data, size_t n)
{
    part *p = arg;
    char  seen[256];
    bool  whole = a->status == 200 && !p->from && p->want == p->size;

    bool other = a->status != 206 || (uint64_t)a->from != p->from ||
                 (a->total >= 0 && (uint64_t)a->total != p->size);

    if (!whole && other) {
        lm_fail(p->e, LM_IO, shown(p->url, seen), LM_NO_OFFSET,
                "the server sent a different part of the file than requested");
        return false;
    }
    if (n > p->want - p->got) {
        lm_fail(p->e, LM_IO, shown(p->url, seen), LM_NO_OFFSET, "the server sent more bytes than requested");
        return false;
    }
    memcpy(p->out + p->got, data, n);
    p->got += n;
    return true;
}

lm_status hub_get_part(hub_net *n, const char *url, uint64_t from, uint64_t to, uint64_t size, void *out,
                       lm_error *e)
{
    part       p = { from, to - from + 1, 0, size, out, url, e };
    hub_answer a = { 0 };
    char       seen[256];

    for (int tries = 0; tries < 3 && p.got < p.want; tries++) {
        p.got = 0;
        LM_TRY(get(n, url, (int64_t)from, (int64_t)to, take_part, &p, &a, e));
    }
    return p.got == p.want ? LM_OK
                           : lm_fail(e, LM_IO, shown(url, seen), LM_NO_OFFSET, "the connection ended early");
}

typedef struct whole { lm_text *out; size_t max; } whole;

static bool add(void *arg, const hub_answer *a, const void *data, size_t n)
{
    whole *w = arg;

    (void)a;
    if (w->out->size + n > w->max)
        return false;
    lm_text_add(w->out, data, n);
    return !w->out->failed;
}

lm_status hub_get_text(hub_net *n, const char *url, size_t max, lm_text *out, hub_answer *a, lm_error *e)
{
    whole  w = { out, max };
    size_t was = out->size;

    lm_status status = hub_get(n, url, 0, add, &w, a, e);
    if (status == LM_IO && out->size > was && e && e->code == LM_OK)
        return lm_fail(e, LM_LIMIT, url, LM_NO_OFFSET, "the answer is larger than %zu bytes", max);
    return status;
}
