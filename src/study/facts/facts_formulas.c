/* facts_formulas.c - formulas of what the operations compute, and the same numbers under other choices. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/fact.h"
#include "study/facts/flow.h"
#include "study/facts/forms.h"
#include "study/facts/ledger.h"
#include "study/facts/traits.h"
#include "base/number.h"

/* ---- formulas ---- */

static void add_form(lm_facts *f, lm_fact *g, const char *name, lm_text *text, const char *how)
{
    if (text->size)
        lm_add_text(g, name, text->data, LM_FROM_PROGRAM, how);
    f->failed |= text->failed;
    lm_text_clear(text);
}

/* Append the argument of the softmax: scale, soft cap and distance bias, in the order in which they are
 * applied. */
static void put_scores(const lm_traits *t, lm_text *out)
{
    const lm_attention_spec *s = &t->attention->attention.spec;
    uint32_t                 width  = t->latent ? t->nope_dim + t->rope_dim : s->k_dim;
    double                   square = 1 / ((double)s->scale * (double)s->scale);
    bool                     usual  = square > width * 0.9999 && square < width * 1.0001;
    const char              *of     = s->alibi_half ? "(Q K^T + m_h j)" : "Q K^T";

    if (s->softcap > 0)
        lm_text_printf(out, "%g tanh(", lm_decimal(s->softcap));
    if (usual)
        lm_text_printf(out, t->latent ? "%s / sqrt(qk_dim)" : "%s / sqrt(head_dim)", of);
    else if (s->scale == 1)
        lm_text_add_str(out, of);
    else
        lm_text_printf(out, "%g %s", lm_decimal(s->scale), of);
    if (s->softcap > 0)
        lm_text_printf(out, " / %g)", lm_decimal(s->softcap));
    if (s->alibi > 0 && !s->alibi_half)
        lm_text_add_str(out, " - m_h (i - j)");
}

static void add_attention(lm_facts *f, lm_fact *g, const lm_traits *t)
{
    static const struct { const char *name, *how; } parts[] = {
        { "query", "x: what the attention reads" }, { "key", "x: what the attention reads" }, { "value", "x: what the attention reads" },
        { "attention_output", "a: the results of all heads, side by side" },
    };
    const lm_attention_spec *s = &t->attention->attention.spec;
    lm_text                   b = { 0 };
    char                     mask[160];

    lm_text_add_str(&b, t->sinks ? "softmax([" : "softmax(");
    put_scores(t, &b);
    lm_text_add_str(&b, t->sinks ? " ; s_h]) [V ; 0]" : ") V");
    add_form(f, g, "attention", &b,
             s->alibi > 0 ? "m_h: a head's slope, attention.alibi_slopes"
             : t->sinks   ? "s_h: a learned score of a head, without a value"
                          : "scale of the scores is 1/sqrt of a head's dimensions, or said");
    for (uint32_t i = 0; i < 4; i++)
        if (lm_put_projection(f->ledger, t->attention, i, &b))
            add_form(f, g, parts[i].name, &b, parts[i].how);
    lm_text_free(&b);
    lm_add_text(g, "mask", lm_mask_text(t, mask, sizeof mask), LM_FROM_PROGRAM, "keys j that query i sees");
    if (t->indexer && t->indexer->attention.spec.block)
        lm_add_textf(g, "choice", LM_FROM_PROGRAM,
                     "top-%u of j <= i in blocks of %u by max q_r k_j of a block, the last %u always",
                     t->indexer->attention.spec.top_k, t->indexer->attention.spec.block,
                     t->indexer->attention.spec.local);
    else if (t->indexer && t->indexer->attention.spec.rate)
        lm_add_textf(g, "choice", LM_FROM_PROGRAM,
                     "top-%u of entries e < floor((i + 1)/%u) by sum_r w_r max(q_r k_e, 0)",
                     t->indexer->attention.spec.top_k, t->indexer->attention.spec.rate);
    else if (t->indexer)
        lm_add_textf(g, "choice", LM_FROM_PROGRAM, "top-%u of j <= i by sum_r w_r max(q_r k_j, 0)",
                     t->indexer->attention.spec.top_k);
    if (t->latent)
        lm_add_text(g, "head_map", N_("every head from the same latent"), LM_FROM_PROGRAM,
                    "which key/value head a query head reads");
    else if (s->n_kv_heads == s->n_heads)
        lm_add_text(g, "head_map", "kv = i", LM_FROM_PROGRAM, "which key/value head a query head reads");
    else
        lm_add_textf(g, "head_map", LM_FROM_PROGRAM, "kv = floor(i/%u)", s->n_heads / s->n_kv_heads);
}

