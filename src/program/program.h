/* program.h - a model as a list of named operations.
 *
 * A program contains everything about a model's structure and nothing about files or kernels: the engine
 * plans and runs this list, the analyser counts its operations, the tracer probes it by path. Programs are
 * immutable once built.
 *
 * Values are [T][width] float32: T rows, each the next token of some sequence. Every operation except
 * attention treats all rows alike, so rows may be any mix of sequences and positions. Letters (T D H G K F V
 * …): docs/study/glossary.md. */
#ifndef LM_PROGRAM_H
#define LM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "program/rope.h"
#include "tensor/act.h"
#include "tensor/dtype.h"

#define LM_MAX_INPUTS  5
#define LM_MAX_WEIGHTS 6
#define LM_MAX_EXPERTS 4096
#define LM_MAX_GROUPS  64
#define LM_MAX_CONNECTED 8       /* streams with hyper-connections, and rounds of their matrices */
#define LM_MAX_ROUNDS  64
#define LM_NONE        UINT32_MAX

typedef uint32_t lm_value;       /* an index into program.values */

/* The kind of a weight, which determines the formats in which it may be stored. */
typedef enum lm_weight_kind {
    LM_MATRIX,                   /* [out, in]: multiplied */
    LM_TABLE,                    /* [rows, width]: looked up by row (and multiplied, if the head is tied to
                                    it) */
    LM_VECTOR,                   /* [n]: norms, biases, slopes: always float32 in memory */
    LM_EXPERTS,                  /* [experts, out, in]: one matrix per expert; '*' in its path is the expert's
                                    number */
    LM_HEADS,                    /* [heads, out, in]: one matrix per head; see lm_joint */
} lm_weight_kind;

/* The storage of the matrices of LM_HEADS. Checkpoints store several kinds of a head together: a matrix of
 * `heads` groups of `of` rows, of which this weight is the rows [first, first + n). Some GGUF files store
 * each kind in a separate tensor. */
typedef struct lm_joint {
    const char *path, *gguf;     /* names of the whole matrix; gguf NULL: GGUF does not store it */
    uint32_t    first, n, of;
    bool        transposed;      /* the weight is the transpose of these rows: n is `in`, not `out` */
    bool        alone_transposed;/* the weight is the transpose of its separate tensor (weight.gguf) */
    bool        by_head;         /* there is only this kind, and checkpoints store it as [heads, of, …] */
    bool        only;            /* there is only this kind, and all files store it as [heads of, …] */
} lm_joint;

/* The storage of weights of experts in folders that combine several weights of the program in one tensor
 * [experts, of, in]: this weight is the rows first, first + step … (a vector: [experts, of]). In four bits,
 * codes [experts, of, in/32, 16] and exponents [experts, of, in/32] are separate tensors. GGUF stores each
 * weight separately, or combines them, too. */
typedef struct lm_interleaved {
    const char *path, *codes, *exponents;    /* path NULL: not combined */
    const char *gguf;            /* the combined tensor in GGUF files, if there is one; NULL: there is none */
    uint32_t    first, step, of;
    bool        transposed;      /* stored [experts, in, of] */
} lm_interleaved;

/* A range of rows, lanes or matrices. */
typedef struct lm_row_range {
    uint64_t first, n;
} lm_row_range;

/* The order in which GGUF files store the rows of a weight, or its columns, if it is not that of checkpoints.
 * Tiled: those from `first` on are heads of `width` lanes; checkpoints store the `each` heads of a key head
 * together, GGUF the first of every key head, then the second …; after all of them the same again. By group:
 * checkpoints store `groups` groups of all parts, GGUF all groups of the first part, then of the second …, in
 * one tensor or in two. */
typedef struct lm_gguf_layout {
    uint64_t    first, key_heads, each, width;       /* tiled; width 0: by group */
    bool        columns;
    uint64_t    groups, parts[4];                    /* by group: rows of each part in a group */
    const char *gguf[2];                             /* by group: NULL: one tensor, lm_weight.gguf */
    uint64_t    rows[2];                             /* of these tensors */
} lm_gguf_layout;

/* Return the row (or column) of a checkpoint that is row i of GGUF, and the reverse. */
uint64_t lm_gguf_layout_from(const lm_gguf_layout *l, uint64_t i);
uint64_t lm_gguf_layout_to(const lm_gguf_layout *l, uint64_t i);

