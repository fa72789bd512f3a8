/* lamina - the program: find the command, read its flags, run it, report its error. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/nearest.h"
#include "cli/base/flag_names.h"
#include "cli/base/flags.h"
#include "cli/base/from_hub.h"
#include "cli/base/interrupt.h"
#include "cli/base/output.h"
#include "cli/commands.h"
#include "cli/complete.h"
#include "cli/environment.h"
#include "cli/help.h"
#include "cli/run/splitting.h"

static const lm_command *const commands[] = {
#define X(name) &lm_command_##name,
    LM_COMMAND_LIST(X, LM_EXPLAINS, LM_SERVES)
#undef X
    NULL,
};

static const char *const left_out[] = {
#define X(name)
    LM_COMMAND_LIST(X, LM_LEFT_OUT, LM_UNSERVED)
#undef X
    NULL,
};

/* Commands of ollama, llama.cpp and huggingface_hub, and their equivalents. */
static const struct { const char *theirs, *hint; } elsewhere[] = {
    { "list", "lamina pull list lists downloaded models, lamina doctor those of both caches" },
    { "ls",   "lamina pull list lists downloaded models, lamina doctor those of both caches" },
    { "rm",   "lamina pull rm ORG/NAME removes a downloaded model" },
    { "show", "lamina inspect MODEL" },
    { "ps",   "lamina serve lists its loaded models at GET /api/ps" },
    { "create", "lamina convert makes a GGUF file, lamina quantize a smaller one" },
    { "download", "lamina pull ORG/NAME" },
    { "perplexity", "lamina eval MODEL perplexity -f TEXT" },
    { "server", "lamina serve MODEL" },
    { "cli", "lamina run MODEL" },
    { "completion", "lamina run MODEL --raw" },
    { "generate", "lamina run MODEL" },
    { "embedding", "lamina embed MODEL" },
    { "finetune", "lamina train MODEL DATA -o DIR" },
    { "export-lora", "lamina merge MODEL ADAPTER OUT" },
    { "gguf-split", "lamina convert IN OUT --split-max-size SIZE" },
    { "stop", "lamina serve unloads idle models; its --keep-alive sets when" },
    { "cp", "models are files: cp copies them, lamina doctor lists them" },
    { "push", "lamina does not upload models; hf upload does" },
    { "upload", "lamina does not upload models; hf upload does" },
    { "signin", "HF_TOKEN is the token for the hub" },
    { "login", "HF_TOKEN is the token for the hub" },
    { "env", "lamina doctor" },
    { "scan-cache", "lamina pull list" },
};

static lm_status no_command(const char *given, lm_error *e)
{
    const char *names[64] = { NULL }, *near;
    const lm_preset *preset = NULL;
    size_t n = 0;

    for (size_t i = 0; commands[i] && i < 48; i++)
        names[n++] = commands[i]->name;
    names[n++] = "--version";
    for (const lm_flag *f = lm_general_flags; f->name && n < 63; f++)
        names[n++] = f->name;
    for (size_t i = 0; left_out[i]; i++)
        if (strcmp(left_out[i], given) == 0)
            return lm_fail(e, LM_USAGE, given, LM_NO_OFFSET, "this build leaves the command out");
    near = lm_nearest_word(given, names);
    lm_fail(e, LM_USAGE, given, LM_NO_OFFSET, "unknown command");
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcmp(elsewhere[i].theirs, given) == 0)
            return lm_fail_hint(e, "%s", elsewhere[i].hint);
    if (strchr(given, ' '))
        lm_fail_hint(e, "lamina run -p TEXT answers a text, lamina help lists the commands");
    else if (near)
        lm_fail_hint(e, "did you mean lamina %s?", near);
    else if (lm_hub_may_have(lm_hub_bare(given)))
        lm_fail_hint(e, "lamina pull %s downloads a model of this name", lm_hub_bare(given));
    else if (lm_preset_find(given, &preset, NULL) == LM_OK)
        lm_fail_hint(e, "%s is a preset, without weights: lamina inspect %s describes it, "
                        "lamina synth %s OUT.gguf makes random ones",
                     preset->name, preset->name, preset->name);
    else
        lm_fail_hint(e, "lamina help lists them");
    return LM_USAGE;
}

/* Choose the language: --lang, else from the environment. JSON documents are in English. */
static lm_status choose_language(lm_cli *cli, lm_error *e)
{
    if (cli->lang)
        LM_TRY(lm_language_find(cli->lang, &cli->language, e));
    else
        cli->language = lm_language_negotiate(getenv("LAMINA_LANG"), getenv("LC_ALL"), getenv("LC_MESSAGES"),
                                              getenv("LANG"));
    if (cli->json)
        cli->language = LM_ENGLISH;
    lm_use_language(cli->language);
    return LM_OK;
}

static lm_status read_flags(lm_cli *cli, void **options, char **argv, size_t n, lm_error *e)
{
    const lm_command *c = cli->command;

    *options = lm_store_array(&cli->store, 1, c->options_size ? c->options_size : 1);
    if (!*options)
        return lm_fail_memory(e, "options", c->options_size);
    if (c->defaults)
        c->defaults(*options);
    LM_TRY(lm_flags_read(cli, argv, n, *options, e));
    return cli->help ? LM_OK : lm_environment_read(cli, *options, e);
}

static lm_status run(lm_cli *cli, void *options, lm_error *e)
{
    lm_out_configure(cli->verbose, cli->quiet, cli->plain);
    for (const lm_foreign_given *g = cli->foreign; !cli->help && g->flag; g++)
        lm_note("%s: flag of %s without effect here: %s", g->name, g->program, g->flag->reason);
    LM_TRY(choose_language(cli, e));
    return cli->help ? lm_help_show(cli, cli->command, e) : cli->command->run(cli, options, e);
}

