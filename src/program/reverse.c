/* reverse.c - the reverse of every operation, and of a program. */
#include "program/reverse.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/language.h"
#include "program/op.h"

/* ---- what a reverse reads ---- */

uint32_t lm_reverse_keeps(const lm_program *p, const lm_node *n)
{
    (void)p;
    return n->code == LM_OP_ATTENTION ? n->attention.spec.n_heads : 0;
}

static bool trains(const lm_reverse *r)
{
    for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
        if (r->trains[k])
            return true;
    return false;
}

uint32_t lm_reverse_reads(const lm_backward *b, const lm_reverse *r, lm_value reads[LM_MAX_READS])
{
    const lm_program *p = b->program;
    uint32_t          n = 0;

    if (r->node == LM_NONE) {
        reads[0] = p->nodes[b->tail].in[0];
        return 1;
    }
    const lm_node *node = &p->nodes[r->node];
    const lm_op   *op   = lm_op_of(node->code);
    uint8_t        bits = op->reverse_reads | (trains(r) ? op->reverse_reads_to_train : 0);
    for (uint32_t i = 0; i < node->n_in; i++)
        if (bits >> i & 1)
            reads[n++] = node->in[i];
    if (bits & LM_OUT)
        reads[n++] = node->out;
    return n;
}

/* ---- transform ---- */

/* Mark the values that depend on a trained weight. Return whether the logits do. */
static bool mark(lm_backward *b)
{
    const lm_program *p = b->program;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        bool           depends = false;
        for (uint32_t k = 0; k < n->n_in; k++)
            depends |= (lm_op_of(n->code)->trains_inputs >> k & 1) && b->has[n->in[k]];
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
            depends |= n->weights[k] != LM_NONE && b->trained[n->weights[k]];
        b->has[n->out] = depends;
    }
    return b->has[p->logits];
}

/* Unmark values that depend on a trained weight but do not influence the logits: they need no gradient. */
static void keep_used(lm_backward *b, bool *used)
{
    const lm_program *p = b->program;

    used[p->logits] = true;
    for (uint32_t i = p->n_nodes; i-- > 0;) {
        const lm_node *n = &p->nodes[i];
        for (uint32_t k = 0; used[n->out] && k < n->n_in; k++)
            used[n->in[k]] |= lm_op_of(n->code)->trains_inputs >> k & 1;
    }
    for (uint32_t v = 0; v < p->n_values; v++)
        b->has[v] &= used[v];
}

static void turn(lm_backward *b, bool *reached)
{
    const lm_program *p = b->program;

    b->nodes[b->n_nodes++] = (lm_reverse){ .node = LM_NONE, .tail = true };
    reached[p->logits]     = true;
    for (uint32_t i = p->n_nodes; i-- > 0;) {
        const lm_node *n = &p->nodes[i];
        lm_reverse     r = { .node = i, .tail = i >= b->tail };
        if (!b->has[n->out])
            continue;
        for (uint32_t k = 0; k < n->n_in; k++) {
            r.into[k]  = (lm_op_of(n->code)->trains_inputs >> k & 1) && b->has[n->in[k]];
            r.first[k] = r.into[k] && !reached[n->in[k]];
            if (r.into[k])
                reached[n->in[k]] = true;
        }
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
            r.trains[k] = n->weights[k] != LM_NONE && b->trained[n->weights[k]];
        b->nodes[b->n_nodes++] = r;
    }
}

/* Check that some operation has a gradient for every trained weight. */
static lm_status check(const lm_backward *b, bool *found, lm_error *e)
{
    const lm_program *p = b->program;

    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
            if (p->nodes[i].weights[k] != LM_NONE && (lm_op_of(p->nodes[i].code)->trains_weights >> k & 1))
                found[p->nodes[i].weights[k]] = true;
    for (uint32_t w = 0; w < p->n_weights; w++)
        if (b->trained[w] && !found[w])
            return lm_fail(e, LM_UNSUPPORTED, p->weights[w].path, LM_NO_OFFSET,
                           "has no gradient: it acts through a choice only");
    return LM_OK;
}

static lm_status reverse(lm_backward *b, const bool *wanted, lm_error *e)
{
    const lm_program *p = b->program;

    b->trained    = lm_arena_new(&b->arena, p->n_weights + 1, bool);
    b->has        = lm_arena_new(&b->arena, p->n_values + 1, bool);
    b->nodes      = lm_arena_new(&b->arena, p->n_nodes + 1, lm_reverse);
    bool *found   = lm_arena_new(&b->arena, p->n_weights + 1, bool);
    bool *used    = lm_arena_new(&b->arena, p->n_values + 1, bool);
    bool *reached = lm_arena_new(&b->arena, p->n_values + 1, bool);
    if (!b->trained || !b->has || !b->nodes || !found || !used || !reached)
        return lm_fail_memory(e, "reverse program", 0);
    for (uint32_t w = 0; w < p->n_weights; w++) {
        b->trained[w] = wanted[w];
        b->n_trained += wanted[w];
        b->trained_elements += wanted[w] ? p->weights[w].elements : 0;
    }
    b->tail = lm_program_head(p);
    LM_TRY(check(b, found, e));
    if (!b->n_trained || !mark(b))
        return lm_fail(e, LM_USAGE, p->class_name, LM_NO_OFFSET,
                       "the loss depends on nothing that is to be trained");
    keep_used(b, used);
    turn(b, reached);
    return LM_OK;
}

