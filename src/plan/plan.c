/* plan.c - from a program to stages: which rows, which fusions, which kernels. */
#include "plan/plan.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "plan/cache.h"
#include "plan/slab.h"

#define MAX_TABLES 8

/* What is known about a value while its program is compiled. */
typedef struct value_state {
    bool     all;            /* needed for every row */
    bool     probed;
    uint32_t uses;
    uint32_t consumer;       /* the last operation that reads it */
    uint32_t buffer;
    uint32_t gathered;       /* buffer of its wanted rows */
    uint32_t packed;         /* buffer of its packed rows … */
    const lm_activation *packed_as;
    lm_domain packed_domain; /* … in this form */
} value_state;

typedef struct compiler {
    const lm_program      *p;
    const lm_plan_options *o;
    lm_plan               *plan;
    value_state           *values;
    bool                  *done;     /* operations that were fused into an earlier one */
    uint32_t               capacity_steps, capacity_buffers;
} compiler;

/* ---- which rows ---- */

/* From the end backward: a value is needed for every row when something that is needed for every row reads it, or when it
 * becomes a key or a value of the cache. */
static void find_domains(compiler *c)
{
    for (uint32_t i = 0; i < c->o->n_probes; i++) {
        c->values[c->o->probes[i]].probed = true;
        c->values[c->o->probes[i]].all    = true;
    }
    for (uint32_t i = c->p->n_nodes; i-- > 0;) {
        const lm_node *n = &c->p->nodes[i];
        for (uint32_t k = 0; k < n->n_in; k++) {
            value_state *v = &c->values[n->in[k]];
            v->uses++;
            if (v->uses == 1)
                v->consumer = i;
            v->all |= c->values[n->out].all || (n->code == LM_OP_ATTENTION && k > 0);
        }
    }
}

static lm_domain domain_of(const compiler *c, lm_value v)
{
    return c->values[v].all ? LM_ALL_ROWS : LM_WANTED_ROWS;
}

/* ---- buffers and steps ---- */

static uint32_t new_visits(compiler *c, const char *name, uint64_t stride, lm_domain domain, uint32_t times)
{
    lm_plan *plan = c->plan;

    plan->buffers[plan->n_buffers] = (lm_buffer){
        .name   = name,
        .stride = (stride + 63) & ~UINT64_C(63),
        .rows   = (uint64_t)(domain == LM_ALL_ROWS ? c->o->rows : c->o->logit_rows) * times,
        .first  = LM_NONE,
        .domain = domain,
    };
    return plan->n_buffers++;
}

static uint32_t new_buffer(compiler *c, const char *name, uint64_t stride, lm_domain domain)
{
    return new_visits(c, name, stride, domain, 1);
}

static uint32_t value_buffer(compiler *c, lm_value v)
{
    const lm_value_info *info = &c->p->values[v];

    c->values[v].buffer = new_buffer(c, c->p->nodes[info->producer].path, (uint64_t)info->width * 4, domain_of(c, v));
    return c->values[v].buffer;
}

static lm_step *new_step(compiler *c, lm_step_code code, uint32_t node, lm_domain domain)
{
    lm_step *s = &c->plan->steps[c->plan->n_steps++];

    *s = (lm_step){ .code = code, .node = node, .domain = domain, .in = { LM_NONE, LM_NONE, LM_NONE }, .out = LM_NONE,
                    .add = LM_NONE, .scale = 1, .times = 1, .weight = LM_NONE, .table = LM_NONE };
    return s;
}

/* The buffer that holds `v` for the rows of `domain`; the wanted rows of a value that exists for all are gathered once. */
static uint32_t input(compiler *c, lm_value v, lm_domain domain)
{
    value_state *s = &c->values[v];

    if (domain_of(c, v) == domain)
        return s->buffer;
    if (s->gathered == LM_NONE) {
        s->gathered = new_buffer(c, c->p->nodes[c->p->values[v].producer].path, (uint64_t)c->p->values[v].width * 4, domain);
        lm_step *g  = new_step(c, LM_STEP_GATHER, c->p->values[v].producer, domain);
        g->in[0]    = s->buffer;
        g->out      = s->gathered;
    }
    return s->gathered;
}

