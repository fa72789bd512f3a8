/* pattern.c - convert regular expressions to expressions. */
#include "grammar/pattern.h"

#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8.h"
#include "grammar/charset.h"
#include "grammar/grammar.h"
#include "grammar/explore.h"

enum { MAX_TIMES = 100000 };

typedef struct parser {
    lm_terms    *p;
    const char *text;
    size_t      size, at;
    unsigned    depth;
    bool        marks;               /* the pattern contains anchors */
    lm_node_list sequence, alternatives;     /* stacks: the entries of a group lie on those of the groups
                                                around it */
    lm_error   *e;
} parser;

static lm_status wrong(const parser *x, const char *what)
{
    return lm_fail(x->e, LM_USAGE, NULL, (int64_t)x->at, "%s", what);
}
static lm_status refused(const parser *x, const char *what)
{
    return lm_fail(x->e, LM_UNSUPPORTED, NULL, (int64_t)x->at, "%s cannot be enforced by a grammar", what);
}

static char peek(const parser *x) { return x->at < x->size ? x->text[x->at] : '\0'; }
static char peek_at(const parser *x, size_t i) { return x->at + i < x->size ? x->text[x->at + i] : '\0'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* ---- named sets ---- */

static void add_digits(lm_charset *s) { lm_charset_add(s, '0', '9'); }
static void add_word(lm_charset *s)
{
    lm_charset_add(s, '0', '9');
    lm_charset_add(s, 'A', 'Z');
    lm_charset_add(s, '_', '_');
    lm_charset_add(s, 'a', 'z');
}

/* ECMAScript's WhiteSpace and LineTerminator. */
static void add_space(lm_charset *s)
{
    static const lm_chars blanks[] = { { 9, 13 },          { ' ', ' ' },       { 0xA0, 0xA0 },
                                       { 0x1680, 0x1680 }, { 0x2000, 0x200A }, { 0x2028, 0x2029 },
                                       { 0x202F, 0x202F }, { 0x205F, 0x205F }, { 0x3000, 0x3000 },
                                       { 0xFEFF, 0xFEFF } };

    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++)
        lm_charset_add(s, blanks[i].first, blanks[i].last);
}

static void add_line_ends(lm_charset *s)
{
    lm_charset_add(s, '\n', '\n');
    lm_charset_add(s, '\r', '\r');
    lm_charset_add(s, 0x2028, 0x2029);
}

/* Add the class with the letter of its escape. */
static bool add_named(lm_charset *s, char letter)
{
    lm_charset one = { 0 };

    switch (letter) {
    case 'd': case 'D': add_digits(&one); break;
    case 'w': case 'W': add_word(&one); break;
    case 's': case 'S': add_space(&one); break;
    default: return false;
    }
    lm_charset_normalize(&one, letter < 'a');
    lm_charset_add_set(s, &one);
    lm_charset_free(&one);
    return true;
}

/* Test for a general category by its Unicode name, short or long. */
static bool in_category(const char *name, utf8proc_category_t c)
{
    static const struct { const char *name, *is; } longer[] = {
        { "Letter", "L" }, { "Lowercase_Letter", "Ll" }, { "Uppercase_Letter", "Lu" }, { "Number", "N" }, { "Decimal_Number", "Nd" },
        { "digit", "Nd" }, { "Punctuation", "P" }, { "punct", "P" }, { "Symbol", "S" }, { "Separator", "Z" }, { "Mark", "M" },
    };
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
        if (strcmp(name, longer[i].name) == 0)
            name = longer[i].is;
    static const char two[][3] = { "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                   "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                   "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co" };
    return (unsigned)c < sizeof two / sizeof *two && two[c][0] == name[0] &&
           (name[1] == '\0' || (two[c][1] == name[1] && !name[2]));
}

