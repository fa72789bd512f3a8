/* eval_text.c - run windows of a text through the engines, and score their tokens. */
#include "runtime/measure/eval_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "runtime/engine/state.h"
#include "runtime/measure/compare.h"
#include "runtime/measure/identity.h"

/* ---- windows and scored tokens ---- */

static lm_status check(lm_eval_text *t, lm_error *e)
{
    const lm_eval_text_options *o = t->o;

    t->n_vocab = t->engines[0]->program->n_vocab;
    t->context = t->base_file ? t->base_file->context : o->context ? o->context : 512;
    t->stride  = o->rule == LM_EVAL_HALVES ? 0 : o->stride ? o->stride : t->context / 2;
    if (t->context < 4)
        return lm_fail(e, LM_USAGE, "context", LM_NO_OFFSET, "%u tokens; four at least", t->context);
    for (uint32_t k = 0; k < t->n_engines; k++)
        if (t->context > lm_engine_context(t->engines[k]))
            return lm_fail(e, LM_USAGE, "context", LM_NO_OFFSET, "%u tokens, the engine holds %u", t->context,
                           lm_engine_context(t->engines[k]));
    if (t->stride > t->context - 1)
        return lm_fail(e, LM_USAGE, "stride", LM_NO_OFFSET, "%u tokens; at most %u of a context of %u",
                       t->stride, t->context - 1, t->context);
    for (size_t i = 0; i < t->n; i++)
        if (t->ids[i] < 0 || (uint32_t)t->ids[i] >= t->n_vocab)
            return lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET, "token %d is outside the vocabulary of %u",
                           t->ids[i], t->n_vocab);
    if (o->replace_first && (o->bos < 0 || (uint32_t)o->bos >= t->n_vocab))
        return lm_fail(e, LM_USAGE, "bos", LM_NO_OFFSET, "token %d is outside the vocabulary of %u", o->bos,
                       t->n_vocab);
    if (!t->base_file && o->rule == LM_EVAL_HALVES && t->n < 2 * (uint64_t)t->context) {
        lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET, "%zu tokens; two chunks of %u at least", t->n, t->context);
        return lm_fail_hint(e, "use a longer text, or a smaller `context`");
    }
    if (t->n < 2)
        return lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET, "%zu token%s; two at least", t->n,
                       t->n == 1 ? "" : "s");
    return LM_OK;
}

static lm_eval_window window_of(const lm_eval_text *t, uint32_t i)
{
    if (!t->stride)
        return (lm_eval_window){ .from = (uint64_t)i * t->context,
                                 .n = t->context,
                                 .scored = t->context / 2 + 1 };
    uint64_t from = (uint64_t)i * t->stride, end = t->n - from < t->context ? t->n : from + t->context;
    uint64_t before = i ? from - t->stride + t->context : 1;     /* the end of the previous window */
    return (lm_eval_window){ .from = from, .n = (uint32_t)(end - from), .scored = (uint32_t)(before - from) };
}

static lm_status cut(lm_eval_text *t, lm_error *e)
{
    uint64_t n = t->n / t->context;

    if (t->stride)
        n = t->n <= t->context ? 1 : (t->n - t->context + t->stride - 1) / t->stride + 1;
    if (t->o->chunks && t->o->chunks < n)
        n = t->o->chunks;
    if (n > UINT32_MAX)
        return lm_fail(e, LM_LIMIT, "text", LM_NO_OFFSET, "%" PRIu64 " chunks", n);
    t->n_windows = (uint32_t)n;
    t->windows   = lm_alloc_zero(n + 1, sizeof *t->windows);
    t->known     = lm_alloc_zero(n + 1, sizeof *t->known);
    if (!t->windows || !t->known)
        return lm_fail_memory(e, "chunks", n * sizeof *t->windows);
    for (uint32_t i = 0; i < n; i++) {
        t->windows[i]             = window_of(t, i);
        t->windows[i].first_value = t->n_values;
        t->n_values += t->windows[i].n - t->windows[i].scored;
    }
    t->values = lm_alloc_zero(t->n_values + 1, sizeof *t->values);
    return t->values ? LM_OK : lm_fail_memory(e, "scores", t->n_values * sizeof *t->values);
}

