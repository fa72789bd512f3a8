/* traits.c - which terms describe a program. */
#include "study/facts/traits.h"

#include <stdio.h>
#include <string.h>

#include "base/language.h"

static const lm_node *maker(const lm_program *p, lm_value v)
{
    return &p->nodes[p->values[v].producer];
}

/* ---- norm positions ---- */

/* Find where the norms of a layer are: before a branch (a norm read by a query, gate or up product), after it
 * (a norm whose result is added), or on the sum (a norm of the sum that continues as the stream). */
static lm_norm_position find_norm_position(const lm_ledger *l)
{
    const lm_program *p = l->program;
    bool before = false, after = false, around = false;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->layer < 0 || n->code != LM_OP_ADD)
            continue;
        for (uint32_t k = 0; k < n->n_in; k++) {
            const lm_node *m = maker(p, n->in[k]);
            if (lm_is_norm(m) && m->layer == n->layer)
                (maker(p, m->in[0])->code == LM_OP_ADD || maker(p, m->in[0])->layer < 0 ? &around
                                                                                        : &after)[0] = true;
        }
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->layer < 0 || n->code != LM_OP_LINEAR ||
            !(l->roles[i] & (LM_PRODUCT_QUERY | LM_PRODUCT_UP | LM_PRODUCT_GATE)))
            continue;
        const lm_node *m = maker(p, n->in[0]);
        if (lm_is_norm(m) && m->layer == n->layer)
            before = true;
    }
    /* A norm of the sum that both continues as the stream and is read by the next branch is post-norm, not
     * pre-norm. */
    if (around)
        return LM_NORM_POST;
    if (before && after)
        return LM_NORM_SANDWICH;
    return before ? LM_NORM_PRE : after ? LM_NORM_AFTER_BRANCH : LM_NORM_NOWHERE;
}

/* ---- single pass over the operations ---- */

static void see_attention(const lm_program *p, lm_traits *t, const lm_node *n)
{
    uint32_t window = lm_acting_window(p, n->attention.spec.window);

    if (!t->attention)
        t->attention = n;
    t->n_attentions++;
    t->n_sparse += n->attention.spec.top_k != 0;
    t->n_windows += window != 0;
    t->window = window > t->window ? window : t->window;
    t->chunked |= window && n->attention.spec.chunked;
    t->alibi |= n->attention.spec.alibi > 0;
}

/* Return whether a product of heads is one of the output of attention: those of latents come before it,
 * too. */
static bool is_of_output(const lm_program *p, const lm_node *n)
{
    for (uint32_t i = (uint32_t)(n - p->nodes); i-- > 0 && p->nodes[i].layer == n->layer;)
        if (p->nodes[i].code == LM_OP_ATTENTION)
            return true;
    return false;
}

/* Latent attention has two matrices per head. Absorbed: from the nope dimensions to the latent before the
 * scores, and from the latent to values after them. Naive: both from the shared latent, before the scores. */
static void see_latent(const lm_ledger *l, lm_traits *t, const lm_node *n)
{
    const lm_program *p   = l->program;
    uint32_t          in  = p->values[n->in[0]].width / (n->heads.shared ? 1 : n->heads.n_heads);
    uint32_t          out = p->values[n->out].width / n->heads.n_heads;

    if (n->layer < 0 || (t->latent && t->nope_dim && t->v_dim) || p->weights[n->weights[0]].joint.by_head)
        return;
    if (!t->latent && is_of_output(p, n))
        return;
    if (!t->latent) {
        t->latent   = true;
        t->absorbed = !n->heads.shared;
        t->nope_dim = n->heads.shared ? out : in;
        t->kv_rank  = n->heads.shared ? in : out;
    } else {
        t->v_dim = out;
    }
}

