/* repetition.c - the samplers that look back: penalties for tokens said before, and DRY.
 *
 * Penalties: repetition (Keskar et al. 2019, arXiv 1909.05858), presence and frequency as in the OpenAI API.
 * DRY ("don't repeat yourself", the proposal for text-generation-webui, 2024): a token that would continue a repeat of n
 * tokens loses multiplier * base^(n - allowed_length). A breaker ends every repeat that reaches back across it. */
#include "runtime/sample/sampler.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* As llama.cpp limits them. */
enum { BREAKER_BYTES_MAX = 40, BREAKER_TAIL_MAX = 20 };

static const char *const default_breakers[] = { "\n", ":", "\"", "*", NULL };

/* The i-th token from the end: 0 is the newest. */
static lm_token back(const lm_history *h, size_t i)
{
    return h->ring[(h->at + h->capacity - 1 - i) % h->capacity];
}

/* ---- breakers ---- */

/* What `id` adds to a text: its spelling after an ordinary token, since some decoders strip the first token's space. */
static lm_status spelling(const lm_tokenizer *t, const lm_tokens *before, size_t before_size, lm_token id, lm_text *out,
                          size_t *from, lm_error *e)
{
    lm_token pair[2] = { before->n ? before->ids[before->n - 1] : id, id };

    out->size = 0;
    *from = before->n ? before_size : 0;
    LM_TRY(lm_detokenize(t, before->n ? pair : pair + 1, before->n ? 2 : 1, 0, out, e));
    if (out->size < *from)
        *from = out->size;
    return LM_OK;
}

static bool known_breaker(const lm_history *h, lm_token head, const lm_token *tail, size_t n)
{
    for (size_t i = h->n_breakers; i-- > 0;) {
        const lm_dry_breaker *b = &h->breakers[i];
        if (b->head != head)
            return false;                                /* they are added head by head */
        if (b->n_tail == n && (n == 0 || memcmp(b->tail, tail, n * sizeof *tail) == 0))
            return true;
    }
    return false;
}

static lm_status add_breaker(lm_history *h, lm_token head, lm_tokens *tail, lm_error *e)
{
    size_t n = tail->n < BREAKER_TAIL_MAX ? tail->n : BREAKER_TAIL_MAX;
    lm_token *copy = NULL;

    if (known_breaker(h, head, tail->ids, n))
        return LM_OK;
    if ((h->n_breakers & (h->n_breakers - 1)) == 0) {      /* full whenever the count is a power of two */
        size_t bytes = (h->n_breakers ? 2 * h->n_breakers : 1) * sizeof *h->breakers;
        lm_dry_breaker *grown = lm_realloc(h->breakers, bytes);
        if (!grown)
            return lm_fail_memory(e, "DRY breakers", bytes);
        h->breakers = grown;
    }
    if (n) {
        copy = lm_alloc(n * sizeof *copy);
        if (!copy)
            return lm_fail_memory(e, "DRY breakers", n * sizeof *copy);
        memcpy(copy, tail->ids, n * sizeof *copy);
    }
    h->breakers[h->n_breakers++] = (lm_dry_breaker){ head, (uint32_t)n, copy };
    return LM_OK;
}

/* Breaker `s` in the token `id` spelled `w`: whole inside it, or beginning in it and continued by further tokens. */
static lm_status match_breaker(lm_history *h, const lm_tokenizer *t, lm_token id, const char *w, size_t n_w, const char *s,
                               lm_tokens *tail, lm_error *e)
{
    size_t n_s = strnlen(s, BREAKER_BYTES_MAX);

    tail->n = 0;
    if (memmem(w, n_w, s, n_s))
        return add_breaker(h, id, tail, e);
    for (size_t at = n_w < n_s ? 0 : n_w - n_s + 1; at < n_w; at++) {
        if (memcmp(w + at, s, n_w - at) != 0)
            continue;
        tail->n = 0;
        LM_TRY(lm_tokenize(t, s + (n_w - at), n_s - (n_w - at), LM_NO_PARSE_SPECIAL, tail, e));
        LM_TRY(add_breaker(h, id, tail, e));
    }
    return LM_OK;
}

