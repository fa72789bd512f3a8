/* helium.c - Helium (Kyutai, 2025): Llama's decoder, whose adjacent lanes rotate together in folders, too.
 * llama.cpp has no converter for it. */
#include "arch/families.h"

static lm_status helium_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_configure(s, c, e));
    c->rope.pairing       = LM_ROPE_PAIR;
    c->rope.gguf_permutes = false;
    c->bias_o             = false;
    if (c->n_heads * c->head_dim != c->hidden)
        return lm_wrong(s, "head_dim", NULL, e, "%u heads of %u are not hidden_size = %u, which o_proj reads",
                        c->n_heads, c->head_dim, c->hidden);
    return LM_OK;
}

const lm_family lm_family_helium = {
    .name         = "helium",
    .class_prefix = "Helium",
    .hf_types     = (const char *const[]){ "helium", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .pad_token    = "3",
    .configure    = helium_configure,
    .build        = lm_llama_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 20 }, { "head_dim", 128 },
                                          { "max_position_embeddings", 4096 }, { "rms_norm_eps", 1e-8 },
                                          { "rope_theta", 100000 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "attention_bias", "mlp_bias", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
