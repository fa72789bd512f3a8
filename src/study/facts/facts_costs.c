/* facts_costs.c - operations, cache and memory. */
#include <string.h>

#include "study/facts/fact.h"
#include "study/facts/ledger.h"
#include "study/facts/traits.h"

/* ---- FLOPs ---- */

static void fill_flops_at(lm_facts *f, lm_fact *g)
{
    lm_flop_counts c;
    lm_wide        total = lm_flops_at(f->s.program, g->index);

    lm_count_flops(f->s.program, &c);
    lm_add_wide(g, "total", total, LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                "matrix products and scores of one token that sees this many keys");
    lm_add_wide(g, "scores", total - c.per_token_matmul, LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                "of which q·k and p·v");
}

bool lm_naive_per_key(const lm_facts *f, uint64_t *flops)
{
    lm_traits t;

    lm_find_traits(f->ledger, &t);
    if (!t.absorbed || t.indexer)        /* an indexer has no second form */
        return false;
    *flops = 2ull * t.n_attentions * t.attention->attention.spec.n_heads *
             (t.nope_dim + t.rope_dim + t.v_dim);
    return true;
}

static void add_naive_prefill(lm_facts *f, lm_fact *g, const char *name, uint64_t tokens)
{
    lm_flop_counts c;
    uint64_t       naive;

    lm_count_flops(f->s.program, &c);
    if (lm_naive_per_key(f, &naive))
        lm_add_wide(g, name,
                    lm_flops_prefill(f->s.program, tokens) -
                        (lm_wide)(c.per_context_token - naive) * lm_keys_seen(tokens, 0, false),
                    LM_UNIT_FLOPS, LM_FROM_WHAT_IF,
                    "the same with keys and values of every head (naive form of latent attention)");
}

static void fill_prefill_of(lm_facts *f, lm_fact *g)
{
    lm_add_wide(g, "total", lm_flops_prefill(f->s.program, g->index), LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                "this many tokens into an empty cache, causal, logits of the last");
    add_naive_prefill(f, g, "naive", g->index);
}

static void fill_flop_parts(lm_facts *f, lm_fact *g)
{
    const lm_program *p = f->s.program;
    uint64_t          sums[LM_PARTS] = { 0 };
    lm_cost           c;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        lm_node_cost(p, &p->nodes[i], &c);
        sums[f->ledger->part[i]] += 2 * c.mult_adds;
    }
    for (int k = 0; k < LM_PARTS; k++)
        if (sums[k])
            lm_add_count(g, lm_part_name((lm_part)k), sums[k], LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                         "matrix products of one token");
}

static void fill_layer_flops(lm_facts *f, lm_fact *g)
{
    const lm_module *m = &f->s.program->modules[f->ledger->layer[g->impl.argument]];
    uint64_t         sums[LM_PARTS] = { 0 }, keys = 0, total = 0, other = 0;
    lm_cost          c;

    for (uint32_t i = m->first_op; i < m->end_op; i++) {
        lm_node_cost(f->s.program, &f->s.program->nodes[i], &c);
        sums[f->ledger->part[i]] += 2 * c.mult_adds;
        total += 2 * c.mult_adds;
        other += c.flops - 2 * c.mult_adds;
        keys += 2 * c.key_mult_adds;
    }
    lm_add_count(g, "matmul", total, LM_UNIT_FLOPS, LM_FROM_PROGRAM, "matrix products of one token");
    lm_add_count(g, "attention", sums[LM_PART_ATTENTION], LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                 "of which projections");
    lm_add_count(g, "state", sums[LM_PART_STATE], LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                 "of which the part with a state");
    lm_add_count(g, "mlp", sums[LM_PART_MLP], LM_UNIT_FLOPS, LM_FROM_PROGRAM, "of which MLP or experts");
    lm_add_count(g, "per_key", keys, LM_UNIT_FLOPS, LM_FROM_PROGRAM, "for each key that the token sees");
    lm_add_count(g, "other", other, LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                 "norms, rotations, activations, residuals");
}

static void fill_layers_flops(lm_facts *f, lm_fact *list)
{
    for (uint32_t i = 0; i < f->s.program->n_layers; i++)
        lm_add_group(list, NULL, fill_layer_flops, i);
}

