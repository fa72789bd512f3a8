/* train.c - lm_train: data to rows, rows to optimiser steps, results to files. */
#include "lamina/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/available.h"
#include "base/os/clock.h"
#include "train/run.h"

enum { USUAL_CONTEXT = 2048, EXAMPLES = 3, MAX_BAD_STEPS = 3, NOTE = 512 };

__attribute__((format(printf, 2, 3))) static void note(const lm_train_run *r, const char *format, ...)
{
    char    line[NOTE];
    va_list args;

    if (!r->o->note)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    r->o->note(r->o->arg, line);
}

/* ---- data ---- */

static lm_status read_data(lm_train_run *r, const char *data, lm_error *e)
{
    const lm_train_options *o = r->o;
    lm_read_options how = { r->model, r->context, o->cut, o->skip_bad, o->train_on == LM_TRAIN_ON_ALL,
                            o->split == LM_TRAIN_SPLIT_BLANK_LINES };

    if (o->ids_file)
        return lm_train_read_ids(o->ids_file, r->model->program->n_vocab, &r->data, e);
    LM_TRY(lm_train_read(data, &how, o->valid_share, &r->data, o->valid ? NULL : &r->rest, e));
    if (o->valid)
        LM_TRY(lm_train_read(o->valid, &how, 0, &r->rest, NULL, e));
    if (!r->data.texts)
        return lm_fail(e, LM_USAGE, "training data", LM_NO_OFFSET,
                       "every text is held out for validation: give fewer, or a file of them");
    return LM_OK;
}

static lm_status open_epoch(lm_train_run *r, uint32_t epoch, lm_error *e)
{
    bool ids = r->o->ids_file != NULL;

    if (r->epoch == epoch)
        return LM_OK;
    lm_train_rows_free(&r->rows);
    LM_TRY(lm_train_rows_of(&r->data, r->context, !ids && !r->o->no_packing, !ids, r->o->seed, epoch,
                            &r->rows, e));
    r->epoch = epoch;
    r->at    = 0;
    return LM_OK;
}

static uint64_t tokens_of(const lm_train_data *d, const lm_train_rows *rows, uint64_t row)
{
    uint64_t n = 0;

    for (uint64_t k = rows->first[row]; k < rows->first[row + 1]; k++)
        n += d->first[rows->texts[k] + 1] - d->first[rows->texts[k]];
    return n;
}

static void widest(lm_train_run *r, const lm_train_data *d, const lm_train_rows *rows)
{
    for (uint64_t i = 0; i < rows->n; i++) {
        uint64_t n    = tokens_of(d, rows, i);
        r->row_tokens = n > r->row_tokens ? (uint32_t)n : r->row_tokens;
    }
}

/* Count the rows and steps of all epochs. */
static lm_status count_steps(lm_train_run *r, lm_error *e)
{
    const lm_train_options *o = r->o;
    uint64_t                steps = 0;

    r->epoch = UINT32_MAX;
    for (uint32_t i = o->steps || o->gradients ? 1 : o->epochs; i-- > 0;) {
        LM_TRY(open_epoch(r, i, e));
        widest(r, &r->data, &r->rows);
        uint64_t batch = o->batch ? o->batch : o->ids_file ? r->rows.n : 1;
        r->batch       = (uint32_t)(batch < r->rows.n ? batch : r->rows.n);
        steps += (r->rows.n + (uint64_t)r->batch * o->accumulate - 1) / ((uint64_t)r->batch * o->accumulate);
    }
    if (r->rest.texts) {
        LM_TRY(lm_train_rows_of(&r->rest, r->context, !o->no_packing, false, 0, 0, &r->held, e));
        widest(r, &r->rest, &r->held);
    }
    steps = o->steps ? o->steps : steps;
    if (!steps || steps > UINT32_MAX)
        return lm_fail(e, LM_USAGE, "steps", LM_NO_OFFSET, "there is nothing to train");
    r->steps           = (uint32_t)steps;
    lm_train_result *x = r->result;
    x->texts           = r->data.texts;
    x->valid_texts     = r->rest.texts;
    x->left_out        = r->data.left_out + r->rest.left_out;
    x->shortened       = r->data.shortened + r->rest.shortened;
    x->bad             = r->data.bad + r->rest.bad;
    x->tokens          = r->data.n;
    x->trained         = r->data.trained;
    x->rows            = (uint32_t)r->rows.n;
    x->steps           = r->steps;
    return LM_OK;
}

