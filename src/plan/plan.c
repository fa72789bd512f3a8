/* plan.c - make a plan: options, weights, bookkeeping. */
#include "plan/plan.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "plan/cache.h"
#include "plan/compile.h"
#include "plan/slab.h"

/* ---- weights ---- */

static lm_status row_size(const lm_weight *w, lm_dtype type, uint64_t *row, uint64_t *bytes, lm_error *e)
{
    uint64_t outs = w->dims[w->n_dims - 2], cols = w->dims[w->n_dims - 1];

    if (!lm_dtype_row_bytes(type, cols, row) || !lm_mul_u64(*row, outs, bytes) ||
        !lm_mul_u64(*bytes, lm_weight_matrices(w), bytes))
        return lm_fail(e, LM_BAD_MODEL, w->path, LM_NO_OFFSET,
                       "rows of %" PRIu64 " are not whole blocks of %s", cols, lm_dtype_of(type)->name);
    return LM_OK;
}

static lm_dtype placed_type(const lm_compiler *c, const lm_weight *w, uint32_t i, bool transposed)
{
    lm_dtype type = w->adapter ? LM_F32 : c->o->types[i];

    /* Blocks run along a row and cannot be transposed; their values can, in another type. */
    if (w->kind == LM_HEADS && transposed && lm_dtype_of(type)->block != 1)
        type = c->o->exact ? LM_F32 : LM_F16;
    return type;
}

/* Return whether a table is looked up by token besides the embedding. It stays in the file, of which only the
 * rows of the tokens are read: the inputs of all layers are as large as the layers together. */
static bool is_further_table(const lm_program *p, uint32_t weight)
{
    for (uint32_t i = 0, n = 0; i < p->n_nodes; i++) {
        if (p->nodes[i].code == LM_OP_EMBED && p->nodes[i].weights[0] == weight)
            return n > 0 && p->weights[weight].uses == 1;
        n += p->nodes[i].code == LM_OP_EMBED;
    }
    return false;
}

static lm_status place_matrix(const lm_compiler *c, uint32_t i, uint64_t *offset, lm_error *e)
{
    const lm_weight  *w  = &c->p->weights[i];
    lm_placement     *at = &c->plan->weights[i];
    const lm_kernels *k  = c->o->kernels;
    bool transposed = !w->adapter && c->o->transposed && c->o->transposed[i],
         own = transposed || w->adapter || c->o->caller_weights;
    lm_dtype type       = placed_type(c, w, i, transposed);
    uint64_t row = 0, bytes = 0;

    at->matmul = (uint32_t)type < LM_DTYPE_SLOTS ? (c->o->exact ? k->exact[type] : k->fast[type]) : NULL;
    if (!at->matmul)
        return lm_fail(e, LM_UNSUPPORTED, w->path, LM_NO_OFFSET, "no kernel for matrices of type %s",
                       lm_dtype_of(type)->name);
    LM_TRY(row_size(w, type, &row, &bytes, e));
    bool packed   = at->matmul->packed_bytes && (!c->o->no_repack || own || w->cut) &&
                  (own || w->cut || !is_further_table(c->p, i));
    at->type      = type;
    at->row_bytes = row;
    bool copied   = w->cut && w->kind != LM_HEADS;           /* a cut of LM_HEADS selects whole matrices */
    at->kind      = packed ? LM_PACKED : own ? LM_TRANSPOSED : copied ? LM_COPIED : LM_MAPPED;
    at->bytes = !packed ? bytes
                        : at->matmul->packed_bytes(w->dims[w->n_dims - 2], w->dims[w->n_dims - 1]) *
                              lm_weight_matrices(w);
    if (at->kind == LM_MAPPED) {
        c->plan->mapped_bytes += at->bytes;
    } else {
        at->offset = *offset;
        *offset += (at->bytes + 63) & ~UINT64_C(63);
    }
    return LM_OK;
}

