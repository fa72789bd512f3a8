/* program.h - a model as a list of named operations.
 *
 * Everything about a model's structure is here and nothing about files or kernels: the engine plans and runs this list,
 * the analyser counts it, the tracer probes it by path. Programs are immutable once built.
 *
 * Values are [T][width] float32: T rows, each the next token of some sequence. Every operation but attention treats rows
 * alike, so a row is any mix of sequences and positions. Letters (T D H G K F V …): docs/study/glossary.md. */
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

#define LM_MAX_INPUTS  4
#define LM_MAX_WEIGHTS 6
#define LM_MAX_EXPERTS 4096
#define LM_MAX_GROUPS  64
#define LM_NONE        UINT32_MAX

typedef uint32_t lm_value;       /* an index into program.values */

/* What a weight is, which decides how it may be kept. */
typedef enum lm_weight_kind {
    LM_MATRIX,                   /* [out, in]: multiplied */
    LM_TABLE,                    /* [rows, width]: looked up by row (and multiplied, when the head is tied to it) */
    LM_VECTOR,                   /* [n]: norms, biases, slopes: always float32 in memory */
    LM_EXPERTS,                  /* [experts, out, in]: one matrix for each expert; '*' in its path is the expert's number */
    LM_HEADS,                    /* [heads, out, in]: one matrix for each head; see lm_joint */
} lm_weight_kind;

/* How the matrices of LM_HEADS are stored. Checkpoints keep several kinds of a head together: a matrix of `heads` groups of
 * `of` rows, of which this weight is the rows [first, first + n). Some GGUF files keep each kind in a tensor of its own. */
typedef struct lm_joint {
    const char *path, *gguf;     /* of the whole matrix; gguf NULL: GGUF has no such */
    uint32_t    first, n, of;
    bool        transposed;      /* what is used is the transpose of these rows: n is `in`, not `out` */
    bool        alone_transposed;/* and of what the tensor of its own (weight.gguf) holds */
} lm_joint;

/* How folders keep weights of experts that the program knows apart: in one tensor [experts, of, in], of whose rows this one is
 * first, first + step … (a vector: [experts, of]). In four bits, codes [experts, of, in/32, 16] and exponents [experts, of, in/32]
 * are tensors of their own. GGUF keeps each weight alone. */
typedef struct lm_interleaved {
    const char *path, *codes, *exponents;    /* path NULL: not so */
    uint32_t    first, step, of;
    bool        transposed;      /* stored [experts, in, of] */
} lm_interleaved;

/* A run of rows, lanes or matrices. */
typedef struct lm_piece {
    uint64_t first, n;
} lm_piece;

/* The part of a stored weight that one rank of a split program holds (program/split.h). Vectors of one dimension are rows of one column;
 * of a weight of several matrices the rows and columns are those of each. */
typedef struct lm_cut {
    uint64_t        whole[3];    /* dimensions as stored */
    const lm_piece *rows;        /* in the order in which they are held; one row may be there twice */
    uint32_t        n_rows;
    lm_piece        cols;
    lm_piece        matrices;
} lm_cut;

typedef struct lm_weight {
    const char    *path;         /* "model.layers.0.self_attn.q_proj.weight": its name in a Hugging Face checkpoint */
    const char    *gguf;         /* "blk.0.attn_q.weight"; NULL: GGUF has none */
    lm_weight_kind kind;
    uint32_t       n_dims;
    uint64_t       dims[3];      /* outermost first */
    uint64_t       elements;
    uint32_t       uses;         /* operations that read it; 2 for a tied embedding */
    uint32_t       adapter;      /* from 1: of an adapter (lm_node.adapter), not in the model's file */
    bool           constant;     /* not a parameter (rotary factors stored by GGUF): not counted */
    bool           gguf_only;    /* only that container stores it */
    bool           transposed;   /* Hugging Face checkpoints store [in, out] (Conv1D) */
    bool           plus_one;     /* Hugging Face checkpoints store w - 1 */
    lm_joint       joint;        /* of LM_HEADS */
    lm_interleaved interleaved;  /* of LM_EXPERTS and their biases */
    const lm_cut  *cut;          /* NULL: the whole of it */
} lm_weight;

