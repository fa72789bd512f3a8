/* facts_tuning.c - the memory that fine-tuning takes: all weights, LoRA (arXiv 2106.09685), QLoRA (arXiv
 * 2305.14314).
 *
 * Mixed precision with AdamW: weights and gradients of 2 bytes, an f32 master copy and two f32 moments of the
 * trained parameters. Activations: the outputs of the operations, 2 bytes each, stored for the backward pass;
 * scores are recomputed (FlashAttention). With checkpoints only the input of each layer is stored, and one
 * layer is recomputed at a time. */
#include <string.h>

#include "study/facts/fact.h"
#include "study/facts/ledger.h"

enum { WEIGHT = 2, GRADIENT = 2, MASTER = 4, MOMENTS = 8, VALUE = 2, LOSS = 4 };

#define NF4_BITS 4.127           /* 4, plus 0.127 for doubly quantised scales: arXiv 2305.14314, section 3 */

/* ---- activations ---- */

static uint64_t made_by(const lm_program *p, uint32_t first, uint32_t end)
{
    uint64_t n = 0;

    for (uint32_t i = first; i < end; i++)
        n += p->values[p->nodes[i].out].width;
    return n;
}

static lm_wide activations(const lm_facts *f, uint64_t tokens, bool checkpoints)
{
    const lm_program *p    = f->s.program;
    uint64_t          kept = 0, max = 0;
    lm_wide           loss = (lm_wide)p->n_vocab * LOSS * tokens;

    if (!checkpoints)
        return (lm_wide)made_by(p, 0, p->n_nodes) * VALUE * tokens + loss;
    for (uint32_t i = 0; i < p->n_layers; i++) {
        const lm_module *m    = &p->modules[f->ledger->layer[i]];
        uint64_t         made = made_by(p, m->first_op, m->end_op);
        kept += p->values[m->in].width;
        max = made > max ? made : max;
    }
    return (lm_wide)(kept + max) * VALUE * tokens + loss;
}

static void add_sum(lm_fact *g, lm_facts *f, uint64_t weights, uint64_t trained, uint64_t tokens)
{
    uint64_t states = weights + trained * (GRADIENT + MASTER + MOMENTS);
    lm_wide  all    = activations(f, tokens, false), few = activations(f, tokens, true);

    lm_add_count(g, "trainable", trained, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM, NULL);
    lm_add_count(g, "weights", weights, LM_UNIT_BYTES, LM_FROM_RULE, "as they are held while training");
    lm_add_count(g, "gradients", trained * GRADIENT, LM_UNIT_BYTES, LM_FROM_RULE,
                 "2 bytes for each trained parameter");
    lm_add_count(g, "optimizer", trained * (MASTER + MOMENTS), LM_UNIT_BYTES, LM_FROM_RULE,
                 "f32 master copy and AdamW's two f32 moments");
    lm_add_wide(g, "activations", all, LM_UNIT_BYTES, LM_FROM_RULE,
                "2 bytes for every value made, logits 4; scores made again");
    lm_add_wide(g, "activations_checkpointed", few, LM_UNIT_BYTES, LM_FROM_RULE,
                "inputs of the layers, one layer, logits");
    lm_add_wide(g, "vram", states + all, LM_UNIT_BYTES, LM_FROM_RULE, "sum of the above without checkpoints");
    lm_add_wide(g, "vram_checkpointed", states + few, LM_UNIT_BYTES, LM_FROM_RULE,
                "sum of the above with checkpoints");
}

/* ---- adapters ---- */

/* Return whether adapters are attached to a product or to experts; if several operations read the matrix, to
 * the first one. */
static bool is_adapted(const lm_facts *f, uint32_t i)
{
    const lm_node *x = &f->s.program->nodes[i];

    if (x->code == LM_OP_LINEAR && f->ledger->reader[x->weights[0]] != i)
        return false;
    return (x->code == LM_OP_LINEAR || x->code == LM_OP_EXPERTS) &&
           !(f->ledger->roles[i] & LM_PRODUCT_ROUTER) && !lm_only_chooses(f->s.program, x->out, false);
}

/* Return rank × (in + out) of an operation for matrices of `role`; 0: for all its matrices. Latent attention
 * makes keys and values by one matrix, of which two operations read a part each: the first counts the
 * whole. */
