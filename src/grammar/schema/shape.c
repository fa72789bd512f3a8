/* shape.c - create, copy and list places and shapes; report errors about them. */
#include <string.h>

#include "base/error.h"
#include "grammar/schema/schema.h"

/* ---- errors ---- */

static const char *pointer_to(lm_schema *s, const lm_place *at, const char *keyword)
{
    return keyword ? lm_arena_printf(&s->arena, "%s/%s", at->pointer, keyword) : at->pointer;
}

lm_status lm_schema_refuse(lm_schema *s, const lm_place *at, const char *keyword, const char *why)
{
    return lm_fail(s->e, LM_UNSUPPORTED, pointer_to(s, at, keyword), LM_NO_OFFSET,
                   "%s: %s cannot be enforced by a grammar", keyword, why);
}

lm_status lm_schema_refuse_part(lm_schema *s, const lm_place *at, const char *keyword, const char *why)
{
    return lm_fail(s->e, LM_UNSUPPORTED, pointer_to(s, at, keyword), LM_NO_OFFSET, "%s: %s", keyword, why);
}

lm_status lm_schema_wrong(lm_schema *s, const lm_place *at, const char *keyword, const char *why)
{
    return lm_fail(s->e, LM_USAGE, pointer_to(s, at, keyword), LM_NO_OFFSET, "%s %s",
                   keyword ? keyword : "the schema", why);
}

lm_status lm_schema_memory(lm_schema *s) { return lm_fail_memory(s->e, "a schema", 0); }

/* ---- places ---- */

/* Escape a name for a JSON pointer (RFC 6901). */
static const char *escaped(lm_schema *s, const char *name)
{
    size_t n = strlen(name);
    char  *out = lm_arena_alloc(&s->arena, 2 * n + 1), *to = out;

    if (!out)
        return "";
    for (; *name; name++) {
        *to++ = *name == '~' || *name == '/' ? '~' : *name;
        if (*name == '~' || *name == '/')
            *to++ = *name == '~' ? '0' : '1';
    }
    return out;
}

static lm_place below(lm_schema *s, const lm_place *at, const char *pointer, const json_t *schema)
{
    bool own = json_is_string(json_object_get(schema, "$id")) &&
               !(s->old && json_object_get(schema, "$ref")) &&
               json_string_value(json_object_get(schema, "$id"))[0] != '#';

    return (lm_place){ schema, own ? schema : at->resource, pointer ? pointer : "" };
}

lm_place lm_place_of(lm_schema *s, const lm_place *at, const char *keyword, const char *name,
                     const json_t *schema)
{
    if (name)
        return below(s, at, lm_arena_printf(&s->arena, "%s/%s/%s", at->pointer, keyword, escaped(s, name)),
                     schema);
    return below(s, at, lm_arena_printf(&s->arena, "%s/%s", at->pointer, keyword), schema);
}

lm_place lm_place_item(lm_schema *s, const lm_place *at, const char *keyword, size_t i, const json_t *schema)
{
    return below(s, at, lm_arena_printf(&s->arena, "%s/%s/%zu", at->pointer, keyword, i), schema);
}

const lm_places *lm_places_add(lm_schema *s, const lm_places *list, lm_place at)
{
    lm_places *p = lm_arena_new(&s->arena, 1, lm_places);

    if (!p)
        return NULL;
    *p = (lm_places){ list, at };
    return p;
}

/* ---- shapes ---- */

lm_shape *lm_shape_copy(lm_schema *s, const lm_shape *shape)
{
    lm_shape *mine = lm_arena_new(&s->arena, 1, lm_shape);

    if (mine)
        *mine = *shape;
    return mine;
}

/* The capacity doubles when the count is a power of two. */
bool lm_shapes_add(lm_schema *s, lm_shapes *to, lm_shape *shape)
{
    if ((to->n & (to->n - 1)) == 0) {
        lm_shape **grown = lm_arena_array(&s->arena, to->n ? 2 * (size_t)to->n : 1, sizeof *grown);
        if (!grown)
            return false;
        if (to->n)
            memcpy(grown, to->at, to->n * sizeof *grown);
        to->at = grown;
    }
    to->at[to->n++] = shape;
    return true;
}
