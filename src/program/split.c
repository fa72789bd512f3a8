/* split.c - make the program of one rank, operation by operation. */
#include "program/split.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "program/split_choose.h"

/* ---- operations of the new program ---- */

static uint32_t width(const lm_splitter *s, lm_value v)
{
    return s->p->values[v].width;
}

/* Add a copy of `from` with a new output of `wide` lanes. `word`: appended to its path; NULL: the path is
 * unchanged. The caller sets the inputs. */
static lm_node *add_node(lm_splitter *s, const lm_node *from, const char *word, uint32_t wide)
{
    static lm_node nowhere;
    lm_program    *o = s->out;

    if (o->n_nodes == s->capacity) {
        size_t         more = s->capacity * 2;
        lm_node       *nodes = lm_realloc(o->nodes, more * sizeof *nodes);
        lm_value_info *values = nodes ? lm_realloc(o->values, more * sizeof *values) : NULL;
        o->nodes    = nodes ? nodes : o->nodes;
        o->values   = values ? values : o->values;
        s->failed |= !values;
        s->capacity = values ? more : s->capacity;
    }
    if (s->failed)
        return &nowhere;
    lm_node *n = &o->nodes[o->n_nodes];
    *n         = *from;
    if (word)
        n->path = lm_arena_printf(&o->arena, "%s.%s", from->path, word);
    s->failed |= !n->path;
    n->out     = o->n_values;
    o->values[o->n_values++] = (lm_value_info){ wide, o->n_nodes };
    o->n_nodes++;
    return n;
}

static lm_node *add_plain(lm_splitter *s, const lm_node *from, const char *word, lm_op_code code, lm_value in,
                          uint32_t wide)
{
    lm_node *n = add_node(s, from, word, wide);

    n->code  = code;
    n->n_in  = 1;
    n->in[0] = in;
    for (uint32_t i = 1; i < LM_MAX_INPUTS; i++)
        n->in[i] = LM_NONE;
    for (uint32_t i = 0; i < LM_MAX_WEIGHTS; i++)
        n->weights[i] = LM_NONE;
    return n;
}

static lm_value add_columns(lm_splitter *s, const lm_node *from, const char *word, lm_value in,
                            uint64_t offset, uint64_t lanes)
{
    lm_node *n        = add_plain(s, from, word, LM_OP_COLUMNS, in, (uint32_t)lanes);
    n->columns.groups = 1;
    n->columns.offset = (uint32_t)offset;
    return n->out;
}

/* `edges`: lanes of all ranks. */
static lm_value add_gather(lm_splitter *s, const lm_node *from, lm_value in, const uint32_t *edges)
{
    uint32_t  ranks  = s->spec->ranks;
    uint32_t *widths = lm_arena_new(&s->out->arena, ranks, uint32_t);

    s->failed |= !widths;
    for (uint32_t r = 0; widths && r < ranks; r++)
        widths[r] = edges[r + 1] - edges[r];
    lm_node *n         = add_plain(s, from, "gather", LM_OP_ALL_GATHER, in, edges[ranks] - edges[0]);
    n->exchange.ranks  = ranks;
    n->exchange.rank   = s->spec->rank;
    n->exchange.widths = widths;
    return n->out;
}

static lm_value add_reduce(lm_splitter *s, const lm_node *from, lm_value in, uint32_t wide)
{
    lm_node *n        = add_plain(s, from, "sum", LM_OP_ALL_REDUCE, in, wide);
    n->exchange.ranks = s->spec->ranks;
    n->exchange.rank  = s->spec->rank;
    n->exchange.widths = NULL;
    return n->out;
}

/* ---- values ---- */

static lm_value whole_of(lm_splitter *s, lm_value v)
{
    lm_split_value *x = &s->values[v];

    if (x->whole == LM_NONE && x->edges)
        x->whole = add_gather(s, &s->p->nodes[s->p->values[v].producer], x->here, x->edges);
    return x->whole;
}

/* Compute the position of `lanes` lanes from `first` on among the lanes on this rank; return false if they
 * are not in one piece. */
