/* counts.c - sums over a program. */
#include "analysis/counts.h"

#include <string.h>

static const char *const part_names[LM_PARTS] = { "embedding", "attention", "mlp", "norm", "head", "other" };

const char *lm_part_name(lm_part p)
{
    return part_names[p];
}

/* The module directly below a decoder layer that the operation stands in; LM_NONE outside the stack. */
static uint32_t block_of(const lm_program *p, const lm_node *n)
{
    uint32_t m = n->module;

    if (n->layer < 0)
        return LM_NONE;
    while (m != LM_NONE && p->modules[m].parent != LM_NONE && p->modules[p->modules[m].parent].parent != LM_NONE &&
           p->modules[p->modules[p->modules[m].parent].parent].layer >= 0)
        m = p->modules[m].parent;
    return m;
}

static bool holds_attention(const lm_program *p, uint32_t module)
{
    for (uint32_t i = p->modules[module].first_op; i < p->modules[module].end_op; i++)
        if (p->nodes[i].code == LM_OP_ATTENTION)
            return true;
    return false;
}

/* The last product: what follows it only scales or caps the logits. */
static const lm_node *head_of(const lm_program *p)
{
    uint32_t i = p->n_nodes;

    while (i > 1 && p->nodes[i - 1].code != LM_OP_LINEAR)
        i--;
    return &p->nodes[i - 1];
}

static lm_part part_of(const lm_program *p, const lm_node *n)
{
    if (n->code == LM_OP_EMBED || n->code == LM_OP_POSITION)
        return LM_PART_EMBEDDING;
    if (n->code == LM_OP_RMS_NORM || n->code == LM_OP_LAYER_NORM)
        return LM_PART_NORM;
    if (n == head_of(p))
        return LM_PART_HEAD;
    uint32_t m = block_of(p, n);
    if ((n->code != LM_OP_LINEAR && n->code != LM_OP_EXPERTS && n->code != LM_OP_ROUTE && n->code != LM_OP_ATTENTION) || m == LM_NONE)
        return LM_PART_OTHER;
    return holds_attention(p, m) ? LM_PART_ATTENTION : LM_PART_MLP;
}

/* Parameters of experts that a token does not visit. */
static uint64_t unvisited(const lm_program *p)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        for (uint32_t k = 0; n->code == LM_OP_EXPERTS && k < 3; k++)
            sum += p->weights[n->weights[k]].elements / n->experts.n_experts * (n->experts.n_experts - n->experts.top_k);
    }
    return sum;
}

void lm_count_parameters(const lm_program *p, lm_parameter_counts *out)
{
    uint64_t shared = 0;

    *out = (lm_parameter_counts){ .total = lm_program_parameters(p) };
    for (uint32_t w = 0; w < p->n_weights; w++) {
        bool counted = p->weights[w].constant;
        for (uint32_t i = 0; i < p->n_nodes && !counted; i++)
            for (uint32_t k = 0; k < LM_MAX_WEIGHTS && !counted; k++)
                if (p->nodes[i].weights[k] == w) {
                    out->part[part_of(p, &p->nodes[i])] += p->weights[w].elements;
                    counted = true;
                }
    }
    const lm_node *head = head_of(p);
    if (head->weights[0] != LM_NONE && p->weights[head->weights[0]].uses > 1)
        shared = p->weights[head->weights[0]].elements;
    out->untied_total = out->total + shared;
    out->active       = out->total - unvisited(p);
}

uint64_t lm_count_layer(const lm_program *p, uint32_t layer)
{
    for (uint32_t m = 0; m < p->n_modules; m++)
        if (p->modules[m].layer == (int32_t)layer)
            return lm_module_parameters(p, m);
    return 0;
}

void lm_count_flops(const lm_program *p, lm_flop_counts *out)
{
    lm_cost c;

    *out = (lm_flop_counts){ 0 };
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        lm_node_cost(p, &p->nodes[i], &c);
        out->per_token_matmul += 2 * c.mult_adds;
        out->per_token_other += c.flops - 2 * c.mult_adds;
        if (!(p->nodes[i].code == LM_OP_ATTENTION && p->nodes[i].attention.spec.window))
            out->per_context_token += 2 * c.key_mult_adds;
        if (&p->nodes[i] == head_of(p))
            out->head = 2 * c.mult_adds;
    }
}

uint64_t lm_flops_at(const lm_program *p, uint64_t context)
{
    uint64_t sum = 0;
    lm_cost  c;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n    = &p->nodes[i];
        uint64_t       keys = context;
        lm_node_cost(p, n, &c);
        if (n->code == LM_OP_ATTENTION && n->attention.spec.window && keys > n->attention.spec.window)
            keys = n->attention.spec.window;
        sum += 2 * c.mult_adds + 2 * c.key_mult_adds * keys;
    }
    return sum;
}

/* Keys seen by all of T causal tokens together. */
static uint64_t keys_seen(uint64_t t, uint64_t window)
{
    if (!window || t <= window)
        return t * (t + 1) / 2;
    return window * (window + 1) / 2 + (t - window) * window;
}

uint64_t lm_flops_prefill(const lm_program *p, uint64_t tokens)
{
    uint64_t sum = 0;
    lm_cost  c;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        lm_node_cost(p, n, &c);
        sum += 2 * c.mult_adds * (n == head_of(p) ? 1 : tokens);
        if (n->code == LM_OP_ATTENTION)
            sum += 2 * c.key_mult_adds * keys_seen(tokens, n->attention.spec.window);
    }
    return sum;
}

void lm_count_kv(const lm_program *p, lm_dtype type, uint64_t context, uint64_t batch, lm_kv_counts *out)
{
    const lm_dtype_info *t = lm_dtype_of(type);

    *out = (lm_kv_counts){ 0 };
    for (uint32_t i = 0; i < p->n_caches; i++) {
        const lm_cache *c        = &p->caches[i];
        uint64_t        elements = (uint64_t)c->n_kv_heads * (c->k_dim + c->v_dim);
        uint64_t        keys     = c->window && context > c->window ? c->window : context;
        uint64_t        bytes    = elements * t->bytes / t->block;
        out->elements_per_token += elements;
        out->bytes_per_token += bytes;
        out->bytes_at_context += bytes * keys * batch;
        if (c->window > out->window)
            out->window = c->window;
    }
    for (uint32_t i = 0; i < p->n_caches; i++)
        if (!p->caches[i].window)
            out->window = 0;
}
