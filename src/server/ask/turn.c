/* turn.c - the base of turn.h: the tables of the fields that several dialects share, their defaults, and the
 * memory of a turn. */
#include "server/ask/turn_stages.h"
#include "server/front/memory.h"


/* ---- fields ---- */

#define S(field) offsetof(lm_turn, sampling.field)
#define T(field) offsetof(lm_turn, field)
#define B(field) offsetof(lm_turn, body.field)

static const char *const as_usual[] = { "true", NULL };

const lm_field lm_turn_fields[] = {
    { "temperature", LM_FIELD_FLOAT, S(temperature), 0, 100, NULL, false, "0: the most probable token" },
    { "top_p", LM_FIELD_FLOAT, S(top_p), 0, 1, NULL, false, "nucleus sampling; 1: off" },
    { "top_k", LM_FIELD_I32, S(top_k), -1, 1e9, NULL, false,
      "sample from the K most probable tokens; 0 or -1: all" },
    { "min_p", LM_FIELD_FLOAT, S(min_p), 0, 1, NULL, false,
      "minimum probability, relative to the most probable token" },
    { "typical_p", LM_FIELD_FLOAT, S(typical_p), 0, 1, NULL, false, "locally typical sampling; 1: off" },
    { "top_n_sigma", LM_FIELD_FLOAT, S(top_n_sigma), -1, 1e6, NULL, false,
      "keep logits within N standard deviations of the largest" },
    { "xtc_probability", LM_FIELD_FLOAT, S(xtc_probability), 0, 1, NULL, false,
      "probability of excluding the most probable tokens" },
    { "xtc_threshold", LM_FIELD_FLOAT, S(xtc_threshold), 0, 1, NULL, false,
      "probability above which XTC excludes tokens" },
    { "dynatemp_range", LM_FIELD_FLOAT, S(dynatemp_range), 0, 100, NULL, false,
      "range of the dynamic temperature" },
    { "dynatemp_exponent", LM_FIELD_FLOAT, S(dynatemp_exponent), 0, 100, NULL, false,
      "exponent of the dynamic temperature" },
    { "repeat_penalty", LM_FIELD_FLOAT, S(repeat_penalty), 0, 100, NULL, false,
      "penalty for tokens already in the sequence; 1: none" },
    { "repetition_penalty", LM_FIELD_FLOAT, S(repeat_penalty), 0, 100, NULL, false,
      "vLLM's name of repeat_penalty; applies to the whole sequence unless repeat_last_n is given" },
    { "repeat_last_n", LM_FIELD_I32, S(repeat_last_n), -1, 1e9, NULL, false,
      "number of last tokens that penalties apply to; -1: all" },
    { "presence_penalty", LM_FIELD_FLOAT, S(presence_penalty), -100, 100, NULL, false,
      "penalty added once for a token already in the sequence" },
    { "frequency_penalty", LM_FIELD_FLOAT, S(frequency_penalty), -100, 100, NULL, false,
      "penalty added for each occurrence of a token in the sequence" },
    { "dry_multiplier", LM_FIELD_FLOAT, S(dry_multiplier), 0, 100, NULL, false,
      "DRY repetition penalty; 0: off" },
    { "dry_base", LM_FIELD_FLOAT, S(dry_base), 0, 100, NULL, false, "base of the DRY penalty" },
    { "dry_allowed_length", LM_FIELD_I32, S(dry_allowed_length), 0, 1e9, NULL, false,
      "length of repetition without a DRY penalty" },
    { "dry_penalty_last_n", LM_FIELD_I32, S(dry_penalty_last_n), -1, 1e9, NULL, false,
      "number of last tokens that DRY applies to; -1: all" },
    { "dry_sequence_breakers", LM_FIELD_ARRAY, B(breakers), 0, 0, NULL, false,
      "strings that end a repetition for DRY" },
    { "mirostat", LM_FIELD_I32, S(mirostat), 0, 2, NULL, false, "2: Mirostat 2.0; 0: off" },
    { "mirostat_tau", LM_FIELD_FLOAT, S(mirostat_tau), 0, 100, NULL, false, "target entropy of Mirostat" },
    { "mirostat_eta", LM_FIELD_FLOAT, S(mirostat_eta), 0, 100, NULL, false, "learning rate of Mirostat" },
    { "min_keep", LM_FIELD_U32, S(min_keep), 0, 1e6, NULL, false,
      "minimum number of tokens that each sampler leaves" },
    { "seed", LM_FIELD_I64, T(seed), -0x1p63, 0x1p63, NULL, false,
      "random seed; the same request and seed give the same output; -1: random" },
    { "stop", LM_FIELD_ANY, B(stop), 0, 0, NULL, false, "string or array of strings that end the output" },
    { "logit_bias", LM_FIELD_ANY, B(logit_bias), 0, 0, NULL, false,
      "object of token id, or string with all its tokens, to bias; or array of [id or string, bias]; "
      "false: never" },
    { "stream", LM_FIELD_BOOL, T(stream), 0, 0, NULL, false, "send the output as it is generated" },
    { "ignore_eos", LM_FIELD_BOOL, T(ignore_eos), 0, 0, NULL, false,
      "never choose an end-of-text token, unless a constraint allows nothing else" },
    { "id_slot", LM_FIELD_I32, T(slot), -1, 1e6, NULL, false, "slot to use; -1: any" },
    { "priority", LM_FIELD_I32, T(priority), -LM_MAX_PRIORITY, LM_MAX_PRIORITY, NULL, false,
      "requests with lower numbers are admitted first (default: that of the API key, or 0); with API "
      "keys, not below that of the key" },
    { "timings_per_token", LM_FIELD_BOOL, T(timings), 0, 0, NULL, false,
      "add timings to each event of a stream" },
    { "samplers", LM_FIELD_ANY, B(samplers), 0, 0, NULL, false,
      "samplers in their order: array of names, or llama.cpp's letters" },
    { "explain_cache", LM_FIELD_BOOL, T(explain_cache), 0, 0, NULL, false,
      "report in `cache` where the prompt first differed from the cached prefix" },
    { "contributions", LM_FIELD_BOOL, T(contributions), 0, 0, NULL, false,
      "ensembles only: report in `ensemble` the log-probability that each model gives each token" },
    { "return_progress", LM_FIELD_BOOL, T(progress), 0, 0, NULL, false,
      "send events while the prompt is processed: prompt_progress" },
    { "verbose", LM_FIELD_BOOL, T(verbose), 0, 0, NULL, false,
      "return the prompt as the model sees it, in __verbose" },
    { "post_sampling_probs", LM_FIELD_BOOL, T(sampled), 0, 0, NULL, false,
      "return the probabilities that tokens were drawn with, after all samplers (/completion: prob, "
      "top_probs)" },
    { "sse_ping_interval", LM_FIELD_I32, T(ping), -1, 86400, NULL, false,
      "seconds without an event after which a stream sends a comment; -1: never" },
    { "t_max_predict_ms", LM_FIELD_I64, T(max_ms), -1, 9e15, NULL, false,
      "end the output this many milliseconds after its first token, once it contains a line feed; 0, -1: "
      "never" },
    { "timeout", LM_FIELD_DOUBLE, T(timeout), 0, 1e6, NULL, false,
      "seconds after which the request ends with the output so far and a warning; maximum and 0: "
      "--timeout of the server" },
    { "preserved_tokens", LM_FIELD_ARRAY, B(preserved), 0, 0, NULL, false,
      "control tokens, as strings, that are part of the output" },
    { "stop_token_ids", LM_FIELD_ARRAY, B(stop_ids), 0, 0, NULL, false, "token ids that end the output" },
    LM_REFUSED("min_tokens", "a minimum length cannot be set"), LM_REFUSED("bad_words", "use logit_bias"),
    LM_REFUSED("allowed_token_ids", "use grammar, or logit_bias"),
    LM_REFUSED("use_beam_search", "beam search is not available"),
    { "length_penalty", LM_FIELD_REFUSED, 0, 1, 0, NULL, false, "beam search is not available" },
    LM_REFUSED("early_stopping", "beam search is not available"),
    LM_REFUSED("logits_processors", "requests cannot supply code"),
    LM_REFUSED("custom_logit_processor", "requests cannot supply code"),
    LM_REFUSED("include_stop_str_in_output", "the output ends before a stop string"),
    LM_REFUSED("no_stop_trim", "the output ends before a stop string"),
    { "skip_special_tokens", LM_FIELD_REFUSED, 0, 0, 0, as_usual, false, "use preserved_tokens" },
    LM_IGNORED("spaces_between_special_tokens"),
    LM_REFUSED("truncate_prompt_tokens", "prompts are never truncated"),
    { "prompt_logprobs", LM_FIELD_REFUSED, 0, -1, 0, NULL, false,
      "use echo and logprobs of /v1/completions" },
    LM_REFUSED("logprob_token_ids", "log-probabilities are returned for the most probable tokens"),
    LM_REFUSED("repetition_detection", "use DRY"),
    LM_REFUSED("no_repeat_ngram_size", "use DRY"),
    { "tfs_z", LM_FIELD_REFUSED, 0, 1, 0, NULL, false, "tail-free sampling is not available" },
    LM_REFUSED("top_a", "use min_p"),
    { "adaptive_target", LM_FIELD_REFUSED, 0, -1, 0, NULL, false, "adaptive sampling is not available" },
    LM_IGNORED("adaptive_decay"),
    { "penalize_nl", LM_FIELD_REFUSED, 0, 0, 0, as_usual, false,
      "penalties treat line feeds like other tokens" },
    { "penalize_newline", LM_FIELD_REFUSED, 0, 0, 0, as_usual, false,
      "penalties treat line feeds like other tokens" },
    LM_REFUSED("penalty_prompt", "penalties apply to the whole sequence"),
    { "t_max_prompt_ms", LM_FIELD_REFUSED, 0, -1, 0, NULL, false, "use timeout" },
    LM_REFUSED("image_data", "only text is supported"), LM_IGNORED("backend_sampling"),
    LM_REFUSED("n_indent", "a minimum indentation cannot be set"),
    LM_IGNORED("n_keep"), LM_IGNORED("n_discard"),
    { "lora", LM_FIELD_ARRAY, B(lora), 0, 0, NULL, false,
      "low-rank adapters of this request: [{id, scale}, ...], ids from GET /lora-adapters; others have "
      "scale 0" },
    { 0 },
};

