/* configwords.c - express a configuration as members of config.json. */
#include "export/keys/configwords.h"

#include <math.h>
#include <string.h>

#include "base/jsontext.h"
#include "base/number.h"
#include "export/keys/scalingwords.h"

const lm_config_word lm_config_words[] = {
    { "attention_bias", { "true", "false" } },
    { "attention_k_eq_v", { "true", "false" } },
    { "mlp_bias", { "true", "false" } },
    { "lm_head_bias", { "true", "false" } },
    { "use_bias", { "true", "false" } },
    { "bias", { "true", "false" } },
    { "use_qkv_bias", { "true", "false" } },
    { "qkv_bias", { "true", "false" } },
    { "use_parallel_residual", { "true", "false" } },
    { "qk_layernorm", { "true", "false" } },
    { "use_qk_norm", { "true", "false" } },
    { "gating", { "true", "\"per-element\"" } },
    { "norm_topk_prob", { "true", "false" } },
    { "new_decoder_architecture", { "true", "false" } },
    { "num_ln_in_parallel_attn", { "1", "2" } },
    { "parallel_attn", { "true", "false" } },
    { "multi_query", { "true", "false" } },
    { "alibi", { "true", "false" } },
    { "no_bias", { "true", "false" } },
    { "sliding_window", { "null" } },
    { "use_sliding_window", { "true", "false" } },
    { "block_auto_adjust_ff_dim", { "false" } },
    { "position_embedding_type", { "\"rope\"", "null" } },
    { "scoring_func", { "\"softmax\"", "\"sigmoid\"" } },
    { "topk_method", { "\"greedy\"", "\"group_limited_greedy\"", "\"noaux_tc\"" } },
    { "rope_interleave", { "true", "false" } },
    { "hidden_act", { "\"silu\"", "\"gelu\"", "\"gelu_pytorch_tanh\"", "\"relu\"", "\"relu2\"" } },
    { "hidden_activation", { "\"gelu_pytorch_tanh\"", "\"gelu\"", "\"silu\"" } },
    { "activation_function", { "\"gelu_new\"", "\"gelu\"", "\"relu\"", "\"silu\"" } },
    { "final_logit_softcapping", { "null" } },
    { "attn_logit_softcapping", { "null" } },
    { NULL, { NULL } },
};

typedef struct words {
    json_t             *json;
    const lm_container *stored;
    const lm_family    *f;
    const lm_config    *c;
    const lm_program   *p;
} words;

static bool knows(const words *w, const char *member)
{
    for (const char *const *k = w->f->keys; k && *k; k++)
        if (strcmp(*k, member) == 0)
            return true;
    return false;
}

/* Set a member if the family reads it and it is not set yet. Takes the reference. */
static void set(words *w, const char *member, json_t *v)
{
    if (knows(w, member) && !json_object_get(w->json, member))
        json_object_set_new(w->json, member, v);
    else
        json_decref(v);
}

static void whole(words *w, const char *member, uint64_t v)
{
    set(w, member, json_integer((json_int_t)v));
}

/* Write the numbers, from 1, of the layers with a state and of the others, and the heads of a state. */
static void add_state_lists(words *w)
{
    json_t *lists[2] = { json_array(), json_array() }, *inner = json_object_get(w->json, "linear_attn_config");

    for (uint32_t i = 0; i < w->c->n_layers; i++)
        json_array_append_new(lists[w->c->stateful[i]], json_integer(i + 1));
    if (!inner)
        json_object_set_new(w->json, "linear_attn_config", inner = json_object());
    json_object_set_new(inner, "full_attn_layers", lists[0]);
    json_object_set_new(inner, "kda_layers", lists[1]);
    json_object_set_new(inner, "num_heads", json_integer(w->c->n_heads));
}

/* Write the numbers, from 0, of the layers with attention, and the lanes of a head that rotate. */
static void add_attention_list(words *w)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < w->c->n_layers; i++)
        if (!w->c->stateful[i])
            json_array_append_new(list, json_integer(i));
    set(w, "attn_layer_indices", list);
    whole(w, "attn_rotary_emb", w->c->rope.dim);
}

