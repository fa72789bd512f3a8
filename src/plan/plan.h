/* plan.h - how a program is run: its steps, the memory of every value, the kernel of every step, and the
 * bytes needed.
 *
 * A plan is pure arithmetic: it allocates nothing of what it describes and runs nothing, so the analyser and
 * the executor use the same plan. Its sizes are exact: the executor allocates exactly these.
 *
 * Steps are grouped into stages. Within a stage the workers share the work and do not wait for each other;
 * between stages they do. Steps are fused where possible (a residual into the product before it, a rotation
 * into the buffer it reads) unless the value in between is probed. */
#ifndef LM_PLAN_H
#define LM_PLAN_H

#include "kernels/kernels.h"
#include "program/program.h"

/* Maximum query heads of one key/value head in one work item of attention: if many query heads share one
 * (MQA, latent attention), they are divided among the workers. */
#define LM_QUERY_HEADS 8

/* Forward passes of up to LM_SPLIT_ROWS rows also split attention by ranges of positions, if there would be
 * fewer than LM_SPLIT_ITEMS items per worker otherwise. */
enum { LM_SPLIT_ROWS = 8, LM_SPLIT_ITEMS = 4 };

/* Return the number of work items of a tile of rows, each of up to LM_QUERY_HEADS query heads of one
 * key/value head. */
static inline uint32_t lm_attention_items(const lm_attention_spec *s)
{
    return s->n_kv_heads * ((s->n_heads / s->n_kv_heads + LM_QUERY_HEADS - 1) / LM_QUERY_HEADS);
}

/* Return the number of items from which attention is not split by ranges. */
static inline uint32_t lm_unsplit_items(uint32_t workers)
{
    return workers > 1 ? LM_SPLIT_ITEMS * workers : 0;
}

static inline bool lm_attention_splits(const lm_attention_spec *s, uint32_t tiles, uint32_t workers)
{
    return (uint64_t)tiles * lm_attention_items(s) < lm_unsplit_items(workers);
}

/* Return whether sparse attention chooses whole pages of the cache, which need not be copied. */
static inline bool lm_chooses_pages(const lm_attention_spec *s)
{
    return s->block && s->block % LM_PAGE == 0;
}

typedef struct lm_plan_options {
    uint32_t          max_rows;          /* maximum rows in a forward pass */
    uint32_t          max_logits;        /* maximum of these rows for which logits are requested */
    uint32_t          sequences;
    uint32_t          context;           /* positions of a sequence */
    uint64_t          kv_positions;      /* positions in the cache, for all sequences together; 0: context *
                                            sequences */
    uint32_t          rollback;          /* additional positions that windows keep, so that a sequence can be
                                            rolled back */
    uint32_t          checkpoints;       /* windows before earlier positions that the cache has pages for */
    lm_cache_types    cache;             /* LM_F16 LM_F32 LM_BF16 LM_Q8_0 LM_Q4_0 LM_Q4_1 LM_Q5_0 LM_Q5_1 */
    bool              exact;             /* float32 arithmetic, weights widened */
    bool              fine;              /* activations are packed at the highest precision */
    bool              caller_weights;    /* weights are not in a file: all are float32 in allocated memory */
    bool              no_repack;         /* matrices keep the layout of the file if possible, and are packed
                                            on the fly */
    uint32_t          workers;
    const lm_kernels *kernels;
    const lm_dtype   *types;             /* [n_weights]: stored type of each weight; not read for adapters,
                                            which are float32 */
    const bool       *transposed;        /* [n_weights]: stored as [in, out] (LM_HEADS: each head's matrix);
                                            NULL: none */
    const lm_value   *probes;            /* values that are kept for every row */
    uint32_t          n_probes;
} lm_plan_options;

/* The rows for which a value exists. After the last attention, only rows for which logits are requested are
 * computed. */
typedef enum lm_domain { LM_ALL_ROWS, LM_WANTED_ROWS } lm_domain;

