/* toy.c - reduce all sizes of a preset's configuration, and create random weights for it. */
#include "study/models/toy.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/jsontext.h"
#include "base/os/temporary.h"
#include "lamina/preset.h"
#include "lamina/synth.h"

/* Names of sizes and their reduced values. Heads are handled separately, because the ratio of their numbers
 * is preserved. */
static const struct { const char *key; int to; } sizes[] = {
    { "hidden_size", 8 },     { "n_embd", 8 },              { "d_model", 8 },           { "dim", 8 },
    { "num_hidden_layers", 2 }, { "n_layer", 2 },           { "n_layers", 2 },          { "num_layers", 2 },
    { "head_dim", 4 },        { "kv_channels", 4 },         { "intermediate_size", 12 }, { "n_inner", 12 },        { "ffn_dim", 12 },
    { "dff", 12 },            { "ffn_hidden_size", 12 },    { "moe_intermediate_size", 6 }, { "shared_expert_intermediate_size", 6 },
    { "shared_intermediate_size", 6 },                      { "vocab_size", 16 },       { "padded_vocab_size", 16 },
    { "max_position_embeddings", 16 }, { "n_positions", 16 }, { "n_ctx", 16 },          { "max_seq_len", 16 },     { "seq_length", 16 },
    { "sliding_window", 3 },  { "window_size", 3 },         { "rotary_dim", 2 },        { "q_lora_rank", 6 },      { "kv_lora_rank", 6 },
    { "qk_nope_head_dim", 4 }, { "qk_rope_head_dim", 2 },   { "v_head_dim", 4 },        { "n_routed_experts", 4 }, { "num_local_experts", 4 },
    { "num_experts", 4 },     { "num_experts_per_tok", 2 }, { "n_group", 2 },           { "topk_group", 1 },       { "n_shared_experts", 1 },
    { "index_n_heads", 2 },   { "index_head_dim", 4 },      { "index_topk", 2 },
    { "first_k_dense_replace", 1 }, { "word_embed_proj_dim", 8 }, { "query_pre_attn_scalar", 4 },
    { "bos_token_id", 0 },    { "eos_token_id", 1 },        { "pad_token_id", 1 },      { "decoder_start_token_id", 0 },
};

static int64_t number_of(const json_t *config, const char *const *keys)
{
    for (; *keys; keys++)
        if (json_is_integer(json_object_get(config, *keys)))
            return json_integer_value(json_object_get(config, *keys));
    return 0;
}

static void put(json_t *config, const char *const *keys, int to)
{
    for (; *keys; keys++)
        if (json_is_integer(json_object_get(config, *keys)))
            json_object_set_new(config, *keys, json_integer(to));
}

/* Set the number of query and key/value heads: 2 and 2, 4 and 2, or 4 and 1. */
static void shrink_heads(json_t *config)
{
    static const char *const query[] = { "num_attention_heads", "n_head",          "n_heads",
                                         "num_heads",           "attention_heads", NULL };
    static const char *const keys[] = { "num_key_value_heads", "num_kv_heads", "n_head_kv",
                                        "multi_query_group_num", NULL };
    int64_t heads = number_of(config, query), groups = number_of(config, keys);
    bool    shared = groups && groups < heads;

    put(config, query, shared ? 4 : 2);
    put(config, keys, groups == 1 ? 1 : 2);
}

/* Keep the kind of the first layer, and a different one if there is any. */
static void shrink_kinds(json_t *config, const char *key)
{
    json_t *kinds = json_object_get(config, key), *out;

    if (!json_is_array(kinds) || json_array_size(kinds) < 2)
        return;
    out = json_array();
    json_array_append(out, json_array_get(kinds, 0));
    size_t i = 1;
    while (i + 1 < json_array_size(kinds) && json_equal(json_array_get(kinds, i), json_array_get(kinds, 0)))
        i++;
    json_array_append(out, json_array_get(kinds, i));
    json_object_set_new(config, key, out);
}

/* Truncate the per-frequency factors to the remaining pairs. */
static void shrink_scaling(json_t *config)
{
    static const char *const lists[] = { "short_factor", "long_factor" };
    json_t *scaling = json_object_get(config, "rope_scaling");

    for (size_t k = 0; json_is_object(scaling) && k < 2; k++) {
        json_t *list = json_object_get(scaling, lists[k]), *out = json_array();
        for (size_t i = 0; i < 2 && i < json_array_size(list); i++)
            json_array_append(out, json_array_get(list, i));
        if (json_is_array(list))
            json_object_set(scaling, lists[k], out);
        json_decref(out);
    }
    if (json_is_object(scaling) && json_object_get(scaling, "original_max_position_embeddings"))
        json_object_set_new(scaling, "original_max_position_embeddings", json_integer(8));
    if (json_object_get(config, "original_max_position_embeddings"))
        json_object_set_new(config, "original_max_position_embeddings", json_integer(8));
}

