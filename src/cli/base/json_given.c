/* json_given.c - parse and print JSON of users without losing digits of large integers. */
#include "cli/base/json_given.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_exact.h"

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

lm_status lm_json_print_given(const json_t *o, size_t flags, const lm_text *wide, lm_text *out, lm_error *e)
{
    char *text = json_dumps(o, flags);
    lm_status status = text && !wide->failed ? LM_OK : lm_fail_memory(e, "a JSON document", 0);

    if (status == LM_OK)
        status = lm_text_add_exact_json(out, text, strlen(text), wide, e);
    free(text);
    return status;
}

lm_status lm_json_print_as_written(const json_t *o, const lm_text *source, lm_text *out, lm_error *e)
{
    lm_text wide = { 0 };
    lm_status status;

    lm_text_add_wide_numbers(&wide, source->data, source->size);
    status = lm_json_print_given(o, JSON_COMPACT | JSON_PRESERVE_ORDER, &wide, out, e);
    lm_text_free(&wide);
    return status;
}
