/* chat_cache.c - continuing a conversation from what the engine holds of it.
 *
 * Between steps the prefix cache owns no pages that the engine's sequences can need: only those of
 * options.checkpoints, besides what the sequence itself holds. */
#include "lamina/chat.h"

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/engine/adapter.h"
#include "runtime/engine/prefixes.h"
#include "runtime/generate/generate.h"
#include "runtime/generate/sequence.h"

struct lm_chat_cache {
    lm_engine  *g;
    uint32_t    sequence;
    lm_tokens   held;                    /* whose keys and values the sequence holds */
    uint64_t    salt;                    /* of the reply */
    lm_prefix  *node;                    /* pinned: the last page of the sequence that has one; or NULL */
    lm_prefixes prefixes;
};

lm_status lm_chat_cache_new(lm_engine *g, uint32_t sequence, lm_chat_cache **out, lm_error *e)
{
    LM_REQUIRE(e, g && out);
    lm_chat_cache *c = lm_alloc_zero(1, sizeof *c);

    if (!c)
        return lm_fail_memory(e, "the cache", sizeof *c);
    c->g             = g;
    c->sequence      = sequence;
    lm_status status = lm_engine_truncate(g, sequence, 0, e);
    if (status == LM_OK)
        status = lm_prefixes_open(&c->prefixes, g, 0, e);
    if (status == LM_OK)
        *out = c;
    else
        lm_chat_cache_free(c);
    return status;
}

void lm_chat_cache_free(lm_chat_cache *c)
{
    if (!c)
        return;
    if (c->prefixes.g)
        lm_prefixes_close(&c->prefixes);
    lm_tokens_free(&c->held);
    lm_free(c);
}

/* Return to the pools the pages that only the prefix cache owns, except as many as the engine has besides
 * those that its sequences can need. */
static void trim(lm_chat_cache *c)
{
    const lm_plan *plan = c->g->plan;

    for (uint32_t i = 0; i < plan->n_groups; i++) {
        const lm_kv_group *k   = &plan->groups[i];
        uint64_t           own = lm_kv_sequence_pages(plan, k) * plan->options.sequences +
                                 lm_kv_step_pages(plan, k);
        while (lm_prefixes_spare(&c->prefixes, i) + own > k->n_pages && lm_prefixes_evict(&c->prefixes, i))
            ;
    }
}

/* Begin the sequence with the longest prefix of the prompt that is held. *kept: its length. */
static lm_status begin(lm_chat_cache *c, const lm_token *prompt, size_t n, uint32_t *kept, lm_error *e)
{
    uint32_t   same = 0, limit = n ? (uint32_t)n - 1 : 0;
    size_t     cached;
    lm_prefix *node;

    while (same < limit && same < c->held.n && c->held.ids[same] == prompt[same])
        same++;
    c->salt = lm_prefixes_salt_for(&c->prefixes, 0, lm_engine_adapters_of(c->g, c->sequence));
    node    = lm_prefixes_find(&c->prefixes, c->salt, prompt, n, &cached);
    LM_TRY(lm_engine_keep(c->g, c->sequence, same, kept, e));
    if (cached > *kept) {
        LM_TRY(lm_engine_truncate(c->g, c->sequence, 0, e));
        lm_prefixes_share(&c->prefixes, node, c->sequence, (uint32_t)cached);
        *kept = (uint32_t)cached;
    }
    lm_prefixes_unpin(c->node);
    c->node = lm_prefixes_down(&c->prefixes, c->salt, prompt, *kept);
    lm_prefixes_pin(c->node);
    trim(c);
    return LM_OK;
}

/* Let steps of the prompt end where states are kept. */
static uint32_t rows_to_keep(void *arg, const lm_sequence *s)
{
    const lm_chat_cache *c = arg;

    return lm_engine_rows_to_keep(c->g, (uint32_t)s->at, (uint32_t)(s->n_reads - s->at));
}

/* Add the pages that the step has filled. */
static void on_step(void *arg, const lm_sequence *s)
{
    lm_chat_cache *c = arg;

    lm_prefixes_follow(&c->prefixes, &c->node, c->salt, s->ids, s->at, s->n_prompt, c->sequence);
    trim(c);
}

/* Record the tokens that the sequence holds: the first of the prompt and the chosen ones. */
static lm_status remember(lm_chat_cache *c, const lm_token *prompt, size_t n, const lm_tokens *chosen,
                          lm_error *e)
{
    size_t length = lm_engine_length(c->g, c->sequence);

    LM_TRY(lm_tokens_append(&c->held, prompt, n, e));
    LM_TRY(lm_tokens_append(&c->held, chosen->ids, chosen->n, e));
    c->held.n = c->held.n < length ? c->held.n : length;
    return LM_OK;
}

lm_status lm_chat_cache_generate(lm_chat_cache *c, lm_sampler *s, const lm_token *prompt, size_t n,
                                 const lm_generate_options *o, lm_generation *out, lm_error *e)
{
    lm_generate_options own     = o ? *o : lm_generate_defaults();
    lm_stepped          stepped = { rows_to_keep, on_step, c };
    lm_generation       made    = { 0 };
    uint32_t            kept    = 0;
    lm_status status = c && s && (prompt || !n) && out ? begin(c, prompt, n, &kept, e)
                                                       : lm_fail_null(e, __func__);

    if (!c) {
        lm_sequence_release_hooks(&own.sequence);
        return status;
    }
    own.sequence.sequence = c->sequence;
    if (status == LM_OK)
        status = lm_generate_stepped(c->g, s, prompt, n, kept, &own, &stepped, &made, e);
    else
        lm_sequence_release_hooks(&own.sequence);
    lm_prefixes_mark(&c->prefixes, c->node);
    c->held.n = 0;
    if (status == LM_OK)
        status = remember(c, prompt, n, &made.ids, e);
    if (status == LM_OK) {
        *out = made;
        return LM_OK;
    }
    lm_generation_free(&made);           /* it may have failed at any step: what is held is unknown */
    lm_engine_truncate(c->g, c->sequence, 0, NULL);
    c->held.n = 0;
    return status;
}
