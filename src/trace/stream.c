/* stream.c - find the residual stream of a program. */
#include "trace/stream.h"

#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"

/* ---- paths ---- */

static uint32_t layer_module(const lm_program *p, int32_t layer)
{
    uint32_t best = LM_NONE;

    for (uint32_t m = 0; layer >= 0 && m < p->n_modules; m++)
        if (p->modules[m].layer == layer && (best == LM_NONE || p->modules[m].depth < p->modules[best].depth))
            best = m;
    return best;
}

const char *lm_trace_layer_path(const lm_program *p, int32_t layer)
{
    uint32_t m = layer_module(p, layer);

    return m == LM_NONE ? NULL : p->modules[m].path;
}

const char *lm_trace_block(const lm_program *p, uint32_t module)
{
    uint32_t layer = layer_module(p, p->modules[module].layer);

    while (layer != LM_NONE && module != layer && p->modules[module].parent != layer &&
           p->modules[module].parent != LM_NONE)
        module = p->modules[module].parent;
    return p->modules[module].path;
}

/* ---- patterns ---- */

static bool match(const char *pattern, const char *path)
{
    if (*pattern != '*')
        return *pattern == '\0' ? *path == '\0' : *pattern == *path && match(pattern + 1, path + 1);
    bool deep = pattern[1] == '*';
    for (;; path++) {
        if (match(pattern + 1 + deep, path))
            return true;
        if (*path == '\0' || (*path == '.' && !deep))
            return false;
    }
}

bool lm_trace_matches(const char *pattern, const char *path)
{
    size_t stars = 0;

    for (const char *s = pattern; *s; s++)
        stars += *s == '*';
    if (stars > 16)                      /* the cost of matching grows with each */
        return false;
    if (match(pattern, path))
        return true;
    for (const char *s = strchr(path, '.'); s; s = strchr(s + 1, '.'))
        if (match(pattern, s + 1))
            return true;
    return false;
}

const char *lm_trace_meant(const lm_program *p, const char *pattern, lm_value v)
{
    const lm_node *n = &p->nodes[p->values[v].producer];

    for (uint32_t m = 0; m < p->n_modules; m++)
        if (p->modules[m].out == v && p->modules[m].path[0] && lm_trace_matches(pattern, p->modules[m].path))
            return p->modules[m].path;
    return lm_program_value(p, n->path) == v && lm_trace_matches(pattern, n->path) ? n->path : NULL;
}

/* Write a path with "*" for numbers, from the name before the first on: "layers.*.mlp". */
static size_t without_numbers(const char *path, char *out, size_t size)
{
    size_t n = 0, from = 0, name = 0;
    bool   number = false;

    for (; *path && n + 1 < size; path++) {
        bool digit = *path >= '0' && *path <= '9' && n && out[n - 1] == '.';
        if (digit || *path == '*')
            from = number ? from : name;
        number |= digit || *path == '*';
        if (*path == '.' && !number)
            name = path[1] >= '0' && path[1] <= '9' ? name : n + 1;
        out[n++] = digit ? '*' : *path;
        while (digit && path[1] >= '0' && path[1] <= '9')
            path++;
    }
    out[n] = '\0';
    memmove(out, out + from, n + 1 - from);
    return n - from;
}

lm_status lm_trace_hint(const lm_program *p, const char *pattern, lm_error *e)
{
    lm_near_names names = { 0 };
    char     path[256];

    for (uint32_t i = 0; i < p->n_modules; i++)
        if (p->modules[i].out != LM_NONE)
            lm_near_names_add(&names, path, without_numbers(p->modules[i].path, path, sizeof path));
    for (uint32_t i = 0; i < p->n_nodes; i++)
        lm_near_names_add(&names, path, without_numbers(p->nodes[i].path, path, sizeof path));
    without_numbers(pattern, path, sizeof path);
    return lm_near_names_hint(&names, path, e);
}

/* ---- walking the stream ---- */

typedef struct walk {
    const lm_program *p;
    lm_trace_map     *m;
    lm_value          top;               /* the stream at the current point: after the last sum, its edits and
                                            scalings */
    int32_t           later;             /* layer of the next sum; -2: none */
    float             factor;            /* scale applied to earlier terms up to the end */
    bool              linear;            /* from here to the end, the stream is a sum */
} walk;

static const lm_node *made_by(const lm_program *p, lm_value v)
{
    return &p->nodes[p->values[v].producer];
}

/* Return whether `v` depends on attention. Operations up to `floor` are not searched. */
static bool through_attention(const lm_program *p, lm_value v, uint32_t floor)
{
    const lm_node *n = made_by(p, v);

    if (p->values[v].producer <= floor)
        return false;
    if (n->code == LM_OP_ATTENTION)
        return true;
    for (uint32_t k = 0; k < n->n_in; k++)
        if (through_attention(p, n->in[k], floor))
            return true;
    return false;
}

static void add_point(walk *w, const char *path, int32_t layer, lm_trace_part part)
{
    w->m->points[w->m->n_points++] = (lm_trace_point){ path, layer, part, w->top };
}

