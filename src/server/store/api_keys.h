/* api_keys.h - access and limits: API keys as hashes, and what each has used of its limits. The file of keys
 * can be read again while the server runs.
 *
 * Threads: any, except lm_keys_new and _free. */
#ifndef LM_SERVER_API_KEYS_H
#define LM_SERVER_API_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "lamina/error.h"

/* Limits per minute, which refill evenly, and per day in UTC; 0: no limit. Tokens are those of prompts and
 * outputs. */
typedef struct lm_quota { uint64_t requests_minute, tokens_minute, tokens_day; } lm_quota;

/* Requests with lower numbers are admitted first. The default is the key's, or 0. */
#define LM_PRIORITY_NONE INT32_MIN
#define LM_MAX_PRIORITY 1000000000

typedef struct lm_keys_options {
    const char *const *keys;         /* NULL-ended; NULL: none */
    /* A key per line, then its own limits and priority ("requests=60 tokens=20000 tokens_day=1000000
     * priority=-1"); # begins a comment. Of a key that occurs several times, also in `keys`, the last line
     * applies. NULL: none. */
    const char *file;
    lm_quota    limits;              /* defaults of a key; without keys, limits of all clients together */
} lm_keys_options;

typedef struct lm_keys lm_keys;

/* Read all keys. What the options point to must outlive the lm_keys. LM_NOT_FOUND, LM_IO, LM_USAGE: the
 * file. */
lm_status lm_keys_new(const lm_keys_options *o, lm_keys **out, lm_error *e);
void      lm_keys_free(lm_keys *k);

/* Read the file again; what each key has used is kept. On failure nothing changes. *n: number of keys. */
lm_status lm_keys_reload(lm_keys *k, size_t *n, lm_error *e);

/* Whether a key is required at all, and whether `key` (NULL: none was sent) is accepted, in constant time. */
bool      lm_keys_required(const lm_keys *k);
bool      lm_keys_admit(lm_keys *k, const char *key);

/* Write the owner of a request: lm_archive_owner of its key, or "" if none is required. */
void      lm_keys_owner(const lm_keys *k, const char *key, char out[33]);

/* Return the priority of a request for `wanted` (LM_PRIORITY_NONE: that of the key). If keys are required, it
 * is never before the key's. */
int32_t   lm_keys_priority(lm_keys *k, const char *key, int32_t wanted);

/* Count one more request. False: a limit is reached; *why names it, and *seconds is the time until a retry
 * can succeed. `used` is called for today's tokens if they are not known here, once per day and key. */
bool      lm_keys_take(lm_keys *k, const char *key, uint64_t (*used)(void *arg, const char *owner), void *arg,
                       double *seconds, const char **why);

/* Count tokens that a request of this owner has used. */
void      lm_keys_charge(lm_keys *k, const char *owner, uint64_t tokens);

#endif