/* The part of a stored weight that one rank of a split program holds (program/split.h). Vectors of one
 * dimension are rows of one column. For a weight of several matrices, rows and columns apply to each
 * matrix. */
typedef struct lm_cut {
    uint64_t        whole[3];    /* dimensions as stored */
    const lm_row_range *rows;    /* in the order in which the rank stores them; a row may occur twice */
    uint32_t        n_rows;
    lm_row_range    cols;
    lm_row_range    matrices;
} lm_cut;

/* Rows of a weight that GGUF stores multiplied by a factor, which the program applies elsewhere. NAN: GGUF
 * has no form for it. */
typedef struct lm_fold {
    uint32_t first, n;
    float    factor;
} lm_fold;

typedef struct lm_weight {
    const char    *path;         /* "model.layers.0.self_attn.q_proj.weight": its name in a Hugging Face
                                    checkpoint */
    const char    *gguf;         /* "blk.0.attn_q.weight"; NULL: GGUF has none */
    lm_weight_kind kind;
    uint32_t       n_dims;
    uint64_t       dims[3];      /* outermost first */
    uint64_t       elements;
    uint32_t       uses;         /* operations that read it; 2 for a tied embedding */
    uint32_t       adapter;      /* from 1: belongs to an adapter (lm_node.adapter), not in the model's
                                    file */
    bool           constant;     /* not a parameter and not counted (rotary factors stored by GGUF) */
    uint32_t       below;        /* > 0: whole numbers less than this, stored as integers; constant */
    bool           gguf_only;    /* only GGUF stores it */
    bool           transposed;   /* Hugging Face checkpoints store [in, out] (Conv1D) */
    bool           plus_one;     /* Hugging Face checkpoints store w - 1 */
    int8_t         exponential;  /* GGUF files store exp(w) times this, 1 or -1; 0: w */
    const lm_fold *folds;        /* [n_folds] */
    uint32_t       n_folds;
    bool           flat;         /* Hugging Face checkpoints store [n m], not [n, m] */
    bool           padded;       /* Hugging Face checkpoints store [1, 1, n, 1], not [n, 1] */
    bool           in_row;       /* Hugging Face checkpoints store [1, n], not [n] */
    bool           scalar;       /* Hugging Face checkpoints store [], not [1] */
    bool           inverse;      /* Hugging Face checkpoints store 1 / w */
    bool           of_matrix;    /* or store nothing: it is the mean magnitude of a matrix of floats */
    const char    *gguf_key;     /* GGUF files store it as the entry of its layer in the list of this key, not
                                    as a tensor; `gguf` is the name under which containers present it */
    uint32_t       heads;        /* > 0: Hugging Face checkpoints store [heads, n / heads], not [n] */
    bool           one_between;  /* Hugging Face checkpoints store [n, 1, m], not [n, m] (Conv1d) */
    bool           between_in_gguf;      /* GGUF files do, too */
    lm_joint       joint;        /* of LM_HEADS */
    lm_interleaved interleaved;  /* of LM_EXPERTS and their biases */
    const lm_gguf_layout *layout;     /* in GGUF files; NULL: that of checkpoints */
    const lm_cut  *cut;          /* NULL: the whole weight */
} lm_weight;

/* Write the dimensions [4] of a weight that a container stores whole; return their number. */
uint32_t lm_weight_dims(const lm_weight *w, bool gguf, uint64_t *dims);

/* Return the number of matrices in a weight: one per expert or head; any other weight is one matrix. */
static inline uint64_t lm_weight_matrices(const lm_weight *w)
{
    return w->kind == LM_EXPERTS || w->kind == LM_HEADS ? w->dims[0] : 1;
}

/* A module as transformers would print it; paths form a tree. */
typedef struct lm_module {
    const char *name;            /* "q_proj" */
    const char *path;            /* "model.layers.0.self_attn.q_proj" */
    const char *class_name;      /* "Linear" */
    const char *extra_repr;      /* what its printed form shows behind its sizes, "padding_idx=0", or, after
                                    a '=', in place of them; NULL: nothing */
    const char *order;           /* names of its children in order of creation, for printing; "*": all others,
                                    in the order they run */
    uint32_t    parent;          /* LM_NONE for the root */
    uint32_t    depth;
    int32_t     layer;           /* decoder layer it belongs to, -1 outside the stack */
    uint32_t    first_op, end_op;    /* its operations, including those of nested modules; empty: see
                                        lm_module_op */
    uint32_t    share;           /* it has one of so many matrices, which one operation of its parent reads;
                                    0: it does not */
    lm_value    in, out;         /* LM_NONE if it has no operations */
    bool        by_position;     /* transformers passes its input as a positional argument: tools that observe
                                    calls see its shape */
} lm_module;

