/* gpt3.c - GPT-3 (arXiv 2005.14165, 2.1): GPT-2's block; layers with full attention and layers with a local
 * band alternate. Neither weights nor the width of the band have been published: config.json has GPT-2's keys
 * and in addition GPT-Neo's attention_types (default: alternating, global first) and window_size; without
 * window_size every layer has full attention. Heads times head size may differ from the hidden size, as in
 * two rows of the paper's table 2.1. */
#include "arch/families.h"

static lm_status gpt3_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_gpt2_configure(s, c, e));
    LM_TRY(lm_read_u32(s, "window_size", NULL, 1, UINT32_MAX, 0, &c->attention.window, e));
    return lm_read_attention_types(s, c, e);
}

const lm_family lm_family_gpt3 = {
    .name         = "gpt3",
    .class_prefix = "GPT3",
    .root_class   = "GPT3LMHeadModel",
    .hf_types     = (const char *const[]){ "gpt3", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .act_name     = "act",
    .act_class    = "NewGELUActivation",
    .dropout_keys = (const char *const[]){ "embd_pdrop", "attn_pdrop", "resid_pdrop" },
    .dropout      = 0.1f,
    .configure    = gpt3_configure,
    .build        = lm_gpt2_build,
    .own          = lm_gpt2_own,
    .names        = (const lm_name[]){ { NULL, NULL } },
    .defaults     = (const lm_default[]){ { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "n_embd", "n_layer", "n_head", "n_inner", "n_positions", "n_ctx", "layer_norm_epsilon",
                                           "activation_function", "scale_attn_weights", "attention_types",
                                           "window_size", NULL },
    .ignorable    = (const char *const[]){ "*.attn.bias", "*.attn.masked_bias", NULL },
};
