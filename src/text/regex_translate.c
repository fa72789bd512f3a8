/* regex_translate.c - translate Oniguruma's syntax (Ruby's) to PCRE2's. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <pcre2.h>
#include <string.h>

#include "text/regex.h"

enum { MAX_DEPTH = 32, MAX_GROUPS = 250 };

/* Oniguruma's classes, as the contents of a PCRE2 bracket class. Characters listed by number exist in Unicode
 * 14 and joined the class in Unicode 16; newer ones have stand-ins (unicode_class.h). */
#define ALPHABETIC "\\p{Alphabetic}\\x{363}-\\x{36F}\\x{C04}\\x{F82}\\x{F83}\\x{1DD3}-\\x{1DE6}\\x{11080}\\x{11081}"
#define LOWERCASE  "\\p{Lowercase}\\x{10FC}\\x{A7F2}-\\x{A7F4}\\x{AB69}"
#define WORD       "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define HEX        "0-9a-fA-F"
#define GRAPH      "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}"
/* Outside a class Oniguruma uses a Latin-1 table instead, which includes these number characters. */
#define WORD_ALONE WORD "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"

/* An open group: where it starts in `out`, how many groups that the translator added end with it, and
 * whether blanks and "#" comments in it are ignored. */
typedef struct group { size_t start; unsigned ours; bool extended; } group;

typedef struct reader {
    lm_view     pattern;
    size_t      at;
    lm_text     *out;
    const char *where;
    lm_error   *e;
} reader;

static int peek(const reader *r, size_t ahead)
{
    return r->at + ahead < r->pattern.size ? (unsigned char)r->pattern.data[r->at + ahead] : -1;
}

static lm_status bad(const reader *r, const char *why)
{
    return lm_fail(r->e, LM_UNSUPPORTED, r->where, LM_NO_OFFSET, "pattern '%.*s': %s at byte %zu",
                   (int)r->pattern.size, r->pattern.data, why, r->at);
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
    { "unassigned", "\\p{Cn}" }, { "privateuse", "\\p{Co}" }, { "punct", "\\p{P}" }, { "upper", "\\p{Uppercase}" },
    { "space", "\\p{White_Space}" }, { "cntrl", "\\p{Cc}" },
};

/* The contents of [:name:]. */
static const struct property brackets[] = {
    { "alnum", ALPHABETIC "\\p{Nd}" }, { "alpha", ALPHABETIC }, { "ascii", "\\x00-\\x7F" }, { "blank", "\\p{Zs}\\t" },
    { "cntrl", "\\p{Cc}" }, { "digit", "\\p{Nd}" }, { "graph", GRAPH }, { "lower", LOWERCASE }, { "print", GRAPH "\\p{Zs}" },
    { "punct", "\\p{P}\\p{S}" }, { "space", "\\p{White_Space}" }, { "upper", "\\p{Uppercase}" }, { "word", WORD }, { "xdigit", HEX },
};

static const char *bracket_named(lm_view name)
{
    for (size_t i = 0; i < sizeof brackets / sizeof *brackets; i++)
        if (lm_view_is(name, brackets[i].name))
            return brackets[i].inside;
    return NULL;
}

/* Add the characters `inside`, or all others: as a separate expression or, for a class, as part of its
 * set (`out`). What a set cannot contain goes to `other`. */
static void add_set(lm_text *out, lm_text *other, const char *inside, bool negated)
{
    if (negated)
        lm_text_printf(other ? other : out, other ? "|[^%s]" : "[^%s]", inside);
    else
        lm_text_printf(out, other ? "%s" : "[%s]", inside);
}

static bool compiles(const char *pattern)
{
    int         code;
    PCRE2_SIZE  at;
    pcre2_code *c = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code,
                                  &at, NULL);

    pcre2_code_free(c);
    return c != NULL;
}

