/* facts_formulas.c - what the operations compute, as formulas; and what the same numbers would be under other choices. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/fact.h"
#include "analysis/ledger.h"
#include "analysis/page.h"
#include "analysis/traits.h"

/* ---- formulas ---- */

static void say_attention(lm_fact *g, const lm_traits *t)
{
    const lm_attention_spec *s = &t->attention->attention.spec;
    uint32_t                 width  = t->latent ? t->nope_dim + t->rope_dim : s->k_dim;
    double                   square = 1 / ((double)s->scale * (double)s->scale);
    bool                     usual  = square > width * 0.9999 && square < width * 1.0001;
    char                     mask[160];

    if (usual)
        lm_say_text(g, "attention", "softmax(Q K^T / sqrt(head_dim)) V", LM_FROM_PROGRAM,
                    "scale of the scores is 1/sqrt of a head's lanes");
    else
        lm_say_textf(g, "attention", LM_FROM_PROGRAM, "softmax(%g Q K^T) V", lm_decimal(s->scale));
    lm_say_text(g, "mask", lm_mask_text(t, mask, sizeof mask), LM_FROM_PROGRAM, "keys j that query i sees");
    if (t->latent)
        lm_say_text(g, "head_map", N_("every head from the same latent"), LM_FROM_PROGRAM,
                    "which key/value head a query head reads");
    else if (s->n_kv_heads == s->n_heads)
        lm_say_text(g, "head_map", "kv = i", LM_FROM_PROGRAM, "which key/value head a query head reads");
    else
        lm_say_textf(g, "head_map", LM_FROM_PROGRAM, "kv = floor(i/%u)", s->n_heads / s->n_kv_heads);
}

static void say_kv(lm_fact *g, const lm_traits *t)
{
    const lm_attention_spec *s = &t->attention->attention.spec;

    if (s->v_in_k)
        lm_say_text(g, "kv_bytes", "layers x (kv_rank + rope_dim) x tokens x bytes", LM_FROM_PROGRAM,
                    "one latent and one rotated key in each layer");
    else
        lm_say_text(g, "kv_bytes", s->k_dim == s->v_dim ? "2 x layers x kv_heads x head_dim x tokens x bytes"
                                                        : "layers x kv_heads x (head_dim + value_dim) x tokens x bytes",
                    LM_FROM_PROGRAM, "keys and values of every layer");
}

static void say_mlp(lm_fact *g, const lm_traits *t)
{
    const char *act = lm_act_name(t->act);

    if (t->act == LM_ACT_GELU_TANH)
        act = "GELU";
    if (t->glu) {
        lm_say_textf(g, "mlp", LM_FROM_PROGRAM, "down(%s(gate(x)) * up(x))", act);
        lm_say_textf(g, "mlp_inner", LM_FROM_PROGRAM, "%s(gate) * up", act);
        lm_say_text(g, "mlp_parameters", "3 x H x I", LM_FROM_PROGRAM, "gate, up and down");
    } else {
        lm_say_textf(g, "mlp", LM_FROM_PROGRAM, t->bias_mlp ? "W2 %s(W1 x + b1) + b2" : "W2 %s(W1 x)", act);
        lm_say_textf(g, "mlp_inner", LM_FROM_PROGRAM, "%s(up)", act);
        lm_say_text(g, "mlp_parameters", "2 x H x I", LM_FROM_PROGRAM, "up and down");
    }
}

static void say_norm(lm_fact *g, const lm_traits *t)
{
    if (!t->norm)
        return;
    bool rms = t->norm->code == LM_OP_RMS_NORM, bias = t->norm->weights[1] != LM_NONE;
    const char *layer_norm = bias ? "(x - mean) / sqrt(var + eps) * gamma + beta" : "(x - mean) / sqrt(var + eps) * gamma";
    lm_say_text(g, "norm", rms ? "x / sqrt(mean(x^2) + eps) * gamma" : layer_norm, LM_FROM_PROGRAM, "of the first norm");
    lm_say_text(g, "norm_parameters", rms ? "d" : bias ? "2d" : "d", LM_FROM_PROGRAM, NULL);
}

static void say_layer(lm_fact *g, const lm_traits *t)
{
    static const struct { const char *attention, *mlp, *both; } forms[] = {
        [LM_NORM_NOWHERE] = { "x + Attn(x)", "x + MLP(x)", "" },
        [LM_NORM_PRE] = { "x + Attn(Norm(x))", "x + MLP(Norm(x))", "x + Attn(Norm(x)) + MLP(Norm(x + Attn(Norm(x))))" },
        [LM_NORM_POST] = { "Norm(x + Attn(x))", "Norm(x + MLP(x))", "" },
        [LM_NORM_SANDWICH] = { "x + Norm(Attn(Norm(x)))", "x + Norm(MLP(Norm(x)))", "" },
        [LM_NORM_AFTER_BRANCH] = { "x + Norm(Attn(x))", "x + Norm(MLP(x))", "" },
    };

    if (t->parallel) {
        lm_say_text(g, "layer", "x + Attn(Norm(x)) + MLP(Norm(x))", LM_FROM_PROGRAM, "both read the same stream");
        return;
    }
    lm_say_text(g, "after_attention", forms[t->norm_position].attention, LM_FROM_PROGRAM, "norms and residual sums of a layer");
    lm_say_text(g, "after_mlp", forms[t->norm_position].mlp, LM_FROM_PROGRAM, "norms and residual sums of a layer");
    if (*forms[t->norm_position].both)
        lm_say_text(g, "layer", forms[t->norm_position].both, LM_FROM_PROGRAM, "the one put into the other");
}

