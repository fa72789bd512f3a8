/* listen.h - listening sockets. Each is the caller's, who closes it. */
#ifndef LM_SERVER_LISTEN_H
#define LM_SERVER_LISTEN_H

#include <stdbool.h>

#include "lamina/buffer.h"

/* Listen at `host`: an address ("127.0.0.1", "::1", "0.0.0.0"), a name, or "unix:PATH". A socket file at
 * which no process listens is replaced, other files are not. The actual address, as in a URL without its
 * scheme ("127.0.0.1:8080"), is appended to `url`. */
lm_status lm_listen(const char *host, uint16_t port, int *out, lm_text *url, lm_error *e);

/* Whether only this machine can reach it: a loopback address or a unix socket. */
bool lm_listen_is_local(const char *host);

#endif