/* Write which layers have a state. */
static void add_states(words *w)
{
    json_t *list = json_array();
    bool    some = false;

    for (uint32_t i = 0; i < w->c->n_layers; i++) {
        some |= w->c->stateful[i];
        json_array_append_new(list, json_string(w->c->stateful[i]      ? w->f->state_word
                                                : w->f->attention_word ? w->f->attention_word
                                                                       : "full_attention"));
    }
    if (some && knows(w, "linear_attn_config/kda_layers"))
        add_state_lists(w);
    else if (some && knows(w, "attn_layer_indices"))
        add_attention_list(w);
    else if (some)
        set(w, "layer_types", json_incref(list));
    json_decref(list);
}

/* Write a member whose name depends on the family. */
static void set_named(words *w, const char *member, json_t *v)
{
    if (member)
        set(w, member, v);
    else
        json_decref(v);
}

/* Write the kinds of layers that have one part each. */
static void add_pattern(words *w)
{
    const lm_config *c = w->c;
    char             pattern[LM_MAX_LAYERS + 1] = "";

    for (uint32_t i = 0; i < c->n_layers; i++)
        pattern[i] = c->stateful[i] ? 'M' : !c->no_attention[i] ? '*' : c->route.n_experts ? 'E' : '-';
    set(w, "hybrid_override_pattern", json_string(pattern));
}

static void add_mamba(words *w)
{
    const lm_mamba_keys *k     = w->f->mamba;
    const lm_config     *c     = w->c;
    uint32_t             inner = c->mamba.n_heads * c->mamba.head_dim;

    if (!k || !inner)
        return;
    add_pattern(w);
    set_named(w, k->head_dim, json_integer(c->mamba.head_dim));
    set_named(w, k->inner, json_integer(inner));
    if (inner % c->hidden == 0)
        set_named(w, k->expand, json_integer(inner / c->hidden));
    set_named(w, k->conv_bias, json_boolean(c->mamba.conv_bias));
    set_named(w, k->in_bias, json_boolean(c->mamba.in_bias));
    set_named(w, k->out_bias, json_boolean(c->mamba.out_bias));
}

/* Write which layers have an indexer and which share the choice of an earlier one. */
static void add_choices(words *w)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < w->c->n_layers; i++)
        json_array_append_new(list, json_string(w->c->shared_choice[i] ? "shared" : "full"));
    set(w, "indexer_types", list);
}

/* Write which layers choose blocks of keys, and which have experts. */
static void add_blocks(words *w)
{
    json_t *sparse = json_array(), *experts = json_array(),
           *in     = json_object_get(w->json, "sparse_attention_config");
    bool    has[2][LM_MAX_LAYERS] = { { false } };

    for (uint32_t i = 0; i < w->p->n_nodes; i++)
        if (w->p->nodes[i].layer >= 0) {
            has[0][w->p->nodes[i].layer] |= w->p->nodes[i].code == LM_OP_SELECT_KEYS;
            has[1][w->p->nodes[i].layer] |= w->p->nodes[i].code == LM_OP_EXPERTS;
        }
    for (uint32_t i = 0; i < w->c->n_layers; i++) {
        json_array_append_new(sparse, json_integer(has[0][i]));
        json_array_append_new(experts, json_integer(has[1][i]));
    }
    set(w, "moe_layer_freq", experts);
    json_object_set_new(in, "sparse_attention_freq", sparse);
}

