/* openai_completions.c - POST /v1/completions: continue texts, or score them (echo). Read from
 * answer_completion upwards. */
#include <stdio.h>
#include <string.h>

#include "server/ask/fim.h"
#include "server/ask/token_json.h"
#include "server/dialects/openai.h"
#include "server/dialects/prompt_scores.h"
#include "server/dialects/routes.h"
#include "server/front/memory.h"

/* The position of a token in the text: the text of the tokens before it. */
typedef struct token_place {
    lm_stream *stream;               /* detokenizes the prompt, then the output; NULL: neither has begun */
    bool       written;              /* `stream` is that of the output */
    size_t     characters;
} token_place;

typedef struct completion_turn {
    lm_turn     turn;
    const char *suffix;
    int32_t     logprobs;                /* -1: none */
    uint32_t    best_of;
    bool        echo;
    /* Of the writer. */
    bool        sends_usage;
    bool        write;                   /* tokens after the prompt are requested */
    uint32_t    returned;                /* outputs per prompt that are returned; with best_of fewer than
                                            turn.n */
    size_t      n_prompts, n_outputs;    /* n_outputs: as turn.n_choices */
    lm_text    *echoed;                  /* [n_prompts] */
    lm_prompt_scores **scores;           /* [n_scores]: per prompt, in a stream per choice; NULL: not
                                            requested */
    size_t      n_scores;
    bool       *begun;                   /* [n_outputs], in a stream: the prompt has been sent; NULL: not a
                                            stream */
    token_place *at;                     /* [n_outputs]: the end of the tokens sent so far */
} completion_turn;

#define T(field) offsetof(lm_turn, field)
#define B(field) offsetof(lm_turn, body.field)
#define V(field) offsetof(completion_turn, field)

static const char *const as_usual[] = { "true", NULL };

static const lm_field completion_fields[] = {
    { "prompt", LM_FIELD_ANY, B(prompt), 0, 0, NULL, true,
      "string, array of token ids, or array of those: one answer per element" },
    { "model", LM_FIELD_STRING, B(model), 0, 0, NULL, false,
      "a name of /v1/models; any name if the server has one model" },
    { "max_tokens", LM_FIELD_I64, T(max_tokens), -1, 1e9, NULL, false,
      "maximum number of tokens to generate (16); with echo, 0 scores the prompt" },
    { "n_predict", LM_FIELD_I64, T(max_tokens), -1, 1e9, NULL, false, "llama.cpp's name of max_tokens" },
    { "logprobs", LM_FIELD_I32, V(logprobs), 0, LM_SCORED_TOP, NULL, false,
      "number of most probable tokens returned per position" },
    { "n", LM_FIELD_U32, T(n), 1, 8, NULL, false, "number of outputs per prompt" },
    { "best_of", LM_FIELD_U32, V(best_of), 1, 8, NULL, false,
      "number of outputs generated per prompt, of which the n with the highest mean log-probability are "
      "returned; not in a stream (n)" },
    { "echo", LM_FIELD_BOOL, V(echo), 0, 0, NULL, false,
      "return the prompt as part of the text, with its log-probabilities" },
    { "stream_options", LM_FIELD_OBJECT, B(stream_options), 0, 0, NULL, false,
      "include_usage: send usage in the last event" },
    { "suffix", LM_FIELD_STRING, V(suffix), 0, 0, NULL, false,
      "text after the output, if the model has tokens for it; the prompt is one string" },
    { "add_special_tokens", LM_FIELD_REFUSED, 0, 0, 0, as_usual, false, "send token ids" },
    LM_IGNORED("user"),
    { 0 },
};

static const lm_field_group completion_groups[] = {
    { completion_fields, 0 }, { lm_turn_fields, 0 }, { lm_turn_trace_fields, 0 },
    { lm_constraints_fields, T(constraints) }, { 0 },
};

static void completion_defaults(const lm_service *s, void *values)
{
    completion_turn *v = values;

    lm_turn_defaults(s, &v->turn);
    v->turn.max_tokens = 16;
    v->logprobs = -1;
}

/* ---- scores ---- */