const lm_field lm_turn_trace_fields[] = {
    { "trace", LM_FIELD_OBJECT, B(trace), 0, 0, NULL, false,
      "trace each generated token: surprise (true: its probability, surprise, entropy and alternatives), and "
      "top, lens, lens_parts, attribution, "
      "norms, experts, attention, weights of POST /v1/trace; one prompt and one output" },
    { "intervene", LM_FIELD_ARRAY, B(intervene), 0, 0, NULL, false,
      "interventions while this output is generated, as for POST /v1/trace; requires --allow-interventions" },
    { 0 },
};

const lm_field lm_turn_no_trace_fields[] = {
    LM_REFUSED("trace", "use /v1/chat/completions, /v1/completions or /completion"),
    LM_REFUSED("intervene", "use /v1/chat/completions, /v1/completions or /completion"),
    { 0 },
};

void lm_turn_defaults(const lm_service *s, lm_turn *t)
{
    t->sampling = s->o.sampling;
    t->seed = s->o.sampling.seed > INT64_MAX ? -1 : (int64_t)s->o.sampling.seed;
    t->max_tokens = s->o.predict;
    t->ping = s->o.ping;
    t->verbose = s->o.verbose;
    t->n = 1;
    t->slot = -1;
    t->priority = LM_PRIORITY_NONE;
    t->constraints.compact = true;
    t->cache_prompt = t->generation_prompt = t->parallel_calls = t->parse_tool_calls = true;
    t->reasoning_budget = -1;
}

