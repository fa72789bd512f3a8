/* tls.h - TLS on sockets that do not block, by GnuTLS. Threads: a session is used by one thread at a time. */
#ifndef LM_SERVER_TLS_H
#define LM_SERVER_TLS_H

#include <stdbool.h>
#include <sys/types.h>

#include "lamina/error.h"

typedef struct lm_tls         lm_tls;            /* key and certificate, for all sessions */
typedef struct lm_tls_session lm_tls_session;

/* Read the contents of PEM files. LM_USAGE: they cannot be used together. */
lm_status lm_tls_new(const char *key, const char *cert, lm_tls **out, lm_error *e);
void      lm_tls_free(lm_tls *t);

/* Begin a session on a socket. NULL: out of memory. */
lm_tls_session *lm_tls_open(lm_tls *t, int fd);
/* Tell the client that nothing more is sent. */
void            lm_tls_end(lm_tls_session *s);
void            lm_tls_close(lm_tls_session *s);

/* As recv and send, with errno: EAGAIN if the session waits for the socket, and lm_tls_sends is set if it
 * waits until the socket can be written. The handshake is a part of the first calls. */
ssize_t lm_tls_recv(lm_tls_session *s, void *to, size_t n);
ssize_t lm_tls_send(lm_tls_session *s, const void *from, size_t n);
bool    lm_tls_sends(const lm_tls_session *s);

#endif
