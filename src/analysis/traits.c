/* traits.c - which words fit a program. */
#include "analysis/traits.h"

#include <stdio.h>
#include <string.h>

#include "base/language.h"

static const lm_node *maker(const lm_program *p, lm_value v)
{
    return &p->nodes[p->values[v].producer];
}

/* ---- where norms stand ---- */

/* Between the residual sums of a layer: before a branch (a norm whose result a product or an attention reads), after it
 * (a norm whose result is added), or around the sum (a norm of the sum that goes on as the stream). */
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
                (maker(p, m->in[0])->code == LM_OP_ADD || maker(p, m->in[0])->layer < 0 ? &around : &after)[0] = true;
        }
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->layer < 0 || n->code != LM_OP_LINEAR || !(l->roles[i] & (LM_ROLE_QUERY | LM_ROLE_UP | LM_ROLE_GATE)))
            continue;
        const lm_node *m = maker(p, n->in[0]);
        if (lm_is_norm(m) && m->layer == n->layer)
            before = true;
    }
    /* A norm of the sum that both goes on and is read by the next branch is post-norm, not pre-norm. */
    if (around)
        return LM_NORM_POST;
    if (before && after)
        return LM_NORM_SANDWICH;
    return before ? LM_NORM_PRE : after ? LM_NORM_AFTER_BRANCH : LM_NORM_NOWHERE;
}

const char *lm_norm_position_name(lm_norm_position p)
{
    static const char *const names[] = { N_("none"), N_("Pre"), N_("Post"), N_("Pre and after each branch"), N_("After each branch") };

    return names[p];
}

/* ---- walking once over the operations ---- */

static void see_attention(lm_traits *t, const lm_node *n)
{
    uint32_t window = n->attention.spec.window;

    if (!t->attention)
        t->attention = n;
    t->n_attentions++;
    t->n_windows += window != 0;
    t->window = window > t->window ? window : t->window;
    t->alibi |= n->attention.spec.alibi > 0;
}

/* Two matrices of each head's own: absorbed, nope lanes to the latent before the scores and the latent to values after
 * them; naive, the shared latent to both before. */
static void see_latent(const lm_ledger *l, lm_traits *t, const lm_node *n)
{
    const lm_program *p   = l->program;
    uint32_t          in  = p->values[n->in[0]].width / (n->heads.shared ? 1 : n->heads.n_heads);
    uint32_t          out = p->values[n->out].width / n->heads.n_heads;

    if (t->latent && t->nope_dim && t->v_dim)
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

    t->bias_qkv |= bias && (r & (LM_ROLE_QUERY | LM_ROLE_KEY | LM_ROLE_VALUE));
    t->bias_o |= bias && (r & LM_ROLE_OUTPUT);
    t->bias_mlp |= bias && (r & (LM_ROLE_GATE | LM_ROLE_UP | LM_ROLE_DOWN)) && l->part[i] == LM_PART_MLP;
    t->bias_head |= bias && (r & LM_ROLE_HEAD);
    if ((r & LM_ROLE_DOWN) && l->part[i] == LM_PART_MLP) {
        t->dense = true;
        if (!t->intermediate)
            t->intermediate = p->values[n->in[0]].width;
    }
}

