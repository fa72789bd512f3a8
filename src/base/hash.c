/* hash.c - SHA-256 and BLAKE2b by libsodium. */
#include "base/hash.h"

#include <sodium.h>

static lm_sha256 hex_of(const unsigned char digest[crypto_hash_sha256_BYTES])
{
    lm_sha256 out;

    sodium_bin2hex(out.hex, sizeof out.hex, digest, crypto_hash_sha256_BYTES);
    return out;
}

lm_sha256 lm_sha256_bytes(const void *data, size_t n)
{
    unsigned char digest[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(digest, data, n);
    return hex_of(digest);
}

void lm_blake2b_begin(lm_blake2b *h)
{
    crypto_generichash_blake2b_init(h, NULL, 0, LM_BLAKE2B_BYTES);
}

void lm_blake2b_add(lm_blake2b *h, const void *data, size_t n)
{
    if (n)
        crypto_generichash_blake2b_update(h, data, n);
}

void lm_blake2b_end(lm_blake2b *h, uint8_t out[LM_BLAKE2B_BYTES])
{
    crypto_generichash_blake2b_final(h, out, LM_BLAKE2B_BYTES);
}

void lm_blake2b_hex(lm_blake2b *h, char out[2 * LM_BLAKE2B_BYTES + 1])
{
    uint8_t digest[LM_BLAKE2B_BYTES];

    lm_blake2b_end(h, digest);
    sodium_bin2hex(out, 2 * LM_BLAKE2B_BYTES + 1, digest, sizeof digest);
}