static void add_windows(words *w)
{
    const lm_config *c    = w->c;
    json_t          *list = json_array(), *rotates = json_array();
    const char      *local = c->attention.chunked ? "chunked_attention" : "sliding_attention";
    bool             some  = false;

    for (uint32_t i = 0; i < c->n_layers; i++) {
        bool full = c->full[i] || !c->attention.window;
        some |= !full;
        json_array_append_new(list, json_string(full ? "full_attention" : local));
        json_array_append_new(rotates, json_integer(!full));
    }
    if (c->attention.window)
        whole(w, c->attention.chunked ? "attention_chunk_size" : "sliding_window", c->attention.window);
    if (c->attention.chunked)            /* the same layers rotate */
        set(w, "no_rope_layers", json_incref(rotates));
    json_decref(rotates);
    if (some)
        set(w, "use_sliding_window", json_true());
    if (c->attention.window && knows(w, "layer_types"))
        set(w, "layer_types", json_incref(list));
    json_decref(list);
    add_states(w);
    add_choices(w);
    if (c->attention.block)
        add_blocks(w);
    if (c->attention.scale != 1 / sqrtf((float)c->attention.k_dim) || knows(w, "query_pre_attn_scalar"))
        set(w, "query_pre_attn_scalar",
            lm_json_float(1 / ((double)c->attention.scale * (double)c->attention.scale)));
    if (c->attention.softcap > 0)
        set(w, "attn_logit_softcapping", lm_json_float((double)c->attention.softcap));
}

/* Write which layers have a mixture, unless a number says it. */
static void add_mlp_kinds(words *w)
{
    bool    sparse[LM_MAX_LAYERS] = { false };
    json_t *list                  = json_array();

    for (uint32_t i = 0; i < w->p->n_nodes; i++)
        if (w->p->nodes[i].code == LM_OP_ROUTE && w->p->nodes[i].layer >= 0)
            sparse[w->p->nodes[i].layer] = true;
    for (uint32_t i = 0; i < w->c->n_layers; i++)
        json_array_append_new(list, json_string(sparse[i] ? "sparse" : "dense"));
    if (!json_object_get(w->json, "first_k_dense_replace"))
        set(w, "mlp_layer_types", json_incref(list));
    json_decref(list);
}

static void add_experts(words *w)
{
    const lm_config *c = w->c;

    if (c->latent.kv_rank) {
        set(w, "q_lora_rank", c->latent.q_rank ? json_integer(c->latent.q_rank) : json_null());
        whole(w, "kv_lora_rank", c->latent.kv_rank);
        whole(w, "qk_nope_head_dim", c->latent.nope_dim);
        whole(w, "qk_rope_head_dim", c->latent.rope_dim);
        whole(w, "v_head_dim", c->latent.v_dim);
        if (!knows(w, "head_dim"))       /* which may be that of another attention */
            json_object_del(w->json, "head_dim");
        json_object_set_new(w->json, "num_key_value_heads", json_integer(c->n_kv_heads));
    }
    if (knows(w, "intermediate_size_mlp") || knows(w, "prefix_dense_intermediate_size")) {
        json_object_set_new(w->json, "intermediate_size", json_integer(c->expert_width));
        whole(w, "intermediate_size_mlp", c->intermediate);
        whole(w, "prefix_dense_intermediate_size", c->intermediate);
    }
    if (knows(w, "dense_intermediate_size")) {
        json_object_set_new(w->json, "intermediate_size", json_integer(c->expert_width));
        whole(w, "dense_intermediate_size", c->intermediate);
        whole(w, "rotary_dim", c->rope.dim);
        set(w, "hidden_act", json_string("swigluoai"));
    }
    whole(w, "num_local_experts", c->route.n_experts);
    if (!c->route.n_experts)
        whole(w, "num_experts", 1);      /* one is a plain MLP */
    if (c->shared_width)
        whole(w, "shared_intermediate_size", c->shared_width);
    if (!c->route.n_experts)
        return;
    whole(w, "num_experts", c->route.n_experts);
    whole(w, "n_routed_experts", c->route.n_experts);
    whole(w, "num_experts_per_tok", c->route.top_k);
    whole(w, "moe_intermediate_size", c->expert_width);
    whole(w, "shared_expert_intermediate_size", c->shared_width);
    whole(w, "shared_intermediate_size", c->shared_width);
    if (c->expert_width)
        set(w, "n_shared_experts",
            c->shared_width ? json_integer(c->shared_width / c->expert_width) : json_null());
    if (c->expert_width && w->f->mixture)        /* which GGUF files may have as a width only */
        set_named(w, w->f->mixture->shared, json_integer(c->shared_width / c->expert_width));
    if (c->route.n_groups) {
        whole(w, "n_group", c->route.n_groups);
        whole(w, "topk_group", c->route.top_groups);
    }
    set(w, "norm_topk_prob", json_boolean(c->route.renormalise));
    set(w, "routed_scaling_factor", lm_json_float((double)c->route.scale));
    set(w, "scoring_func", json_string(lm_route_function(&c->route)));
    set(w, "moe_router_activation_func", json_string(lm_route_function(&c->route)));
    set(w, "expert_selection_fn", json_string(lm_route_function(&c->route)));
    add_mlp_kinds(w);
    set(w, "num_expert_group", json_integer(c->route.n_groups));
    set(w, "topk_method",
        json_string(c->route.sigmoid || c->route.root_softplus ? "noaux_tc"
                    : c->route.n_groups                        ? "group_limited_greedy"
                                                               : "greedy"));
}

