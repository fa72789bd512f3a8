/* api_keys.h - who may ask, and how much: API keys as hashes, and what each has used of its limits. Keys of a file can be read again while
 * the server runs.
 *
 * Threads: any, but for lm_keys_new and _free. */
#ifndef LM_SERVER_API_KEYS_H
#define LM_SERVER_API_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "lamina/error.h"

/* 0: no limit. Of a minute in a row, of a day in UTC; tokens are those of prompts and texts. */
typedef struct lm_quota { uint64_t requests_minute, tokens_minute, tokens_day; } lm_quota;

/* Requests with lower numbers are admitted first. The default is the key's, or 0. */
#define LM_PRIORITY_NONE INT32_MIN
#define LM_MOST_PRIORITY 1000000000

typedef struct lm_keys_options {
    const char *const *keys;         /* NULL-ended; NULL: none */
    const char *file;                /* a key a line, behind it what is its own ("requests=60 tokens=20000 tokens_day=1000000 priority=-1");
                                        # begins a comment. NULL: none */
    lm_quota limits;                /* of a key whose line says nothing; where there are no keys, of all clients together */
} lm_keys_options;

typedef struct lm_keys lm_keys;

/* What the options point to must outlive it. LM_IO, LM_USAGE: the file. */
lm_status lm_keys_new(const lm_keys_options *o, lm_keys **out, lm_error *e);
void      lm_keys_free(lm_keys *k);

/* Read the file again; what each key has used stays. On failure all is as before. *n: keys that there are. */
lm_status lm_keys_reload(lm_keys *k, size_t *n, lm_error *e);

/* Whether a key is required at all, and whether `key` (NULL: none was given) opens the door, in constant time. */
bool      lm_keys_required(const lm_keys *k);
bool      lm_keys_admit(lm_keys *k, const char *key);

/* Whose a request is: lm_archive_owner of its key, "" where none is asked for. */
void      lm_keys_owner(const lm_keys *k, const char *key, char out[33]);

/* The priority of a request that asks for `wanted`: where a key is required, never before its key's. */
int32_t   lm_keys_priority(lm_keys *k, const char *key, int32_t wanted);

/* One request more. False: a limit is reached, *why says which, and *seconds when to come back. `used` is called for tokens of today that
 * are not known here, once a day and key. */
bool      lm_keys_take(lm_keys *k, const char *key, uint64_t (*used)(void *arg, const char *owner), void *arg, double *seconds,
                       const char **why);

/* Tokens that a request of this owner has used. */
void      lm_keys_charge(lm_keys *k, const char *owner, uint64_t tokens);

#endif
