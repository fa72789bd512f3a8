/* derive_costs.c - derivations of cache, memory and precisions. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/derive/topics.h"

/* ---- cache ---- */

static bool one_type(const lm_derivation *d)
{
    return d->f->s.cache.k == d->f->s.cache.v;
}

static void let_type(lm_derivation *d, const char *name, const char *letter, const char *what, lm_dtype type)
{
    const lm_dtype_info *t = lm_dtype_of(type);

    lm_let_number(d, name, letter, lm_derive_text(d, what, t->name), (double)t->bytes / (double)t->block);
}

static void let_cache(lm_derivation *d)
{
    const lm_cache_types types = d->f->s.cache;

    lm_let_sizes(d);
    if (one_type(d)) {
        let_type(d, "value_bytes", "b_v", _("bytes of a cached value (%s)"), types.v);
    } else {
        let_type(d, "key_bytes", "b_k", _("bytes of a number of a cached key (%s)"), types.k);
        let_type(d, "value_bytes", "b_v", _("bytes of a number of a cached value (%s)"), types.v);
    }
    lm_let_fact(d, "tokens", "S", _("positions that are cached"), "kv.context");
    if (d->f->s.batch > 1)
        lm_let_fact(d, "batch", "B", _("sequences at once"), "kv.batch");
}

static void derive_elements(lm_derivation *d)
{
    const char *sum = lm_elements_formula(d, false);

    if (sum)
        lm_derive(d, "elements", _("values cached per token"), LM_UNIT_ELEMENTS, "kv.elements_per_token",
                  sum);
}

/* Return the bytes of a number of an entry, as a formula. */
static const char *entry_bytes(lm_derivation *d, const lm_cache *c)
{
    lm_cache_types types = d->f->s.cache;

    if (lm_cache_key_type(c, types) != types.k)
        return "2";
    return one_type(d) ? "value_bytes" : "key_bytes";
}

/* Return whether entries are stored in another type than keys. */
static bool entries_differ(const lm_derivation *d)
{
    const lm_program *p = d->f->s.program;

    for (uint32_t i = 0; i < p->n_caches; i++)
        if (lm_cache_key_type(&p->caches[i], d->f->s.cache) != d->f->s.cache.k)
            return true;
    return false;
}

/* Return the bytes that a layer stores per position, as a formula. */
static const char *bytes_formula(lm_derivation *d, const lm_cache *c)
{
    if (c->rate)
        return lm_derive_text(d, "%s * %s", lm_cache_formula(d, c), entry_bytes(d, c));
    if (one_type(d))
        return lm_derive_text(d, "%s * value_bytes", lm_cache_formula(d, c));
    if (c->k_dim == c->v_dim)
        return lm_derive_text(d, "%u * %u * (key_bytes + value_bytes)", c->n_kv_heads, c->k_dim);
    return lm_derive_text(d, "%u * (%u * key_bytes + %u * value_bytes)", c->n_kv_heads, c->k_dim, c->v_dim);
}

static void derive_per_token(lm_derivation *d, const char *what)
{
    const lm_program *p = d->f->s.program;
    lm_cache_class    classes[LM_MAX_CLASSES];
    size_t            n   = lm_cache_classes(p, LM_BY_SHAPE, classes);
    lm_text           sum = { 0 };

    for (size_t i = 0; (!one_type(d) || entries_differ(d)) && i < n; i++)
        lm_text_printf(&sum, "%s%s * %s", i ? " + " : "", lm_layers_formula(d, classes[i].n),
                       bytes_formula(d, &p->caches[classes[i].first]));
    lm_derive(d, "bytes_per_token", what, LM_UNIT_BYTES, "kv.bytes_per_token",
              sum.size ? sum.data : "elements * value_bytes");
    lm_text_free(&sum);
}

static void derive_at_context(lm_derivation *d)
{
    const lm_program *p = d->f->s.program;
    lm_cache_class    classes[LM_MAX_CLASSES];
    size_t            n     = lm_cache_classes(p, LM_BY_WINDOW, classes);
    const char       *batch = d->f->s.batch > 1 ? " * batch" : "";
    lm_text            sum   = { 0 };

    if (n == 1 && !lm_acting_window(p, p->caches[0].window)) {
        lm_derivef(d, "at_context", _("at the context asked for"), LM_UNIT_BYTES, "kv.bytes_at_context",
                   "bytes_per_token * tokens%s", batch);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const lm_cache *c = &p->caches[classes[i].first];
        char            window[24] = "";
        if (c->rate) {
            lm_text_printf(&sum, "%s(%s * %u * %s) * floor(tokens / %u)%s", i ? " + " : "",
                           lm_layers_formula(d, classes[i].n), c->k_dim, entry_bytes(d, c), c->rate, batch);
            continue;
        }
        if (c->window)
            snprintf(window, sizeof window, "%u", c->window);
        lm_text_printf(&sum, "%s(%s * %s) * %s%s%s%s", i ? " + " : "", lm_layers_formula(d, classes[i].n),
                       bytes_formula(d, c), c->window ? "min(tokens, " : "tokens", window,
                       c->window ? ")" : "", batch);
    }
    if (n)
        lm_derive(d, "at_context", _("at the context asked for; a window keeps what it sees"), LM_UNIT_BYTES,
                  "kv.bytes_at_context", sum.data);
    lm_text_free(&sum);
}

