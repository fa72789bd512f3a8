/* filetype.c - choose types as llama-quantize does. */
#include "formats/filetype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

/* The ids of llama.cpp's enum llama_ftype. */
enum {
    F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q8_0 = 7, Q5_0 = 8, Q5_1 = 9, Q2_K = 10, Q3_K_S = 11, Q3_K_M = 12, Q3_K_L = 13,
    Q4_K_S = 14, Q4_K_M = 15, Q5_K_S = 16, Q5_K_M = 17, Q6_K = 18, IQ4_NL = 25, IQ4_XS = 30, BF16 = 32,
    MXFP4_MOE = 38,
};

static const lm_file_type types[] = {
    { "f32", F32, LM_F32 },          { "f16", F16, LM_F16 },          { "bf16", BF16, LM_BF16 },       { "q8_0", Q8_0, LM_Q8_0 },
    { "q6_k", Q6_K, LM_Q6_K },       { "q5_k_m", Q5_K_M, LM_Q5_K },   { "q5_k_s", Q5_K_S, LM_Q5_K },   { "q5_1", Q5_1, LM_Q5_1 },
    { "q5_0", Q5_0, LM_Q5_0 },       { "q4_k_m", Q4_K_M, LM_Q4_K },   { "q4_k_s", Q4_K_S, LM_Q4_K },   { "q4_1", Q4_1, LM_Q4_1 },
    { "q4_0", Q4_0, LM_Q4_0 },       { "iq4_nl", IQ4_NL, LM_IQ4_NL }, { "iq4_xs", IQ4_XS, LM_IQ4_XS }, { "mxfp4_moe", MXFP4_MOE, LM_MXFP4 },
    { "q3_k_l", Q3_K_L, LM_Q3_K },   { "q3_k_m", Q3_K_M, LM_Q3_K },   { "q3_k_s", Q3_K_S, LM_Q3_K },   { "q2_k", Q2_K, LM_Q2_K },
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
                                   : lm_fail(e, LM_USAGE, "type", LM_NO_OFFSET, "\"%s\" is not one of %s", name, list.data);
    lm_text_free(&list);
    return status;
}

