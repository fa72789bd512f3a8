#include "server/models/exact.h"

#include <string.h>

#include "lamina/heap.h"

lm_status lm_json_exact(const json_t *o, const lm_text *wide, lm_text *out, lm_error *e)
{
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    bool exact = text && lm_text_add_exact_json(out, text, strlen(text), wide);

    lm_heap_give(text);
    if (!text || out->failed)
        return lm_fail_memory(e, "the conversation", 0);
    return exact ? LM_OK : lm_fail(e, LM_USAGE, "messages", LM_NO_OFFSET,
                                   "two integers beyond 64 bits are too close to each other to be told apart");
}
