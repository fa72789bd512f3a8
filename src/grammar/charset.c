/* charset.c - sets of characters and their UTF-8. */
#include "grammar/charset.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

enum { FIRST_SURROGATE = 0xD800, LAST_SURROGATE = 0xDFFF };

void lm_charset_add(lm_charset *s, uint32_t first, uint32_t last)
{
    if (s->n == s->capacity) {
        uint32_t  more = s->capacity ? s->capacity * 2 : 16;
        lm_chars *ranges = lm_realloc(s->ranges, more * sizeof *ranges);
        if (!ranges) {
            s->failed = true;
            return;
        }
        s->ranges   = ranges;
        s->capacity = more;
    }
    if (first <= last)
        s->ranges[s->n++] = (lm_chars){ first, last };
}

void lm_charset_add_set(lm_charset *s, const lm_charset *more)
{
    for (uint32_t i = 0; i < more->n; i++)
        lm_charset_add(s, more->ranges[i].first, more->ranges[i].last);
    s->failed |= more->failed;
}

static int rising(const void *a, const void *b)
{
    const lm_chars *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

/* Sort the ranges and join those that touch. */
static void join(lm_charset *s)
{
    uint32_t n = 0;

    if (s->n)
        qsort(s->ranges, s->n, sizeof *s->ranges, rising);
    for (uint32_t i = 0; i < s->n; i++) {
        if (n && s->ranges[i].first <= s->ranges[n - 1].last + 1) {
            if (s->ranges[i].last > s->ranges[n - 1].last)
                s->ranges[n - 1].last = s->ranges[i].last;
        } else {
            s->ranges[n++] = s->ranges[i];
        }
    }
    s->n = n;
}

/* Return the complement of a joined set. */
static lm_charset others(const lm_charset *s)
{
    lm_charset out = { .failed = s->failed };
    uint32_t   at = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        if (s->ranges[i].first > at)
            lm_charset_add(&out, at, s->ranges[i].first - 1);
        at = s->ranges[i].last + 1;
    }
    if (at <= LM_LAST_CHARACTER)
        lm_charset_add(&out, at, LM_LAST_CHARACTER);
    return out;
}

void lm_charset_normalize(lm_charset *s, bool negated)
{
    lm_charset out;

    join(s);
    if (!negated) {
        out = others(s);
        lm_charset_free(s);
        *s = out;
    }
    lm_charset_add(s, FIRST_SURROGATE, LAST_SURROGATE);  /* surrogates are not characters */
    join(s);
    out = others(s);
    lm_charset_free(s);
    *s = out;
}

void lm_charset_free(lm_charset *s)
{
    lm_free(s->ranges);
    *s = (lm_charset){ 0 };
}

/* ---- UTF-8 ---- */

/* Return the UTF-8 language of a range whose ends have `n` bytes each. The range is split where continuation
 * bytes do not cover all values (as Thompson's and RE2's compilers do). */
static lm_expr_id range_utf8(lm_terms *p, const uint8_t *lo, const uint8_t *hi, unsigned n)
{
    static const uint8_t min[3] = { 0x80, 0x80, 0x80 }, max[3] = { 0xBF, 0xBF, 0xBF };

    if (n == 1)
        return lm_byte_range(p, lo[0], hi[0]);
    if (lo[0] == hi[0])
        return lm_cat(p, lm_byte_range(p, lo[0], lo[0]), range_utf8(p, lo + 1, hi + 1, n - 1));
    lm_expr_id out = LM_NOTHING;
    unsigned from = lo[0], to = hi[0];
    if (memcmp(lo + 1, min, n - 1) != 0) {
        out = lm_cat(p, lm_byte_range(p, from, from), range_utf8(p, lo + 1, max, n - 1));
        from++;
    }
    if (memcmp(hi + 1, max, n - 1) != 0) {
        out = lm_alt(p, out, lm_cat(p, lm_byte_range(p, to, to), range_utf8(p, min, hi + 1, n - 1)));
        to--;
    }
    if (from <= to)
        out = lm_alt(p, out, lm_cat(p, lm_byte_range(p, from, to), range_utf8(p, min, max, n - 1)));
    return out;
}

static lm_expr_id characters(lm_terms *p, uint32_t first, uint32_t last)
{
    static const uint32_t ends[] = { 0x7F, 0x7FF, 0xFFFF, LM_LAST_CHARACTER };
    lm_expr_id out = LM_NOTHING;

    for (unsigned i = 0; i < 4 && first <= last; i++) {
        if (first > ends[i])
            continue;
        uint32_t to = last < ends[i] ? last : ends[i];
        char     lo[4], hi[4];
        lm_utf8_encode(first, lo);
        lm_utf8_encode(to, hi);
        out   = lm_alt(p, out, range_utf8(p, (const uint8_t *)lo, (const uint8_t *)hi, i + 1));
        first = to + 1;
    }
    return out;
}

lm_expr_id lm_charset_utf8(lm_terms *p, const lm_charset *s)
{
    lm_byte_set ascii = { { 0 } };
    lm_expr_id  out = LM_NOTHING;

    if (s->failed)
        lm_terms_fail(p, LM_NO_MEMORY, NULL);
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t first = s->ranges[i].first, last = s->ranges[i].last;
        if (first < 0x80)
            lm_byte_set_add(&ascii, first, last < 0x7F ? last : 0x7F);
        if (last >= 0x80)
            out = lm_alt(p, out, characters(p, first < 0x80 ? 0x80 : first, last));
    }
    return lm_alt(p, lm_bytes(p, &ascii), out);
}

lm_expr_id lm_any_character(lm_terms *p)
{
    lm_charset all = { 0 };

    lm_charset_normalize(&all, true);
    lm_expr_id n = lm_charset_utf8(p, &all);
    lm_charset_free(&all);
    return n;
}