static void completion_release(lm_turn *t)
{
    completion_turn *o = (completion_turn *)t;

    for (size_t i = 0; o->echoed && i < o->n_prompts; i++)
        lm_text_free(o->echoed + i);
    for (size_t i = 0; o->scores && i < o->n_scores; i++)
        lm_prompt_scores_free(o->scores[i]);
    for (size_t i = 0; o->at && i < o->n_outputs; i++)
        lm_stream_free(o->at[i].stream);
    lm_heap_free(o->echoed);
    lm_heap_free(o->scores);
    lm_heap_free(o->begun);
    lm_heap_free(o->at);
}

static lm_status score_prompts(lm_call *c, completion_turn *own, lm_error *e)
{
    const lm_prompts *prompts = &own->turn.prompts;
    bool stream = own->begun != NULL;

    LM_TRY(lm_service_require_single(c->service, "\"echo\" with \"logprobs\"", e));
    own->n_scores = prompts->n * (stream ? own->turn.n : 1);
    if (!(own->scores = lm_memory_zero(own->n_scores, sizeof *own->scores)))
        return lm_fail_memory(e, "log-probabilities", 0);
    for (size_t i = 0; i < own->n_scores; i++) {
        const lm_tokens *prompt = prompts->items + (stream ? i / own->turn.n : i);
        own->scores[i] = lm_prompt_scores_new(prompt, c->service->info.n_vocab, (uint32_t)own->logprobs);
        if (!own->scores[i])
            return lm_fail_memory(e, "log-probabilities", prompt->n * sizeof(lm_prompt_score));
    }
    return LM_OK;
}

/* Return the scores of choice `i`. In a stream each choice has its own, which are sent before its text, when
 * those of other choices may not be complete. */
static lm_prompt_scores *scores_of(const completion_turn *own, size_t i)
{
    return own->begun ? own->scores[i] : own->scores[i / own->turn.n];
}

/* Let a sequence score its prompt while it processes it; without a stream only the first sequence of each
 * prompt. */
static void set_score_hook(lm_turn *t, size_t i, lm_sequence_options *o)
{
    const completion_turn *own = (const completion_turn *)t;

    if (!own->scores || (!own->begun && i % t->n))
        return;
    lm_prompt_scores_hook(scores_of(own, i), o);
}

/* ---- the response ---- */

typedef struct lists { json_t *tokens, *logprobs, *top, *offsets; token_place *at; bool written; } lists;

static size_t characters(const lm_text *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->size; i++)
        n += ((unsigned char)t->data[i] & 0xc0) != 0x80;
    return n;
}

/* Advance `at` by the text of a token. The stream of the prompt ends when the first token of the output
 * comes. */
static void advance_place(const lm_service *s, token_place *at, lm_token id, bool written)
{
    lm_text text = { 0 };

    if (at->stream && at->written != written) {
        lm_stream_end(at->stream, &text, NULL);
        lm_stream_free(at->stream);
        at->stream = NULL;
    }
    if (at->stream || lm_stream_new(s->tokenizer, LM_SKIP_SPECIAL, written, &at->stream, NULL) == LM_OK)
        lm_stream_push(at->stream, id, &text, NULL);
    at->written = written;
    at->characters += characters(&text);
    lm_text_free(&text);
}

static void add_entry(const lm_service *s, lists *l, lm_token id, json_t *logprob, json_t *top)
{
    json_array_append_new(l->tokens, lm_token_text(s->tokenizer, id));
    json_array_append_new(l->logprobs, logprob);
    json_array_append_new(l->top, top);
    json_array_append_new(l->offsets, json_integer((json_int_t)l->at->characters));
    advance_place(s, l->at, id, l->written);
}

/* Add a log-probability to `top`, by the token's text. `own`, the chosen token, always has its text as the
 * key; another token with the same text gets its id as the key, in vLLM's format. */
