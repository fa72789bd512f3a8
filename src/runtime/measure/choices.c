/* choices.c - questions with given answers: score each answer after its context. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/os/journal.h"
#include "lamina/eval.h"
#include "runtime/engine/state.h"
#include "runtime/measure/compare.h"
#include "runtime/measure/identity.h"
#include "runtime/measure/stretches.h"

enum { SEQUENCES = 256 };

/* A choice that is being scored, in its own sequence, whose prefix may be shared with another choice. */
typedef struct scored_choice {
    size_t          item;
    uint32_t        choice;
    const lm_token *context;         /* the part that is processed: its end, if the whole is too long */
    uint32_t        n_context, n;    /* tokens of the context, of the continuation */
    uint32_t        leader;          /* index in the round of the choice whose context it shares; its own: it
                                        processes the context */
    uint64_t        first_value;
} scored_choice;

typedef struct scoring {
    lm_engine          *g;
    const lm_eval_item *items;
    size_t              n;
    const lm_eval_choices_options *o;
    uint32_t            n_vocab, context, sequences;
    uint64_t            positions;   /* that the cache holds */
    uint64_t           *first;       /* [n + 1]: index of the first choice of each item */
    double             *sums;        /* of all choices */
    bool               *greedy;
    uint8_t            *left;        /* [n]: choices that are not scored yet */
    lm_journal         *journal;
    scored_choice      *round;       /* [sequences] */
    lm_stretch         *stretches;   /* [sequences] */
    double             *values;      /* of the tokens of a round's continuations */
    bool               *tops;
    uint64_t            capacity;    /* of `values` and `tops` */
    bool                bad;
} scoring;

lm_eval_choices_options lm_eval_choices_defaults(void)
{
    return (lm_eval_choices_options){ 0 };
}

/* ---- checks ---- */

static lm_status check_ids(const scoring *a, const lm_token *ids, size_t n, size_t item, lm_error *e)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= a->n_vocab)
            return lm_fail(e, LM_USAGE, "item", LM_NO_OFFSET, "%zu: token %d is outside the vocabulary of %u",
                           item, ids[i], a->n_vocab);
    return LM_OK;
}

static lm_status check_choice(const scoring *a, const lm_eval_choice *c, size_t item, lm_error *e)
{
    if (!c->context || !c->continuation || !c->n_context || !c->n_continuation)
        return lm_fail(e, LM_USAGE, "item", LM_NO_OFFSET, "%zu: a context or continuation without tokens",
                       item);
    if (c->n_continuation > a->context)
        return lm_fail(e, LM_LIMIT, "item", LM_NO_OFFSET,
                       "%zu: a continuation of %zu tokens; the context size is %u", item, c->n_continuation,
                       a->context);
    LM_TRY(check_ids(a, c->context, c->n_context, item, e));
    return check_ids(a, c->continuation, c->n_continuation, item, e);
}

static lm_status check(scoring *a, lm_error *e)
{
    a->first = lm_alloc_zero(a->n + 1, sizeof *a->first);
    a->left  = lm_alloc_zero(a->n + 1, sizeof *a->left);
    if (!a->first || !a->left)
        return lm_fail_memory(e, "questions", a->n * sizeof *a->first);
    for (size_t i = 0; i < a->n; i++) {
        const lm_eval_item *t = &a->items[i];
        if (!t->choices || t->n < 2 || t->n > LM_EVAL_MAX_CHOICES || t->answer >= t->n)
            return lm_fail(e, LM_USAGE, "item", LM_NO_OFFSET,
                           "%zu: 2 to 64 choices, and the answer among them", i);
        for (uint32_t k = 0; k < t->n; k++)
            LM_TRY(check_choice(a, &t->choices[k], i, e));
        a->left[i]      = (uint8_t)t->n;
        a->first[i + 1] = a->first[i] + t->n;
    }
    a->sums      = lm_alloc_zero(a->first[a->n] + 1, sizeof *a->sums);
    a->greedy    = lm_alloc_zero(a->first[a->n] + 1, sizeof *a->greedy);
    a->round     = lm_alloc_zero(a->sequences, sizeof *a->round);
    a->stretches = lm_alloc_zero(a->sequences, sizeof *a->stretches);
    return a->sums && a->greedy && a->round && a->stretches
               ? LM_OK
               : lm_fail_memory(e, "questions", a->first[a->n] * sizeof *a->sums);
}

/* ---- a round ---- */

