/* keys.c - members of config.json that are not read: harmless, dangerous, or unknown. */
#include <stdio.h>
#include <string.h>

#include "arch/config.h"

/* Read by every family, or without effect on the forward pass. */
static const char *const common[] = {
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "head_dim", "max_position_embeddings", "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters",
    "original_max_position_embeddings", "tie_word_embeddings", "model_type", "architectures", "torch_dtype", "dtype",
    "bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id", "decoder_start_token_id",
    "transformers_version", "_name_or_path", "name_or_path", "auto_map", "use_cache", "initializer_range",
    "attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "dropout", "layerdrop",
    "output_attentions", "output_hidden_states", "output_router_logits", "return_dict", "id2label", "label2id",
    "problem_type", "task_specific_params", "_attn_implementation", "attn_implementation", "_attn_implementation_autoset",
    "gradient_checkpointing", "chunk_size_feed_forward", "is_encoder_decoder", "is_decoder", "add_cross_attention",
    "torchscript", "use_bfloat16", "pruned_heads", "tokenizer_class", "prefix", "finetuning_task", "use_return_dict",
    "cross_attention_hidden_size", "tie_encoder_decoder", "tf_legacy_loss", "return_dict_in_generate", "max_length",
    "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty", "temperature",
    "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "num_labels", "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores", "forced_bos_token_id",
    "forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens",
    "begin_suppress_tokens", "transformers.js_config", "is_llama_config", "unsloth_version", "unsloth_fixed",
    "quantization", "use_flash_attn", "max_sequence_length", "model_max_length", NULL,
};

/* Members that change the computation in some family; neutral values are accepted in every family. */
static const char *const architectural[] = {
    "sliding_window", "use_sliding_window", "layer_types", "max_window_layers", "attention_types",
    "window_size", "attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar", "embedding_multiplier",
    "residual_multiplier", "attention_multiplier", "logits_scaling", "logit_scale", "partial_rotary_factor", "rotary_dim",
    "rotary_pct", "no_rope_layers", "use_qk_norm", "qk_layernorm", "num_local_experts", "num_experts", "n_routed_experts",
    "num_experts_per_tok", "q_lora_rank", "kv_lora_rank", "alibi", "parallel_attn", "use_parallel_residual",
    "new_decoder_architecture", "multi_query", "use_bias", "use_qkv_bias", "qkv_bias", "scale_embedding", "hidden_activation",
    "activation_function", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "attention_sink", "attn_config",
    "first_k_dense_replace", "clip_qkv", "attention_chunk_size", "layer_norm_elementwise_affine", "adapter", "mup_enabled",
    "scale_emb", "scale_depth", "dim_model_base", "attn_type", "qk_ln", "prefix_lm", "kv_n_heads", "alibi_bias_max",
    "softmax_scale", "expansion_ratio", "num_kv_heads", "num_ln_in_parallel_attn", "bias", "rope", "attention_bias", "mlp_bias",
    "add_cross_attention", "sliding_window_pattern", "_sliding_window_pattern", "rope_local_base_freq",
    "use_bidirectional_attention",
    "no_rope_layer_interval", "shared_expert_intermediate_size", "shared_intermediate_size", "moe_intermediate_size",
    "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers", "swiglu_alpha", "swiglu_limit", "num_shared_experts",
    "use_embedding_sharing", "rotary", NULL,
};

static bool listed(const char *const *list, lm_view word)
{
    for (; list && *list; list++)
        if (lm_view_is(word, *list))
            return true;
    return false;
}

/* Return whether a value enables nothing: null, false, 0, an empty string, list or object. */
static bool neutral(const lm_meta_value *v)
{
    switch (v->kind) {
    case LM_META_NULL:
        return true;
    case LM_META_BOOL:
        return !v->b;
    case LM_META_INT:
    case LM_META_UINT:
        return v->u == 0;
    case LM_META_FLOAT:
        return v->f == 0;
    case LM_META_STRING:
        return v->s.size == 0;
    case LM_META_ARRAY:
    case LM_META_OBJECT:
        return v->a.n == 0;
    }
    return false;
}

/* Handle quantised weights. Quantisation does not change the architecture, so a description without weights
 * ignores it; with weights it is an error. */
static lm_status check_quantised(const lm_source *s, const lm_family *f, const lm_meta_value *v,
                                 lm_text *warnings, lm_error *e)
{
    lm_view       key, method = LM_VIEW("an unnamed method");
    lm_meta_value member;

    if (f->ternary && lm_is_ternary(s))
        return LM_OK;
    for (uint64_t i = 0; v->kind == LM_META_OBJECT && lm_meta_member(v, i, &key, &member); i++)
        if (lm_view_is(key, "quant_method") && member.kind == LM_META_STRING)
            method = member.s;
    if (s->tensors) {
        lm_fail(e, LM_UNSUPPORTED, "quantization_config", LM_NO_OFFSET,
                "weights quantised by %.*s are not read; GGUF files and floats are",
                (int)(method.size < 40 ? method.size : 40), method.data);
        return lm_fail_in(e, lm_meta_file(s->meta));
    }
    if (warnings)
        lm_text_printf(warnings,
                       "quantization_config: the published weights are quantised by %.*s; they are counted "
                       "as if they were not\n",
                       (int)(method.size < 40 ? method.size : 40), method.data);
    return LM_OK;
}