static lm_status add_property(parser *x, lm_charset *s, bool negated)
{
    char       name[24];
    size_t     n = 0;
    lm_charset one = { 0 };

    if (peek(x) != '{')
        return refused(x, "a Unicode property without braces");
    for (x->at++; peek(x) != '}' && n + 1 < sizeof name && x->at < x->size; x->at++)
        name[n++] = peek(x);
    name[n] = '\0';
    if (peek(x) != '}' || n == 0)
        return refused(x, "this Unicode property");
    x->at++;
    for (uint32_t c = 0; c <= LM_LAST_CHARACTER; c++)
        if (in_category(name, utf8proc_category((utf8proc_int32_t)c))) {
            if (one.n && one.ranges[one.n - 1].last + 1 == c)
                one.ranges[one.n - 1].last = c;
            else
                lm_charset_add(&one, c, c);
        }
    bool none = one.n == 0;
    lm_charset_normalize(&one, negated);
    lm_charset_add_set(s, &one);
    lm_charset_free(&one);
    return none ? refused(x, "this Unicode property") : LM_OK;
}

/* ---- escapes ---- */

static lm_status read_hex(parser *x, unsigned min, unsigned max, uint32_t *out)
{
    unsigned n = 0;

    for (*out = 0; n < max && lm_hex_digit(peek(x)) >= 0 && x->at < x->size; n++, x->at++)
        *out = *out << 4 | (uint32_t)lm_hex_digit(peek(x));
    return n >= min && *out <= LM_LAST_CHARACTER ? LM_OK : wrong(x, "a hexadecimal number is wrong");
}

static lm_status read_braced_hex(parser *x, uint32_t *out)
{
    x->at++;
    LM_TRY(read_hex(x, 1, 6, out));
    if (peek(x) != '}')
        return wrong(x, "a brace is not closed");
    x->at++;
    return LM_OK;
}

static lm_status read_u(parser *x, uint32_t *out)
{
    uint32_t low;

    if (peek(x) == '{')
        return read_braced_hex(x, out);
    LM_TRY(read_hex(x, 4, 4, out));
    if (*out >= 0xD800 && *out < 0xDC00 && peek(x) == '\\' && peek_at(x, 1) == 'u') {
        x->at += 2;
        LM_TRY(read_hex(x, 4, 4, &low));
        if (low < 0xDC00 || low > 0xDFFF)
            return wrong(x, "half a surrogate pair");
        *out = 0x10000 + ((*out - 0xD800) << 10) + (low - 0xDC00);
    }
    return LM_OK;
}

static bool is_letter(char c)
{
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}

/* Reject escapes that do not stand for a character. */
static lm_status read_meaning(parser *x, char c)
{
    if (is_digit(c) || c == 'k')
        return refused(x, "a backreference");
    if (c == 'b' || c == 'B')
        return refused(x, "a word boundary");
    if (c && strchr("AZzG", c))
        return refused(x, "this anchor");
    return is_letter(c) ? refused(x, "this escape sequence") : LM_OK;
}

/* Read the character after a backslash: a literal character, or one by its name or number. */
static lm_status read_escape(parser *x, bool in_class, uint32_t *out)
{
    static const char names[] = "t\tn\nr\rf\fv\v";
    char              c = peek(x);

    if (x->at >= x->size)
        return wrong(x, "a backslash at the end");
    for (size_t i = 0; names[i]; i += 2)
        if (c == names[i]) {
            x->at++;
            *out = (uint32_t)names[i + 1];
            return LM_OK;
        }
    if (c == 'x' || c == 'u') {
        x->at++;
        if (c == 'u')
            return read_u(x, out);
        return peek(x) == '{' ? read_braced_hex(x, out) : read_hex(x, 2, 2, out);
    }
    if (c == 'c' && is_letter(peek_at(x, 1))) {
        *out = (uint32_t)peek_at(x, 1) & 31;
        x->at += 2;
        return LM_OK;
    }
    if (c == '0' && !is_digit(peek_at(x, 1))) {
        x->at++;
        *out = 0;
        return LM_OK;
    }
    if (in_class && c == 'b') {
        x->at++;
        *out = '\b';
        return LM_OK;
    }
    LM_TRY(read_meaning(x, c));
    lm_utf8 u = lm_utf8_next(x->text + x->at, x->size - x->at);
    if (u.state != LM_UTF8_GOOD)
        return wrong(x, "not UTF-8");
    x->at += u.size;
    *out = u.cp;
    return LM_OK;
}