static bool stores_the_same(const lm_cache *a, const lm_cache *b)
{
    return a->n_kv_heads == b->n_kv_heads && a->k_dim == b->k_dim && a->v_dim == b->v_dim &&
           a->rate == b->rate;
}

/* Write the sum over the layers in numbers, if they do not all store the same. */
static bool put_different(const lm_program *p, lm_text *out)
{
    const lm_cache *c = p->caches;
    uint32_t        groups = 0;

    for (uint32_t i = 0; i < p->n_caches; i++) {
        uint32_t n = 0, before = 0;
        for (uint32_t k = 0; k < p->n_caches; k++) {
            n += stores_the_same(&c[i], &c[k]);
            before += k < i && stores_the_same(&c[i], &c[k]);
        }
        if (before)
            continue;
        lm_text_add_str(out, groups++ ? " + " : "(");
        if (c[i].rate)
            lm_text_printf(out, "%u x %u / %u", n, c[i].k_dim, c[i].rate);
        else if (c[i].v_in_k)
            lm_text_printf(out, "%u x %u", n, c[i].k_dim);
        else if (c[i].k_dim == c[i].v_dim)
            lm_text_printf(out, "2 x %u x %u x %u", n, c[i].n_kv_heads, c[i].k_dim);
        else
            lm_text_printf(out, "%u x %u x (%u + %u)", n, c[i].n_kv_heads, c[i].k_dim, c[i].v_dim);
    }
    lm_text_add_str(out, ") x tokens x bytes");
    return groups > 1;
}

/* Return whether a cache has an entry for several positions. */
static bool has_entries(const lm_program *p)
{
    for (uint32_t i = 0; i < p->n_caches; i++)
        if (p->caches[i].rate)
            return true;
    return false;
}

/* In models of which some layers store no keys, the number of those that do takes the place of "layers". */
static void add_kv(lm_facts *f, lm_fact *g, const lm_traits *t)
{
    const lm_attention_spec *s = &t->attention->attention.spec;

    char                     layers[16] = "layers";
    uint32_t                 stored = f->s.program->n_caches - t->n_indexers;
    lm_text                  sum = { 0 };
    bool                     differ = (!s->v_in_k || has_entries(f->s.program)) &&
                                      put_different(f->s.program, &sum);

    if (differ)
        add_form(f, g, "kv_bytes", &sum, "layers do not all store the same");
    lm_text_free(&sum);
    if (differ)
        return;
    if (stored != f->s.program->n_layers)
        snprintf(layers, sizeof layers, "%u", stored);
    if (t->indexer && !s->v_in_k)
        lm_add_textf(g, "kv_bytes", LM_FROM_PROGRAM,
                     "(2 x %s x kv_heads x head_dim + %u x %u) x tokens x bytes", layers, t->n_indexers,
                     t->indexer->attention.spec.k_dim);
    else if (s->v_in_k && t->indexer)
        lm_add_textf(g, "kv_bytes", LM_FROM_PROGRAM,
                     "(%s x (kv_rank + rope_dim) + %u x %u) x tokens x bytes", layers, t->n_indexers,
                     t->indexer->attention.spec.k_dim);
    else if (s->v_in_k)
        lm_add_textf(g, "kv_bytes", LM_FROM_PROGRAM, "%s x (kv_rank + rope_dim) x tokens x bytes", layers);
    else if (s->k_dim == s->v_dim)
        lm_add_textf(g, "kv_bytes", LM_FROM_PROGRAM, "2 x %s x kv_heads x head_dim x tokens x bytes", layers);
    else
        lm_add_textf(g, "kv_bytes", LM_FROM_PROGRAM,
                     "%s x kv_heads x (head_dim + value_dim) x tokens x bytes", layers);
}

