/* tokens.c - the growing arrays of the public interface. */
#include "lamina/text.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

lm_status lm_tokens_append(lm_tokens *t, const lm_token *ids, size_t n, lm_error *e)
{
    LM_REQUIRE(e, t && (ids || !n));
    if (n > t->capacity - t->n) {
        size_t capacity = t->capacity ? 2 * t->capacity : 64;

        while (capacity < t->n + n)
            capacity *= 2;
        lm_token *grown = lm_realloc(t->ids, capacity * sizeof *grown);
        if (!grown)
            return lm_fail_memory(e, "token ids", capacity * sizeof *grown);
        t->ids      = grown;
        t->capacity = capacity;
    }
    if (n)
        memcpy(t->ids + t->n, ids, n * sizeof *ids);
    t->n += n;
    return LM_OK;
}

lm_status lm_tokens_add(lm_tokens *t, lm_token id, lm_error *e)
{
    LM_REQUIRE(e, t);
    return lm_tokens_append(t, &id, 1, e);
}

void lm_tokens_free(lm_tokens *t)
{
    if (!t)
        return;
    lm_free(t->ids);
    *t = (lm_tokens){ 0 };
}
