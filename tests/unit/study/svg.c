/* Drawings: nothing overlaps, nothing leaves its group, markup is escaped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/facts/fact.h"
#include "study/draw/svg_graph.h"
#include "study/draw/svg_layout.h"

static lm_facts facts;                       /* only its arena is used */

static uint32_t roll(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

/* Make a graph of nodes in nested groups, forward edges, sums and loops: anything that a program could
 * contain. */
static lm_graph *random_graph(uint32_t seed)
{
    lm_graph *g     = lm_graph_new(&facts);
    uint32_t  n     = 3 + roll(&seed, 30), depth = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (depth < 3 && roll(&seed, 6) == 0) {
            lm_graph_open(g, "group %u with a title of some length", i);
            depth++;
        }
        lm_graph_add(g, (lm_graph_shape)roll(&seed, 5), (lm_graph_mark)roll(&seed, LM_MARKS), "node %u\n%s",
                     i,
                     roll(&seed, 3)
                         ? "3,072 → 8,192"
                         : "a description, long enough that it has to be broken, twice, or even oftener");
        if (depth && roll(&seed, 5) == 0) {
            lm_graph_close(g);
            depth--;
        }
    }
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = 1 + roll(&seed, 3); k > 0; k--)
            lm_graph_link(g, roll(&seed, i), i,
                          roll(&seed, 8)   ? NULL
                          : roll(&seed, 2) ? "q"
                                           : "what it carries");
    if (n > 8)
        lm_graph_loop(g, n - 1, n / 2, "again");
    return g;
}

static bool apart(lm_box a, lm_box b)
{
    return a.x + a.w <= b.x + 0.01 || b.x + b.w <= a.x + 0.01 || a.y + a.h <= b.y + 0.01 ||
           b.y + b.h <= a.y + 0.01;
}

static lm_box box_of(const lm_level *v, const lm_spot *s)
{
    return (lm_box){ v->x + s->x - s->w / 2, v->y + s->y, s->w, s->h };
}

static void lay_out(lm_layout *l, lm_arena *a, const lm_graph *g)
{
    *l        = (lm_layout){ .g = g, .a = a };
    l->node_w = lm_arena_new(a, g->n_nodes, double);
    l->node_h = lm_arena_new(a, g->n_nodes, double);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        l->node_w[i] = 40 + 17 * (i % 9);
        l->node_h[i] = 22 + 11 * (i % 3);
    }
    lm_lay_out(l);
    assert_false(l->failed);
}

/* Lay out 300 random graphs and check every level: that of each group and that of the whole graph. */
static void for_each_level(void (*check)(const lm_level *v))
{
    for (uint32_t seed = 1; seed <= 300; seed++) {
        lm_arena        a = { 0 };
        const lm_graph *g = random_graph(seed);
        lm_layout       l;
        lay_out(&l, &a, g);
        for (uint32_t k = 0; k <= g->n_groups; k++)
            check(&l.levels[k]);
        lm_arena_free(&a);
    }
}

static void spots_are_apart(const lm_level *v)
{
    for (uint32_t i = 0; i < v->n_spots; i++) {
        lm_box box = box_of(v, &v->spots[i]);
        assert_true(isfinite(box.x) && isfinite(box.y));
        assert_true(box.x >= v->x - 0.01 && box.x + box.w <= v->x + v->w + 0.01);
        assert_true(box.y >= v->y - 0.01 && box.y + box.h <= v->y + v->h + 0.01);
        for (uint32_t j = 0; j < i; j++)
            assert_true(apart(box, box_of(v, &v->spots[j])));
    }
}

static void nothing_overlaps(void **state)
{
    (void)state;
    for_each_level(spots_are_apart);
}

static void links_are_clear(const lm_level *v)
{
    for (uint32_t i = 0; i < v->n_links; i++) {
        const lm_svg_edge *link = &v->links[i];
        const lm_spot *from = &v->spots[link->from], *to = &v->spots[link->to];
        if (link->kind == LM_LINK_DOWN) {
            assert_int_equal(from->rank + 1, to->rank);
            assert_true(from->y + from->h <= to->y + 0.01);
            continue;
        }
        uint32_t first = from->rank < to->rank ? from->rank : to->rank, last = from->rank + to->rank - first;
        for (uint32_t s = 0; s < v->n_spots; s++)
            if (v->spots[s].rank >= first && v->spots[s].rank <= last)
                assert_true(fabs(link->rail - v->spots[s].x) > v->spots[s].w / 2);
    }
}

/* Every edge points down, and rails do not touch the boxes that they pass. */
static void edges_lead_down(void **state)
{
    (void)state;
    for_each_level(links_are_clear);
}

/* x -> norm -> block -> +, and x -> +: the second is the skip edge. An edge that does not shortcut a longer
 * path is not one. */
static void skips_are_found(void **state)
{
    lm_graph *g = lm_graph_new(&facts);
    lm_arena  a = { 0 };
    lm_layout l;

    (void)state;
    uint32_t x = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, "x"),
             norm = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, "norm");
    lm_graph_open(g, "block");
    uint32_t left = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, "left"),
             right = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, "right");
    lm_graph_close(g);
    uint32_t sum = lm_graph_add(g, LM_SHAPE_CIRCLE, LM_MARK_SUM, "+");
    lm_graph_link(g, x, norm, NULL);
    lm_graph_link(g, norm, left, NULL);
    lm_graph_link(g, norm, right, NULL);
    lm_graph_link(g, left, sum, NULL);
    lm_graph_link(g, right, sum, NULL);
    lm_graph_link(g, x, sum, NULL);
    lay_out(&l, &a, g);
    const lm_level *whole = &l.levels[g->n_groups];
    uint32_t        skips = 0;
    for (uint32_t i = 0; i < whole->n_links; i++)
        skips += whole->links[i].kind == LM_LINK_SKIP && whole->links[i].source == x;
    assert_int_equal(skips, 1);
    assert_int_equal(whole->n_links, 5);     /* x norm, norm block, block + twice, x + */
    lm_arena_free(&a);
}

static void text_is_escaped(void **state)
{
    lm_text b = { 0 };

    (void)state;
    lm_markup_text(&b, "<script>alert(\"1\" & '2')</script>\x01\xff\xef\xbf\xbe" "é");
    assert_string_equal(b.data, "&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)&lt;/script&gt;"
                                "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" "é");
    lm_text_free(&b);
}

static void text_has_a_width(void **state)
{
    (void)state;
    assert_true(lm_svg_width("iiii", 10, false) < lm_svg_width("MMMM", 10, false));
    assert_true(lm_svg_width("自注意力", 10, false) >= 40);
    assert_true(lm_svg_width("က်", 10, false) >= 7);
    assert_true(lm_svg_width("\xff\xff", 10, false) >= 10);
    assert_true(lm_svg_width("a", 10, true) > lm_svg_width("a", 10, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_overlaps), cmocka_unit_test(edges_lead_down),
        cmocka_unit_test(skips_are_found), cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(text_has_a_width),
    };
    int failed = cmocka_run_group_tests_name("svg", tests, NULL, NULL);

    lm_arena_free(&facts.arena);
    return failed;
}
