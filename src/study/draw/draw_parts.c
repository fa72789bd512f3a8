/* draw_parts.c - draw heads, latents, rotation, experts, norms, windows. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/draw/chart.h"
#include "study/draw/draw.h"
#include "study/draw/svg_parts.h"
#include "base/columns.h"

/* ---- heads and the keys and values that they read ---- */

enum { SHOWN = 3 };                          /* groups drawn if there are too many: the first two and the
                                                last */

static bool shown(uint64_t group, uint64_t groups)
{
    return groups <= 8 || group < SHOWN - 1 || group == groups - 1;
}

static void group_text(uint64_t first, uint64_t n, lm_text *out)
{
    if (n == 1) {
        lm_text_printf(out, "Q%" PRIu64, first + 1);
        return;
    }
    lm_text_add_char(out, '[');
    for (uint64_t i = 0; i < n; i++)
        if (n <= 4 || i < 2 || i == n - 1)
            lm_text_printf(out, "%s%sQ%" PRIu64, i ? " " : "", n > 4 && i == n - 1 ? "… " : "",
                           first + i + 1);
    lm_text_add_char(out, ']');
}

static void heads_text(lm_drawing *d, const char *name, uint64_t heads, uint64_t groups, bool mine)
{
    unsigned columns = (d->o->columns ? d->o->columns : 80) - 4, at = 5;
    lm_text   one     = { 0 };

    lm_text_printf(d->out, "%-4s ", name);
    lm_text_printf(d->out,
                   mine ? P_(groups, "%" PRIu64 " key/value head (this model)",
                             "%" PRIu64 " key/value heads (this model)")
                        : P_(groups, "%" PRIu64 " key/value head", "%" PRIu64 " key/value heads"),
                   groups);
    lm_text_add_str(d->out, "\n     ");
    for (uint64_t g = 0; g < groups; g++) {
        lm_text_clear(&one);
        if (shown(g, groups))
            group_text(g * (heads / groups), heads / groups, &one);
        else if (g != SHOWN - 1)
            continue;
        if (shown(g, groups))
            lm_text_printf(&one, " → KV%" PRIu64, g + 1);
        else
            lm_text_add_str(&one, "…");
        unsigned width = lm_text_columns(one.data ? one.data : "");
        if (at > 5 && at + 3 + width > columns) {
            lm_text_add_str(d->out, "\n     ");
            at = 5;
        }
        lm_text_printf(d->out, "%s%s", at > 5 ? "   " : "", one.data ? one.data : "");
        at += width + (at > 5 ? 3 : 0);
    }
    lm_text_add_char(d->out, '\n');
    lm_text_free(&one);
}

static void heads_graph(lm_graph *g, const char *name, uint64_t heads, uint64_t groups, bool mine)
{
    lm_graph_open(g,
                  mine ? P_(groups, "%s: %" PRIu64 " query heads on %" PRIu64 " key/value head (this model)",
                            "%s: %" PRIu64 " query heads on %" PRIu64 " key/value heads (this model)")
                       : P_(groups, "%s: %" PRIu64 " query heads on %" PRIu64 " key/value head",
                            "%s: %" PRIu64 " query heads on %" PRIu64 " key/value heads"),
                  name, heads, groups);
    for (uint64_t k = 0; k < groups; k++) {
        if (!shown(k, groups))
            continue;
        uint32_t kv = LM_OUTSIDE;
        for (uint64_t i = 0; i < heads / groups; i++) {
            uint64_t q = k * (heads / groups) + i;
            if (heads / groups > 8 && i >= 2 && i != heads / groups - 1)
                continue;
            uint32_t node = lm_graph_add(g, LM_SHAPE_ROUND, LM_MARK_NONE, "Q%" PRIu64, q + 1);
            if (kv == LM_OUTSIDE)
                kv = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_SCORES, "KV%" PRIu64, k + 1);
            lm_graph_link(g, node, kv, NULL);
        }
    }
    lm_graph_close(g);
}

