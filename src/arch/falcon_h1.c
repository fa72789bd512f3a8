/* falcon_h1.c - Falcon-H1 (arXiv 2507.22448): in every layer, a Mamba-2 mixer and attention read the same
 * normalised input. Multipliers at each of their ends, which GGUF files have in their weights. */
#include <string.h>

#include "arch/families.h"

typedef struct falcon_h1 {
    float embedding, head, key, attention_in, attention_out, ssm_in, ssm_out, gate, down;
    float parts[5];                      /* of z, x, B, C and dt */
} falcon_h1;
LM_OWN_FITS(falcon_h1);

#define FACTOR(hf, member) { hf, NULL, LM_OWN_F32, offsetof(falcon_h1, member), 1e-6, 1e6, 1, false }
static const lm_own_number own_numbers[] = {
    FACTOR("embedding_multiplier", embedding),
    FACTOR("lm_head_multiplier", head),
    FACTOR("key_multiplier", key),
    FACTOR("attention_in_multiplier", attention_in),
    FACTOR("attention_out_multiplier", attention_out),
    FACTOR("ssm_in_multiplier", ssm_in),
    FACTOR("ssm_out_multiplier", ssm_out),
    { 0 },
};

/* Set that all rows are multiplied in GGUF files. */
static void fold(lm_builder *b, lm_value x, uint32_t rows, float of_output, float of_input)
{
    const lm_fold f[2] = { { 0, rows, of_output }, { 0, rows, of_input } };

    lm_fold_in_gguf(b, x, f, 2, 1);
}

static lm_value attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    const falcon_h1 *own = lm_own(c);

    lm_push(b, "self_attn", "%sAttention");
    lm_heads h = lm_llama_heads(b, c, x);
    fold(b, h.q, c->n_heads * c->head_dim, 1, own->attention_in);
    fold(b, h.k, c->n_kv_heads * c->head_dim, own->key, own->attention_in);
    fold(b, h.v, c->n_kv_heads * c->head_dim, 1, own->attention_in);
    h.k = lm_scale(b, h.k, own->key);
    lm_rotate_heads(b, c, &c->rope, &h);
    x = lm_llama_scores(b, c, layer, h);
    fold(b, x, c->hidden, own->attention_out, 1);
    lm_pop(b);
    return x;
}

static lm_value mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    const falcon_h1 *own = lm_own(c);

    lm_push(b, "feed_forward", "%sMLP");
    lm_value gate = lm_linear(b, "gate_proj", x, c->intermediate, c->bias_mlp);
    lm_value up   = lm_linear(b, "up_proj", x, c->intermediate, c->bias_mlp);
    fold(b, gate, c->intermediate, own->gate, 1);
    x = lm_glu(b, lm_scale(b, gate, own->gate), up, c->act);
    x = lm_linear(b, "down_proj", x, c->hidden, c->bias_mlp);
    fold(b, x, c->hidden, own->down, 1);
    x = lm_scale(b, x, own->down);
    lm_pop(b);
    return x;
}

static lm_value layer(lm_builder *b, const lm_config *c, uint32_t i, lm_value x)
{
    const falcon_h1 *own = lm_own(c);
    lm_value         h   = lm_llama_norm(b, c, "input_layernorm", x);
    lm_value         y   = lm_mamba2(b, c, "mamba", "%sMixer", lm_scale(b, h, own->ssm_in));
    lm_value         a   = attention(b, c, i, lm_scale(b, h, own->attention_in));

    fold(b, y, c->hidden, own->ssm_out, 1);
    x = lm_add(b, x, lm_add(b, lm_scale(b, y, own->ssm_out), lm_scale(b, a, own->attention_out)));
    return lm_add(b, x, mlp(b, c, lm_llama_norm(b, c, "pre_ff_layernorm", x)));
}

static lm_value embed(lm_builder *b, const lm_config *c)
{
    float    factor = ((const falcon_h1 *)lm_own(c))->embedding;
    lm_value x      = lm_llama_embed(b, c);

    fold(b, x, c->vocab_size, factor, 1);
    return lm_scale(b, x, factor);
}

static lm_value final_norm(lm_builder *b, const lm_config *c, const char *name, lm_value x)
{
    (void)name;
    return lm_llama_norm(b, c, "final_layernorm", x);
}

static lm_value build(lm_builder *b, const lm_config *c)
{
    const lm_decoder parts  = { .embed = embed, .layer = layer, .norm = final_norm };
    float            factor = ((const falcon_h1 *)lm_own(c))->head;
    lm_value         logits = lm_decoder_frame(b, c, &parts);

    fold(b, logits, c->vocab_size, factor, 1);
    return lm_scale(b, logits, factor);
}

/* Read a list of n factors; all are 1 in GGUF, or if absent or null. */
static lm_status read_factors(const lm_source *s, const char *key, uint32_t n, float *out, lm_error *e)
{
    lm_meta_value list, item;

    for (uint32_t i = 0; i < n; i++)
        out[i] = 1;
    if (s->kind == LM_GGUF || !lm_meta_has(s->meta, key))
        return LM_OK;
    LM_TRY(lm_meta_array(s->meta, key, n, &list, e));
    for (uint32_t i = 0; i < n; i++) {
        double f = 0;
        if (lm_meta_at(&list, i, &item))
            f = item.kind == LM_META_UINT ? (double)item.u : item.kind == LM_META_FLOAT ? item.f : 0;
        if (!(f >= 1e-6 && f <= 1e6)) {
            lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "is not a list of %u numbers from 1e-6 to 1e6", n);
            return lm_fail_in(e, lm_meta_file(s->meta));
        }
        out[i] = (float)f;
    }
    return LM_OK;
}

