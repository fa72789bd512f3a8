/* view_costs.c - parameters, operations, cache, memory and frequencies as tables. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/ledger.h"
#include "analysis/page.h"
#include "analysis/precision.h"

/* ---- parameters ---- */

static void put_place(lm_page *v, lm_table *t, const lm_fact *g, const char *name, unsigned depth)
{
    char     label[160], each[LM_FIG], all[LM_FIG], share[32], in[LM_FIG];
    uint64_t n = 0, layers = 0;

    for (const lm_fact *x = lm_fact_first(g); x; x = lm_fact_next(x)) {
        n      = x->name && strcmp(x->name, "parameters") == 0 ? x->count : n;
        layers = x->name && strcmp(x->name, "in_layers") == 0 ? x->count : layers;
    }
    if (!n)
        return;
    snprintf(label, sizeof label, "%*s%s", (int)(2 * depth), "", name);
    snprintf(share, sizeof share, "%.3f %%", 100.0 * (double)n / (double)lm_facts_count(v->f, "parameters.total"));
    snprintf(in, sizeof in, "%" PRIu64, layers);
    lm_table_row(t, label, n % layers ? "" : lm_fig_count(each, n / layers), in, lm_fig_count(all, n), share);
    for (const lm_fact *x = lm_fact_first(g); x; x = lm_fact_next(x))
        if (x->kind == LM_FACT_GROUP && (!v->o->depth || depth + 1 < v->o->depth))
            put_place(v, t, x, x->name, depth + 1);
}

/* Modules outside the stack that have parameters of their own. */
static void put_outside(lm_page *v, lm_table *t)
{
    const lm_program *p = v->f->s.program;
    char              n[LM_FIG], share[32];

    for (uint32_t m = 0; m < p->n_modules; m++) {
        lm_module_sums s;
        if (p->modules[m].layer >= 0 || v->f->ledger->child[m] != LM_NONE)
            continue;
        lm_module_sum(v->f->ledger, m, &s);
        if (!s.parameters)
            continue;
        snprintf(share, sizeof share, "%.3f %%",
                 100.0 * (double)s.parameters / (double)lm_facts_count(v->f, "parameters.total"));
        lm_table_row(t, p->modules[m].path, lm_fig_count(n, s.parameters), "", n, share);
    }
}

void lm_view_params(lm_page *v)
{
    lm_facts      *f = v->f;
    lm_table       t = lm_table_new(f, "lrrrr", 2);
    const lm_fact *stack = NULL;
    char           n[LM_FIG];

    lm_table_row(&t, _("module"), _("each"), _("layers"), _("together"), _("share"));
    if (lm_facts_find(f, "parameters.stack", &stack, NULL) == LM_OK)
        put_place(v, &t, stack, _("decoder layer"), 0);
    put_outside(v, &t);
    lm_table_row(&t, _("total"), "", "", lm_fig_count(n, lm_facts_count(f, "parameters.total")), "100.000 %");
    lm_table_gap(&t);
    if (lm_facts_count(f, "parameters.saved_by_tying"))
        lm_table_row(&t, _("saved by tying the head"), "", "", lm_fig_count(n, lm_facts_count(f, "parameters.saved_by_tying")),
                     "");
    if (lm_facts_count(f, "parameters.biases"))
        lm_table_row(&t, _("of which biases"), "", "", lm_fig_count(n, lm_facts_count(f, "parameters.biases")), "");
    if (lm_facts_count(f, "parameters.experts"))
        lm_table_row(&t, _("of which experts"), "", "", lm_fig_count(n, lm_facts_count(f, "parameters.experts")), "");
    if (lm_facts_count(f, "parameters.active") != lm_facts_count(f, "parameters.total"))
        lm_table_row(&t, _("active per token"), "", "", lm_fig_count(n, lm_facts_count(f, "parameters.active")), "");
    lm_table_print(&t, v->out);
}

/* ---- contexts that tables are made for ---- */

static const uint64_t contexts[] = { 512, 2048, 8192, 32768, 131072, 1048576 };

/* Up to the model's own, which comes last. 0: past the end. */
static uint64_t context_at(lm_facts *f, size_t i)
{
    uint64_t most = lm_facts_has(f, "architecture.context") ? lm_facts_count(f, "architecture.context") : 131072;
    size_t   n = 0;

    for (; n < sizeof contexts / sizeof *contexts && contexts[n] < most; n++)
        if (n == i)
            return contexts[n];
    return i == n ? most : 0;
}

/* ---- operations ---- */

