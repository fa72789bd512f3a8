/* service.h - a model that a server has: its engine and schedule while it is in memory, and what all requests share. */
#ifndef LM_SERVER_SERVICE_H
#define LM_SERVER_SERVICE_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "lamina/answer.h"
#include "lamina/grammar.h"
#include "lamina/lamina.h"
#include "lamina/schedule.h"

typedef enum lm_service_state {
    LM_SERVICE_LOADING, LM_SERVICE_READY, LM_SERVICE_DRAINING, LM_SERVICE_FAILED,
    LM_SERVICE_ABSENT,               /* not in memory */
    LM_SERVICE_UNLOADING,              /* its memory is being given back */
} lm_service_state;

typedef enum lm_thinking { LM_THINKING_DEFAULT /* as the chat template does by itself */, LM_THINKING_OFF, LM_THINKING_ON } lm_thinking;

/* A further model of an ensemble. */
typedef struct lm_service_other {
    const char *path;                /* from lm_model_locate */
    lm_engine_options engine;        /* with as much room as the first one's */
} lm_service_other;

typedef struct lm_service_options {
    const char *path;                /* of the model, from lm_model_locate; of an ensemble the first */
    const lm_service_other *others;  /* [mixture.n - 1]: of an ensemble, which needs a name; NULL: one model */
    lm_mixture  mixture;             /* prepared */
    const char *name;                /* that clients call it by; NULL: the file's, without ".gguf" */
    lm_model_info       card;        /* what lists say of it while it is not in memory */
    lm_model_options    model;
    lm_engine_options   engine;      /* `sequences`: how many texts at once */
    lm_schedule_options schedule;
    lm_sampler_options  sampling;    /* defaults of requests, written out */
    int64_t     predict;             /* most tokens where a request names no number; <= 0: the context */
    const char *template_source;     /* instead of the model's; NULL: the model's */
    const char *template_name;
    double      timeout;             /* seconds that a request may take; 0: any */
    int32_t     ping;                /* seconds without an event after which streams say that they are alive; < 0: never */
    bool        verbose;             /* every request is "verbose" */
    lm_thinking thinking;            /* where a request says nothing */
    const char *aliases, *tags;      /* further names, and words that lists say, separated by commas; NULL: none */
    const lm_limits *limits;         /* of the machine; NULL: not known */
    const char *const *loras;        /* paths of low-rank adapters, NULL-ended; NULL: none */
    const float *lora_scales;        /* of each, where a request does not say */
    bool        metrics, no_slots, props, embeddings, interventions;
    int         pooling;             /* lm_pooling of vectors where a request does not say */
    bool        no_page;             /* nothing for browsers at / */
    const char *slot_folder;         /* NULL: slots are not saved */
    const char *const *origins;      /* of pages that may read answers; NULL: none but the server's own */
    struct lm_archive *archive;      /* the first's is the server's, and so are its keys */
    struct lm_keys    *keys;
    const char *const *allowed_hosts;        /* names of this server in Host, besides this machine's; NULL: none */
    bool        any_host;            /* Host need not be one of them */
} lm_service_options;

typedef struct lm_service {
    lm_service_options o;
    struct lm_models *models;        /* all of the server, models.h, which alone changes these: */
    size_t       index;              /* among them */
    _Atomic(lm_service_state) state;
    lm_error     error;              /* LM_SERVICE_FAILED: why */
    char        *name;
    /* From here on as long as it is in memory; but for `began`. */
    lm_model    *model;
    lm_model_info info;
    lm_engine   *engine;
    lm_model    *other_models[LM_MIXTURE_MODELS];        /* [mixture.n - 1] */
    lm_engine   *other_engines[LM_MIXTURE_MODELS];
    lm_schedule *schedule;
    const lm_tokenizer *tokenizer;
    lm_vocabulary *vocabulary;       /* for constraints; NULL: there is no token that ends a text */
    lm_template *template;           /* NULL: the model has none */
    char        *template_source;
    bool         describes_tools;    /* the template puts tools that it is given into the prompt */
    lm_answer_style style;           /* how its answers look */
    bool         special;            /* their marks are control tokens */
    lm_text      end_texts;          /* of tokens that end a text, each with a NUL */
    const char  *ends[17];           /* in it, NULL-ended */
    json_t      *variables;          /* bos_token, eos_token: what templates are given besides messages */
    int64_t      began;              /* seconds of the epoch */
    /* low-rank adapters, server/models/loras.h: */
    lm_adapter **loras;              /* NULL-ended, while the model is in memory */
    size_t       n_loras;
    float       *lora_scales;        /* [n_loras] of requests that do not say; under the lock, and as long as the service */
    pthread_mutex_t lora_lock;
} lm_service;

/* Nothing is loaded. What `o` points to must outlive it. */
lm_status lm_service_new(const lm_service_options *o, lm_service **out, lm_error *e);

/* What lm_service_start will take by the plan; nothing stays open. */
lm_status lm_service_needs(const lm_service *s, uint64_t *bytes, lm_error *e);

/* Open the model: *bytes is what lm_service_start will take by the plan, files used in place included; `digest` its fingerprint. Then
 * begin. After a failure, too, lm_service_unload gives all back, and it can be opened again. */
lm_status lm_service_open(lm_service *s, uint64_t *bytes, char digest[65], lm_error *e);
lm_status lm_service_start(lm_service *s, lm_error *e);
void      lm_service_unload(lm_service *s);
void      lm_service_free(lm_service *s);

/* LM_UNSUPPORTED where it is an ensemble: `what` is of one model. */
lm_status lm_service_alone(const lm_service *s, const char *what, lm_error *e);

/* "ensemble": its rule, models and weights. NULL: it is one model. */
json_t   *lm_service_ensemble(const lm_service *s);

/* The beginning of an answer that a client gives, to be gone on with; either may be NULL. */
typedef struct lm_prefill { const char *reasoning, *content; } lm_prefill;

/* Messages and further variables through the template, as tokens; then `prefill` (NULL: none), which is no control text. `ids` and
 * `rendered` may be NULL. `wide`: as lm_json_exact has it. LM_USAGE: there is no template, or it refuses. */
lm_status lm_service_render(const lm_service *s, json_t *context, const lm_text *wide, const lm_prefill *prefill, lm_tokens *ids,
                            lm_text *rendered, lm_error *e);

#endif