void lm_fill_flops(lm_facts *f, lm_fact *g)
{
    lm_flop_counts c;
    uint64_t       naive;

    lm_count_flops(f->s.program, &c);
    lm_add_count(g, "per_token_matmul", c.per_token_matmul, LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                 "2 per multiply-add of every matrix product; look-ups are none");
    lm_add_count(g, "per_context_token", c.per_context_token, LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                 "for each key seen; layers with a window or with chosen keys stop when there are as many");
    if (lm_naive_per_key(f, &naive))
        lm_add_count(g, "per_context_token_naive", naive, LM_UNIT_FLOPS, LM_FROM_WHAT_IF,
                     "for each key seen, with keys and values of every head (naive form of latent attention)");
    if (c.past_windows < c.per_context_token)
        lm_add_count(g, "per_context_token_past_windows", c.past_windows, LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                     "for each key seen past `reach`: layers without a window, scores of indexers");
    else
        lm_add_none(g, "per_context_token_past_windows", "every layer attends to all keys");
    if (c.reach)
        lm_add_count(g, "reach", c.reach, LM_UNIT_TOKENS, LM_FROM_PROGRAM,
                     "context from which no window is less than full, and keys are chosen");
    lm_add_count(g, "per_token_other", c.per_token_other, LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                 "norms, rotations, activations, residuals");
    lm_add_count(g, "head", c.head, LM_UNIT_FLOPS, LM_FROM_PROGRAM, "of per_token_matmul");
    lm_add_count(g, "layers", c.per_token_matmul - c.head, LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                 "of per_token_matmul: without the head");
    lm_add_wide(g, "at_context", lm_flops_at(f->s.program, f->s.context), LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                "one token with a full context");
    lm_add_wide(g, "prefill", lm_flops_prefill(f->s.program, f->s.context), LM_UNIT_FLOPS, LM_FROM_PROGRAM,
                "a prompt as long as the context, causal, logits of the last");
    add_naive_prefill(f, g, "prefill_naive", f->s.context);
    lm_add_group(g, "parts", fill_flop_parts, 0);
    lm_hide_fact(lm_add_list(g, "layer", fill_layers_flops, 0));
    lm_add_table(g, "at", fill_flops_at, 0);
    lm_add_table(g, "prefill_of", fill_prefill_of, 0);
}

/* ---- cache ---- */

/* Return the cache as if every query head had its own keys and values. */
static lm_cache mha_of(const lm_facts *f, uint32_t cache)
{
    const lm_program *p = f->s.program;
    lm_traits         t;

    lm_find_traits(f->ledger, &t);
    /* an indexer's keys are not needed without sparse attention */
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_SELECT_KEYS && p->nodes[i].attention.cache == cache)
            return (lm_cache){ 0 };
    if (t.latent)                /* heads as they are made from the latent, each with the dimensions that
                                    all share */
        return (lm_cache){ .n_kv_heads = t.attention->attention.spec.n_heads,
                           .k_dim = t.nope_dim + t.rope_dim,
                           .v_dim = t.v_dim };
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_ATTENTION && p->nodes[i].attention.cache == cache)
            return (lm_cache){ .n_kv_heads = p->nodes[i].attention.spec.n_heads,
                               .k_dim = p->nodes[i].attention.spec.k_dim,
                               .v_dim = p->nodes[i].attention.spec.v_dim };
    return (lm_cache){ 0 };
}

/* Cost per position, of all layers and of the first one. */
typedef struct mha_counts { uint64_t elements, bytes, first_elements, first_bytes; } mha_counts;

static mha_counts count_mha(const lm_facts *f)
{
    mha_counts c = { 0 };

    for (uint32_t i = 0; i < f->s.program->n_caches; i++) {
        lm_cache own      = mha_of(f, i);
        uint64_t elements = lm_cache_elements(&own), bytes = lm_cache_bytes(&own, f->s.cache);
        c.elements += elements;
        c.bytes += bytes;
        c.first_elements = c.first_elements ? c.first_elements : elements;
        c.first_bytes    = c.first_bytes ? c.first_bytes : bytes;
    }
    return c;
}

