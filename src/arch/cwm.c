/* cwm.c - Code World Model (Meta, 2025): Llama's decoder with a window in three of four layers. */
#include "arch/families.h"

/* Use the rotation of the published model if a folder describes none. */
static void implied_rope(const lm_source *s, lm_config *c)
{
    if (lm_rope_is_given(s))
        return;
    c->rope.type             = LM_ROPE_LLAMA3;
    c->rope.factor           = 16;
    c->rope.low_freq_factor  = 1;
    c->rope.high_freq_factor = 4;
    c->rope.original_context = 8192;
}

/* Without layer_types, the layers with full attention are the first, the fifth, … */
static lm_status cwm_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_configure(s, c, e));
    implied_rope(s, c);
    c->bias_qkv = c->bias_o = false;
    LM_TRY(lm_read_window(s, 8192, c, e));
    for (uint32_t i = 0; i < c->n_layers && !lm_meta_has(s->meta, "layer_types"); i++)
        c->full[i] = i % 4 == 0;
    return LM_OK;
}

const lm_family lm_family_cwm = {
    .name         = "cwm",
    .class_prefix = "Cwm",
    .hf_types     = (const char *const[]){ "cwm", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .configure    = cwm_configure,
    .build        = lm_llama_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 131072 }, { "rms_norm_eps", 1e-5 },
                                          { "rope_theta", 1000000 }, { "sliding_window", 8192 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "mlp_bias", "sliding_window", "layer_types",
                                           "pretraining_tp", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
