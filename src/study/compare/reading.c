/* reading.c - what numbers mean for a design: sentences derived by rules. They are qualitative, and each
 * contains the numbers on which it is based. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/compare/comparison.h"
#include "study/facts/figure.h"

#define TIE 0.01             /* difference of logarithms below which two ratios are alike */

static void add(lm_comparison *c, const char *rule, const char *text)
{
    if (c->n_readings < LM_MAX_READINGS)
        c->readings[c->n_readings++] = (lm_design_reading){ .rule = rule, .text = text };
}

/* Add a sentence about model i (`sign`: as in lm_design_reading); models with the same sentence share it. */
static void add_of(lm_comparison *c, size_t i, char sign, const char *rule, const char *body)
{
    for (uint32_t k = 0; k < c->n_readings; k++)
        if (c->readings[k].body && strcmp(c->readings[k].rule, rule) == 0 &&
            strcmp(c->readings[k].body, body) == 0) {
            c->readings[k].models |= 1u << i;
            return;
        }
    if (c->n_readings < LM_MAX_READINGS)
        c->readings[c->n_readings++] = (lm_design_reading){
            .rule = rule, .body = body, .models = 1u << i, .sign = sign
        };
}

/* Prefix sentences with the names of their models: "THIS, THAT: …". */
static void put_names(lm_comparison *c)
{
    for (uint32_t k = 0; k < c->n_readings; k++) {
        lm_design_reading *r     = &c->readings[k];
        const char *names = NULL;
        for (size_t i = 0; r->body && i < c->n; i++)
            if (r->models >> i & 1)
                names = names ? lm_compare_printf(c, "%s, %s", names, c->name[i]) : c->name[i];
        if (r->body)
            r->text = lm_compare_printf(c, _("%s: %s"), names, r->body);
    }
}

