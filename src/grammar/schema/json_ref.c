/* json_ref.c - references within one document: pointers (RFC 6901) and anchors. Nothing is ever fetched. */
#include <string.h>

#include "base/error.h"
#include "grammar/schema/schema.h"

/* Decode one step of a pointer with ~0, ~1 and %XX. NULL: too long. */
static const char *step_of(const char *from, const char *end, char out[256])
{
    size_t n = 0;

    for (; from < end && n + 1 < 256; from++) {
        char c = *from;
        if (c == '%' && end - from > 2 && lm_hex_digit(from[1]) >= 0 && lm_hex_digit(from[2]) >= 0) {
            c = (char)(lm_hex_digit(from[1]) << 4 | lm_hex_digit(from[2]));
            from += 2;
        }
        out[n++] = c;
    }
    if (from < end)
        return NULL;
    size_t to = 0;
    for (size_t i = 0; i < n; i++, to++) {
        out[to] = out[i];
        if (out[i] == '~' && i + 1 < n && (out[i + 1] == '0' || out[i + 1] == '1'))
            out[to] = out[++i] == '0' ? '~' : '/';
    }
    out[to] = '\0';
    return out;
}

static const json_t *child(const json_t *v, const char *step)
{
    size_t i = 0;

    if (json_is_object(v))
        return json_object_get(v, step);
    if (!json_is_array(v) || !*step || strlen(step) > 6)
        return NULL;
    for (; *step; step++) {
        if (*step < '0' || *step > '9')
            return NULL;
        i = i * 10 + (size_t)(*step - '0');
    }
    return json_array_get(v, i);
}

static bool begins_resource(const json_t *v)
{
    const char *id = json_string_value(json_object_get(v, "$id"));

    return id && id[0] != '#';
}

static lm_status by_pointer(lm_schema *s, const lm_place *at, const char *pointer, lm_place *out)
{
    const json_t *v = at->resource, *resource = v;
    char          step[256];

    for (const char *c = pointer; *c;) {
        const char *end = c + 1 + strcspn(c + 1, "/");
        if (*c != '/' || !step_of(c + 1, end, step))
            return lm_schema_wrong(s, at, "$ref", "is not a JSON pointer");
        v = child(v, step);
        if (!v)
            return lm_schema_wrong(s, at, "$ref", "points at nothing");
        if (begins_resource(v))
            resource = v;
        c = end;
    }
    const char *prefix = at->resource == s->root ? "#" : at->pointer;
    *out = (lm_place){ v, resource, lm_arena_printf(&s->arena, "%s%s", prefix, pointer) };
    return out->pointer ? LM_OK : lm_schema_memory(s);
}

typedef struct search {
    const char *anchor, *id;
    const json_t *found, *resource;
    unsigned depth, times;
} search;

/* Find the subschema with this anchor in a resource, or the resource with this $id anywhere. Search only
 * where schemas can be, as far as that is known: constants do not contain schemas. */
static void look_for(search *x, const json_t *v, const json_t *resource)
{
    static const char *const plain[] = { "enum", "const", "default", "examples", NULL };
    const char *name;
    json_t     *inner;
    size_t      i;

    if (x->depth > 200)
        return;
    x->depth++;
    if (json_is_array(v))
        json_array_foreach(v, i, inner)
            look_for(x, inner, resource);
    if (json_is_object(v)) {
        const char *anchor = json_string_value(json_object_get(v, "$anchor")),
                   *id = json_string_value(json_object_get(v, "$id"));
        bool hit = x->id && id && strcmp(id, x->id) == 0;
        if (x->anchor)
            hit = (anchor && strcmp(anchor, x->anchor) == 0) ||
                  (id && id[0] == '#' && strcmp(id + 1, x->anchor) == 0);
        if (hit) {
            x->found    = v;
            x->resource = x->id ? v : resource;
            x->times++;
        }
        json_object_foreach(lm_json_iterable(v), name, inner) {
            bool skip = x->anchor && begins_resource(inner) && inner != resource;
            for (const char *const *p = plain; *p; p++)
                skip |= strcmp(name, *p) == 0;
            if (!skip)
                look_for(x, inner, resource);
        }
    }
    x->depth--;
}

lm_status lm_schema_target(lm_schema *s, const lm_place *at, const char *ref, lm_place *out)
{
    search x = { 0 };

    if (ref[0] == '#' && (ref[1] == '\0' || ref[1] == '/'))
        return by_pointer(s, at, ref + 1, out);
    if (ref[0] == '#') {
        x.anchor = ref + 1;
        look_for(&x, at->resource, at->resource);
    } else {
        x.id = ref;
        look_for(&x, s->root, s->root);
        /* the same relative name may mean different resources */
        if (x.times != 1 || !strstr(ref, ":"))
            return lm_schema_refuse(s, at, "$ref", "a schema outside the document");
    }
    if (x.times != 1)
        return lm_schema_refuse(s, at, "$ref",
                                x.times ? "a name that several schemas have" : "a name that no schema has");
    *out = (lm_place){ x.found, x.resource, lm_arena_printf(&s->arena, "%s", ref) };
    return out->pointer ? LM_OK : lm_schema_memory(s);
}