static void see_linear(const lm_ledger *l, lm_traits *t, uint32_t i)
{
    const lm_program *p = l->program;
    const lm_node    *n = &p->nodes[i];
    bool              bias = n->weights[1] != LM_NONE;
    uint16_t          r = l->roles[i];

    t->bias_qkv |= bias && (r & (LM_PRODUCT_QUERY | LM_PRODUCT_KEY | LM_PRODUCT_VALUE));
    t->bias_o |= bias && (r & LM_PRODUCT_OUTPUT);
    t->bias_mlp |= bias && (r & (LM_PRODUCT_GATE | LM_PRODUCT_UP | LM_PRODUCT_DOWN)) &&
                   l->part[i] == LM_PART_MLP;
    t->bias_head |= bias && (r & LM_PRODUCT_HEAD);
    if ((r & LM_PRODUCT_DOWN) && l->part[i] == LM_PART_MLP) {
        t->dense = true;
        if (!t->intermediate)
            t->intermediate = p->values[n->in[0]].width;
    }
}

/* Return whether another projection reads its output. */
static bool reaches_linear(const lm_program *p, uint32_t i)
{
    for (uint32_t j = i + 1; j < p->n_nodes && p->nodes[j].layer == p->nodes[i].layer; j++)
        if (p->nodes[j].code == LM_OP_LINEAR && p->nodes[j].in[0] == p->nodes[i].out)
            return true;
    return false;
}

/* Return whether the norm is one of queries or keys, per head or over all heads of one projection. A norm of
 * a latent, from which heads are made, is not. */
static bool is_qk_norm(const lm_ledger *l, uint32_t i)
{
    const lm_program *p = l->program;
    const lm_node    *n = &p->nodes[i];
    uint32_t          made = p->values[n->in[0]].producer;

    if (l->block[i] == LM_NONE || !l->attends[l->block[i]])
        return false;
    bool projection = made < i && p->nodes[made].code == LM_OP_LINEAR &&
                      (l->roles[made] == LM_PRODUCT_QUERY || l->roles[made] == LM_PRODUCT_KEY);
    return n->norm.groups > 1 || (projection && !reaches_linear(p, i));
}

/* The activation of an MLP, neither of attention nor of coefficients of streams. */
static void see_act(const lm_ledger *l, lm_traits *t, uint32_t i)
{
    const lm_node *n = &l->program->nodes[i];

    if (n->layer < 0 || t->has_act || lm_is_apart(l->program, l->block[i]) ||
        l->part[i] == LM_PART_ATTENTION || l->part[i] == LM_PART_STATE)
        return;
    t->act     = n->glu.act;
    t->has_act = true;
    t->glu     = n->code == LM_OP_GLU ? n : NULL;
}

static void see_streams(lm_traits *t, const lm_node *n)
{
    if (n->layer >= 0)
        t->streams = n->mix.streams;
}

