/* cache.c - compute the size of the paged cache. */
#include "plan/cache.h"

#include "base/checked.h"

static uint32_t group_of(lm_plan *plan, uint32_t window, bool chunked)
{
    for (uint32_t g = 0; g < plan->n_groups; g++)
        if (plan->groups[g].window == window && plan->groups[g].chunked == chunked)
            return g;
    plan->groups[plan->n_groups] = (lm_kv_group){ .window = window, .chunked = chunked };
    return plan->n_groups++;
}

/* Return the maximum number of ranges visible to LM_SPLIT_ROWS rows: a window may begin and end within a
 * range. */
static uint32_t ranges_of(const lm_plan *plan, uint32_t window)
{
    uint64_t all = ((uint64_t)plan->options.context + LM_RANGE - 1) / LM_RANGE;
    uint64_t some = ((uint64_t)window + LM_SPLIT_ROWS + LM_RANGE - 3) / LM_RANGE + 1;

    return (uint32_t)(window && some < all ? some : all);
}

static lm_status check_width(const char *flag, lm_dtype type, uint32_t width, lm_error *e)
{
    const lm_dtype_info *t = lm_dtype_of(type);

    if (width % t->block == 0)
        return LM_OK;
    return lm_fail(e, LM_UNSUPPORTED, flag, LM_NO_OFFSET,
                   "a %s cache needs heads whose width is a multiple of %u, not %u", t->name, t->block,
                   width);
}

static lm_status check_types(const lm_kv_shape *s, lm_error *e)
{
    LM_TRY(check_width("cache-type-k", s->k_type, s->k_dim, e));
    if (!s->v_in_k)
        return check_width("cache-type-v", s->v_type, s->v_dim, e);
    if (s->k_type == s->v_type)
        return LM_OK;
    return lm_fail(e, LM_UNSUPPORTED, "cache-type-v", LM_NO_OFFSET,
                   "latent attention keeps no values: the type is that of the keys, %s, not %s",
                   lm_dtype_of(s->k_type)->name, lm_dtype_of(s->v_type)->name);
}

uint64_t lm_plan_page_bytes(const lm_plan *plan, const lm_kv_layer *l)
{
    uint64_t row = lm_elements_bytes(l->shape.k_dim, l->shape.k_type);

    if (!l->rate)
        return plan->attention->page_bytes(&l->shape);
    return (lm_entry_slots(l->rate) * row + 63) & ~UINT64_C(63);
}

static lm_status place_layer(lm_plan *plan, uint32_t i, lm_error *e)
{
    const lm_cache *c = &plan->program->caches[i];
    lm_kv_layer    *l = &plan->layers[i];

    l->shape = (lm_kv_shape){ c->n_kv_heads, c->k_dim, c->v_dim, lm_cache_key_type(c, plan->options.cache),
                              plan->options.cache.v, c->v_in_k };
    l->rate  = c->rate;
    if (!c->rate)
        LM_TRY(check_types(&l->shape, e));
    l->ranges = ranges_of(plan, c->window);
    l->group  = group_of(plan, c->window, c->chunked);
    l->offset = plan->groups[l->group].page_bytes;
    if (!c->elsewhere)
        plan->groups[l->group].page_bytes += lm_plan_page_bytes(plan, l);
    return LM_OK;
}

/* Place all states in one more group. */
static void place_states(lm_plan *plan)
{
    lm_kv_group g = { .states = true };

    for (uint32_t i = 0; i < plan->program->n_states; i++) {
        const lm_state_info *s = &plan->program->states[i];
        plan->states[i]        = g.page_bytes;
        g.page_bytes += s->elsewhere ? 0 : ((uint64_t)s->floats * 4 + 63) & ~UINT64_C(63);
    }
    plan->state_group = plan->n_groups;
    if (plan->program->n_states)
        plan->groups[plan->n_groups++] = g;
}

static uint64_t pages(uint64_t positions)
{
    return (positions + LM_PAGE - 1) / LM_PAGE;
}

/* A window's two ends lie within pages. */
uint64_t lm_kv_sequence_pages(const lm_plan *plan, const lm_kv_group *g)
{
    if (g->states)       /* what a step reads, what it writes, the end of the last page of positions */
        return 3;
    uint64_t all = g->pages_per_sequence, some = pages((uint64_t)g->window + plan->options.rollback) + 1;

    return !g->window || all < some ? all : some;
}

uint64_t lm_kv_step_pages(const lm_plan *plan, const lm_kv_group *g)
{
    return g->window ? pages(plan->options.max_rows) : 0;
}

/* Return the number of pages of a group: all sequences to their full length, or their windows, the rows of a
 * forward pass, and the windows before the checkpoints. */
static uint64_t pages_of_group(const lm_plan *plan, const lm_kv_group *g)
{
    const lm_plan_options *o   = &plan->options;
    uint64_t               all = (uint64_t)g->pages_per_sequence * o->sequences;

    if (g->states)
        return 3 * (uint64_t)o->sequences + o->checkpoints;
    uint64_t some = lm_kv_sequence_pages(plan, g) * o->sequences + lm_kv_step_pages(plan, g) +
                    (pages(g->window) + 1) * o->checkpoints;

    return !g->window || all < some ? all : some;
}

lm_status lm_plan_cache(lm_plan *plan, lm_error *e)
{
    const lm_plan_options *o = &plan->options;

    for (uint32_t i = 0; i < plan->program->n_caches; i++)
        LM_TRY(place_layer(plan, i, e));
    place_states(plan);
    for (uint32_t i = 0; i < plan->n_groups; i++) {
        lm_kv_group *g        = &plan->groups[i];
        uint64_t     bytes;
        g->pages_per_sequence = (uint32_t)(((uint64_t)o->context + LM_PAGE - 1) / LM_PAGE);
        g->n_pages            = pages_of_group(plan, g);
        uint64_t requested    = o->kv_positions / LM_PAGE + (o->kv_positions % LM_PAGE != 0);
        if (o->kv_positions && requested < g->n_pages && !g->states)
            g->n_pages = requested;
        g->offset = plan->kv_bytes;
        if (g->n_pages > UINT32_MAX / 2 || !lm_mul_u64(g->n_pages, g->page_bytes, &bytes) ||
            !lm_add_u64(plan->kv_bytes, bytes, &plan->kv_bytes) || plan->kv_bytes > INT64_MAX)
            return lm_fail(e, LM_NO_FIT, "cache", LM_NO_OFFSET, "size exceeds the address space");
    }
    return LM_OK;
}
