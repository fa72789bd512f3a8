/* report.c - the tensors and the metadata of a model as JSON. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/jsontext.h"
#include "base/number.h"
#include "lamina/model.h"
#include "runtime/engine/state.h"

/* ---- metadata ---- */

/* Append an item to a list, or a member to an object. Return NULL if one is NULL or memory is exhausted.
 * Takes all three references. */
static json_t *appended(json_t *list, json_t *item)
{
    if (json_array_append_new(list, item) == 0)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *with_member(json_t *object, lm_view key, json_t *value)
{
    if (json_object_setn_new(object, key.data, key.size, value) == 0)
        return object;
    json_decref(object);
    return NULL;
}

/* Numbers beyond the integer range of JSON readers become strings. */
static json_t *whole_json(uint64_t n)
{
    return n <= INT64_MAX ? json_integer((json_int_t)n) : json_sprintf("%" PRIu64, n);
}

static json_t *meta_json(const lm_meta_value *v, uint64_t max)
{
    lm_meta_value item;
    lm_view       key;
    json_t       *out;

    switch (v->kind) {
    case LM_META_NULL:
        return json_null();
    case LM_META_BOOL:
        return json_boolean(v->b);
    case LM_META_INT:
        return json_integer(v->i);
    case LM_META_UINT:
        return whole_json(v->u);
    case LM_META_FLOAT:
        /* NULL for NaN and infinity */
        out = json_real(v->f == (double)(float)v->f ? lm_decimal((float)v->f) : v->f);
        return out ? out : json_null();
    case LM_META_STRING:
        return lm_json_text(v->s.data, v->s.size);
    case LM_META_ARRAY:
        out = json_array();
        for (uint64_t i = 0; out && i < v->a.n && i < max && lm_meta_at(v, i, &item); i++)
            out = appended(out, meta_json(&item, max));
        return v->a.n <= max ? out : json_pack("{s:I, s:o}", "length", (json_int_t)v->a.n, "first", out);
    case LM_META_OBJECT:
        out = json_object();
        for (uint64_t i = 0; out && lm_meta_member(v, i, &key, &item); i++)
            out = with_member(out, key, meta_json(&item, max));
        return out;
    }
    return json_null();
}

static const lm_meta *meta_of(const lm_model *m)
{
    return m->container ? lm_container_meta(m->container) : m->config_json;
}

static json_t *tensors(const lm_model *m)
{
    json_t *out = json_array();

    for (size_t i = 0; out && m->container && i < lm_container_n_tensors(m->container); i++) {
        const lm_tensor_info *t     = lm_container_tensor(m->container, i);
        const char           *file  = lm_container_file_of(m->container, t);
        json_t               *shape = json_array();
        for (uint32_t d = 0; shape && d < t->n_dims; d++)
            shape = appended(shape, json_integer((json_int_t)t->dims[d]));
        out = appended(out,
                       json_pack("{s:s, s:s, s:o, s:I, s:I, s:o}", "name", t->name, "type",
                                 lm_dtype_of(t->type)->name, "shape", shape, "bytes", (json_int_t)t->bytes,
                                 "offset", (json_int_t)t->offset, "file", lm_json_text(file, strlen(file))));
    }
    return out;
}

static json_t *metadata(const lm_model *m, uint64_t max)
{
    json_t       *out = json_object();
    lm_view       key;
    lm_meta_value v;

    for (size_t i = 0; out && lm_meta_entry(meta_of(m), i, &key, &v); i++)
        out = with_member(out, key, meta_json(&v, max));
    return out;
}

lm_status lm_model_report(const lm_model *m, lm_report what, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, m && out);
    json_t *document = NULL;

    switch (what) {
    case LM_REPORT_TENSORS:
        document = tensors(m);
        break;
    case LM_REPORT_METADATA:
        document = metadata(m, 8);
        break;
    case LM_REPORT_METADATA_WHOLE:
        document = metadata(m, UINT64_MAX);
        break;
    default:
        return lm_fail(e, LM_USAGE, "report", LM_NO_OFFSET, "unknown report %d", (int)what);
    }
    lm_text b = { 0 };
    bool   written = document && lm_json_print(document, JSON_INDENT(2) | JSON_REAL_PRECISION(9), &b);
    json_decref(document);
    return lm_text_deliver(&b, written ? LM_OK : lm_fail_memory(e, "report", 0), "report", out, e);
}