/* `v` as a kind of matmul reads it. */
static uint32_t packed(compiler *c, lm_value v, lm_domain domain, const lm_matmul *m)
{
    value_state *s   = &c->values[v];
    uint32_t     raw = input(c, v, domain);

    if (!m->x->pack)
        return raw;
    if (s->packed != LM_NONE && s->packed_as == m->x && s->packed_domain == domain)
        return s->packed;
    uint64_t cols    = c->p->values[v].width;
    s->packed        = new_buffer(c, c->p->nodes[c->p->values[v].producer].path, m->x->bytes(cols), domain);
    s->packed_as     = m->x;
    s->packed_domain = domain;
    lm_step *pack    = new_step(c, LM_STEP_PACK, c->p->values[v].producer, domain);
    pack->in[0]      = raw;
    pack->out        = s->packed;
    pack->matmul     = m;
    pack->width      = (uint32_t)cols;
    return s->packed;
}

/* May the operation write over its input? Only when nobody else reads it and nobody looks. */
static bool can_overwrite(const compiler *c, lm_value in, lm_value out)
{
    return c->values[in].uses == 1 && !c->values[in].probed && domain_of(c, in) == domain_of(c, out) &&
           c->p->values[in].width == c->p->values[out].width;
}

static uint32_t output_over(compiler *c, lm_value in, lm_value out)
{
    if (!can_overwrite(c, in, out))
        return value_buffer(c, out);
    c->values[out].buffer = c->values[in].buffer;
    return c->values[out].buffer;
}

/* ---- operations ---- */

/* The only reader of `v`, when there is one, it is of this kind, and the value in between need not exist. */
static const lm_node *sole_reader(const compiler *c, lm_value v, lm_op_code code)
{
    const value_state *s = &c->values[v];
    const lm_node     *n = s->uses == 1 ? &c->p->nodes[s->consumer] : NULL;

    return n && n->code == code && !s->probed && domain_of(c, v) == domain_of(c, n->out) ? n : NULL;
}

/* x W^T + b, with a scale and an addition that follow folded in where the other operand is there already. */
static void compile_linear(compiler *c, uint32_t index)
{
    const lm_node *n      = &c->p->nodes[index];
    lm_domain      domain = domain_of(c, n->out);
    const lm_matmul *m    = c->plan->weights[n->weights[0]].matmul;
    uint32_t       x      = packed(c, n->in[0], domain, m);
    lm_value       out    = n->out, other = LM_NONE;
    float          scale  = 1;
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
    uint32_t add  = added ? input(c, other, domain) : LM_NONE;
    uint32_t y    = value_buffer(c, out);
    lm_step *s    = new_step(c, LM_STEP_MATMUL, index, domain);
    s->in[0]      = x;
    s->out        = y;
    s->add        = add;
    s->scale      = scale;
    s->matmul     = m;
    s->weight     = n->weights[0];
}

/* ---- experts ----
 * Rows are visits: row r visits the k experts of its route. Sorted by expert, so that each expert's matrices are read once
 * for all of its visits; a row's visits are summed in the order of its route, whatever else is in the step. */

static uint32_t pack_visits(compiler *c, uint32_t in, const lm_matmul *m, uint32_t width, const lm_node *n, lm_domain domain)
{
    if (!m->x->pack)
        return in;
    uint32_t out = new_visits(c, n->path, m->x->bytes(width), domain, n->experts.top_k);
    lm_step *s   = new_step(c, LM_STEP_PACK, (uint32_t)(n - c->p->nodes), domain);
    s->in[0]     = in;
    s->out       = out;
    s->matmul    = m;
    s->width     = width;
    s->times     = n->experts.top_k;
    return out;
}

static uint32_t visit_experts(compiler *c, const lm_node *n, lm_domain domain, uint32_t which, uint32_t x, uint32_t order)
{
    const lm_weight *w   = &c->p->weights[n->weights[which]];
    uint32_t         out = new_visits(c, n->path, w->dims[1] * 4, domain, n->experts.top_k);
    lm_step         *s   = new_step(c, LM_STEP_EXPERTS, (uint32_t)(n - c->p->nodes), domain);

    s->in[0]  = x;
    s->in[1]  = order;
    s->out    = out;
    s->weight = n->weights[which];
    s->matmul = c->plan->weights[s->weight].matmul;
    s->times  = n->experts.top_k;
    return out;
}

