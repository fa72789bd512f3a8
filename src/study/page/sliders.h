/* sliders.h - the memory and speed of a model at other settings: exact numbers for every stop of a page's
 * sliders, so that the page only looks up and adds.
 *
 * Sizes are those of the plan, split into the parts that the plan adds up:
 *   weights   by precision                      scratch   values (precision, sequences) + bookkeeping
 *             (sequences, context)
 *   cache     by type, sequences, context                 + threads (precision, cache type)
 * Rates are predictions for the same plan. */
#ifndef LM_ANALYSIS_SLIDERS_H
#define LM_ANALYSIS_SLIDERS_H

#include "study/facts/fact.h"

enum { LM_STOPS = 24, LM_SLIDER_KV = 7 };

/* 0: unknown */
typedef struct lm_stop_rate { double tokens_per_second; const char *limited_by; } lm_stop_rate;

typedef struct lm_sliders {
    uint32_t    n_contexts, n_batches, n_kv, n_precisions;
    uint64_t    contexts[LM_STOPS], batches[LM_STOPS];
    lm_cache_types kv[LM_SLIDER_KV];
    const char *precisions[LM_STOPS];
    uint32_t    context, batch, kv_now, precision;       /* the stops of the subject's own settings */
    uint64_t    weights[LM_STOPS], mapped[LM_STOPS];     /* [precision] */
    uint64_t    values[LM_STOPS][LM_STOPS];              /* [precision][batch] */
    uint64_t    threads[LM_STOPS][LM_SLIDER_KV];         /* [precision][kv] */
    uint64_t    bookkeeping[LM_STOPS][LM_STOPS];         /* [batch][context] */
    uint64_t    cache[LM_SLIDER_KV][LM_STOPS][LM_STOPS]; /* [kv][batch][context] */
    uint64_t    per_token[LM_SLIDER_KV];                 /* bytes of the cache per additional position,
                                                            ignoring windows */
    lm_wide     flops[LM_STOPS], prefill[LM_STOPS];      /* [context] */
    bool        rated;                                   /* the peaks of the machine or device are known */
    lm_stop_rate prompt[LM_STOPS][LM_SLIDER_KV];         /* [precision][kv]: 512 tokens */
    lm_stop_rate (*generation)[LM_SLIDER_KV][LM_STOPS][LM_STOPS];        /* [precision][kv][batch][context] */
} lm_sliders;

/* Compute the numbers in the facts' arena. NULL: no plan can be made, or out of memory (recorded in the
 * facts). */
lm_sliders *lm_sliders_of(lm_facts *f);

/* Append JSON for the script of the page. Names of limits are in the reader's language. */
void lm_sliders_json(const lm_sliders *s, lm_text *out);

#endif
