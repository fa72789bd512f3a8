/* gpt_bigcode.c - GPT-BigCode (arXiv 2301.03988, 2305.06161: SantaCoder, StarCoder): GPT-2's block with plain
 * projections and one key-value head for all queries. */
#include "arch/families.h"

/* With one key-value head, q, k and v are stored one after another; with one per query head, this is so
 * within each head. */
static lm_value bigcode_attention(lm_builder *b, const lm_config *c, lm_value x)
{
    uint32_t groups = c->n_kv_heads, q_width = c->hidden / groups;

    lm_push(b, "attn", "%sAttention");
    lm_called_by_position(b);
    lm_value qkv = lm_linear(b, "c_attn", x, c->hidden + 2 * groups * c->head_dim, true);
    lm_value q   = lm_columns(b, "q", qkv, groups, 0, q_width);
    lm_value k   = lm_columns(b, "k", qkv, groups, q_width, c->head_dim);
    lm_value v   = lm_columns(b, "v", qkv, groups, q_width + c->head_dim, c->head_dim);
    lm_value o   = lm_linear(b, "c_proj", lm_attention(b, q, k, v, &c->attention), c->hidden, true);
    lm_dropout(b, "resid_dropout", c->dropout[2], o);
    lm_pop(b);
    return o;
}

static lm_value bigcode_block(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    (void)layer;             /* all layers are alike */
    lm_value h = lm_layer_norm(b, "ln_1", x, c->norm_eps, true);
    x          = lm_add(b, x, bigcode_attention(b, c, h));
    h          = lm_layer_norm(b, "ln_2", x, c->norm_eps, true);
    return lm_add(b, x, lm_gpt2_mlp(b, c, lm_linear, h));
}

static lm_value bigcode_build(lm_builder *b, const lm_config *c)
{
    return lm_gpt2_frame(b, c, bigcode_block);
}

static lm_status bigcode_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    bool scaled, multi_query;

    LM_TRY(lm_gpt2_shape(s, 1u << 18, c, &scaled, e));
    LM_TRY(lm_read_bool(s, "multi_query", NULL, true, &multi_query, e));
    LM_TRY(lm_read_u32(s, NULL, "attention.head_count_kv", 1, 1, 1, &c->n_kv_heads, e));
    LM_TRY(lm_read_head_dim(s, "n_head", c, e));
    c->n_kv_heads      = multi_query ? 1 : c->n_heads;
    c->attention       = lm_plain_attention(c);
    c->attention.scale = scaled ? c->attention.scale : 1;
    return LM_OK;
}

const lm_family lm_family_gpt_bigcode = {
    .name         = "gpt_bigcode",
    .class_prefix = "GPTBigCode",
    .hf_types     = (const char *const[]){ "gpt_bigcode", NULL },
    .gguf_archs   = (const char *const[]){ "starcoder", NULL },
    .act_name     = "act",
    .act_class    = "GELUTanh",
    .dropout_keys = (const char *const[]){ "embd_pdrop", "attn_pdrop", "resid_pdrop" },
    .dropout      = 0.1f,
    .configure    = bigcode_configure,
    .build        = bigcode_build,
    .names        = lm_gpt2_names,
    .defaults     = (const lm_default[]){ { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "n_embd", "n_layer", "n_head", "n_inner", "n_positions", "layer_norm_epsilon", "multi_query",
                                           "activation_function", "scale_attn_weights", "attention_softmax_in_fp32",
                                           "scale_attention_softmax_in_fp32", "inference_runner", "validate_runner_input",
                                           "pre_allocate_kv_cache", "max_batch_size", "summary_type", "summary_use_proj",
                                           "summary_activation", "summary_first_dropout",
                                           "summary_proj_to_labels", NULL },
    .ignorable    = (const char *const[]){ "*.attn.bias", "*.attn.masked_bias", NULL },
};