/* Return whether `name` is a .gguf file, a folder, or org/name in the cache. A preset alone is not. */
static bool is_model(const char *name)
{
    lm_text path = { 0 };
    struct stat st;
    bool found = strchr("-", *name) == NULL && lm_model_locate(lm_hub_bare(name), &path, NULL) == LM_OK &&
                 stat(path.data, &st) == 0;
    const char *dot = found && S_ISREG(st.st_mode) ? strrchr(path.data, '.') : NULL;

    found = found && (S_ISDIR(st.st_mode) || (dot && strcmp(dot, ".gguf") == 0));
    lm_text_free(&path);
    return found;
}

/* Return the command for `n` arguments that start with a model: chat for `lamina MODEL` at a terminal, else
 * run. */
static const char *command_for_model(size_t n)
{
    return n == 1 && isatty(STDIN_FILENO) ? "chat" : "run";
}

/* Find the command. *used: the number of arguments before its own. `lamina`, `lamina --help` and `lamina
 * --version` are commands too. */
static lm_status find_command(lm_cli *cli, char **argv, size_t n, size_t *used, lm_error *e)
{
    const char *name;

    LM_TRY(lm_flags_read_general(cli, argv, n, used, e));
    name = *used == n ? "help" : strcmp(argv[*used], "--version") == 0 ? "version" : argv[*used];
    /* `lamina -h` shows all commands */
    cli->help &= *used < n;
    cli->command = lm_command_find(commands, name);
    if (!cli->command && is_model(name)) { /* the model stays the first argument */
        cli->command = lm_command_find(commands, command_for_model(n - *used));
        return LM_OK;
    }
    *used += *used < n;
    return cli->command ? LM_OK : no_command(name, e);
}

/* Open /dev/null for closed standard streams. Otherwise the next opened file would become that stream, and
 * a model could be read as the prompt. It is opened in the opposite direction, so that using the stream
 * fails. */
static void keep_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            _exit(1);
}

/* Return whether a word is among the arguments, even as a value. */
static bool mentioned(char **argv, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

/* Make an error of the library about an option name the flag that set it. Errors about an argument stay as
 * they are. */
static void name_flag(const lm_cli *cli, lm_error *e)
{
    for (size_t i = 0; i < cli->n_args; i++)
        if (strcmp(cli->args[i], e->where) == 0)
            return;
    for (size_t i = 0; i < cli->n_given; i++)
        lm_flag_name_error(cli->given[i], e);
}

/* End `lamina ... | head` by SIGPIPE, as without signal handling, after the command has cleaned up. */
static void end_as_by_the_pipe(void)
{
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

/* Exit statuses of the program, on which scripts rely: docs/library/errors.md. */
static int exit_status(lm_status s)
{
    static const int codes[LM_STATUS_COUNT] = {
        [LM_OK] = 0,          [LM_FAILED] = 1, [LM_IO] = 1,      [LM_NO_MEMORY] = 1,
        [LM_NOT_FOUND] = 1,   [LM_LIMIT] = 1,  [LM_USAGE] = 2,   [LM_BAD_MODEL] = 3,
        [LM_UNSUPPORTED] = 3, [LM_NO_FIT] = 4, [LM_DIFFERS] = 5, [LM_CANCELLED] = 130,
    };

    return (unsigned)s < LM_STATUS_COUNT ? codes[s] : 1;
}

int main(int argc, char **argv)
{
    lm_cli cli = { .commands = commands };
    lm_error e = { .offset = LM_NO_OFFSET };
    lm_status status;
    size_t n = argc > 1 ? (size_t)argc - 1 : 0, used = 0;
    void *options = NULL;

    keep_standard_streams();
    lm_name_flags_of(commands);
    /* A write to a closed pipe returns an error, and so does one beyond the file size limit (ulimit -f). */
    bool quiet_end = signal(SIGPIPE, SIG_IGN) != SIG_IGN;
    signal(SIGXFSZ, SIG_IGN);
    lm_out_configure(false, false,
                     mentioned(argv + 1, n, "--no-color") || mentioned(argv + 1, n, "--no-colour"));
    if (n > 1 && strcmp(argv[1], "__complete") == 0)
        return exit_status(lm_complete(commands, argv + 2, n - 1, &e));
    status = find_command(&cli, argv + 1, n, &used, &e);
    if (status == LM_OK)
        status = read_flags(&cli, &options, argv + 1 + used, n - used, &e);
    if (status == LM_OK) {
        bool followed = false;
        status = lm_split_begin(&cli, options, &followed, &e);
        if (status == LM_OK && !followed)
            status = run(&cli, options, &e);
        name_flag(&cli, &e);
    } else {
        /* also applies to errors in flags before it */
        cli.json |= mentioned(argv + 1, n, "--json");
    }
    if (status != LM_OK && lm_interrupted()) /* the failure is due to the interrupt */
        status = LM_CANCELLED;
    if (status == LM_CANCELLED)
        lm_fail(&e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
    if (status == LM_IO && lm_out_left() && quiet_end)
        end_as_by_the_pipe();
    if (status != LM_OK && !cli.error_printed)
        lm_out_error(&cli, &e);
    lm_split_end();
    lm_store_free(&cli.store);
    if (status == LM_CANCELLED && lm_interrupt_ended())
        return 128 + lm_interrupt_ended();
    return exit_status(status);
}
