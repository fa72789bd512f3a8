/* json.c - fuzz target: the JSON reader, with jansson as the reference. */
#include <jansson.h>

#include "base/jsontext.h"
#include "formats/meta.h"
#include "json_mutator.h"
#include "walk.h"

enum { DEPTH = 64 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return json_mutate(data, size, max_size, seed);
}

static void compare(const lm_meta_value *v, const json_t *j)
{
    lm_meta_value element;
    lm_view       key;
    const char   *name;
    json_t       *member;
    uint64_t      i = 0;

    switch (json_typeof(j)) {
    case JSON_NULL:
        PROMISE(v->kind == LM_META_NULL);
        break;
    case JSON_TRUE: case JSON_FALSE:
        PROMISE(v->kind == LM_META_BOOL && v->b == json_is_true(j));
        break;
    case JSON_INTEGER:
        PROMISE(v->kind == LM_META_UINT ? (json_int_t)v->u == json_integer_value(j)
                                        : v->kind == LM_META_INT && v->i == json_integer_value(j));
        break;
    case JSON_REAL:
        PROMISE(v->kind == LM_META_FLOAT && !memcmp(&v->f, &(double){ json_real_value(j) }, sizeof(double)));
        break;
    case JSON_STRING:
        PROMISE(v->kind == LM_META_STRING && v->s.size == json_string_length(j) &&
                !memcmp(v->s.data, json_string_value(j), v->s.size + 1));
        break;
    case JSON_ARRAY:
        PROMISE(v->kind == LM_META_ARRAY && v->a.n == json_array_size(j));
        for (; i < v->a.n; i++) {
            PROMISE(lm_meta_at(v, i, &element));
            compare(&element, json_array_get(j, i));
        }
        break;
    case JSON_OBJECT:
        PROMISE(v->kind == LM_META_OBJECT && v->a.n == json_object_size(j));
        json_object_foreach(lm_json_iterable(j), name, member)
        {
            PROMISE(lm_meta_member(v, i++, &key, &element));
            if (strlen(name) == key.size)                     /* jansson's loop truncates names at a NUL */
                compare(&element, member);
        }
        break;
    }
}

/* Whether the text can have an infinity or NaN, which are no JSON: published configurations have them. */
static bool may_not_be_finite(const uint8_t *data, size_t size)
{
    return memmem(data, size, "Infinity", strlen("Infinity")) || memmem(data, size, "NaN", strlen("NaN"));
}

/* Whether the difference is allowed: jansson rejects and we accept integers past 63 bits, a NUL in a name,
 * infinities and NaN; we reject and jansson accepts deep nesting, very long numbers and a NUL after a
 * number. */
static bool excused(const json_error_t *theirs, const lm_error *ours, const uint8_t *data, size_t size)
{
    if (may_not_be_finite(data, size))
        return true;
    if (ours->offset > 0 && (size_t)ours->offset < size && !data[ours->offset])
        return true;
    return strstr(theirs->text, "too big integer") || strstr(theirs->text, "too big negative integer") ||
           strstr(theirs->text, "NUL byte in object key") || strstr(ours->message, "nested deeper") ||
           strstr(ours->message, "a number of");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_error_t  refused = { 0 };
    lm_error      e = { 0 };
    lm_meta      *m = NULL;
    lm_meta_value root;
    json_t *j = json_loadb((const char *)data, size,
                           JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &refused);
    lm_status     s = lm_meta_from_json((const char *)data, size, "input", DEPTH, &m, &e);

    check_open(s, &e);
    if ((s == LM_OK) != (j != NULL) && !excused(&refused, &e, data, size)) {
        fprintf(stderr, "jansson: %s, ours: %s\n", refused.text, e.message);
        PROMISE(false);
    }
    if (s == LM_OK) {
        walk_meta(m);
        PROMISE(lm_meta_get(m, "", &root));
        if (j && !may_not_be_finite(data, size))   /* {"__float__": "Infinity"} is a number */
            compare(&root, j);
        lm_meta_free(m);
    }
    json_decref(j);
    return 0;
}