static bool place_in(lm_pieces here, uint64_t first, uint64_t lanes, uint64_t *at)
{
    uint64_t before = 0;

    for (uint32_t i = 0; i < here.n; before += here.at[i++].n)
        if (first >= here.at[i].first && first + lanes <= here.at[i].first + here.at[i].n) {
            *at = before + first - here.at[i].first;
            return true;
        }
    return false;
}

/* Return the lanes `want` of a value as a value of the new program: the existing part, or concatenated
 * columns of it. */
static lm_value part_of(lm_splitter *s, const lm_node *reader, lm_value v, lm_pieces want)
{
    lm_split_value *x = &s->values[v];
    lm_value        from, out = LM_NONE;

    if (!want.n)
        return whole_of(s, v);
    if (x->cut && lm_pieces_same(x->part, want))
        return x->here;
    from = x->cut ? x->here : whole_of(s, v);
    if (!x->cut && want.n == 1 && want.at[0].n == width(s, v))
        return from;
    for (uint32_t i = 0; i < want.n && !s->failed; i++) {
        uint64_t at = want.at[i].first;
        if (x->cut && !place_in(x->part, at, want.at[i].n, &at))
            return LM_NONE;
        lm_value lanes = add_columns(s, reader, "part", from, at, want.at[i].n);
        if (out != LM_NONE) {
            lm_value before = out;
            lm_node *n = add_plain(s, reader, "parts", LM_OP_JOIN, before,
                                   s->out->values[before].width + (uint32_t)want.at[i].n);
            n->n_in         = 2;
            n->in[1]        = lanes;
            n->join.groups  = 1;
            n->join.shared  = false;
            out             = n->out;
        } else {
            out = lanes;
        }
    }
    return out;
}

/* ---- weights ---- */

/* Cut weight w to these rows, columns and matrices; n 0: all. */
static uint32_t cut_weight(lm_splitter *s, uint32_t w, lm_pieces rows, lm_row_range cols,
                           lm_row_range matrices)
{
    lm_weight *x   = w == LM_NONE ? NULL : &s->out->weights[w];
    lm_cut    *cut = x ? lm_arena_new(&s->out->arena, 1, lm_cut) : NULL;

    if (!x)
        return LM_NONE;
    s->failed |= !cut;
    if (s->failed)
        return w;
    bool     flat = x->n_dims == 1;
    uint64_t all = x->dims[flat ? 0 : x->n_dims - 2], across = flat ? 1 : x->dims[x->n_dims - 1];
    memcpy(cut->whole, x->dims, sizeof cut->whole);
    rows          = rows.n ? rows : lm_split_one(s, 0, all);
    cut->rows     = rows.at;
    cut->n_rows   = rows.n;
    cut->cols     = cols.n ? cols : (lm_row_range){ 0, across };
    cut->matrices = matrices.n ? matrices : (lm_row_range){ 0, x->n_dims == 3 ? x->dims[0] : 1 };
    x->dims[flat ? 0 : x->n_dims - 2] = lm_pieces_lanes(rows);
    if (!flat)
        x->dims[x->n_dims - 1] = cut->cols.n;
    if (x->n_dims == 3)
        x->dims[0] = cut->matrices.n;
    x->elements = x->dims[0] * (x->n_dims > 1 ? x->dims[1] : 1) * (x->n_dims > 2 ? x->dims[2] : 1);
    x->cut      = cut;
    return w;
}

static const lm_row_range all;
static const lm_pieces every;

/* Return a weight that can be cut: a second entry if another operation needs it whole (a tied head). */
static uint32_t own_weight(lm_splitter *s, uint32_t w)
{
    lm_program *o = s->out;

    if (o->weights[w].uses < 2)
        return w;
    o->weights[w].uses--;
    o->weights[o->n_weights]      = o->weights[w];
    o->weights[o->n_weights].uses = 1;
    o->weights[o->n_weights].kind = LM_MATRIX;
    s->source[o->n_weights]       = w;
    return o->n_weights++;
}

/* ---- products ---- */

static uint32_t block_of(const lm_splitter *s, uint32_t w)
{
    return s->spec->types ? lm_dtype_of(s->spec->types[w])->block : 1;
}

