/* steps.c - compile operations to steps: choose rows, fusions and buffers. */
#include <string.h>

#include "plan/compile.h"
#include "program/op.h"

/* ---- domains ---- */

/* Go backward from the end: a value is needed for every row if a value that is needed for every row depends
 * on it, or if it becomes a key or a value in the cache. */
static void find_domains(lm_compiler *c)
{
    for (uint32_t i = 0; i < c->o->n_probes; i++) {
        c->values[c->o->probes[i]].probed = true;
        c->values[c->o->probes[i]].all    = true;
    }
    for (uint32_t i = c->p->n_nodes; i-- > 0;) {
        const lm_node *n = &c->p->nodes[i];
        /* the same rows as on the other rank */
        c->values[n->out].all |= lm_op_of(n->code)->state;
        if (n->code == LM_OP_SEND || n->code == LM_OP_RECEIVE)
            c->values[n->out].all |= !n->message.wanted;
        for (uint32_t k = 0; k < n->n_in; k++) {
            lm_value_state *v = &c->values[n->in[k]];
            v->uses++;
            if (v->uses == 1)
                v->consumer = i;
            v->all |= c->values[n->out].all || (lm_op_of(n->code)->all_rows >> k & 1);
        }
    }
}

/* ---- buffers and steps ---- */

uint32_t lm_plan_routed(lm_compiler *c, const char *name, uint64_t stride, lm_domain domain, uint32_t times)
{
    lm_plan *plan = c->plan;

    plan->buffers[plan->n_buffers] = (lm_buffer){
        .name   = name,
        .stride = (stride + 63) & ~UINT64_C(63),
        .rows   = (uint64_t)(domain == LM_ALL_ROWS ? c->o->max_rows : c->o->max_logits) * times,
        .first  = LM_NONE,
        .domain = domain,
    };
    return plan->n_buffers++;
}

uint32_t lm_plan_buffer(lm_compiler *c, const char *name, uint64_t stride, lm_domain domain)
{
    return lm_plan_routed(c, name, stride, domain, 1);
}

uint32_t lm_plan_value(lm_compiler *c, lm_value v)
{
    const lm_value_info *info = &c->p->values[v];

    c->values[v].buffer = lm_plan_buffer(c, c->p->nodes[info->producer].path, (uint64_t)info->width * 4,
                                         lm_domain_of(c, v));
    return c->values[v].buffer;
}

lm_step *lm_plan_step(lm_compiler *c, lm_step_code code, uint32_t node, lm_domain domain)
{
    lm_step *s = &c->plan->steps[c->plan->n_steps++];

    *s = (lm_step){ .code = code,
                    .node = node,
                    .domain = domain,
                    .in = { LM_NONE, LM_NONE, LM_NONE, LM_NONE, LM_NONE },
                    .out = LM_NONE,
                    .add = LM_NONE,
                    .scale = 1,
                    .times = 1,
                    .groups = 1,
                    .weight = LM_NONE,
                    .table = LM_NONE };
    return s;
}

uint32_t lm_plan_input(lm_compiler *c, lm_value v, lm_domain domain)
{
    lm_value_state *s = &c->values[v];

    if (lm_domain_of(c, v) == domain)
        return s->buffer;
    if (s->gathered == LM_NONE) {
        s->gathered = lm_plan_buffer(c, c->p->nodes[c->p->values[v].producer].path,
                                     (uint64_t)c->p->values[v].width * 4, domain);
        lm_step *g  = lm_plan_step(c, LM_STEP_GATHER, c->p->values[v].producer, domain);
        g->in[0]    = s->buffer;
        g->out      = s->gathered;
    }
    return s->gathered;
}

/* Return the adapter of a value, or 0. Values of an adapter exist only for its rows, except its sums with
 * values of the model. */
static uint32_t adapter_of(const lm_compiler *c, lm_value v)
{
    const lm_node *n = &c->p->nodes[c->p->values[v].producer];

    return n->code == LM_OP_ADD ? 0 : n->adapter;
}