static void see(const lm_ledger *l, lm_traits *t, uint32_t i)
{
    const lm_node *n = &l->program->nodes[i];

    t->last_layer = n->layer >= 0 ? n->layer : t->last_layer;
    switch (n->code) {
    case LM_OP_ATTENTION:
        t->sinks |= n->attention.spec.sinks;
        see_attention(l->program, t, n);
        break;
    case LM_OP_LINEAR:
        see_linear(l, t, i);
        break;
    case LM_OP_HEAD_LINEAR:
        see_latent(l, t, n);
        break;
    case LM_OP_MIX:
        see_streams(t, n);
        break;
    case LM_OP_CONNECT:
        t->streams = n->connect.streams;
        break;
    case LM_OP_POSITION:
        t->learned = true;
        break;
    case LM_OP_SINUSOID:
        t->sinusoidal = true;
        break;
    case LM_OP_ROPE:
        t->rotary = true;
        t->n_rotated += n->layer != t->last_rotated;
        t->last_rotated = n->layer;
        t->rope_dim = l->program->ropes[n->rope.table].spec.dim;
        break;
    case LM_OP_RMS_NORM:
    case LM_OP_LAYER_NORM:
        t->norm = t->norm ? t->norm : n;
        t->n_norms++;
        t->n_final_norms += n->layer < 0 && t->last_layer >= 0;
        t->qk_norm |= is_qk_norm(l, i);
        break;
    case LM_OP_GLU:
    case LM_OP_ACT:
        see_act(l, t, i);
        break;
    case LM_OP_CAUSAL_CONV:
        t->convolution = t->convolution ? t->convolution : n;
        break;
    case LM_OP_LINEAR_RECURRENCE:
        t->recurrence = t->recurrence ? t->recurrence : n;
        break;
    case LM_OP_SELECTIVE_SCAN:
        t->scan = t->scan ? t->scan : n;
        break;
    case LM_OP_GATED_RECURRENCE:
        t->gated = t->gated ? t->gated : n;
        break;
    case LM_OP_SELECT_KEYS:
        t->indexer = t->indexer ? t->indexer : n;
        t->n_indexers++;
        break;
    case LM_OP_ROUTE:
        /* one that chooses, rather than one that takes the experts of a table */
        t->route = t->route && t->route->weights[2] == LM_NONE ? t->route : n;
        break;
    case LM_OP_EXPERTS:
        t->experts = t->experts ? t->experts : n;
        if (!t->has_act) {
            t->act     = n->experts.act;
            t->has_act = true;
            t->glu     = n;
        }
        break;
    default:
        break;
    }
}

static uint32_t shared_width(const lm_ledger *l, const lm_node *experts)
{
    const lm_program *p = l->program;
    const lm_module  *m = experts ? &p->modules[l->layer[experts->layer]] : NULL;

    for (uint32_t i = m ? m->first_op : 0; m && i < m->end_op; i++)
        if ((l->roles[i] & LM_PRODUCT_DOWN) && l->part[i] == LM_PART_MLP && p->nodes[i].code == LM_OP_LINEAR)
            return p->values[p->nodes[i].in[0]].width;
    return 0;
}

/* Return whether attention and MLP of the first layer read the same stream: the MLP reads the layer's input,
 * apart from norms. */
static bool is_parallel(const lm_ledger *l)
{
    const lm_program *p    = l->program;
    bool              seen = false;

    for (uint32_t i = 0; p->n_layers && i < p->n_nodes && p->nodes[i].layer <= 0; i++) {
        if (p->nodes[i].layer < 0)
            continue;
        seen |= p->nodes[i].code == LM_OP_ATTENTION;
        if (!seen || !(l->roles[i] & LM_PRODUCT_UP) || l->part[i] != LM_PART_MLP)
            continue;
        lm_value v = p->nodes[i].in[0];
        for (const lm_node *n; v != p->modules[l->layer[0]].in; v = n->in[0]) {
            n = &p->nodes[p->values[v].producer];
            if (n->code != LM_OP_RMS_NORM && n->code != LM_OP_LAYER_NORM)
                return false;
        }
        return true;
    }
    return false;
}

static lm_head_sharing find_sharing(const lm_traits *t)
{
    const lm_attention_spec *s = t->attention ? &t->attention->attention.spec : NULL;

    if (!s)
        return LM_SHARES_NOTHING;
    if (t->latent)
        return LM_SHARES_MLA;
    return s->n_kv_heads == s->n_heads ? LM_SHARES_MHA : s->n_kv_heads == 1 ? LM_SHARES_MQA : LM_SHARES_GQA;
}

static lm_position_kind find_position(const lm_traits *t)
{
    return t->rotary       ? LM_POSITION_ROTARY
           : t->learned    ? LM_POSITION_LEARNED
           : t->sinusoidal ? LM_POSITION_SINUSOIDAL
           : t->alibi      ? LM_POSITION_ALIBI
                           : LM_POSITION_NONE;
}

