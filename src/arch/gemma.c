/* gemma.c - Gemma (arXiv 2403.08295): Llama's decoder with GELU in its gates, embeddings times sqrt(D), norms stored less one. */
#include <math.h>
#include <string.h>

#include "arch/families.h"

lm_status lm_gemma_configure(const lm_source *s, const char *act, lm_config *c, lm_error *e)
{
    lm_meta_value scalar;

    LM_TRY(lm_llama_configure(s, c, e));
    /* "gelu" in hidden_act of the first files means the tanh form, as everywhere else in the family */
    LM_TRY(lm_read_act(s, act, LM_ACT_GELU_TANH, c, e));
    if (strcmp(act, "hidden_act") == 0 && c->act == LM_ACT_GELU) {
        c->act       = LM_ACT_GELU_TANH;
        c->act_class = NULL;
    }
    c->embed_factor  = sqrtf((float)c->hidden);
    c->norm_plus_one = true;
    c->bias_mlp      = false;
    c->rope.pairing  = LM_ROPE_HALF;
    c->rope.permuted = false;
    if (s->kind != LM_GGUF && lm_meta_get(s->meta, "use_bidirectional_attention", &scalar) && scalar.kind == LM_META_BOOL && scalar.b)
        return lm_no_form(s, "use_bidirectional_attention", "attention in both directions has no form here", e);
    return LM_OK;
}

static lm_status gemma_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    return lm_gemma_configure(s, "hidden_act", c, e);
}

const lm_family lm_family_gemma = {
    .name         = "gemma",
    .class_prefix = "Gemma",
    .hf_types     = (const char *const[]){ "gemma", NULL },
    .gguf_archs   = (const char *const[]){ "gemma", NULL },
    .pad_token    = "0",
    .configure    = gemma_configure,
    .build        = lm_llama_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 16 }, { "head_dim", 256 }, { "max_position_embeddings", 8192 },
                                          { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "hidden_activation", "attention_bias", "use_bidirectional_attention", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
