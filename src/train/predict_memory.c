/* predict_memory.c - predict the memory of training without doing it: derive the backward program and the
 * bytes of its plan. */
#include "train/predict_memory.h"

#include "base/alloc.h"
#include "train/run.h"

/* Prepare the program and its trained weights, without data and without memory for a step. */
static lm_status prepare(lm_train_run *r, lm_error *e)
{
    LM_TRY(lm_train_prepare(r, e));
    return r->o->full ? lm_train_check_full(r, e) : LM_OK;
}

static void release(lm_train_run *r)
{
    lm_program_free(r->adapted);
    lm_arena_free(&r->arena);
}

lm_status lm_train_predict_memory(const lm_model *m, const lm_train_sizes *f, lm_learner_memory *out,
                                  uint64_t *numbers, lm_error *e)
{
    lm_train_options   o      = lm_train_defaults();
    lm_train_result    result = { 0 };
    lm_train_run       r      = { .model = m, .o = &o, .result = &result };
    lm_learner_options l = { .rows = f->tokens,
                             .longest = f->tokens,
                             .threads = f->threads,
                             .compute = f->compute,
                             .cpu = f->cpu,
                             .optimise = true,
                             .types = f->types };

    o.full  = !f->rank;
    o.rank  = f->rank;
    o.alpha = 2.0 * f->rank;
    lm_status status = prepare(&r, e);
    l.checkpoint     = f->checkpointed ? m->program->n_layers : 0;
    if (status == LM_OK)
        status = lm_learner_predict(m, r.program, r.wanted, &l, out, e);
    *numbers = result.numbers;
    release(&r);
    return status;
}

lm_status lm_train_program_text(const lm_model *m, const lm_train_options *options, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, m && out);
    LM_CHECK_RESERVED(e, options);
    lm_train_options o      = lm_train_resolve(options);
    lm_train_result  result = { 0 };
    lm_train_run     r      = { .model = m, .o = &o, .result = &result };
    lm_backward     *b      = NULL;
    lm_text          text   = { 0 };

    o.gradients      = "";                   /* allows models that cannot be written */
    lm_status status = o.full || o.rank ? prepare(&r, e)
                                        : lm_fail(e, LM_USAGE, "rank", LM_NO_OFFSET, "must be in 1 ... 1024");
    if (status == LM_OK)
        status = lm_program_backward(r.program, r.wanted, &b, e);
    if (status == LM_OK)
        lm_backward_print(b, &text);
    lm_backward_free(b);
    release(&r);
    return lm_text_deliver(&text, status, "program", out, e);
}