static void heads_svg(lm_drawing *d, uint64_t heads, uint64_t groups)
{
    const char *const names[] = { "MHA", "GQA", "MQA" };
    uint64_t          shared[] = { heads, groups, 1 };
    lm_sharing        kinds[3];
    size_t            n = 0;

    for (int i = 0; i < 3; i++) {
        if ((i == 1 && (groups == heads || groups == 1)) || (i == 2 && heads == 1))
            continue;
        const char *form = shared[i] == groups
                               ? _("%s (this model): query heads %s, heads of keys and values %s")
                               : _("%s: query heads %s, heads of keys and values %s");
        const char *title = lm_arena_printf(&d->f->arena, form, names[i], lm_grouped(d->f, heads),
                                            lm_grouped(d->f, shared[i]));
        d->f->failed |= !title;
        kinds[n++] = (lm_sharing){ title ? title : "", heads, shared[i] };
    }
    lm_svg_heads(kinds, n, d->name, d->alone, d->out);
}

void lm_draw_heads(lm_drawing *d)
{
    bool     any    = lm_facts_has(d->f, "attention.heads");
    uint64_t heads  = any ? lm_facts_count(d->f, "attention.heads") : 0,
             groups = any ? lm_facts_count(d->f, "attention.kv_heads") : 0;
    lm_graph *g     = lm_graph_new(d->f);

    if (!heads || !groups || lm_facts_has(d->f, "attention.latent")) {
        d->missing = "the heads have no keys and values of their own";
        return;
    }
    struct {
        const char *name;
        uint64_t groups;
    } kinds[3] = { { "MHA", heads }, { "GQA", groups }, { "MQA", 1 } };
    if (d->svg) {
        heads_svg(d, heads, groups);
        return;
    }
    for (int i = 0; g && i < 3; i++) {
        bool mine = kinds[i].groups == groups;
        if (i == 1 && (groups == heads || groups == 1))
            continue;
        if (d->mermaid)
            heads_graph(g, kinds[i].name, heads, kinds[i].groups, mine);
        else
            heads_text(d, kinds[i].name, heads, kinds[i].groups, mine);
    }
    if (d->mermaid)
        lm_draw_graph(d, g);
}

/* ---- rotation ---- */

void lm_draw_rope(lm_drawing *d)
{
    lm_graph *g = lm_graph_new(d->f);

    if (!g || !lm_facts_has(d->f, "rope.base")) {
        d->missing = "the model has no rotary embedding";
        return;
    }
    uint64_t lanes = lm_facts_count(d->f, "rope.head_dim"), dim = lm_facts_count(d->f, "rope.dim"),
             pairs = lm_facts_count(d->f, "rope.pairs");
    uint32_t x = lm_graph_add(g, LM_SHAPE_SLANTED, LM_MARK_NONE,
                              _("a head of q or k at position pos\n%" PRIu64 " dimensions"), lanes);
    uint32_t split = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, _("%" PRIu64 " pairs of dimensions\n%s"),
                                  pairs, _(lm_facts_text(d->f, "rope.pairing")));
    uint32_t angle = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_ROPE,
                                  _("angles pos · θᵢ\nθᵢ = %s^(−2i/%" PRIu64 "), scaling: %s"),
                                  lm_grouped(d->f, (uint64_t)lm_facts_number(d->f, "rope.base")), dim,
                                  _(lm_facts_text(d->f, "rope.scaling")));
    uint32_t turn = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_ROPE,
                                 _("rotate each pair\n(x cos − y sin, x sin + y cos)"));
    uint32_t out = lm_graph_add(g, LM_SHAPE_SLANTED, LM_MARK_NONE,
                                _("the rotated head\n%" PRIu64 " dimensions"), lanes);
    lm_graph_link(g, x, split,
                  dim < lanes
                      ? lm_arena_printf(&d->f->arena, _("the %" PRIu64 " dimensions that rotate"), dim)
                      : NULL);
    lm_graph_link(g, split, turn, NULL);
    lm_graph_link(g, angle, turn, NULL);
    lm_graph_link(g, turn, out, NULL);
    if (dim < lanes)
        lm_graph_link(g, x, out,
                      lm_arena_printf(&d->f->arena, _("%" PRIu64 " dimensions as they are"), lanes - dim));
    lm_draw_graph(d, g);
}

