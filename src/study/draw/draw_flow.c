/* draw_flow.c - draw whole models and whole layers. */
#include <stdio.h>
#include <string.h>

#include "study/draw/draw.h"

/* Draw an end of a layer as the value that it holds. */
static uint32_t add_end(lm_walk *w, const char *text, uint32_t width)
{
    return lm_graph_add(w->g, LM_SHAPE_SLANTED, LM_MARK_END, "%s\n[T, %s]", text, lm_grouped(w->d->f, width));
}

/* Treat all values made so far as coming from outside. */
static void forget(lm_walk *w)
{
    for (uint32_t v = 0; v < w->d->f->s.program->n_values; v++)
        w->node_of[v] = LM_OUTSIDE;
}

static void draw_layer(lm_walk *w, uint32_t layer, uint32_t before, uint32_t *first, uint32_t *last)
{
    const lm_facts   *f = w->d->f;
    const lm_program *p = f->s.program;
    const lm_module  *m = &p->modules[f->ledger->layer[layer]];

    *first = add_end(w, _("layer input"), (uint32_t)lm_facts_count(w->d->f, "architecture.hidden"));
    if (before != LM_OUTSIDE)
        lm_graph_link(w->g, before, *first, NULL);
    w->outer = *first;
    forget(w);
    lm_walk_ops(w, m->first_op, m->end_op);
    uint32_t made = w->last;
    *last = add_end(w, _("layer output"),
                    p->values[m->out != LM_NONE ? m->out : p->nodes[m->end_op - 1].out].width);
    lm_graph_link(w->g, made, *last, NULL);
}

/* Return the layers that equal `layer`: "layers 0 … 27", "layers 1, 3, 5 …". */
static const char *who(lm_facts *f, uint32_t layer, uint32_t *n)
{
    const uint32_t *twin = f->ledger->twin;
    lm_text          b    = { 0 };
    uint32_t        last = 0, shown = 0;

    *n = 0;
    for (uint32_t i = 0; i < f->s.program->n_layers; i++)
        if (twin[i] == layer) {
            last = i;
            ++*n;
        }
    if (*n == 1)
        lm_text_printf(&b, _("layer %u"), layer);
    else if (*n == last - layer + 1)
        lm_text_printf(&b, _("layers %u … %u: %u ×"), layer, last, *n);
    else {
        lm_text some = { 0 };
        for (uint32_t i = 0; i < f->s.program->n_layers && shown < 3; i++)
            if (twin[i] == layer)
                lm_text_printf(&some, "%s%u", shown++ ? ", " : "", i);
        lm_text_printf(&b, *n > 3 ? _("layers %s …: %u ×") : _("layers %s"), some.data ? some.data : "", *n);
        lm_text_free(&some);
    }
    const char *text = lm_arena_strdup(&f->arena, b.data ? b.data : "");
    lm_text_free(&b);
    return text ? text : "";
}

static void caption(lm_walk *w, const char *format, uint32_t n)
{
    w->g->caption = lm_arena_printf(&w->d->f->arena, format, n);
}

/* Draw one layer of each kind, in order of first appearance. */
static uint32_t draw_stack(lm_walk *w, uint32_t before)
{
    lm_facts         *f = w->d->f;
    const lm_program *p = f->s.program;
    uint32_t          first = 0, last = before, n, kinds = 0;

    lm_graph_open(w->g, _("decoder, %u layers"), p->n_layers);
    for (uint32_t i = 0; i < p->n_layers; i++) {
        if (f->ledger->twin[i] != i || kinds++ >= 3)
            continue;
        lm_graph_open(w->g, "%s %s", who(f, i, &n), p->modules[f->ledger->layer[i]].class_name);
        draw_layer(w, i, last, &first, &last);
        lm_graph_close(w->g);
        if (n > 1)
            lm_graph_loop(w->g, last, first,
                          n == p->n_layers ? lm_arena_printf(&f->arena, _("while i < %u"), n - 1)
                                           : _("the next of these layers"));
    }
    lm_graph_close(w->g);
    caption(w,
            kinds == 1 ? _("The layer shown is repeated %u times.")
                       : _("One layer of each kind is shown; there "
                           "are %u layers."),
            p->n_layers);
    return last;
}

void lm_draw_flow(lm_drawing *d)
{
    const lm_program *p = d->f->s.program;
    lm_walk           w;

    if (!lm_walk_start(&w, d))
        return;
    const lm_module *first = p->n_layers ? &p->modules[d->f->ledger->layer[0]] : NULL;
    const lm_module *last  = p->n_layers ? &p->modules[d->f->ledger->layer[p->n_layers - 1]] : NULL;
    lm_graph_open(w.g, _("input"));
    w.outer = lm_graph_add(w.g, LM_SHAPE_ROUND, LM_MARK_NONE, _("token ids\n[T]"));
    lm_walk_ops(&w, 0, first ? first->first_op : p->n_nodes);
    lm_graph_close(w.g);
    if (first) {
        uint32_t stack = draw_stack(&w, w.last);
        lm_graph_open(w.g, _("output"));
        w.outer = stack;
        forget(&w);
        lm_walk_ops(&w, last->end_op, p->n_nodes);
    }
    uint32_t logits = lm_graph_add(w.g, LM_SHAPE_ROUND, LM_MARK_END, _("logits\n[T, %s]"),
                                   lm_grouped(d->f, p->n_vocab));
    lm_graph_link(w.g, w.last, logits, NULL);
    lm_draw_graph(d, w.g);
}