static json_t *shrunk(const char *text)
{
    static const char *const shares[] = { "rotary_pct", "partial_rotary_factor", "rotary_percentage" };
    json_t *config = json_loads(text, 0, NULL);

    if (!config)
        return NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (json_is_integer(json_object_get(config, sizes[i].key)))
            json_object_set_new(config, sizes[i].key, json_integer(sizes[i].to));
    if (json_is_real(json_object_get(config, "query_pre_attn_scalar")))
        json_object_set_new(config, "query_pre_attn_scalar", json_real(4));
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        if (json_is_number(json_object_get(config, shares[i])) &&
            json_number_value(json_object_get(config, shares[i])) < 1)
            json_object_set_new(config, shares[i], json_real(0.5));      /* one pair of four dimensions */
    if (json_is_array(json_object_get(config, "attention_types")))
        json_object_set_new(config, "attention_types", json_pack("[[[s, s], i]]", "global", "local", 1));
    shrink_heads(config);
    shrink_kinds(config, "layer_types");
    shrink_kinds(config, "indexer_types");
    shrink_kinds(config, "attention_layers");
    shrink_kinds(config, "no_rope_layers");
    shrink_scaling(config);
    return config;
}

/* Create a separate folder that can be removed completely in every case. */
static lm_status make_folder(lm_toy *t, lm_error *e)
{
    const char *parent = getenv("TMPDIR");
    char        beside[PATH_MAX];

    if (snprintf(beside, sizeof beside, "%s/lamina-toy", parent && *parent ? parent : "/tmp") >=
        (int)sizeof beside)
        return lm_fail(e, LM_USAGE, "TMPDIR", LM_NO_OFFSET, "is too long a path");
    t->held = lm_temporary_folder(beside, t->folder);
    return t->held < 0 ? lm_fail(e, LM_IO, parent && *parent ? parent : "/tmp", LM_NO_OFFSET,
                                 "cannot create a temporary folder for a small copy of the model: %s; TMPDIR "
                                 "names another place",
                                 strerror(errno))
                       : LM_OK;
}

static lm_status write_config(const lm_model *m, const char *path, lm_error *e)
{
    json_t *config = shrunk(m->preset->config);
    lm_text text = { 0 };

    if (!config)
        return lm_fail_memory(e, "a small configuration", 0);
    bool good = lm_json_print(config, JSON_INDENT(2), &text);
    json_decref(config);
    lm_status status = good ? lm_text_save(&text, path, e) : lm_fail_memory(e, "a small configuration", 0);
    lm_text_free(&text);
    return status;
}

static lm_status build(const lm_model *m, lm_toy *t, lm_error *e)
{
    lm_synth_options o = lm_synth_defaults();
    lm_synth_result r;
    lm_model_options options = lm_model_defaults();
    char config[PATH_MAX + 16], weights[PATH_MAX + 16];

    LM_TRY(make_folder(t, e));
    snprintf(config, sizeof config, "%s/config.json", t->folder);
    snprintf(weights, sizeof weights, "%s/weights", t->folder);
    LM_TRY(write_config(m, config, e));
    o.type = "f32";
    o.threads = 1;
    LM_TRY(lm_synth(config, weights, &o, &r, e));
    options.tokenizer_optional = true;
    return lm_model_open(weights, &options, &t->model, e);
}

lm_status lm_toy_new(const lm_model *m, lm_toy *out, lm_error *e)
{
    *out = (lm_toy){ .held = -1 };
    if (!m->preset)
        return lm_fail(
            e, LM_USAGE, m->name, LM_NO_OFFSET,
            "has no weights: a forward pass with numbers requires a model file or folder, or a preset, of "
            "which a small one is made");
    lm_status status = build(m, out, e);
    return status == LM_OK || status == LM_IO || status == LM_NO_MEMORY
               ? status
               : lm_fail(e, LM_UNSUPPORTED, m->name, LM_NO_OFFSET,
                         "has a form of which no small model can be made: %s", e ? e->message : "");
}

void lm_toy_free(lm_toy *t)
{
    char weights[PATH_MAX + 16];

    lm_model_close(t->model);
    if (t->held >= 0) {
        snprintf(weights, sizeof weights, "%s/weights", t->folder);
        lm_remove_folder(weights);
        lm_remove_folder(t->folder);
        close(t->held);
    }
    *t = (lm_toy){ .held = -1 };
}