/* Write a ratio with two decimals, one below 0.1 with two significant digits. */
static const char *times(lm_comparison *c, double x)
{
    return lm_compare_printf(c, x < 0.0995 ? "%.2g" : "%.2f", x);
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

/* ---- sentences about one model ---- */

static void read_attention(lm_comparison *c, size_t i)
{
    uint64_t q = count(c, i, "attention.heads"), kv = count(c, i, "attention.kv_heads");
    double   saved = number(c, i, "kv.mha.saved");

    char     a[LM_FIG], b[LM_FIG];

    if (has_latent(c, i))
        add_of(
            c, i, '-', N_("latent attention"),
            lm_compare_printf(c,
                              _("one latent of %" PRIu64 " values per token and layer is cached for %" PRIu64
                                " heads, %.1f %% less than with MHA; reading latents takes %s per token of "
                                "context, keys and values of all heads would take %s."),
                              count(c, i, "attention.latent.cached"), count(c, i, "attention.latent.heads"),
                              saved, lm_fig_flops(a, (double)count(c, i, "flops.per_context_token")),
                              lm_fig_flops(b, (double)count(c, i, "flops.per_context_token_naive"))));
    else if (q && kv && kv < q)
        add_of(c, i, '+', kv == 1 ? N_("multi-query attention") : N_("grouped-query attention"),
               lm_compare_printf(
                   c,
                   _("%" PRIu64
                     " query heads share each key/value head; the cache is %.1f %% smaller than with MHA."),
                   q / kv, saved));
    else if (q)
        add_of(c, i, '!', N_("multi-head attention"),
               lm_compare_printf(c,
                                 _("each of the %" PRIu64
                                   " query heads has its own keys and values, the largest cache for this "
                                   "width."),
                                 q));
}

static void read_window(lm_comparison *c, size_t i)
{
    uint64_t some = count(c, i, "attention.windowed_layers"), full = count(c, i, "attention.full_layers");
    uint64_t reach = count(c, i, "attention.reach"), window = count(c, i, "attention.window");
    char     a[LM_FIG], b[LM_FIG];

    if (some && !full && window)
        add_of(
            c, i, '-', N_("sliding window"),
            reach >= count(c, i, "architecture.context")
                ? lm_compare_printf(c,
                                    _("each layer sees the last %s keys, which bounds the cache; earlier "
                                      "tokens have an effect only through the layers, which together reach "
                                      "the whole context."),
                                    lm_fig_count(a, window))
                : lm_compare_printf(c,
                                    _("each layer sees the last %s keys, which bounds the cache; earlier "
                                      "tokens have an effect only "
                                      "through the layers, up to %s tokens back."),
                                    lm_fig_count(a, window), lm_fig_count(b, reach)));
    else if (some && lm_compare_count(c, i, "attention.chunked"))
        add_of(c, i, '+', N_("chunks"),
               lm_compare_printf(c,
                                 _("%" PRIu64 " of %" PRIu64
                                   " layers see only the keys of their own chunk and have a short cache; the others "
                                   "see all tokens."),
                                 some, some + full));
    else if (some)
        add_of(c, i, '+', N_("mixed windows"),
               lm_compare_printf(c,
                                 _("%" PRIu64 " of %" PRIu64
                                   " layers have a sliding window and a short cache; the others see all "
                                   "tokens."),
                                 some, some + full));
}

/* Return the layers with attention. */
static uint64_t attending(const lm_comparison *c, size_t i)
{
    return c->traits[i].n_attentions;
}

static void read_states(lm_comparison *c, size_t i)
{
    uint64_t all = count(c, i, "architecture.layers"), some = count(c, i, "states.layers");
    char     a[LM_FIG];

    if (!some)
        return;
    lm_fig_bytes(a, count(c, i, "states.bytes"));
    add_of(c, i, '-', N_("layers with a state"),
           !attending(c, i)
               ? lm_compare_printf(c,
                                   _("no layer has attention; the states of a sequence take %s, whatever its "
                                     "length."),
                                   a)
               : lm_compare_printf(c,
                                   some + attending(c, i) > all
                                       ? _("%" PRIu64 " of %" PRIu64
                                           " layers have a state besides attention; the states of a sequence "
                                           "take %s, whatever its length.")
                                       : _("%" PRIu64 " of %" PRIu64
                                           " layers have a state in place of attention; the states of a "
                                           "sequence take %s, whatever its length."),
                                   some, all, a));
}

static void read_experts(lm_comparison *c, size_t i)
{
    uint64_t total = count(c, i, "parameters.total"), active = count(c, i, "parameters.active");
    char     a[LM_FIG], b[LM_FIG];

    if (active && active < total)
        add_of(c, i, '-', N_("mixture of experts"),
               lm_compare_printf(
                   c, _("%s of %s parameters are active per token (%.1f %%); all of them must be in memory."),
                   lm_fig_short(a, (double)active), lm_fig_short(b, (double)total),
                   100.0 * (double)active / (double)total));
}

static void read_positions(lm_comparison *c, size_t i)
{
    uint64_t context = count(c, i, "architecture.context"), trained = count(c, i, "rope.original_context");
    char     a[LM_FIG], b[LM_FIG];

    if (lm_compare_truth(c, i, "architecture.context_is_hard"))
        add_of(c, i, '!', N_("table of positions"),
               lm_compare_printf(
                   c,
                   _("the position table has %s entries; without training the context cannot be extended."),
                   lm_fig_count(a, context)));
    else if (trained && context > trained)
        add_of(c, i, '+', N_("scaled rotation"),
               lm_compare_printf(c, _("RoPE scaling extends the context from %s to %s positions."),
                                 lm_fig_count(b, trained), lm_fig_count(a, context)));
}

static void read_head(lm_comparison *c, size_t i)
{
    uint64_t total = count(c, i, "parameters.total"), untied = count(c, i, "parameters.untied_total");
    char     a[LM_FIG];

    if (lm_compare_truth(c, i, "architecture.tied"))
        add_of(c, i, '+', N_("tied head"),
               lm_compare_printf(
                   c, _("the output head is the embedding table, which saves %s parameters (%.1f %%)."),
                   lm_fig_short(a, (double)(untied - total)),
                   100.0 * (double)(untied - total) / (double)untied));
}

/* Return whether attention and MLP of parallel blocks share a norm: a layer of the first kind has a single
 * one. */
static bool one_norm(const lm_comparison *c, size_t i)
{
    uint64_t layers = count(c, i, "architecture.layers");

    return layers && count(c, i, "architecture.norms") - count(c, i, "architecture.final_norms") <= layers;
}

static void read_blocks(lm_comparison *c, size_t i)
{
    if (lm_compare_truth(c, i, "architecture.parallel_blocks"))
        add_of(
            c, i, 0, N_("parallel blocks"),
            one_norm(c, i)
                ? _("attention and MLP read the same norm of the same input, so a layer needs one norm less.")
                : _("attention and MLP read the same input, each by a norm of its own."));
    if (c->traits[i].norm_position == LM_NORM_POST)
        add_of(c, i, 0, N_("post-norm"),
               _("the norm follows the residual sum, so the residual stream is rescaled in each layer."));
}

/* ---- sentences about two models ---- */

static double ratio(const lm_comparison *c, const char *path)
{
    uint64_t a = count(c, 0, path), b = count(c, 1, path);

    return a && b ? (double)b / (double)a : 0;
}

/* Say which part causes the difference in parameters. */
static void read_difference(lm_comparison *c)
{
    static const char *const parts[] = { "embedding", "attention", "state", "mlp", "norm", "head",
                                         "other" };
    static const char *const words[] = { N_("embedding"), N_("attention"), N_("layers with a state"), "MLP",
                                         N_("norm"),      N_("head"),      N_("other") };
    double all = (double)count(c, 1, "parameters.total") - (double)count(c, 0, "parameters.total"), max = 0;
    const char *which = NULL;
    char        path[64], a[LM_FIG], b[LM_FIG];

    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        snprintf(path, sizeof path, "parameters.%s", parts[k]);
        double d = (double)count(c, 1, path) - (double)count(c, 0, path);
        if (d * all > 0 && fabs(d) > fabs(max)) {
            max  = d;
            which = words[k];
        }
    }
    if (which && max / all > 2)
        add(c, N_("where the difference lies"),
            lm_compare_printf(c,
                              _("The largest difference is in the %s, %s parameters, of which other parts "
                                "offset all but %s."),
                              _(which), lm_fig_short(b, fabs(max)), lm_fig_short(a, fabs(all))));
    else if (which)
        add(c, N_("where the difference lies"),
            lm_compare_printf(c, _("Most of the difference of %s parameters is in the %s: %s, %.0f %%."),
                              lm_fig_short(a, fabs(all)), _(which), lm_fig_short(b, fabs(max)),
                              100 * max / all));
}