static const lm_mamba_keys mamba_keys = {
    .heads     = "mamba_n_heads",
    .head_dim  = "mamba_d_head",
    .state     = "mamba_d_state",
    .groups    = "mamba_n_groups",
    .taps      = "mamba_d_conv",
    .conv_bias = "mamba_conv_bias",
    .in_bias   = "mamba_proj_bias",
    .out_bias  = "projectors_bias",
    .expand    = "mamba_expand",
    .inner     = "mamba_d_ssm",
};

/* Files without a norm of the mixer have no tensor for it. */
static lm_status read_norm(const lm_source *s, lm_config *c, lm_error *e)
{
    bool normed = lm_has_tensor(s, "blk.0.ssm_norm.weight"), first = false;

    if (s->kind != LM_GGUF) {
        LM_TRY(lm_read_bool(s, "mamba_rms_norm", NULL, false, &normed, e));
        LM_TRY(lm_read_bool(s, "mamba_norm_before_gate", NULL, true, &first, e));
    }
    c->mamba.norm = !normed ? LM_NO_NORM : first ? LM_NORM_BEFORE_GATE : LM_GATE_BEFORE_NORM;
    return LM_OK;
}

static lm_status configure(const lm_source *s, lm_config *c, lm_error *e)
{
    falcon_h1 *own = lm_family_config_mut(c);
    float      ends[2];

    LM_TRY(lm_llama_shape(s, c, e));
    LM_TRY(lm_llama_rotation(s, c->head_dim, c, e));
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    LM_TRY(lm_read_own(s, own_numbers, c, e));
    LM_TRY(read_factors(s, "mlp_multipliers", 2, ends, e));
    own->gate = ends[0];
    own->down = ends[1];
    LM_TRY(read_factors(s, "ssm_multipliers", 5, own->parts, e));
    LM_TRY(lm_read_mamba2(s, &mamba_keys, c, e));
    c->mamba.act = c->act;
    memcpy(c->mamba.factors, own->parts, sizeof own->parts);
    c->mamba.of_input = own->ssm_in;
    return read_norm(s, c, e);
}

static const lm_name names[] = {
    { "model.embed_tokens", "token_embd" },
    { "model.layers.*.input_layernorm", "blk.*.attn_norm" },
    { "model.layers.*.self_attn.q_proj", "blk.*.attn_q" },
    { "model.layers.*.self_attn.k_proj", "blk.*.attn_k" },
    { "model.layers.*.self_attn.v_proj", "blk.*.attn_v" },
    { "model.layers.*.self_attn.o_proj", "blk.*.attn_output" },
    LM_MAMBA2_NAMES("model.layers.*.mamba"),
    { "model.layers.*.pre_ff_layernorm.weight", "blk.*.ffn_norm" },      /* without ".weight" */
    { "model.layers.*.feed_forward.gate_proj", "blk.*.ffn_gate" },
    { "model.layers.*.feed_forward.up_proj", "blk.*.ffn_up" },
    { "model.layers.*.feed_forward.down_proj", "blk.*.ffn_down" },
    { "model.final_layernorm", "output_norm" },
    { "lm_head", "output" },
    { NULL, NULL },
};

const lm_family lm_family_falcon_h1 = {
    .name         = "falcon_h1",
    .class_prefix = "FalconH1",
    .hf_types     = (const char *const[]){ "falcon_h1", NULL },
    .gguf_archs   = (const char *const[]){ "falcon-h1", NULL },
    .mamba        = &mamba_keys,
    .orders       = (const lm_order[]){ { "Mixer", "act conv1d in_proj norm out_proj *" },
                                        { "DecoderLayer", "feed_forward mamba self_attn input_layernorm pre_ff_layernorm *" },
                                        { "Model", "embed_tokens layers final_layernorm rotary_emb *" },
                                        { NULL, NULL } },
    .configure    = configure,
    .build        = build,
    .own          = own_numbers,
    .names        = names,
    .pad_token    = "0",
    .defaults     = (const lm_default[]){ { "intermediate_size", 14336 }, { "num_key_value_heads", 8 },
                                          { "max_position_embeddings", 8192 }, { "rms_norm_eps", 1e-5 },
                                          { "mamba_d_ssm", 1024 }, { "mamba_n_heads", 128 }, { "mamba_n_groups", 1 },
                                          { "mamba_d_state", 256 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "mlp_bias", "projectors_bias", "mamba_n_heads",
                                           "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv",
                                           "mamba_conv_bias", "mamba_proj_bias", "mamba_expand", "mamba_d_ssm",
                                           "mamba_chunk_size", "mamba_rms_norm", "mamba_norm_before_gate", "mamba_use_mlp",
                                           "time_step_limit", "embedding_multiplier", "lm_head_multiplier", "key_multiplier",
                                           "attention_in_multiplier", "attention_out_multiplier", "ssm_in_multiplier",
                                           "ssm_out_multiplier", "mlp_multipliers", "ssm_multipliers", "mlp_expansion_factor",
                                           "num_logits_to_keep", "time_step_floor", "time_step_min", "time_step_max",
                                           "time_step_rank", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
