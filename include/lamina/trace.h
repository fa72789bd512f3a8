/* trace.h - what happens inside a model while it reads and writes: any value, what it would say after each layer, what each part adds to a
 * token, where heads look; and what becomes of the text when one of them is changed.
 *
 * A tracer has an engine of its own, of the model as it serves: its weights as they are stored, its arithmetic. What it is asked for is
 * kept when the engine is planned, so traced logits are those of an untraced engine to the bit, and an engine that nobody traces is planned
 * as if there were no tracers.
 *
 *   lm_trace_options o = lm_trace_defaults();
 *   o.lens = 5;
 *   lm_tracer_new(m, &o, &t, &e);
 *   lm_tracer_look(t, n - 1);                                       which rows to look into
 *   lm_tracer_read(t, ids, n, &e);
 *   lm_tracer_row(t, n - 1, &row);                                  row.lens[…]
 *
 * Positions count the tokens of the text from 0. The row at position p has read tokens 0…p and predicts token p + 1.
 *
 * Threads: tracers are independent of each other. One is used by one thread at a time, but while something else steps its engine (a
 * schedule), lm_tracer_event may be called by another. */
#ifndef LAMINA_TRACE_H
#define LAMINA_TRACE_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lm_trace_part {
    LM_TRACE_LAYER, LM_TRACE_ATTENTION, LM_TRACE_MLP, LM_TRACE_EMBEDDING,
    LM_TRACE_BIAS, LM_TRACE_CAP,     /* of an attribution: biases of the last norm and the head; what a cap on logits takes */
    LM_TRACE_REST,                   /* … what remains: rounding, above all of activations in fast arithmetic */
    LM_TRACE_OTHER,
} lm_trace_part;
const char *lm_trace_part_word(lm_trace_part p);     /* "layer" "attention" "mlp" "embedding" "bias" "cap" "rest" "other" */

/* All zero: tokens alone, without alternatives. */
typedef struct lm_trace_options {
    lm_engine_options engine;        /* rows and logit_rows 0: 32. Its probes are kept too */
    const lm_engine  *weights;       /* an engine of the same model and arithmetic, whose weights are used where they lie; NULL: own ones */
    uint32_t    top;                 /* best alternatives of each token */
    uint32_t    lens;                /* best tokens after each layer: the last norm and the head on the residual stream; 0: no lens */
    bool        lens_parts;          /* also after each attention inside a layer */
    bool        attribution;         /* what each attention and MLP adds to the token's logit */
    bool        norms;               /* of the stream, and of what is added to it */
    bool        experts;             /* that rows visit */
    bool        attention;           /* of all layers … */
    const uint32_t *layers;          /* … or of these [n_layers] */
    size_t      n_layers;
    const uint32_t *heads;           /* [n_heads][2], layer and head: whole rows of weights */
    size_t      n_heads;
    bool        times;               /* of each operation */
    const char *const *values;       /* patterns of paths, NULL-ended: what lm_tracer_save writes. '*' stands for any part of a name, '**'
                                        for several names; leading names may be left out. PATH#weights: those of attention; "logits" */
    const char *const *interventions;/* NULL-ended:
                                        PATH=F         the value times F; 0 removes it
                                        PATH#headN=F   what head N of an attention gives
                                        PATH#neuronN=F dimension N between the matrices of an MLP
                                        PATH#expertN=F the weight of an expert of a mixture
                                        PATH+FILE[:S]  S times a vector is added: a tensor of FILE (safetensors) with this path, or of a
                                                       control vector (GGUF) the direction of this layer
                                        +FILE[:S]      every direction of a control vector, each to its layer
                                        PATH@P=FILE[@Q] the value at position P is row Q (P where it is not said) of the tensor with
                                                       this path in FILE: what another text had there
                                        PATH may be a pattern */
    uint32_t    sequence;            /* of the engine, that is traced */
    uint64_t    reserved[8];         /* zero */
} lm_trace_options;

lm_trace_options lm_trace_defaults(void);

typedef struct lm_tracer lm_tracer;

/* `m`, and the engine that weights are used of, must outlive it. Names and lists are copied. LM_USAGE: a path that nothing has, a layer or
 * head that is not there; LM_NOT_FOUND, LM_BAD_MODEL: a file of an intervention; else as lm_engine_new. */