static uint64_t adapters_of(const lm_facts *f, uint32_t i, uint64_t rank, uint16_t role)
{
    static const uint16_t of_experts[3] = { LM_PRODUCT_GATE, LM_PRODUCT_UP, LM_PRODUCT_DOWN };
    const lm_program     *p = f->s.program;
    const lm_node        *x = &p->nodes[i];
    lm_linear_form        whole;
    uint64_t              n = 0;

    if (x->code == LM_OP_HEAD_LINEAR) {
        bool counts = (!role || (role & (LM_PRODUCT_KEY | LM_PRODUCT_VALUE))) &&
                      lm_module_op(p, x->module, 0) == i;
        return counts && lm_module_linear(p, x->module, &whole) ? rank * (whole.in + whole.out) : 0;
    }
    if (!is_adapted(f, i))
        return 0;
    /* gates of attention and of states are no targets of that name */
    if ((role & (LM_PRODUCT_GATE | LM_PRODUCT_UP | LM_PRODUCT_DOWN)) && f->ledger->part[i] != LM_PART_MLP)
        return 0;
    bool experts = x->code == LM_OP_EXPERTS;
    for (uint32_t k = experts && !lm_experts_have_gate(x); k < (experts ? 3u : 1u); k++) {
        const lm_weight *w   = &p->weights[x->weights[k]];
        uint16_t         own = x->code == LM_OP_EXPERTS ? of_experts[k] : f->ledger->roles[i];
        if (!role || (own & role))
            n += rank * (w->n_dims == 3 ? w->dims[0] * (w->dims[1] + w->dims[2]) : w->dims[0] + w->dims[1]);
    }
    return n;
}

static uint64_t adapter_parameters(const lm_facts *f, uint64_t rank, uint16_t role)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < f->s.program->n_nodes; i++)
        n += f->s.program->nodes[i].layer >= 0 ? adapters_of(f, i, rank, role) : 0;
    return n;
}

static void fill_targets(lm_facts *f, lm_fact *g)
{
    static const struct { const char *name; uint16_t role; } targets[] = {
        { "query", LM_PRODUCT_QUERY }, { "key", LM_PRODUCT_KEY }, { "value", LM_PRODUCT_VALUE }, { "output", LM_PRODUCT_OUTPUT },
        { "gate", LM_PRODUCT_GATE },   { "up", LM_PRODUCT_UP },   { "down", LM_PRODUCT_DOWN },
    };

    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        lm_add_count(g, targets[i].name, adapter_parameters(f, f->s.rank, targets[i].role),
                     LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                     "rank × (in + out) in every layer; a fused product counts for each of its roles");
}

/* Matrices of the decoder layers: what QLoRA quantises. */
static uint64_t stack_matrices(const lm_facts *f)
{
    uint64_t n = 0;

    for (uint32_t w = 0; w < f->s.program->n_weights; w++) {
        uint32_t i = f->ledger->reader[w];
        if (i != LM_NONE && f->s.program->weights[w].kind != LM_VECTOR && f->s.program->nodes[i].layer >= 0)
            n += f->s.program->weights[w].elements;
    }
    return n;
}

/* ---- full fine-tuning, LoRA, QLoRA ---- */

static void fill_full(lm_facts *f, lm_fact *g)
{
    uint64_t n = lm_program_parameters(f->s.program);

    add_sum(g, f, n * WEIGHT, n, g->impl.argument);
}

static void fill_lora(lm_facts *f, lm_fact *g)
{
    uint64_t n = lm_program_parameters(f->s.program), adapters = adapter_parameters(f, f->s.rank, 0);

    add_sum(g, f, (n + adapters) * WEIGHT, adapters, g->impl.argument);
    lm_add_number(g, "trainable_share", 100.0 * (double)adapters / (double)n, LM_UNIT_PERCENT,
                  LM_FROM_PROGRAM, "of the parameters");
    lm_add_group(g, "targets", fill_targets, 0);
}

static void fill_qlora(lm_facts *f, lm_fact *g)
{
    uint64_t n = lm_program_parameters(f->s.program), inner = stack_matrices(f),
             adapters = adapter_parameters(f, f->s.rank, 0);
    uint64_t held = (uint64_t)((double)inner * NF4_BITS / 8) + (n - inner + adapters) * WEIGHT;

    add_sum(g, f, held, adapters, g->impl.argument);
    lm_add_count(g, "quantised", inner, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                 "matrices of the layers, in 4.127 bits (NF4, doubly quantised)");
}

static void add_ways(lm_facts *f, lm_fact *g, uint64_t tokens)
{
    lm_add_count(g, "tokens", tokens, LM_UNIT_TOKENS, LM_FROM_RULE, "in a batch, all sequences together");
    lm_add_count(g, "rank", f->s.rank, LM_UNIT_NONE, LM_FROM_REQUEST, "of the adapters");
    lm_add_group(g, "full", fill_full, tokens);
    lm_add_group(g, "lora", fill_lora, tokens);
    lm_add_group(g, "qlora", fill_qlora, tokens);
}

static void fill_tuning_at(lm_facts *f, lm_fact *g)
{
    add_ways(f, g, g->index);
}

void lm_fill_tuning(lm_facts *f, lm_fact *g)
{
    add_ways(f, g, 2048);
    lm_add_table(g, "at", fill_tuning_at, 0);
}