lm_status lm_program_backward(const lm_program *p, const bool *wanted, lm_backward **out, lm_error *e)
{
    lm_backward *b = lm_alloc_zero(1, sizeof *b);

    if (!b)
        return lm_fail_memory(e, "reverse program", sizeof *b);
    b->program       = p;
    lm_status status = reverse(b, wanted, e);
    if (status != LM_OK) {
        lm_backward_free(b);
        return status;
    }
    *out = b;
    return LM_OK;
}

void lm_backward_free(lm_backward *b)
{
    if (!b)
        return;
    lm_arena_free(&b->arena);
    lm_free(b);
}

/* ---- costs ---- */

static uint64_t width(const lm_backward *b, lm_value v)
{
    return b->program->values[v].width;
}

/* Per row with a label: a maximum, a sum of exponentials, and the difference. */
static void loss_cost(const lm_backward *b, lm_cost *c)
{
    c->flops = 5 * width(b, b->program->logits);
}

void lm_reverse_cost(const lm_backward *b, const lm_reverse *r, lm_cost *c)
{
    *c = (lm_cost){ 0 };
    if (r->node == LM_NONE) {
        loss_cost(b, c);
        return;
    }
    const lm_node *n  = &b->program->nodes[r->node];
    const lm_op   *op = lm_op_of(n->code);
    lm_cost        forward;
    lm_value       reads[LM_MAX_READS];
    lm_node_cost(b->program, n, &forward);
    for (uint32_t i = lm_reverse_reads(b, r, reads); i-- > 0;)
        c->reads += width(b, reads[i]);
    c->reads += width(b, n->out);
    for (uint32_t k = 0; k < n->n_in; k++)
        c->writes += r->into[k] ? width(b, n->in[k]) : 0;
    c->flops = op->reverse_flops ? op->reverse_flops * width(b, n->out) : forward.flops;
    if (op->reverse_cost)
        op->reverse_cost(n, r, &forward, c);
}

/* ---- printing ---- */

static void print_values(const lm_value *v, uint32_t n, const char *sign, lm_text *out)
{
    for (uint32_t i = 0; i < n; i++)
        lm_text_printf(out, "%s%s%%%u", i ? ", " : "", sign, v[i]);
}

static void print_reverse(const lm_backward *b, const lm_reverse *r, lm_text *out)
{
    const lm_program *p = b->program;
    const lm_node    *n = r->node == LM_NONE ? NULL : &p->nodes[r->node];
    lm_value          reads[LM_MAX_READS];
    uint32_t          count = lm_reverse_reads(b, r, reads);
    lm_cost           cost;

    lm_reverse_cost(b, r, &cost);
    if (!n) {
        lm_text_printf(out, "%-46s %-16s d%%%u = softmax - label\n", "loss", "cross_entropy", p->logits);
        return;
    }
    lm_text_printf(out, "%-46s %-11s back d%%%u", n->path, lm_op_of(n->code)->name, n->out);
    if (count) {
        lm_text_add_str(out, " with ");
        print_values(reads, count, "", out);
    }
    lm_text_add_str(out, " ->");
    for (uint32_t k = 0; k < n->n_in; k++)
        if (r->into[k])
            lm_text_printf(out, " d%%%u%s", n->in[k], r->first[k] ? "" : " +=");
    for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
        if (r->trains[k])
            lm_text_printf(out, "  d %s", p->weights[n->weights[k]].path);
    lm_text_printf(out, "  %" PRIu64 " FLOPs a row", cost.flops);
    if (cost.key_flops)
        lm_text_printf(out, ", %" PRIu64 " a key", cost.key_flops);
    if (r->tail)
        lm_text_add_str(out, ", in pieces of rows");
    lm_text_add_char(out, '\n');
}

void lm_backward_print(const lm_backward *b, lm_text *out)
{
    lm_language before = lm_language_set(LM_ENGLISH);

    lm_text_printf(out, "%s backwards: %u reverses, %u weights trained, %" PRIu64 " numbers\n",
                   b->program->class_name, b->n_nodes, b->n_trained, b->trained_elements);
    for (uint32_t i = 0; i < b->n_nodes; i++)
        print_reverse(b, &b->nodes[i], out);
    lm_language_set(before);
}
