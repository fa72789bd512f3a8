/* tracepaths.c - the values of a model that can be traced and changed, and its layers, as JSON. */
#include <string.h>

#include "base/jsontext.h"
#include "program/op.h"
#include "trace/tracejson.h"
#include "trace/tracer.h"

/* Add a value with each path that refers to it. Returns false if memory is out, as the other functions do. */
static bool add_path(const lm_program *p, uint32_t i, const char *path, json_t *list)
{
    if (!path[0] || p->nodes[i].out == p->logits || lm_program_value(p, path) != p->nodes[i].out)
        return true;
    return json_array_append_new(list, json_pack("{s:s, s:I, s:i, s:s}", "path", path, "width",
                                                 (json_int_t)p->values[p->nodes[i].out].width, "layer",
                                                 p->nodes[i].layer, "operation",
                                                 lm_op_of(p->nodes[i].code)->name)) == 0;
}

static bool add_paths(const lm_program *p, json_t *list)
{
    bool good = true;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        bool is_module = false;
        for (uint32_t k = 0; k < p->n_modules; k++)
            if (p->modules[k].out == p->nodes[i].out) {
                good &= add_path(p, i, p->modules[k].path, list);
                is_module = is_module || strcmp(p->modules[k].path, p->nodes[i].path) == 0;
            }
        if (!is_module)
            good &= add_path(p, i, p->nodes[i].path, list);
    }
    return good;
}

/* Add the members to an object; NULL: out of memory. */
static bool add_members(json_t *o, json_t *members)
{
    bool good = json_object_update(o, members) == 0;

    json_decref(members);
    return good;
}

static bool add_layer(const lm_program *p, int32_t layer, json_t *list)
{
    const lm_node *attention = NULL, *mlp = NULL, *route = NULL;
    const char    *path = lm_trace_layer_path(p, layer);
    json_t        *o = json_pack("{s:i, s:s}", "layer", layer, "path", path ? path : "");
    bool           good = true;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->layer != layer)
            continue;
        attention = n->code == LM_OP_ATTENTION ? n : attention;
        mlp       = n->code == LM_OP_GLU || n->code == LM_OP_ACT || n->code == LM_OP_EXPERTS ? n : mlp;
        route     = n->code == LM_OP_ROUTE ? n : route;
    }
    if (attention) {
        const lm_attention_spec *spec = &attention->attention.spec;
        good &= add_members(o, json_pack("{s:s, s:I, s:I, s:I}", "attention",
                                         lm_trace_block(p, attention->module), "n_heads",
                                         (json_int_t)spec->n_heads, "n_kv_heads",
                                         (json_int_t)spec->n_kv_heads, "window", (json_int_t)spec->window));
    }
    if (mlp) {
        uint32_t neurons = mlp->code == LM_OP_EXPERTS ? 0 : (uint32_t)p->values[mlp->out].width;
        good &= add_members(o, json_pack("{s:s, s:I}", "mlp", lm_trace_block(p, mlp->module), "neurons",
                                         (json_int_t)neurons));
    }
    good &= json_object_set_new(o, "n_experts", json_integer(route ? route->route.spec.n_experts : 0)) == 0;
    return json_array_append_new(list, o) == 0 && good;
}

lm_status lm_trace_paths_document(const lm_model *m, json_t **out, lm_error *e)
{
    const lm_program *p = m->program;
    json_t           *paths = json_array(), *layers = json_array();
    bool              good = add_paths(p, paths);

    for (uint32_t l = 0; l < p->n_layers; l++)
        good &= add_layer(p, (int32_t)l, layers);
    json_t *o = json_pack("{s:o, s:o}", "paths", paths, "layers", layers);
    if (o && good) {
        *out = o;
        return LM_OK;
    }
    json_decref(o);
    return lm_fail_memory(e, "paths", 0);
}

lm_status lm_trace_paths(const lm_model *m, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, m && out);
    json_t   *o    = NULL;
    lm_text   text = { 0 };
    lm_status status = lm_trace_paths_document(m, &o, e);

    if (status == LM_OK)
        text.failed |= !lm_json_print(o, 0, &text);
    json_decref(o);
    return lm_text_deliver(&text, status, "paths", out, e);
}
