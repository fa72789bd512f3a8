/* record.h - internals of the builder: the helpers that record every kind of operation. */
#ifndef LM_PROGRAM_RECORD_H
#define LM_PROGRAM_RECORD_H

#include "base/map.h"
#include "program/builder.h"

#define LM_MAX_DEPTH 16

struct lm_builder {
    lm_program    *p;
    const char    *prefix;
    const lm_name *names;
    uint32_t       stack[LM_MAX_DEPTH], depth;
    int32_t        layer;
    lm_map        *weight_index;
    size_t capacity_nodes, capacity_values, capacity_weights, capacity_modules, capacity_caches,
        capacity_states, capacity_ropes;
    const lm_order *orders;
    const char    *act_name, *act_class;             /* NULL: the default */
    bool           latent_naive;
    lm_ternary     ternary;
    lm_value       rounded_from, rounded;            /* the last rounded input, which others may read, too */
    uint32_t       apart;                            /* depth of the open lm_push_apart; 0: there is none */
    bool           failed;
    lm_error       error;
    lm_node        nowhere;                          /* the operation that callers write to after a failure */
};

/* Make space for one more element in a growing array of the program, which has `n` elements. */
bool lm_record_grow(lm_builder *b, void **array, uint32_t n, size_t *capacity, size_t size);
#define LM_GROW(b, array, n) \
    lm_record_grow((b), (void **)&(b)->p->array, (n), &(b)->capacity_##array, sizeof *(b)->p->array)

/* Fail if `condition` is false. The first failure is kept; after it, every call does nothing. */
void lm_record_need(lm_builder *b, bool condition, const char *where, const char *what);

void lm_record_no_memory(lm_builder *b);

/* Format a string in the program's arena; "" if there is no memory, which becomes the failure. */
char *lm_record_text(lm_builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Join the path of the open module and a name with a dot. */
const char *lm_record_path(lm_builder *b, const char *name);

/* Return the path of the open module. */
const char *lm_record_here(const lm_builder *b);

/* Return the GGUF name of a module's parameter from the matching row of the family's table; NULL if there is
 * none. parameter "": the row is for the parameter itself and has its whole name. */
const char *lm_record_gguf(lm_builder *b, const char *module, const char *parameter);

uint32_t lm_record_width(const lm_builder *b, lm_value v);

/* Record a weight, or another use of the existing weight with the same path. */
uint32_t lm_record_weight(lm_builder *b, const char *module, const char *parameter, lm_weight_kind kind,
                          uint32_t n_dims, uint64_t d0, uint64_t d1);

/* Record a state of `floats` floats per sequence for the next operation. Returns its index in the program's
 * states. */
uint32_t lm_record_state(lm_builder *b, uint64_t floats);

/* Record an operation whose output is a new value of `width` lanes; the second function, one with one input.
 * Never NULL. */
lm_node *lm_record_node(lm_builder *b, lm_op_code code, const char *path, uint32_t width);
lm_node *lm_record_unary(lm_builder *b, lm_op_code code, const char *path, lm_value x, uint32_t width);

/* Record head_linear with this weight, of LM_HEADS, and set the weight's shape. `shared`: each head reads all
 * of x; else an equal part. */
lm_node *lm_record_heads(lm_builder *b, uint32_t weight, const char *path, lm_value x, uint32_t n_heads,
                         uint32_t out, bool shared);

#endif