static lm_status place_weights(lm_compiler *c, lm_error *e)
{
    uint64_t offset = 0;

    for (uint32_t i = 0; i < c->p->n_weights; i++) {
        const lm_weight *w  = &c->p->weights[i];
        lm_placement    *at = &c->plan->weights[i];
        if (w->kind != LM_VECTOR) {
            LM_TRY(place_matrix(c, i, &offset, e));
            continue;
        }
        *at = (lm_placement){ .kind = LM_FLOATS,
                              .type = w->adapter ? LM_F32 : c->o->types[i],
                              .offset = offset,
                              .bytes = w->elements * 4 };
        offset += (at->bytes + 63) & ~UINT64_C(63);
    }
    c->plan->weight_bytes = offset;
    return LM_OK;
}

/* ---- bookkeeping ---- */

static uint64_t reserve(uint64_t *at, uint64_t bytes)
{
    uint64_t offset = *at;

    *at += (bytes + 63) & ~UINT64_C(63);
    return offset;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t page_bytes(const lm_compiler *c, const lm_node *n)
{
    return c->plan->attention->page_bytes(&c->plan->layers[n->attention.cache].shape);
}

static uint64_t worker_bytes(const lm_compiler *c)
{
    uint64_t max = 64;

    for (uint32_t i = 0; i < c->p->n_nodes; i++) {
        const lm_node *n = &c->p->nodes[i];
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS && n->weights[k] != LM_NONE; k++) {
            const lm_weight *w = &c->p->weights[n->weights[k]];
            const lm_matmul *m = c->plan->weights[n->weights[k]].matmul;
            bool stored = c->plan->weights[n->weights[k]].kind == LM_MAPPED;
            if (m && (stored || m->scratch_bytes))
                max = larger(max, stored ? lm_stored_scratch(m, w->dims[w->n_dims - 1])
                                           : m->scratch_bytes(w->dims[w->n_dims - 1]));
        }
        if (n->code == LM_OP_ATTENTION) {
            const lm_attention_spec *s = &n->attention.spec;
            uint32_t group = s->n_heads / s->n_kv_heads,
                     together = group < LM_QUERY_HEADS ? group : LM_QUERY_HEADS;
            const lm_kv_shape *shape = &c->plan->layers[n->attention.cache].shape;
            max = larger(larger(max, s->rate ? (uint64_t)LM_ENTRY_ROWS * s->k_dim * 4 : 0),
                         c->plan->attention->scratch_bytes(shape, together));
        }
        if (n->code == LM_OP_SELECT_KEYS)        /* keys of a page, queries of a row, entries as a page */
            max = larger(max, ((uint64_t)LM_PAGE + n->attention.spec.n_heads) * n->attention.spec.k_dim * 4 +
                                  (n->attention.spec.rate ? page_bytes(c, n) : 0));
    }
    for (uint32_t t = 0; t < c->p->n_ropes; t++)
        max = larger(max, (uint64_t)c->p->ropes[t].spec.dim * 2);
    return (max + 63) & ~UINT64_C(63);
}

/* Return the bytes of partial results of the layer that needs most, for the maximum of rows and ranges that
 * are split. */
static uint64_t partial_bytes(const lm_compiler *c)
{
    uint64_t max = 0, rows = c->o->max_rows < LM_SPLIT_ROWS ? c->o->max_rows : LM_SPLIT_ROWS;

    for (uint32_t i = 0; i < c->p->n_nodes; i++) {
        const lm_attention_spec *s = &c->p->nodes[i].attention.spec;
        if (c->p->nodes[i].code != LM_OP_ATTENTION || s->rate || !lm_attention_splits(s, 1, c->o->workers))
            continue;
        const lm_kv_layer *l = &c->plan->layers[c->p->nodes[i].attention.cache];
        if (l->ranges > 1)
            max = larger(max, lm_attention_partial_bytes(&l->shape, rows * s->n_heads) * l->ranges);
    }
    return max;
}

/* Return the pages of the keys that a row of sparse or compressed attention sees; 0: it sees all keys of a
 * context. */
