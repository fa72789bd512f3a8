/* parts.c - convert arrays and objects to expressions. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "grammar/charset.h"
#include "grammar/explore.h"
#include "grammar/members.h"
#include "grammar/pattern.h"
#include "grammar/schema/schema.h"

enum { MAX_NAMES = 5000, MAX_PATTERNS = 4, MAX_LISTED = 1000 };

/* ---- arrays ---- */

static lm_expr_id comma(lm_schema *s)
{
    return lm_cat(s->p, s->inside, lm_cat(s->p, lm_word(s->p, ","), s->after));
}

/* Return what follows `n` items with their own schemas: more items of one kind. */
static lm_expr_id more_items(lm_schema *s, lm_expr_id item, const lm_shape *x, uint32_t n)
{
    lm_terms *p = s->p;
    uint32_t min = x->min > n ? x->min - n : 0, max = x->max == LM_UNBOUNDED ? x->max : x->max - n;

    if (n > 0)
        return lm_repeat(p, lm_cat(p, comma(s), item), min, max);
    if (max == 0)
        return LM_EMPTY_TEXT;
    lm_expr_id all = lm_cat(p, item,
                            lm_repeat(p, lm_cat(p, comma(s), item), min ? min - 1 : 0,
                                      max == LM_UNBOUNDED ? max : max - 1));
    return min == 0 ? lm_optional(p, all) : all;
}

lm_status lm_parts_array(lm_schema *s, const lm_shape *x, lm_expr_id *out)
{
    lm_terms         *p = s->p;
    const lm_places *of;
    uint32_t         n = 0;
    lm_expr_id       rest, item, any = LM_NOTHING;

    *out = LM_NOTHING;
    if (x->min > x->max)
        return LM_OK;
    for (const lm_parts *q = x->parts; q; q = q->next)
        if (json_array_size(q->listed) > n)
            n = json_array_size(q->listed) > MAX_LISTED ? MAX_LISTED + 1
                                                        : (uint32_t)json_array_size(q->listed);
    if (n > MAX_LISTED)
        return lm_fail(s->e, LM_LIMIT, NULL, LM_NO_OFFSET, "more than %d items have separate schemas",
                       MAX_LISTED);
    if (n > x->max)
        n = x->max;
    LM_TRY(lm_parts_item(s, x, n, &of));
    LM_TRY(s->compile(s, of, &rest));
    rest = more_items(s, rest, x, n);
    for (uint32_t i = n; i-- > 0;) {
        LM_TRY(lm_parts_item(s, x, i, &of));
        LM_TRY(s->compile(s, of, &item));
        rest = lm_cat(p, i ? lm_cat(p, comma(s), item) : item, rest);
        if (i >= x->min)
            rest = lm_optional(p, rest);
    }
    /* nothing between the brackets: one run of white space, not two */
    lm_expr_id close = lm_word(p, "]");
    if (x->min == 0)
        any = close;
    *out = lm_cat(p, lm_word(p, "["),
                  lm_cat(p, s->inside, lm_alt(p, any, lm_cat(p, rest, lm_cat(p, s->inside, close)))));
    return LM_OK;
}

/* ---- names of members ---- */

typedef struct naming {
    lm_schema       *s;
    const lm_shape  *x;
    const char     **names;
    uint32_t         n;
    lm_map          *index;
    lm_expr_id       declared;       /* the language of the declared names */
    lm_expr_id       allowed;        /* propertyNames */
    bool             any_name;
    struct { const lm_parts *of; const char *text; lm_expr_id language; } patterns[MAX_PATTERNS];
    unsigned         n_patterns;
} naming;

static lm_status declare(naming *d, const char *name)
{
    lm_schema *s = d->s;

    if (d->n >= MAX_NAMES)
        return lm_fail(s->e, LM_LIMIT, NULL, LM_NO_OFFSET, "an object has more than %d names", MAX_NAMES);
    if (lm_map_add(d->index, lm_view_of(name), d->n)) {
        d->names[d->n++] = name;
        d->declared = lm_alt(s->p, d->declared, lm_word(s->p, name));
    }
    return lm_map_failed(d->index) ? lm_schema_memory(s) : LM_OK;
}

