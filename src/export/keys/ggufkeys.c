/* ggufkeys.c - write a configuration as GGUF keys. */
#include "export/keys/ggufkeys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct keys {
    lm_gguf_writer *w;
    const char     *arch;
    char            name[128];
} keys;

static const char *key(keys *k, const char *name)
{
    snprintf(k->name, sizeof k->name, "%s.%s", k->arch, name);
    return k->name;
}

static void whole(keys *k, const char *name, uint32_t v)
{
    lm_gguf_add_u32(k->w, key(k, name), v);
}

static void real(keys *k, const char *name, double v)
{
    lm_gguf_add_f32(k->w, key(k, name), (float)v);
}

/* Write the numbers that only this family has. */
static void add_own(keys *k, const lm_family *f, const lm_config *c)
{
    for (const lm_own_number *n = f->own; n && (n->hf || n->gguf); n++) {
        double v = lm_own_value(c, n);
        if (!n->gguf || (v == n->absent && !n->always))
            continue;
        if (n->kind == LM_OWN_U32)
            whole(k, n->gguf, (uint32_t)v);
        else if (n->kind == LM_OWN_BOOL)
            lm_gguf_add_bool(k->w, key(k, n->gguf), v != 0);
        else
            real(k, n->gguf, v);
    }
}

/* Write what the family has for each layer. */
static void add_lists(keys *k, const lm_family *f, const lm_config *c)
{
    int32_t whole_numbers[LM_MAX_LAYERS];
    float   numbers[LM_MAX_LAYERS];

    for (const lm_layer_list *l = f->lists; l && (l->hf || l->gguf); l++) {
        for (uint32_t i = 0; i < c->n_layers; i++) {
            numbers[i]       = (float)l->of(c, i);
            whole_numbers[i] = (int32_t)numbers[i];
        }
        if (l->gguf && l->whole)
            lm_gguf_add_i32s(k->w, key(k, l->gguf), whole_numbers, c->n_layers);
        else if (l->gguf)
            lm_gguf_add_f32s(k->w, key(k, l->gguf), numbers, c->n_layers);
    }
}

const char *lm_gguf_arch_of(const lm_family *f)
{
    return f->gguf_as ? f->gguf_as : f->gguf_archs ? f->gguf_archs[0] : NULL;
}

/* Return whether the family reads this member of config.json. */
static bool knows(const lm_family *f, const char *member)
{
    for (const char *const *k = f->keys; k && *k; k++)
        if (strcmp(*k, member) == 0)
            return true;
    return false;
}

static const lm_node *first_node(const lm_program *p, lm_op_code code)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == code)
            return &p->nodes[i];
    return NULL;
}

/* Return the factor of the rotation's cosines and sines. */
static double magnitude(const lm_rope_spec *r)
{
    float frequencies[512];           /* lm_read_rope: at most 1024 lanes */

    return (double)lm_rope_frequencies(r, 1, NULL, NULL, frequencies);
}

/* Write the window, and which layers use it if not all do. */
static void add_window(keys *k, const lm_config *c)
{
    bool list[LM_MAX_LAYERS], mixed = false;

    whole(k, "attention.sliding_window", c->attention.window);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        list[i] = !c->full[i];
        mixed |= c->full[i];
    }
    if (mixed)
        lm_gguf_add_bools(k->w, key(k, "attention.sliding_window_pattern"), list, c->n_layers);
}

bool lm_layers_that_rotate(const lm_program *p, bool *list)
{
    bool others = false;

    for (uint32_t i = 0; i < p->n_layers; i++)
        list[i] = false;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_ROPE && p->nodes[i].layer >= 0)
            list[p->nodes[i].layer] = true;
    for (uint32_t i = 0; i < p->n_layers; i++)
        others |= !list[i];
    return others;
}

