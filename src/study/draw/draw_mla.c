/* draw_mla.c - draw latent attention in both of its forms, next to grouped-query attention. */
#include <inttypes.h>

#include "study/draw/draw.h"

/* ---- latent attention and grouped queries ---- */

static void draw_grouped(lm_graph *g, lm_facts *f, uint64_t heads, uint64_t groups, uint64_t lanes,
                         bool rotary)
{
    uint64_t hidden = lm_facts_count(f, "architecture.hidden");

    lm_graph_open(g,
                  P_(groups,
                     "for comparison: %" PRIu64 " query heads on %" PRIu64 " key/value head of %" PRIu64,
                     "for comparison: %" PRIu64 " query heads on %" PRIu64 " key/value heads of %" PRIu64),
                  heads, groups, lanes);
    uint32_t x = lm_graph_add(g, LM_SHAPE_SLANTED, LM_MARK_END, _("input\n[T, %s]"), lm_grouped(f, hidden));
    uint32_t q = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, rotary ? _("queries\n%s → %s, RoPE") : _("queries\n%s → %s"),
                              lm_grouped(f, hidden), lm_grouped(f, heads * lanes));
    uint32_t k = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE,
                              rotary ? _("keys\n%s → %s, RoPE") : _("keys\n%s → %s"), lm_grouped(f, hidden),
                              lm_grouped(f, groups * lanes));
    uint32_t v = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, _("values\n%s → %s"), lm_grouped(f, hidden),
                              lm_grouped(f, groups * lanes));
    uint32_t c = lm_graph_add(g, LM_SHAPE_STORE, LM_MARK_NONE, _("cache\n%s values per token"),
                              lm_grouped(f, 2 * groups * lanes));
    uint32_t a = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_SCORES, _("attention\n%" PRIu64 " heads"), heads);
    uint32_t o = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, _("output\n%s → %s"),
                              lm_grouped(f, heads * lanes), lm_grouped(f, hidden));
    lm_graph_link(g, x, q, NULL);
    lm_graph_link(g, x, k, NULL);
    lm_graph_link(g, x, v, NULL);
    lm_graph_link(g, k, c, NULL);
    lm_graph_link(g, v, c, NULL);
    lm_graph_link(g, q, a, NULL);
    lm_graph_link(g, c, a, NULL);
    lm_graph_link(g, a, o, NULL);
    lm_graph_close(g);
}

typedef struct latent_sizes {
    uint64_t hidden, heads, rank, q_rank, rope, nope, v;
    bool     rotary;
} latent_sizes;

/* Add a matrix: its name in the paper, then what it makes and its sizes. */
static uint32_t add_matrix(lm_graph *g, const char *name, const char *what)
{
    return lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_NONE, "%s\n%s", name, what ? what : "");
}

static uint32_t add_latent_queries(lm_graph *g, lm_facts *f, const latent_sizes *s, uint32_t x)
{
    uint32_t q = x;

    if (s->q_rank) {
        q = add_matrix(g, "W_DQ",
                       lm_arena_printf(&f->arena, _("latent of the queries\n%s → %s"),
                                       lm_grouped(f, s->hidden), lm_grouped(f, s->q_rank)));
        lm_graph_link(g, x, q, NULL);
    }
    uint32_t all = add_matrix(
        g, s->q_rank ? "W_UQ, W_QR" : "W_Q",
        lm_arena_printf(&f->arena,
                        s->rotary ? _("queries\n%s → %" PRIu64 " × (%" PRIu64 " + %" PRIu64 " rotated)")
                                  : _("queries\n%s → %" PRIu64 " × (%" PRIu64 " + %" PRIu64 ")"),
                        lm_grouped(f, s->q_rank ? s->q_rank : s->hidden), s->heads, s->nope, s->rope));
    lm_graph_link(g, q, all, NULL);
    return all;
}

static uint32_t add_latent(lm_graph *g, lm_facts *f, const latent_sizes *s, uint32_t x)
{
    uint32_t down = add_matrix(g, "W_DKV, W_KR",
                               lm_arena_printf(&f->arena,
                                               _("latent and shared key\n%s → %" PRIu64 " + %" PRIu64),
                                               lm_grouped(f, s->hidden), s->rank, s->rope));
    lm_graph_link(g, x, down, NULL);
    return down;
}

static void end_latent(lm_graph *g, lm_facts *f, const latent_sizes *s, uint32_t from)
{
    uint32_t o = add_matrix(g, "W_O",
                            lm_arena_printf(&f->arena, _("output\n%s → %s"), lm_grouped(f, s->heads * s->v),
                                            lm_grouped(f, s->hidden)));

    lm_graph_link(g, from, o, NULL);
    lm_graph_close(g);
}

