/* gbnf.c - convert llama.cpp's grammars (its grammars/README.md) to expressions. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/map.h"
#include "base/utf8.h"
#include "grammar/charset.h"
#include "grammar/grammar.h"

enum { MAX_REPEATS = 2000, MAX_RULES = 10000 };

typedef struct named_rule { lm_view name; size_t at; bool defined; } named_rule;

typedef struct parser {
    const char *text;
    size_t      size, at;
    unsigned    depth;
    lm_terms    *p;
    lm_map     *rules;               /* rule number by name */
    named_rule *names;
    uint32_t    n_names, names_capacity;
    lm_node_list sequence, alternatives;     /* stacks: the entries of a group lie on those of the groups
                                                around it */
    const lm_grammar_options *o;
    lm_error   *e;
} parser;

static lm_status wrong(const parser *g, const char *what)
{
    return lm_fail(g->e, LM_USAGE, NULL, (int64_t)g->at, "%s", what);
}

static lm_status wrong_rule(const parser *g, lm_view name, int64_t at, const char *what)
{
    return lm_fail(g->e, LM_USAGE, NULL, at, "the rule '%.*s' %s", name.size < 100 ? (int)name.size : 100,
                   name.data, what);
}

static char peek(const parser *g) { return g->at < g->size ? g->text[g->at] : '\0'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-';
}

static void skip_space(parser *g, bool lines)
{
    for (; g->at < g->size; g->at++) {
        char c = peek(g);
        if (c == '#') {
            while (g->at < g->size && peek(g) != '\n' && peek(g) != '\r')
                g->at++;
            g->at--;
        } else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r'))) {
            return;
        }
    }
}

static lm_status read_name(parser *g, lm_view *out)
{
    size_t from = g->at;

    while (is_name(peek(g)))
        g->at++;
    *out = (lm_view){ g->text + from, g->at - from };
    return out->size ? LM_OK : wrong(g, "the name of a rule is missing");
}

static lm_status rule_of(parser *g, lm_view name, bool define, uint32_t *out)
{
    uint64_t at;

    if (!lm_map_get(g->rules, name, &at)) {
        if (g->n_names >= MAX_RULES)
            return lm_fail(g->e, LM_LIMIT, NULL, (int64_t)g->at, "more than %d rules", MAX_RULES);
        at = lm_rule_new(g->p);
        if (!lm_map_add(g->rules, name, at) ||
            !lm_terms_reserve(g->p, &g->names, g->n_names, &g->names_capacity, sizeof *g->names, 1))
            return lm_fail_memory(g->e, "a grammar", name.size);
        g->names[g->n_names++] = (named_rule){ name, g->at - name.size, false };
    }
    if (define)
        g->names[at].defined = true;
    *out = (uint32_t)at;
    return LM_OK;
}

/* ---- characters ---- */

static lm_status read_hex(parser *g, unsigned digits, uint32_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < digits; i++, g->at++) {
        int d = lm_hex_digit(peek(g));
        if (d < 0)
            return wrong(g, "a hexadecimal digit is missing");
        *out = *out << 4 | (uint32_t)d;
    }
    if (*out > LM_LAST_CHARACTER || (*out >= 0xD800 && *out <= 0xDFFF))
        return wrong(g, "not a character");
    return LM_OK;
}

static lm_status read_character(parser *g, uint32_t *out)
{
    if (g->at >= g->size)
        return wrong(g, "the grammar ends inside a literal or a class");
    if (peek(g) != '\\') {
        lm_utf8 c = lm_utf8_next(g->text + g->at, g->size - g->at);
        if (c.state != LM_UTF8_GOOD)
            return wrong(g, "not UTF-8");
        g->at += c.size;
        *out = c.cp;
        return LM_OK;
    }
    g->at++;
    char c = peek(g);
    g->at++;
    switch (c) {
    case 'x': return read_hex(g, 2, out);
    case 'u': return read_hex(g, 4, out);
    case 'U': return read_hex(g, 8, out);
    case 't': *out = '\t'; return LM_OK;
    case 'r': *out = '\r'; return LM_OK;
    case 'n': *out = '\n'; return LM_OK;
    case '\\': case '"': case '[': case ']': case '-':
        *out = (uint32_t)c;
        return LM_OK;
    default:
        g->at -= 2;
        return wrong(g, "unknown escape");
    }
}