static void compile_experts(compiler *c, uint32_t index)
{
    const lm_node   *n      = &c->p->nodes[index];
    lm_domain        domain = domain_of(c, n->out);
    uint32_t         k = n->experts.top_k, e = n->experts.n_experts;
    const lm_matmul *m = c->plan->weights[n->weights[0]].matmul, *d = c->plan->weights[n->weights[2]].matmul;
    uint32_t         x = packed(c, n->in[0], domain, m), route = input(c, n->in[1], domain);

    /* order: [visits] row, [visits] place of each (row, choice), then where each expert's visits begin [E + 1] */
    uint64_t rows  = domain == LM_ALL_ROWS ? c->o->rows : c->o->logit_rows;
    uint32_t order = new_buffer(c, "visits", ((uint64_t)e + 2 + 2 * rows * k) * 4, domain);
    c->plan->buffers[order].rows = 1;
    lm_step *sort                = new_step(c, LM_STEP_SORT, index, domain);
    sort->in[0]                  = route;
    sort->out                    = order;
    uint32_t stride              = (uint32_t)c->plan->buffers[x].stride;
    uint32_t visits              = new_visits(c, n->path, stride, domain, k);
    lm_step *visit               = new_step(c, LM_STEP_VISIT, index, domain);
    visit->in[0]                 = x;
    visit->in[1]                 = order;
    visit->out                   = visits;
    visit->times                 = k;
    uint32_t gate                = visit_experts(c, n, domain, 0, visits, order);
    uint32_t up                  = visit_experts(c, n, domain, 1, visits, order);
    lm_step *glu                 = new_step(c, LM_STEP_GLU, index, domain);
    glu->in[0]                   = gate;
    glu->in[1]                   = up;
    glu->out                     = gate;
    glu->width                   = n->experts.width;
    glu->times                   = k;
    uint32_t inner               = pack_visits(c, gate, d, n->experts.width, n, domain);
    uint32_t down                = visit_experts(c, n, domain, 2, inner, order);
    uint32_t y                   = value_buffer(c, n->out);
    lm_step *sum                 = new_step(c, LM_STEP_COMBINE, index, domain);
    sum->in[0]                   = down;
    sum->in[1]                   = order;
    sum->in[2]                   = route;
    sum->out                     = y;
}

static void compile_attention(compiler *c, uint32_t index)
{
    const lm_node *n      = &c->p->nodes[index];
    lm_domain      domain = domain_of(c, n->out);
    uint32_t       q      = input(c, n->in[0], domain);
    lm_step       *store  = new_step(c, LM_STEP_STORE, index, LM_ALL_ROWS);

    store->in[0]  = input(c, n->in[1], LM_ALL_ROWS);
    store->in[1]  = input(c, n->in[2], LM_ALL_ROWS);
    lm_step *s    = new_step(c, LM_STEP_ATTENTION, index, domain);
    s->in[0]      = q;
    s->out        = value_buffer(c, n->out);
}

static bool works_in_place(lm_step_code code)
{
    return code == LM_STEP_ROPE || code == LM_STEP_SCALE || code == LM_STEP_GLU || code == LM_STEP_ACT ||
           code == LM_STEP_SOFTCAP || code == LM_STEP_CLAMP;
}

static void compile_simple(compiler *c, uint32_t index, lm_step_code code)
{
    const lm_node *n      = &c->p->nodes[index];
    lm_domain      domain = domain_of(c, n->out);
    uint32_t       in[2]  = { LM_NONE, LM_NONE };
    bool           over   = works_in_place(code);

    for (uint32_t k = 0; k < n->n_in && k < 2; k++)
        in[k] = input(c, n->in[k], domain);
    uint32_t out = over ? output_over(c, n->in[0], n->out) : value_buffer(c, n->out);
    lm_step *s   = new_step(c, code, index, domain);
    s->in[0]     = in[0];
    s->in[1]     = in[1];
    s->out       = out;
    if (n->code == LM_OP_ROPE)
        s->table = n->rope.table;
    if (n->n_in)
        s->width = c->p->values[n->in[0]].width;
    if (n->code == LM_OP_EMBED || n->code == LM_OP_POSITION) {
        s->weight = n->weights[0];
        s->matmul = c->plan->weights[n->weights[0]].matmul;
    }
}

