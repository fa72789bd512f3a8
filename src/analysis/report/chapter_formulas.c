/* chapter_formulas.c - the forward pass as formulas (O-40), and the letters that they are written in. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/facts/forms.h"
#include "analysis/facts/ledger.h"
#include "analysis/facts/traits.h"
#include "analysis/report/chapters.h"
#include "base/columns.h"

/* ---- the whole pass, read off the operations ---- */

static const char *const small[]  = { "₀", "₁", "₂", "₃", "₄", "₅", "₆", "₇", "₈", "₉" };
static const char *const plain[]  = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" };

static const lm_form_words text_words = {
    .token = "E[t]", .position = "P[pos]", .sine = "P[pos]", .norm = "N", .first_norm = "N₀", .nth_norm = "N%s", .digits = small,
    .attention = "Attn", .mlp = "MLP", .tied = "E", .head = "W_head", .final = "N_f(h_L)", .bias = " + b", .times = " · ",
    .tanh = "tanh",
};

static const lm_form_words latex_words = {
    .token = "E_{t}", .position = "P_{pos}", .sine = "P_{pos}", .norm = "N_\\ell", .first_norm = "N_0", .nth_norm = "N_{\\ell,%s}",
    .digits = plain, .attention = "\\mathrm{Attn}", .mlp = "\\mathrm{MLP}", .tied = "E", .head = "W_{head}", .final = "N_f(h_L)",
    .bias = " + b", .times = " \\, ", .tanh = "\\tanh", .within = "\\_",
};

static void put_line(lm_facts *f, lm_value at, lm_value stream, const char *text_name, const char *latex_name, lm_text *text,
                     lm_text *latex)
{
    lm_put_form(f->ledger, &text_words, at, stream, text_name, text);
    lm_put_form(f->ledger, &latex_words, at, stream, latex_name, latex);
}

static void put_layers(lm_facts *f, lm_text *text, lm_text *latex)
{
    const char *each = _("for each of L layers:");
    lm_value    at[LM_MOST_STREAMS];

    uint32_t n = lm_streams_of(f->ledger, 0, at);
    lm_text_printf(text, "\n%s  %s", each, n == 3 ? "a = " : "h' = ");
    lm_text_add_str(latex, n == 3 ? " \\\\\na_\\ell &= " : " \\\\\nh_\\ell &= ");
    put_line(f, at[1], at[0], "h", "h_{\\ell-1}", text, latex);
    if (n == 3) {
        lm_text_printf(text, "\n%*s  h' = ", (int)lm_text_columns(each), "");
        lm_text_add_str(latex, " \\\\\nh_\\ell &= ");
        put_line(f, at[2], at[1], "a", "a_\\ell", text, latex);
    }
    lm_text_add_str(latex, " \\quad \\ell = 1 \\ldots L");
}

static void say_forward(lm_document *d)
{
    lm_facts *f = d->facts;
    lm_traits t;
    lm_text    text = { 0 }, latex = { 0 };

    lm_find_traits(f->ledger, &t);
    if (!f->s.program->n_layers)
        return;
    lm_form_words text_head = text_words, latex_head = latex_words;
    if (!t.n_final_norms)
        text_head.final = latex_head.final = "h_L";
    lm_text_add_str(&text, "h₀ = ");
    lm_text_add_str(&latex, "\\boxed{\\begin{aligned}\nh_0 &= ");
    put_line(f, f->s.program->modules[f->ledger->layer[0]].in, LM_NONE, "", "", &text, &latex);
    put_layers(f, &text, &latex);
    lm_text_add_str(&text, "\nlogits = ");
    lm_text_add_str(&latex, " \\\\\n\\mathrm{logits} &= ");
    lm_put_head_form(f->ledger, &text_head, &text);
    lm_put_head_form(f->ledger, &latex_head, &latex);
    lm_text_add_str(&latex, "\n\\end{aligned}}");
    d->failed |= text.failed || latex.failed;
    lm_doc_formula_of(d, NULL, text.data ? text.data : "", latex.data ? latex.data : "");
    lm_text_free(&text);
    lm_text_free(&latex);
    lm_doc_text(d, t.tied ? _("E is the embedding table, also used as the head.") : _("E is the embedding "
        "table."));
}

/* ---- every formula, and its letters ---- */

struct letter { const char *letter, *path, *meaning; };

/* What the model has none of (a latent of queries, a dense MLP) stands in no formula. */
static void say_letter(lm_document *d, lm_doc_table *t, const struct letter *x)
{
    if (!lm_facts_has(d->facts, "%s", x->path) || !lm_facts_count(d->facts, "%s", x->path))
        return;
    lm_next_row(t);
    lm_cell_code(t, x->letter);
    lm_cell_fact(t, LM_EXACT, "%s", x->path);
    lm_cell(t, _(x->meaning));
}

void lm_part_formulas(lm_document *d)
{
    static const struct letter letters[] = {
        { "layers", "architecture.layers", N_("decoder layers") },
        { "D", "architecture.hidden", N_("width of the residual stream") },
        { "V", "architecture.vocabulary", N_("tokens of the vocabulary") },
        { "F", "mlp.intermediate", N_("width of the MLP") },
        { "F_E", "mlp.expert_width", N_("width of an expert") },
        { "n_heads", "attention.heads", N_("query heads") },
        { "kv_heads", "attention.kv_heads", N_("heads of keys and values") },
        { "head_dim", "attention.head_dim", N_("dimensions of a query or key head") },
        { "value_dim", "attention.value_dim", N_("dimensions of a value head") },
    };
    /* Of latent attention: heads as they are before the latent is absorbed. */
    static const struct letter latent[] = {
        { "n_heads", "attention.latent.heads", N_("query heads") },
        { "qk_dim", "attention.latent.qk_dim", N_("dimensions of a query or key head, nope_dim + rope_dim") },
        { "nope_dim", "attention.latent.nope_dim", N_("dimensions of a query or key head that are not rotated") },
        { "rope_dim", "attention.latent.rope_dim", N_("rotated dimensions of a head, one key for all heads") },
        { "v_dim", "attention.latent.v_dim", N_("dimensions of a value head") },
        { "kv_rank", "attention.latent.kv_rank", N_("width of the latent of keys and values") },
        { "q_rank", "attention.latent.q_rank", N_("width of the latent of queries") },
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
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (!traits.latent || strncmp(letters[i].path, "attention.", 10) != 0)
            say_letter(d, t, &letters[i]);
    for (size_t i = 0; traits.latent && i < sizeof latent / sizeof *latent; i++)
        say_letter(d, t, &latent[i]);
}

void lm_chapter_formulas(lm_document *d)
{
    lm_doc_open(d, "formulas", "O-40", _("The forward pass as formulas"));
    say_forward(d);
    lm_part_formulas(d);
    lm_doc_close(d);
}
