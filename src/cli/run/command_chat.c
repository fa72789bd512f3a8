/* lamina chat - chat with a model on a terminal or over a pipe. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/base/flags.h"
#include "cli/base/interrupt.h"
#include "cli/base/sampling.h"
#include "cli/base/tokenjson.h"
#include "cli/run/lines.h"
#include "cli/run/session.h"
#include "cli/run/splitting.h"
#include "cli/run/talk.h"

#define O(field) offsetof(lm_talk_flags, field)

static const lm_flag_group chat_groups[] = {
    { "conversation", lm_talk_flag_table, 0 },
    { "model", lm_model_flag_table, O(model) },
    { "several ranks", lm_split_flag_table, O(model) },
    { "engine", lm_run_flag_table, O(run) },
    { "adapters", lm_lora_flag_table, O(lora) },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { "speculative decoding", lm_draft_flag_table, O(draft) },
    { "sampling", lm_sampling_flag_table, O(sampling) },
    { "constraints on the text", lm_constraint_flag_table, O(constraint) },
    { 0 },
};

static void chat_defaults(void *options)
{
    lm_talk_flags *o = options;

    lm_run_defaults(&o->run);
    o->run.checkpoints = LM_CHAT_CHECKPOINTS;
    lm_sampling_defaults(&o->sampling);
    lm_constraint_defaults(&o->constraint);
    o->predict = -1;
}

/* ---- answers ---- */

static lm_status send_message(lm_talk *t, const lm_text *line, lm_error *e)
{
    lm_status status;

    LM_TRY(lm_session_add(&t->s, "user", line->data ? line->data : "", line->size, e));
    status = lm_session_answer(&t->s, e);
    if (status == LM_LIMIT && !*e->hint)
        lm_fail_hint(e, "-c N makes the context larger; /reset starts over");
    if (status != LM_OK)
        lm_session_drop(&t->s, "user");                  /* so that the user can try again */
    return lm_talk_show(t, status, e);
}

/* ---- the loop ---- */

/* Read and answer messages until the end of input. An error in one message is printed in place of its answer
 * and does not end the conversation. Over a pipe the first error determines the exit status. */
static lm_status converse(lm_talk *t, lm_error *e)
{
    lm_text line = { 0 };
    lm_status first = LM_OK;

    while (!t->quit && !lm_interrupt_ended()) {
        lm_error error = { .offset = LM_NO_OFFSET };
        lm_status status;
        lm_line got;

        lm_interrupt_clear();
        got = lm_lines_next(t->lines, &line, &error);
        if (got == LM_LINE_END) {
            if (lm_lines_terminal(t->lines))
                lm_print_line("%s", "");
            break;
        }
        if (got == LM_LINE_FAILED) {
            if (first == LM_OK)
                *e = error;
            first = error.code;
            break;
        }
        if (got == LM_LINE_ABANDONED && lm_lines_empty(t->lines))
            lm_note("Ctrl-D or /quit ends the chat");
        if (got == LM_LINE_ABANDONED || line.size == 0)
            continue;
        status = line.data[0] == '/' ? lm_talk_command(t, line.data, &error) : send_message(t, &line, &error);
        t->quit |= t->o->single && line.data[0] != '/';
        if (status == LM_OK)
            continue;
        if (status == LM_IO && strcmp(error.where, "standard output") == 0) {
            *e = error;
            first = status;
            t->s.cli->error_printed = false;
            /* no answer can be shown any more */
            break;
        }
        lm_out_error(t->s.cli, &error);
        if (first == LM_OK && !lm_lines_terminal(t->lines)) {
            first = status;
            t->s.cli->error_printed = true;
        }
    }
    lm_text_free(&line);
    if (!lm_interrupt_ended())
        return first;
    t->s.cli->error_printed = lm_lines_terminal(t->lines); /* SIGTERM or SIGHUP: no message at a terminal */
    return LM_CANCELLED;
}