static void add_top(const lm_service *s, json_t *top, lm_token own, lm_token id, double logprob)
{
    json_t *text = lm_token_text(s->tokenizer, id), *mine = lm_token_text(s->tokenizer, own);
    const char *key = json_string_value(text);
    char number[32];

    snprintf(number, sizeof number, "token_id:%d", id);
    if (key && id != own && (json_object_getn(top, key, json_string_length(text)) || json_equal(text, mine)))
        json_object_set_new(top, number, json_real(logprob));
    else if (key)
        json_object_setn_new(top, key, json_string_length(text), json_real(logprob));
    json_decref(text);
    json_decref(mine);
}

static void add_scores(const lm_service *s, lists *l, const lm_prompt_scores *p)
{
    add_entry(s, l, p->ids[0], json_null(), json_null());
    for (size_t i = 0; i < p->n; i++) {
        json_t *top = json_object();

        for (uint32_t j = 0; j < p->top; j++)
            add_top(s, top, p->ids[i + 1], p->scores[i].top[j].id, (double)p->scores[i].top[j].logprob);
        add_top(s, top, p->ids[i + 1], p->ids[i + 1], p->scores[i].logprob);
        add_entry(s, l, p->ids[i + 1], json_real(p->scores[i].logprob), top);
    }
}

static void add_tokens(const lm_service *s, lists *l, json_t *tokens)
{
    json_t *token, *one;
    size_t i, j;

    l->written = true;
    json_array_foreach(tokens, i, token) {
        lm_token id = (lm_token)json_integer_value(json_object_get(token, "id"));
        double logprob = json_number_value(json_object_get(token, "logprob"));
        json_t *top = json_object();

        json_array_foreach(json_object_get(token, "top"), j, one)
            add_top(s, top, id, (lm_token)json_integer_value(json_object_get(one, "id")),
                    json_number_value(json_object_get(one, "logprob")));
        add_top(s, top, id, id, logprob);
        add_entry(s, l, id, json_real(logprob), top);
    }
    json_array_clear(tokens);
}

/* Return the log-probabilities not sent yet, and clear them: `prompt`: of the prompt; `written`: of the
 * output. */
static json_t *logprobs_json(lm_turn *t, lm_choice *c, bool prompt, bool written)
{
    completion_turn *own = (completion_turn *)t;
    lists l = { json_array(), json_array(), json_array(), json_array(), own->at + c->index, false };

    if (prompt && own->scores)
        add_scores(t->service, &l, scores_of(own, c->index));
    if (c->tokens && own->write && written)
        add_tokens(t->service, &l, c->tokens);
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", l.tokens, "token_logprobs", l.logprobs, "top_logprobs",
                     l.top, "text_offset", l.offsets);
}

static json_t *usage_json(const lm_turn *t)
{
    lm_turn_usage u = lm_turn_used(t);

    if (!((const completion_turn *)t)->write)
        u.written = 0;
    return lm_openai_usage(&u);
}

static json_t *event_document(const lm_turn *t, json_t *choices)
{
    json_t *o = lm_openai_document(t, "text_completion", choices);

    if (((const completion_turn *)t)->sends_usage)
        json_object_set_new(o, "usage", json_null());    /* the last event has it */
    return o;
}

/* In a stream with echo, send the prompt before the first piece of the output. */
static void send_prompt(lm_turn *t, lm_choice *c)
{
    completion_turn *own = (completion_turn *)t;
    const lm_text *text = own->echoed + c->index / t->n;

    if (!own->echo || own->begun[c->index])
        return;
    own->begun[c->index] = true;
    lm_turn_send(t, NULL,
                 event_document(t, json_pack("[{s:i, s:s%, s:o, s:n}]", "index", (int)c->index, "text",
                                             text->data ? text->data : "", text->size, "logprobs",
                                             own->scores ? logprobs_json(t, c, true, false) : json_null(),
                                             "finish_reason")));
}

static void completion_text(lm_turn *t, lm_choice *c, const char *text, size_t n)
{
    json_t *o;

    send_prompt(t, c);
    o = event_document(t, json_pack("[{s:i, s:s%, s:o, s:n}]", "index", (int)c->index, "text", text, n,
                                    "logprobs", c->tokens ? logprobs_json(t, c, false, true) : json_null(),
                                    "finish_reason"));
    lm_turn_piece(t, c, o);
    lm_turn_send(t, NULL, o);
}

