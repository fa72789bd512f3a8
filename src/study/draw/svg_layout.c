/* svg_layout.c - the first half of the layered layout of Sugiyama, Tagawa and Toda (svg_layout.h): the spots
 * and links of each level, and the layer of each spot.
 *
 * Layers are assigned by the longest path from the top (find_ranks). A link over several layers gets a bend
 * in each of them, so that svg_place.c sees links between adjacent layers only. Groups are laid out inside
 * out: a group is one spot of its level once its inside is placed. Memory is the layout's arena. One
 * thread. */
#include "study/draw/svg_layout.h"

#include <string.h>

enum { NOWHERE = UINT32_MAX, BEND_WIDTH = 14, LABEL_HEIGHT = 20 };

/* ---- spots ---- */

static void *grown(lm_layout *l, void *old, uint32_t n, uint32_t *room, size_t size)
{
    uint32_t more = *room ? *room * 2 : 32;
    void    *new  = lm_arena_array(l->a, more, size);

    if (!new) {
        l->failed = true;
        return NULL;
    }
    if (n)
        memcpy(new, old, n * size);
    *room = more;
    return new;
}

static uint32_t add_spot(lm_layout *l, lm_level *v, lm_spot spot)
{
    if (v->n_spots == v->room_spots) {
        lm_spot *more = grown(l, v->spots, v->n_spots, &v->room_spots, sizeof *more);
        if (!more)
            return 0;
        v->spots = more;
    }
    v->spots[v->n_spots] = spot;
    return v->n_spots++;
}

static void add_link(lm_layout *l, lm_level *v, lm_svg_edge link)
{
    if (v->n_links == v->room_links) {
        lm_svg_edge *more = grown(l, v->links, v->n_links, &v->room_links, sizeof *more);
        if (!more)
            return;
        v->links = more;
    }
    v->links[v->n_links++] = link;
}

static uint32_t parent_of(const lm_graph *g, uint32_t group)
{
    return group == LM_OUTSIDE ? LM_OUTSIDE : g->groups[group].parent;
}

/* Return the spot that represents a node at a level: the node itself, or the group that contains it. */
static uint32_t spot_of(const lm_layout *l, const lm_level *v, uint32_t node)
{
    uint32_t group = l->g->nodes[node].group, inner = LM_OUTSIDE;

    while (group != v->group) {
        if (group == LM_OUTSIDE)
            return NOWHERE;
        inner = group;
        group = parent_of(l->g, group);
    }
    for (uint32_t i = 0; i < v->n_spots; i++)
        if (inner == LM_OUTSIDE ? v->spots[i].kind == LM_SPOT_NODE && v->spots[i].ref == node
                                : v->spots[i].kind == LM_SPOT_GROUP && v->spots[i].ref == inner)
            return i;
    return NOWHERE;
}

static uint32_t port(lm_layout *l, lm_level *v, lm_spot_kind kind, uint32_t source)
{
    for (uint32_t i = 0; i < v->n_spots; i++)
        if (v->spots[i].kind == kind && v->spots[i].ref == source)
            return i;
    return add_spot(l, v, (lm_spot){ .kind = kind, .ref = source, .w = BEND_WIDTH });
}

/* Return where an edge of `source` meets a spot: in the middle, or at a port of a group. */
static double meets(const lm_layout *l, const lm_spot *c, lm_spot_kind kind, uint32_t source)
{
    if (c->kind != LM_SPOT_GROUP)
        return 0;
    const lm_level *inner = &l->levels[c->ref];
    for (uint32_t i = 0; i < inner->n_spots; i++)
        if (inner->spots[i].kind == kind && inner->spots[i].ref == source)
            return inner->spots[i].x - inner->w / 2;
    return 0;
}

static void collect_spots(lm_layout *l, lm_level *v)
{
    const lm_graph *g = l->g;

    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].group == v->group)
            add_spot(l, v, (lm_spot){ .kind = LM_SPOT_NODE, .ref = i, .w = l->node_w[i], .h = l->node_h[i] });
    for (uint32_t i = 0; i < g->n_groups; i++)
        if (g->groups[i].parent == v->group && l->levels[i].n_spots)
            add_spot(l, v,
                     (lm_spot){ .kind = LM_SPOT_GROUP, .ref = i, .w = l->levels[i].w, .h = l->levels[i].h });
}

static bool same_link(const lm_svg_edge *a, const lm_svg_edge *b)
{
    return a->from == b->from && a->to == b->to && a->source == b->source && a->kind == b->kind;
}

