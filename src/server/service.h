/* service.h - a model that a server has: its engine and schedule while it is in memory, and what all requests share. */
#ifndef LM_SERVER_SERVICE_H
#define LM_SERVER_SERVICE_H

#include <jansson.h>
#include <stdatomic.h>

#include "lamina/answer.h"
#include "lamina/grammar.h"
#include "lamina/lamina.h"
#include "lamina/schedule.h"

typedef enum lm_service_state {
    LM_SERVICE_LOADING, LM_SERVICE_READY, LM_SERVICE_DRAINING, LM_SERVICE_FAILED,
    LM_SERVICE_ABSENT,               /* not in memory */
    LM_SERVICE_LEAVING,              /* its memory is being given back */
} lm_service_state;

typedef struct lm_service_options {
    const char *path;                /* of the model, from lm_model_locate */
    const char *name;                /* that clients call it by; NULL: the file's, without ".gguf" */
    lm_model_info       card;        /* what lists say of it while it is not in memory */
    lm_model_options    model;
    lm_engine_options   engine;      /* `sequences`: how many texts at once */
    lm_schedule_options schedule;
    lm_sampler_options  sampling;    /* defaults of requests, written out */
    int64_t     predict;             /* most tokens where a request names no number; <= 0: the context */
    const char *template_source;     /* instead of the model's; NULL: the model's */
    const char *template_name;
    bool        metrics, no_slots, props, embeddings;
    const char *slot_folder;         /* NULL: slots are not saved */
    const char *const *keys;         /* NULL-ended; NULL: none is asked for */
    const char *const *origins;      /* of pages that may read answers; NULL: none but the server's own */
    struct lm_archive *archive;      /* the first's is the server's */
    bool        any_host;            /* Host need not be this machine's */
} lm_service_options;

typedef struct lm_service {
    lm_service_options o;
    struct lm_models *models;        /* all of the server, models.h, which alone changes these: */
    size_t       index;              /* among them */
    _Atomic(lm_service_state) state;
    lm_error     error;              /* LM_SERVICE_FAILED: why */
    char        *name;
    /* From here on as long as it is in memory; but for `began` and keys. */
    lm_model    *model;
    lm_model_info info;
    lm_engine   *engine;
    lm_schedule *schedule;
    const lm_tokenizer *tokenizer;
    lm_vocabulary *vocabulary;       /* for constraints; NULL: there is no token that ends a text */
    lm_template *template;           /* NULL: the model has none */
    char        *template_source;
    lm_answer_style style;           /* how its answers look */
    bool         special;            /* their marks are control tokens */
    lm_text      end_texts;          /* of tokens that end a text, each with a NUL */
    const char  *ends[17];           /* in it, NULL-ended */
    json_t      *variables;          /* bos_token, eos_token: what templates are given besides messages */
    int64_t      began;              /* seconds of the epoch */
    unsigned char (*key_hashes)[32];
    size_t       n_keys;
} lm_service;

/* Nothing is loaded. What `o` points to must outlive it. */
lm_status lm_service_new(const lm_service_options *o, lm_service **out, lm_error *e);

/* Open the model: *bytes is what lm_service_start will take by the plan, files used in place included; `digest` its fingerprint. Then
 * begin. After a failure, too, lm_service_unload gives all back, and it can be opened again. */
lm_status lm_service_open(lm_service *s, uint64_t *bytes, char digest[65], lm_error *e);
lm_status lm_service_start(lm_service *s, lm_error *e);
void      lm_service_unload(lm_service *s);
void      lm_service_free(lm_service *s);

/* Whether `key` (may be NULL) opens the door; in constant time. */
bool lm_service_admits(const lm_service *s, const char *key);

/* Messages and further variables through the template, as tokens. `rendered` may be NULL. LM_USAGE: there is no template, or it refuses. */
lm_status lm_service_render(const lm_service *s, json_t *context, lm_tokens *ids, lm_text *rendered, lm_error *e);

#endif
