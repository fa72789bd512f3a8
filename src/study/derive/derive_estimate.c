/* derive_estimate.c - parameter counts by formula, and what the formulas omit. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/derive/topics.h"

/* Return the number of bias elements of products in a part. */
static uint64_t biases(const lm_facts *f, lm_part part)
{
    const lm_program *p   = f->s.program;
    uint64_t          sum = 0;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        uint32_t w = p->nodes[i].code == LM_OP_LINEAR ? p->nodes[i].weights[1] : LM_NONE;
        if (w != LM_NONE && f->ledger->reader[w] == i && f->ledger->part[i] == part)
            sum += p->weights[w].elements;
    }
    return sum;
}

static void let_widths(lm_derivation *d)
{
    lm_let_sizes(d);
    if (!lm_has_symbol(d, "ffn") && lm_has_symbol(d, "expert_width"))
        lm_let_fact(d, "ffn", "F", _("width of an expert, instead of the MLP"), "mlp.expert_width");
    if (!lm_has_symbol(d, "ffn"))
        lm_let_count(d, "ffn", "F", _("width of the MLP: none"), 0);
    lm_let_count(d, "matrices", "m", _("matrices of an MLP: three with a gate, two without"),
                 lm_facts_truth(d->f, "mlp.gated") ? 3 : 2);
    if (lm_has_symbol(d, "kv_heads"))
        lm_derive(d, "group", _("query heads that share a key/value head"), LM_UNIT_NONE, "attention.group",
                  "heads / kv_heads");
    else
        lm_let_count(d, "group", NULL, _("query heads that share a key/value head: none"), 1);
    if (lm_has_symbol(d, "kv_heads"))
        lm_derive(d, "kv_dim", _("width of keys, and of values"), LM_UNIT_LANES, NULL, "kv_heads * head_dim");
}

static void derive_estimates(lm_derivation *d, bool tied)
{
    lm_derive_heading(d, _("quick: no groups, a gated MLP, an untied head"));
    lm_derive(d, "mult", _("width of the MLP in units of hidden"), LM_UNIT_RATIO, NULL, "ffn / hidden");
    lm_derive(d, "quick", NULL, LM_UNIT_PARAMETERS, NULL,
              "2 * (vocab * hidden) + layers * hidden^2 * (4 + 3 * mult)");
    lm_derive_heading(d, _("standard: part by part"));
    lm_derive(d, "embedding", _("the token table"), LM_UNIT_PARAMETERS, NULL, "vocab * hidden");
    lm_derive(d, "attention", _("attention of a layer: four square matrices"), LM_UNIT_PARAMETERS, NULL,
              "4 * hidden^2");
    lm_derive(d, "mlp", _("MLP of a layer"), LM_UNIT_PARAMETERS, NULL, "matrices * hidden * ffn");
    lm_derive(d, "layer", _("a layer"), LM_UNIT_PARAMETERS, NULL, "attention + mlp");
    lm_derive(d, "head", tied ? _("the head: tied, no parameters") : _("the head"),
              LM_UNIT_PARAMETERS, NULL, tied ? "0" : "vocab * hidden");
    lm_derive(d, "standard", NULL, LM_UNIT_PARAMETERS, NULL, "embedding + layers * layer + head");
    lm_derive_heading(d, _("grouped: keys and values are narrower"));
    lm_derive(d, "attention_grouped", _("attention of a layer"), LM_UNIT_PARAMETERS, NULL,
              "hidden^2 * (2 + 2 / group)");
    lm_derive(d, "group_aware", NULL, LM_UNIT_PARAMETERS, NULL,
              "embedding + layers * (attention_grouped + mlp) + head");
}

/* Derive the differences between successive estimates, and from the last estimate to the count. Zero terms
 * are omitted. */