/* Operations that become one step of the same kind. */
static const lm_step_code simple_steps[LM_OP_COUNT] = {
    [LM_OP_EMBED] = LM_STEP_EMBED,       [LM_OP_POSITION] = LM_STEP_POSITION,     [LM_OP_SINUSOID] = LM_STEP_SINUSOID,
    [LM_OP_RMS_NORM] = LM_STEP_RMS_NORM, [LM_OP_LAYER_NORM] = LM_STEP_LAYER_NORM, [LM_OP_ROPE] = LM_STEP_ROPE,
    [LM_OP_ADD] = LM_STEP_ADD,           [LM_OP_SCALE] = LM_STEP_SCALE,           [LM_OP_GLU] = LM_STEP_GLU,
    [LM_OP_ACT] = LM_STEP_ACT,           [LM_OP_COLUMNS] = LM_STEP_COLUMNS,       [LM_OP_SOFTCAP] = LM_STEP_SOFTCAP,
    [LM_OP_CLAMP] = LM_STEP_CLAMP,       [LM_OP_ROUTE] = LM_STEP_ROUTE,
};

static void compile_node(compiler *c, uint32_t i)
{
    lm_op_code code = c->p->nodes[i].code;

    if (code == LM_OP_LINEAR)
        compile_linear(c, i);
    else if (code == LM_OP_ATTENTION)
        compile_attention(c, i);
    else if (code == LM_OP_EXPERTS)
        compile_experts(c, i);
    else
        compile_simple(c, i, simple_steps[code]);
}

static void compile_tables(compiler *c)
{
    for (uint32_t t = 0; t < c->p->n_ropes; t++) {
        uint32_t b               = new_buffer(c, "rotary table", (uint64_t)c->p->ropes[t].spec.dim * 4, LM_ALL_ROWS);
        lm_step *s               = new_step(c, LM_STEP_TABLE, LM_NONE, LM_ALL_ROWS);
        s->out                   = b;
        s->table                 = t;
        c->plan->table_buffer[t] = b;
    }
}

/* ---- stages ---- */

static lm_split split_of(lm_step_code code)
{
    switch (code) {
    case LM_STEP_MATMUL:
    case LM_STEP_EXPERTS:
        return LM_BY_OUTPUTS;
    case LM_STEP_ATTENTION:
        return LM_BY_HEADS;
    case LM_STEP_SORT:
        return LM_ALONE;
    default:
        return LM_BY_ROWS;
    }
}

static bool reads(const lm_step *s, uint32_t buffer)
{
    return s->in[0] == buffer || s->in[1] == buffer || s->in[2] == buffer || s->add == buffer;
}

/* Steps by rows follow each other freely, for each worker stays on its rows. Products join when none reads what another
 * of the stage writes. */
static bool joins(const lm_plan *plan, const lm_stage *stage, const lm_step *s)
{
    if (stage->split != split_of(s->code) || stage->domain != s->domain || stage->times != s->times ||
        stage->split == LM_BY_HEADS || stage->split == LM_ALONE)
        return false;
    if (stage->split == LM_BY_ROWS)
        return true;
    for (uint32_t i = stage->first; i < stage->end; i++)
        if (reads(s, plan->steps[i].out))
            return false;
    return true;
}

static void touch(lm_plan *plan, uint32_t buffer, uint32_t stage)
{
    if (buffer == LM_NONE)
        return;
    lm_buffer *b = &plan->buffers[buffer];
    if (b->first == LM_NONE)
        b->first = stage;
    b->last = stage;
}

static void make_stages(compiler *c)
{
    lm_plan *plan = c->plan;

    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const lm_step *s = &plan->steps[i];
        if (!plan->n_stages || !joins(plan, &plan->stages[plan->n_stages - 1], s)) {
            plan->stages[plan->n_stages] = (lm_stage){ split_of(s->code), s->domain, s->times, i, i };
            plan->n_stages++;
        }
        lm_stage *stage = &plan->stages[plan->n_stages - 1];
        uint32_t  at    = plan->n_stages - 1;
        stage->end      = i + 1;
        for (uint32_t k = 0; k < 3; k++)
            touch(plan, s->in[k], at);
        touch(plan, s->add, at);
        touch(plan, s->out, at);
        if (s->code == LM_STEP_ROPE)
            touch(plan, plan->table_buffer[s->table], at);
    }
    /* What is looked at after the step stays until the next one. */
    plan->buffers[plan->logits].last = plan->n_stages;
    for (uint32_t i = 0; i < c->o->n_probes; i++)
        plan->buffers[c->values[c->o->probes[i]].buffer].last = plan->n_stages;
}

/* ---- weights ---- */