/* Every operation: LM_OP_<CODE>, described by lm_op_<name> in program/ops/ (op.h). */
#define LM_OPS(X) \
    X(EMBED, embed) \
    X(POSITION, position) \
    X(SINUSOID, sinusoid) \
    X(LINEAR, linear) \
    X(CAUSAL_CONV, causal_conv) \
    X(LINEAR_RECURRENCE, linear_recurrence) \
    X(SELECTIVE_SCAN, selective_scan) \
    X(GATED_RECURRENCE, gated_recurrence) \
    X(COMPRESS, compress) \
    X(RMS_NORM, rms_norm) \
    X(LAYER_NORM, layer_norm) \
    X(ROPE, rope) \
    X(ATTENTION, attention) \
    X(SELECT_KEYS, select_keys) \
    X(ADD, add) \
    X(MUL, mul) \
    X(MIX, mix) \
    X(MATCH, match) \
    X(GAUSSIAN_TOP, gaussian_top) \
    X(ROUND, round) \
    X(REPEAT, repeat) \
    X(CONNECT, connect) \
    X(BLEND, blend) \
    X(MERGE, merge) \
    X(SCALE, scale) \
    X(TEMPERATURE, temperature) \
    X(ADD_BIAS, add_bias) \
    X(SCALE_BY_WEIGHT, scale_by_weight) \
    X(DECAY, decay) \
    X(GLU, glu) \
    X(ACT, act) \
    X(COLUMNS, columns) \
    X(SOFTCAP, softcap) \
    X(CLAMP, clamp) \
    X(ROUTE, route) \
    X(EXPERTS, experts) \
    X(HEAD_LINEAR, head_linear) \
    X(JOIN, join) \
    X(ALL_REDUCE, all_reduce) \
    X(ALL_GATHER, all_gather) \
    X(SEND, send) \
    X(RECEIVE, receive) \
    X(EDIT, edit) \
    X(INPUT, given)

#define LM_OP_CODE(code, name) LM_OP_##code,
typedef enum lm_op_code { LM_OPS(LM_OP_CODE) LM_OP_COUNT } lm_op_code;

/* A factor of queries that grows with their position p: 1 + beta ln(1 + floor((p + offset) / length)). */
typedef struct lm_temperature_spec {
    float    beta;               /* 0: the factor is 1 */
    uint32_t length, offset;
} lm_temperature_spec;

/* Scores, mask and cache of one attention. */
typedef struct lm_attention_spec {
    uint32_t n_heads, n_kv_heads;
    uint32_t k_dim, v_dim;       /* of one head */
    float    scale;              /* of q.k; 1/sqrt(k_dim) unless the model specifies another */
    uint32_t window;             /* visible keys, including the query's own; 0: all */
    bool     chunked;            /* the window begins at a multiple of its width: a query sees its chunk */
    uint32_t top_k;              /* sparse: of the visible keys, only those that select_keys has chosen, at
                                    most this many (arXiv 2512.02556); 0: all */
    uint32_t block;              /* they are chosen in blocks of this many keys, a divisor of top_k, by the
                                    highest q.k of a block; 0: one by one */
    uint32_t local;              /* blocks among them that are always chosen: the last ones of a query */
    uint32_t n_choices;          /* of blocks: one by each head of the indexer, for an equal part of the
                                    key/value heads; 0: one choice for all heads */
    uint32_t rate;               /* compressed: beside its keys, a query sees an entry for each whole block
                                    of this many positions up to its own (lm_compress); top_k counts entries,
                                    and select_keys chooses among them; 0: no entries */
    float    softcap;            /* 0: none */
    float    alibi;              /* the largest bias of ALiBi (arXiv 2108.12409); 0: no bias */
    bool     alibi_half;         /* the bias of key j is slope * j, with both factors and the product rounded
                                    to bfloat16; it is added before the scale */
    bool     sinks;              /* the softmax includes a learned score without a value per head */
    const char *sink_name;       /* of these in checkpoints; NULL: "sinks" */
    bool     gguf_permutes;      /* GGUF files pair the lanes of q and k although they do not rotate:
                                    lm_rope_spec.gguf_permutes */
    bool     v_in_k;             /* values are the first v_dim lanes of the keys: there is no third input, the
                                    cache stores only keys */
    uint32_t first_head, all_heads;      /* first head of this rank, heads of the model: slopes depend on
                                            them; 0, 0: not split */
} lm_attention_spec;