/* Return the path of the line history, in the cache folder of the models, or NULL. */
static const char *history_file(lm_cli *cli)
{
    lm_text folder = { 0 };
    const char *file = NULL;

    if (lm_cache_folder(&folder, NULL) == LM_OK && (mkdir(folder.data, 0700) == 0 || errno == EEXIST))
        file = lm_store_printf(&cli->store, "%s/chat_history", folder.data);
    lm_text_free(&folder);
    return file;
}

static lm_status open_talk(lm_cli *cli, lm_talk_flags *o, lm_talk *t, lm_error *e)
{
    lm_engine_options engine;
    lm_model_info info;
    char count[LM_FORMATTED];

    t->o = o;
    t->s = (lm_session){ .cli = cli,
                         .sampling = &o->sampling,
                         .draft = &o->draft,
                         .predict = o->predict,
                         .stops = o->stops,
                         .messages = json_array() };
    if (o->escape && o->no_escape)
        return lm_fail(e, LM_USAGE, "--escape", LM_NO_OFFSET, "cannot be combined with --no-escape");
    LM_TRY(lm_unescape_all(cli, &o->stops, !o->no_escape, e));
    t->s.stops = o->stops;
    LM_TRY(lm_open_model(cli, &o->model, cli->n_args ? cli->args[0] : NULL, &t->s.model, e));
    LM_TRY(lm_prompt_template_open(t->s.model, &o->chat, &t->s.chat, e));
    lm_sampling_model(cli, &o->sampling, t->s.model);
    LM_TRY(lm_session_sampler(&t->s, e));
    LM_TRY(lm_constraining_open(&o->constraint, o->sampling.ignore_eos, t->s.model, &t->s.constraining, e));
    if (o->load)
        LM_TRY(lm_session_load(&t->s, o->load, e));
    if (o->system)
        LM_TRY(lm_session_add(&t->s, "system", o->system, strlen(o->system), e));
    LM_TRY(lm_engine_flags(&o->run, t->s.model, 0, &engine, e));
    LM_TRY(lm_drafting_engine(&o->draft, &engine, e));
    LM_TRY(lm_loras_open(cli, &o->lora, t->s.model, &t->s.loras, e));
    lm_loras_engine(&t->s.loras, &engine);
    LM_TRY(lm_start_engine(t->s.model, &engine, &t->s.engine, e));
    LM_TRY(lm_chat_cache_new(t->s.engine, 0, &t->s.cache, e));
    lm_detail("seed       %" PRIu64, o->sampling.o.seed);
    LM_TRY(lm_drafting_open(cli, &o->draft, t->s.model, &engine, &t->s.drafting, e));
    if (o->lock)
        lm_lock_memory();
    lm_interrupt_watch(t->s.engine);
    LM_TRY(lm_lines_open(history_file(cli), &t->lines, e));
    lm_model_describe(t->s.model, &info);
    if (lm_lines_terminal(t->lines))
        lm_note("%s  ·  context %s  ·  /help lists the commands", info.name,
                lm_format_count(count, lm_engine_context(t->s.engine)));
    return LM_OK;
}

static lm_status chat(lm_cli *cli, void *options, lm_error *e)
{
    lm_talk t = { 0 };
    lm_status status;

    lm_interrupt_watch(NULL);
    status = open_talk(cli, options, &t, e);
    if (status == LM_OK)
        status = converse(&t, e);
    lm_interrupt_watch(NULL);
    lm_lines_close(t.lines);
    lm_session_close(&t.s);
    return status;
}

const lm_command lm_command_chat = {
    .name = "chat",
    .usage = "[MODEL] [flags]",
    .summary = "chat with a model",
    .about = "  Each line is one message. Special tokens in it are treated as plain text. Without MODEL, "
             "uses the demo model.\n"
             "  With --json, each answer and each error is one line of JSON.\n",
    .groups = chat_groups,
    .foreign = true,
    .max_args = 1,
    .options_size = sizeof(lm_talk_flags),
    .defaults = chat_defaults,
    .run = chat,
};
