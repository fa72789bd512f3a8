/* json_value.c - expressions of any JSON value and of constants. */
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "base/alloc.h"
#include "grammar/charset.h"
#include "grammar/schema/schema.h"

/* ---- white space ---- */

static lm_expr_id bounded_space(lm_terms *p)
{
    lm_byte_set blanks = { { 0 } };

    lm_byte_set_add(&blanks, ' ', ' ');
    lm_byte_set_add(&blanks, '\t', '\t');
    lm_expr_id lines = lm_cat(p, lm_repeat(p, lm_word(p, "\n"), 1, 2),
                              lm_repeat(p, lm_bytes(p, &blanks), 0, 20));
    return lm_optional(p, lm_alt(p, lm_word(p, " "), lines));
}

/* ---- any value ---- */

static lm_expr_id digits(lm_terms *p, uint32_t min, uint32_t max)
{
    return lm_repeat(p, lm_byte_range(p, '0', '9'), min, max);
}

static lm_expr_id hex_range(lm_terms *p, char first, char last)
{
    static const char lower[] = "abcdef", upper[] = "ABCDEF";
    lm_byte_set       s = { { 0 } };

    for (char c = first; c <= last; c++) {
        int d = lm_hex_digit(c);
        if (d < 10)
            lm_byte_set_add(&s, (unsigned char)c, (unsigned char)c);
        else if (d >= 10) {
            lm_byte_set_add(&s, (unsigned char)lower[d - 10], (unsigned char)lower[d - 10]);
            lm_byte_set_add(&s, (unsigned char)upper[d - 10], (unsigned char)upper[d - 10]);
        }
    }
    return lm_bytes(p, &s);
}

static lm_expr_id hex_but(lm_terms *p, const char *without)
{
    lm_byte_set s = { { 0 } };

    for (const char *c = "0123456789abcdefABCDEF"; *c; c++)
        if (!strchr(without, *c))
            lm_byte_set_add(&s, (unsigned char)*c, (unsigned char)*c);
    return lm_bytes(p, &s);
}

/* \uXXXX: a character of the basic plane, or a surrogate pair. */
static lm_expr_id unicode_escape(lm_terms *p)
{
    lm_byte_set d = { { 0 } };
    lm_expr_id  hex = hex_but(p, ""), u = lm_word(p, "\\u");

    lm_byte_set_add(&d, 'd', 'd');
    lm_byte_set_add(&d, 'D', 'D');
    lm_expr_id plain = lm_alt(p, lm_cat(p, hex_but(p, "dD"), lm_repeat(p, hex, 3, 3)),
                              lm_cat(p, lm_bytes(p, &d),
                                     lm_cat(p, hex_range(p, '0', '7'), lm_repeat(p, hex, 2, 2))));
    lm_byte_set low = { { 0 } }, high = { { 0 } };
    lm_byte_set_add(&high, '8', '9');
    lm_byte_set_add(&high, 'a', 'b');
    lm_byte_set_add(&high, 'A', 'B');
    lm_byte_set_add(&low, 'c', 'f');
    lm_byte_set_add(&low, 'C', 'F');
    lm_expr_id pair = lm_cat(p, lm_bytes(p, &d), lm_cat(p, lm_bytes(p, &high), lm_repeat(p, hex, 2, 2)));
    pair = lm_cat(p, pair,
                  lm_cat(p, u,
                         lm_cat(p, lm_bytes(p, &d), lm_cat(p, lm_bytes(p, &low), lm_repeat(p, hex, 2, 2)))));
    return lm_cat(p, u, lm_alt(p, plain, pair));
}

