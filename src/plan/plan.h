/* plan.h - how a program will be run: steps, where every value lives, which kernel does what, and how many bytes it takes.
 *
 * A plan is arithmetic: it allocates nothing of what it describes and runs nothing, so the analyser and the executor read
 * the same one. Its sizes are exact: the executor allocates exactly these.
 *
 * Steps are grouped into stages. Within a stage the workers share the work and do not wait for each other; between stages
 * they do. What may be fused is fused (a residual into the product before it, a rotation into the buffer it reads) unless
 * the value in between is probed. */
#ifndef LM_PLAN_H
#define LM_PLAN_H

#include "kernels/kernels.h"
#include "program/program.h"

/* Query heads of one key/value head that one piece of attention work takes: many heads on one (MQA, latent attention)
 * are shared by the workers. */
#define LM_QUERY_HEADS 8

/* Forward passes of so few rows split attention by ranges of positions too, while there are fewer items a worker without. */
enum { LM_SPLIT_ROWS = 8, LM_SPLIT_ITEMS = 4 };

/* Items of a tile of rows: up to LM_QUERY_HEADS query heads of one key/value head. */
static inline uint32_t lm_attention_items(const lm_attention_spec *s)
{
    return s->n_kv_heads * ((s->n_heads / s->n_kv_heads + LM_QUERY_HEADS - 1) / LM_QUERY_HEADS);
}

/* As many items are not split. */
static inline uint32_t lm_unsplit_items(uint32_t workers)
{
    return workers > 1 ? LM_SPLIT_ITEMS * workers : 0;
}

static inline bool lm_attention_splits(const lm_attention_spec *s, uint32_t tiles, uint32_t workers)
{
    return (uint64_t)tiles * lm_attention_items(s) < lm_unsplit_items(workers);
}

typedef struct lm_plan_options {
    uint32_t          rows;              /* most rows in a forward pass */
    uint32_t          logit_rows;        /* most of them that want logits */
    uint32_t          sequences;
    uint32_t          context;           /* positions of a sequence */
    uint64_t          kv_positions;      /* in the cache, all sequences together; 0: context * sequences */
    uint32_t          rollback;          /* positions that windows remember longer than needed */
    lm_cache_types    cache;             /* LM_F16 LM_F32 LM_BF16 LM_Q8_0 LM_Q4_0 LM_Q4_1 LM_Q5_0 LM_Q5_1 */
    bool              exact;             /* float32 arithmetic, weights widened */
    bool              fine;              /* activations packed at their finest */
    bool              given;             /* no file has the weights: all are float32 in memory of our own */
    bool              no_repack;         /* matrices stay as the file has them where that is possible, and are packed on the way */
    uint32_t          workers;
    const lm_kernels *kernels;
    const lm_dtype   *types;             /* [n_weights]: how each weight is stored; those of adapters are float32 and not asked for */
    const bool       *transposed;        /* [n_weights]: stored [in, out] (LM_HEADS: each head's); NULL: none is */
    const lm_value   *probes;            /* values to keep for every row */
    uint32_t          n_probes;
} lm_plan_options;

/* Which rows a value exists for. Past the last attention only rows that want logits are computed. */
typedef enum lm_domain { LM_ALL_ROWS, LM_WANTED_ROWS } lm_domain;

