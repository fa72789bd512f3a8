/* jinja.h - the machine that renders one template once.
 *
 * The environment is that of transformers' apply_chat_template: jinja2 3.1's ImmutableSandboxedEnvironment
 * with trim_blocks, lstrip_blocks, loop controls, the generation tag, tojson that is json.dumps,
 * raise_exception and strftime_now. A template is untrusted: every evaluated node costs fuel; text, memory
 * and the depth of calls are limited.
 *
 * Functions return false after lm_jinja_fail; the first error is kept. */
#ifndef LM_TEXT_JINJA_H
#define LM_TEXT_JINJA_H

#include <jansson.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "text/jinja/jinja_ast.h"

enum {
    J_FUEL       = 1000000,              /* steps */
    J_MAX_TEXT   = 4 << 20,              /* bytes of any string that is built, including the output */
    J_MAX_MEMORY = 256 << 20,            /* bytes of the arena */
    J_MAX_CALLS  = 64,                   /* nested macros and recursive loops */
    J_MAX_EVAL   = 1200,                 /* nested nodes, over all calls: bounds the C stack */
    J_MAX_DATA   = 200,                  /* nested lists and dicts */
    J_MAX_RANGE  = 100000,               /* the sandbox's own limit */
};

/* Variables of one scope. Lookup proceeds outward; assignment affects this scope only. */
typedef struct jscope {
    struct jscope *parent;
    struct jvar { int name; jval value; } *vars;
    size_t         n, capacity;
} jscope;

struct jmacro {
    const jmacro_def *def;
    jscope           *scope;             /* where it was defined */
};

struct jloop {
    jiter       *it;
    jval         of;
    int64_t      index0;
    jval         before, current, after; /* J_MISSING: none */
    jval         changed;
    int64_t      length;                 /* -1: not known yet */
    int64_t      depth0;
    const jnode *node;                   /* of a recursive loop, else NULL */
    jscope      *scope;                  /* the enclosing scope */
};

struct jinja {
    const lm_template *t;
    lm_arena           arena;
    lm_error          *e;
    lm_status          status;
    uint32_t           at;               /* byte of the source being executed */
    int64_t            fuel;
    unsigned           depth, calls;
    jbuild            *out;
    jscope            *root;
    lm_wide            wide;             /* numbers of the context that a double cannot represent */
    jval              *globals;          /* by name id: the context's variables and jinja2's functions */
    struct tm          now;
    long               now_microseconds;
};