/* Derive the cost if every query head had its own keys and values. */
static void derive_mha(lm_derivation *d)
{
    lm_cache_class  classes[LM_MAX_CLASSES];
    size_t          n = lm_cache_classes(d->f->s.program, LM_BY_SHAPE, classes);
    lm_traits       t;
    lm_symbol_value q;

    lm_find_traits(d->f->ledger, &t);
    const char *layers = lm_layers_formula(d, d->f->s.program->n_caches - t.n_indexers);

    if (lm_has_symbol(d, "kv_rank")) {
        lm_derivef(d, "mha", _("with the keys and values of every head"), LM_UNIT_ELEMENTS,
                   "kv.mha.elements_per_token", "%s * heads * (nope_dim + rope_dim + v_dim)", layers);
    } else {
        if (!lm_try_formula(d, "heads - kv_heads", &q) || q.n == 0)
            return;
        if (n > 1)
            lm_derive(d, "mha", _("with one key/value head per query head (MHA)"), LM_UNIT_ELEMENTS,
                      "kv.mha.elements_per_token", lm_elements_formula(d, true));
        else
            lm_derivef(d, "mha", _("with one key/value head per query head (MHA)"), LM_UNIT_ELEMENTS,
                       "kv.mha.elements_per_token",
                       lm_has_symbol(d, "value_dim") ? "%s * heads * (head_dim + value_dim)"
                                                     : "2 * %s * heads * head_dim",
                       layers);
    }
    lm_derive(d, "saved", _("saved by sharing, per cent"), LM_UNIT_PERCENT, "kv.mha.saved",
              "100 * (1 - elements / mha)");
}

void lm_derive_kv(lm_derivation *d)
{
    if (!d->f->s.program->n_caches)
        return;
    let_cache(d);
    derive_elements(d);
    derive_per_token(d, _("bytes per token"));
    derive_at_context(d);
    if (!lm_facts_has(d->f, "kv.window") || lm_facts_count(d->f, "attention.full_layers"))
        derive_mha(d);
}

/* Derive the number of rows processed by the model with and without a cache. */
void lm_derive_kv_cache(lm_derivation *d)
{
    if (!d->f->s.program->n_caches)
        return;
    let_cache(d);
    lm_derive(d, "rows_without",
              _("rows computed for this number of tokens without a cache: each token recomputes all "
                "earlier ones"),
              LM_UNIT_NONE, NULL, "tokens * (tokens + 1) / 2");
    lm_derive(d, "rows_with", _("rows computed with a cache: one per token"), LM_UNIT_NONE, NULL, "tokens");
    lm_derive(d, "fewer", _("times fewer"), LM_UNIT_RATIO, NULL, "rows_without / rows_with");
    derive_elements(d);
    derive_per_token(d, _("cost: bytes per token"));
    derive_at_context(d);
}

/* ---- sparse attention ---- */

/* Derive what a token with a full context reads: the keys of the indexers and what they choose, or all. */
static void derive_sparse_bytes(lm_derivation *d, const lm_traits *t, const char *layers,
                                const char *choosers)
{
    const lm_program *p    = d->f->s.program;
    const char       *path = lm_derive_text(d, "attention.indexer.at[%" PRIu64 "]", d->f->s.context);
    const char       *each = bytes_formula(d, &p->caches[t->attention->attention.cache]),
                     *keys = bytes_formula(d, &p->caches[t->indexer->attention.cache]);

    lm_derivef(d, "bytes", _("bytes of the cache that it reads"), LM_UNIT_BYTES,
               lm_derive_text(d, "%s.bytes", path), "%s * %s * tokens + %s * %s * min(tokens, chosen)",
               choosers, keys, layers, each);
    lm_derivef(d, "bytes_all", _("bytes if it read all keys, without an indexer"), LM_UNIT_BYTES,
               lm_derive_text(d, "%s.bytes_all", path), "%s * %s * tokens", layers, each);
    lm_derive(d, "bytes_less", _("times fewer bytes"), LM_UNIT_RATIO, NULL, "bytes_all / bytes");
}

