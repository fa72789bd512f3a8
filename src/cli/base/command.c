/* command.c - find a command by its name, and a name among the spellings of a flag. */
#include "cli/base/command.h"

#include <string.h>

const lm_command *lm_command_find(const lm_command *const *commands, const char *name)
{
    while (*commands && strcmp((*commands)->name, name) != 0)
        commands++;
    return *commands;
}

bool lm_flag_listed(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = list; at && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strncmp(at, name, n) == 0 && (at[n] == ' ' || at[n] == 0))
            return true;
    return false;
}
