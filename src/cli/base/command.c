/* command.c - find a command by its name. */
#include "cli/base/command.h"

#include <string.h>

const lm_command *lm_command_find(const lm_command *const *commands, const char *name)
{
    while (*commands && strcmp((*commands)->name, name) != 0)
        commands++;
    return *commands;
}
