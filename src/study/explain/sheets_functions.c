/* sheets_functions.c - functions side by side: activations, norms, RoPE scalings, the input of a router. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "study/draw/draw.h"
#include "study/explain/cards.h"

static const char *number(lm_facts *f, double x)
{
    char text[32];

    lm_print(text, sizeof text, "%.4f", x);
    return lm_sheet_text(f, "%s%s", x < 0 ? "−" : "", *text == '-' ? text + 1 : text);
}

/* ---- activations ---- */

static double value_of(lm_act a, double x)
{
    switch (a) {
    case LM_ACT_RELU:
        return fmax(x, 0);
    case LM_ACT_GELU:
        return x / 2 * (1 + erf(x / sqrt(2)));
    case LM_ACT_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    default:
        return x / (1 + exp(-x));
    }
}

lm_status lm_sheet_activations(lm_facts *f, const lm_explain_options *o, lm_sheet *out, lm_error *e)
{
    static const lm_act shown[] = { LM_ACT_RELU, LM_ACT_GELU, LM_ACT_GELU_TANH, LM_ACT_SILU };
    static const double at[]    = { -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3 };
    lm_traits           t;

    (void)o;
    (void)e;
    lm_find_traits(f->ledger, &t);
    *out = (lm_sheet){ .title = _("Values of the usual functions"), .columns = { "x" }, .align = "rrrrr" };
    for (size_t k = 0; k < 4; k++)
        out->columns[k + 1] = t.act == shown[k]
                                  ? lm_sheet_text(f, _("%s (this model)"), lm_act_word(shown[k]))
                                  : lm_act_word(shown[k]);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        lm_sheet_row *r = lm_sheet_next(out, f);
        r->cells[0]     = number(f, at[i]);
        for (size_t k = 0; k < 4; k++)
            r->cells[k + 1] = number(f, value_of(shown[k], at[i]));
    }
    return LM_OK;
}

/* ---- norms ---- */

static void norm_row(lm_sheet *s, lm_facts *f, const char *what, const char *rms, const char *layer)
{
    lm_sheet_row *r = lm_sheet_next(s, f);

    r->cells[0] = what;
    r->cells[1] = rms;
    r->cells[2] = layer;
}

lm_status lm_sheet_norms(lm_facts *f, const lm_explain_options *o, lm_sheet *out, lm_error *e)
{
    uint64_t  d = lm_facts_count(f, "architecture.hidden");
    lm_traits t;

    (void)o;
    (void)e;
    lm_find_traits(f->ledger, &t);
    *out = (lm_sheet){ .title = _("RMSNorm beside LayerNorm"),
                       .columns = { "", "RMSNorm", "LayerNorm" },
                       .align = "lrr" };
    for (int i = 0; i < 2; i++)
        if (t.norm_kind == (i ? LM_NORM_LAYER : LM_NORM_RMS))
            out->columns[i + 1] = lm_sheet_text(f, _("%s (this model)"), out->columns[i + 1]);
    norm_row(out, f, _("weights of one norm"), lm_sheet_text(f, "D = %s", lm_grouped(f, d)),
             lm_sheet_text(f, "2 · D = %s", lm_grouped(f, 2 * d)));
    norm_row(out, f, _("operations per token"),
             lm_sheet_text(f, "4 · D + 2 = %s", lm_grouped(f, 4 * d + 2)),
             lm_sheet_text(f, "7 · D + 3 = %s", lm_grouped(f, 7 * d + 3)));
    norm_row(out, f, _("sums over the row"), _("1: the squares"),
             _("2: the mean, then the squared differences from it"));
    norm_row(out, f, _("of the row 1, 2, 3, 4"), "√7.5 = 2.7386", "μ = 2.5, σ² = 1.25");
    norm_row(out, f, _("the normalised row, before the weights"), "0.3651, 0.7303, 1.0954, 1.4606",
             "−1.3416, −0.4472, 0.4472, 1.3416");
    out->note = _("A LayerNorm without biases has D weights. RMSNorm only scales the row; LayerNorm also "
                  "moves its mean to zero.");
    return LM_OK;
}

/* ---- RoPE beyond the trained length ---- */

