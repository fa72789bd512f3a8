/* tokens.c - the growing arrays of the public interface. */
#include "lamina/text.h"

#include "base/alloc.h"
#include "base/error.h"

lm_status lm_tokens_add(lm_tokens *t, lm_token id, lm_error *e)
{
    if (t->n == t->capacity) {
        size_t    capacity = t->capacity ? 2 * t->capacity : 64;
        lm_token *grown    = lm_realloc(t->ids, capacity * sizeof *grown);
        if (!grown)
            return lm_fail_memory(e, "token ids", capacity * sizeof *grown);
        t->ids      = grown;
        t->capacity = capacity;
    }
    t->ids[t->n++] = id;
    return LM_OK;
}

void lm_tokens_free(lm_tokens *t)
{
    lm_free(t->ids);
    *t = (lm_tokens){ 0 };
}

void lm_text_free(lm_text *t)
{
    lm_free(t->data);
    *t = (lm_text){ 0 };
}