/* Return a choice with as much of the end of its context as fits: the last token is scored but not
 * processed. */
static scored_choice fit_choice(const scoring *a, size_t item, uint32_t choice)
{
    const lm_eval_choice *c    = &a->items[item].choices[choice];
    uint32_t              max = a->context + 1 - (uint32_t)c->n_continuation;
    uint32_t              n    = c->n_context < max ? (uint32_t)c->n_context : max;

    return (scored_choice){ .item = item,
                            .choice = choice,
                            .context = c->context + (c->n_context - n),
                            .n_context = n,
                            .n = (uint32_t)c->n_continuation };
}

static bool same_context(const scored_choice *x, const scored_choice *y)
{
    return x->n_context == y->n_context &&
           memcmp(x->context, y->context, x->n_context * sizeof *x->context) == 0;
}

static uint64_t pages(uint64_t positions) { return (positions + 63) / 64 * 64; }

/* Collect the next choices, as many as there are sequences and space in the cache; *item, *choice: the first
 * one left. */
static uint32_t gather(scoring *a, size_t *item, uint32_t *choice, uint64_t *values)
{
    uint32_t n    = 0;
    uint64_t used = 0;

    *values = 0;
    for (; *item < a->n; ++*item, *choice = 0) {
        for (; a->left[*item] && *choice < a->items[*item].n; ++*choice) {
            scored_choice q = fit_choice(a, *item, *choice);
            uint64_t need;
            q.leader = n;
            for (uint32_t k = n; k-- > 0 && a->round[k].item == q.item;)
                if (a->round[k].leader == k && same_context(&a->round[k], &q))
                    q.leader = k;
            need = q.leader == n ? pages(q.n_context + q.n) + 64 : pages(q.n + 63);
            if (n == a->sequences || (n && used + need > a->positions))
                return n;
            used += need;
            q.first_value = *values;
            *values += q.n;
            a->round[n++] = q;
        }
    }
    return n;
}

static lm_status reserve_values(scoring *a, uint64_t values, lm_error *e)
{
    if (values <= a->capacity)
        return LM_OK;
    lm_free(a->values);
    lm_free(a->tops);
    a->values = lm_alloc_zero(values, sizeof *a->values);
    a->tops   = lm_alloc_zero(values, sizeof *a->tops);
    a->capacity   = a->values && a->tops ? values : 0;
    return a->capacity ? LM_OK : lm_fail_memory(e, "scores", values * sizeof *a->values);
}

static void score_row(void *arg, const lm_stretch *s, uint32_t row, const float *const *logits)
{
    scoring             *a    = arg;
    const scored_choice *q    = &a->round[s->tag];
    lm_token             id   = a->items[q->item].choices[q->choice].continuation[row];
    size_t       best = lm_argmax(logits[0], a->n_vocab);
    double       sum  = 0, top = (double)logits[0][best];

    for (uint32_t i = 0; i < a->n_vocab; i++)
        sum += exp((double)logits[0][i] - top);
    double logprob = (double)logits[0][id] - top - log(sum);
    a->values[q->first_value + row] = logprob;
    a->tops[q->first_value + row]   = (lm_token)best == id;
    if (isnan(logprob))
        __atomic_store_n(&a->bad, true, __ATOMIC_RELAXED);
}

/* Process the contexts except their last token, each once. */
static lm_status read_contexts(scoring *a, uint32_t n, lm_error *e)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < n; i++) {
        const scored_choice *q = &a->round[i];
        LM_TRY(lm_engine_truncate(a->g, i, 0, e));
        if (q->leader == i && q->n_context > 1)
            a->stretches[count++] = (lm_stretch){ .sequence = i,
                                                  .ids = q->context,
                                                  .n = q->n_context - 1,
                                                  .wanted = q->n_context - 1,
                                                  .first = -1,
                                                  .tag = i };
    }
    LM_TRY(lm_read_stretches(&a->g, 1, a->stretches, count, score_row, a, e));
    for (uint32_t i = 0; i < n; i++)
        if (a->round[i].leader != i)
            LM_TRY(lm_engine_share(a->g, a->round[i].leader, i, a->round[i].n_context - 1, e));
    return LM_OK;
}