typedef enum lm_step_code {
    LM_STEP_TABLE,               /* cosines and sines of a rotary table, for each row's position */
    LM_STEP_EMBED,
    LM_STEP_POSITION,            /* rows of a learned table, by position */
    LM_STEP_SINUSOID,
    LM_STEP_GATHER,              /* the wanted rows of a value, side by side */
    LM_STEP_RMS_NORM,
    LM_STEP_LAYER_NORM,
    LM_STEP_PACK,                /* activations as the matmul wants them */
    LM_STEP_MATMUL,
    LM_STEP_ROPE,
    LM_STEP_STORE,               /* keys and values into the cache */
    LM_STEP_ATTENTION,
    LM_STEP_ADD,
    LM_STEP_SCALE,
    LM_STEP_GLU,
    LM_STEP_ACT,
    LM_STEP_COLUMNS,             /* lanes of a fused value, side by side */
    LM_STEP_SOFTCAP,
    LM_STEP_CLAMP,
    LM_STEP_ROUTE,
    LM_STEP_SORT,                /* assignments (row, expert) in the order of experts */
    LM_STEP_DISPATCH,            /* packed rows in that order: each row once per expert that it is routed to */
    LM_STEP_EXPERTS,             /* each expert's product with the rows assigned to it */
    LM_STEP_COMBINE,             /* the weighted sum of a row's assignments */
    LM_STEP_HEADS,               /* each head's part of a row times its own matrix */
    LM_STEP_JOIN,                /* lanes of two values side by side, group by group */
    LM_STEP_EXCHANGE,            /* rows of a value to every other rank, and theirs here: rank by rank */
    LM_STEP_SEND,                /* rows of a value to one rank */
    LM_STEP_RECEIVE,             /* rows that one rank has sent */
    LM_STEP_RANK_SUM,            /* what came, added up in the order of ranks */
    LM_STEP_RANK_LANES,          /* what came, side by side in the order of ranks */
    LM_STEP_EDIT,                /* lanes changed: interventions */
    LM_STEP_GIVEN,               /* the caller's rows */
} lm_step_code;

/* How workers share a stage. */
typedef enum lm_split { LM_BY_ROWS, LM_BY_OUTPUTS, LM_BY_HEADS, LM_ALONE, LM_BETWEEN_RANKS } lm_split;

/* A piece of the slab: `stride` bytes a row. */
typedef struct lm_buffer {
    const char *name;            /* of the first value in it, for people */
    uint64_t    stride;
    uint64_t    rows;
    uint64_t    offset;          /* in the slab */
    uint32_t    first, last;     /* stages: born, last read; last = n_stages: kept until the next forward pass */
    lm_domain   domain;
} lm_buffer;

typedef struct lm_step {
    lm_step_code     code;
    uint32_t         node;       /* operation it serves; LM_NONE for tables */
    lm_domain        domain;
    uint32_t         in[3];      /* buffers; LM_NONE where unused */
    uint32_t         out;        /* buffer; LM_NONE: STORE */
    uint32_t         add;        /* MATMUL: buffer added to the product, or LM_NONE */
    float            scale;      /* MATMUL: of the product before adding */
    uint32_t         times;      /* rows of the domain this many times: assignments to experts; else 1 */
    uint32_t         width;      /* lanes of a row of the first input */
    uint32_t         adapter;    /* from 1: for the rows alone that have this adapter, others keep what `out` holds; else 0 */
    uint32_t         groups;     /* PACK: equal groups of a row, each packed by itself; else 1 */
    uint32_t         weight;     /* MATMUL, EXPERTS, EMBED, POSITION */
    uint32_t         table;      /* TABLE, ROPE: rotary table */
    const lm_matmul *matmul;     /* MATMUL, PACK, EMBED */
} lm_step;

typedef struct lm_stage {
    lm_split  split;
    lm_domain domain;
    uint32_t  times;             /* as the steps' */
    uint32_t  first, end;        /* steps */
} lm_stage;

/* How a weight is kept. Those of adapters are never mapped. */
typedef enum lm_placement_kind { LM_MAPPED, LM_PACKED, LM_FLOATS, LM_TRANSPOSED, LM_COPIED } lm_placement_kind;

typedef struct lm_placement {
    lm_placement_kind kind;      /* in the file; packed for its kernel; float32; as stored but transposed; a rank's part, as stored */
    lm_dtype          type;      /* as stored, but for blocks that had to be transposed */
    uint64_t          offset;    /* in the weights region; 0 when mapped */
    uint64_t          bytes;     /* there, or in the file */
    uint64_t          row_bytes; /* matrices: of a row as stored */
    const lm_matmul  *matmul;    /* matrices and tables */
} lm_placement;

/* Rotary tables that a model may have: one for each way of rotating its layers. */
#define LM_MAX_TABLES 8

/* Attention layers that see the same keys share page tables. */
typedef struct lm_kv_group {
    uint32_t window;             /* 0: everything */
    uint32_t pages_per_sequence; /* entries of a page table */
    uint64_t n_pages;
    uint64_t page_bytes;         /* all layers of the group */
    uint64_t offset;             /* of page 0 in the cache region */
} lm_kv_group;

