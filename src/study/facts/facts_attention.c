/* facts_attention.c - heads, scores, reach, rotary frequencies, MLP widths. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/fact.h"
#include "study/facts/ledger.h"
#include "study/facts/traits.h"
#include "base/alloc.h"

/* ---- attention ---- */

static void add_heads(lm_fact *g, const lm_attention_spec *s)
{
    lm_add_count(g, "heads", s->n_heads, LM_UNIT_HEADS, LM_FROM_PROGRAM, "query heads");
    lm_add_count(g, "kv_heads", s->n_kv_heads, LM_UNIT_HEADS, LM_FROM_PROGRAM, "heads of keys and values");
    lm_add_count(g, "group", s->n_heads / s->n_kv_heads, LM_UNIT_NONE, LM_FROM_PROGRAM,
                 "query heads that share a key/value head");
    lm_add_count(g, "head_dim", s->k_dim, LM_UNIT_LANES, LM_FROM_PROGRAM,
                 "dimensions of a query or key head");
    lm_add_count(g, "value_dim", s->v_dim, LM_UNIT_LANES, LM_FROM_PROGRAM, "dimensions of a value head");
    lm_add_count(g, "kv_dim", (uint64_t)s->n_kv_heads * s->k_dim, LM_UNIT_LANES, LM_FROM_PROGRAM,
                 "kv_heads × head_dim");
    lm_add_number(g, "scale", lm_decimal(s->scale), LM_UNIT_NONE, LM_FROM_PROGRAM, "factor of q·k");
    double square = 1 / ((double)s->scale * (double)s->scale), whole = nearbyint(square);
    if (fabs(square - whole) < 1e-4 * whole)
        lm_add_count(g, "scale_sqrt_of", (uint64_t)whole, LM_UNIT_LANES, LM_FROM_PROGRAM,
                     "scale = 1/√ of this");
    if (s->softcap > 0)
        lm_add_number(g, "softcap", lm_decimal(s->softcap), LM_UNIT_NONE, LM_FROM_PROGRAM, NULL);
    lm_add_bool(g, "sinks", s->sinks, LM_FROM_PROGRAM,
                "a learned score for each head takes part in the softmax");
}

static void add_window(lm_fact *g, uint32_t window, bool chunked, bool everywhere)
{
    if (window && chunked)
        lm_add_count(g, "window", window, LM_UNIT_TOKENS, LM_FROM_PROGRAM,
                     everywhere ? "keys of a chunk: those up to the query's own are visible"
                                : "keys of a chunk in windowed_layers: those up to the query's own are visible");
    else if (window)
        lm_add_count(g, "window", window, LM_UNIT_TOKENS, LM_FROM_PROGRAM,
                     everywhere ? "keys visible, the query's own included"
                                : "keys visible in windowed_layers; in full_layers all are");
    else
        lm_add_none(g, "window", "every earlier position is visible");
}

static void fill_attention_layer(lm_facts *f, lm_fact *g)
{
    const lm_node *n = &f->s.program->nodes[g->impl.argument];

    lm_add_count(g, "layer", (uint64_t)(n->layer < 0 ? 0 : n->layer), LM_UNIT_NONE, LM_FROM_PROGRAM, NULL);
    add_heads(g, &n->attention.spec);
    add_window(g, lm_acting_window(f->s.program, n->attention.spec.window), n->attention.spec.chunked, true);
}

static void fill_attention_layers(lm_facts *f, lm_fact *list)
{
    const lm_program *p = f->s.program;

    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_ATTENTION)
            lm_add_group(list, NULL, fill_attention_layer, i);
}

/* ALiBi slopes: 2^(-8h/H) for powers of two (arXiv 2108.12409), as the engine computes them. */
static void fill_slopes(lm_facts *f, lm_fact *list)
{
    const lm_attention_spec *s = &f->s.program->nodes[list->impl.argument].attention.spec;
    float                   *slopes = lm_arena_new(&f->arena, s->n_heads, float);

    f->failed |= !slopes;
    if (slopes)
        lm_alibi_slopes(s, slopes);
    for (uint32_t h = 0; slopes && h < s->n_heads; h++)
        lm_add_number(list, NULL, lm_decimal(slopes[h]), LM_UNIT_NONE, LM_FROM_PROGRAM,
                      "score lost for each token of distance");
}

/* Return the rank of the query compression: the width of the norm between its two products; 0: there is only
 * one product. */
