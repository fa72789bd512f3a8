/* flags.c - read a command line by the tables of flags of its command.
 *
 * Read lm_flags_read first, then read_flag: a word is looked up in the general flags, in the groups of the
 * command, as a short flag joined with its number, and last in the flags of other programs (foreign.h).
 * flag_values.c converts the value. Values point into argv; names and lists are in the command's store. */
#include "cli/base/flags.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/columns.h"
#include "base/nearest.h"
#include "cli/base/foreign.h"

#define G(field) offsetof(lm_cli, field)

const lm_flag lm_general_flags[] = {
    { "--json", NULL, LM_FLAG_SWITCH, G(json), NULL,
      "print one JSON document on standard output", 0, 0, NULL },
    { "--verbose", "-v", LM_FLAG_SWITCH, G(verbose), NULL,
      "print more details on standard error", 0, 0, NULL },
    { "--quiet", "-q", LM_FLAG_SWITCH, G(quiet), NULL, "print only errors on standard error", 0, 0, NULL },
    { "--no-color", "--no-colour", LM_FLAG_SWITCH, G(plain), NULL,
      "do not use colour, as with NO_COLOR", 0, 0, NULL },
#ifdef LM_WITHOUT_STUDY
    { "--lang", NULL, LM_FLAG_TEXT, G(lang), "en",
      "language of pages; this build has no translations", 0, 0, NULL },
#else
    { "--lang", NULL, LM_FLAG_TEXT, G(lang), "en|zh-Hant|zh-Hans|my",
      "language of reports and pages (default: LAMINA_LANG, then the locale); errors, help and JSON are "
      "English", 0, 0, NULL },
#endif
    { "--help", "-h", LM_FLAG_SWITCH, G(help), NULL, "print this help", 0, 0, NULL },
    { 0 },
};

/* ---- lookup ---- */

const lm_flag *lm_flag_find(const lm_flag *table, const char *name)
{
    for (const lm_flag *f = table; f->name; f++)
        if (strcmp(f->name, name) == 0 || lm_flag_listed(f->also, name))
            return f;
    return NULL;
}

/* Find a flag, or NULL. *at: the address of its value. */
static const lm_flag *find_flag(lm_cli *cli, void *options, const char *name, void **at)
{
    const lm_flag *f = lm_flag_find(lm_general_flags, name);

    *at = f ? (char *)cli + f->offset : NULL;
    for (const lm_flag_group *g = cli->command->groups; !f && g && g->title; g++) {
        f = lm_flag_find(g->flags, name);
        *at = f ? (char *)options + g->base + f->offset : NULL;
    }
    return f;
}

/* Append the long spellings of a table's flags, as candidates for a suggestion. Spellings are omitted if
 * memory runs out. */
static void add_names(lm_cli *cli, const lm_flag *table, const char **names, size_t *n, size_t max)
{
    for (const lm_flag *f = table; f->name && *n < max; f++) {
        names[(*n)++] = f->name;
        for (const char *at = f->also; at && *at && *n < max; at += strcspn(at, " "), at += *at == ' ')
            if (strncmp(at, "--", 2) == 0) {
                const char *name = lm_store_strndup(&cli->store, at, strcspn(at, " "));
                if (name)
                    names[(*n)++] = name;
            }
    }
}

/* Return the first command that has a flag of this name, or NULL. */
static const lm_command *owner_of(const lm_cli *cli, const char *name)
{
    for (const lm_command *const *c = cli->commands; *c; c++)
        for (const lm_flag_group *g = (*c)->groups; g && g->title; g++)
            if (lm_flag_find(g->flags, name))
                return *c;
    return NULL;
}

static lm_status unknown(lm_cli *cli, const char *name, lm_error *e)
{
    enum { MAX_NAMES = 255 };
    const lm_command *c = cli->command;
    const lm_command *owner = owner_of(cli, name);
    const char *names[MAX_NAMES + 1] = { NULL }, *near;
    size_t n = 0;

    add_names(cli, lm_general_flags, names, &n, MAX_NAMES);
    for (const lm_flag_group *g = c->groups; g && g->title; g++)
        add_names(cli, g->flags, names, &n, MAX_NAMES);
    near = lm_nearest_word(name, names);
    lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "unknown flag of lamina %s", c->name);
    if (owner)
        lm_fail_hint(e, "%s is a flag of lamina %s", name, owner->name);
    else if (near)
        lm_fail_hint(e, "did you mean %s?", near);
    else
        lm_fail_hint(e, "lamina %s --help lists them", c->name);
    return LM_USAGE;
}

