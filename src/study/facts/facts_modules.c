/* facts_modules.c - the module tree, fact by fact. */
#include <stdio.h>
#include <string.h>

#include "study/facts/fact.h"
#include "program/op.h"
#include "study/facts/ledger.h"
#include "study/facts/precision.h"

/* ---- one module ---- */

static void add_width(lm_facts *f, lm_fact *g, const char *name, lm_value v)
{
    if (v == LM_NONE)
        lm_add_none(g, name, "computes nothing of its own");
    else
        lm_add_count(g, name, f->s.program->values[v].width, LM_UNIT_LANES, LM_FROM_PROGRAM,
                     "width of the value");
}

static void add_shape(lm_fact *g, const char *name, const lm_weight *w)
{
    lm_fact *list = lm_add_list(g, name, NULL, 0);

    for (uint32_t d = 0; d < w->n_dims; d++)
        lm_add_count(list, NULL, w->dims[d], LM_UNIT_NONE, LM_FROM_PROGRAM, NULL);
}

static void fill_weight(lm_facts *f, lm_fact *g)
{
    uint32_t         i = (uint32_t)g->impl.argument;
    const lm_weight *w = &f->s.program->weights[i];

    lm_add_text(g, "path", w->path, LM_FROM_PROGRAM, NULL);
    if (w->gguf)
        lm_add_text(g, "gguf", w->gguf, LM_FROM_PROGRAM, "its name in that container");
    add_shape(g, "shape", w);
    lm_add_count(g, "parameters", w->constant ? 0 : w->elements, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM, NULL);
    if (f->s.bytes) {
        lm_add_text(g, "type", lm_dtype_of(f->s.types[i])->name, LM_FROM_TENSOR, NULL);
        lm_add_count(g, "bytes", f->s.bytes[i], LM_UNIT_BYTES, LM_FROM_TENSOR, NULL);
    }
}

static void add_weights(lm_fact *g, const lm_node *n)
{
    const lm_op *op = lm_op_of(n->code);

    for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
        if (n->weights[k] != LM_NONE)
            lm_add_group(g, op->weights[k], fill_weight, n->weights[k]);
}

/* Add the heads that a projection makes: those of the attention that reads it. */
static void add_projection(lm_facts *f, lm_fact *g, uint32_t i)
{
    const lm_program *p    = f->s.program;
    uint16_t          role = f->ledger->roles[i];

    if (!(role & (LM_PRODUCT_QUERY | LM_PRODUCT_KEY | LM_PRODUCT_VALUE)))
        return;
    for (uint32_t k = i; k < p->n_nodes && p->nodes[k].layer == p->nodes[i].layer; k++) {
        if (p->nodes[k].code != LM_OP_ATTENTION)
            continue;
        const lm_attention_spec *s = &p->nodes[k].attention.spec;
        uint64_t width = p->values[p->nodes[i].out].width;
        if (role == LM_PRODUCT_QUERY && width == (uint64_t)s->n_heads * s->k_dim)
            lm_add_count(g, "heads", s->n_heads, LM_UNIT_HEADS, LM_FROM_PROGRAM,
                         "of the scores that read it");
        else if (role == LM_PRODUCT_KEY && width == (uint64_t)s->n_kv_heads * s->k_dim)
            lm_add_count(g, "heads", s->n_kv_heads, LM_UNIT_HEADS, LM_FROM_PROGRAM,
                         "of the scores that read it");
        else if (role == LM_PRODUCT_VALUE && width == (uint64_t)s->n_kv_heads * s->v_dim)
            lm_add_count(g, "heads", s->n_kv_heads, LM_UNIT_HEADS, LM_FROM_PROGRAM,
                         "of the scores that read it");
        return;
    }
}

