/* http_head.c - http_head.h: lines end in CR LF, a field is "name: value" on one line, and the length of the
 * body is given once, in one way. */
#include "server/front/http_head.h"

#include <string.h>
#include <strings.h>

#include "server/front/memory.h"

size_t lm_head_size(const char *text, size_t n, size_t seen)
{
    for (size_t i = seen > 3 ? seen - 3 : 0; i < n; i++) {
        const char *at = memchr(text + i, '\n', n - i);
        if (!at)
            return 0;
        i = (size_t)(at - text);
        /* A line that ends in LF alone is an error; its end counts, so that the error is found. */
        if (i + 1 < n && at[1] == '\n')
            return i + 2;
        if (i + 2 < n && at[1] == '\r' && at[2] == '\n')
            return i + 3;
    }
    return 0;
}

/* ---- characters ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_token(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token_text(const char *s)
{
    if (!*s)
        return false;
    while (is_token(*s))
        s++;
    return !*s;
}

static int hex(char c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode in place. %00 becomes U+0001: a NUL would end the string early, and what follows it would be
 * ignored. */
static void decode(char *s, bool plus)
{
    char *to = s;

    for (; *s; s++) {
        int high = *s == '%' ? hex(s[1]) : -1, low = high >= 0 ? hex(s[2]) : -1;
        if (low >= 0) {
            *to++ = (char)(high * 16 + low ? high * 16 + low : 1);
            s += 2;
        } else {
            *to++ = *s == '+' && plus ? ' ' : *s;
        }
    }
    *to = 0;
}

/* ---- the first line ---- */

/* Return the path of a request target, which may be absolute: http://host/path (RFC 9112, 3.2.2). */
static char *path_of(char *target)
{
    char *at = strncasecmp(target, "http://", 7) == 0    ? target + 7
               : strncasecmp(target, "https://", 8) == 0 ? target + 8
                                                         : NULL;

    if (!at)
        return target;
    at += strcspn(at, "/?");
    return at;
}

/* Split the query at "&" and "=". */
static bool read_query(lm_http_head *h, char *at)
{
    size_t n = 1;

    for (const char *c = at; *c; c++)
        n += *c == '&';
    if (!*at)
        return true;
    if (!(h->query = lm_memory_zero(n, sizeof *h->query)))
        return false;
    for (char *next; at; at = next) {
        if ((next = strchr(at, '&')))
            *next++ = 0;
        char *value = strchr(at, '=');
        if (value)
            *value++ = 0;
        decode(at, true);
        if (value)
            decode(value, true);
        if (*at)
            h->query[h->n_query++] = (lm_head_pair){ at, value ? value : "" };
    }
    return true;
}

static unsigned read_first(lm_http_head *h, char *line, const char **why)
{
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;

    *why = "the first line must be METHOD TARGET HTTP/1.1";
    if (!version)
        return 400;
    *target++ = 0;
    *version++ = 0;
    if (!is_token_text(line) || !*target || strpbrk(target, "\t#") || strncmp(version, "HTTP/", 5) ||
        !is_digit(version[5]) || version[6] != '.' || !is_digit(version[7]) || version[8])
        return 400;
    h->method = line;
    char *path = path_of(target), *query = strchr(path, '?');
    if (query)
        *query++ = 0;
    if (query && !read_query(h, query)) {
        *why = "out of memory";
        return 503;
    }
    decode(path, false);
    h->path = *path ? path : "/";
    if (version[5] != '1') {
        *why = "the version of HTTP must be 1.0 or 1.1";
        return 505;
    }
    h->old = version[7] == '0';
    return 0;
}

/* ---- fields ---- */