static uint32_t query_rank(lm_facts *f)
{
    const lm_program *p = f->s.program;

    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_LINEAR && (f->ledger->roles[i] & LM_PRODUCT_QUERY)) {
            const lm_node *m = &p->nodes[p->values[p->nodes[i].in[0]].producer];
            if (m->code == LM_OP_RMS_NORM &&
                f->ledger->block[p->values[m->out].producer] == f->ledger->block[i])
                return p->values[m->out].width;
        }
    return 0;
}

static void add_latent(lm_facts *f, lm_fact *outer, const lm_traits *t)
{
    lm_fact *g = lm_add_group(outer, "latent", NULL, 0);

    lm_add_count(g, "kv_rank", t->kv_rank, LM_UNIT_LANES, LM_FROM_PROGRAM,
                 "dimensions of the latent that keys and values are made of");
    lm_add_count(g, "q_rank", query_rank(f), LM_UNIT_LANES, LM_FROM_PROGRAM,
                 "of the queries' latent; 0: they have none");
    lm_add_count(g, "heads", t->attention->attention.spec.n_heads, LM_UNIT_HEADS, LM_FROM_PROGRAM,
                 "of queries, and of keys and values made of the latent");
    lm_add_count(g, "nope_dim", t->nope_dim, LM_UNIT_LANES, LM_FROM_PROGRAM,
                 t->rotary ? "dimensions of a head that are not rotated"
                           : "dimensions of a head without those of the shared key");
    lm_add_count(g, "rope_dim", t->rope_dim, LM_UNIT_LANES, LM_FROM_PROGRAM,
                 t->rotary ? "rotated dimensions, whose key all heads share"
                           : "dimensions of the key that all heads share");
    lm_add_count(g, "qk_dim", t->nope_dim + t->rope_dim, LM_UNIT_LANES, LM_FROM_PROGRAM,
                 "of a query or key head");
    lm_add_count(g, "v_dim", t->v_dim, LM_UNIT_LANES, LM_FROM_PROGRAM, "of a value head");
    lm_add_count(g, "cached", t->kv_rank + t->rope_dim, LM_UNIT_ELEMENTS, LM_FROM_PROGRAM,
                 "of a token in a layer: latent and shared key");
    lm_add_bool(g, "absorbed", t->absorbed, LM_FROM_PROGRAM,
                "the cache holds latents; else keys and values of every head");
}

/* ---- sparse attention ---- */

/* What the choice of keys costs a token with `keys` visible keys, and attention with and without it, in the
 * layers that see chosen keys only. */
typedef struct sparse_costs {
    lm_wide choosing, attending, attending_all, bytes, bytes_all;
} sparse_costs;

/* Return the bytes of what a choice is of: keys, or entries. */
static lm_wide entry_bytes(const lm_facts *f, const lm_node *n)
{
    bool     beside = n->code == LM_OP_ATTENTION && lm_node_rate(n);
    uint32_t cache  = beside ? n->attention.entries : n->attention.cache;

    return lm_cache_bytes(&f->s.program->caches[cache], f->s.cache);
}

static sparse_costs count_sparse(const lm_facts *f, uint64_t keys)
{
    const lm_program *p = f->s.program;
    sparse_costs      s = { 0 };
    lm_cost           c;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n     = &p->nodes[i];
        uint64_t reach = lm_node_reach(n), seen = lm_node_rate(n)         ? lm_node_keys_at(n, keys)
                                                  : reach && reach < keys ? reach
                                                                          : keys;
        lm_node_cost(p, n, &c);
        lm_wide scores = 2 * (lm_wide)c.key_mult_adds * seen;
        if (n->code == LM_OP_SELECT_KEYS || lm_only_chooses(p, n->out, false))
            s.choosing += 2 * (lm_wide)c.mult_adds + scores;
        if (n->code != LM_OP_ATTENTION && n->code != LM_OP_SELECT_KEYS)
            continue;
        lm_wide bytes = lm_cache_bytes(&p->caches[n->attention.cache], f->s.cache);
        if (n->code == LM_OP_ATTENTION && !n->attention.spec.top_k)
            continue;
        uint64_t window = n->code == LM_OP_ATTENTION && lm_node_rate(n)
                              ? lm_keys_at(keys, n->attention.spec.window, false)
                              : 0,
                 all = lm_node_rate(n) ? window + keys / lm_node_rate(n) : keys;
        s.bytes += bytes * window + entry_bytes(f, n) * (seen - window);
        if (n->code != LM_OP_ATTENTION)
            continue;
        s.attending += scores;
        s.attending_all += 2 * (lm_wide)c.key_mult_adds * all;
        s.bytes_all += bytes * window + entry_bytes(f, n) * (all - window);
    }
    return s;
}