/* ---- notes before training ---- */

/* Show a text with its trained tokens in brackets. */
static void show_example(const lm_train_run *r, uint64_t text)
{
    const lm_train_data *d = &r->data;
    const lm_tokenizer  *t = lm_model_tokenizer(r->model);
    lm_text              out = { 0 };
    bool                 open = false;
    uint64_t             from = d->first[text], to = d->first[text + 1], trained = 0;
    char                 line[NOTE - 64];

    for (uint64_t i = from; i < to; i++) {
        bool      counts = i > from && d->labels[i - 1] >= 0;
        lm_text   piece  = { 0 };
        lm_token  id = d->tokens[i];
        trained += counts;
        if (counts != open)
            lm_text_add_str(&out, counts ? "[[" : "]]");
        open = counts;
        if (t && lm_detokenize(t, &id, 1, 0, &piece, NULL) == LM_OK)
            lm_text_add(&out, piece.data ? piece.data : "", piece.size);
        else
            lm_text_printf(&out, " %d", id);
        lm_text_free(&piece);
    }
    if (open)
        lm_text_add_str(&out, "]]");
    for (size_t i = 0; i < out.size; i++)
        if (out.data[i] == '\n')
            out.data[i] = ' ';
    lm_escape(line, sizeof line, out.data ? out.data : "");
    note(r, "text %" PRIu64 ": %" PRIu64 " tokens, %" PRIu64 " trained: %s", text + 1, to - from, trained,
         line);
    lm_text_free(&out);
}

static void report_data(const lm_train_run *r)
{
    const lm_train_result *x = r->result;
    const lm_train_data   *d = &r->data;

    note(r,
         "data: %s; %" PRIu64 " texts, %" PRIu64 " for validation, %" PRIu64 " tokens, %" PRIu64 " trained",
         d->form, x->texts, x->valid_texts, x->tokens, x->trained);
    if (x->left_out || x->shortened || x->bad)
        note(r,
             "left out: %" PRIu64 " texts too long or with nothing to train; cut to %u tokens: %" PRIu64
             "; unreadable: %" PRIu64,
             x->left_out, r->context, x->shortened, x->bad);
    if (*d->unused || *r->rest.unused)
        note(r, "members that are not used: %s", *d->unused ? d->unused : r->rest.unused);
    note(r, "rows: %u of up to %u tokens; %u steps of %u x %u rows", x->rows, r->context, x->steps,
         r->o->accumulate, r->batch);
    if (r->adapted)
        note(r, "adapter: rank %u, alpha %g, scale %g, on %" PRIu64 " modules; %" PRIu64 " numbers",
             r->o->rank, r->o->alpha, lm_train_scale(r->o), x->modules, x->numbers);
    else
        note(r, "every weight: %" PRIu64 " numbers", x->numbers);
    note(r, "rate %g to %g, warm-up %g, decay %g, clip %g, seed %" PRIu64, r->o->rate, r->o->rate_end,
         r->o->warmup, r->o->weight_decay, r->o->clip, r->o->seed);
    note(r, "memory: %.1f MB (weights %.1f, trained %.1f, values of a step %.1f), %u layers checkpointed",
         (double)x->memory_total / 1e6, (double)x->memory_base / 1e6, (double)x->memory_state / 1e6,
         (double)x->memory_activations / 1e6, x->checkpointed);
    for (uint64_t i = 0; i < d->texts && i < EXAMPLES; i++)
        show_example(r, i);
}

/* ---- memory ---- */

static uint64_t longest_text(const lm_train_data *d)
{
    uint64_t max = 0;

    for (uint64_t i = 0; i < d->texts; i++)
        max = d->first[i + 1] - d->first[i] > max ? d->first[i + 1] - d->first[i] : max;
    return max;
}

