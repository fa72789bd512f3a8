/* lamina run - answer one message or continue a text. */
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "cli/base/flag_names.h"
#include "cli/base/interrupt.h"
#include "cli/base/options.h"
#include "cli/base/prompt.h"
#include "cli/base/sampling.h"
#include "cli/base/tokenjson.h"
#include "cli/run/adapting.h"
#include "cli/run/constraining.h"
#include "cli/run/display.h"
#include "cli/run/drafting.h"
#include "cli/run/ensembling.h"
#include "cli/run/scored.h"
#include "cli/run/splitting.h"

typedef struct run_options {
    lm_model_flags    model;
    lm_run_flags      run;
    lm_lora_flags     lora;
    lm_sampling_flags sampling;
    lm_draft_flags    draft;
    lm_constraint_flags constraint;
    lm_ensemble_flags ensemble;
    lm_template_flags chat;
    const char       *prompt, *file, *ids, *system;
    bool              as_chat, as_text, no_special, escape, no_escape, special, verbose_prompt, lock;
    int64_t           predict;
    lm_flag_list      stops;
    uint32_t          logprobs;
} run_options;

/* The resources of a run, freed by run(). */
typedef struct run_state {
    lm_model         *model;
    lm_engine        *engine;
    lm_loras          loras;
    lm_drafting       drafting;
    lm_constraining   constraining;
    lm_ensembling    *ensembling;         /* NULL: one model */
    lm_sampler       *sampler;
    lm_text            text;              /* the prompt as given, then as rendered */
    lm_tokens         ids;
    lm_generation     out;
    lm_display         answer;
    lm_scored         scored;            /* the prompt's scores, with -n 0 --logprobs */
    lm_score          score;
    double            load_seconds;
} run_state;

#define O(field) offsetof(run_options, field)

