/* split.h - one rank's program of a model that several ranks run together.
 *
 * A transform program -> program (tensor parallelism, arXiv 1909.08053): each rank computes some heads of every attention, some lanes of
 * every MLP and some rows of the head. What all ranks need is put together by two operations: all_reduce, a sum in the order of ranks, and
 * all_gather, lanes side by side in that order. Everything else is an operation as before with fewer heads, lanes or rows, and is planned,
 * counted, printed and run like any other. What cannot be cut (a norm over all heads, a matrix whose blocks lie across an edge) is computed
 * whole by every rank: the result is the same, only slower.
 *
 * Query heads go to ranks in runs as equal as may be, with the key/value heads that they read; a key/value head that several ranks read is
 * held by each of them. Lanes of an MLP are cut on the edges of blocks of the matrix that reads them. */
#ifndef LM_PROGRAM_SPLIT_H
#define LM_PROGRAM_SPLIT_H

#include "program/program.h"

#define LM_MAX_RANKS 256

typedef struct lm_split_spec {
    uint32_t        ranks, rank;         /* rank < ranks <= LM_MAX_RANKS */
    bool            exact;               /* no sum is cut: lanes are gathered before each product that reads them. The logits are those
                                            of one rank, bit for bit; more lanes go over the network */
    const lm_dtype *types;               /* [n_weights]: as stored, whose blocks are not cut */
    const bool     *uncut;               /* [n_weights]: weights that have to stay whole; NULL: none */
} lm_split_spec;

/* *out: the program of spec->rank, freed with lm_program_free before `p`, whose texts it shares. (*source)[i], in out's arena: the weight
 * of p that weight i of *out is, or is a part of. LM_USAGE for more ranks than query heads, with the numbers that would do. */
lm_status lm_program_split(const lm_program *p, const lm_split_spec *spec, lm_program **out, const uint32_t **source, lm_error *e);

/* ---- runs of layers, one after another (pipeline parallelism, arXiv 1811.06965) ---- */

/* Which rank has which layers: edges [stages + 1], the first 0, the last all of them. The first run, which has the table of embeddings and
 * the head as well, has so many that the run of most bytes has as few as can be. `types` [n_weights]; NULL: all float32. LM_USAGE for more
 * stages than layers. */
lm_status lm_split_layers(const lm_program *p, const lm_dtype *types, uint32_t stages, uint32_t *edges, lm_error *e);

typedef struct lm_layers_spec {
    uint32_t        stages, stage;       /* stage < stages, which are at least two */
    const uint32_t *edges;
    uint32_t        from, to;            /* ranks of the run before and after it, in a circle: the last sends to the first */
} lm_layers_spec;

/* *out: the program of these layers, freed with lm_program_free before `p`. What the layers before it have made is received, what the ones
 * after it read is sent: the first run begins with the ids, and ends with what the last has sent back to it. Caches keep their numbers;
 * those of other runs are `elsewhere`. (*source)[i], in out's arena: the weight of p that weight i of *out is.
 * LM_UNSUPPORTED where layers do not follow each other. */
lm_status lm_program_layers(const lm_program *p, const lm_layers_spec *spec, lm_program **out, const uint32_t **source, lm_error *e);

#endif
