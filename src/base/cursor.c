/* cursor.c - bounded reading. */
#include "base/cursor.h"

#include <inttypes.h>
#include <string.h>

static lm_status take(lm_cursor *c, const char *field, uint64_t n, const uint8_t **out, lm_error *e)
{
    if (n > lm_cursor_left(c)) {
        lm_fail(e, LM_BAD_MODEL, field, (int64_t)c->at, "needs %" PRIu64 " bytes, the file has %zu left", n,
                lm_cursor_left(c));
        lm_fail_in(e, c->file);
        return LM_BAD_MODEL;
    }
    *out = c->data ? c->data + c->at : NULL;             /* an empty file: no arithmetic on NULL */
    c->at += (size_t)n;
    return LM_OK;
}

lm_status lm_cursor_u32(lm_cursor *c, const char *field, uint32_t *out, lm_error *e)
{
    const uint8_t *p;

    LM_TRY(take(c, field, 4, &p, e));
    *out = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return LM_OK;
}

lm_status lm_cursor_u64(lm_cursor *c, const char *field, uint64_t *out, lm_error *e)
{
    const uint8_t *p;
    uint64_t       v = 0;

    LM_TRY(take(c, field, 8, &p, e));
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    *out = v;
    return LM_OK;
}

lm_status lm_cursor_view(lm_cursor *c, const char *field, uint64_t n, lm_view *out, lm_error *e)
{
    const uint8_t *p;

    LM_TRY(take(c, field, n, &p, e));
    *out = (lm_view){ (const char *)p, (size_t)n };
    return LM_OK;
}

lm_status lm_cursor_string(lm_cursor *c, const char *field, uint64_t max, lm_view *out, lm_error *e)
{
    size_t    start = c->at;
    uint64_t  n;

    LM_TRY(lm_cursor_u64(c, field, &n, e));
    if (n > max) {
        lm_fail(e, LM_BAD_MODEL, field, (int64_t)start,
                "is %" PRIu64 " bytes long; at most %" PRIu64 " are allowed", n, max);
        c->at = start;
        lm_fail_in(e, c->file);
        return LM_BAD_MODEL;
    }
    lm_status s = lm_cursor_view(c, field, n, out, e);
    if (s != LM_OK)
        c->at = start;
    return s;
}
