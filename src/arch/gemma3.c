/* gemma3.c - Gemma 3, text (arXiv 2503.19786): Gemma 2's layer without soft caps, each head of q and k normalised, five layers
 * with a window for one without, and a rotation of their own in those with a window. */
#include "arch/families.h"

static lm_status gemma3_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    c->rope_local.dim = 1;               /* there is one: see below */
    LM_TRY(lm_gemma_configure(s, "hidden_activation", c, e));
    c->qk_norm     = true;
    c->model_class = "%sTextModel";
    LM_TRY(lm_gemma2_scores(s, 62, c, e));
    LM_TRY(lm_read_optional_f32(s, "attn_logit_softcapping", NULL, 0, &c->attention.softcap, e));
    LM_TRY(lm_read_optional_f32(s, "final_logit_softcapping", "final_logit_softcapping", 0, &c->final_softcap, e));
    if (c->attention.softcap > 0)
        return lm_no_form(s, "attn_logit_softcapping", "this family does not cap its scores", e);
    LM_TRY(lm_read_window(s, s->kind == LM_GGUF ? 0 : 4096, c, e));
    LM_TRY(lm_read_window_pattern(s, lm_meta_has(s->meta, "_sliding_window_pattern") ? "_sliding_window_pattern" : "sliding_window_pattern",
                                  6, c, e));
    return lm_read_local_rope(s, 1e4, c, e);
}

const lm_family lm_family_gemma3 = {
    .name         = "gemma3",
    .class_prefix = "Gemma3",
    .hf_types     = (const char *const[]){ "gemma3_text", NULL },
    .gguf_archs   = (const char *const[]){ "gemma3", NULL },
    .pad_token    = "0",
    .orders       = (const lm_order[]){ { "Attention", "q_proj k_proj v_proj o_proj *" }, { NULL, NULL } },
    .configure    = gemma3_configure,
    .build        = lm_gemma2_build,
    .names        = lm_gemma2_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 4 }, { "head_dim", 256 }, { "max_position_embeddings", 131072 },
                                          { "rope_theta", 1e6 }, { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "hidden_activation", "attention_bias", "query_pre_attn_scalar", "sliding_window",
                                           "layer_types", "attn_logit_softcapping", "final_logit_softcapping", "cache_implementation",
                                           "use_bidirectional_attention", "sliding_window_pattern", "_sliding_window_pattern",
                                           "rope_local_base_freq", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
