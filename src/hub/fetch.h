/* fetch.h - requests to a hub with libcurl, which is loaded on first use. */
#ifndef LM_HUB_FETCH_H
#define LM_HUB_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "lamina/buffer.h"
#include "lamina/error.h"

typedef struct hub_net {
    char endpoint[512];              /* "https://huggingface.co", without a trailing slash */
    char token[512];                 /* "": none; only sent to the origin of the endpoint */
    void (*notice)(const char *line); /* prints a notice for a waiting user */
    bool (*stop)(void);              /* called periodically; true: LM_CANCELLED */
    _Atomic bool given_up;           /* like `stop`, set by one of several threads that share this */
} hub_net;

bool hub_stopped(const hub_net *n);

/* Read the endpoint and the token from the environment: HF_ENDPOINT; HF_TOKEN, HUGGING_FACE_HUB_TOKEN, the
 * file HF_TOKEN_PATH, $HF_HOME/token, ~/.cache/huggingface/token. LM_USAGE: the endpoint is not an http
 * address. */
lm_status hub_net_read(hub_net *n, lm_error *e);

typedef struct hub_answer {
    long    status;
    int64_t from, total;             /* of Content-Range; -1: not present */
    char    next[2048];              /* Link: rel="next" */
} hub_answer;

/* Receive bytes of a 200 or 206 response, whose headers are in `a`. Returning false ends the request with
 * LM_IO. */
typedef bool hub_sink(void *arg, const hub_answer *a, const void *data, size_t n);

/* Send a GET request and follow at most ten redirects, none from https to http. The token is only sent to the
 * scheme, host and port of the endpoint. `from` > 0: request the rest of a file. Temporary errors (status
 * 408, 429 and 5xx, and connections that fail before the first byte) are retried up to 5 attempts in total; a
 * Retry-After of up to 300 s is respected. Every other status has its own message. LM_UNSUPPORTED: this
 * build, or this machine, has no libcurl. */
lm_status hub_get(hub_net *n, const char *url, int64_t from, hub_sink *sink, void *arg, hub_answer *a,
                  lm_error *e);

/* Get bytes [from, to] of a file, which must be `size` bytes long: with status 206, or with 200 if the whole
 * file is requested. LM_IO: the server does not support ranges, or has another file. */
lm_status hub_get_part(hub_net *n, const char *url, uint64_t from, uint64_t to, uint64_t size, void *out,
                       lm_error *e);

/* Get a small document of at most `max` bytes. */
lm_status hub_get_text(hub_net *n, const char *url, size_t max, lm_text *out, hub_answer *a, lm_error *e);

/* Return whether two URLs have the same scheme, host and port. */
bool hub_same_origin(const char *a, const char *b);

#endif
