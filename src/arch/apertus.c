/* apertus.c - Apertus (arXiv 2509.14233): Llama's decoder with each head of q and k normalised before the
 * rotation, and plain MLPs whose activation, xIELU, has two parameters in each layer. */
#include <inttypes.h>
#include <math.h>

#include "arch/families.h"

static lm_value mlp(lm_builder *b, const lm_config *c, lm_value x)
{
    lm_push(b, "mlp", "%sMLP");
    lm_value up = lm_xielu_of(b, lm_linear(b, "up_proj", x, c->intermediate, false));
    up          = lm_linear(b, "down_proj", up, c->hidden, false);
    lm_pop(b);
    return up;
}

static lm_value apertus_layer(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_llama_norm(b, c, "attention_layernorm", x);
    x          = lm_add(b, x, lm_normed_attention(b, c, layer, h));
    return lm_add(b, x, mlp(b, c, lm_llama_norm(b, c, "feedforward_layernorm", x)));
}

static lm_value apertus_build(lm_builder *b, const lm_config *c)
{
    return lm_decoder_frame(b, c, &(lm_decoder){ .layer = apertus_layer });
}

/* Use the rotation of the published models if a folder describes none. */
static void implied_rope(const lm_source *s, lm_config *c)
{
    if (s->kind == LM_GGUF || lm_rope_is_given(s))
        return;
    c->rope.type             = LM_ROPE_LLAMA3;
    c->rope.factor           = 8;
    c->rope.low_freq_factor  = 1;
    c->rope.high_freq_factor = 4;
    c->rope.original_context = 8192;
}

/* Checkpoints from before transformers knew the family have keys for what all of them have. */
static lm_status check_forms(const lm_source *s, lm_error *e)
{
    bool post_norm, qk_norm, mlp_bias;

    LM_TRY(lm_expect_word(s, "hidden_act", "xielu", e));
    LM_TRY(lm_read_bool(s, "post_norm", NULL, false, &post_norm, e));
    LM_TRY(lm_read_bool(s, "qk_norm", NULL, true, &qk_norm, e));
    LM_TRY(lm_read_bool(s, "mlp_bias", NULL, false, &mlp_bias, e));
    if (post_norm)
        return lm_no_form(s, "post_norm", "norms behind both parts have no form in this family", e);
    if (!qk_norm)
        return lm_no_form(s, "qk_norm", "queries and keys without norms have no form in this family", e);
    return mlp_bias ? lm_no_form(s, "mlp_bias", "biases of MLPs have no form in this family", e) : LM_OK;
}

/* GGUF has the numbers of xIELU as lists. Only x between eps and 0 depend on eps: another one than that of
 * the published models is a mistake. */
static lm_status check_lists(const lm_source *s, const lm_config *c, lm_error *e)
{
    static const char *const lists[] = { "xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps" };
    lm_meta_value            list, item;

    for (size_t k = 0; s->kind == LM_GGUF && k < 4; k++) {
        LM_TRY(lm_meta_array(s->meta, lists[k], LM_MAX_LAYERS, &list, e));
        for (uint64_t i = 0; lm_meta_at(&list, i, &item); i++) {
            bool number = item.kind == LM_META_FLOAT && isfinite(item.f);
            if (!number || (k == 3 && fabs(item.f + 1e-6) > 1e-7)) {
                lm_fail(e, LM_BAD_MODEL, lists[k], LM_NO_OFFSET, "entry %" PRIu64 " is not %s", i,
                        k == 3 ? "-1e-06" : "a finite number");
                return lm_fail_in(e, lm_meta_file(s->meta));
            }
        }
        if (list.a.n != c->n_layers) {
            lm_fail(e, LM_BAD_MODEL, lists[k], LM_NO_OFFSET, "has %" PRIu64 " entries for %u layers",
                    list.a.n, c->n_layers);
            return lm_fail_in(e, lm_meta_file(s->meta));
        }
    }
    return LM_OK;
}

static lm_status apertus_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(check_forms(s, e));
    LM_TRY(lm_read_sizes(s, c, e));
    LM_TRY(check_lists(s, c, e));
    LM_TRY(lm_read_llama_biases(s, c, e));
    LM_TRY(lm_llama_rotation(s, c->head_dim, c, e));
    implied_rope(s, c);
    c->act           = LM_ACT_XIELU;
    c->bias_mlp      = false;
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = c->rope.gguf_permutes = false;
    return LM_OK;
}

static const lm_name names[] = {
    LM_DECODER_NAMES,
    { "model.layers.*.attention_layernorm", "blk.*.attn_norm" },
    { "model.layers.*.feedforward_layernorm", "blk.*.ffn_norm" },
    { "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm" },
    { "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm" },
    { "model.layers.*.mlp.up_proj", "blk.*.ffn_up" },
    { "model.layers.*.mlp.down_proj", "blk.*.ffn_down" },
    { NULL, NULL },
};

const lm_family lm_family_apertus = {
    .name         = "apertus",
    .class_prefix = "Apertus",
    .hf_types     = (const char *const[]){ "apertus", NULL },
    .gguf_archs   = (const char *const[]){ "apertus", NULL },
    .pad_token    = "3",
    .orders       = (const lm_order[]){
        { "Attention", "q_proj k_proj v_proj o_proj *" },
        { "DecoderLayer", "self_attn mlp *" },
        { NULL, NULL },
    },
    .configure    = apertus_configure,
    .build        = apertus_build,
    .names        = names,
    .defaults     = (const lm_default[]){ { "max_position_embeddings", 65536 }, { "rms_norm_eps", 1e-5 },
                                          { "rope_theta", 12000000 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "post_norm", "qk_norm",
                                           "mlp_bias", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", "rope_freqs.weight", NULL },
};
