/* gpt_neo.c - GPT-Neo (EleutherAI 2021): GPT-2's block with plain projections; layers with full attention and
 * layers with a window alternate, as described for GPT-3 (arXiv 2005.14165, 2.1). Scores are not scaled. */
#include "arch/families.h"

static lm_value gpt_neo_attention(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_attention_spec scores = lm_layer_attention(c, layer);

    lm_push(b, "attn", "%sAttention");
    lm_called_by_position(b);
    lm_push(b, "attention", "%sSelfAttention");
    lm_value q = lm_linear(b, "q_proj", x, c->hidden, false);
    lm_value k = lm_linear(b, "k_proj", x, c->hidden, false);
    lm_value v = lm_linear(b, "v_proj", x, c->hidden, false);
    lm_value o = lm_linear(b, "out_proj", lm_attention(b, q, k, v, &scores), c->hidden, true);
    lm_dropout(b, "attn_dropout", c->dropout[1], LM_NONE);
    lm_dropout(b, "resid_dropout", c->dropout[2], o);
    lm_pop(b);
    lm_pop(b);
    return o;
}

static lm_value gpt_neo_block(lm_builder *b, const lm_config *c, uint32_t layer, lm_value x)
{
    lm_value h = lm_layer_norm(b, "ln_1", x, c->norm_eps, true);
    x          = lm_add(b, x, gpt_neo_attention(b, c, layer, h));
    h          = lm_layer_norm(b, "ln_2", x, c->norm_eps, true);
    return lm_add(b, x, lm_gpt2_mlp(b, c, lm_linear, h));
}

static lm_value gpt_neo_build(lm_builder *b, const lm_config *c)
{
    return lm_gpt2_frame(b, c, gpt_neo_block);
}

static lm_status wrong_types(const lm_source *s, const char *message, lm_error *e)
{
    lm_fail(e, LM_BAD_MODEL, "attention_types", LM_NO_OFFSET, "%s", message);
    return lm_fail_in(e, lm_meta_file(s->meta));
}

/* Read one `[kinds, times]` group and advance `*layer` past its layers. */
static lm_status read_group(const lm_source *s, lm_config *c, const lm_meta_value *group, uint32_t *layer,
                            lm_error *e)
{
    lm_meta_value kinds, kind, times;

    if (group->kind != LM_META_ARRAY || group->a.n != 2 || !lm_meta_at(group, 0, &kinds) ||
        kinds.kind != LM_META_ARRAY || !kinds.a.n || !lm_meta_at(group, 1, &times) ||
        times.kind != LM_META_UINT)
        return wrong_types(s, "is not a list of [kinds of layers, how often]", e);
    if (times.u > c->n_layers || kinds.a.n > c->n_layers || times.u * kinds.a.n > c->n_layers - *layer)
        return wrong_types(s, "describes more layers than there are", e);
    for (uint64_t i = 0; i < times.u * kinds.a.n; i++) {
        bool known = lm_meta_at(&kinds, i % kinds.a.n, &kind) && kind.kind == LM_META_STRING;
        c->full[(*layer)++] = known && lm_view_is(kind.s, "global");
        if (!known || (!lm_view_is(kind.s, "global") && !lm_view_is(kind.s, "local")))
            return wrong_types(s, "names a kind of layer that is not known", e);
    }
    return LM_OK;
}

/* Read [[["global", "local"], 12]]: the list is repeated that many times. Without it the two kinds
 * alternate. */
lm_status lm_read_attention_types(const lm_source *s, lm_config *c, lm_error *e)
{
    lm_meta_value list, group;
    uint32_t      layer = 0;

    if (!lm_meta_has(s->meta, "attention_types")) {
        for (uint32_t i = 0; i < c->n_layers; i++)
            c->full[i] = i % 2 == 0;
        return LM_OK;
    }
    LM_TRY(lm_meta_array(s->meta, "attention_types", LM_MAX_LAYERS, &list, e));
    for (uint64_t g = 0; g < list.a.n; g++) {
        if (!lm_meta_at(&list, g, &group))
            return wrong_types(s, "is not a list of [kinds of layers, how often]", e);
        LM_TRY(read_group(s, c, &group, &layer, e));
    }
    return layer == c->n_layers ? LM_OK : wrong_types(s, "describes fewer layers than there are", e);
}

static lm_status gpt_neo_configure(const lm_source *s, lm_config *c, lm_error *e)
{
    LM_TRY(lm_read_vocabulary(s, c, e));
    LM_TRY(lm_read_u32(s, "hidden_size", NULL, 1, 1u << 20, -1, &c->hidden, e));
    LM_TRY(lm_read_u32(s, "num_layers", NULL, 1, LM_MAX_LAYERS, -1, &c->n_layers, e));
    LM_TRY(lm_read_u32(s, "num_heads", NULL, 1, 1024, -1, &c->n_heads, e));
    LM_TRY(
        lm_read_u32(s, "intermediate_size", NULL, 1, 1u << 20, 4 * (int64_t)c->hidden, &c->intermediate, e));
    LM_TRY(lm_read_u32(s, "max_position_embeddings", NULL, 1, 1u << 24, 2048, &c->context_length, e));
    LM_TRY(lm_read_f32(s, "layer_norm_epsilon", NULL, 1e-20, 1, 1e-5, &c->norm_eps, e));
    LM_TRY(lm_read_act(s, "activation_function", LM_ACT_GELU_TANH, c, e));
    LM_TRY(lm_read_head_dim(s, "num_heads", c, e));
    c->n_kv_heads      = c->n_heads;
    c->attention       = lm_plain_attention(c);
    c->attention.scale = 1;
    LM_TRY(lm_read_u32(s, "window_size", NULL, 1, UINT32_MAX, 256, &c->attention.window, e));
    return lm_read_attention_types(s, c, e);
}

const lm_family lm_family_gpt_neo = {
    .name         = "gpt_neo",
    .class_prefix = "GPTNeo",
    .hf_types     = (const char *const[]){ "gpt_neo", NULL },
    .gguf_archs   = (const char *const[]){ NULL },
    .orders       = (const lm_order[]){ { "SelfAttention",
                                          "attn_dropout resid_dropout k_proj v_proj q_proj out_proj" },
                                          { NULL, NULL } },
    .act_name     = "act",
    .act_class    = "NewGELUActivation",
    .dropout_keys = (const char *const[]){ "embed_dropout", "attention_dropout", "resid_dropout" },
    .configure    = gpt_neo_configure,
    .build        = gpt_neo_build,
    .names        = (const lm_name[]){ { NULL, NULL } },
    .defaults     = (const lm_default[]){ { "tie_word_embeddings", true }, { NULL, 0 } },
    .keys         = (const char *const[]){ "num_layers", "num_heads", "layer_norm_epsilon", "activation_function", "window_size",
                                           "attention_types", "attention_layers", "resid_dropout", "embed_dropout",
                                           "classifier_dropout", "summary_type", "summary_use_proj", "summary_activation",
                                           "summary_first_dropout", "summary_proj_to_labels", NULL },
    .ignorable    = (const char *const[]){ "*.attn.attention.bias", "*.attn.attention.masked_bias", NULL },
};