static lm_status find_breakers(lm_history *h, const lm_sampler_options *o, const lm_tokenizer *t, lm_error *e)
{
    const char *const *list = o->dry_breakers ? o->dry_breakers : default_breakers;
    lm_tokens before = { 0 }, tail = { 0 };
    lm_text text = { 0 };
    size_t before_size, from;
    lm_status status;

    LM_TRY_GOTO(lm_tokenize(t, "a", 1, 0, &before, e));
    if (before.n)
        LM_TRY_GOTO(lm_detokenize(t, &before.ids[before.n - 1], 1, 0, &text, e));
    before_size = text.size;

    for (uint32_t id = 0; id < h->n_vocab && id < lm_tokenizer_size(t); id++) {
        LM_TRY_GOTO(spelling(t, &before, before_size, (lm_token)id, &text, &from, e));
        for (size_t i = 0; list[i]; i++)
            if (*list[i] && text.size > from)
                LM_TRY_GOTO(match_breaker(h, t, (lm_token)id, text.data + from, text.size - from, list[i], &tail, e));
    }
    status = LM_OK;
done:
    lm_tokens_free(&before);
    lm_tokens_free(&tail);
    lm_text_free(&text);
    return status;
}

/* The breakers that begin with `id`; *n of them. */
static const lm_dry_breaker *breakers_of(const lm_history *h, lm_token id, size_t *n)
{
    size_t lo = 0, hi = h->n_breakers;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (h->breakers[mid].head < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (hi = lo; hi < h->n_breakers && h->breakers[hi].head == id;)
        hi++;
    *n = hi - lo;
    return h->breakers + lo;
}

/* ---- history ---- */

static size_t wanted(int32_t last_n)
{
    return last_n < 0 || last_n > (int32_t)LM_HISTORY_MAX ? LM_HISTORY_MAX : (size_t)last_n;
}

lm_status lm_history_init(lm_history *h, const lm_sampler_options *o, uint32_t n_vocab, const lm_tokenizer *t, lm_error *e)
{
    bool penalties = o->repeat_last_n != 0 &&
                     (o->repeat_penalty != 1 || o->presence_penalty != 0 || o->frequency_penalty != 0);
    bool dry = o->dry_multiplier != 0 && o->dry_penalty_last_n != 0;

    *h = (lm_history){ .n_vocab = n_vocab };
    if (penalties) {
        h->count = lm_alloc_zero(n_vocab, sizeof *h->count);
        if (!h->count)
            return lm_fail_memory(e, "penalties", n_vocab * sizeof *h->count);
        if (o->repeat_last_n > 0)
            h->window = h->capacity = wanted(o->repeat_last_n);
    }
    if (dry) {
        size_t n = wanted(o->dry_penalty_last_n);
        h->capacity = n > h->capacity ? n : h->capacity;
        h->match = lm_alloc_zero(n, sizeof *h->match);
        h->longest = lm_alloc_zero(n_vocab, sizeof *h->longest);
        if (!h->match || !h->longest)
            return lm_fail_memory(e, "DRY", (n + n_vocab) * sizeof *h->match);
        if (t)
            LM_TRY(find_breakers(h, o, t, e));
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
    for (size_t i = 0; i < h->n_breakers; i++)
        lm_free(h->breakers[i].tail);
    lm_free(h->breakers);
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

/* How far back a repeat may reach: to the newest breaker. */
static size_t repeat_limit(const lm_history *h, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t count, longest = 0;
        bool found = false;
        const lm_dry_breaker *b = breakers_of(h, back(h, i), &count);

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

/* match[k]: how many tokens ending k before the end equal those at the end. (Z algorithm, Gusfield 1997, read backwards.) */
static void match_suffixes(lm_history *h, size_t n)
{
    size_t left = 0, right = 0;                          /* the matching stretch that reaches furthest: [left, right) */

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
    const lm_dry_breaker *b = breakers_of(h, id, &n);

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

    /* Beyond this the power is no float32 any more. */
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