/* Return the width of what an indexer's queries are made of, as a formula. */
static const char *query_rank(lm_derivation *d, const lm_node *indexer)
{
    const lm_program *p = d->f->s.program;
    const lm_node    *n = &p->nodes[p->values[indexer->in[0]].producer];

    while (n->code != LM_OP_LINEAR && n->n_in)
        n = &p->nodes[p->values[n->in[0]].producer];
    return lm_derive_text(d, "%u", p->values[n->in[0]].width);
}

static const lm_node *choosing_attention(const lm_program *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_ATTENTION && p->nodes[i].attention.spec.top_k)
            return &p->nodes[i];
    return NULL;
}

/* Derive the same of attention to a window and entries, of which some are chosen. */
static void derive_chosen_entries(lm_derivation *d, const lm_traits *t)
{
    const lm_program *p    = d->f->s.program;
    const lm_node    *n    = choosing_attention(p);
    const char       *path = lm_derive_text(d, "attention.indexer.at[%" PRIu64 "]", d->f->s.context);
    const char *layers = lm_layers_formula(d, t->n_sparse), *choosers = lm_layers_formula(d, t->n_indexers),
               *per_key = lm_score_formula(d, n), *window = bytes_formula(d, &p->caches[n->attention.cache]);
    const lm_cache *keys = &p->caches[t->indexer->attention.cache],
                   *entries = &p->caches[n->attention.entries];

    lm_let_count(d, "window", "W", _("keys that a token attends to, including its own"),
                 n->attention.spec.window);
    lm_let_count(d, "rate", "R_b", _("positions of a block, which is one entry"), n->attention.spec.rate);
    lm_derive(d, "whole", _("whole blocks"), LM_UNIT_NONE, NULL, "floor(tokens / rate)");
    lm_derivef(d, "products",
               _("products of the indexers for a token: queries, keys and their gates, weights of the heads"),
               LM_UNIT_FLOPS, NULL,
               "%s * 2 * (%s * index_heads * index_dim + hidden * (4 * index_dim + index_heads))", choosers,
               query_rank(d, t->indexer));
    lm_derivef(d, "scores", _("their scores of all entries"), LM_UNIT_FLOPS, NULL,
               "%s * 2 * index_heads * (index_dim + 1) * whole", choosers);
    lm_derive(d, "choosing", _("choosing the entries, together"), LM_UNIT_FLOPS,
              lm_derive_text(d, "%s.choosing", path), "products + scores");
    lm_derivef(d, "attending", _("attention to the window and the chosen entries"), LM_UNIT_FLOPS,
               lm_derive_text(d, "%s.attending", path), "%s * (%s) * (min(tokens, window) + min(whole, chosen))",
               layers, per_key);
    lm_derivef(d, "attending_all", _("attention to the window and all entries"), LM_UNIT_FLOPS,
               lm_derive_text(d, "%s.attending_all", path), "%s * (%s) * (min(tokens, window) + whole)",
               layers, per_key);
    lm_derive(d, "less", _("times fewer operations"), LM_UNIT_RATIO, NULL,
              "attending_all / (choosing + attending)");
    lm_derivef(d, "bytes", _("bytes of the cache that it reads"), LM_UNIT_BYTES,
               lm_derive_text(d, "%s.bytes", path),
               "%s * %u * %s * whole + %s * (%s * min(tokens, window) + %u * %s * min(whole, chosen))",
               choosers, keys->k_dim, entry_bytes(d, keys), layers, window, entries->k_dim,
               entry_bytes(d, entries));
    lm_derivef(d, "bytes_all", _("bytes if it read all entries, without an indexer"), LM_UNIT_BYTES,
               lm_derive_text(d, "%s.bytes_all", path), "%s * (%s * min(tokens, window) + %u * %s * whole)",
               layers, window, entries->k_dim, entry_bytes(d, entries));
    lm_derive(d, "bytes_less", _("times fewer bytes"), LM_UNIT_RATIO, NULL, "bytes_all / bytes");
}