static void completion_end(lm_turn *t, lm_choice *c)
{
    json_t *o;

    send_prompt(t, c);
    o = event_document(t, json_pack("[{s:i, s:s, s:n, s:s}]", "index", (int)c->index, "text", "", "logprobs",
                                    "finish_reason", lm_turn_reason(c)));

    if (t->n_choices == 1)
        json_object_set_new(o, "timings", lm_turn_timings(c));
    lm_turn_send(t, NULL, o);
}

static void completion_trace(lm_turn *t, lm_choice *c, json_t *trace)
{
    send_prompt(t, c);
    lm_openai_trace(t, event_document(t, json_array()), trace);
}

static json_t *choice_json(lm_turn *t, lm_choice *c, size_t index)
{
    completion_turn *own = (completion_turn *)t;
    lm_text text = { 0 };
    json_t *o;

    if (own->echo)
        lm_text_add(&text, own->echoed[c->index / t->n].data, own->echoed[c->index / t->n].size);
    if (own->write)
        lm_text_add(&text, c->text.data, c->text.size);
    o = json_pack("{s:i, s:s%, s:o, s:s}", "index", (int)index, "text", text.data ? text.data : "", text.size,
                  "logprobs",
                  c->tokens && own->logprobs >= 0 ? logprobs_json(t, c, own->echo, true) : json_null(),
                  "finish_reason", lm_turn_reason(c));
    lm_text_free(&text);
    return o;
}

static double mean(const lm_choice *c)
{
    double sum = 0;
    size_t n = json_array_size(c->tokens);

    for (size_t i = 0; i < n; i++)
        sum += json_number_value(json_object_get(json_array_get(c->tokens, i), "logprob"));
    return n ? sum / (double)n : 0;
}

/* Return the best choice of a prompt that was not returned yet; among equal ones the first. */
static lm_choice *best(lm_turn *t, size_t prompt, bool *returned)
{
    size_t from = prompt * t->n, at = from + t->n;

    for (size_t i = from; i < from + t->n; i++)
        if (!returned[i] && (at == from + t->n || mean(t->choices + i) > mean(t->choices + at)))
            at = i;
    returned[at] = true;
    return t->choices + at;
}

/* Return all choices or, with best_of, the best ones of each prompt, best first. */
static json_t *choices_json(lm_turn *t)
{
    const completion_turn *own = (const completion_turn *)t;
    json_t *list = json_array();
    bool *returned = lm_memory_zero(t->n_choices, sizeof *returned);

    for (size_t i = 0; returned && i < t->n_choices; i++) {
        size_t prompt = i / t->n, which = i % t->n;
        lm_choice *c;
        if (which >= own->returned)
            continue;
        c = own->returned < t->n ? best(t, prompt, returned) : t->choices + i;
        json_array_append_new(list, choice_json(t, c, prompt * own->returned + which));
    }
    lm_heap_free(returned);
    return list;
}

static void completion_finish(lm_turn *t)
{
    lm_openai_finish(t, "text_completion", t->stream ? json_array() : choices_json(t),
                     ((const completion_turn *)t)->sends_usage, usage_json(t));
}

/* ---- the request ---- */

static lm_status check(const completion_turn *v, lm_error *e)
{
    const lm_turn *t = &v->turn;

    if (v->best_of && v->best_of < t->n)
        return lm_fail(e, LM_USAGE, "best_of", LM_NO_OFFSET, "'best_of' is %u; it must be at least n, %u",
                       v->best_of, t->n);
    if (v->best_of > t->n && t->stream)
        return lm_fail(e, LM_USAGE, "best_of", LM_NO_OFFSET,
                       "'best_of' cannot be combined with \"stream\": true");
    if (v->suffix && *v->suffix && v->echo)
        return lm_fail(e, LM_USAGE, "suffix", LM_NO_OFFSET, "'suffix' cannot be combined with echo");
    if (v->echo && v->logprobs >= 0 && (t->body.trace || json_array_size(t->body.intervene)))
        return lm_fail(e, LM_USAGE, "logprobs", LM_NO_OFFSET,
                       "'logprobs' with echo cannot be combined with trace or intervene: use /v1/trace");
    if (!t->max_tokens && !v->echo)
        return lm_fail(e, LM_USAGE, "max_tokens", LM_NO_OFFSET,
                       "'max_tokens' is 0, which requires \"echo\": true");
    return LM_OK;
}

