/* facts_parameters.c - parameters by part, layer and matrix; bytes by type and precision. */
#include <inttypes.h>
#include <string.h>

#include "study/facts/fact.h"
#include "study/facts/ledger.h"
#include "study/facts/precision.h"

/* ---- shares ---- */

static void fill_shares(lm_facts *f, lm_fact *g)
{
    lm_parameter_counts c;

    lm_count_parameters(f->ledger, &c);
    for (int p = 0; p < LM_PARTS && c.total; p++)
        lm_add_number(g, lm_part_name((lm_part)p), 100.0 * (double)c.part[p] / (double)c.total,
                      LM_UNIT_PERCENT, LM_FROM_PROGRAM, "of the total stored");
}

/* ---- layers ---- */

static void fill_per_layer(lm_facts *f, lm_fact *list)
{
    lm_module_sums s;

    for (uint32_t i = 0; i < f->s.program->n_layers; i++) {
        lm_module_sum(f->ledger, f->ledger->layer[i], &s);
        lm_add_count(list, NULL, s.parameters, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                     "weights first read in the layer");
    }
}

/* ---- the same module in all layers: stack.self_attn.q_proj ---- */

/* Return the module of a layer at the same relative place as `like` has in its own layer, or LM_NONE. */
static uint32_t same_place(const lm_facts *f, uint32_t layer, uint32_t like)
{
    const lm_program *p    = f->s.program;
    uint32_t          root = f->ledger->layer[p->modules[like].layer];

    if (like == root)
        return f->ledger->layer[layer];
    uint32_t parent = same_place(f, layer, p->modules[like].parent);
    for (uint32_t m = parent == LM_NONE ? LM_NONE : f->ledger->child[parent]; m != LM_NONE;
         m = f->ledger->sibling[m])
        if (strcmp(p->modules[m].name, p->modules[like].name) == 0)
            return m;
    return LM_NONE;
}

static void fill_place(lm_facts *f, lm_fact *g)
{
    const lm_program *p    = f->s.program;
    uint32_t          like = (uint32_t)g->impl.argument, layers = 0;
    lm_module_sums    s, all = { 0 };

    for (uint32_t i = 0; i < p->n_layers; i++) {
        uint32_t m = same_place(f, i, like);
        if (m == LM_NONE)
            continue;
        lm_module_sum(f->ledger, m, &s);
        layers++;
        all.parameters += s.parameters;
        all.biases += s.biases;
        all.mult_adds += s.mult_adds;
    }
    lm_add_count(g, "in_layers", layers, LM_UNIT_LAYERS, LM_FROM_PROGRAM,
                 "decoder layers that have this module");
    lm_add_count(g, "parameters", all.parameters, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                 "sum over these layers");
    lm_add_count(g, "biases", all.biases, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                 "of these, vectors beside a matrix");
    lm_add_count(g, "mult_adds", all.mult_adds, LM_UNIT_MULT_ADDS, LM_FROM_PROGRAM,
                 "one token, without scores");
    for (uint32_t i = 0; i < p->n_layers; i++) {             /* submodules in any kind of layer, each name
                                                                once */
        uint32_t m = f->ledger->twin[i] == i ? same_place(f, i, like) : LM_NONE;
        for (m = m == LM_NONE ? LM_NONE : f->ledger->child[m]; m != LM_NONE; m = f->ledger->sibling[m])
            if (!lm_fact_member(g, p->modules[m].name, strlen(p->modules[m].name)))
                lm_add_group(g, p->modules[m].name, fill_place, m);
    }
}

/* ---- totals ---- */

/* Return the number of bias elements (vectors that a product adds), or of expert parameters including their
 * biases. */
static uint64_t sum_of(const lm_facts *f, bool biases)
{
    uint64_t n = 0;

    for (uint32_t w = 0; w < f->s.program->n_weights; w++) {
        const lm_weight *x = &f->s.program->weights[w];
        uint32_t         i = f->ledger->reader[w];
        if (x->constant || i == LM_NONE)
            continue;
        lm_op_code code = f->s.program->nodes[i].code;
        if (biases ? (code == LM_OP_LINEAR || code == LM_OP_EXPERTS) && x->kind == LM_VECTOR
                   : code == LM_OP_EXPERTS)
            n += x->elements;
    }
    return n;
}

