/* models.h - the models of a server: which are in memory, which requests use them, which wait for one.
 *
 * A single model is loaded at the start and stays in memory, unless idle models are unloaded. Several models
 * are loaded when they are first requested, one at a time, by a separate thread, so that others answer
 * meanwhile. Before a model is loaded, the plan gives the memory that it needs: idle models are unloaded, the
 * least recently used first, until all together stay below the limit. If that is not enough, the least
 * recently used model accepts no more requests and is unloaded when its current ones are answered; new
 * requests for it wait until it is loaded again. So no request waits forever, and no model is unloaded while
 * it answers.
 *
 * Threads: any, except lm_models_new, _begin and _free. */
#ifndef LM_SERVER_MODELS_H
#define LM_SERVER_MODELS_H

#include "server/front/http.h"
#include "server/models/service.h"

typedef struct lm_models lm_models;

typedef struct lm_models_options {
    const lm_service_options *services;  /* names must differ; what they point to must outlive the
                                            lm_models */
    size_t   n;                          /* at least one */
    uint64_t memory;                     /* maximum bytes of all models together; 0: no limit except the
                                            machine's */
    double   keep_alive;                 /* seconds until an idle model is unloaded; < 0: never */
    bool     stays;                      /* the only model is never unloaded */
} lm_models_options;

lm_status lm_models_new(const lm_models_options *o, lm_models **out, lm_error *e);

/* Check that a single model can fit, before the server listens. LM_NO_FIT: it cannot; the message has both
 * numbers. */
lm_status lm_models_check(lm_models *m, lm_error *e);

/* A single model is loaded when this returns; several can be requested from then on. */
lm_status lm_models_begin(lm_models *m, lm_error *e);

/* Accept no more requests: those that wait for a model are handled again and rejected. */
void      lm_models_quiesce(lm_models *m);

/* Call lm_models_quiesce and wait for the running requests, up to `seconds` (negative: no limit). True: all
 * have ended in time. */
bool      lm_models_drain(lm_models *m, double seconds);
void      lm_models_free(lm_models *m);

/* Return LM_SERVICE_LOADING before lm_models_begin has finished; _DRAINING after lm_models_quiesce; _FAILED
 * if the only model (`stays`) could not be loaded, with the reason in `why` (may be NULL); otherwise
 * _READY. */
lm_service_state lm_models_state(lm_models *m, lm_error *why);

/* Whether another rank of a distributed model is lost. */
bool            lm_models_lost(const lm_models *m);

/* Return model i, in the order of the options; NULL past the end. The options of the first apply to the whole
 * server. */
lm_service *lm_models_at(const lm_models *m, size_t i);
size_t      lm_models_count(const lm_models *m);
bool        lm_models_stays(const lm_models *m);

/* Find a model by its name or an alias, ignoring case, with or without ":latest". NULL: there is none. */
lm_service *lm_models_find(const lm_models *m, const char *name);

/* ---- use: a model in use is not unloaded ---- */

typedef enum lm_use { LM_USE_READY, LM_USE_LATER, LM_USE_FAILED } lm_use;

/* Request a model. READY: it is in memory until lm_models_release. LATER: `x` will be handled again when it
 * is; from now on `x` belongs to the worker that does that and must not be touched. FAILED: see the error;
 * with LM_NO_FIT, its message has the bytes. */
lm_use lm_models_use(lm_service *s, lm_exchange *x, lm_error *e);

/* Add a use, for a caller that already uses the model. lm_models_release ends a use. */
void lm_models_retain(lm_service *s);
void lm_models_release(lm_service *s);

/* Use a model only if it is in memory, without counting as activity. False: it is not; lm_models_unpeek ends
 * the use. */
bool lm_models_peek(lm_service *s);
void lm_models_unpeek(lm_service *s);

/* Set the seconds that the model stays in memory when idle; < 0: forever, 0: it is unloaded as soon as it is
 * idle. */
void lm_models_keep(lm_service *s, double seconds);

/* The state of a model, for lists of models. */
typedef struct lm_model_status {
    const char *word;                /* "unloaded" "loading" "loaded" "failed" */
    uint64_t    bytes;               /* of memory, by the plan; 0: not known until it was loaded once */
    uint64_t    loads;               /* how often it was loaded */
    uint32_t    users;               /* requests that use it */
    double      leaves;              /* seconds until it is unloaded if it stays idle; < 0: never. For
                                        "loaded" */
    char        digest[65];          /* lm_model_fingerprint; "": it was never loaded */
    char        error[256];          /* for "failed" */
} lm_model_status;

void lm_models_status(lm_service *s, lm_model_status *out);

#endif