static lm_status add_rope(keys *k, const lm_family *f, const lm_config *c, const lm_program *p,
                          lm_error *e)
{
    const lm_rope_spec *r = c->compress.dim ? &c->compress : &c->rope;       /* which is scaled */

    if (!p->n_ropes && c->latent.kv_rank)        /* of the key that all heads share */
        whole(k, "rope.dimension_count", c->latent.rope_dim);
    if (!p->n_ropes)
        return LM_OK;
    whole(k, "rope.dimension_count", r->dim);
    if (c->sections[0])
        lm_gguf_add_i32s(k->w, key(k, "rope.dimension_sections"),
                         (const int32_t[]){ c->sections[0], c->sections[1], c->sections[2], 0 }, 4);
    real(k, "rope.freq_base", c->rope.base);
    if (c->local.rope.dim) {
        whole(k, "rope.dimension_count_swa", c->local.rope.dim);
        real(k, "rope.freq_base_swa", c->local.rope.base);
    }
    switch (r->type) {
    case LM_ROPE_DEFAULT:
    case LM_ROPE_LLAMA3:             /* the scaling is stored as the tensor rope_freqs.weight */
    case LM_ROPE_PROPORTIONAL:
        break;
    case LM_ROPE_LINEAR:
        lm_gguf_add_string(k->w, key(k, "rope.scaling.type"), LM_VIEW("linear"));
        real(k, "rope.scaling.factor", r->factor);
        break;
    case LM_ROPE_YARN:
        lm_gguf_add_string(k->w, key(k, "rope.scaling.type"), LM_VIEW("yarn"));
        real(k, "rope.scaling.factor", r->factor);
        whole(k, "rope.scaling.original_context_length", r->original_context);
        if (f->whole_mscale && r->mscale == 1)
            real(k, "rope.scaling.yarn_log_multiplier", r->mscale_all_dim);
        else if (c->latent.kv_rank && r->mscale_all_dim != 0)
            real(k, "rope.scaling.yarn_log_multiplier", 0.1 * r->mscale_all_dim);
        else if (r->attention_factor > 0 || r->mscale_all_dim != 0)
            real(k, "rope.scaling.yarn_attn_factor", magnitude(r));
        if (r->beta_fast != 32 || r->beta_slow != 1) {
            real(k, "rope.scaling.yarn_beta_fast", r->beta_fast);
            real(k, "rope.scaling.yarn_beta_slow", r->beta_slow);
        }
        break;
    case LM_ROPE_LONGROPE:           /* the factors are tensors; llama.cpp rejects them in most families by
                                        default */
        lm_gguf_add_string(k->w, key(k, "rope.scaling.type"), LM_VIEW("longrope"));
        whole(k, "rope.scaling.original_context_length", r->original_context);
        real(k, "rope.scaling.attn_factor",
             r->attention_factor > 0 ? r->attention_factor
             : r->factor > 1         ? sqrt(1 + log(r->factor) / log(r->original_context))
                                     : 1);
        break;
    case LM_ROPE_DYNAMIC:
        return lm_fail(e, LM_UNSUPPORTED, "rope_scaling", LM_NO_OFFSET,
                       "dynamic scaling cannot be stored in GGUF");
    }
    return LM_OK;
}

static lm_shared_keys shared_keys(const lm_family *f)
{
    if (f->mixture)
        return f->mixture->gguf_shared;
    if (knows(f, "shared_expert_intermediate_size") || knows(f, "shared_intermediate_size"))
        return LM_SHARED_WIDTH;
    return !knows(f, "moe_shared_expert_intermediate_size") ? LM_SHARED_COUNT
           : knows(f, "num_shared_experts")                 ? LM_SHARED_BOTH
                                                            : LM_SHARED_WIDTH;
}

static bool says_function(const lm_family *f, const lm_config *c)
{
    return c->route.sigmoid || c->route.root_softplus || c->latent.kv_rank ||
           (f->mixture && f->mixture->says_function);
}

static void add_experts(keys *k, const lm_family *f, const lm_config *c)
{
    if (!c->route.n_experts)
        return;
    whole(k, "expert_count", c->route.n_experts);
    whole(k, "expert_used_count", c->route.top_k);
    whole(k, "expert_feed_forward_length", c->expert_width);
    bool said = f->mixture ? f->mixture->normalised != NULL : knows(f, "norm_topk_prob");
    if (c->route.renormalise && said && !f->gguf_renormalises)
        lm_gguf_add_bool(k->w, key(k, "expert_weights_norm"), true);
    /* 1 too: ik_llama.cpp requires the key, and the converters of llama.cpp write it */
    if (knows(f, "routed_scaling_factor") || (c->route.scale > 0 && c->route.scale != 1))
        real(k, "expert_weights_scale", (double)c->route.scale);
    if (says_function(f, c))
        whole(k, "expert_gating_func", c->route.sigmoid ? 2 : c->route.root_softplus ? 4 : 1);
    lm_shared_keys shared = shared_keys(f);
    if (c->shared_width && shared != LM_SHARED_COUNT && shared != LM_SHARED_UNSAID)
        whole(k, "expert_shared_feed_forward_length", c->shared_width);
    if (c->shared_width && c->shared_width % c->expert_width == 0 &&
        (shared == LM_SHARED_COUNT || shared == LM_SHARED_BOTH))
        whole(k, "expert_shared_count", c->shared_width / c->expert_width);
    if (c->route.n_groups) {
        whole(k, "expert_group_count", c->route.n_groups);
        whole(k, "expert_group_used_count", c->route.top_groups);
    }
}

