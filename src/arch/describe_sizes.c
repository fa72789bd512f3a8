/* describe_sizes.c - a config.json from a few sizes: Llama's decoder where the MLP is gated, StarCoder2's where it is plain. */
#include <inttypes.h>

#include "arch/config.h"
#include "lamina/describe.h"

static lm_status check(const lm_sizes *s, lm_error *e)
{
    const struct {
        const char *name;
        uint32_t    value;
    } wanted[] = { { "hidden", s->hidden }, { "layers", s->layers }, { "vocab", s->vocab }, { "heads", s->heads },
                   { "ffn", s->intermediate } };

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!wanted[i].value)
            return lm_fail(e, LM_USAGE, wanted[i].name, LM_NO_OFFSET, "is needed to describe a model");
    if (!s->head_dim && s->hidden % s->heads)
        return lm_fail(e, LM_USAGE, "heads", LM_NO_OFFSET, "%u heads do not divide a width of %u; give the lanes of a head",
                       s->heads, s->hidden);
    if (s->kv_heads && s->heads % s->kv_heads)
        return lm_fail(e, LM_USAGE, "kv-heads", LM_NO_OFFSET, "%u key/value heads do not divide %u query heads", s->kv_heads,
                       s->heads);
    if (s->plain && s->qkv_bias && !s->bias)
        return lm_fail(e, LM_USAGE, "qkv-bias", LM_NO_OFFSET,
                       "no family here has a plain MLP and biases on queries, keys and values only");
    return LM_OK;
}

lm_status lm_describe_sizes(const lm_sizes *s, lm_text *config, lm_error *e)
{
    lm_buf      b    = { 0 };
    const char *type = s->plain ? "starcoder2" : s->qkv_bias && !s->bias ? "qwen2" : "llama";

    LM_TRY(check(s, e));
    lm_buf_printf(&b,
                  "{\"model_type\": \"%s\", \"hidden_size\": %u, \"num_hidden_layers\": %u, \"vocab_size\": %u, "
                  "\"num_attention_heads\": %u, "
                  "\"num_key_value_heads\": %u, \"head_dim\": %u, \"intermediate_size\": %u, \"max_position_embeddings\": %u, "
                  "\"tie_word_embeddings\": %s",
                  type, s->hidden, s->layers, s->vocab, s->heads, s->kv_heads ? s->kv_heads : s->heads,
                  s->head_dim ? s->head_dim : s->hidden / s->heads, s->intermediate, s->context ? s->context : 4096,
                  s->tied ? "true" : "false");
    if (s->plain)
        lm_buf_printf(&b, ", \"use_bias\": %s", s->bias ? "true" : "false");
    else if (s->bias)
        lm_buf_add_str(&b, ", \"attention_bias\": true, \"mlp_bias\": true");
    lm_buf_add_str(&b, "}");
    if (b.failed) {
        lm_buf_free(&b);
        return lm_fail_memory(e, "a description", 0);
    }
    *config = (lm_text){ b.data, b.size, b.capacity };
    return LM_OK;
}
