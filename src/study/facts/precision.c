/* precision.c - the same weights in other types.
 *
 * The types inside GGUF files are decided by the code that writes files (formats/filetype.h); here they are
 * only used. */
#include "study/facts/precision.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "arch/config.h"
#include "arch/typemix.h"
#include "formats/filetype.h"

#define FILE_TYPE(name, type, rule) { name, rule " (GGUF)", LM_FROM_WHAT_IF, type, 0, name, false }

static const lm_precision table[] = {
    { "f32", "every weight in 4 bytes", LM_FROM_WHAT_IF, LM_F32, 0, NULL, true },
    { "f16", "every weight in 2 bytes", LM_FROM_WHAT_IF, LM_F16, 0, NULL, true },
    { "bf16", "every weight in 2 bytes", LM_FROM_WHAT_IF, LM_BF16, 0, NULL, true },
    { "int8", "every weight in 8 bits, scales not counted", LM_FROM_RULE, LM_Q8_0, 8, "q8_0", true },
    { "int4", "every weight in 4 bits, scales not counted", LM_FROM_RULE, LM_Q4_0, 4, "q4_0", true },
    { "Q8_0", "matrices q8_0, vectors f32 (GGUF)", LM_FROM_WHAT_IF, LM_Q8_0, 0, "q8_0", true },
    { "Q6_K", "matrices q6_k, vectors f32 (GGUF)", LM_FROM_WHAT_IF, LM_Q6_K, 0, "q6_k", true },
    { "Q5_K_M", "llama.cpp's mixture of q5_k and q6_k, vectors f32 (GGUF)", LM_FROM_WHAT_IF, LM_Q5_K, 0, "q5_k_m", true },
    { "Q4_K_M", "llama.cpp's mixture of q4_k and q6_k, vectors f32 (GGUF)", LM_FROM_WHAT_IF, LM_Q4_K, 0, "q4_k_m", true },
    { "Q4_0", "matrices q4_0, head q6_k, vectors f32 (GGUF)", LM_FROM_WHAT_IF, LM_Q4_0, 0, "q4_0", true },
    { "IQ4_XS", "matrices iq4_xs, head q6_k, vectors f32 (GGUF)", LM_FROM_WHAT_IF, LM_IQ4_XS, 0, "iq4_xs", true },
    { "MXFP4", "experts mxfp4, every other weight, and rows that are not whole blocks, in 2 bytes", LM_FROM_WHAT_IF, LM_MXFP4, 0, NULL, false },
    FILE_TYPE("Q5_K_S", LM_Q5_K, "matrices q5_k, head q6_k, vectors f32"),
    FILE_TYPE("Q5_1", LM_Q5_1, "matrices q5_1, head q6_k, vectors f32"),
    FILE_TYPE("Q5_0", LM_Q5_0, "matrices q5_0, head q6_k, vectors f32"),
    FILE_TYPE("Q4_K_S", LM_Q4_K, "llama.cpp's mixture of q4_k and q5_k, vectors f32"),
    FILE_TYPE("Q4_1", LM_Q4_1, "matrices q4_1, head q6_k, vectors f32"),
    FILE_TYPE("IQ4_NL", LM_IQ4_NL, "matrices iq4_nl, head q6_k, vectors f32"),
    FILE_TYPE("MXFP4_MOE", LM_MXFP4, "experts mxfp4, other matrices q8_0, vectors f32"),
    FILE_TYPE("Q3_K_L", LM_Q3_K, "llama.cpp's mixture of q3_k and q5_k, vectors f32"),
    FILE_TYPE("Q3_K_M", LM_Q3_K, "llama.cpp's mixture of q3_k, q4_k and q5_k, vectors f32"),
    FILE_TYPE("Q3_K_S", LM_Q3_K, "matrices q3_k, head q6_k, vectors f32"),
    FILE_TYPE("Q2_K", LM_Q2_K, "llama.cpp's mixture of q2_k, q3_k and q4_k, vectors f32"),
    FILE_TYPE("Q2_K_S", LM_Q2_K, "llama.cpp's mixture of q2_k and q4_k, vectors f32"),
    FILE_TYPE("IQ3_M", LM_IQ3_S, "llama.cpp's mixture of iq3_s and q4_k, vectors f32"),
    FILE_TYPE("IQ3_S", LM_IQ3_S, "matrices iq3_s, head q6_k, vectors f32"),
    FILE_TYPE("IQ3_XS", LM_IQ3_S, "llama.cpp's mixture of iq3_xxs and iq3_s, vectors f32"),
    FILE_TYPE("IQ3_XXS", LM_IQ3_XXS, "llama.cpp's mixture of iq3_xxs, iq2_s and iq3_s, vectors f32"),
    FILE_TYPE("IQ2_M", LM_IQ2_S, "llama.cpp's mixture of iq2_s and iq3_s, vectors f32"),
    FILE_TYPE("IQ2_S", LM_IQ2_XS, "llama.cpp's mixture of iq2_xs and iq3_s, vectors f32"),
    FILE_TYPE("IQ2_XS", LM_IQ2_XS, "llama.cpp's mixture of iq2_xs and q2_k, vectors f32"),
    FILE_TYPE("IQ2_XXS", LM_IQ2_XXS, "llama.cpp's mixture of iq2_xxs and q2_k, vectors f32"),
    FILE_TYPE("IQ1_M", LM_IQ1_M, "llama.cpp's mixture of iq1_m, iq2_xxs and q2_k, vectors f32"),
    FILE_TYPE("IQ1_S", LM_IQ1_S, "llama.cpp's mixture of iq1_s, iq2_xxs and q2_k, vectors f32"),
    FILE_TYPE("TQ2_0", LM_TQ2_0, "matrices tq2_0, head q6_k, embedding q4_k, vectors f32"),
    FILE_TYPE("TQ1_0", LM_TQ1_0, "matrices tq1_0, head q6_k, embedding q4_k, vectors f32"),
};

