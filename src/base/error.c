/* error.c - fill and print errors. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"

const char *lm_status_word(lm_status s)
{
    static const char *const words[LM_STATUS_COUNT] = {
#define X(name, word) [name] = word,
        LM_STATUS_LIST(X)
#undef X
    };
    return (unsigned)s < LM_STATUS_COUNT ? words[s] : "unknown";
}

/* ---- escaping ---- */

/* Return whether a character is a control, a line or paragraph separator, or changes the direction of
 * writing: with these a name could end its line, or be displayed as another name. */
static bool is_unprintable(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

/* Append `text` to out[at..size): unprintable characters and bytes that are not UTF-8 as \xHH, everything
 * else as it is, never a part of either. Returns the new end. */
static size_t add_escaped(char *out, size_t at, size_t size, const char *text)
{
    const unsigned char *s    = (const unsigned char *)text;
    size_t               left = strlen(text);

    while (left) {
        lm_utf8 c      = lm_utf8_next((const char *)s, left);
        bool    good   = c.state == LM_UTF8_GOOD, escape = !good || is_unprintable(c.cp);
        size_t  n      = good ? c.size : 1;
        if (at + (escape ? 4 * n : n) >= size)
            break;
        for (size_t i = 0; escape && i < n; i++)
            snprintf(out + at + 4 * i, 5, "\\x%02x", s[i]);
        if (!escape)
            memcpy(out + at, s, n);
        at += escape ? 4 * n : n;
        s += n;
        left -= n;
    }
    out[at] = '\0';
    return at;
}

void lm_escape(char *out, size_t size, const char *text)
{
    if (!out || !size)
        return;
    if (out && size)
        add_escaped(out, 0, size, text ? text : "");
}

/* The last status that this thread raised: lm_fail_in and lm_fail_hint return it to callers that pass no
 * error to write to. */
static _Thread_local lm_status raised = LM_FAILED;

lm_status lm_error_set(lm_error *e, lm_status code, const char *where, int64_t offset, const char *message)
{
    raised = code;
    if (!e)
        return code;
    e->code    = code;
    e->offset  = offset;
    e->file[0] = e->hint[0] = '\0';
    lm_escape(e->where, sizeof e->where, where ? where : "");
    lm_escape(e->message, sizeof e->message, message ? message : "");
    return code;
}

lm_status lm_fail(lm_error *e, lm_status code, const char *where, int64_t offset, const char *format, ...)
{
    char    text[sizeof e->message];
    va_list args;

    if (!e || !format)
        return lm_error_set(e, code, where, offset, NULL);
    va_start(args, format);
    lm_vprint(text, sizeof text, format, args);
    va_end(args);
    return lm_error_set(e, code, where, offset, text);
}

lm_status lm_fail_in(lm_error *e, const char *file)
{
    if (!e)
        return raised;
    if (!e->file[0] && file)
        lm_escape(e->file, sizeof e->file, file);
    return e->code;
}

lm_status lm_fail_hint(lm_error *e, const char *format, ...)
{
    char    text[sizeof e->hint];
    va_list args;

    if (!e || !format)
        return raised;
    va_start(args, format);
    lm_vprint(text, sizeof text, format, args);
    va_end(args);
    lm_escape(e->hint, sizeof e->hint, text);
    return e->code;
}

lm_status lm_fail_errno(lm_error *e, const char *path, const char *what)
{
    /* the same message wherever a path is missing */
    if (errno == ENOENT && strcmp(what, "cannot be opened") == 0)
        lm_fail(e, LM_NOT_FOUND, NULL, LM_NO_OFFSET, "no such file or folder");
    else
        lm_fail(e, errno == ENOENT ? LM_NOT_FOUND : LM_IO, NULL, LM_NO_OFFSET, "%s: %s", what,
                strerror(errno));
    return lm_fail_in(e, path);
}

lm_status lm_fail_memory(lm_error *e, const char *what, uint64_t bytes)
{
    if (bytes)
        return lm_fail(e, LM_NO_MEMORY, what, LM_NO_OFFSET, "out of memory (%llu bytes)",
                       (unsigned long long)bytes);
    return lm_fail(e, LM_NO_MEMORY, what, LM_NO_OFFSET, "out of memory");
}

lm_status lm_fail_null(lm_error *e, const char *function)
{
    return lm_fail(e, LM_USAGE, function, LM_NO_OFFSET, "an argument is NULL that must not be");
}

lm_status lm_fail_reserved(lm_error *e, const char *function)
{
    return lm_fail(e, LM_USAGE, function, LM_NO_OFFSET,
                   "reserved words of the options are not zero; options begin all zero");
}

bool lm_any_reserved(const uint64_t *words, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        if (words[i])
            return true;
    return false;
}

char *lm_error_text(const lm_error *e, char *out, size_t size)
{
    if (!out || !size)
        return out;
    char   tail[48] = "";
    size_t at       = 0;

    if (!size)
        return out;
    out[0] = '\0';
    if (!e)
        return out;
    if (e->where[0]) {
        at = add_escaped(out, at, size, e->where);
        at = add_escaped(out, at, size, ": ");
    }
    if (e->file[0]) {
        at = add_escaped(out, at, size, e->file);
        at = add_escaped(out, at, size, ": ");
    }
    at = add_escaped(out, at, size, e->message);
    if (e->offset != LM_NO_OFFSET)
        snprintf(tail, sizeof tail, " (offset %lld)", (long long)e->offset);
    add_escaped(out, at, size, tail);
    return out;
}
