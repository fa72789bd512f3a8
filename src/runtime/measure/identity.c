/* identity.c - hash what decides the results of an engine. */
#include "runtime/measure/identity.h"

#include "runtime/engine/adapter.h"
#include "runtime/engine/save.h"

lm_status lm_identity_add(lm_blake2b *h, lm_engine *g, lm_error *e)
{
    lm_text   text   = { 0 };
    lm_status status = lm_save_bindings(g, &text, e);

    lm_engine_adapters_text(g, lm_engine_adapters_of(g, 0), &text);
    if (status == LM_OK && text.failed)
        status = lm_fail_memory(e, "identity", text.size);
    if (status == LM_OK)
        lm_blake2b_add(h, text.data, text.size);
    lm_text_free(&text);
    return status;
}