void lm_find_traits(const lm_ledger *l, lm_traits *out)
{
    const lm_program *p    = l->program;
    const lm_node    *head = &p->nodes[l->head];

    *out = (lm_traits){ .hidden       = head->n_in ? p->values[head->in[0]].width : 0,
                        .last_layer   = -1,
                        .last_rotated = -1 };
    for (uint32_t i = 0; i < p->n_nodes; i++)
        see(l, out, i);
    for (uint32_t i = 0; i < p->n_layers; i++)
        out->kinds += l->twin[i] == i;
    if (p->n_layers && l->layer[0] != LM_NONE && p->modules[l->layer[0]].out != LM_NONE)
        out->hidden = p->values[p->modules[l->layer[0]].out].width / (out->streams ? out->streams : 1);
    if (out->latent)             /* of the key that all heads share, rotated or not */
        out->rope_dim = out->attention->attention.spec.k_dim - (out->absorbed ? out->kv_rank : out->nope_dim);
    out->norm_position = find_norm_position(l);
    out->rope          = out->rotary ? &p->ropes[lm_main_rope(p)].spec : NULL;
    out->sharing       = find_sharing(out);
    out->norm_kind = !out->norm                          ? LM_NORM_NONE
                     : out->norm->code == LM_OP_RMS_NORM ? LM_NORM_RMS
                                                         : LM_NORM_LAYER;
    out->position      = find_position(out);
    out->tied          = head->weights[0] != LM_NONE && l->reader[head->weights[0]] != l->head;
    out->parallel      = is_parallel(l);
    out->shared_width  = shared_width(l, out->experts);
}

/* ---- words ---- */

lm_word lm_sharing_word(lm_head_sharing s)
{
    static const lm_word words[] = {
        [LM_SHARES_NOTHING] = { "none", N_("none") }, [LM_SHARES_MHA] = { "mha", "MHA" },
        [LM_SHARES_GQA] = { "gqa", "GQA" },           [LM_SHARES_MQA] = { "mqa", "MQA" },
        [LM_SHARES_MLA] = { "mla", "MLA" },
    };
    return words[s];
}

lm_word lm_norm_word(lm_norm_kind k)
{
    static const lm_word words[] = {
        [LM_NORM_NONE] = { "none", N_("none") },
        [LM_NORM_RMS] = { "rms_norm", "RMSNorm" },
        [LM_NORM_LAYER] = { "layer_norm", "LayerNorm" },
    };
    return words[k];
}

lm_word lm_activation_word(const lm_traits *t)
{
    return t->has_act ? (lm_word){ lm_act_id(t->act), lm_act_word(t->act) } : (lm_word){ "none", N_("none") };
}

lm_word lm_norm_position_word(lm_norm_position p)
{
    static const lm_word words[] = {
        [LM_NORM_NOWHERE] = { "none", N_("none") },
        [LM_NORM_PRE] = { "pre", N_("Pre") },
        [LM_NORM_POST] = { "post", N_("Post") },
        [LM_NORM_SANDWICH] = { "pre_and_after_branch", N_("Pre and after each branch") },
        [LM_NORM_AFTER_BRANCH] = { "after_branch", N_("After each branch") },
    };
    return words[p];
}

bool lm_is_stored(const lm_rope_spec *s)
{
    return s->stored_divisors || s->stored_factors;
}

bool lm_is_scaled(const lm_rope_spec *s)
{
    return lm_is_stored(s) || s->type != LM_ROPE_DEFAULT;
}

lm_word lm_scaling_word(const lm_rope_spec *s)
{
    if (lm_is_stored(s))
        return (lm_word){ "stored", N_("stored") };
    if (!lm_is_scaled(s))
        return (lm_word){ "none", N_("none") };
    return (lm_word){ lm_rope_type_name(s->type), lm_rope_type_name(s->type) };
}

const char *lm_attention_name(const lm_traits *t, char *out, size_t n)
{
    snprintf(out, n, "%s%s", lm_sharing_word(t->sharing).text,
             t->n_windows && t->chunked ? "+chunks"
             : t->n_windows             ? "+SWA"
             : t->indexer               ? (t->indexer->attention.spec.block ? "+MSA" : "+DSA")
                                        : "");
    return out;
}