static bool on_blocks(const lm_splitter *s, uint32_t w, const uint32_t *edges)
{
    for (uint32_t r = 0; r <= s->spec->ranks; r++)
        if (edges[r] % block_of(s, w))
            return false;
    return true;
}

/* Make a product with the rows of the matrix for part of the outputs. */
static lm_value outputs(lm_splitter *s, const lm_node *n, lm_value in, lm_pieces part)
{
    uint32_t w    = own_weight(s, n->weights[0]);
    lm_node *made = add_node(s, n, NULL, (uint32_t)lm_pieces_lanes(part));

    made->in[0]      = in;
    made->weights[0] = cut_weight(s, w, part, all, all);
    made->weights[1] = cut_weight(s, n->weights[1], part, all, all);
    return made->out;
}

/* Compute a range of the outputs on each rank and gather all of them. */
static bool shared_outputs(lm_splitter *s, const lm_node *n, lm_value in)
{
    uint32_t *edges = lm_arena_new(&s->out->arena, s->spec->ranks + 1, uint32_t);

    s->failed |= !edges;
    if (s->failed || !lm_split_may_cut(s, n->weights[0]) ||
        !lm_split_edges(s->spec, width(s, n->out), 16, edges))
        return false;
    uint32_t first = edges[s->spec->rank], end = edges[s->spec->rank + 1];
    lm_value here  = outputs(s, n, in, lm_split_one(s, first, end - first));
    s->values[n->out].whole = add_gather(s, n, here, edges);
    return true;
}

/* Multiply the columns for the lanes on this rank: partial sums of every output, which are then added. Rank 0
 * adds the bias. */
static void shared_sums(lm_splitter *s, const lm_node *n)
{
    const lm_split_value *x    = &s->values[n->in[0]];
    lm_node              *made = add_node(s, n, NULL, width(s, n->out));

    made->in[0]      = x->here;
    made->weights[0] = cut_weight(s, n->weights[0], every, x->part.at[0], all);
    if (s->spec->rank)
        made->weights[1] = LM_NONE;
    s->values[n->out].whole = add_reduce(s, n, made->out, width(s, n->out));
}

static void make_linear(lm_splitter *s, const lm_node *n)
{
    lm_split_value *v = &s->values[n->out], *x = &s->values[n->in[0]];
    bool            cut = x->cut && x->edges;

    if (v->cut) {
        v->here = outputs(s, n, whole_of(s, n->in[0]), v->part);
        return;
    }
    if (cut && !s->spec->exact && lm_split_may_cut(s, n->weights[0]) &&
        on_blocks(s, n->weights[0], x->edges) && s->out->weights[n->weights[0]].uses == 1) {
        shared_sums(s, n);
        return;
    }
    lm_value in = whole_of(s, n->in[0]);
    if ((cut || n == &s->p->nodes[lm_program_head(s->p)]) && shared_outputs(s, n, in))
        return;
    lm_node *made = add_node(s, n, NULL, width(s, n->out));
    made->in[0]   = in;
    v->whole      = made->out;
}

/* ---- mixtures ---- */

/* Each rank computes part of the inner lanes of every expert, and the results are added. If that is
 * impossible, every rank computes all. */
static void make_experts(lm_splitter *s, const lm_node *n)
{
    lm_value  x = whole_of(s, n->in[0]), route = whole_of(s, n->in[1]);
    uint32_t  edges[LM_MAX_RANKS + 1], unit = lm_split_unit(s, n->weights[2], n->experts.width);
    bool      cut = unit && !s->spec->exact;
    lm_node  *made = add_node(s, n, NULL, width(s, n->out));

    for (uint32_t k = 0; k < 3; k++)
        cut &= lm_split_may_cut(s, n->weights[k]);
    made->in[0] = x;
    made->in[1] = route;
    if (!cut) {
        s->values[n->out].whole = made->out;
        return;
    }
    lm_split_edges(s->spec, n->experts.width, unit, edges);
    lm_row_range lanes = { edges[s->spec->rank], edges[s->spec->rank + 1] - edges[s->spec->rank] };
    lm_pieces rows  = lm_split_one(s, lanes.first, lanes.n);
    made->experts.width = (uint32_t)lanes.n;
    cut_weight(s, n->weights[0], rows, all, all);
    cut_weight(s, n->weights[2], every, lanes, all);
    cut_weight(s, n->weights[3], every, lanes, all);
    if (lm_experts_have_gate(n)) {
        cut_weight(s, n->weights[1], rows, all, all);
        cut_weight(s, n->weights[4], every, lanes, all);
    }
    if (s->spec->rank)
        made->weights[5] = LM_NONE;
    s->values[n->out].whole = add_reduce(s, n, made->out, width(s, n->out));
}