/* Write 0 for the layers that have a state instead, or list them, and the number of each layer if they
 * differ. */
static void add_kv_heads(keys *k, const lm_family *f, const lm_config *c)
{
    int32_t list[LM_MAX_LAYERS];
    bool    mixed = false;
    uint32_t heads = c->latent.kv_rank && !f->joint_latent ? 1 : c->n_kv_heads;

    for (uint32_t i = 0; i < c->n_layers; i++) {
        bool     none  = c->stateful[i] || c->no_attention[i];
        uint32_t local = c->local.head_dim && !c->full[i] ? c->local.n_kv_heads : heads;
        list[i]        = none ? 0 : (int32_t)local;
        mixed |= none || local != heads;
    }
    if (f->lists_states)
        lm_gguf_add_bools(k->w, key(k, "attention.recurrent_layers"), c->stateful, c->n_layers);
    if (mixed && !f->lists_states)
        lm_gguf_add_i32s(k->w, key(k, "attention.head_count_kv"), list, c->n_layers);
    else
        whole(k, "attention.head_count_kv", heads);
}

/* Write 0 for the layers that have no MLP, and the width of each if they differ. */
static void add_mlp_widths(keys *k, const lm_config *c)
{
    int32_t list[LM_MAX_LAYERS];
    bool    mixed = false;

    for (uint32_t i = 0; i < c->n_layers; i++) {
        bool wide = c->wide_readers && i >= c->n_layers - c->n_readers;
        list[i]   = c->no_mlp[i] ? 0 : (int32_t)(c->intermediate << wide);
        mixed |= c->no_mlp[i] || wide;
    }
    if (mixed && c->intermediate)
        lm_gguf_add_i32s(k->w, key(k, "feed_forward_length"), list, c->n_layers);
    else
        whole(k, "feed_forward_length", c->intermediate);
}

static void add_mamba(keys *k, const lm_config *c)
{
    if (!c->mamba.n_heads)
        return;
    whole(k, "ssm.conv_kernel", c->mamba.taps);
    whole(k, "ssm.inner_size", c->mamba.n_heads * c->mamba.head_dim);
    whole(k, "ssm.state_size", c->mamba.state);
    whole(k, "ssm.time_step_rank", c->mamba.rank ? c->mamba.rank : c->mamba.n_heads);
    if (!c->mamba.rank)
        whole(k, "ssm.group_count", c->mamba.n_groups);
    if (c->mamba.rank && c->mamba.inner_norm != LM_INNER_WEIGHTED)
        lm_gguf_add_bool(k->w, key(k, "ssm.dt_b_c_rms"), c->mamba.inner_norm == LM_INNER_UNWEIGHTED);
}

static void add_epsilon(keys *k, const lm_family *f, const lm_program *p)
{
    const lm_node *rms = first_node(p, LM_OP_RMS_NORM), *layer = first_node(p, LM_OP_LAYER_NORM);

    if (f->rms_epsilon)
        rms = layer;
    if (rms)
        real(k, "attention.layer_norm_rms_epsilon", (double)rms->norm.eps);
    if (layer && !rms)               /* else that of an indexer, which is fixed */
        real(k, "attention.layer_norm_epsilon", (double)layer->norm.eps);
}

/* List the layers with an indexer of their own, if others share a choice. */
static void add_choices(keys *k, const lm_config *c)
{
    bool own[LM_MAX_LAYERS], shared = false;

    for (uint32_t i = 0; i < c->n_layers; i++) {
        own[i] = !c->shared_choice[i];
        shared |= c->shared_choice[i];
    }
    if (shared)
        lm_gguf_add_bools(k->w, key(k, "attention.indexer.types"), own, c->n_layers);
}

/* Write which layers rotate, if some do not. */
static void add_rotations(keys *k, const lm_family *f, const lm_program *p)
{
    bool list[LM_MAX_LAYERS];

    if (f->lists_rotations && lm_layers_that_rotate(p, list))
        lm_gguf_add_bools(k->w, key(k, "attention.rope_pattern"), list, p->n_layers);
}

/* Write the sizes of latents and heads. */
static void add_heads(keys *k, const lm_family *f, const lm_config *c)
{
    const lm_attention_spec *a = &c->attention;
    bool shared = c->latent.kv_rank && !f->joint_latent;     /* described as one key/value head: the latent */

    if (c->latent.q_rank)
        whole(k, "attention.q_lora_rank", c->latent.q_rank);
    if (c->latent.kv_rank)
        whole(k, "attention.kv_lora_rank", c->latent.kv_rank);
    if (shared) {
        whole(k, "attention.key_length_mla", a->k_dim);
        whole(k, "attention.value_length_mla", a->v_dim);
    }
    add_kv_heads(k, f, c);
    whole(k, "attention.key_length", shared ? c->latent.kv_rank + c->latent.rope_dim : a->k_dim);
    whole(k, "attention.value_length", shared ? c->latent.kv_rank : a->v_dim);
}

