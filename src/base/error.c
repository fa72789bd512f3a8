/* error.c - filling and printing errors. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *lm_status_word(lm_status s)
{
    static const char *const words[LM_STATUS_COUNT] = {
#define X(name, exit_code, word) [name] = word,
        LM_STATUS_LIST(X)
#undef X
    };
    return (unsigned)s < LM_STATUS_COUNT ? words[s] : "unknown";
}

int lm_status_exit(lm_status s)
{
    static const int codes[LM_STATUS_COUNT] = {
#define X(name, exit_code, word) [name] = exit_code,
        LM_STATUS_LIST(X)
#undef X
    };
    return (unsigned)s < LM_STATUS_COUNT ? codes[s] : 1;
}

/* Append `s` to out[at…size), control characters as \xHH, whole UTF-8 sequences as they are. Returns the new end. */
static size_t add_escaped(char *out, size_t at, size_t size, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c >= 0x20 && c != 0x7f) {
            if (at + 1 < size)
                out[at++] = (char)c;
        } else if (at + 4 < size) {
            at += (size_t)snprintf(out + at, size - at, "\\x%02x", c);
        }
    }
    out[at] = '\0';
    return at;
}

/* A cut in the middle of a UTF-8 sequence would leave broken bytes: drop its beginning too. */
static void trim_partial(char *s)
{
    size_t n = strlen(s), i = n;

    while (i > 0 && n - i < 4 && ((unsigned char)s[i - 1] & 0xc0) == 0x80)
        i--;
    if (i == 0)
        return;
    unsigned char lead = (unsigned char)s[i - 1];
    size_t        need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (n - i + 1 < need)
        s[i - 1] = '\0';
}

static void copy_escaped(char *out, size_t size, const char *s)
{
    add_escaped(out, 0, size, s);
    trim_partial(out);
}

lm_status lm_fail(lm_error *e, lm_status code, const char *where, int64_t offset, const char *format, ...)
{
    char    text[sizeof e->message];
    va_list args;

    if (!e)
        return code;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    e->code    = code;
    e->offset  = offset;
    e->file[0] = e->hint[0] = '\0';
    copy_escaped(e->where, sizeof e->where, where ? where : "");
    copy_escaped(e->message, sizeof e->message, text);
    return code;
}

lm_status lm_fail_in(lm_error *e, const char *file)
{
    if (!e)
        return LM_FAILED;
    if (!e->file[0] && file)
        copy_escaped(e->file, sizeof e->file, file);
    return e->code;
}

lm_status lm_fail_hint(lm_error *e, const char *format, ...)
{
    char    text[sizeof e->hint];
    va_list args;

    if (!e)
        return LM_FAILED;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    copy_escaped(e->hint, sizeof e->hint, text);
    return e->code;
}

lm_status lm_fail_memory(lm_error *e, const char *what, uint64_t bytes)
{
    if (bytes)
        return lm_fail(e, LM_NO_MEMORY, what, LM_NO_OFFSET, "out of memory (%llu bytes)", (unsigned long long)bytes);
    return lm_fail(e, LM_NO_MEMORY, what, LM_NO_OFFSET, "out of memory");
}

char *lm_error_text(const lm_error *e, char *out, uint64_t size)
{
    char   tail[48] = "";
    size_t at       = 0;

    if (!size)
        return out;
    out[0] = '\0';
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
