/* flag_values.c - convert the value of a flag and store it in the options.
 *
 * Read lm_flags_set first: one case for each kind of flag. An error names the flag and the value; nothing is
 * stored then. Items of lists are in the store of the command, texts point to the value that was given. */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/textfile.h"
#include "cli/base/flags.h"
#include "cli/base/size.h"

static lm_status wrong(const lm_flag *f, const char *value, const char *expected, lm_error *e)
{
    return lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET, "\"%s\" is not %s", value, expected);
}

static lm_status read_number(const lm_flag *f, const char *value, bool whole, double *out, lm_error *e)
{
    char *end;
    double x = strtod(value, &end);

    if (whole && end > value && (*end == 'k' || *end == 'K' || *end == 'm' || *end == 'M') && !end[1])
        x *= *end == 'k' || *end == 'K' ? 1024 : 1024 * 1024;
    else if (end == value || *end)
        return wrong(f, value, "a number", e);
    if (isnan(x))
        return wrong(f, value, "a number", e);
    if (whole && x != floor(x))
        return wrong(f, value, "a whole number", e);
    if ((f->min != 0 || f->max != 0) && (x < f->min || x > f->max))
        return lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET,
                       whole ? "%s is outside %.0f ... %.0f" : "%s is outside %.10g ... %.10g", value, f->min,
                       f->max);
    *out = x;
    return LM_OK;
}

static lm_status read_integer(const lm_flag *f, const char *value, double min, double max, double *out,
                              lm_error *e)
{
    LM_TRY(read_number(f, value, true, out, e));
    if (*out < min || *out > max)
        return lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET, "%s is outside %.0f ... %.0f", value, min, max);
    return LM_OK;
}

/* Read an integer without read_number: a double cannot hold every 64-bit integer. */
static lm_status read_u64(const lm_flag *f, const char *value, uint64_t *out, lm_error *e)
{
    char *end;

    errno = 0;
    if (strcmp(value, "-1") == 0) {                      /* users write -1 for "any" */
        *out = UINT64_MAX;
        return LM_OK;
    }
    uint64_t x = strtoull(value, &end, 10);
    if (end == value || *end)
        return wrong(f, value, "a whole number", e);
    if (errno || strchr(value, '-') || x > INT64_MAX)
        return lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET, "%s is outside 0 ... %" PRId64, value, INT64_MAX);
    *out = x;
    return LM_OK;
}

static lm_status read_word(const lm_flag *f, const char *value, int *out, lm_error *e)
{
    const char *near;
    lm_text known = { 0 };

    for (int i = 0; f->words[i]; i++) {
        if (strcmp(f->words[i], value) == 0) {
            lm_text_free(&known);
            *out = i;
            return LM_OK;
        }
        lm_text_printf(&known, "%s%s", i ? ", " : "one of ", f->words[i]);
    }
    near = lm_nearest_word(value, f->words);
    wrong(f, value, known.failed ? f->value : known.data, e);
    lm_text_free(&known);
    if (near)
        lm_fail_hint(e, "did you mean %s?", near);
    return LM_USAGE;
}

static lm_status add_to_list(lm_cli *cli, lm_flag_list *list, const char *value, lm_error *e)
{
    const char **grown = lm_store_new(&cli->store, list->n + 2, const char *);

    if (!grown)
        return lm_fail_memory(e, "flags", (list->n + 2) * sizeof *grown);
    if (list->n)
        memcpy(grown, list->items, list->n * sizeof *grown);
    grown[list->n++] = value;
    list->items = grown;
    return LM_OK;
}

/* Check that a value which is part of a text is UTF-8. */
static lm_status check_text(const lm_flag *f, const char *value, lm_error *e)
{
    if (!f->value || strcmp(f->value, "TEXT") || lm_check_utf8(value, strlen(value), 0, NULL, e) == LM_OK)
        return LM_OK;
    return lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET, "is not UTF-8");
}

