/* jinja_parser.h - the interface between the parts of the parser: operators (jinja_expr.c), operands
 * (jinja_operand.c), statements (jinja_statements.c), bodies (jinja_parser.c). They follow jinja2/parser.py
 * rule by rule, so that they accept and reject the same templates. */
#ifndef LM_TEXT_JINJA_PARSER_H
#define LM_TEXT_JINJA_PARSER_H

#include "base/error.h"
#include "text/jinja/jinja_ast.h"
#include "text/jinja/jinja_lexer.h"

/* A macro or call block whose body is being parsed, and which of the special names it mentions. */
typedef struct jmacro_frame {
    struct jmacro_frame *outer;
    jmacro_def          *def;
    /* set by an assignment before any mention */
    bool                 hides_caller, hides_kwargs, hides_varargs;
} jmacro_frame;

typedef struct jparser {
    lm_template  *t;
    lm_error     *e;
    jtoken       *token;          /* the current token */
    jmacro_frame *macro;
    unsigned      nesting;
    unsigned      loops;          /* for loops around this point, inside the innermost macro */
    bool          soft;           /* inside an if: unknown filters and tests are errors only if they are
                                     reached */
    const jtoken *unknown;        /* the first one met elsewhere, and whether it is a filter */
    bool          unknown_filter;
} jparser;

typedef struct jnodes { jnode **items; size_t n, capacity; } jnodes;

lm_status lm_jp_fail(jparser *p, uint32_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));
lm_status lm_jp_node(jparser *p, jkind kind, uint32_t at, jnode **out);
lm_status lm_jp_push(jparser *p, jnodes *list, jnode *n);
lm_status lm_jp_name(jparser *p, lm_view name, int *id);
lm_status lm_jp_string(jparser *p, lm_view text, const jstr **out);
lm_status lm_jp_expect(jparser *p, jtoken_type type);
lm_status lm_jp_expect_name(jparser *p, lm_view *name);
bool      lm_jp_is_word(const jtoken *t, const char *word);
bool      lm_jp_skip_word(jparser *p, const char *word);
bool      lm_jp_skip(jparser *p, jtoken_type type);

/* Parse the rest of a tag and the body after it, up to a tag that starts with one of `ends`. `drop`: skip
 * that word; `opened`: where the block began. lm_jp_scope: the body has a separate scope, in which unknown
 * filters are errors at once. */
lm_status lm_jp_block(jparser *p, const char *const *ends, bool drop, uint32_t opened, jbody *out);
lm_status lm_jp_scope(jparser *p, const char *const *ends, bool drop, uint32_t opened, jbody *out);
lm_status lm_jp_bodies(jparser *p, jnode *n, size_t count);
/* Parse one statement; the current token is the tag's name (jinja_statements.c). */
lm_status lm_jp_statement(jparser *p, jnode **out);

/* Parse an expression, without `a if b` unless `with_if`. */
lm_status lm_jp_expression(jparser *p, bool with_if, jnode **out);
/* Parse one expression, or several separated by commas, which become a tuple. */
lm_status lm_jp_tuple(jparser *p, bool with_if, bool parentheses, jnode **out);
lm_status lm_jp_filters(jparser *p, jnode *in, bool starts_inline, jnode **out);
/* lm_jp_unary: parse an operand with its signs, subscripts and calls and, with `with_filter`, its filters and
 * tests. lm_jp_word: a name or one of the constants true, false and none. lm_jp_primary: these, other
 * literals or anything in brackets (jinja_operand.c). `with_namespace`: a.b is a target. */
lm_status lm_jp_unary(jparser *p, bool with_filter, jnode **out);
lm_status lm_jp_word(jparser *p, bool with_namespace, jnode **out);
lm_status lm_jp_primary(jparser *p, bool with_namespace, jnode **out);
/* Record that a macro body mentions or assigns a name, which may decide what arguments the macro takes. */
void      lm_jp_mention(jparser *p, int name, bool store);
/* lm_jp_enter: go one level deeper; the caller decrements p->nesting afterwards. lm_jp_over: make a node over
 * `below`; the length of chains such as a.b.c.d is limited too. lm_jp_list: set the operands of a node. */
lm_status lm_jp_enter(jparser *p);
lm_status lm_jp_over(jparser *p, jkind kind, uint32_t at, jnode *below, jnode **out);
void      lm_jp_list(jnodes *list, jnode *n);
/* Parse a target, as it appears left of `=` or before `in`. */
lm_status lm_jp_target(jparser *p, bool name_only, bool with_namespace, jnode **out);

#endif
