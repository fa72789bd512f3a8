/* flag_names.c - replace `option` in a message by --option if a command has such a flag.
 *
 * The table of commands is set once, before any thread starts; afterwards every function only reads it. */
#include "cli/base/flag_names.h"

#include <stdio.h>
#include <string.h>

#include "cli/base/flags.h"

/* Options whose flag has another name. */
static const struct { const char *library, *program; } words[] = {
    { "overwrite", "--force" },
};

static const lm_command *const *commands = (const lm_command *const[]){ NULL };

void lm_name_flags_of(const lm_command *const *all)
{
    commands = all;
}

static bool is_in(const lm_flag *table, const char *name)
{
    while (table->name && strcmp(table->name, name) != 0)
        table++;
    return table->name;
}

static bool is_flag(const char *name)
{
    for (const lm_command *const *c = commands; *c; c++)
        for (const lm_flag_group *g = (*c)->groups; g && g->title; g++)
            if (is_in(g->flags, name))
                return true;
    return is_in(lm_general_flags, name);
}

/* Return the flag or command for a name of the library, or NULL. */
static const char *word_for(const char *name, char *out, size_t size)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].library, name) == 0)
            return words[i].program;
    snprintf(out, size, "--%s", name);
    for (char *c = out; *c; c++)
        *c = *c == '_' ? '-' : *c;
    if (is_flag(out))
        return out;
    snprintf(out, size, "lamina %s", name);
    return lm_command_find(commands, name) ? out : NULL;
}

char *lm_name_flags(const char *text, char *out, size_t size)
{
    enum { LONGEST = 32 };
    char   name[LONGEST + 1], found[LONGEST + 8];
    size_t used = 0;

    while (*text && used + 1 < size) {
        size_t      n    = *text == '`' ? strspn(text + 1, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;
        const char *word = NULL;
        if (n && n <= LONGEST && text[n + 1] == '`') {
            snprintf(name, sizeof name, "%.*s", (int)n, text + 1);
            word = word_for(name, found, sizeof found);
        }
        if (word) {
            used += (size_t)snprintf(out + used, size - used, "%s", word);
            used = used < size ? used : size - 1;
            text += n + 2;
        } else {
            out[used++] = *text++;
        }
    }
    out[used] = '\0';
    return out;
}