typedef enum lm_step_code {
    LM_STEP_TABLE,               /* cosines and sines of a rotary table, for each row's position */
    LM_STEP_ROWS,                /* an operation on single rows, which has no other steps */
    LM_STEP_GATHER,              /* the wanted rows of a value, contiguous */
    LM_STEP_PACK,                /* activations in the layout of the matmul */
    LM_STEP_MATMUL,
    LM_STEP_STORE,               /* keys and values into the cache */
    LM_STEP_KEEP,                /* entries of whole blocks into their cache */
    LM_STEP_ATTENTION,
    LM_STEP_SELECT,              /* the choice of the keys of sparse attention */
    LM_STEP_STATE,               /* an operation with a state: rows in order, lanes divided */
    LM_STEP_SORT,                /* assignments (row, expert) in the order of experts */
    LM_STEP_DISPATCH,            /* packed rows in that order: each row once per expert that it is routed
                                    to */
    LM_STEP_EXPERTS,             /* each expert's product with the rows assigned to it */
    LM_STEP_GATED,               /* act(gate) * up of each assignment, both times its weight if that is of the
                                    input */
    LM_STEP_COMBINE,             /* the weighted sum of a row's assignments */
    LM_STEP_HEADS,               /* each head's part of a row times its own matrix */
    LM_STEP_EXCHANGE,            /* send rows of a value to every other rank and receive theirs, stored rank
                                    by rank */
    LM_STEP_SEND,                /* send rows of a value to one rank */
    LM_STEP_RECEIVE,             /* receive rows from one rank */
    LM_STEP_RANK_SUM,            /* the exchanged rows, added in the order of ranks */
    LM_STEP_RANK_LANES,          /* the exchanged rows, concatenated in the order of ranks */
} lm_step_code;

/* How workers share a stage. */
typedef enum lm_split {
    LM_BY_ROWS,
    LM_BY_OUTPUTS,
    LM_BY_HEADS,
    LM_BY_LANES,
    LM_ALONE,
    LM_BETWEEN_RANKS,
} lm_split;

/* A piece of the slab: `stride` bytes per row. */
typedef struct lm_buffer {
    const char *name;            /* of the first value in it, for display */
    uint64_t    stride;
    uint64_t    rows;
    uint64_t    offset;          /* in the slab */
    uint32_t    first, last;     /* stages of first and last use; last = n_stages: kept until the next forward
                                    pass */
    lm_domain   domain;
} lm_buffer;

typedef struct lm_step {
    lm_step_code     code;
    uint32_t         node;       /* operation it serves; LM_NONE for tables */
    lm_domain        domain;
    uint32_t         in[LM_MAX_INPUTS];      /* buffers; LM_NONE if unused */
    uint32_t         out;        /* buffer; LM_NONE: STORE */
    uint32_t         add;        /* MATMUL: buffer added to the product, or LM_NONE */
    float            scale;      /* MATMUL: of the product before adding */
    uint32_t         times;      /* assignments to experts per row of the domain; else 1 */
    uint32_t         width;      /* lanes of a row of the first input */
    uint32_t         adapter;    /* from 1: only for rows with this adapter, others leave `out` unchanged;
                                    else 0 */
    uint32_t         groups;     /* PACK: equal groups of a row, each packed separately; else 1 */
    uint32_t         weight;     /* MATMUL, EXPERTS; ROWS: of a table */
    uint32_t         table;      /* TABLE: rotary table */
    const lm_matmul *matmul;     /* MATMUL, PACK; ROWS: of a table */
} lm_step;

typedef struct lm_stage {
    lm_split  split;
    lm_domain domain;
    uint32_t  times;             /* that of the steps */
    uint32_t  first, end;        /* steps */
} lm_stage;

/* How a weight is stored in memory. Weights of adapters are never mapped. */
typedef enum lm_placement_kind {
    LM_MAPPED,
    LM_PACKED,
    LM_FLOATS,
    LM_TRANSPOSED,
    LM_COPIED
} lm_placement_kind;

