/* sequence.c - a sequence and its tokens. */
#include "runtime/generate/sequence.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/sample/sampler.h"

const char *lm_stop_word(lm_stop s)
{
    static const char *const words[] = { "none", "eos", "length", "stop", "context", "cancelled", "failed" };

    return (size_t)s < sizeof words / sizeof *words ? words[s] : "none";
}

lm_sequence_options lm_sequence_defaults(void)
{
    return (lm_sequence_options){ 0 };
}

/* ---- creation ---- */

static lm_status check_options(const lm_engine *g, const lm_sampler *sampler, const lm_sequence_options *o,
                               uint32_t n_vocab, lm_error *e)
{
    const lm_engine *d = o->draft_engine;

    if (sampler && lm_sampler_vocabulary(sampler) != n_vocab)
        return lm_fail(e, LM_USAGE, "sampler", LM_NO_OFFSET, "for %u tokens, the model has %u",
                       lm_sampler_vocabulary(sampler), n_vocab);
    if (o->sequence >= lm_engine_sequences(g))
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "%u of %u", o->sequence,
                       lm_engine_sequences(g));
    if (o->logprobs < -1 || o->logprobs > (int64_t)n_vocab)
        return lm_fail(e, LM_USAGE, "logprobs", LM_NO_OFFSET, "%d of a vocabulary of %u tokens", o->logprobs,
                       n_vocab);
    if (o->n_stop_ids && !o->stop_ids)
        return lm_fail(e, LM_USAGE, "stop_ids", LM_NO_OFFSET, "%zu at NULL", o->n_stop_ids);
    if (o->n_shown && !o->shown)
        return lm_fail(e, LM_USAGE, "shown", LM_NO_OFFSET, "%zu at NULL", o->n_shown);
    if (o->sampled && !sampler)
        return lm_fail(e, LM_USAGE, "sampled", LM_NO_OFFSET, "the sequence has no sampler");
    if (d && (!sampler || d == g))
        return lm_fail(e, LM_USAGE, "draft_engine", LM_NO_OFFSET,
                       d == g ? "the draft engine is the engine itself"
                              : "a draft engine needs a sampler to choose its tokens");
    if (d && o->draft_sequence >= lm_engine_sequences(d))
        return lm_fail(e, LM_USAGE, "draft_sequence", LM_NO_OFFSET, "%u of %u", o->draft_sequence,
                       lm_engine_sequences(d));
    return LM_OK;
}

/* Copy a NULL-ended list and its strings into one block; NULL: no memory. */
static const char *const *copy_strings(const char *const *list)
{
    size_t n = 0, bytes = 0;

    for (; list[n]; n++)
        bytes += strlen(list[n]) + 1;
    char **copy = lm_alloc((n + 1) * sizeof *copy + bytes), *at = copy ? (char *)(copy + n + 1) : NULL;
    if (!copy)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t size = strlen(list[i]) + 1;
        copy[i]     = memcpy(at, list[i], size);
        at += size;
    }
    copy[n] = NULL;
    return (const char *const *)copy;
}

static lm_status copy_options(lm_sequence *s, const lm_sequence_options *o, lm_error *e)
{
    size_t    tops = o->logprobs > 0 ? (size_t)o->logprobs : 0;
    lm_token *ids = NULL, *shown = NULL;

    s->o          = *o;
    s->o.stops    = o->stops && !o->no_text ? copy_strings(o->stops) : NULL;
    s->o.stop_ids = ids = o->n_stop_ids ? lm_alloc(o->n_stop_ids * sizeof *ids) : NULL;
    s->o.shown    = shown = o->n_shown ? lm_alloc(o->n_shown * sizeof *shown) : NULL;
    s->top        = tops ? lm_alloc_zero(tops, sizeof *s->top) : NULL;
    if ((o->stops && !o->no_text && !s->o.stops) || (o->n_stop_ids && !ids) || (o->n_shown && !shown) ||
        (tops && !s->top))
        return lm_fail_memory(e, "the sequence", o->n_shown * sizeof *shown);
    if (ids)
        memcpy(ids, o->stop_ids, o->n_stop_ids * sizeof *ids);
    if (shown)
        memcpy(shown, o->shown, o->n_shown * sizeof *shown);
    lm_emit_show(&s->text, shown, o->n_shown);
    return LM_OK;
}

/* Allocate what grows with the vocabulary, and open the draft. */
static lm_status open_large(lm_sequence *s, lm_error *e)
{
    s->logits = s->o.logits ? lm_alloc_zero(s->n_vocab, sizeof *s->logits) : NULL;
    if (s->o.logits && !s->logits)
        return lm_fail_memory(e, "the sequence", s->n_vocab * sizeof *s->logits);
    return lm_draft_open(&s->draft, &s->o, s->sampler, s->n_vocab, e);
}

