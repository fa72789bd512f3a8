/* view_cards.c - each component of the model in a few lines with its numbers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/ledger.h"
#include "study/facts/traits.h"
#include "study/views/view.h"
#include "base/columns.h"
#include "base/number.h"

static void card(lm_page *v, const char *title)
{
    lm_text_printf(v->out, "%s%s\n", v->out->size ? "\n" : "", title);
}

static void line(lm_page *v, const char *label, const char *text)
{
    lm_text_add_str(v->out, "  ");
    lm_put(v->out, label, 12);
    lm_text_printf(v->out, " %s\n", text);
}

static void put_embedding(lm_page *v)
{
    lm_facts *f = v->f;
    char      text[512], a[LM_FIG];

    card(v, _("Embedding"));
    snprintf(text, sizeof text, "%" PRIu64 " × %" PRIu64, lm_facts_count(f, "architecture.vocabulary"),
             lm_facts_count(f, "architecture.hidden"));
    line(v, _("table"), text);
    lm_fig_count(a, lm_facts_count(f, "parameters.embedding"));
    snprintf(text, sizeof text, _("%s, a look-up without multiplication"), a);
    line(v, _("parameters"), text);
    if (lm_facts_truth(f, "architecture.tied"))
        line(v, _("tied"), _("the head uses the same table: counted once"));
}

static void put_attention(lm_page *v)
{
    lm_facts *f = v->f;
    char      text[512], a[LM_FIG];
    lm_traits t;

    if (!lm_facts_has(f, "attention.heads"))
        return;
    lm_find_traits(f->ledger, &t);
    snprintf(text, sizeof text, "%s (%s)", _("Attention"), lm_facts_text(f, "attention.type"));
    card(v, text);
    if (t.latent)
        snprintf(text, sizeof text,
                 _("one latent of %" PRIu64 " values per token and layer is cached for %" PRIu64
                   " heads; projections up from the latent are the price."),
                 lm_facts_count(f, "attention.latent.cached"), lm_facts_count(f, "attention.latent.heads"));
    else
        snprintf(text, sizeof text,
                 P_(lm_facts_count(f, "attention.kv_heads"),
                    "%" PRIu64 " query heads on %" PRIu64 " key/value head: it serves %" PRIu64,
                    "%" PRIu64 " query heads on %" PRIu64 " key/value heads: each serves %" PRIu64),
                 lm_facts_count(f, "attention.heads"), lm_facts_count(f, "attention.kv_heads"),
                 lm_facts_count(f, "attention.group"));
    line(v, _("heads"), text);
    line(v, _("scores"), lm_facts_text(f, "formulas.attention"));
    line(v, _("visible"), lm_mask_text(&t, text, sizeof text));
    snprintf(text, sizeof text, _("%s bytes per token (%s)"),
             lm_fig_count(a, lm_facts_count(f, "kv.bytes_per_token")), lm_facts_text(f, "kv.type"));
    line(v, _("cache"), text);
    if (lm_facts_has(f, "kv.mha.saved") && lm_facts_number(f, "kv.mha.saved") > 0) {
        lm_print(text, sizeof text, _("%.1f %% less than with one key/value head per query head"),
                 lm_facts_number(f, "kv.mha.saved"));
        line(v, _("saved"), text);
    }
    if (lm_facts_has(f, "attention.reach")) {
        snprintf(text, sizeof text,
                 lm_facts_count(f, "attention.reach") >= lm_facts_count(f, "architecture.context")
                     ? _("the whole context: layers × (window − 1) + 1 = %s tokens")
                     : _("%s tokens: layers × (window − 1) + 1"),
                 lm_fig_count(a, lm_facts_count(f, "attention.reach")));
        line(v, _("reach"), text);
    }
}

static void put_rotary(lm_page *v)
{
    lm_facts *f = v->f;
    char      text[512], base[32];
    const lm_fact *list = NULL;
    lm_text    on = { 0 };

    if (!lm_facts_count(f, "rope.n_tables"))
        return;
    card(v, _("Rotary position embedding"));
    lm_facts_find(f, "rope.applied_to", &list, NULL);
    for (const lm_fact *x = lm_fact_first(list); x; x = lm_fact_next(x))
        lm_text_printf(&on, "%s%s", x->index ? ", " : "", x->text);
    line(v, _("turns"), on.data ? on.data : "");
    lm_text_free(&on);
    if (lm_facts_has(f, "rope.placement"))
        line(v, _("where"), _(lm_facts_text(f, "rope.placement")));
    snprintf(text, sizeof text, _("%s, base %s, %" PRIu64 " pairs (%s)"),
             lm_facts_text(f, "formulas.rope_frequency"),
             lm_number_text(base, lm_facts_number(f, "rope.base")), lm_facts_count(f, "rope.pairs"),
             _(lm_facts_text(f, "rope.pairing")));
    line(v, _("angles"), text);
    line(v, _("scaling"), _(lm_facts_text(f, "rope.scaling")));
    line(v, _("parameters"), "0");
}

/* Return "top-6 of 160, best 3 of 8 groups": formulas.selection in the reader's language. */
static const char *selection(lm_facts *f, char *out, size_t n)
{
    lm_traits t;

    lm_find_traits(f->ledger, &t);
    const lm_route_spec *r = &t.route->route.spec;
    if (r->n_groups > 1)
        snprintf(out, n, _("top-%u of %u, best %u of %u groups"), r->top_k, r->n_experts, r->top_groups,
                 r->n_groups);
    else
        snprintf(out, n, _("top-%u of %u"), r->top_k, r->n_experts);
    return out;
}

