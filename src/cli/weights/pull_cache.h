/* pull_cache.h - the actions of `lamina pull` that only use the cache: list, rm, verify-cache. */
#ifndef LM_CLI_PULL_CACHE_H
#define LM_CLI_PULL_CACHE_H

#include "cli/base/command.h"

typedef struct lm_cache_word {
    const char *name;
    bool        needs_model;         /* a model must be given */
    /* `model` NULL: all models. `alter`: --dry-run for rm, which then removes nothing; --repair for
     * verify-cache, which then removes damaged files. */
    lm_status (*run)(lm_cli *cli, const char *model, bool alter, lm_error *e);
} lm_cache_word;

/* Return the action of this name, or NULL. */
const lm_cache_word *lm_cache_word_named(const char *name);

#endif
