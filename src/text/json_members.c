/* json_members.c - read and check jansson values. */
#include "text/json_members.h"

#include <math.h>
#include <string.h>

lm_status lm_document_parse(lm_view text, const char *file, json_t **out, lm_error *e)
{
    json_error_t why;

    /* Read integers as reals: model_max_length is often 10^30, which jansson rejects as an integer. */
    *out = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL,
                      &why);
    if (*out)
        return LM_OK;
    return lm_fail(e, LM_BAD_MODEL, file, why.position, "line %d: %s", why.line, why.text);
}

lm_status lm_member_wrong(const char *where, const char *key, const char *expected, lm_error *e)
{
    return lm_fail(e, LM_BAD_MODEL, where, LM_NO_OFFSET, "'%s' is not %s", key, expected);
}

/* Return a member; NULL if absent or null. */
static const json_t *member(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return json_is_null(v) ? NULL : v;
}

lm_status lm_member_bool(const json_t *o, const char *where, const char *key, bool absent, bool *out,
                         lm_error *e)
{
    const json_t *v = member(o, key);

    if (v && !json_is_boolean(v))
        return lm_member_wrong(where, key, "true or false", e);
    *out = v ? json_is_true(v) : absent;
    return LM_OK;
}

lm_status lm_member_text(const json_t *o, const char *where, const char *key, lm_view *out, lm_error *e)
{
    const json_t *v = member(o, key);

    if (v && !json_is_string(v))
        return lm_member_wrong(where, key, "a string", e);
    *out = v ? (lm_view){ json_string_value(v), json_string_length(v) } : (lm_view){ 0 };
    return LM_OK;
}

bool lm_whole_number(const json_t *v, uint32_t max, uint32_t *out)
{
    double x = json_is_real(v) ? json_real_value(v) : -1;

    if (!(x >= 0 && x <= max) || x != floor(x))
        return false;
    *out = (uint32_t)x;
    return true;
}

lm_status lm_member_count(const json_t *o, const char *where, const char *key, uint32_t absent, uint32_t *out,
                          lm_error *e)
{
    const json_t *v = member(o, key);

    *out = absent;
    if (v && !lm_whole_number(v, INT32_MAX, out))
        return lm_member_wrong(where, key, "an integer from 0 to 2147483647", e);
    return LM_OK;
}

lm_status lm_member_array(const json_t *o, const char *where, const char *key, const json_t **out,
                          lm_error *e)
{
    const json_t *v = member(o, key);

    if (v && !json_is_array(v))
        return lm_member_wrong(where, key, "an array", e);
    *out = v;
    return LM_OK;
}

lm_status lm_member_object(const json_t *o, const char *where, const char *key, const json_t **out,
                           lm_error *e)
{
    const json_t *v = member(o, key);

    if (v && !json_is_object(v))
        return lm_member_wrong(where, key, "an object", e);
    *out = v;
    return LM_OK;
}

const char *lm_member_type(const json_t *o)
{
    const json_t *v = json_object_get(o, "type");

    return json_is_string(v) ? json_string_value(v) : "";
}