/* Write the number of heads, of each layer if they differ. */
static void add_query_heads(keys *k, const lm_config *c)
{
    int32_t list[LM_MAX_LAYERS];

    for (uint32_t i = 0; i < c->n_layers; i++)
        list[i] = (int32_t)(c->full[i] ? c->n_heads : c->local.n_heads);
    if (c->local.head_dim && c->local.n_heads != c->n_heads)
        lm_gguf_add_i32s(k->w, key(k, "attention.head_count"), list, c->n_layers);
    else
        whole(k, "attention.head_count", c->n_heads);
}

static void add_attention(keys *k, const lm_family *f, const lm_config *c, const lm_program *p)
{
    const lm_attention_spec *a = &c->attention;

    add_query_heads(k, c);
    if (!c->n_heads) {
        add_epsilon(k, f, p);
        return;
    }
    add_heads(k, f, c);
    if (c->local.head_dim && knows(f, "num_kv_shared_layers")) {
        whole(k, "attention.key_length_swa", c->local.head_dim);
        whole(k, "attention.value_length_swa", c->local.v_dim);
    }
    if (knows(f, "num_kv_shared_layers"))
        whole(k, "attention.shared_kv_layers", c->n_readers);
    if (knows(f, "activation_sparsity_pattern"))
        lm_gguf_add_f32s(k->w, key(k, "activation_sparsity_scale"), c->gate_cut, c->n_layers);
    add_epsilon(k, f, p);
    if (a->window)
        add_window(k, c);
    add_choices(k, c);
    add_rotations(k, f, p);
    /* with latents it follows from the rotation */
    if (a->scale != 1 / sqrtf((float)a->k_dim) && !c->latent.kv_rank && !f->fixed_scale)
        real(k, "attention.scale", (double)a->scale);
    if (c->temperature.beta > 0 && f->temperature)       /* else one of its own numbers */
        real(k, "attention.temperature_scale", (double)c->temperature.beta);
    /* without latents it is the rotation's trained length */
    if (c->temperature.beta > 0 && f->temperature && c->latent.kv_rank)
        whole(k, "attention.temperature_length", c->temperature.length);
    if (a->softcap > 0)
        real(k, "attn_logit_softcapping", (double)a->softcap);
    if (a->alibi > 0)
        real(k, "attention.max_alibi_bias", (double)a->alibi);
}

lm_status lm_add_gguf_keys(lm_gguf_writer *w, const lm_family *f, const lm_config *c, const lm_program *p,
                           lm_error *e)
{
    keys           k    = { .w = w, .arch = lm_gguf_arch_of(f) };
    const lm_node *caps = first_node(p, LM_OP_SOFTCAP);

    if (!k.arch)
        return lm_fail(e, LM_UNSUPPORTED, f->name, LM_NO_OFFSET, "this family cannot be stored in GGUF");
    whole(&k, "vocab_size", c->vocab_size);
    whole(&k, "context_length", c->context_length);
    whole(&k, "embedding_length", c->hidden);
    whole(&k, "block_count", c->n_layers);
    if (!f->experts_only)
        add_mlp_widths(&k, c);
    add_attention(&k, f, c, p);
    add_experts(&k, f, c);
    add_mamba(&k, c);
    add_own(&k, f, c);
    add_lists(&k, f, c);
    if (knows(f, "use_parallel_residual"))
        lm_gguf_add_bool(w, key(&k, "use_parallel_residual"), c->parallel);
    if (caps)
        real(&k, "final_logit_softcapping", (double)caps->scale.factor);
    return add_rope(&k, f, c, p, e);
}

lm_status lm_add_listed_numbers(lm_gguf_writer *w, const lm_program *p, lm_number_reader *read, void *arg,
                                lm_error *e)
{
    float list[LM_MAX_LAYERS];

    for (uint32_t i = 0; i < p->n_weights; i++) {
        const char *name = p->weights[i].gguf_key;
        uint32_t    n    = 0;
        for (uint32_t k = 0; name && k < i; k++)
            if (p->weights[k].gguf_key && strcmp(p->weights[k].gguf_key, name) == 0)
                name = NULL;
        for (uint32_t k = i; name && k < p->n_weights && n < LM_MAX_LAYERS; k++)
            if (p->weights[k].gguf_key && strcmp(p->weights[k].gguf_key, name) == 0)
                LM_TRY(read(arg, k, &list[n++], e));
        if (name)
            lm_gguf_add_f32s(w, name, list, n);
    }
    return LM_OK;
}
