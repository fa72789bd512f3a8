/* fit_page.h - what `lamina fit` found out, for people and for scripts. */
#ifndef LM_CLI_FIT_PAGE_H
#define LM_CLI_FIT_PAGE_H

#include <jansson.h>

#include "base/arena.h"
#include "base/str.h"
#include "lamina/lamina.h"

/* A model against the machine. */
typedef struct lm_fitted {
    lm_model_info info;
    lm_fit        fit;
    bool          has_weights;
    int           row;                   /* of a fleet: the precision it is taken in */
} lm_fitted;

typedef struct lm_fit_place {
    const lm_device *device;             /* NULL: this machine, or just memory */
    bool             here;               /* this machine */
    const char      *kv;
} lm_fit_place;

json_t *lm_fit_json(const lm_fitted *x, const lm_fit_place *at);
void    lm_fit_page(const lm_fitted *x, const lm_fit_place *at, lm_arena *arena, lm_buf *out);

/* Several models resident at once: each in its row. */
json_t *lm_fleet_json(const lm_fitted *x, size_t n, const lm_fit_place *at);
void    lm_fleet_page(const lm_fitted *x, size_t n, const lm_fit_place *at, lm_arena *arena, lm_buf *out);

/* Bytes of all of them together. */
uint64_t lm_fleet_total(const lm_fitted *x, size_t n);

#endif