/* Add the attributes of a leaf module: in and out features, eps, rows. */
static void add_leaf(lm_facts *f, lm_fact *g, uint32_t i)
{
    const lm_program *p = f->s.program;
    const lm_node    *n = &p->nodes[i];
    const lm_weight  *w = n->weights[0] != LM_NONE ? &p->weights[n->weights[0]] : NULL;

    if (w && w->n_dims > 0)
        add_shape(g, "shape", w);
    switch (n->code) {
    case LM_OP_LINEAR:
        lm_add_count(g, "in_features", p->values[n->in[0]].width, LM_UNIT_LANES, LM_FROM_PROGRAM, NULL);
        lm_add_count(g, "out_features", p->values[n->out].width, LM_UNIT_LANES, LM_FROM_PROGRAM, NULL);
        lm_add_bool(g, "bias", n->weights[1] != LM_NONE, LM_FROM_PROGRAM, NULL);
        lm_add_bool(g, "tied", w && f->ledger->reader[n->weights[0]] != i, LM_FROM_PROGRAM,
                    "reads a matrix that an earlier operation has");
        add_projection(f, g, i);
        break;
    case LM_OP_EMBED:
    case LM_OP_POSITION:
        lm_add_count(g, "num_embeddings", w ? w->dims[0] : 0, LM_UNIT_TOKENS, LM_FROM_PROGRAM, NULL);
        lm_add_count(g, "embedding_dim", p->values[n->out].width, LM_UNIT_LANES, LM_FROM_PROGRAM, NULL);
        break;
    case LM_OP_RMS_NORM:
    case LM_OP_LAYER_NORM:
        lm_add_text(g, "type", n->code == LM_OP_RMS_NORM ? "RMSNorm" : "LayerNorm", LM_FROM_PROGRAM, NULL);
        lm_add_number(g, "eps", lm_decimal(n->norm.eps), LM_UNIT_NONE, LM_FROM_PROGRAM, NULL);
        lm_add_count(g, "pass_multiplications", 3 * (uint64_t)p->values[n->out].width * f->s.tokens,
                     LM_UNIT_MULT_ADDS, LM_FROM_PROGRAM,
                     "of pass.tokens tokens: a square, the factor and the weight for each dimension");
        break;
    default:
        break;
    }
}

/* A linear layer that the program stores in parts. */
static void add_parted(lm_fact *g, const lm_linear_form *x)
{
    lm_add_count(g, "in_features", x->in, LM_UNIT_LANES, LM_FROM_PROGRAM,
                 "of the matrix as checkpoints store it");
    lm_add_count(g, "out_features", x->out, LM_UNIT_LANES, LM_FROM_PROGRAM,
                 "of the matrix as checkpoints store it");
    lm_add_bool(g, "bias", x->bias, LM_FROM_PROGRAM, NULL);
}

/* Return the multiply-adds of a forward pass of T tokens from an empty cache, every query against every key,
 * as frameworks without a causal shortcut compute them. */
static lm_wide pass_mult_adds(lm_facts *f, uint32_t module)
{
    const lm_program *p   = f->s.program;
    uint32_t          share = p->modules[module].share;
    lm_wide           sum   = 0;

    if (share)
        return pass_mult_adds(f, p->modules[module].parent) / share;
    for (uint32_t i = lm_module_op(p, module, 0); i != LM_NONE; i = lm_module_op(p, module, i + 1))
        sum += (lm_wide)f->s.tokens * lm_node_mult_adds(p, &p->nodes[i], f->s.tokens);
    return sum;
}

static uint64_t attention_keys(lm_facts *f, const lm_module *m)
{
    uint64_t sum = 0;

    for (uint32_t i = m->first_op; i < m->end_op; i++) {
        lm_cost c;
        lm_node_cost(f->s.program, &f->s.program->nodes[i], &c);
        sum += c.key_mult_adds;
    }
    return sum;
}

/* Add the facts of a module's row; the flat list contains only these. */
static void add_row(lm_facts *f, lm_fact *g, uint32_t index)
{
    const lm_module *m = &f->s.program->modules[index];
    lm_module_sums   s;

    lm_module_sum(f->ledger, index, &s);
    lm_add_text(g, "path", m->path, LM_FROM_PROGRAM, NULL);
    lm_add_text(g, "class", m->class_name, LM_FROM_PROGRAM, "as transformers prints it");
    add_width(f, g, "in", m->in);
    add_width(f, g, "out", m->out);
    lm_add_count(g, "parameters", s.parameters, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                 "weights first read here, inner modules included");
    lm_add_count(g, "mult_adds", s.mult_adds, LM_UNIT_MULT_ADDS, LM_FROM_PROGRAM,
                 "one token, without scores");
}

static void fill_details(lm_facts *f, lm_fact *g, uint32_t index)
{
    const lm_program *p = f->s.program;
    const lm_module  *m = &p->modules[index];
    lm_linear_form    linear;
    lm_module_sums    s;

    lm_module_sum(f->ledger, index, &s);
    lm_add_count(g, "key_mult_adds", attention_keys(f, m), LM_UNIT_MULT_ADDS, LM_FROM_PROGRAM,
                 "for each key that the token sees");
    lm_add_count(g, "flops", s.flops, LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                 "one token, everything, without scores");
    lm_add_wide(g, "pass_mult_adds", pass_mult_adds(f, index), LM_UNIT_MULT_ADDS, LM_FROM_PROGRAM,
                "pass.tokens tokens, every query against every key");
    lm_add_count(g, "biases", s.biases, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM, "of the parameters");
    if (m->end_op == m->first_op + 1 && f->ledger->child[index] == LM_NONE)
        add_leaf(f, g, m->first_op);
    else if (lm_module_linear(p, index, &linear))
        add_parted(g, &linear);
    for (uint32_t i = lm_module_op(p, index, 0); i != LM_NONE; i = lm_module_op(p, index, i + 1))
        if (p->nodes[i].module == index)
            add_weights(g, &p->nodes[i]);
}

