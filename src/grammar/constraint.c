/* constraint.c - the position of one sequence in a grammar. */
#include "lamina/grammar.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "grammar/grammar.h"

static void link_in(lm_constraint *c)
{
    lm_automaton *m = c->m;

    c->next = m->first;
    c->link = &m->first;
    if (c->next)
        c->next->link = &c->next;
    m->first = c;
}

lm_status lm_constraint_new(const lm_grammar *g, const lm_vocabulary *v, lm_constraint **out, lm_error *e)
{
    LM_REQUIRE(e, g && v && out);
    lm_automaton    *m;

    LM_TRY(lm_grammar_automaton(g, v, &m, e));
    lm_constraint *c = lm_alloc_zero(1, sizeof *c);
    if (!c)
        return lm_fail_memory(e, "a constraint", sizeof *c);
    c->m = m;
    c->g = lm_grammar_ref(g);
    pthread_mutex_lock(&m->lock);
    lm_automaton_begin(m);
    c->states[0] = lm_state_of(m, m->root);
    link_in(c);
    lm_status status = lm_automaton_end(m, e);
    pthread_mutex_unlock(&m->lock);
    if (status != LM_OK) {
        lm_constraint_free(c);
        return status;
    }
    *out = c;
    return LM_OK;
}

lm_status lm_constraint_clone(const lm_constraint *c, lm_constraint **out, lm_error *e)
{
    LM_REQUIRE(e, c && out);
    lm_constraint *mine = lm_alloc(sizeof *mine);

    if (!mine)
        return lm_fail_memory(e, "a constraint", sizeof *mine);
    pthread_mutex_lock(&c->m->lock);
    *mine       = *c;
    mine->g     = lm_grammar_ref(c->g);
    mine->begun = false;
    mine->n_ids = 0;
    mine->bits  = NULL;
    link_in(mine);
    pthread_mutex_unlock(&c->m->lock);
    *out = mine;
    return LM_OK;
}

void lm_constraint_free(lm_constraint *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->m->lock);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    pthread_mutex_unlock(&c->m->lock);
    lm_grammar_free(c->g);
    lm_free(c->bits);
    lm_free(c);
}

void lm_constraint_reset(lm_constraint *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->m->lock);
    c->at = c->kept = 0;
    c->states[0] = lm_state_of(c->m, c->m->root);
    c->ended = c->begun = false;
    c->n_ids = 0;
    pthread_mutex_unlock(&c->m->lock);
}

bool lm_constraint_complete(const lm_constraint *c)
{
    if (!c)
        return false;
    pthread_mutex_lock(&c->m->lock);
    bool final = c->ended || lm_state_final(c->m, c->states[c->at]);
    pthread_mutex_unlock(&c->m->lock);
    return final;
}

bool lm_constraint_ended(const lm_constraint *c) { return c && c->ended; }

lm_status lm_constraint_mask(lm_constraint *c, uint64_t *bits, lm_error *e)
{
    LM_REQUIRE(e, c && bits);
    lm_automaton *m = c->m;
    bool        any = false;

    if (c->ended)
        return lm_fail(e, LM_FAILED, NULL, LM_NO_OFFSET, "the text has ended");
    pthread_mutex_lock(&m->lock);
    lm_automaton_begin(m);
    lm_automaton_mask(m, c->states[c->at], bits);
    lm_status status = lm_automaton_end(m, e);
    pthread_mutex_unlock(&m->lock);
    for (uint32_t i = 0; i < m->v->n_words && !any; i++)
        any = bits[i];
    if (status == LM_OK && !any)
        status = lm_fail(e, LM_FAILED, NULL, LM_NO_OFFSET,
                         "no token of the vocabulary fits the grammar here");
    return status;
}

/* Return the state after a token, LM_DEAD if it does not fit. *end: it is an end-of-text token, and the text
 * may end here. */
