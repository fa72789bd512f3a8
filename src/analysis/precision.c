/* precision.c - the same weights in other types.
 *
 * Mixtures follow llama.cpp's quantiser (src/llama-quant.cpp, llama_tensor_get_type): which tensors get more bits. */
#include "analysis/precision.h"

#include <strings.h>

static const lm_precision table[] = {
    { "f32", "every weight in 4 bytes", LM_FROM_WHAT_IF, LM_F32, LM_F32, 0, false },
    { "f16", "every weight in 2 bytes", LM_FROM_WHAT_IF, LM_F16, LM_F16, 0, false },
    { "bf16", "every weight in 2 bytes", LM_FROM_WHAT_IF, LM_BF16, LM_BF16, 0, false },
    { "int8", "every weight in 8 bits, scales not counted", LM_FROM_RULE, LM_Q8_0, LM_F32, 8, false },
    { "int4", "every weight in 4 bits, scales not counted", LM_FROM_RULE, LM_Q4_0, LM_F32, 4, false },
    { "Q8_0", "matrices q8_0, vectors f32 (GGUF)", LM_FROM_WHAT_IF, LM_Q8_0, LM_F32, 0, false },
    { "Q6_K", "matrices q6_k, vectors f32 (GGUF)", LM_FROM_WHAT_IF, LM_Q6_K, LM_F32, 0, false },
    { "Q5_K_M", "llama.cpp's mixture of q5_k and q6_k, vectors f32 (GGUF)", LM_FROM_WHAT_IF, LM_Q5_K, LM_F32, 0, true },
    { "Q4_K_M", "llama.cpp's mixture of q4_k and q6_k, vectors f32 (GGUF)", LM_FROM_WHAT_IF, LM_Q4_K, LM_F32, 0, true },
    { "Q4_0", "matrices q4_0, head q6_k, vectors f32 (GGUF)", LM_FROM_WHAT_IF, LM_Q4_0, LM_F32, 0, false },
    { "IQ4_XS", "matrices iq4_xs, head q6_k, vectors f32 (GGUF)", LM_FROM_WHAT_IF, LM_IQ4_XS, LM_F32, 0, false },
};

const lm_precision *lm_precision_at(size_t i)
{
    return i < sizeof table / sizeof *table ? &table[i] : NULL;
}

const lm_precision *lm_precision_named(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcasecmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* Every layer of the first and last eighth, and every third between. */
static bool gets_more_bits(uint32_t layer, uint32_t n)
{
    return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
}

static uint32_t experts_of(const lm_program *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_EXPERTS)
            return p->nodes[i].experts.n_experts;
    return 0;
}

static bool is_head(const lm_ledger *l, uint32_t weight)
{
    return l->program->nodes[l->head].weights[0] == weight;
}

static lm_dtype mixed_type(const lm_ledger *l, lm_dtype base, uint32_t weight)
{
    const lm_program *p    = l->program;
    uint32_t          i    = l->reader[weight];
    const lm_node    *n    = &p->nodes[i];
    uint16_t          role = l->roles[i];
    bool              more = n->layer >= 0 && gets_more_bits((uint32_t)n->layer, p->n_layers);
    uint32_t          experts = experts_of(p);
    bool              fused = (role & LM_ROLE_QUERY) && (role & LM_ROLE_VALUE);

    if (fused)
        return base == LM_Q4_K ? LM_Q5_K : LM_Q6_K;
    if (l->part[i] == LM_PART_ATTENTION && (role & LM_ROLE_VALUE))
        return experts == 8 ? LM_Q8_0 : more ? LM_Q6_K : base;
    if (l->part[i] == LM_PART_ATTENTION && (role & LM_ROLE_KEY))
        return experts == 8 ? LM_Q8_0 : base;
    if (l->part[i] == LM_PART_ATTENTION && (role & LM_ROLE_OUTPUT))
        return experts == 8 ? LM_Q5_K : base;
    bool down = (role & LM_ROLE_DOWN) || (n->code == LM_OP_EXPERTS && n->weights[2] == weight);
    return l->part[i] == LM_PART_MLP && down && more ? LM_Q6_K : base;
}

/* Rows that are no whole blocks of 256 get a type of blocks of 32. */
static lm_dtype fitting(lm_dtype type, uint64_t cols)
{
    if (cols % lm_dtype_of(type)->block == 0)
        return type;
    switch (type) {
    case LM_Q4_K:
    case LM_IQ4_XS:
        type = type == LM_Q4_K ? LM_Q5_0 : LM_IQ4_NL;
        break;
    case LM_Q5_K:
        type = LM_Q5_1;
        break;
    default:
        type = LM_Q8_0;
    }
    return cols % lm_dtype_of(type)->block == 0 ? type : LM_F16;
}

lm_dtype lm_precision_type(const lm_precision *x, const lm_ledger *l, uint32_t weight)
{
    const lm_weight *w = &l->program->weights[weight];
    uint32_t         i = l->reader[weight];
    bool             quantized = lm_dtype_of(x->matrices)->quantized;

    if (w->kind == LM_VECTOR || i == LM_NONE)
        return x->vectors;
    if (quantized && ((l->roles[i] & LM_ROLE_ROUTER) || l->program->nodes[i].code == LM_OP_POSITION))
        return LM_F32;                       /* kept as they are by every GGUF writer */
    lm_dtype type = x->mixture ? mixed_type(l, x->matrices, weight) : x->matrices;
    if (quantized && type != LM_Q8_0 && is_head(l, weight))
        type = LM_Q6_K;
    return fitting(type, w->dims[w->n_dims - 1]);
}

uint64_t lm_precision_bytes(const lm_precision *x, const lm_ledger *l, uint32_t weight)
{
    const lm_weight *w = &l->program->weights[weight];
    uint64_t         row = 0;

    if (w->constant)
        return 0;
    if (x->bits > 0)
        return (uint64_t)((double)w->elements * x->bits / 8);
    uint64_t cols = w->dims[w->n_dims - 1];
    lm_dtype_row_bytes(lm_precision_type(x, l, weight), cols, &row);
    return row * (w->elements / cols);
}