void lm_draw_layer(lm_drawing *d)
{
    uint32_t first, last;
    lm_walk  w;

    if (d->o->layer >= d->f->s.program->n_layers) {
        d->missing = "the model has no such layer";
        return;
    }
    if (!lm_walk_start(&w, d))
        return;
    draw_layer(&w, d->o->layer, LM_OUTSIDE, &first, &last);
    lm_draw_graph(d, w.g);
}

/* ---- parts of a layer ---- */

static void draw_part(lm_drawing *d, uint32_t layer, lm_part part, const char *note)
{
    const lm_facts   *f = d->f;
    const lm_program *p = f->s.program;
    lm_walk           w;

    if (!lm_walk_start(&w, d))
        return;
    const lm_module *m     = &p->modules[f->ledger->layer[layer]];
    uint32_t         x     = add_end(&w, _("input"), (uint32_t)lm_facts_count(d->f, "architecture.hidden"));
    bool             any   = false;
    w.outer                = x;
    for (uint32_t i = m->first_op; i < m->end_op; i++) {
        uint32_t block = f->ledger->block[i];
        bool     norm  = lm_is_norm(&p->nodes[i]);
        bool     mine  = f->ledger->part[i] == part;
        if (block != LM_NONE && norm)
            mine = lm_has_several(p, block) &&
                   f->ledger->attends[block] == (part == LM_PART_ATTENTION);
        if (!mine || lm_is_residual(f->ledger, i))
            continue;
        lm_walk_op(&w, i);
        any = true;
    }
    if (!any) {
        d->missing = "the layer has no operation of this kind";
        return;
    }
    w.g->caption = note;
    uint32_t made = w.last,
             out = add_end(&w, _("to the residual sum"), p->values[p->nodes[m->end_op - 1].out].width);
    lm_graph_link(w.g, made, out, NULL);
    lm_draw_graph(d, w.g);
}

void lm_draw_attention(lm_drawing *d)
{
    for (uint32_t i = 0; i < d->f->s.program->n_nodes; i++)
        if (d->f->s.program->nodes[i].code == LM_OP_ATTENTION && d->f->s.program->nodes[i].layer >= 0) {
            draw_part(d, (uint32_t)d->f->s.program->nodes[i].layer, LM_PART_ATTENTION, NULL);
            return;
        }
    d->missing = "no layer has attention";
}

void lm_draw_mlp(lm_drawing *d)
{
    for (uint32_t i = 0; i < d->f->s.program->n_nodes; i++) {
        const lm_node *n = &d->f->s.program->nodes[i];
        if (n->layer >= 0 && (n->code == LM_OP_GLU || n->code == LM_OP_ACT || n->code == LM_OP_EXPERTS)) {
            draw_part(d, (uint32_t)n->layer, LM_PART_MLP,
                      n->code == LM_OP_GLU
                          ? _("A gate near zero blocks a dimension; a large gate passes it. Gates "
                              "depend on the input.")
                          : NULL);
            return;
        }
    }
    d->missing = "no layer has an MLP";
}

/* ---- short forms ---- */

/* Return the parts that layers have: "Selective scan", "GQA, Linear recurrence, SwiGLU". */
static const char *parts_of_layers(lm_facts *f)
{
    lm_traits t;
    char      attention[64], mlp[64];

    lm_find_traits(f->ledger, &t);
    const char *const parts[] = { t.attention ? _(lm_attention_name(&t, attention, sizeof attention)) : NULL,
                                  t.recurrence ? _("Linear recurrence") : NULL,
                                  t.scan ? _("Selective scan") : NULL, t.gated ? "RG-LRU" : NULL,
                                  t.convolution && !t.recurrence && !t.scan && !t.gated
                                      ? _("Short convolution") : NULL,
                                  t.has_act ? _(lm_mlp_name(&t, mlp, sizeof mlp)) : NULL };
    char              all[256] = "";

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i])
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all ? ", " : "", parts[i]);
    return lm_arena_strdup(&f->arena, all);
}

