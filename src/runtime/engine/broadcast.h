/* broadcast.h - rank 0 sends each change of its engine to the other ranks, in order.
 *
 * Every change of an engine is one message of a fixed form; a step is followed by its rows. The others make
 * the same change to their engines, so page tables, lengths and rows are equal on all ranks without being
 * sent. A message carries its number and a hash of its rows: a rank rejects a message that it does not
 * expect. */
#ifndef LM_RUNTIME_BROADCAST_H
#define LM_RUNTIME_BROADCAST_H

#include "runtime/engine/state.h"

#define LM_BROADCAST_MAGIC 0x6c616d31u   /* "lam1" */

typedef enum lm_broadcast_code {
    LM_BROADCAST_NEW,               /* an engine: lm_broadcast_options follow */
    LM_BROADCAST_FREE,
    LM_BROADCAST_STEP,                   /* n rows follow */
    LM_BROADCAST_TRUNCATE,               /* sequence, keep */
    LM_BROADCAST_SHARE,                  /* from, to, positions */
    LM_BROADCAST_PAGE_REF,               /* group, sequence, i: for pages owned outside sequences
                                            (page_owners.h) */
    LM_BROADCAST_PAGE_UNREF,             /* group, page */
    LM_BROADCAST_PAGE_ASSIGN,            /* group, sequence, i, page */
    LM_BROADCAST_PAGE_REPLACE,           /* group, sequence, i, page */
    LM_BROADCAST_LENGTH,                 /* sequence, length */
    LM_BROADCAST_END,                    /* no more messages follow */
} lm_broadcast_code;

typedef struct lm_broadcast_message {
    uint32_t magic, code;
    uint64_t number;                     /* number of the message, from 1 */
    uint32_t a[4];
    uint32_t n, reserved;                /* number of rows that follow */
    uint64_t hash;                       /* of those rows */
} lm_broadcast_message;

/* The options with which all ranks make their engines. */
typedef struct lm_broadcast_options {
    uint32_t context, sequences, max_rows, max_logits, rollback, threads, threads_batch, kv,
        kv_values, compute;
    uint64_t kv_positions, checkpoints;
    bool     no_repack, hidden, kv_apart;
    char     cpu[16];                    /* "": the best available */
} lm_broadcast_options;

uint64_t lm_broadcast_hash(const void *data, size_t n);

/* Send a change, on rank 0, before making it; does nothing if there are no other ranks. After a failure the
 * ranks count as lost: the next step fails with LM_IO. */
void lm_broadcast(lm_engine *g, lm_broadcast_code code, uint32_t a, uint32_t b, uint32_t c, uint32_t d);

/* Send a step; send the options of an engine that is being made. */
lm_status lm_broadcast_step(lm_engine *g, const lm_row *rows, size_t n, lm_error *e);
lm_status lm_broadcast_new(lm_engine *g, const lm_engine_options *o, lm_error *e);

/* Agree with all other ranks, once each has made its engine or has failed to. LM_OK if all have, for the same
 * model, build, arithmetic and instruction set; otherwise every rank fails with an error that names the rank
 * at fault (whose own error is `made`, if its engine failed). */
lm_status lm_broadcast_agree(lm_engine *g, lm_status made, lm_error *e);

#endif
