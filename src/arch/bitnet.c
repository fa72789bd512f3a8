/* bitnet.c - BitNet b1.58 (arXiv 2402.17764, 2504.12285): Llama's decoder with squared ReLU in its gates and
 * a norm before o_proj and down_proj. Published models multiply rows of eight bits by matrices of -1, 0 and 1
 * (read_ternary.c); without quantization_config, matrices are what they are elsewhere.
 *
 * GGUF files of architecture bitnet are another model: its gates are SiLU and no input is rounded. */
#include "arch/families.h"

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_attention_spec scores = lm_layer_attention(c, layer);

    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    lm_rotate_heads(b, c, &c->rope, &h);
    lm_value a = lm_llama_norm(b, c, "attn_sub_norm", lm_attention(b, h.q, h.k, h.v, &scores));
    a          = lm_linear(b, "o_proj", a, c->hidden, c->bias_o);
    lm_pop(b);
    return a;
}

static lm_value mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "mlp", "%sMLP");
    lm_value gate = lm_linear(b, "gate_proj", x, c->intermediate, false);
    lm_value up   = lm_linear(b, "up_proj", x, c->intermediate, false);
    lm_value m    = lm_llama_norm(b, c, "ffn_sub_norm", lm_glu(b, gate, up, c->act));
    m             = lm_linear(b, "down_proj", m, c->hidden, false);
    lm_pop(b);
    return m;
}

static lm_value bitnet_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    x = lm_add(b, x, attention(b, c, layer, lm_llama_norm(b, c, "input_layernorm", x)));
    return lm_add(b, x, mlp(b, c, lm_llama_norm(b, c, "post_attention_layernorm", x)));
}

static lm_value bitnet_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = bitnet_layer });
}

static lm_status bitnet_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_sizes(s, c, e));
    if (c->n_heads * c->head_dim != c->hidden)
        return lm_wrong(s, "head_dim", NULL, e, "%u heads of %u are not as wide as the norm behind them, %u",
                        c->n_heads, c->head_dim, c->hidden);
    LM_TRY(lm_read_act(s, "hidden_act", LM_ACT_RELU2, c, e));
    LM_TRY(lm_read_bool(s, "attention_bias", NULL, false, &c->bias_qkv, e));
    LM_TRY(lm_read_rope(s, c->head_dim, 500000, c, e));
    c->bias_o       = c->bias_qkv;
    c->rope.pairing = LM_ROPE_HALF;
    c->attention    = lm_plain_attention(c);
    return LM_OK;
}

static const lm_name names[] = { { NULL, NULL } };

const lm_family lm_family_bitnet = {
    .name         = "bitnet",
    .class_prefix = "BitNet",
    .hf_types     = (const char *const[]){ "bitnet", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .orders       = (const lm_order[]){
        { "Attention", "q_proj k_proj v_proj o_proj *" },
        { "MLP", "gate_proj up_proj down_proj act_fn *" },
        { NULL, NULL },
    },
    .ternary      = true,
    .configure    = bitnet_configure,
    .build        = bitnet_build,
    .names        = names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 2048 }, { "rms_norm_eps", 1e-5 },
                                          { "num_key_value_heads", 5 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
