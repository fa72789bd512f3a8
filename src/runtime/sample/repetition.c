/* repetition.c - the samplers that look back: penalties for earlier tokens, and DRY.
 *
 * Penalties: repetition (Keskar et al. 2019, arXiv 1909.05858), presence and frequency as in the OpenAI API.
 * DRY ("don't repeat yourself", the proposal for text-generation-webui, 2024): a token that would continue a
 * repeat of n tokens loses multiplier * base^(n - allowed_length). A breaker ends every repeat that reaches
 * back across it. */
#include "runtime/sample/sampler.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* Return the i-th token from the end: 0 is the newest. */
static lm_token back(const lm_history *h, size_t i)
{
    return h->ring[(h->at + h->capacity - 1 - i) % h->capacity];
}

/* ---- history ---- */

static size_t wanted(int32_t last_n)
{
    return last_n < 0 || last_n > (int32_t)LM_HISTORY_MAX ? LM_HISTORY_MAX : (size_t)last_n;
}

bool lm_history_penalises(const lm_sampler_options *o)
{
    return o->repeat_last_n != 0 &&
           (o->repeat_penalty != 1 || o->presence_penalty != 0 || o->frequency_penalty != 0);
}

bool lm_history_has_dry(const lm_sampler_options *o)
{
    return o->dry_multiplier != 0 && o->dry_penalty_last_n != 0;
}

lm_status lm_history_init(lm_history *h, const lm_sampler_options *o, uint32_t n_vocab, lm_breakers *breakers,
                          lm_error *e)
{
    *h = (lm_history){ .n_vocab = n_vocab, .breakers = lm_breakers_retain(breakers) };
    if (lm_history_penalises(o)) {
        h->count = lm_alloc_zero(n_vocab, sizeof *h->count);
        if (!h->count)
            return lm_fail_memory(e, "penalties", n_vocab * sizeof *h->count);
        if (o->repeat_last_n > 0)
            h->window = h->capacity = wanted(o->repeat_last_n);
    }
    if (lm_history_has_dry(o)) {
        size_t n = wanted(o->dry_penalty_last_n);
        h->capacity = n > h->capacity ? n : h->capacity;
        h->match = lm_alloc_zero(n, sizeof *h->match);
        h->longest = lm_alloc_zero(n_vocab, sizeof *h->longest);
        if (!h->match || !h->longest)
            return lm_fail_memory(e, "DRY", (n + n_vocab) * sizeof *h->match);
    }
    if (h->capacity) {
        h->ring = lm_alloc_zero(h->capacity, sizeof *h->ring);
        if (!h->ring)
            return lm_fail_memory(e, "sampler history", h->capacity * sizeof *h->ring);
    }
    return LM_OK;
}

void lm_history_free(lm_history *h)
{
    lm_breakers_drop(h->breakers);
    lm_free(h->ring);
    lm_free(h->count);
    lm_free(h->match);
    lm_free(h->longest);
    *h = (lm_history){ 0 };
}

void lm_history_reset(lm_history *h)
{
    h->n = h->at = 0;
    if (h->count)
        memset(h->count, 0, h->n_vocab * sizeof *h->count);
}

void lm_history_add(lm_history *h, lm_token id)
{
    if (id < 0 || (size_t)id >= h->n_vocab)
        return;
    if (h->count) {
        if (h->window && h->n >= h->window)
            h->count[back(h, h->window - 1)]--;
        h->count[id]++;
    }
    if (!h->capacity)
        return;
    h->ring[h->at] = id;
    h->at = (h->at + 1) % h->capacity;
    h->n += h->n < h->capacity;
}

/* ---- penalties ---- */

void lm_history_penalise(const lm_history *h, const lm_sampler_options *o, lm_candidates *c)
{
    if (!h->count)
        return;
    for (size_t i = 0; i < c->n; i++) {
        lm_candidate *x = &c->items[i];
        uint32_t n = h->count[x->id];
        if (!n)
            continue;
        x->logit = x->logit > 0 ? x->logit / o->repeat_penalty : x->logit * o->repeat_penalty;
        x->logit -= (float)n * o->frequency_penalty + o->presence_penalty;
        c->sorted = false;
    }
}

/* ---- DRY ---- */

/* Return how far back a repeat may reach: to the newest breaker. */
static size_t repeat_limit(const lm_history *h, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t count, longest = 0;
        bool found = false;
        const lm_dry_breaker *b = lm_breakers_of(h->breakers, back(h, i), &count);

        for (size_t k = 0; k < count; k++) {
            size_t offset = 0;
            if (b[k].n_tail > i)
                continue;                                /* not complete yet */
            while (offset < b[k].n_tail && b[k].tail[offset] == back(h, i - offset - 1))
                offset++;
            if (offset < b[k].n_tail)
                continue;
            found = true;
            longest = b[k].n_tail > longest ? b[k].n_tail : longest;
        }
        if (found)
            return i - longest;
    }
    return n;
}

/* match[k]: how many tokens ending k before the end equal those at the end. (Z algorithm, Gusfield 1997, read
 * backwards.) */
static void match_suffixes(lm_history *h, size_t n)
{
    size_t left = 0, right = 0; /* the matching stretch that reaches furthest: [left,
                                                            right) */

    for (size_t k = 1; k < n; k++) {
        size_t m = k < right ? h->match[k - left] : 0;
        if (k + m >= right) {
            m = right > k ? right - k : 0;
            while (k + m < n && back(h, m) == back(h, k + m))
                m++;
            left = k;
            right = k + m;
        }
        h->match[k] = (uint32_t)m;
    }
}

static bool breaks_alone(const lm_history *h, lm_token id)
{
    size_t n;
    const lm_dry_breaker *b = lm_breakers_of(h->breakers, id, &n);

    for (size_t i = 0; i < n; i++)
        if (b[i].n_tail == 0)
            return true;
    return false;
}

void lm_history_dry(lm_history *h, const lm_sampler_options *o, lm_candidates *c)
{
    size_t n, limit, allowed = (size_t)o->dry_allowed_length;
    double base = (double)o->dry_base, max_exponent;

    if (!h->match)
        return;
    n = wanted(o->dry_penalty_last_n);
    n = h->n < n ? h->n : n;
    if (n <= allowed)
        return;
    limit = repeat_limit(h, n);
    if (limit < allowed)
        return;

    match_suffixes(h, n);
    for (size_t k = 1; k < n; k++) {
        size_t m = h->match[k] < limit ? h->match[k] : limit;
        lm_token next = back(h, k - 1);
        if (m >= allowed && m + 1 > h->longest[next])
            h->longest[next] = (uint32_t)m + 1;          /* + 1: 0 means none */
    }

    /* Beyond this the power exceeds the range of float32. */
    max_exponent = base > 1.000001 ? floor(88.7228391 / log(base)) : 0;
    for (size_t i = 0; i < c->n; i++) {
        lm_candidate *x = &c->items[i];
        double exponent;
        if (!h->longest[x->id] || breaks_alone(h, x->id))
            continue;
        exponent = (double)h->longest[x->id] - 1 - (double)allowed;
        if (max_exponent > 0 && exponent > max_exponent)
            exponent = max_exponent;
        x->logit = (float)fmax((double)x->logit - (double)o->dry_multiplier * pow(base, exponent), -3.4e38);
        c->sorted = false;
    }
    for (size_t k = 1; k < n; k++)
        h->longest[back(h, k - 1)] = 0;
}