static lm_status make_learner(lm_train_run *r, lm_error *e)
{
    const lm_train_options *o = r->o;
    uint64_t longest = longest_text(&r->data), held = longest_text(&r->rest),
             rows = (uint64_t)r->batch * r->row_tokens;
    lm_learner_memory       m;

    if (rows > UINT32_MAX / 2)
        return lm_fail(e, LM_NO_FIT, "batch", LM_NO_OFFSET, "%" PRIu64 " tokens together are too many", rows);
    lm_learner_options l = { .rows = (uint32_t)rows,
                             .longest = (uint32_t)(longest > held ? longest : held),
                             .checkpoint = LM_TURN_AUTO,
                             .limit = o->memory ? o->memory : lm_memory_available(),
                             .threads = o->threads,
                             .compute = o->compute,
                             .cpu = o->cpu,
                             .optimise = !o->gradients,
                             .dropout = (float)o->dropout,
                             .seed = o->seed };
    lm_status status = lm_learner_predict(r->model, r->program, r->wanted, &l, &m, e);
    if (status == LM_NO_FIT)
        lm_fail_hint(e, "use a smaller `batch`, a shorter `context`, or more memory");
    LM_TRY(status);
    lm_train_result *x    = r->result;
    x->memory_base        = m.base;
    x->memory_mapped      = m.mapped;
    x->memory_state       = m.state;
    x->memory_activations = m.activations;
    x->memory_total       = m.total;
    x->checkpointed       = m.checkpointed;
    if (o->dry_run)
        return LM_OK;
    LM_TRY(lm_learner_new(r->model, r->program, r->wanted, &l, &r->learner, e));
    x->memory_used = lm_learner_allocated(r->learner).total;
    r->tokens      = lm_arena_new(&r->arena, rows + 1, int32_t);
    r->labels      = lm_arena_new(&r->arena, rows + 1, int32_t);
    r->texts       = lm_arena_new(&r->arena, rows + 1, lm_train_text);
    return r->tokens && r->labels && r->texts ? LM_OK : lm_fail_memory(e, "training rows", rows);
}

/* ---- steps ---- */

/* Copy rows [from, to) of some texts to consecutive positions. */
static uint32_t gather(lm_train_run *r, const lm_train_data *d, const lm_train_rows *rows, uint64_t from,
                       uint64_t to, uint64_t *tokens)
{
    uint32_t n = 0, at = 0;

    for (uint64_t k = rows->first[from]; k < rows->first[to]; k++) {
        uint64_t text = rows->texts[k], first = d->first[text], length = d->first[text + 1] - first;
        memcpy(r->tokens + at, d->tokens + first, length * sizeof *r->tokens);
        memcpy(r->labels + at, d->labels + first, length * sizeof *r->labels);
        r->texts[n++] = (lm_train_text){ at, (uint32_t)length, text };
        at += (uint32_t)length;
    }
    *tokens += at;
    return n;
}

static uint64_t labels_in(const lm_train_data *d, const lm_train_rows *rows, uint64_t from, uint64_t to)
{
    uint64_t n = 0;

    for (uint64_t k = rows->first[from]; k < rows->first[to]; k++)
        for (uint64_t i = d->first[rows->texts[k]]; i < d->first[rows->texts[k] + 1]; i++)
            n += d->labels[i] >= 0;
    return n;
}

static double validate(lm_train_run *r)
{
    double   sum = 0;
    uint64_t tokens = 0, labels = labels_in(&r->rest, &r->held, 0, r->held.n);

    for (uint64_t i = 0; i < r->held.n; i++) {
        uint32_t n = gather(r, &r->rest, &r->held, i, i + 1, &tokens);
        sum += lm_learner_loss(r->learner, r->tokens, r->labels, r->texts, n);
    }
    return labels ? sum / (double)labels : NAN;
}

/* Compute the gradients of one step's rows. */
static void run_rows(lm_train_run *r, lm_train_step *s)
{
    uint64_t from = r->at, to = from + (uint64_t)r->batch * r->o->accumulate;

    to         = to < r->rows.n ? to : r->rows.n;
    s->trained = labels_in(&r->data, &r->rows, from, to);
    lm_learner_begin(r->learner, s->trained);
    r->learner->step = s->step;
    for (uint64_t at = from; at < to; at += r->batch) {
        uint64_t end = at + r->batch < to ? at + r->batch : to;
        uint32_t n   = gather(r, &r->data, &r->rows, at, end, &s->tokens);
        lm_learner_rows(r->learner, r->tokens, r->labels, r->texts, n);
    }
    lm_learner_end(r->learner);
    s->loss = s->trained ? r->learner->loss / (double)s->trained : 0;
    r->at   = to;
}

/* Make sure that a row is available: after the last row of an epoch, open the next epoch. */
static lm_status next_rows(lm_train_run *r, lm_error *e)
{
    if (r->at < r->rows.n)
        return LM_OK;
    return open_epoch(r, r->epoch + 1, e);
}

static uint32_t warmup_steps(const lm_train_run *r)
{
    return (uint32_t)(r->o->warmup < 1 ? ceil(r->o->warmup * r->steps) : r->o->warmup);
}

