/* sha1.c - 80 rounds per block of 64 bytes. */
#include "hub/sha1.h"

#include <stdio.h>
#include <string.h>

void lm_sha1_begin(lm_sha1 *s)
{
    *s = (lm_sha1){ .h = { 0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0 } };
}

static uint32_t turn(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static void block(lm_sha1 *s)
{
    uint32_t w[80], a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)s->block[4 * i] << 24 | (uint32_t)s->block[4 * i + 1] << 16 |
               (uint32_t)s->block[4 * i + 2] << 8 | s->block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? (b & c) | (~b & d)
                     : i < 40 ? b ^ c ^ d
                     : i < 60 ? (b & c) | (b & d) | (c & d)
                              : b ^ c ^ d;
        uint32_t k = i < 20 ? 0x5A827999 : i < 40 ? 0x6ED9EBA1 : i < 60 ? 0x8F1BBCDC : 0xCA62C1D6;
        uint32_t t = turn(a, 5) + f + e + k + w[i];
        e = d;
        d = c;
        c = turn(b, 30);
        b = a;
        a = t;
    }
    s->h[0] += a;
    s->h[1] += b;
    s->h[2] += c;
    s->h[3] += d;
    s->h[4] += e;
}

void lm_sha1_add(lm_sha1 *s, const void *data, size_t n)
{
    const uint8_t *p = data;

    while (n) {
        size_t at = s->size % 64, take = 64 - at < n ? 64 - at : n;
        memcpy(s->block + at, p, take);
        s->size += take;
        p += take;
        n -= take;
        if (s->size % 64 == 0)
            block(s);
    }
}

void lm_sha1_end(lm_sha1 *s, char hex[41])
{
    uint64_t bits = s->size * 8;
    uint8_t  tail[8];

    lm_sha1_add(s, "\x80", 1);
    while (s->size % 64 != 56)
        lm_sha1_add(s, "", 1);
    for (int i = 0; i < 8; i++)
        tail[i] = (uint8_t)(bits >> (56 - 8 * i));
    lm_sha1_add(s, tail, 8);
    for (int i = 0; i < 5; i++)
        snprintf(hex + 8 * i, 9, "%08x", s->h[i]);
}
