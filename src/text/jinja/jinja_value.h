/* jinja_value.h - the values of a chat template: Python's data types.
 *
 * Values are small and copied freely; what they point to lives in the arena of one rendering and, except for
 * namespaces, loops, iterators and joiners, never changes. Strings are valid UTF-8 and record which of their
 * bytes are content: bytes that came from message data rather than from the template's own text. */
#ifndef LM_TEXT_JINJA_VALUE_H
#define LM_TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/utf8.h"
#include "base/widenum.h"
#include "lamina/text.h"

typedef struct jinja jinja;              /* the machine: jinja.h */

typedef enum jtype {
    J_MISSING,                           /* no value at all; never seen by a template */
    J_UNDEFINED,
    J_NONE,
    J_BOOL,
    J_INT,                               /* Python's are unbounded: here overflow is an error */
    J_BIG,                               /* an integer of the context beyond 64 bits: its digits, without
                                            arithmetic */
    J_FLOAT,
    J_STR,
    J_LIST,
    J_TUPLE,
    J_DICT,
    J_RANGE,
    J_VIEW,                              /* dict.keys(), .values(), .items() */
    J_ITER,                              /* a generator: read once */
    J_NAMESPACE,
    J_LOOP,
    J_MACRO,
    J_FUNCTION,
    J_METHOD,
    J_JOINER,
} jtype;

typedef struct jstr   jstr;
typedef struct jlist  jlist;
typedef struct jdict  jdict;
typedef struct jundef jundef;
typedef struct jrange jrange;
typedef struct jview  jview;
typedef struct jiter  jiter;
typedef struct jspace jspace;
typedef struct jloop  jloop;
typedef struct jmacro jmacro;
typedef struct jbuiltin jbuiltin;
typedef struct jmethod jmethod;
typedef struct jjoiner jjoiner;

typedef struct jval {
    jtype type;
    union {
        bool            b;
        int64_t         i;
        double          f;
        const jstr     *s;               /* strings, and digits of J_BIG */
        const jlist    *l;               /* lists and tuples */
        const jdict    *d;
        const jundef   *u;
        const jrange   *r;
        const jview    *view;
        jiter          *it;
        jspace         *ns;
        jloop          *loop;
        const jmacro   *macro;
        const jbuiltin *fn;
        const jmethod  *method;
        jjoiner        *joiner;
        const void     *p;
    };
} jval;

/* A string. `marks` are the content spans, sorted and disjoint; the last may reach past `n`, so readers
 * clamp. */
struct jstr {
    const char     *data;
    size_t          n;
    const lm_span  *marks;
    size_t          n_marks;
    struct jshared *shared;              /* the growing buffer that it ends in (lm_jstr_concat), or NULL */
    bool            safe;                /* markupsafe's Markup: + and % escape the other side */
};

struct jlist {
    const jval *items;
    size_t      n;
    size_t     *used, capacity;          /* appending reuses the buffer unless another list has used it, as
                                            for strings */
    bool        group;                   /* a tuple of groupby: .grouper, .list */
};

typedef struct jpair { jval key, value; } jpair;

struct jdict {
    jpair *pairs;                        /* in order of insertion */
    size_t n, capacity;
};

/* Why a value is undefined: `hint`, or the missing `name` (a variable, or an attribute of an object if `of`
 * is not J_MISSING). */
struct jundef {
    const char *hint;
    const jstr *name;
    jtype       of;
    bool        unsafe;                  /* an attribute that the sandbox forbids */
};

struct jrange { int64_t start, stop, step; size_t n; };

typedef enum jview_kind { J_KEYS, J_VALUES, J_ITEMS } jview_kind;
struct jview { const jdict *d; jview_kind kind; };

/* An iterator: `next` writes the next value, or sets `done`. False: an error. */
typedef bool (*jnext)(jinja *m, jiter *it, jval *out);
struct jiter {
    jnext       next;
    const char *name;                    /* for its repr */
    bool        done;
    jval        of;                      /* the value it iterates over */
    jiter      *inner;
    size_t      at;
    void       *state;                   /* of a filter */
};

struct jspace { jdict d; };              /* namespace(): the only value that a template can change */

typedef struct jkw   { const jstr *key; jval value; } jkw;
typedef struct jcall { jval *pos; size_t n_pos; jkw *kw; size_t n_kw; } jcall;

enum { J_MAX_PARAMS = 8 };

/* The arguments of a builtin, bound to its parameters: v[i].type is J_MISSING if none was given. */
typedef struct jargs {
    jval  v[J_MAX_PARAMS];
    jcall rest;                          /* of a builtin that takes any arguments ("*") */
} jargs;