static void see(const lm_ledger *l, lm_traits *t, uint32_t i)
{
    const lm_node *n = &l->program->nodes[i];

    switch (n->code) {
    case LM_OP_ATTENTION:
        see_attention(t, n);
        break;
    case LM_OP_LINEAR:
        see_linear(l, t, i);
        break;
    case LM_OP_HEAD_LINEAR:
        see_latent(l, t, n);
        break;
    case LM_OP_POSITION:
        t->learned = true;
        break;
    case LM_OP_SINUSOID:
        t->sinusoidal = true;
        break;
    case LM_OP_ROPE:
        t->rotary   = true;
        t->rope_dim = l->program->ropes[n->rope.table].spec.dim;
        break;
    case LM_OP_RMS_NORM:
    case LM_OP_LAYER_NORM:
        t->norm = t->norm ? t->norm : n;
        t->n_norms++;
        t->n_final_norms += n->layer < 0 && t->attention;
        t->qk_norm |= l->block[i] != LM_NONE && l->attends[l->block[i]] && n->norm.groups > 1;
        break;
    case LM_OP_GLU:
    case LM_OP_ACT:
        if (n->layer >= 0 && !t->has_act) {
            t->act     = n->glu.act;
            t->has_act = true;
            t->glu     = n->code == LM_OP_GLU ? n : NULL;
        }
        break;
    case LM_OP_ROUTE:
        t->route = t->route ? t->route : n;
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

/* Attention and MLP of the first layer read the same stream: what the MLP reads is, but for norms, what enters the layer. */
static bool is_parallel(const lm_ledger *l)
{
    const lm_program *p    = l->program;
    bool              seen = false;

    for (uint32_t i = 0; p->n_layers && i < p->n_nodes && p->nodes[i].layer <= 0; i++) {
        if (p->nodes[i].layer < 0)
            continue;
        seen |= p->nodes[i].code == LM_OP_ATTENTION;
        if (!seen || !(l->roles[i] & LM_ROLE_UP) || l->part[i] != LM_PART_MLP)
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

void lm_find_traits(const lm_ledger *l, lm_traits *out)
{
    const lm_program *p    = l->program;
    const lm_node    *head = &p->nodes[l->head];

    *out = (lm_traits){ .hidden = head->n_in ? p->values[head->in[0]].width : 0 };
    for (uint32_t i = 0; i < p->n_nodes; i++)
        see(l, out, i);
    for (uint32_t i = 0; i < p->n_layers; i++)
        out->kinds += l->twin[i] == i;
    if (p->n_layers && l->layer[0] != LM_NONE && p->modules[l->layer[0]].out != LM_NONE)
        out->hidden = p->values[p->modules[l->layer[0]].out].width;
    out->norm_position = find_norm_position(l);
    out->tied          = head->weights[0] != LM_NONE && l->reader[head->weights[0]] != l->head;
    out->parallel      = is_parallel(l);
}

/* ---- words ---- */

const char *lm_act_name(lm_act act)
{
    static const char *const names[LM_ACT_COUNT] = {
        [LM_ACT_SILU] = "SiLU",  [LM_ACT_GELU] = "GELU",   [LM_ACT_GELU_TANH] = "GELU (tanh)", [LM_ACT_GELU_QUICK] = "GELU (quick)",
        [LM_ACT_RELU] = "ReLU",  [LM_ACT_RELU2] = "ReLU²", [LM_ACT_SIGMOID] = "sigmoid",       [LM_ACT_TANH] = "tanh",
    };
    return (unsigned)act < LM_ACT_COUNT ? names[act] : "?";
}

const char *lm_sharing_name(const lm_traits *t)
{
    const char *kind = "none";

    if (t->attention) {
        const lm_attention_spec *s = &t->attention->attention.spec;
        kind = t->latent                          ? "MLA"
               : s->n_kv_heads == s->n_heads      ? "MHA"
               : s->n_kv_heads == 1               ? "MQA"
                                                  : "GQA";
    }
    return kind;
}

const char *lm_attention_name(const lm_ledger *l, const lm_traits *t, char *out, size_t n)
{
    (void)l;
    snprintf(out, n, "%s%s", lm_sharing_name(t), t->n_windows ? "+SWA" : "");
    return out;
}

const char *lm_position_name(const lm_program *p, const lm_traits *t, char *out, size_t n)
{
    static const char *const scaled[] = {
        [LM_ROPE_DEFAULT] = "RoPE", [LM_ROPE_LINEAR] = "RoPE+linear", [LM_ROPE_DYNAMIC] = "RoPE+NTK",
        [LM_ROPE_LLAMA3] = "RoPE+llama3", [LM_ROPE_YARN] = "RoPE+YaRN", [LM_ROPE_LONGROPE] = "RoPE+LongRoPE",
    };

    const lm_rope_spec *s = p->n_ropes ? &p->ropes[lm_main_rope(p)].spec : NULL;

    if (t->rotary && s)
        snprintf(out, n, "%s", s->stored_divisors ? N_("RoPE+stored divisors") : scaled[s->type]);
    else
        snprintf(out, n, "%s", t->learned ? N_("Learned") : t->sinusoidal ? N_("Sinusoidal") : t->alibi ? "ALiBi" : "none");
    return out;
}

const char *lm_mask_text(const lm_traits *t, char *out, size_t n)
{
    const char *const all = "0 <= i - j";
    char              some[32] = "";

    if (t->window)
        snprintf(some, sizeof some, "%s < %u", all, t->window);
    if (t->n_windows && t->n_windows < t->n_attentions)
        snprintf(out, n, _("%s in %u of %u layers, else %s"), some, t->n_windows, t->n_attentions, all);
    else
        snprintf(out, n, "%s", t->window ? some : all);
    return out;
}

uint32_t lm_main_rope(const lm_program *p)
{
    uint32_t last = LM_NONE;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->code == LM_OP_ROPE)
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
    /* x sigmoid(1.702 x) is written as a quick GELU and as Swish with that beta: its gated MLP is called SwiGLU */
    bool        swish = t->act == LM_ACT_SILU || t->act == LM_ACT_GELU_QUICK;
    const char *gated = swish ? "SwiGLU" : t->act == LM_ACT_RELU ? "ReGLU" : t->act == LM_ACT_SIGMOID ? "GLU" : "GeGLU";
    const char *kind  = !t->has_act ? "none" : t->glu ? gated : t->act == LM_ACT_GELU_TANH ? "GELU" : lm_act_name(t->act);

    snprintf(out, n, "%s%s", kind, t->experts ? "+MoE" : "");
    return out;
}
