/* trace.h - tracing: any intermediate value of a model, logit lens, direct logit attribution, attention
 * weights, chosen experts, and interventions on them.
 *
 * A tracer has its own engine, with the model's weights and arithmetic as in normal use. The engine's plan
 * stores the requested values, so traced logits are bit-identical to those of an untraced engine, and an
 * engine without a tracer has no cost.
 *
 *   lm_trace_options o = lm_trace_defaults();
 *   o.lens = 5;
 *   lm_tracer_new(m, &o, &t, &e);
 *   lm_tracer_look(t, n - 1);                                       which rows to trace
 *   lm_tracer_read(t, ids, n, &e);
 *   lm_tracer_row(t, n - 1, &row);                                  row.lens[…]
 *
 * Positions count tokens from 0. The row at position p has processed tokens 0…p and predicts token p + 1.
 *
 * Threads: tracers are independent. A tracer is used by one thread at a time, except that lm_tracer_event may
 * be called by another thread while a schedule steps the engine. */
#ifndef LAMINA_TRACE_H
#define LAMINA_TRACE_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lm_trace_part {
    LM_TRACE_LAYER, LM_TRACE_ATTENTION, LM_TRACE_MLP, LM_TRACE_EMBEDDING,
    LM_TRACE_BIAS, LM_TRACE_CAP,     /* attribution: biases of the last norm and the head; effect of the logit
                                        softcap */
    LM_TRACE_REST,                   /* attribution: the remainder, rounding of activations in fast
                                        arithmetic */
    LM_TRACE_OTHER,
} lm_trace_part;
const char *lm_trace_part_word(lm_trace_part p);     /* "layer" "attention" "mlp" "embedding" "bias" "cap"
                                                        "rest" "other" */

/* All zero: probabilities of tokens only, without alternatives. */
typedef struct lm_trace_options {
    lm_engine_options engine;        /* max_rows and max_logits 0: 32. Its probes are stored as well */
    const lm_engine  *weights;       /* an engine of the same model and arithmetic, whose weights are shared;
                                        NULL: own weights */
    uint32_t    top;                 /* number of alternatives per token */
    uint32_t    lens;                /* logit lens: number of best tokens after each layer, from the last norm
                                        and the head; 0: off */
    bool        lens_parts;          /* logit lens also after each attention */
    bool        attribution;         /* contribution of each attention and MLP to the token's logit */
    bool        norms;               /* norms of the residual stream, and of each contribution to it */
    bool        experts;             /* experts chosen for each row */
    bool        attention;           /* attention statistics of all layers … */
    const uint32_t *layers;          /* … or of these layers [n_layers] */
    size_t      n_layers;
    const uint32_t *heads;           /* [n_heads][2], layer and head: all attention weights of a row */
    size_t      n_heads;
    bool        times;               /* time of each operation */
    const char *const *values;       /* path patterns, NULL-ended: the values that lm_tracer_save writes. '*'
                                        matches any part of a name, '**' several names; leading names may be
                                        omitted. PATH#weights: attention weights; "logits" */
    const char *const *interventions;/* NULL-ended:
                                        PATH=F         multiply the value by F; 0 removes it
                                        PATH#headN=F   multiply the output of head N of an attention
                                        PATH#neuronN=F multiply hidden dimension N of an MLP
                                        PATH#expertN=F multiply the weight of an expert
                                        PATH+FILE[:S]  add S times a vector: the tensor of FILE (safetensors)
                                        with this path, or
                                                       this layer's direction of a control vector (GGUF)
                                        +FILE[:S]      add every direction of a control vector to its layer
                                        PATH@P=FILE[@Q] patch: replace the value at position P by row Q
                                        (default P) of the tensor with this
                                                       path in FILE, saved from another prompt
                                        PATH may be a pattern */
    uint32_t    sequence;            /* the engine's sequence that is traced */
    uint64_t    reserved[8];         /* zero */
} lm_trace_options;

lm_trace_options lm_trace_defaults(void);

typedef struct lm_tracer lm_tracer;

/* `m` and the engine in `weights` must outlive the tracer. Names and lists are copied. LM_USAGE: a path,
 * layer or head that does not exist; LM_NOT_FOUND, LM_BAD_MODEL: a file of an intervention; other errors: as
 * lm_engine_new. */