static void read_kept_heads(lm_comparison *c)
{
    uint64_t kv = count(c, 0, "attention.kv_heads"), width = count(c, 0, "attention.head_dim");
    uint64_t a = attending(c, 0), b = attending(c, 1);

    if (has_latent(c, 0) || has_latent(c, 1) || !kv || kv != count(c, 1, "attention.kv_heads") ||
        width != count(c, 1, "attention.head_dim") ||
        count(c, 0, "attention.heads") == count(c, 1, "attention.heads"))
        return;
    add(c, N_("same key/value heads"),
        lm_compare_printf(c,
                          _("Both have %" PRIu64 " key/value heads of %" PRIu64
                            " dimensions, so the cache per token depends only on the "
                            "number of layers (%" PRIu64 " and %" PRIu64 ")."),
                          kv, width, a, b));
}

static void read_shape(lm_comparison *c)
{
    double width = ratio(c, "architecture.hidden"), depth = ratio(c, "architecture.layers"),
           ffn = ratio(c, "mlp.intermediate");

    if (width <= 0 || depth <= 0 || ffn <= 0 || fabs(width * depth * ffn - 1) < 1e-9)
        return;
    double max = fmax(fabs(log(width)), fmax(fabs(log(depth)), fabs(log(ffn))));
    /* sizes whose ratios are within 1 % of the largest change alike: then none changes most */
    bool f = fabs(log(ffn)) >= max - TIE, w = fabs(log(width)) >= max - TIE,
         l = fabs(log(depth)) >= max - TIE;
    const char *format =
        f + w + l > 1 ? _("%s has ×%s the width, ×%s the layers and ×%s the MLP width of %s.")
        : f ? _("%s has ×%s the width, ×%s the layers and ×%s the MLP width of %s: the MLP changes most.")
        : w ? _("%s has ×%s the width, ×%s the layers and ×%s the MLP width of %s: width changes most.")
            : _("%s has ×%s the width, ×%s the layers and ×%s the MLP width of %s: depth changes most.");
    add(c, N_("scaling of the sizes"),
        lm_compare_printf(c, format, c->name[1], times(c, width), times(c, depth), times(c, ffn),
                          c->name[0]));
}

