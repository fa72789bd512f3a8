/* hash.h - SHA-256 and BLAKE2b (libsodium) of bytes. */
#ifndef LM_BASE_HASH_H
#define LM_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include <sodium/crypto_generichash_blake2b.h>

/* 64 lower-case hexadecimal digits and a NUL. */
typedef struct lm_sha256 { char hex[65]; } lm_sha256;

lm_sha256 lm_sha256_bytes(const void *data, size_t n);

/* BLAKE2b of 256 bits (RFC 7693), in pieces. */
#define LM_BLAKE2B_BYTES 32
typedef crypto_generichash_blake2b_state lm_blake2b;

void lm_blake2b_begin(lm_blake2b *h);
void lm_blake2b_add(lm_blake2b *h, const void *data, size_t n);
void lm_blake2b_end(lm_blake2b *h, uint8_t out[LM_BLAKE2B_BYTES]);
/* also ends it; lower-case digits and a NUL */
void lm_blake2b_hex(lm_blake2b *h, char out[2 * LM_BLAKE2B_BYTES + 1]);

#endif
