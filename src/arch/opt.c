/* opt.c - OPT (arXiv 2205.01068): learned positions with an offset of two rows, ReLU, LayerNorm before
 * attention and MLP. The 350m model has the norms after them, and a narrower embedding. */
#include "arch/families.h"

typedef struct opt {
    uint32_t embed_width;            /* width of the embedding; projections connect it to `hidden` if they
                                        differ */
    bool     post_norm, final_norm;  /* norms after instead of before attention and MLP; a norm before the
                                        head */
} opt;
LM_OWN_FITS(opt);

#define FIRST_POSITION 2             /* rows 0 and 1 of the table were reserved for padding */

static lm_value opt_attention(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "self_attn", "%sAttention");
    lm_value q = lm_linear(b, "q_proj", x, c->hidden, c->bias_qkv);
    lm_value k = lm_linear(b, "k_proj", x, c->hidden, c->bias_qkv);
    lm_value v = lm_linear(b, "v_proj", x, c->hidden, c->bias_qkv);
    lm_value o = lm_linear(b, "out_proj", lm_attention(b, q, k, v, &c->attention), c->hidden, c->bias_o);
    lm_pop(b);
    return o;
}

static lm_value opt_mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_value h = lm_activate(b, lm_linear(b, "fc1", x, c->intermediate, c->bias_mlp), c->act);
    return lm_linear(b, "fc2", h, c->hidden, c->bias_mlp);
}

static lm_value opt_layer(lm_builder *b, const lm_config *c, lm_value x)
{
    const opt *own = lm_own(c);

    if (own->post_norm) {
        x = lm_layer_norm(b, "self_attn_layer_norm", lm_add(b, x, opt_attention(b, c, x)), c->norm_eps, true);
        return lm_layer_norm(b, "final_layer_norm", lm_add(b, x, opt_mlp(b, c, x)), c->norm_eps, true);
    }
    x = lm_add(b, x, opt_attention(b, c, lm_layer_norm(b, "self_attn_layer_norm", x, c->norm_eps, true)));
    return lm_add(b, x, opt_mlp(b, c, lm_layer_norm(b, "final_layer_norm", x, c->norm_eps, true)));
}

static lm_value opt_build(lm_builder *b, const lm_config *c)
{
    const opt *own = lm_own(c);

    lm_push(b, "model", "%sModel");
    lm_push(b, "decoder", "%sDecoder");
    lm_value x = lm_embedding(b, "embed_tokens", c->vocab_size, own->embed_width);
    lm_set_padding(b, c);
    lm_value p = lm_position_embed(b, "embed_positions", c->context_length + FIRST_POSITION, c->hidden,
                                   FIRST_POSITION);
    if (own->embed_width != c->hidden)
        x = lm_linear(b, "project_in", x, c->hidden, false);
    x = lm_add(b, x, p);
    lm_push(b, "layers", "ModuleList");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        lm_push_layer(b, i, "%sDecoderLayer");
        x = opt_layer(b, c, x);
        lm_pop(b);
    }
    lm_pop(b);
    if (own->final_norm)
        x = lm_layer_norm(b, "final_layer_norm", x, c->norm_eps, true);
    if (own->embed_width != c->hidden)
        x = lm_linear(b, "project_out", x, own->embed_width, false);
    lm_pop(b);
    lm_pop(b);
    return lm_head(b, "lm_head", x, c->vocab_size, c->tied ? "model.decoder.embed_tokens" : NULL);
}

static lm_status opt_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    opt *own = lm_family_config_mut(c);
    bool before, removed, bias, affine;

    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "hidden_size", NULL, 1, 1u << 20, -1, &c->hidden, e));
    LM_TRY(lm_read_u32(s, "num_hidden_layers", NULL, 1, LM_MAX_LAYERS, -1, &c->n_layers, e));
    LM_TRY(lm_read_u32(s, "num_attention_heads", NULL, 1, 1024, -1, &c->n_heads, e));
    LM_TRY(lm_read_u32(s, "ffn_dim", NULL, 1, 1u << 20, -1, &c->intermediate, e));
    LM_TRY(lm_read_u32(s, "word_embed_proj_dim", NULL, 1, 1u << 20, c->hidden, &own->embed_width, e));
    LM_TRY(lm_read_u32(s, "max_position_embeddings", NULL, 1, 1u << 24, 2048, &c->context_length, e));
    LM_TRY(lm_read_act(s, "activation_function", LM_ACT_RELU, c, e));
    LM_TRY(lm_read_bool(s, "do_layer_norm_before", NULL, true, &before, e));
    LM_TRY(lm_read_bool(s, "_remove_final_layer_norm", NULL, false, &removed, e));
    LM_TRY(lm_read_bool(s, "enable_bias", NULL, true, &bias, e));
    LM_TRY(lm_read_bool(s, "layer_norm_elementwise_affine", NULL, true, &affine, e));
    LM_TRY(lm_read_head_dim(s, "num_attention_heads", c, e));
    if (!affine) {
        lm_fail(e, LM_UNSUPPORTED, "layer_norm_elementwise_affine", LM_NO_OFFSET,
                "norms without weights have no form here");
        return lm_fail_in(e, lm_meta_file(s->meta));
    }
    c->norm_eps   = 1e-5f;
    c->n_kv_heads = c->n_heads;
    c->attention  = lm_plain_attention(c);
    own->post_norm  = !before;
    own->final_norm = before && !removed;
    c->bias_qkv = c->bias_o = c->bias_mlp = bias;
    return LM_OK;
}

const lm_family lm_family_opt = {
    .name         = "opt",
    .class_prefix = "OPT",
    .hf_types     = (const char *const[]){ "opt", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .orders       = (const lm_order[]){
        { "Attention", "k_proj v_proj q_proj *" },
        { "Decoder", "embed_tokens embed_positions project_out * layers" },
        { "DecoderLayer", "self_attn activation_fn self_attn_layer_norm fc1 fc2 *" },
        { NULL, NULL },
    },
    .act_name     = "activation_fn",
    .pad_token    = "1",
    .configure    = opt_configure,
    .build        = opt_build,
    .names        = (const lm_name[]){ { NULL, NULL } },
    .defaults     = (const lm_default[]){ { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "ffn_dim", "word_embed_proj_dim", "activation_function", "activation_dropout",
                                           "do_layer_norm_before", "_remove_final_layer_norm", "enable_bias",
                                           "layer_norm_elementwise_affine", "init_std", NULL },
};
