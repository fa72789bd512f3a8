/* jsontext.c - read and print JSON with untrusted bytes. */
#include "base/jsontext.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_exact.h"
#include "base/number.h"
#include "base/utf8.h"

json_t *lm_json_text(const char *text, size_t n)
{
    json_t *out   = json_stringn(text ? text : "", text ? n : 0);
    lm_text  clean = { 0 };

    if (out || !text)
        return out;
    lm_text_add_utf8(&clean, text, n);
    out = clean.failed ? NULL : json_stringn(clean.data, clean.size);
    lm_text_free(&clean);
    return out;
}

json_t *lm_json_rounded(double x, int digits)
{
    char text[40];

    if (!isfinite(x))
        return json_null();
    lm_print(text, sizeof text, "%.*g", digits, x);
    return text[strspn(text, "-0123456789")] ? json_real(lm_read_double(text, NULL))
                                             : json_integer(strtoll(text, NULL, 10));
}

json_t *lm_json_float(double x)
{
    return json_real(lm_decimal((float)x));
}

json_t *lm_json_read(const char *text, size_t n, size_t flags, json_error_t *why)
{
    json_t  *out    = json_loadb(text, n, flags, why);
    lm_text  mended = { 0 };

    if (out)
        return out;
    lm_text_add_mended_json(&mended, text, n);
    if (!mended.failed && mended.data)
        out = json_loadb(mended.data, mended.size, flags, why);
    lm_text_free(&mended);
    return out;
}

static int append(const char *piece, size_t n, void *buffer)
{
    lm_text_add(buffer, piece, n);
    return 0;
}

bool lm_json_print(const json_t *document, size_t flags, lm_text *out)
{
    return json_dump_callback(document, append, out, flags) == 0 && !out->failed;
}

bool lm_json_print_exact(const json_t *document, size_t flags, lm_text *out)
{
    for (int digits = 15; digits <= 17; digits++) {
        lm_text text = { 0 };
        bool    good = lm_json_print(document, flags | JSON_REAL_PRECISION(digits), &text);
        json_t *read = good && digits < 17 ? json_loadb(text.data, text.size, JSON_DECODE_ANY, NULL) : NULL;
        bool    last = !good || digits == 17 || json_equal(read, document);
        if (good && last)
            lm_text_add(out, text.data, text.size);
        json_decref(read);
        lm_text_free(&text);
        if (last)
            return good && !out->failed;
    }
    return false;
}

void lm_text_add_json(lm_text *t, const char *data, size_t n)
{
    if (!t || (!data && n))
        return;
    json_t *string = lm_json_text(data ? data : "", n);

    if (!string || !lm_json_print(string, JSON_ENCODE_ANY, t))
        t->failed = true;
    json_decref(string);
}