lm_word lm_position_word(const lm_traits *t)
{
    static const lm_word kinds[] = {
        [LM_POSITION_NONE] = { "none", N_("none") },
        [LM_POSITION_LEARNED] = { "learned", N_("Learned") },
        [LM_POSITION_SINUSOIDAL] = { "sinusoidal", N_("Sinusoidal") },
        [LM_POSITION_ALIBI] = { "alibi", "ALiBi" },
    };
    static const char *const scaled[] = {
        [LM_ROPE_DEFAULT] = "RoPE", [LM_ROPE_LINEAR] = "RoPE+linear", [LM_ROPE_DYNAMIC] = "RoPE+NTK",
        [LM_ROPE_LLAMA3] = "RoPE+llama3", [LM_ROPE_YARN] = "RoPE+YaRN", [LM_ROPE_LONGROPE] = "RoPE+LongRoPE",
        [LM_ROPE_PROPORTIONAL] = "RoPE+proportional",
    };

    if (t->position != LM_POSITION_ROTARY)
        return kinds[t->position];
    return (lm_word){ "rope", t->rope->stored_divisors ? N_("RoPE+stored divisors") : scaled[t->rope->type] };
}

const char *lm_mask_text(const lm_traits *t, char *out, size_t n)
{
    const char *const all = "0 <= i - j";
    char              some[48] = "";

    if (t->window && t->chunked)
        snprintf(some, sizeof some, "%s <= i mod %u", all, t->window);
    else if (t->window)
        snprintf(some, sizeof some, "%s < %u", all, t->window);
    if (t->n_windows && t->n_windows < t->n_attentions)
        snprintf(out, n, _("%s in %u of %u layers, else %s"), some, t->n_windows, t->n_attentions, all);
    else
        snprintf(out, n, "%s", t->window ? some : all);
    return out;
}

/* Return whether an operation makes the queries or keys of an indexer. */
static bool is_for_choice(const lm_program *p, uint32_t i)
{
    for (uint32_t k = i + 1; k < p->n_nodes && p->nodes[k].code != LM_OP_ATTENTION; k++)
        if (p->nodes[k].code == LM_OP_SELECT_KEYS &&
            (p->nodes[k].in[0] == p->nodes[i].out || p->nodes[k].in[1] == p->nodes[i].out))
            return true;
    return false;
}

uint32_t lm_main_rope(const lm_program *p)
{
    uint32_t last = LM_NONE;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->code == LM_OP_ROPE && !is_for_choice(p, i))
            last = n->rope.table;
        else if (n->code == LM_OP_ATTENTION && !n->attention.spec.window && last != LM_NONE)
            return last;             /* its queries and keys have just been rotated */
        else if (n->code == LM_OP_ATTENTION)
            last = LM_NONE;
    }
    return 0;
}

const char *lm_mlp_name(const lm_traits *t, char *out, size_t n)
{
    /* x sigmoid(1.702 x) is known both as quick GELU and as Swish with that beta: its gated MLP is called
     * SwiGLU */
    bool        swish = t->act == LM_ACT_SILU || t->act == LM_ACT_GELU_QUICK;
    const char *gated = swish                      ? "SwiGLU"
                        : t->act == LM_ACT_RELU    ? "ReGLU"
                        : t->act == LM_ACT_RELU2   ? "ReGLU²"
                        : t->act == LM_ACT_SIGMOID ? "GLU"
                                                   : "GeGLU";
    const char *kind = !t->has_act                  ? "none"
                       : t->glu                     ? gated
                       : t->act == LM_ACT_GELU_TANH ? "GELU"
                                                    : lm_act_word(t->act);

    snprintf(out, n, "%s%s", kind, t->experts ? "+MoE" : "");
    return out;
}
