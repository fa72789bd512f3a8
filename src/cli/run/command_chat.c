/* lamina chat - chat with a model on a terminal or over a pipe. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/nearest.h"
#include "cli/run/adapting.h"
#include "cli/base/flags.h"
#include "cli/base/interrupt.h"
#include "cli/run/lines.h"
#include "cli/run/session.h"
#include "cli/base/tokenjson.h"
#include "cli/run/splitting.h"

typedef struct chat_options {
    lm_model_flags    model;
    lm_run_flags      run;
    lm_lora_flags     lora;
    lm_sampling_flags sampling;
    lm_draft_flags    draft;
    lm_constraint_flags constraint;
    lm_template_flags chat;
    const char       *system, *load;
    bool              escape, no_escape, single, lock;
    int64_t           predict;
    lm_flag_list      stops;
} chat_options;

typedef struct talk {
    lm_session    s;
    chat_options *o;
    lm_lines     *lines;
    bool          quit;
} talk;

#define O(field) offsetof(chat_options, field)

static const lm_flag chat_flag_table[] = {
    { "--system", "-sys --system-prompt", LM_FLAG_TEXT, O(system), "TEXT", "system message", 0, 0, NULL },
    { "--load", NULL, LM_FLAG_TEXT, O(load), "FILE", "continue a conversation saved by /save", 0, 0, NULL },
    { "--predict", "-n --n-predict", LM_FLAG_I64, O(predict), "N",
      "maximum number of tokens of an answer; -1: no limit (-1)", -1, 1e15, NULL },
    { "--reverse-prompt", "-r --stop", LM_FLAG_LIST, O(stops), "TEXT",
      "stop string: end the answer before TEXT; may be repeated", -1, 0, NULL },
    { "--escape", "-e", LM_FLAG_SWITCH, O(escape), NULL,
      "process escapes in -r: \\n, \\t, \\\\ ... (default)", 0, 0, NULL },
    { "--no-escape", NULL, LM_FLAG_SWITCH, O(no_escape), NULL,
      "leave backslashes in -r as they are", 0, 0, NULL },
    { "--single-turn", "-st", LM_FLAG_SWITCH, O(single), NULL, "end after the first answer", 0, 0, NULL },
    { "--mlock", NULL, LM_FLAG_SWITCH, O(lock), NULL,
      "keep the weights in RAM: lock the memory of the program", 0, 0, NULL },
    { "--chat-template", NULL, LM_FLAG_TEXT, O(chat.template_name), "NAME",
      "name of one of the model's chat templates", 0, 0, NULL },
    { "--chat-template-file", NULL, LM_FLAG_TEXT, O(chat.template_file), "FILE",
      "Jinja chat template to use instead of the model's", 0, 0, NULL },
    { "--chat-template-kwargs", NULL, LM_FLAG_TEXT, O(chat.kwargs), "JSON",
      "additional template variables, as a JSON object", 0, 0, NULL },
    { "--parse-special", NULL, LM_FLAG_SWITCH, O(chat.parse_content), NULL,
      "parse special tokens in messages", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group chat_groups[] = {
    { "conversation", chat_flag_table, 0 },
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
    chat_options *o = options;

    lm_run_defaults(&o->run);
    lm_sampling_defaults(&o->sampling);
    lm_constraint_defaults(&o->constraint);
    o->predict = -1;
}

/* ---- answers ---- */

static void meter(const talk *t)
{
    const lm_generation *x = &t->s.last;
    char used[LM_FIGURE], all[LM_FIGURE], rate[LM_FIGURE];
    uint32_t length = lm_engine_length(t->s.engine, 0), context = lm_engine_context(t->s.engine);

    if (!lm_err_is_terminal())
        return;
    lm_faint_note("%zu token%s, %s  ·  context %s of %s (%.0f %%)%s", x->ids.n, x->ids.n == 1 ? "" : "s",
                  lm_figure_rate(rate, lm_display_continued(x), x->generate_seconds),
                  lm_figure_count(used, length), lm_figure_count(all, context), 100.0 * length / context,
                  x->stop == LM_STOP_CANCELLED ? "  ·  interrupted"
                  : x->stop == LM_STOP_LENGTH  ? "  ·  stopped: length"
                                               : "");
    if (x->stop == LM_STOP_CONTEXT)
        lm_note("the context is full: /reset starts over, -c makes it larger");
}

