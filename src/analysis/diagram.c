/* diagram.c - graphs, and the table of diagrams. */
#include "analysis/diagram.h"

#include <stdarg.h>
#include <string.h>

#include "analysis/svg_graph.h"

static const struct {
    const char *name, *summary;
    lm_draw    *draw;
} diagrams[] = {
    { "flow", N_("the whole model: embedding, a layer of each kind, head, with its skip edges"), lm_draw_flow },
    { "layer", N_("one decoder layer, operation by operation"), lm_draw_layer },
    { "end-to-end", N_("from text to the next token"), lm_draw_end_to_end },
    { "residual", N_("the stream and what is added to it"), lm_draw_residual },
    { "attention", N_("the attention of a layer"), lm_draw_attention },
    { "heads", N_("which query heads read which key/value heads: MHA, this model, MQA"), lm_draw_heads },
    { "mla", N_("latent attention beside grouped-query attention"), lm_draw_mla },
    { "rope", N_("how a head is rotated"), lm_draw_rope },
    { "spectrum", N_("rotary frequencies before and after scaling"), lm_draw_spectrum },
    { "mlp", N_("the MLP of a layer"), lm_draw_mlp },
    { "moe", N_("routing to experts"), lm_draw_moe },
    { "norm", N_("normalisation in steps"), lm_draw_norm },
    { "cache", N_("the cache over the first steps of a text"), lm_draw_cache },
    { "kv-growth", N_("bytes of the cache by context"), lm_draw_kv_growth },
    { "memory-growth", N_("weights, cache and scratch by context"), lm_draw_memory_growth },
    { "flops-growth", N_("operations of a token by context"), lm_draw_flops_growth },
    { "roofline", N_("what limits speed on this machine"), lm_draw_roofline },
    { "window", N_("which keys a token sees"), lm_draw_window },
};

enum { N_DIAGRAMS = sizeof diagrams / sizeof *diagrams };

const char *lm_diagram_at(size_t i, const char **summary)
{
    if (i < N_DIAGRAMS && summary)
        *summary = diagrams[i].summary;
    return i < N_DIAGRAMS ? diagrams[i].name : NULL;
}

static lm_status unknown(const char *name, lm_error *e)
{
    lm_buf list = { 0 };

    for (size_t i = 0; i < N_DIAGRAMS; i++)
        lm_buf_printf(&list, "%s%s", i ? ", " : "", diagrams[i].name);
    lm_fail(e, LM_USAGE, "diagram", LM_NO_OFFSET, "there is no \"%s\"; there are %s", name, list.data ? list.data : "");
    lm_buf_free(&list);
    return LM_USAGE;
}

static lm_status draw(lm_facts *f, const char *name, const lm_explain_options *o, lm_text *out, const lm_graph **graph, lm_error *e)
{
    lm_buf     b = { 0 };
    lm_drawing d = { .f = f, .o = o, .out = &b };
    lm_status  status;
    size_t     i = 0;

    while (i < N_DIAGRAMS && strcmp(diagrams[i].name, name) != 0)
        i++;
    if (i == N_DIAGRAMS)
        return unknown(name, e);
    if (o->layer && o->layer >= f->s.program->n_layers)
        return lm_fail(e, LM_USAGE, "layer", LM_NO_OFFSET, "there is no layer %u; the model has %u", o->layer, f->s.program->n_layers);
    d.svg     = d.o->form == LM_FORM_SVG;
    d.alone   = d.svg;
    d.mermaid = !d.svg && d.o->form != LM_FORM_TEXT;
    d.name    = _(diagrams[i].summary);
    diagrams[i].draw(&d);
    status = lm_facts_check(f, e);
    if (status == LM_OK && d.missing)
        status = lm_fail(e, LM_NOT_FOUND, name, LM_NO_OFFSET, "%s", d.missing);
    else if (status == LM_OK && b.failed)
        status = lm_fail_memory(e, name, 0);
    if (status != LM_OK) {
        lm_buf_free(&b);
        return status;
    }
    *out   = (lm_text){ b.data, b.size, b.capacity };
    *graph = d.graph;
    return LM_OK;
}