static void add_inner(lm_facts *f, lm_fact *g, uint32_t index);

void lm_fill_module(lm_facts *f, lm_fact *g)
{
    uint32_t index = (uint32_t)g->impl.argument;

    add_row(f, g, index);
    fill_details(f, g, index);
    add_inner(f, g, index);
}

static void add_inner(lm_facts *f, lm_fact *g, uint32_t index)
{
    for (uint32_t m = f->ledger->child[index]; m != LM_NONE; m = f->ledger->sibling[m])
        lm_add_group(g, f->s.program->modules[m].name, lm_fill_module, m);
}

/* ---- lists ---- */

/* In the flat list, inner modules have their own rows. */
static void fill_row(lm_facts *f, lm_fact *g)
{
    lm_fact *last;

    lm_fill_module(f, g);
    for (last = g->impl.first; last; last = last->impl.next)
        if (last->kind == LM_FACT_GROUP && last->impl.fill == lm_fill_module)
            last->impl.silent = true;
}

void lm_fill_modules(lm_facts *f, lm_fact *list)
{
    for (uint32_t m = 0; m < f->s.program->n_modules; m++)
        lm_add_group(list, NULL, fill_row, m);
}

void lm_fill_layers(lm_facts *f, lm_fact *list)
{
    for (uint32_t i = 0; i < f->s.program->n_layers; i++)
        lm_add_group(list, NULL, lm_fill_module, f->ledger->layer[i]);
}

/* ---- forward pass of a few tokens ---- */

/* Return the bytes of a value as the model's publisher computes it: those of its floating-point type, or 2
 * for quantised types. */
static uint64_t value_bytes(lm_facts *f)
{
    const lm_precision *x = lm_precision_named(f->s.precision);

    return x && x->matrices == LM_F32 ? 4 : 2;
}

/* Return the total output size of modules that have parameters and no submodules. */
static uint64_t leaf_outputs(lm_facts *f)
{
    const lm_program *p   = f->s.program;
    uint64_t          sum = 0;

    for (uint32_t m = 0; m < p->n_modules; m++)
        if (f->ledger->child[m] == LM_NONE && p->modules[m].end_op > p->modules[m].first_op &&
            p->nodes[p->modules[m].first_op].weights[0] != LM_NONE)
            sum += p->values[p->modules[m].out].width;
    return sum * f->s.tokens;
}

/* Return weight k of an operation if it is a parameter that k - 1 is not; else LM_NONE. An expert's matrix
 * can be its own gate. */
static uint32_t parameter_at(const lm_program *p, uint32_t i, uint32_t k)
{
    uint32_t w = p->nodes[i].weights[k];

    return w == LM_NONE || p->weights[w].constant || (k && w == p->nodes[i].weights[k - 1]) ? LM_NONE : w;
}

/* torchinfo 1.8.0's rules (model_statistics.py, layer_info.py): every module that reads a matrix counts it,
 * products ignore the sequence length, look-ups and norms count as products, and activations are doubled for
 * a backward pass. Conv1D is treated as a convolution: multiplied by its output size. */
uint64_t lm_torchinfo_mult_adds(lm_facts *f, uint32_t module)
{
    const lm_program *p   = f->s.program;
    uint64_t          sum = 0;

    for (uint32_t i = lm_module_op(p, module, 0); i != LM_NONE; i = lm_module_op(p, module, i + 1))
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++) {
            uint32_t w = parameter_at(p, i, k);
            /* transformers calls a function with the weights of such a convolution */
            if (w != LM_NONE && p->nodes[i].code != LM_OP_CAUSAL_CONV)
                sum += p->weights[w].elements * (strstr(p->modules[p->nodes[i].module].class_name, "Conv")
                                                     ? p->values[p->nodes[i].out].width
                                                     : 1);
        }
    return sum;
}

