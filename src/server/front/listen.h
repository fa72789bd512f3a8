/* listen.h - sockets that wait for clients. */
#ifndef LM_SERVER_LISTEN_H
#define LM_SERVER_LISTEN_H

#include <stdbool.h>

#include "lamina/buffer.h"

/* `host`: an address ("127.0.0.1", "::1", "0.0.0.0"), a name, or "unix:PATH". A socket that nobody listens at any more is replaced,
 * any other
 * file is not. The address that it has, as in a URL without its scheme ("127.0.0.1:8080"), is appended to `url`. */
lm_status lm_listen(const char *host, uint16_t port, int *out, lm_text *url, lm_error *e);

/* Whether nobody but this machine can reach it: loopback, a unix socket. */
bool lm_listen_is_local(const char *host);

#endif