/* Return the largest number of keys that a query's softmax covers; 0: it grows with the context. */
static inline uint32_t lm_attention_reach(const lm_attention_spec *s)
{
    if (s->rate)
        return s->top_k && s->window ? s->window + s->top_k : 0;
    return s->window ? s->window : s->top_k;
}

/* Return how many numbers are a choice, keys or blocks; and all choices of a position. */
static inline uint32_t lm_choice_width(const lm_attention_spec *s)
{
    return s->block ? s->top_k / s->block : s->top_k;
}

static inline uint32_t lm_chosen_width(const lm_attention_spec *s)
{
    return lm_choice_width(s) * (s->n_choices ? s->n_choices : 1);
}

/* Return which of them a key/value head sees. */
static inline uint32_t lm_seen_choice(const lm_attention_spec *s, uint32_t kv_head)
{
    return s->n_choices ? kv_head / (s->n_kv_heads / s->n_choices) : 0;
}

/* A matrix per head that every position decays and adds to: S <- a S, S <- S + k u^T, o = S^T q, with
 * u = beta (v - S^T k) by the delta rule (arXiv 2412.06464), else u = beta v (arXiv 2405.21060). */
typedef struct lm_recurrence {
    uint32_t n_heads, n_key_heads;       /* n_key_heads divides n_heads */
    uint32_t k_dim, v_dim;               /* of a head's S [k_dim, v_dim] */
    bool     delta;
    bool     decay_by_channel;           /* a is [n_heads][k_dim], one factor per row of S; else [n_heads] */
    bool     selective;                  /* selective_scan: one head; a is [v_dim][k_dim], from a weight */
    bool     gated;                      /* gated_recurrence: the same, k_dim is 1 */
    bool     tiled;                      /* head h reads key head h % n_key_heads; else h / (n_heads /
                                            n_key_heads) */
    uint32_t first_head;                 /* of this rank, if tiled: added to h */
} lm_recurrence;

/* The state of a head is stored in blocks of this many columns, [k_dim][LM_STATE_COLUMNS] each, so that a
 * block stays in the first cache for all rows; the last block is padded. */
#define LM_STATE_COLUMNS 16

static inline uint32_t lm_recurrence_blocks(const lm_recurrence *r)
{
    return (r->v_dim + LM_STATE_COLUMNS - 1) / LM_STATE_COLUMNS;
}

/* Return the key head that head h reads. */
static inline uint32_t lm_key_head(const lm_recurrence *r, uint32_t h)
{
    return r->tiled ? (r->first_head + h) % r->n_key_heads : h / (r->n_heads / r->n_key_heads);
}

/* The choice of the experts for a token, and their weights. */
typedef struct lm_route_spec {
    uint32_t n_experts, top_k;
    bool     sigmoid;            /* scores are sigmoids; else a softmax over all experts */
    bool     root_softplus;      /* scores are sqrt(softplus(x)); `sigmoid` is not set */
    bool     renormalise;        /* the chosen weights are divided by their sum */
    uint32_t n_groups, top_groups;       /* experts form equal groups, of which only the best top_groups can
                                            be chosen; 0: no groups */
    bool     group_sum_two;      /* the score of a group is the sum of its best two; else its best */
    float    scale;              /* of the weights; 1: no effect */
    float    sum_eps;            /* added to the sum that divides the weights */
    bool     one_by_one;         /* SparseMixer (arXiv 2409.12136): the best logit m is chosen, then the best
                                    of the others; the weight of each is its softmax over those logits z
                                    that are still open and near it: m - z <= 2 near max(|z|, m) */
    float    near;
} lm_route_spec;

/* Return how a router's logits become scores: "softmax". */
static inline const char *lm_route_function(const lm_route_spec *r)
{
    return r->sigmoid ? "sigmoid" : r->root_softplus ? "sqrtsoftplus" : "softmax";
}