static lm_status one_step(lm_train_run *r, lm_train_step *s, lm_error *e)
{
    const lm_train_options *o = r->o;
    lm_adamw                a = { o->beta1, o->beta2, o->epsilon, o->weight_decay };
    double                  begun = lm_clock_seconds();
    uint64_t                first;

    LM_TRY(next_rows(r, e));
    *s = (lm_train_step){ .step = r->done + 1, .steps = r->steps, .epoch = r->epoch + 1, .valid = NAN };
    first = r->at;
    run_rows(r, s);
    s->rate = o->rate *
              lm_rate_factor(o->schedule, r->done, r->steps, warmup_steps(r), o->rate_end / o->rate);
    s->grad_norm = lm_gradient_norm(r->learner);
    s->skipped   = !isfinite(s->grad_norm) || !isfinite(s->loss);
    if (!s->skipped) {
        lm_clip_gradients(r->learner, s->grad_norm, o->clip);
        lm_adamw_step(r->learner, &a, r->done + 1, s->rate);
        r->smoothed = r->done ? 0.9 * r->smoothed + 0.1 * s->loss : s->loss;
    }
    if (s->skipped && !r->bad_steps)
        r->first_bad = first;
    r->bad_steps = s->skipped ? r->bad_steps + 1 : 0;
    r->done++;
    s->smoothed = r->smoothed;
    s->seconds  = lm_clock_seconds() - begun;
    return LM_OK;
}

static lm_status save_all(lm_train_run *r, lm_train_step *s, lm_error *e)
{
    LM_TRY(lm_train_save(r, r->folder, e));
    LM_TRY(lm_train_save_state(r, e));
    s->saved = true;
    return LM_OK;
}

/* Validate, keep the best weights, save, and log. */
static lm_status after_step(lm_train_run *r, lm_train_step *s, lm_error *e)
{
    const lm_train_options *o    = r->o;
    bool                    last = r->done == r->steps;
    char                    best[4096];

    if (r->held.n && (last || (o->valid_every && r->done % o->valid_every == 0))) {
        s->valid = r->result->valid_last = validate(r);
        if (isfinite(s->valid) && !(s->valid >= r->best)) {
            r->best      = s->valid;
            r->best_step = r->done;
            snprintf(best, sizeof best, "%.3900s/best", r->folder);
            LM_TRY(lm_train_save(r, best, e));
        }
    }
    LM_TRY(lm_train_log(r->folder, s, e));
    if (last || (o->save_every && r->done % o->save_every == 0))
        LM_TRY(save_all(r, s, e));
    return LM_OK;
}

static lm_status stop_here(lm_train_run *r, lm_train_step *s, lm_error *e)
{
    if (!s->saved)
        LM_TRY(save_all(r, s, e));
    return lm_fail(e, LM_CANCELLED, "training", LM_NO_OFFSET,
                   "stopped after step %u of %u; `resume` continues from there", r->done, r->steps);
}

static lm_status run_steps(lm_train_run *r, lm_error *e)
{
    while (r->done < r->steps) {
        lm_train_step s;
        LM_TRY(one_step(r, &s, e));
        if (r->bad_steps >= MAX_BAD_STEPS)
            return lm_fail(e, LM_FAILED, "training", LM_NO_OFFSET,
                           "gradients of steps %u to %u are not finite (rows %" PRIu64 " to %" PRIu64
                           " of epoch %u); the last save remains: try a smaller rate, or inspect these rows",
                           r->done - MAX_BAD_STEPS + 1, r->done, r->first_bad + 1, r->at, r->epoch + 1);
        if (!isfinite(r->result->loss_first))
            r->result->loss_first = s.loss;
        r->result->loss_last = s.loss;
        LM_TRY(after_step(r, &s, e));
        if (r->o->step && !r->o->step(r->o->arg, &s))
            return stop_here(r, &s, e);
    }
    return LM_OK;
}

/* Return to the state of the existing run: its weights and its position in the rows. */
static lm_status go_back(lm_train_run *r, lm_error *e)
{
    LM_TRY(lm_train_restore(r, e));
    LM_TRY(open_epoch(r, 0, e));
    r->at = 0;
    for (uint32_t i = 0; i < r->done; i++) {
        LM_TRY(next_rows(r, e));
        r->at += (uint64_t)r->batch * r->o->accumulate;
        r->at = r->at < r->rows.n ? r->at : r->rows.n;
    }
    note(r, "continuing after step %u", r->done);
    return LM_OK;
}