/* ---- one token ---- */

/* Return ln of the sum of exponentials. */
static double log_norm(const float *x, uint32_t n, size_t *best)
{
    double sum = 0, top;

    *best = lm_argmax(x, n);
    top   = (double)x[*best];
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - top);
    return top + log(sum);
}

static double divergence(const float *ours, double norm, const float *theirs, double their_norm, uint32_t n)
{
    double kl = 0;

    for (uint32_t i = 0; i < n; i++) {
        double lp = (double)theirs[i] - their_norm, p = exp(lp);
        if (p != 0)
            kl += p * (lp - ((double)ours[i] - norm));
    }
    return kl > 0 || isnan(kl) ? kl : 0;                 /* rounding may leave a tiny negative */
}

/* Compute KL as in llama-perplexity: tokens below e^-16 are left out. */
static double coded_divergence(const float *ours, double norm, const lm_coded_row *base, uint32_t n,
                               size_t *best)
{
    double kl   = 0;
    float  max = -INFINITY;

    for (uint32_t i = 0; i < n; i++) {
        float lp = lm_coded_logprob(base, i);
        if (lp > max) {
            max  = lp;
            *best = i;
        }
        if (lp > -16.0f)
            kl += exp((double)lp) * ((double)lp - ((double)ours[i] - norm));
    }
    return kl;
}

typedef struct coded_job {
    const lm_eval_text *t;
    const lm_stretch   *s;
    uint32_t            row;
    const float        *ours;
    double              norm;
    size_t              best;
    lm_token            id;
    lm_scored_token    *out;
} coded_job;

static lm_status score_coded(void *arg)
{
    coded_job   *j    = arg;
    lm_coded_row base = lm_logits_file_row(j->t->base_file, (uint32_t)j->s->tag, j->row - j->s->wanted);
    size_t       best = 0;

    j->out->kl   = coded_divergence(j->ours, j->norm, &base, j->t->n_vocab, &best);
    j->out->base = (double)lm_coded_logprob(&base, (uint32_t)j->id);
    j->out->same = j->best == best;
    return LM_OK;
}

static void score_row(void *arg, const lm_stretch *s, uint32_t row, const float *const *logits)
{
    lm_eval_text         *t    = arg;
    const lm_eval_window *w    = &t->windows[s->tag];
    lm_token              id   = t->ids[w->from + row + 1];
    uint64_t              at   = w->first_value + (row + 1 - w->scored);
    lm_scored_token      *v    = &t->values[at];
    size_t                best, theirs;
    double                norm = log_norm(logits[0], t->n_vocab, &best);

    v->logprob = (double)logits[0][id] - norm;
    if (t->n_engines == 2) {
        double their_norm = log_norm(logits[1], t->n_vocab, &theirs);
        v->base = (double)logits[1][id] - their_norm;
        v->kl   = divergence(logits[0], norm, logits[1], their_norm, t->n_vocab);
        v->same = best == theirs;
    } else if (t->base_file) {
        coded_job j = { t, s, row, logits[0], norm, best, id, v };
        if (lm_filemap_guard(score_coded, &j, t->base_file->file.path, NULL) != LM_OK)
            v->kl = NAN;
    }
    if (t->coded)
        lm_coded_row_make(t->coded + (row + 1 - w->scored) * lm_coded_row_bytes(t->n_vocab), logits[0],
                          t->n_vocab);
    if (isnan(v->logprob) || isnan(v->base) || isnan(v->kl))
        __atomic_store_n(&t->bad, w->from + row + 1, __ATOMIC_RELAXED);
}

/* ---- windows ---- */

