/* json_string.c - JSON strings: the texts that they contain, and their spelling. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "grammar/charset.h"
#include "grammar/explore.h"
#include "grammar/pattern.h"
#include "grammar/schema/schema.h"

/* ---- encoding between quotes ---- */

typedef struct encoding {
    lm_terms *p;
    lm_expr_id *done;
    uint32_t done_capacity;
    uint32_t *rules;
    uint32_t n_old;
} encoding;

static lm_expr_id control(lm_terms *p, unsigned b)
{
    static const char short_of[] = "\bb\ff\nn\rr\tt", hex[] = "0123456789abcdef",
                      upper[] = "0123456789ABCDEF";
    char    text[8] = "\\u00", name[3] = "\\?";
    lm_expr_id n;

    text[4] = hex[b >> 4];
    text[5] = hex[b & 15];
    n = lm_word(p, text);
    text[5] = upper[b & 15];
    n = lm_alt(p, n, lm_word(p, text));
    for (size_t i = 0; short_of[i]; i += 2)
        if ((unsigned char)short_of[i] == b) {
            name[1] = short_of[i + 1];
            n = lm_alt(p, n, lm_word(p, name));
        }
    return n;
}

static lm_expr_id encoded_set(lm_terms *p, lm_byte_set s)
{
    lm_expr_id out = LM_NOTHING;

    for (unsigned b = 0; b < 0x60; b++) {
        if (!lm_byte_set_has(&s, b) || (b >= 0x20 && b != '"' && b != '\\'))
            continue;
        s.bits[b >> 6] &= ~(UINT64_C(1) << (b & 63));
        out = lm_alt(p, out, b < 0x20 ? control(p, b) : lm_word(p, b == '"' ? "\\\"" : "\\\\"));
    }
    return lm_alt(p, lm_bytes(p, &s), out);
}

static lm_expr_id encoded_literal(lm_terms *p, const lm_node_data d)
{
    lm_expr_id out = LM_EMPTY_TEXT;

    for (uint32_t i = d.b; i-- > 0;) {
        lm_byte_set one = { { 0 } };
        lm_byte_set_add(&one, p->bytes[d.a + i], p->bytes[d.a + i]);
        out = lm_cat(p, encoded_set(p, one), out);
    }
    return out;
}

static lm_expr_id encode(encoding *x, lm_expr_id n);

static lm_expr_id encode_kind(encoding *x, lm_expr_id n)
{
    lm_terms           *p = x->p;
    const lm_node_data d = p->nodes[n];
    lm_expr_id         a, out;

    switch ((lm_node_kind)d.kind) {
    case LM_NODE_BYTES:   return encoded_set(p, p->sets[d.a]);
    case LM_NODE_LITERAL: return encoded_literal(p, d);
    case LM_NODE_CAT:
    case LM_NODE_FRAME:
        a = encode(x, d.a);
        return lm_cat(p, a, encode(x, d.b));
    case LM_NODE_ALT:
        out = LM_NOTHING;
        for (uint32_t i = 0; i < d.b; i++)
            out = lm_alt(p, out, encode(x, p->lists[d.a + i]));
        return out;
    case LM_NODE_REPEAT:  return lm_repeat(p, encode(x, d.a), d.b, d.c);
    case LM_NODE_RULE:
        if (d.a >= x->n_old)
            return n;
        if (!x->rules[d.a]) {
            uint32_t rule = lm_rule_new(p);
            if (p->status != LM_OK)
                return LM_NOTHING;
            p->rules[rule].flags = p->rules[d.a].flags;
            x->rules[d.a] = rule + 1;
        }
        return lm_rule_node(p, x->rules[d.a] - 1);
    default:
        return n;
    }
}

