/* serve.h - the server as one thing: models behind their front. */
#ifndef LM_SERVER_SERVE_H
#define LM_SERVER_SERVE_H

#include "server/ask/duration.h"
#include "server/front/http.h"
#include "server/store/api_keys.h"
#include "server/models/models.h"

typedef struct lm_server lm_server;

typedef struct lm_server_options {
    lm_http_options    http;             /* its functions are the server's */
    lm_models_options  models;
    lm_keys_options    keys;
    const char        *store;        /* file of the archive; NULL: in memory */
    bool sandbox;                                    /* keep the rights of sandbox.h only, with these paths */
    const char *const *reads, *const *writes, *const *sockets;
} lm_server_options;

/* Listening, and answering that the model loads. LM_USAGE: an address that others can reach, and neither a key nor `insecure`. */
lm_status   lm_server_start(const lm_server_options *o, bool insecure, lm_server **out, lm_error *e);
/* What of the sandbox could not be had; "": nothing, or it was not asked for. */
const char *lm_server_unrestricted(void);

const char *lm_server_url(const lm_server *s, size_t i);

/* The file of keys is read again. On failure they stay as they are. *n: keys that there are. */
lm_status   lm_server_reload(lm_server *s, size_t *n, lm_error *e);

/* Requests are answered from then on; the model, if there is one alone, is in memory. */
lm_status   lm_server_load(lm_server *s, lm_error *e);

/* No more requests: what comes is answered 503 with Retry-After until those that run have ended, which have so many seconds; then no more
 * connections. True: all have ended. */
bool        lm_server_drain(lm_server *s, double seconds);
void        lm_server_free(lm_server *s);

/* What clients have used, out of the file of a store, whether a server has it open or not: [{day, key, model, requests, input_tokens,
 * cached_tokens, output_tokens}], the latest day first. `key` NULL: all. Of keys it holds hashes. The file is only read. */
lm_status   lm_server_usage(const char *store, const char *key, json_t **out, lm_error *e);

/* What clients may ask, an OpenAPI 3.1 document, appended to `out`. */
lm_status   lm_server_describe(lm_text *out, lm_error *e);

#endif