static void collect_links(lm_layout *l, lm_level *v)
{
    const lm_graph *g = l->g;

    for (uint32_t i = 0; i < g->n_edges && !l->failed; i++) {
        const lm_graph_edge *e    = &g->edges[i];
        uint32_t             from = spot_of(l, v, e->from), to = spot_of(l, v, e->to);
        bool                 back = e->dashed && e->to <= e->from, known = false;
        if (from == to || (back && (from == NOWHERE || to == NOWHERE)))
            continue;                        /* deeper, elsewhere, or both ends outside */
        if (from == NOWHERE)
            from = port(l, v, LM_SPOT_ENTRY, e->from);
        if (to == NOWHERE)
            to = port(l, v, LM_SPOT_EXIT, e->from);
        if (l->failed)
            return;
        lm_svg_edge link = { .kind = back ? LM_LINK_BACK : LM_LINK_DOWN,
                             .from = from,
                             .to = to,
                             .source = e->from,
                             .arrow = v->spots[to].kind == LM_SPOT_NODE || back,
                             .dashed = e->dashed };
        link.label  = link.arrow ? e->label : NULL;
        link.from_x = meets(l, &v->spots[from], LM_SPOT_EXIT, e->from);
        link.to_x   = meets(l, &v->spots[to], LM_SPOT_ENTRY, e->from);
        for (uint32_t k = 0; k < v->n_links; k++)
            known |= same_link(&v->links[k], &link);
        if (!known)
            add_link(l, v, link);
    }
}

/* ---- layers ---- */

static bool is_sum(const lm_layout *l, const lm_spot *c)
{
    return c->kind == LM_SPOT_NODE && l->g->nodes[c->ref].shape == LM_SHAPE_CIRCLE;
}

static bool reaches(const lm_level *v, uint32_t from, uint32_t to, uint32_t without, bool *seen)
{
    if (from == to)
        return true;
    if (seen[from])
        return false;
    seen[from] = true;
    for (uint32_t i = 0; i < v->n_links; i++)
        if (i != without && v->links[i].kind != LM_LINK_BACK && v->links[i].from == from &&
            reaches(v, v->links[i].to, to, without, seen))
            return true;
    return false;
}

static void find_skips(lm_layout *l, lm_level *v)
{
    bool *seen = lm_arena_new(l->a, v->n_spots + 1, bool);

    l->failed |= !seen;
    for (uint32_t i = 0; i < v->n_links && seen; i++) {
        lm_svg_edge *k = &v->links[i];
        if (k->kind != LM_LINK_DOWN || k->label || !is_sum(l, &v->spots[k->to]) ||
            v->spots[k->from].kind != LM_SPOT_NODE)
            continue;
        memset(seen, 0, v->n_spots * sizeof *seen);
        if (reaches(v, k->from, k->to, i, seen))
            k->kind = LM_LINK_SKIP;
    }
}

static bool long_label(const lm_svg_edge *k)
{
    return k->label && strlen(k->label) > 3;
}

/* A label takes up a layer; all links from the same node then get the same length, so that their targets stay
 * side by side. */
static uint32_t length_of(const lm_level *v, const lm_svg_edge *k)
{
    for (uint32_t i = 0; i < v->n_links; i++)
        if (v->links[i].from == k->from && v->links[i].kind == LM_LINK_DOWN && long_label(&v->links[i]))
            return 2;
    return 1;
}

/* Assign layers: the longest path from the top; then spots without incoming links move down to their
 * successors. */
static void find_ranks(lm_level *v)
{
    bool entries = false, moved = true;

    for (uint32_t i = 0; i < v->n_spots; i++)
        entries |= v->spots[i].kind == LM_SPOT_ENTRY;
    for (uint32_t i = 0; i < v->n_spots; i++)
        v->spots[i].rank = entries && v->spots[i].kind != LM_SPOT_ENTRY;
    for (uint32_t round = 0; moved && round <= 2 * v->n_spots; round++) {
        moved = false;
        for (uint32_t i = 0; i < v->n_links; i++) {
            const lm_svg_edge *k = &v->links[i];
            uint32_t       at = v->spots[k->from].rank + length_of(v, k);
            if (k->kind != LM_LINK_BACK && v->spots[k->to].rank < at) {
                v->spots[k->to].rank = at;
                moved                = true;
            }
        }
    }
    v->n_ranks = 0;
    for (uint32_t i = 0; i < v->n_spots; i++)
        v->n_ranks = v->spots[i].rank + 1 > v->n_ranks ? v->spots[i].rank + 1 : v->n_ranks;
    for (uint32_t i = v->n_spots; i-- > 0;) {
        uint32_t min = UINT32_MAX;
        bool     led   = v->spots[i].kind == LM_SPOT_ENTRY;
        for (uint32_t k = 0; k < v->n_links; k++) {
            if (v->links[k].kind == LM_LINK_BACK)
                continue;
            led |= v->links[k].to == i;
            if (v->links[k].from == i && v->spots[v->links[k].to].rank - length_of(v, &v->links[k]) < min)
                min = v->spots[v->links[k].to].rank - length_of(v, &v->links[k]);
        }
        if (!led && min != UINT32_MAX)
            v->spots[i].rank = min;
    }
}