static uint64_t gathered_pages(const lm_compiler *c, const lm_node *n)
{
    uint32_t top_k = n->code == LM_OP_ATTENTION ? n->attention.spec.top_k : 0;

    if (n->code == LM_OP_ATTENTION && n->attention.spec.rate)
        return (lm_node_keys_at(n, c->o->context) + LM_PAGE - 1) / LM_PAGE;
    return top_k < c->o->context ? (top_k + LM_PAGE - 1) / LM_PAGE : 0;
}

/* Return the bytes for the chosen keys of the layer that needs most: page numbers, then pages. Blocks of
 * whole pages are not copied. */
static uint64_t gathered_bytes(const lm_compiler *c)
{
    uint64_t max = 0;

    for (uint32_t i = 0; i < c->p->n_nodes; i++) {
        const lm_node *n     = &c->p->nodes[i];
        uint64_t       pages = gathered_pages(c, n);
        if (pages)
            max = larger(max, ((pages * 4 + 63) & ~UINT64_C(63)) +
                                  (lm_chooses_pages(&n->attention.spec) ? 0 : pages * page_bytes(c, n)));
    }
    return max;
}

/* Return the bytes of the scores of a row for the choice of keys; 0: nothing is chosen. */
static uint64_t score_bytes(const lm_compiler *c)
{
    uint64_t max = 0;

    for (uint32_t i = 0; i < c->p->n_nodes; i++) {
        const lm_attention_spec *s = &c->p->nodes[i].attention.spec;
        if (c->p->nodes[i].code != LM_OP_SELECT_KEYS)
            continue;
        uint64_t keys = lm_node_keys_at(&c->p->nodes[i], c->o->context);
        if (s->top_k < keys)
            max = larger(max, (keys + LM_PAGE - 1) / LM_PAGE * LM_PAGE * 4 *
                                  (s->n_choices ? s->n_choices : 1));
    }
    return max;
}

static void place_state(lm_compiler *c)
{
    lm_plan               *plan = c->plan;
    lm_plan_state         *s    = &plan->state;
    const lm_plan_options *o    = c->o;
    uint64_t               at = plan->slab_bytes, tables = 0, pages = 0, lanes = 0, slopes = 0;

    for (uint32_t g = 0; g < plan->n_groups; g++) {
        tables += (uint64_t)o->sequences * plan->groups[g].pages_per_sequence;
        pages += plan->groups[g].n_pages;
    }
    for (uint32_t t = 0; t < c->p->n_ropes; t++)
        lanes += c->p->ropes[t].spec.dim;
    for (uint32_t i = 0; i < c->p->n_nodes; i++)
        if (c->p->nodes[i].code == LM_OP_ATTENTION && c->p->nodes[i].attention.spec.alibi > 0)
            slopes += c->p->nodes[i].attention.spec.n_heads;
    s->positions    = reserve(&at, (uint64_t)o->max_rows * 4);
    s->sequences    = reserve(&at, (uint64_t)o->max_rows * 4);
    s->tokens       = reserve(&at, (uint64_t)o->max_rows * 4);
    s->lengths      = reserve(&at, (uint64_t)o->max_rows * 4);
    s->wanted       = reserve(&at, (uint64_t)o->max_logits * 4);
    s->logit_index  = reserve(&at, (uint64_t)o->max_rows * 4);
    s->seq_length   = reserve(&at, (uint64_t)o->sequences * 4);
    s->seq_next     = reserve(&at, (uint64_t)o->sequences * 4);
    s->page_tables  = reserve(&at, tables * 4);
    s->page_uses    = reserve(&at, pages * 4);
    s->page_free    = reserve(&at, pages * 4);
    s->page_before  = reserve(&at, c->p->n_states ? (uint64_t)o->sequences * 4 : 0);
    s->length_before = reserve(&at, c->p->n_states ? (uint64_t)o->sequences * 4 : 0);
    s->frequencies  = reserve(&at, lanes * 4);
    s->adapters     = reserve(&at, (uint64_t)c->p->n_adapters * o->max_rows * 4);
    s->seq_adapters = reserve(&at, (uint64_t)c->p->n_adapters * o->sequences * 4);
    s->slopes       = reserve(&at, slopes * 4);
    s->ranges_done  = reserve(&at, (uint64_t)lm_unsplit_items(o->workers) * 4);
    s->partials     = reserve(&at, partial_bytes(c));
    s->score_bytes  = score_bytes(c);
    s->scores       = reserve(&at, s->score_bytes * larger(LM_SPLIT_ROWS, o->workers));
    s->gathered_bytes = gathered_bytes(c);
    s->gathered     = reserve(&at, s->gathered_bytes * o->workers);
    s->worker_bytes = worker_bytes(c);
    s->workers      = reserve(&at, s->worker_bytes * o->workers);
    plan->slab_bytes = at;
}

