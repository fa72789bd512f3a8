/* part.c - find the schemas that apply to one element or one member. */
#include <string.h>

#include "base/error.h"
#include "grammar/charset.h"
#include "grammar/explore.h"
#include "grammar/pattern.h"
#include "grammar/schema/schema.h"

static lm_status add(lm_schema *s, const lm_places **list, lm_place at)
{
    const lm_places *longer = lm_places_add(s, *list, at);

    if (!longer)
        return lm_schema_memory(s);
    *list = longer;
    return LM_OK;
}

lm_status lm_parts_item(lm_schema *s, const lm_shape *shape, size_t i, const lm_places **out)
{
    *out = NULL;
    for (const lm_parts *p = shape->parts; p; p = p->next) {
        if (i < json_array_size(p->listed))
            LM_TRY(add(s, out, lm_place_item(s, &p->at, p->listed_name, i, json_array_get(p->listed, i))));
        else if (p->others)
            LM_TRY(add(s, out, lm_place_of(s, &p->at, p->others_name, NULL, p->others)));
    }
    return LM_OK;
}

lm_status lm_string_holds(lm_schema *s, lm_expr_id language, const char *text, size_t n, bool *out)
{
    *out = !lm_explore_empty(s->p, lm_and(s->p, lm_literal(s->p, text, n), language));
    return lm_terms_check(s->p, s->e);
}

lm_status lm_parts_member(lm_schema *s, const lm_shape *shape, const char *name, const lm_places **out)
{
    *out = NULL;
    for (const lm_parts *p = shape->parts; p; p = p->next) {
        const json_t *value = json_object_get(p->listed, name);
        bool          known = value != NULL, matches;
        const char   *pattern;
        json_t       *x;
        lm_expr_id    language;
        if (known)
            LM_TRY(add(s, out, lm_place_of(s, &p->at, p->listed_name, name, value)));
        json_object_foreach(lm_json_iterable(p->patterns), pattern, x) {
            LM_TRY(lm_pattern(s->p, lm_view_of(pattern), true, &language, s->e));
            LM_TRY(lm_string_holds(s, language, name, strlen(name), &matches));
            if (matches)
                LM_TRY(add(s, out, lm_place_of(s, &p->at, "patternProperties", pattern, x)));
            known |= matches;
        }
        if (!known && p->others)
            LM_TRY(add(s, out, lm_place_of(s, &p->at, p->others_name, NULL, p->others)));
    }
    return LM_OK;
}

lm_status lm_parts_names(lm_schema *s, const lm_shape *shape, bool *any, lm_expr_id *out)
{
    lm_expr_id all = lm_repeat(s->p, lm_any_character(s->p), 0, LM_UNBOUNDED);

    *any = !shape->names;
    for (const lm_places *n = shape->names; n; n = n->next) {
        const lm_places only = { NULL, n->place };
        lm_shapes        shapes;
        lm_expr_id       one = LM_NOTHING;
        bool             plain;
        LM_TRY(s->spread(s, &only, &shapes, &plain));
        for (uint32_t i = 0; i < shapes.n; i++)
            if (shapes.at[i]->type == LM_STRING)
                one = lm_alt(s->p, one, lm_json_language(s, shapes.at[i]));
        all = lm_and(s->p, all, one);
    }
    *out = all;
    return lm_terms_check(s->p, s->e);
}