lm_status lm_tracer_new(const lm_model *m, const lm_trace_options *o, lm_tracer **out, lm_error *e);
void      lm_tracer_free(lm_tracer *t);

/* The tracer's engine. All its steps are traced (lm_tracer_read, a schedule, a sequence). */
lm_engine *lm_tracer_engine(lm_tracer *t);

/* Return what its engines have allocated, without weights that are shared. */
void       lm_tracer_allocated(const lm_tracer *t, lm_memory *out);

/* Trace the row at this position when it is processed; UINT32_MAX: all rows with logits. */
lm_status lm_tracer_look(lm_tracer *t, uint32_t position, lm_error *e);

/* Save the values of the next `length` rows to a safetensors file: per path a tensor F32 [length, width], for
 * attention weights F32 [heads, length, length]; and `ids` I64 [length]. With one path and a name ending in
 * ".npy": NumPy's format. Memory does not grow with the length. lm_tracer_saved completes the file, which
 * does not exist before. LM_USAGE: no path matches. */
lm_status lm_tracer_save(lm_tracer *t, const char *path, uint32_t length, lm_error *e);
lm_status lm_tracer_saved(lm_tracer *t, lm_error *e);

/* Process n further tokens. */
lm_status lm_tracer_read(lm_tracer *t, const lm_token *ids, size_t n, lm_error *e);

/* Generate up to n tokens greedily, until an end token, which is reported but not processed. */
lm_status lm_tracer_write(lm_tracer *t, size_t n, lm_error *e);

/* Discard the tokens; the rows to trace stay selected. */
lm_status lm_tracer_restart(lm_tracer *t, lm_error *e);

/* The tokens so far. */
const lm_token *lm_tracer_ids(const lm_tracer *t, size_t *n);

typedef struct lm_trace_choice {
    lm_token id;
    float    p;
} lm_trace_choice;

typedef struct lm_trace_token {
    lm_token id;                     /* -1: the token after the end */
    uint32_t position;
    bool     predicted;              /* false for the first token: the other fields are 0 */
    double   p, surprise, entropy;   /* surprise: -log2 p; entropy of the prediction: bits */
    const lm_trace_choice *top;      /* [n_top], best first */
    uint32_t n_top;
    uint64_t reserved[2];            /* zero */
} lm_trace_token;

/* The prediction for the token at a position, up to the one after the end. Returns false if there is none.
 * Valid until more tokens are processed. */
bool lm_tracer_token(const lm_tracer *t, uint32_t position, lm_trace_token *out);

typedef struct lm_trace_lens {
    const char   *path;              /* the last module added to the stream: "model.layers.3" */
    int32_t       layer;
    lm_trace_part part;
    uint32_t      rank;              /* rank of the token, 1: the most probable */
    double        p, kl;             /* probability of the token; KL divergence of the final prediction from
                                        this one, nats */
    const lm_trace_choice *top;      /* [n_top] */
    uint32_t      n_top;
    uint64_t      reserved[2];       /* zero */
} lm_trace_lens;

/* What one module adds to a logit (attribution), or the size of what it adds to the residual stream
 * (norms). */
typedef struct lm_trace_contribution {
    const char   *path;
    int32_t       layer;
    lm_trace_part part;
    double        value;             /* attribution: logit; norms: L2 norm */
    uint64_t      reserved[2];       /* zero */
} lm_trace_contribution;

typedef struct lm_trace_head {
    const char *path;
    uint32_t    layer, head;
    double      entropy;             /* bits */
    double      first;               /* weight of the first position; 0 if it is outside the window */
    double      distance;            /* mean distance of the attended positions; 0 is the row itself */
    uint32_t    at[3];               /* positions of the largest weights, */
    float       weight[3];           /* and those weights; 0 past the last */
    const float *weights;            /* [n_weights] from first_position on, if requested; else NULL */
    uint32_t    first_position, n_weights;
    uint64_t    reserved[2];         /* zero */
} lm_trace_head;

/* The experts that a router chose for the row. */
typedef struct lm_trace_experts {
    const char *path;
    int32_t     layer;
    uint32_t    n;
    const uint32_t *expert;          /* [n] */
    const float    *weight;          /* [n] */
    uint64_t    reserved[2];         /* zero */
} lm_trace_experts;

