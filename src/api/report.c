/* report.c - reports that join what the runtime knows of a file with what the analysis counts. */
#include "analysis/inspect.h"
#include "runtime/engine.h"

#define MOST_WARNINGS 64

static const lm_meta *meta_of(const lm_model *m)
{
    return m->container ? lm_container_meta(m->container) : m->config_json;
}

/* The document, with a plan where the model has a shape that can be planned. */
static lm_status inspect(const lm_model *m, const lm_engine_options *o, json_t **out, lm_error *e)
{
    static const lm_dtype kv_types[] = { [LM_KV_F16] = LM_F16, [LM_KV_F32] = LM_F32, [LM_KV_BF16] = LM_BF16, [LM_KV_Q8_0] = LM_Q8_0 };
    lm_kernels            kernels;
    lm_arena              arena = { 0 };
    lm_plan              *plan  = NULL;
    const char           *warnings[MOST_WARNINGS + 1] = { 0 };
    uint64_t             *bytes  = NULL;
    lm_status             status = lm_engine_plan(m, o, &kernels, &arena, &plan, e);

    if (status == LM_OK && m->tensors) {
        bytes = lm_arena_new(&arena, m->program->n_weights + 1, uint64_t);
        for (uint32_t i = 0; bytes && i < m->program->n_weights; i++)
            bytes[i] = m->tensors[i]->bytes * (m->each[i] ? m->program->weights[i].dims[0] : 1);
    }
    for (size_t i = 0; i < MOST_WARNINGS && (warnings[i] = lm_model_warning(m, i)); i++)
        ;
    if (status == LM_OK) {
        lm_inspection x = {
            .name      = m->name,
            .source    = m->source,
            .container = lm_model_container_name(m),
            .program   = m->program,
            .meta      = meta_of(m),
            .types     = bytes ? m->types : NULL,
            .bytes     = bytes,
            .plan      = plan,
            .context   = plan->options.context,
            .batch     = plan->options.sequences,
            .kv_type   = kv_types[o ? o->kv : LM_KV_F16],
            .warnings  = warnings,
        };
        *out = lm_inspect(&x);
        if (!*out)
            status = lm_fail_memory(e, "report", 0);
    }
    lm_plan_free(plan);
    lm_arena_free(&arena);
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
        json_object_setn_new(out, key.data, key.size, lm_meta_json(&v, 8));
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
        LM_TRY(inspect(m, o, &document, e));
        break;
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
