/* drafting.c - open a draft model, and set what a sequence needs to propose tokens with it or by lookup.
 *
 * The draft model and its engine belong to the lm_drafting. They must outlive the sequences that use them. */
#include "cli/run/drafting.h"

#include "cli/base/output.h"

#define D(field) offsetof(lm_draft_flags, field)

enum { DEFAULT_DRAFT = 16 };

const lm_flag lm_draft_flag_table[] = {
    { "--draft-ngram", "--spec-ngram-size-n", LM_FLAG_COUNT, D(ngram), "N",
      "speculative decoding by lookup: propose what followed the last N tokens (or fewer) earlier in the "
      "text; same output", 1, 64, NULL },
    { "--model-draft", "-md --spec-draft-model", LM_FLAG_TEXT, D(model), "MODEL",
      "speculative decoding: smaller model with the same vocabulary that proposes tokens; same output",
      0, 0, NULL },
    { "--draft-max", "--draft --draft-n --spec-draft-n-max", LM_FLAG_COUNT, D(max), "N",
      "maximum number of tokens proposed at a time (16)", 1, 64, NULL },
    { 0 },
};

lm_status lm_drafting_engine(const lm_draft_flags *f, lm_engine_options *o, lm_error *e)
{
    uint32_t rows = (f->max ? f->max : DEFAULT_DRAFT) + 1;

    if (f->max && !f->ngram && !f->model)
        return lm_fail(e, LM_USAGE, "--draft-max", LM_NO_OFFSET,
                       "requires --draft-ngram N or --model-draft MODEL");
    if (f->ngram || f->model)
        o->max_logits = rows < o->max_rows ? rows : o->max_rows;
    return LM_OK;
}

lm_status lm_drafting_open(lm_cli *cli, const lm_draft_flags *f, const lm_model *m,
                           const lm_engine_options *o, lm_drafting *out, lm_error *e)
{
    lm_model_flags    flags  = { .model = f->model };
    lm_engine_options engine = *o;

    if (!f->model)
        return LM_OK;
    LM_TRY(lm_open_model(cli, &flags, NULL, &out->model, e));
    lm_status status = lm_draft_fits(out->model, m, e);
    if (status != LM_OK)
        return lm_fail_in(e, f->model);
    engine.adapters   = NULL;
    engine.max_logits = 1;
    engine.rollback   = f->max ? f->max : DEFAULT_DRAFT;
    return lm_start_engine(out->model, &engine, &out->engine, e);
}

void lm_drafting_close(lm_drafting *d)
{
    lm_engine_free(d->engine);
    lm_model_close(d->model);
    *d = (lm_drafting){ 0 };
}

void lm_drafting_sequence(const lm_draft_flags *f, const lm_drafting *d, lm_sequence_options *o)
{
    o->draft_ngram  = f->ngram;
    o->draft_max    = f->max ? f->max : DEFAULT_DRAFT;
    o->draft_engine = d->engine;
}
