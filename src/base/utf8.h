/* utf8.h - read and repair UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF). */
#ifndef LM_BASE_UTF8_H
#define LM_BASE_UTF8_H

#include "base/str.h"

typedef enum lm_utf8_state {
    LM_UTF8_GOOD,        /* a whole character */
    LM_UTF8_BAD,         /* a maximal ill-formed subpart (Unicode 3.9, WHATWG): one U+FFFD replaces it */
    LM_UTF8_CUT,         /* the text ends inside what may still become a character */
} lm_utf8_state;

typedef struct lm_utf8 {
    uint32_t      cp;    /* U+FFFD unless good */
    uint8_t       size;  /* bytes it takes, at least 1 */
    lm_utf8_state state;
} lm_utf8;

/* Decode the bytes at `s`; n >= 1 are left. */
lm_utf8 lm_utf8_next(const char *s, size_t n);

/* Decode the first character of valid text; *size: its bytes. */
static inline uint32_t lm_utf8_decode(const char *s, size_t *size)
{
    const unsigned char *p = (const unsigned char *)s;

    if (p[0] < 0x80) {
        *size = 1;
        return p[0];
    }
    if (p[0] < 0xE0) {
        *size = 2;
        return (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    }
    if (p[0] < 0xF0) {
        *size = 3;
        return (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    }
    *size = 4;
    return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 | (uint32_t)(p[2] & 0x3F) << 6 |
           (p[3] & 0x3F);
}

/* Decode the last character of valid, non-empty text. */
uint32_t lm_utf8_last(const char *s, size_t n, size_t *size);

/* Write 1 to 4 bytes, and return how many. */
size_t lm_utf8_encode(uint32_t cp, char out[4]);

/* Return the number of bytes before the first invalid UTF-8; n if all are valid. */
size_t lm_utf8_valid_prefix(const char *s, size_t n);
static inline bool lm_utf8_is_valid(lm_view v) { return lm_utf8_valid_prefix(v.data, v.size) == v.size; }

#define LM_REPLACEMENT "\xEF\xBF\xBD"

#endif
