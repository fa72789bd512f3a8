/* tls.c - tls.h. */
#include "server/front/tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <string.h>

#include "server/front/memory.h"

struct lm_tls { gnutls_certificate_credentials_t credentials; gnutls_priority_t priority; };

struct lm_tls_session { gnutls_session_t session; bool open; };

static gnutls_datum_t datum(const char *text)
{
    return (gnutls_datum_t){ (unsigned char *)(uintptr_t)text, (unsigned)strlen(text) };       /* only read */
}

lm_status lm_tls_new(const char *key, const char *cert, lm_tls **out, lm_error *e)
{
    lm_tls *t = lm_memory_zero(1, sizeof *t);
    gnutls_datum_t k = datum(key), c = datum(cert);
    const char *at;

    if (!t || gnutls_certificate_allocate_credentials(&t->credentials)) {
        lm_heap_free(t);
        return lm_fail_memory(e, "TLS", sizeof *t);
    }
    if (gnutls_certificate_set_x509_key_mem(t->credentials, &c, &k, GNUTLS_X509_FMT_PEM) < 0 ||
        gnutls_priority_init(&t->priority, "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1", &at) < 0) {
        lm_tls_free(t);
        return lm_fail(e, LM_USAGE, "--ssl-key-file", LM_NO_OFFSET,
                       "key and certificate cannot be used together");
    }
    *out = t;
    return LM_OK;
}

void lm_tls_free(lm_tls *t)
{
    if (!t)
        return;
    gnutls_certificate_free_credentials(t->credentials);
    if (t->priority)
        gnutls_priority_deinit(t->priority);
    lm_heap_free(t);
}

lm_tls_session *lm_tls_open(lm_tls *t, int fd)
{
    lm_tls_session *s = lm_memory_zero(1, sizeof *s);

    if (!s)
        return NULL;
    if (gnutls_init(&s->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) ||
        gnutls_credentials_set(s->session, GNUTLS_CRD_CERTIFICATE, t->credentials) ||
        gnutls_priority_set(s->session, t->priority)) {
        if (s->session)
            gnutls_deinit(s->session);
        lm_heap_free(s);
        return NULL;
    }
    gnutls_transport_set_int(s->session, fd);
    return s;
}

void lm_tls_end(lm_tls_session *s)
{
    if (s->open)
        gnutls_bye(s->session, GNUTLS_SHUT_WR);
}

void lm_tls_close(lm_tls_session *s)
{
    if (!s)
        return;
    gnutls_deinit(s->session);
    lm_heap_free(s);
}

/* Return the result of a call as recv and send do. */
static ssize_t result(ssize_t n)
{
    if (n >= 0)
        return n;
    errno = n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED ? EAGAIN : EIO;
    return -1;
}

/* Continue the handshake; 0: it is done. */
static ssize_t begin(lm_tls_session *s)
{
    int rc = s->open ? 0 : gnutls_handshake(s->session);

    s->open = rc == 0;
    return result(rc);
}

ssize_t lm_tls_recv(lm_tls_session *s, void *to, size_t n)
{
    return begin(s) < 0 ? -1 : result(gnutls_record_recv(s->session, to, n));
}

ssize_t lm_tls_send(lm_tls_session *s, const void *from, size_t n)
{
    return begin(s) < 0 ? -1 : result(gnutls_record_send(s->session, from, n));
}

bool lm_tls_sends(const lm_tls_session *s)
{
    return gnutls_record_get_direction(s->session) == 1;
}