static bool scaled(lm_facts *f)
{
    return lm_facts_has(f, "rope.theta_scaled[0]") &&
           lm_is_scaled(&f->s.program->ropes[lm_main_rope(f->s.program)].spec);
}

static void spectrum_chart(lm_drawing *d, uint64_t pairs)
{
    double  *x = lm_arena_new(&d->f->arena, 3 * pairs, double), *theta = x + pairs, *run = x + 2 * pairs;
    lm_chart c = { .title = _("rotary frequencies"),
                   .x_title = _("pair of dimensions"),
                   .y_title = _("radians per position"),
                   .n = (uint32_t)pairs,
                   .x = x,
                   .log_y = true };

    d->f->failed |= !x;
    for (uint64_t i = 0; x && i < pairs; i++) {
        x[i]     = (double)i;
        theta[i] = lm_facts_number(d->f, "rope.theta[%" PRIu64 "]", i);
        run[i]   = scaled(d->f) ? lm_facts_number(d->f, "rope.theta_scaled[%" PRIu64 "]", i) : theta[i];
    }
    if (!x)
        return;
    if (scaled(d->f)) {
        c.curves[c.n_curves++] = (lm_curve){ _("scaled, as this model runs"), run, false };
        c.curves[c.n_curves++] = (lm_curve){ _("before scaling"), theta, true };
    } else {
        c.curves[c.n_curves++] = (lm_curve){ _("this model"), theta, false };
    }
    if (d->svg)
        lm_chart_svg(&c, d->name, d->alone, d->out);
    else
        lm_chart_mermaid(&c, d->out);
}

/* Write bars whose length is the logarithm of the wavelength. */
static void spectrum_text(lm_drawing *d, uint64_t pairs)
{
    bool   both = scaled(d->f);
    double min = lm_facts_number(d->f, "%s[%" PRIu64 "]", both ? "rope.theta_scaled" : "rope.theta",
                                 pairs - 1);

    lm_put_right(d->out, _("pair"), 4);
    lm_text_add_char(d->out, ' ');
    lm_put_right(d->out, _("radians"), 12);
    lm_text_add_char(d->out, ' ');
    lm_put_right(d->out, both ? _("scaled") : "", both ? 12 : 0);
    lm_text_printf(d->out, "  %s\n", _("positions for a turn"));
    for (uint64_t i = 0, step = pairs > 16 ? pairs / 16 : 1; i < pairs; i = i + step < pairs ||
         i == pairs - 1 ? i + step : pairs - 1) {
        double theta = lm_facts_number(d->f, "rope.theta[%" PRIu64 "]", i);
        double run   = both ? lm_facts_number(d->f, "rope.theta_scaled[%" PRIu64 "]", i) : theta;
        lm_text_printf(d->out, "%4" PRIu64 " %12.4g ", i, theta);
        if (both)
            lm_text_printf(d->out, "%12.4g ", run);
        lm_text_printf(d->out, " %14.1f", 2 * acos(-1) / run);
        if (d->o->lines) {
            lm_text_add_str(d->out, "  ");
            lm_text_add_bar(d->out, log(1 / run) / log(1 / min), 24);
        }
        lm_text_add_char(d->out, '\n');
    }
}

void lm_draw_spectrum(lm_drawing *d)
{
    uint64_t pairs = !lm_facts_has(d->f, "rope.theta[0]")
                         ? 0
                         : lm_rope_pairs(&d->f->s.program->ropes[lm_main_rope(d->f->s.program)].spec);

    if (pairs < 2)
        d->missing = "the model has no rotary embedding";
    else if (d->svg || d->mermaid)
        spectrum_chart(d, pairs);
    else
        spectrum_text(d, pairs);
}

