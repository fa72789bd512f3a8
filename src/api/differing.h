/* differing.h - declarations that the parts of lm_diff share. */
#ifndef LM_API_DIFFERING_H
#define LM_API_DIFFERING_H

#include "api/paired.h"
#include "base/error.h"
#include "lamina/diff.h"

typedef struct lm_differing {
    const lm_model        *a, *b;
    const lm_diff_options *o;
    lm_diff_result         r;
    lm_pair               *pair;
    uint32_t              *weights;  /* [r.n_tensors]: the weight of `a` for each tensor */
    uint32_t               chunk;    /* tokens per chunk; 0: no text */
    double                 from, to; /* range of the current part within the whole work */
    lm_arena               arena;
} lm_differing;

/* Report progress: `fraction` of the current part. */
static inline lm_status lm_differing_report(const lm_differing *d, double fraction, const char *what,
                                            lm_error *e)
{
    if (!d->o->progress || d->o->progress(d->o->progress_arg, d->from + (d->to - d->from) * fraction, what))
        return LM_OK;
    return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
}

lm_status lm_differing_tensors(lm_differing *d, lm_error *e);
lm_status lm_differing_layers(lm_differing *d, lm_error *e);
lm_status lm_differing_advise(lm_differing *d, lm_error *e);

#endif