/* One character of a string in any spelling. */
static lm_expr_id string_character(lm_terms *p)
{
    lm_charset  raw = { 0 };
    lm_byte_set named = { { 0 } };

    lm_charset_add(&raw, 0, 0x1F);
    lm_charset_add(&raw, '"', '"');
    lm_charset_add(&raw, '\\', '\\');
    lm_charset_normalize(&raw, true);
    for (const char *c = "\"\\/bfnrt"; *c; c++)
        lm_byte_set_add(&named, (unsigned char)*c, (unsigned char)*c);
    lm_expr_id escaped = lm_alt(p, lm_cat(p, lm_word(p, "\\"), lm_bytes(p, &named)), unicode_escape(p));
    lm_expr_id one = lm_alt(p, lm_charset_utf8(p, &raw), escaped);
    lm_charset_free(&raw);
    return one;
}

static lm_expr_id as_rule(lm_terms *p, lm_expr_id body)
{
    uint32_t rule = lm_rule_new(p);

    lm_rule_define(p, rule, body);
    return lm_rule_node(p, rule);
}

static lm_expr_id any_number(lm_terms *p)
{
    lm_byte_set e = { { 0 } }, sign = { { 0 } };

    lm_byte_set_add(&e, 'e', 'e');
    lm_byte_set_add(&e, 'E', 'E');
    lm_byte_set_add(&sign, '+', '+');
    lm_byte_set_add(&sign, '-', '-');
    lm_expr_id whole = lm_alt(p, lm_word(p, "0"), lm_cat(p, lm_byte_range(p, '1', '9'), digits(p, 0, 15)));
    lm_expr_id part  = lm_optional(p, lm_cat(p, lm_word(p, "."), digits(p, 1, 16)));
    lm_expr_id power = lm_optional(p, lm_cat(p, lm_bytes(p, &e),
                                             lm_cat(p, lm_optional(p, lm_bytes(p, &sign)), digits(p, 1, 3))));
    return lm_cat(p, lm_optional(p, lm_word(p, "-")), lm_cat(p, whole, lm_cat(p, part, power)));
}

/* open (item (comma item)*)? close */
static lm_expr_id listed(lm_terms *p, const lm_schema *s, const char *open, lm_expr_id item,
                         const char *close)
{
    lm_expr_id comma = lm_cat(p, s->inside, lm_cat(p, lm_word(p, ","), s->after));
    lm_expr_id items = lm_cat(p, item, lm_repeat(p, lm_cat(p, comma, item), 0, LM_UNBOUNDED));

    return lm_cat(p, lm_word(p, open),
                  lm_cat(p, s->inside,
                         lm_alt(p, lm_word(p, close),
                                lm_cat(p, items, lm_cat(p, s->inside, lm_word(p, close))))));
}

void lm_json_prelude(lm_terms *p, lm_whitespace w, lm_schema *s)
{
    uint32_t value = lm_rule_new(p);
    lm_expr_id quote = lm_word(p, "\""), any = lm_rule_node(p, value);

    s->inside = w == LM_WHITESPACE_BOUNDED ? bounded_space(p) : LM_EMPTY_TEXT;
    s->after  = w == LM_WHITESPACE_SPACED ? lm_optional(p, lm_word(p, " ")) : s->inside;
    s->string_character = string_character(p);
    s->string = as_rule(p, lm_cat(p, quote,
                                  lm_cat(p, lm_repeat(p, s->string_character, 0, LM_UNBOUNDED), quote)));
    s->number = as_rule(p, any_number(p));
    s->colon  = lm_cat(p, s->inside, lm_cat(p, lm_word(p, ":"), s->after));
    lm_expr_id member = lm_cat(p, s->string, lm_cat(p, s->colon, any));
    s->object = as_rule(p, listed(p, s, "{", member, "}"));
    s->array  = as_rule(p, listed(p, s, "[", any, "]"));
    lm_expr_id words = lm_alt(p, lm_word(p, "true"), lm_alt(p, lm_word(p, "false"), lm_word(p, "null")));
    lm_rule_define(p, value,
                   lm_alt(p, words,
                          lm_alt(p, lm_alt(p, s->string, s->number), lm_alt(p, s->object, s->array))));
    s->value = any;
}