/* Return whether a product of this role in the MLPs has a bias. */
static bool has_bias(const lm_facts *f, uint16_t role)
{
    const lm_program *p = f->s.program;

    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_LINEAR && (f->ledger->roles[i] & role) &&
            f->ledger->part[i] == LM_PART_MLP && p->nodes[i].weights[1] != LM_NONE)
            return true;
    return false;
}

static void add_ungated_experts(lm_fact *g)
{
    lm_add_textf(g, "mlp", LM_FROM_PROGRAM, "down(ReLU(up(x)) * up(x))");
    lm_add_textf(g, "mlp_inner", LM_FROM_PROGRAM, "ReLU(up) * up");
    lm_add_text(g, "mlp_parameters", "2 x D x F_E", LM_FROM_PROGRAM, "up and down of one expert");
}

/* Print the gate of an MLP, with what is done to it before its activation. */
static void print_gate(lm_facts *f, lm_fact *g, const lm_node *glu, bool biased, char *out, size_t size)
{
    const lm_program *p    = f->s.program;
    const lm_node    *made = &p->nodes[p->values[glu->in[0]].producer];
    double            c    = lm_decimal(made->scale.factor);
    const char       *bias = biased ? " + b_g" : "";

    if (glu->code != LM_OP_EXPERTS && made->code == LM_OP_SCALE) {
        lm_print(out, size, "%g gate(x)%s", c, bias);
    } else if (glu->code != LM_OP_EXPERTS && made->code == LM_OP_GAUSSIAN_TOP) {
        lm_print(out, size, "Top(gate(x)%s)", bias);
        lm_add_textf(g, "top", LM_FROM_PROGRAM, "max(x - mean - %g sqrt(var), 0)", c);
    } else {
        lm_print(out, size, "gate(x)%s", bias);
    }
}

/* Write what the gate multiplies: clamped if `limit` is positive, and with `plus` 1 more. */
static void print_up(double limit, bool plus, bool bias, char *out, size_t size)
{
    if (limit > 0)
        lm_print(out, size, plus ? "(clamp(up(x)%s, -%g, %g) + 1)" : "clamp(up(x)%s, -%g, %g)",
                 bias ? " + b_u" : "", limit, limit);
    else
        lm_print(out, size, "%s", bias ? "(up(x) + b_u)" : "up(x)");
}

static void add_gated(lm_facts *f, lm_fact *g, const lm_traits *t, const char *act)
{
    bool   experts = t->glu->code == LM_OP_EXPERTS;
    double limit   = lm_decimal(experts ? t->glu->experts.limit : t->glu->glu.limit);
    bool   plus = (experts ? t->glu->experts.plus : t->glu->glu.plus) > 0;
    bool   b_g = experts ? t->glu->weights[3] != LM_NONE : has_bias(f, LM_PRODUCT_GATE);
    bool   b_u = experts ? t->glu->weights[4] != LM_NONE : has_bias(f, LM_PRODUCT_UP);
    bool   b_d = experts ? t->glu->weights[5] != LM_NONE : has_bias(f, LM_PRODUCT_DOWN);
    char   gate[64], up[96];

    if (experts && !lm_experts_have_gate(t->glu)) {
        add_ungated_experts(g);
        return;
    }
    if (limit > 0)
        lm_print(gate, sizeof gate, "min(gate(x)%s, %g)", b_g ? " + b_g" : "", limit);
    else
        print_gate(f, g, t->glu, b_g, gate, sizeof gate);
    print_up(limit, plus, b_u, up, sizeof up);
    lm_add_textf(g, "mlp", LM_FROM_PROGRAM, "down(%s(%s) * %s)%s", act, gate, up, b_d ? " + b_d" : "");
    lm_add_textf(g, "mlp_inner", LM_FROM_PROGRAM,
                 limit > 0 && plus ? "%s(gate) * (up + 1)" : "%s(gate) * up", act);
    lm_add_text(g, "mlp_parameters", experts ? "3 x D x F_E" : "3 x D x F", LM_FROM_PROGRAM,
                experts ? "gate, up and down of one expert" : "gate, up and down");
    if (t->route && !experts)
        lm_add_text(g, "expert_parameters", "3 x D x F_E", LM_FROM_PROGRAM,
                    "gate, up and down of one routed expert");
}