lm_status lm_diagram(lm_facts *f, const char *name, const lm_explain_options *o, lm_text *out, lm_error *e)
{
    static const lm_explain_options defaults;
    const lm_graph                 *graph;
    lm_language                     before = lm_language_set(o ? o->language : LM_ENGLISH);
    lm_status                       status = draw(f, name, o ? o : &defaults, out, &graph, e);

    lm_language_set(before);
    return status;
}

lm_status lm_diagram_forms(lm_facts *f, const char *name, const lm_explain_options *o, lm_text *text, lm_text *mermaid,
                           const lm_graph **graph, lm_error *e)
{
    lm_explain_options options = *o;

    options.form = LM_FORM_TEXT;
    LM_TRY(draw(f, name, &options, text, graph, e));
    options.form     = LM_FORM_MARKDOWN;
    lm_status status = draw(f, name, &options, mermaid, graph, e);
    if (status != LM_OK)
        lm_text_free(text);
    return status;
}

bool lm_diagram_svg(lm_facts *f, const char *name, const char *title, const lm_explain_options *o, lm_buf *out)
{
    lm_drawing d    = { .f = f, .o = o, .name = title, .svg = true, .out = out };
    size_t     size = out->size, i = 0;

    while (i < N_DIAGRAMS && strcmp(diagrams[i].name, name) != 0)
        i++;
    if (i == N_DIAGRAMS)
        return false;
    diagrams[i].draw(&d);
    if (d.missing && out->data && !out->failed) {
        out->size       = size;
        out->data[size] = '\0';
    }
    return !d.missing && out->size > size;
}

void lm_draw_graph(lm_drawing *d, const lm_graph *g)
{
    d->graph = g;
    if (!g || g->full)
        d->missing = "the graph is too large to be drawn";
    else if (d->svg)
        d->f->failed |= !lm_svg_graph(g, d->name, d->alone, d->out);
    else if (d->mermaid)
        lm_graph_mermaid(g, d->out);
    else
        lm_graph_rails(g, d->o->lines, d->out);
}

/* ---- building ---- */

lm_graph *lm_graph_new(lm_facts *f)
{
    lm_graph *g = lm_arena_new(&f->arena, 1, lm_graph);

    f->failed |= !g;
    if (g) {
        g->f     = f;
        g->group = LM_OUTSIDE;
    }
    return g;
}

static const char *keep(lm_graph *g, const char *format, va_list args)
{
    lm_buf b = { 0 };

    lm_buf_vprintf(&b, format, args);
    const char *text = b.failed ? NULL : lm_arena_strdup(&g->f->arena, b.data ? b.data : "");
    lm_buf_free(&b);
    g->f->failed |= !text;
    return text ? text : "";
}

void lm_graph_open(lm_graph *g, const char *format, ...)
{
    va_list args;

    if (g->n_groups == LM_GRAPH_GROUPS) {
        g->full = true;
        return;
    }
    va_start(args, format);
    g->groups[g->n_groups] = (lm_graph_group){ keep(g, format, args), g->group };
    va_end(args);
    g->group = g->n_groups++;
}

void lm_graph_close(lm_graph *g)
{
    g->group = g->group == LM_OUTSIDE ? LM_OUTSIDE : g->groups[g->group].parent;
}

uint32_t lm_graph_add(lm_graph *g, lm_shape shape, lm_mark mark, const char *format, ...)
{
    va_list args;

    if (g->n_nodes == LM_GRAPH_NODES) {
        g->full = true;
        return 0;
    }
    va_start(args, format);
    g->nodes[g->n_nodes] = (lm_graph_node){ keep(g, format, args), shape, mark, g->group };
    va_end(args);
    return g->n_nodes++;
}

static void add_edge(lm_graph *g, lm_graph_edge edge)
{
    if (g->n_edges == LM_GRAPH_EDGES)
        g->full = true;
    else
        g->edges[g->n_edges++] = edge;
}

void lm_graph_link(lm_graph *g, uint32_t from, uint32_t to, const char *label)
{
    add_edge(g, (lm_graph_edge){ from, to, label, false });
}

