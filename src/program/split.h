/* split.h - the program of one rank of a model that several ranks run together.
 *
 * A transform from program to program (tensor parallelism, arXiv 1909.08053): each rank computes some heads
 * of every attention, some lanes of every MLP and some rows of the head. Two operations combine what all
 * ranks need: all_reduce, a sum in the order of ranks, and all_gather, a concatenation of lanes in that
 * order. All other operations are unchanged except for fewer heads, lanes or rows, and are planned, counted,
 * printed and run as usual. Operations that cannot be cut (a norm over all heads, a matrix whose blocks cross
 * an edge) are computed whole by every rank: the result is the same, only slower.
 *
 * Query heads are assigned to ranks in ranges of nearly equal size, with the key/value heads that they read;
 * a key/value head that several ranks read is stored by each of them. Lanes of an MLP are cut at block edges
 * of the matrix that reads them. */
#ifndef LM_PROGRAM_SPLIT_H
#define LM_PROGRAM_SPLIT_H

#include "program/program.h"

#define LM_MAX_RANKS 256

typedef struct lm_split_spec {
    uint32_t        ranks, rank;         /* rank < ranks <= LM_MAX_RANKS */
    bool            exact;               /* no sum is cut: lanes are gathered before each product that reads
                                            them. The logits are bit-identical to those of one rank; more
                                            lanes go over the network */
    const lm_dtype *types;               /* [n_weights]: stored types, whose blocks are not cut */
    const bool     *uncut;               /* [n_weights]: weights that must stay whole; NULL: none */
} lm_split_spec;

/* Make the program of spec->rank in *out. Free it with lm_program_free before `p`, whose strings it shares.
 * (*source)[i], in out's arena: the weight of p that weight i of *out is, or is a part of. LM_USAGE if there
 * are more ranks than query heads; the message gives the possible numbers. */
lm_status lm_program_split(const lm_program *p, const lm_split_spec *spec, lm_program **out,
                           const uint32_t **source, lm_error *e);

/* ---- consecutive ranges of layers (pipeline parallelism, arXiv 1811.06965) ---- */

/* Assign layers to ranks: edges [stages + 1], from 0 to the number of layers. The assignment minimises the
 * bytes of the largest range; the first range also has the embedding table and the head. `types` [n_weights];
 * NULL: all float32. LM_USAGE if there are more stages than layers. */
lm_status lm_split_layers(const lm_program *p, const lm_dtype *types, uint32_t stages, uint32_t *edges,
                          lm_error *e);

typedef struct lm_layers_spec {
    uint32_t        stages, stage;       /* stage < stages, stages >= 2 */
    const uint32_t *edges;
    uint32_t        from, to;            /* ranks of the previous and the next range, in a ring: the last
                                            sends to the first */
} lm_layers_spec;

/* Make the program of these layers in *out. Free it with lm_program_free before `p`. It receives the values
 * of earlier layers and sends those that later layers read: the first range begins with the ids, and ends
 * with the values that the last range sends back to it. Caches keep their indices; those of other ranges are
 * `elsewhere`. (*source)[i], in out's arena: the weight of p that weight i of *out is. LM_UNSUPPORTED if the
 * layers are not consecutive. */
lm_status lm_program_layers(const lm_program *p, const lm_layers_spec *spec, lm_program **out,
                            const uint32_t **source, lm_error *e);

#endif
