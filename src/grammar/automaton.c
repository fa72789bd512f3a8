/* automaton.c - states of the automaton. */
#include "grammar/automaton.h"

#include <string.h>

#include "base/alloc.h"

enum {
    MAX_NEW = 1 << 20,               /* nodes created for one mask */
    MAX_LISTED = 1 << 24,            /* alternatives listed for one mask */
    USUALLY_KEPT = 1 << 18,          /* nodes; or twice what is needed, if that is more */
    MAX_NEEDED = 1 << 24,
    MAX_TRANSITIONS = 1 << 25,       /* limit on transitions: 128 MiB */
    MAX_HEAD_BYTES = 1 << 27,
    MAX_WAYS = 4096,                 /* parallel ways to parse one text */
};

void lm_counted_clear(lm_counted *x)
{
    lm_free(x->inside.list);
    lm_free(x->past.list);
    lm_free(x->exits.list);
    lm_free(x->up_to);
    *x = (lm_counted){ .key = x->key, .unknown = true };
}

static void drop_counts(lm_automaton *m)
{
    for (uint32_t i = 0; i < m->n_counted; i++)
        lm_counted_clear(&m->counted[i]);
    m->n_counted = 0;
}

void lm_automaton_free(lm_automaton *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < m->n_heads; i++) {
        lm_free(m->heads[i].bits);
        lm_free(m->heads[i].exits);
    }
    drop_counts(m);
    lm_free(m->counted);
    lm_terms_free(&m->pool);
    lm_free(m->states);
    lm_free(m->next);
    lm_free(m->state_of);
    lm_free(m->head_of);
    lm_free(m->heads);
    lm_free(m->masks);
    lm_free(m->scratch);
    lm_free(m->exits);
    lm_vocabulary_free(m->v);
    pthread_mutex_destroy(&m->lock);
    lm_free(m);
}

static lm_status begin_states(lm_automaton *m, lm_error *e)
{
    m->n_states = 1;                                     /* LM_DEAD */
    if (!lm_terms_reserve(&m->pool, &m->states, 0, &m->states_capacity, sizeof *m->states, 16) ||
        !lm_terms_reserve(&m->pool, &m->next, 0, &m->next_capacity, sizeof *m->next, m->n_classes))
        return lm_fail_memory(e, "a grammar", 0);
    m->states[0] = (lm_state){ LM_NOTHING, 0 };
    memset(m->next, 0, m->n_classes * sizeof *m->next);
    return LM_OK;
}