void lm_fill_parameters(lm_facts *f, lm_fact *g)
{
    lm_parameter_counts c;

    lm_count_parameters(f->ledger, &c);
    lm_add_count(g, "total", c.total, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM, "every stored weight once");
    lm_add_count(g, "untied_total", c.untied_total, LM_UNIT_PARAMETERS, LM_FROM_WHAT_IF,
                 "if the head were untied");
    lm_add_count(g, "active", c.active, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                 "without experts that a token does not visit");
    lm_add_count(g, "active_without_embedding", c.multiplied, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                 "active, without embedding tables; the head is counted");
    for (int p = 0; p < LM_PARTS; p++)
        lm_add_count(g, lm_part_name((lm_part)p), c.part[p], LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                     "weights by the operation that reads them first");
    lm_add_count(g, "saved_by_tying", c.untied_total - c.total, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                 "untied_total - total");
    lm_add_count(g, "biases", sum_of(f, true), LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                 "vectors beside a matrix");
    lm_add_count(g, "experts", sum_of(f, false), LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                 "routed experts, their biases among them");
    lm_add_count(g, "trainable", c.total, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM, "all of them");
    lm_add_count(g, "non_trainable", 0, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                 "constants (rotary factors) are no parameters");
    lm_add_group(g, "shares", fill_shares, 0);
    lm_add_list(g, "per_layer", fill_per_layer, 0);
    if (f->s.program->n_layers && f->ledger->layer[0] != LM_NONE)
        lm_add_group(g, "stack", fill_place, f->ledger->layer[0]);
}

/* ---- bytes ---- */

/* Return the stored type, whatever type the plan uses. */
static lm_dtype stored_type(const lm_facts *f, uint32_t w)
{
    return f->s.stored ? f->s.stored[w] : f->s.types[w];
}

static void fill_by_type(lm_facts *f, lm_fact *g)
{
    for (uint32_t i = 0; f->s.bytes && i < f->s.program->n_weights; i++) {
        const char *name = lm_dtype_of(stored_type(f, i))->name;
        lm_fact    *x    = g->impl.first;
        while (x && strcmp(x->name, name) != 0)
            x = x->impl.next;
        if (!x)
            x = lm_add_count(g, name, 0, LM_UNIT_BYTES, LM_FROM_TENSOR, NULL);
        x->count += f->s.bytes[i];
    }
}

const lm_dtype *lm_types_as(lm_facts *f, uint64_t precision)
{
    lm_dtype *types = f->types_as[precision];

    if (!types) {
        f->types_as[precision] = types = lm_arena_new(&f->arena, f->s.program->n_weights + 1, lm_dtype);
        f->failed |= !types;
        if (types)
            lm_precision_types(lm_precision_at(precision), f->ledger, types);
    }
    return types;
}

static void fill_precision(lm_facts *f, lm_fact *g)
{
    const lm_precision *x     = lm_precision_at(g->impl.argument);
    const lm_dtype     *types = lm_types_as(f, g->impl.argument);
    uint64_t            bytes = 0, matrices = 0;

    for (uint32_t w = 0; types && w < f->s.program->n_weights; w++) {
        uint64_t each = lm_precision_bytes(x, f->ledger, w, types[w]);
        bytes += each;
        matrices += f->s.program->weights[w].kind == LM_VECTOR ? 0 : each;
    }
    lm_add_count(g, "bytes", bytes, LM_UNIT_BYTES, x->what_if_origin, x->rule);
    lm_add_count(g, "matrices", matrices, LM_UNIT_BYTES, x->what_if_origin, "without vectors");
    lm_add_number(g, "bits_per_weight", 8.0 * (double)bytes / (double)lm_program_parameters(f->s.program),
                  LM_UNIT_NONE, LM_FROM_WHAT_IF, "bytes × 8 / parameters");
}

void lm_fill_precision(lm_facts *f, lm_fact *g)
{
    for (size_t i = 0; lm_precision_at(i); i++)
        lm_add_group(g, lm_precision_at(i)->name, fill_precision, i)->impl.silent = !lm_precision_shown(
            lm_precision_at(i), f->s.program);
}

