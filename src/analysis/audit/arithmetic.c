/* arithmetic.c - reading and working out what a document calculates. */
#include "analysis/audit/arithmetic.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"

enum { DEEPEST = 32 };

typedef struct reader {
    const lm_reading *d;
    const char *p, *end;
    lm_amount  *out;
    size_t      numbers;
    int         depth;
    bool        bad;
} reader;

typedef struct number { double value, binary, half; lm_extent span; } number;

static void skip_gap(reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '$' || (*r->p == '\\' && !(r->p + 1 < r->end &&
        isalpha((unsigned char)r->p[1])))))
        r->p++;
}

static bool take(reader *r, const char *word)
{
    size_t n = strlen(word);

    skip_gap(r);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
        return false;
    r->p += n;
    return true;
}

/* "2.67×" with nothing behind it: so many times. */
static bool ends_in_times(const char *p, const char *end)
{
    if ((size_t)(end - p) < strlen("×") || memcmp(p, "×", strlen("×")) != 0)
        return false;
    p += strlen("×");
    return p == end || strchr("*,;)", *p) || (*p == '.' && (p + 1 == end || p[1] == ' '));
}

/* x × * · / ÷ before another operand: '*', '/' or 0. */
static char operator_at(reader *r)
{
    skip_gap(r);
    const char *p = r->p;
    if (p + 1 < r->end && *p == '*' && p[1] == '*')
        return 0;
    if (take(r, "\\times") || take(r, "\\cdot"))
        return '*';
    if (ends_in_times(p, r->end))
        return 0;
    if (take(r, "*") || take(r, "×") || take(r, "·"))
        return '*';
    if (take(r, "/") || take(r, "÷"))
        return '/';
    if (p < r->end && (*p == 'x' || *p == 'X') && p + 1 < r->end && (p[1] == ' ' || isdigit((unsigned char)p[1]))) {
        r->p++;
        return '*';
    }
    return 0;
}

static double stands_for(const lm_reading *d, double printed)
{
    for (size_t i = d->n_stands; i-- > 0;)
        if (d->stands[i].printed == printed)
            return d->stands[i].truth;
    return printed;
}

/* K M G T B behind a number, and bytes. */
static void read_prefix(reader *r, number *x, bool *prefixed)
{
    static const char letters[] = "kmgt";
    const char       *p = r->p + (r->p < r->end && *r->p == ' ');
    const char       *at;
    int               power = 0;
    bool              bytes = false;

    if (p >= r->end)
        return;
    at = strchr(letters, tolower((unsigned char)*p));
    if (at && *at) {
        size_t n = p + 1 < r->end && p[1] == 'i' ? 2 : 1;
        bytes = p + n < r->end && p[n] == 'B';
        n += bytes;
        if (p + n < r->end && isalpha((unsigned char)p[n]) && strncasecmp(p + n, "flop", 4) != 0)
            return;
        power = (int)(at - letters) + 1;
        r->p  = p + n;
    } else if (*p == 'B' && (p + 1 >= r->end || !isalpha((unsigned char)p[1]))) {
        power = 3;
        r->p  = p + 1;
    } else {
        return;
    }
    x->half   *= pow(1000, power);
    x->binary = bytes ? x->value * pow(1024, power) : x->value * pow(1000, power);
    x->value *= pow(1000, power);
    *prefixed       = true;
    r->out->power   = power;
    r->out->bytes |= bytes;
}

/* A lone x is a sign. */
static bool is_times(const char *p, const char *end)
{
    return (*p == 'x' || *p == 'X') && (p + 1 == end || !isalpha((unsigned char)p[1]));
}

/* Words behind a number: "28 layers", "2 (K+V)", "2 bytes (FP16)". */
static void skip_words(reader *r)
{
    for (;;) {
        skip_gap(r);
        const char *p = r->p;
        if (p < r->end && *p == '(' && p + 1 < r->end && isalpha((unsigned char)p[1])) {
            const char *close = memchr(p, ')', (size_t)(r->end - p));
            if (!close)
                return;
            r->p = close + 1;
        } else if (p < r->end && isalpha((unsigned char)*p) && !is_times(p, r->end)) {
            if (r->end - p >= 4 && strncasecmp(p, "byte", 4) == 0)
                r->out->bytes = true;
            while (r->p < r->end && (isalpha((unsigned char)*r->p) || *r->p == '-' || *r->p == '_'))
                r->p++;
            r->out->worded = true;
        } else {
            return;
        }
    }
}