/* ---- memory ---- */

static void release(void *values)
{
    lm_turn_release(values);
}

void lm_turn_begin(lm_call *c, lm_turn *t, const lm_writer *w)
{
    t->writer = w;
    c->release = release;
}

json_t *lm_turn_keep(lm_turn *t, json_t *made)
{
    if (!t->made)
        t->made = json_array();
    /* An array that is NULL drops the value as well. */
    return json_array_append_new(t->made, made) == 0 ? made : NULL;
}

lm_status lm_turn_check_logprobs(const lm_turn *t, lm_error *e)
{
    if (t->top_logprobs && !t->logprobs)
        return lm_fail(e, LM_USAGE, "top_logprobs", LM_NO_OFFSET,
                       "'top_logprobs' requires \"logprobs\": true");
    return LM_OK;
}

lm_status lm_turn_name_constraint(const lm_turn *t, lm_status status, lm_error *e)
{
    return t->constraint && status == LM_LIMIT ? lm_fault_rename(status, "", t->constraint, e) : status;
}

void lm_turn_release_request(lm_turn *t)
{
    t->body = (lm_turn_body){ 0 };
    t->constraints = (lm_constraints){ 0 };
    json_decref(t->made);
    t->made = NULL;
    lm_prompts_free(&t->prompts);
    lm_grammar_free(t->grammar);
    t->grammar = NULL;
    lm_tokens_free(&t->stop_ids);
    lm_tokens_free(&t->shown);
    lm_heap_free(t->breakers);
    lm_heap_free(t->bias);
    lm_heap_free(t->loras);
    lm_text_free(&t->order);
    t->breakers = NULL;
    t->bias = NULL;
    t->loras = NULL;
    t->sampling = (lm_sampler_options){ 0 };             /* pointed to these */
}

void lm_turn_release(lm_turn *t)
{
    lm_turn_release_request(t);
    lm_heap_free(t->stops);
    json_decref(t->stop_texts);
    lm_tools_free(&t->tools);
    json_decref(t->warnings);
    json_decref(t->prompt_text);
    if (t->writer && t->writer->release)
        t->writer->release(t);
}
