/* widenum.c - scan a JSON text for numbers that parsers cannot hold, find them again by the double that a
 * parser made of them, and write them as they were. */
#include "base/widenum.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json_exact.h"
#include "base/number.h"

#define TOO_WIDE 9223372036854775808.0               /* 2^63 */

/* ---- scanning ---- */

static bool in_number(char c)
{
    return (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-' || c == 'e' || c == 'E';
}

/* Return the position after the string that begins at `at`. */
static size_t skip_string(const char *json, size_t n, size_t at)
{
    for (at++; at < n && json[at] != '"'; at++)
        at += json[at] == '\\';
    return at < n ? at + 1 : n;
}

/* Return the nearest double, as lm_text_add_mended_json writes it. */
static double nearest(const char *text, size_t n)
{
    char digits[512];
    size_t kept = n < sizeof digits ? n : sizeof digits - 1;
    double x;

    memcpy(digits, text, kept);
    digits[kept] = 0;
    x = n > kept ? (double)INFINITY : lm_read_double(digits, NULL);
    return isinf(x) ? (*text == '-' ? -DBL_MAX : DBL_MAX) : x;
}

/* Return whether a number may be beyond 64 bits: it has an exponent, or that many digits. Others need not be
 * converted. */
static bool may_be_wide(const char *text, size_t n)
{
    size_t digits = 0, exponent = 0;

    while (digits < n && (text[digits] == '-' || (text[digits] >= '0' && text[digits] <= '9')))
        digits++;
    if (digits >= 19)
        return true;
    while (exponent < n && (text[exponent] | 0x20) != 'e')
        exponent++;
    return exponent < n;
}

/* Find the next number at or after `*at`, and move *at past it; false: none. */
static bool next_number(const char *json, size_t n, size_t *at, lm_wide_number *out)
{
    while (*at < n) {
        size_t from = *at;
        if (json[from] == '"') {
            *at = skip_string(json, n, from);
        } else if (json[from] == '-' || (json[from] >= '0' && json[from] <= '9')) {
            while (*at < n && in_number(json[*at]))
                ++*at;
            bool wide = may_be_wide(json + from, *at - from);
            *out = (lm_wide_number){ wide ? nearest(json + from, *at - from) : 0, json + from, *at - from };
            return true;
        } else {
            ++*at;
        }
    }
    return false;
}

/* ---- the list ---- */

static int by_value(const void *a, const void *b)
{
    double x = ((const lm_wide_number *)a)->x, y = ((const lm_wide_number *)b)->x;

    return (x > y) - (x < y);
}

static bool add(lm_wide *w, lm_wide_number number)
{
    if (w->n == w->capacity) {
        size_t more = w->capacity ? 2 * w->capacity : 16;
        lm_wide_number *grown = lm_realloc(w->all, more * sizeof *grown);
        if (!grown)
            return false;
        w->all = grown;
        w->capacity = more;
    }
    w->all[w->n++] = number;
    return true;
}

lm_status lm_wide_read(const char *json, size_t n, lm_wide *out, lm_error *e)
{
    lm_wide w = { 0 };
    lm_wide_number one;
    size_t kept = 0;

    *out = (lm_wide){ 0 };
    for (size_t at = 0; next_number(json, n, &at, &one);)
        if (fabs(one.x) >= TOO_WIDE && !add(&w, one)) {
            lm_wide_free(&w);
            return lm_fail_memory(e, "the numbers of a document", n);
        }
    if (w.n)
        qsort(w.all, w.n, sizeof *w.all, by_value);
    for (size_t i = 0; i < w.n; i++) {
        const lm_wide_number *last = kept ? w.all + kept - 1 : NULL;
        if (last && last->x == w.all[i].x) {
            if (last->n == w.all[i].n && memcmp(last->text, w.all[i].text, last->n) == 0)
                continue;
            lm_wide_free(&w);
            return lm_fail(e, LM_USAGE, "numbers", LM_NO_OFFSET,
                           "two integers beyond 64 bits are equal when rounded to a double");
        }
        w.all[kept++] = w.all[i];
    }
    w.n = kept;
    *out = w;
    return LM_OK;
}

void lm_wide_free(lm_wide *w)
{
    lm_free(w->all);
    *w = (lm_wide){ 0 };
}

const lm_wide_number *lm_wide_find(const lm_wide *w, double x)
{
    lm_wide_number key = { .x = x };

    return w->n && fabs(x) >= TOO_WIDE ? bsearch(&key, w->all, w->n, sizeof *w->all, by_value) : NULL;
}

bool lm_wide_is_integer(const lm_wide_number *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (strchr(".eE", w->text[i]))
            return false;
    return true;
}

/* ---- json_exact.h ---- */

void lm_text_add_wide_numbers(lm_text *t, const char *json, size_t n)
{
    lm_wide_number one;

    for (size_t at = 0; t && json && next_number(json, n, &at, &one);)
        if (fabs(one.x) >= TOO_WIDE) {
            lm_text_add(t, one.text, one.n);
            lm_text_add_char(t, '\n');
        }
}

lm_status lm_text_add_exact_json(lm_text *t, const char *json, size_t n, const lm_text *wide, lm_error *e)
{
    LM_REQUIRE(e, t && json);
    lm_wide w;
    lm_wide_number one;
    size_t done = 0;
    lm_status status = lm_wide_read(wide && wide->data ? wide->data : "", wide ? wide->size : 0, &w, e);

    if (status != LM_OK)
        return status;
    for (size_t at = 0; w.n && next_number(json, n, &at, &one);) {
        const lm_wide_number *found = lm_wide_find(&w, one.x);
        if (!found)
            continue;
        lm_text_add(t, json + done, (size_t)(one.text - json) - done);
        lm_text_add(t, found->text, found->n);
        done = at;
    }
    lm_text_add(t, json + done, n - done);
    lm_wide_free(&w);
    return t->failed ? lm_fail_memory(e, "a JSON document", n) : LM_OK;
}
