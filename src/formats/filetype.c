/* filetype.c - choose types as llama-quantize does. */
#include "formats/filetype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

/* The ids of llama.cpp's enum llama_ftype. */
enum {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q8_0 = 7,
    Q5_0 = 8,
    Q5_1 = 9,
    Q2_K = 10,
    Q3_K_S = 11,
    Q3_K_M = 12,
    Q3_K_L = 13,
    Q4_K_S = 14,
    Q4_K_M = 15,
    Q5_K_S = 16,
    Q5_K_M = 17,
    Q6_K = 18,
    IQ2_XXS = 19,
    IQ2_XS = 20,
    Q2_K_S = 21,
    IQ3_XS = 22,
    IQ3_XXS = 23,
    IQ1_S = 24,
    IQ4_NL = 25,
    IQ3_S = 26,
    IQ3_M = 27,
    IQ2_S = 28,
    IQ2_M = 29,
    IQ4_XS = 30,
    IQ1_M = 31,
    BF16 = 32,
    TQ1_0 = 36,
    TQ2_0 = 37,
    MXFP4_MOE = 38,
};

static const lm_file_type types[] = {
    { "f32", F32, LM_F32 },          { "f16", F16, LM_F16 },          { "bf16", BF16, LM_BF16 },       { "q8_0", Q8_0, LM_Q8_0 },
    { "q6_k", Q6_K, LM_Q6_K },       { "q5_k_m", Q5_K_M, LM_Q5_K },   { "q5_k_s", Q5_K_S, LM_Q5_K },   { "q5_1", Q5_1, LM_Q5_1 },
    { "q5_0", Q5_0, LM_Q5_0 },       { "q4_k_m", Q4_K_M, LM_Q4_K },   { "q4_k_s", Q4_K_S, LM_Q4_K },   { "q4_1", Q4_1, LM_Q4_1 },
    { "q4_0", Q4_0, LM_Q4_0 },       { "iq4_nl", IQ4_NL, LM_IQ4_NL }, { "iq4_xs", IQ4_XS, LM_IQ4_XS }, { "mxfp4_moe", MXFP4_MOE, LM_MXFP4 },
    { "q3_k_l", Q3_K_L, LM_Q3_K },   { "q3_k_m", Q3_K_M, LM_Q3_K },   { "q3_k_s", Q3_K_S, LM_Q3_K },   { "q2_k", Q2_K, LM_Q2_K },
    { "q2_k_s", Q2_K_S, LM_Q2_K },   { "iq3_m", IQ3_M, LM_IQ3_S },    { "iq3_s", IQ3_S, LM_IQ3_S },    { "iq3_xs", IQ3_XS, LM_IQ3_S },
    { "iq3_xxs", IQ3_XXS, LM_IQ3_XXS }, { "iq2_m", IQ2_M, LM_IQ2_S }, { "iq2_s", IQ2_S, LM_IQ2_XS },   { "iq2_xs", IQ2_XS, LM_IQ2_XS },
    { "iq2_xxs", IQ2_XXS, LM_IQ2_XXS }, { "iq1_m", IQ1_M, LM_IQ1_M }, { "iq1_s", IQ1_S, LM_IQ1_S },
    { "tq2_0", TQ2_0, LM_TQ2_0 },    { "tq1_0", TQ1_0, LM_TQ1_0 },
};

const lm_file_type *lm_file_type_at(size_t i)
{
    return i < sizeof types / sizeof *types ? &types[i] : NULL;
}

static lm_status unknown(const char *name, lm_error *e)
{
    lm_text list = { 0 };

    for (size_t i = 0; lm_file_type_at(i); i++)
        lm_text_printf(&list, "%s%s", i ? ", " : "", types[i].name);
    lm_status status = list.failed ? lm_fail_memory(e, "type", 0)
                                   : lm_fail(e, LM_USAGE, "type", LM_NO_OFFSET, "\"%s\" is not one of %s",
                                             name, list.data);
    lm_text_free(&list);
    return status;
}

