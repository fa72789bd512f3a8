/* cards_formulas.c - formulas of cards that follow the program of the model. */
#include "study/explain/cards.h"
#include "study/facts/forms.h"

static const lm_form_words residual_words = {
    .token = "W_E[t]", .position = "W_P[pos]", .sine = "PE(pos)", .norm = "Norm", .first_norm = "Norm",
    .attention = "Attention", .mlp = "MLP", .inputs = "Inputs", .times = " · ", .factor = "λ",
    .from = "[j ≥ %u] · ",
};

static const lm_form_words residual_latex = {
    .token = "W_E[t]", .position = "W_P[\\mathrm{pos}]", .sine = "\\mathrm{PE}(\\mathrm{pos})",
    .norm = "\\text{Norm}", .first_norm = "\\text{Norm}",
    .attention = "\\text{Attn}", .mlp = "\\text{MLP}", .inputs = "\\text{Inputs}", .times = "\\,",
    .factor = "\\lambda", .within = "\\_", .from = "[j \\ge %u] \\, ",
};

/* Write the gated MLP with the activation of this model, and the clamped form of some mixtures. */
void lm_read_gated(const lm_ledger *l, lm_text *unicode, lm_text *latex)
{
    static const struct { lm_act act; const char *name, *unicode, *latex; } forms[] = {
        { LM_ACT_SILU, "SiLU", "x · σ(x)", "x\\,\\sigma(x)" },
        { LM_ACT_GELU, "GELU", "x · Φ(x)", "x\\,\\varPhi(x)" },
        { LM_ACT_GELU_TANH, "GELU", "x/2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))",
          "\\frac{x}{2}\\left(1 + \\tanh\\left(\\sqrt{2/\\pi}\\,(x + 0.044715\\,x^3)\\right)\\right)" },
        { LM_ACT_GELU_QUICK, "quick", "x · σ(1.702 · x)", "x\\,\\sigma(1.702\\,x)" },
        { LM_ACT_RELU, "ReLU", "max(0, x)", "\\max(0, x)" },
    };
    lm_traits t;

    lm_find_traits(l, &t);
    float limit = t.experts ? t.experts->experts.limit : 0;
    bool  plus  = t.experts && t.experts->experts.plus > 0;
    for (size_t i = 0; t.glu && i < sizeof forms / sizeof *forms; i++) {
        if (forms[i].act != t.act)
            continue;
        lm_text_printf(unicode, "down(%s(gate · x) ⊙ (up · x%s)),   %s(x) = %s", forms[i].name,
                       plus ? " + 1" : "", forms[i].name, forms[i].unicode);
        lm_text_printf(
            latex,
            "W_{down}\\left(\\text{%s}(W_{gate}\\,x) \\odot %sW_{up}\\,x%s\\right),\\quad \\text{%s}(x) = %s",
            forms[i].name, plus ? "(" : "", plus ? " + 1)" : "", forms[i].name, forms[i].latex);
        if (limit > 0) {
            lm_text_printf(unicode, _(";   gate · x at most %g, up · x from −%g to %g"), (double)limit,
                           (double)limit, (double)limit);
            lm_text_printf(latex, ",\\quad W_{gate}x \\le %g,\\; |W_{up}x| \\le %g", (double)limit,
                           (double)limit);
        }
    }
}

/* Return whether two caches store the same for a token. */
static bool stores_the_same(const lm_cache *a, const lm_cache *b)
{
    return a->n_kv_heads == b->n_kv_heads && a->k_dim == b->k_dim && a->v_dim == b->v_dim &&
           a->v_in_k == b->v_in_k && a->rate == b->rate;
}

/* Write the values that a token stores in `n` layers, in numbers. */
static void put_stored(const lm_cache *c, unsigned n, const char *dot, lm_text *out)
{
    if (c->rate)
        lm_text_printf(out, "%u%s%u / %u", n, dot, c->k_dim, c->rate);
    else if (c->v_in_k)
        lm_text_printf(out, "%u%s%u", n, dot, c->k_dim);
    else if (c->k_dim == c->v_dim)
        lm_text_printf(out, "2%s%u%s%u%s%u", dot, n, dot, c->n_kv_heads, dot, c->k_dim);
    else
        lm_text_printf(out, "%u%s%u%s(%u + %u)", n, dot, c->n_kv_heads, dot, c->k_dim, c->v_dim);
}

/* Write the sum over the layers that store keys, unless all layers store the same: the usual form has letters
 * for that. */
void lm_read_cache(const lm_ledger *l, lm_text *unicode, lm_text *latex)
{
    const lm_program *p = l->program;
    lm_text sums[2] = { { 0 }, { 0 } };
    unsigned groups = 0;

    for (uint32_t i = 0; i < p->n_caches; i++) {
        unsigned n = 0, before = 0;
        for (uint32_t k = 0; k < p->n_caches; k++) {
            bool same = stores_the_same(&p->caches[i], &p->caches[k]);
            n += same;
            before += same && k < i;
        }
        if (before)
            continue;
        bool usual = p->caches[i].v_in_k || p->caches[i].k_dim == p->caches[i].v_dim;
        if (usual && n == p->n_layers && n == p->n_caches)
            return;
        for (size_t form = 0; form < 2; form++) {
            lm_text_add_str(&sums[form], groups ? " + " : "");
            put_stored(&p->caches[i], n, form ? " \\cdot " : " · ", &sums[form]);
        }
        groups++;
    }
    const char *open = groups > 1 ? "(" : "", *close = groups > 1 ? ")" : "";
    unicode->failed |= sums[0].failed || sums[1].failed;
    if (groups && !unicode->failed) {
        lm_text_printf(unicode, _("bytes = %s%s%s · bytes per value · tokens"), open, sums[0].data, close);
        lm_text_printf(latex, "\\text{bytes} = %s%s%s \\cdot b_v \\cdot S", open, sums[1].data, close);
    }
    lm_text_free(&sums[0]);
    lm_text_free(&sums[1]);
}

/* Write the sums of the first layer, each in terms of its input. */
void lm_read_residual(const lm_ledger *l, lm_text *unicode, lm_text *latex)
{
    lm_value at[LM_MAX_STREAMS];

    if (!l->program->n_layers)
        return;
    static const char *const names[2][5] = { { "h", "h", "h" }, { "h", "χ", "h", "h", "ψ" } };
    static const char *const sets[2][5]  = { { "h", "h", "h" }, { "h", "\\chi", "h", "h", "\\psi" } };
    uint32_t n = lm_streams_of(l, 0, at), several = n == LM_MAX_STREAMS;
    lm_text_add_str(unicode, "h₀ = ");
    lm_text_add_str(latex, "h_0 = ");
    lm_put_form(l, &residual_words, at[0], NULL, NULL, 0, unicode);
    lm_put_form(l, &residual_latex, at[0], NULL, NULL, 0, latex);
    for (uint32_t i = 1; i < n; i++) {
        lm_text_printf(unicode, ";   %s ← ", i + 1 < n ? names[several][i] : "h");
        lm_text_printf(latex, ",\\quad %s \\leftarrow ", i + 1 < n ? sets[several][i] : "h");
        lm_put_form(l, &residual_words, at[i], at, names[several], i, unicode);
        lm_put_form(l, &residual_latex, at[i], at, sets[several], i, latex);
    }
}
