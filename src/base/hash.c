/* hash.c - SHA-256 by libsodium. */
#include "base/hash.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/filemap.h"

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

lm_status lm_sha256_file(const char *path, lm_sha256 *out, lm_error *e)
{
    /* A pipe would be waited for. */
    if (!lm_path_is_file(path) && access(path, F_OK) == 0) {
        lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "is not a regular file");
        return lm_fail_in(e, path), LM_IO;
    }
    unsigned char            buffer[65536], digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    FILE                    *f = fopen(path, "rbe");
    size_t                   n;

    if (!f) {
        lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "%s", strerror(errno));
        return lm_fail_in(e, path), LM_IO;
    }
    crypto_hash_sha256_init(&state);
    while ((n = fread(buffer, 1, sizeof buffer, f)) > 0)
        crypto_hash_sha256_update(&state, buffer, n);
    int bad = ferror(f);
    fclose(f);
    if (bad) {
        lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "cannot be read");
        return lm_fail_in(e, path), LM_IO;
    }
    crypto_hash_sha256_final(&state, digest);
    *out = hex_of(digest);
    return LM_OK;
}