static lm_status keep(lm_eval_text *t, uint32_t i, lm_error *e)
{
    const lm_eval_window *w = &t->windows[i];
    size_t                n = w->n - w->scored;

    t->known[i] = true;
    if (t->saved)
        LM_TRY(lm_outfile_write(t->saved, t->coded, n * lm_coded_row_bytes(t->n_vocab), e));
    return lm_journal_add(t->journal, i, t->values + w->first_value, n * sizeof *t->values, e);
}

static lm_status read_windows(lm_eval_text *t, const uint32_t *which, uint32_t n, lm_error *e)
{
    lm_stretch s[64];

    for (uint32_t i = 0; i < n; i++) {
        const lm_eval_window *w = &t->windows[which[i]];
        s[i] = (lm_stretch){ .sequence = i,
                             .ids = t->ids + w->from,
                             .n = w->n - 1,
                             .wanted = w->scored - 1,
                             .tag = which[i],
                             .first = t->o->replace_first && !t->stride ? t->o->bos : -1 };
        for (uint32_t k = 0; k < t->n_engines; k++)
            LM_TRY(lm_engine_truncate(t->engines[k], i, 0, e));
    }
    LM_TRY(lm_read_stretches(t->engines, t->n_engines, s, n, score_row, t, e));
    if (t->bad && t->base_file)
        LM_TRY(lm_filemap_check(&t->base_file->file, e));
    if (t->bad) {
        lm_fail(e, LM_FAILED, "logits", LM_NO_OFFSET, "not a number before position %" PRIu64, t->bad);
        return lm_fail_in(e, t->engines[0]->model->source);
    }
    for (uint32_t i = 0; i < n; i++)
        LM_TRY(keep(t, which[i], e));
    return LM_OK;
}

/* Return the perplexity of the windows processed so far. */
static double perplexity_so_far(const lm_eval_text *t)
{
    double   sum = 0;
    uint64_t n   = 0;

    for (uint32_t i = 0; i < t->n_windows; i++)
        for (uint32_t k = 0; t->known[i] && k < t->windows[i].n - t->windows[i].scored; k++, n++)
            sum -= t->values[t->windows[i].first_value + k].logprob;
    return n ? exp(sum / (double)n) : NAN;
}

static lm_status report_progress(const lm_eval_text *t, uint32_t done, lm_error *e)
{
    if (t->o->progress && !t->o->progress(t->o->progress_arg, done, t->n_windows, perplexity_so_far(t)))
        return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
    return LM_OK;
}

static lm_status read_all(lm_eval_text *t, lm_error *e)
{
    uint32_t which[64], max = 64, done = 0;

    for (uint32_t k = 0; k < t->n_engines; k++)
        max = lm_engine_sequences(t->engines[k]) < max ? lm_engine_sequences(t->engines[k]) : max;
    if (t->coded)
        max = 1;
    for (uint32_t i = 0; i < t->n_windows; i++)
        done += t->known[i];
    for (uint32_t i = 0; i < t->n_windows;) {
        uint32_t n = 0;
        for (; i < t->n_windows && n < max; i++)
            if (!t->known[i])
                which[n++] = i;
        if (n)
            LM_TRY(read_windows(t, which, n, e));
        done += n;
        LM_TRY(report_progress(t, done, e));
    }
    return LM_OK;
}

/* ---- results of earlier runs ---- */

static lm_status take_record(void *arg, uint64_t index, const void *data, size_t n, lm_error *e)
{
    lm_eval_text *t = arg;

    if (index >= t->n_windows || n != (t->windows[index].n - t->windows[index].scored) * sizeof *t->values)
        return lm_fail(e, LM_BAD_MODEL, t->o->state, LM_NO_OFFSET,
                       "a record of chunk %" PRIu64 " that cannot be", index);
    memcpy(t->values + t->windows[index].first_value, data, n);
    t->known[index] = true;
    return LM_OK;
}

