/* jinja_ast.h - a parsed chat template. Nodes live in the template's arena and never change after parsing. */
#ifndef LM_TEXT_JINJA_AST_H
#define LM_TEXT_JINJA_AST_H

#include "base/arena.h"
#include "text/jinja/jinja_value.h"

typedef enum jkind {
    /* expressions                   fields that they use */
    N_CONST,                      /* value */
    N_NAME,                       /* name */
    N_NSREF,                      /* name, value (the attribute): only as a target of set */
    N_TUPLE, N_LIST,              /* list */
    N_DICT,                       /* list: key, value, key, value … */
    N_COND,                       /* a if b else c (c may be NULL) */
    N_OR, N_AND,                  /* list */
    N_NOT, N_NEG, N_POS,          /* a */
    N_COMPARE,                    /* list of n + 1 operands, ops[n] */
    N_ARITH,                      /* the same, from left to right */
    N_CONCAT,                     /* list */
    N_ATTR,                       /* a . value */
    N_ITEM,                       /* a [ b ] */
    N_SLICE,                      /* a [ list[0] : list[1] : list[2] ], each may be NULL */
    N_CALL,                       /* a ( args ) */
    N_FILTER,                     /* a | builtin ( args ); a is NULL in blocks */
    N_TEST,                       /* a is builtin ( args ) */
    /* statements */
    N_DATA,                       /* value */
    N_PRINT,                      /* list */
    N_IF,                         /* list: conditions; bodies: one per condition, and one more for else */
    N_FOR,                        /* for a in b if c; bodies[0], bodies[1] (else, may be empty); recursive */
    N_SET,                        /* a = b */
    N_SET_BLOCK,                  /* a, b (filters or NULL), bodies[0] */
    N_MACRO,                      /* macro */
    N_CALL_BLOCK,                 /* a (the call), macro (the caller) */
    N_FILTER_BLOCK,               /* a (filters), bodies[0] */
    N_WITH,                       /* list: target, value, target, value …; bodies[0] */
    N_SCOPE,                      /* bodies[0]: autoescape false */
    N_GENERATION,                 /* macro (without a name) */
    N_BLOCK,                      /* bodies[0], in the scope of the template */
    N_BREAK, N_CONTINUE,
    N_LOADER,                     /* value: include, import, from or extends: there is nothing to load from */
} jkind;

typedef enum jop {
    OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD, OP_POW,
    OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_IN, OP_NOT_IN,
} jop;

typedef struct jnode jnode;

typedef struct jbody {
    jnode **items;
    size_t  n;
    int    *hidden;               /* scope: names that are undefined in it until it assigns them
                                     (jinja_scope.c) */
    size_t  n_hidden;
} jbody;

typedef struct jcall_args {
    jnode      **pos;
    size_t       n_pos;
    const jstr **keys;
    jnode      **values;
    size_t       n_kw;
    jnode       *dyn_args, *dyn_kwargs;
} jcall_args;

/* A macro, or the body of a call block, as written. */
typedef struct jmacro_def {
    const jstr *name;             /* NULL: a caller */
    int         name_id;
    int        *params;           /* name ids */
    const jstr **param_names;
    size_t      n_params;
    jnode     **defaults;         /* of the last n_defaults parameters */
    size_t      n_defaults;
    jbody       body;
    bool        uses_caller, uses_kwargs, uses_varargs;
} jmacro_def;

struct jnode {
    jkind           kind;
    uint32_t        at;           /* byte in the source, for messages */
    uint16_t        depth;        /* of the expression below it */
    bool            recursive;
    int             name;         /* index into jtemplate.names */
    jval            value;
    jnode          *a, *b, *c;
    jnode         **list;
    size_t          n;
    jop            *ops;
    jbody          *bodies;
    size_t          n_bodies;
    const jbuiltin *builtin;      /* NULL: no builtin has this name; `value` is the name */
    jcall_args     *args;
    jmacro_def     *macro;
};

struct lm_template {
    lm_arena     arena;
    const char  *name;
    const char  *source;          /* newlines are \n, one at the end is dropped */
    size_t       size;
    unsigned     own;             /* lm_own_messages */
    const jstr **names;           /* every identifier used as a variable */
    size_t       n_names;
    int          name_loop, name_caller, name_kwargs, name_varargs;
    jbody        body;
};

enum {
    J_MAX_NESTING = 64,           /* nested blocks and brackets */
    J_MAX_DEPTH   = 256,          /* length of a chain a.b.c[d]|e … */
};

/* jinja_parser.c: parse t->source and set the fields from `names` on. Errors contain line and column. */
lm_status lm_jinja_parse(lm_template *t, lm_error *e);

/* jinja_scope.c: find the hidden names of every scope. */
lm_status lm_jinja_scopes(lm_template *t, lm_error *e);

/* Write "line N, column M" of a byte; columns are counted in characters from 1. */
void lm_jinja_position(const char *source, size_t size, size_t at, char out[48]);

#endif
