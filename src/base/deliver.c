/* deliver.c - append to a caller's text completely, or leave it unchanged. */
#include "base/error.h"
#include "base/str.h"

lm_status lm_text_append(lm_text *t, const void *data, size_t n, const char *what, lm_error *e)
{
    if (t->failed)
        return lm_fail_memory(e, what, 0);
    lm_text_add(t, data, n);
    if (!t->failed)
        return LM_OK;
    t->failed = false;
    return lm_fail_memory(e, what, n);
}

lm_status lm_text_deliver(lm_text *made, lm_status status, const char *what, lm_text *out, lm_error *e)
{
    if (status == LM_OK && made->failed)
        status = lm_fail_memory(e, what, 0);
    if (status == LM_OK && !out->data && !out->failed && made->data) {
        *out = *made;
        return LM_OK;
    }
    if (status == LM_OK)
        status = lm_text_append(out, made->data, made->size, what, e);
    lm_text_free(made);
    return status;
}
