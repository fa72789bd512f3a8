/* call.h - a request and its route: what the request contains, and answers in the route's dialect.
 *
 * Order: routes, the call, its model and key, then answers. Ownership and threads: a call belongs to the
 * thread that handles it, and ends with lm_call_handle; what the answer needs later is a job of the
 * exchange. */
#ifndef LM_SERVER_CALL_H
#define LM_SERVER_CALL_H

#include "server/ask/fields.h"
#include "server/front/http.h"
#include "server/models/models.h"

/* NATIVE: llama.cpp's. */
typedef enum lm_dialect {
    LM_DIALECT_OPENAI, LM_DIALECT_NATIVE, LM_DIALECT_ANTHROPIC, LM_DIALECT_OLLAMA,
} lm_dialect;

enum {
    LM_ROUTE_OPEN    = 1,            /* no key is required */
    LM_ROUTE_QUICK   = 2,            /* LM_LANE_FRONT */
    LM_ROUTE_LOADING = 4,            /* also answered while the model loads and while the server drains */
    LM_ROUTE_ALL     = 8,            /* concerns all models, or none: no model needs to be in memory */
    LM_ROUTE_ASKS    = 16,           /* concerns one model, which the handler requests itself:
                                        lm_call_model */
    LM_ROUTE_LIST    = 32,           /* the body is an array: the value of the only field */
    LM_ROUTE_LONG    = 64,           /* LM_LANE_LONG */
    LM_ROUTE_TRACES  = 128,          /* LM_LANE_TRACES */
};

struct lm_call;

typedef struct lm_route {
    const char *method, *path;       /* "{id}" matches any one part of the path */
    const char *also;                /* other paths, separated by spaces; NULL: none */
    unsigned    flags;
    lm_dialect  dialect;
    const char *summary;
    const lm_field_group *groups;    /* fields of the body; NULL: no body is read */
    size_t      values_size;
    void      (*defaults)(const lm_service *s, void *values);        /* NULL: all zero */
    lm_status (*handle)(struct lm_call *c, lm_error *e);
    const char *query;               /* parameters of the query, separated by ", ": others are rejected;
                                        NULL: any are accepted */
} lm_route;

enum { LM_PATH_ID = 256 };               /* bytes of a name or id in a path, with its end */

typedef struct lm_call {
    lm_models      *models;
    lm_service     *service;         /* of the requested model; for routes of the whole server, of the
                                        first */
    lm_exchange    *x;
    const lm_route *route;
    const char     *key;             /* the key that the client sent; NULL: none */
    struct lm_keys *keys;            /* the server's */
    double          retry;           /* seconds after which a retry can succeed, for the header of an
                                        error; 0: the default */
    json_t         *body;            /* valid as long as the call */
    void           *values;          /* of the route's fields; NULL: none, or an object that outlives the
                                        call has taken them */
    void          (*release)(void *values);          /* free what the values own, not the values; NULL:
                                                        they own nothing */
    json_t         *warnings;        /* array of strings */
    lm_text         wide;            /* numbers of the body from 2^63 on, as the client wrote them:
                                        lm_text_add_wide_numbers */
    char            id[LM_PATH_ID];  /* the part of the path that "{id}" or "{model}" matched */
    bool            uses;            /* the call keeps its model in memory, until its end */
    bool            later;           /* the request will be handled again: it must not be answered now */
    struct lm_heap_watch *heap;      /* memory that the call allocates, counted for the exchange */
    unsigned        status;          /* HTTP status of the call's error (lm_fault); 0: derived from the
                                        error code */
} lm_call;

/* Return route i, in the order of matching; NULL past the end. */
const lm_route *lm_route_at(size_t i);

/* Return all routes as an OpenAPI 3.1 document, generated from their descriptors. `prefix`, of n bytes: of
 * every path; 0 bytes: none. NULL: out of memory. */
json_t *lm_routes_document(const char *prefix, size_t n_prefix);

/* The functions of lm_http_options; its `arg` is an lm_models. */
lm_http_lane lm_call_lane(void *models, const char *method, const char *path);
bool lm_call_handle(void *models, lm_exchange *x);
void lm_call_refuse(void *models, lm_exchange *x, unsigned status, const char *why);

/* Find the requested model, by the field or the query parameter `model`, and set the call's `service`. Called
 * before the handler, except for LM_ROUTE_ALL and LM_ROUTE_LOADING. */
lm_status lm_call_find(lm_call *c, lm_error *e);

/* Return the key that applies: NULL if none is required, even if the client sent one. Write the owner of the
 * call (lm_archive_owner). */
const char *lm_call_key(const lm_call *c);
void        lm_call_owner(const lm_call *c, char out[33]);

/* The owner of a call's tokens, and where they are counted; may outlive the call. `cached` of the `prompt`
 * tokens were in the cache. */
typedef struct lm_account {
    struct lm_archive *archive;
    struct lm_keys    *keys;
    const lm_service  *service;
    char               owner[33];
} lm_account;
void        lm_call_account(const lm_call *c, lm_account *out);
void        lm_account_charge(const lm_account *a, uint64_t prompt, uint64_t cached, uint64_t generated);

/* Return the priority of a request for the schedule, which admits higher numbers first. `wanted` is the
 * client's, where lower numbers are first (LM_PRIORITY_NONE: not given). If it is before the priority of the
 * key, the latter is used, with a warning. */
int32_t     lm_call_priority(const lm_call *c, int32_t wanted);

/* Bring the model into memory, until the end of the call. If this does not return LM_OK, the handler must
 * return the same status. */
lm_status lm_call_model(lm_call *c, lm_error *e);

/* ---- answers ---- */

/* Answer with a whole JSON document; takes `document` (NULL: out of memory). Non-empty warnings are added to
 * it if it is an object. */
lm_status lm_answer_document(lm_exchange *x, json_t *document, json_t *warnings, lm_error *e);
lm_status lm_answer_json(lm_call *c, json_t *document, lm_error *e);
void      lm_answer_text(lm_exchange *x, unsigned status, const char *type, const char *text);

/* Answer with an error in the dialect. `status` 0: derived from the error code. `retry`: seconds for
 * Retry-After, which 429 and 503 have; 0: 2 seconds. */
void lm_answer_fault(lm_exchange *x, lm_dialect d, unsigned status, double retry, const lm_error *e);

/* Return the same error as a JSON object, for events of streams. */
json_t *lm_fault_json(lm_dialect d, unsigned status, const lm_error *e);

/* Whether the error is that the deadline of a request has passed: 503 if nothing was generated. */
bool lm_fault_is_late(const lm_error *e);

/* Make an error about `field` one about `sent`, the name in the request; other errors are unchanged. Returns
 * `status`. */
lm_status lm_fault_rename(lm_status status, const char *field, const char *sent, lm_error *e);

/* Raise an error with an HTTP status: LM_USAGE below 500, otherwise LM_FAILED. */
lm_status lm_fault(lm_call *c, lm_error *e, unsigned status, const char *where, const char *format,
                   ...) LM_PRINTF(5, 6);

#endif