static lm_status read_literal(parser *g, lm_expr_id *out)
{
    lm_text   text = { 0 };
    lm_status status = LM_OK;
    uint32_t  cp;
    char      bytes[4];

    g->at++;
    while (status == LM_OK && peek(g) != '"')
        if ((status = read_character(g, &cp)) == LM_OK)
            lm_text_add(&text, bytes, lm_utf8_encode(cp, bytes));
    g->at++;
    if (status == LM_OK && text.failed)
        status = lm_fail_memory(g->e, "a literal", text.size);
    if (status == LM_OK)
        *out = lm_literal(g->p, text.data, text.size);
    lm_text_free(&text);
    return status;
}

static lm_status read_ranges(parser *g, lm_charset *set)
{
    uint32_t first, last;

    while (peek(g) != ']' || g->at >= g->size) {
        LM_TRY(read_character(g, &first));
        last = first;
        if (peek(g) == '-' && g->at + 1 < g->size && g->text[g->at + 1] != ']') {
            g->at++;
            LM_TRY(read_character(g, &last));
            if (last < first)
                return wrong(g, "a range that ends before it begins");
        }
        lm_charset_add(set, first, last);
    }
    g->at++;
    return LM_OK;
}

static lm_status read_class(parser *g, lm_expr_id *out)
{
    lm_charset set = { 0 };
    bool       negated;

    g->at++;
    negated = peek(g) == '^';
    g->at += negated;
    lm_status status = read_ranges(g, &set);
    if (status == LM_OK) {
        lm_charset_normalize(&set, negated);
        *out = lm_charset_utf8(g->p, &set);
    }
    lm_charset_free(&set);
    return status;
}

/* ---- tokens ---- */

static lm_status token_by_name(parser *g, size_t from, lm_token *out)
{
    const lm_tokenizer *t = g->o ? g->o->tokenizer : NULL;
    lm_tokens           ids = { 0 };

    if (!t)
        return wrong(g, "a token by its text needs `tokenizer`");
    LM_TRY(lm_tokenize(t, g->text + from, g->at - from, 0, &ids, g->e));
    size_t n = ids.n;
    if (n == 1)
        *out = ids.ids[0];
    lm_tokens_free(&ids);
    g->at = n == 1 ? g->at : from;
    return n == 1 ? LM_OK : wrong(g, "not one token of the vocabulary");
}

static lm_status read_token(parser *g, lm_expr_id *out)
{
    bool     negated = peek(g) == '!';
    uint64_t number = 0;
    lm_token id;

    g->at += negated;
    if (peek(g) != '<')
        return wrong(g, "a token is written <...>");
    size_t from = g->at++;
    if (peek(g) == '[') {
        g->at++;
        if (!is_digit(peek(g)))
            return wrong(g, "the number of a token is missing");
        for (; is_digit(peek(g)) && number <= INT32_MAX; g->at++)
            number = number * 10 + (uint64_t)(peek(g) - '0');
        if (number > INT32_MAX || peek(g) != ']' || g->at + 1 >= g->size || g->text[g->at + 1] != '>')
            return wrong(g, "a token by its number is written <[7]>");
        g->at += 2;
        id = (lm_token)number;
    } else {
        const char *end = memchr(g->text + g->at, '>', g->size - g->at);
        if (!end)
            return wrong(g, "a token without its >");
        g->at = (size_t)(end - g->text) + 1;
        LM_TRY(token_by_name(g, from, &id));
    }
    *out = lm_token_item(g->p, negated ? LM_TOKENS_BUT : LM_TOKENS_OF, &id, 1);
    return LM_OK;
}

/* ---- sequences and alternatives ---- */

