/* bench_texts.c - sequences of random tokens that are driven step by step, as `lamina serve` drives those of
 * requests.
 *
 * A linear congruential generator (Knuth, MMIX) draws the tokens, so that every run processes the same. */
#include "cli/measure/bench_texts.h"

#include "lamina/error.h"

static lm_token some_token(lm_bench_texts *t)
{
    t->noise = t->noise * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (lm_token)((t->noise >> 33) % t->n_vocab);
}

lm_status lm_bench_texts_open(lm_engine *g, uint32_t batch, lm_store *store, lm_bench_texts *out, lm_error *e)
{
    lm_model_info  info;
    lm_bench_texts t = { .g = g, .batch = batch };
    uint32_t       n = lm_engine_sequences(g);

    lm_model_describe(lm_engine_model(g), &info);
    t.n_vocab = info.n_vocab;
    t.all     = lm_store_new(store, n, lm_sequence *);
    t.rows    = lm_store_new(store, lm_engine_max_rows(g), lm_row);
    t.ids     = lm_store_new(store, (size_t)lm_engine_context(g) + 1, lm_token);
    if (!t.all || !t.rows || !t.ids)
        return lm_fail_memory(e, "the texts", n * sizeof *t.all);
    for (; t.n < n; t.n++) {
        lm_sequence_options o = { .sequence = t.n, .no_text = true, .ignore_eos = true };
        lm_status status = lm_sequence_new(g, NULL, &o, &t.all[t.n], e);
        if (status != LM_OK) {
            lm_bench_texts_close(&t);
            return status;
        }
    }
    *out = t;
    return LM_OK;
}

void lm_bench_texts_close(lm_bench_texts *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        lm_sequence_free(t->all[i]);
    t->n = 0;
}

/* Read all events of a sequence and answer each choice with a random token. Return its error if it failed. */
static lm_status answer(lm_bench_texts *t, lm_sequence *s, lm_error *e)
{
    lm_event event;

    while (lm_sequence_event(s, &event)) {
        if (event.kind == LM_EVENT_CHOICE)
            LM_TRY(lm_sequence_choose(s, some_token(t), e));
        if (event.kind == LM_EVENT_END && event.stop == LM_STOP_FAILED) {
            *e = *event.error;
            return e->code;
        }
    }
    return LM_OK;
}

/* Start sequence i with a prompt of the `at` tokens that its slot holds and `n` random ones. */
static lm_status begin(lm_bench_texts *t, uint32_t i, uint32_t at, uint32_t n, lm_error *e)
{
    for (uint32_t k = at; k < at + n; k++)
        t->ids[k] = some_token(t);
    return lm_sequence_prompt(t->all[i], t->ids, at + n, at, e);
}

lm_status lm_bench_read(lm_bench_texts *t, uint32_t i, uint32_t at, uint32_t n, lm_error *e)
{
    lm_batch         b = { .rows = t->rows, .max_prompt = t->batch };
    lm_sequence_info info;

    LM_TRY(begin(t, i, at, n, e));
    do {
        LM_TRY(lm_sequences_step(t->g, &t->all[i], 1, &b, e));
        LM_TRY(answer(t, t->all[i], e));
        lm_sequence_describe(t->all[i], &info);
    } while (info.n_tokens == 0);
    return LM_OK;
}

lm_status lm_bench_write(lm_bench_texts *t, bool fresh, uint32_t at, uint32_t n, lm_error *e)
{
    lm_batch b = { .rows = t->rows };

    for (uint32_t i = 0; n && fresh && i < t->n; i++)
        LM_TRY(begin(t, i, at, 1, e));
    for (uint32_t k = 0; k < n; k++) {
        LM_TRY(lm_sequences_step(t->g, t->all, t->n, &b, e));
        for (uint32_t i = 0; i < t->n; i++)
            LM_TRY(answer(t, t->all[i], e));
    }
    return LM_OK;
}
