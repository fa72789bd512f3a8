/* jsontext.c - bytes to JSON strings. */
#include "base/jsontext.h"

#include "base/utf8.h"

json_t *lm_json_text(const char *text, size_t n)
{
    json_t *out   = json_stringn(text ? text : "", text ? n : 0);
    lm_buf  clean = { 0 };

    if (out || !text)
        return out;
    lm_utf8_repair(&clean, text, n);
    out = clean.failed ? NULL : json_stringn(clean.data, clean.size);
    lm_buf_free(&clean);
    return out;
}
