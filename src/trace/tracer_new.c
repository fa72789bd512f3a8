/* tracer_new.c - a tracer is created: edits, the values and the attention to record, engines, memory; and
 * freed. */
#include "trace/tracer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

enum { ROWS = 32 };

/* ---- the values that the engine records ---- */

static void keep(lm_tracer *t, lm_value v)
{
    for (uint32_t i = 0; i < t->n_kept; i++)
        if (t->kept[i] == v)
            return;
    t->kept[t->n_kept++] = v;
}

static void choose_kept(lm_tracer *t)
{
    for (size_t i = 0; lm_trace_wants_states(t) && i < t->map.n_points; i++)
        keep(t, t->map.points[i].value);
    for (size_t i = 0; (t->o.attribution || t->o.norms) && i < t->map.n_terms; i++) {
        keep(t, t->map.terms[i].value);
        if (t->map.terms[i].minus != LM_NONE)
            keep(t, t->map.terms[i].minus);
    }
    if (lm_trace_wants_states(t))
        keep(t, t->map.stream);
    for (size_t i = 0; i < t->n_keys; i++) {
        keep(t, t->p->nodes[t->keys[i].node].in[0]);
        keep(t, t->p->nodes[t->keys[i].node].in[1]);
        if (t->p->nodes[t->keys[i].node].attention.spec.top_k)
            keep(t, t->p->nodes[t->keys[i].node].in[3]);
        if (lm_node_rate(&t->p->nodes[t->keys[i].node]))
            keep(t, t->p->nodes[t->keys[i].node].in[4]);
    }
    for (size_t i = 0; t->o.experts && i < t->map.n_routes; i++)
        keep(t, t->p->nodes[t->map.routes[i]].out);
    for (size_t i = 0; i < t->n_saved; i++)
        if (t->saved[i].value != LM_NONE)
            keep(t, t->saved[i].value);
}

/* ---- the layers whose attention is recorded ---- */

static bool in_layers(const lm_tracer *t, uint32_t layer)
{
    bool some = t->o.attention && !t->o.n_layers;

    for (size_t i = 0; i < t->o.n_layers; i++)
        some = some || t->o.layers[i] == layer;
    for (size_t i = 0; i < t->o.n_heads; i++)
        some = some || t->o.heads[2 * i] == layer;
    return some;
}

static bool weights_wanted(const lm_tracer *t, const lm_node *n)
{
    for (size_t i = 0; t->o.values && t->o.values[i]; i++) {
        size_t size = strlen(t->o.values[i]);
        char   stem[512];
        if (size <= 8 || size >= sizeof stem || strcmp(t->o.values[i] + size - 8, "#weights") != 0)
            continue;
        memcpy(stem, t->o.values[i], size - 8);
        stem[size - 8] = '\0';
        if (lm_trace_matches(stem, lm_trace_block(t->p, n->module)))
            return true;
    }
    return false;
}

static lm_status check_layers(const lm_tracer *t, lm_error *e)
{
    for (size_t i = 0; i < t->o.n_layers; i++)
        if (t->o.layers[i] >= t->p->n_layers)
            return lm_fail(e, LM_USAGE, "attention", LM_NO_OFFSET, "layer %u of %u, counted from 0",
                           t->o.layers[i], t->p->n_layers);
    for (size_t i = 0; i < t->o.n_heads; i++) {
        uint32_t layer = t->o.heads[2 * i], head = t->o.heads[2 * i + 1];
        bool     some  = false;
        if (layer >= t->p->n_layers)
            return lm_fail(e, LM_USAGE, "weights", LM_NO_OFFSET, "layer %u of %u, counted from 0", layer,
                           t->p->n_layers);
        for (size_t k = 0; k < t->map.n_attention; k++) {
            const lm_node *n = &t->p->nodes[t->map.attention[k]];
            some             = some || (n->layer == (int32_t)layer && head < n->attention.spec.n_heads);
        }
        if (!some)
            return lm_fail(e, LM_USAGE, "attention", LM_NO_OFFSET,
                           "layer %u has no head %u; heads are counted from 0", layer, head);
    }
    return LM_OK;
}

