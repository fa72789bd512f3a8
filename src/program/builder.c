/* builder.c - record a program. */
#include "program/record.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"

static void fail(lm_builder *b, const char *where, const char *what)
{
    if (b->failed)
        return;
    b->failed = true;
    lm_fail(&b->error, LM_BAD_MODEL, where, LM_NO_OFFSET, "%s", what);
}

void lm_record_no_memory(lm_builder *b)
{
    if (!b->failed)
        lm_fail_memory(&b->error, "program", 0);
    b->failed = true;
}

bool lm_record_grow(lm_builder *b, void **array, uint32_t n, size_t *capacity, size_t size)
{
    if (b->failed)
        return false;
    if (n < *capacity)
        return true;
    size_t more = *capacity ? *capacity * 2 : 64;
    void  *p    = lm_realloc(*array, more * size);
    if (!p) {
        b->failed = true;
        lm_fail_memory(&b->error, "program", more * size);
        return false;
    }
    *array    = p;
    *capacity = more;
    return true;
}

static const char *keep(lm_builder *b, const char *s)
{
    char *copy = s ? lm_arena_strdup(&b->p->arena, s) : NULL;
    if (s && !copy)
        lm_record_no_memory(b);
    return copy;
}

char *lm_record_text(lm_builder *b, const char *format, ...)
{
    static char nothing[] = "";
    va_list     args;

    va_start(args, format);
    char *text = lm_arena_vprintf(&b->p->arena, format, args);
    va_end(args);
    if (!text)
        lm_record_no_memory(b);
    return text ? text : nothing;
}

/* Concatenate texts. A program has some thousand names: without formatting they take a third of the time. */
static char *concatenate(lm_builder *b, const lm_view *parts, size_t n)
{
    static char nothing[] = "";
    size_t      size      = 1;

    for (size_t i = 0; i < n; i++)
        size += parts[i].size;
    char *text = lm_arena_alloc(&b->p->arena, size), *at = text;
    if (!text) {
        lm_record_no_memory(b);
        return nothing;
    }
    for (size_t i = 0; i < n; at += parts[i++].size)
        memcpy(at, parts[i].data, parts[i].size);
    *at = '\0';
    return text;
}

#define VIEWS(...) (const lm_view[]){ __VA_ARGS__ }
#define CONCATENATE(b, ...) \
    concatenate(b, VIEWS(__VA_ARGS__), sizeof(VIEWS(__VA_ARGS__)) / sizeof(lm_view))

static char *dotted(lm_builder *b, const char *parent, const char *name)
{
    return CONCATENATE(b, lm_view_of(parent), lm_view_of("."), lm_view_of(name));
}

/* Join the parent's path and a name with a dot; the root adds nothing. */
const char *lm_record_path(lm_builder *b, const char *name)
{
    const char *parent = b->depth ? lm_record_here(b) : "";

    return *parent ? dotted(b, parent, name) : CONCATENATE(b, lm_view_of(name));
}

/* Return the GGUF name of a module's parameter: the matching row of the family's table, with its '*'
 * replaced, and the parameter's name. */
const char *lm_record_gguf(lm_builder *b, const char *module, const char *parameter)
{
    lm_view dot = lm_view_of(*parameter ? "." : ""), end = lm_view_of(parameter);

    for (const lm_name *n = b->names; n && n->module; n++) {
        const char *star = strchr(n->module, '*');
        if (!star) {
            if (strcmp(n->module, module) == 0)
                return CONCATENATE(b, lm_view_of(n->gguf), dot, end);
            continue;
        }
        size_t head = (size_t)(star - n->module);
        if (strncmp(n->module, module, head) != 0)
            continue;
        size_t digits = strspn(module + head, "0123456789");
        if (!digits || strcmp(module + head + digits, star + 1) != 0)
            continue;
        const char *g = strchr(n->gguf, '*');
        return CONCATENATE(b, { n->gguf, (size_t)(g - n->gguf) }, { module + head, digits },
                           lm_view_of(g + 1), dot, end);
    }
    /* some tensors have no suffix: their rows are for the weight itself */
    return strcmp(parameter, "weight") == 0
               ? lm_record_gguf(b, dotted(b, module, "weight"), "")
               : NULL;
}

static void fold(lm_builder *b, uint32_t weight, const lm_fold *folds, uint32_t n)
{
    lm_fold   *copy = lm_arena_new(&b->p->arena, n, lm_fold);
    bool       any  = false;
    lm_weight *w    = &b->p->weights[weight];

    if (!copy) {
        lm_record_no_memory(b);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        copy[i] = folds[i];
        if (w->uses > 1 && copy[i].factor != (w->n_folds ? w->folds[0].factor : 1))
            copy[i].factor = NAN;            /* one matrix, used with two factors */
        any |= copy[i].factor != 1;
    }
    w->folds   = any ? copy : NULL;
    w->n_folds = any ? n : 0;
    b->p->folds |= any;
}

