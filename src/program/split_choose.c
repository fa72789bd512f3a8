/* split_choose.c - choose the values of a program that are cut, and where. */
#include "program/split_choose.h"

#include <string.h>

#include "program/op.h"

/* ---- pieces ---- */

lm_row_range *lm_split_pieces(lm_splitter *s, uint32_t n)
{
    lm_row_range *p = lm_arena_new(&s->out->arena, n ? n : 1, lm_row_range);

    s->failed |= !p;
    return p;
}

lm_pieces lm_split_one(lm_splitter *s, uint64_t first, uint64_t n)
{
    lm_row_range *p = lm_split_pieces(s, 1);

    if (!p)
        return (lm_pieces){ 0 };
    *p = (lm_row_range){ first, n };
    return (lm_pieces){ p, 1, false };
}

bool lm_pieces_same(lm_pieces a, lm_pieces b)
{
    return a.n == b.n && memcmp(a.at, b.at, a.n * sizeof *a.at) == 0;
}

uint64_t lm_pieces_lanes(lm_pieces p)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < p.n; i++)
        n += p.at[i].n;
    return n;
}

bool lm_split_units(lm_pieces part, uint32_t unit, uint32_t *first, uint32_t *n)
{
    if (part.n != 1 || part.at[0].first % unit || part.at[0].n % unit)
        return false;
    *first = (uint32_t)(part.at[0].first / unit);
    *n     = (uint32_t)(part.at[0].n / unit);
    return true;
}

static bool rising(lm_pieces p)
{
    for (uint32_t i = 1; i < p.n; i++)
        if (p.at[i].first < p.at[i - 1].first + p.at[i - 1].n)
            return false;
    return true;
}

/* Return the union of both, in ascending order with adjacent pieces merged. */
static lm_pieces united(lm_splitter *s, lm_pieces a, lm_pieces b)
{
    lm_row_range *out = lm_split_pieces(s, a.n + b.n);
    uint32_t  i = 0, k = 0, n = 0;

    if (!out || !rising(a) || !rising(b))
        return (lm_pieces){ .mixed = true };
    while (i < a.n || k < b.n) {
        lm_row_range next = k == b.n || (i < a.n && a.at[i].first <= b.at[k].first) ? a.at[i++] : b.at[k++];
        uint64_t end  = n ? out[n - 1].first + out[n - 1].n : 0;
        if (!n || next.first > end)
            out[n++] = next;
        else if (next.first + next.n > end)
            out[n - 1].n = next.first + next.n - out[n - 1].first;
    }
    return (lm_pieces){ out, n, false };
}

static void ask(lm_splitter *s, const lm_node *n, uint32_t k, lm_pieces part)
{
    lm_split_value *x = &s->values[n->in[k]];

    s->wants[(size_t)(n - s->p->nodes) * LM_MAX_INPUTS + k] = part;

    if (!x->n_parts)
        x->part = part;
    else if (!x->part.mixed && !lm_pieces_same(x->part, part))
        x->part = united(s, x->part, part);
    x->n_parts++;
}

/* ---- edges ---- */

bool lm_split_edges(const lm_split_spec *spec, uint32_t lanes, uint32_t unit, uint32_t *edges)
{
    uint32_t units = (lanes + unit - 1) / unit;

    for (uint32_t r = 0; r <= spec->ranks; r++) {
        uint64_t at = (uint64_t)units * r / spec->ranks * unit;
        edges[r]    = at < lanes ? (uint32_t)at : lanes;
    }
    return units >= spec->ranks;
}

/* Compute the edges of query heads [ranks + 1], at whole key/value heads if every rank gets one. */
static void head_edges(const lm_split_spec *spec, const lm_attention_spec *a, uint32_t *edges)
{
    uint32_t group = a->n_heads / a->n_kv_heads;

    lm_split_edges(spec, a->n_heads, a->n_kv_heads >= spec->ranks ? group : 1, edges);
}

/* Compute the key/value heads that query heads [first, end) read: one per group of query heads if the groups
 * are equal, else one per query head. Return their number. */
