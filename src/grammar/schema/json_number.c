/* json_number.c - numbers within bounds, and multiples, as languages of digits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/number.h"
#include "grammar/explore.h"
#include "grammar/schema/schema.h"

enum { MAX_DIGITS = 400, USUAL_DIGITS = 16, MAX_RULES = 20000 };

/* The digits of a non-negative number: no leading zeros (except a single 0), no trailing zeros. */
typedef struct decimal {
    char whole[MAX_DIGITS], part[MAX_DIGITS];
    uint32_t n_whole, n_part;
    bool open;
} decimal;

static void to_decimal(double x, bool open, decimal *d)
{
    char        text[32], digits[32];
    const char *e;
    int         n = 0, point = 0, power = 0;
    bool        seen = false;

    lm_number_text(text, fabs(x));
    e = strpbrk(text, "eE");
    if (e)
        power = (int)strtol(e + 1, NULL, 10);
    for (const char *c = text; *c && c != e; c++) {
        if (*c == '.')
            seen = true;
        else {
            digits[n++] = *c;
            point += !seen;
        }
    }
    point += power;
    *d = (decimal){ .open = open };
    for (int i = 0; i < point && d->n_whole < MAX_DIGITS - 1; i++)
        if (d->n_whole || (i < n && digits[i] != '0'))
            d->whole[d->n_whole++] = i < n ? digits[i] : '0';
    if (d->n_whole == 0)
        d->whole[d->n_whole++] = '0';
    for (int i = point; i < n && d->n_part < MAX_DIGITS - 1; i++)
        d->part[d->n_part++] = i < 0 ? '0' : digits[i];
    while (d->n_part && d->part[d->n_part - 1] == '0')
        d->n_part--;
}

typedef struct range {
    lm_terms       *p;
    const decimal *lo, *hi;          /* hi NULL: none */
    uint32_t       n;                /* digits before the point */
    uint32_t       max_part;         /* digits after the point */
    bool           integer;
} range;

static lm_expr_id digits(lm_terms *p, uint32_t min, uint32_t max)
{
    return lm_repeat(p, lm_byte_range(p, '0', '9'), min, max);
}

/* Return whether the number may end after `j` digits behind the point. `lo`, `hi`: its digits are equal to
 * those of this bound so far. */
static bool may_end(const range *r, uint32_t j, bool lo, bool hi)
{
    if (lo && (j < r->lo->n_part || r->lo->open))
        return false;
    return !hi || j < r->hi->n_part || !r->hi->open;
}

typedef lm_expr_id digits_after(const range *r, uint32_t n, bool lo, bool hi);
static digits_after part_digits;

/* Return the language of what follows `j` digits behind the point. */
static lm_expr_id after_part(const range *r, uint32_t j, bool lo, bool hi)
{
    lm_expr_id end = may_end(r, j, lo, hi) ? LM_EMPTY_TEXT : LM_NOTHING;

    if (!lo && !hi)
        return digits(r->p, 0, r->max_part > j ? r->max_part - j : 0);
    return j < r->max_part ? lm_alt(r->p, end, part_digits(r, j, lo, hi)) : end;
}

/* Return the language of a digit between two digits and of what follows it. `next` receives whether the
 * number still equals each bound. */
static lm_expr_id one_digit(const range *r, uint32_t i, char from, char to, bool lo, bool hi,
                            digits_after *next)
{
    lm_terms *p = r->p;
    lm_expr_id out = LM_NOTHING;

    if (from > to)
        return out;
    if (lo || hi) {
        if (lo)
            out = lm_cat(p, lm_byte_range(p, (unsigned char)from, (unsigned char)from),
                         next(r, i + 1, true, hi && from == to));
        if (hi && !(lo && from == to))
            out = lm_alt(p, out,
                         lm_cat(p, lm_byte_range(p, (unsigned char)to, (unsigned char)to),
                                next(r, i + 1, false, true)));
        from = (char)(from + lo);
        to   = (char)(to - hi);
    }
    if (from <= to)
        out = lm_alt(p, out,
                     lm_cat(p, lm_byte_range(p, (unsigned char)from, (unsigned char)to),
                            next(r, i + 1, false, false)));
    return out;
}

