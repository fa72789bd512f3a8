/* tracer.h - internals of a tracer: what it records, and the rows that it has recorded. */
#ifndef LM_TRACE_TRACER_H
#define LM_TRACE_TRACER_H

#include <pthread.h>

#include "lamina/trace.h"
#include "program/edited.h"
#include "runtime/engine/variant.h"
#include "trace/stream.h"

/* Interventions as edits of a program, with their vectors. */
typedef struct lm_trace_edits {
    lm_edit *list;
    size_t   n;
    lm_arena arena;
} lm_trace_edits;

/* A layer whose attention is traced: the keys of all positions so far, as in the cache. */
typedef struct lm_trace_keys {
    uint32_t node;
    bool     looked;             /* its heads are shown; otherwise its weights are saved */
    float   *keys;               /* [capacity][width]: of compressed attention, a key and the row's entry */
    uint32_t width;
    const float *slopes;         /* [heads] of ALiBi; NULL: none */
} lm_trace_keys;

/* A row: the prediction at a position. */
typedef struct lm_trace_record {
    uint32_t position;
    bool     inside;             /* its internals are recorded */
    bool     open;               /* the next token is not known yet: logits and states are stored */
    bool     supposed;           /* … and the most likely token is assumed */
    float   *logits;             /* [n_vocab] */
    float   *states;             /* points, then terms and what is subtracted from them, then the stream:
                                    [..][width] */
    double   lse, entropy;       /* log-sum-exp of the logits; bits */
    lm_trace_choice *top;        /* [options.top] */
    lm_trace_row row;
    lm_arena arena;
} lm_trace_record;

/* A value that is saved to a file, or attention weights. */
typedef struct lm_trace_saved {
    const char *path;
    lm_value    value;
    uint32_t    keys;            /* for attention weights the index into `keys`; LM_NONE: the value itself */
    uint32_t    width;
    uint64_t    offset;          /* in the data section of the file */
} lm_trace_saved;

struct lm_tracer {
    const lm_model  *m;
    lm_trace_options o;
    lm_trace_edits   edits;
    lm_program      *edited;     /* NULL: no edits */
    const lm_program *p;
    lm_trace_map     map;
    lm_value        *kept;
    uint32_t         n_kept;
    lm_engine       *g;
    /* the lens: the end of the program as a separate model with the same weights */
    lm_program      *tail;
    lm_engine       *lens;
    uint32_t         lens_rows;
    float           *scratch;    /* [n_vocab] twice */
    float           *lanes;      /* a row of attention, or of a matrix */
    lm_trace_keys   *keys;
    size_t           n_keys;
    uint32_t         key_capacity;
    uint64_t       **load;       /* [map.n_routes][experts] */
    lm_trace_saved  *saved;
    size_t           n_saved;
    struct lm_trace_file *file;
    uint64_t        *times;      /* [steps of the plan] */
    const char     **time_paths;
    /* the sequence */
    lm_token        *ids;
    size_t           n, capacity;
    lm_token         ended_by;   /* generated, not processed; -1: none */
    bool             look_all;
    bool            *look;       /* [look_capacity]: by position */
    size_t           look_capacity;
    lm_trace_token  *tokens;     /* [n + 1], by position */
    lm_trace_record **records;
    size_t           n_records, records_capacity;
    lm_error         failure;
    bool             failed;
    pthread_mutex_t  lock;
    lm_arena         arena;
};

/* ---- creation and records (tracer_new.c, tracer.c) ---- */

/* The engine's hook after each step: records its rows. `arg` is the tracer. */
void lm_trace_after_step(void *arg, const lm_engine *g);
void lm_trace_free_record(lm_trace_record *r);

/* ---- interventions (edits.c) ---- */

lm_status lm_trace_read_edits(const lm_program *p, const char *const *texts, lm_trace_edits *out,
                              lm_error *e);

/* ---- predictions (prediction.c) ---- */

/* Return the log-sum-exp of n logits, and compute the entropy in bits and the most likely token; `p` [n]: the
 * probabilities. */
double lm_predicted(const lm_kernels *k, const float *logits, uint32_t n, float *p, double *entropy,
                    uint32_t *best);
void   lm_predicted_top(const float *logits, uint32_t n, double lse, lm_trace_choice *top, uint32_t k);
uint32_t lm_predicted_rank(const float *logits, uint32_t n, lm_token id);

/* ---- internals of a row ---- */

/* Compute lens and attribution when the next token is known (lens.c, attribution.c). */
lm_status lm_trace_lens_of(lm_tracer *t, lm_trace_record *r, lm_error *e);
lm_status lm_trace_attribute(lm_tracer *t, lm_trace_record *r, lm_error *e);

/* Record row i of the last step: attention weights (heads.c), experts and norms (routing.c). */
lm_status lm_trace_heads(lm_tracer *t, lm_trace_record *r, size_t i, lm_error *e);
void lm_trace_head_weights(lm_tracer *t, const lm_trace_keys *k, uint32_t head, uint32_t position,
                           const float *q, const float *chosen, float *out);
/* Return the positions that row i sees in sparse attention, or NULL: it sees all. */
const float *lm_trace_chosen(const lm_tracer *t, const lm_trace_keys *k, size_t i);
void      lm_trace_keep_keys(lm_tracer *t, size_t i, uint32_t position);
lm_status lm_trace_routing(lm_tracer *t, lm_trace_record *r, size_t i, lm_error *e);
lm_status lm_trace_measure(lm_tracer *t, lm_trace_record *r, lm_error *e);

/* Return the record at a position, completed with the token that follows it. Requires the lock (tracer.c). */
lm_status lm_trace_take(lm_tracer *t, uint32_t position, lm_token id, lm_trace_record **out, lm_error *e);

/* Take the record at a position out of the tracer, with what its prediction points to; the caller frees it.
 * NULL: there is none. Requires the lock (tracer.c). */
lm_trace_record *lm_trace_detach(lm_tracer *t, uint32_t position);

/* ---- saving values to a file (values.c) ---- */

lm_status lm_trace_find_saved(lm_tracer *t, lm_error *e);
lm_status lm_trace_save_row(lm_tracer *t, size_t i, uint32_t position, lm_error *e);
void      lm_trace_drop_file(lm_tracer *t);

/* Return whether vectors of the residual stream are recorded. */
static inline bool lm_trace_wants_states(const lm_tracer *t)
{
    return t->o.lens || t->o.attribution || t->o.norms;
}

/* Return the width of the residual stream. */
static inline uint32_t lm_trace_width(const lm_tracer *t)
{
    return t->p->values[t->map.stream].width;
}

#endif
