/* report.c - reports that join what the runtime knows of a file with what the analysis counts. */
#include <jansson.h>

#include "analysis/fact.h"
#include "lamina/facts.h"
#include "runtime/engine.h"

/* ---- metadata ---- */

static json_t *text(lm_view v)
{
    json_t *s = json_stringn(v.data ? v.data : "", v.size);
    return s ? s : json_string("(not UTF-8)");
}

static json_t *meta_json(const lm_meta_value *v, uint64_t most)
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
        return json_integer((json_int_t)v->u);
    case LM_META_FLOAT:
        out = json_real(v->f == (double)(float)v->f ? lm_decimal((float)v->f) : v->f);   /* NULL for NaN and infinity */
        return out ? out : json_null();
    case LM_META_STRING:
        return text(v->s);
    case LM_META_ARRAY:
        out = json_array();
        for (uint64_t i = 0; i < v->a.n && i < most && lm_meta_at(v, i, &item); i++)
            json_array_append_new(out, meta_json(&item, most));
        return v->a.n <= most ? out : json_pack("{s:I, s:o}", "length", (json_int_t)v->a.n, "first", out);
    case LM_META_OBJECT:
        out = json_object();
        for (uint64_t i = 0; lm_meta_member(v, i, &key, &item); i++)
            json_object_setn_new(out, key.data, key.size, meta_json(&item, most));
        return out;
    }
    return json_null();
}

static const lm_meta *meta_of(const lm_model *m)
{
    return m->container ? lm_container_meta(m->container) : m->config_json;
}

static lm_status inspect(const lm_model *m, const lm_engine_options *o, lm_text *out, lm_error *e)
{
    lm_facts_options x = { 0 };
    lm_facts        *f = NULL;

    if (o)
        x.engine = *o;
    LM_TRY(lm_facts_new(m, &x, &f, e));
    lm_status status = lm_facts_json(f, NULL, out, e);
    lm_facts_free(f);
    return status;
}

static json_t *tensors(const lm_model *m)
{
    json_t *out = json_array();

    for (size_t i = 0; m->container && i < lm_container_n_tensors(m->container); i++) {
        const lm_tensor_info *t     = lm_container_tensor(m->container, i);
        json_t               *shape = json_array();
        for (uint32_t d = 0; d < t->n_dims; d++)
            json_array_append_new(shape, json_integer((json_int_t)t->dims[d]));
        json_array_append_new(out, json_pack("{s:s, s:s, s:o, s:I, s:I, s:s}", "name", t->name, "type", lm_dtype_of(t->type)->name,
                                             "shape", shape, "bytes", (json_int_t)t->bytes, "offset", (json_int_t)t->offset, "file",
                                             lm_container_file_of(m->container, t)));
    }
    return out;
}

static json_t *metadata(const lm_model *m)
{
    json_t       *out = json_object();
    lm_view       key;
    lm_meta_value v;

    for (size_t i = 0; lm_meta_entry(meta_of(m), i, &key, &v); i++)
        json_object_setn_new(out, key.data, key.size, meta_json(&v, 8));
    return out;
}

static int append(const char *piece, size_t n, void *buffer)
{
    lm_buf_add(buffer, piece, n);
    return 0;
}

lm_status lm_model_report(const lm_model *m, lm_report what, const lm_engine_options *o, lm_text *out, lm_error *e)
{
    json_t *document = NULL;

    switch (what) {
    case LM_REPORT_INSPECT:
        return inspect(m, o, out, e);
    case LM_REPORT_TENSORS:
        document = tensors(m);
        break;
    case LM_REPORT_METADATA:
        document = metadata(m);
        break;
    default:
        return lm_fail(e, LM_USAGE, "report", LM_NO_OFFSET, "there is no report %d", (int)what);
    }
    lm_buf b = { 0 };
    bool   written = document && json_dump_callback(document, append, &b, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;
    json_decref(document);
    if (!written || b.failed) {
        lm_buf_free(&b);
        return lm_fail_memory(e, "report", 0);
    }
    *out = (lm_text){ b.data, b.size, b.capacity };
    return LM_OK;
}