/* ---- attention and lane-wise operations ---- */

static void make_attention(lm_splitter *s, const lm_node *n)
{
    lm_split_value          *v    = &s->values[n->out];
    const lm_attention_spec *a    = &n->attention.spec;
    const lm_pieces         *want = &s->wants[(size_t)(n - s->p->nodes) * LM_MAX_INPUTS];
    lm_value                 in[LM_MAX_INPUTS];
    uint32_t first = (uint32_t)(v->part.at[0].first / a->v_dim),
             heads = (uint32_t)(v->part.at[0].n / a->v_dim);

    for (uint32_t k = 0; k < n->n_in; k++)
        in[k] = part_of(s, n, n->in[k], want[k]);
    lm_node           *made = add_node(s, n, NULL, heads * a->v_dim);
    lm_attention_spec *here = &made->attention.spec;
    memcpy(made->in, in, n->n_in * sizeof *in);
    here->n_heads    = heads;
    here->n_kv_heads = (uint32_t)(lm_pieces_lanes(want[1]) / a->k_dim);
    here->n_choices  = a->n_choices ? here->n_kv_heads : 0;
    here->first_head = first;
    here->all_heads  = a->n_heads;
    s->out->caches[n->attention.cache].n_kv_heads = here->n_kv_heads;
    if (n->weights[0] != LM_NONE)
        cut_weight(s, n->weights[0], lm_split_one(s, first, heads), all, all);
    v->here = made->out;
}

static void make_recurrence(lm_splitter *s, const lm_node *n)
{
    lm_split_value      *v    = &s->values[n->out];
    const lm_recurrence *r    = &n->recurrence.spec;
    const lm_pieces     *want = &s->wants[(size_t)(n - s->p->nodes) * LM_MAX_INPUTS];
    lm_value             in[5];

    for (uint32_t k = 0; k < 5; k++)
        in[k] = part_of(s, n, n->in[k], want[k]);
    uint32_t       heads = (uint32_t)(v->part.at[0].n / r->v_dim);
    lm_node       *made  = add_node(s, n, NULL, heads * r->v_dim);
    lm_recurrence *here  = &made->recurrence.spec;
    memcpy(made->in, in, sizeof in);
    here->n_heads = heads;
    if (r->tiled)
        here->first_head = (uint32_t)(v->part.at[0].first / r->v_dim);
    else
        here->n_key_heads = (uint32_t)(lm_pieces_lanes(want[1]) / r->k_dim);
    s->out->states[n->recurrence.state].floats =
        heads * lm_recurrence_blocks(r) * LM_STATE_COLUMNS * r->k_dim;
    v->here = made->out;
}

/* Cut the vectors of an operation whose entries belong to lanes of its output. */
static void cut_vectors(lm_splitter *s, const lm_node *n, lm_pieces part)
{
    uint32_t      each = width(s, n->out) / (uint32_t)s->p->weights[n->weights[0]].dims[0];
    lm_row_range *rows = lm_split_pieces(s, part.n);

    for (uint32_t i = 0; rows && i < part.n; i++)
        rows[i] = (lm_row_range){ part.at[i].first / each, part.at[i].n / each };
    for (uint32_t k = 0; rows && k < 2; k++)
        cut_weight(s, n->weights[k], (lm_pieces){ rows, part.n, false }, all, all);
    if (n->code == LM_OP_CAUSAL_CONV)
        s->out->states[n->conv.state].floats = (uint32_t)((n->conv.taps - 1) * lm_pieces_lanes(part));
}

/* Return the number of groups on this rank of a value that has `of` groups. */
static uint32_t groups_here(lm_splitter *s, const lm_node *n, uint32_t of)
{
    const lm_split_value *v = &s->values[n->out];

    return v->cut ? (uint32_t)(lm_pieces_lanes(v->part) / (width(s, n->out) / of)) : of;
}