static lm_expr_id part_digits(const range *r, uint32_t j, bool lo, bool hi)
{
    char from = lo && j < r->lo->n_part ? r->lo->part[j] : '0',
         to = hi ? (j < r->hi->n_part ? r->hi->part[j] : '0') : '9';

    return one_digit(r, j, from, to, lo, hi, after_part);
}

static lm_expr_id whole_digits(const range *r, uint32_t i, bool lo, bool hi)
{
    lm_terms *p = r->p;

    if (i == r->n) {
        lm_expr_id end = may_end(r, 0, lo, hi) ? LM_EMPTY_TEXT : LM_NOTHING;
        return r->integer ? end : lm_alt(p, end, lm_cat(p, lm_word(p, "."), part_digits(r, 0, lo, hi)));
    }
    char from = lo ? r->lo->whole[i] : i == 0 && r->n > 1 ? '1' : '0', to = hi ? r->hi->whole[i] : '9';
    if (!lo && !hi && i > 0) {                           /* the bounds no longer matter */
        lm_expr_id rest = whole_digits(r, r->n, false, false);
        return lm_cat(p, digits(p, r->n - i, r->n - i), rest);
    }
    return one_digit(r, i, from, to, lo, hi, whole_digits);
}

/* Return the language of numbers without a sign between two non-negative bounds. */
static lm_expr_id between(lm_terms *p, const decimal *lo, const decimal *hi, bool integer)
{
    range   r = { .p = p, .lo = lo, .hi = hi, .integer = integer, .max_part = USUAL_DIGITS };
    lm_expr_id out = LM_NOTHING;

    if (lo->n_part + 2 > r.max_part)
        r.max_part = lo->n_part + 2;
    if (hi && hi->n_part + 2 > r.max_part)
        r.max_part = hi->n_part + 2;
    uint32_t longest = lo->n_whole > USUAL_DIGITS ? lo->n_whole : USUAL_DIGITS;
    if (hi && hi->n_whole < longest)
        longest = hi->n_whole;
    for (r.n = lo->n_whole; r.n <= longest; r.n++)
        out = lm_alt(p, out, whole_digits(&r, 0, r.n == lo->n_whole, hi && r.n == hi->n_whole));
    return out;
}

static bool is_empty(const lm_shape *s)
{
    bool both = s->lo.there && s->hi.there;

    return both && (s->lo.x > s->hi.x || (s->lo.x == s->hi.x && (s->lo.open || s->hi.open)));
}

static lm_expr_id within(lm_terms *p, const lm_shape *s)
{
    decimal lo, hi;
    lm_expr_id out = LM_NOTHING;
    bool below = !s->lo.there || s->lo.x < 0,
         above = !s->hi.there || s->hi.x > 0 || (s->hi.x == 0 && !s->hi.open);

    if (is_empty(s))
        return LM_NOTHING;
    if (above) {
        bool from = s->lo.there && s->lo.x >= 0;
        to_decimal(from ? s->lo.x : 0, from && s->lo.open, &lo);
        to_decimal(s->hi.there ? s->hi.x : 0, s->hi.open, &hi);
        out = between(p, &lo, s->hi.there ? &hi : NULL, s->integer);
    }
    if (below) {
        bool from = s->hi.there && s->hi.x <= 0;
        to_decimal(from ? s->hi.x : 0, from && s->hi.open, &lo);
        to_decimal(s->lo.there ? s->lo.x : 0, s->lo.open, &hi);
        out = lm_alt(p, out,
                     lm_cat(p, lm_word(p, "-"), between(p, &lo, s->lo.there ? &hi : NULL, s->integer)));
    }
    return out;
}

/* ---- multiples ---- */

typedef struct divisor { lm_terms *p; uint64_t m; uint32_t places, first_whole, first_part; } divisor;

static bool divides(const divisor *d, uint64_t rest, uint32_t places)
{
    for (; places; places--)
        rest = rest * 10 % d->m;
    return rest == 0;
}

static uint32_t whole_rule(const divisor *d, uint64_t rest) { return d->first_whole + (uint32_t)rest; }
static uint32_t part_rule(const divisor *d, uint32_t j, uint64_t rest)
{
    return d->first_part + j * (uint32_t)d->m + (uint32_t)rest;
}