static void add_mlp(lm_facts *f, lm_fact *g, const lm_traits *t)
{
    const char *act = t->act == LM_ACT_GELU_TANH    ? "GELU"
                      : t->act == LM_ACT_GELU_QUICK ? "QuickGELU"
                                                    : lm_act_word(t->act);

    if (t->glu) {
        add_gated(f, g, t, act);
        return;
    }
    lm_add_textf(g, "mlp", LM_FROM_PROGRAM, "W2 %s(W1 x%s)%s", act, has_bias(f, LM_PRODUCT_UP) ? " + b1" : "",
                 has_bias(f, LM_PRODUCT_DOWN) ? " + b2" : "");
    lm_add_textf(g, "mlp_inner", LM_FROM_PROGRAM, "%s(up)", act);
    lm_add_text(g, "mlp_parameters", "2 x D x F", LM_FROM_PROGRAM, "up and down");
}

static void add_norm(lm_facts *f, lm_fact *g, const lm_traits *t)
{
    if (!t->norm)
        return;
    bool rms = t->norm->code == LM_OP_RMS_NORM, bias = t->norm->weights[1] != LM_NONE;
    const lm_weight *w = t->norm->weights[0] != LM_NONE ? &f->s.program->weights[t->norm->weights[0]] : NULL;
    lm_add_textf(g, "norm", LM_FROM_PROGRAM, "%s%s%s",
                 rms ? "x / sqrt(mean(x^2) + eps)" : "(x - mean) / sqrt(var + eps)",
                 !w            ? ""
                 : w->plus_one ? " * (1 + gamma)"
                               : " * gamma",
                 bias ? " + beta" : "");
    lm_add_text(g, "norm_parameters", rms ? "d" : bias ? "2d" : "d", LM_FROM_PROGRAM, NULL);
}

/* Return whether the first layer has attention, and no state in its place. */
static bool begins_with_attention(const lm_facts *f)
{
    const lm_module *m = &f->s.program->modules[f->ledger->layer[0]];

    for (uint32_t i = m->first_op; i < m->end_op; i++)
        if (f->s.program->nodes[i].code == LM_OP_ATTENTION)
            return true;
    return false;
}

/* Append a value of a layer in terms of another, x. */
static void put_form(const lm_facts *f, lm_value v, lm_value of, lm_text *out)
{
    lm_put_form(f->ledger, &lm_plain_words, v, &of, (const char *const[]){ "x" }, 1, out);
}

/* Add how several streams are predicted from all of them (0), or corrected by what one became (1). */
static void add_coefficients(lm_facts *f, lm_fact *g, uint32_t which)
{
    lm_text b = { 0 };

    lm_text_add_str(&b, which ? "x[j] + (1 + kappa_j)(y - x[0]), kappa = " : "x[j] + sum kappa_ij x[i], kappa = ");
    if (lm_put_coefficients(f->ledger, which, &b))
        add_form(f, g, which ? "correct" : "predict", &b, which ? "y: what a layer made of one stream" : "of stream j");
    lm_text_free(&b);
}

/* Add the formulas of the first layer. */
static void add_layer(lm_facts *f, lm_fact *g, const lm_traits *t)
{
    lm_value at[LM_MAX_STREAMS];
    lm_text   b = { 0 };

    if (!f->s.program->n_layers)
        return;
    uint32_t n = lm_streams_of(f->ledger, 0, at);
    bool several = n == LM_MAX_STREAMS;
    if (n >= 3) {
        put_form(f, at[1 + several], at[several], &b);
        add_form(f, g, begins_with_attention(f) ? "after_attention" : "after_mixing", &b,
                 "norms and residual sums of a layer");
        put_form(f, at[2 + several], at[1 + several], &b);
        add_form(f, g, "after_mlp", &b, "norms and residual sums of a layer");
    }
    if (n >= 4) {
        put_form(f, at[n - 1], at[n - 2], &b);
        add_form(f, g, "after_inputs", &b, "norms and residual sums of a layer");
    }
    put_form(f, at[n - 1], at[0], &b);
    add_form(f, g, "layer", &b, n >= 3 ? "the one put into the other"
                                 : t->parallel ? "both read the same stream" : "its one branch");
    if (lm_put_low_rank(f->ledger, &b))
        add_form(f, g, "low", &b, "beside attention");
    lm_text_free(&b);
    add_coefficients(f, g, 0);
    add_coefficients(f, g, 1);
}