/* Hyper-connections: which numbers are made from a row of n (n + 2) lanes, or of n. */
typedef struct lm_connect_spec {
    uint32_t streams;            /* n */
    uint32_t rounds;             /* of Sinkhorn's normalisation: rows, then columns; the first: columns */
    float    eps;                /* added to what a branch gets, to the matrix and to its sums */
    bool     ends;               /* the streams end here: only what is read from them, n lanes */
} lm_connect_spec;

/* The layout of sinusoidal positions in a row. */
typedef enum lm_sinusoid_layout {
    LM_SINUSOID_PAIRS,           /* sin, cos, sin, cos …: frequencies base^(-2i/D)        (arXiv
                                    1706.03762) */
    LM_SINUSOID_HALVES,          /* sines, then cosines, of the same frequencies           (arXiv
                                    1909.05858) */
    LM_SINUSOID_SPREAD,          /* sines, then cosines: frequencies base^(-i/(D/2 - 1))   (tensor2tensor,
                                    fairseq) */
} lm_sinusoid_layout;

typedef struct lm_node {
    lm_op_code  code;
    const char *path;            /* module path, or the parent's path and a name for the operation
                                    ("….mlp.glu") */
    uint32_t    module;
    int32_t     layer;           /* -1 outside the stack */
    uint32_t    adapter;         /* from 1: belongs to an adapter and applies only to rows that use it
                                    (adapt.h); 0: the model itself */
    uint32_t    n_in;
    lm_value    in[LM_MAX_INPUTS];
    lm_value    out;
    uint32_t    weights[LM_MAX_WEIGHTS];   /* LM_NONE if absent; their meaning depends on the operation */
    union {
        /* groups: number of equal parts that are normalised separately, all with one weight or, if `own`,
         * each with its own. */
        struct { float eps; uint32_t groups; bool own; } norm;
        struct { uint32_t table, n_heads, head_dim; } rope;  /* table: index into program.ropes */
        /* of SELECT_KEYS, too; stored: an earlier operation stores the keys and values of this cache;
         * entries: the cache of compressed attention's entries */
        struct { lm_attention_spec spec; uint32_t cache, entries; bool stored; } attention;
        struct { uint32_t index; } state;    /* of all operations with a state (lm_op.state): the first member
                                                of their struct, an index into states */
        struct { uint32_t state, taps; } conv;               /* state: the last taps - 1 rows of the input */
        struct { uint32_t state; lm_recurrence spec; } recurrence;   /* of
                                                                SELECTIVE_SCAN and GATED_RECURRENCE, too */
        /* state: running softmaxes of a block, [1 or 2][3][lanes]: maximum, sum, weighted sum */
        struct { uint32_t state, rate; bool overlap; } compress;
        struct { float factor; } scale;      /* of SCALE; the cap of SOFTCAP; of GAUSSIAN_TOP, how many
                                                deviations above the mean */
        /* streams: equal parts of x, of which those from `first` on change; plus: added to the
         * coefficients */
        struct { uint32_t streams, first; float plus; } mix;
        struct { uint32_t groups; } match;   /* equal parts, each scaled alone */
        lm_connect_spec connect;
        struct { uint32_t streams; } blend;  /* of BLEND and MERGE */
        struct { lm_temperature_spec spec; } temperature;
        struct { float low, high; } clamp;
        struct { float bound; } decay;       /* of ln y, from below; 0: none */
        struct { lm_act act; float limit, plus; } glu;   /* of GLU, whose limit is that of experts, and ACT */
        struct { uint32_t offset; lm_sinusoid_layout layout; } position;     /* row = position + offset */
        /* weights[0]: correction added only for the choice; [1]: factors of the experts' weights; [2]: the
         * experts of every token, which are not chosen then; or none */
        struct { lm_route_spec spec; } route;
        /* weights: gate, up, down [E][…], then biases or none; limit: of the gates, see lm_expert_spec. */
        struct {
            uint32_t n_experts, top_k, width;
            lm_act   act;
            float    limit, plus;
            bool     scaled_input;
        } experts;
        struct { uint32_t groups, offset; } columns;         /* takes the lanes from `offset` on in each
                                                                group */
        struct { uint32_t n_heads; bool shared; } heads;     /* shared: every head reads all of x */
        struct { uint32_t groups; bool shared; } join;       /* shared: all groups get the same second part */
        /* widths [ranks]: lanes of each rank */
        struct { uint32_t ranks, rank; const uint32_t *widths; } exchange;
        /* wanted: only rows for which logits are requested; else every row */
        struct { uint32_t peer; bool wanted; } message;
        struct { const struct lm_edit *list; uint32_t n; } edits;    /* applied in this order */
    };
} lm_node;