static void make_columns(lm_splitter *s, const lm_node *n, lm_pieces want)
{
    lm_split_value *v = &s->values[n->out];

    if (n->columns.groups == 1) {
        v->here = part_of(s, n, n->in[0], want);
        return;
    }
    lm_value in   = part_of(s, n, n->in[0], want);
    uint32_t here = groups_here(s, n, n->columns.groups);
    lm_node *made = add_node(s, n, NULL, width(s, n->out) / n->columns.groups * here);
    made->in[0]   = in;
    made->columns.groups = here;
    v->here              = made->out;
}

/* Set the sizes and weights of an operation of which this rank computes a part. */
static void resize(lm_splitter *s, const lm_node *n, lm_node *made)
{
    const lm_split_value *v = &s->values[n->out];
    uint32_t              first, count;

    switch (n->code) {
    case LM_OP_CAUSAL_CONV:
    case LM_OP_ADD_BIAS:
    case LM_OP_SCALE_BY_WEIGHT:
    case LM_OP_DECAY:
        cut_vectors(s, n, v->part);
        break;
    case LM_OP_ROPE:
        made->rope.n_heads = (uint32_t)(lm_pieces_lanes(v->part) / n->rope.head_dim);
        break;
    case LM_OP_RMS_NORM:
    case LM_OP_LAYER_NORM:
        made->norm.groups = groups_here(s, n, n->norm.groups);
        break;
    case LM_OP_SELECT_KEYS:
        made->attention.spec.n_heads = made->attention.spec.n_choices =
            groups_here(s, n, n->attention.spec.n_heads);
        break;
    case LM_OP_JOIN:
        made->join.groups = groups_here(s, n, n->join.groups);
        break;
    case LM_OP_HEAD_LINEAR:
        lm_split_units(v->part, width(s, n->out) / n->heads.n_heads, &first, &count);
        made->heads.n_heads = count;
        cut_weight(s, n->weights[0], every, all, (lm_row_range){ first, count });
        break;
    default:
        break;
    }
}

static void make_other(lm_splitter *s, const lm_node *n)
{
    lm_split_value  *v    = &s->values[n->out];
    const lm_pieces *want = &s->wants[(size_t)(n - s->p->nodes) * LM_MAX_INPUTS];
    lm_value         in[LM_MAX_INPUTS];
    /* its input is cut like its output */
    bool             after = n->code == LM_OP_HEAD_LINEAR && v->edges;

    if (v->cut && n->code == LM_OP_COLUMNS) {
        make_columns(s, n, want[0]);
        return;
    }
    for (uint32_t k = 0; k < n->n_in; k++)
        in[k] = after    ? s->values[n->in[k]].here
                : v->cut ? part_of(s, n, n->in[k], want[k])
                         : whole_of(s, n->in[k]);
    lm_node *made = add_node(s, n, NULL, v->cut ? (uint32_t)lm_pieces_lanes(v->part) : width(s, n->out));
    memcpy(made->in, in, n->n_in * sizeof *in);
    if (v->cut)
        resize(s, n, made);
    *(v->cut ? &v->here : &v->whole) = made->out;
}

static void make(lm_splitter *s, const lm_node *n)
{
    if (n->code == LM_OP_LINEAR)
        make_linear(s, n);
    else if (n->code == LM_OP_EXPERTS)
        make_experts(s, n);
    else if (n->code == LM_OP_ATTENTION)
        make_attention(s, n);
    else if (n->code == LM_OP_LINEAR_RECURRENCE && s->values[n->out].cut)
        make_recurrence(s, n);
    else
        make_other(s, n);
}

/* ---- the whole program ---- */

static lm_value value_after(const lm_splitter *s, lm_value v)
{
    if (v == LM_NONE)
        return LM_NONE;
    return s->values[v].whole != LM_NONE ? s->values[v].whole : s->values[v].here;
}