static void read_costs(lm_comparison *c)
{
    double size = ratio(c, "parameters.total"), cached = ratio(c, "kv.bytes_per_token"),
           work = ratio(c, "flops.per_token_matmul");

    if (size > 0 && cached > 0 && work > 0 &&
        (fabs(cached / size - 1) > 0.05 || fabs(work / size - 1) > 0.05))
        add(c, N_("costs against size"),
            lm_compare_printf(
                c,
                _("With ×%s the parameters, %s needs ×%s the operations and ×%s the cache per token of %s."),
                times(c, size), c->name[1], times(c, work), times(c, cached), c->name[0]));
}

/* Compare the storage of models with the same number of parameters. */
static void read_storage(lm_comparison *c)
{
    double stored = ratio(c, "weights.bytes");

    if (stored > 0 && stored != 1 && count(c, 0, "parameters.total") == count(c, 1, "parameters.total"))
        add(c, N_("storage"),
            lm_compare_printf(
                c, _("%s stores the same number of parameters in %.2f bits each, %s in %.2f: ×%s the bytes."),
                c->name[1], number(c, 1, "weights.bits_per_weight"), c->name[0],
                number(c, 0, "weights.bits_per_weight"), times(c, stored)));
}

static void read_pieces(lm_comparison *c)
{
    lm_norm_kind a = c->traits[0].norm_kind, b = c->traits[1].norm_kind;

    if (a != b && (a == LM_NORM_RMS || b == LM_NORM_RMS))
        add(c, N_("kinds of norm"),
            _("RMSNorm omits the mean and the bias of LayerNorm: fewer parameters and one pass over the "
              "row."));
    if (lm_compare_truth(c, 0, "mlp.gated") != lm_compare_truth(c, 1, "mlp.gated"))
        add(c, N_("kinds of MLP"),
            lm_compare_printf(
                c,
                _("%s has a gated MLP with a third matrix: half as many parameters again at the same width."),
                c->name[lm_compare_truth(c, 0, "mlp.gated") ? 0 : 1]));
}

void lm_compare_readings(lm_comparison *c)
{
    static void (*const pairs[])(lm_comparison *) = { read_shape, read_difference, read_kept_heads,
                                                      read_costs, read_storage,    read_pieces };
    static void (*const single[])(lm_comparison *, size_t) = {
        read_attention, read_window, read_states, read_experts, read_positions, read_head, read_blocks,
    };

    for (size_t k = 0; c->n == 2 && k < sizeof pairs / sizeof *pairs; k++)
        pairs[k](c);
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < sizeof single / sizeof *single; k++)
            single[k](c, i);
    put_names(c);
}