/* ---- experts ---- */

/* Find the first experts and their router. */
static bool find_experts(const lm_program *p, const lm_node **experts, const lm_node **router)
{
    *experts = *router = NULL;
    for (uint32_t i = 0; i < p->n_nodes && !*experts; i++) {
        if (p->nodes[i].code == LM_OP_ROUTE)
            *router = &p->nodes[i];
        else if (p->nodes[i].code == LM_OP_EXPERTS)
            *experts = &p->nodes[i];
    }
    return *experts && *router;
}

/* Add at most four boxes, one of which represents the experts not shown. Returns their number. */
static uint32_t draw_experts(lm_drawing *d, lm_graph *g, const lm_node *e, uint32_t n_experts,
                             uint32_t drawn[static 4])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < n_experts; i++) {
        if (n_experts > 4 && i >= 2 && i != n_experts - 1)
            continue;
        if (n_experts > 4 && i == n_experts - 1)
            drawn[n++] = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_GATE, _("… experts 3 to %u …"), n_experts - 1);
        drawn[n++] = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_GATE, _("expert %u\n%s(gate) ⊙ up, %s wide"),
                                  i + 1, lm_act_word(e->experts.act), lm_grouped(d->f, e->experts.width));
    }
    return n;
}

void lm_draw_moe(lm_drawing *d)
{
    const lm_program *p = d->f->s.program;
    lm_graph         *g = lm_graph_new(d->f);
    const lm_node    *e, *r;
    uint32_t          drawn[4];

    if (!find_experts(p, &e, &r) || !g) {
        d->missing = "the model has no experts";
        return;
    }
    const lm_route_spec *s = &r->route.spec;
    uint32_t x = lm_graph_add(g, LM_SHAPE_SLANTED, LM_MARK_END, _("token\n%s dimensions"),
                              lm_grouped(d->f, p->values[e->in[0]].width));
    uint32_t router = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, _("router\n%s → %u"),
                                   lm_grouped(d->f, p->values[e->in[0]].width), s->n_experts);
    const char *groups = s->n_groups > 1 ? lm_arena_printf(&d->f->arena, _("\nfrom the best %u of %u groups"),
                                                           s->top_groups, s->n_groups)
                                         : "";
    uint32_t choice = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_SOFTMAX, _("%s, best %u of %u%s%s"),
                                   s->one_by_one ? "SparseMixer" : lm_route_function(s), s->top_k,
                                   s->n_experts,
                                   groups ? groups : "",
                                   s->renormalise ? _("\nweights divided by their sum") : "");
    lm_graph_link(g, x, router, NULL);
    lm_graph_link(g, router, choice, NULL);
    uint32_t n = draw_experts(d, g, e, s->n_experts, drawn);
    uint32_t sum = lm_graph_add(g, LM_SHAPE_CIRCLE, LM_MARK_SUM, _("weighted sum"));
    for (uint32_t i = 0; i < n; i++) {
        lm_graph_link(g, x, drawn[i], i == 0 ? _("x, if chosen") : NULL);
        lm_graph_link(g, drawn[i], sum, NULL);
    }
    lm_graph_link(g, choice, sum, _("weights"));
    if (lm_facts_has(d->f, "mlp.shared_width")) {
        uint32_t every = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_GATE, _("shared experts\n%s wide"),
                                      lm_grouped(d->f, lm_facts_count(d->f, "mlp.shared_width")));
        uint32_t both  = lm_graph_add(g, LM_SHAPE_CIRCLE, LM_MARK_SUM, "+");
        lm_graph_link(g, x, every, NULL);
        lm_graph_link(g, sum, both, NULL);
        lm_graph_link(g, every, both, NULL);
        sum = both;
    }
    uint32_t out = lm_graph_add(g, LM_SHAPE_SLANTED, LM_MARK_END, _("to the residual sum"));
    lm_graph_link(g, sum, out, NULL);
    g->caption = lm_arena_printf(&d->f->arena, _("Of %u experts, %u run for each token."), s->n_experts,
                                 s->top_k);
    lm_draw_graph(d, g);
}