void lm_fold_in_gguf(lm_builder *b, lm_value x, const lm_fold *folds, uint32_t n, uint32_t of_input)
{
    if (b->failed)
        return;
    const lm_node *made = &b->p->nodes[b->p->values[x].producer];
    if (made->weights[0] != LM_NONE)
        fold(b, made->weights[0], folds, n);
    if (made->weights[1] != LM_NONE && of_input == 0)
        fold(b, made->weights[1], folds + 1, n - 1);
    else if (made->weights[1] != LM_NONE)
        fold(b, made->weights[1], folds, of_input < n ? of_input : n);
}

const char *lm_record_here(const lm_builder *b)
{
    return b->p->modules[b->stack[b->depth - 1]].path;
}

/* ---- modules ---- */

/* Replace %s by the family's prefix. */
static const char *class_of(lm_builder *b, const char *class_name)
{
    const char *s = strstr(class_name, "%s");

    if (!s)
        return keep(b, class_name);
    return CONCATENATE(b, { class_name, (size_t)(s - class_name) }, lm_view_of(b->prefix), lm_view_of(s + 2));
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

static const char *order_of(const lm_builder *b, const char *class_name)
{
    static const lm_order usual[] = {
        { "MLP", "* act_fn act activation_fn dropout" }, { "DecoderLayer", "self_attn mlp *" }, { NULL, NULL },
    };
    const lm_order *const tables[] = { b->orders, usual };

    for (size_t i = 0; i < 2; i++)
        for (const lm_order *o = tables[i]; o && o->class_name; o++)
            if (ends_in(class_name, o->class_name))
                return o->children;
    return "*";
}

static uint32_t open_module(lm_builder *b, const char *name, const char *class_name)
{
    lm_program *p    = b->p;
    const char *path = lm_record_path(b, name);

    for (uint32_t m = b->apart ? p->n_modules : 0; m > 0 && p->modules[m - 1].layer == b->layer; m--)
        if (strcmp(p->modules[m - 1].path, path) == 0)
            return m - 1;
    if (!LM_GROW(b, modules, p->n_modules))
        return LM_NONE;
    p->modules[p->n_modules] = (lm_module){
        .name       = keep(b, name),
        .path       = path,
        .class_name = class_of(b, class_name),
        .order      = order_of(b, class_name),
        .parent     = b->depth ? b->stack[b->depth - 1] : LM_NONE,
        .depth      = b->depth,
        .layer      = b->layer,
        .first_op   = p->n_nodes,
        .end_op     = p->n_nodes,
        .in         = LM_NONE,
        .out        = LM_NONE,
    };
    return p->n_modules++;
}

/* Close a module. Its input is the first input of its first operation; its output, the value of its last
 * operation. */
static void close_module(lm_builder *b, uint32_t index)
{
    lm_program *p = b->p;
    lm_module  *m = &p->modules[index];

    m->end_op = b->apart ? m->first_op : p->n_nodes;
    if (m->end_op == m->first_op)
        return;
    m->in  = p->nodes[m->first_op].n_in ? p->nodes[m->first_op].in[0] : LM_NONE;
    m->out = p->nodes[m->end_op - 1].out;
}

void lm_push(lm_builder *b, const char *name, const char *class_name)
{
    if (b->failed)
        return;
    if (b->depth == LM_MAX_DEPTH) {
        fail(b, name, "modules are nested too deeply");
        return;
    }
    uint32_t m = open_module(b, name, class_name);
    if (m != LM_NONE)
        b->stack[b->depth++] = m;
}

void lm_push_layer(lm_builder *b, uint32_t layer, const char *class_name)
{
    char name[16];

    snprintf(name, sizeof name, "%u", layer);
    b->layer = (int32_t)layer;
    lm_push(b, name, class_name);
    if (!b->failed && layer + 1 > b->p->n_layers)
        b->p->n_layers = layer + 1;
}

void lm_push_apart(lm_builder *b, const char *name, const char *class_name)
{
    b->apart = b->apart ? b->apart : b->depth + 1;
    lm_push(b, name, class_name);
}

void lm_pop(lm_builder *b)
{
    if (b->failed)
        return;
    uint32_t m = b->stack[--b->depth];
    close_module(b, m);
    b->apart = b->depth < b->apart ? 0 : b->apart;
    b->layer = b->depth ? b->p->modules[b->stack[b->depth - 1]].layer : -1;
}

void lm_leaf(lm_builder *b, const char *name, const char *class_name)
{
    lm_push(b, name, class_name);
    lm_pop(b);
}

void lm_leaf_passing(lm_builder *b, const char *name, const char *class_name, lm_value x)
{
    lm_leaf(b, name, class_name);
    if (!b->failed)
        b->p->modules[b->p->n_modules - 1].in = b->p->modules[b->p->n_modules - 1].out = x;
}

/* The number has the format of Python: 0.1, 0.0. */
void lm_dropout(lm_builder *b, const char *name, float p, lm_value x)
{
    char text[32];

    lm_print(text, sizeof text, "%.6g", (double)p);
    if (x == LM_NONE)
        lm_leaf(b, name, "Dropout");
    else
        lm_leaf_passing(b, name, "Dropout", x);
    lm_module_arguments(b, "p=%s%s, inplace=False", text, strpbrk(text, ".e") ? "" : ".0");
}

void lm_module_arguments(lm_builder *b, const char *format, ...)
{
    char    text[64];
    va_list args;

    if (b->failed)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    b->p->modules[b->p->n_modules - 1].extra_repr = *text ? keep(b, text) : NULL;
}

void lm_class_is(lm_builder *b, const char *class_name)
{
    if (!b->failed)
        b->p->modules[b->p->n_modules - 1].class_name = class_of(b, class_name);
}

void lm_made_in_order(lm_builder *b, const lm_order *orders)
{
    b->orders = orders;
}

void lm_activations_are(lm_builder *b, const char *name, const char *class_name)
{
    b->act_name  = name;
    b->act_class = class_name;
}

void lm_called_by_position(lm_builder *b)
{
    if (!b->failed)
        b->p->modules[b->stack[b->depth - 1]].by_position = true;
}

/* ---- values, weights, operations ---- */

uint32_t lm_record_width(const lm_builder *b, lm_value v)
{
    return v < b->p->n_values ? b->p->values[v].width : 0;
}

uint32_t lm_record_weight(lm_builder *b, const char *module, const char *parameter, lm_weight_kind kind,
                          uint32_t n_dims, uint64_t d0, uint64_t d1)
{
    lm_program *p    = b->p;
    char       *path = dotted(b, module, parameter);
    uint64_t    known;

    if (b->failed)
        return LM_NONE;
    if (lm_map_get(b->weight_index, lm_view_of(path), &known)) {
        p->weights[known].uses++;
        return (uint32_t)known;
    }
    if (!LM_GROW(b, weights, p->n_weights))
        return LM_NONE;
    p->weights[p->n_weights] = (lm_weight){
        .path     = path,
        .gguf     = lm_record_gguf(b, module, parameter),
        .kind     = kind,
        .n_dims   = n_dims,
        .dims     = { d0, n_dims > 1 ? d1 : 1 },
        .elements = d0 * (n_dims > 1 ? d1 : 1),
        .uses     = 1,
    };
    lm_map_add(b->weight_index, lm_view_of(path), p->n_weights);
    return p->n_weights++;
}

lm_node *lm_record_node(lm_builder *b, lm_op_code code, const char *path, uint32_t width)
{
    lm_program *p = b->p;

    if (!LM_GROW(b, nodes, p->n_nodes) || !LM_GROW(b, values, p->n_values)) {
        b->nowhere = (lm_node){ 0 };
        return &b->nowhere;
    }
    lm_node *n = &p->nodes[p->n_nodes];
    *n         = (lm_node){
        .code = code,
        .path = path,
        .module = b->depth ? b->stack[b->depth - 1] : LM_NONE,
        .layer = b->layer,
        .out = p->n_values,
    };
    for (size_t i = 0; i < LM_MAX_INPUTS; i++)
        n->in[i] = LM_NONE;
    for (size_t i = 0; i < LM_MAX_WEIGHTS; i++)
        n->weights[i] = LM_NONE;
    p->values[p->n_values++] = (lm_value_info){ .width = width, .producer = p->n_nodes };
    p->n_nodes++;
    return n;
}

lm_node *lm_record_unary(lm_builder *b, lm_op_code code, const char *path, lm_value x, uint32_t width)
{
    if (x >= b->p->n_values)
        fail(b, path, "an operation reads a value that does not exist");
    lm_node *n = lm_record_node(b, code, path, width);
    n->n_in    = 1;
    n->in[0]   = x;
    return n;
}

uint32_t lm_record_state(lm_builder *b, uint64_t floats)
{
    lm_record_need(b, floats && floats <= UINT32_MAX, lm_record_here(b), "a state is larger than 16 GiB");
    if (!LM_GROW(b, states, b->p->n_states))
        return LM_NONE;
    b->p->states[b->p->n_states] = (lm_state_info){ .layer = b->layer, .floats = (uint32_t)floats };
    return b->p->n_states++;
}

void lm_record_need(lm_builder *b, bool condition, const char *where, const char *what)
{
    if (!condition)
        fail(b, where, what);
}

void lm_context_length(lm_builder *b, uint32_t positions, bool hard)
{
    b->p->context_length  = positions;
    b->p->context_is_hard = hard;
}

/* ---- creation and completion ---- */

lm_builder *lm_builder_new(const char *family, const char *class_prefix, const char *root_class,
                           const lm_name *names)
{
    lm_builder *b = lm_alloc_zero(1, sizeof *b);

    if (!b)
        return NULL;
    b->p            = lm_alloc_zero(1, sizeof *b->p);
    b->weight_index = lm_map_new(256);
    if (!b->p || !b->weight_index) {
        lm_map_free(b->weight_index);
        lm_free(b->p);
        lm_free(b);
        return NULL;
    }
    b->prefix        = class_prefix;
    b->names         = names;
    b->layer         = -1;
    b->p->family     = keep(b, family);
    b->p->class_name = root_class ? keep(b, root_class) : lm_record_text(b, "%sForCausalLM", class_prefix);
    lm_push(b, "", b->p->class_name);
    return b;
}

lm_status lm_builder_finish(lm_builder *b, lm_value logits, lm_program **out, lm_error *e)
{
    if (!b->failed && (b->depth != 1 || logits >= b->p->n_values))
        fail(b, b->p->family, "the description is not complete");
    lm_pop(b);
    lm_program *p      = b->p;
    bool        failed = b->failed || lm_map_failed(b->weight_index);
    lm_status   status = b->failed ? b->error.code : failed ? LM_NO_MEMORY : LM_OK;

    if (status != LM_OK && e) {
        if (b->failed)
            *e = b->error;
        else
            lm_fail_memory(e, "program", 0);
    }
    lm_map_free(b->weight_index);
    lm_free(b);
    if (status != LM_OK) {
        lm_program_free(p);
        return status;
    }
    p->logits  = logits;
    p->n_vocab = p->values[logits].width;
    *out       = p;
    return LM_OK;
}

/* ---- properties of stored weights ---- */

static lm_node *maker(lm_builder *b, lm_value x)
{
    return b->failed || x >= b->p->n_values ? NULL : &b->p->nodes[b->p->values[x].producer];
}

void lm_stored_transposed(lm_builder *b, lm_value x)
{
    lm_node *n = maker(b, x);

    if (!n || n->weights[0] == LM_NONE)
        return;
    b->p->weights[n->weights[0]].transposed = true;
    for (uint32_t m = 0; m < b->p->n_modules; m++)
        if (strcmp(b->p->modules[m].path, n->path) == 0)
            b->p->modules[m].class_name = "Conv1D";
}

void lm_stored_minus_one(lm_builder *b, lm_value x)
{
    lm_node *n = maker(b, x);

    if (n && n->weights[0] != LM_NONE)
        b->p->weights[n->weights[0]].plus_one = true;
}

void lm_stored_in_layout(lm_builder *b, lm_value x, const lm_gguf_layout *layout)
{
    lm_node   *n    = maker(b, x);
    lm_gguf_layout *copy = n ? lm_arena_new(&b->p->arena, 1, lm_gguf_layout) : NULL;

    if (n && !copy)
        lm_record_no_memory(b);
    if (!copy)
        return;
    *copy = *layout;
    for (uint32_t i = 0; i < 2; i++)
        copy->gguf[i] = keep(b, layout->gguf[i]);
    b->p->weights[n->weights[0]].layout = copy;
    if (n->weights[1] != LM_NONE && !layout->columns)
        b->p->weights[n->weights[1]].layout = copy;
}

void lm_named_in_gguf(lm_builder *b, lm_value x, const char *name)
{
    lm_node *n = maker(b, x);

    if (n && n->weights[0] != LM_NONE)
        b->p->weights[n->weights[0]].gguf = lm_record_text(b, "blk.%d.%s.weight", b->layer, name);
}

void lm_with_bias(lm_builder *b, lm_value x)
{
    lm_node *n = maker(b, x);

    if (n && n->weights[1] == LM_NONE)
        n->weights[1] = lm_record_weight(b, n->path, "bias", LM_VECTOR, 1, lm_record_width(b, x), 1);
}
