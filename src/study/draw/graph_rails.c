/* graph_rails.c - graphs as text: one line per node, a rail for every open edge.
 *
 *   o      x
 *   +-+
 *   | o    norm
 *   | o    product
 *   +-'
 *   o      sum
 *
 * The rail that continues straight below a node is the edge that stays open longest if that is a skip (it
 * ends in a sum), so that the stream is the left line; otherwise the edge that ends first. */
#include <string.h>

#include "study/draw/graph.h"

enum { MAX_RAILS = 24 };

typedef struct rails {
    const lm_graph *g;
    const char *const *glyphs;
    uint32_t        to[MAX_RAILS];           /* the node that each rail leads to; LM_OUTSIDE: free */
    unsigned        n;
    lm_text         *out;
    bool            full;
} rails;

enum { VERTICAL, HORIZONTAL, FORK, JOIN, LAST_FORK, LAST_JOIN, MORE_FORK, MORE_JOIN, CROSS, DOT, RING };

static const char *const boxes[] = { "│", "─", "├", "├", "┐", "┘", "┬", "┴", "┼", "●", "⊕" };
static const char *const ascii[] = { "|", "-", "+", "+", ".", "'", ".", "'", "|", "o", "+" };

static void end_line(rails *r)
{
    while (r->out->size && r->out->data[r->out->size - 1] == ' ')
        r->out->data[--r->out->size] = '\0';
    lm_text_add_char(r->out, '\n');
}

static unsigned last_rail(const rails *r)
{
    unsigned n = r->n;

    while (n > 0 && r->to[n - 1] == LM_OUTSIDE)
        n--;
    return n;
}

/* Write a line on which rails from the marked columns leave `column` or join it. */
static void bend(rails *r, unsigned column, const bool *marked, bool fork)
{
    unsigned last = column, n = last_rail(r);

    for (unsigned i = 0; i < r->n; i++)
        last = marked[i] && i > last ? i : last;
    if (last == column)
        return;
    for (unsigned i = 0; i < n || i <= last; i++) {
        bool        inside = i > column && i < last, open = r->to[i] != LM_OUTSIDE;
        const char *piece  = i == column ? r->glyphs[fork ? FORK : JOIN]
                             : i == last ? r->glyphs[fork ? LAST_FORK : LAST_JOIN]
                             : marked[i] ? r->glyphs[fork ? MORE_FORK : MORE_JOIN]
                             : inside    ? r->glyphs[open ? CROSS : HORIZONTAL]
                                         : open ? r->glyphs[VERTICAL] : " ";
        lm_text_add_str(r->out, piece);
        lm_text_add_str(r->out, i >= column && i < last ? r->glyphs[HORIZONTAL] : " ");
    }
    end_line(r);
}

static unsigned free_rail(rails *r, unsigned after)
{
    for (unsigned i = after; i < MAX_RAILS; i++)
        if (r->to[i] == LM_OUTSIDE) {
            r->n = i + 1 > r->n ? i + 1 : r->n;
            return i;
        }
    r->full = true;
    return 0;
}

/* Join the rails that lead to a node into the leftmost one. */
static unsigned arrive(rails *r, uint32_t node)
{
    bool     marked[MAX_RAILS] = { false };
    unsigned column = MAX_RAILS;

    for (unsigned i = 0; i < r->n; i++) {
        if (r->to[i] != node)
            continue;
        if (column == MAX_RAILS)
            column = i;
        else
            marked[i] = true;
    }
    if (column == MAX_RAILS)
        return free_rail(r, 0);
    for (unsigned i = column + 1; i < r->n; i++)
        if (marked[i])
            r->to[i] = LM_OUTSIDE;
    bend(r, column, marked, false);
    return column;
}

static void put_line(rails *r, uint32_t node, unsigned column)
{
    const lm_graph_node *n    = &r->g->nodes[node];
    unsigned             last = last_rail(r);

    for (unsigned i = 0; i < last || i <= column; i++)
        lm_text_printf(r->out, "%s ", i == column ? r->glyphs[n->shape == LM_SHAPE_CIRCLE ? RING : DOT]
                                     : r->to[i] != LM_OUTSIDE ? r->glyphs[VERTICAL] : " ");
    lm_text_add_str(r->out, "  ");
    for (const char *p = n->label, *gap = "  "; *p; p++)
        if (*p == '\n') {
            lm_text_add_str(r->out, gap);     /* the name, then the description */
            gap = ", ";
        } else {
            lm_text_add_char(r->out, *p);
        }
    end_line(r);
}

static void depart(rails *r, uint32_t node, unsigned column)
{
    uint32_t targets[MAX_RAILS], n = 0, straight = 0;
    bool     marked[MAX_RAILS] = { false };

    for (uint32_t i = 0; i < r->g->n_edges && n < MAX_RAILS; i++)
        if (r->g->edges[i].from == node && !r->g->edges[i].dashed)
            targets[n++] = r->g->edges[i].to;
    r->to[column] = LM_OUTSIDE;
    if (!n)
        return;
    for (uint32_t i = 1; i < n; i++) {
        bool skip = r->g->nodes[targets[i]].shape == LM_SHAPE_CIRCLE && targets[i] > targets[straight];
        bool held = r->g->nodes[targets[straight]].shape == LM_SHAPE_CIRCLE;
        if (skip || (!held && targets[i] < targets[straight]))
            straight = i;
    }
    r->to[column] = targets[straight];
    for (uint32_t i = 0; i < n; i++) {
        if (i == straight)
            continue;
        unsigned rail = free_rail(r, column + 1);
        r->to[rail]   = targets[i];
        marked[rail]  = true;
    }
    bend(r, column, marked, true);
}

static void put_group_title(rails *r, uint32_t group)
{
    if (group == LM_OUTSIDE)
        return;
    for (unsigned i = 0; i < last_rail(r); i++)
        lm_text_printf(r->out, "%s ", r->to[i] != LM_OUTSIDE ? r->glyphs[VERTICAL] : " ");
    lm_text_printf(r->out, "    [%s]", r->g->groups[group].title);
    end_line(r);
}

/* Write the titles of the groups that begin with this node. */
static void put_titles(rails *r, uint32_t node)
{
    uint32_t group = r->g->nodes[node].group, before = node ? r->g->nodes[node - 1].group : LM_OUTSIDE,
             chain[LM_GRAPH_GROUPS], n = 0;

    for (; group != LM_OUTSIDE; group = r->g->groups[group].parent) {
        bool inside = false;
        for (uint32_t up = before; up != LM_OUTSIDE; up = r->g->groups[up].parent)
            inside |= up == group;
        if (inside)
            break;
        chain[n++] = group;
    }
    while (n > 0)
        put_group_title(r, chain[--n]);
}

void lm_graph_rails(const lm_graph *g, bool lines, lm_text *out)
{
    rails  r     = { .g = g, .glyphs = lines ? boxes : ascii, .out = out };
    size_t start = out->size;

    memset(r.to, 0xFF, sizeof r.to);
    for (uint32_t i = 0; i < g->n_nodes && !r.full; i++) {
        unsigned column = arrive(&r, i);
        put_titles(&r, i);
        put_line(&r, i, column);
        depart(&r, i, column);
    }
    if (r.full && out->data) {
        out->size = start;
        lm_text_printf(out, "%s\n", _("(too many edges for a text drawing; use Mermaid or SVG)"));
    }
    if (g->caption)
        lm_text_printf(out, "%s\n", g->caption);
}