/* ---- arguments ---- */

/* Split an argument into its name, with '-' for '_', and the value after '='. *value is NULL if there is
 * none. */
static lm_status split(lm_cli *cli, const char *arg, const char **name, const char **value, lm_error *e)
{
    const char *equals = arg[1] == '-' ? strchr(arg, '=') : NULL;
    char *copy = lm_store_strndup(&cli->store, arg, equals ? (size_t)(equals - arg) : strlen(arg));

    if (!copy)
        return lm_fail_memory(e, "flags", strlen(arg));
    if (arg[1] == '-')
        for (char *c = copy; *c; c++)
            *c = *c == '_' ? '-' : *c;
    *name = copy;
    *value = equals ? equals + 1 : NULL;
    return LM_OK;
}

static bool is_one_of(const char *const *words, const char *word)
{
    while (words && *words && strcmp(*words, word) != 0)
        words++;
    return words && *words;
}

/* Read argv[*i] as a flag of another program. *i advances to its value. */
static lm_status read_foreign(lm_cli *cli, char **argv, size_t n, size_t *i, const char *name,
                              const char *value, lm_error *e)
{
    lm_foreign_given *given = cli->foreign;
    const char *program = NULL;
    const lm_foreign_flag *f = cli->command->foreign ? lm_foreign_find(name, &program) : NULL;

    if (!f)
        return unknown(cli, name, e);
    if (!f->accepted)
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "flag of %s: %s", program, f->reason);
    if (!value && f->values && *i + 1 == n)
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "needs a value");
    if (!value && *i + 1 < n)
        *i += f->values || is_one_of(f->words, argv[*i + 1]);
    while (given->flag)
        given++;
    *given = (lm_foreign_given){ f, name, program };
    return LM_OK;
}

/* Split "-n4" into "-n" and "4", for short flags that take a number and for those of other programs. Return
 * the flag, or NULL if it is not one of this command. */
static const lm_flag *find_joined(lm_cli *cli, void *options, const char **name, const char **value,
                                  void **at, lm_error *e)
{
    const char *number = *name + 1 + strcspn(*name + 1, "-0123456789.");
    const lm_flag *f;
    char *letters;

    if ((*name)[1] == '-' || *value)
        return NULL;
    if (number == *name + 1 || !*number || number[strspn(number, "-0123456789.")])
        return NULL;
    letters = lm_store_strndup(&cli->store, *name, (size_t)(number - *name));
    if (!letters) {
        lm_fail_memory(e, "flags", strlen(*name));
        return NULL;
    }
    f = find_flag(cli, options, letters, at);
    if (f ? f->kind < LM_FLAG_INT || f->kind > LM_FLAG_DOUBLE
          : !cli->command->foreign || !lm_foreign_find(letters, NULL))
        return NULL;
    *name = letters;
    *value = number;
    return f;
}

/* Make an error about a value name the long spelling that was given: --n-predict, not --predict. */
static lm_status named_as_given(const lm_flag *f, const char *name, lm_status status, lm_error *e)
{
    if (status != LM_OK && e && name[1] == '-' && strcmp(e->where, f->name) == 0)
        snprintf(e->where, sizeof e->where, "%s", name);
    return status;
}

/* Read the flag argv[*i]. *i advances to its value. */
static lm_status read_flag(lm_cli *cli, char **argv, size_t n, size_t *i, void *options, lm_error *e)
{
    const char *name = NULL, *value = NULL;
    const lm_flag *f;
    void *at;

    LM_TRY(split(cli, argv[*i], &name, &value, e));
    f = find_flag(cli, options, name, &at);
    if (!f)
        f = find_joined(cli, options, &name, &value, &at, e);
    if (!f)
        return read_foreign(cli, argv, n, i, name, value, e);
    if (f->kind == LM_FLAG_SWITCH && value)
        return lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET, "takes no value");
    if (f->kind != LM_FLAG_SWITCH && !value) {
        if (*i + 1 == n)
            return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "needs a value: %s", f->value);
        value = argv[++*i];
    }
    cli->given[cli->n_given++] = f;
    return named_as_given(f, name, lm_flags_set(cli, f, at, value, e), e);
}

