/* sha1.h - SHA-1 (FIPS 180-4), by which git names blobs. */
#ifndef LM_HUB_SHA1_H
#define LM_HUB_SHA1_H

#include <stddef.h>
#include <stdint.h>

typedef struct lm_sha1 {
    uint32_t h[5];
    uint64_t size;
    uint8_t  block[64];
} lm_sha1;

void lm_sha1_begin(lm_sha1 *s);
void lm_sha1_add(lm_sha1 *s, const void *data, size_t n);
void lm_sha1_end(lm_sha1 *s, char hex[41]);

#endif
