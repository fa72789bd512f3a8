/* lamina - the program. Finds the command, reads its flags, runs it, reports its error. */
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/output.h"

const lm_command *const lm_commands[] = {
#define X(name) &lm_command_##name,
    LM_COMMAND_LIST(X)
#undef X
    NULL,
};

const lm_command *lm_command_find(const char *name)
{
    for (size_t i = 0; lm_commands[i]; i++)
        if (strcmp(lm_commands[i]->name, name) == 0)
            return lm_commands[i];
    return NULL;
}

static lm_status no_command(const char *given, lm_error *e)
{
    const char *names[64] = { NULL }, *near;

    for (size_t i = 0; lm_commands[i] && i < 63; i++)
        names[i] = lm_commands[i]->name;
    near = lm_nearest(given, names);
    lm_fail(e, LM_USAGE, given, LM_NO_OFFSET, "there is no such command");
    if (near)
        lm_fail_hint(e, "did you mean lamina %s?", near);
    else
        lm_fail_hint(e, "lamina help lists them");
    return LM_USAGE;
}

static lm_status print_help(const lm_command *c, lm_error *e)
{
    lm_buf text = { 0 };
    lm_status status;

    lm_flags_help(c, &text);
    status = lm_out_buf(&text, e);
    lm_buf_free(&text);
    return status;
}

static lm_status run(lm_cli *cli, char **argv, size_t n, lm_error *e)
{
    const lm_command *c = cli->command;
    void *options = lm_arena_alloc(&cli->arena, c->options_size ? c->options_size : 1);
    bool help = false;

    if (!options)
        return lm_fail_memory(e, "options", c->options_size);
    if (c->defaults)
        c->defaults(options);
    LM_TRY(lm_flags_read(cli, argv, n, options, &help, e));
    return help ? print_help(c, e) : c->run(cli, options, e);
}

/* `lamina`, `lamina --help`, `lamina --version` are commands too. */
static const char *command_name(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return "help";
    return strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
}

int main(int argc, char **argv)
{
    lm_cli cli = { 0 };
    lm_error e = { .offset = LM_NO_OFFSET };
    lm_status status;

    signal(SIGPIPE, SIG_IGN);                            /* a closed pipe is an error of the write */
    cli.command = lm_command_find(command_name(argc, argv));
    for (int i = 1; i < argc; i++)
        cli.json |= strcmp(argv[i], "--json") == 0;      /* errors about the flags before it are JSON too */
    if (cli.command)
        status = run(&cli, argv + 2, argc > 2 ? (size_t)argc - 2 : 0, &e);
    else
        status = no_command(argv[1], &e);
    if (status != LM_OK && status != LM_CANCELLED)
        lm_out_error(&cli, &e);
    lm_arena_free(&cli.arena);
    return lm_status_exit(status);
}
