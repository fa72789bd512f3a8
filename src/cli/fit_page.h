/* fit_page.h - what `lamina fit` found out, for people and for scripts. */
#ifndef LM_CLI_FIT_PAGE_H
#define LM_CLI_FIT_PAGE_H

#include <jansson.h>

#include "base/arena.h"
#include "base/str.h"
#include "cli/output.h"
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

/* ---- pieces that other pages of fit use ---- */
enum { LM_FIT_NAME = 256 };
const char *lm_fit_rate(char out[LM_FIGURE], double tokens_per_second);         /* "182/s", "-" */
const char *lm_fit_place_name(const lm_fit_place *at, uint64_t memory, char out[LM_FIT_NAME]);
const char *lm_fit_model_name(const lm_fitted *x, char out[LM_FIT_NAME]);
void        lm_fit_title(const char *left, const char *right, lm_buf *out);     /* the right one ends at column 80 */
json_t     *lm_fit_speed_json(const lm_fit_speed *s);

/* Several models resident at once: each in its row. */
json_t *lm_fleet_json(const lm_fitted *x, size_t n, const lm_fit_place *at);
void    lm_fleet_page(const lm_fitted *x, size_t n, const lm_fit_place *at, lm_arena *arena, lm_buf *out);

/* Bytes of all of them together. */
uint64_t lm_fleet_total(const lm_fitted *x, size_t n);

#endif
