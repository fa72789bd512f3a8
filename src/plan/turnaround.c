/* turnaround.c - plan a training step. */
#include "plan/turnaround.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "plan/slab.h"

enum { LINE = 64 };

/* The state of planning with a given number of checkpointed layers. */
typedef struct planner {
    lm_train_plan    *t;
    const lm_program *p;
    bool             *redo;              /* [n_nodes]: recomputed */
    uint32_t          now;               /* the current step */
} planner;

static bool checkpointed(const lm_train_plan *t, int32_t layer)
{
    return layer >= 0 && (uint32_t)layer < t->checkpointed;
}

/* ---- steps ---- */

static void step(lm_train_plan *t, lm_turn_kind kind, uint32_t index)
{
    t->steps[t->n_steps++] = (lm_turn_step){ kind, index };
}

/* Find the operations of checkpointed layers that must be recomputed: those whose outputs their reverses
 * read, and those that these depend on. */
static void find_redone(planner *n)
{
    const lm_backward *b = n->t->backward;

    memset(n->redo, 0, n->p->n_nodes * sizeof *n->redo);
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        lm_value reads[LM_MAX_READS];
        if (b->nodes[i].node == LM_NONE || b->nodes[i].tail)
            continue;
        const lm_node *node = &n->p->nodes[b->nodes[i].node];
        for (uint32_t k = lm_reverse_reads(b, &b->nodes[i], reads);
             checkpointed(n->t, node->layer) && k-- > 0;)
            if (n->p->nodes[n->p->values[reads[k]].producer].layer == node->layer)
                n->redo[n->p->values[reads[k]].producer] = true;
        if (checkpointed(n->t, node->layer) && lm_reverse_keeps(n->p, node))
            n->redo[b->nodes[i].node] = true;
    }
    for (uint32_t i = n->p->n_nodes; i-- > 0;)
        for (uint32_t k = 0; n->redo[i] && k < n->p->nodes[i].n_in; k++) {
            uint32_t from = n->p->values[n->p->nodes[i].in[k]].producer;
            if (n->p->nodes[from].layer == n->p->nodes[i].layer)
                n->redo[from] = true;
        }
}

static void list_steps(planner *n)
{
    lm_train_plan     *t = n->t;
    const lm_backward *b = t->backward;
    int32_t            layer = INT32_MAX;

    t->n_steps = 0;
    for (uint32_t i = 0; i < b->tail; i++)
        step(t, LM_TURN_FORWARD, i);
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        const lm_reverse *r = &b->nodes[i];
        if (r->tail && r->node != LM_NONE)
            continue;                            /* part of the loss step */
        if (r->node != LM_NONE && n->p->nodes[r->node].layer != layer) {
            layer = n->p->nodes[r->node].layer;
            for (uint32_t k = 0; checkpointed(t, layer) && k < b->tail; k++)
                if (n->redo[k] && n->p->nodes[k].layer == layer)
                    step(t, LM_TURN_AGAIN, k);
        }
        step(t, LM_TURN_REVERSE, i);
    }
}

/* ---- buffers and their lifetimes ---- */

static uint32_t buffer(planner *n, const char *name, uint64_t lanes, uint64_t rows)
{
    lm_train_plan *t = n->t;

    t->buffers[t->n_buffers] = (lm_buffer){
        .name = name,
        .stride = (lanes * sizeof(float) + LINE - 1) / LINE * LINE,
        .rows = rows,
        .first = n->now,
        .last = n->now,
    };
    return t->n_buffers++;
}

static void touch(planner *n, uint32_t which)
{
    if (which != LM_NONE)
        n->t->buffers[which].last = n->now;
}

static void make(planner *n, uint32_t *which, const char *name, uint64_t lanes, uint64_t rows)
{
    if (*which == LM_NONE)
        *which = buffer(n, name, lanes, rows);
    else
        touch(n, *which);
}

uint32_t lm_turn_value(const lm_train_plan *t, lm_turn_kind kind, const lm_node *n, lm_value v)
{
    const lm_program *p = t->backward->program;
    bool again = kind != LM_TURN_FORWARD && t->values[1][v] != LM_NONE &&
                 p->nodes[p->values[v].producer].layer == n->layer;

    return t->values[again][v];
}