static void fill_sparse_at(lm_facts *f, lm_fact *g)
{
    const sparse_costs s = count_sparse(f, g->index);

    lm_add_wide(g, "choosing", s.choosing, LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                "of one token: products of the indexer, and its scores of this many keys");
    lm_add_wide(g, "attending", s.attending, LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                "of one token: q·k and p·v of the keys that are chosen");
    lm_add_wide(g, "attending_all", s.attending_all, LM_UNIT_FLOPS, LM_FROM_WHAT_IF,
                "if it attended to all of them");
    lm_add_wide(g, "bytes", s.bytes, LM_UNIT_BYTES, LM_FROM_PROGRAM,
                "of the cache that a token reads: keys of the indexer, and what is chosen");
    lm_add_wide(g, "bytes_all", s.bytes_all, LM_UNIT_BYTES, LM_FROM_WHAT_IF,
                "if it attended to all keys, without an indexer");
}

static void add_indexer(lm_fact *outer, const lm_traits *t)
{
    lm_fact                 *g = lm_add_group(outer, "indexer", NULL, 0);
    const lm_attention_spec *s = &t->indexer->attention.spec;

    lm_add_count(g, "heads", s->n_heads, LM_UNIT_HEADS, LM_FROM_PROGRAM,
                 "that score the keys; one key for all of them");
    lm_add_count(g, "head_dim", s->k_dim, LM_UNIT_LANES, LM_FROM_PROGRAM, "dimensions of such a head");
    lm_add_count(g, "top_k", s->top_k, LM_UNIT_TOKENS, LM_FROM_PROGRAM, "keys that a token attends to");
    if (s->block) {
        lm_add_count(g, "block", s->block, LM_UNIT_TOKENS, LM_FROM_PROGRAM,
                     "keys of a block, which are chosen together by their highest score");
        lm_add_count(g, "blocks", lm_choice_width(s), LM_UNIT_NONE, LM_FROM_PROGRAM,
                     "that each head of the indexer chooses, for an equal part of the heads");
        lm_add_count(g, "local_blocks", s->local, LM_UNIT_NONE, LM_FROM_PROGRAM,
                     "of them, the last ones, which are always chosen");
    }
    lm_add_count(g, "layers", t->n_indexers, LM_UNIT_LAYERS, LM_FROM_PROGRAM, "that choose keys");
    lm_add_count(g, "sharing_layers", t->n_sparse - t->n_indexers, LM_UNIT_LAYERS, LM_FROM_PROGRAM,
                 "that attend to the keys which an earlier layer has chosen");
    if (t->n_sparse < t->n_attentions)
        lm_add_count(g, "full_layers", t->n_attentions - t->n_sparse, LM_UNIT_LAYERS, LM_FROM_PROGRAM,
                     "that attend to all keys; the costs below are those of the others");
    lm_add_table(g, "at", fill_sparse_at, 0);
}

