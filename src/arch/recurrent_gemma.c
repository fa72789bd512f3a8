/* recurrent_gemma.c - RecurrentGemma (arXiv 2404.07839), Griffin's layers (2402.19427): a gated linear
 * recurrence after a short convolution, or attention with a window; each followed by a gated MLP. Embeddings
 * are scaled by sqrt(D), norms stored less one. */
#include <inttypes.h>
#include <math.h>

#include "arch/families.h"
#include "tensor/dtype.h"

typedef struct recurrent_gemma {
    uint32_t lru_width, taps;
    float    cap;                        /* of the logits */
} recurrent_gemma;
LM_OWN_FITS(recurrent_gemma);

static const lm_own_number own_numbers[] = {
    { "lru_width", NULL, LM_OWN_U32, offsetof(recurrent_gemma, lru_width), 1, 1 << 20, 0, false },
    { "conv1d_width", NULL, LM_OWN_U32, offsetof(recurrent_gemma, taps), 2, 64, 4, false },
    { "logits_soft_cap", NULL, LM_OWN_F32, offsetof(recurrent_gemma, cap), 1e-3, 1e9, 30, false },
    { 0 },
};

/* ---- the model ---- */

static lm_value gate(lm_builder *b, const lm_config *c, const char *weight, const char *bias,
                     const char *word, lm_value x)
{
    uint32_t each = ((const recurrent_gemma *)lm_own(c))->lru_width / c->n_heads;

    return lm_function(b, word, lm_head_linear(b, weight, bias, x, c->n_heads, each), LM_ACT_SIGMOID);
}

static lm_value recurrence(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "rg_lru", "%sRglru");
    lm_value i = gate(b, c, "input_gate_weight", "input_gate_bias", "input_gate", x);
    lm_value r = gate(b, c, "recurrent_gate_weight", "recurrent_gate_bias", "recurrent_gate", x);
    lm_value h = lm_gated_recurrence(b, "h", "recurrent_param", lm_mul(b, "gated_inputs", x, i), r);
    lm_pop(b);
    return h;
}

static lm_value recurrent_block(lm_builder *b, const lm_config *c, lm_value x)
{
    const recurrent_gemma *own = lm_own(c);

    lm_push(b, "temporal_block", "%sRecurrentBlock");
    lm_value y = lm_activate(b, lm_linear(b, "linear_y", x, own->lru_width, true), c->act);
    lm_value h = lm_linear(b, "linear_x", x, own->lru_width, true);
    h = recurrence(b, c, lm_causal_conv(b, "conv_1d", h, own->taps, true));
    h = lm_linear(b, "linear_out", lm_mul(b, "gated", h, y), c->hidden, true);
    lm_pop(b);
    return h;
}

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_push(b, "temporal_block", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    lm_rotate_heads(b, c, &c->rope, &h);
    lm_value o = lm_llama_scores(b, c, layer, h);
    lm_leaf(b, "rotary_emb", "%sRotaryEmbedding");
    lm_pop(b);
    return o;
}

static lm_value mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "mlp_block", "%sMlp");
    lm_value gates = lm_linear(b, "gate_proj", x, c->intermediate, true);
    lm_value up    = lm_linear(b, "up_proj", x, c->intermediate, true);
    lm_value down  = lm_linear(b, "down_proj", lm_glu(b, gates, up, c->act), c->hidden, true);
    lm_pop(b);
    return down;
}

static lm_value layer(lm_builder *b, const lm_config *c, uint32_t i, lm_value x)
{
    lm_value h = lm_gemma_norm(b, c, "temporal_pre_norm", x);
    x = lm_add(b, x, c->stateful[i] ? recurrent_block(b, c, h) : attention(b, c, i, h));
    h = lm_gemma_norm(b, c, "channel_pre_norm", x);
    return lm_add(b, x, mlp(b, c, h));
}

/* The factor is rounded to bfloat16 whatever the type of the weights. */
static lm_value embed(lm_builder *b, const lm_config *c)
{
    return lm_scale(b, lm_llama_embed(b, c), lm_rounded_to_bf16(sqrtf((float)c->hidden)));
}

static lm_value final_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    (void)name;
    return lm_gemma_norm(b, c, "final_norm", x);
}

static lm_value build(lm_builder *b, const lm_config *c)
{
    const recurrent_gemma *own = lm_own(c);
    const lm_decoder decoder = { .embed = embed, .layer = layer, .norm = final_norm, .rotary_class = "" };

    return lm_softcap(b, lm_decoder_frame(b, c, &decoder), own->cap);
}