static lm_status declare_listed(naming *d, const lm_parts *parts)
{
    const char *name;
    json_t     *value;

    if (!parts)
        return LM_OK;
    LM_TRY(declare_listed(d, parts->next));              /* the list is in reverse order */
    json_object_foreach(lm_json_iterable(parts->listed), name, value)
        LM_TRY(declare(d, name));
    json_object_foreach(lm_json_iterable(parts->patterns), name, value) {
        if (d->n_patterns == MAX_PATTERNS)
            return lm_schema_refuse(d->s, &parts->at, "patternProperties", "more than 4 patterns");
        LM_TRY(lm_pattern(d->s->p, lm_view_of(name), true, &d->patterns[d->n_patterns].language, d->s->e));
        d->patterns[d->n_patterns].of     = parts;
        d->patterns[d->n_patterns++].text = name;
    }
    return LM_OK;
}

static lm_status declare_required(naming *d, const lm_names *names)
{
    if (!names)
        return LM_OK;
    LM_TRY(declare_required(d, names->next));
    LM_TRY(declare(d, names->name));
    return names->then ? declare(d, names->then) : LM_OK;
}

/* ---- members ---- */

static lm_status declared_member(naming *d, uint32_t i, lm_member *out)
{
    lm_schema       *s = d->s;
    const char      *name = d->names[i];
    const lm_places *of;
    bool             may = true;

    if (!d->any_name)
        LM_TRY(lm_string_holds(s, d->allowed, name, strlen(name), &may));
    for (const lm_names *f = d->x->forbidden; f; f = f->next)
        may &= strcmp(f->name, name) != 0;
    *out = (lm_member){ 0 };
    for (const lm_names *r = d->x->required; r; r = r->next)
        out->required |= strcmp(r->name, name) == 0;
    if (!may)
        return LM_OK;
    LM_TRY(lm_parts_member(s, d->x, name, &of));
    LM_TRY(s->compile(s, of, &out->value));
    out->key = lm_cat(s->p, lm_json_quoted(s->p, name, strlen(name)), s->colon);
    return LM_OK;
}

/* Return the language of names that match exactly these patterns and no declared name. */
static lm_status other_key(naming *d, unsigned matched, lm_expr_id *out)
{
    lm_terms *p = d->s->p;
    lm_expr_id language = d->allowed, quote = lm_word(p, "\"");

    if (d->n_patterns == 0 && d->any_name && d->n == 0) {
        *out = d->s->string;
        return LM_OK;
    }
    for (unsigned i = 0; i < d->n_patterns; i++)
        language = lm_and(p, language,
                          matched >> i & 1 ? d->patterns[i].language : lm_not(p, d->patterns[i].language));
    if (d->declared != LM_NOTHING)
        language = lm_and(p, language, lm_not(p, d->declared));
    language = lm_explore(p, language);
    *out = language == LM_NOTHING ? language
                                  : lm_cat(p, quote, lm_cat(p, lm_json_encoded(p, language), quote));
    return lm_terms_check(p, d->s->e);
}

/* Find the schemas of such a member. *none: such members are not allowed. */
static lm_status other_schemas(naming *d, unsigned matched, const lm_places **out, bool *none)
{
    lm_schema *s = d->s;

    *out = NULL;
    for (const lm_parts *q = d->x->parts; q; q = q->next) {
        bool known = false;
        for (unsigned i = 0; i < d->n_patterns; i++) {
            if (d->patterns[i].of != q || !(matched >> i & 1))
                continue;
            known = true;
            const json_t *schema = json_object_get(q->patterns, d->patterns[i].text);
            if (!(*out = lm_places_add(
                      s, *out, lm_place_of(s, &q->at, "patternProperties", d->patterns[i].text, schema))))
                return lm_schema_memory(s);
        }
        if (known)
            continue;
        *none |= q->closed || json_is_false(q->others);
        if (q->others &&
            !(*out = lm_places_add(s, *out, lm_place_of(s, &q->at, q->others_name, NULL, q->others))))
            return lm_schema_memory(s);
    }
    return LM_OK;
}

