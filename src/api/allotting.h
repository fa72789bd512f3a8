/* allotting.h - the state of lm_allot: internal to api/. */
#ifndef LM_API_ALLOTTING_H
#define LM_API_ALLOTTING_H

#include <stdatomic.h>

#include "api/effect.h"
#include "api/paired.h"
#include "base/os/journal.h"
#include "export/quantize/imatrix.h"
#include "lamina/allot.h"

enum { LM_MAX_FORMS = 24 };

/* A tensor in one type. */
typedef struct lm_allot_form { lm_dtype type; uint64_t bytes; double error; } lm_allot_form;

typedef struct lm_allot_unit {
    uint32_t weight;
    lm_allot_form forms[LM_MAX_FORMS]; /* smallest first; each next one gains less per byte */
    uint32_t n, at;                  /* at: the chosen form */
    uint32_t trial;                  /* the form that is tried */
    double   kl;                     /* divergence with that form; NaN: not measured */
    double   sensitivity;            /* divergence per squared relative error */
    uint32_t put;                    /* the form in the engine; n: unchanged */
} lm_allot_unit;

typedef struct lm_allotting {
    const lm_model         *m;
    const lm_allot_options *o;
    lm_pair      *pair;
    lm_imatrix   *imatrix;
    lm_effect     f;
    lm_allot_unit *units;
    size_t        n;
    lm_dtype      types[LM_MAX_FORMS];
    size_t        n_types;
    uint64_t      fixed, elements, budget;
    double        bits;              /* of the budget, per weight */
    float        *x;
    uint32_t      chosen_by;
    lm_journal   *journal;
    lm_allot_step *steps;
    size_t        n_steps;
    lm_allotment  r;
    atomic_int    status;
    lm_error      error;
    lm_arena      arena;
} lm_allotting;

/* Read the candidate types and the budget in bits per weight. */
lm_status lm_allot_types(lm_allotting *a, lm_error *e);

/* List the tensors whose types are chosen, each with its forms, and sum up the bytes of the others. */
lm_status lm_allot_units(lm_allotting *a, lm_error *e);

/* Return the name of a joint matrix of latent attention, which is not tried, at its first weight, and the
 * type that it gets; otherwise NULL. */
const char *lm_allot_joint(const lm_allotting *a, uint32_t weight, lm_dtype *type);

const char  *lm_allot_name(const lm_allotting *a, const lm_allot_unit *u);
/* Return the importance of the inputs of matrix k; NULL: none. The first call for a tensor must not run
 * beside others. */
const float *lm_allot_importance(lm_allotting *a, const lm_allot_unit *u, uint64_t k);

#endif