static lm_expr_id encode(encoding *x, lm_expr_id n)
{
    uint32_t had = x->done_capacity;

    if (n <= LM_EMPTY_TEXT || x->p->status != LM_OK)
        return n;
    if (n >= had) {
        if (!lm_terms_reserve(x->p, &x->done, n, &x->done_capacity, sizeof *x->done, 1))
            return LM_NOTHING;
        memset(x->done + had, 0, (x->done_capacity - had) * sizeof *x->done);
    }
    if (!x->done[n]) {
        lm_expr_id out = encode_kind(x, n);
        x->done[n] = out;
        return out;
    }
    return x->done[n];
}

lm_expr_id lm_json_encoded(lm_terms *p, lm_expr_id language)
{
    encoding x = { .p = p, .n_old = p->n_rules, .rules = lm_alloc_zero(p->n_rules + 1, sizeof *x.rules) };
    lm_expr_id out = LM_NOTHING;

    if (!x.rules)
        lm_terms_fail(p, LM_NO_MEMORY, NULL);
    else
        out = encode(&x, language);
    /* bodies of rules refer to more rules */
    for (bool more = x.rules != NULL; more && p->status == LM_OK;) {
        more = false;
        for (uint32_t r = 0; r < x.n_old; r++)
            if (x.rules[r] && p->rules[x.rules[r] - 1].body == LM_NOTHING && p->rules[r].body != LM_NOTHING) {
                lm_expr_id body = encode(&x, p->rules[r].body);
                lm_rule_define(p, x.rules[r] - 1, body);
                more = true;
            }
    }
    lm_free(x.rules);
    lm_free(x.done);
    return out;
}

lm_expr_id lm_json_quoted(lm_terms *p, const char *text, size_t n)
{
    lm_expr_id quote = lm_word(p, "\"");

    return lm_cat(p, quote, lm_cat(p, lm_json_encoded(p, lm_literal(p, text, n)), quote));
}

/* ---- languages of texts ---- */

static lm_expr_id of_length(lm_terms *p, uint32_t min, uint32_t max)
{
    return lm_repeat(p, lm_any_character(p), min, max);
}

static lm_expr_id one_of(lm_schema *s, const json_t *list)
{
    lm_expr_id all = LM_NOTHING;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (json_is_string(v))
            all = lm_alt(s->p, all, lm_literal(s->p, json_string_value(v), json_string_length(v)));
    }
    return all;
}

lm_expr_id lm_json_language(lm_schema *s, const lm_shape *shape)
{
    lm_terms *p = s->p;
    uint32_t min = shape->min > shape->shortest ? shape->min : 0, max = shape->max;

    if (shape->longest && max >= shape->longest)
        max = LM_UNBOUNDED;                              /* the format is not longer anyway */
    lm_expr_id all = of_length(p, shape->min, shape->max);

    if (shape->has_language)
        all = min == 0 && max == LM_UNBOUNDED ? shape->language
                                                 : lm_and(p, of_length(p, min, max), shape->language);
    for (const lm_values *v = shape->values; v; v = v->next) {
        bool free = !shape->has_language && shape->min == 0 && shape->max == LM_UNBOUNDED &&
                    v == shape->values;
        all = free ? one_of(s, v->list) : lm_and(p, all, one_of(s, v->list));
    }
    return all;
}

/* Return whether the expression contains intersection or complement, which require constructing its
 * states. */
static bool has_logic(const lm_terms *p, lm_expr_id n, unsigned depth)
{
    const lm_node_data *d = &p->nodes[n];

    switch ((lm_node_kind)d->kind) {
    case LM_NODE_AND:
    case LM_NODE_NOT:
        return true;
    case LM_NODE_CAT:
        return depth > 200 || has_logic(p, d->a, depth + 1) || has_logic(p, d->b, depth + 1);
    case LM_NODE_ALT:
        for (uint32_t i = 0; i < d->b; i++)
            if (depth > 200 || has_logic(p, p->lists[d->a + i], depth + 1))
                return true;
        return false;
    case LM_NODE_REPEAT:
        return has_logic(p, d->a, depth + 1);
    default:
        return false;
    }
}

