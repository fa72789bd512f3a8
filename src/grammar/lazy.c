/* lazy.c - free text up to a trigger, then a grammar: one automaton for both (Aho and Corasick 1975 for the
 * words). */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/derivative.h"

enum { MAX_WORD = 256, MAX_TRIGGERS = 256, MAX_SPACE = 8 };

typedef struct lazy {
    lm_terms   pool;
    lm_expr_id root;
    uint32_t  n, rule;               /* n: number of states; rule: rule of the first state */
    uint32_t *child;                 /* [n][256]; 0: none */
    uint32_t *fail;
    lm_expr_id *hit;                 /* what follows a word that ends in this state */
    uint32_t *queue;
} lazy;

static lm_status begin(lazy *z, size_t states, lm_error *e)
{
    z->child = lm_alloc_zero(states * 256, sizeof *z->child);
    z->fail  = lm_alloc_zero(states, sizeof *z->fail);
    z->hit   = lm_alloc_zero(states, sizeof *z->hit);
    z->queue = lm_alloc_zero(states, sizeof *z->queue);
    z->n     = 1;
    return z->child && z->fail && z->hit && z->queue ? LM_OK : lm_fail_memory(e, "triggers", states * 256);
}

static lm_status add_word(lazy *z, const lm_trigger *t, lm_error *e)
{
    uint32_t at = 0;
    lm_expr_id then = z->root;

    for (const char *c = t->word; *c; c++) {
        uint32_t *next = &z->child[at * 256 + (uint8_t)*c];
        if (!*next)
            *next = z->n++;
        at = *next;
        if (!t->before)
            then = lm_derivative(&z->pool, then, (uint8_t)*c);
    }
    if (then == LM_NOTHING)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET,
                       "the trigger '%s' does not fit the beginning of the grammar", t->word);
    z->hit[at] = lm_alt(&z->pool, z->hit[at], then);
    return LM_OK;
}

/* Compute the state that follows when the text does not continue a word: breadth first, so that shorter words
 * are done first. */
static void link_states(lazy *z)
{
    uint32_t from = 0, to = 1;

    for (z->queue[0] = 0; from < to; from++) {
        uint32_t s = z->queue[from];
        for (unsigned b = 0; b < 256; b++) {
            uint32_t *next = &z->child[s * 256 + b], other = s ? z->child[z->fail[s] * 256 + b] : 0;
            if (!*next) {
                *next = other;
                continue;
            }
            z->fail[*next]   = other;
            z->hit[*next]    = lm_alt(&z->pool, z->hit[*next], z->hit[other]);
            z->queue[to++]   = *next;
        }
    }
}

/* Return what remains of the grammar after the trigger's token: the grammar contains the token, or the text
 * of the token. */
static lm_expr_id behind_token(lazy *z, const lm_trigger *t)
{
    lm_expr_id then = z->root;

    if (t->before)
        return then;
    if (!t->control)
        return lm_derivative_by_token(&z->pool, then, t->token, true);
    for (const char *c = t->word; c && *c; c++)
        then = lm_derivative(&z->pool, then, (uint8_t)*c);
    return then;
}

static bool is_word(const lm_trigger *t)
{
    return t->word && !t->control;
}

static lm_status token_triggers(lazy *z, const lm_trigger *triggers, size_t n, lm_expr_id *out, lm_error *e)
{
    lm_token ids[MAX_TRIGGERS];
    uint32_t count = 0;
    lm_terms *p = &z->pool;

    *out = LM_NOTHING;
    for (size_t i = 0; i < n; i++) {
        if (is_word(&triggers[i]))
            continue;
        lm_expr_id then = behind_token(z, &triggers[i]);
        if (then == LM_NOTHING)
            return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET,
                           "the trigger token %d does not fit the beginning of the grammar",
                           triggers[i].token);
        ids[count++] = triggers[i].token;
        *out = lm_alt(p, *out, lm_cat(p, lm_token_item(p, LM_TOKENS_OF, &triggers[i].token, 1), then));
    }
    lm_expr_id others = lm_token_item(p, LM_TOKENS_SPECIAL_BUT, ids, count);
    *out = lm_alt(p, *out, lm_cat(p, others, lm_rule_node(p, z->rule)));
    return LM_OK;
}

