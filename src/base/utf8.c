/* utf8.c - a table-free decoder; the rest is built on it. */
#include "base/utf8.h"

#include <string.h>

lm_utf8 lm_utf8_next(const char *s, size_t n)
{
    const unsigned char *p   = (const unsigned char *)s;
    unsigned len = p[0] < 0x80   ? 1
                   : p[0] < 0xC2 ? 0
                   : p[0] < 0xE0 ? 2
                   : p[0] < 0xF0 ? 3
                   : p[0] < 0xF5 ? 4
                                 : 0;
    unsigned char        low = 0x80, high = 0xBF;    /* bounds of the second byte */

    if (len == 0)
        return (lm_utf8){ 0xFFFD, 1, LM_UTF8_BAD };
    if (p[0] == 0xE0)
        low = 0xA0;     /* overlong */
    if (p[0] == 0xED)
        high = 0x9F;    /* surrogates */
    if (p[0] == 0xF0)
        low = 0x90;     /* overlong */
    if (p[0] == 0xF4)
        high = 0x8F;    /* above U+10FFFF */
    for (unsigned i = 1; i < len; i++, low = 0x80, high = 0xBF) {
        if (i == n)
            return (lm_utf8){ 0xFFFD, (uint8_t)i, LM_UTF8_CUT };
        if (p[i] < low || p[i] > high)
            return (lm_utf8){ 0xFFFD, (uint8_t)i, LM_UTF8_BAD };
    }
    size_t size;
    return (lm_utf8){ lm_utf8_decode(s, &size), (uint8_t)len, LM_UTF8_GOOD };
}

uint32_t lm_utf8_last(const char *s, size_t n, size_t *size)
{
    size_t at = n - 1;

    while (at > 0 && ((unsigned char)s[at] & 0xC0) == 0x80)
        at--;
    return lm_utf8_decode(s + at, size);
}

size_t lm_utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

size_t lm_utf8_valid_prefix(const char *s, size_t n)
{
    size_t at = 0;

    while (at < n) {
        uint64_t eight;

        if (n - at >= sizeof eight &&
            (memcpy(&eight, s + at, sizeof eight), !(eight & UINT64_C(0x8080808080808080)))) {
            at += sizeof eight;
            continue;
        }
        lm_utf8 c = lm_utf8_next(s + at, n - at);
        if (c.state != LM_UTF8_GOOD)
            break;
        at += c.size;
    }
    return at;
}

void lm_text_add_utf8(lm_text *t, const char *data, size_t n)
{
    if (!t || (!data && n))
        return;
    for (size_t at = 0; at < n;) {
        size_t good = lm_utf8_valid_prefix(data + at, n - at);

        lm_text_add(t, data + at, good);
        at += good;
        if (at < n) {
            lm_text_add_str(t, LM_REPLACEMENT);
            at += lm_utf8_next(data + at, n - at).size;
        }
    }
}
