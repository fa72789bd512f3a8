/* digest.c - verify bytes against the hash listed by a hub: SHA-256, or git's SHA-1 of a blob. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hub/pull.h"
#include "hub/sha1.h"

enum { PIECE = 1 << 20 };

typedef struct digest {
    crypto_hash_sha256_state sha256;
    lm_sha1                  sha1;
    bool                     git;
} digest;

static void begin(digest *d, bool git, unsigned long long size)
{
    char head[40];

    d->git = git;
    crypto_hash_sha256_init(&d->sha256);
    lm_sha1_begin(&d->sha1);
    lm_sha1_add(&d->sha1, head, (size_t)snprintf(head, sizeof head, "blob %llu", size) + 1);
}

static void add(digest *d, const unsigned char *data, size_t n)
{
    if (d->git)
        lm_sha1_add(&d->sha1, data, n);
    else
        crypto_hash_sha256_update(&d->sha256, data, n);
}

static void end(digest *d, char hex[65])
{
    unsigned char bytes[crypto_hash_sha256_BYTES];

    if (d->git) {
        lm_sha1_end(&d->sha1, hex);
        return;
    }
    crypto_hash_sha256_final(&d->sha256, bytes);
    sodium_bin2hex(hex, 65, bytes, sizeof bytes);
}

lm_status hub_check_hash(int fd, const char *name, const char *hash, bool (*stop)(void), bool *same,
                         lm_error *e)
{
    struct stat    st;
    digest         d;
    char           hex[65] = "";
    unsigned char *piece   = malloc(PIECE);
    lm_status      status  = piece ? LM_OK : lm_fail(e, LM_NO_MEMORY, name, LM_NO_OFFSET, "a buffer");
    ssize_t        k       = 1;

    if (status == LM_OK && fstat(fd, &st) != 0)
        status = lm_fail_errno(e, name, "cannot be read");
    if (status == LM_OK)
        begin(&d, strlen(hash) == 40, (unsigned long long)st.st_size);
    for (off_t at = 0; status == LM_OK && k; at += k > 0 ? k : 0) {
        k = pread(fd, piece, PIECE, at);
        if (k < 0 && errno != EINTR)
            status = lm_fail_errno(e, name, "cannot be read");
        else if (stop && stop())
            status = lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
        else if (k > 0)
            add(&d, piece, (size_t)k);
    }
    if (status == LM_OK) {
        end(&d, hex);
        *same = strcmp(hex, hash) == 0;
    }
    free(piece);
    return status;
}
