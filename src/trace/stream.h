/* stream.h - the structure of a program: the residual stream, what is added to it, attention, routes.
 *
 * The stream is found from its end: the last norm reads a sum, and the older of its two terms is the stream
 * before it. The same search works for sequential and parallel layers and for scaled sums. */
#ifndef LM_TRACE_STREAM_H
#define LM_TRACE_STREAM_H

#include "lamina/trace.h"
#include "program/program.h"

/* The stream after a sum: a point for the lens. */
typedef struct lm_trace_point {
    const char   *path;
    int32_t       layer;
    lm_trace_part part;
    lm_value      value;
} lm_trace_point;

/* A term that is added to the stream: `factor` times value, minus `minus` if there is one. */
typedef struct lm_trace_term {
    const char   *path;
    int32_t       layer;
    lm_trace_part part;
    lm_value      value, minus;          /* minus: LM_NONE: nothing */
    float         factor;
} lm_trace_term;

typedef struct lm_trace_map {
    lm_value        stream;              /* the input of the program's end */
    lm_trace_point *points;  size_t n_points;    /* in program order */
    lm_trace_term  *terms;   size_t n_terms;     /* they add up to the stream */
    uint32_t       *attention; size_t n_attention;   /* operations */
    uint32_t       *routes;  size_t n_routes;
    lm_arena        arena;
} lm_trace_map;

lm_status lm_trace_map_new(const lm_program *p, lm_trace_map *out, lm_error *e);
void      lm_trace_map_free(lm_trace_map *m);

/* Return the top module within the layer that contains this one, such as "model.layers.0.self_attn"; for the
 * layer's own module, itself. */
const char *lm_trace_block(const lm_program *p, uint32_t module);

/* Return a path such as "model.layers.0"; NULL: there is no such module. */
const char *lm_trace_layer_path(const lm_program *p, int32_t layer);

/* Return whether a path matches. '*' stands for part of a name, '**' for several names; leading names may be
 * omitted: "layers.5.mlp". */
bool lm_trace_matches(const char *pattern, const char *path);

/* Return the path of a value that matches a pattern, either of its operation or of a module that outputs it;
 * NULL: none. */
const char *lm_trace_meant(const lm_program *p, const char *pattern, lm_value v);

/* Give an error of a pattern that matches no path a hint with the nearest paths. Return its code. */
lm_status lm_trace_hint(const lm_program *p, const char *pattern, lm_error *e);

#endif
