/* counts.h - what a program costs, counted from the operations that run.
 *
 * Values multiplied by a context or a batch have 128 bits. Both are at most UINT32_MAX, a layer costs less
 * than 2^40 per key and 2^52 per token, and there are fewer than 2^16 operations: no sum comes near 2^127. */
#ifndef LM_ANALYSIS_COUNTS_H
#define LM_ANALYSIS_COUNTS_H

#include "base/checked.h"
#include "program/program.h"

struct lm_ledger;

/* The part of a model that a weight belongs to. */
typedef enum lm_part {
    LM_PART_EMBEDDING,
    LM_PART_ATTENTION,
    LM_PART_STATE,               /* what replaces attention in layers with a state, or stands beside it */
    LM_PART_MLP,
    LM_PART_NORM,
    LM_PART_HEAD,
    LM_PART_OTHER,
    LM_PARTS
} lm_part;

const char *lm_part_name(lm_part p);

typedef struct lm_parameter_counts {
    uint64_t total;              /* stored parameters; a tied head counts once */
    uint64_t untied_total;       /* if the head had its own matrix */
    uint64_t active;             /* read per token, including all experts visited; look-ups count whole
                                    tables */
    uint64_t multiplied;         /* of active, without tables of which a token reads one row; a tied head
                                    counts */
    uint64_t part[LM_PARTS];     /* adds up to total, except weights that no operation reads */
} lm_parameter_counts;

void lm_count_parameters(const struct lm_ledger *l, lm_parameter_counts *out);

typedef struct lm_flop_counts {
    uint64_t per_token_matmul;   /* 2 per multiply-add of every matrix product, including the head; look-ups
                                    count 0 */
    uint64_t per_context_token;  /* added per key that a token sees, over all layers: q.k and p.v */
    uint64_t past_windows;       /* the same for keys beyond every window and choice: layers without either,
                                    and scores of indexers */
    uint32_t reach;              /* the most keys that a query of such a layer sees; 0: all layers see all */
    uint64_t per_token_other;    /* norms, rotations, activations, residuals */
    uint64_t head;               /* the head's share of per_token_matmul */
} lm_flop_counts;

/* Return the window of an attention or a cache; 0 if it is not shorter than the context of the model, where
 * it hides no key. */
uint32_t lm_acting_window(const lm_program *p, uint32_t window);

void lm_count_flops(const lm_program *p, lm_flop_counts *out);

/* Return the FLOPs of matrix products and scores for one token that sees `context` keys, including itself;
 * windows apply. */
lm_wide lm_flops_at(const lm_program *p, uint64_t context);

/* Return the number of attentions that read keys and values of an earlier one; last_own: the last operation
 * that stores anything for later tokens. */
uint32_t lm_count_sharing(const lm_program *p, uint32_t *last_own);

/* Return the FLOPs of processing `tokens` from an empty cache, with logits of the last one only. If there
 * are layers that only read the keys of others, all that is behind the last attention that stores its own is
 * for the last one, too. */
lm_wide lm_flops_prefill(const lm_program *p, uint64_t tokens);

typedef struct lm_kv_counts {
    uint64_t elements_per_token; /* all layers */
    uint64_t bytes_per_token;
    lm_wide  bytes_at_context;   /* `context` positions of `batch` sequences; windowed layers store only their
                                    window */
    lm_wide  bytes_without_window;           /* if every position were stored */
    lm_wide  first_layer, first_layer_without_window;        /* the first layer's share of these two */
    uint32_t window;             /* the largest window of any layer; 0: every layer stores everything */
    uint32_t n_windows;          /* number of layers with a window */
} lm_kv_counts;

void lm_count_kv(const lm_program *p, lm_cache_types types, uint64_t context, uint64_t batch,
                 lm_kv_counts *out);

/* Return the floats of the states of one sequence. */
uint64_t lm_count_state_floats(const lm_program *p);

#endif