/* Translate \p{Name}, \p{^Name} or \P{Name} at the reader, inside a class (`other` is given) or outside. */
static lm_status property(reader *r, lm_text *out, lm_text *other)
{
    char        plain[64];
    const char *inside;
    size_t      n       = 0;
    bool        negated = peek(r, 1) == 'P';

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
            lm_text_printf(out, "\\%c%s", negated ? 'P' : 'p', properties[i].inside + 2);
            return LM_OK;
        }
    if (strcmp(plain, "word") == 0)
        inside = other ? WORD : WORD_ALONE;
    else if (strcmp(plain, "alphabetic") == 0)
        inside = ALPHABETIC;
    else
        inside = strcmp(plain, "lowercase") == 0 ? LOWERCASE : bracket_named(lm_view_of(plain));
    if (inside) {
        add_set(out, other, inside, negated);
        return LM_OK;
    }
    /* PCRE2 takes a bare script name to include its extensions; the reference does not. */
    lm_text probe = { 0 };
    lm_text_printf(&probe, "\\p{sc:%s}", plain);
    bool is_script = n > 2 && !probe.failed && compiles(probe.data);
    lm_text_free(&probe);
    lm_text_printf(out, "\\%c{%s%s}", negated ? 'P' : 'p', is_script ? "sc:" : "", plain);
    return LM_OK;
}

/* ---- escapes ---- */
/* A boundary between a word character and another character or an end of the text. */
#define BOUNDARY     "(?:(?<=[" WORD_ALONE "])(?![" WORD_ALONE "])|(?<![" WORD_ALONE "])(?=[" WORD_ALONE "]))"
#define NOT_BOUNDARY "(?:(?<=[" WORD_ALONE "])(?=[" WORD_ALONE "])|(?<![" WORD_ALONE "])(?![" WORD_ALONE "]))"

/* Translate an escape at the reader, inside a class (`other` is given, see add_set) or outside. */
static lm_status escape(reader *r, lm_text *out, lm_text *other)
{
    int  c     = peek(r, 1);
    bool class = other != NULL;

    if (c < 0)
        return bad(r, "a lone backslash");
    if ((c == 'p' || c == 'P') && peek(r, 2) == '{')
        return property(r, out, other);
    switch (c) {
    case 'h':
    case 'H': add_set(out, other, HEX, c == 'H'); break;
    case 'w':
    case 'W': add_set(out, other, class ? WORD : WORD_ALONE, c == 'W'); break;
    case 'b': lm_text_add_str(out, class ? "\\b" : BOUNDARY); break;
    case 'B': lm_text_add_str(out, class ? "\\B" : NOT_BOUNDARY); break;
    case 'v': lm_text_add_str(out, "\\x0B"); break;
    case 'u':
        for (size_t i = 2; i < 6; i++)
            if (!isxdigit(peek(r, i)))
                return bad(r, "an unfinished \\u");
        lm_text_printf(out, "\\x{%.4s}", r->pattern.data + r->at + 2);
        r->at += 4;
        break;
    default:
        if (c >= 0x80) {        /* the escaped character represents itself */
            lm_text_add_char(out, (char)c);
            break;
        }
        lm_text_add(out, r->pattern.data + r->at, 2);
    }
    r->at += 2;
    return LM_OK;
}

/* ---- classes ---- */
/* A class under construction: a set that PCRE2 supports, and alternatives "|[^…]|…" for the rest. */
typedef struct class_parts { lm_text set, others; bool negated; } class_parts;

static void free_parts(class_parts *p)
{
    lm_text_free(&p->set);
    lm_text_free(&p->others);
}

/* Append an expression for one character of a union. */
static void add_union(lm_text *out, const class_parts *p)
{
    if (p->others.size == 0)
        lm_text_printf(out, "[%s]", p->set.data ? p->set.data : "");
    else if (p->set.size == 0)
        lm_text_printf(out, "(?:%s)", p->others.data + 1);
    else
        lm_text_printf(out, "(?:[%s]%s)", p->set.data, p->others.data);
}

static lm_status read_class(reader *r, class_parts *out, unsigned depth);

