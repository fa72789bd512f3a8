/* jsonmeta.c - a JSON document as metadata: a compact read-only tree over the text it was read from. */
#include "formats/jsonread.h"
#include "formats/metasource.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"

typedef struct json_member json_member;

typedef struct json_node {
    uint32_t kind;                   /* lm_meta_kind */
    uint32_t n;                      /* elements, members, or bytes of the string */
    union {
        bool               b;
        int64_t            i;
        uint64_t           u;
        double             f;
        const char        *s;
        const json_member *members;  /* arrays too, with empty names */
    };
} json_node;

struct json_member {
    const char *name;
    size_t      name_size;
    json_node   value;
};

typedef struct json_meta {
    lm_meta   base;
    lm_arena  arena;
    char     *text;
    json_node root;
} json_meta;

typedef struct json_builder {
    lm_json      j;
    lm_arena    *arena;
    json_member *stack;              /* children of the open containers */
    size_t       n, capacity;
} json_builder;

static lm_status push(json_builder *b, json_member m, lm_error *e)
{
    if (b->n == b->capacity) {
        size_t       capacity = b->capacity ? b->capacity * 2 : 64;
        json_member *grown = lm_realloc(b->stack, capacity * sizeof *grown);
        if (!grown)
            return lm_fail_memory(e, "a JSON document", capacity * sizeof *grown);
        b->stack    = grown;
        b->capacity = capacity;
    }
    b->stack[b->n++] = m;
    return LM_OK;
}

static lm_view name_of(const json_member *m)
{
    return (lm_view){ m->name, m->name_size };
}

/* Check that no two members of one object have the same name. */
static lm_status check_names(json_builder *b, const json_member *m, size_t n, lm_error *e)
{
    enum { FEW = 16 };
    lm_map   *seen = NULL;
    lm_status status = LM_OK;

    if (n > FEW && !(seen = lm_map_new(n)))
        return lm_fail_memory(e, "a JSON object", n);
    for (size_t i = 0; i < n && status == LM_OK; i++) {
        bool twice = false;
        if (seen) {
            twice = !lm_map_add(seen, name_of(&m[i]), i);
            if (twice && lm_map_failed(seen)) {
                status = lm_fail_memory(e, "a JSON object", n);
                break;
            }
        } else {
            for (size_t k = 0; k < i && !twice; k++)
                twice = lm_view_equal(name_of(&m[k]), name_of(&m[i]));
        }
        if (twice)
            status = lm_json_wrong(&b->j, e, "JSON: member \"%.*s\" appears twice in one object",
                                   (int)(m[i].name_size < 64 ? m[i].name_size : 64), m[i].name);
    }
    lm_map_free(seen);
    return status;
}

/* transformers writes infinity as {"__float__": "Infinity"}. */
static bool is_infinity(const json_member *m, size_t n, double *out)
{
    if (n != 1 || !lm_view_is(name_of(m), "__float__") || m->value.kind != LM_META_STRING)
        return false;
    lm_view word = { m->value.s, m->value.n };
    *out         = lm_view_is(word, "-Infinity") ? -INFINITY : INFINITY;
    return lm_view_is(word, "Infinity") || *out < 0;
}

/* The parser bounds the depth of this recursion. */
static lm_status build(json_builder *b, json_node *out, lm_error *e)
{
    char          c = lm_json_peek(&b->j);
    size_t        first = b->n, n;
    lm_meta_value v;
    json_member  *kept = NULL;
    double        infinity;
    bool          more;

    if (c != '{' && c != '[') {
        LM_TRY(lm_json_scalar(&b->j, &v, e));
        *out = (json_node){ .kind = (uint32_t)v.kind, .u = v.u };
        if (v.kind == LM_META_BOOL)
            out->b = v.b;
        if (v.kind == LM_META_STRING) {
            out->n = (uint32_t)v.s.size;
            out->s = v.s.data;
        }
        return LM_OK;
    }

    LM_TRY(lm_json_open(&b->j, c, &more, e));
    while (more) {
        json_member m = { .name = "" };
        lm_view     name;
        if (c == '{') {
            LM_TRY(lm_json_name(&b->j, &name, e));
            m.name      = name.data;
            m.name_size = name.size;
        }
        LM_TRY(build(b, &m.value, e));
        LM_TRY(push(b, m, e));
        LM_TRY(lm_json_next(&b->j, c, &more, e));
    }

    n = b->n - first;
    if (n && c == '{')
        LM_TRY(check_names(b, b->stack + first, n, e));
    if (c == '{' && is_infinity(b->stack + first, n, &infinity)) {
        b->n = first;
        *out = (json_node){ .kind = LM_META_FLOAT, .f = infinity };
        return LM_OK;
    }
    if (n && !(kept = lm_arena_new(b->arena, n, json_member)))
        return lm_fail_memory(e, "a JSON document", n * sizeof *kept);
    if (n)
        memcpy(kept, b->stack + first, n * sizeof *kept);
    b->n = first;
    *out = (json_node){ .kind = c == '{' ? LM_META_OBJECT : LM_META_ARRAY,
                        .n = (uint32_t)n,
                        .members = kept };
    return LM_OK;
}

static lm_meta_value value_of(const lm_meta *m, const json_node *n)
{
    lm_meta_value v = { .kind = (lm_meta_kind)n->kind, .u = n->u };

    switch (v.kind) {
    case LM_META_NULL: case LM_META_INT: case LM_META_UINT: case LM_META_FLOAT:
        break;
    case LM_META_BOOL:
        v.b = n->b;
        break;
    case LM_META_STRING:
        v.s = (lm_view){ n->s, n->n };
        break;
    case LM_META_ARRAY: case LM_META_OBJECT:
        v.a.n       = n->n;
        v.a.impl    = n->members;
        v.a.owner   = m;
        v.a.element = 0;
        break;
    }
    return v;
}

