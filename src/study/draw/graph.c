/* graph.c - build graphs, and write them as Mermaid source. */
#include "study/draw/graph.h"

#include <stdarg.h>

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
    lm_text b = { 0 };

    lm_text_vprintf(&b, format, args);
    const char *text = b.failed ? NULL : lm_arena_strdup(&g->f->arena, b.data ? b.data : "");
    lm_text_free(&b);
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

uint32_t lm_graph_add(lm_graph *g, lm_graph_shape shape, lm_graph_mark mark, const char *format, ...)
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

/* Append a label in quotes; quotes inside become entities, as Mermaid requires. */
static void put_label(const char *label, lm_text *out)
{
    lm_text_add_char(out, '"');
    for (; *label; label++)
        switch (*label) {
        case '"':
            lm_text_add_str(out, "#quot;");
            break;
        case '#':
            lm_text_add_str(out, "#35;");
            break;
        case '<':
            lm_text_add_str(out, "#lt;");
            break;
        case '>':
            lm_text_add_str(out, "#gt;");
            break;
        case '\n':
            lm_text_add_str(out, "<br/>");
            break;
        default:
            lm_text_add_char(out, *label);
        }
    lm_text_add_char(out, '"');
}

static void put_node(const lm_graph *g, uint32_t i, unsigned depth, lm_text *out)
{
    static const char *const brackets[][2] = { [LM_SHAPE_BOX] = { "[", "]" },
                                               [LM_SHAPE_ROUND] = { "([", "])" },
                                               [LM_SHAPE_SLANTED] = { "[/", "/]" },
                                               [LM_SHAPE_CIRCLE] = { "((", "))" },
                                               [LM_SHAPE_STORE] = { "[(", ")]" } };
    static const char *const classes[LM_MARKS] = { "",        ":::rope", ":::scores", ":::softmax",
                                                   ":::gate", ":::sum",  ":::finish" };
    const lm_graph_node     *n = &g->nodes[i];

    lm_text_printf(out, "%*sn%u%s", (int)(2 * depth + 2), "", i, brackets[n->shape][0]);
    put_label(n->label, out);
    lm_text_printf(out, "%s%s\n", brackets[n->shape][1], classes[n->mark]);
}

static void put_group(const lm_graph *g, uint32_t group, unsigned depth, lm_text *out)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].group == group)
            put_node(g, i, depth, out);
    for (uint32_t i = 0; i < g->n_groups; i++) {
        if (g->groups[i].parent != group)
            continue;
        lm_text_printf(out, "%*ssubgraph g%u[", (int)(2 * depth + 2), "", i);
        put_label(g->groups[i].title, out);
        lm_text_add_str(out, "]\n");
        put_group(g, i, depth + 1, out);
        lm_text_printf(out, "%*send\n", (int)(2 * depth + 2), "");
    }
}

void lm_graph_mermaid(const lm_graph *g, lm_text *out)
{
    static const char *const styles[LM_MARKS] = {
        [LM_MARK_ROPE] = "rope fill:#fde8c8,stroke:#b7791f,color:#222",
        [LM_MARK_SCORES] = "scores fill:#dbeafe,stroke:#2563eb,color:#222",
        [LM_MARK_SOFTMAX] = "softmax fill:#e0e7ff,stroke:#4f46e5,color:#222",
        [LM_MARK_GATE] = "gate fill:#dcfce7,stroke:#15803d,color:#222",
        [LM_MARK_SUM] = "sum fill:#f3f4f6,stroke:#374151,color:#222",
        [LM_MARK_END] = "finish fill:#fce7f3,stroke:#be185d,color:#222",
    };
    bool used[LM_MARKS] = { false };

    lm_text_printf(out, "flowchart %s\n", g->right ? "LR" : "TB");
    put_group(g, LM_OUTSIDE, 0, out);
    for (uint32_t i = 0; i < g->n_edges; i++) {
        const lm_graph_edge *e = &g->edges[i];
        lm_text_printf(out, "  n%u %s", e->from, e->dashed ? "-.->" : "-->");
        if (e->label) {
            lm_text_add_char(out, '|');
            put_label(e->label, out);
            lm_text_add_char(out, '|');
        }
        lm_text_printf(out, " n%u\n", e->to);
    }
    for (uint32_t i = 0; i < g->n_nodes; i++)
        used[g->nodes[i].mark] = true;
    for (int m = 1; m < LM_MARKS; m++)
        if (used[m])
            lm_text_printf(out, "  classDef %s\n", styles[m]);
}