static void fill_mha(lm_facts *f, lm_fact *g)
{
    const char  *how = "every query head with keys and values of its own, no window";
    mha_counts   mha = count_mha(f);
    lm_kv_counts c;

    lm_count_kv(f->s.program, f->s.cache, 1, 1, &c);
    lm_add_count(g, "elements_per_token_per_layer", mha.first_elements, LM_UNIT_ELEMENTS, LM_FROM_WHAT_IF,
                 how);
    lm_traits t;
    lm_find_traits(f->ledger, &t);
    uint64_t plain = t.latent ? (uint64_t)t.attention->attention.spec.n_heads * (t.nope_dim + t.v_dim)
                              : mha.first_elements;
    lm_hide_fact(lm_add_count(g, "elements_unrotated_per_layer", plain, LM_UNIT_ELEMENTS, LM_FROM_WHAT_IF,
                              "as papers on latent attention count: without the key that all heads share"));
    lm_add_count(g, "elements_per_token", mha.elements, LM_UNIT_ELEMENTS, LM_FROM_WHAT_IF, how);
    lm_add_count(g, "bytes_per_token", mha.bytes, LM_UNIT_BYTES, LM_FROM_WHAT_IF, how);
    lm_add_wide(g, "bytes_at_context", (lm_wide)mha.bytes * f->s.context * f->s.batch, LM_UNIT_BYTES,
                LM_FROM_WHAT_IF, how);
    if (mha.elements)
        lm_add_number(g, "saved", 100.0 * (1 - (double)c.elements_per_token / (double)mha.elements),
                      LM_UNIT_PERCENT, LM_FROM_WHAT_IF,
                      "of the elements of a token, by what this model does instead");
}

/* Add the elements per position of the first layer, if its heads were cached by other methods. */
static void fill_methods(lm_facts *f, lm_fact *g)
{
    lm_traits t;

    lm_find_traits(f->ledger, &t);
    if (!t.attention || !f->s.program->n_caches)
        return;
    const lm_attention_spec *s   = &t.attention->attention.spec;
    uint64_t                 one = t.latent ? t.nope_dim + t.rope_dim + t.v_dim : s->k_dim + s->v_dim;
    const uint32_t           cache = t.attention->attention.cache;
    const lm_cache           own   = mha_of(f, cache);
    lm_add_count(g, "mha", lm_cache_elements(&own), LM_UNIT_ELEMENTS, LM_FROM_WHAT_IF,
                 "every query head with keys and values of its own");
    if (!t.latent && s->n_kv_heads != s->n_heads && s->n_kv_heads != 1)
        lm_add_count(g, "gqa", s->n_kv_heads * one, LM_UNIT_ELEMENTS, LM_FROM_PROGRAM,
                     "groups of query heads share keys and values");
    if (t.latent || s->n_heads != 1)
        lm_add_count(g, "mqa", one, LM_UNIT_ELEMENTS, LM_FROM_WHAT_IF,
                     "all query heads share keys and values");
    if (t.latent)
        lm_add_count(g, "mla", lm_cache_elements(&f->s.program->caches[cache]), LM_UNIT_ELEMENTS,
                     LM_FROM_PROGRAM, "the latent that keys and values are made of");
}

/* Add what the cache and the states take, and what a model of the same layers would whose layers all have the
 * attention of some. */
static void add_beside_states(lm_facts *f, lm_fact *g, lm_wide cache)
{
    const lm_program *p      = f->s.program;
    lm_wide           states = (lm_wide)lm_count_state_floats(p) * sizeof(float) * f->s.batch;

    lm_add_wide(g, "bytes_with_states", cache + states, LM_UNIT_BYTES, LM_FROM_PROGRAM,
                "keys and values, and one state of each sequence");
    if (p->n_caches && p->n_caches < p->n_layers)
        lm_add_wide(g, "bytes_attention_only", cache / p->n_caches * p->n_layers, LM_UNIT_BYTES,
                    LM_FROM_WHAT_IF, "if all layers had attention");
}

static void fill_kv_at(lm_facts *f, lm_fact *g)
{
    lm_wide      positions = (lm_wide)g->index * f->s.batch;
    mha_counts   mha       = count_mha(f);
    lm_kv_counts c;

    lm_count_kv(f->s.program, f->s.cache, g->index, f->s.batch, &c);
    lm_add_wide(g, "bytes", c.bytes_at_context, LM_UNIT_BYTES, LM_FROM_PROGRAM,
                "this many positions of each sequence; windows keep what they see");
    lm_add_wide(g, "bytes_without_window", c.bytes_without_window, LM_UNIT_BYTES, LM_FROM_WHAT_IF,
                "if every position were kept");
    if (f->s.program->n_states)
        add_beside_states(f, g, c.bytes_at_context);
    lm_add_wide(g, "bytes_first_layer", c.first_layer, LM_UNIT_BYTES, LM_FROM_PROGRAM,
                "of bytes, the first layer's");
    lm_add_wide(g, "first_layer", c.first_layer_without_window, LM_UNIT_BYTES, LM_FROM_PROGRAM,
                "of the first layer, every position kept");
    lm_add_wide(g, "mha", mha.bytes * positions, LM_UNIT_BYTES, LM_FROM_WHAT_IF,
                "every query head with keys and values of its own");
    if (f->s.program->n_caches)
        lm_add_wide(g, "mha_first_layer", mha.first_bytes * positions, LM_UNIT_BYTES, LM_FROM_WHAT_IF, NULL);
}

