/* subject.h - the subject of the facts: a program, how it is stored, and the plan that would run it. */
#ifndef LM_ANALYSIS_SUBJECT_H
#define LM_ANALYSIS_SUBJECT_H

#include "formats/container.h"
#include "formats/meta.h"
#include "lamina/study/device.h"
#include "lamina/machine.h"
#include "plan/plan.h"

typedef struct lm_ledger lm_ledger;

/* Bytes that training allocates; `mapped` is read in place and not included in `total`. */
typedef struct lm_training_need {
    uint64_t numbers;                    /* number of trained parameters */
    uint64_t weights, mapped, trained, activations, scratch, total;
} lm_training_need;

typedef struct lm_subject {
    const char         *name, *source, *container;
    const char         *tokenizer;       /* description in one line; NULL: not available */
    const char         *sampling;        /* settings of the files: "temperature 0.2, top_p 0.9"; NULL: none */
    const char         *calls;           /* how tool calls are read: "hermes"; NULL: they are not, see next */
    const char         *unread;          /* why not */
    const char         *reasoning[2];    /* marks around reasoning; NULL: none */
    const struct lm_tokenizer *words;    /* the tokenizer; NULL as above */
    const lm_program   *program;
    const lm_meta      *meta;            /* config.json or GGUF keys */
    const lm_container *tensors;         /* NULL: no weights */
    const lm_dtype     *types;           /* [n_weights]: the types that the plan uses */
    const uint64_t     *bytes;           /* [n_weights], as stored; NULL: no weights */
    const lm_dtype     *stored;          /* [n_weights]: types of `bytes`; NULL: `types` */
    const char         *precision;       /* name of `types`: "as stored", "bf16", "Q4_K_M" */
    const char *const  *warnings;        /* NULL-terminated */
    uint64_t            context, batch;
    lm_cache_types      cache;
    uint32_t            tokens, rank;    /* lm_facts_options */
    const lm_limits    *limits;          /* NULL: this machine has not been measured */
    const lm_device    *device;          /* NULL: the model runs on this machine */
    /* Return the plan for weights of these types ([n_weights]; NULL: the subject's), a context and a batch.
     * The function owns the plan, which lives as long as the facts. */
    lm_status (*plan)(void *arg, const lm_dtype *types, uint64_t context, uint64_t batch, const lm_plan **out,
                      lm_error *e);
    /* The same for a single use: the plan lives until `use` returns. NULL: only `plan` is available. */
    lm_status         (*borrow)(void *arg, const lm_dtype *types, uint64_t context, uint64_t batch,
                                void (*use)(void *user, const lm_plan *p), void *user, lm_error *e);
    /* Find what training takes: an adapter of `rank` on every linear layer (0: every weight) and a step of
     * one sequence of `tokens`. NULL: not known. */
    lm_status (*train)(void *arg, uint32_t rank, uint32_t tokens, bool checkpointed,
                       struct lm_training_need *out, lm_error *e);
    void              (*release)(void *arg);     /* called when the facts are freed */
    void               *arg;
} lm_subject;

#endif