/* Take one step of a path: a member's name, or an element's index. */
static const json_node *step(const json_node *n, lm_view name)
{
    uint64_t index = 0;

    if (n->kind == LM_META_OBJECT) {
        for (uint32_t i = 0; i < n->n; i++)
            if (lm_view_equal(name_of(&n->members[i]), name))
                return &n->members[i].value;
        return NULL;
    }
    if (n->kind != LM_META_ARRAY || !name.size || name.size > 9)
        return NULL;
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] < '0' || name.data[i] > '9')
            return NULL;
        index = index * 10 + (uint64_t)(name.data[i] - '0');
    }
    return index < n->n ? &n->members[index].value : NULL;
}

static bool json_get(const lm_meta *m, const char *key, lm_meta_value *out)
{
    const json_node *n = &((const json_meta *)m)->root;

    while (*key) {
        size_t size = strcspn(key, "/");
        n = step(n, (lm_view){ key, size });
        if (!n)
            return false;
        key += size + (key[size] == '/');
    }
    *out = value_of(m, n);
    return true;
}

static bool json_at(const lm_meta_value *array, uint64_t i, lm_meta_value *out)
{
    *out = value_of(array->a.owner, &((const json_member *)array->a.impl)[i].value);
    return true;
}

static bool json_member_at(const lm_meta_value *object, uint64_t i, lm_view *key, lm_meta_value *out)
{
    const json_member *m = &((const json_member *)object->a.impl)[i];

    *key = name_of(m);
    *out = value_of(object->a.owner, &m->value);
    return true;
}

static size_t json_count(const lm_meta *m)
{
    const json_node *n = &((const json_meta *)m)->root;
    return n->kind == LM_META_OBJECT ? n->n : 0;
}

static bool json_entry(const lm_meta *m, size_t i, lm_view *key, lm_meta_value *out)
{
    const json_node *n = &((const json_meta *)m)->root;

    if (i >= json_count(m))
        return false;
    *key = name_of(&n->members[i]);
    *out = value_of(m, &n->members[i].value);
    return true;
}

static void json_free(lm_meta *m)
{
    json_meta *x = (json_meta *)m;

    lm_arena_free(&x->arena);
    lm_free(x->text);
    lm_free(x);
}

static const lm_meta_source json_source = { json_get, json_at, json_count,
                                            json_entry, json_member_at, json_free };

static json_meta *new_meta(const char *file, lm_error *e)
{
    json_meta *m = lm_alloc_zero(1, sizeof *m);

    if (m) {
        m->base.source = &json_source;
        m->base.file   = lm_arena_strdup(&m->arena, file);
    }
    if (!m || !m->base.file) {
        if (m)
            json_free(&m->base);
        lm_fail_memory(e, "metadata", sizeof *m);
        return NULL;
    }
    return m;
}

lm_status lm_meta_take_json(char *text, size_t size, const char *file, unsigned depth, lm_meta **out,
                            lm_error *e)
{
    lm_status    status;
    json_meta   *m = new_meta(file, e);
    json_builder b;

    if (!m) {
        lm_free(text);
        return LM_NO_MEMORY;
    }
    m->text = text;
    b = (json_builder){ .j = { .text = text, .size = size, .file = m->base.file, .max_depth = depth },
                        .arena = &m->arena };
    if (size > UINT32_MAX)
        LM_TRY_GOTO(status, lm_json_wrong(&b.j, e, "JSON: a document of %zu bytes", size), done);
    LM_TRY_GOTO(status, build(&b, &m->root, e), done);
    LM_TRY_GOTO(status, lm_json_end(&b.j, e), done);
    *out = &m->base;
    m    = NULL;

done:
    lm_free(b.stack);
    if (m)
        json_free(&m->base);
    return status;
}

lm_status lm_meta_from_json(const char *text, size_t size, const char *file, unsigned depth, lm_meta **out,
                            lm_error *e)
{
    char *copy = lm_alloc(size + 1);

    if (!copy)
        return lm_fail_memory(e, "a JSON document", size);
    if (size)
        memcpy(copy, text, size);
    copy[size] = 0;
    return lm_meta_take_json(copy, size, file, depth, out, e);
}

lm_status lm_meta_from_strings(const lm_view *keys, const lm_view *values, size_t n, const char *file,
                               lm_meta **out, lm_error *e)
{
    json_meta   *m = new_meta(file, e);
    json_member *members;

    if (!m)
        return LM_NO_MEMORY;
    members = lm_arena_new(&m->arena, n ? n : 1, json_member);
    for (size_t i = 0; members && i < n; i++) {
        members[i].name      = lm_arena_strndup(&m->arena, keys[i].data, keys[i].size);
        members[i].name_size = keys[i].size;
        members[i].value     = (json_node){ .kind = LM_META_STRING, .n = (uint32_t)values[i].size };
        members[i].value.s   = lm_arena_strndup(&m->arena, values[i].data, values[i].size);
        if (!members[i].name || !members[i].value.s)
            members = NULL;
    }
    if (!members) {
        json_free(&m->base);
        return lm_fail_memory(e, "metadata", n * sizeof *members);
    }
    m->root = (json_node){ .kind = LM_META_OBJECT, .n = (uint32_t)n, .members = members };
    *out    = &m->base;
    return LM_OK;
}
