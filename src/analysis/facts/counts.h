/* counts.h - what a program costs, counted from the operations that run.
 *
 * What a context or a batch multiplies is kept in 128 bits. Both are at most UINT32_MAX, a layer costs less than 2^40 for a key
 * and 2^52 for a token, there are fewer than 2^16 operations: no sum comes near 2^127. */
#ifndef LM_ANALYSIS_COUNTS_H
#define LM_ANALYSIS_COUNTS_H

#include "base/checked.h"
#include "program/program.h"

struct lm_ledger;

/* The part of a model that a weight belongs to. */
typedef enum lm_part {
    LM_PART_EMBEDDING, LM_PART_ATTENTION, LM_PART_MLP, LM_PART_NORM, LM_PART_HEAD, LM_PART_OTHER, LM_PARTS
} lm_part;

const char *lm_part_name(lm_part p);

typedef struct lm_parameter_counts {
    uint64_t total;              /* stored: a tied head once */
    uint64_t untied_total;       /* if the head had a matrix of its own */
    uint64_t active;             /* read for one token, all experts that it visits; look-ups count whole tables */
    uint64_t part[LM_PARTS];     /* sum: total */
} lm_parameter_counts;

void lm_count_parameters(const struct lm_ledger *l, lm_parameter_counts *out);

typedef struct lm_flop_counts {
    uint64_t per_token_matmul;   /* 2 per multiply-add of every matrix product, head included; look-ups are nothing */
    uint64_t per_context_token;  /* more for each key that a token sees in every layer: q.k and p.v */
    uint64_t past_windows;       /* the same beyond every window: of the layers that have none */
    uint64_t per_token_other;    /* norms, rotations, activations, residuals */
    uint64_t head;               /* of per_token_matmul */
} lm_flop_counts;

void lm_count_flops(const lm_program *p, lm_flop_counts *out);

/* Matrix products and scores of one token that sees `context` keys, itself included; windows respected. */
lm_wide lm_flops_at(const lm_program *p, uint64_t context);

/* Reading `tokens` from an empty cache, logits of the last one only. */
lm_wide lm_flops_prefill(const lm_program *p, uint64_t tokens);

typedef struct lm_kv_counts {
    uint64_t elements_per_token; /* all layers */
    uint64_t bytes_per_token;
    lm_wide  bytes_at_context;   /* `context` positions of `batch` sequences; windows keep what they see */
    lm_wide  bytes_without_window;           /* if every position were kept */
    lm_wide  first_layer, first_layer_without_window;        /* of these two, the first layer's */
    uint32_t window;             /* the largest that a layer has, 0: every layer keeps everything */
    uint32_t n_windows;          /* layers that have one */
} lm_kv_counts;

void lm_count_kv(const lm_program *p, lm_cache_types types, uint64_t context, uint64_t batch, lm_kv_counts *out);

#endif