/* Matrices that a weight holds, one after another: of experts or heads; any other is one. */
static inline uint64_t lm_weight_matrices(const lm_weight *w)
{
    return w->kind == LM_EXPERTS || w->kind == LM_HEADS ? w->dims[0] : 1;
}

/* A module as transformers would print it: the tree of paths. */
typedef struct lm_module {
    const char *name;            /* "q_proj" */
    const char *path;            /* "model.layers.0.self_attn.q_proj" */
    const char *class_name;      /* "Linear" */
    const char *says;            /* what its print says beside its sizes: "padding_idx=0"; NULL: nothing */
    const char *order;           /* names of its children as they are made, which prints follow; "*": all others, as they run */
    uint32_t    parent;          /* LM_NONE for the root */
    uint32_t    depth;
    int32_t     layer;           /* decoder layer it belongs to, -1 outside the stack */
    uint32_t    first_op, end_op;    /* its operations, nested ones included; none: see lm_module_op */
    lm_value    in, out;         /* LM_NONE when it computes nothing of its own */
    bool        by_position;     /* transformers hands it its input without a keyword: tools that watch calls see its shape */
} lm_module;

typedef enum lm_op_code {
    LM_OP_EMBED,                 /* ids -> [T][D], rows of a table */
    LM_OP_POSITION,              /* positions -> [T][D], rows of a learned table */
    LM_OP_SINUSOID,              /* positions -> [T][D], sines and cosines */
    LM_OP_LINEAR,                /* x W^T + b */
    LM_OP_RMS_NORM,
    LM_OP_LAYER_NORM,
    LM_OP_ROPE,                  /* rotate heads by position */
    LM_OP_ATTENTION,             /* q, k, v and this layer's cache -> [T][H Kv] */
    LM_OP_ADD,
    LM_OP_SCALE,
    LM_OP_GLU,                   /* act(gate) * up */
    LM_OP_ACT,                   /* act(x) */
    LM_OP_COLUMNS,               /* some lanes of each of some equal groups, side by side */
    LM_OP_SOFTCAP,               /* cap tanh(x / cap) */
    LM_OP_CLAMP,                 /* to [-limit, limit] */
    LM_OP_ROUTE,                 /* router logits -> [T][2k]: weights of the chosen experts, then their numbers */
    LM_OP_EXPERTS,               /* x and routes -> the weighted sum of gated MLPs */
    LM_OP_HEAD_LINEAR,           /* each head's part of x, or all of x, times a matrix of the head's own */
    LM_OP_JOIN,                  /* lanes of two values side by side, group by group */
    LM_OP_ALL_REDUCE,            /* the sum over all ranks, in the order of ranks */
    LM_OP_ALL_GATHER,            /* lanes of all ranks side by side, in the order of ranks */
    LM_OP_SEND,                  /* to the rank that has the next layers; here it is the same value still */
    LM_OP_RECEIVE,               /* what the rank of the layers before has sent */
    LM_OP_EDIT,                  /* a value with some of its lanes changed: an intervention */
    LM_OP_GIVEN,                 /* rows that the caller has: the beginning of a program that is the end of another one */
    LM_OP_COUNT
} lm_op_code;

/* Scores, mask and cache of one attention. */
typedef struct lm_attention_spec {
    uint32_t n_heads, n_kv_heads;
    uint32_t k_dim, v_dim;       /* of one head */
    float    scale;              /* of q.k; 1/sqrt(k_dim) unless the model says otherwise */
    uint32_t window;             /* keys visible, the query's own included; 0: all */
    float    softcap;            /* 0: none */
    float    alibi;              /* the largest bias of ALiBi (arXiv 2108.12409); 0: no bias */
    bool     alibi_half;         /* the bias of key j is slope j, both and the product rounded to bfloat16, and it
                                    is added before the scale */
    bool     sinks;              /* a learned score without a value for each head takes part in the softmax */
    bool     v_in_k;             /* values are the first v_dim lanes of the keys: there is no third input, the cache holds keys */
    uint32_t first_head, all_heads;      /* of the model's heads, those that are here: what slopes depend on; 0, 0: all of them */
} lm_attention_spec;