static void put_mlp(lm_page *v)
{
    lm_facts *f = v->f;
    char      text[512], a[LM_FIG];

    snprintf(text, sizeof text, "MLP (%s)", _(lm_facts_text(f, "architecture.mlp")));
    card(v, text);
    if (lm_facts_has(f, "formulas.mlp"))
        line(v, _("formula"), lm_facts_text(f, "formulas.mlp"));
    if (lm_facts_has(f, "mlp.intermediate")) {
        lm_print(text, sizeof text, "%" PRIu64 " → %" PRIu64 " → %" PRIu64 ", ×%.4g",
                 lm_facts_count(f, "architecture.hidden"), lm_facts_count(f, "mlp.intermediate"),
                 lm_facts_count(f, "architecture.hidden"), lm_facts_number(f, "mlp.expansion"));
        line(v, _("width"), text);
    }
    if (lm_facts_has(f, "mlp.experts")) {
        char chosen[256];
        snprintf(text, sizeof text, _("%" PRIu64 " of %" PRIu64 " per token, %" PRIu64 " wide; %s"),
                 lm_facts_count(f, "mlp.experts_per_token"), lm_facts_count(f, "mlp.experts"),
                 lm_facts_count(f, "mlp.expert_width"), selection(f, chosen, sizeof chosen));
        line(v, _("experts"), text);
        line(v, _("mixture"), _(lm_facts_text(f, "formulas.mixture")));
    }
    line(v, _("parameters"), lm_fig_count(a, lm_facts_count(f, "parameters.mlp")));
}

static void put_norm(lm_page *v)
{
    lm_facts *f = v->f;
    char      text[512], eps[32];

    if (!lm_facts_has(f, "architecture.norm"))
        return;
    snprintf(text, sizeof text, "%s (%s)", lm_facts_text(f, "architecture.norm"),
             _(lm_facts_text(f, "architecture.norm_position")));
    card(v, text);
    line(v, _("formula"), lm_facts_text(f, "formulas.norm"));
    line(v, "eps", lm_number_text(eps, lm_facts_number(f, "architecture.norm_eps")));
    if (lm_facts_has(f, "formulas.layer"))
        line(v, _("in a layer"), _(lm_facts_text(f, "formulas.layer")));
}

void lm_view_cards(lm_page *v)
{
    put_embedding(v);
    put_attention(v);
    put_rotary(v);
    put_mlp(v);
    put_norm(v);
}
