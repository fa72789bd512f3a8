/* fetch.h - requests to a hub, by libcurl, which is loaded when the first is made. */
#ifndef LM_HUB_FETCH_H
#define LM_HUB_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "lamina/buffer.h"
#include "lamina/error.h"

typedef struct hub_net {
    char endpoint[512];              /* "https://huggingface.co", without a slash at its end */
    char token[512];                 /* "": none; sent to the endpoint's origin alone */
    void (*notice)(const char *line); /* a notice for a user who waits */
    bool (*stop)(void);              /* asked now and then; true: LM_CANCELLED */
    _Atomic bool given_up;           /* the same, said by one of several threads that use it */
} hub_net;

bool hub_stopped(const hub_net *n);

/* The endpoint and the token that the environment names: HF_ENDPOINT; HF_TOKEN, HUGGING_FACE_HUB_TOKEN, the file HF_TOKEN_PATH,
 * $HF_HOME/token,
 * ~/.cache/huggingface/token. LM_USAGE: an endpoint that is no http address. */
lm_status hub_net_read(hub_net *n, lm_error *e);

typedef struct hub_answer {
    long    status;
    int64_t from, total;             /* of Content-Range; -1: not said */
    char    next[2048];              /* Link: rel="next" */
} hub_answer;

/* Bytes of a 200 or 206; the answer is known by then. False ends it with LM_IO. */
typedef bool hub_sink(void *arg, const hub_answer *a, const void *data, size_t n);

/* GET, through redirects: ten at most, none from https to http, the token only to the endpoint's scheme, host and port. `from` > 0: the
 * rest of a file.
 * Statuses that mend themselves (408, 429 with Retry-After, 5xx) and lost connections are tried again, five times without a byte. Every
 * other status
 * has a sentence of its own. LM_UNSUPPORTED: this program, or this machine, has no libcurl. */
lm_status hub_get(hub_net *n, const char *url, int64_t from, hub_sink *sink, void *arg, hub_answer *a, lm_error *e);

/* Bytes [from, to] of a file, which must be `size` bytes long: 206, or 200 of a file that is no longer than that. LM_IO: the server has no
 * ranges, or another file. */
lm_status hub_get_part(hub_net *n, const char *url, uint64_t from, uint64_t to, uint64_t size, void *out, lm_error *e);

/* A small document, at most `most` bytes. */
lm_status hub_get_text(hub_net *n, const char *url, size_t most, lm_text *out, hub_answer *a, lm_error *e);

/* Whether two addresses have one scheme, host and port. */
bool hub_same_origin(const char *a, const char *b);

#endif