static void add_act(words *w)
{
    static const struct { lm_act act; const char *word; } acts[] = {
        { LM_ACT_SILU, "silu" }, { LM_ACT_GELU, "gelu" }, { LM_ACT_GELU_TANH, "gelu_pytorch_tanh" }, { LM_ACT_GELU_QUICK, "quick_gelu" },
        { LM_ACT_RELU, "relu" }, { LM_ACT_RELU2, "relu2" },
    };
    static const char *const members[] = { "hidden_act", "hidden_activation", "activation_function" };

    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        for (size_t k = 0; acts[i].act == w->c->act && k < 3; k++)
            set(w, members[k], json_string(acts[i].word));
}

/* Write the share of a head's lanes that rotate, unless all do. Readers round their product down. */
static void add_share(words *w, json_t *rope, uint32_t lanes, uint32_t head_dim)
{
    float share = (float)lanes / (float)head_dim;

    while ((uint32_t)(head_dim * lm_decimal(share)) < lanes)
        share = nextafterf(share, 1);
    if (lanes != head_dim && knows(w, "partial_rotary_factor"))
        json_object_set_new(rope, "partial_rotary_factor", lm_json_float((double)share));
}

/* Write the rotation of each kind of layer. Takes the reference. */
static void add_two_ropes(words *w, json_t *scaling)
{
    json_t *full  = scaling ? scaling : json_pack("{s:s}", "rope_type", "default");
    json_t *local = json_pack("{s:s, s:o}", "rope_type", "default", "rope_theta",
                              lm_json_float(w->c->local.rope.base));

    json_object_set_new(full, "rope_theta", lm_json_float(w->c->rope.base));
    add_share(w, full, w->c->rope.dim, w->c->head_dim);
    add_share(w, local, w->c->local.rope.dim, w->c->head_dim);
    json_object_set_new(w->json, "rope_parameters",
                        json_pack("{s:o, s:o}", "full_attention", full, "sliding_attention", local));
}

/* Write the rotation of layers with compressed keys and of the others. Takes the reference. */
static void add_compress(words *w, json_t *scaling)
{
    json_t *compress = scaling ? scaling : json_pack("{s:s}", "rope_type", "default");
    json_t *plain    = json_pack("{s:s, s:o}", "rope_type", "default", "rope_theta",
                                 lm_json_float(w->c->rope.base));

    json_object_set_new(compress, "rope_theta", lm_json_float(w->c->compress.base));
    add_share(w, compress, w->c->compress.dim, w->c->head_dim);
    add_share(w, plain, w->c->rope.dim, w->c->head_dim);
    json_object_set_new(w->json, "rope_parameters",
                        json_pack("{s:o, s:o}", "main", plain, "compress", compress));
}

