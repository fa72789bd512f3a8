/* fit_page.h - the results of `lamina fit` as text and as JSON. */
#ifndef LM_CLI_FIT_PAGE_H
#define LM_CLI_FIT_PAGE_H

#include <jansson.h>

#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/base/store.h"
#include "lamina/study.h"

/* A model and how it fits a machine. */
typedef struct lm_fitted {
    lm_model_info info;
    lm_fit        fit;
    bool          has_weights;
    int           row;                   /* in a fleet: the index of the chosen precision */
} lm_fitted;

typedef struct lm_fit_place {
    const lm_device *device;             /* NULL: this machine, or just memory */
    bool             here;               /* this machine */
    lm_limits        limits;             /* its peak rates, if measured */
    char             kv[LM_CACHE_WORDS];
} lm_fit_place;

json_t *lm_fit_json(const lm_fitted *x, const lm_fit_place *at);
void    lm_fit_page(const lm_fitted *x, const lm_fit_place *at, lm_store *store, lm_text *out);

/* ---- functions shared with other pages of fit ---- */
enum { LM_FIT_NAME = 256 };
const char *lm_fit_rate(char out[LM_FORMATTED], double tokens_per_second);      /* "182/s", "-" */
const char *lm_fit_place_name(const lm_fit_place *at, uint64_t memory, char out[LM_FIT_NAME]);
const char *lm_fit_model_name(const lm_fitted *x, char out[LM_FIT_NAME]);
/* Append a line about the measurement of the peaks if it is marked (lm_limits_mark). */
const char *lm_fit_verdict(bool fits, bool tight);                              /* "✓", "tight", "✗" */
/* a line, if reserve > 0 */
void        lm_fit_mark(const lm_fit_place *at, lm_text *out);
/* `right` ends at column 80 */
void        lm_fit_title(const char *left, const char *right, lm_text *out);
json_t     *lm_fit_speed_json(const lm_fit_speed *s);

/* Several models loaded together, each in the precision of its `row`. */
json_t *lm_fleet_json(const lm_fitted *x, size_t n, const lm_fit_place *at);
void    lm_fleet_page(const lm_fitted *x, size_t n, const lm_fit_place *at, lm_store *store, lm_text *out);

/* Return the total bytes of all models. */
uint64_t lm_fleet_total(const lm_fitted *x, size_t n);

#endif