/* `path`: the full name, such as "attn_config/alibi" for a member of an object. */
static lm_status check(const lm_source *s, const lm_family *f, const char *path, lm_view key,
                       const lm_meta_value *v, lm_text *warnings, lm_error *e)
{
    if (listed(f->keys, lm_view_of(path)) || neutral(v))
        return LM_OK;
    if (strcmp(path, "quantization_config") == 0)
        return check_quantised(s, f, v, warnings, e);
    if (listed(architectural, key)) {
        lm_fail(e, LM_UNSUPPORTED, path, LM_NO_OFFSET,
                "changes the architecture in a way that family %s has no form for", f->name);
        return lm_fail_in(e, lm_meta_file(s->meta));
    }
    if (warnings)
        lm_text_printf(warnings, "config key \"%s\" is not known and has no effect\n", path);
    return LM_OK;
}

/* Return whether the family lists members of this object, such as "attn_config/…". */
static bool reads_members(const lm_family *f, lm_view key)
{
    for (const char *const *k = f->keys; k && *k; k++)
        if (strlen(*k) > key.size && memcmp(*k, key.data, key.size) == 0 &&
            (*k)[key.size] == '/')     /* a key may contain a NUL */
            return true;
    return false;
}

lm_status lm_check_keys(const lm_source *s, const lm_family *f, lm_text *warnings, lm_error *e)
{
    lm_view key, inner;
    lm_meta_value v, member;
    char path[96];

    for (size_t i = 0; lm_meta_entry(s->meta, i, &key, &v); i++) {
        if (listed(common, key))
            continue;
        if (v.kind != LM_META_OBJECT || !reads_members(f, key)) {
            snprintf(path, sizeof path, "%.*s", (int)(key.size < 64 ? key.size : 64), key.data);
            LM_TRY(check(s, f, path, key, &v, warnings, e));
            continue;
        }
        for (uint64_t k = 0; lm_meta_member(&v, k, &inner, &member); k++) {
            snprintf(path, sizeof path, "%.*s/%.*s", (int)(key.size < 40 ? key.size : 40), key.data,
                     (int)(inner.size < 40 ? inner.size : 40), inner.data);
            LM_TRY(listed(common, inner) ? LM_OK : check(s, f, path, inner, &member, warnings, e));
        }
    }
    return LM_OK;
}

/* ---- GGUF ---- */

/* Keys of all architectures that describe how the file was made, or that only other tools read. */
static const char *const unread[] = {
    "rope.scaling.finetuned", "nextn_predict_layers", "tensor_data_layout", "attention.causal",
    "rope.dimension_sections",           /* which of three positions turn, which are equal for text */
    NULL,
};

/* Layouts in which q and k are stored as the family's converters write them; no other values are known. */
static const char *const layouts[] = { "Meta AI original pth", "jploski", "reference", NULL };

static bool is_read(const lm_text *keys_read, lm_view key)
{
    for (size_t at = 0; at < keys_read->size; at += strlen(keys_read->data + at) + 1)
        if (lm_view_is(key, keys_read->data + at))
            return true;
    return false;
}

static lm_status refuse(const lm_source *s, const char *key, const char *what, lm_error *e)
{
    lm_fail(e, LM_UNSUPPORTED, key, LM_NO_OFFSET, "%s", what);
    return lm_fail_in(e, lm_meta_file(s->meta));
}

/* Check the keys of `unread` that could have an unsupported value. */
static lm_status check_unread(const lm_source *s, lm_error *e)
{
    char key[128];
    lm_view layout;
    bool causal = true;

    if (lm_meta_has(s->meta, lm_gguf_key(s, "attention.causal", key, sizeof key)))
        LM_TRY(lm_meta_bool(s->meta, key, &causal, e));
    if (!causal)
        return refuse(s, key, "attention in both directions has no form here", e);
    if (!lm_meta_has(s->meta, lm_gguf_key(s, "tensor_data_layout", key, sizeof key)))
        return LM_OK;
    LM_TRY(lm_meta_string(s->meta, key, &layout, e));
    return listed(layouts, layout) ? LM_OK : refuse(s, key, "names a layout that is not known", e);
}

lm_status lm_check_gguf_keys(const lm_source *s, const lm_family *f, lm_error *e)
{
    size_t prefix = strlen(s->arch);
    lm_view key;
    lm_meta_value v;

    LM_TRY(check_unread(s, e));
    for (size_t i = 0; lm_meta_entry(s->meta, i, &key, &v); i++) {
        if (key.size <= prefix || memcmp(key.data, s->arch, prefix) != 0 || key.data[prefix] != '.' ||
            is_read(s->keys_read, key))
            continue;
        lm_view name = { key.data + prefix + 1, key.size - prefix - 1 };
        if (!neutral(&v) && !listed(unread, name) && !listed(f->gguf_unread, name))
            lm_source_warn(s, "key \"%.*s\" has no effect on this model",
                           (int)(key.size < 128 ? key.size : 128), key.data);
    }
    return LM_OK;
}
