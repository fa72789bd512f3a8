/* service.h - a model of a server: its engine and schedule while it is in memory, and what all its requests
 * share.
 *
 * Ownership. models.c owns services and decides when they are opened, started and unloaded; a request may use
 * a service while it counts as one of its users (lm_models_use, _hold). Threads. The loader changes a service
 * while nothing uses it; requests only read it, except the scales of adapters (lora_lock), `traced` (a lock
 * of its own) and `state` (atomic). */
#ifndef LM_SERVER_SERVICE_H
#define LM_SERVER_SERVICE_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "lamina/answer.h"
#include "lamina/grammar.h"
#include "lamina/lamina.h"
#include "lamina/schedule.h"
#include "server/models/traced_list.h"

/* The message of requests that are rejected while the server ends; src/schedule has the same words for those
 * that reach it. */
#define LM_SERVER_ENDS "the server is shutting down"

typedef enum lm_service_state {
    LM_SERVICE_LOADING, LM_SERVICE_READY, LM_SERVICE_DRAINING, LM_SERVICE_FAILED,
    LM_SERVICE_ABSENT,               /* not in memory */
    LM_SERVICE_UNLOADING,              /* its memory is being freed */
} lm_service_state;

/* DEFAULT: that of the chat template. */
typedef enum lm_thinking { LM_THINKING_DEFAULT, LM_THINKING_OFF, LM_THINKING_ON } lm_thinking;

/* A further model of an ensemble. */
typedef struct lm_service_other {
    const char *path;                /* from lm_model_locate */
    lm_engine_options engine;        /* with at least the capacity of the first one's */
} lm_service_other;

typedef struct lm_service_options {
    const char *path;                /* of the model, from lm_model_locate; of an ensemble, the first model */
    const lm_service_other *others;  /* [mixture.n - 1] further models of an ensemble, which needs a name;
                                        NULL: a single model */
    lm_mixture  mixture;             /* prepared */
    const char *name;                /* for clients; NULL: the file's, without ".gguf" */
    lm_model_info       card;        /* shown in lists while it is not in memory */
    lm_model_options    model;
    lm_engine_options   engine;      /* `sequences`: number of concurrent sequences */
    lm_schedule_options schedule;
    lm_sampler_options  sampling;    /* defaults of requests, written out */
    int64_t     predict;             /* default maximum of generated tokens; <= 0: until the context is
                                        full */
    const char *template_source;     /* instead of the model's; NULL: the model's */
    lm_log      log;                 /* what its chat template lacks, when the model is loaded */
    const char *template_name;
    double      timeout;             /* maximum seconds of a request; 0: no limit */
    int32_t     ping;                /* seconds without an event after which a stream sends a sign of life;
                                        < 0: never */
    bool        verbose;             /* every request is "verbose" */
    lm_thinking thinking;            /* default of requests */
    const char *aliases, *tags;      /* further names, and tags shown in lists, separated by commas; NULL:
                                        none */
    const lm_limits *limits;         /* of the machine; NULL: not known */
    const char *const *loras;        /* paths of low-rank adapters, NULL-ended; NULL: none */
    const float *lora_scales;        /* of each, the default of requests */
    bool        metrics, no_slots, props, embeddings, interventions;
    int         pooling;             /* lm_pooling of vectors, the default of requests */
    bool        no_page;             /* no web page at / */
    const char *slot_folder;         /* NULL: slots are not saved */
    const char *const *origins;      /* of pages that may read answers; NULL: only the server's own */
    struct lm_archive *archive;      /* archive and keys of the first service are the server's */
    struct lm_keys    *keys;
    const char *const *allowed_hosts;        /* names allowed in Host in addition to this machine's; NULL:
                                                none */
    bool        any_host;            /* any Host is allowed */
} lm_service_options;


typedef struct lm_service {
    lm_service_options o;
    struct lm_models *models;        /* all of the server; only models.c changes these: */
    size_t       index;              /* among them */
    _Atomic(lm_service_state) state;
    lm_error     error;              /* LM_SERVICE_FAILED: why */
    char        *name;
    /* From here on valid while the model is in memory, except `began`. */
    lm_model    *model;
    lm_model_info info;
    lm_engine   *engine;
    lm_model    *other_models[LM_MIXTURE_MODELS];        /* [mixture.n - 1] */
    lm_engine   *other_engines[LM_MIXTURE_MODELS];
    lm_schedule *schedule;
    const lm_tokenizer *tokenizer;
    lm_vocabulary *vocabulary;       /* for constraints; NULL: the model has no end token */
    lm_template *template;           /* NULL: the model has none */
    char        *template_source;
    bool         describes_tools;    /* the template puts the tools of a request into the prompt */
    lm_answer_style style;           /* the format of its output */
    bool         special;            /* a marker of that format is a control token */
    lm_text      end_texts;          /* of end tokens, each with a NUL */
    const char  *ends[17];           /* pointers into it, NULL-ended */
    json_t      *variables;          /* bos_token, eos_token: variables of templates in addition to
                                        messages */
    int64_t      began;              /* seconds since the epoch */
    /* low-rank adapters, server/models/loras.h: */
    lm_adapter **loras;              /* NULL-ended, while the model is in memory */
    size_t       n_loras;
    float       *lora_scales;        /* [n_loras] of requests without scales; under the lock; valid as long
                                        as the service */
    pthread_mutex_t lora_lock;
    lm_traced_list traced;           /* server/models/traced.h */
} lm_service;

/* Create a service; nothing is loaded. What `o` points to must outlive it. */
lm_status lm_service_new(const lm_service_options *o, lm_service **out, lm_error *e);

/* Compute the memory that lm_service_start will take by the plan; nothing stays open. */
lm_status lm_service_needs(const lm_service *s, uint64_t *bytes, lm_error *e);

/* Open the model: *bytes is the memory that lm_service_start will take by the plan, including mapped files;
 * `digest` is the fingerprint of the model or ensemble. Then start it. lm_service_unload frees everything,
 * also after a failure; then the model can be opened again. */
lm_status lm_service_open(lm_service *s, uint64_t *bytes, char digest[65], lm_error *e);
lm_status lm_service_start(lm_service *s, lm_error *e);
void      lm_service_unload(lm_service *s);
void      lm_service_free(lm_service *s);

/* Limit the output of a sequence so that it fits the context with its prompt. LM_LIMIT: the prompt fills the
 * context. */
lm_status lm_service_fit(const lm_service *s, size_t n_prompt, lm_sequence_options *o, lm_error *e);

/* Check that the service is a single model. LM_UNSUPPORTED: it is an ensemble; the error names `what`, which
 * needs a single model. */
lm_status lm_service_require_single(const lm_service *s, const char *what, lm_error *e);

/* Return the object "ensemble": its name, rule, models and weights. NULL: it is a single model. */
json_t   *lm_service_ensemble(const lm_service *s);

/* The beginning of an answer, sent by the client to be continued; either may be NULL. */
typedef struct lm_prefill { const char *reasoning, *content; } lm_prefill;

/* Render messages and further variables with the template, followed by `prefill` (NULL: none), in which
 * control tokens are not recognised. Appends the tokens to `ids` and the text to `rendered`; either may be
 * NULL. `wide`: as for lm_json_exact. LM_USAGE: there is no template, or it rejects the conversation. */
lm_status lm_service_render(const lm_service *s, json_t *context, const lm_text *wide,
                            const lm_prefill *prefill, lm_tokens *ids, lm_text *rendered, lm_error *e);

#endif