uint32_t lm_plan_packed(lm_compiler *c, lm_value v, lm_domain domain, const lm_matmul *m)
{
    lm_value_state *s   = &c->values[v];
    uint32_t     raw = lm_plan_input(c, v, domain);

    if (!m->x->pack)
        return raw;
    /* the same layout */
    if (s->packed != LM_NONE && s->packed_as->bytes == m->x->bytes && s->packed_domain == domain)
        return s->packed;
    uint64_t cols    = c->p->values[v].width;
    s->packed = lm_plan_buffer(c, c->p->nodes[c->p->values[v].producer].path, m->x->bytes(cols), domain);
    s->packed_as     = m->x;
    s->packed_domain = domain;
    lm_step *pack    = lm_plan_step(c, LM_STEP_PACK, c->p->values[v].producer, domain);
    pack->in[0]      = raw;
    pack->out        = s->packed;
    pack->matmul     = m;
    pack->width      = (uint32_t)cols;
    pack->adapter    = adapter_of(c, v);
    return s->packed;
}

/* Return whether an operation may overwrite its input: only if the input has no other reader and is not
 * probed. */
static bool can_overwrite(const lm_compiler *c, lm_value in, lm_value out)
{
    return c->values[in].uses == 1 && !c->values[in].probed && lm_domain_of(c, in) == lm_domain_of(c, out) &&
           c->p->values[in].width == c->p->values[out].width;
}

static uint32_t output_over(lm_compiler *c, lm_value in, lm_value out)
{
    if (!can_overwrite(c, in, out))
        return lm_plan_value(c, out);
    c->values[out].buffer = c->values[in].buffer;
    return c->values[out].buffer;
}

/* ---- operations ---- */

/* Return the only reader of `v` if it is of this kind and `v` itself need not be stored; else NULL. */
static const lm_node *sole_reader(const lm_compiler *c, lm_value v, lm_op_code code)
{
    const lm_value_state *s = &c->values[v];
    const lm_node     *n = s->uses == 1 ? &c->p->nodes[s->consumer] : NULL;

    return n && n->code == code && !s->probed && lm_domain_of(c, v) == lm_domain_of(c, n->out) ? n : NULL;
}

static lm_step *product(lm_compiler *c, uint32_t index, uint32_t x, uint32_t y)
{
    const lm_node *n = &c->p->nodes[index];
    lm_step       *s = lm_plan_step(c, LM_STEP_MATMUL, index, lm_domain_of(c, n->out));

    s->in[0]   = x;
    s->out     = y;
    s->matmul  = c->plan->weights[n->weights[0]].matmul;
    s->weight  = n->weights[0];
    s->adapter = n->adapter;
    return s;
}

/* Return the operation that adds the output of an adapter to `v`, or NULL. */
static const lm_node *adapted(const lm_compiler *c, lm_value v)
{
    const lm_node *sum = sole_reader(c, v, LM_OP_ADD);

    return sum && sum->adapter && sum->in[0] == v ? sum : NULL;
}

/* Compile a product of an adapter: h B^T, scaled and added to the buffer that holds the adapted product. */
static void compile_adapter(lm_compiler *c, uint32_t index)
{
    const lm_node *n      = &c->p->nodes[index];
    const lm_node *scaled = sole_reader(c, n->out, LM_OP_SCALE);
    const lm_node *sum    = scaled ? sole_reader(c, scaled->out, LM_OP_ADD) : NULL;
    uint32_t x = lm_plan_packed(c, n->in[0], lm_domain_of(c, n->out), c->plan->weights[n->weights[0]].matmul);

    if (!sum || !c->done[sum - c->p->nodes]) {
        product(c, index, x, lm_plan_value(c, n->out));
        return;
    }
    c->done[scaled - c->p->nodes] = true;
    lm_step *s = product(c, index, x, c->values[sum->out].buffer);
    s->add     = s->out;
    s->scale   = scaled->scale.factor * c->values[sum->out].folded;
}

