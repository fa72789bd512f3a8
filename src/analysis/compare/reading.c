/* reading.c - what figures mean for a design: sentences by rule. They are qualitative; each carries the figures it rests on. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/compare/comparison.h"
#include "analysis/facts/figure.h"

static void add(lm_comparison *c, const char *rule, const char *text)
{
    if (c->n_readings < LM_MOST_READINGS)
        c->readings[c->n_readings++] = (lm_reading){ rule, text };
}

static uint64_t count(const lm_comparison *c, size_t i, const char *path)
{
    return lm_compare_count(c, i, path);
}

static double number(const lm_comparison *c, size_t i, const char *path)
{
    const lm_fact *x = lm_compare_fact(c, i, path);

    return x && x->kind == LM_FACT_NUMBER ? x->number : 0;
}

static bool has_latent(const lm_comparison *c, size_t i)
{
    return lm_compare_fact(c, i, "attention.latent") != NULL;
}

/* ---- of one model ---- */

static void read_attention(lm_comparison *c, size_t i)
{
    uint64_t q = count(c, i, "attention.heads"), kv = count(c, i, "attention.kv_heads");
    double   saved = number(c, i, "kv.mha.saved");

    if (has_latent(c, i))
        add(c, N_("latent attention"),
            lm_compare_keep(c, _("%s caches one latent of %" PRIu64 " values per token and layer for its %" PRIu64
                               " heads, and pays for it with projections up from the latent."),
                            c->name[i], count(c, i, "attention.latent.cached"), count(c, i, "attention.latent.heads")));
    else if (q && kv && kv < q)
        add(c, kv == 1 ? N_("multi-query attention") : N_("grouped-query attention"),
            lm_compare_keep(c,
                            _("%s shares each key/value head among %" PRIu64 " query heads: its cache is %.1f %% smaller than with MHA, "
                               "its queries stay as many."),
                            c->name[i], q / kv, saved));
    else if (q)
        add(c, N_("multi-head attention"),
            lm_compare_keep(c,
                            _("%s gives each of its %" PRIu64 " query heads keys and values of its own: the largest cache for its width."),
                            c->name[i], q));
}

static void read_window(lm_comparison *c, size_t i)
{
    uint64_t some = count(c, i, "attention.windowed_layers"), full = count(c, i, "attention.full_layers");
    uint64_t reach = count(c, i, "attention.reach"), window = count(c, i, "attention.window");
    char     a[LM_FIG], b[LM_FIG];

    if (some && !full && window)
        add(c, N_("sliding window"),
            lm_compare_keep(c,
                            _("%s sees %s keys in each layer: its cache stops growing there, and what lies further back reaches it only "
                               "through the layers, %s tokens at most."),
                            c->name[i], lm_fig_count(a, window), lm_fig_count(b, reach)));
    else if (some)
        add(c, N_("mixed windows"),
            lm_compare_keep(c,
                            _("%s has windows in %" PRIu64 " of %" PRIu64 " layers: those keep a short cache, the others see everything."),
                            c->name[i], some, some + full));
}

static void read_experts(lm_comparison *c, size_t i)
{
    uint64_t total = count(c, i, "parameters.total"), active = count(c, i, "parameters.active");
    char     a[LM_FIG], b[LM_FIG];

    if (active && active < total)
        add(c, N_("mixture of experts"),
            lm_compare_keep(c,
                            _("%s reads %s of its %s parameters for a token (%.1f %%): the memory of the whole, the arithmetic of the "
                               "part."),
                            c->name[i], lm_fig_short(a, (double)active), lm_fig_short(b, (double)total),
                            100.0 * (double)active / (double)total));
}

static void read_positions(lm_comparison *c, size_t i)
{
    uint64_t context = count(c, i, "architecture.context"), trained = count(c, i, "rope.original_context");
    char     a[LM_FIG], b[LM_FIG];

    if (lm_compare_truth(c, i, "architecture.context_is_hard"))
        add(c, N_("table of positions"),
            lm_compare_keep(c, _("%s has a table of %s positions and no others: its context cannot grow."), c->name[i],
                            lm_fig_count(a, context)));
    else if (trained && context > trained)
        add(c, N_("scaled rotation"),
            lm_compare_keep(c, _("%s reaches %s positions by scaling the rotation beyond %s."), c->name[i],
                            lm_fig_count(a, context), lm_fig_count(b, trained)));
}

static void read_head(lm_comparison *c, size_t i)
{
    uint64_t total = count(c, i, "parameters.total"), untied = count(c, i, "parameters.untied_total");
    char     a[LM_FIG];

    if (lm_compare_truth(c, i, "architecture.tied"))
        add(c, N_("tied head"),
            lm_compare_keep(c,
                            _("%s uses its embedding as the head: %s parameters less, %.1f %% of what it would have otherwise."),
                            c->name[i], lm_fig_short(a,
                                                     (double)(untied - total)), 100.0 * (double)(untied - total) / (double)untied));
}

static void read_blocks(lm_comparison *c, size_t i)
{
    if (lm_compare_truth(c, i, "architecture.parallel_blocks"))
        add(c, N_("parallel blocks"),
            lm_compare_keep(c, _("%s adds attention and MLP of the same input: one norm and one wait less in each layer."),
                            c->name[i]));
    if (c->traits[i].norm_position == LM_NORM_POST)
        add(c, N_("post-norm"), lm_compare_keep(c, _("%s norms the sum: the residual stream is rescaled in each layer."),
                                                c->name[i]));
}