static lm_status read_plain(parser *x, uint32_t *out)
{
    lm_utf8 u = lm_utf8_next(x->text + x->at, x->size - x->at);

    if (u.state != LM_UTF8_GOOD)
        return wrong(x, "not UTF-8");
    x->at += u.size;
    *out = u.cp;
    return LM_OK;
}

/* ---- classes ---- */

/* Read one member of a class. *single: it is a character, which may begin a range. */
static lm_status read_member(parser *x, lm_charset *s, uint32_t *cp, bool *single)
{
    *single = true;
    if (x->at >= x->size)
        return wrong(x, "a class is not closed");
    if (peek(x) == '[' && (peek_at(x, 1) == ':' || peek_at(x, 1) == '.' || peek_at(x, 1) == '='))
        return refused(x, "a POSIX character class");
    if (peek(x) != '\\')
        return read_plain(x, cp);
    x->at++;
    if (add_named(s, peek(x))) {
        x->at++;
        *single = false;
        return LM_OK;
    }
    if (peek(x) == 'p' || peek(x) == 'P') {
        x->at++;
        *single = false;
        return add_property(x, s, x->text[x->at - 1] == 'P');
    }
    return read_escape(x, true, cp);
}

static lm_status read_members(parser *x, lm_charset *s)
{
    uint32_t first = 0, last = 0;
    bool     single, end_single = true;

    while (peek(x) != ']' || x->at >= x->size) {
        LM_TRY(read_member(x, s, &first, &single));
        if (!single) {
            if (peek(x) == '-' && peek_at(x, 1) != ']')
                return refused(x, "a range that begins with a character class");
            continue;
        }
        last = first;
        if (peek(x) == '-' && peek_at(x, 1) != ']' && x->at + 1 < x->size) {
            x->at++;
            LM_TRY(read_member(x, s, &last, &end_single));
            if (!end_single)
                return refused(x, "a range that ends with a character class");
            if (last < first)
                return wrong(x, "a range that ends before it begins");
        }
        lm_charset_add(s, first, last);
    }
    x->at++;
    return LM_OK;
}

static lm_status read_class(parser *x, lm_expr_id *out)
{
    lm_charset s = { 0 };
    bool       negated;

    x->at++;
    negated = peek(x) == '^';
    x->at += negated;
    if (peek(x) == ']')
        return refused(x, "a character class that begins with ]");
    lm_status status = read_members(x, &s);
    if (status == LM_OK) {
        lm_charset_normalize(&s, negated);
        *out = lm_charset_utf8(x->p, &s);
    }
    lm_charset_free(&s);
    return status;
}

static lm_status from_set(parser *x, lm_charset *s, bool negated, lm_expr_id *out)
{
    lm_charset_normalize(s, negated);
    *out = lm_charset_utf8(x->p, s);
    lm_charset_free(s);
    return LM_OK;
}

/* ---- items ---- */

static lm_status read_alternatives(parser *x, lm_expr_id *out);

static lm_status read_group(parser *x, lm_expr_id *out)
{
    if (++x->depth > LM_GRAMMAR_DEPTH)
        return lm_fail(x->e, LM_LIMIT, NULL, (int64_t)x->at, "more than %d groups inside each other",
                       LM_GRAMMAR_DEPTH);
    x->at++;
    if (peek(x) == '*')
        return refused(x, "a backtracking control verb");
    if (peek(x) == '?') {
        char c = peek_at(x, 1), d = peek_at(x, 2);
        if (c == ':') {
            x->at += 2;
        } else if ((c == '<' && d != '=' && d != '!') || (c == 'P' && d == '<')) {
            const char *end = memchr(x->text + x->at, '>', x->size - x->at);
            if (!end)
                return wrong(x, "the name of a group is not closed");
            x->at = (size_t)(end - x->text) + 1;
        } else if (c == '=' || c == '!' || c == '<') {
            return refused(x, "a lookaround assertion");
        } else {
            return refused(x, "this kind of group");
        }
    }
    LM_TRY(read_alternatives(x, out));
    if (peek(x) != ')' || x->at >= x->size)
        return wrong(x, "a parenthesis is not closed");
    x->at++;
    x->depth--;
    return LM_OK;
}

