/* cursor.h - read untrusted bytes.
 *
 * A cursor never reads outside [data, data + size). Every read checks first, moves only on success, and on
 * failure leaves an error that names the field and the offset. Nothing here allocates. Little-endian. */
#ifndef LM_BASE_CURSOR_H
#define LM_BASE_CURSOR_H

#include "base/error.h"
#include "base/str.h"

typedef struct lm_cursor {
    const uint8_t *data;
    size_t         size;
    size_t         at;       /* <= size, always */
    const char    *file;     /* for messages */
} lm_cursor;

lm_status lm_cursor_u32(lm_cursor *c, const char *field, uint32_t *out, lm_error *e);
lm_status lm_cursor_u64(lm_cursor *c, const char *field, uint64_t *out, lm_error *e);

/* Read the next `n` bytes as a view into the file; valid as long as the mapping is. */
lm_status lm_cursor_view(lm_cursor *c, const char *field, uint64_t n, lm_view *out, lm_error *e);

/* Read a u64 length, at most `max`, and that many bytes. */
lm_status lm_cursor_string(lm_cursor *c, const char *field, uint64_t max, lm_view *out, lm_error *e);

static inline size_t lm_cursor_left(const lm_cursor *c) { return c->size - c->at; }

#endif
