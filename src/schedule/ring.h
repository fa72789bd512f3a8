/* ring.h - records of bytes from one thread to another, without locks: the writer never waits, the reader reads them in
 * place. */
#ifndef LM_SCHEDULE_RING_H
#define LM_SCHEDULE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lamina/error.h"

typedef struct lm_ring {
    uint8_t      *bytes;             /* [size], aligned to 16 */
    uint32_t      size;              /* a power of two */
    uint32_t      seen;              /* the reader's: end of the record that it looks at */
    uint32_t      open;              /* the writer's: end of what is written and not published */
    _Alignas(64) atomic_uint head;   /* written up to here: counts on, modulo 2^32 */
    _Alignas(64) atomic_uint tail;   /* read up to here */
} lm_ring;

lm_status lm_ring_open(lm_ring *r, uint32_t size, lm_error *e);          /* rounded up to a power of two */
void      lm_ring_close(lm_ring *r);

/* ---- the writer ---- */

/* Whether records of `n` bytes in all fit besides what is published, in one piece each, however they come to lie. By the
 * reader too. */
bool  lm_ring_fits(const lm_ring *r, uint32_t n);

/* Room for a record of n bytes, aligned to 16; NULL when there is none. Seen by the reader after lm_ring_publish. */
void *lm_ring_add(lm_ring *r, uint32_t n);
void  lm_ring_publish(lm_ring *r);

/* ---- the reader ---- */

/* The next record, valid until the next call; NULL: there is none. *n: its size. */
const void *lm_ring_next(lm_ring *r, uint32_t *n);

/* Give back the record that was looked at. */
void lm_ring_done(lm_ring *r);

#endif
