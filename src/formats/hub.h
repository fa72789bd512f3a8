/* hub.h - models that are in the Hugging Face cache of this machine. Nothing here uses the network. */
#ifndef LM_FORMATS_HUB_H
#define LM_FORMATS_HUB_H

#include <stdbool.h>

#include "base/error.h"

/* The cache: $HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
 * Freed with lm_free. LM_NOT_FOUND when no variable says where. */
lm_status lm_hub_cache(char **out, lm_error *e);

/* Where `id` lies on this disk, for lm_container_open: the folder of its snapshot, or a .gguf file in it. Freed with
 * lm_free.
 *   id        "org/name", "name", or either with ":TYPE" ("org/name:Q4_K_M") for one of several GGUF files
 *   revision  a branch, a tag or a commit of 40 hexadecimal digits; NULL: main
 * LM_USAGE: not such an id. LM_NOT_FOUND: not in the cache, or several files and no :TYPE that picks one. LM_BAD_MODEL:
 * the cache is damaged (the commit is not one, a link leads nowhere). */
lm_status lm_hub_resolve(const char *id, const char *revision, char **out, lm_error *e);

/* Every model of the cache whose main branch is there, by name: `id` as lm_hub_resolve takes it, of a repository with several GGUF files
 * one with ":TYPE" for each. False ends the list. What is damaged is left out; no cache is an empty one. */
lm_status lm_hub_list(bool (*each)(void *arg, const char *id, const char *path), void *arg, lm_error *e);

#endif
