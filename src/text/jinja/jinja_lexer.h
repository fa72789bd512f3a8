/* jinja_lexer.h - a template's source as tokens: jinja2's lexer with trim_blocks and lstrip_blocks on. */
#ifndef LM_TEXT_JINJA_LEXER_H
#define LM_TEXT_JINJA_LEXER_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

/* name in the enum, name in messages */
#define JINJA_TOKENS(X)                                                                                     \
    X(T_EOF, "end of template") X(T_DATA, "template data / text")                                           \
    X(T_BLOCK_BEGIN, "{%") X(T_BLOCK_END, "%}") X(T_VARIABLE_BEGIN, "{{") X(T_VARIABLE_END, "}}")           \
    X(T_NAME, "name") X(T_STRING, "string") X(T_INTEGER, "integer") X(T_FLOAT, "float")                     \
    X(T_POW, "**") X(T_FLOORDIV, "//") X(T_EQ, "==") X(T_NE, "!=") X(T_GE, ">=") X(T_LE, "<=")              \
    X(T_ADD, "+") X(T_SUB, "-") X(T_DIV, "/") X(T_MUL, "*") X(T_MOD, "%") X(T_TILDE, "~")                   \
    X(T_LBRACKET, "[") X(T_RBRACKET, "]") X(T_LPAREN, "(") X(T_RPAREN, ")") X(T_LBRACE, "{")                \
    X(T_RBRACE, "}")                                                                                        \
    X(T_GT, ">") X(T_LT, "<") X(T_ASSIGN, "=") X(T_DOT, ".") X(T_COLON, ":") X(T_PIPE, "|") X(T_COMMA, ",") \
    X(T_SEMICOLON, ";")

typedef enum jtoken_type {
#define X(name, text) name,
    JINJA_TOKENS(X)
#undef X
    T_COUNT
} jtoken_type;

typedef struct jtoken {
    jtoken_type type;
    uint32_t    at;               /* byte in the source */
    lm_view     text;             /* a name, the characters of a string (escapes decoded), template data */
    int64_t     integer;
    double      real;
} jtoken;

typedef struct jtokens { jtoken *items; size_t n; } jtokens;   /* ends in T_EOF */

const char *lm_jinja_token_name(jtoken_type t);

/* Split `source`, which is valid UTF-8 with only \n as newline, into tokens. Memory comes from `arena`. */
lm_status lm_jinja_lex(const char *source, size_t size, lm_arena *arena, jtokens *out, lm_error *e);

#endif
