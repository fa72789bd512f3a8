/* sampler.c - choose a token: the chain of stages and the draw. Options and meanings: lamina/sampler.h. */
#include "runtime/sample/sampler.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/str.h"

enum { MAX_STAGES = 16, FEW_BIASES = 32 };

typedef void (*stage_fn)(lm_sampler *s);

struct lm_sampler {
    lm_sampler_options o;            /* its pointers are NULL once the sampler is prepared */
    uint32_t       n_vocab;
    lm_logit_bias *bias;
    lm_candidates  c;
    lm_candidate  *memory;           /* of c: [2 * n_vocab]; NULL: only prepared */
    lm_breakers   *breakers;         /* one owner; NULL: none */
    lm_history     history;
    stage_fn       chain[MAX_STAGES];
    size_t         n_stages;
    bool           greedy_only;      /* only the largest logit can be chosen */
    uint32_t       only_best;        /* the first stage that does anything keeps this many; 0: every token
                                        must be listed */
    double         xtc_draw;

    /* mirostat */
    double   mu;                     /* bits of surprise allowed */
    lm_token picked;                 /* by the last pick; -1: none */
    double   surprise;               /* of it, bits */
};

/* ---- the stages ---- */

static void penalties(lm_sampler *s) { lm_history_penalise(&s->history, &s->o, &s->c); }
static void dry(lm_sampler *s) { lm_history_dry(&s->history, &s->o, &s->c); }
static void top_n_sigma(lm_sampler *s) { lm_cut_top_n_sigma(&s->c, (double)s->o.top_n_sigma); }
static void top_k(lm_sampler *s) { lm_cut_top_k(&s->c, s->o.top_k); }
static void typical(lm_sampler *s) { lm_cut_typical(&s->c, (double)s->o.typical_p, s->o.min_keep); }
static void top_p(lm_sampler *s) { lm_cut_top_p(&s->c, (double)s->o.top_p, s->o.min_keep); }
static void min_p(lm_sampler *s) { lm_cut_min_p(&s->c, (double)s->o.min_p, s->o.min_keep); }

static void xtc(lm_sampler *s)
{
    if (s->o.xtc_probability > 0 && s->xtc_draw <= (double)s->o.xtc_probability)
        lm_cut_xtc(&s->c, (double)s->o.xtc_threshold, s->o.min_keep);
}

/* Return the temperature. Dynamic: from temperature - range to temperature + range as the entropy goes from
 * zero to its maximum. */
static double temperature_now(lm_sampler *s)
{
    double t = (double)s->o.temperature, range = (double)s->o.dynatemp_range, low;

    if (range <= 0 || s->c.n < 2)
        return t;
    lm_candidates_softmax(&s->c);
    low = t > range ? t - range : 0;
    return low + (t + range - low) *
                     pow(lm_candidates_entropy(&s->c) / log((double)s->c.n), (double)s->o.dynatemp_exponent);
}

static void temperature(lm_sampler *s)
{
    double t;

    if (s->o.temperature <= 0) {
        lm_candidates_best(&s->c, 1);
        return;
    }
    t = temperature_now(s);
    if (t <= 0) {
        lm_candidates_best(&s->c, 1);
        return;
    }
    for (size_t i = 0; i < s->c.n; i++) {
        double scaled = (double)s->c.items[i].logit / t;
        s->c.items[i].logit = (float)fmax(fmin(scaled, 3.4e38), -3.4e38);
    }
}

static void mirostat(lm_sampler *s) { lm_cut_surprisal(&s->c, s->mu); }