/* Compile x W^T + b, and fold in a following scale and an addition whose other operand already exists. Sums
 * with adapters in between are added to the same buffer afterwards, so rows without an adapter get the same
 * sums as in a model without adapters. */
static void compile_linear(lm_compiler *c, uint32_t index)
{
    const lm_node *n      = &c->p->nodes[index], *sum;
    lm_domain      domain = lm_domain_of(c, n->out);
    uint32_t       x      = lm_plan_packed(c, n->in[0], domain, c->plan->weights[n->weights[0]].matmul);
    lm_value       out    = n->out, other = LM_NONE;
    float          scale  = 1;

    while ((sum = adapted(c, out)))
        out = sum->out;
    const lm_node *scaled = sole_reader(c, out, LM_OP_SCALE);
    const lm_node *added  = sole_reader(c, scaled ? scaled->out : out, LM_OP_ADD);

    if (added) {
        lm_value branch = scaled ? scaled->out : out;
        other           = added->in[0] == branch ? added->in[1] : added->in[0];
        if (other == branch || c->p->values[other].producer >= index)
            added = NULL;
    }
    if (added) {
        if (scaled) {
            scale                            = scaled->scale.factor;
            c->done[scaled - c->p->nodes]    = true;
        }
        c->done[added - c->p->nodes] = true;
        out                          = added->out;
    }
    uint32_t add = added ? lm_plan_input(c, other, domain) : LM_NONE;
    lm_step *s   = product(c, index, x, lm_plan_value(c, out));
    s->add       = add;
    s->scale     = scale;
    for (lm_value v = n->out; (sum = adapted(c, v)); v = sum->out) {
        c->done[sum - c->p->nodes]  = true;
        c->values[sum->out].buffer  = s->out;
        c->values[sum->out].folded  = scale;
    }
}

static void keep_entries(lm_compiler *c, uint32_t index, lm_value entries)
{
    uint32_t in = lm_plan_input(c, entries, LM_ALL_ROWS);

    lm_plan_step(c, LM_STEP_KEEP, index, LM_ALL_ROWS)->in[0] = in;
}

static void compile_attention(lm_compiler *c, uint32_t index)
{
    const lm_node *n      = &c->p->nodes[index];
    lm_domain      domain = lm_domain_of(c, n->out);
    uint32_t       q      = lm_plan_input(c, n->in[0], domain);

    if (!n->attention.stored) {
        lm_step *store = lm_plan_step(c, LM_STEP_STORE, index, LM_ALL_ROWS);
        store->in[0]   = lm_plan_input(c, n->in[1], LM_ALL_ROWS);
        if (!n->attention.spec.v_in_k)
            store->in[1] = lm_plan_input(c, n->in[2], LM_ALL_ROWS);
    }
    if (n->attention.spec.rate)
        keep_entries(c, index, n->in[4]);
    uint32_t chosen = n->attention.spec.top_k ? lm_plan_input(c, n->in[3], domain) : LM_NONE;
    lm_step *s      = lm_plan_step(c, LM_STEP_ATTENTION, index, domain);
    s->in[0]        = q;
    s->in[3]        = chosen;
    s->out          = lm_plan_value(c, n->out);
}

static void compile_select(lm_compiler *c, uint32_t index)
{
    const lm_node *n      = &c->p->nodes[index];
    lm_domain      domain = lm_domain_of(c, n->out);
    uint32_t       q      = lm_plan_input(c, n->in[0], domain);
    uint32_t       w      = n->in[2] == LM_NONE ? LM_NONE : lm_plan_input(c, n->in[2], domain);

    if (n->attention.spec.rate) {
        keep_entries(c, index, n->in[1]);
    } else {
        lm_step *store = lm_plan_step(c, LM_STEP_STORE, index, LM_ALL_ROWS);
        store->in[0]   = lm_plan_input(c, n->in[1], LM_ALL_ROWS);
    }
    lm_step *s   = lm_plan_step(c, LM_STEP_SELECT, index, domain);
    s->in[0]     = q;
    s->in[2]     = w;
    s->out       = lm_plan_value(c, n->out);
}