/* Return whether experts have a matrix for their gate; without, the gate is `up`, too: relu(up) up. */
static inline bool lm_experts_have_gate(const lm_node *n)
{
    return n->weights[0] != n->weights[1];
}

/* Return the largest number of keys for which a row has costs per key; 0: all visible ones. */
static inline uint32_t lm_node_reach(const lm_node *n)
{
    return n->code == LM_OP_ATTENTION ? lm_attention_reach(&n->attention.spec) : 0;
}

/* Return the positions of a block of which the operation sees entries; 0: it sees none. */
static inline uint32_t lm_node_rate(const lm_node *n)
{
    return n->code == LM_OP_ATTENTION || n->code == LM_OP_SELECT_KEYS ? n->attention.spec.rate : 0;
}

/* Return whether this number is that of a chunk. */
static inline bool lm_node_chunked(const lm_node *n)
{
    return n->code == LM_OP_ATTENTION && n->attention.spec.chunked;
}

typedef struct lm_value_info {
    uint32_t width;
    uint32_t producer;           /* index of the operation */
} lm_value_info;

/* The data that one attention layer stores per position. Later layers may read it, too. */
typedef struct lm_cache {
    int32_t  layer;
    uint32_t n_kv_heads, k_dim, v_dim;
    uint32_t window;
    bool     chunked;
    bool     v_in_k;             /* nothing is stored for values */
    uint32_t rate;               /* of entries, one for each whole block of so many positions; 0: one each */
    bool     elsewhere;          /* on another rank: nothing is stored here, but pages are counted */
} lm_cache;

/* The types in which it is stored. A latent, whose values are in the keys, has the type of keys. */
typedef struct lm_cache_types {
    lm_dtype k, v;
} lm_cache_types;

/* The data that one operation carries from each position of a sequence to the next: float32, zero before the
 * first position. */
typedef struct lm_state_info {
    int32_t  layer;
    uint32_t floats;
    bool     elsewhere;          /* an operation of another rank has it */
} lm_state_info;

/* A rotary table: the frequencies that several operations share. */
typedef struct lm_rope_table {
    lm_rope_spec spec;
    uint32_t     divisors;       /* weight [dim/2] that divides the frequencies (GGUF rope_freqs), or
                                    LM_NONE */
    uint32_t     long_factors, short_factors;    /* weights [dim/2] (GGUF longrope), or LM_NONE */
} lm_rope_table;

typedef struct lm_program {
    const char    *family;       /* the name of its file in arch/ */
    const char    *class_name;   /* "…ForCausalLM" */
    lm_node       *nodes;        uint32_t n_nodes;
    lm_value_info *values;       uint32_t n_values;
    lm_weight     *weights;      uint32_t n_weights;
    lm_module     *modules;      uint32_t n_modules;
    lm_cache      *caches;       uint32_t n_caches;
    lm_state_info *states;       uint32_t n_states;
    lm_rope_table *ropes;        uint32_t n_ropes;
    lm_value       logits;
    uint32_t       n_layers, n_vocab;
    uint32_t       n_adapters;           /* attached by lm_program_adapt */
    uint32_t       context_length;       /* advertised; 0: unbounded */
    bool           folds;                /* its multipliers and joins are in the weights of GGUF files */
    bool           context_is_hard;      /* larger positions do not exist (learned positions) */
    lm_arena       arena;
} lm_program;

void lm_program_free(lm_program *p);

/* Return whether GGUF files and Hugging Face checkpoints store different values of a weight. Convert stored
 * values to those of the program, and back. */
static inline bool lm_weight_differs(const lm_weight *w)
{
    return w->plus_one || w->inverse || w->exponential != 0;
}
void lm_weight_from_stored(const lm_weight *w, bool gguf, float *x, uint64_t n);
void lm_weight_to_stored(const lm_weight *w, bool gguf, float *x, uint64_t n);

/* Multiply elements [first, first + n) of a weight as GGUF stores them. LM_UNSUPPORTED: GGUF has no form. */
lm_status lm_weight_fold(const lm_weight *w, uint64_t first, float *x, uint64_t n, lm_error *e);

/* Return the weight, module or value at a path; LM_NONE if there is none. A value is found by the module that
 * outputs it or by the operation's own path. */