lm_status lm_tracer_new(const lm_model *m, const lm_trace_options *o, lm_tracer **out, lm_error *e);
void      lm_tracer_free(lm_tracer *t);

/* Its engine. What steps it (lm_tracer_read, a schedule, a sequence) is traced. */
lm_engine *lm_tracer_engine(lm_tracer *t);

/* Look into the row at this position when it is read; UINT32_MAX: into all that have logits. */
lm_status lm_tracer_look(lm_tracer *t, uint32_t position, lm_error *e);

/* Write values of all rows that are read from now on, up to `length` of them, to a safetensors file: of each path a tensor F32 [length,
 * width], of weights of attention F32 [heads, length, length]; `ids` I64 [length]. Or, of one path and a name that ends in ".npy", NumPy's
 * form. Memory does not grow with the text. lm_tracer_saved makes the file; it is not there before. LM_USAGE: no path matches. */
lm_status lm_tracer_save(lm_tracer *t, const char *path, uint32_t length, lm_error *e);
lm_status lm_tracer_saved(lm_tracer *t, lm_error *e);

/* Read n tokens after those that are there. */
lm_status lm_tracer_read(lm_tracer *t, const lm_token *ids, size_t n, lm_error *e);

/* Write up to n tokens after them, the likeliest each time, until one ends the text, which is told but not read. */
lm_status lm_tracer_write(lm_tracer *t, size_t n, lm_error *e);

/* Forget the text; what is looked into stays chosen. */
lm_status lm_tracer_restart(lm_tracer *t, lm_error *e);

/* The tokens so far. */
const lm_token *lm_tracer_ids(const lm_tracer *t, size_t *n);

typedef struct lm_trace_choice {
    lm_token id;
    float    p;
} lm_trace_choice;

typedef struct lm_trace_token {
    lm_token id;                     /* -1: what comes after the end */
    uint32_t position;
    bool     predicted;              /* false for the first: the rest is 0 then */
    double   p, surprise, entropy;   /* surprise: -log2 p; entropy of the prediction: bits */
    const lm_trace_choice *top;      /* [n_top], best first */
    uint32_t n_top;
    uint64_t reserved[2];            /* zero */
} lm_trace_token;

/* What was predicted for the token at a position, up to the one after the end. false: it was not. Valid until more is read. */
bool lm_tracer_token(const lm_tracer *t, uint32_t position, lm_trace_token *out);

typedef struct lm_trace_lens {
    const char   *path;              /* what has been added last: "model.layers.3" */
    int32_t       layer;
    lm_trace_part part;
    uint32_t      rank;              /* of the token, 1: the likeliest */
    double        p, kl;             /* of the token; divergence of the row's prediction from this one, nats */
    const lm_trace_choice *top;      /* [n_top] */
    uint32_t      n_top;
    uint64_t      reserved[2];       /* zero */
} lm_trace_lens;

typedef struct lm_trace_share {
    const char   *path;
    int32_t       layer;
    lm_trace_part part;
    double        value;             /* of an attribution: logit; else the norm (L2) */
    uint64_t      reserved[2];       /* zero */
} lm_trace_share;

typedef struct lm_trace_head {
    const char *path;
    uint32_t    layer, head;
    double      entropy;             /* bits */
    double      first;               /* weight of the first position of the text; 0 where a window has left it behind */
    double      distance;            /* to what is looked at, on average: 0 is the row itself */
    uint32_t    at[3];               /* positions of the largest weights … */
    float       weight[3];           /* … and these; 0 past the last */
    const float *weights;            /* [n_weights] from first_position on, where they are asked for; NULL: not */
    uint32_t    first_position, n_weights;
    uint64_t    reserved[2];         /* zero */
} lm_trace_head;

typedef struct lm_trace_visits {
    const char *path;
    int32_t     layer;
    uint32_t    n;
    const uint32_t *expert;          /* [n] */
    const float    *weight;          /* [n] */
    uint64_t    reserved[2];         /* zero */
} lm_trace_visits;