lm_status lm_file_type_named(const char *name, const lm_file_type **out, lm_error *e)
{
    for (size_t i = 0; lm_file_type_at(i); i++) {
        size_t      n    = strlen(name);
        const char *rest = strncasecmp(types[i].name, name, n) == 0 ? types[i].name + n : NULL;
        if (n && rest && (!*rest || strcmp(rest, "_m") == 0 || strcmp(rest, "_moe") == 0)) {
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
        "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid", "altup", "laurel", "per_layer_model_proj", "ssm_conv1d",
        "shortconv.conv.weight", "indexer.k_proj.weight", "indexer.q_proj.weight", "attn_rel_b.weight", ".position_embd", ".rel_pos",
        ".patch_embd", ".patch_merger", "time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight",
        "time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight", "time_mix_a0.weight", "time_mix_a1.weight",
        "time_mix_a2.weight", "time_mix_g1.weight", "time_mix_g2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight",
        "time_mix_lerp_fused.weight",
    };

    if (n_dims < 2 || !lm_view_ends(lm_view_of(name), LM_VIEW("weight")) || strcmp(name, "position_embd.weight") == 0 ||
        strcmp(name, "token_types.weight") == 0)
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

static lm_dtype head_type(const lm_type_chooser *c, uint64_t cols)
{
    if (c->type->id == MXFP4_MOE || c->coarse || cols % lm_dtype_of(c->type->base)->block)
        return LM_Q8_0;
    return c->type->base == LM_Q8_0 ? LM_Q8_0 : LM_Q6_K;
}

static lm_dtype value_type(lm_type_chooser *c, lm_dtype t)
{
    uint32_t id = c->type->id, i = c->i_value++;
    bool     grouped = c->n_kv_heads && c->n_heads / c->n_kv_heads >= 4;

    if (id == Q2_K)
        t = grouped ? LM_Q4_K : LM_Q3_K;
    else if (id == Q3_K_M)
        t = i < 2 ? LM_Q5_K : LM_Q4_K;
    else if (id == Q3_K_L || ((id == IQ4_NL || id == IQ4_XS) && grouped))
        t = LM_Q5_K;
    else if ((id == Q4_K_M || id == Q5_K_M) && more_bits(i, c->n_values))
        t = LM_Q6_K;
    else if (id == Q4_K_S && i < 4)
        t = LM_Q5_K;
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

static lm_dtype down_type(lm_type_chooser *c, const char *name, lm_dtype t)
{
    uint32_t n = c->n_layers, layer = c->i_down++;

    if (c->n_experts > 1 && strncmp(name, "blk.", 4) == 0)
        layer = (uint32_t)strtoul(name + 4, NULL, 10);
    bool early = layer < n / 16, first = layer < n / 8, more = more_bits(layer, n);
    switch (c->type->id) {
    case Q2_K:   return LM_Q3_K;
    case Q3_K_M: return early ? LM_Q5_K : !c->coarse || more ? LM_Q4_K : LM_Q3_K;
    case Q3_K_L: return c->coarse ? LM_Q4_K : LM_Q5_K;
    case Q4_K_M: return down_q4_k_m(c, layer, t);
    case Q5_K_M: return more ? LM_Q6_K : t;
    case Q4_K_S: return first && !c->coarse ? LM_Q5_K : t;
    case IQ4_NL:
    case IQ4_XS: return first && !c->importance ? LM_Q5_K : t;
    case Q4_0:   return first && c->importance ? LM_Q4_1 : t;
    case Q5_0:   return first && c->importance ? LM_Q5_1 : t;
    default:     return t;
    }
}

static lm_dtype output_type(const lm_type_chooser *c, lm_dtype t)
{
    uint32_t id = c->type->id;

    if (c->coarse)
        return id == Q3_K_L ? LM_Q4_K : t;
    if (c->n_experts == 8)
        return id == Q2_K || id == Q3_K_S || id == Q3_K_M || id == Q4_K_S || id == Q4_K_M || id == IQ4_NL || id == IQ4_XS ? LM_Q5_K : t;
    return id == Q2_K ? LM_Q3_K : id == Q3_K_M ? LM_Q4_K : id == Q3_K_L ? LM_Q5_K : t;
}

/* Choose the type that the mixture gives a tensor. */
static lm_dtype mixed(lm_type_chooser *c, const char *name, uint32_t n_dims, const uint64_t *dims)
{
    lm_dtype t = c->type->base;

    if (strcmp(name, "output.weight") == 0 ||
        (c->tied && (strcmp(name, "token_embd.weight") == 0 || strcmp(name, "per_layer_token_embd.weight") == 0)))
        return head_type(c, dims[n_dims - 1]);
    if (c->type->id == MXFP4_MOE)
        return n_dims == 3 && dims[0] > 1 ? LM_MXFP4 : LM_Q8_0;
    if (strcmp(name, "token_embd.weight") == 0)
        return t;
    if (lm_holds_values(name))
        return value_type(c, t);
    if (has(name, "attn_k.weight"))
        return c->n_experts == 8 ? LM_Q8_0 : t;
    if (has(name, "ffn_down"))
        return down_type(c, name, t);
    if (has(name, "attn_output.weight"))
        return output_type(c, t);
    return t;
}

/* Rows that are not a whole number of blocks take a type with smaller blocks. */
lm_dtype lm_fitting_type(lm_dtype t, uint64_t cols)
{
    if (cols % lm_dtype_of(t)->block == 0)
        return t;
    if (t == LM_IQ4_XS)
        t = LM_IQ4_NL;
    else if (t == LM_Q2_K || t == LM_Q3_K)
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
    lm_dtype wanted = c->pure ? c->type->base : mixed(c, gguf, n_dims, dims), fits = lm_fitting_type(wanted, dims[n_dims - 1]);
    c->replaced     = fits != wanted;
    return fits;
}
