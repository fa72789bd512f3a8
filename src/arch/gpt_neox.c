/* gpt_neox.c - GPT-NeoX (arXiv 2204.06745), Pythia (2304.01373): rotary embedding on a part of each head,
 * parallel attention and MLP with separate norms. */
#include "arch/families.h"

typedef struct neox { const char *head; } neox;      /* name of the output head's module: checkpoints
                                                        differ */
LM_OWN_FITS(neox);

/* Checkpoints store q, k and v head by head; GGUF stores all of q, then k, then v. */
static lm_value neox_attention(lm_builder *b, const lm_config *c, lm_value x)
{
    uint32_t part = c->hidden / c->qkv_groups;

    lm_push(b, "attention", "%sAttention");
    lm_value qkv = lm_linear(b, "query_key_value", x, 3 * c->hidden, c->bias_qkv);
    lm_value q   = lm_rope(b, lm_columns(b, "q", qkv, c->qkv_groups, 0, part), c->n_heads, &c->rope);
    lm_value k   = lm_rope(b, lm_columns(b, "k", qkv, c->qkv_groups, part, part), c->n_heads, &c->rope);
    lm_value v   = lm_columns(b, "v", qkv, c->qkv_groups, 2 * part, part);
    lm_value o   = lm_linear(b, "dense", lm_attention(b, q, k, v, &c->attention), c->hidden, c->bias_qkv);
    lm_pop(b);
    return o;
}

static lm_value neox_mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "mlp", "%sMLP");
    lm_value y = lm_activate(b, lm_linear(b, "dense_h_to_4h", x, c->intermediate, true), c->act);
    y          = lm_linear(b, "dense_4h_to_h", y, c->hidden, true);
    lm_pop(b);
    return y;
}

static lm_value neox_layer(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_value h = lm_layer_norm(b, "input_layernorm", x, c->norm_eps, true);
    lm_value y = lm_add(b, x, neox_attention(b, c, h));
    h          = lm_layer_norm(b, "post_attention_layernorm", c->parallel ? x : y, c->norm_eps, true);
    return lm_add(b, y, neox_mlp(b, c, h));
}

static lm_value neox_build(lm_builder *b, const lm_config *c)
{
    const neox *own = lm_own(c);

    lm_push(b, "gpt_neox", "%sModel");
    lm_value x = lm_embedding(b, "embed_in", c->vocab_size, c->hidden);
    lm_push(b, "layers", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sLayer");
        x = neox_layer(b, c, x);
        lm_pop(b);
    }
    lm_pop(b);
    x = lm_layer_norm(b, "final_layer_norm", x, c->norm_eps, true);
    lm_pop(b);
    return lm_head(b, own->head, x, c->vocab_size, c->tied ? "gpt_neox.embed_in" : NULL);
}

static lm_status neox_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    neox    *own = lm_family_config_mut(c);
    float    base;
    uint32_t lanes;

    LM_TRY(lm_read_layer_norm_sizes(s, "layer_norm_eps", c, e));
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_GELU, c, e));
    LM_TRY(lm_read_bool(s, "use_parallel_residual", "use_parallel_residual", true, &c->parallel, e));
    LM_TRY(lm_read_bool(s, "attention_bias", NULL,
                        s->kind != LM_GGUF || lm_has_tensor(s, "blk.0.attn_qkv.bias"), &c->bias_qkv, e));
    LM_TRY(lm_read_f32(s, "rotary_emb_base", NULL, 1e-3, 1e30, 10000, &base, e));
    LM_TRY(lm_read_rotary_lanes(s, "rotary_pct", 0.25, c, &lanes, e));
    LM_TRY(lm_read_rope(s, lanes, (double)base, c, e));
    if (c->n_kv_heads != c->n_heads || c->head_dim * c->n_heads != c->hidden)
        return lm_no_form(s, "num_key_value_heads", "every head has its own keys and values in this family",
                          e);
    c->qkv_groups    = s->kind == LM_GGUF ? 1 : c->n_heads;
    c->qkv_groups_hf = c->n_heads;
    c->attention  = lm_plain_attention(c);
    own->head     = lm_has_tensor(s, "lm_head.weight") ? "lm_head" : "embed_out";
    return LM_OK;
}

static const lm_name neox_names[] = {
    { "gpt_neox.embed_in", "token_embd" },
    { "gpt_neox.layers.*.input_layernorm", "blk.*.attn_norm" },
    { "gpt_neox.layers.*.attention.query_key_value", "blk.*.attn_qkv" },
    { "gpt_neox.layers.*.attention.dense", "blk.*.attn_output" },
    { "gpt_neox.layers.*.post_attention_layernorm", "blk.*.ffn_norm" },
    { "gpt_neox.layers.*.mlp.dense_h_to_4h", "blk.*.ffn_up" },
    { "gpt_neox.layers.*.mlp.dense_4h_to_h", "blk.*.ffn_down" },
    { "gpt_neox.final_layer_norm", "output_norm" },
    { "embed_out", "output" },
    { NULL, NULL },
};

const lm_family lm_family_gpt_neox = {
    .name         = "gpt_neox",
    .class_prefix = "GPTNeoX",
    .hf_types     = (const char *const[]){ "gpt_neox", NULL },
    .gguf_archs   = (const char *const[]){ "gptneox", NULL },
    .act_name     = "act",
    .configure    = neox_configure,
    .build        = neox_build,
    .names        = neox_names,
    .keys         = (const char *const[]){ "hidden_act", "layer_norm_eps", "use_parallel_residual", "attention_bias", "rotary_pct",
                                           "rotary_emb_base", "partial_rotary_factor", "classifier_dropout",
                                           NULL },
    .ignorable    = (const char *const[]){ "*.attention.bias", "*.attention.masked_bias",
                                           "*.rotary_emb.inv_freq", NULL },
};