static unsigned read_field(lm_http_head *h, char *line, const char **why)
{
    char *colon = strchr(line, ':'), *end = line + strlen(line);

    if (*line == ' ' || *line == '\t') {
        *why = "a header line begins with a blank: folded lines are not accepted";
        return 400;
    }
    if (h->n_fields == LM_HEAD_FIELDS) {
        *why = "the request has more than 128 headers";
        return 431;
    }
    if (colon)
        *colon++ = 0;
    if (!colon || !is_token_text(line)) {
        *why = "a header has a name that is empty or contains a blank or a separator";
        return 400;
    }
    colon += strspn(colon, " \t");
    while (end > colon && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = 0;
    h->fields[h->n_fields++] = (lm_head_pair){ line, colon };
    return 0;
}

const char *lm_head_field(const lm_http_head *h, const char *name)
{
    for (size_t i = 0; i < h->n_fields; i++)
        if (strcasecmp(h->fields[i].name, name) == 0)
            return h->fields[i].value;
    return NULL;
}

static size_t count(const lm_http_head *h, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < h->n_fields; i++)
        n += strcasecmp(h->fields[i].name, name) == 0;
    return n;
}

/* Whether a list of words, in any of the fields with this name, has the word. */
static bool lists(const lm_http_head *h, const char *name, const char *word)
{
    size_t size = strlen(word);

    for (size_t i = 0; i < h->n_fields; i++) {
        const char *at = h->fields[i].value;
        if (strcasecmp(h->fields[i].name, name))
            continue;
        while (*at) {
            size_t n = strcspn(at, ", \t");
            if (n == size && strncasecmp(at, word, n) == 0)
                return true;
            at += n + strspn(at + n, ", \t");
        }
    }
    return false;
}

static unsigned read_length(lm_http_head *h, const char *text, const char **why)
{
    if (!*text || text[strspn(text, "0123456789")]) {
        *why = "Content-Length must be a number of bytes";
        return 400;
    }
    text += strspn(text, "0");
    for (h->length = 0; *text && h->length < UINT64_MAX / 100; text++)
        h->length = 10 * h->length + (uint64_t)(*text - '0');
    if (*text)
        h->length = UINT64_MAX;
    return 0;
}

/* How long the body is, and whether the head is whole. */
static unsigned read_framing(lm_http_head *h, const char **why)
{
    const char *length = lm_head_field(h, "Content-Length"), *coding = lm_head_field(h, "Transfer-Encoding");

    h->closes = h->old ? !lists(h, "Connection", "keep-alive") : lists(h, "Connection", "close");
    h->expects = !h->old && lists(h, "Expect", "100-continue");
    h->chunked = coding != NULL;
    *why = count(h, "Content-Length") + count(h, "Transfer-Encoding") > 1
               ? "the length of the body is given twice"
           : coding && h->old ? "a request in HTTP/1.0 cannot have a Transfer-Encoding"
           : count(h, "Host") != 1 && (!h->old || count(h, "Host"))
               ? "a request must have exactly one Host header"
               : NULL;
    if (*why)
        return 400;
    if (coding && strcasecmp(coding, "chunked") != 0) {
        *why = "the only supported Transfer-Encoding is chunked";
        return 501;
    }
    return length ? read_length(h, length, why) : 0;
}

/* Read the next line and end it with a NUL; NULL: it has a character that no line may have. */
static char *next_line(char **at, const char *end)
{
    char *line = *at, *feed = memchr(line, '\n', (size_t)(end - line));

    if (!feed || feed == line || feed[-1] != '\r')
        return NULL;
    *at = feed + 1;
    feed[-1] = 0;
    for (const char *c = line; c < feed - 1; c++)
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
            return NULL;
    return line;
}

unsigned lm_head_read(const char *text, size_t n, lm_http_head *out, const char **why)
{
    char *at = lm_memory_text(text, n), *line;
    unsigned status = 0;
    bool first = true;

    *out = (lm_http_head){ .method = "", .path = "", .closes = true, .text = at };
    *why = "out of memory";
    if (!at || !(out->fields = lm_memory_zero(LM_HEAD_FIELDS, sizeof *out->fields)))
        return 503;
    for (const char *end = at + n; !status && at < end; first = false) {
        if (!(line = next_line(&at, end))) {
            *why = "the head of the request has a control character, or a line that does not end in CR LF";
            return 400;
        }
        if (*line || first)
            status = first ? read_first(out, line, why) : read_field(out, line, why);
    }
    return status ? status : read_framing(out, why);
}

void lm_head_free(lm_http_head *h)
{
    lm_heap_free(h->fields);
    lm_heap_free(h->query);
    lm_heap_free(h->text);
    *h = (lm_http_head){ 0 };
}