static void put_flop_row(lm_page *v, lm_table *t, const char *label, uint64_t n, uint64_t total)
{
    char exact[LM_FIG], share[32];

    (void)v;
    snprintf(share, sizeof share, "%.2f %%", total ? 100.0 * (double)n / (double)total : 0);
    lm_table_row(t, label, lm_fig_count(exact, n), share);
}

void lm_view_flops(lm_page *v)
{
    static const char *const parts[] = { "attention", "mlp", "head", "other" };
    static const char *const words[] = { N_("attention"), N_("mlp"), N_("head"), N_("other") };
    lm_facts *f     = v->f;
    uint64_t  total = lm_facts_count(f, "flops.per_token_matmul");
    lm_table  t = lm_table_new(f, "lrr", 2), at = lm_table_new(f, "rrrrr", 2);
    char      a[LM_FIG], b[LM_FIG], c[LM_FIG], d[LM_FIG], e[LM_FIG];

    lm_table_row(&t, _("FLOP for each token"), "", _("share"));
    for (size_t i = 0; i < 4; i++)
        if (lm_facts_has(f, "flops.parts.%s", parts[i]))
            put_flop_row(v, &t, _(words[i]), lm_facts_count(f, "flops.parts.%s", parts[i]), total);
    put_flop_row(v, &t, _("matrix products"), total, total);
    lm_table_row(&t, _("norms, activations …"), lm_fig_count(a, lm_facts_count(f, "flops.per_token_other")), "");
    lm_table_row(&t, _("scores, for each key seen"), lm_fig_count(a, lm_facts_count(f, "flops.per_context_token")), "");
    lm_table_print(&t, v->out);
    lm_buf_add_char(v->out, '\n');
    lm_table_row(&at, _("context"), _("a token there"), _("of it scores"), _("reading all of it"), _("per token"));
    for (size_t i = 0; context_at(f, i); i++) {
        uint64_t n = context_at(f, i), all = lm_facts_count(f, "flops.prefill_of[%" PRIu64 "].total", n);
        lm_table_row(&at, lm_fig_count(a, n), lm_fig_flops(b, (double)lm_facts_count(f, "flops.at[%" PRIu64 "].total", n)),
                     lm_fig_flops(c, (double)lm_facts_count(f, "flops.at[%" PRIu64 "].scores", n)), lm_fig_flops(d,
                                                                                                                 (double)all),
                     lm_fig_flops(e, (double)all / (double)n));
    }
    lm_table_print(&at, v->out);
    lm_buf_add_str(v->out,
                   _("\n  A multiply-add is 2. Look-ups are none. Reading computes the logits of the last token only.\n"));
}

/* ---- cache ---- */

void lm_view_kv(lm_page *v)
{
    lm_facts *f = v->f;
    lm_table  t = lm_table_new(f, "rrrr", 2);
    char      a[LM_FIG], b[LM_FIG], c[LM_FIG], d[LM_FIG];

    lm_buf_printf(v->out, _("  %s: %s elements for each token, %s bytes as %s\n"), _(lm_facts_text(f, "attention.type")),
                  lm_fig_count(a, lm_facts_count(f, "kv.elements_per_token")), lm_fig_count(b,
                          lm_facts_count(f, "kv.bytes_per_token")),
                  lm_facts_text(f, "kv.type"));
    if (lm_facts_has(f, "kv.mha.saved"))
        lm_buf_printf(v->out, _("  as many key/value heads as query heads would take %s bytes: %.1f %% less\n"),
                      lm_fig_count(a, lm_facts_count(f, "kv.mha.bytes_per_token")), lm_facts_number(f, "kv.mha.saved"));
    if (lm_facts_count(f, "attention.windowed_layers"))
        lm_buf_printf(v->out, _("  %" PRIu64 " of %" PRIu64 " layers keep a window\n"),
                      lm_facts_count(f, "attention.windowed_layers"),
                      lm_facts_count(f, "attention.windowed_layers") + lm_facts_count(f, "attention.full_layers"));
    lm_buf_add_char(v->out, '\n');
    lm_table_row(&t, _("context"), _("bytes"), "", _("without grouping"));
    for (size_t i = 0; context_at(f, i); i++) {
        uint64_t n = context_at(f, i), bytes = lm_facts_count(f, "kv.at[%" PRIu64 "].bytes", n);
        lm_table_row(&t, lm_fig_count(a, n), lm_fig_count(b, bytes), lm_fig_both(c, bytes),
                     lm_fig_bytes(d, lm_facts_count(f, "kv.at[%" PRIu64 "].mha", n)));
    }
    lm_table_print(&t, v->out);
    if (lm_facts_count(f, "kv.batch") > 1)
        lm_buf_printf(v->out, _("  for %" PRIu64 " sequences\n"), lm_facts_count(f, "kv.batch"));
}

