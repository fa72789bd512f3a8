#include "cli/json_given.h"

#include "lamina/buffer.h"

json_t *lm_json_given(const char *text, size_t n, size_t flags, json_error_t *why)
{
    lm_text mended = { 0 };
    json_t *o = json_loadb(text, n, flags, why);

    if (!o)
        lm_text_add_mended_json(&mended, text, n);
    if (!o && !mended.failed && mended.data)
        o = json_loadb(mended.data, mended.size, flags, why);
    lm_text_free(&mended);
    return o;
}