static json_t *answer_json(const lm_session *s)
{
    return json_pack("{s:s, s:o, s:o, s:s, s:o, s:o}", "role", "assistant",
                     "content", lm_json_of(s->last.text.data, s->last.text.size),
                     "ids", lm_ids_json(s->last.ids.ids, s->last.ids.n),
                     "stop_reason", lm_stop_word(s->last.stop),
                     "stop_string", lm_display_stop_string(&s->last, s->stops.items),
                     "timings", lm_display_timings(&s->last));
}

/* Show the session's last answer if `status` is LM_OK. */
static lm_status show(talk *t, lm_status status, lm_error *e)
{
    if (status != LM_OK)
        return status;
    lm_display_warn(&t->s.last);
    status = t->s.cli->json ? lm_out_json_line(lm_json_document(t->s.cli, answer_json(&t->s)), e)
                            : lm_out_text("\n", 1, e);
    meter(t);
    return status;
}

static lm_status send_message(talk *t, const lm_text *line, lm_error *e)
{
    lm_status status;

    LM_TRY(lm_session_add(&t->s, "user", line->data ? line->data : "", line->size, e));
    status = lm_session_answer(&t->s, e);
    if (status == LM_LIMIT && !*e->hint)
        lm_fail_hint(e, "-c N makes the context larger; /reset starts over");
    if (status != LM_OK)
        lm_session_drop(&t->s, "user");                  /* so that the user can try again */
    return show(t, status, e);
}

/* ---- slash commands ---- */

static lm_status do_reset(talk *t, const char *argument, lm_error *e)
{
    (void)argument, (void)e;
    lm_session_reset(&t->s);
    lm_print_line("conversation cleared");
    return LM_OK;
}

static lm_status do_system(talk *t, const char *argument, lm_error *e)
{
    if (!*argument) {
        const char *now = lm_session_system(&t->s);
        lm_print_line("%s", now ? now : "no system message");
        return LM_OK;
    }
    if (strcmp(argument, "none") == 0) {
        lm_session_drop_system(&t->s);
        lm_print_line("no system message");
        return LM_OK;
    }
    return lm_session_add(&t->s, "system", argument, strlen(argument), e);
}

static lm_status save(talk *t, const char *path, lm_error *e)
{
    size_t n = json_array_size(t->s.messages);

    LM_TRY(lm_session_save(&t->s, path, e));
    lm_print_line("%s: %zu message%s written", path, n, n == 1 ? "" : "s");
    return LM_OK;
}

/* An existing file is replaced only after confirmation at a terminal; over a pipe it is an error. */
static bool may_replace(talk *t, const char *path)
{
    struct stat st;
    lm_text line = { 0 };
    bool yes = false;

    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return true;
    if (!lm_lines_terminal(t->lines))
        return false;
    lm_print_line("%s exists. Replace it? (yes or no)", path);
    if (lm_lines_next(t->lines, &line, &(lm_error){ .offset = LM_NO_OFFSET }) == LM_LINE)
        yes = strcmp(line.data, "y") == 0 || strcmp(line.data, "yes") == 0;
    lm_text_free(&line);
    return yes;
}

static lm_status do_replace(talk *t, const char *argument, lm_error *e)
{
    if (!*argument)
        return lm_fail(e, LM_USAGE, "/save!", LM_NO_OFFSET, "needs a file name");
    return save(t, argument, e);
}

static lm_status do_save(talk *t, const char *argument, lm_error *e)
{
    if (!*argument)
        return lm_fail(e, LM_USAGE, "/save", LM_NO_OFFSET, "needs a file name");
    if (!may_replace(t, argument)) {
        if (lm_lines_terminal(t->lines)) {
            lm_print_line("not saved");
            return LM_OK;
        }
        lm_fail(e, LM_USAGE, argument, LM_NO_OFFSET, "already exists");
        lm_fail_hint(e, "/save! %s replaces it", argument);
        return LM_USAGE;
    }
    return save(t, argument, e);
}