static void sink_exits(lm_level *v)
{
    bool any = false;

    for (uint32_t i = 0; i < v->n_spots; i++)
        any |= v->spots[i].kind == LM_SPOT_EXIT;
    if (!any)
        return;
    uint32_t last = 0;
    for (uint32_t i = 0; i < v->n_spots; i++)
        if (v->spots[i].kind != LM_SPOT_EXIT && v->spots[i].rank + 1 > last)
            last = v->spots[i].rank + 1;
    for (uint32_t i = 0; i < v->n_spots; i++)
        if (v->spots[i].kind == LM_SPOT_EXIT)
            v->spots[i].rank = last;
    v->n_ranks = last + 1;
}

/* No other spot may be in the layer of either end of a skip edge, because the rail would cross it; such edges
 * become normal links. */
static void demote_skips(lm_level *v)
{
    for (uint32_t i = 0; i < v->n_links; i++) {
        lm_svg_edge *k = &v->links[i];
        if (k->kind != LM_LINK_SKIP)
            continue;
        for (uint32_t c = 0; c < v->n_spots; c++)
            if ((v->spots[c].rank == v->spots[k->from].rank && c != k->from) ||
                (v->spots[c].rank == v->spots[k->to].rank && c != k->to))
                k->kind = LM_LINK_DOWN;
    }
}

/* Replace a link over several layers by a chain of bends, so that it has its own path. */
static void bend_links(lm_layout *l, lm_level *v)
{
    uint32_t n = v->n_links;

    for (uint32_t i = 0; i < n && !l->failed; i++) {
        lm_svg_edge k = v->links[i];
        uint32_t first = v->spots[k.from].rank, last = v->spots[k.to].rank;
        if (k.kind != LM_LINK_DOWN || last <= first + 1)
            continue;
        uint32_t before = k.from;
        double   from_x = k.from_x;
        for (uint32_t rank = first + 1; rank < last; rank++) {
            lm_spot bend = { .kind = LM_SPOT_BEND, .ref = k.source, .rank = rank, .w = BEND_WIDTH };
            if (rank == first + 1 && long_label(&k)) {
                bend.label = k.label;
                bend.w     = lm_svg_width(k.label, LM_SVG_SMALL, false) + 12;
                bend.h     = LABEL_HEIGHT;
            }
            uint32_t spot = add_spot(l, v, bend);
            lm_svg_edge part = { .kind = LM_LINK_DOWN,
                                 .from = before,
                                 .to = spot,
                                 .source = k.source,
                                 .from_x = from_x,
                                 .dashed = k.dashed };
            if (rank == first + 1)
                v->links[i] = part;
            else
                add_link(l, v, part);
            before = spot;
            from_x = 0;
        }
        k.from   = before;
        k.from_x = 0;
        k.label  = long_label(&k) ? NULL : k.label;
        add_link(l, v, k);
    }
}

static void lay_out_level(lm_layout *l, uint32_t index)
{
    lm_level *v = &l->levels[index];

    v->group = index == l->g->n_groups ? LM_OUTSIDE : index;
    collect_spots(l, v);
    if (!v->n_spots)
        return;
    collect_links(l, v);
    find_skips(l, v);
    find_ranks(v);
    sink_exits(v);
    demote_skips(v);
    bend_links(l, v);
    if (l->failed)
        return;
    lm_order_spots(l, v);
    lm_place_spots(l, v);
}

void lm_lay_out(lm_layout *l)
{
    l->levels = lm_arena_new(l->a, l->g->n_groups + 1, lm_level);
    l->failed |= !l->levels;
    /* children before parents: a group is after its parent */
    for (uint32_t i = l->g->n_groups; i-- > 0 && !l->failed;)
        lay_out_level(l, i);
    if (!l->failed)
        lay_out_level(l, l->g->n_groups);
    if (l->failed)
        return;
    /* the whole graph is at 0, 0; a group is after its parent */
    for (uint32_t i = 0; i < l->g->n_groups; i++) {
        uint32_t  up     = l->g->groups[i].parent;
        lm_level *parent = &l->levels[up == LM_OUTSIDE ? l->g->n_groups : up];
        for (uint32_t c = 0; c < parent->n_spots; c++)
            if (parent->spots[c].kind == LM_SPOT_GROUP && parent->spots[c].ref == i) {
                l->levels[i].x = parent->x + parent->spots[c].x - parent->spots[c].w / 2;
                l->levels[i].y = parent->y + parent->spots[c].y;
            }
    }
}
