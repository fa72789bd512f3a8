/* regex_translate.c - from Oniguruma's spelling (Ruby's syntax) to PCRE2's. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <pcre2.h>
#include <string.h>

#include "text/regex.h"

enum { MAX_DEPTH = 32, MAX_GROUPS = 250 };

#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define HEX  "0-9a-fA-F"

typedef struct reader {
    lm_view     pattern;
    size_t      at;
    lm_buf     *out;
    const char *where;
    lm_error   *e;
} reader;

static int peek(const reader *r, size_t ahead)
{
    return r->at + ahead < r->pattern.size ? (unsigned char)r->pattern.data[r->at + ahead] : -1;
}

static lm_status bad(const reader *r, const char *why)
{
    return lm_fail(r->e, LM_UNSUPPORTED, r->where, LM_NO_OFFSET, "pattern '%.*s': %s at byte %zu", (int)r->pattern.size,
                   r->pattern.data, why, r->at);
}

/* ---- properties ---- */
static const struct property { const char *name, *inside; } properties[] = {
    { "letter", "\\p{L}" }, { "uppercaseletter", "\\p{Lu}" }, { "lowercaseletter", "\\p{Ll}" }, { "titlecaseletter", "\\p{Lt}" },
    { "casedletter", "\\p{L&}" }, { "modifierletter", "\\p{Lm}" }, { "otherletter", "\\p{Lo}" }, { "mark", "\\p{M}" },
    { "combiningmark", "\\p{M}" }, { "nonspacingmark", "\\p{Mn}" }, { "spacingmark", "\\p{Mc}" }, { "enclosingmark", "\\p{Me}" },
    { "number", "\\p{N}" }, { "decimalnumber", "\\p{Nd}" }, { "digit", "\\p{Nd}" }, { "letternumber", "\\p{Nl}" },
    { "othernumber", "\\p{No}" }, { "punctuation", "\\p{P}" }, { "connectorpunctuation", "\\p{Pc}" },
    { "dashpunctuation", "\\p{Pd}" }, { "openpunctuation", "\\p{Ps}" }, { "closepunctuation", "\\p{Pe}" },
    { "initialpunctuation", "\\p{Pi}" }, { "finalpunctuation", "\\p{Pf}" }, { "otherpunctuation", "\\p{Po}" },
    { "symbol", "\\p{S}" }, { "mathsymbol", "\\p{Sm}" }, { "currencysymbol", "\\p{Sc}" }, { "modifiersymbol", "\\p{Sk}" },
    { "othersymbol", "\\p{So}" }, { "separator", "\\p{Z}" }, { "spaceseparator", "\\p{Zs}" }, { "lineseparator", "\\p{Zl}" },
    { "paragraphseparator", "\\p{Zp}" }, { "other", "\\p{C}" }, { "control", "\\p{Cc}" }, { "format", "\\p{Cf}" },
    { "unassigned", "\\p{Cn}" }, { "privateuse", "\\p{Co}" }, { "alpha", "\\p{Alphabetic}" }, { "upper", "\\p{Uppercase}" },
    { "lower", "\\p{Lowercase}" }, { "space", "\\p{White_Space}" },
};

static bool compiles(const char *pattern)
{
    int         code;
    PCRE2_SIZE  at;
    pcre2_code *c = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);

    pcre2_code_free(c);
    return c != NULL;
}

/* \p{Name}, \p{^Name}, \P{Name} at the reader: appended as PCRE2 spells it, fit for a class and for outside. */
static lm_status property(reader *r, lm_buf *out)
{
    char   plain[64];
    size_t n       = 0;
    bool   negated = peek(r, 1) == 'P';

    r->at += 3;
    if (peek(r, 0) == '^') {
        negated = !negated;
        r->at++;
    }
    for (; peek(r, 0) != '}'; r->at++) {
        if (peek(r, 0) < 0 || n + 1 >= sizeof plain || !(isalnum(peek(r, 0)) || strchr("_- &=:", peek(r, 0))))
            return bad(r, "a property that is not understood");
        if (!strchr("_- ", peek(r, 0)))
            plain[n++] = (char)tolower(peek(r, 0));
    }
    r->at++;
    plain[n] = '\0';
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
        if (strcmp(plain, properties[i].name) == 0) {
            lm_buf_printf(out, "\\%c%s", negated ? 'P' : 'p', properties[i].inside + 2);
            return LM_OK;
        }
    /* Alone, PCRE2 takes a script's name for its extensions too; the reference does not. */
    lm_buf probe = { 0 };
    lm_buf_printf(&probe, "\\p{sc:%s}", plain);
    bool is_script = n > 2 && !probe.failed && compiles(probe.data);
    lm_buf_free(&probe);
    lm_buf_printf(out, "\\%c{%s%s}", negated ? 'P' : 'p', is_script ? "sc:" : "", plain);
    return LM_OK;
}

