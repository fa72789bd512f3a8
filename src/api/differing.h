/* differing.h - what the parts of lm_diff share. */
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
    uint32_t              *weights;  /* [r.n_tensors]: which weight of `a` each tensor is */
    uint32_t               chunk;    /* of the text; 0: there is none */
    double                 from, to; /* of the whole work, what is done now */
    lm_arena               arena;
} lm_differing;

/* `fraction` of what is done now. */
static inline lm_status lm_differing_report(const lm_differing *d, double fraction, const char *what, lm_error *e)
{
    if (!d->o->progress || d->o->progress(d->o->progress_arg, d->from + (d->to - d->from) * fraction, what))
        return LM_OK;
    return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
}

lm_status lm_differing_tensors(lm_differing *d, lm_error *e);
lm_status lm_differing_layers(lm_differing *d, lm_error *e);
lm_status lm_differing_advise(lm_differing *d, lm_error *e);

#endif
