/* adapter_names.h - how PEFT's configurations name modules. */
#ifndef LM_RUNTIME_ADAPTER_NAMES_H
#define LM_RUNTIME_ADAPTER_NAMES_H

#include "formats/meta.h"
#include "text/regex.h"

/* {"pattern": number}: a pattern matches the end of a path, all of it or after a dot; the first match
 * counts. */
typedef struct lm_module_numbers {
    lm_regex **patterns;
    double    *numbers;
    size_t     n;
} lm_module_numbers;

lm_status lm_module_numbers_read(const lm_meta *m, const char *key, double min, double max,
                                 lm_module_numbers *out, lm_error *e);
lm_status lm_module_numbers_of(const lm_module_numbers *p, const char *module, double otherwise, double *out,
                               lm_error *e);
void      lm_module_numbers_free(lm_module_numbers *p);

/* The modules that a key names: a list of names, which a path equals or ends with after a dot; or one pattern
 * that matches a whole path. */
typedef struct lm_module_list {
    lm_meta_value names;             /* an array, or empty */
    lm_regex     *pattern;           /* or NULL */
} lm_module_list;

lm_status lm_module_list_read(const lm_meta *m, const char *key, lm_module_list *out, lm_error *e);
lm_status lm_module_list_has(const lm_module_list *l, const char *module, bool *out, lm_error *e);
void      lm_module_list_free(lm_module_list *l);

#endif