static lm_status add_rope(words *w, lm_error *e)
{
    const lm_rope_spec *r       = w->c->compress.dim ? &w->c->compress : &w->c->rope;
    json_t             *scaling = NULL;

    if (!w->p->n_ropes)
        return LM_OK;
    if (!w->c->local.rope.dim)
        json_object_set_new(w->json, "rope_theta", lm_json_float(w->c->rope.base));
    LM_TRY(lm_scaling_words(w->stored, r, &scaling, e));
    if (r->type == LM_ROPE_LONGROPE)
        json_object_set_new(w->json, "original_max_position_embeddings", json_integer(r->original_context));
    if (scaling && w->f->temperature)
        json_object_set_new(scaling, w->f->temperature, lm_json_float((double)w->c->temperature.beta));
    if (w->c->local.rope.dim)
        add_two_ropes(w, scaling);
    else if (w->c->compress.dim)
        add_compress(w, scaling);
    else if (scaling)
        json_object_set_new(w->json, "rope_scaling", scaling);
    return LM_OK;
}

/* Write the numbers of heads, where layers with a window have others. */
static void add_heads_of_layers(words *w)
{
    const lm_config *c    = w->c;
    json_t          *list = json_array();

    for (uint32_t i = 0; i < c->n_layers; i++)
        json_array_append_new(list, json_integer(c->full[i] ? c->n_heads : c->local.n_heads));
    json_object_set_new(w->json, "num_attention_heads", json_integer(c->n_heads));
    json_object_set_new(w->json, "num_key_value_heads", json_integer(c->n_kv_heads));
    set(w, "num_attention_heads_per_layer", list);
    whole(w, "swa_num_key_value_heads", c->local.n_kv_heads);
}

/* Write what differs between layers with a window and others, and between the last layers and others. */
static void add_kinds(words *w)
{
    const lm_config *c = w->c;

    if (!c->local.head_dim)
        return;
    if (!knows(w, "num_global_key_value_heads")) {
        add_heads_of_layers(w);
        return;
    }
    json_object_set_new(w->json, "num_key_value_heads", json_integer(c->local.n_kv_heads));
    json_object_set_new(w->json, "intermediate_size", json_integer(c->intermediate));
    whole(w, "num_global_key_value_heads", c->n_kv_heads);
    whole(w, "vocab_size_per_layer_input", c->vocab_size);
    set(w, "use_double_wide_mlp", json_boolean(c->wide_readers));
    set(w, "enable_moe_block", json_boolean(c->route.n_experts > 0));
}

/* Write the share of the gates that each layer sets to zero. */
static void add_cuts(words *w)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < w->c->n_layers; i++)
        json_array_append_new(list, json_real(lm_gate_share(w->c->gate_cut[i])));
    set(w, "activation_sparsity_pattern", list);
}

/* Write the numbers that only this family has, and that GGUF files imply. */
static void add_own(words *w)
{
    for (const lm_own_number *n = w->f->own; n && (n->hf || n->gguf); n++) {
        double v = lm_own_value(w->c, n);
        if (n->hf && !n->gguf && v != n->absent)
            set(w, n->hf, n->kind == LM_OWN_U32    ? json_integer((json_int_t)v)
                          : n->kind == LM_OWN_BOOL ? json_boolean(v != 0)
                                                   : lm_json_float(v));
    }
}

/* Write what the family has for each layer. */
static void add_lists(words *w)
{
    for (const lm_layer_list *l = w->f->lists; l && (l->hf || l->gguf); l++) {
        json_t *list = json_array();
        for (uint32_t i = 0; i < w->c->n_layers; i++)
            json_array_append_new(list, l->words ? json_string(l->words[(size_t)l->of(w->c, i)])
                                                 : json_real(l->of(w->c, i)));
        if (l->hf)
            json_object_set_new(w->json, l->hf, list);
        else
            json_decref(list);
    }
}

lm_status lm_add_config_words(json_t *json, const lm_container *stored, const lm_family *f,
                              const lm_config *c, const lm_program *p, lm_error *e)
{
    words w = { json, stored, f, c, p };

    add_windows(&w);
    add_mamba(&w);
    add_experts(&w);
    add_act(&w);
    add_kinds(&w);
    add_cuts(&w);
    add_own(&w);
    add_lists(&w);
    return add_rope(&w, e);
}