static void compile_state(lm_compiler *c, uint32_t index)
{
    const lm_node *n     = &c->p->nodes[index];
    uint32_t       in[LM_MAX_INPUTS];

    for (uint32_t k = 0; k < n->n_in; k++)
        in[k] = lm_plan_input(c, n->in[k], LM_ALL_ROWS);
    uint32_t out = lm_plan_value(c, n->out);
    lm_step *s   = lm_plan_step(c, LM_STEP_STATE, index, LM_ALL_ROWS);
    memcpy(s->in, in, n->n_in * sizeof *in);
    s->out = out;
}

/* Compile the product of every head's matrix with its group of x. Groups are packed separately, because a
 * packed row does not consist of packed groups. */
static void compile_heads(lm_compiler *c, uint32_t index)
{
    const lm_node   *n      = &c->p->nodes[index];
    lm_domain        domain = lm_domain_of(c, n->out);
    const lm_matmul *m      = c->plan->weights[n->weights[0]].matmul;
    uint32_t         x, groups = n->heads.n_heads, width = c->p->values[n->in[0]].width;

    if (n->heads.shared || !m->x->pack) {
        x = lm_plan_packed(c, n->in[0], domain, m);
    } else {
        uint32_t raw  = lm_plan_input(c, n->in[0], domain);
        x             = lm_plan_buffer(c, n->path, m->x->bytes(width / groups) * groups, domain);
        lm_step *pack = lm_plan_step(c, LM_STEP_PACK, index, domain);
        pack->in[0]   = raw;
        pack->out     = x;
        pack->matmul  = m;
        pack->width   = width / groups;
        pack->groups  = groups;
    }
    uint32_t y = lm_plan_value(c, n->out);
    lm_step *s = lm_plan_step(c, LM_STEP_HEADS, index, domain);
    s->in[0]   = x;
    s->out     = y;
    s->matmul  = m;
    s->weight  = n->weights[0];
}

/* Compile an exchange with all other ranks, then the combination of the received data row by row. */
static void compile_exchange(lm_compiler *c, uint32_t index)
{
    const lm_node *n      = &c->p->nodes[index];
    lm_domain      domain = lm_domain_of(c, n->out);
    uint32_t       x      = lm_plan_input(c, n->in[0], domain);
    bool           sum    = n->code == LM_OP_ALL_REDUCE;
    uint64_t       stride = 0;

    for (uint32_t r = 0; r < n->exchange.ranks; r++)
        stride += lm_rank_stride(c->p, n, r);
    uint32_t came = lm_plan_buffer(c, "from all ranks", stride, domain);
    lm_step *s    = lm_plan_step(c, LM_STEP_EXCHANGE, index, domain);
    s->in[0]      = x;
    s->out        = came;
    uint32_t y    = lm_plan_value(c, n->out);
    s             = lm_plan_step(c, sum ? LM_STEP_RANK_SUM : LM_STEP_RANK_LANES, index, domain);
    s->in[0]      = came;
    s->out        = y;
    s->width      = c->p->values[n->out].width;
}

/* The sent value keeps its buffer. */
static void compile_send(lm_compiler *c, uint32_t index)
{
    const lm_node *n      = &c->p->nodes[index];
    lm_domain      domain = lm_domain_of(c, n->out);
    uint32_t       x      = lm_plan_input(c, n->in[0], domain);
    lm_step       *s      = lm_plan_step(c, LM_STEP_SEND, index, domain);

    s->in[0]                  = x;
    s->width                  = c->p->values[n->out].width;
    c->values[n->out].buffer  = x;
}