lm_expr_id lm_schema_string(lm_schema *s, const lm_shape *shape)
{
    lm_terms *p = s->p;
    lm_expr_id quote = lm_word(p, "\""), inner;

    if (!shape->has_language && !shape->values)
        inner = lm_repeat(p, s->string_character, shape->min, shape->max);
    else {
        lm_expr_id language = lm_json_language(s, shape);
        if (has_logic(p, language, 0))
            language = lm_explore(p, lm_and(p, language, of_length(p, 0, LM_UNBOUNDED)));
        inner = lm_json_encoded(p, language);
    }
    return lm_cat(p, quote, lm_cat(p, inner, quote));
}

/* ---- formats ---- */

#define YEAR "[0-9]{4}"
#define DAYS "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
/* years divisible by 4, except those divisible by 100 but not by 400 */
#define LEAP "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DATE "(?:" YEAR "-" DAYS "|" LEAP "-02-29)"
#define TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?"
#define ZONE "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define LABEL "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define ATOM "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 BYTE "(?:\\." BYTE "){3}"
#define H16 "[0-9a-fA-F]{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6 "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32 \
             "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32                                    \
             "|(?:(?:" H16 ":){0,2}" H16 ")?::(?:" H16 ":){2}" LS32                                    \
             "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16 ":){0,4}" H16 ")?::" LS32   \
             "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16 ")?::)"
#define PCHAR "(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})"
#define HOST "(?:\\[" IPV6 "\\]|(?:[a-zA-Z0-9._~!$&'()*+,;=-]|%[0-9a-fA-F]{2})*)"
#define AUTHORITY "(?:(?:[a-zA-Z0-9._~!$&'()*+,;=:-]|%[0-9a-fA-F]{2})*@)?" HOST "(?::[0-9]*)?"
#define URI "[a-zA-Z][a-zA-Z0-9+.-]*:(?://" AUTHORITY "(?:/" PCHAR "*)*|/(?:" PCHAR "+(?:/" PCHAR "*)*)?|" PCHAR "+(?:/" PCHAR "*)*|)" \
            "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"

/* Stricter than the specifications where those are lax: no leap seconds, no quoted local parts, no two
 * hyphens as in punycode. */
static const struct format {
    const char *name;
    uint32_t    shortest, longest;   /* characters; longest 0: no limit */
    const char *pattern;
} formats[] = {
    { "date", 10, 10, DATE },
    { "time", 9, 24, TIME ZONE },
    { "date-time", 20, 35, DATE "[Tt]" TIME ZONE },
    { "duration", 3, 62,
      "P(?:[0-9]{1,9}W|(?:[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|[0-9]{1,9}"
      "D)"
      "(?:T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))?"
      "|T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))" },
    { "email", 3, 0, ATOM "(?:\\." ATOM ")*@" LABEL "(?:\\." LABEL ")*" },
    { "hostname", 1, 247,
      "(?:[a-zA-Z0-9](?:[a-zA-Z0-9]|-[a-zA-Z0-9]){0,30})(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9]|-[a-zA-Z0-9]){0,30}){"
      "0,3}" },
    { "ipv4", 7, 15, IPV4 },
    { "ipv6", 2, 45, IPV6 },
    { "uuid", 36, 36, "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}" },
    { "uri", 2, 0, URI },
};

enum { USUAL_LENGTH = 4096, LEAST_SHARED = 16, LEAST_SHARED_URI = 128 };

/* Write patterns for formats of unlimited length so that each part gets a share of the `max` characters:
 * otherwise the states would multiply, one per length of each part. *least becomes the minimum length that
 * the pattern guarantees. Return false if `max` is too small. */