void lm_graph_loop(lm_graph *g, uint32_t from, uint32_t to, const char *label)
{
    add_edge(g, (lm_graph_edge){ from, to, label, true });
}

/* ---- Mermaid ---- */

/* In quotes; quotes inside become entities, as Mermaid wants them. */
static void put_label(const char *label, lm_buf *out)
{
    lm_buf_add_char(out, '"');
    for (; *label; label++)
        switch (*label) {
        case '"':
            lm_buf_add_str(out, "#quot;");
            break;
        case '#':
            lm_buf_add_str(out, "#35;");
            break;
        case '<':
            lm_buf_add_str(out, "#lt;");
            break;
        case '>':
            lm_buf_add_str(out, "#gt;");
            break;
        case '\n':
            lm_buf_add_str(out, "<br/>");
            break;
        default:
            lm_buf_add_char(out, *label);
        }
    lm_buf_add_char(out, '"');
}

static void put_node(const lm_graph *g, uint32_t i, unsigned depth, lm_buf *out)
{
    static const char *const brackets[][2] = { [LM_SHAPE_BOX] = { "[", "]" }, [LM_SHAPE_ROUND] = { "([", "])" },
                                               [LM_SHAPE_SLANTED] = { "[/", "/]" }, [LM_SHAPE_CIRCLE] = { "((", "))" },
                                               [LM_SHAPE_STORE] = { "[(", ")]" } };
    static const char *const classes[LM_MARKS] = { "", ":::rope", ":::scores", ":::softmax", ":::gate", ":::sum", ":::finish" };
    const lm_graph_node     *n = &g->nodes[i];

    lm_buf_printf(out, "%*sn%u%s", (int)(2 * depth + 2), "", i, brackets[n->shape][0]);
    put_label(n->label, out);
    lm_buf_printf(out, "%s%s\n", brackets[n->shape][1], classes[n->mark]);
}

static void put_group(const lm_graph *g, uint32_t group, unsigned depth, lm_buf *out)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].group == group)
            put_node(g, i, depth, out);
    for (uint32_t i = 0; i < g->n_groups; i++) {
        if (g->groups[i].parent != group)
            continue;
        lm_buf_printf(out, "%*ssubgraph g%u[", (int)(2 * depth + 2), "", i);
        put_label(g->groups[i].title, out);
        lm_buf_add_str(out, "]\n");
        put_group(g, i, depth + 1, out);
        lm_buf_printf(out, "%*send\n", (int)(2 * depth + 2), "");
    }
}

void lm_graph_mermaid(const lm_graph *g, lm_buf *out)
{
    static const char *const styles[LM_MARKS] = {
        [LM_MARK_ROPE] = "rope fill:#fde8c8,stroke:#b7791f,color:#222", [LM_MARK_SCORES] = "scores fill:#dbeafe,stroke:#2563eb,color:#222",
        [LM_MARK_SOFTMAX] = "softmax fill:#e0e7ff,stroke:#4f46e5,color:#222",
        [LM_MARK_GATE] = "gate fill:#dcfce7,stroke:#15803d,color:#222",
        [LM_MARK_SUM] = "sum fill:#f3f4f6,stroke:#374151,color:#222", [LM_MARK_END] = "finish fill:#fce7f3,stroke:#be185d,color:#222",
    };
    bool used[LM_MARKS] = { false };

    lm_buf_printf(out, "flowchart %s\n", g->right ? "LR" : "TB");
    put_group(g, LM_OUTSIDE, 0, out);
    for (uint32_t i = 0; i < g->n_edges; i++) {
        const lm_graph_edge *e = &g->edges[i];
        lm_buf_printf(out, "  n%u %s", e->from, e->dashed ? "-.->" : "-->");
        if (e->label) {
            lm_buf_add_char(out, '|');
            put_label(e->label, out);
            lm_buf_add_char(out, '|');
        }
        lm_buf_printf(out, " n%u\n", e->to);
    }
    for (uint32_t i = 0; i < g->n_nodes; i++)
        used[g->nodes[i].mark] = true;
    for (int m = 1; m < LM_MARKS; m++)
        if (used[m])
            lm_buf_printf(out, "  classDef %s\n", styles[m]);
}
