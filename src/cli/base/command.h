/* command.h - the descriptor of a command. Each command is one file that ends in its descriptor; main.c lists
 * them in one table. */
#ifndef LM_CLI_COMMAND_H
#define LM_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/base/store.h"
#include "lamina/lamina.h"

typedef enum lm_flag_kind {
    LM_FLAG_SWITCH,              /* bool, set when given */
    LM_FLAG_INT,                 /* int32_t; the first of `words` is -2, the second -3 ... */
    LM_FLAG_COUNT,               /* uint32_t; 8k is 8192 */
    LM_FLAG_U64,                 /* uint64_t */
    LM_FLAG_I64,                 /* int64_t */
    LM_FLAG_FLOAT,               /* float */
    LM_FLAG_DOUBLE,              /* double */
    LM_FLAG_TEXT,                /* const char * */
    LM_FLAG_OUTPUT,              /* const char *: name of an output file, not empty */
    LM_FLAG_SIZE,                /* uint64_t, bytes: 16G, 24GiB (size.h) */
    LM_FLAG_LIST,                /* lm_flag_list; each use adds one */
    LM_FLAG_WORD,                /* int: index into `words` */
} lm_flag_kind;

/* NULL-ended when not empty */
typedef struct lm_flag_list { const char *const *items; size_t n; } lm_flag_list;

typedef struct lm_flag {
    const char        *name;     /* "--temp"; NULL ends a table */
    const char        *also;     /* other spellings, separated by spaces: "-n --n-predict" */
    lm_flag_kind       kind;
    size_t             offset;   /* of the value, in the options of its group */
    const char        *value;    /* its name in the help: "N" */
    const char        *help;
    /* of numbers; both 0: any. For a list or a file, min -1 allows an empty value, which means none */
    double             min, max;
    const char *const *words;    /* NULL-ended */
} lm_flag;

/* A flag of another program that lamina does not have. */
typedef struct lm_foreign_flag {
    const char        *names;    /* its spellings, separated by spaces; NULL ends a table */
    int                values;   /* number of arguments that it takes */
    const char *const *words;    /* optional values that are recognised; NULL: none */
    bool               accepted; /* it has no effect here, and a note says so. False: it is rejected */
    const char        *reason;
} lm_foreign_flag;

/* One that was given, with its spelling on the command line, and the program it is known from. */
typedef struct lm_foreign_given { const lm_foreign_flag *flag; const char *name, *program; } lm_foreign_given;

/* Flags that several commands share. Their options are a struct at offset `base` of each command's
 * options. */
typedef struct lm_flag_group {
    const char    *title;        /* NULL ends a command's groups */
    const lm_flag *flags;
    size_t         base;
} lm_flag_group;

typedef struct lm_cli {
    /* all of them, NULL-ended, in the order of the help */
    const struct lm_command *const *commands;
    const struct lm_command *command;
    const char *const *args;     /* arguments that are not flags; NULL-ended */
    size_t   n_args;
    const lm_flag **given;       /* every flag given, once per occurrence; NULL-ended */
    size_t   n_given;
    lm_foreign_given *foreign;   /* accepted flags without effect; ended by one without flag */
    bool     json, help, verbose, quiet, plain;          /* supported by every command: lm_general_flags */
    const char *lang;            /* --lang; NULL: from the environment */
    lm_language language;        /* of pages */
    bool     answered;           /* the command's only JSON document has been printed */
    bool     error_printed;      /* the error that ends the command has been printed */
    lm_store store;              /* memory that is valid as long as the command runs */
} lm_cli;

typedef struct lm_command {
    const char          *name;
    const char          *usage;  /* "MODEL GOLDEN [--tol X]" */
    const char          *summary;
    const char          *about;  /* further lines of its help; NULL: none */
    const lm_flag_group *groups; /* NULL: only the general flags */
    bool                 foreign;            /* flags of other programs are recognised: foreign.h */
    size_t               min_args, max_args;
    bool                 environment;        /* LAMINA_ARG_... also sets its flags */
    size_t               options_size;
    void               (*defaults)(void *options);          /* NULL: all zero */
    /* The returned status determines that of the process (exit_status in main.c). main prints the error. */
    lm_status          (*run)(lm_cli *cli, void *options, lm_error *e);
} lm_command;

/* Return whether `name` is one of the words of `list`, separated by spaces; NULL: none. */
bool lm_flag_listed(const char *list, const char *name);

/* Return the command of a NULL-ended list with this name, or NULL. */
const lm_command *lm_command_find(const lm_command *const *commands, const char *name);

#endif