/* Add the input of the first layer and what follows the last one. */
static void add_ends(lm_facts *f, lm_fact *g, const lm_traits *t)
{
    const lm_program *p = f->s.program;
    lm_text            b = { 0 };

    if (p->n_layers) {
        lm_text_add_str(&b, "h0 = ");
        lm_put_form(f->ledger, &lm_plain_words, p->modules[f->ledger->layer[0]].in, NULL, NULL, 0, &b);
        if (t->learned || t->sinusoidal)
            lm_add_text(g, "positions", b.data, LM_FROM_PROGRAM,
                        t->learned ? "an added row of a learned table" : "an added row of sines and cosines");
        add_form(f, g, "embedding", &b, "what enters the first layer");
    }
    lm_text_add_str(&b, "logits = ");
    lm_put_head_form(f->ledger, &lm_plain_words, &b);
    add_form(f, g, "head", &b, t->tied ? "the embedding's table" : "a matrix of its own");
    lm_text_free(&b);
}

static void add_positions(lm_fact *g, const lm_traits *t)
{
    if (t->rotary)
        lm_add_text(g, "rope_frequency", "theta_i = base^(-2i/d)", LM_FROM_PROGRAM, "before scaling");
}

/* Return the form of the experts other than the routed ones: none, one or more that every token visits, or
 * one with its own gate. */
static const char *shared_form(const lm_facts *f, const lm_traits *t)
{
    const lm_program *p = f->s.program;
    const char       *form = "";

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        if (f->ledger->block[i] != f->ledger->block[t->experts - p->nodes])
            continue;
        if (p->nodes[i].code == LM_OP_GLU && p->values[p->nodes[i].in[0]].width == 1)
            return "sigmoid(W_s x) E_s(x) + ";
        if (f->ledger->roles[i] & LM_PRODUCT_DOWN)
            form = "sum shared E_s(x) + ";
    }
    return form;
}

static const lm_node *maker(const lm_program *p, lm_value v)
{
    return &p->nodes[p->values[v].producer];
}

/* Return whether the layer of the experts has a plain MLP too, whose norm is added to that of theirs. */
static bool has_plain_mlp(const lm_facts *f, const lm_traits *t)
{
    const lm_program *p = f->s.program;

    for (uint32_t i = 0; t->experts && i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->layer == t->experts->layer && n->code == LM_OP_ADD && lm_is_norm(maker(p, n->in[0])) &&
            lm_is_norm(maker(p, n->in[1])))
            return true;
    }
    return false;
}

/* Print what the router's product reads: the part's input, or a norm of it times a factor and a weight. */
static void print_routed(const lm_program *p, const lm_node *linear, char *out, size_t size)
{
    const lm_node *n = maker(p, linear->in[0]);

    if (n->code == LM_OP_SCALE && maker(p, n->in[0])->code == LM_OP_SCALE_BY_WEIGHT)
        lm_print(out, size, "%g W_r (lambda * Norm(x))", lm_decimal(n->scale.factor));
    else
        lm_print(out, size, "W_r x");
}

