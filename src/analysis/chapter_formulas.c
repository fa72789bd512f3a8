/* chapter_formulas.c - the forward pass as formulas (O-40), and the letters that they are written in. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/chapters.h"
#include "analysis/ledger.h"
#include "analysis/page.h"
#include "analysis/traits.h"
#include "base/columns.h"

/* ---- one layer, by where its norms stand ---- */

typedef struct recurrence { const char *attention, *mlp, *attention_latex, *mlp_latex; } recurrence;

static const recurrence recurrences[] = {
    [LM_NORM_NOWHERE] = { "a = h + Attn(h)", "h' = a + MLP(a)", "a_\\ell &= h_{\\ell-1} + \\mathrm{Attn}(h_{\\ell-1})",
                          "h_\\ell &= a_\\ell + \\mathrm{MLP}(a_\\ell)" },
    [LM_NORM_PRE] = { "a = h + Attn(N₁(h))", "h' = a + MLP(N₂(a))",
                      "a_\\ell &= h_{\\ell-1} + \\mathrm{Attn}(N_{\\ell,1}(h_{\\ell-1}))",
                      "h_\\ell &= a_\\ell + \\mathrm{MLP}(N_{\\ell,2}(a_\\ell))" },
    [LM_NORM_POST] = { "a = N₁(h + Attn(h))", "h' = N₂(a + MLP(a))",
                       "a_\\ell &= N_{\\ell,1}(h_{\\ell-1} + \\mathrm{Attn}(h_{\\ell-1}))",
                       "h_\\ell &= N_{\\ell,2}(a_\\ell + \\mathrm{MLP}(a_\\ell))" },
    [LM_NORM_SANDWICH] = { "a = h + N₂(Attn(N₁(h)))", "h' = a + N₄(MLP(N₃(a)))",
                           "a_\\ell &= h_{\\ell-1} + N_{\\ell,2}(\\mathrm{Attn}(N_{\\ell,1}(h_{\\ell-1})))",
                           "h_\\ell &= a_\\ell + N_{\\ell,4}(\\mathrm{MLP}(N_{\\ell,3}(a_\\ell)))" },
    [LM_NORM_AFTER_BRANCH] = { "a = h + N₁(Attn(h))", "h' = a + N₂(MLP(a))",
                               "a_\\ell &= h_{\\ell-1} + N_{\\ell,1}(\\mathrm{Attn}(h_{\\ell-1}))",
                               "h_\\ell &= a_\\ell + N_{\\ell,2}(\\mathrm{MLP}(a_\\ell))" },
};

/* What is added at the embedding. */
static void put_embedding(const lm_traits *t, bool latex, lm_buf *out)
{
    bool added = t->learned || t->sinusoidal;

    if (latex)
        lm_buf_printf(out, "h_0 &= E_{t}%s", added ? " + P_{pos}" : "");
    else
        lm_buf_printf(out, "h₀ = E[t]%s", added ? " + P[pos]" : "");
}

static void put_head(const lm_traits *t, bool latex, lm_buf *out)
{
    const char *matrix = t->tied ? "E" : latex ? "W_{head}" : "W_head";

    if (latex)
        lm_buf_printf(out, t->n_final_norms ? "\\mathrm{logits} &= %s \\, N_f(h_L)" : "\\mathrm{logits} &= %s \\, h_L", matrix);
    else
        lm_buf_printf(out, t->n_final_norms ? "logits = %s · N_f(h_L)" : "logits = %s · h_L", matrix);
}

static void say_forward(lm_document *d)
{
    lm_traits t;
    lm_buf    text = { 0 }, latex = { 0 };

    lm_find_traits(d->facts->ledger, &t);
    const recurrence *r = &recurrences[t.norm_position];
    put_embedding(&t, false, &text);
    lm_buf_add_str(&latex, "\\boxed{\\begin{aligned}\n");
    put_embedding(&t, true, &latex);
    if (t.parallel) {
        lm_buf_printf(&text, "\n%s  h' = h + Attn(N(h)) + MLP(N(h))", _("for each of L layers:"));
        lm_buf_add_str(&latex, " \\\\\nh_\\ell &= h_{\\ell-1} + \\mathrm{Attn}(N_\\ell(h_{\\ell-1})) + \\mathrm{MLP}(N_\\ell(h_{\\ell-1})) "
                               "\\quad \\ell = 1 \\ldots L");
    } else {
        const char *each = _("for each of L layers:");
        lm_buf_printf(&text, "\n%s  %s\n%*s  %s", each, r->attention, (int)lm_text_columns(each), "", r->mlp);
        lm_buf_printf(&latex, " \\\\\n%s \\\\\n%s \\quad \\ell = 1 \\ldots L", r->attention_latex, r->mlp_latex);
    }
    lm_buf_add_str(&text, "\n");
    put_head(&t, false, &text);
    lm_buf_add_str(&latex, " \\\\\n");
    put_head(&t, true, &latex);
    lm_buf_add_str(&latex, "\n\\end{aligned}}");
    d->failed |= text.failed || latex.failed;
    lm_doc_formula_of(d, NULL, text.data ? text.data : "", latex.data ? latex.data : "");
    lm_buf_free(&text);
    lm_buf_free(&latex);
    lm_doc_text(d, t.tied ? _("E is the table of the embedding, read once more as the head.") : _("E is the table of the embedding."));
}

/* ---- every formula, and its letters ---- */

void lm_part_formulas(lm_document *d)
{
    static const struct { const char *letter, *path, *meaning; } letters[] = {
        { "layers", "architecture.layers", N_("decoder layers") },
        { "H", "architecture.hidden", N_("width of the residual stream") },
        { "V", "architecture.vocabulary", N_("tokens of the vocabulary") },
        { "I", "mlp.intermediate", N_("width of the MLP") },
        { "n_heads", "attention.heads", N_("query heads") },
        { "kv_heads", "attention.kv_heads", N_("heads of keys and values") },
        { "head_dim", "attention.head_dim", N_("lanes of a query or key head") },
        { "value_dim", "attention.value_dim", N_("lanes of a value head") },
        { "kv_rank", "attention.latent.kv_rank", N_("lanes of the latent") },
        { "rope_dim", "attention.latent.rope_dim", N_("lanes of the rotated key") },
    };
    const lm_fact *g = NULL;
    lm_traits      traits;
    char           mask[160];

    lm_find_traits(d->facts->ledger, &traits);
    if (lm_facts_find(d->facts, "formulas", &g, NULL) != LM_OK)
        return;
    lm_doc_table *t = lm_doc_table_of(d, "formula-table", NULL, "ll", "", "");
    for (const lm_fact *x = lm_fact_first(g); x; x = lm_fact_next(x)) {
        lm_next_row(t);
        lm_cell(t, x->name);
        lm_cell_code(t, strcmp(x->name, "mask") == 0 ? lm_mask_text(&traits, mask, sizeof mask) : _(x->text));
    }
    t = lm_doc_table_of(d, "letters", NULL, "lrl", "", "", "");
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        if (!lm_facts_has(d->facts, "%s", letters[i].path))
            continue;
        lm_next_row(t);
        lm_cell_code(t, letters[i].letter);
        lm_cell_fact(t, LM_EXACT, "%s", letters[i].path);
        lm_cell(t, _(letters[i].meaning));
    }
}

void lm_chapter_formulas(lm_document *d)
{
    lm_doc_open(d, "formulas", "O-40", _("The forward pass as formulas"));
    say_forward(d);
    lm_part_formulas(d);
    lm_doc_close(d);
}
