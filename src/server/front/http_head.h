/* http_head.h - the head of a request, read strictly (RFC 9112): what two servers could read differently is
 * an error. It knows no sockets. */
#ifndef LM_SERVER_HTTP_HEAD_H
#define LM_SERVER_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lm_head_pair { const char *name, *value; } lm_head_pair;

typedef struct lm_http_head {
    const char   *method, *path;     /* the path decoded, without the query; "" if the head is rejected */
    lm_head_pair *fields, *query;    /* the query decoded; a parameter without "=" has the value "" */
    size_t        n_fields, n_query;
    bool          old;               /* HTTP/1.0 */
    bool          closes;            /* the connection is not used for another request */
    bool          chunked;           /* the body has the chunked coding */
    bool          expects;           /* the client waits for "100 Continue" */
    uint64_t      length;            /* of the body, unless it is chunked */
    char         *text;              /* what the others point to */
} lm_http_head;

enum { LM_HEAD_BYTES = 32 << 10, LM_HEAD_FIELDS = 128 };

/* Return the size of the head at the beginning of `text`, with the empty line at its end. 0: it is not
 * complete; `seen` bytes of it were examined before. */
size_t lm_head_size(const char *text, size_t n, size_t seen);

/* Read a head of n bytes. Returns 0, or the HTTP status to reject it with, and the reason. lm_head_free frees
 * `out` also then. */
unsigned lm_head_read(const char *text, size_t n, lm_http_head *out, const char **why);
void     lm_head_free(lm_http_head *h);

/* Return the first value of a field, whose name is compared without case; NULL: none. */
const char *lm_head_field(const lm_http_head *h, const char *name);

/* ---- bodies ---- */

/* The rest of a body. All zero and `left`: one of known length. */
typedef struct lm_body {
    uint64_t left;                   /* bytes of the body, or of the chunk */
    bool     chunked;
    int      state;                  /* of the chunked coding */
    unsigned digits, skipped;        /* of a chunk's size; bytes of extensions and trailers */
} lm_body;

/* Take the next piece of the body at the beginning of `data`. Returns how many bytes were used, of which the
 * last `*size` are content; `*why`: NULL, or why the coding is not valid. */
size_t lm_body_take(lm_body *b, const char *data, size_t n, size_t *size, const char **why);
bool   lm_body_is_whole(const lm_body *b);

#endif