/* Which experts a token is routed to, and how much each counts. */
typedef struct lm_route_spec {
    uint32_t n_experts, top_k;
    bool     sigmoid;            /* scores are sigmoids; else a softmax over all experts */
    bool     renormalise;        /* the chosen weights are divided by their sum */
    uint32_t n_groups, top_groups;       /* experts in equal groups of which only the best are open; 0: no groups */
    bool     group_sum_two;      /* a group counts as the sum of its best two, else as its best */
    float    scale;              /* of the weights; 1 without effect */
} lm_route_spec;

/* How sinusoidal positions lie in a row. */
typedef enum lm_sinusoid_layout {
    LM_SINUSOID_PAIRS,           /* sin, cos, sin, cos …: frequencies base^(-2i/D)        (arXiv 1706.03762) */
    LM_SINUSOID_HALVES,          /* sines, then cosines, of the same frequencies           (arXiv 1909.05858) */
    LM_SINUSOID_SPREAD,          /* sines, then cosines: frequencies base^(-i/(D/2 - 1))   (tensor2tensor, fairseq) */
} lm_sinusoid_layout;

typedef struct lm_node {
    lm_op_code  code;
    const char *path;            /* module path, or the parent's path with a word for what it does ("….mlp.glu") */
    uint32_t    module;
    int32_t     layer;           /* -1 outside the stack */
    uint32_t    adapter;         /* from 1: of an adapter, for the rows alone that have it (adapt.h); 0: of the model itself */
    uint32_t    n_in;
    lm_value    in[LM_MAX_INPUTS];
    lm_value    out;
    uint32_t    weights[LM_MAX_WEIGHTS];   /* LM_NONE where absent; the meaning of each is the operation's */
    union {
        /* groups: normalise each of that many equal parts alone, all with one weight or each with its own. */
        struct { float eps; uint32_t groups; bool own; } norm;
        struct { uint32_t table, n_heads, head_dim; } rope;  /* table: index into program.ropes */
        struct { lm_attention_spec spec; uint32_t cache; } attention;
        struct { float factor; } scale;      /* of SCALE; the cap of SOFTCAP; the limit of CLAMP */
        struct { lm_act act; } glu;          /* of GLU and ACT */
        struct { uint32_t offset; lm_sinusoid_layout layout; } position;     /* row = position + offset */
        struct { lm_route_spec spec; } route;                /* weights[0]: correction added for the choice only, or none */
        /* weights: gate, up, down [E][…], then biases or none; limit: of the gates, see lm_expert_spec. */
        struct { uint32_t n_experts, top_k, width; lm_act act; float limit; } experts;
        struct { uint32_t groups, offset; } columns;         /* of each group, the lanes from `offset` on */
        struct { uint32_t n_heads; bool shared; } heads;     /* shared: every head reads all of x */
        struct { uint32_t groups; bool shared; } join;       /* shared: all groups get the same second part */
        struct { uint32_t ranks, rank; const uint32_t *widths; } exchange;   /* widths [ranks]: the lanes that each has */
        struct { uint32_t peer; bool wanted; } message;      /* wanted: of rows that want logits alone; else of every row */
        struct { const struct lm_edit *list; uint32_t n; } edits;    /* in this order */
    };
} lm_node;

typedef struct lm_value_info {
    uint32_t width;
    uint32_t producer;           /* operation */
} lm_value_info;

/* What one attention layer keeps of every position. */
typedef struct lm_cache {
    int32_t  layer;
    uint32_t n_kv_heads, k_dim, v_dim;
    uint32_t window;
    bool     v_in_k;             /* nothing is kept for values */
    bool     elsewhere;          /* on another rank: nothing is kept here, pages are counted all the same */
} lm_cache;

/* How it is kept. A latent, whose values are in the keys, is of the type of keys. */
typedef struct lm_cache_types {
    lm_dtype k, v;
} lm_cache_types;

/* A rotary table: the frequencies that some operations share. */
typedef struct lm_rope_table {
    lm_rope_spec spec;
    uint32_t     divisors;       /* weight [dim/2] that divides the frequencies (GGUF rope_freqs), or LM_NONE */
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
    lm_rope_table *ropes;        uint32_t n_ropes;
    lm_value       logits;
    uint32_t       n_layers, n_vocab;
    uint32_t       n_adapters;           /* attached by lm_program_adapt */
    uint32_t       context_length;       /* advertised; 0: unbounded */
    bool           context_is_hard;      /* positions beyond it do not exist (learned positions) */
    lm_arena       arena;
} lm_program;