/* A filter, test, method or function. `params`: names separated by spaces; "?" after a name: optional; "/":
 * those before it are positional only; "*" at the end: any others, unbound. A filter's, test's or method's
 * first parameter is its value. */
struct jbuiltin {
    const char *name;
    const char *params;
    bool (*call)(jinja *m, const jargs *a, jval *out);
};

struct jmethod { const jbuiltin *fn; jval self; };

struct jjoiner { const jstr *sep; bool used; };

static inline jval lm_jv_missing(void) { return (jval){ .type = J_MISSING }; }
static inline jval lm_jv_none(void) { return (jval){ .type = J_NONE }; }
static inline jval lm_jv_bool(bool b) { return (jval){ .type = J_BOOL, .b = b }; }
static inline jval lm_jv_int(int64_t i) { return (jval){ .type = J_INT, .i = i }; }
static inline jval lm_jv_float(double f) { return (jval){ .type = J_FLOAT, .f = f }; }
static inline jval lm_jv_of_str(const jstr *s) { return (jval){ .type = J_STR, .s = s }; }
static inline jval lm_jv_of_list(const jlist *l) { return (jval){ .type = J_LIST, .l = l }; }
static inline jval lm_jv_of_tuple(const jlist *l) { return (jval){ .type = J_TUPLE, .l = l }; }
static inline jval lm_jv_of_dict(const jdict *d) { return (jval){ .type = J_DICT, .d = d }; }
static inline jval lm_jv_of_iter(jiter *it) { return (jval){ .type = J_ITER, .it = it }; }
static inline bool lm_jv_is_int(jval v) { return v.type == J_INT || v.type == J_BOOL; }
static inline int64_t lm_jv_int_of(jval v) { return v.type == J_BOOL ? (int64_t)v.b : v.i; }
static inline bool lm_jv_is_number(jval v) { return lm_jv_is_int(v) || v.type == J_FLOAT; }
/* Return whether both are numbers and at least one is beyond 64 bits. */
static inline bool lm_jv_any_big(jval a, jval b)
{
    return (a.type == J_BIG && (b.type == J_BIG || lm_jv_is_number(b))) ||
           (lm_jv_is_number(a) && b.type == J_BIG);
}

/* ---- strings (jinja_string.c) ---- */

/* Text under construction. Failures are recorded in the machine: append freely, check at the end. */
typedef struct jbuild {
    char    *data;
    size_t   n, capacity;
    lm_span *marks;
    size_t   n_marks, mark_capacity;
} jbuild;

void lm_jb_add(jinja *m, jbuild *b, const char *data, size_t n, bool content);
void lm_jb_puts(jinja *m, jbuild *b, const char *literal);
void lm_jb_char(jinja *m, jbuild *b, int32_t code_point, bool content);
void lm_jb_slice(jinja *m, jbuild *b, const jstr *s, size_t from, size_t to);
void lm_jb_str(jinja *m, jbuild *b, const jstr *s);
/* Mark everything from byte `from` on as content. */
void lm_jb_mark(jinja *m, jbuild *b, size_t from);
/* Return the string that was built; false if anything failed on the way. */
bool lm_jb_done(jinja *m, jbuild *b, bool safe, jval *out);

/* Make a string over bytes that must stay valid; `content`: all of it is content. NULL: a failure. */
const jstr *lm_jstr_new(jinja *m, const char *data, size_t n, bool content);
const jstr *lm_jstr_copy(jinja *m, const char *data, size_t n, bool content);
bool        lm_jv_text(jinja *m, const char *c_string, jval *out);
/* Return bytes [from, to) of a string. */
const jstr *lm_jstr_slice(jinja *m, const jstr *s, size_t from, size_t to);
/* str(s): the string without being Markup. NULL stays NULL. */
const jstr *lm_jstr_plain(jinja *m, const jstr *s);
const jstr *lm_jstr_concat(jinja *m, const jstr *a, const jstr *b);
bool        lm_jstr_is_content(const jstr *s);               /* is any of it content? */
bool        lm_jstr_content_at(const jstr *s, size_t byte);
bool        lm_jstr_equal(const jstr *a, const jstr *b);
bool        lm_jstr_is(const jstr *s, const char *c_string);
int         lm_jstr_compare(const jstr *a, const jstr *b);   /* by code points */
size_t      lm_jstr_length(const jstr *s);                   /* in code points */
size_t      lm_jstr_offset(const jstr *s, size_t index);     /* byte where code point `index` starts */
/* Return the first (last) occurrence of `needle` in bytes [from, to), or SIZE_MAX. */
size_t      lm_jstr_find(const jstr *s, const jstr *needle, size_t from, size_t to);
size_t      lm_jstr_rfind(const jstr *s, const jstr *needle, size_t from, size_t to);
/* Return the code point at byte `at`, and its size; the one that ends at byte `end`. */
static inline int32_t lm_cp_at(const char *data, size_t at, size_t *size)
{
    return (int32_t)lm_utf8_decode(data + at, size);
}
static inline int32_t lm_cp_before(const char *data, size_t end, size_t *size)
{
    return (int32_t)lm_utf8_last(data, end, size);
}
/* Escape HTML, as markupsafe does; the result is safe. A safe string is returned as it is. */
bool        lm_jstr_escape(jinja *m, const jstr *s, const jstr **out);

