/* talk_commands.c - the lines of `lamina chat` that begin with a slash.
 *
 * lm_talk_command looks a line up in `slashes` and calls its function with the rest of the line. A function
 * prints on standard error; only an answer goes to standard output. /set finds its flag in the tables of the
 * command line, and creates a sampler at once, so that a rejected value changes nothing. */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/nearest.h"
#include "cli/base/flags.h"
#include "cli/run/talk.h"

#define O(field) offsetof(lm_talk_flags, field)

static lm_status do_reset(lm_talk *t, const char *argument, lm_error *e)
{
    (void)argument, (void)e;
    lm_session_reset(&t->s);
    lm_print_line("conversation cleared");
    return LM_OK;
}

static lm_status do_system(lm_talk *t, const char *argument, lm_error *e)
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

static lm_status save(lm_talk *t, const char *path, lm_error *e)
{
    size_t n = json_array_size(t->s.messages);

    LM_TRY(lm_session_save(&t->s, path, e));
    lm_print_line("%s: %zu message%s written", path, n, n == 1 ? "" : "s");
    return LM_OK;
}

/* An existing file is replaced only after confirmation at a terminal; over a pipe it is an error. */
static bool may_replace(lm_talk *t, const char *path)
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

static lm_status do_replace(lm_talk *t, const char *argument, lm_error *e)
{
    if (!*argument)
        return lm_fail(e, LM_USAGE, "/save!", LM_NO_OFFSET, "needs a file name");
    return save(t, argument, e);
}

static lm_status do_save(lm_talk *t, const char *argument, lm_error *e)
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

static lm_status do_load(lm_talk *t, const char *argument, lm_error *e)
{
    if (!*argument)
        return lm_fail(e, LM_USAGE, "/load", LM_NO_OFFSET, "needs a file name");
    LM_TRY(lm_session_load(&t->s, argument, e));
    lm_print_line("%zu message%s", json_array_size(t->s.messages),
                  json_array_size(t->s.messages) == 1 ? "" : "s");
    return LM_OK;
}

static lm_status do_regen(lm_talk *t, const char *argument, lm_error *e)
{
    (void)argument;
    return lm_talk_show(t, lm_session_regenerate(&t->s, e), e);
}

static lm_status do_stats(lm_talk *t, const char *argument, lm_error *e)
{
    const lm_session *s = &t->s;
    lm_memory memory;
    char a[LM_FORMATTED], b[LM_FORMATTED], c[LM_FORMATTED], d[LM_FORMATTED];

    (void)argument, (void)e;
    lm_engine_allocated(s->engine, &memory);
    lm_print_line("answers    %" PRIu64 "  ·  %zu message%s", s->answers, json_array_size(s->messages),
                  json_array_size(s->messages) == 1 ? "" : "s");
    lm_print_line("read       %s token%s in %s (%s), %s more from the cache", lm_format_count(a, s->read),
                  s->read == 1 ? "" : "s", lm_format_time(b, s->read_seconds),
                  lm_format_rate(c, s->read, s->read_seconds), lm_format_count(d, s->reused));
    lm_print_line("generated  %s token%s in %s (%s)", lm_format_count(a, s->generated),
                  s->generated == 1 ? "" : "s", lm_format_time(b, s->generate_seconds),
                  lm_format_rate(c, s->continued, s->generate_seconds));
    if (s->drafted)
        lm_print_line("drafted    %s token%s, %s accepted (%.0f %%)", lm_format_count(a, s->drafted),
                      s->drafted == 1 ? "" : "s", lm_format_count(b, s->accepted),
                      100.0 * (double)s->accepted / (double)s->drafted);
    lm_print_line("context    %s of %s", lm_format_count(a, lm_engine_length(s->engine, 0)),
                  lm_format_count(b, lm_engine_context(s->engine)));
    lm_print_line("memory     weights %s, cache %s, scratch %s", lm_format_bytes(a, memory.weights),
                  lm_format_bytes(b, memory.kv), lm_format_bytes(c, memory.scratch));
    lm_print_line("engine     %s, %u thread%s", lm_engine_cpu(s->engine), lm_engine_threads(s->engine),
                  lm_engine_threads(s->engine) == 1 ? "" : "s");
    return LM_OK;
}

/* Find the flag that /set names without dashes, with '_' for '-' as other programs do, or NULL. *at: the
 * address of its value. */
static const lm_flag *settable(lm_talk *t, const char *name, size_t n, void **at)
{
    const struct { const lm_flag *table; void *options; } tables[] = {
        { lm_sampling_flag_table, &t->o->sampling },
        { lm_talk_flag_table, t->o },
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

static lm_status show_settings(const lm_talk *t)
{
    for (const lm_flag *f = lm_sampling_flag_table; f->name; f++)
        show_setting(f, (const char *)&t->o->sampling + f->offset);
    for (const lm_flag *f = lm_talk_flag_table; f->name; f++)
        if (f->offset == O(predict))
            show_setting(f, &t->o->predict);
    return LM_OK;
}

#define PARAMETER "parameter "

static lm_status do_set(lm_talk *t, const char *argument, lm_error *e)
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

static lm_status do_quit(lm_talk *t, const char *argument, lm_error *e)
{
    (void)argument, (void)e;
    t->quit = true;
    return LM_OK;
}

static lm_status do_help(lm_talk *t, const char *argument, lm_error *e);

static const struct slash {
    const char *name, *usage, *help;
    lm_status (*run)(lm_talk *, const char *, lm_error *);
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

static lm_status do_help(lm_talk *t, const char *argument, lm_error *e)
{
    (void)t, (void)argument, (void)e;
    for (size_t i = 0; i < SLASHES; i++)
        lm_print_line("%-8s %-11s %s", slashes[i].name, slashes[i].usage, slashes[i].help);
    lm_print_line("End a line with \\ to continue it on the next, or put \"\"\" before and after several "
                  "lines; a paste is one message.");
    lm_print_line("Ctrl-C stops an answer.");
    return LM_OK;
}

lm_status lm_talk_command(lm_talk *t, const char *line, lm_error *e)
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