_Static_assert(sizeof table / sizeof *table < LM_MAX_PRECISIONS, "types_as has a place for each");

const lm_precision *lm_precision_at(size_t i)
{
    return i < sizeof table / sizeof *table ? &table[i] : NULL;
}

bool lm_has_coded_experts(const lm_program *p)
{
    for (uint32_t w = 0; w < p->n_weights; w++)
        if (p->weights[w].interleaved.codes)
            return true;
    return false;
}

const char *lm_precision_published(const lm_program *p)
{
    return lm_has_coded_experts(p) ? "MXFP4" : "f16";
}

bool lm_precision_shown(const lm_precision *x, const lm_program *p)
{
    return x->usual || (x->matrices == LM_MXFP4 && !x->file && lm_has_coded_experts(p));
}

const lm_precision *lm_precision_named(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcasecmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* ---- inputs of the type choice ---- */

static const lm_node *first_attention(const lm_program *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_ATTENTION)
            return &p->nodes[i];
    return NULL;
}

static const lm_family *family_named(const char *name)
{
    const lm_family *f;

    for (size_t i = 0; (f = lm_family_at(i)) != NULL && strcmp(f->name, name) != 0; i++)
        ;
    return f;
}

/* Return the architecture name of the family in GGUF files; "": GGUF has no form for it. */
static const char *gguf_arch(const char *family)
{
    const lm_family *f = family_named(family);

    return !f ? "" : f->gguf_as ? f->gguf_as : f->gguf_archs[0] ? f->gguf_archs[0] : "";
}

/* Return the GGUF name of a weight; if GGUF has no form for its family, the name that other families give a
 * weight of its kind. */