uint64_t lm_torchinfo_parameters(lm_facts *f, uint32_t module)
{
    const lm_program *p   = f->s.program;
    uint64_t          sum = 0;

    for (uint32_t i = lm_module_op(p, module, 0); i != LM_NONE; i = lm_module_op(p, module, i + 1))
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++) {
            uint32_t w     = parameter_at(p, i, k);
            bool     again = w != LM_NONE && f->ledger->reader[w] != i &&     /* by the same module */
                         p->nodes[f->ledger->reader[w]].module == p->nodes[i].module;
            sum += w != LM_NONE && !again ? p->weights[w].elements : 0;
        }
    return sum;
}

static void fill_torchinfo(lm_facts *f, lm_fact *g)
{
    uint64_t each = value_bytes(f), outputs = leaf_outputs(f) * each, params = lm_torchinfo_parameters(f, 0);
    uint64_t once = lm_program_parameters(f->s.program) * each;

    lm_add_count(g, "parameters", params, LM_UNIT_PARAMETERS, LM_FROM_RULE,
                 "a tied matrix once for each module that reads it");
    lm_add_count(g, "mult_adds", lm_torchinfo_mult_adds(f, 0), LM_UNIT_MULT_ADDS, LM_FROM_RULE,
                 "the length of the sequence is ignored, look-ups count");
    lm_add_count(g, "input_bytes", f->s.tokens * 8, LM_UNIT_BYTES, LM_FROM_RULE, "ids of 8 bytes");
    lm_add_count(g, "forward_backward_bytes", 2 * outputs, LM_UNIT_BYTES, LM_FROM_RULE,
                 "outputs of leaf modules, doubled for a backward pass");
    lm_add_count(g, "params_bytes", params * each, LM_UNIT_BYTES, LM_FROM_RULE, NULL);
    lm_add_count(g, "total_bytes", f->s.tokens * 8 + 2 * outputs + params * each, LM_UNIT_BYTES, LM_FROM_RULE,
                 NULL);
    lm_add_count(g, "total_bytes_tied_once", f->s.tokens * 8 + 2 * outputs + once, LM_UNIT_BYTES,
                 LM_FROM_RULE, "the same with a tied matrix once");
}

void lm_fill_pass(lm_facts *f, lm_fact *g)
{
    uint64_t       activations = 0, naive;
    lm_wide        causal      = 0;
    lm_flop_counts flops;
    lm_cost        c;

    for (uint32_t i = 0; i < f->s.program->n_nodes; i++) {
        const lm_node *n = &f->s.program->nodes[i];
        lm_node_cost(f->s.program, n, &c);
        activations += f->s.program->values[n->out].width;
        causal += (lm_wide)c.mult_adds * f->s.tokens;
        causal += (lm_wide)c.key_mult_adds *
                  lm_node_keys_seen(n, f->s.tokens);
    }
    lm_add_count(g, "tokens", f->s.tokens, LM_UNIT_TOKENS, LM_FROM_REQUEST, "from an empty cache, batch 1");
    lm_add_wide(g, "mult_adds", pass_mult_adds(f, 0), LM_UNIT_MULT_ADDS, LM_FROM_PROGRAM,
                "matrix products, every query against every key, logits of all");
    lm_add_wide(g, "mult_adds_causal", causal, LM_UNIT_MULT_ADDS, LM_FROM_PROGRAM,
                "the same, each query against what it may see");
    if (lm_naive_per_key(f, &naive)) {
        lm_count_flops(f->s.program, &flops);
        lm_add_wide(g, "mult_adds_naive",
                    pass_mult_adds(f, 0) -
                        (lm_wide)(flops.per_context_token - naive) / 2 * f->s.tokens * f->s.tokens,
                    LM_UNIT_MULT_ADDS, LM_FROM_WHAT_IF,
                    "mult_adds with keys and values of every head (naive form of latent attention)");
    }
    lm_add_count(g, "activations", activations * f->s.tokens, LM_UNIT_ELEMENTS, LM_FROM_PROGRAM,
                 "values that the operations make");
    lm_add_count(g, "value_bytes", value_bytes(f), LM_UNIT_BYTES, LM_FROM_CONFIG,
                 "of a value, and of a weight");
    lm_add_count(g, "input_bytes", f->s.tokens * 8, LM_UNIT_BYTES, LM_FROM_RULE, "ids of 8 bytes");
    lm_add_count(g, "output_bytes", leaf_outputs(f) * value_bytes(f), LM_UNIT_BYTES, LM_FROM_PROGRAM,
                 "outputs of modules with parameters");
    lm_add_count(g, "parameter_bytes", lm_program_parameters(f->s.program) * value_bytes(f), LM_UNIT_BYTES,
                 LM_FROM_PROGRAM, "every stored weight once");
    lm_add_group(g, "torchinfo", fill_torchinfo, 0);
}
