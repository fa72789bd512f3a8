/* hash.h - SHA-256 (libsodium) of bytes. */
#ifndef LM_BASE_HASH_H
#define LM_BASE_HASH_H

#include <stddef.h>

/* 64 lower-case hexadecimal digits and a NUL. */
typedef struct lm_sha256 { char hex[65]; } lm_sha256;

lm_sha256 lm_sha256_bytes(const void *data, size_t n);

#endif