lm_status lm_flags_read_general(lm_cli *cli, char **argv, size_t n, size_t *used, lm_error *e)
{
    const char *name = NULL, *value = NULL;
    const lm_flag *f;

    for (*used = 0; *used < n && argv[*used][0] == '-' && argv[*used][1]; ++*used) {
        LM_TRY(split(cli, argv[*used], &name, &value, e));
        f = lm_flag_find(lm_general_flags, name);
        if (!f || (value && f->kind == LM_FLAG_SWITCH))
            break;
        if (f->kind == LM_FLAG_SWITCH)
            *((bool *)((char *)cli + f->offset)) = true;
        else if (value || *used + 1 < n)
            *((const char **)((char *)cli + f->offset)) = value ? value : argv[++*used];
        else
            return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "needs a value: %s", f->value);
    }
    return LM_OK;
}

/* Reject an existing file. Every command replaces one only with --force, or continues it with --resume. Empty
 * files (mktemp) have no content to lose, and pipes and devices such as /dev/stdout are written to. */
static lm_status check_output(const lm_flag *f, const char *path, lm_error *e)
{
    struct stat st;

    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return LM_OK;
    lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET, "file %s already exists", path);
    return lm_fail_hint(e, "use --force to replace it");
}

static lm_status check_outputs(lm_cli *cli, void *options, lm_error *e)
{
    const lm_flag *force = NULL, *output = NULL;
    void *at;

    for (size_t i = 0; i < cli->n_given; i++)
        if (strcmp(cli->given[i]->name, "--force") == 0 || strcmp(cli->given[i]->name, "--resume") == 0)
            force = cli->given[i];
    for (size_t i = 0; i < cli->n_given; i++)
        if (cli->given[i]->kind == LM_FLAG_OUTPUT) {
            output = find_flag(cli, options, cli->given[i]->name, &at);
            if (!force)
                LM_TRY(check_output(output, *(const char **)at, e));
        }
    for (const lm_flag_group *g = cli->command->groups; force && !output && g && g->title; g++)
        for (const lm_flag *f = g->flags; f->name; f++)
            if (f->kind == LM_FLAG_OUTPUT)
                return lm_fail(e, LM_USAGE, force->name, LM_NO_OFFSET, "requires %s", f->name);
    return LM_OK;
}

/* Count the flags of a command that the environment may set, each at most once. */
static size_t flags_of(const lm_command *c)
{
    size_t n = 0;

    for (const lm_flag_group *g = c->environment ? c->groups : NULL; g && g->title; g++)
        for (const lm_flag *f = g->flags; f->name; f++)
            n++;
    return n;
}

lm_status lm_flags_read(lm_cli *cli, char **argv, size_t n, void *options, lm_error *e)
{
    const lm_command *c = cli->command;
    const char **args = lm_store_new(&cli->store, n + 1, const char *);
    bool flags = true;

    cli->given = lm_store_new(&cli->store, n + flags_of(c) + 1, const lm_flag *);
    cli->foreign = lm_store_new(&cli->store, n + 1, lm_foreign_given);
    if (!args || !cli->given || !cli->foreign)
        return lm_fail_memory(e, "arguments", (n + 1) * sizeof *args);
    cli->args = args;
    for (size_t i = 0; i < n; i++) {
        if (cli->help)
            cli->json |= strcmp(argv[i], "--json") == 0;
        else if (flags && strcmp(argv[i], "--") == 0)
            flags = false;
        else if (flags && argv[i][0] == '-' && argv[i][1])
            LM_TRY(read_flag(cli, argv, n, &i, options, e));
        else
            args[cli->n_args++] = argv[i];
    }
    if (cli->help)
        return LM_OK;
    if (cli->n_args < c->min_args || cli->n_args > c->max_args) {
        lm_fail(e, LM_USAGE, c->name, LM_NO_OFFSET,
                cli->n_args < c->min_args ? "too few arguments" : "too many arguments");
        lm_fail_hint(e, "lamina %s%s%s", c->name, *c->usage ? " " : "", c->usage);
        return LM_USAGE;
    }
    return check_outputs(cli, options, e);
}

const lm_flag *lm_flags_given(const lm_cli *cli, const lm_flag *table, const char *const *but)
{
    for (size_t i = 0; i < cli->n_given; i++)
        if (lm_flag_find(table, cli->given[i]->name) == cli->given[i] && !is_one_of(but, cli->given[i]->name))
            return cli->given[i];
    return NULL;
}

