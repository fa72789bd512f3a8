/* examples.c - find the examples of a command. */
#include "cli/examples.h"

#include <string.h>

const char *lm_example_of(const char *command, const char *last, size_t *size)
{
    static const char program[] = "lamina ";
    const size_t      before = sizeof program - 1, n = strlen(command);
    const char       *line = last ? strchr(last, '\n') + 1 : lm_example_lines;

    for (; *line; line = strchr(line, '\n') + 1) {
        *size = strcspn(line, "\n");
        if (strncmp(line + before, command, n) == 0 && strchr(" \n", line[before + n]))
            return line;
    }
    return NULL;
}