/* ---- plans ---- */

lm_status lm_plan_context(const lm_program *p, uint32_t context, lm_error *e)
{
    if (context >= 1 && !(p->context_is_hard && context > p->context_length))
        return LM_OK;
    return lm_fail(e, LM_USAGE, "context", LM_NO_OFFSET, "%u positions; the model has %u", context,
                   p->context_length);
}

static lm_status check_options(const lm_program *p, const lm_plan_options *o, lm_error *e)
{
    if (o->max_rows < 1 || o->max_rows > 65536)
        return lm_fail(e, LM_USAGE, "max_rows", LM_NO_OFFSET,
                       "%u rows in a forward pass; 1 to 65536 are possible", o->max_rows);
    if (o->max_logits < 1 || o->max_logits > o->max_rows)
        return lm_fail(e, LM_USAGE, "max_logits", LM_NO_OFFSET, "%u rows with logits of %u", o->max_logits,
                       o->max_rows);
    if (o->sequences < 1 || o->sequences > 65536)
        return lm_fail(e, LM_USAGE, "sequences", LM_NO_OFFSET, "%u sequences; 1 to 65536 are possible",
                       o->sequences);
    LM_TRY(lm_plan_context(p, o->context, e));
    if (o->workers < 1 || o->workers > 1024)
        return lm_fail(e, LM_USAGE, "threads", LM_NO_OFFSET, "%u threads; 1 to 1024 are possible",
                       o->workers);
    if (p->n_ropes > LM_MAX_TABLES)
        return lm_fail(e, LM_UNSUPPORTED, p->family, LM_NO_OFFSET, "%u rotary tables; %u are possible",
                       p->n_ropes, LM_MAX_TABLES);
    return LM_OK;
}

static lm_status compile(lm_compiler *c, lm_error *e)
{
    lm_plan  *plan = c->plan;
    uint64_t *scratch;

    LM_TRY(place_weights(c, e));
    LM_TRY(lm_plan_cache(plan, e));
    lm_plan_steps(c);
    lm_plan_stages(c);
    scratch = lm_alloc(4 * (size_t)plan->n_buffers * sizeof *scratch);
    if (!scratch)
        return lm_fail_memory(e, "plan", 4 * (size_t)plan->n_buffers * sizeof *scratch);
    lm_status status = lm_slab_place(plan->buffers, plan->n_buffers, scratch, &plan->slab_bytes, e);
    lm_free(scratch);
    LM_TRY(status);
    place_state(c);
    return LM_OK;
}

/* Allocate the lists with upper bounds: an operation has at most nine steps (experts), two gathers and a
 * packing, and as many buffers. */