static lm_status do_load(talk *t, const char *argument, lm_error *e)
{
    if (!*argument)
        return lm_fail(e, LM_USAGE, "/load", LM_NO_OFFSET, "needs a file name");
    LM_TRY(lm_session_load(&t->s, argument, e));
    lm_print_line("%zu message%s", json_array_size(t->s.messages),
                  json_array_size(t->s.messages) == 1 ? "" : "s");
    return LM_OK;
}

static lm_status do_regen(talk *t, const char *argument, lm_error *e)
{
    (void)argument;
    return show(t, lm_session_regenerate(&t->s, e), e);
}

static lm_status do_stats(talk *t, const char *argument, lm_error *e)
{
    const lm_session *s = &t->s;
    lm_memory memory;
    char a[LM_FIGURE], b[LM_FIGURE], c[LM_FIGURE], d[LM_FIGURE];

    (void)argument, (void)e;
    lm_engine_allocated(s->engine, &memory);
    lm_print_line("answers    %" PRIu64 "  ·  %zu message%s", s->answers, json_array_size(s->messages),
                  json_array_size(s->messages) == 1 ? "" : "s");
    lm_print_line("read       %s token%s in %s (%s), %s more from the cache", lm_figure_count(a, s->read),
                  s->read == 1 ? "" : "s", lm_figure_time(b, s->read_seconds),
                  lm_figure_rate(c, s->read, s->read_seconds), lm_figure_count(d, s->reused));
    lm_print_line("generated  %s token%s in %s (%s)", lm_figure_count(a, s->generated),
                  s->generated == 1 ? "" : "s", lm_figure_time(b, s->generate_seconds),
                  lm_figure_rate(c, s->continued, s->generate_seconds));
    if (s->drafted)
        lm_print_line("drafted    %s token%s, %s accepted (%.0f %%)", lm_figure_count(a, s->drafted),
                      s->drafted == 1 ? "" : "s", lm_figure_count(b, s->accepted),
                      100.0 * (double)s->accepted / (double)s->drafted);
    lm_print_line("context    %s of %s", lm_figure_count(a, lm_engine_length(s->engine, 0)),
                  lm_figure_count(b, lm_engine_context(s->engine)));
    lm_print_line("memory     weights %s, cache %s, scratch %s", lm_figure_bytes(a, memory.weights),
                  lm_figure_bytes(b, memory.kv), lm_figure_bytes(c, memory.scratch));
    lm_print_line("engine     %s, %u thread%s", lm_engine_cpu(s->engine), lm_engine_threads(s->engine),
                  lm_engine_threads(s->engine) == 1 ? "" : "s");
    return LM_OK;
}

/* Find the flag that /set names without dashes, with '_' for '-' as other programs do, or NULL. *at: the
 * address of its value. */
static const lm_flag *settable(talk *t, const char *name, size_t n, void **at)
{
    const struct { const lm_flag *table; void *options; } tables[] = {
        { lm_sampling_flag_table, &t->o->sampling },
        { chat_flag_table, t->o },
    };

    char flag[40];

    snprintf(flag, sizeof flag, "--%.*s", (int)n, name);
    for (char *c = flag; *c; c++)
        *c = *c == '_' ? '-' : *c;
    for (size_t i = 0; i < 2; i++) {
        const lm_flag *f = lm_flag_find(tables[i].table, flag);
        if (f && (i == 0 || f->offset == O(predict))) {
            *at = (char *)tables[i].options + f->offset;
            return f;
        }
    }
    return NULL;
}

/* Show a setting as NAME VALUE. Kinds without a case, such as lists, are not shown. */
static void show_setting(const lm_flag *f, const void *at)
{
    switch (f->kind) {
    case LM_FLAG_INT:
        lm_print_line("%-20s %" PRId32, f->name + 2, *(const int32_t *)at);
        break;
    case LM_FLAG_COUNT:
        lm_print_line("%-20s %" PRIu32, f->name + 2, *(const uint32_t *)at);
        break;
    case LM_FLAG_I64:
        lm_print_line("%-20s %" PRId64, f->name + 2, *(const int64_t *)at);
        break;
    case LM_FLAG_U64:
        lm_print_line("%-20s %" PRIu64, f->name + 2, *(const uint64_t *)at);
        break;
    case LM_FLAG_FLOAT:
        lm_print_line("%-20s %g", f->name + 2, (double)*(const float *)at);
        break;
    case LM_FLAG_SWITCH:
        lm_print_line("%-20s %s", f->name + 2, *(const bool *)at ? "on" : "off");
        break;
    case LM_FLAG_TEXT:
        lm_print_line("%-20s %s", f->name + 2,
                      *(const char *const *)at ? *(const char *const *)at : "(default)");
        break;
    default:
        break;
    }
}