/* Return the language of one digit and the rule that follows it. */
static lm_expr_id by_digit(const divisor *d, uint64_t rest, bool whole, uint32_t j)
{
    lm_terms *p = d->p;
    lm_expr_id out = LM_NOTHING;

    for (unsigned x = 0; x < 10; x++) {
        uint64_t next = (rest * 10 + x) % d->m;
        uint32_t rule = whole ? whole_rule(d, next) : part_rule(d, j + 1, next);
        out = lm_alt(p, out, lm_cat(p, lm_byte_range(p, '0' + x, '0' + x), lm_rule_node(p, rule)));
    }
    return out;
}

/* Return the language of multiples. The rules track the remainder of the digits so far. Behind the point,
 * only as many digits as the divisor has decimal places can be non-zero. */
static lm_expr_id multiples(lm_terms *p, uint64_t m, uint32_t places)
{
    divisor  d = { .p = p, .m = m, .places = places, .first_whole = p->n_rules };
    uint32_t all = (uint32_t)m * (places + 2);

    for (uint32_t i = 0; i < all; i++)
        lm_rule_new(p);
    d.first_part = d.first_whole + (uint32_t)m;
    for (uint64_t r = 0; r < m && p->status == LM_OK; r++) {
        p->rules[whole_rule(&d, r)].flags = LM_LIVE | (divides(&d, r, places) ? LM_NULLABLE : 0);
        for (uint32_t j = 0; j <= places; j++)
            p->rules[part_rule(&d, j, r)].flags = LM_LIVE | (divides(&d, r, places - j) ? LM_NULLABLE : 0);
    }
    lm_expr_id zeros = lm_repeat(p, lm_word(p, "0"), 0, LM_UNBOUNDED);
    for (uint64_t r = 0; r < m && p->status == LM_OK; r++) {
        lm_expr_id point = lm_cat(p, lm_word(p, "."), lm_rule_node(p, part_rule(&d, 0, r)));
        lm_expr_id whole = lm_alt(p, by_digit(&d, r, true, 0), point);
        lm_rule_define(p, whole_rule(&d, r), divides(&d, r, places) ? lm_optional(p, whole) : whole);
        for (uint32_t j = 0; j < places; j++) {
            lm_expr_id part = by_digit(&d, r, false, j);
            lm_rule_define(p, part_rule(&d, j, r), divides(&d, r, places - j) ? lm_optional(p, part) : part);
        }
        lm_rule_define(p, part_rule(&d, places, r), r == 0 ? zeros : LM_NOTHING);
        if (r != 0 && p->status == LM_OK)
            p->rules[part_rule(&d, places, r)].flags = 0;
    }
    return lm_cat(p, lm_optional(p, lm_word(p, "-")), by_digit(&d, 0, true, 0));
}

static lm_status of_multiple(lm_schema *s, double x, lm_expr_id *out)
{
    decimal  d;
    uint64_t m = 0;

    to_decimal(x, false, &d);
    if (d.n_whole > 8 || d.n_part > 12)
        return lm_fail(s->e, LM_UNSUPPORTED, NULL, LM_NO_OFFSET,
                       "multipleOf: too many digits to be enforced");
    for (uint32_t i = 0; i < d.n_whole; i++)
        m = m * 10 + (uint64_t)(d.whole[i] - '0');
    for (uint32_t i = 0; i < d.n_part; i++)
        m = m * 10 + (uint64_t)(d.part[i] - '0');
    if (m == 0 || m * (d.n_part + 2) > MAX_RULES)
        return lm_fail(s->e, LM_UNSUPPORTED, NULL, LM_NO_OFFSET, "multipleOf: too large to be enforced");
    *out = multiples(s->p, m, d.n_part);
    return lm_terms_check(s->p, s->e);
}

lm_status lm_json_number(lm_schema *s, const lm_shape *shape, lm_expr_id *out)
{
    if (!shape->integer && !shape->lo.there && !shape->hi.there && !shape->multiples) {
        *out = s->number;
        return LM_OK;
    }
    lm_expr_id n = within(s->p, shape), m;
    for (const lm_amounts *a = shape->multiples; a; a = a->next) {
        LM_TRY(of_multiple(s, a->x, &m));
        n = lm_and(s->p, n, m);
    }
    *out = shape->multiples ? lm_explore(s->p, n) : n;
    return lm_terms_check(s->p, s->e);
}
