/* from_hub.h - models by the name that a hub has for them: fetched where the cache lacks them, or looked at without their weights. */
#ifndef LM_CLI_FROM_HUB_H
#define LM_CLI_FROM_HUB_H

#include "cli/options.h"

/* Whether the model was named by -hf. */
bool lm_is_hub_name(const lm_cli *cli);

/* What is in the cache, else fetched; the path lives as long as the command. */
lm_status lm_hub_fetch(lm_cli *cli, const char *name, const char **path, lm_error *e);

/* Its headers alone, by range requests, in a folder that is gone when the program ends. */
lm_status lm_hub_heads(lm_cli *cli, const char *name, const char **path, lm_error *e);

/* "org/name", :TYPE, @REVISION: a hub may have it. */
bool lm_hub_may_have(const char *name);

#endif