static lm_status place_matrix(const compiler *c, uint32_t i, uint64_t *offset, lm_error *e)
{
    const lm_weight *w    = &c->p->weights[i];
    lm_placement    *at   = &c->plan->weights[i];
    lm_dtype         type = c->o->types[i];
    const lm_kernels *k   = c->o->kernels;
    bool             many = w->kind == LM_EXPERTS;
    uint64_t         row, bytes, n = many ? w->dims[0] : 1, outs = w->dims[many], cols = w->dims[many + 1];

    at->matmul = (uint32_t)type < LM_DTYPE_SLOTS ? (c->o->exact ? k->exact[type] : k->fast[type]) : NULL;
    if (!at->matmul)
        return lm_fail(e, LM_UNSUPPORTED, w->path, LM_NO_OFFSET, "no kernel multiplies a matrix stored as %s", lm_dtype_of(type)->name);
    if (!lm_dtype_row_bytes(type, cols, &row) || !lm_mul_u64(row, outs, &bytes) || !lm_mul_u64(bytes, n, &bytes))
        return lm_fail(e, LM_BAD_MODEL, w->path, LM_NO_OFFSET, "rows of %" PRIu64 " are not whole blocks of %s", cols,
                       lm_dtype_of(type)->name);
    at->type  = type;
    at->kind  = at->matmul->packed_bytes                ? LM_PACKED
                : c->o->turned && c->o->turned[i] ? LM_TURNED
                                                  : LM_MAPPED;
    at->bytes = at->matmul->packed_bytes ? at->matmul->packed_bytes(outs, cols) * n : bytes;
    if (at->kind == LM_MAPPED) {
        c->plan->mapped_bytes += at->bytes;
    } else {
        at->offset = *offset;
        *offset += (at->bytes + 63) & ~UINT64_C(63);
    }
    return LM_OK;
}

static lm_status place_weights(compiler *c, lm_error *e)
{
    uint64_t offset = 0;

    for (uint32_t i = 0; i < c->p->n_weights; i++) {
        const lm_weight *w  = &c->p->weights[i];
        lm_placement    *at = &c->plan->weights[i];
        if (w->kind != LM_VECTOR) {
            LM_TRY(place_matrix(c, i, &offset, e));
            continue;
        }
        *at = (lm_placement){ LM_FLOATS, c->o->types[i], offset, w->elements * 4, NULL };
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

static uint64_t worker_bytes(const compiler *c)
{
    uint64_t most = 64;

    for (uint32_t i = 0; i < c->p->n_nodes; i++) {
        const lm_node *n = &c->p->nodes[i];
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS && n->weights[k] != LM_NONE; k++) {
            const lm_weight *w = &c->p->weights[n->weights[k]];
            const lm_matmul *m = c->plan->weights[n->weights[k]].matmul;
            if (m && m->scratch_bytes)
                most = larger(most, m->scratch_bytes(w->dims[w->n_dims - 1]));
        }
        if (n->code == LM_OP_ATTENTION) {
            const lm_attention_spec *s = &n->attention.spec;
            most = larger(most, c->o->kernels->attention.scratch_bytes(&c->plan->layers[n->attention.cache].shape,
                                                                       s->n_heads / s->n_kv_heads));
        }
    }
    for (uint32_t t = 0; t < c->p->n_ropes; t++)
        most = larger(most, (uint64_t)c->p->ropes[t].spec.dim * 2);
    return (most + 63) & ~UINT64_C(63);
}

static void place_state(compiler *c)
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
    s->positions    = reserve(&at, (uint64_t)o->rows * 4);
    s->sequences    = reserve(&at, (uint64_t)o->rows * 4);
    s->tokens       = reserve(&at, (uint64_t)o->rows * 4);
    s->lengths      = reserve(&at, (uint64_t)o->rows * 4);
    s->wanted       = reserve(&at, (uint64_t)o->logit_rows * 4);
    s->logit_index  = reserve(&at, (uint64_t)o->rows * 4);
    s->seq_length   = reserve(&at, (uint64_t)o->sequences * 4);
    s->seq_next     = reserve(&at, (uint64_t)o->sequences * 4);
    s->page_tables  = reserve(&at, tables * 4);
    s->page_uses    = reserve(&at, pages * 4);
    s->page_free    = reserve(&at, pages * 4);
    s->frequencies  = reserve(&at, lanes * 4);
    s->slopes       = reserve(&at, slopes * 4);
    s->worker_bytes = worker_bytes(c);
    s->workers      = reserve(&at, s->worker_bytes * o->workers);
    plan->slab_bytes = at;
}

/* ---- the whole ---- */