typedef struct lm_kv_layer {
    uint32_t    group;
    uint64_t    offset;          /* of this layer in a page */
    lm_kv_shape shape;
    uint32_t    ranges;          /* most that LM_SPLIT_ROWS rows see */
} lm_kv_layer;

/* Bookkeeping of the executor, in the slab too. Offsets in bytes. */
typedef struct lm_plan_state {
    uint64_t positions, sequences, tokens, lengths;  /* u32 [rows] each */
    uint64_t wanted;                                 /* u32 [logit_rows]: row numbers */
    uint64_t logit_index;                            /* u32 [rows]: place among the wanted, or LM_NONE */
    uint64_t seq_length, seq_next;                   /* u32 [sequences]: positions held; after this forward pass */
    uint64_t page_tables;                            /* u32, group by group [sequences][pages_per_sequence] */
    uint64_t page_uses;                              /* u32, group by group [n_pages] */
    uint64_t page_free;                              /* u32, group by group [n_pages]: a stack */
    uint64_t frequencies;                            /* f32, table by table [2][dim/2]: short and long */
    uint64_t adapters;                               /* f32, adapter by adapter [rows]: its scale for each row */
    uint64_t seq_adapters;                           /* f32 [sequences][adapters]: for each sequence */
    uint64_t slopes;                                 /* f32, cache by cache [n_heads]: ALiBi */
    uint64_t ranges_done;                            /* u32 [lm_unsplit_items(workers)] */
    uint64_t partials;                               /* of attention that is split: [rows][n_heads][ranges] */
    uint64_t workers;                                /* [workers][worker_bytes] */
    uint64_t worker_bytes;
} lm_plan_state;

typedef struct lm_plan {
    const lm_program *program;
    lm_plan_options   options;           /* with defaults filled in; pointers of the caller */
    const lm_attention_kernels *attention;   /* of options.kernels: float32, or the fast ones */
    lm_buffer        *buffers;           uint32_t n_buffers;
    lm_step          *steps;             uint32_t n_steps;
    lm_stage         *stages;            uint32_t n_stages;
    lm_placement     *weights;           /* [n_weights] */
    lm_kv_group      *groups;            uint32_t n_groups;
    lm_kv_layer      *layers;            /* [n_caches] */
    uint32_t         *value_buffer;      /* [n_values]: LM_NONE when fused away */
    uint32_t          table_buffer[LM_MAX_TABLES];   /* per rotary table: cosines then sines */
    lm_plan_state     state;
    uint32_t          logits;            /* buffer */
    uint64_t          weight_bytes;      /* region of our own */
    uint64_t          mapped_bytes;      /* read from the file in place */
    uint64_t          kv_bytes;
    uint64_t          slab_bytes;        /* values, bookkeeping, worker scratch */
    lm_arena          arena;
} lm_plan;

/* Bytes of a row of what rank r sends in an exchange, as buffers have it. */
static inline uint64_t lm_rank_stride(const lm_program *p, const lm_node *n, uint32_t r)
{
    uint64_t lanes = n->exchange.widths ? n->exchange.widths[r] : p->values[n->out].width;

    return (lanes * sizeof(float) + 63) & ~UINT64_C(63);
}

/* LM_USAGE where the model has no such positions: learned ones end. The only rule about how long a context may be. */
lm_status lm_plan_context(const lm_program *p, uint32_t context, lm_error *e);

/* LM_USAGE for options that make no sense, LM_UNSUPPORTED for what no kernel can do. */
lm_status lm_plan_new(const lm_program *p, const lm_plan_options *o, lm_plan **out, lm_error *e);
void      lm_plan_free(lm_plan *p);

/* The plan that lm_plan_new would make for another context and other types of cache, everything else as in `from`, whose
 * steps it shares: `from` must outlive it. Costs a page, not a compilation. */
lm_status lm_plan_resized(const lm_plan *from, uint32_t context, lm_cache_types cache, lm_plan **out, lm_error *e);

/* Stages, steps, buffers and sizes, readably. */
void lm_plan_print(const lm_plan *p, lm_text *out);

const char *lm_step_name(lm_step_code code);

#endif
