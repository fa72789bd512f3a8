/* pull_cache.h - the words of `lamina pull` that look at the cache alone: list, rm, verify-cache. */
#ifndef LM_CLI_PULL_CACHE_H
#define LM_CLI_PULL_CACHE_H

#include "cli/command.h"

typedef struct lm_cache_word {
    const char *name;
    bool        needs_model;         /* an argument that is one */
    /* `model` NULL: all of them. `alter`: rm writes nothing with --dry-run; verify-cache removes damaged files with --repair. */
    lm_status (*run)(lm_cli *cli, const char *model, bool alter, lm_error *e);
} lm_cache_word;

/* NULL: not one of them. */
const lm_cache_word *lm_cache_word_named(const char *name);

#endif