static void fill_kv_layers(lm_facts *f, lm_fact *list)
{
    const lm_program *p = f->s.program;

    for (uint32_t i = 0; i < p->n_caches; i++) {
        uint64_t elements = lm_cache_elements(&p->caches[i]);
        for (; i + 1 < p->n_caches && p->caches[i + 1].layer == p->caches[i].layer; i++)
            elements += lm_cache_elements(&p->caches[i + 1]);        /* keys of an indexer */
        lm_add_count(list, NULL, elements, LM_UNIT_ELEMENTS, LM_FROM_PROGRAM, "kept of every position");
    }
}

void lm_fill_kv(lm_facts *f, lm_fact *g)
{
    char         types[LM_CACHE_TYPES_NAME];
    lm_kv_counts c;

    lm_count_kv(f->s.program, f->s.cache, f->s.context, f->s.batch, &c);
    lm_add_textf(g, "type", LM_FROM_REQUEST, "%s", lm_cache_types_name(f->s.cache, types));
    lm_add_count(g, "context", f->s.context, LM_UNIT_TOKENS, LM_FROM_REQUEST, NULL);
    lm_add_count(g, "batch", f->s.batch, LM_UNIT_NONE, LM_FROM_REQUEST, "sequences at once");
    lm_add_count(g, "elements_per_token", c.elements_per_token, LM_UNIT_ELEMENTS, LM_FROM_PROGRAM,
                 "keys and values of all layers");
    lm_add_count(g, "bytes_per_token", c.bytes_per_token, LM_UNIT_BYTES, LM_FROM_PROGRAM, "of all layers");
    lm_add_wide(g, "bytes_at_context", c.bytes_at_context, LM_UNIT_BYTES, LM_FROM_PROGRAM,
                "all sequences; windows keep what they see");
    if (c.window)
        lm_add_count(g, "window", c.window, LM_UNIT_TOKENS, LM_FROM_PROGRAM,
                     c.n_windows == f->s.program->n_caches
                         ? "positions that each layer keeps"
                         : "positions that attention.windowed_layers keep; the others keep all");
    else
        lm_add_none(g, "window", f->s.program->n_caches ? "every layer keeps every position"
                                                        : "no layer keeps keys and values");
    lm_add_list(g, "elements_per_layer", fill_kv_layers, 0);
    lm_add_group(g, "mha", fill_mha, 0);
    lm_add_group(g, "by_method", fill_methods, 0);
    lm_add_table(g, "at", fill_kv_at, 0);
}

/* ---- memory, from the plan ---- */

static void fill_scratch(lm_facts *f, lm_fact *g)
{
    const lm_plan *p;
    uint64_t       values = 0;

    if (f->s.plan(f->s.arg, NULL, f->s.context, f->s.batch, &p, NULL) != LM_OK)
        return;
    for (uint32_t i = 0; i < p->n_buffers; i++)
        if (p->buffers[i].offset + p->buffers[i].stride * p->buffers[i].rows > values)
            values = p->buffers[i].offset + p->buffers[i].stride * p->buffers[i].rows;
    uint64_t workers = p->state.worker_bytes * p->options.workers;
    lm_add_count(g, "rows", p->options.max_rows, LM_UNIT_TOKENS, LM_FROM_PLAN, "most in a step");
    lm_add_count(g, "activations", values, LM_UNIT_BYTES, LM_FROM_PLAN,
                 "values, laid over each other where their lives do not meet");
    lm_add_count(g, "workers", workers, LM_UNIT_BYTES, LM_FROM_PLAN, "scratch of the threads");
    lm_add_count(g, "bookkeeping", p->slab_bytes - values - workers, LM_UNIT_BYTES, LM_FROM_PLAN,
                 "page tables, positions, rotary frequencies, ranges of attention");
}

/* ---- training ---- */