/* ---- characters (jinja_case.c) ---- */
bool lm_cp_is_space(int32_t c);          /* str.isspace and the regex \s */
bool lm_cp_is_printable(int32_t c);
bool lm_cp_is_word(int32_t c);           /* the regex \w */
bool lm_cp_is_alpha(int32_t c);
bool lm_cp_is_digit(int32_t c);
bool lm_cp_is_decimal(int32_t c);
bool lm_cp_is_numeric(int32_t c);
bool lm_cp_is_cased(int32_t c);
int  lm_cp_digit(int32_t c);             /* the value of a decimal digit of any script, -1 for others */
typedef enum jcase { J_LOWER, J_UPPER, J_TITLE, J_CAPITALIZE, J_SWAPCASE, J_CASEFOLD } jcase;
bool lm_jstr_case(jinja *m, const jstr *s, jcase how, const jstr **out);
/* Return whether all cased characters are lower (upper) case and there is one. */
bool lm_jstr_is_lower(const jstr *s);
bool lm_jstr_is_upper(const jstr *s);

/* ---- containers (jinja_container.c) ---- */
typedef struct jvec { jval *items; size_t n, capacity; } jvec;   /* a list under construction */
bool lm_jvec_add(jinja *m, jvec *v, jval item);
bool lm_jvec_done(jinja *m, const jvec *v, jtype list_or_tuple, jval *out);
bool lm_jv_tuple2(jinja *m, jval a, jval b, jval *out);
const jlist *lm_jlist_concat(jinja *m, const jlist *a, const jlist *b);
bool lm_jdict_set(jinja *m, jdict *d, jval key, jval value);     /* TypeError for unhashable keys */
bool lm_jdict_get(jinja *m, const jdict *d, jval key, jval *out, bool *found);
bool lm_jdict_find(const jdict *d, const char *name, size_t n, jval *out);
bool lm_jv_hashable(jinja *m, jval v);

/* ---- operations on values (jinja_value.c) ---- */
bool lm_jv_truth(jval v);
bool lm_jv_same(jval a, jval b);                                 /* `is` */
bool lm_jv_equal(jinja *m, jval a, jval b, bool *out);
bool lm_jv_less(jinja *m, jval a, jval b, const char *op, int *order);  /* -1, 0, 1; 2: unordered (NaN) */
bool lm_jv_contains(jinja *m, jval container, jval item, bool *out);
bool lm_jv_length(jinja *m, jval v, size_t *out);
bool lm_jv_has_length(jval v);
const char *lm_jv_type_name(jval v);                             /* Python's: "str", "dict" … */

/* ---- text of values (jinja_repr.c, jinja_number.c) ---- */
bool lm_jv_str(jinja *m, jval v, const jstr **out);              /* str(v) */
void lm_jb_value(jinja *m, jbuild *b, jval v);                   /* append str(v) */
bool lm_jv_repr(jinja *m, jval v, const jstr **out);
/* does any string in it come from message data? */
bool lm_jv_has_content(jinja *m, jval v, unsigned depth);
enum { LM_FLOAT_TEXT = 32 };
size_t lm_float_text(double f, char out[LM_FLOAT_TEXT]);         /* Python's repr: shortest that reads back */
/* printf's e, f, g, any locale */
size_t lm_float_format(double f, char type, int precision, char *out, size_t size);
bool lm_float_read(const char *data, size_t n, double *out);     /* Python's float(str) */
/* Python's int(str, base) */
bool lm_int_read(const char *data, size_t n, int base, int64_t *out, bool *overflow);

/* ---- iteration (jinja_iter.c) ---- */
/* Make an iterator over `v`; an iterator itself is returned as it is. False: not iterable (TypeError). */
bool   lm_jv_iter(jinja *m, jval v, jiter **out);
bool   lm_jv_iterable(jval v);
bool   lm_jiter_next(jinja *m, jiter *it, jval *out);            /* sets it->done at the end */
jiter *lm_jiter_new(jinja *m, jnext next, const char *name);
bool   lm_jv_collect(jinja *m, jval v, jvec *out);               /* list(v) */
bool   lm_jv_reversed(jinja *m, jval v, bool *possible, jval *out);

#endif