static lm_expr_id body_of(lazy *z, uint32_t s, lm_expr_id tokens, bool required)
{
    lm_terms  *p = &z->pool;
    uint32_t *row = z->child + (size_t)s * 256;
    lm_expr_id body = required ? tokens : lm_optional(p, tokens);
    bool      done[256] = { false };

    for (unsigned b = 0; b < 256; b++) {
        lm_byte_set set = { { 0 } };
        if (done[b])
            continue;
        for (unsigned k = b; k < 256; k++)
            if (row[k] == row[b]) {
                done[k] = true;
                lm_byte_set_add(&set, k, k);
            }
        lm_expr_id next = z->hit[row[b]] != LM_NOTHING ? z->hit[row[b]] : lm_rule_node(p, z->rule + row[b]);
        body = lm_alt(p, body, lm_cat(p, lm_bytes(p, &set), next));
    }
    return body;
}

static lm_status make(lazy *z, const lm_trigger *triggers, size_t n, bool required, lm_error *e)
{
    size_t  states = 1;
    lm_expr_id tokens;

    for (size_t i = 0; i < n; i++) {
        size_t size = triggers[i].word ? strlen(triggers[i].word) : 1;
        if (size == 0 || size > MAX_WORD)
            return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "a trigger has 1 to %d bytes, this one %zu",
                           MAX_WORD, size);
        states += size;
    }
    LM_TRY(begin(z, states, e));
    for (size_t i = 0; i < n; i++)
        if (is_word(&triggers[i]))
            LM_TRY(add_word(z, &triggers[i], e));
    link_states(z);
    z->rule = z->pool.n_rules;
    for (uint32_t s = 0; s < z->n; s++)
        lm_rule_new(&z->pool);
    LM_TRY(token_triggers(z, triggers, n, &tokens, e));
    for (uint32_t s = 0; s < z->n; s++)
        lm_rule_define(&z->pool, z->rule + s, body_of(z, s, tokens, required));
    return lm_terms_check(&z->pool, e);
}

/* `g` itself, or white space, the mark, and what waits for the triggers. While the mark's part lasts the
 * latter allows any text; when it has ended both demand the same. */
static lm_expr_id opened(lazy *z, const lm_trigger *open)
{
    lm_terms   *p = &z->pool;
    lm_byte_set space = { { 0 } };
    lm_expr_id  mark = is_word(open) ? lm_word(p, open->word)
                                     : lm_token_item(p, LM_TOKENS_OF, &open->token, 1);

    for (const char *c = " \t\r\n"; *c; c++)
        lm_byte_set_add(&space, (uint8_t)*c, (uint8_t)*c);
    mark = lm_cat(p, mark, lm_rule_node(p, z->rule));
    return lm_alt(p, z->root, lm_cat(p, lm_repeat(p, lm_bytes(p, &space), 0, MAX_SPACE), mark));
}

/* `open`: NULL, or the mark without which the triggers do not count. */
static lm_status create(const lm_grammar *g, const lm_trigger *open, const lm_trigger *triggers, size_t n,
                        bool required, lm_grammar **out, lm_error *e)
{
    lazy     z = { .root = g->root };
    uint32_t rule;

    LM_TRY(lm_terms_copy(&z.pool, &g->pool, e));
    z.pool.max_work = 0;
    lm_status status = make(&z, triggers, n, required, e);
    if (status == LM_OK) {
        z.pool.resolved = false;
        lm_expr_id root = open ? opened(&z, open) : lm_rule_node(&z.pool, z.rule);
        status = lm_grammar_finish(&z.pool, root, out, &rule, e);
        if (status == LM_OK)
            (*out)->base = lm_grammar_ref(g);            /* objects are shared */
    } else {
        lm_terms_free(&z.pool);
    }
    lm_free(z.child);
    lm_free(z.fail);
    lm_free(z.hit);
    lm_free(z.queue);
    return status;
}

lm_status lm_grammar_after(const lm_grammar *g, const lm_trigger *triggers, size_t n, bool required,
                           lm_grammar **out, lm_error *e)
{
    LM_REQUIRE(e, g && triggers && n && out);
    if (n > MAX_TRIGGERS)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET,
                       "the request has %zu triggers; at most %d are allowed", n, MAX_TRIGGERS);
    return create(g, NULL, triggers, n, required, out, e);
}

lm_status lm_grammar_after_part(const lm_grammar *g, const lm_trigger *open, const lm_trigger *close,
                                lm_grammar **out, lm_error *e)
{
    return create(g, open, close, 1, false, out, e);
}
