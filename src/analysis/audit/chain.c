/* chain.c - "= 4096² × 14.5 = 232M": numbers that are said to be equal. What is written out decides what was rounded. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/audit/arithmetic.h"
#include "base/number.h"

#define N_(text) text

static void remember(lm_reading *d, double printed, double truth)
{
    if (d->n_stands < LM_MOST_STANDS)
        d->stands[d->n_stands++] = (lm_stands){ printed, truth };
}

static bool near(double a, double b, double half)
{
    return fabs(a - b) <= half * (1 + 1e-9) + 1e-9 * fabs(b);
}

/* One printed number against what it is said to equal. */
static void judge(lm_reading *d, lm_extent span, double value, double half, int power, bool bytes, double truth, double truth_binary,
                  bool about)
{
    const double binary = power ? value * pow(1.024, power) : value, slack = about ? 0.015 * fabs(truth) : 0;
    const char  *why    = "";
    lm_claim     verdict = LM_CLAIM_WRONG;

    if (near(value, truth, 0))
        verdict = LM_CLAIM_CONFIRMED;
    else if (near(value, truth, half + slack) || (bytes && near(binary, truth_binary, half * pow(1.024, power) + slack)))
        verdict = LM_CLAIM_ROUNDED;
    else if (power && near(binary, truth, half * pow(1.024, power)))
        why = N_("a binary prefix where counts are decimal");
    else if (near(value * 1000, truth, half * 1000) || near(value / 1000, truth, half / 1000))
        why = N_("a thousand times off");
    else
        why = N_("the arithmetic of the line");
    if (power)
        remember(d, value, truth);
    lm_say_judged(d, span, verdict, truth, why);
}

/* Whether a "=" or "≈" stands at p, no part of "==", ">=" or "=>"; how many bytes it has. */
static size_t equals_at(const char *line, const char *p, const char *end)
{
    if (strncmp(p, "≈", strlen("≈")) == 0)
        return strlen("≈");
    if (*p != '=' || (p + 1 < end && (p[1] == '=' || p[1] == '>')) || (p > line && strchr("=<>!", p[-1])))
        return 0;
    return 1;
}

/* Behind the last colon, of either width: "Total: 3 + 4". */
static lm_extent behind_colon(lm_extent s)
{
    for (size_t i = s.n; i-- > 0;) {
        if (s.s[i] == ':' && i + 1 < s.n && s.s[i + 1] != '/')
            return (lm_extent){ s.s + i + 1, s.n - i - 1 };
        if (i + 3 <= s.n && memcmp(s.s + i, "：", 3) == 0)
            return (lm_extent){ s.s + i + 3, s.n - i - 3 };
    }
    return s;
}

typedef struct parts { lm_extent part[16]; bool about[16]; size_t n; } parts;

static void split(lm_extent line, parts *out)
{
    const char *start = line.s, *end = line.s + line.n;
    bool        about = false;

    out->n = 0;
    for (const char *p = line.s; p <= end && out->n < 16; p++) {
        size_t n = p < end ? equals_at(line.s, p, end) : 0;
        if (p < end && !n)
            continue;
        out->part[out->n]    = lm_trim((lm_extent){ start, (size_t)(p - start) });
        out->about[out->n++] = about;
        about = n > 1;
        start = p + n;
        p += n ? n - 1 : 0;
    }
}

/* A sum of rounded numbers under a sum that is written out: each term is that above it. */
static bool judge_terms(lm_reading *d, const lm_amount *a)
{
    lm_chain *c = &d->chain;
    bool      rounded = false;

    for (size_t i = 0; i < a->n_terms; i++)
        rounded |= a->halves[i] > 0;
    if (!rounded || a->n_terms < 2 || a->n_terms != c->n_terms)
        return false;
    for (size_t i = 0; i < a->n_terms; i++)
        if (a->halves[i] > 0) {
            lm_amount one;
            if (lm_read_amount(d, a->spans[i], &one))
                judge(d, a->spans[i], one.value, one.half, one.power, false, c->terms[i], c->terms[i], false);
        }
    return true;
}

static void begin(lm_reading *d, const lm_amount *a)
{
    d->chain = (lm_chain){ .begun = true, .line = d->line, .exact = a->value, .binary = a->binary, .n_terms = a->n_terms };
    memcpy(d->chain.terms, a->terms, sizeof a->terms);
}

/* What is said of a model by its name: "head_dim = 2048 / 16 = 128". */
static bool say_named(lm_reading *d, lm_extent label, lm_extent value, int model)
{
    const char *path = lm_phrase_path(lm_label(d, label));

    if (path)
        lm_say(d, value, model, path, lm_plain(d, value));
    return path != NULL;
}