static lm_status read_backslash(parser *x, lm_expr_id *out)
{
    lm_charset s = { 0 };
    uint32_t   cp;
    char       bytes[4];

    x->at++;
    if (add_named(&s, peek(x))) {
        x->at++;
        return from_set(x, &s, false, out);
    }
    if (peek(x) == 'p' || peek(x) == 'P') {
        x->at++;
        lm_status status = add_property(x, &s, x->text[x->at - 1] == 'P');
        if (status == LM_OK)
            return from_set(x, &s, false, out);
        lm_charset_free(&s);
        return status;
    }
    LM_TRY(read_escape(x, false, &cp));
    if (cp >= 0xD800 && cp <= 0xDFFF)
        return wrong(x, "half a surrogate pair");
    *out = lm_literal(x->p, bytes, lm_utf8_encode(cp, bytes));
    return LM_OK;
}

static lm_status read_item(parser *x, lm_expr_id *out)
{
    lm_charset s = { 0 };
    uint32_t   cp;
    char       bytes[4];

    switch (peek(x)) {
    case '(':  return read_group(x, out);
    case '[':  return read_class(x, out);
    case '\\': return read_backslash(x, out);
    case '.':
        x->at++;
        add_line_ends(&s);
        return from_set(x, &s, true, out);
    case '^':
    case '$':
        x->marks = true;
        *out = lm_byte_range(x->p, peek(x) == '^' ? LM_TEXT_BEGIN : LM_TEXT_END,
                             peek(x) == '^' ? LM_TEXT_BEGIN : LM_TEXT_END);
        x->at++;
        return LM_OK;
    case '*': case '+': case '?':
        return wrong(x, "a repetition needs an item before it");
    default:
        LM_TRY(read_plain(x, &cp));
        *out = lm_literal(x->p, bytes, lm_utf8_encode(cp, bytes));
        return LM_OK;
    }
}

/* Read "{2}", "{2,}" or "{2,3}"; anything else is literal text. */
static bool read_braces(parser *x, uint64_t *min, uint64_t *max)
{
    size_t at = x->at + 1;
    bool   digits = false;

    for (*min = 0; at < x->size && is_digit(x->text[at]); at++, digits = true)
        *min = *min > MAX_TIMES ? *min : *min * 10 + (uint64_t)(x->text[at] - '0');
    *max = *min;
    if (!digits || at >= x->size)
        return false;
    if (x->text[at] == ',') {
        at++;
        *max = LM_UNBOUNDED;
        if (at < x->size && is_digit(x->text[at]))
            for (*max = 0; at < x->size && is_digit(x->text[at]); at++)
                *max = *max > MAX_TIMES ? *max : *max * 10 + (uint64_t)(x->text[at] - '0');
    }
    if (at >= x->size || x->text[at] != '}')
        return false;
    x->at = at + 1;
    return true;
}

static lm_status read_repeats(parser *x, lm_expr_id *item)
{
    uint64_t min = 0, max = LM_UNBOUNDED;
    char     c = peek(x);

    if (c == '{' && peek_at(x, 1) == ',' && is_digit(peek_at(x, 2)))
        return refused(x, "{,n}, a repetition in some dialects and literal text in others,");
    if (c == '*' || c == '+' || c == '?') {
        min = c == '+';
        max  = c == '?' ? 1 : max;
        x->at++;
    } else if (c != '{' || !read_braces(x, &min, &max)) {
        return LM_OK;
    }
    if (min > MAX_TIMES || (max > MAX_TIMES && max != LM_UNBOUNDED))
        return lm_fail(x->e, LM_LIMIT, NULL, (int64_t)x->at, "more than %d repetitions", MAX_TIMES);
    if (min > max)
        return wrong(x, "more repetitions at least than at most");
    if (peek(x) == '+')
        return refused(x, "a possessive quantifier");
    x->at += peek(x) == '?';                             /* lazy: matches the same texts */
    c = peek(x);
    if (c == '*' || c == '+' || c == '?')
        return wrong(x, "a repetition of a repetition");
    *item = lm_repeat(x->p, *item, (uint32_t)min, (uint32_t)max);
    return LM_OK;
}