/* Process the last token of each context and all but the last of its continuation. `ids`: space for them. */
static lm_status read_continuations(scoring *a, uint32_t n, lm_token *ids, lm_error *e)
{
    for (uint32_t i = 0; i < n; i++) {
        const scored_choice *q  = &a->round[i];
        lm_token    *at = ids + q->first_value;
        at[0] = q->context[q->n_context - 1];
        memcpy(at + 1, a->items[q->item].choices[q->choice].continuation, (q->n - 1) * sizeof *at);
        a->stretches[i] = (lm_stretch){
            .sequence = i, .at = q->n_context - 1, .ids = at, .n = q->n, .first = -1, .tag = i
        };
    }
    return lm_read_stretches(&a->g, 1, a->stretches, n, score_row, a, e);
}

/* ---- results ---- */

static lm_status keep(scoring *a, size_t item, lm_error *e)
{
    double   record[2 * LM_EVAL_MAX_CHOICES];
    uint32_t n = a->items[item].n;

    for (uint32_t k = 0; k < n; k++) {
        record[k]     = a->sums[a->first[item] + k];
        record[n + k] = a->greedy[a->first[item] + k];
    }
    return lm_journal_add(a->journal, item, record, 2 * n * sizeof *record, e);
}

static lm_status take_record(void *arg, uint64_t index, const void *data, size_t size, lm_error *e)
{
    scoring *a = arg;
    double  record[2 * LM_EVAL_MAX_CHOICES];

    if (index >= a->n || size != 2 * a->items[index].n * sizeof *record)
        return lm_fail(e, LM_BAD_MODEL, a->o->state, LM_NO_OFFSET,
                       "a record of item %" PRIu64 " that cannot be", index);
    memcpy(record, data, size);
    for (uint32_t k = 0; k < a->items[index].n; k++) {
        a->sums[a->first[index] + k]   = record[k];
        a->greedy[a->first[index] + k] = record[a->items[index].n + k] != 0;
    }
    a->left[index] = 0;
    return LM_OK;
}

static lm_status settle(scoring *a, uint32_t n, lm_error *e)
{
    if (a->bad) {
        lm_fail(e, LM_FAILED, "logits", LM_NO_OFFSET, "not a number in item %zu or soon after",
                a->round[0].item);
        return lm_fail_in(e, a->g->model->source);
    }
    for (uint32_t i = 0; i < n; i++) {
        const scored_choice *q   = &a->round[i];
        uint64_t     at  = a->first[q->item] + q->choice;
        double       sum = 0;
        bool         all = true;
        for (uint32_t k = 0; k < q->n; k++) {
            sum += a->values[q->first_value + k];
            all &= a->tops[q->first_value + k];
        }
        a->sums[at]   = sum;
        a->greedy[at] = all;
        if (--a->left[q->item] == 0)
            LM_TRY(keep(a, q->item, e));
    }
    return LM_OK;
}

static lm_status score_round(scoring *a, uint32_t n, uint64_t values, lm_error *e)
{
    lm_token *ids = lm_alloc(values * sizeof *ids);

    if (!ids)
        return lm_fail_memory(e, "a round of questions", values * sizeof *ids);
    lm_status status = reserve_values(a, values, e);
    if (status == LM_OK)
        status = read_contexts(a, n, e);
    if (status == LM_OK)
        status = read_continuations(a, n, ids, e);
    if (status == LM_OK)
        status = settle(a, n, e);
    lm_free(ids);
    return status;
}

static lm_status score_all(scoring *a, lm_error *e)
{
    size_t   item   = 0;
    uint32_t choice = 0;
    uint64_t values;

    while (item < a->n) {
        uint32_t n = gather(a, &item, &choice, &values);
        if (n)
            LM_TRY(score_round(a, n, values, e));
        if (a->o->progress && !a->o->progress(a->o->progress_arg, item, a->n))
            return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
    }
    return LM_OK;
}

static lm_status open_state(scoring *a, lm_error *e)
{
    lm_blake2b h;
    char       key[2 * LM_BLAKE2B_BYTES + 1];
    uint32_t   numbers[] = { 2, a->context };

    if (!a->o->state)
        return LM_OK;
    lm_blake2b_begin(&h);
    LM_TRY(lm_identity_add(&h, a->g, e));
    lm_blake2b_add(&h, numbers, sizeof numbers);
    for (size_t i = 0; i < a->n; i++)
        for (uint32_t k = 0; k < a->items[i].n; k++) {
            const lm_eval_choice *c     = &a->items[i].choices[k];
            uint64_t              head[] = { k, c->n_context, c->n_continuation };
            lm_blake2b_add(&h, head, sizeof head);
            lm_blake2b_add(&h, c->context, c->n_context * sizeof *c->context);
            lm_blake2b_add(&h, c->continuation, c->n_continuation * sizeof *c->continuation);
        }
    lm_blake2b_hex(&h, key);
    return lm_journal_open(a->o->state, key, take_record, a, &a->journal, e);
}