static void add_mixture(lm_facts *f, lm_fact *g, const lm_traits *t)
{
    const lm_route_spec *r      = &t->route->route.spec;
    const lm_node       *linear = maker(f->s.program, t->route->in[0]);
    const char          *by = t->route->weights[0] != LM_NONE ? " by g + c" : "";
    bool                 plain = has_plain_mlp(f, t);
    char                 scale[32] = "", routed[64];

    if (r->scale != 1)
        lm_print(scale, sizeof scale, "%g x ", lm_decimal(r->scale));
    print_routed(f->s.program, linear, routed, sizeof routed);
    lm_add_textf(g, "router", LM_FROM_PROGRAM, "%s(%s%s)",
                 r->one_by_one      ? "SparseMixer"
                 : r->root_softplus ? "sqrt softplus"
                                    : lm_route_function(r),
                 routed,
                 linear->weights[1] != LM_NONE ? " + b_r" : "");
    if (t->experts && t->experts->experts.scaled_input)
        lm_add_textf(g, "mixture", LM_FROM_PROGRAM, "%ssum top-%u E_i(g_i x)", shared_form(f, t), r->top_k);
    else
        lm_add_textf(g, "mixture", LM_FROM_PROGRAM, "%s%s%ssum top-%u %s%s E_i(%s)%s",
                     plain ? "Norm(E_s(Norm(x))) + Norm(" : "", t->experts ? shared_form(f, t) : "", scale,
                     r->top_k, r->renormalise ? "(g_i / sum g)" : "g_i",
                     t->route->weights[1] != LM_NONE ? " s_i" : "", plain ? "Norm(x)" : "x",
                     plain ? ")" : "");
    if (r->n_groups > 1)
        lm_add_textf(g, "selection", LM_FROM_PROGRAM, "top-%u of %u%s, best %u of %u groups", r->top_k,
                     r->n_experts, by, r->top_groups, r->n_groups);
    else
        lm_add_textf(g, "selection", LM_FROM_PROGRAM, "top-%u of %u%s", r->top_k, r->n_experts, by);
}

static void add_latent_formulas(lm_facts *f, lm_fact *g, bool rotary)
{
    bool low = lm_facts_count(f, "attention.latent.q_rank") > 0;

    lm_add_text(g, "latent", "c_KV = W_DKV h", LM_FROM_PROGRAM, "the compressing product");
    lm_add_text(g, "latent_norm", "c_KV <- Norm(c_KV)", LM_FROM_PROGRAM,
                "before keys and values are made of it");
    if (rotary) {
        lm_add_text(g, "query",
                    low ? "Q = [W_UQ c_Q ; RoPE(W_QR c_Q)], c_Q = Norm(W_DQ h)"
                        : "Q = [W_Q h ; RoPE(W_QR h)]",
                    LM_FROM_PROGRAM, "joined with rotated dimensions");
        lm_add_text(g, "latent_keys", "K = [W_UK c_KV ; RoPE(W_KR h)]", LM_FROM_PROGRAM,
                    "joined with the rotated dimensions that all heads share");
    } else {
        lm_add_text(g, "query", low ? "Q = W_UQ c_Q, c_Q = Norm(W_DQ h)" : "Q = W_Q h", LM_FROM_PROGRAM,
                    "nothing is rotated");
        lm_add_text(g, "latent_keys", "K = [W_UK c_KV ; W_KR h]", LM_FROM_PROGRAM,
                    "joined with dimensions that all heads share");
    }
    lm_add_text(g, "latent_values", "V = W_UV c_KV", LM_FROM_PROGRAM, NULL);
}

void lm_fill_formulas(lm_facts *f, lm_fact *g)
{
    lm_traits t;

    lm_find_traits(f->ledger, &t);
    if (t.attention) {
        add_attention(f, g, &t);
        add_kv(f, g, &t);
    }
    if (t.latent)
        add_latent_formulas(f, g, t.rotary);
    if (t.has_act)
        add_mlp(f, g, &t);
    add_norm(f, g, &t);
    add_layer(f, g, &t);
    add_positions(g, &t);
    if (t.route)
        add_mixture(f, g, &t);
    add_ends(f, g, &t);
}

/* ---- order of operations ---- */