/* Read a nested class: flatten it if it is a plain set, otherwise add it as an alternative. */
static lm_status nested_class(reader *r, class_parts *p, unsigned depth)
{
    class_parts inner  = { 0 };
    lm_status   status = read_class(r, &inner, depth + 1);

    if (status == LM_OK && !inner.negated && inner.others.size == 0)
        lm_text_add_view(&p->set, lm_text_view(&inner.set));
    else if (status == LM_OK) {
        lm_text_add_char(&p->others, '|');
        if (!inner.negated)
            add_union(&p->others, &inner);
        else if (inner.others.size == 0)
            lm_text_printf(&p->others, "[^%s]", inner.set.data);
        else {
            lm_text_add_str(&p->others, "(?:(?!");
            add_union(&p->others, &inner);
            lm_text_add_str(&p->others, ")(?s:.))");
        }
    }
    free_parts(&inner);
    return status;
}

/* Return whether "[:name:]" or "[:^name:]" is at the reader, and its size. */
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

static lm_status read_bracket(reader *r, class_parts *p, size_t size)
{
    bool        negated = peek(r, 2) == '^';
    lm_view     name    = { r->pattern.data + r->at + 2 + negated, size - 4 - negated };
    const char *inside  = bracket_named(name);

    if (!inside)
        return bad(r, "a bracket that is not understood");
    add_set(&p->set, &p->others, inside, negated);
    r->at += size;
    return LM_OK;
}

/* Read one union of items, up to "&&" or "]". */
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
        else if (posix_bracket(r, &size))
            LM_TRY(read_bracket(r, p, size));
        else if (c == '[')
            LM_TRY(nested_class(r, p, depth));
        else {
            if (c == ']' || c == '^')
                lm_text_add_char(&p->set, '\\');
            lm_text_add_char(&p->set, (char)c);
            r->at++;
        }
    }
}

/* Read the class that starts at the reader's "[". An intersection becomes one expression of look-aheads in
 * `others`. */
static lm_status read_class(reader *r, class_parts *out, unsigned depth)
{
    lm_text    all    = { 0 };
    lm_status status = LM_OK;
    bool      first  = true;

    if (depth > MAX_DEPTH)
        return bad(r, "classes nested too deeply");
    r->at++;
    if (peek(r, 0) == '^') {
        out->negated = true;
        r->at++;
    }
    for (;; first = false) {
        LM_TRY_GOTO(status, read_union(r, out, first, depth), done);
        if (out->set.size == 0 && out->others.size == 0) {
            status = out->set.failed || out->others.failed
                         ? lm_fail_memory(r->e, "a pattern", r->pattern.size)
                         : bad(r, "an empty class");
            goto done;
        }
        if (peek(r, 0) == ']')
            break;
        r->at += 2;
        lm_text_add_str(&all, "(?=");
        add_union(&all, out);
        lm_text_add_char(&all, ')');
        lm_text_clear(&out->set);
        lm_text_clear(&out->others);
    }
    r->at++;
    if (all.size) {
        add_union(&all, out);
        lm_text_clear(&out->set);
        lm_text_clear(&out->others);
        lm_text_printf(&out->others, "|(?:%s)", all.data);
    }
    if (all.failed || out->set.failed || out->others.failed)
        status = lm_fail_memory(r->e, "a pattern", r->pattern.size);
done:
    lm_text_free(&all);
    return status;
}

static lm_status class_outside(reader *r)
{
    class_parts p      = { 0 };
    lm_status   status = read_class(r, &p, 0);

    if (status == LM_OK && p.negated && p.others.size == 0)
        lm_text_printf(r->out, "[^%s]", p.set.data);
    else if (status == LM_OK && p.negated) {
        lm_text_add_str(r->out, "(?:(?!");
        add_union(r->out, &p);
        lm_text_add_str(r->out, ")(?s:.))");
    } else if (status == LM_OK)
        add_union(r->out, &p);
    free_parts(&p);
    return status;
}

/* ---- groups and quantifiers ---- */
/* Start a group, "(?im-x:" and the like: Ruby's m lets the dot match a line feed, which is PCRE2's s. "(?i)"
 * alone applies to the rest of its group, including alternatives: "a(?i)b|c" is "a(?i:b|c)". */