/* ---- escapes ---- */
/* An escape at the reader, for inside a class or outside. What a class cannot hold ("not a word character") goes to
 * `other` as an expression of its own, when that is given. */
static lm_status escape(reader *r, lm_buf *out, lm_buf *other)
{
    int  c     = peek(r, 1);
    bool class = other != NULL;

    if (c < 0)
        return bad(r, "a lone backslash");
    if ((c == 'p' || c == 'P') && peek(r, 2) == '{')
        return property(r, out);
    switch (c) {
    case 'h': lm_buf_add_str(out, class ? HEX : "[" HEX "]"); break;
    case 'w': lm_buf_add_str(out, class ? WORD : "[" WORD "]"); break;
    case 'H': lm_buf_add_str(class ? other : out, class ? "|[^" HEX "]" : "[^" HEX "]"); break;
    case 'W': lm_buf_add_str(class ? other : out, class ? "|[^" WORD "]" : "[^" WORD "]"); break;
    case 'v': lm_buf_add_str(out, "\\x0B"); break;
    case 'u':
        for (size_t i = 2; i < 6; i++)
            if (!isxdigit(peek(r, i)))
                return bad(r, "an unfinished \\u");
        lm_buf_printf(out, "\\x{%.4s}", r->pattern.data + r->at + 2);
        r->at += 4;
        break;
    default:
        if (c >= 0x80) {        /* the escaped character is itself */
            lm_buf_add_char(out, (char)c);
            break;
        }
        lm_buf_add(out, r->pattern.data + r->at, 2);
    }
    r->at += 2;
    return LM_OK;
}

/* ---- classes ---- */
/* A class under construction: a set that PCRE2 can hold, and further expressions "|[^…]|…" for what it cannot. */
typedef struct class_parts { lm_buf set, others; bool negated; } class_parts;

static void free_parts(class_parts *p)
{
    lm_buf_free(&p->set);
    lm_buf_free(&p->others);
}

/* An expression for one character of a union. */
static void add_union(lm_buf *out, const class_parts *p)
{
    if (p->others.size == 0)
        lm_buf_printf(out, "[%s]", p->set.data ? p->set.data : "");
    else if (p->set.size == 0)
        lm_buf_printf(out, "(?:%s)", p->others.data + 1);
    else
        lm_buf_printf(out, "(?:[%s]%s)", p->set.data, p->others.data);
}

static lm_status read_class(reader *r, class_parts *out, unsigned depth);

/* A nested class: flattened when it is a plain set, else one more expression. */
static lm_status nested_class(reader *r, class_parts *p, unsigned depth)
{
    class_parts inner  = { 0 };
    lm_status   status = read_class(r, &inner, depth + 1);

    if (status == LM_OK && !inner.negated && inner.others.size == 0)
        lm_buf_add_view(&p->set, lm_buf_view(&inner.set));
    else if (status == LM_OK) {
        lm_buf_add_char(&p->others, '|');
        if (!inner.negated)
            add_union(&p->others, &inner);
        else if (inner.others.size == 0)
            lm_buf_printf(&p->others, "[^%s]", inner.set.data);
        else {
            lm_buf_add_str(&p->others, "(?:(?!");
            add_union(&p->others, &inner);
            lm_buf_add_str(&p->others, ")(?s:.))");
        }
    }
    free_parts(&inner);
    return status;
}

static bool posix_bracket(const reader *r, size_t *size)
{
    if (peek(r, 0) != '[' || peek(r, 1) != ':')
        return false;
    for (size_t i = 2; i < 16; i++)
        if (peek(r, i) == ':' && peek(r, i + 1) == ']') {
            *size = i + 2;
            return true;
        }
    return false;
}

/* One union of items, up to "&&" or "]". */
static lm_status read_union(reader *r, class_parts *p, bool first, unsigned depth)
{
    size_t size;

    for (;; first = false) {
        int c = peek(r, 0);

        if (c < 0)
            return bad(r, "an unfinished class");
        if ((c == ']' && !first) || (c == '&' && peek(r, 1) == '&'))
            return LM_OK;
        if (c == '\\')
            LM_TRY(escape(r, &p->set, &p->others));
        else if (posix_bracket(r, &size)) {
            lm_buf_add(&p->set, r->pattern.data + r->at, size);
            r->at += size;
        } else if (c == '[')
            LM_TRY(nested_class(r, p, depth));
        else {
            if (c == ']' || c == '^')
                lm_buf_add_char(&p->set, '\\');
            lm_buf_add_char(&p->set, (char)c);
            r->at++;
        }
    }
}