static number read_number(reader *r)
{
    char   digits[64];
    size_t n = 0;
    int    decimals = 0;
    bool   point = false, prefixed = false;
    number x = { .span = { r->p, 0 } };

    while (r->p < r->end && n + 1 < sizeof digits) {
        bool digit = isdigit((unsigned char)*r->p);
        bool group = *r->p == ',' && r->end - r->p > 3 && isdigit((unsigned char)r->p[1]) && isdigit((unsigned char)r->p[2]) &&
            isdigit((unsigned char)r->p[3]);
        bool dot   = *r->p == '.' && !point && r->p + 1 < r->end && isdigit((unsigned char)r->p[1]);
        if (!digit && !group && !dot)
            break;
        decimals += digit && point;
        point |= dot;
        if (!group)
            digits[n++] = *r->p;
        r->p++;
    }
    digits[n] = '\0';
    if (!n) {
        r->bad = true;
        return x;
    }
    x.value = x.binary = lm_read_double(digits, NULL);
    x.half  = 0.5 * pow(10, -decimals);
    read_prefix(r, &x, &prefixed);
    if (!prefixed && !point)
        x.half = 0;
    x.span.n = (size_t)(r->p - x.span.s);
    if (ends_in_times(r->p, r->end))
        r->p += strlen("×");
    if (!r->numbers++) {
        r->out->half   = x.half;
        r->out->number = x.span;
    }
    skip_words(r);
    return x;
}

static number read_sum(reader *r);

static number read_power(reader *r)
{
    number x;

    skip_gap(r);
    if (r->depth < DEEPEST && take(r, "(")) {
        r->depth++;
        x = read_sum(r);
        r->depth--;
        if (!take(r, ")"))
            r->bad = true;
        x.half = 0;
        skip_words(r);
    } else {
        x = read_number(r);
    }
    int power = take(r, "²") ? 2 : take(r, "³") ? 3 : 0;
    skip_gap(r);
    if (!power && (take(r, "^") || (r->end - r->p > 2 && r->p[0] == '*' && r->p[1] == '*' && isdigit((unsigned char)r->p[2]) &&
                                    take(r, "**")))) {
        skip_gap(r);
        power = r->p < r->end && isdigit((unsigned char)*r->p) ? *r->p++ - '0' : 0;
        r->bad |= !power;
    }
    if (power) {
        x.value = x.binary = pow(x.value, power);
        x.half = 0;
        r->out->calculated = true;
    }
    return x;
}

static number read_product(reader *r)
{
    number x = read_power(r);
    char   op;

    while (!r->bad) {
        skip_gap(r);
        op = operator_at(r);
        if (!op && r->p < r->end && *r->p == '(')                        /* 4096² (2 + 2/4) */
            op = '*';
        if (!op)
            break;
        number y = read_power(r);
        double a = stands_for(r->d, x.value), b = stands_for(r->d, y.value);
        bool   as_is = a == x.value && b == y.value;
        x.binary = !as_is ? (op == '*' ? a * b : a / b) : op == '*' ? x.binary * y.binary : x.binary / y.binary;
        x.value  = op == '*' ? a * b : a / b;
        x.half   = 0;
        r->out->calculated = true;
    }
    return x;
}

static void add_term(reader *r, const number *x)
{
    if (r->depth || r->out->n_terms == LM_MOST_TERMS)
        return;
    r->out->terms[r->out->n_terms]    = x->value;
    r->out->halves[r->out->n_terms]   = x->half;
    r->out->spans[r->out->n_terms++]  = x->span;
}

static number read_sum(reader *r)
{
    number x = read_product(r);

    add_term(r, &x);
    while (!r->bad) {
        bool plus = take(r, "+"), minus = !plus && take(r, "-");
        if (!plus && !minus)
            break;
        number y = read_product(r);
        add_term(r, &y);
        double a = stands_for(r->d, x.value), b = stands_for(r->d, y.value);
        x.value  = plus ? a + b : a - b;
        x.binary = plus ? x.binary + y.binary : x.binary - y.binary;
        r->out->calculated = true;
    }
    return x;
}

bool lm_read_amount(const lm_reading *d, lm_extent s, lm_amount *out)
{
    s = lm_trim(s);
    reader r = { .d = d, .p = s.s, .end = s.s + s.n, .out = out };

    *out = (lm_amount){ 0 };
    while (s.n && (take(&r, "~") || take(&r, "**")))
        ;
    number x = read_sum(&r);
    out->value  = x.value;
    out->binary = x.binary;
    if (take(&r, "**"))
        skip_words(&r);
    skip_gap(&r);
    if (r.p + 1 < r.end && (*r.p == ',' || *r.p == ';' || *r.p == '.') && r.p[1] == ' ') {
        out->cut = true;
        r.p      = r.end;
    }
    while (r.p < r.end && (*r.p == '.' || *r.p == ',' || *r.p == ';' || *r.p == ' ' || *r.p == '`' || *r.p == '$'))
        r.p++;
    if (r.p < r.end && (*r.p == '(' || strncmp(r.p, "（", strlen("（")) == 0))                     /* a remark */
        r.p = r.end;
    return !r.bad && r.numbers && r.p == r.end && isfinite(x.value);
}
