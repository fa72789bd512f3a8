/* svg_graph.c - draw a graph that has been laid out. */
#include "study/draw/svg_graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/draw/svg_layout.h"

enum { RADIUS = 11, LINES = 10, WRAP = 250, LINE = 17 };

/* ---- labels: the first line is the name, the others describe it ---- */

typedef struct label { const char *lines[LINES]; unsigned n; double w; } label;

/* Add a line, broken at spaces so that it is no wider than WRAP if possible. */
static void add_line(lm_arena *a, label *out, const char *text, size_t n, bool first)
{
    double size = first ? LM_SVG_NAME : LM_SVG_SMALL;

    while (n && out->n < LINES) {
        size_t cut = n, space = 0;
        double comma = 0;
        char  *line = lm_arena_strndup(a, text, n);
        if (!line)
            return;
        for (size_t i = 1; i < n && !first && out->n + 1 < LINES; i++) {
            if (text[i] != ' ')
                continue;
            line[i]     = '\0';
            double wide = lm_svg_width(line, size, first);
            line[i]     = ' ';
            if (wide > WRAP)
                break;
            /* after a comma, unless that leaves half a line empty */
            if (strchr(",:;", text[i - 1]) || !space || wide - comma > WRAP / 2.0) {
                space = i;
                comma = strchr(",:;", text[i - 1]) ? wide : comma;
            }
        }
        if (space && lm_svg_width(line, size, first) > WRAP)
            cut = space;
        line[cut] = '\0';
        double w = lm_svg_width(line, size, first);
        out->w   = w > out->w ? w : out->w;
        out->lines[out->n++] = line;
        first = false;
        text += cut;
        n -= cut;
        while (n && *text == ' ') {
            text++;
            n--;
        }
    }
}

static void split(lm_arena *a, const char *text, label *out)
{
    *out = (label){ 0 };
    while (*text) {
        size_t n = strcspn(text, "\n");
        add_line(a, out, text, n, !out->n);
        text += n + (text[n] == '\n');
    }
}

/* Return the text next to a sum's circle; the sign goes inside: "+ residual". */
static const char *beside(const char *text, bool *plus)
{
    *plus = text[0] == '+';
    text += *plus;
    while (*text == ' ' || *text == '\n')
        text++;
    return text;
}

static void measure(lm_layout *l, label *labels)
{
    bool plus;

    for (uint32_t i = 0; i < l->g->n_nodes; i++) {
        const lm_graph_node *n = &l->g->nodes[i];
        if (n->shape == LM_SHAPE_CIRCLE) {
            split(l->a, beside(n->label, &plus), &labels[i]);
            double w     = labels[i].n ? labels[i].w + 8 : 0;
            l->node_w[i] = 2 * (RADIUS + w);
            l->node_h[i] = fmax(2 * RADIUS, LINE * labels[i].n);
            continue;
        }
        split(l->a, n->label, &labels[i]);
        double slant = n->shape == LM_SHAPE_SLANTED ? 24 : n->shape == LM_SHAPE_ROUND ? 12 : 0;
        l->node_w[i] = fmax(labels[i].w + 24 + slant, 44);
        l->node_h[i] = LINE * labels[i].n + 14 + (n->shape == LM_SHAPE_STORE ? 14 : 0);
    }
}

/* ---- shapes ---- */

static const char *const marks[LM_MARKS] = { "", " rope", " scores", " softmax", " gate", " sum", " end" };

static void put_slanted(lm_text *out, lm_box b, const char *mark)
{
    lm_text_printf(out, "<path class=\"n%s\" d=\"M%.1f %.1fH%.1fL%.1f %.1fH%.1fZ\"/>", mark, b.x + 10, b.y,
                   b.x + b.w, b.x + b.w - 10, b.y + b.h, b.x);
}

