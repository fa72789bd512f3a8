#include "server/ask/ask.h"

#include <stdlib.h>

static lm_status named_as_sent(const lm_ask *a, lm_status status, lm_error *e)
{
    for (size_t i = 0; i < sizeof a->aliases / sizeof *a->aliases && a->aliases[i].field; i++)
        status = lm_fault_rename(status, a->aliases[i].field, a->aliases[i].sent, e);
    return status;
}

static void ask_free(lm_ask *a)
{
    lm_dialogue_free(&a->dialogue);
    lm_prompts_free(&a->prompts);
}

static lm_status read_prompts(lm_call *c, lm_ask *a, lm_tools **tools, lm_text *rendered, lm_error *e)
{
    lm_tokens *prompt;

    LM_TRY(a->read(c, a, e));
    if (!a->dialogue.messages)
        return LM_OK;
    LM_TRY(lm_prompts_one(&a->prompts, &prompt, e));
    return lm_dialogue_prompt(c, &a->dialogue, prompt, rendered, tools, e);
}

/* Run all checks, in the order of ask.h. */
static lm_status prepare(lm_call *c, lm_ask *a, lm_prepared *parts, lm_tools **tools, lm_error *e)
{
    lm_text rendered = { 0 };
    lm_status status = lm_params_prepare(c, a->params, parts, e);

    if (status == LM_OK)
        status = read_prompts(c, a, tools, &rendered, e);
    if (status == LM_OK)
        status = lm_params_grammar(c, a->params, &a->prompts, parts, e);
    if (status == LM_OK && *tools)
        status = lm_tools_prepare(c->service, *tools, &rendered, parts->whitespace, &parts->grammar, c->warnings, e);
    lm_text_free(&rendered);
    return status;
}

lm_status lm_ask_answer(lm_call *c, lm_ask *a, const lm_writer *w, lm_error *e)
{
    lm_prepared parts = { 0 };
    lm_turn_options o = { .params = a->params, .parts = &parts, .prompts = &a->prompts, .id_prefix = a->id_prefix, .logprobs = a->logprobs,
                          .prompt_only = a->prompt_only, .own = w->own_size ? calloc(1, w->own_size) : NULL };
    lm_status status = w->own_size && !o.own ? lm_fail_memory(e, "the answer", w->own_size) : prepare(c, a, &parts, &o.tools, e);

    if (status == LM_OK && a->prepare)
        status = a->prepare(c, a, &parts, o.own, e);
    if (status == LM_OK) {
        status = lm_turn_start(c, &o, w, e);
    } else {
        lm_tools_free(o.tools);
        lm_writer_drop(w, o.own);
    }
    lm_prepared_free(&parts);
    ask_free(a);
    return named_as_sent(a, status, e);
}

lm_status lm_ask_count(lm_call *c, lm_ask *a, json_int_t *n, lm_error *e)
{
    lm_tools *tools = NULL;
    lm_text rendered = { 0 };
    lm_status status = read_prompts(c, a, &tools, &rendered, e);

    if (status == LM_OK)
        *n = (json_int_t)a->prompts.items->n;
    lm_text_free(&rendered);
    lm_tools_free(tools);
    ask_free(a);
    return named_as_sent(a, status, e);
}

lm_status lm_ask_logprobs(lm_ask *a, bool on, uint32_t top, lm_error *e)
{
    if (top && !on)
        return lm_fail(e, LM_USAGE, "top_logprobs", LM_NO_OFFSET, "'top_logprobs' requires \"logprobs\": true");
    a->logprobs = !on ? 0 : top ? (int32_t)top : -1;
    return LM_OK;
}