static lm_status check_options(const lm_program *p, const lm_plan_options *o, lm_error *e)
{
    if (o->rows < 1 || o->rows > 65536)
        return lm_fail(e, LM_USAGE, "rows", LM_NO_OFFSET, "%u rows in a step; 1 to 65536 are possible", o->rows);
    if (o->logit_rows < 1 || o->logit_rows > o->rows)
        return lm_fail(e, LM_USAGE, "logit_rows", LM_NO_OFFSET, "%u rows with logits of %u", o->logit_rows, o->rows);
    if (o->sequences < 1 || o->sequences > 65536)
        return lm_fail(e, LM_USAGE, "sequences", LM_NO_OFFSET, "%u sequences; 1 to 65536 are possible", o->sequences);
    if (o->context < 1 || (p->context_is_hard && o->context > p->context_length))
        return lm_fail(e, LM_USAGE, "context", LM_NO_OFFSET, "%u positions; the model has %u", o->context, p->context_length);
    if (o->workers < 1 || o->workers > 1024)
        return lm_fail(e, LM_USAGE, "threads", LM_NO_OFFSET, "%u threads; 1 to 1024 are possible", o->workers);
    if (p->n_ropes > MAX_TABLES)
        return lm_fail(e, LM_UNSUPPORTED, p->family, LM_NO_OFFSET, "%u rotary tables; %u are possible", p->n_ropes, MAX_TABLES);
    return LM_OK;
}

static lm_status compile(compiler *c, lm_error *e)
{
    const lm_program *p    = c->p;
    lm_plan          *plan = c->plan;
    uint32_t         *order;

    LM_TRY(place_weights(c, e));
    LM_TRY(lm_plan_cache(plan, e));
    find_domains(c);
    compile_tables(c);
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (!c->done[i])
            compile_node(c, i);
    plan->logits = c->values[p->logits].buffer;
    for (uint32_t v = 0; v < p->n_values; v++)
        plan->value_buffer[v] = c->values[v].buffer;
    make_stages(c);
    order = lm_alloc(plan->n_buffers * sizeof *order);
    if (!order)
        return lm_fail_memory(e, "plan", plan->n_buffers * sizeof *order);
    lm_status status = lm_slab_place(plan->buffers, plan->n_buffers, order, &plan->slab_bytes, e);
    lm_free(order);
    LM_TRY(status);
    place_state(c);
    return LM_OK;
}

/* Upper bounds: an operation makes at most nine steps of its own (experts), two gathers and a packing; and as many buffers. */
static bool reserve_lists(compiler *c)
{
    const lm_program *p    = c->p;
    lm_plan          *plan = c->plan;
    size_t            most = 12 * (size_t)p->n_nodes + MAX_TABLES;

    plan->steps        = lm_arena_new(&plan->arena, most, lm_step);
    plan->stages       = lm_arena_new(&plan->arena, most, lm_stage);
    plan->buffers      = lm_arena_new(&plan->arena, most, lm_buffer);
    plan->weights      = lm_arena_new(&plan->arena, p->n_weights + 1, lm_placement);
    plan->groups       = lm_arena_new(&plan->arena, p->n_caches + 1, lm_kv_group);
    plan->layers       = lm_arena_new(&plan->arena, p->n_caches + 1, lm_kv_layer);
    plan->value_buffer = lm_arena_new(&plan->arena, p->n_values + 1, uint32_t);
    c->values          = lm_alloc_zero(p->n_values + 1, sizeof *c->values);
    c->done            = lm_alloc_zero(p->n_nodes + 1, sizeof *c->done);
    for (uint32_t v = 0; c->values && v < p->n_values; v++)
        c->values[v].buffer = c->values[v].gathered = c->values[v].packed = LM_NONE;
    return plan->steps && plan->stages && plan->buffers && plan->weights && plan->groups && plan->layers &&
           plan->value_buffer && c->values && c->done;
}

lm_status lm_plan_new(const lm_program *p, const lm_plan_options *o, lm_plan **out, lm_error *e)
{
    LM_TRY(check_options(p, o, e));
    lm_plan *plan = lm_alloc_zero(1, sizeof *plan);
    if (!plan)
        return lm_fail_memory(e, "plan", sizeof *plan);
    plan->program = p;
    plan->options = *o;

    compiler  c      = { .p = p, .o = &plan->options, .plan = plan };
    lm_status status = reserve_lists(&c) ? compile(&c, e) : lm_fail_memory(e, "plan", p->n_nodes * sizeof(lm_step));
    lm_free(c.values);
    lm_free(c.done);
    if (status != LM_OK) {
        lm_plan_free(plan);
        return status;
    }
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