static lm_status choose_layers(lm_tracer *t, lm_error *e)
{
    LM_TRY(check_layers(t, e));
    t->keys = lm_arena_new(&t->arena, t->map.n_attention + 1, lm_trace_keys);
    if (!t->keys)
        return lm_fail_memory(e, "a trace", t->map.n_attention);
    for (size_t i = 0; i < t->map.n_attention; i++) {
        const lm_node *n      = &t->p->nodes[t->map.attention[i]];
        bool           looked = n->layer >= 0 && in_layers(t, (uint32_t)n->layer);
        uint32_t       rows   = lm_node_rate(n) ? 2 : 1;         /* a key, and an entry */
        if (looked || weights_wanted(t, n))
            t->keys[t->n_keys++] = (lm_trace_keys){ .node = t->map.attention[i],
                                                    .looked = looked,
                                                    .width = t->p->values[n->in[1]].width * rows };
    }
    return LM_OK;
}

/* ---- creating ---- */

static lm_status copy_options(lm_tracer *t, const lm_trace_options *o, lm_error *e)
{
    uint32_t *layers = lm_arena_new(&t->arena, o->n_layers + 1, uint32_t),
             *heads = lm_arena_new(&t->arena, 2 * o->n_heads + 1, uint32_t);
    size_t      n      = 0;
    const char **values;

    t->o = *o;
    while (o->values && o->values[n])
        n++;
    values = lm_arena_new(&t->arena, n + 1, const char *);
    if (!layers || !heads || !values)
        return lm_fail_memory(e, "a trace", n);
    for (size_t i = 0; i < n; i++)
        if (!(values[i] = lm_arena_strdup(&t->arena, o->values[i])))
            return lm_fail_memory(e, "a trace", n);
    if (o->n_layers)
        memcpy(layers, o->layers, o->n_layers * sizeof *layers);
    if (o->n_heads)
        memcpy(heads, o->heads, 2 * o->n_heads * sizeof *heads);
    t->o.layers        = layers;
    t->o.heads         = heads;
    t->o.values        = n ? values : NULL;
    t->o.interventions = NULL;
    uint32_t rows      = o->engine.max_rows ? o->engine.max_rows : ROWS;
    t->o.engine.max_rows   = rows;
    t->o.engine.max_logits = o->engine.max_logits ? o->engine.max_logits : rows;
    return LM_OK;
}

static lm_status make_lens(lm_tracer *t, lm_error *e)
{
    lm_engine_options o = t->o.engine;

    t->lens_rows = t->map.n_points < ROWS ? (uint32_t)t->map.n_points : ROWS;
    LM_TRY(lm_program_tail(t->p, t->map.stream, &t->tail, e));
    o.max_rows = o.max_logits = o.context = t->lens_rows;
    o.sequences = 1;
    o.kv_positions = 0;
    o.rollback = 0;
    o.checkpoints = 0;
    o.probes = NULL;
    o.hidden = false;
    o.log = (lm_log){ 0 };
    o.progress = NULL;
    return lm_engine_new_variant(t->m, &o, &(lm_engine_variant){ .program = t->tail, .weights = t->g },
                                 &t->lens, e);
}

static lm_status make_room(lm_tracer *t, lm_error *e)
{
    uint32_t context = lm_engine_context(t->g), wide = lm_trace_width(t);
    size_t   lanes   = context > t->p->n_vocab ? context : t->p->n_vocab;

    for (uint32_t v = 0; v < t->p->n_values; v++)
        wide = t->p->values[v].width > wide ? t->p->values[v].width : wide;
    lanes      = lanes > wide ? lanes : wide;
    t->scratch = lm_alloc_zero(2 * (size_t)t->p->n_vocab, sizeof *t->scratch);
    t->lanes   = lm_alloc_zero(lanes + 1, sizeof *t->lanes);
    t->load    = lm_arena_new(&t->arena, t->map.n_routes + 1, uint64_t *);
    if (!t->scratch || !t->lanes || !t->load)
        return lm_fail_memory(e, "a trace", lanes);
    for (size_t i = 0; i < t->map.n_routes; i++)
        if (!(t->load[i] = lm_arena_new(&t->arena, t->p->nodes[t->map.routes[i]].route.spec.n_experts,
                                        uint64_t)))
            return lm_fail_memory(e, "a trace", i);
    return LM_OK;
}