/* ---- norms ---- */

static void norm_steps(lm_graph *g, lm_facts *f, bool layer, uint64_t width, double eps, bool bias, bool mine)
{
    uint32_t before, node;

    lm_graph_open(g, mine ? _("%s (this model)") : "%s", layer ? "LayerNorm" : "RMSNorm");
    before = lm_graph_add(g, LM_SHAPE_SLANTED, LM_MARK_NONE, _("x\n%s dimensions"), lm_grouped(f, width));
    const char *steps[6];
    size_t      n = 0;
    if (layer) {
        steps[n++] = _("1. subtract the mean");
        steps[n++] = _("2. mean of the squares: the variance");
    } else {
        steps[n++] = _("1. mean of the squares");
    }
    const char *divide = lm_arena_printf(&f->arena, _("%zu. divide by √(it + %g)"), n + 1, eps);
    const char *weigh = lm_arena_printf(&f->arena, _("%zu. multiply by %s weights"), n + 2,
                                        lm_grouped(f, width));
    const char *shift  = lm_arena_printf(&f->arena, _("%zu. add %s biases"), n + 3, lm_grouped(f, width));
    f->failed |= !divide || !weigh || !shift;
    steps[n++] = divide ? divide : "";
    steps[n++] = weigh ? weigh : "";
    if (layer && bias)
        steps[n++] = shift ? shift : "";
    for (size_t i = 0; i < n; i++) {
        node = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, "%s", steps[i]);
        lm_graph_link(g, before, node, NULL);
        before = node;
    }
    lm_graph_close(g);
}

void lm_draw_norm(lm_drawing *d)
{
    lm_graph *g = lm_graph_new(d->f);

    if (!g || !lm_facts_has(d->f, "architecture.norm")) {
        d->missing = "the model has no normalisation";
        return;
    }
    lm_traits t;
    lm_find_traits(d->f->ledger, &t);
    bool   layer = t.norm_kind == LM_NORM_LAYER;
    double eps   = lm_facts_number(d->f, "architecture.norm_eps");
    bool   bias  = lm_facts_truth(d->f, "architecture.norm_bias");
    norm_steps(g, d->f, layer, lm_facts_count(d->f, "architecture.hidden"), eps, bias, true);
    norm_steps(g, d->f, !layer, lm_facts_count(d->f, "architecture.hidden"), eps, !layer, false);
    lm_draw_graph(d, g);
}

/* ---- windows ---- */

void lm_draw_window(lm_drawing *d)
{
    const lm_program *p     = d->f->s.program;
    lm_graph         *g     = lm_graph_new(d->f);
    uint64_t          reach = 0, before = 0;
    uint32_t          node = 0, n = 0;

    if (!g || !lm_facts_count(d->f, "attention.windowed_layers")) {
        d->missing = "the model has no attention window";
        return;
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *a = &p->nodes[i];
        if (a->code != LM_OP_ATTENTION)
            continue;
        bool last = (uint32_t)a->layer + 1 == p->n_layers;
        if (a->attention.spec.chunked)   /* chunks of all layers are the same */
            reach = 0;
        reach     = a->attention.spec.window ? reach + a->attention.spec.window - 1 : 0;
        if (n++ >= 4 && !last)
            continue;
        uint32_t next = reach ? lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_SCORES,
                                             a->attention.spec.chunked
                                                 ? _("layer %d: sees its chunk of %s\nreaches back %s")
                                                 : _("layer %d: sees the last %s\nreaches back %s"),
                                             a->layer,
                                             lm_grouped(d->f, a->attention.spec.window),
                                             lm_grouped(d->f, reach))
                              : lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, _("layer %d: attends to all tokens"),
                                             a->layer);
        if (before)
            lm_graph_link(g, node, next, last && n > 5 ? "…" : NULL);
        before = 1;
        node   = next;
        if (!a->attention.spec.window)
            reach = 0;
    }
    lm_draw_graph(d, g);
}