/* ---- memory ---- */

static void put_plan_row(lm_table *t, const char *label, uint64_t n)
{
    char a[LM_FIG], b[LM_FIG];

    lm_table_row(t, label, lm_fig_count(a, n), lm_fig_both(b, n));
}

void lm_view_memory(lm_page *v)
{
    lm_facts *f = v->f;
    lm_table  t = lm_table_new(f, "lrrr", 2), p = lm_table_new(f, "lrl", 2);
    char      a[LM_FIG], b[LM_FIG], bits[32];

    lm_table_row(&t, _("weights as"), _("bytes"), "", _("bits each"));
    for (size_t i = 0; lm_precision_at(i); i++) {
        const char *name = lm_precision_at(i)->name;
        if (!lm_precision_at(i)->usual)
            continue;
        uint64_t    n    = lm_facts_count(f, "weights.as.%s.bytes", name);
        snprintf(bits, sizeof bits, "%.2f", lm_facts_number(f, "weights.as.%s.bits_per_weight", name));
        lm_table_row(&t, name, lm_fig_count(a, n), lm_fig_both(b, n), bits);
    }
    lm_table_print(&t, v->out);
    lm_buf_printf(v->out, _("\n  the engine, weights %s, cache %s, %" PRIu64 " × %s positions:\n\n"),
                  _(lm_facts_text(f, "weights.precision")),
                  lm_facts_text(f, "kv.type"), lm_facts_count(f, "kv.batch"), lm_fig_count(a, lm_facts_count(f, "kv.context")));
    if (!lm_facts_has(f, "memory.total")) {
        lm_buf_printf(v->out, "  %s\n", _(lm_facts_text(f, "memory.not_planned")));
        return;
    }
    put_plan_row(&p, _("mapped from the file"), lm_facts_count(f, "memory.mapped"));
    put_plan_row(&p, _("weights of its own"), lm_facts_count(f, "memory.weights"));
    put_plan_row(&p, _("cache"), lm_facts_count(f, "memory.kv"));
    put_plan_row(&p, _("scratch"), lm_facts_count(f, "memory.scratch"));
    put_plan_row(&p, _("  activations"), lm_facts_count(f, "memory.scratch_parts.activations"));
    put_plan_row(&p, _("  threads"), lm_facts_count(f, "memory.scratch_parts.workers"));
    put_plan_row(&p, _("  bookkeeping"), lm_facts_count(f, "memory.scratch_parts.bookkeeping"));
    put_plan_row(&p, _("allocated"), lm_facts_count(f, "memory.total"));
    lm_table_print(&p, v->out);
}

/* ---- rotary frequencies ---- */

void lm_view_rope(lm_page *v)
{
    lm_facts *f = v->f;
    lm_table  t = lm_table_new(f, "rrrrl", 2);
    char      i[LM_FIG], a[32], b[32], w[LM_FIG];

    if (!lm_facts_count(f, "rope.n_tables")) {
        lm_buf_printf(v->out, _("  no rotary embedding; positions: %s\n"), _(lm_facts_text(f, "architecture.position")));
        return;
    }
    bool scaled = lm_facts_count(f, "rope.theta_scaled") > 0;
    lm_buf_printf(v->out, "  θᵢ = %s^(-2i/%" PRIu64 "), %s: %s\n\n", lm_number_text(a, lm_facts_number(f, "rope.base")),
                  lm_facts_count(f, "rope.dim"),
                  _("scaling"), _(lm_facts_text(f, "rope.scaling")));
    lm_table_row(&t, "i", "θ", scaled ? _("as it runs") : "", _("turns once in"), "");
    for (uint64_t k = 0; k < lm_facts_count(f, "rope.pairs"); k++) {
        double x = lm_facts_number(f, "rope.theta[%" PRIu64 "]", k), y = scaled ? lm_facts_number(f,
                "rope.theta_scaled[%" PRIu64 "]", k) : x;
        snprintf(i, sizeof i, "%" PRIu64, k);
        snprintf(a, sizeof a, "%.6g", x);
        snprintf(b, sizeof b, "%.6g", y);
        lm_buf bar = { 0 };
        if (v->lines)
            lm_put_bar(&bar, y, 24);
        snprintf(w, sizeof w, "%.4g", 6.283185307179586 / y);
        lm_table_row(&t, i, a, scaled ? b : "", w, bar.data ? bar.data : "");
        lm_buf_free(&bar);
    }
    lm_table_print(&t, v->out);
    if (!scaled)
        lm_buf_add_str(v->out, _("  the factors of the scaling are in a file that is not here\n"));
}