typedef struct lm_placement {
    lm_placement_kind kind;      /* mapped file; packed for its kernel; float32; as stored, transposed; a
                                    rank's part, as stored */
    lm_dtype          type;      /* the stored type, except for blocks that had to be transposed */
    uint64_t          offset;    /* in the weights region; 0 if mapped */
    uint64_t          bytes;     /* in the weights region, or in the file */
    uint64_t          row_bytes; /* matrices: bytes of a row as stored */
    const lm_matmul  *matmul;    /* matrices and tables */
} lm_placement;

/* Maximum number of rotary tables of a model: one for each kind of rotation in its layers. */
#define LM_MAX_TABLES 8

/* Attention layers to which the same keys are visible share page tables, and all states do.
 *
 * A page of states holds the states after a position: entry i of a page table, those after the last position
 * that the sequence holds in page i of its positions. A step reads one page of a sequence and writes another,
 * so a step that fails changes nothing. A sequence keeps the states after its last position, and those at the
 * end of its last full page, if a step has ended there: a later sequence can continue from them. */
typedef struct lm_kv_group {
    bool     states;
    uint32_t window;             /* 0: all keys */
    bool     chunked;            /* lm_attention_spec */
    uint32_t pages_per_sequence; /* entries of a page table */
    uint64_t n_pages;
    uint64_t page_bytes;         /* for all layers of the group */
    uint64_t offset;             /* of page 0 in the cache region */
} lm_kv_group;

typedef struct lm_kv_layer {
    uint32_t    group;
    uint64_t    offset;          /* of this layer's part in a page */
    lm_kv_shape shape;
    uint32_t    rate;            /* > 0: entries, as rows of their type: lm_entry_slots in a page */
    uint32_t    ranges;          /* maximum number of ranges visible to LM_SPLIT_ROWS rows */
} lm_kv_layer;

/* Entries that are stored together as keys: fewer would write the same cache lines again. */
enum { LM_ENTRY_ROWS = 16 };

/* Return how many blocks end before a position; and the number of entries that a page of positions has room
 * for. An entry is in the page of the last position of its block. */
static inline uint32_t lm_entries_before(uint32_t rate, uint32_t position)
{
    return position / rate;
}

static inline uint32_t lm_entry_slots(uint32_t rate)
{
    return (LM_PAGE + rate - 1) / rate;
}

/* Bookkeeping of the executor, which is also in the slab. Offsets in bytes. */
typedef struct lm_plan_state {
    uint64_t positions, sequences, tokens, lengths;  /* u32 [rows] each */
    uint64_t wanted;                                 /* u32 [max_logits]: row indices */
    uint64_t logit_index;                            /* u32 [rows]: index among the wanted rows, or LM_NONE */
    uint64_t seq_length, seq_next;                   /* u32 [sequences]: number of positions; the same after
                                                        this forward pass */
    uint64_t page_tables;                            /* u32, group by group [sequences][pages_per_sequence] */
    uint64_t page_uses;                              /* u32, group by group [n_pages] */
    uint64_t page_free;                              /* u32, group by group [n_pages]: a stack */
    uint64_t page_before;                            /* u32 [sequences]: pages of states that a step reads */
    uint64_t length_before;                          /* u32 [sequences]: the positions before it */
    uint64_t frequencies;                            /* f32, table by table [2][dim/2]: short and long */
    uint64_t adapters;                               /* f32, adapter by adapter [rows]: its scale per row */
    uint64_t seq_adapters;                           /* f32 [sequences][adapters]: scales per sequence */
    uint64_t slopes;                                 /* f32, cache by cache [n_heads]: ALiBi */
    uint64_t ranges_done;                            /* u32 [lm_unsplit_items(workers)] */
    uint64_t scores, score_bytes;        /* of select_keys: of each of max(LM_SPLIT_ROWS, workers) rows, f32
                                            [choices][context], whole pages */
    uint64_t gathered, gathered_bytes;   /* of sparse attention: page numbers, then the chosen keys and values
                                            as pages, for each worker */
    uint64_t partials;                               /* partial results of split attention:
                                                        [rows][n_heads][ranges] */
    uint64_t workers;                                /* [workers][worker_bytes] */
    uint64_t worker_bytes;
} lm_plan_state;