static void say_positions(lm_fact *g, const lm_traits *t)
{
    if (t->rotary)
        lm_say_text(g, "rope_frequency", "theta_i = base^(-2i/d)", LM_FROM_PROGRAM, "before scaling");
    if (t->learned)
        lm_say_text(g, "positions", "h0 = W_E[t] + W_P[pos]", LM_FROM_PROGRAM, "an added row of a learned table");
}

static void say_mixture(lm_fact *g, const lm_traits *t, bool shared)
{
    const lm_route_spec *r = &t->route->route.spec;
    char                 scale[32] = "";

    if (r->scale != 1)
        snprintf(scale, sizeof scale, "%g x ", lm_decimal(r->scale));
    lm_say_textf(g, "router", LM_FROM_PROGRAM, "%s(W_r x)", r->sigmoid ? "sigmoid" : "softmax");
    lm_say_textf(g, "mixture", LM_FROM_PROGRAM, "%s%ssum top-%u g_i E_i(x)", shared ? "sum shared E_s(x) + " : "", scale,
                 r->top_k);
    if (r->n_groups > 1)
        lm_say_textf(g, "selection", LM_FROM_PROGRAM, "top-%u of %u, best %u of %u groups", r->top_k, r->n_experts,
                     r->top_groups, r->n_groups);
    else
        lm_say_textf(g, "selection", LM_FROM_PROGRAM, "top-%u of %u", r->top_k, r->n_experts);
}

static void say_latent_formulas(lm_fact *g)
{
    lm_say_text(g, "latent", "c_KV = W_DKV h", LM_FROM_PROGRAM, "the compressing product");
    lm_say_text(g, "latent_keys", "K = [W_UK c_KV ; RoPE(W_KR h)]", LM_FROM_PROGRAM,
                "joined with the rotated lanes that all heads share");
    lm_say_text(g, "latent_values", "V = W_UV c_KV", LM_FROM_PROGRAM, NULL);
}

void lm_fill_formulas(lm_facts *f, lm_fact *g)
{
    lm_traits t;
    bool      shared = false;

    lm_find_traits(f->ledger, &t);
    if (t.attention) {
        say_attention(g, &t);
        say_kv(g, &t);
    }
    if (t.latent)
        say_latent_formulas(g);
    if (t.has_act)
        say_mlp(g, &t);
    say_norm(g, &t);
    say_layer(g, &t);
    say_positions(g, &t);
    for (uint32_t i = 0; t.experts && i < f->s.program->n_nodes; i++)      /* a dense MLP in the block of the experts */
        shared |= f->ledger->block[i] == f->ledger->block[t.experts - f->s.program->nodes] && (f->ledger->roles[i] & LM_ROLE_DOWN);
    if (t.route)
        say_mixture(g, &t, shared);
    lm_say_text(g, "head", t.tied ? "logits = W_E h" : "logits = W h", LM_FROM_PROGRAM,
                t.tied ? "the embedding's table" : "a matrix of its own");
}

/* ---- the order of things ---- */

void lm_fill_flow(lm_facts *f, lm_fact *g)
{
    lm_buf b = { 0 };

    lm_put_flow(f, &b);
    lm_say_text(g, "model", b.data, LM_FROM_PROGRAM, "operations in the order they run");
    lm_buf_clear(&b);
    if (f->s.program->n_layers)
        lm_put_layer_flow(f, 0, &b);
    lm_say_text(g, "layer", b.data, LM_FROM_PROGRAM, "operations of the first layer");
    f->failed |= b.failed;
    lm_buf_clear(&b);
    uint64_t sums = 0, skips = 0;
    for (uint32_t i = 0; i < f->s.program->n_nodes; i++) {
        bool residual = lm_is_residual(f->ledger, i);
        sums += residual && f->s.program->nodes[i].layer == 0;
        skips += residual;
    }
    for (uint32_t m = f->ledger->child[0]; m != LM_NONE; m = f->ledger->sibling[m])
        lm_buf_printf(&b, "%s%s", b.size ? " + " : "", f->s.program->modules[m].name);
    lm_say_text(g, "top_level", b.data, LM_FROM_PROGRAM, "modules below the root");
    lm_buf_free(&b);
    lm_say_count(g, "residual_sums_per_layer", sums, LM_UNIT_NONE, LM_FROM_PROGRAM, "skip edges of the first layer");
    lm_say_count(g, "residual_sums", skips, LM_UNIT_NONE, LM_FROM_PROGRAM, "skip edges of all layers");
}