/* Make a sequence without the release functions of its hooks, which the caller sets on success. */
static lm_status make_sequence(lm_engine *g, lm_sampler *sampler, const lm_sequence_options *o, bool small,
                               lm_sequence **out, lm_error *e)
{
    lm_model_info info;
    lm_sequence  *s;

    LM_REQUIRE(e, g && out);
    LM_CHECK_RESERVED(e, o);
    lm_model_describe(lm_engine_model(g), &info);
    LM_TRY(check_options(g, sampler, o, info.n_vocab, e));
    s = lm_alloc_zero(1, sizeof *s);
    if (!s)
        return lm_fail_memory(e, "the sequence", sizeof *s);
    s->g       = g;
    s->m       = lm_engine_model(g);
    s->sampler = sampler;
    s->n_vocab = info.n_vocab;
    s->source  = info.source;
    s->small   = small;
    atomic_init(&s->cancelled, false);
    lm_status status = copy_options(s, o, e);
    if (status == LM_OK && !small)
        status = open_large(s, e);
    s->o.logits_release = s->o.row_release = NULL;
    if (status != LM_OK) {
        lm_sequence_free(s);
        return status;
    }
    *out = s;
    return LM_OK;
}

void lm_sequence_release_hooks(lm_sequence_options *o)
{
    void (*logits)(void *arg) = o->logits_release, (*row)(void *arg) = o->row_release;

    o->logits_release = o->row_release = NULL;
    if (logits)
        logits(o->logits_arg);
    if (row)
        row(o->row_arg);
}

static lm_status new_sequence(lm_engine *g, lm_sampler *sampler, const lm_sequence_options *o, bool small,
                              lm_sequence **out, lm_error *e)
{
    lm_sequence_options given = o ? *o : lm_sequence_defaults();
    lm_status status = make_sequence(g, sampler, &given, small, out, e);

    if (status != LM_OK) {
        lm_sequence_release_hooks(&given);
        return status;
    }
    (*out)->o.logits_release = given.logits_release;
    (*out)->o.row_release    = given.row_release;
    return LM_OK;
}

lm_status lm_sequence_new(lm_engine *g, lm_sampler *sampler, const lm_sequence_options *o, lm_sequence **out,
                          lm_error *e)
{
    return new_sequence(g, sampler, o, false, out, e);
}

lm_status lm_sequence_new_small(lm_engine *g, lm_sampler *sampler, const lm_sequence_options *o,
                                lm_sequence **out, lm_error *e)
{
    return new_sequence(g, sampler, o, true, out, e);
}

void lm_sequence_free(lm_sequence *s)
{
    if (!s)
        return;
    if (s->n && !s->away)
        lm_sequence_commit(s);
    lm_sequence_release_hooks(&s->o);
    lm_draft_close(&s->draft);
    lm_emit_close(&s->text);
    lm_free((void *)s->o.stops);
    lm_free((void *)s->o.stop_ids);
    lm_free((void *)s->o.shown);
    lm_free(s->ids);
    lm_free(s->top);
    lm_free(s->logits);
    lm_free(s);
}

/* ---- tokens ---- */

static lm_status check_ids(const lm_sequence *s, const lm_token *ids, size_t n, size_t before, lm_error *e)
{
    uint32_t context = lm_engine_context(s->g);

    if (n == 0 || !ids)
        return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "the prompt has no tokens");
    if (n > context || before > context - n)
        return lm_fail(e, LM_LIMIT, "prompt", LM_NO_OFFSET, "%zu tokens; the context size is %u", before + n,
                       context);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= s->n_vocab)
            return lm_fail(e, LM_USAGE, "prompt", LM_NO_OFFSET, "token %d is outside the vocabulary of %u",
                           ids[i], s->n_vocab);
    return LM_OK;
}

lm_status lm_sequence_reserve(lm_sequence *s, size_t n, lm_error *e)
{
    size_t    max = (size_t)lm_engine_context(s->g) + 1;
    lm_token *grown;

    if (s->o.max_tokens > 0 && (uint64_t)s->o.max_tokens < max - n)
        max = n + (size_t)s->o.max_tokens;
    LM_TRY(lm_draft_reserve(&s->draft, max, e));
    if (max <= s->capacity)
        return LM_OK;
    grown = lm_realloc(s->ids, max * sizeof *grown);
    if (!grown)
        return lm_fail_memory(e, "the text", max * sizeof *grown);
    s->ids       = grown;
    s->draft.ids = grown;
    s->capacity  = max;
    return LM_OK;
}

lm_status lm_sequence_open_text(lm_sequence *s, lm_error *e)
{
    return lm_emit_open(&s->text, s->o.no_text ? NULL : lm_model_tokenizer(s->m), s->o.special, s->o.stops,
                        e);
}

void lm_sequence_begin(lm_sequence *s, size_t n_prompt)
{
    s->n_prompt = s->n_reads = n_prompt;
    s->n_read   = s->at < n_prompt ? s->at : n_prompt;
    s->n_rows = s->next = s->n_logits = s->n_shown = 0;
    s->planned = s->verified = s->answered = s->ended = false;
    s->prompt_due = s->choice_due = s->token_due = false;
    if (s->stop != LM_STOP_NONE)                         /* a cancel that came too late for the previous
                                                            prompt */
        atomic_store(&s->cancelled, false);
    s->stop = LM_STOP_NONE;
}

