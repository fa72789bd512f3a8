/* hub.h - models in the Hugging Face cache of this machine. Nothing here uses the network. */
#ifndef LM_FORMATS_HUB_H
#define LM_FORMATS_HUB_H

#include <stdbool.h>

#include "base/error.h"

/* Return the cache folder: $HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else
 * ~/.cache/huggingface/hub. Free it with lm_free. LM_NOT_FOUND: no variable gives a folder. */
lm_status lm_hub_cache(char **out, lm_error *e);

/* Find `id` on this disk, for lm_container_open: the folder of its snapshot, or a .gguf file in it. Free the
 * path with lm_free.
 *   id        "org/name", "name", or either with ":TYPE" ("org/name:Q4_K_M") for one of several GGUF files
 *   revision  a branch, a tag or a commit of 40 hexadecimal digits; NULL: main
 * LM_USAGE: not a valid id. LM_NOT_FOUND: not in the cache, or several files and no :TYPE that selects one.
 * LM_BAD_MODEL: the cache is damaged (a ref does not contain a commit, a link is broken). */
lm_status lm_hub_resolve(const char *id, const char *revision, char **out, lm_error *e);

/* Call `each` for every model of the cache whose main branch is present, in order of name. `id` is as for
 * lm_hub_resolve; a repository with several GGUF files has one id with ":TYPE" per file. `each` returns false
 * to stop. Damaged models are skipped; a missing cache is an empty one. */
lm_status lm_hub_list(bool (*each)(void *arg, const char *id, const char *path), void *arg, lm_error *e);

#endif