/* ---- other choices ---- */

/* Parameters of the first layer's products that make `role`, as if there were `heads` key/value heads. */
static uint64_t with_heads(lm_facts *f, const lm_traits *t, uint16_t role, uint64_t heads)
{
    const lm_program *p = f->s.program;
    uint64_t          n = 0;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *x = &p->nodes[i];
        if (x->layer != t->attention->layer || x->code != LM_OP_LINEAR || !(f->ledger->roles[i] & role) ||
            f->ledger->part[i] != LM_PART_ATTENTION)
            continue;
        bool kv = f->ledger->roles[i] == LM_ROLE_KEY || f->ledger->roles[i] == LM_ROLE_VALUE;
        n += p->weights[x->weights[0]].elements / (kv ? t->attention->attention.spec.n_kv_heads : 1) * (kv ? heads : 1);
    }
    return n;
}

enum { ALL_ROLES = LM_ROLE_QUERY | LM_ROLE_KEY | LM_ROLE_VALUE | LM_ROLE_OUTPUT };

void lm_fill_what_if(lm_facts *f, lm_fact *g)
{
    lm_traits t;

    lm_find_traits(f->ledger, &t);
    if (!t.attention || t.latent)
        return;
    const lm_attention_spec *s  = &t.attention->attention.spec;
    const char              *of = "matrices of the first layer's attention, key/value heads changed";
    uint64_t now = with_heads(f, &t, ALL_ROLES, s->n_kv_heads), mha = with_heads(f, &t, ALL_ROLES, s->n_heads);
    uint64_t kv = with_heads(f, &t, LM_ROLE_KEY | LM_ROLE_VALUE, s->n_kv_heads), kv_mha = with_heads(f, &t,
            LM_ROLE_KEY | LM_ROLE_VALUE, s->n_heads);
    lm_say_count(g, "attention", now, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM, "matrices of the first layer's attention");
    lm_say_count(g, "attention_mha", mha, LM_UNIT_PARAMETERS, LM_FROM_WHAT_IF, of);
    lm_say_count(g, "attention_mqa", with_heads(f, &t, ALL_ROLES, 1), LM_UNIT_PARAMETERS, LM_FROM_WHAT_IF, of);
    lm_say_count(g, "kv_projections", kv, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                 "matrices that make keys and values, first layer");
    lm_say_count(g, "kv_projections_mha", kv_mha, LM_UNIT_PARAMETERS, LM_FROM_WHAT_IF, of);
    if (kv_mha)
        lm_say_number(g, "kv_projections_saved", 100 * (1 - (double)kv / (double)kv_mha), LM_UNIT_PERCENT, LM_FROM_WHAT_IF,
                      "by grouping");
    lm_say_count(g, "saved_by_grouping", (mha - now) * f->s.program->n_layers, LM_UNIT_PARAMETERS, LM_FROM_WHAT_IF,
                 "over all layers, were they all alike");
    if (t.intermediate) {
        uint64_t one = (uint64_t)t.hidden * t.intermediate;
        lm_say_count(g, "mlp_plain", 2 * one, LM_UNIT_PARAMETERS, LM_FROM_WHAT_IF, "two matrices of the same width");
        lm_say_count(g, "mlp_gated", 3 * one, LM_UNIT_PARAMETERS, LM_FROM_WHAT_IF, "three matrices of the same width");
    }
}

/* ---- the formula that people estimate with (no grouping, both ends of the vocabulary) ---- */

void lm_fill_estimate(lm_facts *f, lm_fact *g)
{
    lm_traits   t;
    const char *how = "V H + L (4 H^2 + 3 H I) + V H";

    lm_find_traits(f->ledger, &t);
    uint64_t h = t.hidden, v = f->s.program->n_vocab, n = f->s.program->n_layers, i = t.intermediate;
    lm_say_count(g, "attention_layer", 4 * h * h, LM_UNIT_PARAMETERS, LM_FROM_RULE,
                 "4 H^2: as many key/value heads as query heads");
    lm_say_count(g, "layer", 4 * h * h + 3 * h * i, LM_UNIT_PARAMETERS, LM_FROM_RULE, "4 H^2 + 3 H I");
    lm_say_number(g, "factor", h ? 4 + 3 * (double)i / (double)h : 0, LM_UNIT_RATIO, LM_FROM_RULE,
                  "4 + 3 I/H, of H^2 in a layer");
    lm_say_count(g, "layers", n * (4 * h * h + 3 * h * i), LM_UNIT_PARAMETERS, LM_FROM_RULE, "L (4 H^2 + 3 H I)");
    lm_say_count(g, "attention", n * 4 * h * h, LM_UNIT_PARAMETERS, LM_FROM_RULE, "L 4 H^2");
    lm_say_count(g, "vocabulary", 2 * v * h, LM_UNIT_PARAMETERS, LM_FROM_RULE, "2 V H: embedding and head");
    lm_say_count(g, "total", 2 * v * h + n * (4 * h * h + 3 * h * i), LM_UNIT_PARAMETERS, LM_FROM_RULE, how);
}
