/* lamina score - compute the log-probability of each token of a given text. */
#include <math.h>
#include <string.h>

#include "cli/base/interrupt.h"
#include "cli/base/jsonl.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/base/prompt.h"
#include "cli/base/tokenjson.h"
#include "cli/run/adapting.h"
#include "cli/run/scored.h"
#include "cli/run/splitting.h"

typedef struct score_options {
    lm_model_flags model;
    lm_run_flags   run;
    lm_lora_flags  lora;
    const char    *prompt, *file, *ids, *jsonl;
    bool           bare, no_special;
    uint32_t       top;
} score_options;

#define O(field) offsetof(score_options, field)

static const lm_flag score_flag_table[] = {
    { "--prompt", "-p", LM_FLAG_TEXT, O(prompt), "TEXT",
      "text to score (default: standard input)", 0, 0, NULL },
    { "--file", "-f", LM_FLAG_TEXT, O(file), "FILE",
      "file to score, its last newline included; -: standard input", 0, 0, NULL },
    { "--ids", NULL, LM_FLAG_TEXT, O(ids), "IDS", "text as token ids: 1,2,3", 0, 0, NULL },
    { "--jsonl", NULL, LM_FLAG_TEXT, O(jsonl), "FILE",
      "read one JSON string or array of ids per line, print one line of JSON each", 0, 0, NULL },
    { "--logprobs", NULL, LM_FLAG_COUNT, O(top), "K",
      "number of most probable tokens to show per position", 1, 1000, NULL },
    { "--no-add-special", NULL, LM_FLAG_SWITCH, O(bare), NULL,
      "do not add the tokenizer's special tokens (BOS ...)", 0, 0, NULL },
    { "--no-parse-special", NULL, LM_FLAG_SWITCH, O(no_special), NULL,
      "treat special tokens in the text as plain text", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group score_groups[] = {
    { "text", score_flag_table, 0 },
    { "model", lm_model_flag_table, O(model) },
    { "several ranks", lm_split_flag_table, O(model) },
    { "engine", lm_run_flag_table, O(run) },
    { "adapters", lm_lora_flag_table, O(lora) },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { 0 },
};

static void score_defaults(void *options)
{
    score_options *o = options;

    lm_run_defaults(&o->run);
}

typedef struct scoring {
    lm_cli              *cli;
    const score_options *o;
    lm_model            *model;
    const lm_tokenizer  *tokenizer;      /* NULL: the model has none */
    lm_engine           *engine;
    lm_loras             loras;
    lm_tokens            ids;            /* of the current text */
    lm_scored            scored;
} scoring;

/* {ids, tokens, scored, logprob, perplexity}. The first token's entry is null, since no token precedes it. */
static json_t *score_json(scoring *s, const lm_score *score)
{
    return json_pack("{s:o, s:O, s:I, s:o, s:o}", "ids", lm_ids_json(s->ids.ids, s->ids.n),
                     "tokens", s->scored.tokens, "scored", (json_int_t)score->n_tokens - 1,
                     "logprob", json_real(score->logprob), "perplexity", lm_json_finite(score->perplexity));
}

/* ---- input and scoring ---- */

static lm_status tokenize(scoring *s, const char *text, size_t n, lm_error *e)
{
    unsigned flags = (s->o->bare ? 0u : LM_ADD_SPECIAL) | (s->o->no_special ? LM_NO_PARSE_SPECIAL : 0u);

    if (!s->tokenizer)
        return lm_fail(e, LM_USAGE, "--prompt", LM_NO_OFFSET, "the model has no tokenizer; use --ids");
    return lm_tokenize(s->tokenizer, text ? text : "", n, flags, &s->ids, e);
}

static lm_status score_line(void *arg, json_t *value, const char *why, const lm_text *line, lm_error *e)
{
    scoring *s = arg;
    lm_score score;

    (void)line;
    s->ids.n = 0;
    if (json_is_string(value))
        LM_TRY(tokenize(s, json_string_value(value), json_string_length(value), e));
    else if (json_is_array(value))
        LM_TRY(lm_ids_of(value, &s->ids, e));
    else
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "not a JSON string or array of ids%s%s",
                       why ? ": " : "", why ? why : "");
    LM_TRY(lm_scored_run(&s->scored, s->engine, &s->ids, &score, e));
    return lm_jsonl_write(lm_json_document(s->cli, score_json(s, &score)), e);
}

static lm_status read_text(scoring *s, lm_error *e)
{
    const score_options *o = s->o;
    lm_text text = { 0 };
    lm_status status = LM_OK;

    if (o->ids)
        return lm_read_ids(o->ids, "--ids", &s->ids, e);
    if (o->prompt)
        return tokenize(s, o->prompt, strlen(o->prompt), e);
    status = lm_read_file(o->file ? o->file : "-", &text, e);
    if (status == LM_OK)
        status = tokenize(s, text.data, text.size, e);
    lm_text_free(&text);
    return status;
}

static lm_status print_score(scoring *s, const lm_score *score, lm_error *e)
{
    lm_text out = { 0 };
    lm_status status;

    if (s->cli->json)
        return lm_out_json(s->cli, score_json(s, score), e);
    lm_scored_head(&s->scored, &out);
    lm_text_add(&out, s->scored.lines.data, s->scored.lines.size);
    lm_scored_sum(score, &out);
    status = lm_out_buf(&out, e);
    lm_text_free(&out);
    return status;
}

static lm_status start_engine(scoring *s, size_t min, lm_error *e)
{
    lm_engine_options engine;

    LM_TRY(lm_engine_flags(&s->o->run, s->model, min, &engine, e));
    engine.max_logits = lm_scored_rows(engine.max_rows);
    LM_TRY(lm_loras_open(s->cli, &s->o->lora, s->model, &s->loras, e));
    lm_loras_engine(&s->loras, &engine);
    LM_TRY(lm_start_engine(s->model, &engine, &s->engine, e));
    lm_interrupt_watch(s->engine);
    return LM_OK;
}

static lm_status score_all(scoring *s, lm_error *e)
{
    lm_score score;

    if (s->o->jsonl) {
        LM_TRY(start_engine(s, 0, e));
        return lm_jsonl_read(s->o->jsonl, false, score_line, s, e);
    }
    LM_TRY(read_text(s, e));
    LM_TRY(start_engine(s, s->ids.n, e));
    LM_TRY(lm_scored_run(&s->scored, s->engine, &s->ids, &score, e));
    return print_score(s, &score, e);
}

static lm_status score(lm_cli *cli, void *options, lm_error *e)
{
    score_options *o = options;
    scoring s = { .cli = cli, .o = o };
    lm_status status;

    if ((o->prompt != NULL) + (o->file != NULL) + (o->ids != NULL) + (o->jsonl != NULL) > 1)
        return lm_fail(e, LM_USAGE, cli->command->name, LM_NO_OFFSET,
                       "--prompt, --file, --ids and --jsonl cannot be combined");
    o->model.o.tokenizer_optional = o->ids != NULL;
    LM_TRY(lm_open_model(cli, &o->model, cli->args[0], &s.model, e));
    s.tokenizer = lm_model_tokenizer(s.model);
    s.scored = (lm_scored){ .tokenizer = s.tokenizer,
                            .top = o->top,
                            .tokens = cli->json || o->jsonl ? json_array() : NULL };
    status = score_all(&s, e);
    lm_interrupt_watch(NULL);
    lm_engine_free(s.engine);
    lm_loras_close(&s.loras);
    lm_model_close(s.model);
    lm_tokens_free(&s.ids);
    lm_text_free(&s.scored.lines);
    json_decref(s.scored.tokens);
    return status;
}

const lm_command lm_command_score = {
    .name = "score",
    .usage = "[MODEL] [-p TEXT | -f FILE | --ids IDS | --jsonl FILE] [flags]",
    .summary = "compute the log-probability of each token of a text",
    .about = "  Prints one line per token after the first: its natural log-probability given all tokens "
             "before it, and its rank among\n"
             "  all tokens (0: the most probable). Then their sum and the perplexity, exp(-sum / tokens "
             "scored). Use --compute f32 for\n"
             "  the arithmetic of the reference.\n",
    .groups = score_groups,
    .foreign = true,
    .max_args = 1,
    .options_size = sizeof(score_options),
    .defaults = score_defaults,
    .run = score,
};