static lm_status make(lm_tracer *t, const lm_trace_options *o, lm_error *e)
{
    lm_engine_variant v = { 0 };

    LM_TRY(copy_options(t, o, e));
    LM_TRY(lm_trace_read_edits(t->m->program, o->interventions, &t->edits, e));
    if (t->edits.n)
        LM_TRY(lm_program_edited(t->m->program, t->edits.list, t->edits.n, &t->edited, e));
    t->p = t->edited ? t->edited : t->m->program;
    LM_TRY(lm_trace_map_new(t->p, &t->map, e));
    LM_TRY(choose_layers(t, e));
    LM_TRY(lm_trace_find_saved(t, e));
    t->kept = lm_arena_new(&t->arena, t->p->n_values + 1, lm_value);
    if (!t->kept)
        return lm_fail_memory(e, "a trace", t->p->n_values);
    choose_kept(t);
    v = (lm_engine_variant){ .program = t->p, .kept = t->kept, .n_kept = t->n_kept, .weights = t->o.weights };
    LM_TRY(lm_engine_new_variant(t->m, &t->o.engine, &v, &t->g, e));
    if (t->o.sequence >= lm_engine_sequences(t->g))
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "%u of %u", t->o.sequence,
                       lm_engine_sequences(t->g));
    LM_TRY(make_room(t, e));
    if (t->o.lens)
        LM_TRY(make_lens(t, e));
    if (t->o.times) {
        t->times = lm_arena_new(&t->arena, t->g->plan->n_steps + 1, uint64_t);
        if (!t->times)
            return lm_fail_memory(e, "times", t->g->plan->n_steps);
        LM_TRY(lm_engine_time_steps(t->g, e));
    }
    t->g->after     = lm_trace_after_step;
    t->g->after_arg = t;
    return LM_OK;
}

lm_status lm_tracer_new(const lm_model *m, const lm_trace_options *o, lm_tracer **out, lm_error *e)
{
    LM_REQUIRE(e, m && out);
    LM_CHECK_RESERVED(e, o);
    static const lm_trace_options defaults;
    lm_tracer *t = lm_alloc_zero(1, sizeof *t);

    if (!t)
        return lm_fail_memory(e, "a trace", sizeof *t);
    t->m = m;
    pthread_mutex_init(&t->lock, NULL);
    lm_status status = make(t, o ? o : &defaults, e);
    if (status != LM_OK) {
        lm_tracer_free(t);
        return status;
    }
    *out = t;
    return LM_OK;
}

void lm_tracer_free(lm_tracer *t)
{
    if (!t)
        return;
    lm_trace_drop_file(t);
    lm_engine_free(t->lens);
    if (t->g)
        lm_engine_free(t->g);
    lm_program_free(t->tail);
    lm_program_free(t->edited);
    lm_trace_map_free(&t->map);
    lm_arena_free(&t->edits.arena);
    lm_free(t->edits.list);
    for (size_t i = 0; i < t->n_records; i++)
        lm_trace_free_record(t->records[i]);
    for (size_t i = 0; i < t->n_keys; i++)
        lm_free(t->keys[i].keys);
    lm_free(t->records);
    lm_free(t->saved);
    lm_free(t->scratch);
    lm_free(t->lanes);
    lm_free(t->ids);
    lm_free(t->tokens);
    lm_free(t->look);
    lm_arena_free(&t->arena);
    pthread_mutex_destroy(&t->lock);
    lm_free(t);
}