void lm_derive_sparse(lm_derivation *d)
{
    lm_traits t;

    lm_find_traits(d->f->ledger, &t);
    if (!t.indexer)
        return;
    let_cache(d);
    const char *path     = lm_derive_text(d, "attention.indexer.at[%" PRIu64 "]", d->f->s.context);
    bool        blocks   = t.indexer->attention.spec.block;
    const char *layers   = lm_layers_formula(d, t.n_sparse);
    const char *choosers = lm_layers_formula(d, t.n_indexers), *per_key = lm_score_formula(d, t.attention);
    lm_let_fact(d, "index_heads", "H_I", _("heads of the indexer"), "attention.indexer.heads");
    lm_let_fact(d, "index_dim", "K_I", _("dimensions of a head of the indexer"),
                "attention.indexer.head_dim");
    lm_let_fact(d, "chosen", "n_k", _("keys that the indexer chooses for a token"),
                "attention.indexer.top_k");
    if (t.indexer->attention.spec.rate) {
        derive_chosen_entries(d, &t);
        return;
    }
    lm_derivef(d, "products",
               blocks ? _("products of the indexers for a token: queries, key")
                      : _("products of the indexers for a token: queries, key, weights of the heads"),
               LM_UNIT_FLOPS, NULL,
               blocks ? "%s * 2 * hidden * (index_heads * index_dim + index_dim)"
                      : "%s * 2 * (q_rank * index_heads * index_dim + hidden * (index_dim + index_heads))",
               choosers);
    lm_derivef(d, "scores", _("their scores of all keys"), LM_UNIT_FLOPS, NULL,
               blocks ? "%s * 2 * index_heads * index_dim * tokens"
                      : "%s * 2 * index_heads * (index_dim + 1) * tokens",
               choosers);
    lm_derive(d, "choosing", _("choosing the keys, together"), LM_UNIT_FLOPS,
              lm_derive_text(d, "%s.choosing", path), "products + scores");
    lm_derivef(d, "attending", _("attention to the chosen keys"), LM_UNIT_FLOPS,
               lm_derive_text(d, "%s.attending", path), "%s * (%s) * min(tokens, chosen)", layers, per_key);
    lm_derivef(d, "attending_all", _("attention to all keys, without an indexer"), LM_UNIT_FLOPS,
               lm_derive_text(d, "%s.attending_all", path), "%s * (%s) * tokens", layers, per_key);
    lm_derive(d, "less", _("times fewer operations"), LM_UNIT_RATIO, NULL,
              "attending_all / (choosing + attending)");
    derive_sparse_bytes(d, &t, layers, choosers);
}

/* ---- memory, as planned ---- */

void lm_derive_memory(lm_derivation *d)
{
    if (!lm_facts_has(d->f, "memory.total")) {
        lm_derive_heading(d, "%s", _(lm_facts_text(d->f, "memory.not_planned")));
        return;
    }
    lm_let_fact(d, "weights", "B_W", _("bytes of weights in allocated memory, in the layout of the kernels"),
                "memory.weights");
    lm_let_fact(d, "kv", "C", _("bytes of the cache's pages"), "memory.kv");
    lm_let_fact(d, "scratch", "A", _("bytes of activations, page tables, threads"), "memory.scratch");
    lm_derive(d, "allocated", _("memory that the engine allocates"), LM_UNIT_BYTES, "memory.total",
              "weights + kv + scratch");
    lm_let_fact(d, "mapped", "B_M", _("bytes read from the mapped file"), "memory.mapped");
    lm_derive(d, "touched", _("with the bytes that are read from the mapped file"), LM_UNIT_BYTES, NULL,
              "allocated + mapped");
}

/* Return whether every weight has an even number of elements. At 4 bits, half bytes are rounded per weight,
 * which no formula for the whole model expresses. */
static bool halves_are_whole(const lm_program *p)
{
    for (uint32_t w = 0; w < p->n_weights; w++)
        if (p->weights[w].elements % 2)
            return false;
    return true;
}

void lm_derive_quantization(lm_derivation *d)
{
    static const struct {
        const char *name, *symbol, *title;
        double      bits;
    } whole[] = {
        { "f32", "bytes_f32", N_("every weight in 32 bits"), 32 },
        { "f16", "bytes_f16", N_("every weight in 16 bits"), 16 },
        { "int8", "bytes_int8", N_("every weight in 8 bits, without scales"), 8 },
        { "int4", "bytes_int4", N_("every weight in 4 bits, without scales"), 4 },
    };
    static const char *const blocks[][2] = { { "Q8_0", "bits_q8_0" },
                                             { "Q6_K", "bits_q6_k" },
                                             { "Q4_K_M", "bits_q4_k_m" } };

    lm_let_fact(d, "parameters", "N", _("weights stored"), "parameters.total");
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        lm_derivef(d, whole[i].symbol, _(whole[i].title), LM_UNIT_BYTES,
                   whole[i].bits >= 8 || halves_are_whole(d->f->s.program)
                       ? lm_derive_text(d, "weights.as.%s.bytes", whole[i].name)
                       : NULL,
                   "parameters * %g / 8", whole[i].bits);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        const char *bytes = lm_derive_text(d, "bytes_%s", blocks[i][1] + 5);
        lm_let_fact(d, bytes, NULL,
                    lm_derive_text(d, _("bytes as %s: whole blocks with their scales, vectors in f32"),
                                   blocks[i][0]),
                    lm_derive_text(d, "weights.as.%s.bytes", blocks[i][0]));
        lm_derivef(d, blocks[i][1],
                   lm_derive_text(d, _("bits per weight as %s, scales included"), blocks[i][0]), LM_UNIT_NONE,
                   lm_derive_text(d, "weights.as.%s.bits_per_weight", blocks[i][0]), "8 * %s / parameters",
                   bytes);
    }
}