/* ---- metadata ---- */

/* Read the kinds of the first layers, which repeat. */
static lm_status read_blocks(const lm_source *s, lm_config *c, lm_error *e)
{
    static const char *const implied[] = { "recurrent", "recurrent", "attention" };
    lm_meta_value            list, item;
    bool                     given = lm_meta_has(s->meta, "block_types");
    uint64_t                 n = sizeof implied / sizeof *implied;

    if (given) {
        LM_TRY(lm_meta_array(s->meta, "block_types", LM_MAX_LAYERS, &list, e));
        n = list.a.n;
    }
    if (!n)
        return lm_wrong(s, "block_types", NULL, e, "no entries; at least one is expected");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_view kind = lm_view_of(implied[i % 3]);
        if (given)
            kind = lm_meta_at(&list, i % n, &item) && item.kind == LM_META_STRING ? item.s : (lm_view){ 0 };
        c->stateful[i] = lm_view_is(kind, "recurrent");
        if (!c->stateful[i] && !lm_view_is(kind, "attention"))
            return lm_wrong(s, "block_types", NULL, e,
                            "entry %" PRIu64 " is \"%.*s\"; \"recurrent\" or \"attention\" is expected",
                            i % n, (int)(kind.size < 64 ? kind.size : 64), kind.data ? kind.data : "");
    }
    return LM_OK;
}

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    recurrent_gemma *own = lm_family_config_mut(c);
    uint32_t         lanes;
    bool             scaled;

    LM_TRY(lm_read_mixed_sizes(s, "recurrent", "rms_norm_eps", c, e));
    LM_TRY(read_blocks(s, c, e));
    if (c->intermediate < 2)
        return lm_wrong(s, "intermediate_size", NULL, e, "%u has no half, which is the width of the MLP",
                        c->intermediate);
    c->intermediate /= 2;
    LM_TRY(lm_read_own(s, own_numbers, c, e));
    own->lru_width = own->lru_width ? own->lru_width : c->hidden;
    if (own->lru_width % c->n_heads)
        return lm_wrong(s, "lru_width", NULL, e, "num_attention_heads, %u, does not divide %u", c->n_heads,
                        own->lru_width);
    LM_TRY(lm_read_act(s, "hidden_activation", LM_ACT_GELU_TANH, c, e));
    LM_TRY(lm_read_bool(s, "attention_bias", NULL, false, &c->bias_qkv, e));
    LM_TRY(lm_read_bool(s, "embeddings_scale_by_sqrt_dim", NULL, true, &scaled, e));
    if (!scaled)
        return lm_no_form(s, "embeddings_scale_by_sqrt_dim", "embeddings without their factor have no form here",
                          e);
    c->bias_o = c->bias_mlp = true;
    LM_TRY(lm_read_rotary_lanes(s, "partial_rotary_factor", 0.5, c, &lanes, e));
    LM_TRY(lm_read_rope(s, lanes, 10000, c, e));
    if (c->rope.type != LM_ROPE_DEFAULT)
        return lm_no_form(s, "rope_parameters", "this family supports no scaling of the rotation", e);
    c->rope.pairing = LM_ROPE_HALF;
    c->attention    = lm_plain_attention(c);
    return lm_read_u32(s, "attention_window_size", NULL, 1, UINT32_MAX, 2048, &c->attention.window, e);
}

static const lm_order orders[] = {
    { "Mlp", "gate_proj up_proj down_proj act_fn *" },
    { "RecurrentBlock", "linear_y linear_x linear_out conv_1d rg_lru act_fn *" },
    { NULL, NULL },
};

const lm_family lm_family_recurrent_gemma = {
    .name         = "recurrent_gemma",
    .class_prefix = "RecurrentGemma",
    .hf_types     = (const char *const[]){ "recurrent_gemma", NULL },
    .gguf_archs   = (const char *const[]){ NULL },        /* llama.cpp has none */
    .orders       = orders,
    .pad_token    = "0",
    .state_word   = "recurrent",
    .configure    = configure,
    .build        = build,
    .own          = own_numbers,
    .names        = (const lm_name[]){ { NULL, NULL } },
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 8192 },
                                          { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "block_types", "lru_width", "conv1d_width", "logits_soft_cap", "hidden_activation",
                                           "attention_bias", "attention_window_size", "partial_rotary_factor",
                                           "embeddings_scale_by_sqrt_dim", "w_init_variance_scale",
                                           "final_w_init_variance_scale", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