static uint32_t after(lm_automaton *m, uint32_t state, lm_token id, bool *end)
{
    const lm_vocabulary *v = m->v;
    const uint8_t        special = v->special[id];
    const lm_expr_id     n = m->states[state].node;
    uint32_t             s = state;

    *end = (special & LM_TOKEN_ENDS) && lm_state_final(m, state);
    for (uint32_t i = v->text_at[id]; i < v->text_at[id + 1] && s != LM_DEAD; i++)
        s = lm_state_next(m, s, v->text[i]);
    if (v->text_at[id] == v->text_at[id + 1])
        s = LM_DEAD;
    if (lm_is(&m->pool, n, LM_TOKENS)) {
        lm_expr_id by_name = lm_derivative_by_token(&m->pool, n, id, special & LM_TOKEN_CONTROL);
        if (by_name != LM_NOTHING)
            s = lm_state_of(m, lm_alt(&m->pool, by_name, m->states[s].node));
    }
    return s;
}

static lm_status refused(const lm_constraint *c, lm_token id, lm_error *e)
{
    const lm_vocabulary *v = c->m->v;
    char                 text[40];
    uint32_t             n = v->text_at[id + 1] - v->text_at[id];

    if (n >= sizeof text)
        n = sizeof text - 1;
    memcpy(text, v->text + v->text_at[id], n);
    text[n] = '\0';
    return lm_fail(e, LM_FAILED, NULL, LM_NO_OFFSET, "token %d, '%s', does not fit the grammar", id, text);
}

lm_status lm_constraint_accept(lm_constraint *c, lm_token id, lm_error *e)
{
    LM_REQUIRE(e, c);
    lm_automaton *m = c->m;
    bool        end = false;

    if (id < 0 || (uint32_t)id >= m->v->size)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "token %d is outside the vocabulary of %u", id,
                       m->v->size);
    if (c->ended)
        return lm_fail(e, LM_FAILED, NULL, LM_NO_OFFSET, "the text has ended");
    pthread_mutex_lock(&m->lock);
    lm_automaton_begin(m);
    uint32_t s = after(m, c->states[c->at], id, &end);
    bool     fits = m->pool.status == LM_OK && (s != LM_DEAD || end);
    if (fits) {
        c->ended = end && s == LM_DEAD;
        uint32_t here = c->states[c->at];
        c->at = (c->at + 1) % LM_HISTORY;
        c->states[c->at] = s != LM_DEAD ? s : here;
        c->kept += c->kept < LM_HISTORY - 1;
    }
    lm_status status = lm_automaton_end(m, e);
    pthread_mutex_unlock(&m->lock);
    return status == LM_OK && !fits ? refused(c, id, e) : status;
}

lm_status lm_constraint_rollback(lm_constraint *c, size_t n, lm_error *e)
{
    LM_REQUIRE(e, c);
    if (n > c->kept)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "%zu tokens cannot be taken back, only %u", n,
                       c->kept);
    pthread_mutex_lock(&c->m->lock);
    c->at    = (c->at + LM_HISTORY - (uint32_t)n) % LM_HISTORY;
    c->kept -= (uint32_t)n;
    c->ended = c->ended && n == 0;
    c->n_ids -= c->begun && n < c->n_ids ? n : 0;
    pthread_mutex_unlock(&c->m->lock);
    return LM_OK;
}

lm_status lm_constraint_logits(void *constraint, float *logits, uint32_t n_vocab, const lm_token *ids,
                               size_t n, lm_error *e)
{
    LM_REQUIRE(e, constraint && logits && (ids || !n));
    lm_constraint *c = constraint;
    uint64_t       few[512], *bits = few;
    lm_status      status;

    if (!c->begun) {
        c->begun = true;
        c->n_ids = n;
    }
    if (n_vocab > c->m->v->size)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "logits of %u tokens; the vocabulary has %u", n_vocab,
                       c->m->v->size);
    for (; c->n_ids < n; c->n_ids++)
        LM_TRY(lm_constraint_accept(c, ids[c->n_ids], e));
    if (c->m->v->n_words > 512) {
        if (!c->bits && !(c->bits = lm_alloc(c->m->v->n_words * sizeof *bits)))
            return lm_fail_memory(e, "a mask", c->m->v->n_words * sizeof *bits);
        bits = c->bits;
    }
    status = lm_constraint_mask(c, bits, e);
    for (uint32_t i = 0; i < n_vocab && status == LM_OK; i++)
        if (!(bits[i >> 6] >> (i & 63) & 1))
            logits[i] = -INFINITY;
    return status;
}