static void put_store(lm_text *out, lm_box b, const char *mark)
{
    double r = b.w / 2, lid = 7;

    lm_text_printf(
        out, "<path class=\"n%s\" d=\"M%.1f %.1fa%.1f %.1f 0 0 1 %.1f 0v%.1fa%.1f %.1f 0 0 1 %.1f 0z\"/>",
        mark, b.x, b.y + lid, r, lid, b.w, b.h - 2 * lid, r, lid, -b.w);
    lm_text_printf(out, "<path class=\"n open%s\" d=\"M%.1f %.1fa%.1f %.1f 0 0 0 %.1f 0\"/>", mark, b.x,
                   b.y + lid, r, lid, b.w);
}

static void put_sum(lm_text *out, lm_box b, const label *text, bool plus)
{
    double x = b.x + b.w / 2, y = b.y + b.h / 2;

    lm_text_printf(out, "<circle class=\"n sum\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"/>", x, y, RADIUS);
    if (plus) {
        lm_svg_line(out, (lm_point){ x - 5, y }, (lm_point){ x + 5, y }, "sign");
        lm_svg_line(out, (lm_point){ x, y - 5 }, (lm_point){ x, y + 5 }, "sign");
    } else {
        lm_svg_text(out, x, y + 4.5, LM_ANCHOR_MIDDLE, "b", "Σ");
    }
    for (unsigned i = 0; i < text->n; i++)
        lm_svg_text(out, x - RADIUS - 7, y + 4 + LINE * (i - (text->n - 1) / 2.0), LM_ANCHOR_END, "s",
                    text->lines[i]);
}

static void put_node(const lm_layout *l, uint32_t i, lm_box b, const label *text, lm_text *out)
{
    const lm_graph_node *n    = &l->g->nodes[i];
    const char          *mark = marks[n->mark];
    double y = b.y + b.h / 2 - LINE * text->n / 2.0 + 13 + (n->shape == LM_SHAPE_STORE ? 5 : 0);
    bool                 plus;
    char                 classes[24];

    lm_text_add_str(out, "<g class=\"node\">");
    switch (n->shape) {
    case LM_SHAPE_CIRCLE:
        beside(n->label, &plus);
        put_sum(out, b, text, plus);
        lm_text_add_str(out, "</g>\n");
        return;
    case LM_SHAPE_SLANTED:
        put_slanted(out, b, mark);
        break;
    case LM_SHAPE_STORE:
        put_store(out, b, mark);
        break;
    case LM_SHAPE_ROUND:
    case LM_SHAPE_BOX:
        snprintf(classes, sizeof classes, "n%s", mark);
        lm_svg_rect(out, b, n->shape == LM_SHAPE_ROUND ? fmin(b.h / 2, 18) : 5, classes);
        break;
    }
    for (unsigned k = 0; k < text->n; k++)
        lm_svg_text(out, b.x + b.w / 2, y + LINE * k, LM_ANCHOR_MIDDLE, k ? "s" : "b", text->lines[k]);
    lm_text_add_str(out, "</g>\n");
}

/* ---- edges ---- */

static void put_point(lm_text *out, char command, lm_point p)
{
    if (command)
        lm_text_add_char(out, command);
    else
        lm_text_add_char(out, ' ');
    lm_svg_number(out, p.x);
    lm_text_add_char(out, ' ');
    lm_svg_number(out, p.y);
}

static void put_arrow(lm_text *out, lm_point tip, double dx, double dy)
{
    lm_text_add_str(out, "<path class=\"head\" d=\"");
    put_point(out, 'M', tip);
    put_point(out, 'L', (lm_point){ tip.x - 7 * dx + 3.5 * dy, tip.y - 7 * dy + 3.5 * dx });
    put_point(out, 'L', (lm_point){ tip.x - 7 * dx - 3.5 * dy, tip.y - 7 * dy - 3.5 * dx });
    lm_text_add_str(out, "Z\"/>");
}

/* Return where a link ends among the arrows at the top of a node, so that they are side by side. */
static double spread(const lm_level *v, const lm_svg_edge *k)
{
    const lm_spot *to = &v->spots[k->to];
    double         mine = v->spots[k->from].x + k->from_x, before = 0, n = 0;

    if (to->kind != LM_SPOT_NODE)
        return k->to_x;
    for (uint32_t i = 0; i < v->n_links; i++) {
        const lm_svg_edge *o = &v->links[i];
        if (o->kind != LM_LINK_DOWN || o->to != k->to)
            continue;
        double x = v->spots[o->from].x + o->from_x;
        before += x < mine || (!(x > mine) && o < k);
        n++;
    }
    double room = fmin(30, (to->w - 20) / fmax(n, 1));
    return n > 1 ? (before - (n - 1) / 2) * room : 0;
}

static bool in_circle(const lm_layout *l, const lm_spot *c)
{
    return c->kind == LM_SPOT_NODE && l->g->nodes[c->ref].shape == LM_SHAPE_CIRCLE;
}

static void put_down(const lm_layout *l, const lm_level *v, const lm_svg_edge *k, lm_text *out)
{
    const lm_spot *a = &v->spots[k->from], *b = &v->spots[k->to];
    double         shift = in_circle(l, b) ? fmax(-7, fmin(7, spread(v, k))) : spread(v, k);
    lm_point from = { v->x + a->x + k->from_x, v->y + a->y + a->h },
             to = { v->x + b->x + shift, v->y + b->y };
    double leave = v->y + v->top[a->rank] + v->height[a->rank], reach = v->y + v->top[b->rank], tip = to.y;

    if (a->kind == LM_SPOT_BEND && !a->label)
        from.y = v->y + v->top[a->rank];         /* straight through its layer */
    if (a->kind == LM_SPOT_ENTRY)
        from.y = v->y;                           /* from the border of the group */
    if (b->kind == LM_SPOT_EXIT)
        tip = to.y = v->y + v->h;
    if (b->kind == LM_SPOT_BEND)
        tip = to.y = v->y + (b->label ? b->y : v->top[b->rank]);
    if (in_circle(l, b)) {
        double middle = b->y + b->h / 2;
        tip = to.y = v->y + middle - sqrt(RADIUS * RADIUS - shift * shift);
    }
    if (k->arrow)
        to.y -= 6;
    lm_text_printf(out, "<path class=\"edge%s\" d=\"", k->dashed ? " dashed" : "");
    put_point(out, 'M', from);
    if (fabs(from.x - to.x) >= 0.5) {
        double end = fmin(reach, to.y), half = (leave + end) / 2;
        put_point(out, 'L', (lm_point){ from.x, leave });
        put_point(out, 'C', (lm_point){ from.x, half });
        put_point(out, 0, (lm_point){ to.x, half });
        put_point(out, 0, (lm_point){ to.x, end });
    }
    put_point(out, 'L', to);
    lm_text_add_str(out, "\"/>");
    if (k->arrow)
        put_arrow(out, (lm_point){ to.x, tip }, 0, 1);
    bool left = from.x > to.x;
    if (k->label)
        lm_svg_text(out, to.x + (left ? -5 : 5), tip - 10, left ? LM_ANCHOR_END : LM_ANCHOR_START,
                    "s edge-label", k->label);
}

/* Draw an edge to the rail, along it, and back from it, with rounded corners. */
static void put_rail(const lm_layout *l, const lm_level *v, const lm_svg_edge *k, lm_text *out)
{
    const lm_spot *a = &v->spots[k->from], *b = &v->spots[k->to];
    double         side = k->kind == LM_LINK_SKIP ? 1 : -1, x = v->x + k->rail;
    double         half_a = in_circle(l, a) ? RADIUS : a->w / 2, half_b = in_circle(l, b) ? RADIUS : b->w / 2;
    double         slant_a = a->kind == LM_SPOT_NODE && l->g->nodes[a->ref].shape == LM_SHAPE_SLANTED ? 5 : 0;
    double         slant_b = b->kind == LM_SPOT_NODE && l->g->nodes[b->ref].shape == LM_SHAPE_SLANTED ? 5 : 0;
    lm_point       from = { v->x + a->x + side * (half_a - slant_a), v->y + a->y + a->h / 2 };
    lm_point       to   = { v->x + b->x + side * (half_b - slant_b), v->y + b->y + b->h / 2 };
    double         turn = from.y < to.y ? 8 : -8;

    lm_text_printf(out, "<path class=\"edge %s\" d=\"", k->kind == LM_LINK_SKIP ? "skip" : "dashed");
    put_point(out, 'M', from);
    put_point(out, 'L', (lm_point){ x - side * 8, from.y });
    put_point(out, 'Q', (lm_point){ x, from.y });
    put_point(out, 0, (lm_point){ x, from.y + turn });
    put_point(out, 'L', (lm_point){ x, to.y - turn });
    put_point(out, 'Q', (lm_point){ x, to.y });
    put_point(out, 0, (lm_point){ x - side * 8, to.y });
    put_point(out, 'L', (lm_point){ to.x + side * 6, to.y });
    lm_text_add_str(out, "\"/>");
    put_arrow(out, to, -side, 0);
    if (k->label) {
        lm_text_printf(out, "<text class=\"s m edge-label\" transform=\"translate(%.1f %.1f) rotate(-90)\">",
                       x + side * 7, (from.y + to.y) / 2);
        lm_markup_text(out, k->label);
        lm_text_add_str(out, "</text>");
    }
}

static void put_level(const lm_layout *l, const lm_level *v, const label *labels, lm_text *out)
{
    for (uint32_t i = 0; i < v->n_links; i++)
        (v->links[i].kind == LM_LINK_DOWN ? put_down : put_rail)(l, v, &v->links[i], out);
    lm_text_add_char(out, '\n');
    for (uint32_t i = 0; i < v->n_spots; i++) {
        const lm_spot *c = &v->spots[i];
        lm_box         b = { v->x + c->x - c->w / 2, v->y + c->y, c->w, c->h };
        if (c->kind == LM_SPOT_NODE)
            put_node(l, c->ref, b, &labels[c->ref], out);
        else if (c->kind == LM_SPOT_BEND && c->label)
            lm_svg_text(out, b.x + b.w / 2, b.y + 14, LM_ANCHOR_MIDDLE, "s edge-label", c->label);
    }
}

static void put_groups(const lm_layout *l, lm_text *out)
{
    for (uint32_t i = 0; i < l->g->n_groups; i++) {
        const lm_level *v = &l->levels[i];
        if (!v->n_spots)
            continue;
        lm_svg_rect(out, (lm_box){ v->x, v->y, v->w, v->h }, 8, "group");
        lm_svg_text(out, v->x + v->title_x, v->y + 16, v->title_anchor, "s title", l->g->groups[i].title);
        lm_text_add_char(out, '\n');
    }
}

bool lm_svg_graph(const lm_graph *g, const char *name, bool alone, lm_text *out)
{
    lm_arena  a = { 0 };
    lm_layout l = { .g = g, .a = &a };
    label    *labels = lm_arena_new(&a, g->n_nodes + 1, label);

    l.node_w = lm_arena_new(&a, g->n_nodes + 1, double);
    l.node_h = lm_arena_new(&a, g->n_nodes + 1, double);
    l.failed = !l.node_w || !l.node_h || !labels;
    if (!l.failed) {
        measure(&l, labels);
        lm_lay_out(&l);
    }
    if (!l.failed) {
        const lm_level *whole = &l.levels[g->n_groups];
        lm_svg_open(out, whole->w, whole->h, name, alone);
        put_groups(&l, out);
        for (uint32_t i = 0; i <= g->n_groups; i++)
            put_level(&l, &l.levels[i], labels, out);
        lm_svg_close(out, alone);
    }
    lm_arena_free(&a);
    return !l.failed;
}