lm_status lm_file_type_named(const char *name, const lm_file_type **out, lm_error *e)
{
    for (size_t i = 0; lm_file_type_at(i); i++) {
        size_t      n    = strlen(name);
        const char *rest = strncasecmp(types[i].name, name, n) == 0 ? types[i].name + n : NULL;
        if (n && rest &&
            (!*rest || (strcmp(rest, "_m") == 0 && *types[i].name == 'q') || strcmp(rest, "_moe") == 0)) {
            *out = &types[i];
            return LM_OK;
        }
    }
    return unknown(name, e);
}

/* ---- one tensor ---- */

static bool has(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

bool lm_holds_values(const char *gguf)
{
    return has(gguf, "attn_v.weight") || has(gguf, "attn_qkv.weight") || has(gguf, "attn_kv_b.weight");
}

bool lm_is_packed(const char *name, uint32_t n_dims)
{
    static const char *const kept[] = {
        "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight", "ffn_gate_tid2eid",
        "altup", "laurel", "per_layer_model_proj", "ssm_conv1d",
        "shortconv.conv.weight", "indexer.k_proj.weight", "indexer.q_proj.weight", "attn_rel_b.weight", ".position_embd", ".rel_pos",
        ".patch_embd", ".patch_merger", "time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight",
        "time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight", "time_mix_a0.weight", "time_mix_a1.weight",
        "time_mix_a2.weight", "time_mix_g1.weight", "time_mix_g2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight",
        "time_mix_lerp_fused.weight",
    };

    if (n_dims < 2 || !lm_view_ends(lm_view_of(name), LM_VIEW("weight")) ||
        strcmp(name, "position_embd.weight") == 0 || strcmp(name, "token_types.weight") == 0)
        return false;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (has(name, kept[i]))
            return false;
    return true;
}

static bool more_bits(uint32_t layer, uint32_t n)
{
    return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
}

/* The files of one and two bits have a mixture of their own. */
static bool is_low(uint32_t id)
{
    return id == IQ1_S || id == IQ1_M || id == IQ2_XXS || id == IQ2_XS || id == IQ2_S || id == IQ2_M;
}

static bool grouped(const lm_type_chooser *c)
{
    return c->n_kv_heads && c->n_heads / c->n_kv_heads >= 4;
}

static lm_dtype head_type(const lm_type_chooser *c, uint64_t cols)
{
    if (c->type->id == MXFP4_MOE || c->coarse || cols % lm_dtype_of(c->type->base)->block)
        return LM_Q8_0;
    if (is_low(c->type->id) || c->type->id == IQ3_XXS)
        return LM_Q5_K;
    return c->type->base == LM_Q8_0 ? LM_Q8_0 : LM_Q6_K;
}

static lm_dtype embedding_type(const lm_type_chooser *c, lm_dtype t)
{
    uint32_t id = c->type->id;

    if (id == TQ1_0 || id == TQ2_0)
        return LM_Q4_K;
    if (id == IQ2_S || id == IQ2_M || id == IQ3_XXS)
        return LM_IQ3_S;
    return is_low(id) ? LM_Q2_K : t;
}

static lm_dtype value_iq3(const lm_type_chooser *c, lm_dtype t)
{
    uint32_t id = c->type->id;

    if (id == IQ3_M || grouped(c))
        return LM_Q4_K;
    return id == IQ3_XXS && !c->importance ? LM_IQ3_S : t;
}

static lm_dtype value_of_mixture(const lm_type_chooser *c, uint32_t i, lm_dtype t)
{
    switch (c->type->id) {
    case Q2_K:   return grouped(c) ? LM_Q4_K : LM_Q3_K;
    case Q2_K_S: return grouped(c) ? LM_Q4_K : t;
    case IQ3_XXS:
    case IQ3_XS:
    case IQ3_S:
    case IQ3_M:  return value_iq3(c, t);
    case Q3_K_M: return i < 2 ? LM_Q5_K : LM_Q4_K;
    case Q3_K_L: return LM_Q5_K;
    case IQ4_NL:
    case IQ4_XS: return grouped(c) ? LM_Q5_K : t;
    case Q4_K_M:
    case Q5_K_M: return more_bits(i, c->n_values) ? LM_Q6_K : t;
    case Q4_K_S: return i < 4 ? LM_Q5_K : t;
    default:     return t;
    }
}

static lm_dtype value_type(lm_type_chooser *c, lm_dtype t)
{
    t = value_of_mixture(c, c->i_value++, t);
    if (c->big && (t == LM_Q3_K || t == LM_Q4_K))
        t = LM_Q5_K;                 /* few values for many queries */
    return c->n_experts == 8 ? LM_Q8_0 : t;
}

/* Choose the type of a down projection in Q4_K_M. `usual`: its type for all other layers. */
static lm_dtype down_q4_k_m(const lm_type_chooser *c, uint32_t layer, lm_dtype usual)
{
    bool more = more_bits(layer, c->n_layers);

    if (c->coarse)
        return layer < c->n_layers / 16 ? LM_Q6_K : more ? LM_Q5_K : LM_Q4_K;
    return more ? LM_Q6_K : usual;
}

/* Return the layer of a tensor: the one in its name if there are experts, else the next of its kind. */
static uint32_t layer_of(const lm_type_chooser *c, const char *name, uint32_t *count)
{
    uint32_t layer = (*count)++;

    return c->n_experts > 1 && strncmp(name, "blk.", 4) == 0 ? (uint32_t)strtoul(name + 4, NULL, 10) : layer;
}

/* Choose the type of a down projection in the first eighth of the layers, in types of four and five bits. */
static lm_dtype first_down(const lm_type_chooser *c, lm_dtype t)
{
    switch (c->type->id) {
    case IQ4_NL:
    case IQ4_XS: return c->importance ? t : LM_Q5_K;
    case Q4_0:   return c->importance ? LM_Q4_1 : t;
    case Q5_0:   return c->importance ? LM_Q5_1 : t;
    default:     return t;
    }
}

static lm_dtype down_type(lm_type_chooser *c, const char *name, lm_dtype t)
{
    uint32_t n = c->n_layers, layer = layer_of(c, name, &c->i_down);
    bool     early = layer < n / 16, first = layer < n / 8, more = more_bits(layer, n);
    lm_dtype finer = first ? LM_Q4_K : LM_Q3_K;

    switch (c->type->id) {
    case Q2_K:    return LM_Q3_K;
    case Q2_K_S:  return first ? LM_Q4_K : t;
    case IQ3_XXS: return c->importance ? t : finer;
    case IQ3_M:   return first || (c->n_experts == 8 && more) ? LM_Q4_K : t;
    case Q3_K_M:  return early ? LM_Q5_K : !c->coarse || more ? LM_Q4_K : LM_Q3_K;
    case Q3_K_L:  return c->coarse ? LM_Q4_K : LM_Q5_K;
    case Q4_K_M:  return down_q4_k_m(c, layer, t);
    case Q5_K_M:  return more ? LM_Q6_K : t;
    case Q4_K_S:  return first && !c->coarse ? LM_Q5_K : t;
    default:      return first ? first_down(c, t) : t;
    }
}

static lm_dtype output_type(const lm_type_chooser *c, lm_dtype t)
{
    uint32_t id = c->type->id;

    if (c->coarse)
        return id == Q3_K_L ? LM_Q4_K : t;
    if (c->n_experts == 8) {
        bool raised = id == Q2_K || id == Q3_K_S || id == Q3_K_M || id == Q4_K_S || id == Q4_K_M ||
                      id == IQ4_NL || id == IQ4_XS;
        return raised || id == IQ3_XXS || id == IQ3_XS || id == IQ3_S || id == IQ3_M ? LM_Q5_K : t;
    }
    switch (id) {
    case Q2_K:    return LM_Q3_K;
    case IQ3_XXS: return LM_IQ3_S;
    case Q3_K_M:
    case IQ3_M:   return LM_Q4_K;
    case Q3_K_L:  return LM_Q5_K;
    default:      return t;
    }
}

/* The two thirds of the layers in the middle of an IQ3_XS file have coarser gates. */
static lm_dtype gate_type(lm_type_chooser *c, const char *name, uint32_t *count, lm_dtype t)
{
    uint32_t layer = layer_of(c, name, count);

    return c->type->id == IQ3_XS && layer >= c->n_layers / 8 && layer < 7 * c->n_layers / 8 ? LM_IQ3_XXS : t;
}

/* Choose the type of a tensor in a file of one or two bits. */
static lm_dtype low_type(lm_type_chooser *c, const char *name, lm_dtype t)
{
    uint32_t id = c->type->id;
    lm_dtype finer = id == IQ2_S || id == IQ2_M ? LM_IQ3_S : LM_Q2_K;

    if (lm_holds_values(name))
        return grouped(c) || c->n_experts >= 4 ? LM_Q4_K : finer;
    if (has(name, "attn_k.weight"))
        return c->n_experts == 8 ? LM_Q4_K : t;
    if (has(name, "ffn_down"))
        return c->i_down++ < c->n_layers / 8 ? finer : t;
    if (!has(name, "attn_output.weight"))
        return t;
    if (c->n_experts == 8)
        return LM_Q5_K;
    return id == IQ1_S || id == IQ1_M ? LM_IQ2_XXS : finer == LM_IQ3_S ? finer : t;
}

static bool is_embedding(const char *name)
{
    return strcmp(name, "token_embd.weight") == 0 || strcmp(name, "per_layer_token_embd.weight") == 0;
}

bool lm_requires_importance(const lm_file_type *type, const char *gguf, lm_dtype t)
{
    if (is_embedding(gguf) || strcmp(gguf, "output.weight") == 0)
        return false;
    return t == LM_IQ1_S || t == LM_IQ1_M || t == LM_IQ2_XXS || t == LM_IQ2_XS || t == LM_IQ2_S ||
           t == LM_IQ3_XXS || (t == LM_Q2_K && type->id == Q2_K_S);
}

/* Choose the type that the mixture gives a tensor. */
static lm_dtype mixed(lm_type_chooser *c, const char *name, uint32_t n_dims, const uint64_t *dims)
{
    lm_dtype t = c->type->base, queries = c->type->id == IQ3_XS    ? LM_IQ3_XXS
                                          : c->type->id == IQ3_XXS ? LM_IQ2_S
                                                                   : t;

    if (strcmp(name, "output.weight") == 0 || (c->tied && is_embedding(name)))
        return head_type(c, dims[n_dims - 1]);
    if (c->type->id == MXFP4_MOE)
        return n_dims == 3 && dims[0] > 1 ? LM_MXFP4 : LM_Q8_0;
    if (is_embedding(name))
        return embedding_type(c, t);
    if (is_low(c->type->id))
        return low_type(c, name, t);
    if (lm_holds_values(name))
        return value_type(c, t);
    if (has(name, "attn_k.weight"))
        return c->n_experts == 8 ? LM_Q8_0 : queries;
    if (has(name, "attn_q.weight"))
        return queries;
    if (has(name, "attn_output.weight"))
        return output_type(c, t);
    if (has(name, "ffn_up"))
        return gate_type(c, name, &c->i_up, t);
    if (has(name, "ffn_gate"))
        return gate_type(c, name, &c->i_gate, t);
    return has(name, "ffn_down") ? down_type(c, name, t) : t;
}

/* Rows that are not a whole number of blocks take a type with smaller blocks. */
lm_dtype lm_fitting_type(lm_dtype t, uint64_t cols)
{
    if (cols % lm_dtype_of(t)->block == 0)
        return t;
    if (t == LM_IQ4_XS || t == LM_IQ3_S || t == LM_IQ3_XXS || t == LM_IQ2_S || t == LM_IQ2_XS ||
        t == LM_IQ2_XXS || t == LM_IQ1_M || t == LM_IQ1_S)
        t = LM_IQ4_NL;
    else if (t == LM_Q2_K || t == LM_Q3_K || t == LM_TQ1_0 || t == LM_TQ2_0)
        t = LM_Q4_0;
    else if (t == LM_Q4_K)
        t = LM_Q5_0;
    else if (t == LM_Q5_K)
        t = LM_Q5_1;
    else if (t == LM_Q6_K)
        t = LM_Q8_0;
    return cols % lm_dtype_of(t)->block == 0 ? t : LM_F16;
}

lm_dtype lm_choose_type(lm_type_chooser *c, const char *gguf, uint32_t n_dims, const uint64_t *dims)
{
    c->replaced = false;
    if (!lm_is_packed(gguf, n_dims))
        return LM_F32;
    if (!lm_dtype_of(c->type->base)->quantized)
        return c->type->base;
    lm_dtype wanted = c->pure ? c->type->base : mixed(c, gguf, n_dims, dims),
             fits = lm_fitting_type(wanted, dims[n_dims - 1]);
    c->replaced     = fits != wanted;
    return fits;
}