lm_status lm_flags_set(lm_cli *cli, const lm_flag *f, void *at, const char *value, lm_error *e)
{
    double x = 0;

    switch (f->kind) {
    case LM_FLAG_SWITCH:
        *(bool *)at = true;
        break;
    case LM_FLAG_INT:
        for (int i = 0; f->words && f->words[i]; i++)
            if (strcmp(f->words[i], value) == 0) {
                *(int32_t *)at = -2 - i;
                return LM_OK;
            }
        LM_TRY(read_integer(f, value, INT32_MIN, INT32_MAX, &x, e));
        *(int32_t *)at = (int32_t)x;
        break;
    case LM_FLAG_COUNT:
        LM_TRY(read_integer(f, value, 0, UINT32_MAX, &x, e));
        *(uint32_t *)at = (uint32_t)x;
        break;
    case LM_FLAG_I64:
        LM_TRY(read_integer(f, value, -0x1p53, 0x1p53, &x, e));
        *(int64_t *)at = (int64_t)x;
        break;
    case LM_FLAG_U64:
        LM_TRY(read_u64(f, value, at, e));
        break;
    case LM_FLAG_FLOAT:
        LM_TRY(read_number(f, value, false, &x, e));
        if (fabs(x) > (double)FLT_MAX)
            return wrong(f, value, "a number that a float holds", e);
        *(float *)at = (float)x;
        break;
    case LM_FLAG_DOUBLE:
        LM_TRY(read_number(f, value, false, at, e));
        break;
    case LM_FLAG_TEXT:
        if (!*value && f->min >= 0 && f->value && strcmp(f->value, "FILE") == 0)
            return wrong(f, value, "the name of a file", e);
        LM_TRY(check_text(f, value, e));
        *(const char **)at = value;
        break;
    case LM_FLAG_OUTPUT:
        if (!*value)
            return wrong(f, value, "the name of a file", e);
        *(const char **)at = value;
        break;
    case LM_FLAG_SIZE:
        LM_TRY(lm_read_size(f->name, value, at, e));
        break;
    case LM_FLAG_LIST:
        LM_TRY(check_text(f, value, e));
        if (!*value && f->min < 0)
            break;
        if (!*value)
            return lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET, "an empty value; needs %s", f->value);
        LM_TRY(add_to_list(cli, at, value, e));
        break;
    case LM_FLAG_WORD:
        LM_TRY(read_word(f, value, at, e));
        break;
    }
    return LM_OK;
}

/* Return the end of an item: the next comma outside brackets, which belongs to a pattern there ("{1,2}"). */
static const char *item_end(const char *at)
{
    for (int depth = 0; *at; at++) {
        if (*at == '\\' && at[1])
            at++;
        else if (strchr("([{", *at))
            depth++;
        else if (strchr(")]}", *at))
            depth -= depth > 0;
        else if (*at == ',' && !depth)
            break;
    }
    return at;
}

lm_status lm_flag_split(lm_cli *cli, const char *flag, lm_flag_list *list, lm_error *e)
{
    size_t n = 0, max = 0;

    for (size_t i = 0; i < list->n; i++)
        for (const char *at = list->items[i]; *at; at++)
            max += *at == ',';
    const char **items = lm_store_new(&cli->store, list->n + max + 1, const char *);
    if (!items)
        return lm_fail_memory(e, flag, max);
    for (size_t i = 0; i < list->n; i++) {
        const char *at = list->items[i], *end = access(at, F_OK) == 0 ? at + strlen(at) : item_end(at);
        for (;; at = end + 1, end = item_end(at)) {
            if (end == at && *list->items[i])
                return lm_fail(e, LM_USAGE, flag, LM_NO_OFFSET, "\"%s\" has an empty item", list->items[i]);
            if (!(items[n++] = lm_store_strndup(&cli->store, at, (size_t)(end - at))))
                return lm_fail_memory(e, flag, strlen(at));
            if (!*end)
                break;
        }
    }
    *list = (lm_flag_list){ .items = items, .n = n };
    return LM_OK;
}
