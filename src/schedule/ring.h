/* ring.h - a lock-free ring of byte records from one thread to another: the writer never waits, the reader
 * reads them in place. */
#ifndef LM_SCHEDULE_RING_H
#define LM_SCHEDULE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lamina/error.h"

typedef struct lm_ring {
    uint8_t      *bytes;             /* [size], aligned to 16 */
    uint32_t      size;              /* a power of two */
    uint32_t      seen;              /* the reader's: end of the record that it reads */
    uint32_t      open;              /* the writer's: end of the written, unpublished records */
    _Alignas(64) atomic_uint head;   /* published up to here: bytes since the start, modulo 2^32 */
    _Alignas(64) atomic_uint tail;   /* read up to here */
} lm_ring;

lm_status lm_ring_open(lm_ring *r, uint32_t size, lm_error *e);          /* rounded up to a power of two */
void      lm_ring_close(lm_ring *r);

/* ---- the writer ---- */

/* Whether records of `n` bytes in total, each in one piece, fit next to the published ones, wherever they
 * begin. The reader may call it too. */
bool  lm_ring_fits(const lm_ring *r, uint32_t n);

/* Return space for a record of n bytes, aligned to 16; NULL: the ring is full. The reader sees it after
 * lm_ring_publish. */
void *lm_ring_add(lm_ring *r, uint32_t n);
void  lm_ring_publish(lm_ring *r);

/* ---- the reader ---- */

/* Return the next record, valid until lm_ring_done; NULL: none. *n: its size. */
const void *lm_ring_next(lm_ring *r, uint32_t *n);

/* Free the record that lm_ring_next returned. */
void lm_ring_done(lm_ring *r);

#endif
