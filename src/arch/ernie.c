/* ernie.c - ERNIE 4.5, dense (Baidu, 2025): Llama's decoder with adjacent lanes rotated together, as GLM does it, and one
 * switch for all biases. */
#include "arch/families.h"

static lm_status ernie_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_tied_unless_said(s, c);
    c->head_dim  = 128;
    c->rope.base = 5e5;
    LM_TRY(lm_llama_configure(s, c, e));
    if (s->kind != LM_GGUF) {
        LM_TRY(lm_read_f32(s, "rms_norm_eps", NULL, 1e-20, 1, 1e-5, &c->norm_eps, e));
        LM_TRY(lm_read_bool(s, "use_bias", NULL, false, &c->bias_qkv, e));
        c->bias_o = c->bias_mlp = c->bias_qkv;
    }
    c->rope.pairing  = LM_ROPE_PAIR;
    c->rope.permuted = false;
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
    .keys         = (const char *const[]){ "hidden_act", "use_bias", "compression_ratio", "use_flash_attention", "rope_3d", "use_rmsnorm",
                                           NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
