/* fields.c - fields.h: one pass over the members of a body, each of which is checked by its descriptor and
 * stored at its offset. Read from lm_fields_read upwards. Nothing is allocated except warnings. Threads: a
 * worker. */
#include "server/ask/fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WARNINGS = 64 };

json_t *lm_field_float(float value)
{
    char text[32] = "";

    for (int digits = 6; digits <= 9 && (digits == 6 || strtof(text, NULL) != value); digits++)
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
    return json_real(strtod(text, NULL));
}

const char *lm_field_type(const lm_field *f)
{
    switch (f->kind) {
    case LM_FIELD_BOOL:   return "boolean";
    case LM_FIELD_I32:
    case LM_FIELD_U32:
    case LM_FIELD_I64:
    case LM_FIELD_SEED:   return "integer";
    case LM_FIELD_FLOAT:
    case LM_FIELD_DOUBLE: return "number";
    case LM_FIELD_STRING:
    case LM_FIELD_WORD:   return "string";
    case LM_FIELD_ARRAY:  return "array";
    case LM_FIELD_OBJECT: return "object";
    case LM_FIELD_ANY:
    case LM_FIELD_IGNORED:
    case LM_FIELD_REFUSED:
        break;
    }
    return NULL;
}

static lm_status wrong_type(const lm_field *f, const json_t *value, lm_error *e)
{
    static const char *const names[] = { "an object", "an array", "a string", "an integer",
                                         "a number",  "true",     "false",    "null" };
    const char *want = lm_field_type(f);

    return lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET, "'%s' must be %s %s, not %s", f->name,
                   strchr("aio", *want) ? "an" : "a", want, names[json_typeof(value)]);
}

/* ---- numbers ---- */

/* Whether a number is whole, even if it is written as 1.0. */
static bool is_whole(const json_t *value, double *out)
{
    *out = json_number_value(value);
    return json_is_integer(value) || (json_is_real(value) && *out == floor(*out));
}

/* The range of a field that has none: that of its type. */
static void range_of_type(lm_field_kind kind, double *min, double *max)
{
    switch (kind) {
    case LM_FIELD_U32: *min = 0, *max = (double)UINT32_MAX; break;
    case LM_FIELD_I32: *min = (double)INT32_MIN, *max = (double)INT32_MAX; break;
    default:           *min = -(double)INFINITY, *max = (double)INFINITY;
    }
}

static lm_status read_number(const lm_field *f, const json_t *value, void *at, lm_error *e)
{
    bool real = f->kind == LM_FIELD_FLOAT || f->kind == LM_FIELD_DOUBLE, wide;
    double x;
    int64_t i;

    if (!json_is_number(value) || (!real && !is_whole(value, &x)))
        return wrong_type(f, value, e);
    x = json_number_value(value);
    /* No int64_t: JSON integers that fit are no reals. */
    wide = !json_is_integer(value) && !(fabs(x) < 0x1p63);
    i = json_is_integer(value) ? (int64_t)json_integer_value(value) : wide ? 0 : (int64_t)x;
    double min = f->min, max = f->max;
    if (min == 0 && max == 0)
        range_of_type(f->kind, &min, &max);
    if (!(x >= min && x <= max) || (wide && !real) || !isfinite(x) ||
        (f->kind == LM_FIELD_FLOAT && fabs(x) > 3.4e38))
        return lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET, "'%s' is %.10g; it must be from %.10g to %.10g",
                       f->name, x, min, max);
    switch (f->kind) {
    case LM_FIELD_I32:    *(int32_t *)at = (int32_t)i; break;
    case LM_FIELD_U32:    *(uint32_t *)at = (uint32_t)i; break;
    case LM_FIELD_I64:    *(int64_t *)at = i; break;
    case LM_FIELD_FLOAT:  *(float *)at = (float)x; break;
    case LM_FIELD_DOUBLE: *(double *)at = x; break;
    default:
        if (i >= 0)
            *(uint64_t *)at = (uint64_t)i;
    }
    return LM_OK;
}

/* ---- other kinds ---- */

static lm_status read_word(const lm_field *f, const json_t *value, int *at, lm_error *e)
{
    lm_text list = { 0 };

    if (!json_is_string(value))
        return wrong_type(f, value, e);
    for (int i = 0; f->words[i]; i++) {
        if (strcmp(f->words[i], json_string_value(value)) == 0) {
            *at = i;
            lm_text_free(&list);
            return LM_OK;
        }
        lm_text_printf(&list, "%s%s", i ? ", " : "", f->words[i]);
    }
    lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET, "'%s' has the unknown value \"%.40s\": expected one of %s",
            f->name, json_string_value(value), list.data ? list.data : "none");
    lm_text_free(&list);
    return LM_USAGE;
}

/* Whether the value is an empty string, which counts as missing. */
static bool is_empty(const lm_field *f, const json_t *value)
{
    return (f->kind == LM_FIELD_STRING || f->kind == LM_FIELD_WORD) && json_is_string(value) &&
           !json_string_length(value);
}

/* Whether the value requests the default behaviour: one of `words`, alone or as the only element of an
 * array. */
static bool is_default_word(const lm_field *f, const json_t *value)
{
    const char *word = json_string_value(json_array_size(value) == 1 ? json_array_get(value, 0) : value);

    if (json_is_boolean(value))
        word = json_is_true(value) ? "true" : "false";
    for (size_t i = 0; word && f->words[i]; i++)
        if (strcmp(f->words[i], word) == 0)
            return true;
    return false;
}