void lm_fill_attention(lm_facts *f, lm_fact *g)
{
    const lm_program *p = f->s.program;
    lm_traits         t;
    char              word[64];
    uint64_t          reach = 0, together = 0;

    lm_find_traits(f->ledger, &t);
    lm_add_text(g, "type", lm_attention_name(&t, word, sizeof word), LM_FROM_PROGRAM,
                "heads of queries, heads of the cache, windows");
    lm_add_word(g, "sharing", lm_sharing_word(t.sharing), LM_FROM_PROGRAM,
                "how query heads share keys and values");
    lm_add_count(g, "windowed_layers", t.n_windows, LM_UNIT_LAYERS, LM_FROM_PROGRAM, NULL);
    lm_add_count(g, "full_layers", t.n_attentions - t.n_windows, LM_UNIT_LAYERS, LM_FROM_PROGRAM, NULL);
    if (!t.attention)
        return;
    lm_attention_spec first = t.attention->attention.spec;
    first.sinks             = t.sinks;
    add_heads(g, &first);
    add_window(g, t.window, t.chunked, t.n_windows == t.n_attentions);
    if (t.chunked)
        lm_add_bool(g, "chunked", true, LM_FROM_PROGRAM, "a window is a chunk: it begins at a multiple of its width");
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        uint32_t window = p->nodes[i].code == LM_OP_ATTENTION
                              ? lm_acting_window(p, p->nodes[i].attention.spec.window)
                              : 0;
        together += window;
        reach = t.chunked ? t.window - 1 : reach + (window ? window - 1 : 0);
    }
    if (t.n_windows && !t.chunked)
        lm_add_count(g, "windows_together", together, LM_UNIT_TOKENS, LM_FROM_PROGRAM,
                     "W x L, as papers give the reach");
    if (t.n_windows && t.n_windows == t.n_attentions)
        lm_add_count(g, "reach", reach + 1, LM_UNIT_TOKENS, LM_FROM_PROGRAM,
                     t.chunked ? "tokens that can have an effect, its own included: those of a chunk"
                               : "tokens that can have an effect, its own included: each layer adds its window "
                                 "less one");
    else
        lm_add_none(g, "reach", "some layer sees every position");
    if (t.latent)
        add_latent(f, g, &t);
    if (t.indexer)
        add_indexer(g, &t);
    if (t.alibi)
        lm_add_list(g, "alibi_slopes", fill_slopes, (uint64_t)(t.attention - p->nodes));
    lm_hide_fact(lm_add_list(g, "layers", fill_attention_layers, 0));
}

/* ---- rotary embedding ---- */

/* The frequency lists of a table: as the base defines them, and as the engine applies them. */
enum { AS_DEFINED, AS_RUN };

typedef struct unpack_job {
    const lm_container   *tensors;
    const lm_tensor_info *t;
    float                *x;
} unpack_job;

static lm_status unpack(void *arg)
{
    const unpack_job *j = arg;

    lm_container_unpack(j->tensors, j->t, 0, j->t->elements, j->x);
    return LM_OK;
}

/* Return the values of a weight; NULL if there are none or the file is truncated. */
static const float *stored_floats(lm_facts *f, uint32_t weight)
{
    const lm_weight *w = weight == LM_NONE ? NULL : &f->s.program->weights[weight];

    if (!w || !f->s.tensors || !w->gguf)
        return NULL;
    const lm_tensor_info *t = lm_container_find(f->s.tensors, w->gguf);
    float *x = t && t->elements == w->elements ? lm_arena_new(&f->arena, w->elements, float) : NULL;
    return x && lm_filemap_guard(unpack, &(unpack_job){ f->s.tensors, t, x }, NULL, NULL) == LM_OK ? x : NULL;
}

static void fill_theta(lm_facts *f, lm_fact *list)
{
    const lm_rope_table *t    = &f->s.program->ropes[list->impl.argument / 2];
    lm_rope_spec         spec = t->spec;
    const float         *divisors = NULL, *factors = NULL;
    float               *inv = lm_arena_new(&f->arena, spec.dim / 2, float);

    f->failed |= !inv;
    if (!inv)
        return;
    if (list->impl.argument % 2 == AS_DEFINED) {
        spec.type = LM_ROPE_DEFAULT;
    } else {
        divisors = stored_floats(f, t->divisors);
        factors = stored_floats(f, lm_rope_is_long(&spec, (uint32_t)f->s.context) ? t->long_factors
                                                                                  : t->short_factors);
        if ((t->divisors != LM_NONE && !divisors) || (spec.stored_factors && !factors))
            return;                  /* the factors are in a file that is not here */
    }
    lm_rope_frequencies(&spec, (uint32_t)f->s.context, divisors, factors, inv);
    for (uint32_t i = 0; i < spec.dim / 2; i++)
        lm_add_number(list, NULL, lm_decimal(inv[i]), LM_UNIT_RADIANS, LM_FROM_PROGRAM,
                      "angle of dimension pair i at position 1");
}

/* Return whether `v`, an input of attention, is rotated: search back to the product that makes it. */
static bool is_rotated(const lm_program *p, lm_value v, uint32_t table)
{
    const lm_node *n = &p->nodes[p->values[v].producer];

    if (n->code == LM_OP_LINEAR || n->code == LM_OP_ATTENTION || n->n_in == 0)
        return false;
    if (n->code == LM_OP_ROPE && n->rope.table == table)
        return true;
    for (uint32_t k = 0; k < n->n_in; k++)
        if (is_rotated(p, n->in[k], table))
            return true;
    return false;
}