typedef struct lm_trace_row {
    uint32_t position;
    lm_token token;                  /* that lens and attribution are about: the one at position + 1, after the end the likeliest */
    double   p, logit;               /* of it */
    const lm_trace_lens   *lens;        size_t n_lens;
    const lm_trace_share  *attribution; size_t n_attribution;    /* their sum is the logit */
    const lm_trace_share  *norms;       size_t n_norms;
    const lm_trace_visits *experts;     size_t n_experts;
    const lm_trace_head   *attention;   size_t n_attention;
    const char *note;                /* why something that was asked for is not there; NULL */
    uint64_t reserved[4];            /* zero */
} lm_trace_row;

/* A row that was looked into. LM_USAGE: it was not. As long as the tracer. */
lm_status lm_tracer_row(lm_tracer *t, uint32_t position, lm_trace_row *out, lm_error *e);

typedef struct lm_trace_load {
    const char *path;
    int32_t     layer;
    uint32_t    n_experts;
    const uint64_t *visits;          /* [n_experts], of all rows read */
    uint64_t    reserved[2];         /* zero */
} lm_trace_load;

/* The i-th mixture; false past the last, or where experts are not asked for. */
bool lm_tracer_load(const lm_tracer *t, size_t i, lm_trace_load *out);

typedef struct lm_trace_time {
    const char *path, *operation;    /* "model.layers.0.mlp.up_proj", "linear" */
    int32_t     layer;
    double      seconds;             /* of all threads together, since the tracer was made */
    uint64_t    reserved[2];         /* zero */
} lm_trace_time;

/* The i-th operation that takes time of its own, in the order of the program; false past the last, or where times are not asked for. */
bool lm_tracer_time(lm_tracer *t, size_t i, lm_trace_time *out);

/* All of it as a JSON document: docs/schema/trace.schema.json. */
lm_status lm_tracer_json(lm_tracer *t, lm_text *out, lm_error *e);

/* Of a text that is being written: the token at `position`, which is `id`, with the row that predicted it where that was looked into, as
 * {"token", "row"}. The row is given up then. LM_USAGE: nothing has predicted it. */
lm_status lm_tracer_event(lm_tracer *t, uint32_t position, lm_token id, lm_text *out, lm_error *e);

/* Values that can be traced and changed, and the layers, as JSON: {"paths", "layers"}. */
lm_status lm_trace_paths(const lm_model *m, lm_text *out, lm_error *e);

/* ---- one text, twice: two models, or one with interventions ---- */

typedef struct lm_trace_difference {
    uint32_t position;               /* of the row */
    lm_token a, b;                   /* likeliest next token of each */
    float    p_a, p_b;               /* of these, each in its model */
    double   kl;                     /* nats, of b from a */
    double   surprise_a, surprise_b; /* bits, of the token that comes next; 0 at the end */
    uint64_t reserved[2];            /* zero */
} lm_trace_difference;

typedef struct lm_trace_layer_difference {
    const char *path;
    int32_t     layer;
    double      relative;            /* length of the difference of the streams by that of a's, mean over rows */
    double      added;               /* of that, what this layer's own contributions differ by */
    uint64_t    reserved[2];         /* zero */
} lm_trace_layer_difference;

typedef struct lm_trace_comparison lm_trace_comparison;

/* Both tracers read n tokens, side by side; their texts are forgotten first. Layers are compared where both have norms asked for and layers
 * of the same number and width. Memory does not grow with the vocabulary. LM_USAGE: other vocabularies. */
lm_status lm_trace_compare(lm_tracer *a, lm_tracer *b, const lm_token *ids, size_t n, lm_trace_comparison **out, lm_error *e);
void      lm_trace_comparison_free(lm_trace_comparison *c);
bool      lm_trace_comparison_row(const lm_trace_comparison *c, size_t i, lm_trace_difference *out);
bool      lm_trace_comparison_layer(const lm_trace_comparison *c, size_t i, lm_trace_layer_difference *out);

/* ---- control vectors ---- */

/* The mean over pairs of what the last token of `yes` and that of `no` differ by after each layer but the first, written as llama.cpp's
 * GGUF form (direction.N, F32 [hidden], N the layer). texts: 2 n, yes and no in turn. LM_USAGE: no pair. */
lm_status lm_trace_vector(const lm_model *m, const lm_engine_options *o, const lm_tokens *texts, size_t n_pairs, const char *path,
                          lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
