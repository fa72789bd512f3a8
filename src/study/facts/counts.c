/* counts.c - sums over a program. */
#include "study/facts/ledger.h"

#include <string.h>

#include "program/op.h"

static const char *const part_names[LM_PARTS] = {
    "embedding", "attention", "state", "mlp", "norm", "head", "other",
};

const char *lm_part_name(lm_part p)
{
    return part_names[p];
}

void lm_count_parameters(const lm_ledger *l, lm_parameter_counts *out)
{
    const lm_program *p      = l->program;
    const lm_node    *head   = &p->nodes[l->head];
    uint64_t          shared = 0;

    *out = (lm_parameter_counts){ .total = lm_program_parameters(p) };
    for (uint32_t w = 0; w < p->n_weights; w++)
        if (!p->weights[w].constant && l->reader[w] != LM_NONE)
            out->part[l->part[l->reader[w]]] += p->weights[w].elements;
    if (head->weights[0] != LM_NONE && p->weights[head->weights[0]].uses > 1)
        shared = p->weights[head->weights[0]].elements;
    out->untied_total = out->total + shared;
    out->active       = lm_program_active(p);
    out->multiplied   = out->active - out->part[LM_PART_EMBEDDING] + shared;
}

uint32_t lm_acting_window(const lm_program *p, uint32_t window)
{
    return p->context_length && window >= p->context_length ? 0 : window;
}

void lm_count_flops(const lm_program *p, lm_flop_counts *out)
{
    uint32_t head = lm_program_head(p);
    lm_cost  c;

    *out = (lm_flop_counts){ 0 };
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        lm_node_cost(p, &p->nodes[i], &c);
        out->per_token_matmul += 2 * c.mult_adds;
        out->per_token_other += c.flops - 2 * c.mult_adds;
        out->per_context_token += 2 * c.key_mult_adds;
        uint32_t reach = lm_acting_window(p, lm_node_reach(&p->nodes[i]));
        out->reach     = reach > out->reach ? reach : out->reach;
        if (!reach && !lm_node_rate(&p->nodes[i]))
            out->past_windows += 2 * c.key_mult_adds;
        if (i == head)
            out->head = 2 * c.mult_adds;
    }
}

lm_wide lm_flops_at(const lm_program *p, uint64_t context)
{
    lm_wide sum = 0;
    lm_cost c;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n    = &p->nodes[i];
        uint64_t       keys = context;
        lm_node_cost(p, n, &c);
        keys = lm_node_keys_at(n, keys);
        sum += 2 * ((lm_wide)c.mult_adds + (lm_wide)c.key_mult_adds * keys);
    }
    return sum;
}

uint32_t lm_count_sharing(const lm_program *p, uint32_t *last_own)
{
    uint32_t n = 0;

    *last_own = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        bool shares = p->nodes[i].code == LM_OP_ATTENTION && p->nodes[i].attention.stored;
        n += shares;
        if (!shares && (p->nodes[i].code == LM_OP_ATTENTION || lm_op_of(p->nodes[i].code)->state))
            *last_own = i;
    }
    return n;
}

lm_wide lm_flops_prefill(const lm_program *p, uint64_t tokens)
{
    uint32_t head = lm_program_head(p), last_own;
    bool     shares = lm_count_sharing(p, &last_own) > 0;
    lm_wide  sum    = 0;
    lm_cost  c;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        uint64_t       rows = i == head || (shares && i > last_own) ? 1 : tokens;
        lm_node_cost(p, n, &c);
        sum += 2 * (lm_wide)c.mult_adds * rows;
        sum += 2 * (lm_wide)c.key_mult_adds *
               (lm_node_keys_seen(n, tokens) - lm_node_keys_seen(n, tokens - rows));
    }
    return sum;
}

void lm_count_kv(const lm_program *p, lm_cache_types types, uint64_t context, uint64_t batch,
                 lm_kv_counts *out)
{
    *out = (lm_kv_counts){ 0 };
    for (uint32_t i = 0; i < p->n_caches; i++) {
        const lm_cache *c        = &p->caches[i];
        uint64_t        elements = lm_cache_elements(c), bytes = lm_cache_bytes(c, types);
        uint64_t        keys = lm_cache_held(c, context), every = c->rate ? keys : context;
        out->elements_per_token += c->rate ? elements / c->rate : elements;
        out->bytes_per_token +=
            c->rate ? lm_elements_bytes(elements / c->rate, lm_cache_key_type(c, types)) : bytes;
        out->bytes_at_context += (lm_wide)bytes * keys * batch;
        out->bytes_without_window += (lm_wide)bytes * every * batch;
        if (c->layer == p->caches[0].layer) {
            out->first_layer += (lm_wide)bytes * keys * batch;
            out->first_layer_without_window += (lm_wide)bytes * every * batch;
        }
        uint32_t window = lm_acting_window(p, c->window);
        out->window     = window > out->window ? window : out->window;
        out->n_windows += window != 0;
    }
}

uint64_t lm_count_state_floats(const lm_program *p)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < p->n_states; i++)
        n += p->states[i].floats;
    return n;
}