/* Names as in llama.cpp; `cuts`: replaced by mirostat, which has its own temperature. */
static const struct stage { const char *name, *also[3]; stage_fn apply; bool cuts; } stages[] = {
    { "penalties",   { NULL },                        penalties,   false },
    { "dry",         { NULL },                        dry,         false },
    { "top_n_sigma", { "top-n-sigma", NULL },         top_n_sigma, true  },
    { "top_k",       { "top-k", NULL },               top_k,       true  },
    { "typ_p",       { "typical_p", "typ-p", "typical" }, typical, true  },
    { "top_p",       { "top-p", "nucleus", NULL },    top_p,       true  },
    { "min_p",       { "min-p", NULL },               min_p,       true  },
    { "xtc",         { NULL },                        xtc,         true  },
    { "temperature", { "temp", NULL },                temperature, true  },
};

static const char default_order[] = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";

static const struct stage *find_stage(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        lm_view given = { name, n };
        if (lm_view_is(given, stages[i].name))
            return &stages[i];
        for (size_t k = 0; k < 3 && stages[i].also[k]; k++)
            if (lm_view_is(given, stages[i].also[k]))
                return &stages[i];
    }
    return NULL;
}

static lm_status read_order(lm_sampler *s, const char *order, lm_error *e)
{
    const char *at = order ? order : default_order;

    while (*at) {
        size_t n = strcspn(at, ";");
        const struct stage *stage = find_stage(at, n);

        if (!stage && n) {
            lm_fail(e, LM_USAGE, "samplers", LM_NO_OFFSET, "unknown sampler \"%.*s\"", (int)(n < 64 ? n : 64),
                    at);
            return lm_fail_hint(e, "use %s", default_order), LM_USAGE;
        }
        if (stage && s->n_stages == MAX_STAGES - 2)
            return lm_fail(e, LM_USAGE, "samplers", LM_NO_OFFSET, "more than %d samplers", MAX_STAGES - 2);
        if (stage && !(s->o.mirostat && stage->cuts))
            s->chain[s->n_stages++] = stage->apply;
        at += n + (at[n] == ';');
    }
    if (s->o.mirostat) {
        s->chain[s->n_stages++] = temperature;
        s->chain[s->n_stages++] = mirostat;
    }
    return LM_OK;
}

/* ---- options ---- */

static lm_status check_bias(const lm_sampler_options *o, uint32_t n_vocab, lm_error *e)
{
    if (o->n_bias && !o->bias)
        return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "%zu at NULL", o->n_bias);
    for (size_t i = 0; i < o->n_bias; i++) {
        if (o->bias[i].id < 0 || (uint32_t)o->bias[i].id >= n_vocab)
            return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET,
                           "token %d is outside the vocabulary of %u", o->bias[i].id, n_vocab);
        if (isnan(o->bias[i].bias) || o->bias[i].bias == INFINITY)
            return lm_fail(e, LM_USAGE, "logit_bias", LM_NO_OFFSET, "the bias of token %d is not a number",
                           o->bias[i].id);
    }
    return LM_OK;
}

/* Return whether only the largest logit can be chosen. Typical and XTC can drop it; biases, penalties and DRY
 * can change which it is. */
static bool only_greedy(const lm_sampler_options *o)
{
    return o->temperature <= 0 && !o->mirostat && o->typical_p >= 1 && o->xtc_probability <= 0 &&
           o->n_bias == 0 && !lm_history_penalises(o) && !lm_history_has_dry(o);
}

/* Return k if the first stage of the chain that does anything keeps the k best, so that few others need be
 * listed; else 0. */
static uint32_t kept_first(const lm_sampler *s, const lm_sampler_options *o)
{
    for (size_t i = 0; i < s->n_stages && o->n_bias <= FEW_BIASES; i++) {
        stage_fn stage = s->chain[i];
        bool idle = (stage == penalties && !lm_history_penalises(o)) ||
                    (stage == dry && !lm_history_has_dry(o)) ||
                    (stage == top_n_sigma && o->top_n_sigma <= 0) || (stage == top_k && o->top_k <= 0);
        if (!idle)
            return stage == top_k && (size_t)o->top_k + o->n_bias <= LM_HEAP_MAX ? (uint32_t)o->top_k : 0;
    }
    return 0;
}

