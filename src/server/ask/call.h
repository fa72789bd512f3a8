/* call.h - a request that has found its route: what it says, and how it is answered in its route's dialect. */
#ifndef LM_SERVER_CALL_H
#define LM_SERVER_CALL_H

#include "server/ask/fields.h"
#include "server/front/http.h"
#include "server/models/models.h"

typedef enum lm_dialect { LM_DIALECT_OPENAI, LM_DIALECT_NATIVE /* llama.cpp's */, LM_DIALECT_ANTHROPIC, LM_DIALECT_OLLAMA } lm_dialect;

enum {
    LM_ROUTE_OPEN    = 1,            /* no key is required */
    LM_ROUTE_QUICK   = 2,            /* answered at once by the thread of the connections: waits for nothing */
    LM_ROUTE_LOADING = 4,            /* answers while the model loads and while the server drains, too */
    LM_ROUTE_ALL     = 8,            /* about all models, or none: none need be in memory */
    LM_ROUTE_ASKS    = 16,           /* of one model, but its handler asks for it itself: lm_call_model */
    LM_ROUTE_LIST    = 32,           /* the body is an array: the value of the only field */
};

struct lm_call;

typedef struct lm_route {
    const char *method, *path;       /* "{id}" as a part of the path matches any */
    const char *also;                /* other paths, space between; NULL: none */
    unsigned    flags;
    lm_dialect  dialect;
    const char *summary;
    const lm_field_group *groups;    /* of the body; NULL: it has none */
    size_t      values_size;
    void      (*defaults)(const lm_service *s, void *values);        /* NULL: all zero */
    lm_status (*handle)(struct lm_call *c, lm_error *e);
} lm_route;

typedef struct lm_call {
    lm_models      *models;
    lm_service     *service;         /* of the requested model; for routes of the whole server the first */
    lm_exchange    *x;
    const lm_route *route;
    const char     *key;             /* that was given; NULL: none */
    struct lm_keys *keys;            /* the server's */
    double          retry;           /* seconds until an error of it may be otherwise; 0: as always */
    json_t         *body;            /* as long as the call */
    void           *values;
    json_t         *warnings;        /* array of strings */
    lm_text         wide;            /* numbers of the body beyond 64 bits, as they were written: lm_text_add_wide_numbers */
    char            id[64];          /* what "{id}" stood for */
    bool            uses;            /* the model is in memory as long as the call */
    bool            later;           /* it will be handled again: nothing may be answered */
    struct lm_heap_watch *heap;      /* what the call takes of memory, counted as the exchange's */
    unsigned        status;          /* of HTTP that an error of it has, lm_fault; 0: what its code stands for */
} lm_call;

/* All routes, in order; NULL past the end. */
const lm_route *lm_route_at(size_t i);

/* All routes as an OpenAPI 3.1 document, made from their descriptors. NULL: out of memory. */
json_t *lm_routes_document(void);

/* What lm_http_options wants; `arg` is an lm_models. */
bool lm_call_quick(void *models, const char *method, const char *path);
bool lm_call_handle(void *models, lm_exchange *x);
void lm_call_refuse(void *models, lm_exchange *x, unsigned status, const char *why);

/* Find the requested model, by the field or the query `model`: it becomes the call's `service`. Done before the handler, but for
 * LM_ROUTE_ALL. */
lm_status lm_call_find(lm_call *c, lm_error *e);

/* The key that counts: NULL where none is required, whatever was given. And the owner of the call, lm_archive_owner. */
const char *lm_call_key(const lm_call *c);
void        lm_call_owner(const lm_call *c, char out[33]);

/* Who used the tokens of a call, and where they are counted; it outlives the call. Prompts of which `cached` tokens were in the cache. */
typedef struct lm_account { struct lm_archive *archive; struct lm_keys *keys; const lm_service *service; char owner[33]; } lm_account;
void        lm_call_account(const lm_call *c, lm_account *out);
void        lm_account_charge(const lm_account *a, uint64_t prompt, uint64_t cached, uint64_t generated);

/* The priority that the schedule knows, higher ones first, of a request that asks for `wanted` (LM_PRIORITY_NONE: for none). One before its
 * key's is a warning. */
int32_t     lm_call_priority(const lm_call *c, int32_t wanted);

/* The model is needed in memory: it is when this returns LM_OK. Otherwise the handler returns what this returned. */
lm_status lm_call_model(lm_call *c, lm_error *e);

/* ---- answers ---- */

/* A JSON document, whole; takes `document` (NULL: out of memory). Warnings that are not empty are added to an object. */
lm_status lm_answer_document(lm_exchange *x, json_t *document, json_t *warnings, lm_error *e);
lm_status lm_answer_json(lm_call *c, json_t *document, lm_error *e);
void      lm_answer_text(lm_exchange *x, unsigned status, const char *type, const char *text);

/* An error in the dialect, as a whole answer. `status` 0: the one that its code stands for; `retry` 0: the seconds that
 * it is worth to wait. */
void lm_answer_fault(lm_exchange *x, lm_dialect d, unsigned status, double retry, const lm_error *e);

/* The same as an object alone, for events of streams. */
json_t *lm_fault_json(lm_dialect d, unsigned status, const lm_error *e);

/* Whether the time of a request is over: 503 where nothing of it was written. */
bool lm_fault_is_late(const lm_error *e);

/* An error about `field` is one about what was sent, which has another name. Returns `status`. */
lm_status lm_fault_rename(lm_status status, const char *field, const char *sent, lm_error *e);

/* Raise an error with a status of HTTP. */
lm_status lm_fault(lm_call *c, lm_error *e, unsigned status, const char *where, const char *format, ...) LM_PRINTF(5, 6);

#endif