static lm_status read_number(parser *g, uint32_t *out)
{
    if (!is_digit(peek(g)))
        return wrong(g, "a number of repetitions is missing");
    for (*out = 0; is_digit(peek(g)); g->at++)
        if ((*out = *out * 10 + (uint32_t)(peek(g) - '0')) > MAX_REPEATS)
            return lm_fail(g->e, LM_USAGE, NULL, (int64_t)g->at, "more than %d repetitions", MAX_REPEATS);
    return LM_OK;
}

static lm_status read_braces(parser *g, bool nested, uint32_t *min, uint32_t *max)
{
    g->at++;
    skip_space(g, nested);
    LM_TRY(read_number(g, min));
    *max = *min;
    skip_space(g, nested);
    if (peek(g) == ',') {
        g->at++;
        skip_space(g, nested);
        *max = LM_UNBOUNDED;
        if (is_digit(peek(g)))
            LM_TRY(read_number(g, max));
        skip_space(g, nested);
    }
    if (peek(g) != '}')
        return wrong(g, "a repetition without its }");
    g->at++;
    return *min <= *max ? LM_OK : wrong(g, "more repetitions at least than at most");
}

static lm_status read_repeats(parser *g, bool nested, lm_expr_id *last)
{
    uint32_t min = 0, max = LM_UNBOUNDED;

    switch (peek(g)) {
    case '{': LM_TRY(read_braces(g, nested, &min, &max)); break;
    case '+': min = 1; g->at++; break;
    case '?': max = 1; g->at++; break;
    default:  g->at++;
    }
    *last = lm_repeat(g->p, *last, min, max);
    return LM_OK;
}

static lm_status read_alternatives(parser *g, bool nested, lm_expr_id *out);

static lm_status read_group(parser *g, lm_expr_id *out)
{
    if (++g->depth > LM_GRAMMAR_DEPTH)
        return lm_fail(g->e, LM_LIMIT, NULL, (int64_t)g->at, "more than %d parentheses inside each other",
                       LM_GRAMMAR_DEPTH);
    g->at++;
    skip_space(g, true);
    LM_TRY(read_alternatives(g, true, out));
    if (peek(g) != ')')
        return wrong(g, "a parenthesis is not closed");
    g->at++;
    g->depth--;
    return LM_OK;
}

static lm_status read_item(parser *g, lm_expr_id *out)
{
    lm_view  name;
    uint32_t rule;

    switch (peek(g)) {
    case '"': return read_literal(g, out);
    case '[': return read_class(g, out);
    case '<':
    case '!': return read_token(g, out);
    case '(': return read_group(g, out);
    case '.':
        g->at++;
        *out = lm_any_character(g->p);
        return LM_OK;
    default:
        LM_TRY(read_name(g, &name));
        LM_TRY(rule_of(g, name, false, &rule));
        *out = lm_rule_node(g->p, rule);
        return LM_OK;
    }
}

static bool begins_item(char c) { return is_name(c) || (c && strchr("\"[<!(.", c)); }
static bool is_repeat(char c) { return c && strchr("*+?{", c); }

static lm_status read_sequence(parser *g, bool nested, lm_expr_id *out)
{
    lm_expr_id last = LM_EMPTY_TEXT;
    uint32_t from = g->sequence.n;
    bool     any = false;

    for (;; any = true) {
        if (begins_item(peek(g))) {
            lm_list_add(g->p, &g->sequence, last);
            LM_TRY(read_item(g, &last));
        } else if (!is_repeat(peek(g))) {
            break;
        } else if (!any) {
            return wrong(g, "a repetition needs an item before it");
        } else {
            LM_TRY(read_repeats(g, nested, &last));
        }
        skip_space(g, nested);
    }
    lm_list_add(g->p, &g->sequence, last);
    *out = lm_list_cat(g->p, &g->sequence, from);
    return LM_OK;
}

static lm_status read_alternatives(parser *g, bool nested, lm_expr_id *out)
{
    uint32_t from = g->alternatives.n;
    lm_expr_id one;

    LM_TRY(read_sequence(g, nested, &one));
    lm_list_add(g->p, &g->alternatives, one);
    while (peek(g) == '|') {
        g->at++;
        skip_space(g, true);
        LM_TRY(read_sequence(g, nested, &one));
        lm_list_add(g->p, &g->alternatives, one);
    }
    *out = lm_list_alt(g->p, &g->alternatives, from);
    return LM_OK;
}

