/* commands.h - the table of commands, in the order of the help. */
#ifndef LM_CLI_COMMANDS_H
#define LM_CLI_COMMANDS_H

#include "cli/command.h"

#define LM_COMMAND_LIST(X) \
    X(run)                 \
    X(chat)                \
    X(inspect)             \
    X(explain)             \
    X(estimate)            \
    X(bench)               \
    X(compare)             \
    X(report)              \
    X(fit)                 \
    X(devices)             \
    X(audit)               \
    X(verify)              \
    X(tokenize)            \
    X(detokenize)          \
    X(template)            \
    X(presets)             \
    X(synth)               \
    X(doctor)              \
    X(help)                \
    X(version)

#define X(name) extern const lm_command lm_command_##name;
LM_COMMAND_LIST(X)
#undef X

#endif
