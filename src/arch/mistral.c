/* mistral.c - Mistral 7B (arXiv 2310.06825): Llama's decoder with a sliding window, no biases.
 *
 * If config.json has no `sliding_window`, it is 4096; null means none. Its GGUF files have architecture
 * llama. transformers reads layer_types in the class Ministral alone, which is otherwise the same. */
#include "arch/families.h"

static lm_status mistral_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_llama_configure(s, c, e));
    return lm_read_window(s, 4096, c, e);
}

const lm_family lm_family_mistral = {
    .name         = "mistral",
    .class_prefix = "Mistral",
    .hf_types     = (const char *const[]){ "mistral", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .gguf_as      = "llama",
    .configure    = mistral_configure,
    .build        = lm_llama_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "max_position_embeddings", 131072 },
                                          { "sliding_window", 4096 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "sliding_window", "layer_types", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};

const lm_family lm_family_ministral = {
    .name         = "ministral",
    .class_prefix = "Ministral",
    .hf_types     = (const char *const[]){ "ministral", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .gguf_as      = "llama",
    .configure    = mistral_configure,
    .build        = lm_llama_build,
    .names        = lm_llama_names,
    .defaults     = (const lm_default[]){ { "num_key_value_heads", 8 }, { "max_position_embeddings", 131072 },
                                          { "sliding_window", 4096 }, { NULL, 0 } },
    .keys         = (const char *const[]){ "hidden_act", "sliding_window", "layer_types", NULL },
    .ignorable    = (const char *const[]){ "*.rotary_emb.inv_freq", NULL },
};