/* Draw the naive form: keys and values of every head are made from the latent and cached. */
static void draw_naive(lm_graph *g, lm_facts *f, const latent_sizes *s, bool mine)
{
    lm_graph_open(g, mine ? _("naive form (this model as it runs)") : _("naive form"));
    uint32_t x = lm_graph_add(g, LM_SHAPE_SLANTED, LM_MARK_END, _("input\n[T, %s]"),
                              lm_grouped(f, s->hidden));
    uint32_t q = add_latent_queries(g, f, s, x), down = add_latent(g, f, s, x);
    uint32_t k = add_matrix(g, "W_UK",
                            lm_arena_printf(&f->arena,
                                            _("keys of every head\n%" PRIu64 " → %" PRIu64 " × %" PRIu64),
                                            s->rank, s->heads, s->nope));
    uint32_t v = add_matrix(g, "W_UV",
                            lm_arena_printf(&f->arena,
                                            _("values of every head\n%" PRIu64 " → %" PRIu64 " × %" PRIu64),
                                            s->rank, s->heads, s->v));
    lm_graph_link(g, down, k, NULL);
    lm_graph_link(g, down, v, NULL);
    uint32_t c = lm_graph_add(g, LM_SHAPE_STORE, LM_MARK_NONE, _("cache\n%s values per token"),
                              lm_grouped(f, s->heads * (s->nope + s->rope + s->v)));
    lm_graph_link(g, k, c, NULL);
    lm_graph_link(g, v, c, NULL);
    uint32_t a = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_SCORES, _("attention\n%" PRIu64 " heads"), s->heads);
    lm_graph_link(g, q, a, NULL);
    lm_graph_link(g, c, a, NULL);
    end_latent(g, f, s, a);
}

/* Draw the absorbed form: the key and value matrices are applied to the queries and the outputs; the cache
 * holds latents. */
static void draw_absorbed(lm_graph *g, lm_facts *f, const latent_sizes *s, bool mine)
{
    lm_graph_open(g, mine ? _("absorbed form (this model as it runs)") : _("absorbed form"));
    uint32_t x = lm_graph_add(g, LM_SHAPE_SLANTED, LM_MARK_END, _("input\n[T, %s]"),
                              lm_grouped(f, s->hidden));
    uint32_t q = add_latent_queries(g, f, s, x);
    uint32_t absorbed = add_matrix(g, "W_UKᵀ",
                                   lm_arena_printf(&f->arena,
                                                   _("into the latent, head by head\n%" PRIu64 " → %" PRIu64),
                                                   s->nope, s->rank));
    lm_graph_link(g, q, absorbed, NULL);
    uint32_t down = add_latent(g, f, s, x);
    uint32_t c = lm_graph_add(g, LM_SHAPE_STORE, LM_MARK_NONE, _("cache\n%s values per token"),
                              lm_grouped(f, s->rank + s->rope));
    lm_graph_link(g, down, c, NULL);
    uint32_t a = lm_graph_add(g, LM_SHAPE_BOX, LM_MARK_SCORES,
                              _("attention on the latent\n%" PRIu64 " heads"), s->heads);
    lm_graph_link(g, absorbed, a, NULL);
    lm_graph_link(g, c, a, NULL);
    uint32_t up = add_matrix(g, "W_UV",
                             lm_arena_printf(&f->arena,
                                             _("out of the latent, head by head\n%" PRIu64 " → %" PRIu64),
                                             s->rank, s->v));
    lm_graph_link(g, a, up, NULL);
    end_latent(g, f, s, up);
}

void lm_draw_mla(lm_drawing *d)
{
    lm_graph *g = lm_graph_new(d->f);

    if (!g || !lm_facts_has(d->f, "attention.latent")) {
        d->missing = "the model has no latent attention";
        return;
    }
    lm_traits    t;
    lm_facts    *f = d->f;
    lm_find_traits(f->ledger, &t);
    latent_sizes s = { .rotary = t.rotary,
                       .hidden = lm_facts_count(f, "architecture.hidden"),
                       .heads = lm_facts_count(f, "attention.latent.heads"),
                       .rank = lm_facts_count(f, "attention.latent.kv_rank"),
                       .q_rank = lm_facts_count(f, "attention.latent.q_rank"),
                       .rope = lm_facts_count(f, "attention.latent.rope_dim"),
                       .nope = lm_facts_count(f, "attention.latent.nope_dim"),
                       .v = lm_facts_count(f, "attention.latent.v_dim") };
    draw_naive(g, f, &s, !t.absorbed);
    draw_absorbed(g, f, &s, t.absorbed);
    draw_grouped(g, f, s.heads, s.heads % 8 ? 1 : 8, s.nope, s.rotary);
    lm_draw_graph(d, g);
}