static uint32_t kv_heads(const lm_attention_spec *a, uint32_t first, uint32_t end, uint32_t *heads)
{
    uint32_t group = a->n_heads / a->n_kv_heads, n = 0, run = 0, length = 0;
    bool     even = true;

    for (uint32_t h = first; h < end; h++) {
        if (n && heads[n - 1] == h / group) {
            run++;
            continue;
        }
        even &= !n || !length || run == length;
        length     = n ? run : 0;
        heads[n++] = h / group;
        run        = 1;
    }
    even &= !length || run == length;
    if (even)
        return n;
    for (uint32_t h = first; h < end; h++)       /* a copy per query head */
        heads[h - first] = h / group;
    return end - first;
}

uint32_t lm_split_unit(const lm_splitter *s, uint32_t w, uint32_t lanes)
{
    static const uint32_t units[] = { 256, 128, 64, 32, 16, 8, 1 };
    uint32_t block = s->spec->types && w != LM_NONE ? lm_dtype_of(s->spec->types[w])->block : 1, min = 0;

    for (uint32_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (units[i] % block || lanes % units[i] || lanes / units[i] < s->spec->ranks)
            continue;
        if (lanes / units[i] % s->spec->ranks == 0)
            return units[i];
        min = units[i];
    }
    return min;
}

/* ---- lanes of the inputs that part of an output needs ---- */

static uint32_t width(const lm_splitter *s, lm_value v)
{
    return s->p->values[v].width;
}

static bool columns_wants(lm_splitter *s, const lm_node *n, lm_pieces part, lm_pieces *out)
{
    uint32_t each = width(s, n->in[0]) / n->columns.groups, lanes = width(s, n->out) / n->columns.groups,
             first, count;

    if (n->columns.groups > 1) {
        if (!lm_split_units(part, lanes, &first, &count))
            return false;
        *out = lm_split_one(s, (uint64_t)first * each, (uint64_t)count * each);
        return !s->failed;
    }
    lm_row_range *p = lm_split_pieces(s, part.n);
    for (uint32_t i = 0; p && i < part.n; i++)
        p[i] = (lm_row_range){ part.at[i].first + n->columns.offset, part.at[i].n };
    *out = (lm_pieces){ p, part.n, false };
    return p != NULL;
}

/* Convert groups of the output to groups of an input. */
static bool groups_want(lm_splitter *s, const lm_node *n, uint32_t k, uint32_t groups, lm_pieces part,
                        lm_pieces *out)
{
    uint32_t first, count, each = width(s, n->in[k]) / groups;

    if (!lm_split_units(part, width(s, n->out) / groups, &first, &count))
        return false;
    *out = lm_split_one(s, (uint64_t)first * each, (uint64_t)count * each);
    return !s->failed;
}

/* Compute the lanes of input k that a node needs for `part` of its output; return false if it needs all of
 * them. */
static bool wants(lm_splitter *s, const lm_node *n, uint32_t k, lm_pieces part, lm_pieces *out)
{
    switch (n->code) {
    case LM_OP_COLUMNS:
        return columns_wants(s, n, part, out);
    case LM_OP_JOIN:
        return !(k == 1 && n->join.shared) && groups_want(s, n, k, n->join.groups, part, out);
    case LM_OP_HEAD_LINEAR:
        return !n->heads.shared && groups_want(s, n, k, n->heads.n_heads, part, out);
    case LM_OP_SELECT_KEYS:
        return k == 0 && groups_want(s, n, k, n->attention.spec.n_heads, part, out);
    case LM_OP_LINEAR:
        return false;
    default:
        *out = part;
        return true;
    }
}

static bool in_units(lm_pieces part, uint32_t unit)
{
    for (uint32_t i = 0; i < part.n; i++)
        if (part.at[i].first % unit || part.at[i].n % unit)
            return false;
    return true;
}

bool lm_split_may_cut(const lm_splitter *s, uint32_t w)
{
    bool head = w == s->p->nodes[lm_program_head(s->p)].weights[0];

    return (!s->spec->uncut || !s->spec->uncut[w]) && (head || s->p->weights[w].uses == 1);
}

