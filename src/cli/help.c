/* lamina help - describe the commands. */
#include "cli/help.h"

#include <string.h>

#include "cli/base/flags.h"
#include "cli/base/foreign.h"
#include "cli/base/output.h"
#include "cli/examples.h"

static json_t *flag_json(const lm_flag *f)
{
    static const char *const kinds[] = {
        [LM_FLAG_SWITCH] = "switch", [LM_FLAG_INT] = "int",   [LM_FLAG_COUNT] = "count",
        [LM_FLAG_U64] = "u64",       [LM_FLAG_I64] = "i64",   [LM_FLAG_FLOAT] = "float",
        [LM_FLAG_DOUBLE] = "double", [LM_FLAG_TEXT] = "text", [LM_FLAG_OUTPUT] = "output",
        [LM_FLAG_SIZE] = "size",     [LM_FLAG_LIST] = "list", [LM_FLAG_WORD] = "word",
    };
    _Static_assert(sizeof kinds / sizeof *kinds == LM_FLAG_WORD + 1, "every kind of flag has a name");
    json_t *words = json_array(), *j;

    for (size_t i = 0; f->words && f->words[i]; i++)
        json_array_append_new(words, json_string(f->words[i]));
    j = json_pack("{s:s, s:s?, s:s, s:s?, s:s, s:o}", "name", f->name, "also", f->also,
                  "kind", kinds[f->kind], "value", f->value, "help", f->help, "words", words);
    return j;
}

/* The commands by what they are for, each in one group. A group whose commands a build leaves out is not
 * shown. */
static const struct { const char *title, *names[12]; } groups[] = {
    { "run", { "run", "chat", "embed", "tokenize", "detokenize", "template" } },
    { "serve", { "serve", "usage" } },
    { "study", { "inspect", "explain", "estimate", "compare", "report", "fit", "devices", "cluster", "presets",
                 "audit" } },
    { "weights", { "pull", "convert", "quantize", "imatrix", "merge", "train", "synth" } },
    { "measure", { "bench", "score", "eval", "verify", "diff", "trace" } },
    { "this program", { "doctor", "help", "version" } },
};

static const char *group_of(const char *command)
{
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const char *const *name = groups[g].names; *name; name++)
            if (strcmp(*name, command) == 0)
                return groups[g].title;
    return NULL;
}

static json_t *command_json(const lm_command *c)
{
    json_t *flags = json_array(), *examples = json_array();
    size_t  size;

    for (const char *x = NULL; (x = lm_example_of(c->name, x, &size));)
        json_array_append_new(examples, json_stringn(x, size));
    for (const lm_flag_group *g = c->groups; g && g->title; g++)
        for (const lm_flag *f = g->flags; f->name; f++) {
            json_t *j = flag_json(f);
            json_object_set_new(j, "group", json_string(g->title));
            json_array_append_new(flags, j);
        }
    return json_pack("{s:s, s:s?, s:s, s:s, s:s?, s:o, s:o}", "name", c->name, "group", group_of(c->name),
                     "usage", c->usage, "summary", c->summary, "about", c->about, "examples", examples, "flags",
                     flags);
}

/* List the flags of other programs that lamina does not have, whether they are accepted, and why. */
static json_t *foreign_json(void)
{
    json_t *rows = json_array();

    for (const lm_foreign_program *p = lm_foreign_programs; p->name; p++)
        for (const lm_foreign_flag *f = p->flags; f->names; f++)
            json_array_append_new(rows, json_pack("{s:s, s:s, s:b, s:s}", "program", p->name,
                                                  "names", f->names, "accepted", f->accepted,
                                                  "reason", f->reason));
    return rows;
}

/* Describe every command and flag. Shell completions and the manual pages are generated from it. */
static json_t *commands_json(const lm_cli *cli)
{
    json_t *all = json_array(), *general = json_array();

    for (const lm_flag *f = lm_general_flags; f->name; f++)
        json_array_append_new(general, flag_json(f));
    for (size_t i = 0; cli->commands[i]; i++)
        json_array_append_new(all, command_json(cli->commands[i]));
    return json_pack("{s:s, s:o, s:o, s:o}", "version", LAMINA_VERSION, "general", general, "commands", all,
                     "foreign", foreign_json());
}

static void overview(const lm_cli *cli, lm_text *out)
{
    lm_text_add_str(out, "lamina runs language models and explains them.\n");
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        bool titled = false;
        for (const char *const *name = groups[g].names; *name; name++) {
            const lm_command *c = lm_command_find(cli->commands, *name);
            if (c && !titled)
                lm_text_printf(out, "\n%s\n", groups[g].title);
            if (c)
                lm_text_printf(out, "  lamina %-12s %s\n", c->name, c->summary);
            titled |= c != NULL;
        }
    }
    lm_text_add_str(
        out,
        "\nMODEL is a .gguf file, a Hugging Face folder, or org/name from the cache; where no weights are\n"
        "needed, a config.json or a preset (lamina presets) too.\n"
        "lamina MODEL opens a chat, lamina MODEL TEXT answers or continues TEXT.\n"
        "lamina COMMAND --help lists the flags of a command.\n");
    lm_environment_help(out);
}

static void describe(const lm_command *c, lm_text *out)
{
    size_t size;

    lm_text_printf(out, "lamina %s%s%s\n\n  %s\n\nexamples\n", c->name, *c->usage ? " " : "", c->usage,
                   c->summary);
    for (const char *x = NULL; (x = lm_example_of(c->name, x, &size));)
        lm_text_printf(out, "  %.*s\n", (int)size, x);
    lm_flags_help(c, out);
}

lm_status lm_help_show(lm_cli *cli, const lm_command *c, lm_error *e)
{
    lm_text text = { 0 };
    lm_status status;

    if (cli->json) {                                     /* also for `lamina run --help --json` */
        json_t *document = c ? command_json(c) : commands_json(cli);
        json_object_set_new(document, "schema", json_string("lamina.help/1"));
        return lm_out_json(cli, document, e);
    }
    if (c)
        describe(c, &text);
    else
        overview(cli, &text);
    status = lm_out_buf(&text, e);
    lm_text_free(&text);
    return status;
}

static lm_status help(lm_cli *cli, void *options, lm_error *e)
{
    const lm_command *c = cli->n_args ? lm_command_find(cli->commands, cli->args[0]) : NULL;

    (void)options;
    if (cli->n_args && !c)
        return lm_fail(e, LM_USAGE, cli->args[0], LM_NO_OFFSET, "unknown command");
    return lm_help_show(cli, c, e);
}

const lm_command lm_command_help = {
    .name = "help",
    .usage = "[COMMAND]",
    .summary = "describe the commands",
    .max_args = 1,
    .run = help,
};