static void finish(lm_splitter *s)
{
    lm_program *o = s->out;

    s->made[s->p->n_nodes] = o->n_nodes;
    for (uint32_t i = 0; i < o->n_modules; i++) {
        lm_module *m = &o->modules[i];
        m->first_op  = s->made[m->first_op];
        m->end_op    = s->made[m->end_op];
        m->in        = value_after(s, m->in);
        m->out       = value_after(s, m->out);
    }
    o->logits = whole_of(s, s->p->logits);
}

static void *copied(lm_splitter *s, const void *from, size_t n, size_t more, size_t size)
{
    void *to = lm_alloc_zero(n + more + 1, size);

    s->failed |= !to;
    if (to && n)
        memcpy(to, from, n * size);
    return to;
}

static bool begin(lm_splitter *s)
{
    const lm_program *p = s->p;
    lm_program       *o = s->out = lm_alloc_zero(1, sizeof *o);

    if (!o)
        return false;
    *o          = *p;
    o->arena    = (lm_arena){ 0 };
    s->capacity = 4 * (size_t)p->n_nodes + 64;
    o->nodes    = copied(s, NULL, 0, s->capacity, sizeof *o->nodes);
    o->values   = copied(s, NULL, 0, s->capacity, sizeof *o->values);
    o->weights  = copied(s, p->weights, p->n_weights, 2, sizeof *o->weights);
    o->modules  = copied(s, p->modules, p->n_modules, 0, sizeof *o->modules);
    o->caches   = copied(s, p->caches, p->n_caches, 0, sizeof *o->caches);
    o->states   = copied(s, p->states, p->n_states, 0, sizeof *o->states);
    o->ropes    = copied(s, p->ropes, p->n_ropes, 0, sizeof *o->ropes);
    o->n_nodes = o->n_values = 0;
    s->values   = lm_alloc_zero(p->n_values + 1, sizeof *s->values);
    s->wants    = lm_alloc_zero(((size_t)p->n_nodes + 1) * LM_MAX_INPUTS, sizeof *s->wants);
    s->made     = lm_alloc_zero(p->n_nodes + 1, sizeof *s->made);
    s->source   = lm_arena_new(&o->arena, p->n_weights + 3, uint32_t);
    if (s->failed || !s->values || !s->wants || !s->made || !s->source)
        return false;
    for (uint32_t v = 0; v < p->n_values; v++)
        s->values[v].here = s->values[v].whole = LM_NONE;
    for (uint32_t w = 0; w < p->n_weights; w++)
        s->source[w] = w;
    return true;
}

static lm_status check(const lm_program *p, const lm_split_spec *spec, lm_error *e)
{
    uint32_t heads = UINT32_MAX;

    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_ATTENTION && p->nodes[i].attention.spec.n_heads < heads)
            heads = p->nodes[i].attention.spec.n_heads;
    if (spec->ranks < 1 || spec->ranks > LM_MAX_RANKS || spec->rank >= spec->ranks)
        return lm_fail(e, LM_USAGE, "split", LM_NO_OFFSET, "rank %u of %u; 1 to %d ranks are possible",
                       spec->rank, spec->ranks, LM_MAX_RANKS);
    if (spec->ranks > heads)
        return lm_fail(e, LM_USAGE, "split", LM_NO_OFFSET,
                       "%u ranks share %u query heads; 1 to %u ranks are possible", spec->ranks, heads,
                       heads);
    return LM_OK;
}

lm_status lm_program_split(const lm_program *p, const lm_split_spec *spec, lm_program **out,
                           const uint32_t **source, lm_error *e)
{
    lm_splitter s = { .p = p, .spec = spec };

    LM_TRY(check(p, spec, e));
    bool good = begin(&s);
    if (good)
        lm_split_choose(&s);
    for (uint32_t i = 0; good && !s.failed && i < p->n_nodes; i++) {
        s.made[i] = s.out->n_nodes;
        make(&s, &p->nodes[i]);
    }
    if (good && !s.failed)
        finish(&s);
    good = good && !s.failed;
    lm_free(s.values);
    lm_free(s.wants);
    lm_free(s.made);
    if (!good) {
        lm_program_free(s.out);
        return lm_fail_memory(e, "split", 0);
    }
    *out    = s.out;
    *source = s.source;
    return LM_OK;
}