static lm_status group_start(reader *r, group *groups, size_t *n)
{
    group *inner = &groups[*n];
    bool   on    = true;

    if (*n == MAX_GROUPS)
        return bad(r, "groups nested too deeply");
    *inner = (group){ .start = r->out->size, .extended = inner[-1].extended };
    lm_text_add_char(r->out, '(');
    r->at++;
    ++*n;
    if (peek(r, 0) != '?')
        return LM_OK;
    lm_text_add_char(r->out, '?');
    for (r->at++; peek(r, 0) == 'i' || peek(r, 0) == 'm' || peek(r, 0) == 'x' || peek(r, 0) == '-'; r->at++) {
        int c = peek(r, 0);

        lm_text_add_char(r->out, c == 'm' ? 's' : (char)c);
        on              = on && c != '-';
        inner->extended = c == 'x' ? on : inner->extended;
    }
    if (peek(r, 0) != ')')
        return LM_OK;
    lm_text_add_char(r->out, ':');
    r->at++;
    --*n;
    inner[-1].extended = inner->extended;
    inner[-1].ours++;
    return LM_OK;
}

/* Close the groups that the translator added inside this one. */
static void group_end(reader *r, const group *g)
{
    for (unsigned i = 0; i < g->ours; i++)
        lm_text_add_char(r->out, ')');
}

/* Skip "(?# … )" or, in extended mode, "# …" up to the end of the line. */
static bool skip_comment(reader *r, bool extended)
{
    bool closed = peek(r, 0) == '(' && peek(r, 1) == '?' && peek(r, 2) == '#';
    int  end    = closed ? ')' : '\n', c;

    if (!closed && !(extended && peek(r, 0) == '#'))
        return false;
    while ((c = peek(r, 0)) >= 0) {
        r->at += closed && c == '\\' ? 2 : 1;
        if (c == end)
            break;
    }
    return true;
}

static bool insert(lm_text *b, size_t at, const char *text)
{
    size_t n = strlen(text);

    if (!lm_text_reserve(b, n))
        return false;
    memmove(b->data + at + n, b->data + at, b->size - at + 1);
    memcpy(b->data + at, text, n);
    b->size += n;
    return true;
}

/* Translate "{n,m}" after the expression that starts at out[atom]; "{,m}" is "{0,m}". In Ruby a further
 * quantifier applies to the whole: "{n,m}+" is not possessive and "{n}?" not lazy. False: the brace is an
 * ordinary character. */
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
    lm_text_add_char(r->out, '{');
    if (no_low)
        lm_text_add_char(r->out, '0');
    lm_text_add(r->out, r->pattern.data + r->at + 1, i);
    r->at += i + 1;
    int next = peek(r, 0);
    if ((next == '+' || next == '*' || next == '{' || (next == '?' && !comma)) && insert(r->out, atom, "(?:"))
        lm_text_add_char(r->out, ')');
    return true;
}

lm_status lm_regex_translate(lm_view pattern, lm_text *out, const char *where, lm_error *e)
{
    reader r = { pattern, 0, out, where, e };
    group  groups[MAX_GROUPS + 1] = { { .start = 0 } };     /* the first is the pattern itself */
    size_t n = 1, atom = 0;

    while (r.at < pattern.size) {
        size_t start = out->size;
        int    c     = peek(&r, 0);

        if (skip_comment(&r, groups[n - 1].extended))
            continue;
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
            LM_TRY(group_start(&r, groups, &n));
            break;
        case '{':
            if (interval(&r, atom))
                break;
            lm_text_add_char(out, '{');
            r.at++;
            break;
        default:
            if (c == ')' && n > 1) {
                atom = groups[--n].start;
                group_end(&r, &groups[n]);
            } else if (!strchr("*+?|", c) && (c & 0xC0) != 0x80 && !(groups[n - 1].extended && isspace(c)))
                atom = start;
            lm_text_add_char(out, (char)c);
            r.at++;
        }
    }
    while (n > 0)
        group_end(&r, &groups[--n]);
    return out->failed ? lm_fail_memory(e, "a pattern", pattern.size) : LM_OK;
}