void lm_flag_name_error(const lm_flag *f, lm_error *e)
{
    char name[sizeof e->where + 2];

    if (e->code != LM_USAGE)
        return;
    snprintf(name, sizeof name, "--%s", e->where);
    for (char *c = name; *c; c++)
        *c = *c == '_' ? '-' : *c;
    if (strcmp(f->name, name) == 0 || lm_flag_listed(f->also, name))
        snprintf(e->where, sizeof e->where, "%s", f->name);
}

/* ---- help ---- */

/* Append the other spellings of a flag: " [also --n-predict]". */
static void add_spellings(const lm_flag *f, lm_text *out)
{
    const char *rest = f->also ? f->also : "";

    if (rest[0] == '-' && rest[1] != '-')                /* already shown before the name */
        rest += strcspn(rest, " ");
    rest += strspn(rest, " ");
    if (*rest)
        lm_text_printf(out, " [also %s]", rest);
}

/* Append "  -n, --predict N        text", with the text in a second column, wrapped at column 100. */
static void help_of(const lm_flag *f, lm_text *out)
{
    const size_t column = 30, width = 100;
    size_t start = out->size, used;
    lm_text text = { 0 };

    lm_text_add_str(out, "  ");
    if (f->also && f->also[0] == '-' && f->also[1] != '-')
        lm_text_printf(out, "%.*s, ", (int)strcspn(f->also, " "), f->also);
    lm_text_add_str(out, f->name);
    if (f->value)
        lm_text_printf(out, " %s", f->value);
    used = out->size - start - (f->value ? strlen(f->value) - lm_text_columns(f->value) : 0);
    if (used + 2 > column) {
        lm_text_add_char(out, '\n');
        used = 0;
    }
    lm_text_add_str(&text, f->help);
    add_spellings(f, &text);
    for (const char *word = text.data ? text.data : ""; *word;) {
        size_t n = strcspn(word, " ");
        if (used + 1 + n > width) {
            lm_text_add_char(out, '\n');
            used = 0;
        }
        lm_text_printf(out, "%*s%.*s", used < column ? (int)(column - used) : 1, "", (int)n, word);
        used = (used < column ? column : used + 1) + n;
        word += n + (word[n] == ' ');
    }
    out->failed |= text.failed;
    lm_text_free(&text);
    lm_text_add_char(out, '\n');
}

void lm_environment_help(lm_text *out)
{
    static const lm_flag variables[] = {
        { "LAMINA_CACHE", NULL, LM_FLAG_TEXT, 0, NULL,
          "folder of models, history and measurements (~/.cache/lamina)", 0, 0, NULL },
        { "LAMINA_CPU", NULL, LM_FLAG_TEXT, 0, NULL, "highest instruction set to use, as --cpu", 0, 0, NULL },
        { "LAMINA_LANG", NULL, LM_FLAG_TEXT, 0, NULL, "language of reports and pages, as --lang",
          0, 0, NULL },
        { "HF_HUB_CACHE", NULL, LM_FLAG_TEXT, 0, NULL,
          "cache of Hugging Face in which org/name is found (HF_HOME/hub)", 0, 0, NULL },
        { "HF_HOME", NULL, LM_FLAG_TEXT, 0, NULL, "folder of Hugging Face (~/.cache/huggingface)",
          0, 0, NULL },
        { "NO_COLOR", NULL, LM_FLAG_TEXT, 0, NULL, "do not use colour, as --no-color", 0, 0, NULL },
        { 0 },
    };

    lm_text_add_str(out, "\nenvironment\n");
    for (const lm_flag *f = variables; f->name; f++)
        help_of(f, out);
}

void lm_flags_help(const lm_command *c, lm_text *out)
{
    if (c->about)
        lm_text_printf(out, "\n%s", c->about);
    for (const lm_flag_group *g = c->groups; g && g->title; g++) {
        lm_text_printf(out, "\n%s\n", g->title);
        for (const lm_flag *f = g->flags; f->name; f++)
            help_of(f, out);
    }
    lm_text_add_str(out, "\ngeneral\n");
    for (const lm_flag *f = lm_general_flags; f->name; f++)
        help_of(f, out);
    lm_environment_help(out);
}