static bool is_default(const lm_field *f, const json_t *value)
{
    if (f->words && is_default_word(f, value))
        return true;
    if (f->words && json_is_boolean(value) && strcmp(f->words[0], "true") == 0)
        return false;
    if (json_is_false(value) || (json_is_array(value) && !json_array_size(value)) ||
        (json_is_object(value) && !json_object_size(value)))
        return true;
    if (json_is_string(value))
        return !json_string_length(value);
    return json_is_number(value) && json_number_value(value) == f->min;
}

/* JSON has no half characters, which formats may leave where they cut a text. */
void lm_field_warn(json_t *warnings, const char *format, ...)
{
    char cut[512], text[640];
    va_list list;

    va_start(list, format);
    vsnprintf(cut, sizeof cut, format, list);
    va_end(list);
    lm_escape(text, sizeof text, cut);
    json_array_append_new(warnings, json_string(text));
}

void lm_field_warn_members(json_t *warnings, const char *field, json_t *o, const char *known)
{
    const char *name, *at;
    json_t *value;

    json_object_foreach(o, name, value) {
        size_t n = strlen(name);
        for (at = n ? strstr(known, name) : NULL;
             at && ((at > known && at[-1] != ' ') || (at[n] && at[n] != ' '));)
            at = strstr(at + 1, name);
        if (!at && !json_is_null(value) && json_array_size(warnings) < MAX_WARNINGS)
            lm_field_warn(warnings, "%s: %.300s: unknown field, ignored", field, name);
    }
}

static lm_status read_field(const lm_field *f, json_t *value, char *at, json_t *warnings, lm_error *e)
{
    switch (f->kind) {
    case LM_FIELD_BOOL:
        if (!json_is_boolean(value))
            return wrong_type(f, value, e);
        *(bool *)at = json_is_true(value);
        return LM_OK;
    case LM_FIELD_STRING:
        if (!json_is_string(value))
            return wrong_type(f, value, e);
        if (strlen(json_string_value(value)) != json_string_length(value))
            return lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET, "'%s' contains a NUL character", f->name);
        *(const char **)at = json_string_value(value);
        return LM_OK;
    case LM_FIELD_WORD:
        return read_word(f, value, (int *)at, e);
    case LM_FIELD_ARRAY:
    case LM_FIELD_OBJECT:
        if (f->kind == LM_FIELD_ARRAY ? !json_is_array(value) : !json_is_object(value))
            return wrong_type(f, value, e);
        *(json_t **)at = value;
        return LM_OK;
    case LM_FIELD_ANY:
        *(json_t **)at = value;
        return LM_OK;
    case LM_FIELD_IGNORED:
        lm_field_warn(warnings, "%s: accepted and has no effect", f->name);
        return LM_OK;
    case LM_FIELD_REFUSED:
        return is_default(f, value) ? LM_OK
                                      : lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET,
                                                "'%s' is not supported: %s", f->name, f->help);
    default:
        return read_number(f, value, at, e);
    }
}

static const lm_field *find(const lm_field_group *groups, const char *name, size_t *base)
{
    for (; groups && groups->fields; groups++)
        for (const lm_field *f = groups->fields; f->name; f++)
            if (strcmp(f->name, name) == 0) {
                *base = groups->base;
                return f;
            }
    return NULL;
}

/* Reject two names of one value with different contents: neither is ignored. */
static lm_status check_twin(const lm_field_group *groups, const lm_field *f, size_t base, const json_t *body,
                            const json_t *value, lm_error *e)
{
    if (f->kind == LM_FIELD_IGNORED || f->kind == LM_FIELD_REFUSED)
        return LM_OK;
    for (; groups->fields; groups++)
        for (const lm_field *g = groups->fields; g->name; g++) {
            const json_t *other = g != f && groups->base + g->offset == base + f->offset &&
                                          g->kind != LM_FIELD_IGNORED && g->kind != LM_FIELD_REFUSED
                                      ? json_object_get(body, g->name)
                                      : NULL;
            if (other && !json_is_null(other) && !is_empty(g, other) && !json_equal(other, value))
                return lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET,
                               "'%s' and '%s' have the same meaning and different values", f->name, g->name);
        }
    return LM_OK;
}

/* Whether the name of an unknown field suggests that it constrains the output: such a field must not be
 * ignored. */
static bool constrains(const char *name)
{
    static const char *const parts[] = {
        "guided", "structured", "structural",    "constrain",       "grammar",       "regex", "ebnf",
        "schema", "bad_words",  "allowed_token", "response_format", "output_format", "json",  NULL
    };

    for (size_t i = 0; parts[i]; i++)
        if (strstr(name, parts[i]))
            return true;
    return strcmp(name, "format") == 0 || strcmp(name, "output_config") == 0;
}

lm_status lm_fields_read(const lm_field_group *groups, json_t *body, void *values, json_t *warnings,
                         lm_error *e)
{
    const char *name;
    json_t *value;
    size_t base = 0;
    void *next;

    json_object_foreach_safe(body, next, name, value) {
        const lm_field *f = find(groups, name, &base);
        if (json_is_null(value) || (f && is_empty(f, value)))
            continue;
        if (!f && constrains(name))
            return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET,
                           "'%s' is not supported, and fields that constrain the output are not ignored",
                           name);
        if (f) {
            LM_TRY(check_twin(groups, f, base, body, value, e));
            LM_TRY(read_field(f, value, (char *)values + base + f->offset, warnings, e));
        } else if (json_array_size(warnings) < MAX_WARNINGS) {
            lm_field_warn(warnings, "%.300s: unknown field, ignored", name);
        }
        if (!f)
            json_object_del(body, name);                 /* frees its memory early */
    }
    for (const lm_field_group *g = groups; g && g->fields; g++)
        for (const lm_field *f = g->fields; f->name; f++)
            if (f->required && (!(value = json_object_get(body, f->name)) || json_is_null(value)))
                return lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET, "'%s' is required", f->name);
    return LM_OK;
}