/* The class that starts at the reader's "[". An intersection becomes one expression of look-aheads in `others`. */
static lm_status read_class(reader *r, class_parts *out, unsigned depth)
{
    lm_buf    all    = { 0 };
    lm_status status = LM_OK;
    bool      first  = true;

    if (depth > MAX_DEPTH)
        return bad(r, "classes nested too deep");
    r->at++;
    if (peek(r, 0) == '^') {
        out->negated = true;
        r->at++;
    }
    for (;; first = false) {
        LM_TRY_GOTO(read_union(r, out, first, depth));
        if (out->set.size == 0 && out->others.size == 0) {
            status = bad(r, "an empty class");
            goto done;
        }
        if (peek(r, 0) == ']')
            break;
        r->at += 2;
        lm_buf_add_str(&all, "(?=");
        add_union(&all, out);
        lm_buf_add_char(&all, ')');
        lm_buf_clear(&out->set);
        lm_buf_clear(&out->others);
    }
    r->at++;
    if (all.size) {
        add_union(&all, out);
        lm_buf_clear(&out->set);
        lm_buf_clear(&out->others);
        lm_buf_printf(&out->others, "|(?:%s)", all.data);
    }
    if (all.failed || out->set.failed || out->others.failed)
        status = lm_fail_memory(r->e, "a pattern", r->pattern.size);
done:
    lm_buf_free(&all);
    return status;
}

static lm_status class_outside(reader *r)
{
    class_parts p      = { 0 };
    lm_status   status = read_class(r, &p, 0);

    if (status == LM_OK && p.negated && p.others.size == 0)
        lm_buf_printf(r->out, "[^%s]", p.set.data);
    else if (status == LM_OK && p.negated) {
        lm_buf_add_str(r->out, "(?:(?!");
        add_union(r->out, &p);
        lm_buf_add_str(r->out, ")(?s:.))");
    } else if (status == LM_OK)
        add_union(r->out, &p);
    free_parts(&p);
    return status;
}

/* ---- groups and quantifiers ---- */
/* "(?im-x:" and the like: Ruby's m lets the dot match a line feed, which is PCRE2's s. */
static void group_start(reader *r)
{
    lm_buf_add_char(r->out, '(');
    r->at++;
    if (peek(r, 0) != '?')
        return;
    lm_buf_add_char(r->out, '?');
    for (r->at++; peek(r, 0) == 'i' || peek(r, 0) == 'm' || peek(r, 0) == 'x' || peek(r, 0) == '-'; r->at++)
        lm_buf_add_char(r->out, peek(r, 0) == 'm' ? 's' : (char)peek(r, 0));
}

static bool insert(lm_buf *b, size_t at, const char *text)
{
    size_t n = strlen(text);

    if (!lm_buf_reserve(b, n))
        return false;
    memmove(b->data + at + n, b->data + at, b->size - at + 1);
    memcpy(b->data + at, text, n);
    b->size += n;
    return true;
}

/* "{n,m}" after the expression that starts at out[atom]; "{,m}" is "{0,m}". A further quantifier applies to the whole in
 * Ruby: "{n,m}+" is not possessive and "{n}?" not lazy. False when the brace is only a brace. */
static bool interval(reader *r, size_t atom)
{
    size_t i = 1, digits = 0;

    for (; isdigit(peek(r, i)); i++)
        digits++;
    bool no_low = digits == 0, comma = peek(r, i) == ',';
    if (comma)
        for (i++; isdigit(peek(r, i)); i++)
            digits++;
    if (peek(r, i) != '}' || digits == 0)
        return false;
    lm_buf_add_char(r->out, '{');
    if (no_low)
        lm_buf_add_char(r->out, '0');
    lm_buf_add(r->out, r->pattern.data + r->at + 1, i);
    r->at += i + 1;
    int next = peek(r, 0);
    if ((next == '+' || next == '*' || next == '{' || (next == '?' && !comma)) && insert(r->out, atom, "(?:"))
        lm_buf_add_char(r->out, ')');
    return true;
}

lm_status lm_regex_translate(lm_view pattern, lm_buf *out, const char *where, lm_error *e)
{
    reader r = { pattern, 0, out, where, e };
    size_t groups[MAX_GROUPS], n_groups = 0, atom = 0;

    while (r.at < pattern.size) {
        size_t start = out->size;
        int    c     = peek(&r, 0);

        switch (c) {
        case '\\':
            atom = start;
            LM_TRY(escape(&r, out, NULL));
            break;
        case '[':
            atom = start;
            LM_TRY(class_outside(&r));
            break;
        case '(':
            if (n_groups == MAX_GROUPS)
                return bad(&r, "groups nested too deep");
            groups[n_groups++] = start;
            group_start(&r);
            break;
        case '{':
            if (interval(&r, atom))
                break;
            lm_buf_add_char(out, '{');
            r.at++;
            break;
        default:
            if (c == ')' && n_groups > 0)
                atom = groups[--n_groups];
            else if (!strchr("*+?|", c) && (c & 0xC0) != 0x80)
                atom = start;
            lm_buf_add_char(out, (char)c);
            r.at++;
        }
    }
    return out->failed ? lm_fail_memory(e, "a pattern", pattern.size) : LM_OK;
}