/* Return whether this operation can compute only part of its output. */
static bool can_be_cut(lm_splitter *s, const lm_node *n, lm_pieces part)
{
    uint32_t first, count;

    switch (n->code) {
    case LM_OP_LINEAR:
        return lm_split_may_cut(s, n->weights[0]);
    case LM_OP_ROPE:
        return in_units(part, n->rope.head_dim);
    case LM_OP_RMS_NORM:
    case LM_OP_LAYER_NORM:
        return n->norm.groups > 1 && !n->norm.own && in_units(part, width(s, n->out) / n->norm.groups);
    case LM_OP_COLUMNS:
        return n->columns.groups == 1 ||
               lm_split_units(part, width(s, n->out) / n->columns.groups, &first, &count);
    case LM_OP_JOIN:
        return lm_split_units(part, width(s, n->out) / n->join.groups, &first, &count);
    case LM_OP_HEAD_LINEAR:
        return lm_split_units(part, width(s, n->out) / n->heads.n_heads, &first, &count);
    case LM_OP_SELECT_KEYS:
        return n->attention.spec.block &&
               lm_split_units(part, lm_choice_width(&n->attention.spec), &first, &count);
    case LM_OP_GLU:
        return width(s, n->in[0]) == width(s, n->out);
    case LM_OP_ACT:
        return true;
    case LM_OP_CAUSAL_CONV:
    case LM_OP_ADD_BIAS:
    case LM_OP_SCALE_BY_WEIGHT:
    case LM_OP_DECAY:
        return lm_split_may_cut(s, n->weights[0]) &&
               in_units(part, width(s, n->out) / (uint32_t)s->p->weights[n->weights[0]].dims[0]);
    default:
        return lm_op_of(n->code)->lanewise;
    }
}

/* ---- operations whose output is cut ---- */

static lm_pieces between(lm_splitter *s, const uint32_t *edges)
{
    return lm_split_one(s, edges[s->spec->rank], edges[s->spec->rank + 1] - edges[s->spec->rank]);
}

static uint32_t *new_edges(lm_splitter *s)
{
    uint32_t *edges = lm_arena_new(&s->out->arena, s->spec->ranks + 1, uint32_t);

    s->failed |= !edges;
    return edges;
}

static void cut_here(lm_splitter *s, lm_value v, const uint32_t *edges)
{
    s->values[v].cut   = true;
    s->values[v].edges = edges;
    s->values[v].part  = between(s, edges);
}

/* The choices of these key/value heads, one for each. */
static lm_pieces choices_of(lm_splitter *s, const lm_attention_spec *a, const uint32_t *heads, uint32_t n)
{
    lm_row_range *p     = lm_split_pieces(s, n);
    uint32_t      width = lm_choice_width(a), pieces = 0;

    for (uint32_t i = 0; p && i < n; i++) {
        uint64_t at = (uint64_t)lm_seen_choice(a, heads[i]) * width;
        if (pieces && p[pieces - 1].first + p[pieces - 1].n == at)
            p[pieces - 1].n += width;
        else
            p[pieces++] = (lm_row_range){ at, width };
    }
    return (lm_pieces){ p, pieces, false };
}

static void choose_attention(lm_splitter *s, const lm_node *n)
{
    const lm_attention_spec *a     = &n->attention.spec;
    uint32_t *edges = new_edges(s), *heads = lm_arena_new(&s->out->arena, a->n_heads, uint32_t);

    s->failed |= !heads;
    if (s->failed)
        return;
    head_edges(s->spec, a, edges);
    uint32_t first = edges[s->spec->rank], end = edges[s->spec->rank + 1],
             n_kv = kv_heads(a, first, end, heads);

    ask(s, n, 0, lm_split_one(s, (uint64_t)first * a->k_dim, (uint64_t)(end - first) * a->k_dim));
    for (uint32_t k = 1; k < n->n_in && k < 3; k++) {
        uint32_t  lanes = k == 1 || a->v_in_k ? a->k_dim : a->v_dim, pieces = 0;
        lm_row_range *p     = lm_split_pieces(s, n_kv);
        if (!p)
            return;
        for (uint32_t i = 0; i < n_kv; i++) {
            uint64_t at = (uint64_t)heads[i] * lanes;
            if (pieces && p[pieces - 1].first + p[pieces - 1].n == at)
                p[pieces - 1].n += lanes;
            else
                p[pieces++] = (lm_row_range){ at, lanes };
        }
        ask(s, n, k, (lm_pieces){ p, pieces, false });
    }
    if (a->n_choices)
        ask(s, n, 3, choices_of(s, a, heads, n_kv));
    else if (a->top_k)                   /* every rank sees the same keys */
        ask(s, n, 3, lm_split_one(s, 0, a->top_k));
    else if (a->rate)                    /* the keys again */
        ask(s, n, 3, lm_split_one(s, 0, a->k_dim));
    if (a->rate)
        ask(s, n, 4, lm_split_one(s, 0, a->k_dim));
    for (uint32_t r = 0; r <= s->spec->ranks; r++)
        edges[r] *= a->v_dim;
    cut_here(s, n->out, edges);
}