/* Reset sampler and draft to the tokens. */
static void begin_tokens(lm_sequence *s)
{
    if (s->sampler)
        lm_sampler_reset(s->sampler);
    for (size_t i = 0; i < s->n && s->sampler; i++)
        lm_sampler_accept(s->sampler, s->ids[i]);
    lm_draft_begin(&s->draft, s->ids, s->n);
}

/* Take a prompt. The slot holds keys and values of the first `at` tokens. */
static void take_prompt(lm_sequence *s, const lm_token *ids, size_t n, size_t at)
{
    memmove(s->ids, ids, n * sizeof *ids);
    s->n  = n;
    s->at = s->n_reused = at;
    s->n_drafted = s->n_accepted = 0;
    s->seen = 0;
    if (!s->small)
        begin_tokens(s);
    lm_sequence_begin(s, s->n);
}

lm_status lm_sequence_prompt(lm_sequence *s, const lm_token *ids, size_t n, size_t reuse, lm_error *e)
{
    LM_REQUIRE(e, s && (ids || !n));
    uint32_t length, kept;

    if (!s)
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "NULL");
    LM_TRY(check_ids(s, ids, n, 0, e));
    if (s->n)
        lm_sequence_commit(s);
    reuse  = reuse < n ? reuse : n - 1;                  /* the last prompt token's logits are needed */
    length = lm_engine_length(s->g, s->o.sequence);
    if (reuse > length)
        return lm_fail(e, LM_USAGE, "reuse", LM_NO_OFFSET, "%zu positions, the sequence holds %u", reuse,
                       length);
    LM_TRY(lm_sequence_reserve(s, n, e));
    LM_TRY(lm_sequence_open_text(s, e));
    LM_TRY(lm_engine_keep(s->g, s->o.sequence, (uint32_t)reuse, &kept, e));
    take_prompt(s, ids, n, kept);
    lm_draft_truncate(&s->draft, kept);
    return LM_OK;
}

lm_status lm_sequence_prepare(lm_sequence *s, const lm_token *ids, size_t n, lm_error *e)
{
    LM_TRY(check_ids(s, ids, n, 0, e));
    if (s->small) {
        if (!(s->ids = lm_alloc(n * sizeof *s->ids)))
            return lm_fail_memory(e, "the text", n * sizeof *s->ids);
    } else {
        LM_TRY(lm_sequence_reserve(s, n, e));
        LM_TRY(lm_sequence_open_text(s, e));
    }
    take_prompt(s, ids, n, 0);
    s->away = true;
    return LM_OK;
}

lm_status lm_sequence_open(lm_sequence *s, lm_error *e)
{
    if (!s->small)
        return LM_OK;
    if (s->sampler)
        LM_TRY(lm_sampler_open(s->sampler, e));
    LM_TRY(open_large(s, e));
    LM_TRY(lm_sequence_reserve(s, s->n, e));
    LM_TRY(lm_sequence_open_text(s, e));
    s->small = false;
    begin_tokens(s);
    return LM_OK;
}

lm_status lm_sequence_append(lm_sequence *s, const lm_token *ids, size_t n, lm_error *e)
{
    LM_REQUIRE(e, s && (ids || !n));
    if (!s)
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "NULL");
    if (s->n == 0)
        return lm_sequence_prompt(s, ids, n, 0, e);
    if (s->stop == LM_STOP_NONE)
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "it has not ended");
    LM_TRY(check_ids(s, ids, n, s->n, e));
    LM_TRY(lm_sequence_reserve(s, s->n + n, e));
    LM_TRY(lm_sequence_open_text(s, e));
    lm_sequence_commit(s);

    for (size_t i = 0; i < n; i++) {
        s->ids[s->n++] = ids[i];
        if (s->sampler)
            lm_sampler_accept(s->sampler, ids[i]);
        lm_draft_add(&s->draft);
    }
    s->n_reused = s->at;
    lm_sequence_begin(s, s->n);
    return LM_OK;
}

/* ---- cancel and describe ---- */

void lm_sequence_cancel(lm_sequence *s)
{
    if (!s)
        return;
    if (s)
        atomic_store(&s->cancelled, true);
}

void lm_sequence_describe(const lm_sequence *s, lm_sequence_info *out)
{
    if (!out)
        return;
    *out = (lm_sequence_info){ 0 };
    if (!s)
        return;
    *out = (lm_sequence_info){
        .stop = s->stop,
        .n_prompt = s->n_prompt,
        .n_read = s->n_read,
        .n_reused = s->n_reused,
        .n_tokens = s->n - s->n_prompt,
        .n_held = s->at,
        .n_drafted = s->n_drafted,
        .n_accepted = s->n_accepted,
        .draft_error = s->draft.error.code != LM_OK ? &s->draft.error : NULL,
    };
}

const lm_token *lm_sequence_ids(const lm_sequence *s, size_t *n)
{
    if (!s)
        return NULL;
    if (n)
        *n = s ? s->n : 0;
    return s ? s->ids : NULL;
}
