/* serve_rights.h - the folders that `lamina serve` goes on using once it serves: all that its sandbox leaves it. */
#ifndef LM_CLI_SERVE_RIGHTS_H
#define LM_CLI_SERVE_RIGHTS_H

#include "cli/command.h"
#include "server/start/serve.h"

/* Fills in `reads`, `writes` and `sockets` from the models and addresses of `o` and from `keys` (NULL: none), a file that is read again,
 * and `stores`, folders that are written to (NULL:
 * none), which are made where they are not there. What they point to lives as long as the command. */
lm_status lm_serve_rights(lm_cli *cli, const char *keys, const char *const *stores, size_t n, lm_server_options *o, lm_error *e);

#endif