uint32_t lm_turn_kept(const lm_train_plan *t, lm_turn_kind kind, uint32_t node)
{
    return t->kept[kind != LM_TURN_FORWARD && t->kept[1][node] != LM_NONE][node];
}

static void forward_live_ranges(planner *n, lm_turn_kind kind, uint32_t index)
{
    const lm_node *node = &n->p->nodes[index];
    bool           again = kind == LM_TURN_AGAIN;
    uint32_t       keeps = n->t->backward->has[node->out] ? lm_reverse_keeps(n->p, node) : 0;

    make(n, &n->t->values[again][node->out], node->path, n->p->values[node->out].width, n->t->options.rows);
    if (node->code == LM_OP_ATTENTION)
        make(n, &n->t->kept[again][index], "log of sums", keeps ? keeps : lm_reverse_keeps(n->p, node),
             n->t->options.rows);
    for (uint32_t k = 0; k < node->n_in; k++)
        touch(n, lm_turn_value(n->t, kind, node, node->in[k]));
    if (node->code == LM_OP_ROPE)
        touch(n, n->t->tables[node->rope.table]);
}

/* The values and gradients of the tail exist only during the loss step. */
static void tail_live_ranges(planner *n)
{
    lm_train_plan     *t = n->t;
    const lm_backward *b = t->backward;
    lm_value           hidden = n->p->nodes[b->tail].in[0];

    t->hidden          = buffer(n, "hidden states", n->p->values[hidden].width, t->options.piece);
    t->hidden_gradient = buffer(n, "their gradient", n->p->values[hidden].width, t->options.piece);
    for (uint32_t i = b->tail; i < n->p->n_nodes; i++) {
        const lm_node *node = &n->p->nodes[i];
        make(n, &t->values[0][node->out], node->path, n->p->values[node->out].width, t->options.piece);
        make(n, &t->gradients[node->out], "gradient", n->p->values[node->out].width, t->options.piece);
    }
    touch(n, t->values[0][hidden]);
    if (b->has[hidden])
        make(n, &t->gradients[hidden], "gradient", n->p->values[hidden].width, t->options.rows);
}

static void reverse_live_ranges(planner *n, const lm_reverse *r)
{
    lm_train_plan *t = n->t;
    const lm_node *node;
    lm_value       reads[LM_MAX_READS];

    if (r->node == LM_NONE) {
        tail_live_ranges(n);
        return;
    }
    node = &n->p->nodes[r->node];
    for (uint32_t k = lm_reverse_reads(t->backward, r, reads); k-- > 0;)
        touch(n, lm_turn_value(t, LM_TURN_REVERSE, node, reads[k]));
    touch(n, lm_turn_kept(t, LM_TURN_REVERSE, r->node));
    touch(n, t->gradients[node->out]);
    for (uint32_t k = 0; k < node->n_in; k++)
        if (r->into[k])
            make(n, &t->gradients[node->in[k]], "gradient", n->p->values[node->in[k]].width, t->options.rows);
    if (node->code == LM_OP_ROPE)
        touch(n, t->tables[node->rope.table]);
}

static void find_live_ranges(planner *n)
{
    lm_train_plan *t = n->t;

    t->n_buffers = 0;
    for (uint32_t v = 0; v < n->p->n_values; v++)
        t->values[0][v] = t->values[1][v] = t->gradients[v] = LM_NONE;
    for (uint32_t i = 0; i < n->p->n_nodes; i++)
        t->kept[0][i] = t->kept[1][i] = LM_NONE;
    n->now = 0;
    for (uint32_t i = 0; i < n->p->n_ropes; i++)
        t->tables[i] = buffer(n, "rotation", n->p->ropes[i].spec.dim, t->options.rows);
    for (; n->now < t->n_steps; n->now++) {
        const lm_turn_step *s = &t->steps[n->now];
        if (s->kind == LM_TURN_REVERSE)
            reverse_live_ranges(n, &t->backward->nodes[s->index]);
        else
            forward_live_ranges(n, s->kind, s->index);
    }
}

/* ---- plans ---- */