/* Return the part of a weight; constants and weights that no operation reads are LM_PART_OTHER. */
static lm_part part_of(const lm_facts *f, uint32_t w)
{
    uint32_t reader = f->ledger->reader[w];

    return reader == LM_NONE || f->s.program->weights[w].constant ? LM_PART_OTHER : f->ledger->part[reader];
}

static void fill_by_part(lm_facts *f, lm_fact *g)
{
    uint64_t bytes[LM_PARTS] = { 0 };

    for (uint32_t i = 0; i < f->s.program->n_weights; i++)
        bytes[part_of(f, i)] += f->s.bytes[i];
    for (int p = 0; p < LM_PARTS; p++)
        lm_add_count(g, lm_part_name((lm_part)p), bytes[p], LM_UNIT_BYTES, LM_FROM_TENSOR,
                     "as stored, by the operation that reads them first");
}

enum { TYPES = LM_U64 + 1 };

/* Append "q4_0, f32": types by bytes, largest first. `only`: of one part; LM_PARTS: of all. */
static void put_types(const lm_facts *f, lm_part only, lm_text *out)
{
    uint64_t bytes[TYPES] = { 0 };

    for (uint32_t i = 0; i < f->s.program->n_weights; i++)
        if (only == LM_PARTS || part_of(f, i) == only)
            bytes[stored_type(f, i)] += f->s.bytes[i];
    for (bool any = false;; any = true) {
        int max = 0;
        for (int t = 1; t < TYPES; t++)
            max = bytes[t] > bytes[max] ? t : max;
        if (!bytes[max])
            return;
        lm_text_printf(out, "%s%s", any ? ", " : "", lm_dtype_of((lm_dtype)max)->name);
        bytes[max] = 0;
    }
}

static void add_types(lm_facts *f, lm_fact *g, const char *name, lm_part only)
{
    lm_text types = { 0 };

    put_types(f, only, &types);
    f->failed |= types.failed;
    if (types.size)
        lm_add_text(g, name, types.data, LM_FROM_TENSOR, "by bytes, the most first");
    lm_text_free(&types);
}

static void fill_types_by_part(lm_facts *f, lm_fact *g)
{
    for (int p = 0; p < LM_PARTS; p++)
        add_types(f, g, lm_part_name((lm_part)p), (lm_part)p);
}

/* Add the facts that only a model with weights has. */
static void add_storage(lm_facts *f, lm_fact *g, uint64_t bytes)
{
    uint64_t elements = 0, files = 0;

    for (uint32_t i = 0; i < f->s.program->n_weights; i++)
        elements += f->s.program->weights[i].elements;
    for (size_t i = 0; f->s.tensors && i < lm_container_n_files(f->s.tensors); i++)
        files += lm_container_file(f->s.tensors, i)->size;
    if (files)
        lm_add_count(g, "file_bytes", files, LM_UNIT_BYTES, LM_FROM_TENSOR,
                     "the files that hold weights, whole");
    if (elements)
        lm_add_number(g, "bits_per_weight", 8.0 * (double)bytes / (double)elements, LM_UNIT_NONE,
                      LM_FROM_TENSOR, "8 * bytes / weights");
    add_types(f, g, "types", LM_PARTS);
    lm_add_group(g, "by_part", fill_by_part, 0);
    lm_add_group(g, "types_by_part", fill_types_by_part, 0);
}

void lm_fill_weights(lm_facts *f, lm_fact *g)
{
    uint64_t total = 0;

    for (uint32_t i = 0; f->s.bytes && i < f->s.program->n_weights; i++)
        total += f->s.bytes[i];
    if (f->s.bytes)
        lm_add_count(g, "bytes", total, LM_UNIT_BYTES, LM_FROM_TENSOR,
                     "tensors that the program uses, as stored");
    else
        lm_add_none(g, "bytes", "no weights are here");
    lm_add_group(g, "by_type", fill_by_type, 0);
    if (f->s.bytes)
        add_storage(f, g, total);
    lm_add_text(g, "precision", f->s.precision, LM_FROM_REQUEST, "what plan and speed are made for");
    lm_add_group(g, "as", lm_fill_precision, 0);
}