static lm_status read_rule(parser *g)
{
    lm_view  name;
    uint32_t rule;
    lm_expr_id body;

    LM_TRY(read_name(g, &name));
    LM_TRY(rule_of(g, name, true, &rule));
    skip_space(g, false);
    if (g->size - g->at < 3 || memcmp(g->text + g->at, "::=", 3) != 0)
        return wrong(g, "expected ::=");
    g->at += 3;
    skip_space(g, true);
    LM_TRY(read_alternatives(g, false, &body));
    if (g->at < g->size && peek(g) != '\n' && peek(g) != '\r')
        return wrong(g, "expected the end of the line");
    skip_space(g, true);
    lm_rule_define(g->p, rule, body);
    return lm_terms_check(g->p, g->e);
}

/* Define the rules that are schemas. Schemas that no rule refers to are ignored. */
static lm_status add_schemas(parser *g)
{
    for (size_t i = 0; g->o && i < g->o->n_schemas; i++) {
        const lm_grammar_schema *s = g->o->schemas + i;
        lm_view  name = lm_view_of(s->name);
        uint64_t rule;
        lm_expr_id body;

        if (!lm_map_get(g->rules, name, &rule))
            continue;
        if (g->names[rule].defined)
            return wrong_rule(g, name, LM_NO_OFFSET, "is a schema as well");
        if (lm_grammar_add_schema(g->p, s->text, strlen(s->text), g->o, &body, g->e) != LM_OK) {
            lm_error why = *g->e;
            return lm_fail(g->e, why.code, s->name, LM_NO_OFFSET, "%s%s%s", why.where, *why.where ? ": " : "",
                           why.message);
        }
        lm_rule_define(g->p, (uint32_t)rule, body);
        g->names[rule].defined = true;
    }
    return LM_OK;
}

static lm_status parse(parser *g, lm_expr_id *root)
{
    lm_view  start = lm_view_of(g->o && g->o->start ? g->o->start : "root");
    uint64_t rule;

    skip_space(g, true);
    while (g->at < g->size)
        LM_TRY(read_rule(g));
    LM_TRY(add_schemas(g));
    for (uint32_t i = 0; i < g->n_names; i++)
        if (!g->names[i].defined)
            return wrong_rule(g, g->names[i].name, (int64_t)g->names[i].at, "is not defined");
    if (!lm_map_get(g->rules, start, &rule))
        return wrong_rule(g, start, LM_NO_OFFSET, "with which texts begin, is not defined");
    *root = lm_rule_node(g->p, (uint32_t)rule);
    return lm_terms_check(g->p, g->e);
}

lm_status lm_grammar_gbnf(const char *text, size_t size, const lm_grammar_options *o, lm_grammar **out,
                          lm_error *e)
{
    LM_REQUIRE(e, (text || !size) && out);
    lm_terms  pool;
    lm_error mine;
    parser   g = { .text = text, .size = size, .p = &pool, .o = o, .e = e ? e : &mine };
    lm_expr_id root = LM_NOTHING;
    uint32_t rule = UINT32_MAX;

    LM_TRY(lm_grammar_begin(&pool, o, size, g.e));
    g.rules = lm_map_new(64);
    lm_status status = g.rules ? parse(&g, &root) : lm_fail_memory(g.e, "a grammar", 0);
    if (status == LM_OK)
        status = lm_grammar_finish(&pool, root, out, &rule, g.e);
    else
        lm_terms_free(&pool);
    if (status == LM_USAGE && rule != UINT32_MAX) {
        named_rule n = rule < g.n_names ? g.names[rule] : (named_rule){ .name = { "", 0 } };
        wrong_rule(&g, n.name, (int64_t)n.at, "begins with itself (left recursion)");
    }
    lm_map_free(g.rules);
    lm_free(g.names);
    lm_free(g.sequence.items);
    lm_free(g.alternatives.items);
    return status;
}