static lm_status prepare_completion(lm_call *c, lm_turn *t, lm_error *e)
{
    completion_turn *v = (completion_turn *)t;
    const lm_prompts *prompts = &t->prompts;

    LM_TRY(lm_openai_wants_usage(c, t->body.stream_options, &v->sends_usage, e));
    v->write = t->max_tokens != 0;
    v->n_prompts = prompts->n;
    v->n_outputs = prompts->n * t->n;
    v->echoed = lm_memory_zero(v->n_prompts, sizeof *v->echoed);
    v->at = lm_memory_zero(v->n_outputs, sizeof *v->at);
    v->begun = t->stream ? lm_memory_zero(v->n_outputs, sizeof *v->begun) : NULL;
    if (!v->echoed || !v->at || (t->stream && !v->begun))
        return lm_fail_memory(e, "the answer", 0);
    for (size_t i = 0; v->echo && i < prompts->n; i++)
        LM_TRY(lm_detokenize(c->service->tokenizer, prompts->items[i].ids, prompts->items[i].n,
                             LM_SKIP_SPECIAL, v->echoed + i, e));
    return v->echo && v->logprobs >= 0 ? score_prompts(c, v, e) : LM_OK;
}

static const lm_writer completion_writer = { .dialect = LM_DIALECT_OPENAI, .type = "text/event-stream",
                                             .id_prefix = "cmpl-", .prepare = prepare_completion,
                                             .sequence = set_score_hook, .text = completion_text,
                                             .end = completion_end, .finish = completion_finish,
                                             .fault = lm_turn_fault, .trace = completion_trace,
                                             .alive = lm_turn_waiting, .release = completion_release };

/* Make the prompt for the text between the given prompt and its suffix. */
static lm_status read_fim(const lm_service *s, const completion_turn *v, lm_prompts *out, lm_error *e)
{
    lm_fim m = { .prefix = json_string_value(v->turn.body.prompt), .suffix = v->suffix };
    lm_tokens *prompt;

    if (!m.prefix)
        return lm_fail(e, LM_USAGE, "suffix", LM_NO_OFFSET, "'suffix' requires a prompt that is one string");
    if (!lm_fim_supported(s))
        return lm_fail(e, LM_USAGE, "suffix", LM_NO_OFFSET,
                       "'suffix' is not supported by this model: its vocabulary has no tokens for infilling");
    LM_TRY(lm_prompts_one(out, &prompt, e));
    return lm_fim_prompt(s, &m, prompt, e);
}

static lm_status read_completion(lm_call *c, lm_turn *t, lm_error *e)
{
    const completion_turn *v = (const completion_turn *)t;

    return v->suffix && *v->suffix
               ? read_fim(c->service, v, &t->prompts, e)
               : lm_prompts_read(c->service, t->body.prompt, LM_LIMIT_ID_PROMPTS, &t->prompts, e);
}

static lm_status answer_completion(lm_call *c, lm_error *e)
{
    completion_turn *v = c->values;
    lm_turn *t = &v->turn;

    lm_turn_begin(c, t, &completion_writer);
    LM_TRY(check(v, e));
    t->read = read_completion;
    t->prompt_only = !t->max_tokens;
    v->returned = t->n;
    if (v->best_of)
        t->n = v->best_of;
    t->logprobs = v->logprobs >= 0 || v->returned < t->n;          /* best_of compares them */
    t->top_logprobs = v->logprobs > 0 ? (uint32_t)v->logprobs : 0;
    return lm_turn_answer(c, t, e);
}

const lm_route lm_route_completions = {
    .method = "POST", .path = "/v1/completions", .dialect = LM_DIALECT_OPENAI,
    .summary = "continue texts, or score them",
    .groups = completion_groups, .values_size = sizeof(completion_turn), .defaults = completion_defaults,
    .handle = answer_completion,
};