static void compile_receive(lm_compiler *c, uint32_t index)
{
    const lm_node *n = &c->p->nodes[index];
    uint32_t       y = lm_plan_value(c, n->out);
    lm_step       *s = lm_plan_step(c, LM_STEP_RECEIVE, index, lm_domain_of(c, n->out));

    s->out   = y;
    s->width = c->p->values[n->out].width;
}

/* Compile an operation that is one step by rows. A sum with the output of an adapter works in place and
 * leaves other rows unchanged. */
static void compile_rows(lm_compiler *c, uint32_t index)
{
    const lm_node *n      = &c->p->nodes[index];
    lm_domain      domain = lm_domain_of(c, n->out);
    uint32_t       in[LM_MAX_INPUTS];
    bool           over   = lm_op_of(n->code)->in_place || (n->code == LM_OP_ADD && n->adapter);

    for (uint32_t k = 0; k < n->n_in; k++)
        in[k] = lm_plan_input(c, n->in[k], domain);
    uint32_t out = over ? output_over(c, n->in[0], n->out) : lm_plan_value(c, n->out);
    lm_step *s   = lm_plan_step(c, LM_STEP_ROWS, index, domain);
    memcpy(s->in, in, n->n_in * sizeof *in);
    s->out     = out;
    s->adapter = n->adapter;
    if (n->weights[0] != LM_NONE && c->p->weights[n->weights[0]].kind == LM_TABLE) {
        s->weight = n->weights[0];
        s->matmul = c->plan->weights[n->weights[0]].matmul;
    }
}

/* Operations with steps of their own; all others are one step by rows. */
static void (*const compilers[LM_OP_COUNT])(lm_compiler *c, uint32_t index) = {
    [LM_OP_LINEAR] = compile_linear,         [LM_OP_ATTENTION] = compile_attention,
    [LM_OP_SELECT_KEYS] = compile_select,
    [LM_OP_EXPERTS] = lm_plan_experts,       [LM_OP_HEAD_LINEAR] = compile_heads,
    [LM_OP_ALL_REDUCE] = compile_exchange,   [LM_OP_ALL_GATHER] = compile_exchange,
    [LM_OP_SEND] = compile_send,             [LM_OP_RECEIVE] = compile_receive,
    [LM_OP_CAUSAL_CONV] = compile_state,     [LM_OP_LINEAR_RECURRENCE] = compile_state,
    [LM_OP_SELECTIVE_SCAN] = compile_state,  [LM_OP_GATED_RECURRENCE] = compile_state,
    [LM_OP_COMPRESS] = compile_state,
};

static void compile_node(lm_compiler *c, uint32_t i)
{
    const lm_node *n = &c->p->nodes[i];

    if (n->code == LM_OP_LINEAR && n->adapter)
        compile_adapter(c, i);
    else
        (compilers[n->code] ? compilers[n->code] : compile_rows)(c, i);
}

static void compile_tables(lm_compiler *c)
{
    for (uint32_t t = 0; t < c->p->n_ropes; t++) {
        uint32_t b = lm_plan_buffer(c, "rotary table", (uint64_t)c->p->ropes[t].spec.dim * 4, LM_ALL_ROWS);
        lm_step *s               = lm_plan_step(c, LM_STEP_TABLE, LM_NONE, LM_ALL_ROWS);
        s->out                   = b;
        s->table                 = t;
        c->plan->table_buffer[t] = b;
    }
}

void lm_plan_steps(lm_compiler *c)
{
    find_domains(c);
    compile_tables(c);
    for (uint32_t i = 0; i < c->p->n_nodes; i++)
        if (!c->done[i])
            compile_node(c, i);
    c->plan->logits = c->values[c->p->logits].buffer;
    for (uint32_t v = 0; v < c->p->n_values; v++)
        c->plan->value_buffer[v] = c->values[v].buffer;
}