/* The same again, rounded: "= 262,668,288 (~263M)". */
static void judge_remark(lm_reading *d, lm_extent part)
{
    const char *open = memchr(part.s, '(', part.n), *close = open ? memchr(open, ')', (size_t)(part.s + part.n - open)) : NULL;
    lm_amount   a;

    if (!close || open[1] != '~' || !lm_read_amount(d, (lm_extent){ open + 2, (size_t)(close - open - 2) }, &a) || a.calculated || a.worded)
        return;
    judge(d, a.number, a.value, a.half, a.power, a.bytes, d->chain.exact, d->chain.binary, false);
}

/* Bullets and what stands before the first part. */
static lm_extent without_bullet(lm_extent s)
{
    s = lm_trim(s);
    while (s.n > 1 && (*s.s == '*' || *s.s == '-' || *s.s == '+' || *s.s == '>') && (s.s[1] == ' ' || s.s[1] == '*'))
        s = lm_trim((lm_extent){ s.s + 1, s.n - 1 });
    return s;
}

/* "Each MLP holds 2 × 768 × 3072": what is calculated behind words; the whole where nothing is. */
static lm_extent calculation_in(lm_reading *d, lm_extent s)
{
    const char *end = s.s + s.n;
    lm_amount   a;

    if (lm_read_amount(d, s, &a) || s.n > 200)
        return s;
    for (const char *p = s.s + 1; p < end; p++) {
        lm_extent rest = { p, (size_t)(end - p) };
        if (p[-1] == ' ' && (isdigit((unsigned char)*p) || *p == '(') && lm_read_amount(d, rest, &a) && a.calculated && a.n_terms)
            return rest;
    }
    return s;
}

static bool read_clause(lm_reading *d, lm_extent line, int model)
{
    parts     p;
    bool      found = false, continued, wrong = false;
    lm_amount a;
    lm_extent   label = { 0 }, last = { 0 };

    split(without_bullet(line), &p);
    if (p.n < 2) {
        if (p.n && lm_read_amount(d, behind_colon(p.part[0]), &a) && a.calculated)       /* what it makes may follow: "= …" */
            begin(d, &a);
        else
            d->chain.begun &= d->line - d->chain.line < 2;
        return false;
    }
    continued = d->chain.begun && !p.part[0].n && d->line - d->chain.line <= 2;
    if (!continued)
        d->chain.begun = false;
    for (size_t i = 0; i < p.n; i++) {
        lm_extent part = i ? p.part[i] : behind_colon(p.part[i]);
        if (!part.n)
            continue;
        if (!i)
            part = calculation_in(d, part);
        if (!lm_read_amount(d, part, &a) || (i == 0 && !a.calculated && a.worded)) {
            label = i == 0 ? p.part[0] : label;
            if (i + 1 < p.n && p.n > 2 && i)
                d->chain.begun = false;
            continue;
        }
        if (!a.calculated)
            last = a.number;
        if (!d->chain.begun) {
            begin(d, &a);
        } else if (a.calculated) {
            if (!judge_terms(d, &a) && a.n_terms && !near(a.value, d->chain.exact, fabs(d->chain.exact) * (p.about[i] ? 0.05 : 0.02)) &&
                fabs(a.value) > 1e-3 * fabs(d->chain.exact)) {
                d->chain.begun = false;                  /* another matter */
                begin(d, &a);
            }
            memcpy(d->chain.terms, a.terms, sizeof a.terms);
            d->chain.n_terms = a.n_terms;
            found = true;
        } else if (d->chain.exact != 0 && fabs(log10(fabs(a.value / d->chain.exact))) < 4) {
            size_t before = d->n_said;
            judge(d, a.number, a.value, a.half, a.power, a.bytes, d->chain.exact, d->chain.binary, p.about[i] || *part.s == '~');
            wrong |= d->n_said > before && d->said[d->n_said - 1].judged.verdict == LM_CLAIM_WRONG;
            found = true;
            judge_remark(d, part);
        }
        d->chain.line = d->line;
        if (a.cut) {                         /* and what is said next is another matter */
            d->chain.begun = false;
            break;
        }
    }
    if (label.n && last.n && !wrong)
        found |= say_named(d, label, last, model);
    return found;
}

/* Where the clause at p ends, if it says that something equals something and another clause that does so follows. */
static const char *end_of_clause(const char *p, const char *end)
{
    bool equals = false;

    for (const char *q = p; q + 1 < end; q++) {
        equals |= equals_at(p, q, end) > 0;
        if (!equals || q[1] != ' ' || !strchr(",;.", *q))
            continue;
        for (const char *r = q + 2; r < end; r++)
            if (equals_at(q, r, end))
                return q;
        return NULL;
    }
    return NULL;
}

bool lm_read_chain(lm_reading *d, lm_extent line, int model)
{
    const char *end = line.s + line.n, *stop;
    bool        found = false;

    while ((stop = end_of_clause(line.s, end)) != NULL) {
        found |= read_clause(d, (lm_extent){ line.s, (size_t)(stop - line.s) }, model);
        line   = (lm_extent){ stop + 2, (size_t)(end - stop) - 2 };
    }
    return found | read_clause(d, line, model);
}