static bool reserve_lists(lm_compiler *c)
{
    const lm_program *p    = c->p;
    lm_plan          *plan = c->plan;
    size_t            max = 12 * (size_t)p->n_nodes + LM_MAX_TABLES;

    plan->steps        = lm_arena_new(&plan->arena, max, lm_step);
    plan->stages       = lm_arena_new(&plan->arena, max, lm_stage);
    plan->buffers      = lm_arena_new(&plan->arena, max, lm_buffer);
    plan->weights      = lm_arena_new(&plan->arena, p->n_weights + 1, lm_placement);
    plan->groups       = lm_arena_new(&plan->arena, p->n_caches + 2, lm_kv_group);
    plan->layers       = lm_arena_new(&plan->arena, p->n_caches + 1, lm_kv_layer);
    plan->states       = lm_arena_new(&plan->arena, p->n_states + 1, uint64_t);
    plan->value_buffer = lm_arena_new(&plan->arena, p->n_values + 1, uint32_t);
    c->values          = lm_alloc_zero(p->n_values + 1, sizeof *c->values);
    c->done            = lm_alloc_zero(p->n_nodes + 1, sizeof *c->done);
    for (uint32_t v = 0; c->values && v < p->n_values; v++)
        c->values[v].buffer = c->values[v].gathered = c->values[v].packed = LM_NONE;
    return plan->steps && plan->stages && plan->buffers && plan->weights && plan->groups && plan->layers &&
           plan->states && plan->value_buffer && c->values && c->done;
}

lm_status lm_plan_new(const lm_program *p, const lm_plan_options *o, lm_plan **out, lm_error *e)
{
    LM_TRY(check_options(p, o, e));
    lm_plan *plan = lm_alloc_zero(1, sizeof *plan);
    if (!plan)
        return lm_fail_memory(e, "plan", sizeof *plan);
    plan->program = p;
    plan->options = *o;
    plan->attention = o->exact || o->fine ? &o->kernels->attention : &o->kernels->attention_fast;

    lm_compiler  c      = { .p = p, .o = &plan->options, .plan = plan };
    lm_status status = reserve_lists(&c) ? compile(&c, e)
                                         : lm_fail_memory(e, "plan", p->n_nodes * sizeof(lm_step));
    lm_free(c.values);
    lm_free(c.done);
    if (status != LM_OK) {
        lm_plan_free(plan);
        return status;
    }
    *out = plan;
    return LM_OK;
}

/* Return the offset in the slab at which the values end and the bookkeeping begins. */
static uint64_t value_bytes(const lm_plan *p)
{
    uint64_t max = 0;

    for (uint32_t i = 0; i < p->n_buffers; i++)
        max = larger(max, p->buffers[i].offset + p->buffers[i].stride * p->buffers[i].rows);
    return (max + 63) & ~UINT64_C(63);
}

lm_status lm_plan_resized(const lm_plan *from, uint32_t context, lm_cache_types cache, lm_plan **out,
                          lm_error *e)
{
    lm_plan_options o = from->options;

    o.context = context;
    o.cache = cache;
    LM_TRY(check_options(from->program, &o, e));
    lm_plan *plan = lm_alloc_zero(1, sizeof *plan);
    if (!plan)
        return lm_fail_memory(e, "plan", sizeof *plan);
    *plan          = *from;
    plan->arena    = (lm_arena){ 0 };
    plan->options  = o;
    plan->kv_bytes = plan->n_groups = 0;
    plan->groups   = lm_arena_new(&plan->arena, plan->program->n_caches + 2, lm_kv_group);
    plan->layers   = lm_arena_new(&plan->arena, plan->program->n_caches + 1, lm_kv_layer);
    plan->states   = lm_arena_new(&plan->arena, plan->program->n_states + 1, uint64_t);
    lm_compiler c  = { .p = plan->program, .o = &plan->options, .plan = plan };
    bool        taken = plan->groups && plan->layers && plan->states;
    lm_status   status = taken ? lm_plan_cache(plan, e) : lm_fail_memory(e, "plan", 0);
    if (status != LM_OK) {
        lm_plan_free(plan);
        return status;
    }
    plan->slab_bytes = value_bytes(from);
    place_state(&c);
    *out = plan;
    return LM_OK;
}

void lm_plan_free(lm_plan *p)
{
    if (!p)
        return;
    lm_arena_free(&p->arena);
    lm_free(p);
}
