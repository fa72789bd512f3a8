/* inspect.c - counts, sizes and the module tree as JSON. */
#include "analysis/inspect.h"

#include <string.h>

#include "base/str.h"

static json_t *whole(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *text(lm_view v)
{
    json_t *s = json_stringn(v.data ? v.data : "", v.size);
    return s ? s : json_string("(not UTF-8)");
}

json_t *lm_meta_json(const lm_meta_value *v, uint64_t most)
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
        return whole(v->u);
    case LM_META_FLOAT:
        out = json_real(v->f);       /* NULL for NaN and infinity */
        return out ? out : json_null();
    case LM_META_STRING:
        return text(v->s);
    case LM_META_ARRAY:
        out = json_array();
        for (uint64_t i = 0; i < v->a.n && i < most && lm_meta_at(v, i, &item); i++)
            json_array_append_new(out, lm_meta_json(&item, most));
        return v->a.n <= most ? out : json_pack("{s:I, s:o}", "length", (json_int_t)v->a.n, "first", out);
    case LM_META_OBJECT:
        out = json_object();
        for (uint64_t i = 0; lm_meta_member(v, i, &key, &item); i++)
            json_object_setn_new(out, key.data, key.size, lm_meta_json(&item, most));
        return out;
    }
    return json_null();
}

/* The architecture's own keys: all of config.json, or those of a GGUF file that begin with its architecture. */
static json_t *config_json(const lm_inspection *x)
{
    json_t       *out = json_object();
    lm_view       key, arch = { 0 };
    lm_meta_value v;

    lm_meta_string(x->meta, "general.architecture", &arch, NULL);
    for (size_t i = 0; lm_meta_entry(x->meta, i, &key, &v); i++) {
        lm_view shown = key;
        if (arch.size) {
            if (!lm_view_starts(key, arch) || key.size <= arch.size || key.data[arch.size] != '.')
                continue;
            shown = (lm_view){ key.data + arch.size + 1, key.size - arch.size - 1 };
        }
        json_object_setn_new(out, shown.data, shown.size, lm_meta_json(&v, 64));
    }
    return out;
}

static json_t *parameters_json(const lm_inspection *x)
{
    lm_parameter_counts c;
    json_t             *layers = json_array();

    lm_count_parameters(x->program, &c);
    for (uint32_t i = 0; i < x->program->n_layers; i++)
        json_array_append_new(layers, whole(lm_count_layer(x->program, i)));
    json_t *out = json_pack("{s:I, s:I, s:I}", "total", (json_int_t)c.total, "untied_total", (json_int_t)c.untied_total, "active",
                            (json_int_t)c.active);
    for (int p = 0; p < LM_PARTS; p++)
        json_object_set_new(out, lm_part_name((lm_part)p), whole(c.part[p]));
    json_object_set_new(out, "per_layer", layers);
    return out;
}

static json_t *weights_json(const lm_inspection *x)
{
    json_t  *by    = json_object();
    uint64_t total = 0;

    for (uint32_t i = 0; x->types && i < x->program->n_weights; i++) {
        const char *name = lm_dtype_of(x->types[i])->name;
        json_int_t  had  = json_integer_value(json_object_get(by, name));
        json_object_set_new(by, name, json_integer(had + (json_int_t)x->bytes[i]));
        total += x->bytes[i];
    }
    return json_pack("{s:o, s:o}", "bytes", x->types ? whole(total) : json_null(), "by_type", by);
}

static json_t *kv_json(const lm_inspection *x)
{
    lm_kv_counts c;

    lm_count_kv(x->program, x->kv_type, x->context, x->batch, &c);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o}", "type", lm_dtype_of(x->kv_type)->name, "context", (json_int_t)x->context,
                     "batch", (json_int_t)x->batch, "elements_per_token", (json_int_t)c.elements_per_token, "bytes_per_token",
                     (json_int_t)c.bytes_per_token, "bytes_at_context", (json_int_t)c.bytes_at_context, "window",
                     c.window ? whole(c.window) : json_null());
}

static json_t *flops_json(const lm_inspection *x)
{
    lm_flop_counts c;

    lm_count_flops(x->program, &c);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "per_token_matmul", (json_int_t)c.per_token_matmul, "per_context_token",
                     (json_int_t)c.per_context_token, "per_token_other", (json_int_t)c.per_token_other, "head", (json_int_t)c.head,
                     "at_context", (json_int_t)lm_flops_at(x->program, x->context), "prefill",
                     (json_int_t)lm_flops_prefill(x->program, x->context));
}

static json_t *memory_json(const lm_plan *p)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "weights", (json_int_t)p->weight_bytes, "mapped", (json_int_t)p->mapped_bytes, "kv",
                     (json_int_t)p->kv_bytes, "scratch", (json_int_t)p->slab_bytes, "total",
                     (json_int_t)(p->weight_bytes + p->kv_bytes + p->slab_bytes));
}

static json_t *width_json(const lm_program *p, lm_value v)
{
    return v == LM_NONE ? json_null() : whole(p->values[v].width);
}

static json_t *layers_json(const lm_program *p)
{
    json_t *out = json_array();
    lm_cost c;

    for (uint32_t m = 0; m < p->n_modules; m++) {
        const lm_module *x   = &p->modules[m];
        uint64_t         sum = 0;
        for (uint32_t i = x->first_op; i < x->end_op; i++) {
            lm_node_cost(p, &p->nodes[i], &c);
            sum += c.mult_adds;
        }
        json_array_append_new(out, json_pack("{s:s, s:s, s:o, s:o, s:I, s:I}", "path", x->path, "class", x->class_name, "in",
                                             width_json(p, x->in), "out", width_json(p, x->out), "parameters",
                                             (json_int_t)lm_module_parameters(p, m), "mult_adds", (json_int_t)sum));
    }
    return out;
}

json_t *lm_inspect(const lm_inspection *x)
{
    json_t *warnings = json_array();
    json_t *out      = json_object();

    for (const char *const *w = x->warnings; w && *w; w++)
        json_array_append_new(warnings, json_string(*w));
    json_object_set_new(out, "model", json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", x->name, "family", x->program->family, "class",
                                                x->program->class_name, "source", x->source, "container", x->container));
    json_object_set_new(out, "config", config_json(x));
    json_object_set_new(out, "parameters", parameters_json(x));
    json_object_set_new(out, "weights", weights_json(x));
    json_object_set_new(out, "kv", kv_json(x));
    json_object_set_new(out, "flops", flops_json(x));
    json_object_set_new(out, "memory", x->plan ? memory_json(x->plan) : json_null());
    json_object_set_new(out, "layers", layers_json(x->program));
    json_object_set_new(out, "warnings", warnings);
    return out;
}
