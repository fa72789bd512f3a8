/* meta.c - typed and bounded access to metadata, whatever its source. */
#include "formats/metasource.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *lm_meta_file(const lm_meta *m)
{
    return m->file;
}

bool lm_meta_get(const lm_meta *m, const char *key, lm_meta_value *out)
{
    return m->source->get(m, key, out);
}

bool lm_meta_has(const lm_meta *m, const char *key)
{
    lm_meta_value v;
    return lm_meta_get(m, key, &v) && v.kind != LM_META_NULL;
}

bool lm_meta_at(const lm_meta_value *array, uint64_t i, lm_meta_value *out)
{
    return array->kind == LM_META_ARRAY && i < array->a.n && array->a.owner->source->at(array, i, out);
}

bool lm_meta_member(const lm_meta_value *object, uint64_t i, lm_view *key, lm_meta_value *out)
{
    return object->kind == LM_META_OBJECT && i < object->a.n &&
           object->a.owner->source->member(object, i, key, out);
}

bool lm_meta_field(const lm_meta_value *object, const char *name, lm_meta_value *out)
{
    lm_meta_value v;
    lm_view       key;

    for (uint64_t i = 0; lm_meta_member(object, i, &key, &v); i++)
        if (lm_view_is(key, name)) {
            *out = v;
            return true;
        }
    return false;
}

size_t lm_meta_count(const lm_meta *m)
{
    return m->source->count(m);
}

bool lm_meta_entry(const lm_meta *m, size_t i, lm_view *key, lm_meta_value *out)
{
    return m->source->entry(m, i, key, out);
}

void lm_meta_free(lm_meta *m)
{
    if (m)
        m->source->free(m);
}

const char *lm_meta_kind_name(lm_meta_kind k)
{
    static const char *const names[] = {
        [LM_META_NULL] = "null",         [LM_META_BOOL] = "a boolean",   [LM_META_INT] = "an integer",
        [LM_META_UINT] = "an integer",   [LM_META_FLOAT] = "a number",   [LM_META_STRING] = "a string",
        [LM_META_ARRAY] = "an array",    [LM_META_OBJECT] = "an object",
    };
    return names[k];
}

__attribute__((format(printf, 4, 5)))
static lm_status wrong(const lm_meta *m, const char *key, lm_error *e, const char *format, ...)
{
    char    text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lm_status s = lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "%s", text);
    lm_fail_in(e, m->file);
    return s;
}

/* Get the value of a required key, which must be of one of the kinds in the mask. */
static lm_status require(const lm_meta *m, const char *key, unsigned kinds, const char *expected,
                         lm_meta_value *out, lm_error *e)
{
    lm_meta_value v;

    if (!lm_meta_get(m, key, &v) || v.kind == LM_META_NULL)
        return wrong(m, key, e, "missing, expected %s", expected);
    if (!(kinds & 1u << v.kind))
        return wrong(m, key, e, "expected %s, found %s", expected, lm_meta_kind_name(v.kind));
    *out = v;
    return LM_OK;
}

lm_status lm_meta_u64(const lm_meta *m, const char *key, uint64_t min, uint64_t max, uint64_t *out,
                      lm_error *e)
{
    lm_meta_value v;

    LM_TRY(require(m, key, 1u << LM_META_INT | 1u << LM_META_UINT, "an integer", &v, e));
    if (v.kind == LM_META_INT)
        return wrong(m, key, e, "%" PRId64 " is outside %" PRIu64 "...%" PRIu64, v.i, min, max);
    if (v.u < min || v.u > max)
        return wrong(m, key, e, "%" PRIu64 " is outside %" PRIu64 "...%" PRIu64, v.u, min, max);
    *out = v.u;
    return LM_OK;
}

lm_status lm_meta_u32(const lm_meta *m, const char *key, uint32_t min, uint32_t max, uint32_t *out,
                      lm_error *e)
{
    uint64_t v;

    LM_TRY(lm_meta_u64(m, key, min, max, &v, e));
    *out = (uint32_t)v;
    return LM_OK;
}

lm_status lm_meta_f64(const lm_meta *m, const char *key, double min, double max, double *out, lm_error *e)
{
    lm_meta_value v;
    double        f;

    LM_TRY(require(m, key, 1u << LM_META_INT | 1u << LM_META_UINT | 1u << LM_META_FLOAT, "a number", &v, e));
    f = v.kind == LM_META_INT ? (double)v.i : v.kind == LM_META_UINT ? (double)v.u : v.f;
    if (!isfinite(f))
        return wrong(m, key, e, "expected a finite number, found %g", f);
    if (f < min || f > max)
        return wrong(m, key, e, "%g is outside %g...%g", f, min, max);
    *out = f;
    return LM_OK;
}

lm_status lm_meta_bool(const lm_meta *m, const char *key, bool *out, lm_error *e)
{
    lm_meta_value v;

    LM_TRY(require(m, key, 1u << LM_META_BOOL, "a boolean", &v, e));
    *out = v.b;
    return LM_OK;
}

lm_status lm_meta_string(const lm_meta *m, const char *key, lm_view *out, lm_error *e)
{
    lm_meta_value v;

    LM_TRY(require(m, key, 1u << LM_META_STRING, "a string", &v, e));
    *out = v.s;
    return LM_OK;
}

lm_status lm_meta_array(const lm_meta *m, const char *key, uint64_t max, lm_meta_value *out, lm_error *e)
{
    lm_meta_value v;

    LM_TRY(require(m, key, 1u << LM_META_ARRAY, "an array", &v, e));
    if (v.a.n > max)
        return wrong(m, key, e, "%" PRIu64 " elements, at most %" PRIu64 " are allowed", v.a.n, max);
    *out = v;
    return LM_OK;
}
