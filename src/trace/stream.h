/* stream.h - where to look in a program: the residual stream, what is added to it, attention, routes.
 *
 * The stream is found from its end: what the last norm reads is a sum, of whose two parts the older one is the stream before. So it is the
 * same search for layers one after the other, for parallel ones, and for sums that are scaled. */
#ifndef LM_TRACE_STREAM_H
#define LM_TRACE_STREAM_H

#include "lamina/trace.h"
#include "program/program.h"

/* The stream after a sum: a place for the lens. */
typedef struct lm_trace_point {
    const char   *path;
    int32_t       layer;
    lm_trace_part part;
    lm_value      value;
} lm_trace_point;

/* Something that is added to the stream: `factor` times value, less `minus` where that is one. */
typedef struct lm_trace_term {
    const char   *path;
    int32_t       layer;
    lm_trace_part part;
    lm_value      value, minus;          /* minus: LM_NONE */
    float         factor;
} lm_trace_term;

typedef struct lm_trace_map {
    lm_value        stream;              /* what the end of the program reads */
    lm_trace_point *points;  size_t n_points;    /* in the order of the program */
    lm_trace_term  *terms;   size_t n_terms;     /* their sum is the stream */
    uint32_t       *attention; size_t n_attention;   /* operations */
    uint32_t       *routes;  size_t n_routes;
    lm_arena        arena;
} lm_trace_map;

lm_status lm_trace_map_new(const lm_program *p, lm_trace_map *out, lm_error *e);
void      lm_trace_map_free(lm_trace_map *m);

/* The module of the layer that holds this one: "model.layers.0.self_attn" for what is in it. The layer's own: itself. */
const char *lm_trace_block(const lm_program *p, uint32_t module);

/* "model.layers.0"; NULL: there is no such module. */
const char *lm_trace_layer_path(const lm_program *p, int32_t layer);

/* Whether a path is meant. '*' stands for any part of a name, '**' of several; leading names may be left out: "layers.5.mlp". */
bool lm_trace_matches(const char *pattern, const char *path);

/* The path of a value, of its operation or of a module that hands it on, that a pattern means; NULL: none. */
const char *lm_trace_meant(const lm_program *p, const char *pattern, lm_value v);

#endif
