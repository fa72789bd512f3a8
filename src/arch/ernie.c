/* ernie.c - ERNIE 4.5, dense (Baidu, 2025): Llama's decoder with rotation of adjacent lanes, like GLM, and
 * one switch for all biases. */
#include "arch/families.h"

static lm_status ernie_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_configure(s, c, e));
    if (s->kind != LM_GGUF) {
        LM_TRY(lm_read_bool(s, "use_bias", NULL, false, &c->bias_qkv, e));
        c->bias_o = c->bias_mlp = c->bias_qkv;
    }
    c->rope.pairing  = LM_ROPE_PAIR;
    c->rope.permuted = c->rope.gguf_permutes = false;
    return LM_OK;
}

const lm_family lm_family_ernie = {
    .name         = "ernie4_5",
    .class_prefix = "Ernie4_5",
    .hf_types     = (const char *const[]){ "ernie4_5", NULL },
    .gguf_archs   = (const char *const[]){ "ernie4_5", NULL },
    .pad_token    = "0",
    .configure    = ernie_configure,
    .build        = lm_llama_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 2 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 131072 },
                                          { "rms_norm_eps", 1e-5 }, { "rope_theta", 5e5 }, { "tie_word_embeddings", true },
                                          { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "use_bias", "compression_ratio", "use_flash_attention", "rope_3d", "use_rmsnorm",
                                           NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