static lm_status plan_with(planner *n, uint32_t layers, uint64_t *scratch, lm_error *e)
{
    lm_train_plan *t = n->t;
    uint64_t workers;

    t->checkpointed = layers;
    find_redone(n);
    list_steps(n);
    find_live_ranges(n);
    LM_TRY(lm_slab_place(t->buffers, t->n_buffers, scratch, &t->activations, e));
    t->shared  = t->activations;
    t->workers = t->shared + (t->options.shared + LINE - 1) / LINE * LINE;
    if (!lm_mul_u64((t->options.worker + LINE - 1) / LINE * LINE, t->options.workers, &workers) ||
        !lm_add_u64(t->workers, workers, &t->bytes))
        return lm_fail(e, LM_NO_FIT, "training", LM_NO_OFFSET, "size exceeds the address space");
    return LM_OK;
}

/* Find the smallest number of checkpointed layers that fits the limit; the bytes decrease as it grows. */
static lm_status choose(planner *n, uint64_t *scratch, lm_error *e)
{
    uint32_t low = 0, high = n->p->n_layers;

    LM_TRY(plan_with(n, 0, scratch, e));
    if (!n->t->options.limit || n->t->bytes <= n->t->options.limit)
        return LM_OK;
    LM_TRY(plan_with(n, high, scratch, e));
    if (n->t->bytes > n->t->options.limit)
        return lm_fail(e, LM_NO_FIT, "training", LM_NO_OFFSET,
                       "a step of %u tokens needs %" PRIu64 " bytes with every layer checkpointed, %" PRIu64 " are allowed",
                       n->t->options.rows, n->t->bytes, n->t->options.limit);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        LM_TRY(plan_with(n, middle, scratch, e));
        if (n->t->bytes <= n->t->options.limit)
            high = middle;
        else
            low = middle;
    }
    return plan_with(n, high, scratch, e);
}

static lm_status plan(lm_train_plan *t, lm_error *e)
{
    const lm_program *p       = t->backward->program;
    uint32_t          buffers = 3 * p->n_values + 2 * p->n_nodes + p->n_ropes + 2;
    planner           n       = { .t = t, .p = p };

    t->steps = lm_arena_new(&t->arena, 2 * (size_t)p->n_nodes + t->backward->n_nodes + 1, lm_turn_step);
    t->buffers      = lm_arena_new(&t->arena, buffers, lm_buffer);
    t->gradients    = lm_arena_new(&t->arena, p->n_values + 1, uint32_t);
    t->tables       = lm_arena_new(&t->arena, p->n_ropes + 1, uint32_t);
    n.redo          = lm_arena_new(&t->arena, p->n_nodes + 1, bool);
    uint64_t *scratch = lm_arena_new(&t->arena, 4 * (size_t)buffers, uint64_t);
    bool      whole = t->steps && t->buffers && t->gradients && t->tables && n.redo && scratch;
    for (uint32_t i = 0; i < 2 && whole; i++) {
        t->values[i] = lm_arena_new(&t->arena, p->n_values + 1, uint32_t);
        t->kept[i]   = lm_arena_new(&t->arena, p->n_nodes + 1, uint32_t);
        whole        = t->values[i] && t->kept[i];
    }
    if (!whole)
        return lm_fail_memory(e, "plan of a training step", 0);
    if (t->options.checkpoint == LM_TURN_AUTO)
        return choose(&n, scratch, e);
    return plan_with(&n, t->options.checkpoint < p->n_layers ? t->options.checkpoint : p->n_layers, scratch,
                     e);
}

lm_status lm_turn_new(const lm_backward *b, const lm_train_plan_options *o, lm_train_plan **out, lm_error *e)
{
    lm_train_plan *t = lm_alloc_zero(1, sizeof *t);

    if (!t)
        return lm_fail_memory(e, "plan of a training step", sizeof *t);
    t->backward      = b;
    t->options       = *o;
    lm_status status = plan(t, e);
    if (status != LM_OK) {
        lm_turn_free(t);
        return status;
    }
    *out = t;
    return LM_OK;
}

void lm_turn_free(lm_train_plan *t)
{
    if (!t)
        return;
    lm_arena_free(&t->arena);
    lm_free(t);
}
