/* hash.c - SHA-256 by libsodium. */
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
