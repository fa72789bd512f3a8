/* from_hub.h - models named as on a hub: download those that are not in the cache, or only their headers. */
#ifndef LM_CLI_FROM_HUB_H
#define LM_CLI_FROM_HUB_H

#include "cli/base/options.h"

/* Return whether the model was given by -hf. */
bool lm_is_hub_name(const lm_cli *cli);

/* Find a model in the cache, or download it. The path is valid as long as the command runs. */
lm_status lm_hub_fetch(lm_cli *cli, const char *name, const char **path, lm_error *e);

/* The same without weights: unless the model is in the cache, fetch only its headers, by range requests, into
 * a folder that is removed when the program exits. */
lm_status lm_hub_heads(lm_cli *cli, const char *name, const char **path, lm_error *e);

/* Return the name without the address of the hub that ollama's names and links begin with, as in
 * hf.co/ORG/NAME. */
const char *lm_hub_bare(const char *name);

/* Return whether the name has the form of a hub's: "org/name", optionally with :TYPE or @REVISION. */
bool lm_hub_may_have(const char *name);

#endif
