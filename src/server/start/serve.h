/* serve.h - the whole server: models behind the HTTP front. The caller owns it; what its options point to
 * must outlive it. Threads: one at a time. */
#ifndef LM_SERVER_SERVE_H
#define LM_SERVER_SERVE_H

#include "server/ask/duration.h"
#include "server/front/http.h"
#include "server/store/api_keys.h"
#include "server/models/models.h"

typedef struct lm_server lm_server;

typedef struct lm_server_options {
    lm_http_options    http;             /* the server sets its functions */
    lm_models_options  models;
    lm_keys_options    keys;
    const char        *store;        /* file of the archive; NULL: in memory */
    bool sandbox;                                    /* keep only the rights of sandbox.h, with these paths */
    const char *const *reads, *const *writes, *const *sockets;
} lm_server_options;

/* Start to listen; until lm_server_load, requests get the answer that the model is loading. LM_USAGE: an
 * address can be reached from other machines, and there is neither a key nor `insecure`. */
lm_status   lm_server_start(const lm_server_options *o, bool insecure, lm_server **out, lm_error *e);
/* Return what is missing of the sandbox; "": nothing, or it was not requested. */
const char *lm_server_unrestricted(void);

const char *lm_server_url(const lm_server *s, size_t i);

/* Read the file of keys again. On failure the keys are unchanged. *n: number of keys. */
lm_status   lm_server_reload(lm_server *s, size_t *n, lm_error *e);

/* Load a single model; several are loaded on request. Requests are answered from then on. */
lm_status   lm_server_load(lm_server *s, lm_error *e);

/* Accept no more requests: new ones get 503 with Retry-After until the running ones have ended, for which
 * they have `seconds`; then accept no more connections. True: all have ended. */
bool        lm_server_drain(lm_server *s, double seconds);
void        lm_server_free(lm_server *s);

/* Return what clients have used, from the file of a store, which a server may have open: [{day, key, model,
 * requests, input_tokens, cached_tokens, output_tokens}], the latest day first. `key` NULL: all. Keys are
 * returned as hashes. The file is only read. */
lm_status   lm_server_usage(const char *store, const char *key, json_t **out, lm_error *e);

/* Return the page for browsers, one HTML document. Constant. */
const char *lm_server_page(size_t *size);

/* Append an OpenAPI 3.1 document of all routes to `out`. `prefix`: of every path, NULL: none. */
lm_status   lm_server_describe(const char *prefix, lm_text *out, lm_error *e);

#endif