/* List the attention inputs that are rotated: "Q", "K", "V". */
static void add_applied(lm_facts *f, lm_fact *g, uint32_t table)
{
    static const char *const words[3] = { "Q", "K", "V" };
    const lm_program        *p = f->s.program;
    bool                     rotated[3] = { false };
    lm_fact                 *list = lm_add_list(g, "applied_to", NULL, 0);

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        for (uint32_t k = 0; k < 3 && n->code == LM_OP_ATTENTION; k++)
            if (k < 2 || !n->attention.spec.v_in_k)
                rotated[k] |= is_rotated(p, n->in[k], table);
    }
    for (uint32_t k = 0; k < 3; k++)
        if (rotated[k])
            lm_add_text(list, NULL, words[k], LM_FROM_PROGRAM,
                        "inputs of the scores that a rotation precedes");
}

static const lm_node *rotation(const lm_program *p, uint64_t table)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_ROPE && p->nodes[i].rope.table == table)
            return &p->nodes[i];
    return NULL;
}

/* Return where the rotation happens: search back for a product and forward for attention. */
static const char *placement(const lm_program *p, const lm_node *n)
{
    const lm_node *m = &p->nodes[p->values[n->in[0]].producer];

    while (m->code != LM_OP_LINEAR && m->n_in)
        m = &p->nodes[p->values[m->in[0]].producer];
    if (m->code != LM_OP_LINEAR || m->layer != n->layer)
        return N_("on the embedding");
    for (const lm_node *x = n + 1; x < p->nodes + p->n_nodes && x->layer == n->layer; x++)
        if (x->code == LM_OP_ATTENTION)
            return N_("after the projections of Q and K, before the scores");
    return N_("after the scores");
}

static void fill_table(lm_facts *f, lm_fact *g)
{
    const lm_rope_spec *s = &f->s.program->ropes[g->impl.argument].spec;
    const lm_node      *n = rotation(f->s.program, g->impl.argument);
    uint64_t            t = g->impl.argument;

    lm_add_number(g, "base", s->base, LM_UNIT_NONE, LM_FROM_CONFIG, "rope_theta");
    lm_add_count(g, "dim", s->dim, LM_UNIT_LANES, LM_FROM_PROGRAM, "dimensions rotated of each head");
    lm_add_count(g, "head_dim", n ? n->rope.head_dim : s->dim, LM_UNIT_LANES, LM_FROM_PROGRAM, NULL);
    lm_add_count(g, "pairs", s->dim / 2, LM_UNIT_NONE, LM_FROM_PROGRAM, "two dimensions turn together");
    lm_add_text(g, "pairing", s->pairing == LM_ROPE_PAIR ? N_("2i with 2i + 1") : N_("i with i + dim/2"),
                LM_FROM_PROGRAM, NULL);
    lm_add_word(g, "scaling", lm_scaling_word(s), LM_FROM_CONFIG, "rope_scaling");
    bool longer = s->type != LM_ROPE_DEFAULT && s->type != LM_ROPE_PROPORTIONAL;
    if (longer || s->factor != 1)
        lm_add_number(g, "factor", s->factor, LM_UNIT_NONE, LM_FROM_CONFIG, "rope_scaling");
    if (s->original_context && longer)
        lm_add_count(g, "original_context", s->original_context, LM_UNIT_TOKENS, LM_FROM_CONFIG,
                     "positions trained before scaling");
    if (s->type == LM_ROPE_PROPORTIONAL)
        lm_add_number(g, "share", s->share, LM_UNIT_NONE, LM_FROM_CONFIG,
                      "partial_rotary_factor: pairs of a head that rotate");
    if (s->type == LM_ROPE_LLAMA3) {
        lm_add_number(g, "low_freq_factor", s->low_freq_factor, LM_UNIT_NONE, LM_FROM_CONFIG, "rope_scaling");
        lm_add_number(g, "high_freq_factor", s->high_freq_factor, LM_UNIT_NONE, LM_FROM_CONFIG,
                      "rope_scaling");
    }
    if (s->type == LM_ROPE_YARN) {
        lm_add_number(g, "beta_fast", s->beta_fast, LM_UNIT_NONE, LM_FROM_CONFIG, "rope_scaling");
        lm_add_number(g, "beta_slow", s->beta_slow, LM_UNIT_NONE, LM_FROM_CONFIG, "rope_scaling");
    }
    add_applied(f, g, (uint32_t)t);
    if (n && f->s.program->values[n->in[0]].producer < (uint32_t)(n - f->s.program->nodes))
        lm_add_text(g, "placement", placement(f->s.program, n), LM_FROM_PROGRAM,
                    "operations before and after the rotation");
    lm_add_count(g, "parameters", 0, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM,
                 "a rotation reads no trained weight");
    lm_add_list(g, "theta", fill_theta, 2 * t + AS_DEFINED);
    lm_add_list(g, "theta_scaled", fill_theta, 2 * t + AS_RUN);
}