lm_status lm_automaton_new(const lm_terms *p, lm_expr_id root, const lm_vocabulary *v, lm_automaton **out,
                           lm_error *e)
{
    lm_automaton *m = lm_alloc_zero(1, sizeof *m);
    lm_status   status;

    if (!m)
        return lm_fail_memory(e, "a grammar", sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
    status = lm_terms_copy(&m->pool, p, e);
    if (status == LM_OK) {
        m->root        = root;
        m->fixed       = m->pool.n;
        m->max_kept   = m->pool.n + USUALLY_KEPT;
        m->fixed_lists = m->pool.n_lists;
        m->fixed_bytes = m->pool.n_bytes;
        m->pool.max_work = 0;
        m->pool.max_list = MAX_WAYS;
        m->pool.max_nodes = UINT32_MAX / 4;
        m->n_classes   = lm_byte_classes(&m->pool, m->class_of);
        status         = begin_states(m, e);
    }
    if (status == LM_OK && v) {
        m->v     = lm_vocabulary_ref(v);
        m->masks = lm_alloc_zero(LM_CACHED_MASKS, v->n_words * sizeof *m->masks);
        m->scratch = lm_alloc_zero(v->n_words, sizeof *m->scratch);
        if (!m->masks || !m->scratch)
            status = lm_fail_memory(e, "masks", LM_CACHED_MASKS * v->n_words * sizeof *m->masks);
    }
    if (status != LM_OK) {
        lm_automaton_free(m);
        return status;
    }
    *out = m;
    return LM_OK;
}

static bool by_node(lm_automaton *m, uint32_t **array, uint32_t *capacity, lm_expr_id n)
{
    uint32_t had = *capacity;

    if (n < had)
        return true;
    if (!lm_terms_reserve(&m->pool, array, n, capacity, sizeof **array, 1))
        return false;
    memset(*array + had, 0, (*capacity - had) * sizeof **array);
    return true;
}

uint32_t lm_state_of(lm_automaton *m, lm_expr_id n)
{
    if (n == LM_NOTHING || m->pool.status != LM_OK || !by_node(m, &m->state_of, &m->state_of_capacity, n))
        return LM_DEAD;
    if (m->state_of[n])
        return m->state_of[n];
    uint32_t s = m->n_states;
    if (!lm_terms_reserve(&m->pool, &m->states, s, &m->states_capacity, sizeof *m->states, 1) ||
        !lm_terms_reserve(&m->pool, &m->next, s * m->n_classes, &m->next_capacity, sizeof *m->next,
                          m->n_classes))
        return LM_DEAD;
    m->states[s] = (lm_state){ n, 0 };
    memset(m->next + (size_t)s * m->n_classes, 0xFF, m->n_classes * sizeof *m->next);
    m->state_of[n] = s;
    m->n_states++;
    return s;
}

uint32_t lm_state_make(lm_automaton *m, uint32_t state, uint8_t byte)
{
    uint32_t to = lm_state_of(m, lm_derivative(&m->pool, m->states[state].node, byte));

    if (m->pool.status == LM_OK)
        m->next[(size_t)state * m->n_classes + m->class_of[byte]] = to;
    return to;
}

/* ---- garbage collection ---- */

static void each_state(lm_automaton *m, void (*act)(lm_automaton *, uint32_t *, void *), void *arg)
{
    for (lm_constraint *c = m->first; c; c = c->next)
        for (uint32_t i = 0; i <= c->kept; i++)
            act(m, &c->states[(c->at + LM_HISTORY - i) % LM_HISTORY], arg);
}

static void mark(lm_automaton *m, uint32_t *state, void *keep)
{
    ((uint8_t *)keep)[m->states[*state].node] = 1;
}
static void to_node(lm_automaton *m, uint32_t *state, void *arg)
{
    (void)arg;
    *state = m->states[*state].node;
}

static void to_state(lm_automaton *m, uint32_t *state, void *moved)
{
    *state = lm_state_of(m, ((uint32_t *)moved)[*state]);
}

/* Free the heads of nodes that are not part of the grammar itself, and all counts. */
static void drop_heads(lm_automaton *m)
{
    uint32_t n = 0;

    for (lm_expr_id i = 0; i < m->head_of_capacity; i++) {
        if (i >= m->fixed && m->head_of[i]) {
            lm_head *h = &m->heads[m->head_of[i] - 1];
            lm_free(h->bits);
            lm_free(h->exits);
            *h = (lm_head){ 0 };
        }
    }
    uint32_t *place = m->head_of;
    for (uint32_t h = 0; h < m->n_heads; h++) {
        if (!m->heads[h].bits)
            continue;
        for (lm_expr_id i = 0; i < m->fixed && i < m->head_of_capacity; i++)
            if (place[i] == h + 1)
                place[i] = n + 1;
        m->heads[n++] = m->heads[h];
    }
    m->n_heads = n;
    for (lm_expr_id i = m->fixed; i < m->head_of_capacity; i++)
        place[i] = 0;
    drop_counts(m);
    m->head_bytes = 0;
}

static void collect(lm_automaton *m)
{
    uint8_t  *keep  = lm_alloc_zero(m->pool.n, 1);
    uint32_t *moved = lm_alloc_zero(m->pool.n, sizeof *moved);

    m->pool.status = LM_OK;
    if (keep && moved) {
        each_state(m, mark, keep);
        each_state(m, to_node, NULL);
        drop_heads(m);
        lm_terms_compact(&m->pool, m->fixed, keep, moved);
        if (m->state_of)
            memset(m->state_of, 0, m->state_of_capacity * sizeof *m->state_of);
        m->n_states = 1;
        memset(m->mask_state, 0, sizeof m->mask_state);
        each_state(m, to_state, moved);
        m->max_kept = m->pool.n > USUALLY_KEPT ? 2 * m->pool.n : m->fixed + USUALLY_KEPT;
    }
    lm_free(keep);
    lm_free(moved);
}

void lm_automaton_begin(lm_automaton *m)
{
    m->pool.max_nodes = m->pool.n + MAX_NEW;
    m->pool.max_lists = m->pool.n_lists + MAX_LISTED;
}

lm_status lm_automaton_end(lm_automaton *m, lm_error *e)
{
    lm_status status = lm_terms_check(&m->pool, e);

    if (status == LM_OK && m->pool.n > MAX_NEEDED)
        status = lm_fail(e, LM_LIMIT, NULL, LM_NO_OFFSET, "the text is nested too deeply for its grammar");
    if (status != LM_OK || m->pool.n > m->max_kept || m->pool.n_lists > m->fixed_lists + MAX_LISTED ||
        (uint64_t)m->n_states * m->n_classes > MAX_TRANSITIONS || m->head_bytes > MAX_HEAD_BYTES)
        collect(m);
    return status;
}