static lm_status show_settings(const talk *t)
{
    for (const lm_flag *f = lm_sampling_flag_table; f->name; f++)
        show_setting(f, (const char *)&t->o->sampling + f->offset);
    for (const lm_flag *f = chat_flag_table; f->name; f++)
        if (f->offset == O(predict))
            show_setting(f, &t->o->predict);
    return LM_OK;
}

#define PARAMETER "parameter "

static lm_status do_set(talk *t, const char *argument, lm_error *e)
{
    if (!*argument)
        return show_settings(t);
    /* ollama's form: /set parameter temperature 0.2 */
    if (strncmp(argument, PARAMETER, strlen(PARAMETER)) == 0)
        argument += strlen(PARAMETER);

    size_t n = strcspn(argument, " ");
    const char *value = argument + n + strspn(argument + n, " ");
    lm_sampling_flags before = t->o->sampling;
    void *at = NULL;
    const lm_flag *f = settable(t, argument, n, &at);
    const char *kept = f ? lm_store_strdup(&t->s.cli->store, value) : NULL;
    lm_sampler *made = NULL;
    lm_status status;

    if (!f) {
        lm_fail(e, LM_USAGE, "/set", LM_NO_OFFSET, "unknown setting \"%.*s\"", (int)n, argument);
        return lm_fail_hint(e, "use /set NAME VALUE, where NAME is a sampling flag "
                               "(temp, top-k, seed ...) or predict");
    }
    if (!kept)
        return lm_fail_memory(e, "/set", strlen(value));
    if (f->kind != LM_FLAG_SWITCH && !*value)
        return lm_fail(e, LM_USAGE, "/set", LM_NO_OFFSET, "%.*s needs a value: %s", (int)n, argument,
                       f->value);
    LM_TRY(lm_flags_set(t->s.cli, f, at, kept, e));
    t->s.predict = t->o->predict;

    /* Create a sampler with the new value now. If the value is rejected, the old sampler and settings
     * stay. */
    made = t->s.sampler;
    t->s.sampler = NULL;
    status = lm_session_sampler(&t->s, e);
    if (status == LM_OK) {
        lm_sampler_free(made);
        return LM_OK;
    }
    t->s.sampler = made;
    t->o->sampling = before;
    return status;
}

static lm_status do_quit(talk *t, const char *argument, lm_error *e)
{
    (void)argument, (void)e;
    t->quit = true;
    return LM_OK;
}

static lm_status do_help(talk *t, const char *argument, lm_error *e);

static const struct slash {
    const char *name, *usage, *help;
    lm_status (*run)(talk *, const char *, lm_error *);
} slashes[] = {
    { "/reset",  "",           "clear the conversation, keep the system message",  do_reset  },
    { "/clear",  "",           "as /reset",                                do_reset  },
    { "/system", "TEXT",       "set the system message; none: remove it; without TEXT: show it", do_system },
    { "/regen",  "",           "generate the last answer again",                    do_regen  },
    { "/save",   "FILE",       "write the conversation as JSON",                    do_save   },
    { "/save!",  "FILE",       "as /save, but replace an existing file",            do_replace },
    { "/load",   "FILE",       "load a saved conversation",          do_load   },
    { "/set",    "NAME VALUE", "change a sampling setting: /set temp 0.2; alone: show all", do_set    },
    { "/stats",  "",           "show tokens, speed and memory",                             do_stats  },
    { "/help",   "",           "show this list",                                         do_help   },
    { "/?",      "",           "as /help",                                 do_help   },
    { "/quit",   "",           "exit (also Ctrl-D)",                             do_quit   },
    { "/exit",   "",           "exit",                                              do_quit   },
    { "/bye",    "",           "exit",                                              do_quit   },
};
enum { SLASHES = sizeof slashes / sizeof *slashes };