/* Record the first error, with `line N, column M` of the code being executed. Returns false. */
bool  lm_jinja_fail(jinja *m, lm_status code, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool  lm_jinja_type_error(jinja *m, const char *what, jval v);   /* "WHAT: 'int' object …" */
bool  lm_jinja_undefined_error(jinja *m, const jundef *u);
/* Spend `steps` of fuel; false: it is exhausted. */
bool  lm_jinja_spend(jinja *m, size_t steps);
/* Spend one step and go one level deeper; the caller decrements m->depth afterwards. */
bool  lm_jinja_enter(jinja *m);
void *lm_jinja_alloc(jinja *m, size_t bytes);
#define lm_jinja_new(m, n, type) ((type *)lm_jinja_alloc((m), (n) * sizeof(type)))

/* ---- execution (jinja_eval.c, jinja_call.c, jinja_exec.c) ---- */
typedef enum jflow { J_NEXT, J_BREAK, J_CONTINUE, J_ERROR } jflow;
bool  lm_jinja_eval(jinja *m, jscope *s, const jnode *n, jval *out);
jflow lm_jinja_exec(jinja *m, jscope *s, const jbody *body);
bool  lm_jinja_call(jinja *m, jval callee, const jcall *c, jval *out);
bool  lm_jinja_call_builtin(jinja *m, const jbuiltin *fn, const jval *self, const jcall *c, jval *out);
/* Evaluate the callee and the arguments of a call without making it. */
bool  lm_jinja_call_args(jinja *m, jscope *s, const jnode *n, jval *callee, jcall *c);
/* Apply filters without an operand (of filter and set blocks) to `in`. */
bool  lm_jinja_filter(jinja *m, jscope *s, const jnode *n, jval in, jval *out);
/* Run a body and capture its output as a string. */
bool  lm_jinja_capture(jinja *m, jscope *s, const jbody *body, jflow *flow, jval *out);
bool  lm_jinja_loop(jinja *m, jscope *s, const jnode *n, jval over, int64_t depth0, jflow *flow);
/* Set loop->length; a generator is read to its end for this. */
bool  lm_jloop_length(jinja *m, jloop *loop);
bool  lm_jinja_call_macro(jinja *m, const jmacro *macro, const jcall *c, jval *out);

jscope *lm_jscope_new(jinja *m, jscope *parent);
/* Make the names that `body` hides undefined in its new scope. */
bool    lm_jscope_hide(jinja *m, jscope *s, const jbody *body);
bool    lm_jscope_set(jinja *m, jscope *s, int name, jval value);

/* ---- operators and access (jinja_ops.c, jinja_access.c) ---- */
bool lm_jinja_arith(jinja *m, jop op, jval a, jval b, jval *out);
bool lm_jinja_negate(jinja *m, jval a, bool plus, jval *out);
bool lm_jinja_compare(jinja *m, jop op, jval a, jval b, bool *out);
bool lm_jinja_attr(jinja *m, jval v, const jstr *name, jval *out);       /* v.name */
bool lm_jinja_item(jinja *m, jval v, jval key, jval *out);               /* v[key] */
/* v[a:b:c], J_MISSING where left out */
bool lm_jinja_slice(jinja *m, jval v, const jval part[3], jval *out);
/* Look up an attribute in Python's sense: methods and fields. J_MISSING: there is none. */
bool lm_jinja_python_attr(jinja *m, jval v, const jstr *name, jval *out);
bool lm_jv_undefined(jinja *m, const char *hint, jval *out);
bool lm_jv_undefined_name(jinja *m, const jstr *name, jtype of, bool unsafe, jval *out);

/* ---- builtins ---- */
const jbuiltin *lm_jinja_find_filter(const char *name, size_t n);
const jbuiltin *lm_jinja_find_test(const char *name, size_t n);
const jbuiltin *lm_jinja_find_function(const char *name, size_t n);
const jbuiltin *lm_jinja_find_method(jtype of, const char *name, size_t n);
/* Look up a name in a table of builtins, which ends with a NULL name. */
const jbuiltin *lm_jinja_find_in(const jbuiltin *table, const char *name, size_t n);
extern const jbuiltin lm_jinja_text_filters[], lm_jinja_list_filters[], lm_jinja_lazy_filters[],
    lm_jinja_order_filters[], lm_jinja_number_filters[];
extern const jbuiltin lm_jinja_str_methods[], lm_jinja_str_search_methods[];
/* str.strip, lstrip and rstrip (`chars` NULL: white space), str.splitlines, str.replace (count < 0: all),
 * str.center … */
const jstr *lm_jstr_strip(jinja *m, const jstr *s, const jstr *chars, bool left, bool right);
bool lm_jstr_lines(jinja *m, const jstr *s, bool keep_ends, jvec *out);
bool lm_jstr_replace(jinja *m, const jstr *s, const jstr *old, const jstr *new, int64_t count, jval *out);
bool lm_jstr_pad(jinja *m, const jstr *s, int64_t width, const jstr *fill, char align, jval *out);
bool lm_jinja_percent(jinja *m, const jstr *format, jval args, jval *out);              /* format % args */
/* format.format(*args) */
bool lm_jinja_format(jinja *m, const jstr *format, const jcall *args, jval *out);
bool lm_jinja_format_value(jinja *m, jval v, const jstr *spec, jbuild *out);            /* format(v, spec) */

/* json.dumps */
typedef struct jdumps { bool ensure_ascii, sort_keys; const jstr *indent, *item, *key; } jdumps;
bool lm_jinja_dumps(jinja *m, jval v, const jdumps *how, jval *out);
/* Make a value from JSON; every string in it is content, except plain words under the key "role" (see
 * lm_template_render). */
bool lm_jinja_from_json(jinja *m, const json_t *j, bool content, unsigned depth, jval *out);

/* Read arguments as Python would; a type error names the parameter. */
bool lm_jarg_int(jinja *m, const jargs *a, int i, int64_t otherwise, const char *name, int64_t *out);
bool lm_jarg_str(jinja *m, const jargs *a, int i, const char *name, const jstr **out);
static inline bool lm_jarg_given(const jargs *a, int i) { return a->v[i].type != J_MISSING; }
static inline bool lm_jarg_truth(const jargs *a, int i)
{
    return lm_jarg_given(a, i) && lm_jv_truth(a->v[i]);
}

#endif