void lm_program_free(lm_program *p);

/* The weight / module / value at a path; LM_NONE when there is none. A value is found by the module that outputs it or by
 * the operation's own path. */
uint32_t lm_program_weight(const lm_program *p, const char *path);
uint32_t lm_program_module(const lm_program *p, const char *path);
lm_value lm_program_value(const lm_program *p, const char *path);

/* What the head reads: the last hidden state, after the final norm. */
lm_value lm_program_hidden(const lm_program *p);

/* ---- what an operation is ---- */

/* The cost of one row. Terms that grow with the context are per key visible. */
typedef struct lm_cost {
    uint64_t mult_adds;          /* of matrix products */
    uint64_t flops;              /* everything, a multiply-add counted as 2 */
    uint64_t key_mult_adds;      /* the same for each key that the row sees */
    uint64_t key_flops;
    uint64_t reads, writes;      /* float32 activations */
    uint64_t weight_elements;    /* read for one row; look-ups: one row of the table, experts: those routed to */
    uint64_t sends;              /* float32 that go to every other rank */
} lm_cost;

typedef struct lm_op {
    const char *name;                                        /* "rms_norm" */
    const char *weights[LM_MAX_WEIGHTS];                     /* parameter names in order, NULL past the last */
    void      (*cost)(const lm_program *p, const lm_node *n, lm_cost *out);
    /* Attributes, readably: "eps 1e-05", "24 heads of 128, 8 kv"; appended to a buffer. */
    void      (*describe)(const lm_program *p, const lm_node *n, lm_text *out);
} lm_op;

const lm_op *lm_op_of(lm_op_code code);

void lm_node_cost(const lm_program *p, const lm_node *n, lm_cost *out);

/* The head: the last product. What follows it only scales or caps the logits. Its operation. */
uint32_t lm_program_head(const lm_program *p);

/* Keys that t <= UINT32_MAX causal tokens see together, each its own and those before it; `window` 0: all of them. */
uint64_t lm_keys_seen(uint64_t t, uint64_t window);

/* What one layer's cache keeps of one position: elements; and in bytes. */
uint64_t lm_cache_elements(const lm_cache *c);
uint64_t lm_cache_bytes(const lm_cache *c, lm_cache_types types);

/* Bytes of so many elements, whole blocks of a type. */
uint64_t lm_elements_bytes(uint64_t elements, lm_dtype type);

/* "f16", or of keys and of values: "q8_0/q4_0". */
enum { LM_CACHE_TYPES_NAME = 24 };
const char *lm_cache_types_name(lm_cache_types types, char out[LM_CACHE_TYPES_NAME]);

/* Positions of a sequence when somebody asks for `asked`; 0: as many as the model has, LM_DEFAULT_CONTEXT where it does not say. */
#define LM_DEFAULT_CONTEXT 4096
uint32_t lm_program_context(const lm_program *p, uint32_t requested);

/* The first operation of a module at or after `from`, nested modules included; LM_NONE past the last. A module whose products
 * stand apart, with others between them (kv_b_proj of latent attention), has those of its parent's that name it (lm_node.module). */
uint32_t lm_module_op(const lm_program *p, uint32_t module, uint32_t from);

/* One line per operation, for people. */
void lm_program_print(const lm_program *p, lm_text *out);

/* Parameters stored (tied ones once, constants not counted), and of one weight kind or module. */
uint64_t lm_program_parameters(const lm_program *p);
uint64_t lm_program_active(const lm_program *p);          /* without experts that a token is not routed to */
uint64_t lm_module_parameters(const lm_program *p, uint32_t module);

/* The slope of each head: m^(h+1) for the largest power of two of heads, the others in between. */
void lm_alibi_slopes(const lm_attention_spec *s, float *out);

/* Row `position + offset` of a sinusoidal table: out [width]. */
void lm_sinusoid_row(lm_sinusoid_layout layout, uint32_t position, uint32_t width, float *out);

#endif
