/* jsontext.c - bytes to JSON strings. */
#include "base/jsontext.h"

#include "base/str.h"

/* Bytes of the UTF-8 character at `s`, or 0. Jansson judges the finer points: surrogates, overlong forms. */
static size_t character(const char *s, size_t n)
{
    unsigned char c = (unsigned char)*s;
    size_t length = c < 0x80 ? 1 : c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 0;
    json_t *one = length && length <= n ? json_stringn(s, length) : NULL;

    json_decref(one);
    return one ? length : 0;
}

json_t *lm_json_text(const char *text, size_t n)
{
    json_t *out = json_stringn(text ? text : "", text ? n : 0);
    lm_buf clean = { 0 };

    if (out || !text)
        return out;
    for (size_t i = 0; i < n;) {
        size_t length = character(text + i, n - i);
        lm_buf_add(&clean, length ? text + i : "\xEF\xBF\xBD", length ? length : 3);
        i += length ? length : 1;
    }
    out = clean.failed ? NULL : json_stringn(clean.data, clean.size);
    lm_buf_free(&clean);
    return out;
}