/* Compute the edges of the heads of a recurrence, at whole key heads if every rank gets one. Tiled, every
 * rank reads all key heads. Return false if there are fewer heads than ranks: every rank computes all. */
static bool recurrence_edges(const lm_split_spec *spec, const lm_recurrence *r, uint32_t *edges)
{
    uint32_t group = r->n_heads / r->n_key_heads;

    return lm_split_edges(spec, r->n_heads, !r->tiled && r->n_key_heads >= spec->ranks ? group : 1, edges);
}

/* The key heads that heads [first, first + n) read, one copy for each head. */
static lm_pieces keys_of_heads(lm_splitter *s, const lm_recurrence *r, uint32_t first, uint32_t n)
{
    lm_row_range *p = lm_split_pieces(s, n);

    for (uint32_t i = 0; p && i < n; i++)
        p[i] = (lm_row_range){ (uint64_t)lm_key_head(r, first + i) * r->k_dim, r->k_dim };
    return (lm_pieces){ p, p ? n : 0, false };
}

static void choose_recurrence(lm_splitter *s, const lm_node *n)
{
    const lm_recurrence *r     = &n->recurrence.spec;
    uint32_t            *edges = new_edges(s), group = r->n_heads / r->n_key_heads;

    if (s->failed || !recurrence_edges(s->spec, r, edges))
        return;
    uint32_t first = edges[s->spec->rank], heads = edges[s->spec->rank + 1] - first,
             decays = r->decay_by_channel ? r->k_dim : 1;
    uint32_t key = first / group, keys = (first + heads - 1) / group + 1 - key;
    if (!r->tiled && keys * group == heads)          /* else all key heads, or a copy for each head */
        for (uint32_t k = 0; k < 2; k++)
            ask(s, n, k, lm_split_one(s, (uint64_t)key * r->k_dim, (uint64_t)keys * r->k_dim));
    else if (!r->tiled)
        for (uint32_t k = 0; k < 2; k++)
            ask(s, n, k, keys_of_heads(s, r, first, heads));
    ask(s, n, 2, lm_split_one(s, (uint64_t)first * r->v_dim, (uint64_t)heads * r->v_dim));
    ask(s, n, 3, lm_split_one(s, (uint64_t)first * decays, (uint64_t)heads * decays));
    ask(s, n, 4, lm_split_one(s, first, heads));
    for (uint32_t i = 0; i <= s->spec->ranks; i++)
        edges[i] *= r->v_dim;
    cut_here(s, n->out, edges);
}

/* Cut a value that is multiplied by a gate, of each lane or each head, at the same heads as the attention or
 * recurrence behind it, possibly after a norm or a product of each head. */
static void choose_gated(lm_splitter *s, const lm_node *n)
{
    const lm_node *a = n->n_in == 2 ? &s->p->nodes[s->p->values[n->in[1]].producer] : n;
    lm_value       v = a->out;
    uint32_t       each = width(s, n->out) / width(s, n->in[0]);

    if (((a->code == LM_OP_RMS_NORM && a->norm.groups > 1 && !a->norm.own) ||
         (a->code == LM_OP_HEAD_LINEAR && !a->heads.shared)) &&
        s->values[v].uses == 1) {
        v = a->in[0];
        a = &s->p->nodes[s->p->values[v].producer];
    }
    bool     attention = a->code == LM_OP_ATTENTION, recurrence = a->code == LM_OP_LINEAR_RECURRENCE;
    uint32_t heads     = attention    ? a->attention.spec.n_heads
                         : recurrence ? a->recurrence.spec.n_heads
                                      : 0;
    if (!heads || s->values[v].uses != 1 || (each > 1 && width(s, n->in[0]) != heads))
        return;
    uint32_t *edges = new_edges(s);
    if (s->failed)
        return;
    if (attention)
        head_edges(s->spec, &a->attention.spec, edges);
    else if (!recurrence_edges(s->spec, &a->recurrence.spec, edges))
        return;
    for (uint32_t r = 0; r <= s->spec->ranks; r++)
        edges[r] *= width(s, n->out) / heads;
    cut_here(s, n->out, edges);
    lm_row_range part = s->values[n->out].part.at[0];
    ask(s, n, 0, lm_split_one(s, part.first / each, part.n / each));
    ask(s, n, 1, s->values[n->out].part);
}

