/* grammar.c - create, match and free grammars. */
#include "grammar/grammar.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { NODES_FOR_A_STATE = 8 };

lm_grammar_options lm_grammar_defaults(void) { return (lm_grammar_options){ 0 }; }

lm_status lm_grammar_begin(lm_terms *p, const lm_grammar_options *o, size_t size, lm_error *e)
{
    LM_CHECK_RESERVED(e, o);
    if (size > LM_GRAMMAR_BYTES)
        return lm_fail(e, LM_LIMIT, NULL, LM_NO_OFFSET, "the grammar has %zu bytes; at most %d are allowed",
                       size, LM_GRAMMAR_BYTES);
    LM_TRY(lm_terms_init(p, e));
    uint64_t states = o && o->max_states ? o->max_states : LM_GRAMMAR_STATES;
    p->max_nodes = states * NODES_FOR_A_STATE > UINT32_MAX / 8 ? UINT32_MAX / 8
                                                               : (uint32_t)(states * NODES_FOR_A_STATE);
    p->max_states  = states > UINT32_MAX / 8 ? UINT32_MAX / 8 : (uint32_t)states;
    p->max_work    = o && o->max_work ? o->max_work : LM_GRAMMAR_WORK;
    return LM_OK;
}

lm_grammar *lm_grammar_ref(const lm_grammar *g)
{
    lm_grammar *mine = (lm_grammar *)(uintptr_t)g;       /* references are counted on constants too */

    __atomic_add_fetch(&mine->refs, 1, __ATOMIC_RELAXED);
    return mine;
}

void lm_grammar_free(lm_grammar *g)
{
    if (!g || __atomic_sub_fetch(&g->refs, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    for (uint32_t i = 0; i < g->n_automata; i++)
        lm_automaton_free(g->automata[i]);
    lm_free(g->automata);
    lm_terms_free(&g->pool);
    lm_grammar_free(g->base);
    pthread_mutex_destroy(&g->lock);
    lm_free(g);
}

lm_status lm_grammar_finish(lm_terms *p, lm_expr_id root, lm_grammar **out, uint32_t *rule, lm_error *e)
{
    lm_grammar *g = NULL;
    lm_status   status;

    /* its own rule, so that the flags of rules tell whether the root is live */
    uint32_t start = lm_rule_new(p);
    lm_rule_define(p, start, root);
    root   = lm_rule_node(p, start);
    status = lm_terms_resolve(p, rule, e);
    if (status == LM_OK && !lm_is(p, root, LM_LIVE))
        status = lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "no text fits the grammar");
    if (status == LM_OK && !(g = lm_alloc_zero(1, sizeof *g)))
        status = lm_fail_memory(e, "a grammar", sizeof *g);
    if (status != LM_OK) {
        lm_terms_free(p);
        return status;
    }
    pthread_mutex_init(&g->lock, NULL);
    g->refs = 1;
    g->pool = *p;
    g->root = root;
    *p      = (lm_terms){ 0 };
    *out    = g;
    return LM_OK;
}

static lm_status add_automaton(lm_grammar *g, const lm_vocabulary *v, lm_automaton **out, lm_error *e)
{
    LM_TRY(lm_automaton_new(&g->pool, g->root, v, out, e));
    if (!lm_terms_reserve(&(*out)->pool, &g->automata, g->n_automata, &g->automata_capacity,
                          sizeof *g->automata, 1)) {
        lm_automaton_free(*out);
        return lm_fail_memory(e, "a grammar", 0);
    }
    g->automata[g->n_automata++] = *out;
    return LM_OK;
}

lm_status lm_grammar_automaton(const lm_grammar *g, const lm_vocabulary *v, lm_automaton **out, lm_error *e)
{
    lm_grammar *mine = (lm_grammar *)(uintptr_t)g;       /* its automata are a cache, under its lock */
    lm_status   status = LM_OK;
    uint32_t    i = 0;

    pthread_mutex_lock(&mine->lock);
    while (i < g->n_automata && g->automata[i]->v != v)
        i++;
    if (i < g->n_automata)
        *out = g->automata[i];
    else
        status = add_automaton(mine, v, out, e);
    pthread_mutex_unlock(&mine->lock);
    return status;
}

lm_status lm_grammar_matches(const lm_grammar *g, const char *text, size_t size, bool *whole, size_t *fits,
                             lm_error *e)
{
    lm_automaton *m;
    lm_status   status = LM_OK;
    size_t      i = 0;

    LM_REQUIRE(e, g && (text || !size) && whole && fits);
    LM_TRY(lm_grammar_automaton(g, NULL, &m, e));
    pthread_mutex_lock(&m->lock);
    uint32_t s = lm_state_of(m, m->root);
    while (i < size && s != LM_DEAD && status == LM_OK) {
        lm_automaton_begin(m);
        s = lm_state_next(m, s, (uint8_t)text[i]);
        i += s != LM_DEAD;
        lm_constraint here = { .states = { s } };        /* keeps the state during garbage collection */
        m->first = &here;
        status   = lm_automaton_end(m, e);
        m->first = NULL;
        s        = s == LM_DEAD ? s : here.states[0];
    }
    if (status == LM_OK) {
        *whole = s != LM_DEAD && i == size && lm_state_final(m, s);
        *fits  = i;
    }
    pthread_mutex_unlock(&m->lock);
    return status;
}

lm_status lm_grammar_choice(const char *const *texts, size_t n, const lm_grammar_options *o, lm_grammar **out,
                            lm_error *e)
{
    LM_REQUIRE(e, texts && n && out);
    lm_terms  pool;
    lm_expr_id any = LM_NOTHING;
    size_t   size = 0;
    uint32_t rule;

    for (size_t i = 0; i < n; i++) {
        LM_REQUIRE(e, texts[i]);
        size += strlen(texts[i]);
    }
    LM_TRY(lm_grammar_begin(&pool, o, size, e));
    for (size_t i = 0; i < n; i++)
        any = lm_alt(&pool, any, lm_word(&pool, texts[i]));
    return lm_grammar_finish(&pool, any, out, &rule, e);
}