enum { USUAL_TOKENS = 2048 };

static uint32_t step_tokens(const lm_facts *f)
{
    uint64_t positions = f->s.program->context_length;

    return positions && positions < USUAL_TOKENS ? (uint32_t)positions : USUAL_TOKENS;
}

static void fill_way(lm_facts *f, lm_fact *g)
{
    uint32_t         rank = (uint32_t)g->impl.argument;
    lm_training_need n, few;
    lm_error         e = { 0 };

    if (f->s.train(f->s.arg, rank, step_tokens(f), false, &n, &e) != LM_OK ||
        f->s.train(f->s.arg, rank, step_tokens(f), true, &few, &e) != LM_OK) {
        lm_add_none(g, "total", "no plan can be made: not_planned says why");
        lm_add_text(g, "not_planned", e.message, LM_FROM_PLAN, NULL);
        return;
    }
    lm_add_count(g, "parameters", n.numbers, LM_UNIT_PARAMETERS, LM_FROM_PROGRAM, "that are trained");
    lm_add_count(g, "weights", n.weights, LM_UNIT_BYTES, LM_FROM_PLAN, "that stay, as kernels want them");
    lm_add_count(g, "mapped", n.mapped, LM_UNIT_BYTES, LM_FROM_PLAN, "read from the file in place");
    lm_add_count(g, "trained", n.trained, LM_UNIT_BYTES, LM_FROM_PLAN,
                 "trained weights, their gradients and AdamW's two moments, in f32");
    lm_add_count(g, "activations", n.activations, LM_UNIT_BYTES, LM_FROM_PLAN,
                 "values and gradients of a step");
    lm_add_count(g, "scratch", n.scratch, LM_UNIT_BYTES, LM_FROM_PLAN,
                 "tiles of unpacked weights, bookkeeping, threads");
    lm_add_count(g, "total", n.total, LM_UNIT_BYTES, LM_FROM_PLAN,
                 "what training allocates, every value kept");
    lm_add_count(g, "activations_checkpointed", few.activations, LM_UNIT_BYTES, LM_FROM_PLAN,
                 "every layer computed again");
    lm_add_count(g, "total_checkpointed", few.total, LM_UNIT_BYTES, LM_FROM_PLAN,
                 "what training allocates, every layer computed again");
}

static void fill_training(lm_facts *f, lm_fact *g)
{
    lm_add_count(g, "tokens", step_tokens(f), LM_UNIT_TOKENS, LM_FROM_RULE,
                 "of a step: one text as long as training takes by default");
    lm_add_count(g, "rank", f->s.rank, LM_UNIT_NONE, LM_FROM_REQUEST, "of the adapter");
    lm_add_group(g, "lora", fill_way, f->s.rank);
    lm_add_group(g, "full", fill_way, 0);
}

/* ---- memory ---- */

void lm_fill_memory(lm_facts *f, lm_fact *g)
{
    const lm_plan *p;
    lm_error       e;

    if (f->s.plan(f->s.arg, NULL, f->s.context, f->s.batch, &p, &e) != LM_OK) {
        static const char *const sizes[] = { "weights", "mapped", "kv", "scratch", "total" };
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            lm_add_none(g, sizes[i], "no plan can be made: not_planned says why");
        lm_add_text(g, "not_planned", e.message, LM_FROM_PLAN, "also one of the warnings");
        return;
    }
    lm_add_count(g, "weights", p->weight_bytes, LM_UNIT_BYTES, LM_FROM_PLAN,
                 "in memory of our own, as kernels want them");
    lm_add_count(g, "mapped", p->mapped_bytes, LM_UNIT_BYTES, LM_FROM_PLAN, "read from the file in place");
    lm_add_count(g, "kv", p->kv_bytes, LM_UNIT_BYTES, LM_FROM_PLAN,
                 p->program->n_states ? "pages of the cache, and of states" : "pages of the cache");
    lm_add_count(g, "scratch", p->slab_bytes, LM_UNIT_BYTES, LM_FROM_PLAN,
                 "activations, bookkeeping, threads");
    lm_add_wide(g, "total", (lm_wide)p->weight_bytes + p->kv_bytes + p->slab_bytes, LM_UNIT_BYTES,
                LM_FROM_PLAN, "memory that the engine allocates");
    lm_add_group(g, "scratch_parts", fill_scratch, 0);
    if (f->s.train)
        lm_add_group(g, "training", fill_training, 0);
}