static lm_status find_breakers(lm_sampler *s, const lm_sampler_options *o, const lm_tokenizer *t,
                               lm_breaker_cache *cache, lm_error *e)
{
    if (!t || !lm_history_has_dry(o))
        return LM_OK;
    return cache ? lm_breaker_cache_get(cache, t, s->n_vocab, o->dry_breakers, &s->breakers, e)
                 : lm_breakers_find(t, s->n_vocab, o->dry_breakers, &s->breakers, e);
}

lm_status lm_sampler_prepare(const lm_sampler_options *o, uint32_t n_vocab, const lm_tokenizer *t,
                             lm_breaker_cache *cache, lm_sampler **out, lm_error *e)
{
    lm_sampler_options given = o ? *o : lm_sampler_defaults();
    lm_status          status;
    lm_sampler        *s;

    if (n_vocab == 0 || !out)
        return lm_fail(e, LM_USAGE, out ? "n_vocab" : "out", LM_NO_OFFSET,
                       out ? "a sampler needs a vocabulary" : "NULL");
    LM_TRY(lm_sampler_check(&given, e));
    given = lm_sampler_resolve(&given);
    o     = &given;
    LM_TRY(check_bias(o, n_vocab, e));
    s = lm_alloc_zero(1, sizeof *s);
    if (!s)
        return lm_fail_memory(e, "the sampler", sizeof *s);
    s->o = *o;
    s->n_vocab = n_vocab;
    s->bias = o->n_bias ? lm_alloc_zero(o->n_bias, sizeof *s->bias) : NULL;
    if (o->n_bias && !s->bias) {
        status = lm_fail_memory(e, "the sampler", o->n_bias * sizeof *s->bias);
        goto done;
    }
    if (o->n_bias)
        memcpy(s->bias, o->bias, o->n_bias * sizeof *s->bias);
    LM_TRY_GOTO(status, read_order(s, o->order, e), done);
    LM_TRY_GOTO(status, find_breakers(s, o, t, cache, e), done);
    s->greedy_only = only_greedy(o);
    s->only_best = kept_first(s, o);
    s->o.bias = NULL;
    s->o.order = NULL;
    s->o.dry_breakers = NULL;
    lm_sampler_reset(s);
    *out = s;
    return LM_OK;
done:
    lm_sampler_free(s);
    return status;
}

lm_status lm_sampler_open(lm_sampler *s, lm_error *e)
{
    if (s->memory)
        return LM_OK;
    LM_TRY(lm_history_init(&s->history, &s->o, s->n_vocab, s->breakers, e));
    s->memory = lm_alloc_zero(2 * (size_t)s->n_vocab, sizeof *s->memory);
    if (!s->memory)
        return lm_fail_memory(e, "the sampler", 2 * (uint64_t)s->n_vocab * sizeof *s->memory);
    lm_sampler_reset(s);
    return LM_OK;
}

lm_status lm_sampler_new(const lm_sampler_options *o, uint32_t n_vocab, const lm_tokenizer *t,
                         lm_sampler **out, lm_error *e)
{
    lm_sampler *s;

    LM_REQUIRE(e, out);
    LM_CHECK_RESERVED(e, o);
    LM_TRY(lm_sampler_prepare(o, n_vocab, t, NULL, out ? &s : NULL, e));
    lm_status status = lm_sampler_open(s, e);
    if (status == LM_OK)
        *out = s;
    else
        lm_sampler_free(s);
    return status;
}

void lm_sampler_free(lm_sampler *s)
{
    if (!s)
        return;
    lm_history_free(&s->history);
    lm_breakers_drop(s->breakers);
    lm_free(s->memory);
    lm_free(s->bias);
    lm_free(s);
}

uint32_t lm_sampler_vocabulary(const lm_sampler *s)
{
    return s ? s->n_vocab : 0;
}