void lm_fill_flow(lm_facts *f, lm_fact *g)
{
    lm_text b = { 0 };

    lm_put_flow(f, &b);
    lm_add_text(g, "model", b.data, LM_FROM_PROGRAM, "operations in the order they run");
    lm_text_clear(&b);
    if (f->s.program->n_layers)
        lm_put_layer_flow(f, 0, &b);
    lm_add_text(g, "layer", b.data, LM_FROM_PROGRAM, "operations of the first layer");
    f->failed |= b.failed;
    lm_text_clear(&b);
    uint64_t sums = 0, skips = 0;
    for (uint32_t i = 0; i < f->s.program->n_nodes; i++) {
        bool residual = lm_is_residual(f->ledger, i);
        sums += residual && f->s.program->nodes[i].layer == 0;
        skips += residual;
    }
    for (uint32_t m = f->ledger->child[0]; m != LM_NONE; m = f->ledger->sibling[m])
        lm_text_printf(&b, "%s%s", b.size ? " + " : "", f->s.program->modules[m].name);
    lm_add_text(g, "top_level", b.data, LM_FROM_PROGRAM, "modules below the root");
    lm_text_free(&b);
    lm_add_count(g, "residual_sums_per_layer", sums, LM_UNIT_NONE, LM_FROM_PROGRAM,
                 "skip edges of the first layer");
    lm_add_count(g, "residual_sums", skips, LM_UNIT_NONE, LM_FROM_PROGRAM, "skip edges of all layers");
}

/* ---- alternative designs ---- */

/* Return the rows of a matrix with these roles and `heads` key/value heads; fused matrices store query, key
 * and value one after the other. */
static uint64_t projection_rows(const lm_attention_spec *s, uint16_t role, uint64_t heads)
{
    return (role & LM_PRODUCT_QUERY ? (uint64_t)s->n_heads * s->k_dim : 0) +
           (role & LM_PRODUCT_KEY ? heads * s->k_dim : 0) + (role & LM_PRODUCT_VALUE ? heads * s->v_dim : 0);
}

/* Return the parameters of the first attention layer's products with this `role`, as if there were `heads`
 * key/value heads. In a fused matrix (Q, K and V) only the rows of `role` count. */
static uint64_t with_heads(lm_facts *f, const lm_traits *t, uint16_t role, uint64_t heads)
{
    const lm_program        *p = f->s.program;
    const lm_attention_spec *s = &t->attention->attention.spec;
    uint64_t                 n = 0;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *x = &p->nodes[i];
        uint16_t       made = f->ledger->roles[i];
        if (x->layer != t->attention->layer || x->code != LM_OP_LINEAR || !(made & role) ||
            f->ledger->part[i] != LM_PART_ATTENTION)
            continue;
        uint64_t elements = p->weights[x->weights[0]].elements;
        if (made & (LM_PRODUCT_KEY | LM_PRODUCT_VALUE))
            n += elements / projection_rows(s, made, s->n_kv_heads) * projection_rows(s, made & role, heads);
        else
            n += elements;
    }
    return n;
}

enum { ALL_ROLES = LM_PRODUCT_QUERY | LM_PRODUCT_KEY | LM_PRODUCT_VALUE | LM_PRODUCT_OUTPUT };

/* Add the output widths of the first layer's attention projections (input width for the output
 * projection). */
static void fill_widths(lm_facts *f, lm_fact *g)
{
    lm_traits t;

    lm_find_traits(f->ledger, &t);
    const lm_attention_spec *s = &t.attention->attention.spec;
    const struct { const char *name; uint64_t heads, lanes; bool real; } widths[] = {
        { "query", s->n_heads, s->k_dim, true },     { "key", s->n_kv_heads, s->k_dim, true },  { "key_mha", s->n_heads, s->k_dim, false },
        { "key_mqa", 1, s->k_dim, false },           { "value", s->n_kv_heads, s->v_dim, true }, { "value_mha", s->n_heads, s->v_dim, false },
        { "value_mqa", 1, s->v_dim, false },         { "output", s->n_heads, s->v_dim, true },
    };
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        lm_add_count(g, widths[i].name, widths[i].heads * widths[i].lanes, LM_UNIT_LANES,
                     widths[i].real ? LM_FROM_PROGRAM : LM_FROM_WHAT_IF, "heads by the dimensions of one");
}

