/* commands.h - the table of commands, in the order of the help. */
#ifndef LM_CLI_COMMANDS_H
#define LM_CLI_COMMANDS_H

#include "cli/base/command.h"

/* E, S: commands that a build may omit (meson.build: study, server). */
#define LM_COMMAND_LIST(X, E, S) \
    X(run)         \
    X(chat)        \
    S(serve)       \
    S(usage)       \
    X(inspect)     \
    E(explain)     \
    E(estimate)    \
    X(bench)       \
    E(compare)     \
    E(report)      \
    E(fit)         \
    E(devices)     \
    X(cluster)     \
    E(audit)       \
    X(verify)      \
    X(score)       \
    X(eval)        \
    X(diff)        \
    X(trace)       \
    X(embed)       \
    X(tokenize)    \
    X(detokenize)  \
    X(template)    \
    X(presets)     \
    X(imatrix)     \
    X(pull)        \
    X(convert)     \
    X(quantize)    \
    X(merge)       \
    X(train)       \
    X(synth)       \
    X(doctor)      \
    X(help)        \
    X(version)

#ifdef LM_WITHOUT_STUDY
#define LM_EXPLAINS(name)
#define LM_LEFT_OUT(name) #name,
#else
#define LM_EXPLAINS(name) &lm_command_##name,
#define LM_LEFT_OUT(name)
#endif

#ifdef LM_WITHOUT_SERVER
#define LM_SERVES(name)
#define LM_UNSERVED(name) #name,
#else
#define LM_SERVES(name) &lm_command_##name,
#define LM_UNSERVED(name)
#endif

#define X(name) extern const lm_command lm_command_##name;
LM_COMMAND_LIST(X, X, X)
#undef X

#endif