/* ---- of two ---- */

static double ratio(const lm_comparison *c, const char *path)
{
    uint64_t a = count(c, 0, path), b = count(c, 1, path);

    return a && b ? (double)b / (double)a : 0;
}

/* Where the difference in parameters lies. */
static void read_difference(lm_comparison *c)
{
    static const char *const parts[] = { "embedding", "attention", "mlp", "norm", "head", "other" };
    static const char *const words[] = { N_("embedding"), N_("attention"), "MLP", N_("norm"), N_("head"), N_("other") };
    double      all = (double)count(c, 1, "parameters.total") - (double)count(c, 0, "parameters.total"), most = 0;
    const char *which = NULL;
    char        path[64], a[LM_FIG], b[LM_FIG];

    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        snprintf(path, sizeof path, "parameters.%s", parts[k]);
        double d = (double)count(c, 1, path) - (double)count(c, 0, path);
        if (d * all > 0 && fabs(d) > fabs(most)) {
            most  = d;
            which = words[k];
        }
    }
    if (which)
        add(c, N_("where the difference lies"),
            lm_compare_keep(c, _("Of the %s parameters between them most are in the %s: %s, %.0f %%."),
                            lm_fig_short(a, fabs(all)), _(which), lm_fig_short(b, fabs(most)), 100 * most / all));
}

static void read_kept_heads(lm_comparison *c)
{
    uint64_t kv = count(c, 0, "attention.kv_heads"), width = count(c, 0, "attention.head_dim");
    uint64_t a = count(c, 0, "architecture.layers"), b = count(c, 1, "architecture.layers");

    if (has_latent(c, 0) || has_latent(c, 1) || !kv || kv != count(c, 1, "attention.kv_heads") ||
        width != count(c, 1, "attention.head_dim") || count(c, 0, "attention.heads") == count(c, 1, "attention.heads"))
        return;
    add(c, N_("key/value heads are kept"),
        lm_compare_keep(c,
                        _("Both keep %" PRIu64 " key/value heads of %" PRIu64 " while width and query heads differ: the cache per token "
                           "follows the layers alone (%" PRIu64 " and %" PRIu64 ")."),
                        kv, width, a, b));
}

static void read_shape(lm_comparison *c)
{
    double width = ratio(c, "architecture.hidden"), depth = ratio(c, "architecture.layers"), ffn = ratio(c, "mlp.intermediate");

    if (width <= 0 || depth <= 0 || ffn <= 0 || fabs(width * depth * ffn - 1) < 1e-9)
        return;
    double      most   = fmax(fabs(log(width)), fmax(fabs(log(depth)), fabs(log(ffn))));
    const char *format = fabs(log(ffn)) >= most
                             ? _("%s has ×%.2f the width, ×%.2f the layers and ×%.2f the MLP width of %s: the MLP changes most.")
                         : fabs(log(width)) >= most
                             ? _("%s has ×%.2f the width, ×%.2f the layers and ×%.2f the MLP width of %s: width changes most.")
                             : _("%s has ×%.2f the width, ×%.2f the layers and ×%.2f the MLP width of %s: depth changes most.");
    add(c, N_("how it was scaled"), lm_compare_keep(c, format, c->name[1], width, depth, ffn, c->name[0]));
}

static void read_costs(lm_comparison *c)
{
    double size = ratio(c, "parameters.total"), cached = ratio(c, "kv.bytes_per_token"),
           work = ratio(c, "flops.per_token_matmul");

    if (size > 0 && cached > 0 && work > 0 && (fabs(cached / size - 1) > 0.05 || fabs(work / size - 1) > 0.05))
        add(c, N_("costs against size"),
            lm_compare_keep(c,
                            _("At ×%.2f the parameters %s takes ×%.2f the operations and ×%.2f the cache per token of %s."), size,
                            c->name[1], work, cached, c->name[0]));
}

static void read_pieces(lm_comparison *c)
{
    lm_norm_kind a = c->traits[0].norm_kind, b = c->traits[1].norm_kind;

    if (a != b && (a == LM_NORM_RMS || b == LM_NORM_RMS))
        add(c, N_("kinds of norm"),
            _("RMSNorm leaves out the mean and the bias of LayerNorm: fewer parameters, one pass over the row."));
    if (lm_compare_truth(c, 0, "mlp.gated") != lm_compare_truth(c, 1, "mlp.gated"))
        add(c, N_("kinds of MLP"),
            lm_compare_keep(c,
                            _("%s gates its MLP with a third matrix: at the same width it has half as many parameters again."),
                            c->name[lm_compare_truth(c, 0, "mlp.gated") ? 0 : 1]));
}

void lm_compare_readings(lm_comparison *c)
{
    static void (*const pairs[])(lm_comparison *) = { read_shape, read_difference, read_kept_heads, read_costs, read_pieces };
    static void (*const single[])(lm_comparison *, size_t) = {
        read_attention, read_window, read_experts, read_positions, read_head, read_blocks,
    };

    for (size_t k = 0; c->n == 2 && k < sizeof pairs / sizeof *pairs; k++)
        pairs[k](c);
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < sizeof single / sizeof *single; k++)
            single[k](c, i);
}
