/* environment.c - read LAMINA_ARG_... variables as flags that the command line does not contain. */
#include "cli/environment.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/flags.h"

enum { MAX_NAME = 96 };

static const char *variable(const char *spelling, size_t n, char name[MAX_NAME])
{
    static const char prefix[] = "LAMINA_ARG_";
    size_t at = sizeof prefix - 1;

    if (n < 3 || strncmp(spelling, "--", 2) || n + at >= MAX_NAME)
        return NULL;
    memcpy(name, prefix, at);
    for (size_t i = 2; i < n; i++)
        name[at++] = spelling[i] == '-' ? '_' : (char)toupper((unsigned char)spelling[i]);
    name[at] = 0;
    return getenv(name);
}

/* Return the value of the first long spelling that is set, or NULL. `name` receives the name of its
 * variable. */
static const char *value_of(const lm_flag *f, char name[MAX_NAME])
{
    const char *value = variable(f->name, strlen(f->name), name);

    for (const char *at = f->also; !value && at && *at; at += strcspn(at, " "), at += *at == ' ')
        value = variable(at, strcspn(at, " "), name);
    return value;
}

static bool is_given(const lm_cli *cli, const lm_flag *f)
{
    for (size_t i = 0; i < cli->n_given; i++)
        if (cli->given[i] == f)
            return true;
    return false;
}

static bool is_word(const char *value, const char *const *words)
{
    while (*words && strcasecmp(*words, value))
        words++;
    return *words;
}

static lm_status set_list(lm_cli *cli, const lm_flag *f, void *at, const char *value, lm_error *e)
{
    for (const char *part = value; *part; part += strcspn(part, " "), part += *part == ' ') {
        const char *one = lm_store_strndup(&cli->store, part, strcspn(part, " "));
        if (!one)
            return lm_fail_memory(e, "flags", strlen(value));
        if (*one)
            LM_TRY(lm_flags_set(cli, f, at, one, e));
    }
    return LM_OK;
}

static lm_status set(lm_cli *cli, const lm_flag *f, void *at, const char *value, lm_error *e)
{
    static const char *const on[] = { "1", "true", "on", "yes", "enabled", NULL };
    static const char *const off[] = { "0", "false", "off", "no", "disabled", "", NULL };

    if (f->kind == LM_FLAG_SWITCH && is_word(value, off))
        return LM_OK;
    if (f->kind == LM_FLAG_SWITCH && !is_word(value, on))
        return lm_fail(e, LM_USAGE, f->name, LM_NO_OFFSET, "\"%.60s\" is not on or off", value);
    cli->given[cli->n_given++] = f;
    return f->kind == LM_FLAG_LIST ? set_list(cli, f, at, value, e) : lm_flags_set(cli, f, at, value, e);
}

lm_status lm_environment_read(lm_cli *cli, void *options, lm_error *e)
{
    char name[MAX_NAME];

    for (const lm_flag_group *g = cli->command->environment ? cli->command->groups : NULL; g && g->title; g++)
        for (const lm_flag *f = g->flags; f->name; f++) {
            const char *value = is_given(cli, f) ? NULL : value_of(f, name);
            lm_error why = { 0 };
            if (!value || set(cli, f, (char *)options + g->base + f->offset, value, &why) == LM_OK)
                continue;
            lm_fail(e, why.code, name, LM_NO_OFFSET, "%s", why.message);
            return *why.hint ? lm_fail_hint(e, "%s", why.hint) : why.code;
        }
    return LM_OK;
}
