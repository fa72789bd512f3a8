/* switches.c - members of data records that say what is trained, and members that are not used. */
#include <string.h>

#include "train/records.h"

size_t lm_record_common(const lm_tokens *a, const lm_tokens *b)
{
    size_t n = 0;

    while (n < a->n && n < b->n && a->ids[n] == b->ids[n])
        n++;
    return n;
}

/* Members that say whether a message or a record is trained, in the formats of OpenAI, axolotl, ms-swift and
 * torchtune. */
static const struct { const char *name; bool off; } switches[] = {
    { "weight", false }, { "train", false }, { "training", false }, { "loss", false }, { "masked", true },
};

enum { SWITCHES = sizeof switches / sizeof *switches };

bool lm_record_is_switch(const char *name)
{
    for (size_t i = 0; i < SWITCHES; i++)
        if (strcmp(name, switches[i].name) == 0)
            return true;
    return false;
}

lm_status lm_record_trained(lm_record_reader *r, const json_t *object, bool *trained)
{
    bool any = false;

    for (size_t i = 0; i < SWITCHES; i++) {
        const json_t *value = json_object_get(object, switches[i].name);
        double        x = json_is_number(value) ? json_number_value(value) : json_is_true(value);
        if (!value || json_is_null(value))
            continue;
        if (!json_is_boolean(value) && !(json_is_number(value) && (x == 0 || x == 1)))
            return lm_fail(r->e, LM_USAGE, switches[i].name, LM_NO_OFFSET,
                           "must be 0 or 1, or false or true: a part of a loss is not supported");
        bool on = (x != 0) != switches[i].off;
        if (any && on != *trained)
            return lm_fail(r->e, LM_USAGE, switches[i].name, LM_NO_OFFSET, "contradicts another member");
        *trained = on;
        any      = true;
    }
    return LM_OK;
}

lm_status lm_record_unused(lm_record_reader *r, const char *name)
{
    static const char *const parts[] = { "weight", "mask", "train", "loss", "label", "ignore", "tool", "function",
                                         "history", "suffix", "image", "audio", "video", "system", "prefix" };

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i]))
            return lm_fail(r->e, LM_USAGE, NULL, LM_NO_OFFSET,
                           "\"%.60s\" cannot be used here; remove it, or use a form that has it", name);
    r->unused = r->unused ? r->unused : json_object();
    json_object_set_new(r->unused, name, json_true());
    return LM_OK;
}