static lm_status do_help(talk *t, const char *argument, lm_error *e)
{
    (void)t, (void)argument, (void)e;
    for (size_t i = 0; i < SLASHES; i++)
        lm_print_line("%-8s %-11s %s", slashes[i].name, slashes[i].usage, slashes[i].help);
    lm_print_line("End a line with \\ to continue it on the next, or put \"\"\" before and after several "
                  "lines; a paste is one message.");
    lm_print_line("Ctrl-C stops an answer.");
    return LM_OK;
}

static lm_status slash(talk *t, const char *line, lm_error *e)
{
    size_t n = strcspn(line, " ");
    const char *names[SLASHES + 1] = { NULL }, *near;
    char given[32] = "";

    for (size_t i = 0; i < SLASHES; i++) {
        names[i] = slashes[i].name;
        if (strlen(slashes[i].name) == n && strncmp(slashes[i].name, line, n) == 0)
            return slashes[i].run(t, line + n + strspn(line + n, " "), e);
    }
    memcpy(given, line, n < sizeof given ? n : sizeof given - 1);
    near = lm_nearest_word(given, names);
    lm_fail(e, LM_USAGE, given, LM_NO_OFFSET, "unknown command");
    if (near)
        lm_fail_hint(e, "did you mean %s?", near);
    else
        lm_fail_hint(e, "/help lists them");
    return LM_USAGE;
}

/* ---- the loop ---- */

/* Read and answer messages until the end of input. An error in one message is printed in place of its answer
 * and does not end the conversation. Over a pipe the first error determines the exit status. */
static lm_status converse(talk *t, lm_error *e)
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
        if (got == LM_LINE_ABANDONED || line.size == 0)
            continue;
        status = line.data[0] == '/' ? slash(t, line.data, &error) : send_message(t, &line, &error);
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

static lm_status open_talk(lm_cli *cli, chat_options *o, talk *t, lm_error *e)
{
    lm_engine_options engine;
    lm_model_info info;
    char count[LM_FIGURE];

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
    LM_TRY(lm_session_sampler(&t->s, e));
    LM_TRY(lm_constraining_open(&o->constraint, t->s.model, &t->s.constraining, e));
    if (o->load)
        LM_TRY(lm_session_load(&t->s, o->load, e));
    if (o->system)
        LM_TRY(lm_session_add(&t->s, "system", o->system, strlen(o->system), e));
    LM_TRY(lm_engine_flags(&o->run, t->s.model, 0, &engine, e));
    LM_TRY(lm_drafting_engine(&o->draft, &engine, e));
    LM_TRY(lm_loras_open(cli, &o->lora, t->s.model, &t->s.loras, e));
    lm_loras_engine(&t->s.loras, &engine);
    LM_TRY(lm_start_engine(t->s.model, &engine, &t->s.engine, e));
    lm_detail("seed       %" PRIu64, o->sampling.o.seed);
    LM_TRY(lm_drafting_open(cli, &o->draft, t->s.model, &engine, &t->s.drafting, e));
    if (o->lock)
        lm_lock_memory();
    lm_interrupt_watch(t->s.engine);
    LM_TRY(lm_lines_open(history_file(cli), &t->lines, e));
    lm_model_describe(t->s.model, &info);
    if (lm_lines_terminal(t->lines))
        lm_note("%s  ·  context %s  ·  /help lists the commands", info.name,
                lm_figure_count(count, lm_engine_context(t->s.engine)));
    return LM_OK;
}

static lm_status chat(lm_cli *cli, void *options, lm_error *e)
{
    talk t = { 0 };
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
    .about = "  Each line is one message. Special tokens in it are treated as plain text. Without MODEL, uses the demo model.\n"
             "  With --json, each answer and each error is one line of JSON.\n",
    .groups = chat_groups,
    .foreign = true,
    .max_args = 1,
    .options_size = sizeof(chat_options),
    .defaults = chat_defaults,
    .run = chat,
};