static void fill_tables(lm_facts *f, lm_fact *list)
{
    for (uint32_t i = 0; i < f->s.program->n_ropes; i++)
        lm_add_group(list, NULL, fill_table, i);
}

/* Add the table of the layers without a window, which descriptions call rope_theta; if there are several
 * tables, list them all. */
void lm_fill_rope(lm_facts *f, lm_fact *g)
{
    lm_add_count(g, "n_tables", f->s.program->n_ropes, LM_UNIT_NONE, LM_FROM_PROGRAM,
                 "different rotary tables");
    if (!f->s.program->n_ropes)
        return;
    g->impl.argument = lm_main_rope(f->s.program);
    fill_table(f, g);
    if (f->s.program->n_ropes > 1)
        lm_add_list(g, "tables", fill_tables, 0);
}

/* ---- MLP ---- */

static void add_experts(lm_fact *g, const lm_traits *t)
{
    const lm_route_spec *r = t->route ? &t->route->route.spec : NULL;

    lm_add_count(g, "experts", t->experts->experts.n_experts, LM_UNIT_EXPERTS, LM_FROM_PROGRAM,
                 "routed, in a layer");
    lm_add_count(g, "experts_per_token", t->experts->experts.top_k, LM_UNIT_EXPERTS, LM_FROM_PROGRAM,
                 "visited by each token");
    lm_add_count(g, "expert_width", t->experts->experts.width, LM_UNIT_LANES, LM_FROM_PROGRAM, NULL);
    if (t->shared_width)
        lm_add_count(g, "shared_width", t->shared_width, LM_UNIT_LANES, LM_FROM_PROGRAM,
                     "what every token visits beside the experts");
    if (!r)
        return;
    lm_add_text(g, "router", r->one_by_one ? "sparsemixer" : lm_route_function(r), LM_FROM_PROGRAM, NULL);
    lm_add_bool(g, "router_renormalises", r->renormalise, LM_FROM_PROGRAM,
                "the chosen weights are divided by their sum");
    lm_add_number(g, "router_scale", lm_decimal(r->scale), LM_UNIT_NONE, LM_FROM_PROGRAM, "of the weights");
    if (r->n_groups > 1) {
        lm_add_count(g, "router_groups", r->n_groups, LM_UNIT_NONE, LM_FROM_PROGRAM, NULL);
        lm_add_count(g, "router_open_groups", r->top_groups, LM_UNIT_NONE, LM_FROM_PROGRAM, NULL);
    }
}

void lm_fill_mlp(lm_facts *f, lm_fact *g)
{
    lm_traits t;
    char      word[64];

    lm_find_traits(f->ledger, &t);
    lm_add_text(g, "type", lm_mlp_name(&t, word, sizeof word), LM_FROM_PROGRAM, NULL);
    lm_add_word(g, "activation", lm_activation_word(&t), LM_FROM_PROGRAM, NULL);
    lm_add_bool(g, "gated", t.glu != NULL, LM_FROM_PROGRAM, "two products are multiplied");
    lm_add_count(g, "matrices",
                 t.glu       ? 3
                 : t.has_act ? 2
                             : 0,
                 LM_UNIT_NONE, LM_FROM_PROGRAM, "of one MLP or expert");
    if (t.intermediate) {
        lm_add_count(g, "intermediate", t.intermediate, LM_UNIT_LANES, LM_FROM_PROGRAM,
                     "width of the first dense MLP");
        lm_add_number(g, "expansion", (double)t.intermediate / t.hidden, LM_UNIT_RATIO, LM_FROM_PROGRAM,
                      "intermediate / hidden");
    }
    if (t.experts)
        add_experts(g, &t);
}
