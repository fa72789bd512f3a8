/* serve_rights.h - the folders that `lamina serve` uses after startup, the only ones that its sandbox
 * allows. */
#ifndef LM_CLI_SERVE_RIGHTS_H
#define LM_CLI_SERVE_RIGHTS_H

#include "cli/base/command.h"
#include "server/start/serve.h"

/* Set `reads`, `writes` and `sockets` from the models and addresses of `o`, from `keys` (NULL: none), a file
 * that is read again, and from the `n` entries of `stores` (NULL: none), folders to write to, which are
 * created if they do not exist. The lists are valid as long as the command runs. */
lm_status lm_serve_rights(lm_cli *cli, const char *keys, const char *const *stores, size_t n,
                          lm_server_options *o, lm_error *e);

#endif