void lm_fill_what_if(lm_facts *f, lm_fact *g)
{
    lm_traits t;

    lm_find_traits(f->ledger, &t);
    if (!t.attention || t.latent)
        return;
    const lm_attention_spec *s  = &t.attention->attention.spec;
    const char              *of = "matrices of the first layer's attention, key/value heads changed";
    uint64_t now = with_heads(f, &t, ALL_ROLES, s->n_kv_heads),
             mha = with_heads(f, &t, ALL_ROLES, s->n_heads);
    uint64_t kv = with_heads(f, &t, LM_PRODUCT_KEY | LM_PRODUCT_VALUE, s->n_kv_heads),
             kv_mha = with_heads(f, &t, LM_PRODUCT_KEY | LM_PRODUCT_VALUE, s->n_heads),
             kv_mqa = with_heads(f, &t, LM_PRODUCT_KEY | LM_PRODUCT_VALUE, 1);
    lm_add_group(g, "widths", fill_widths, 0);
    lm_add_count(g, "attention", now, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                 "matrices of the first layer's attention");
    lm_add_count(g, "attention_mha", mha, LM_UNIT_PARAMETERS, LM_FROM_WHAT_IF, of);
    lm_add_count(g, "attention_mqa", with_heads(f, &t, ALL_ROLES, 1), LM_UNIT_PARAMETERS, LM_FROM_WHAT_IF,
                 of);
    lm_add_count(g, "kv_projections", kv, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                 "matrices that make keys and values, first layer");
    lm_add_count(g, "kv_projections_mha", kv_mha, LM_UNIT_PARAMETERS, LM_FROM_WHAT_IF, of);
    lm_add_count(g, "kv_projections_mqa", kv_mqa, LM_UNIT_PARAMETERS, LM_FROM_WHAT_IF, of);
    if (kv_mha) {
        lm_add_number(g, "kv_projections_saved", 100 * (1 - (double)kv / (double)kv_mha), LM_UNIT_PERCENT,
                      LM_FROM_WHAT_IF, "by grouping");
        lm_add_number(g, "kv_projections_saved_mqa", 100 * (1 - (double)kv_mqa / (double)kv_mha),
                      LM_UNIT_PERCENT, LM_FROM_WHAT_IF, "by one key/value head");
    }
    lm_add_count(g, "saved_by_grouping", (mha - now) * f->s.program->n_layers, LM_UNIT_PARAMETERS,
                 LM_FROM_WHAT_IF, "over all layers, were they all alike");
    if (t.intermediate) {
        uint64_t one = (uint64_t)t.hidden * t.intermediate;
        lm_add_count(g, "mlp_plain", 2 * one, LM_UNIT_PARAMETERS, LM_FROM_WHAT_IF,
                     "two matrices of the same width");
        lm_add_count(g, "mlp_gated", 3 * one, LM_UNIT_PARAMETERS, LM_FROM_WHAT_IF,
                     "three matrices of the same width");
    }
}

/* ---- common estimate of the parameter count (no grouping, embedding and head untied) ---- */

void lm_fill_estimate(lm_facts *f, lm_fact *g)
{
    lm_traits   t;
    const char *how = "V H + L (4 H^2 + 3 H I) + V H";

    lm_find_traits(f->ledger, &t);
    uint64_t h = t.hidden, v = f->s.program->n_vocab, n = f->s.program->n_layers, i = t.intermediate;
    lm_add_count(g, "attention_layer", 4 * h * h, LM_UNIT_PARAMETERS, LM_FROM_RULE,
                 "4 H^2: as many key/value heads as query heads");
    lm_add_count(g, "layer", 4 * h * h + 3 * h * i, LM_UNIT_PARAMETERS, LM_FROM_RULE, "4 H^2 + 3 H I");
    lm_add_number(g, "factor", h ? 4 + 3 * (double)i / (double)h : 0, LM_UNIT_RATIO, LM_FROM_RULE,
                  "4 + 3 I/H, of H^2 in a layer");
    lm_add_count(g, "layers", n * (4 * h * h + 3 * h * i), LM_UNIT_PARAMETERS, LM_FROM_RULE,
                 "L (4 H^2 + 3 H I)");
    lm_add_count(g, "attention", n * 4 * h * h, LM_UNIT_PARAMETERS, LM_FROM_RULE, "L 4 H^2");
    lm_add_count(g, "vocabulary", 2 * v * h, LM_UNIT_PARAMETERS, LM_FROM_RULE, "2 V H: embedding and head");
    lm_add_count(g, "total", 2 * v * h + n * (4 * h * h + 3 * h * i), LM_UNIT_PARAMETERS, LM_FROM_RULE, how);
}