/* Add a term. Its parts become separate terms if they come from different blocks of a layer. */
static void add_term(walk *w, lm_value v, float factor, uint32_t floor)
{
    const lm_program *p = w->p;
    const lm_node    *n = made_by(p, v);

    if (n->code == LM_OP_SCALE && n->layer >= 0) {
        add_term(w, n->in[0], factor * n->scale.factor, floor);
        return;
    }
    if (n->code == LM_OP_ADD && n->layer >= 0 && n->module == layer_module(p, n->layer)) {
        add_term(w, n->in[1], factor, floor);
        add_term(w, n->in[0], factor, floor);
        return;
    }
    lm_trace_part part = n->layer < 0                     ? LM_TRACE_EMBEDDING
                         : through_attention(p, v, floor) ? LM_TRACE_ATTENTION
                                                          : LM_TRACE_MLP;
    const char   *path = n->layer < 0 ? p->modules[n->module].path : lm_trace_block(p, n->module);
    w->m->terms[w->m->n_terms++] = (lm_trace_term){ path, n->layer, part, v, LM_NONE, factor };
}

/* Return the path of the module at the beginning of the stream. */
static const char *embedding_path(const lm_program *p, lm_value v)
{
    while (made_by(p, v)->n_in)
        v = made_by(p, v)->in[0];
    return p->modules[made_by(p, v)->module].path;
}

/* Add a point after a sum, with the path of the last block that was added. */
static void point_of_sum(walk *w, const lm_node *sum, lm_value branch, uint32_t floor)
{
    const lm_program *p      = w->p;
    const lm_node    *n      = made_by(p, branch);
    const char       *layer  = lm_trace_layer_path(p, sum->layer);
    bool              last   = sum->layer >= 0 && sum->layer != w->later;

    if (sum->layer < 0)
        add_point(w, embedding_path(p, w->top), sum->layer, LM_TRACE_EMBEDDING);
    else if (last && layer)
        add_point(w, layer, sum->layer, LM_TRACE_LAYER);
    else
        add_point(w, lm_trace_block(p, n->module), sum->layer,
                  through_attention(p, branch, floor) ? LM_TRACE_ATTENTION : LM_TRACE_MLP);
}

/* Go one operation back in the stream from `v`. Return the stream before it; LM_NONE at the beginning. */
static lm_value step_down(walk *w, lm_value v)
{
    const lm_program *p = w->p;
    const lm_node    *n = made_by(p, v);

    if (n->code == LM_OP_ADD) {
        unsigned older  = p->values[n->in[0]].producer < p->values[n->in[1]].producer ? 0 : 1;
        lm_value stream = n->in[older], branch = n->in[1 - older];
        bool     begins = n->layer < 0 && w->later >= 0;
        if (n->layer >= 0 || begins || w->later == -2)
            point_of_sum(w, n, branch, p->values[stream].producer);
        if (w->linear)
            add_term(w, branch, w->factor, p->values[stream].producer);
        w->later = n->layer;
        if (n->layer >= 0)
            w->top = stream;
        return stream;
    }
    if (n->code == LM_OP_SCALE) {
        w->factor *= n->scale.factor;
        return n->in[0];
    }
    if (n->code == LM_OP_EDIT && w->linear) {
        w->m->terms[w->m->n_terms++] = (lm_trace_term){ n->path, n->layer, LM_TRACE_OTHER,
                                                        v, n->in[0], w->factor };
        return n->in[0];
    }
    if (w->linear) {                     /* what precedes is a single term */
        bool outside = n->layer < 0;
        w->m->terms[w->m->n_terms++] = (lm_trace_term){ outside ? p->modules[n->module].path : n->path,
                                                        n->layer,
                                                        outside ? LM_TRACE_EMBEDDING : LM_TRACE_OTHER,
                                                        v,
                                                        LM_NONE,
                                                        w->factor };
        w->linear = false;
    }
    if (n->n_in == 0 && w->later != -1)
        add_point(w, p->modules[n->module].path, n->layer, LM_TRACE_EMBEDDING);
    return n->n_in ? n->in[0] : LM_NONE;
}

static void turn_points(lm_trace_point *x, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        lm_trace_point t = x[i];
        x[i]             = x[n - 1 - i];
        x[n - 1 - i]     = t;
    }
}

static void turn_terms(lm_trace_term *x, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        lm_trace_term t = x[i];
        x[i]            = x[n - 1 - i];
        x[n - 1 - i]    = t;
    }
}

static void find_stream(const lm_program *p, lm_trace_map *m)
{
    lm_value v = p->logits;

    while (made_by(p, v)->layer < 0 && made_by(p, v)->n_in == 1)
        v = made_by(p, v)->in[0];
    m->stream = v;
    walk w = { p, m, v, -2, 1, true };
    while (v != LM_NONE)
        v = step_down(&w, v);
    turn_points(m->points, m->n_points);
    turn_terms(m->terms, m->n_terms);
}

lm_status lm_trace_map_new(const lm_program *p, lm_trace_map *out, lm_error *e)
{
    lm_trace_map m = { 0 };
    size_t       n = p->n_nodes + 1;

    m.points    = lm_arena_new(&m.arena, n, lm_trace_point);
    m.terms     = lm_arena_new(&m.arena, 2 * n, lm_trace_term);
    m.attention = lm_arena_new(&m.arena, n, uint32_t);
    m.routes    = lm_arena_new(&m.arena, n, uint32_t);
    if (!m.points || !m.terms || !m.attention || !m.routes) {
        lm_arena_free(&m.arena);
        return lm_fail_memory(e, "a trace", n);
    }
    find_stream(p, &m);
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        if (p->nodes[i].code == LM_OP_ATTENTION)
            m.attention[m.n_attention++] = i;
        if (p->nodes[i].code == LM_OP_ROUTE)
            m.routes[m.n_routes++] = i;
    }
    *out = m;
    return LM_OK;
}

void lm_trace_map_free(lm_trace_map *m)
{
    lm_arena_free(&m->arena);
    *m = (lm_trace_map){ 0 };
}