typedef struct lm_plan {
    const lm_program *program;
    lm_plan_options   options;           /* with defaults filled in; pointers are owned by the caller */
    const lm_attention_kernels *attention;   /* of options.kernels: in float32, or the fast ones */
    lm_buffer        *buffers;           uint32_t n_buffers;
    lm_step          *steps;             uint32_t n_steps;
    lm_stage         *stages;            uint32_t n_stages;
    lm_placement     *weights;           /* [n_weights] */
    lm_kv_group      *groups;            uint32_t n_groups;
    lm_kv_layer      *layers;            /* [n_caches] */
    uint64_t         *states;            /* [n_states]: offset of each in a page of states */
    uint32_t          state_group;       /* the last one; n_groups: no operation has a state */
    uint32_t         *value_buffer;      /* [n_values]: LM_NONE if fused away */
    uint32_t          table_buffer[LM_MAX_TABLES];   /* per rotary table: cosines then sines */
    lm_plan_state     state;
    uint32_t          logits;            /* buffer */
    uint64_t          weight_bytes;      /* of the weights region, which is allocated */
    uint64_t          mapped_bytes;      /* read from the file in place */
    uint64_t          kv_bytes;
    uint64_t          slab_bytes;        /* values, bookkeeping, worker scratch */
    lm_arena          arena;
} lm_plan;

/* Return the maximum number of pages that a sequence holds between forward passes. */
uint64_t lm_kv_sequence_pages(const lm_plan *plan, const lm_kv_group *g);

/* Return the bytes of a layer's part of a page. */
uint64_t lm_plan_page_bytes(const lm_plan *plan, const lm_kv_layer *l);

/* Return the number of further pages that the rows of a forward pass take in a windowed group. */
uint64_t lm_kv_step_pages(const lm_plan *plan, const lm_kv_group *g);

/* Return whether a step is an operation of this kind on single rows. */
static inline bool lm_step_is(const lm_program *p, const lm_step *s, lm_op_code code)
{
    return s->code == LM_STEP_ROWS && p->nodes[s->node].code == code;
}

/* Return the bytes per row, in buffers, of the lanes that rank r sends in an exchange. */
static inline uint64_t lm_rank_stride(const lm_program *p, const lm_node *n, uint32_t r)
{
    uint64_t lanes = n->exchange.widths ? n->exchange.widths[r] : p->values[n->out].width;

    return (lanes * sizeof(float) + 63) & ~UINT64_C(63);
}

/* Check the length of a context. LM_USAGE if the model does not have so many positions, which happens only
 * with learned ones. There is no other limit on the context. */
lm_status lm_plan_context(const lm_program *p, uint32_t context, lm_error *e);

/* Make a plan. LM_USAGE for invalid options, LM_UNSUPPORTED for operations that no kernel supports. `p` must
 * outlive the plan. */
lm_status lm_plan_new(const lm_program *p, const lm_plan_options *o, lm_plan **out, lm_error *e);
void      lm_plan_free(lm_plan *p);

/* Make the plan that lm_plan_new would make for another context and other cache types, with all other options
 * of `from`. It shares the steps of `from`, which must outlive it. It takes about a page of memory and no
 * compilation. */
lm_status lm_plan_resized(const lm_plan *from, uint32_t context, lm_cache_types cache, lm_plan **out,
                          lm_error *e);

/* Append the stages, steps, buffers and sizes in readable form. */
void lm_plan_print(const lm_plan *p, lm_text *out);

#endif
