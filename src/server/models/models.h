/* models.h - the models of a server: which of them are in memory, who uses them, who waits for one.
 *
 * One model is loaded at the beginning and stays, unless it is to leave when idle. Several are loaded when they are first requested, one
 * after the other by a thread of their own, so that others answer meanwhile. Before a model is loaded the plan says what it takes: models
 * that nobody uses leave, the one used longest ago first, until all together stay below the limit. Where that is not enough, the one
 * used longest ago takes no more requests, and leaves when those that it has are answered: who asks for it meanwhile waits for its
 * return. So nobody waits for ever, and no model leaves that answers.
 *
 * Threads: any, but for lm_models_new, _begin and _free. */
#ifndef LM_SERVER_MODELS_H
#define LM_SERVER_MODELS_H

#include "server/front/http.h"
#include "server/models/service.h"

typedef struct lm_models lm_models;

typedef struct lm_models_options {
    const lm_service_options *services;  /* names must differ; what they point to must outlive it */
    size_t   n;                          /* at least one */
    uint64_t memory;                     /* bytes that all may take; 0: no limit but the machine's */
    double   keep_alive;                 /* seconds until an idle model leaves; < 0: never */
    bool     stays;                      /* the one that there is never leaves */
} lm_models_options;

lm_status lm_models_new(const lm_models_options *o, lm_models **out, lm_error *e);

/* Whether the one model that there is can fit: before anything listens. LM_NO_FIT with both numbers. */
lm_status lm_models_check(lm_models *m, lm_error *e);

/* One model: it is loaded when this returns. Several: they can be requested. */
lm_status lm_models_begin(lm_models *m, lm_error *e);

/* No more requests: those that wait for a model are handled again and refused. */
void      lm_models_quiesce(lm_models *m);

/* True when all that ran have ended in time. */
bool      lm_models_drain(lm_models *m, double seconds);
void      lm_models_free(lm_models *m);

/* LM_SERVICE_LOADING: lm_models_begin has not returned; _DRAINING after lm_models_quiesce; _FAILED: the one that there is could not be
 * loaded, `why` (may be NULL) says why; else _READY. */
lm_service_state lm_models_state(lm_models *m, lm_error *why);

/* Whether a rank that a model is split over is gone. */
bool            lm_models_lost(const lm_models *m);

/* In the order of the options; NULL past the end. The first one's options hold for the whole server. */
lm_service *lm_models_at(const lm_models *m, size_t i);
size_t      lm_models_count(const lm_models *m);
bool        lm_models_stays(const lm_models *m);

/* By its name, any case, with or without ":latest". NULL: there is none. */
lm_service *lm_models_find(const lm_models *m, const char *name);

/* ---- use: a model that is used does not leave ---- */

typedef enum lm_use { LM_USE_READY, LM_USE_LATER, LM_USE_FAILED } lm_use;

/* READY: it is in memory until lm_models_release. LATER: `x` will be handled again when it is, and belongs to whoever does that from now
 * on; nothing else may be done with it. FAILED: the error says why, with the bytes where it does not fit (LM_NO_FIT). */
lm_use lm_models_use(lm_service *s, lm_exchange *x, lm_error *e);

/* Once more, by who uses it. */
void lm_models_hold(lm_service *s);
void lm_models_release(lm_service *s);

/* As READY, but only where it is in memory, and without making it seem used. */
bool lm_models_peek(lm_service *s);
void lm_models_unpeek(lm_service *s);

/* Seconds that it stays when idle, from now on; < 0: for ever, 0: it leaves as soon as nobody uses it. */
void lm_models_keep(lm_service *s, double seconds);

/* What lists say. */
typedef struct lm_model_status {
    const char *word;                /* "unloaded" "loading" "loaded" "failed" */
    uint64_t    bytes;               /* of memory, by the plan; 0: not known before it was loaded once */
    uint64_t    loads;               /* times that it was loaded */
    uint32_t    users;               /* requests that it answers */
    double      leaves;              /* seconds until it does if nobody asks for it; < 0: never. Of "loaded" */
    char        digest[65];          /* lm_model_fingerprint; "": it was never loaded */
    char        error[256];          /* of "failed" */
} lm_model_status;

void lm_models_status(lm_service *s, lm_model_status *out);

#endif