/* Check that the folder has a run if it is resumed, and none otherwise. */
static lm_status check_folder(const lm_train_run *r, lm_error *e)
{
    if (!r->folder || r->o->dry_run || r->o->gradients)
        return LM_OK;
    if (r->o->resume && !lm_train_has_run(r->folder)) {
        lm_fail(e, LM_USAGE, "resume", LM_NO_OFFSET, "the folder has no run to continue");
        return lm_fail_in(e, r->folder);
    }
    if (!r->o->resume && lm_train_has_state(r->folder)) {
        lm_fail(e, LM_USAGE, "folder", LM_NO_OFFSET, "holds a run already");
        lm_fail_in(e, r->folder);
        return lm_fail_hint(e, "`resume` continues it; or name another folder");
    }
    return LM_OK;
}

static lm_status train(lm_train_run *r, lm_error *e)
{
    const lm_train_options *o = r->o;

    LM_TRY(open_epoch(r, 0, e));
    r->at = 0;
    if (o->gradients) {
        lm_train_step s = { .step = 1 };
        run_rows(r, &s);
        r->result->loss_first = r->result->loss_last = s.loss;
        return lm_train_save_gradients(r, o->gradients, e);
    }
    LM_TRY(lm_train_make_folder(r->folder, e));
    LM_TRY(lm_train_lock(r, e));
    LM_TRY(check_folder(r, e));          /* again: another process may have trained until now */
    if (lm_train_has_state(r->folder) && o->resume)
        LM_TRY(go_back(r, e));
    LM_TRY(lm_train_trim_log(r->folder, r->done, e));
    if (r->held.n && !r->done)
        r->result->valid_first = validate(r);
    return run_steps(r, e);
}

static lm_status run(lm_train_run *r, const char *data, lm_error *e)
{
    uint32_t positions = r->model->program->context_length;

    r->context = r->o->context ? r->o->context : USUAL_CONTEXT;
    if (r->o->context && r->model->program->context_is_hard && r->o->context > positions)
        return lm_fail(e, LM_USAGE, "context", LM_NO_OFFSET, "%u tokens; the model has %u positions",
                       r->o->context, positions);
    if (!r->o->context && positions && positions < r->context)
        r->context = positions;
    LM_TRY(lm_train_prepare(r, e));
    if (r->o->full)
        LM_TRY(lm_train_check_full(r, e));
    LM_TRY(check_folder(r, e));
    LM_TRY(read_data(r, data, e));
    LM_TRY(count_steps(r, e));
    LM_TRY(make_learner(r, e));
    if (r->o->dry_run)
        LM_TRY(lm_train_begin_from(r, e));
    report_data(r);
    if (r->o->dry_run)
        return LM_OK;
    lm_train_first_values(r);
    LM_TRY(lm_train_begin_from(r, e));
    return train(r, e);
}

lm_status lm_train(const lm_model *m, const char *data, const char *folder, const lm_train_options *o,
                   lm_train_result *result, lm_error *e)
{
    LM_REQUIRE(e, m && result);
    LM_CHECK_RESERVED(e, o);
    lm_train_options own = lm_train_resolve(o);
    lm_train_result here = {
        .loss_first = NAN, .loss_last = NAN, .valid_first = NAN, .valid_last = NAN, .valid_best = NAN
    };
    lm_train_run r = {
        .model = m, .o = &own, .folder = folder, .result = &here, .epoch = UINT32_MAX, .best = NAN, .lock = -1
    };
    double           begun = lm_clock_seconds();

    if (!m->tensors)
        return lm_fail(e, LM_USAGE, "training", LM_NO_OFFSET, "this model has no weights");
    LM_TRY(lm_train_check(&own, data, folder, e));
    lm_status status = run(&r, data, e);
    here.done        = r.done;
    here.best_step   = r.best_step;
    here.valid_best  = r.best;
    here.seconds     = lm_clock_seconds() - begun;
    *result = here;
    lm_learner_free(r.learner);
    lm_program_free(r.adapted);
    lm_train_data_free(&r.data);
    lm_train_data_free(&r.rest);
    lm_train_rows_free(&r.rows);
    lm_train_rows_free(&r.held);
    lm_arena_free(&r.arena);
    if (r.lock >= 0)
        close(r.lock);
    return status;
}