static bool shared_out(const char *name, uint32_t max, uint32_t *min, lm_text *out)
{
    uint32_t part = (max - 4) / 5, label = (max - 3) / 4, rest = max - max / 8 - max / 4 - 13;
    uint32_t path = rest / 10 * 6, requested = *min;

    *min = 0;
    if (strcmp(name, "email") == 0 && max >= LEAST_SHARED) {
        uint32_t local = part < 31 ? part : 31, domain = part < 63 ? part : 63,
                 inner = domain > 2 ? domain - 2 : 0;
        lm_text_printf(out, "[a-zA-Z0-9_+-]{1,%u}(?:\\.[a-zA-Z0-9_+-]{1,%u})?@", local, local);
        for (unsigned i = 0; i < 3; i++)
            lm_text_printf(out, "%s[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,%u}[a-zA-Z0-9])?%s", i ? "(?:\\." : "", inner,
                           i ? ")?" : "");
    } else if (strcmp(name, "hostname") == 0 && max >= LEAST_SHARED) {
        uint32_t pairs = (label - 1) / 2 < 30 ? (label - 1) / 2 : 30;
        lm_text_printf(out,
                       "[a-zA-Z0-9](?:[a-zA-Z0-9]|-[a-zA-Z0-9]){0,%u}(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9]|-[a-zA-"
                       "Z0-9]){0,%u}){0,3}",
                       pairs, pairs);
    } else if (strcmp(name, "uri") == 0 && max >= LEAST_SHARED_URI) {
        lm_text_printf(out, "[a-zA-Z][a-zA-Z0-9+.-]{0,%u}:(?://[a-zA-Z0-9._~-]{0,%u}(?::[0-9]{0,5})?)?",
                       max / 8 < 31 ? max / 8 - 1 : 30, max / 4 < 253 ? max / 4 : 253);
        *min = requested <= path ? requested : 0;        /* counts the path only, not the other parts */
        lm_text_printf(out, "[a-zA-Z0-9._~!$&'()*+,;=:@/-]{%u,%u}", requested <= 2 ? 0 : *min, path);
        lm_text_printf(out, "(?:\\?[a-zA-Z0-9._~!$&'()*+,;=:@/?-]{0,%u})?", rest / 10 * 3);
        lm_text_printf(out, "(?:#[a-zA-Z0-9._~!$&'()*+,;=:@/?-]{0,%u})?", rest / 10);
    }
    return out->size > 0;
}

/* Return the length, limited to what matters here; `other` if none is given. */
static uint32_t length_of(const json_t *given, uint32_t other)
{
    double x = json_number_value(given);

    return !json_is_number(given) ? other : x > USUAL_LENGTH ? USUAL_LENGTH : x > 0 ? (uint32_t)x : 0;
}

lm_status lm_json_format(lm_schema *s, const lm_place *at, const char *name, lm_shape *shape, lm_expr_id *out)
{
    const json_t *longest_given = json_object_get(at->schema, "maxLength");
    uint32_t max = length_of(longest_given, USUAL_LENGTH),
             min = length_of(json_object_get(at->schema, "minLength"), 0);
    lm_text       text = { 0 };
    lm_status     status;

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const struct format *f = formats + i;
        uint32_t             longest = f->longest, shortest = f->shortest;
        if (strcmp(name, f->name) != 0)
            continue;
        if (longest_given && (!longest || max < longest) && shared_out(name, max, &min, &text)) {
            longest = max;
            shortest = min > shortest ? min : shortest;
        }
        status = lm_pattern(s->p, text.size ? lm_text_view(&text) : lm_view_of(f->pattern), false, out, s->e);
        lm_text_free(&text);
        if (shortest > shape->shortest)
            shape->shortest = shortest;
        if (longest && (!shape->longest || longest < shape->longest))
            shape->longest = longest;
        return status;
    }
    *out = LM_NOTHING;                                   /* 2020-12: an unknown format is an annotation */
    return s->o && s->o->strict ? lm_schema_refuse(s, at, "format", "this format") : LM_OK;
}