void lm_sampler_reset(lm_sampler *s)
{
    if (!s)
        return;
    lm_history_reset(&s->history);
    s->mu = 2 * (double)s->o.mirostat_tau;
    s->picked = -1;
}

double lm_sampler_surprisal(const lm_sampler *s)
{
    return s->o.mirostat ? s->mu : (double)NAN;
}

void lm_sampler_resume(lm_sampler *s, double surprise)
{
    if (s->o.mirostat && !isnan(surprise))
        s->mu = surprise;
}

void lm_sampler_accept(lm_sampler *s, lm_token id)
{
    if (!s)
        return;
    lm_history_add(&s->history, id);
    if (s->o.mirostat && id == s->picked)
        s->mu -= (double)s->o.mirostat_eta * (s->surprise - (double)s->o.mirostat_tau);
    s->picked = -1;
}

/* ---- picking ---- */

static lm_status no_number(const float *logits, size_t i, lm_error *e)
{
    return lm_fail(e, LM_FAILED, NULL, LM_NO_OFFSET, "the logit of token %zu is %s", i,
                   isnan(logits[i]) ? "NaN" : "infinite");
}

/* Drop impossible tokens, whose logit is -inf. */
static void drop_impossible(lm_candidates *c)
{
    size_t n = c->n;

    c->n = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(c->items[i].logit))
            c->items[c->n++] = c->items[i];
}

/* List all tokens. Return n_vocab, or the index of a NaN or +inf, which are errors of the model. */
static size_t list_all(const lm_sampler *s, lm_candidates *c, const float *logits)
{
    for (size_t i = 0; i < s->n_vocab; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return i;
        c->items[i] = (lm_candidate){ .id = (lm_token)i, .logit = logits[i] };
    }
    c->n = s->n_vocab;
    for (size_t i = 0; i < s->o.n_bias; i++)
        c->items[s->bias[i].id].logit += s->bias[i].bias;
    return s->n_vocab;
}

/* As list_all, with the tokens only that can be among the k best: the k + n_bias best before biases are
 * added, and those with a bias. */
static size_t list_best(const lm_sampler *s, lm_candidates *c, const float *logits)
{
    size_t read = lm_candidates_list_best(c, logits, s->n_vocab, s->only_best + s->o.n_bias);

    for (size_t i = 0; i < s->o.n_bias && read == s->n_vocab; i++) {
        lm_token id = s->bias[i].id;
        size_t at = 0;
        while (at < c->n && c->items[at].id != id)
            at++;
        if (at == c->n)
            c->items[c->n++] = (lm_candidate){ .id = id, .logit = logits[id] };
        c->items[at].logit += s->bias[i].bias;
    }
    return read;
}

static lm_status list_candidates(lm_sampler *s, const float *logits, lm_error *e)
{
    lm_candidates *c = &s->c;
    size_t read;

    *c = (lm_candidates){ .items = s->memory, .spare = s->memory + s->n_vocab };
    read = s->only_best ? list_best(s, c, logits) : list_all(s, c, logits);
    if (read < s->n_vocab)
        return no_number(logits, read, e);
    drop_impossible(c);
    return c->n ? LM_OK : lm_fail(e, LM_FAILED, NULL, LM_NO_OFFSET, "no token has a finite logit");
}

lm_status lm_sampler_shape(lm_sampler *s, const float *logits, uint64_t sequence, uint64_t position,
                           const lm_candidates **out, lm_error *e)
{
    uint32_t block[4];

    LM_TRY(list_candidates(s, logits, e));
    lm_rng_block(s->o.seed, sequence, position, block);
    /* the choice uses the other two words */
    s->xtc_draw = ((double)block[2] + (double)(block[3] >> 11) * 0x1p-21) * 0x1p-32;
    for (size_t i = 0; i < s->n_stages; i++)
        s->chain[i](s);
    if (s->o.temperature <= 0)
        lm_candidates_best(&s->c, 1);                    /* also if the order leaves temperature out */
    lm_candidates_sort(&s->c);
    lm_candidates_softmax(&s->c);
    *out = &s->c;
    return LM_OK;
}

