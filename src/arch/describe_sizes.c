/* describe_sizes.c - create a config.json from a few sizes: Llama's decoder for a gated MLP, StarCoder2's for
 * a plain one. */
#include <inttypes.h>

#include "arch/config.h"
#include "lamina/describe.h"

static lm_status check(const lm_sizes *s, lm_error *e)
{
    const struct {
        const char *name;
        uint32_t    value;
    } wanted[] = { { "hidden", s->hidden },
                   { "layers", s->layers },
                   { "vocab", s->vocab },
                   { "heads", s->heads },
                   { "ffn", s->intermediate } };

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!wanted[i].value)
            return lm_fail(e, LM_USAGE, wanted[i].name, LM_NO_OFFSET, "required to describe a model");
    if (!s->head_dim && s->hidden % s->heads)
        return lm_fail(e, LM_USAGE, "heads", LM_NO_OFFSET,
                       "%u heads do not divide the width %u; give the head dimension", s->heads, s->hidden);
    if (s->kv_heads && s->heads % s->kv_heads)
        return lm_fail(e, LM_USAGE, "kv-heads", LM_NO_OFFSET,
                       "%u key/value heads do not divide the %u query heads", s->kv_heads, s->heads);
    if (s->plain && s->qkv_bias && !s->bias)
        return lm_fail(e, LM_USAGE, "qkv-bias", LM_NO_OFFSET,
                       "no family here has a plain MLP and biases on queries, keys and values only");
    return LM_OK;
}

lm_status lm_describe_sizes(const lm_sizes *s, lm_text *config, lm_error *e)
{
    LM_REQUIRE(e, s && config);
    LM_CHECK_RESERVED(e, s);
    lm_text      b    = { 0 };
    const char *type = s->plain ? "starcoder2" : s->qkv_bias && !s->bias ? "qwen2" : "llama";

    LM_TRY(check(s, e));
    lm_text_printf(
        &b,
        "{\"model_type\": \"%s\", \"hidden_size\": %u, \"num_hidden_layers\": %u, \"vocab_size\": %u, "
        "\"num_attention_heads\": %u, \"num_key_value_heads\": %u, \"head_dim\": %u, \"intermediate_size\": "
        "%u, \"max_position_embeddings\": %u, \"tie_word_embeddings\": %s",
        type, s->hidden, s->layers, s->vocab, s->heads, s->kv_heads ? s->kv_heads : s->heads,
        s->head_dim ? s->head_dim : s->hidden / s->heads, s->intermediate,
        s->context ? s->context : LM_DEFAULT_CONTEXT, s->tied ? "true" : "false");
    if (s->plain)
        lm_text_printf(&b, ", \"use_bias\": %s", s->bias ? "true" : "false");
    else if (s->bias)
        lm_text_add_str(&b, ", \"attention_bias\": true, \"mlp_bias\": true");
    lm_text_add_str(&b, "}");
    return lm_text_deliver(&b, LM_OK, "a description", config, e);
}