void lm_draw_end_to_end(lm_drawing *d)
{
    lm_graph         *g = lm_graph_new(d->f);
    const lm_program *p = d->f->s.program;
    const char *names[] = { _("text"),      _("tokenizer"), _("token ids"),
                            NULL,           NULL,           _("final norm"),
                            _("head"),      _("logits"),    _("softmax, sampling"),
                            _("next token") };
    uint32_t          before = LM_OUTSIDE, ids = 0;

    if (!g)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint32_t node;
        if (i == 3)
            node = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, _("embedding\n%s × %s"),
                                lm_grouped(d->f, p->n_vocab),
                                lm_grouped(d->f, lm_facts_count(d->f, "architecture.hidden")));
        else if (i == 4)
            node = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_SCORES, _("%u decoder layers\n%s"), p->n_layers,
                                parts_of_layers(d->f));
        else if (i == 5 && !lm_facts_count(d->f, "architecture.final_norms"))
            continue;
        else
            node = lm_graph_add(g, i == 0 || i == 9 ? LM_SHAPE_ROUND : LM_SHAPE_BOX,
                                i == 8   ? LM_MARK_SOFTMAX
                                : i == 9 ? LM_MARK_END
                                         : LM_MARK_NONE,
                                i == 7 ? _("%s\n%s numbers per token") : "%s", names[i],
                                lm_grouped(d->f, p->n_vocab));
        if (i == 2)
            ids = node;
        if (before != LM_OUTSIDE)
            lm_graph_link(g, before, node, NULL);
        before = node;
    }
    lm_graph_loop(g, before, ids, _("append and repeat"));
    lm_draw_graph(d, g);
}

/* Return the operation that makes a value, behind norms and sums of norms. */
static const lm_node *behind_norms(const lm_ledger *l, uint32_t i)
{
    const lm_program *p = l->program;
    const lm_node    *n = &p->nodes[i];

    while (lm_is_norm(n) || (n->code == LM_OP_ADD && !lm_is_residual(l, (uint32_t)(n - p->nodes))))
        n = &p->nodes[p->values[n->in[0]].producer];
    return n;
}

/* Return the name of what an addition of layer 0 adds. */
static const char *added(const lm_facts *f, uint32_t i)
{
    const lm_program *p = f->s.program;
    const char       *other = _("a branch");
    bool              attention = false, mlp = false;

    for (uint32_t k = 0; k < p->nodes[i].n_in; k++) {
        uint32_t from = lm_added_by(f->ledger, i, k);
        if (from == LM_NONE)
            continue;
        attention |= f->ledger->part[from] == LM_PART_ATTENTION;
        from = (uint32_t)(behind_norms(f->ledger, from) - p->nodes);
        mlp |= f->ledger->part[from] == LM_PART_MLP;
        other = p->nodes[from].code == LM_OP_LINEAR ? p->modules[p->nodes[from].module].name : other;
    }
    return attention && mlp ? _("attention and MLP")
           : attention      ? _("attention")
           : mlp            ? "MLP"
                            : other;
}

void lm_draw_residual(lm_drawing *d)
{
    const lm_facts   *f = d->f;
    const lm_program *p = f->s.program;
    lm_graph         *g = lm_graph_new(d->f);
    uint32_t          n = 0, adds[8];

    for (uint32_t i = 0; i < p->n_nodes && p->nodes[i].layer <= 0; i++)
        if (p->nodes[i].layer == 0 && lm_is_residual(f->ledger, i) && n < 8)
            adds[n++] = i;
    if (!g || !n) {
        d->missing = "the model has no residual connections";
        return;
    }
    bool parallel   = lm_facts_truth(d->f, "architecture.parallel_blocks");
    g->right        = true;
    uint32_t before = lm_graph_add(g, LM_SHAPE_ROUND, LM_MARK_NONE, _("x0\nembedding"));
    for (uint32_t layer = 0, x = 0; layer < p->n_layers; layer++) {
        if (layer == 1 && p->n_layers > 3) {             /* the first layer, those between, the last */
            uint32_t skipped = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, _("layers 1 … %u\n%u additions"),
                                            p->n_layers - 2, n * (p->n_layers - 2));
            lm_graph_link(g, before, skipped, NULL);
            before = skipped;
            layer  = p->n_layers - 1;
            x      = n * layer;
        }
        uint32_t entry = before;
        for (uint32_t k = 0; k < n; k++) {
            uint32_t branch = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, _("%s\nlayer %u"),
                                           added(f, adds[k]), layer);
            uint32_t sum    = lm_graph_add(g, LM_SHAPE_CIRCLE, LM_MARK_SUM, "+\nx%u", ++x);
            /* parallel: both read the layer's input */
            lm_graph_link(g, parallel ? entry : before, branch, NULL);
            lm_graph_link(g, before, sum, NULL);
            lm_graph_link(g, branch, sum, NULL);
            before = sum;
        }
    }
    bool     norm = lm_facts_count(d->f, "architecture.final_norms") > 0;
    uint32_t end  = lm_graph_add(g, LM_SHAPE_ROUND, LM_MARK_END, norm ? _("final norm, head") : _("head"));
    lm_graph_link(g, before, end, NULL);
    lm_draw_graph(d, g);
}