static lm_status read_alternatives(parser *x, lm_expr_id *out)
{
    uint32_t all = x->alternatives.n, one = x->sequence.n;
    lm_expr_id item;

    for (;;) {
        char c = peek(x);
        if (x->at >= x->size || c == ')' || c == '|') {
            lm_list_add(x->p, &x->alternatives, lm_list_cat(x->p, &x->sequence, one));
            if (x->at >= x->size || c == ')')
                break;
            x->at++;
            continue;
        }
        LM_TRY(read_item(x, &item));
        LM_TRY(read_repeats(x, &item));
        lm_list_add(x->p, &x->sequence, item);
    }
    *out = lm_list_alt(x->p, &x->alternatives, all);
    return lm_terms_check(x->p, x->e);
}

/* ---- patterns ---- */

/* Strip anchors at the ends of the pattern. Without alternatives and other anchors they need no marks, so
 * counters remain counters. */
static bool plain_ends(lm_view *text, bool *from_start, bool *to_end)
{
    size_t slashes = 0;
    bool   in_class = false;

    *from_start = text->size && text->data[0] == '^';
    if (*from_start) {
        text->data++;
        text->size--;
    }
    *to_end = text->size && text->data[text->size - 1] == '$';
    while (*to_end && slashes + 1 < text->size && text->data[text->size - 2 - slashes] == '\\')
        slashes++;
    *to_end = *to_end && slashes % 2 == 0;
    text->size -= *to_end;
    unsigned depth = 0;
    for (size_t i = 0; i < text->size; i++) {
        char c = text->data[i];
        if (c == '\\')
            i++;
        else if (in_class)
            in_class = c != ']';
        else if (c == '[')
            in_class = true;
        else if (c == '(' || c == ')')
            depth += c == '(' ? 1u : -1u;
        else if (c == '^' || c == '$' || (c == '|' && depth == 0))
            return false;
    }
    return true;
}

lm_status lm_pattern(lm_terms *p, lm_view text, bool search, lm_expr_id *out, lm_error *e)
{
    lm_error mine;
    lm_view  inner = text;
    bool     from_start, to_end, plain = plain_ends(&inner, &from_start, &to_end);
    parser x = { .p = p,
                 .text = plain ? inner.data : text.data,
                 .size = plain ? inner.size : text.size,
                 .e = e ? e : &mine };
    lm_expr_id n, any = lm_repeat(p, lm_any_character(p), 0, LM_UNBOUNDED);
    lm_status status = read_alternatives(&x, &n);

    lm_free(x.sequence.items);
    lm_free(x.alternatives.items);
    if (status == LM_OK && x.at < x.size)
        status = wrong(&x, "a parenthesis is closed that was not opened");
    if (status != LM_OK && plain && from_start && x.e->offset != LM_NO_OFFSET)
        x.e->offset++;
    LM_TRY(status);
    if (!x.marks) {
        *out = !search ? n
                       : lm_cat(p, from_start && plain ? LM_EMPTY_TEXT : any,
                                lm_cat(p, n, to_end && plain ? LM_EMPTY_TEXT : any));
        return lm_terms_check(p, x.e);
    }
    lm_expr_id begin = lm_repeat(p, lm_byte_range(p, LM_TEXT_BEGIN, LM_TEXT_BEGIN), 0, LM_UNBOUNDED);
    lm_expr_id end   = lm_repeat(p, lm_byte_range(p, LM_TEXT_END, LM_TEXT_END), 0, LM_UNBOUNDED);
    lm_expr_id before = search ? lm_cat(p, begin, any) : begin, after = search ? lm_cat(p, any, end) : end;
    n    = lm_cat(p, before, lm_cat(p, n, after));
    *out = lm_explore(p, n);
    return lm_terms_check(p, x.e);
}

lm_status lm_grammar_regex(const char *text, size_t size, const lm_grammar_options *o, lm_grammar **out,
                           lm_error *e)
{
    LM_REQUIRE(e, (text || !size) && out);
    lm_terms  pool;
    lm_expr_id root;
    uint32_t rule;

    LM_TRY(lm_grammar_begin(&pool, o, size, e));
    lm_status status = lm_pattern(&pool, (lm_view){ text, size }, false, &root, e);
    if (status == LM_OK)
        return lm_grammar_finish(&pool, root, out, &rule, e);
    lm_terms_free(&pool);
    return status;
}
