/* bytelevel.c - the byte alphabet, computed by its rule. */
#include "text/bytelevel.h"

#include "base/utf8.h"

/* Bytes that are not represented by themselves: 0x00-0x20, 0x7F-0xA0, 0xAD. */
enum { LOW = 0x21, MIDDLE = 0xA1 - 0x7F, MOVED = LOW + MIDDLE + 1 };

uint32_t lm_bytelevel_char(uint8_t byte)
{
    if (byte < 0x21)
        return 0x100u + byte;
    if (byte >= 0x7F && byte <= 0xA0)
        return 0x100u + LOW + (byte - 0x7Fu);
    if (byte == 0xAD)
        return 0x100u + LOW + MIDDLE;
    return byte;
}

int lm_bytelevel_byte(uint32_t cp)
{
    if (cp >= 0x100) {
        uint32_t i = cp - 0x100;
        return i < LOW ? (int)i : i < LOW + MIDDLE ? (int)(i - LOW + 0x7F) : i < MOVED ? 0xAD : -1;
    }
    return lm_bytelevel_char((uint8_t)cp) == cp ? (int)cp : -1;
}

void lm_bytelevel_spell(lm_text *out, const char *s, size_t n)
{
    char spelled[4];

    for (size_t i = 0; i < n; i++)
        lm_text_add(out, spelled, lm_utf8_encode(lm_bytelevel_char((uint8_t)s[i]), spelled));
}

void lm_bytelevel_read(lm_text *out, const char *s, size_t n)
{
    size_t size = 0, start = out->size;

    for (size_t at = 0; at < n; at += size) {
        int byte = lm_bytelevel_byte(lm_utf8_decode(s + at, &size));
        if (byte < 0) {
            out->size = start;
            lm_text_add(out, s, n);
            return;
        }
        lm_text_add_char(out, (char)byte);
    }
}