lm_status lm_grammar_json(const lm_grammar_options *o, lm_grammar **out, lm_error *e)
{
    LM_REQUIRE(e, out);
    lm_terms   pool;
    lm_schema s = { 0 };
    uint32_t  rule;

    LM_TRY(lm_grammar_begin(&pool, o, 0, e));
    lm_json_prelude(&pool, o ? o->whitespace : LM_WHITESPACE_NONE, &s);
    return lm_grammar_finish(&pool, s.object, out, &rule, e);
}

/* ---- constants ---- */

static lm_expr_id number_constant(lm_terms *p, const json_t *v)
{
    char text[40];

    if (json_is_integer(v)) {
        lm_print(text, sizeof text, "%lld", (long long)json_integer_value(v));
        return lm_word(p, text);
    }
    lm_number_text(text, json_real_value(v));
    lm_expr_id n = lm_word(p, text);
    size_t  size = strlen(text);
    if (size > 2 && strcmp(text + size - 2, ".0") == 0)
        n = lm_alt(p, n, lm_literal(p, text, size - 2));
    return n;
}

static lm_expr_id object_constant(lm_schema *s, const json_t *v)
{
    lm_terms    *p = s->p;
    const char *name;
    json_t     *x;
    lm_node_list all = { 0 };
    lm_expr_id  comma = LM_EMPTY_TEXT;
    void       *at;

    for (at = json_object_iter(lm_json_iterable(v)); at;
         at = json_object_iter_next(lm_json_iterable(v), at)) {
        name = json_object_iter_key(at);
        x    = json_object_iter_value(at);
        lm_list_add(p, &all, lm_cat(p, comma, lm_json_quoted(p, name, json_object_iter_key_len(at))));
        lm_list_add(p, &all, lm_cat(p, s->colon, lm_json_constant(s, x)));
        comma = lm_cat(p, s->inside, lm_cat(p, lm_word(p, ","), s->after));
    }
    lm_expr_id end = comma == LM_EMPTY_TEXT ? LM_EMPTY_TEXT : s->inside;
    lm_list_add(p, &all, lm_cat(p, end, lm_word(p, "}")));
    lm_expr_id out = lm_list_cat(p, &all, 0);
    lm_free(all.items);
    return lm_cat(p, lm_word(p, "{"), lm_cat(p, s->inside, out));
}

static lm_expr_id array_constant(lm_schema *s, const json_t *v, lm_expr_id comma)
{
    lm_terms    *p = s->p;
    lm_node_list all = { 0 };

    for (size_t i = 0; i < json_array_size(v); i++)
        lm_list_add(p, &all, lm_cat(p, i ? comma : LM_EMPTY_TEXT, lm_json_constant(s, json_array_get(v, i))));
    lm_list_add(p, &all, lm_cat(p, json_array_size(v) ? s->inside : LM_EMPTY_TEXT, lm_word(p, "]")));
    lm_expr_id out = lm_list_cat(p, &all, 0);
    lm_free(all.items);
    return lm_cat(p, lm_word(p, "["), lm_cat(p, s->inside, out));
}

lm_expr_id lm_json_constant(lm_schema *s, const json_t *v)
{
    lm_terms *p = s->p;
    lm_expr_id comma = lm_cat(p, s->inside, lm_cat(p, lm_word(p, ","), s->after));

    switch (json_typeof(v)) {
    case JSON_NULL:    return lm_word(p, "null");
    case JSON_TRUE:    return lm_word(p, "true");
    case JSON_FALSE:   return lm_word(p, "false");
    case JSON_INTEGER:
    case JSON_REAL:    return number_constant(p, v);
    case JSON_STRING:  return lm_json_quoted(p, json_string_value(v), json_string_length(v));
    case JSON_OBJECT:  return object_constant(s, v);
    case JSON_ARRAY:
        return array_constant(s, v, comma);
    }
    return LM_NOTHING;
}