uint32_t lm_program_weight(const lm_program *p, const char *path);
uint32_t lm_program_module(const lm_program *p, const char *path);
lm_value lm_program_value(const lm_program *p, const char *path);

/* Return the input of the head: the last hidden state, after the final norm. */
lm_value lm_program_hidden(const lm_program *p);

/* ---- operations (op.h) ---- */

/* The cost of one row. Terms that grow with the context are per visible key. */
typedef struct lm_cost {
    uint64_t mult_adds;          /* of matrix products */
    uint64_t flops;              /* all operations; a multiply-add counts as 2 */
    uint64_t key_mult_adds;      /* the same per key visible to the row */
    uint64_t key_flops;
    uint64_t reads, writes;      /* float32 activations */
    uint64_t weight_elements;    /* read for one row; look-ups: one row of the table; experts: those that the
                                    row is routed to */
    uint64_t sends;              /* float32 numbers sent to every other rank */
} lm_cost;

/* Compute the cost of one row of an operation. */
void lm_node_cost(const lm_program *p, const lm_node *n, lm_cost *out);

/* Return the operation of the head: the last product. Later operations only scale or cap the logits. */
uint32_t lm_program_head(const lm_program *p);

/* Return whether a value only decides a choice, of keys or (`routes`) of experts: no gradient passes through
 * it. */
bool lm_only_chooses(const lm_program *p, lm_value v, bool routes);

/* Return the total number of keys visible to t <= UINT32_MAX causal tokens, each to its own key and earlier
 * ones; `window` 0: all of these; `chunked`: lm_attention_spec. */
uint64_t lm_keys_seen(uint64_t t, uint64_t window, bool chunked);

/* Return the number of keys visible to the last of t tokens. */
uint64_t lm_keys_at(uint64_t t, uint64_t window, bool chunked);

/* The same for the keys of a node of attention or select_keys, entries included. */
uint64_t lm_node_keys_seen(const lm_node *n, uint64_t t);
uint64_t lm_node_keys_at(const lm_node *n, uint64_t t);

/* Return the size of one position, or entry, in one layer's cache, in elements and in bytes; how many of them
 * it holds after `positions`; and the type of its keys: entries are not stored in blocks. */
uint64_t lm_cache_elements(const lm_cache *c);
uint64_t lm_cache_bytes(const lm_cache *c, lm_cache_types types);
uint64_t lm_cache_held(const lm_cache *c, uint64_t positions);
lm_dtype lm_cache_key_type(const lm_cache *c, lm_cache_types types);

/* Return the bytes of `elements` elements of a type, in whole blocks. */
uint64_t lm_elements_bytes(uint64_t elements, lm_dtype type);

/* Return "f16", or the types of keys and of values: "q8_0/q4_0". */
enum { LM_CACHE_TYPES_NAME = 24 };
const char *lm_cache_types_name(lm_cache_types types, char out[LM_CACHE_TYPES_NAME]);

/* Return the number of positions of a sequence: `requested`; if that is 0, the model's context length, or
 * LM_DEFAULT_CONTEXT if it has none. */
#define LM_DEFAULT_CONTEXT 4096
uint32_t lm_program_context(const lm_program *p, uint32_t requested);

/* Return the first operation of a module at or after `from`, including nested modules; LM_NONE past the last.
 * The operations of a module that are not contiguous (kv_b_proj of latent attention) are those of the modules
 * around it with this module, or one in it, in lm_node.module. */
uint32_t lm_module_op(const lm_program *p, uint32_t module, uint32_t from);

/* Append one readable line per operation. */
void lm_program_print(const lm_program *p, lm_text *out);

/* Return the number of stored parameters (tied ones once, without constants): of the whole program, of the
 * part that is active for one token, and of one module. */
uint64_t lm_program_parameters(const lm_program *p);
uint64_t lm_program_active(const lm_program *p);          /* without experts that a token is not routed to */
uint64_t lm_module_parameters(const lm_program *p, uint32_t module);

/* Compute the slope of each head: m^(h+1) for the largest power of two of heads; the slopes of the others are
 * in between. */
void lm_alibi_slopes(const lm_attention_spec *s, float *out);

/* Compute row `position` of a sinusoidal table: out [width]. */
void lm_sinusoid_row(lm_sinusoid_layout layout, uint32_t position, uint32_t width, float *out);

#endif