static lm_status open_state(lm_eval_text *t, lm_error *e)
{
    lm_blake2b h;
    char       key[2 * LM_BLAKE2B_BYTES + 1];
    uint32_t numbers[] = { 1,
                           t->context,
                           t->stride,
                           t->n_windows,
                           t->o->replace_first,
                           t->o->replace_first ? (uint32_t)t->o->bos : 0,
                           t->n_engines };

    if (!t->o->state)
        return LM_OK;
    lm_blake2b_begin(&h);
    lm_blake2b_add(&h, numbers, sizeof numbers);
    lm_blake2b_add(&h, t->ids, t->n * sizeof *t->ids);
    for (uint32_t k = 0; k < t->n_engines; k++)
        LM_TRY(lm_identity_add(&h, t->engines[k], e));
    if (t->base_file)
        lm_blake2b_add(&h, t->base_file->file.data,
                       t->base_file->file.size < 1 << 20 ? t->base_file->file.size : 1 << 20);
    lm_blake2b_hex(&h, key);
    return lm_journal_open(t->o->state, key, take_record, t, &t->journal, e);
}

static lm_status open_saved(lm_eval_text *t, lm_error *e)
{
    if (!t->o->save_logits)
        return LM_OK;
    if (t->stride || t->o->state)
        return lm_fail(e, LM_USAGE, "save_logits", LM_NO_OFFSET,
                       "only by halves, and without a file of results so far");
    t->coded = lm_alloc((t->context - 1 - t->context / 2) * lm_coded_row_bytes(t->n_vocab));
    if (!t->coded)
        return lm_fail_memory(e, "logits", t->context / 2 * lm_coded_row_bytes(t->n_vocab));
    LM_TRY(lm_outfile_open(t->o->save_logits, &t->saved, e));
    return lm_logits_file_begin(t->saved, t->context, t->n_vocab, t->n_windows, t->ids, e);
}

lm_status lm_eval_text_run(lm_eval_text *t, lm_error *e)
{
    LM_TRY(check(t, e));
    LM_TRY(cut(t, e));
    LM_TRY(open_state(t, e));
    LM_TRY(open_saved(t, e));
    LM_TRY(read_all(t, e));
    lm_journal *journal = t->journal;
    t->journal          = NULL;
    LM_TRY(lm_journal_close(journal, e));
    lm_outfile *saved = t->saved;
    t->saved          = NULL;
    return saved ? lm_outfile_commit(saved, e) : LM_OK;
}

void lm_eval_text_report(const lm_eval_text *t)
{
    for (uint32_t i = 0; t->o->token && i < t->n_windows; i++)
        for (uint32_t k = 0; k < t->windows[i].n - t->windows[i].scored; k++) {
            const lm_scored_token *v  = &t->values[t->windows[i].first_value + k];
            uint64_t               at = t->windows[i].from + t->windows[i].scored + k;
            t->o->token(t->o->token_arg, &(lm_eval_token){ .chunk = i,
                                                           .position = at,
                                                           .id = t->ids[at],
                                                           .logprob = v->logprob,
                                                           .base_logprob = v->base,
                                                           .kl = v->kl,
                                                           .same_top = v->same != 0 });
        }
}

void lm_eval_text_end(lm_eval_text *t)
{
    lm_journal_close(t->journal, NULL);
    lm_outfile_abort(t->saved);
    lm_free(t->coded);
    lm_free(t->windows);
    lm_free(t->known);
    lm_free(t->values);
}

lm_perplexity lm_eval_text_perplexity(const lm_eval_text *t, bool base)
{
    double n = (double)t->n_values, sum = 0, squares = 0;

    for (uint64_t i = 0; i < t->n_values; i++) {
        double nll = -(base ? t->values[i].base : t->values[i].logprob);
        sum += nll;
        squares += nll * nll;
    }
    double mean = sum / n, variance = squares / n - mean * mean;
    return (lm_perplexity){ .perplexity = exp(mean),
                            .nll = mean,
                            .tokens = t->n_values,
                            .context = t->context,
                            .stride = t->stride,
                            .chunks = t->n_windows,
                            .error = n > 1 ? exp(mean) * sqrt(fmax(0, variance) / (n - 1)) : NAN };
}