static void derive_gap(lm_derivation *d, bool tied)
{
    static const struct {
        const char *name, *title, *formula;
    } terms[] = {
        { "by_heads", N_("heads · dimensions differs from hidden, or attention has another form"), "counted_attention - layers * attention_grouped" },
        { "by_state", N_("layers with a state"), "counted_state" },
        { "by_mlp", N_("experts, routers, or MLPs of other widths"), "counted_mlp - layers * mlp" },
        { "by_embedding", N_("positions, or a table of another width"), "counted_embedding - embedding" },
        { "by_head", N_("a head with another width"), "counted_head - head" },
        { "by_norms", N_("weights of norms"), "counted_norms" },
        { "by_biases", N_("biases"), "counted_biases" },
        { "by_other", N_("projections outside these parts"), "counted_other" },
    };
    lm_text sum = { 0 };

    lm_derive_heading(d, _("the gap, term by term"));
    if (tied)
        lm_derive(d, "by_tying", _("difference of quick and standard: the head is tied"),
                  LM_UNIT_PARAMETERS, NULL,
                  "0 - vocab * hidden");
    if (!lm_facts_truth(d->f, "mlp.gated"))
        lm_derive(d, "by_gate", _("difference of quick and standard: no gate in the MLP"),
                  LM_UNIT_PARAMETERS, NULL,
                  "layers * (matrices - 3) * hidden * ffn");
    if (lm_derived(d, "group").x > 1)
        lm_derive(d, "by_groups", _("difference of standard and grouped: narrower keys and values"),
                  LM_UNIT_PARAMETERS,
                  NULL, "group_aware - standard");
    lm_text_add_str(&sum, "group_aware");
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        lm_symbol_value q;
        if (!lm_try_formula(d, terms[i].formula, &q) || q.x == 0)
            continue;
        lm_derive(d, terms[i].name, _(terms[i].title), LM_UNIT_PARAMETERS, NULL, terms[i].formula);
        lm_text_printf(&sum, " + %s", terms[i].name);
    }
    lm_derive(d, "exact", _("total, as counted from the program"), LM_UNIT_PARAMETERS, "parameters.total",
              sum.data ? sum.data : "group_aware");
    lm_text_free(&sum);
}

void lm_derive_estimate(lm_derivation *d)
{
    lm_facts *f    = d->f;
    bool      tied = lm_facts_truth(f, "architecture.tied");
    uint64_t attention = biases(f, LM_PART_ATTENTION), mlp = biases(f, LM_PART_MLP),
             head = biases(f, LM_PART_HEAD);
    uint64_t  other = biases(f, LM_PART_OTHER), state = biases(f, LM_PART_STATE);

    let_widths(d);
    lm_let_count(d, "counted_attention", NULL, _("weights of attention, counted"),
                 lm_facts_count(f, "parameters.attention") - attention);
    if (lm_facts_count(f, "parameters.state"))
        lm_let_count(d, "counted_state", NULL, _("weights of layers with a state, counted"),
                     lm_facts_count(f, "parameters.state") - state);
    lm_let_count(d, "counted_mlp", NULL, _("weights of MLPs, experts and routers, counted"),
                 lm_facts_count(f, "parameters.mlp") - mlp);
    lm_let_count(d, "counted_head", NULL, _("weights of the head, counted"),
                 lm_facts_count(f, "parameters.head") - head);
    lm_let_count(d, "counted_other", NULL, _("other weights, counted"),
                 lm_facts_count(f, "parameters.other") - other);
    lm_let_fact(d, "counted_embedding", NULL, _("weights of embeddings, counted"), "parameters.embedding");
    lm_let_fact(d, "counted_norms", NULL, _("weights of norms, counted"), "parameters.norm");
    lm_let_count(d, "counted_biases", NULL, _("biases of products, counted"),
                 attention + state + mlp + head + other);
    derive_estimates(d, tied);
    derive_gap(d, tied);
    lm_derive_heading(d, _("relative error of each estimate"));
    lm_derive(d, "quick_off", _("quick"), LM_UNIT_PERCENT, NULL, "100 * (quick / exact - 1)");
    lm_derive(d, "standard_off", _("standard"), LM_UNIT_PERCENT, NULL, "100 * (standard / exact - 1)");
    lm_derive(d, "group_aware_off", _("grouped"), LM_UNIT_PERCENT, NULL, "100 * (group_aware / exact - 1)");
}