static lm_status other_members(naming *d, lm_object *o)
{
    lm_schema       *s = d->s;
    const lm_places *of;
    lm_expr_id       key;

    o->others = lm_alloc_zero(1u << MAX_PATTERNS, sizeof *o->others);
    if (!o->others)
        return lm_schema_memory(s);
    for (unsigned matched = 0; matched < 1u << d->n_patterns; matched++) {
        bool none = false;
        LM_TRY(other_schemas(d, matched, &of, &none));
        if (none)
            continue;
        LM_TRY(other_key(d, matched, &key));
        if (key == LM_NOTHING)
            continue;
        lm_member *m = &o->others[o->n_others];
        LM_TRY(s->compile(s, of, &m->value));
        m->key = lm_cat(s->p, key, s->colon);
        o->n_others++;
    }
    return LM_OK;
}

static lm_status add_needs(naming *d, lm_object *o)
{
    uint32_t n = 0;

    for (const lm_names *x = d->x->needs; x; x = x->next)
        n++;
    if (n == 0)
        return LM_OK;
    if (!(o->needs = lm_alloc(n * sizeof *o->needs)))
        return lm_schema_memory(d->s);
    for (const lm_names *x = d->x->needs; x; x = x->next) {
        uint64_t from = 0, to = 0;
        lm_map_get(d->index, lm_view_of(x->name), &from);
        lm_map_get(d->index, lm_view_of(x->then), &to);
        o->needs[o->n_needs++] = (lm_need){ (uint32_t)from, (uint32_t)to };
    }
    return LM_OK;
}

static lm_status make_object(naming *d, lm_object *o)
{
    lm_schema *s = d->s;

    LM_TRY(declare_listed(d, d->x->parts));
    LM_TRY(declare_required(d, d->x->required));
    LM_TRY(declare_required(d, d->x->needs));
    LM_TRY(declare_required(d, d->x->forbidden));
    LM_TRY(lm_parts_names(s, d->x, &d->any_name, &d->allowed));
    if (!(o->named = lm_alloc_zero(d->n + 1, sizeof *o->named)))
        return lm_schema_memory(s);
    for (; o->n_named < d->n; o->n_named++)
        LM_TRY(declared_member(d, o->n_named, &o->named[o->n_named]));
    LM_TRY(other_members(d, o));
    LM_TRY(add_needs(d, o));
    if (o->n_needs && o->min)
        return lm_fail(s->e, LM_UNSUPPORTED, NULL, LM_NO_OFFSET,
                       "minProperties together with dependentRequired cannot be enforced by a grammar");
    return LM_OK;
}

lm_status lm_parts_object(lm_schema *s, const lm_shape *x, lm_expr_id *out)
{
    naming    d = { .s = s, .x = x, .names = lm_alloc(MAX_NAMES * sizeof *d.names), .index = lm_map_new(64) };
    lm_object o = { .first = s->inside,
                    .comma = comma(s),
                    .close = lm_cat(s->p, s->inside, lm_word(s->p, "}")),
                    .any_order = s->o && s->o->any_order,
                    .min = x->min,
                    .max = x->max };
    lm_status status = d.names && d.index ? LM_OK : lm_schema_memory(s);

    *out = LM_NOTHING;
    if (status == LM_OK && x->min <= x->max)
        status = make_object(&d, &o);
    if (status == LM_OK && x->min <= x->max) {
        uint32_t object = lm_members_add(s->p, &o);
        *out = lm_cat(s->p, lm_word(s->p, "{"), lm_members_begin(s->p, object));
        status = lm_terms_check(s->p, s->e);
    } else {
        lm_free(o.named);
        lm_free(o.others);
        lm_free(o.needs);
    }
    lm_free(d.names);
    lm_map_free(d.index);
    return status;
}
