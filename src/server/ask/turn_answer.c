/* turn_answer.c - the stages of a turn in their order, up to the stream: what lm_turn_answer calls is the
 * whole way of a request, in every dialect. A worker calls it. */
#include "server/ask/dialogue.h"
#include "server/ask/turn_stages.h"

static lm_status named_as_sent(const lm_turn *t, lm_status status, lm_error *e)
{
    for (size_t i = 0; i < sizeof t->aliases / sizeof *t->aliases && t->aliases[i].field; i++)
        status = lm_fault_rename(status, t->aliases[i].field, t->aliases[i].sent, e);
    return status;
}

/* Set the prompts: those that `read` makes, or one from the conversation, whose text is appended to
 * `rendered`. */
static lm_status read_prompts(lm_call *c, lm_turn *t, lm_text *rendered, lm_error *e)
{
    lm_tokens *prompt;

    LM_TRY(t->read(c, t, e));
    if (t->body.messages) {
        LM_TRY(lm_prompts_one(&t->prompts, &prompt, e));
        LM_TRY(lm_dialogue_prompt(c, t, prompt, rendered, e));
    }
    return t->truncate ? lm_dialogue_truncate(c, t, rendered, e) : LM_OK;
}

/* Check that the context and the queue have room for all prompts, then compile the grammar, which can take
 * long. */
static lm_status compile_grammar(lm_call *c, lm_turn *t, const lm_text *rendered, lm_error *e)
{
    for (size_t i = 0; i < t->prompts.n; i++)
        if (t->prompts.items[i].n)                       /* an empty prompt is rejected later */
            LM_TRY(lm_schedule_check(c->service->schedule, t->prompts.items[i].n, e));
    LM_TRY(lm_constraints_compile(c->service, &t->constraints, &t->grammar, e));
    return t->body.messages
               ? lm_tools_prepare(c->service, &t->tools, rendered, t->whitespace, &t->grammar, c->warnings, e)
               : LM_OK;
}

static lm_status prepare(lm_call *c, lm_turn *t, lm_error *e)
{
    lm_text rendered = { 0 };
    lm_status status = lm_turn_options_read(c, t, e);

    if (status == LM_OK)
        status = read_prompts(c, t, &rendered, e);
    if (status == LM_OK)
        status = compile_grammar(c, t, &rendered, e);
    lm_text_free(&rendered);
    return status == LM_OK && t->writer->prepare ? t->writer->prepare(c, t, e) : status;
}

lm_status lm_turn_answer(lm_call *c, lm_turn *t, lm_error *e)
{
    lm_status status = prepare(c, t, e);

    if (status == LM_OK)
        status = lm_turn_submit(c, t, e);
    if (status != LM_OK)
        return named_as_sent(t, status, e);
    lm_turn_release_request(t);
    c->values = NULL;                                    /* the exchange's, which frees it */
    lm_turn_stream(t);
    return LM_OK;
}

lm_status lm_turn_count(lm_call *c, lm_turn *t, json_int_t *n, lm_error *e)
{
    lm_text rendered = { 0 };
    lm_status status = read_prompts(c, t, &rendered, e);

    if (status == LM_OK)
        *n = (json_int_t)t->prompts.items->n;
    lm_text_free(&rendered);
    return named_as_sent(t, status, e);
}