static const char *gguf_name(const lm_ledger *l, uint32_t weight, char out[64])
{
    const lm_weight *w    = &l->program->weights[weight];
    uint32_t         i    = l->reader[weight];
    const lm_node   *n    = &l->program->nodes[i];
    uint16_t         role = l->roles[i];
    bool             down = (role & LM_PRODUCT_DOWN) || (n->code == LM_OP_EXPERTS && n->weights[2] == weight);
    const char      *kind = "other";

    if (w->gguf)
        return w->gguf;
    if (n->code == LM_OP_POSITION)
        return "position_embd.weight";
    if (n->code == LM_OP_EMBED)
        return "token_embd.weight";
    if (role & LM_PRODUCT_HEAD)
        return "output.weight";
    if ((role & LM_PRODUCT_QUERY) && (role & LM_PRODUCT_VALUE))
        kind = "attn_qkv";
    else if (role & LM_PRODUCT_VALUE)
        kind = "attn_v";
    else if (role & LM_PRODUCT_KEY)
        kind = "attn_k";
    else if (role & LM_PRODUCT_OUTPUT)
        kind = "attn_output";
    else if (role & LM_PRODUCT_ROUTER)
        kind = "ffn_gate_inp";
    else if (down)
        kind = "ffn_down";
    snprintf(out, 64, "blk.%d.%s.weight", n->layer < 0 ? 0 : n->layer, kind);
    return out;
}

static lm_type_chooser chooser_of(const lm_ledger *l, const lm_file_type *type)
{
    const lm_program        *p = l->program;
    const lm_node           *first = first_attention(p);
    const lm_attention_spec *s = first ? &first->attention.spec : NULL;
    lm_type_chooser c = { .type = type,
                          .coarse = lm_mixture_is_coarse(gguf_arch(p->family)),
                          .n_layers = p->n_layers };
    uint32_t                 head = p->nodes[l->head].weights[0];
    char                     text[64];

    c.tied       = head != LM_NONE && p->weights[head].uses > 1;
    c.n_heads    = s ? s->n_heads : 1;
    /* the latent is shared; keys and values made from it are not */
    c.n_kv_heads = s && !s->v_in_k ? s->n_kv_heads : c.n_heads;
    c.big        = lm_mixture_is_big(gguf_arch(p->family), c.n_layers, c.n_heads, c.n_kv_heads);
    const lm_family *f = family_named(p->family);
    if (first && first->layer > 0 && f && !f->lists_states)
        c.n_kv_heads = 0;            /* as lm_first_kv_heads */
    for (uint32_t i = 0; i < p->n_nodes && !c.n_experts; i++)
        c.n_experts = p->nodes[i].code == LM_OP_EXPERTS ? p->nodes[i].experts.n_experts : 0;
    for (uint32_t w = 0; w < p->n_weights; w++)
        c.n_values += l->reader[w] != LM_NONE && lm_holds_values(gguf_name(l, w, text));
    return c;
}

/* ---- types and bytes ---- */

void lm_precision_types(const lm_precision *x, const lm_ledger *l, lm_dtype *out)
{
    const lm_program   *p    = l->program;
    const lm_file_type *type = NULL;
    char                text[64];

    if (x->file && lm_file_type_named(x->file, &type, NULL) != LM_OK)
        type = NULL;
    lm_type_chooser c = type ? chooser_of(l, type) : (lm_type_chooser){ 0 };
    for (uint32_t w = 0; w < p->n_weights; w++) {
        if (!type)
            out[w] = x->matrices != LM_MXFP4 || p->weights[w].kind == LM_EXPERTS ? x->matrices : LM_BF16;
        else if (p->weights[w].interleaved.codes)
            out[w] = LM_MXFP4;
        else if (p->weights[w].kind == LM_VECTOR || l->reader[w] == LM_NONE)
            out[w] = LM_F32;
        else
            out[w] = lm_choose_type(&c, gguf_name(l, w, text), p->weights[w].n_dims, p->weights[w].dims);
        if (p->weights[w].dims[p->weights[w].n_dims - 1] % lm_dtype_of(out[w])->block)
            out[w] = LM_BF16;                /* rows that are not whole blocks stay in 2 bytes */
    }
}

uint64_t lm_precision_bytes(const lm_precision *x, const lm_ledger *l, uint32_t weight, lm_dtype type)
{
    const lm_weight *w   = &l->program->weights[weight];
    uint64_t         row = 0;

    if (w->constant)
        return 0;
    if (x->bits > 0)
        return (uint64_t)((double)w->elements * x->bits / 8);
    uint64_t cols = w->dims[w->n_dims - 1];
    lm_dtype_row_bytes(type, cols, &row);
    return row * (w->elements / cols);
}