static const lm_flag run_flag_table[] = {
    { "--prompt", "-p", LM_FLAG_TEXT, O(prompt), "TEXT",
      "message to answer, or text to continue; piped input is placed before it", 0, 0, NULL },
    { "--file", "-f", LM_FLAG_TEXT, O(file), "FILE",
      "read the prompt from FILE; -: standard input (default when input is piped)", 0, 0, NULL },
    { "--ids", NULL, LM_FLAG_TEXT, O(ids), "IDS", "prompt as token ids: 1,2,3", 0, 0, NULL },
    { "--chat", "-cnv --conversation", LM_FLAG_SWITCH, O(as_chat), NULL,
      "apply the model's chat template (default if the model has one)", 0, 0, NULL },
    { "--no-chat", "-no-cnv --no-conversation --raw", LM_FLAG_SWITCH, O(as_text), NULL,
      "continue the text without the chat template (default if the model has none)", 0, 0, NULL },
    { "--system", "-sys --system-prompt", LM_FLAG_TEXT, O(system), "TEXT",
      "system message; implies --chat", 0, 0, NULL },
    { "--chat-template", NULL, LM_FLAG_TEXT, O(chat.template_name), "NAME",
      "name of one of the model's chat templates", 0, 0, NULL },
    { "--chat-template-file", NULL, LM_FLAG_TEXT, O(chat.template_file), "FILE",
      "Jinja chat template to use instead of the model's", 0, 0, NULL },
    { "--chat-template-kwargs", NULL, LM_FLAG_TEXT, O(chat.kwargs), "JSON",
      "additional template variables, as a JSON object", 0, 0, NULL },
    { "--parse-special", NULL, LM_FLAG_SWITCH, O(chat.parse_content), NULL,
      "parse special tokens in the message", 0, 0, NULL },
    { "--no-parse-special", NULL, LM_FLAG_SWITCH, O(no_special), NULL,
      "treat special tokens in the text as plain text", 0, 0, NULL },
    { "--predict", "-n --n-predict", LM_FLAG_I64, O(predict), "N",
      "maximum number of tokens to generate; -1: no limit (-1)", -1, 1e15, NULL },
    { "--reverse-prompt", "-r --stop", LM_FLAG_LIST, O(stops), "TEXT",
      "stop string: stop before TEXT; may be repeated", -1, 0, NULL },
    { "--logprobs", NULL, LM_FLAG_COUNT, O(logprobs), "K",
      "report the K most probable tokens at each position, in the JSON or on standard error; with -n 0 at "
      "each position of the prompt, as lamina score does", 1, 1000, NULL },
    { "--escape", "-e", LM_FLAG_SWITCH, O(escape), NULL,
      "process escapes in -p and -r: \\n, \\t, \\\\ ... (default)", 0, 0, NULL },
    { "--no-escape", NULL, LM_FLAG_SWITCH, O(no_escape), NULL,
      "leave backslashes in -p and -r as they are", 0, 0, NULL },
    { "--mlock", NULL, LM_FLAG_SWITCH, O(lock), NULL,
      "keep the weights in RAM: lock the memory of the program", 0, 0, NULL },
    { "--special", "-sp", LM_FLAG_SWITCH, O(special), NULL, "print special tokens too", 0, 0, NULL },
    { "--verbose-prompt", NULL, LM_FLAG_SWITCH, O(verbose_prompt), NULL,
      "print the prompt's tokens on standard error", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group run_groups[] = {
    { "prompt and output", run_flag_table, 0 },
    { "model", lm_model_flag_table, O(model) },
    { "several ranks", lm_split_flag_table, O(model) },
    { "engine", lm_run_flag_table, O(run) },
    { "adapters", lm_lora_flag_table, O(lora) },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { "speculative decoding", lm_draft_flag_table, O(draft) },
    { "sampling", lm_sampling_flag_table, O(sampling) },
    { "constraints on the text", lm_constraint_flag_table, O(constraint) },
    { "several models", lm_ensemble_flag_table, O(ensemble) },
    { 0 },
};

static void run_defaults(void *options)
{
    run_options *o = options;

    lm_run_defaults(&o->run);
    lm_sampling_defaults(&o->sampling);
    o->predict = -1;
    lm_constraint_defaults(&o->constraint);
}

static bool scores_prompt(const run_options *o)
{
    return o->predict == 0 && o->logprobs;
}

/* ---- prompt ---- */

/* Read a pipe or a file on standard input, which is placed before -p. Sockets and devices are not read: many
 * programs start others with a socket that is never closed. */
static lm_status read_piped(lm_text *out, lm_error *e)
{
    struct pollfd ready = { .fd = STDIN_FILENO, .events = POLLIN };
    struct stat st;

    if (fstat(STDIN_FILENO, &st) != 0 || !(S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode)))
        return LM_OK;
    if (poll(&ready, 1, 3000) == 0)
        lm_note("waiting for standard input, which is a pipe; </dev/null leaves it out");
    if (!lm_interrupt_wait(STDIN_FILENO))
        return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
    LM_TRY(lm_read_text("-", out, e));
    if (out->size)
        lm_text_add_char(out, '\n');
    return LM_OK;
}

/* Read piped input, then -p or the words after MODEL. */
static lm_status read_given(lm_cli *cli, const run_options *o, lm_text *out, lm_error *e)
{
    LM_TRY(read_piped(out, e));
    for (size_t i = 1; !o->prompt && i < cli->n_args; i++) {
        if (i > 1)
            lm_text_add_char(out, ' ');
        lm_add_given(cli->args[i], !o->no_escape, out);
    }
    if (o->prompt)
        lm_add_given(o->prompt, !o->no_escape, out);
    if (out->failed)
        return lm_fail_memory(e, "the prompt", out->size);
    if (lm_check_utf8(out->data, out->size, 0, NULL, NULL) != LM_OK)
        return lm_fail(e, LM_USAGE, "the prompt", LM_NO_OFFSET, "is not UTF-8");
    return LM_OK;
}

/* Apply the chat template if the model has one, unless --raw says otherwise. Whether input and output are a
 * terminal makes no difference: a script gets what its author has seen. */
static void choose_form(run_options *o, const run_state *s, bool typed)
{
    if (o->as_chat || o->as_text || !lm_model_chat_template(s->model, NULL))
        return;
    o->as_chat = true;
    if (!typed && isatty(STDERR_FILENO))
        lm_faint_note("answered through the model's chat template; --raw continues the text");
}

/* Read the prompt from -p, the words after MODEL, -f, a pipe, or the terminal. */
static lm_status read_prompt_text(lm_cli *cli, run_options *o, const run_state *s, lm_text *out, lm_error *e)
{
    bool given = o->prompt || cli->n_args > 1, typed = !given && !o->file && isatty(STDIN_FILENO);

    choose_form(o, s, typed);
    LM_TRY(given ? read_given(cli, o, out, e) : lm_read_text(o->file ? o->file : "-", out, e));
    if (o->as_chat && !out->size)
        return lm_fail(e, LM_USAGE, o->prompt ? "--prompt" : "prompt", LM_NO_OFFSET, "the prompt has no tokens");
    return LM_OK;
}

static json_t *message(const char *role, const char *text, size_t n)
{
    return json_pack("{s:s, s:o}", "role", role, "content", lm_json_of(text, n));
}

static lm_status chat_prompt(const run_options *o, run_state *s, lm_error *e)
{
    json_t *messages = json_array();
    lm_text rendered = { 0 };
    lm_prompt_template chat;
    lm_status status = lm_prompt_template_open(s->model, &o->chat, &chat, e);

    if (status == LM_OK) {
        if (o->system)
            json_array_append_new(messages, message("system", o->system, strlen(o->system)));
        json_array_append_new(messages, message("user", s->text.data, s->text.size));
        status = lm_prompt_template_tokens(&chat, messages, &s->ids, &rendered, e);
        lm_prompt_template_close(&chat);
    }
    json_decref(messages);
    lm_text_free(&s->text);
    s->text = rendered;
    return status;
}

static lm_status read_ids(const run_options *o, run_state *s, lm_error *e)
{
    lm_model_info info;

    LM_TRY(lm_read_ids(o->ids, "--ids", &s->ids, e));
    lm_model_describe(s->model, &info);
    for (size_t i = 0; i < s->ids.n; i++)
        if (s->ids.ids[i] < 0 || (uint32_t)s->ids.ids[i] >= info.n_vocab)
            return lm_fail(e, LM_USAGE, "--ids", LM_NO_OFFSET, "token %d is outside the vocabulary of %u",
                           s->ids.ids[i], info.n_vocab);
    return LM_OK;
}

static lm_status make_prompt(lm_cli *cli, run_options *o, run_state *s, lm_error *e)
{
    const lm_tokenizer *t = lm_model_tokenizer(s->model);
    unsigned flags = LM_ADD_SPECIAL | (o->no_special ? LM_NO_PARSE_SPECIAL : 0);

    if (!!o->prompt + !!o->file + !!o->ids > 1)
        return lm_fail(e, LM_USAGE, "--prompt", LM_NO_OFFSET, "-p, -f and --ids cannot be combined");
    if (cli->n_args > 1 && (o->prompt || o->file || o->ids))
        return lm_fail(e, LM_USAGE, cli->args[1], LM_NO_OFFSET,
                       "text after MODEL is the prompt, which -p, -f or --ids already gives");
    if (o->escape && o->no_escape)
        return lm_fail(e, LM_USAGE, "--escape", LM_NO_OFFSET, "cannot be combined with --no-escape");
    o->as_chat |= o->system || o->chat.template_name || o->chat.template_file || o->chat.kwargs;
    if (o->as_chat && (o->as_text || o->ids))
        return lm_fail(e, LM_USAGE, "--chat", LM_NO_OFFSET, "cannot be combined with %s",
                       o->ids ? "--ids" : "--no-chat");
    if (o->ids)
        return read_ids(o, s, e);
    LM_TRY(read_prompt_text(cli, o, s, &s->text, e));
    if (o->as_chat)
        return chat_prompt(o, s, e);
    if (!t)
        return lm_fail(e, LM_USAGE, "--prompt", LM_NO_OFFSET, "the model has no tokenizer; use --ids");
    return lm_tokenize(t, s->text.data ? s->text.data : "", s->text.size, flags, &s->ids, e);
}

static void show_tokens(const run_state *s)
{
    const lm_tokenizer *t = lm_model_tokenizer(s->model);

    for (size_t i = 0; i < s->ids.n; i++) {
        size_t n = 0;
        const char *piece = t ? lm_tokenizer_piece(t, s->ids.ids[i], &n) : NULL;
        lm_print_line("%8d  %.*s", s->ids.ids[i], (int)n, piece ? piece : "");
    }
}

/* ---- answer ---- */

/* Read the flags of --ensemble. Its first model becomes MODEL. */
static lm_status read_ensemble(lm_cli *cli, run_options *o, run_state *s, lm_error *e)
{
    if (!o->ensemble.members)
        return o->ensemble.rule ? lm_fail(e, LM_USAGE, "--ensemble-rule", LM_NO_OFFSET, "requires --ensemble")
                                : LM_OK;
    if (cli->n_args || o->model.model)
        return lm_fail(e, LM_USAGE, "--ensemble", LM_NO_OFFSET,
                       "names the models, so MODEL must be left out; -p gives the prompt");
    if (o->lora.files.n)
        return lm_fail(e, LM_USAGE, "--lora", LM_NO_OFFSET, "cannot be combined with --ensemble");
    if (o->logprobs)
        return lm_fail(e, LM_USAGE, "--logprobs", LM_NO_OFFSET,
                       "supports one model; --json reports how probable each model found the chosen tokens");
    return lm_ensembling_read(cli, &o->ensemble, &s->ensembling, &o->model.model, e);
}

static lm_status prepare(lm_cli *cli, run_options *o, run_state *s, lm_error *e)
{
    lm_engine_options engine;
    lm_sampler_options sampling;
    lm_model_info info;
    double started = lm_clock_seconds();
    uint64_t max = o->predict < 0 ? 0 : (uint64_t)o->predict;

    LM_TRY(read_ensemble(cli, o, s, e));
    o->model.o.tokenizer_optional = o->ids != NULL;
    LM_TRY(lm_open_model(cli, &o->model, cli->n_args ? cli->args[0] : NULL, &s->model, e));
    LM_TRY(make_prompt(cli, o, s, e));
    LM_TRY(lm_unescape_all(cli, &o->stops, !o->no_escape, e));
    if (o->verbose_prompt)
        show_tokens(s);
    lm_sampling_model(cli, &o->sampling, s->model);
    LM_TRY(lm_sampling_options(cli, &o->sampling, &sampling, e));
    LM_TRY(lm_constraining_open(&o->constraint, o->sampling.ignore_eos, s->model, &s->constraining, e));
    lm_model_describe(s->model, &info);
    LM_TRY(lm_sampler_new(&sampling, info.n_vocab, lm_model_tokenizer(s->model), &s->sampler, e));
    LM_TRY(lm_engine_flags(&o->run, s->model, s->ids.n + max, &engine, e));
    LM_TRY(lm_drafting_engine(&o->draft, &engine, e));
    if (scores_prompt(o))
        engine.max_logits = lm_scored_rows(engine.max_rows);
    LM_TRY(lm_loras_open(cli, &o->lora, s->model, &s->loras, e));
    lm_loras_engine(&s->loras, &engine);
    LM_TRY(lm_start_engine(s->model, &engine, &s->engine, e));
    lm_detail("seed       %" PRIu64, o->sampling.o.seed);
    LM_TRY(lm_drafting_open(cli, &o->draft, s->model, &engine, &s->drafting, e));
    if (s->ensembling)
        LM_TRY(lm_ensembling_open(s->ensembling, cli, &o->run, s->model, s->ids.n + max, e));
    if (o->lock)
        lm_lock_memory();
    s->load_seconds = lm_clock_seconds() - started;
    return LM_OK;
}

static json_t *warnings_json(const lm_model *m, const lm_engine *g, const lm_generation *x)
{
    json_t *out = json_array(), *given_up;
    char context[LM_CONTEXT_WARNING], renamed[1024];
    const char *w;

    for (size_t i = 0; (w = lm_model_warning(m, i)); i++) {
        lm_name_flags(w, renamed, sizeof renamed);
        json_array_append_new(out, lm_json_of(renamed, strlen(renamed)));
    }
    if (lm_context_warning(m, lm_engine_context(g), context))
        json_array_append_new(out, json_string(context));
    if ((given_up = lm_display_warning(x)))
        json_array_append_new(out, given_up);
    return out;
}

static json_t *run_json(const run_options *o, const run_state *s)
{
    lm_model_info info;
    json_t *timings = lm_display_timings(&s->out), *j;

    lm_model_describe(s->model, &info);
    json_object_set_new(timings, "load_seconds", json_real(s->load_seconds));
    j = json_pack("{s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:I, s:o}", "model", info.name,
                  "prompt_ids", lm_ids_json(s->ids.ids, s->ids.n),
                  "ids", lm_ids_json(s->out.ids.ids, s->out.ids.n),
                  "text", lm_json_of(s->out.text.data, s->out.text.size),
                  "stop_reason", lm_stop_word(s->out.stop),
                  "stop_string", lm_display_stop_string(&s->out, o->stops.items), "timings", timings,
                  "warnings", warnings_json(s->model, s->engine, &s->out),
                  "seed", (json_int_t)o->sampling.o.seed,
                  "prompt", s->text.data ? lm_json_of(s->text.data, s->text.size) : json_null());
    if (s->answer.positions)
        json_object_set(j, "logprobs", s->answer.positions);
    if (s->ensembling)
        json_object_set_new(j, "ensemble", lm_ensembling_json(s->ensembling, &s->out.ids));
    if (s->scored.tokens)
        json_object_set(j, "prompt_logprobs", s->scored.tokens);
    return j;
}

/* Return the piece as spelled in the vocabulary, where blanks are visible. */
static const char *piece_of(const json_t *token)
{
    const char *piece = json_string_value(json_object_get(token, "piece"));

    return piece ? piece : "";
}

static void show_logprobs(const json_t *positions)
{
    size_t i, k;
    json_t *p, *t;
    lm_text line = { 0 };

    json_array_foreach(positions, i, p) {
        lm_text_clear(&line);
        json_array_foreach(json_object_get(p, "top"), k, t)
            lm_text_printf(&line, "  %s %.3f", piece_of(t), json_real_value(json_object_get(t, "logprob")));
        lm_print_line("%4zu  %-16s %8.3f  ·%s", i, piece_of(p),
                      json_real_value(json_object_get(p, "logprob")), line.data ? line.data : "");
    }
    lm_text_free(&line);
}

/* Print the lines of `lamina score`, but on standard error. */
static void show_scored(const run_state *s)
{
    lm_text out = { 0 };
    char   *line, *rest;

    lm_scored_head(&s->scored, &out);
    lm_text_add(&out, s->scored.lines.data, s->scored.lines.size);
    lm_scored_sum(&s->score, &out);
    for (rest = out.data; !out.failed && rest && *rest && (line = strsep(&rest, "\n"));)
        lm_print_line("%s", line);
    lm_text_free(&out);
}

static lm_status report(lm_cli *cli, const run_options *o, const run_state *s, lm_error *e)
{
    lm_text line = { 0 };
    lm_status status = LM_OK;

    if (cli->json)
        status = lm_out_json(cli, run_json(o, s), e);
    else if ((lm_out_is_terminal() || lm_out_meets_err()) && !s->answer.ended_line)
        lm_print_line("%s", "");
    if (s->answer.positions && !cli->json)
        show_logprobs(s->answer.positions);
    if (s->scored.lines.size)
        show_scored(s);
    lm_display_warn(&s->out);
    lm_display_summary(&s->out, &line);
    lm_note("%s", line.data ? line.data : "");
    lm_text_free(&line);
    return status;
}

/* Score the prompt as `lamina score` does, instead of generating. */
static lm_status score_prompt(lm_cli *cli, const run_options *o, run_state *s, lm_error *e)
{
    double started = lm_clock_seconds();

    s->scored = (lm_scored){ .tokenizer = lm_model_tokenizer(s->model),
                             .top = o->logprobs,
                             .tokens = cli->json ? json_array() : NULL };
    LM_TRY(lm_scored_run(&s->scored, s->engine, &s->ids, &s->score, e));
    s->out.n_prompt       = s->ids.n;
    s->out.prompt_seconds = lm_clock_seconds() - started;
    s->out.stop           = LM_STOP_LENGTH;
    return report(cli, o, s, e);
}

static lm_status run_to_the_end(lm_cli *cli, run_options *o, run_state *s, lm_error *e)
{
    lm_generate_options g = {
        .sequence = { .max_tokens = o->predict, .prompt_only = o->predict == 0, .special = o->special },
        .chunk = o->run.batch
    };

    lm_interrupt_watch(NULL);
    LM_TRY(prepare(cli, o, s, e));
    g.sequence.stops = o->stops.items;                   /* after their escapes have been processed */
    lm_drafting_sequence(&o->draft, &s->drafting, &g.sequence);
    lm_interrupt_watch(s->engine);
    if (scores_prompt(o) && s->ensembling)
        return lm_fail(e, LM_USAGE, "--ensemble", LM_NO_OFFSET, "cannot be combined with -n 0 --logprobs");
    if (scores_prompt(o))
        return score_prompt(cli, o, s, e);
    LM_TRY(lm_constraining_sequence(&s->constraining, &s->ids, &g.sequence, e));
    if (s->ensembling)
        lm_ensembling_sequence(s->ensembling, &g.sequence);
    s->answer = (lm_display){ .model = s->model, .stream = !cli->json, .logprobs = o->logprobs };
    lm_status status = lm_display_run(&s->answer, s->engine, s->sampler, &s->ids, NULL, &g, &s->out, e);
    if (status == LM_LIMIT && s->ids.n > lm_engine_context(s->engine))
        lm_fail_hint(e, o->predict > 0 ? "-c %zu or more holds it and its answer"
                                       : "-c %zu or more holds it; without -c, the context is as large as needed",
                     s->ids.n + (o->predict > 0 ? (size_t)o->predict : 1));
    LM_TRY(status);
    LM_TRY(report(cli, o, s, e));
    return s->out.stop == LM_STOP_CANCELLED ? LM_CANCELLED : LM_OK;
}

static lm_status run(lm_cli *cli, void *options, lm_error *e)
{
    run_state s = { 0 };
    lm_status status = run_to_the_end(cli, options, &s, e);

    lm_interrupt_watch(NULL);
    json_decref(s.answer.positions);
    json_decref(s.scored.tokens);
    lm_text_free(&s.scored.lines);
    lm_generation_free(&s.out);
    lm_sampler_free(s.sampler);
    lm_constraining_close(&s.constraining);
    lm_drafting_close(&s.drafting);
    lm_ensembling_close(s.ensembling);
    lm_engine_free(s.engine);
    lm_loras_close(&s.loras);
    lm_model_close(s.model);
    lm_tokens_free(&s.ids);
    lm_text_free(&s.text);
    return status;
}

const lm_command lm_command_run = {
    .name = "run",
    .usage = "[MODEL] [TEXT | -p TEXT | -f FILE | --ids IDS] [flags]",
    .summary = "answer a message or continue a text",
    .about = "  Only the generated text is written to standard output; timing goes to standard error.\n"
             "  Without MODEL, uses the demo model. If the model has a chat template, the prompt is a message that it answers,\n"
             "  in a terminal, in a pipe and with --json alike; --raw continues the text. Without a template, the text is continued.\n"
             "  Piped input is placed before -p, with a newline between them: cat doc | lamina run MODEL -p \"Summarise:\"\n",
    .groups = run_groups,
    .foreign = true,
    .max_args = 100000,
    .options_size = sizeof(run_options),
    .defaults = run_defaults,
    .run = run,
};