static lm_status pick_best(const float *logits, uint32_t n, lm_token *out, lm_error *e)
{
    float largest = -INFINITY;
    uint32_t best = n;

    for (uint32_t i = 0; i < n; i++) {
        if (logits[i] <= largest)
            continue;                                    /* the usual case; not true of NaN */
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return no_number(logits, i, e);
        largest = logits[i];
        best = i;
    }
    if (best == n)
        return lm_fail(e, LM_FAILED, NULL, LM_NO_OFFSET, "no token has a finite logit");
    *out = (lm_token)best;
    return LM_OK;
}

lm_status lm_sampler_pick(lm_sampler *s, const float *logits, uint64_t sequence, uint64_t position,
                          lm_token *out, lm_error *e)
{
    LM_REQUIRE(e, s && logits && out);
    const lm_candidates *c;
    double at, sum = 0;
    size_t i = 0;

    if (!s || !logits || !out)
        return lm_fail(e, LM_USAGE, !s ? "sampler" : !logits ? "logits" : "out", LM_NO_OFFSET, "NULL");
    if (s->greedy_only)
        return pick_best(logits, s->n_vocab, out, e);
    LM_TRY(lm_sampler_shape(s, logits, sequence, position, &c, e));
    at = lm_rng_uniform(s->o.seed, sequence, position);
    while (i + 1 < c->n && (sum += c->items[i].p) <= at)
        i++;
    s->picked = c->items[i].id;
    s->surprise = -log2(c->items[i].p);
    *out = s->picked;
    return LM_OK;
}

/* ---- log-probabilities ---- */

float lm_sampler_logprobs(const lm_sampler *s, lm_token id, lm_logprob *top, uint32_t k)
{
    float logprob = s->greedy_only ? 0 : -INFINITY;

    for (uint32_t i = 0; i < k; i++)
        top[i] = i == 0 && s->greedy_only ? (lm_logprob){ id, 0 } : (lm_logprob){ -1, -INFINITY };
    for (size_t i = 0; !s->greedy_only && i < s->c.n; i++) {
        float p = (float)log(s->c.items[i].p);
        if (i < k)
            top[i] = (lm_logprob){ s->c.items[i].id, p };
        if (s->c.items[i].id == id)
            logprob = p;
    }
    return logprob;
}

float lm_logprobs(const float *logits, uint32_t n_vocab, lm_token id, lm_logprob *top, uint32_t k)
{
    float best = logits && n_vocab ? logits[0] : -INFINITY;
    double sum = 0, norm;
    uint32_t n = 0;

    if (!logits)
        n_vocab = 0;
    if (!top)
        k = 0;

    for (uint32_t i = 1; i < n_vocab; i++)
        best = logits[i] > best ? logits[i] : best;
    for (uint32_t i = 0; i < n_vocab; i++)
        sum += exp((double)logits[i] - (double)best);
    norm = (double)best + log(sum);

    for (uint32_t i = 0; i < n_vocab && k; i++) {
        uint32_t at = n;
        if (n == k && !(logits[i] > top[n - 1].logprob))
            continue;
        n += n < k;
        for (at = n - 1; at > 0 && logits[i] > top[at - 1].logprob; at--)
            top[at] = top[at - 1];
        top[at] = (lm_logprob){ (lm_token)i, logits[i] };
    }
    for (uint32_t i = 0; i < n; i++)
        top[i].logprob = (float)((double)top[i].logprob - norm);
    for (uint32_t i = n; i < k; i++)
        top[i] = (lm_logprob){ -1, -INFINITY };
    return id >= 0 && (uint32_t)id < n_vocab ? (float)((double)logits[id] - norm) : -INFINITY;
}