/* Return whether a value is the output of a product with its own matrix, or lanes of it. */
static bool is_product(const lm_splitter *s, lm_value v)
{
    const lm_node *n = &s->p->nodes[s->p->values[v].producer];

    if (n->code == LM_OP_COLUMNS)
        n = &s->p->nodes[s->p->values[n->in[0]].producer];
    return n->code == LM_OP_LINEAR && s->p->weights[n->weights[0]].uses == 1;
}

/* Return whether a node computes the inner lanes of an MLP: from products that have no other reader, and read
 * by exactly one product, whose weight is returned in *down. */
static bool is_inner(const lm_splitter *s, const lm_node *n, uint32_t *down)
{
    uint32_t readers = 0;

    for (uint32_t k = 0; k < n->n_in; k++)
        if (width(s, n->in[k]) != width(s, n->out) || s->values[n->in[k]].uses != 1 ||
            !is_product(s, n->in[k]))
            return false;
    for (uint32_t i = 0; i < s->p->n_nodes; i++)
        for (uint32_t k = 0; k < s->p->nodes[i].n_in; k++)
            if (s->p->nodes[i].in[k] == n->out && s->p->nodes[i].code == LM_OP_LINEAR) {
                *down = s->p->nodes[i].weights[0];
                readers++;
            }
    return readers == 1 && s->values[n->out].uses == 1;
}

static void choose_inner(lm_splitter *s, const lm_node *n)
{
    uint32_t down = 0, unit, *edges;

    if (!is_inner(s, n, &down) || !(unit = lm_split_unit(s, down, width(s, n->out))) ||
        !(edges = new_edges(s)))
        return;
    lm_split_edges(s->spec, width(s, n->out), unit, edges);
    cut_here(s, n->out, edges);
    for (uint32_t k = 0; k < n->n_in; k++)
        ask(s, n, k, s->values[n->out].part);
}

/* Cut the values' part of an absorbed latent at the same heads as the attention before it. */
static void choose_after_attention(lm_splitter *s, const lm_node *n)
{
    const lm_node *a     = &s->p->nodes[s->p->values[n->in[0]].producer];
    uint32_t      *edges = a->code == LM_OP_ATTENTION && s->values[n->in[0]].uses == 1 ? new_edges(s) : NULL;

    if (!edges)
        return;
    head_edges(s->spec, &a->attention.spec, edges);
    for (uint32_t r = 0; r <= s->spec->ranks; r++)
        edges[r] *= width(s, n->out) / n->heads.n_heads;
    cut_here(s, n->out, edges);
}

static bool all_of(const lm_splitter *s, lm_value v)
{
    lm_pieces part = s->values[v].part;

    return part.n == 1 && part.at[0].n == width(s, v);
}

static void choose(lm_splitter *s, const lm_node *n)
{
    lm_split_value *v = &s->values[n->out];
    lm_pieces       want;

    if (n->code == LM_OP_ATTENTION) {
        choose_attention(s, n);
        return;
    }
    if (n->code == LM_OP_LINEAR_RECURRENCE) {
        choose_recurrence(s, n);
        return;
    }
    if (n->code == LM_OP_GLU || n->code == LM_OP_ACT)
        choose_inner(s, n);
    if (n->code == LM_OP_GLU && !v->cut)
        choose_gated(s, n);
    if (v->cut)
        return;
    if (v->n_parts && v->n_parts == v->uses && !v->part.mixed && !all_of(s, n->out) &&
               can_be_cut(s, n, v->part)) {
        v->cut = true;
        for (uint32_t k = 0; k < n->n_in; k++)
            if (wants(s, n, k, v->part, &want))
                ask(s, n, k, want);
    } else if (n->code == LM_OP_HEAD_LINEAR && !n->heads.shared) {
        choose_after_attention(s, n);
    }
}

void lm_split_choose(lm_splitter *s)
{
    for (uint32_t i = 0; i < s->p->n_nodes; i++)
        for (uint32_t k = 0; k < s->p->nodes[i].n_in; k++)
            s->values[s->p->nodes[i].in[k]].uses++;
    s->values[s->p->logits].uses++;
    for (uint32_t i = s->p->n_nodes; i-- > 0 && !s->failed;)
        choose(s, &s->p->nodes[i]);
}