/* ---- statistics ---- */

static uint32_t first_largest(const double *x, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t k = 1; k < n; k++)
        best = x[k] > x[best] ? k : best;
    return best;
}

static lm_eval_item_result result_of(const scoring *a, size_t item)
{
    const lm_eval_item *t    = &a->items[item];
    const double       *sums = a->sums + a->first[item];
    double              by[3][LM_EVAL_MAX_CHOICES];

    for (uint32_t k = 0; k < t->n; k++) {
        by[0][k] = t->choices[k].characters ? sums[k] / (double)t->choices[k].characters : sums[k];
        by[1][k] = t->choices[k].bytes ? sums[k] / (double)t->choices[k].bytes : sums[k];
        by[2][k] = sums[k] / (double)t->choices[k].n_continuation;
    }
    return (lm_eval_item_result){ .logprobs = sums,
                                  .greedy = a->greedy + a->first[item],
                                  .best = first_largest(sums, t->n),
                                  .best_normalized = first_largest(by[0], t->n),
                                  .best_bytes = first_largest(by[1], t->n),
                                  .best_tokens = first_largest(by[2], t->n) };
}

/* Return a share with its interval (Wilson, JASA 22, 1927), which never leaves 0 ... 1. */
static lm_eval_share share_of(uint64_t right, uint64_t of)
{
    double n = (double)of, p = (double)right / n, z = 1.959963984540054,
           half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    double middle = p + z * z / (2 * n), scale = 1 + z * z / n;

    return (lm_eval_share){ .share = p, .error = of > 1 ? sqrt(p * (1 - p) / (n - 1)) : NAN,
                            .low = right ? fmax(0, (middle - half) / scale) : 0,
                            .high = right < of ? fmin(1, (middle + half) / scale) : 1 };
}

static void sum_up(const scoring *a, lm_choices_figures *out)
{
    uint64_t right[4] = { 0 };

    for (size_t i = 0; i < a->n; i++) {
        lm_eval_item_result r      = result_of(a, i);
        uint32_t            best[] = { r.best, r.best_normalized, r.best_bytes, r.best_tokens };
        for (int k = 0; k < 4; k++)
            right[k] += best[k] == a->items[i].answer;
        if (a->o->item)
            a->o->item(a->o->item_arg, i, &a->items[i], &r);
    }
    *out = (lm_choices_figures){ .n = a->n,
                                 .accuracy = share_of(right[0], a->n),
                                 .normalized = share_of(right[1], a->n),
                                 .by_bytes = share_of(right[2], a->n),
                                 .by_tokens = share_of(right[3], a->n) };
}

static lm_status run(scoring *a, lm_choices_figures *out, lm_error *e)
{
    LM_TRY(check(a, e));
    LM_TRY(open_state(a, e));
    LM_TRY(score_all(a, e));
    lm_journal *journal = a->journal;
    a->journal          = NULL;
    LM_TRY(lm_journal_close(journal, e));
    sum_up(a, out);
    return LM_OK;
}

lm_status lm_eval_choices(lm_engine *g, const lm_eval_item *items, size_t n, const lm_eval_choices_options *o,
                          lm_choices_figures *out, lm_error *e)
{
    LM_REQUIRE(e, g && items && out);
    LM_CHECK_RESERVED(e, o);
    const lm_eval_choices_options defaults = { 0 };
    scoring a = { .g = g, .items = items, .n = n, .o = o ? o : &defaults, .n_vocab = g->program->n_vocab };

    if (!n)
        return lm_fail(e, LM_USAGE, "items", LM_NO_OFFSET, "none");
    a.context   = lm_engine_context(g);
    a.sequences = lm_engine_sequences(g) < SEQUENCES ? lm_engine_sequences(g) : SEQUENCES;
    a.positions = g->plan->options.kv_positions ? g->plan->options.kv_positions
                                                : (uint64_t)a.context * lm_engine_sequences(g);
    lm_status status = run(&a, out, e);
    lm_journal_close(a.journal, NULL);
    lm_free(a.first);
    lm_free(a.left);
    lm_free(a.sums);
    lm_free(a.greedy);
    lm_free(a.round);
    lm_free(a.stretches);
    lm_free(a.values);
    lm_free(a.tops);
    return status;
}