typedef struct lm_trace_row {
    uint32_t position;
    lm_token token;                  /* the token of lens and attribution: the one at position + 1, or the
                                        most probable at the end */
    double   p, logit;               /* of that token */
    const lm_trace_lens         *lens;        size_t n_lens;
    const lm_trace_contribution *attribution; size_t n_attribution;      /* their sum is the logit */
    const lm_trace_contribution *norms;       size_t n_norms;
    const lm_trace_experts      *experts;     size_t n_experts;
    const lm_trace_head         *attention;   size_t n_attention;
    const char *note;                /* why a requested value is missing; else NULL */
    uint64_t reserved[4];            /* zero */
} lm_trace_row;

/* The results of a traced row, valid as long as the tracer. LM_USAGE: the row was not traced. */
lm_status lm_tracer_row(lm_tracer *t, uint32_t position, lm_trace_row *out, lm_error *e);

typedef struct lm_trace_load {
    const char *path;
    int32_t     layer;
    uint32_t    n_experts;
    const uint64_t *visits;          /* [n_experts], counted over all rows */
    uint64_t    reserved[2];         /* zero */
} lm_trace_load;

/* The load of the i-th mixture of experts; false past the last, or if experts were not requested. */
bool lm_tracer_load(const lm_tracer *t, size_t i, lm_trace_load *out);

typedef struct lm_trace_time {
    const char *path, *operation;    /* "model.layers.0.mlp.up_proj", "linear" */
    int32_t     layer;
    double      seconds;             /* sum over all threads since the tracer was created */
    uint64_t    reserved[2];         /* zero */
} lm_trace_time;

/* The i-th timed operation, in the order of the program; false past the last, or if times were not
 * requested. */
bool lm_tracer_time(lm_tracer *t, size_t i, lm_trace_time *out);

/* All results as a JSON document: docs/schema/trace.schema.json. */
lm_status lm_tracer_json(lm_tracer *t, lm_text *out, lm_error *e);

/* During generation: the token `id` at `position`, and the row that predicted it if that was traced, as
 * {"token", "row"}. The row and the prediction are freed, so memory does not grow with the text. LM_USAGE:
 * the token was not predicted. */
lm_status lm_tracer_event(lm_tracer *t, uint32_t position, lm_token id, lm_text *out, lm_error *e);

/* The values that can be traced and changed, and the layers, as JSON: {"paths", "layers"}. */
lm_status lm_trace_paths(const lm_model *m, lm_text *out, lm_error *e);

/* ---- comparing two models, or a model with and without interventions, on one text ---- */

typedef struct lm_trace_difference {
    uint32_t position;               /* of the row */
    lm_token a, b;                   /* most probable next token of each */
    float    p_a, p_b;               /* their probabilities, each in its model */
    double   kl;                     /* nats, of b from a */
    double   surprise_a, surprise_b; /* bits, of the next token; 0 at the end */
    uint64_t reserved[2];            /* zero */
} lm_trace_difference;

typedef struct lm_trace_layer_difference {
    const char *path;
    int32_t     layer;
    double      relative;            /* norm of the difference of the streams relative to a's norm, mean over
                                        rows */
    double      added;               /* the part of it added by this layer */
    uint64_t    reserved[2];         /* zero */
} lm_trace_layer_difference;

typedef struct lm_trace_comparison lm_trace_comparison;

/* Process n tokens with both tracers and compare them; earlier tokens are discarded. Layers are compared if
 * both tracers have `norms` and both models have layers of the same number and width. Memory does not grow
 * with the vocabulary. LM_USAGE: different vocabularies. */
lm_status lm_trace_compare(lm_tracer *a, lm_tracer *b, const lm_token *ids, size_t n,
                           lm_trace_comparison **out, lm_error *e);
void      lm_trace_comparison_free(lm_trace_comparison *c);
bool      lm_trace_comparison_row(const lm_trace_comparison *c, size_t i, lm_trace_difference *out);
bool      lm_trace_comparison_layer(const lm_trace_comparison *c, size_t i, lm_trace_layer_difference *out);

/* ---- control vectors ---- */

/* Compute a control vector: per layer except the first, the mean over pairs of the difference of the streams
 * at the last tokens of a positive and a negative text. Written in llama.cpp's GGUF format (direction.N, F32
 * [hidden], N the layer). texts: 2 n, positive and negative alternately. LM_USAGE: no pair. */
lm_status lm_trace_vector(const lm_model *m, const lm_engine_options *o, const lm_tokens *texts,
                          size_t n_pairs, const char *path, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
