/* exact.c - exact.h. */
#include "server/models/exact.h"

#include <string.h>

#include "base/json_exact.h"
#include "lamina/heap.h"

lm_status lm_json_exact(const json_t *o, const lm_text *wide, lm_text *out, lm_error *e)
{
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    lm_status status = text ? lm_text_add_exact_json(out, text, strlen(text), wide, e)
                            : lm_fail_memory(e, "the conversation", 0);

    lm_heap_free(text);
    return status;
}