static void scaling_row(lm_sheet *s, lm_facts *f, const char *rule, const char *formula, bool mine)
{
    lm_sheet_row *r = lm_sheet_next(s, f);

    r->cells[0] = rule;
    r->cells[1] = formula;
    r->mine     = mine;
}

lm_status lm_sheet_scalings(lm_facts *f, const lm_explain_options *o, lm_sheet *out, lm_error *e)
{
    const lm_rope_spec *s = f->s.program->n_ropes ? &f->s.program->ropes[lm_main_rope(f->s.program)].spec
                                                  : NULL;

    (void)o;
    (void)e;
    if (!s)
        return LM_OK;
    *out = (lm_sheet){ .title = _("Rules for contexts longer than the trained one"),
                       .columns = { _("rule"), _("angle θ′ instead of θ") },
                       .align = "ll" };
    bool plain = s->type == LM_ROPE_DEFAULT || (s->type == LM_ROPE_PROPORTIONAL && s->factor == 1);
    scaling_row(out, f, _("none"), "θ′ = θ", plain && !s->stored_divisors);
    scaling_row(out, f, _("linear"), "θ′ = θ / s",
                s->type == LM_ROPE_LINEAR || (s->type == LM_ROPE_PROPORTIONAL && s->factor != 1));
    scaling_row(out, f, _("NTK-aware"), "b′ = b · s^(d / (d − 2)),   θ′ᵢ = b′^(−2i/d)", false);
    scaling_row(out, f, _("dynamic NTK"), "b′ = b · (s · n/N − (s − 1))^(d / (d − 2)),   n > N",
                s->type == LM_ROPE_DYNAMIC);
    scaling_row(out, f, "YaRN", "θ′ = r · θ/s + (1 − r) · θ,   r = min(max((i − low) / (high − low), 0), 1)",
                s->type == LM_ROPE_YARN);
    scaling_row(out, f, "llama3",
                "λ < N/h: θ′ = θ;   λ > N/l: θ′ = θ/s;   m = (N/λ − l) / (h − l): θ′ = (1 − m) · θ/s + m · θ",
                s->type == LM_ROPE_LLAMA3 || (plain && s->stored_divisors));
    scaling_row(out, f, "LongRoPE", "θ′ᵢ = θᵢ / fᵢ", s->type == LM_ROPE_LONGROPE);
    out->note = _("b: base of the frequencies; d: rotated dimensions of a head; s: how many times longer; N: "
                  "positions trained; n: positions now; λ = 2π/θ: positions for a turn; h, l: "
                  "high_freq_factor and low_freq_factor; low, high: the pairs that make beta_fast and "
                  "beta_slow turns in N positions; f: a list of the configuration.");
    return LM_OK;
}

/* ---- a router's load ---- */

lm_status lm_sheet_router(lm_facts *f, const lm_explain_options *o, lm_sheet *out, lm_error *e)
{
    static const uint64_t batches[] = { 1, 4, 16, 64, 256, 1024 };

    (void)o;
    (void)e;
    if (!lm_facts_has(f, "mlp.experts"))
        return LM_OK;
    double n = (double)lm_facts_count(f, "mlp.experts"),
           k = (double)lm_facts_count(f, "mlp.experts_per_token");
    *out = (lm_sheet){ .title = _("Experts of a layer that a batch reads"),
                       .columns = { _("tokens"), _("tokens per expert"), _("experts visited"),
                                    _("share read") },
                       .align = "rrrr" };
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        double t = (double)batches[i], visited = n * (1 - pow(1 - k / n, t));
        lm_sheet_row *r = lm_sheet_next(out, f);
        char text[32];
        r->cells[0] = lm_grouped(f, batches[i]);
        lm_print(text, sizeof text, "%.4g", t * k / n);
        r->cells[1] = lm_sheet_text(f, "%s", text);
        lm_print(text, sizeof text, "%.1f", visited);
        r->cells[2] = lm_sheet_text(f, "%s", text);
        lm_print(text, sizeof text, "%.1f %%", 100 * visited / n);
        r->cells[3] = lm_sheet_text(f, "%s", text);
    }
    out->note = _("Expected values if every token chose its experts independently and all equally often; a "
                  "trained router is less even.");
    return LM_OK;
}
