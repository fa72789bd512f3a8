/* synthesis.h - a model with random weights while it is made: internal to export/. */
#ifndef LM_EXPORT_SYNTHESIS_H
#define LM_EXPORT_SYNTHESIS_H

#include <jansson.h>

#include "arch/config.h"
#include "base/pool.h"
#include "export/roworder.h"
#include "formats/filetype.h"
#include "lamina/synth.h"

/* One tensor of a file. Its numbers are those of the matrix [out, in] of a Hugging Face checkpoint, however it is stored. */
typedef struct lm_made_tensor {
    const char  *name;
    uint32_t     weight;             /* of the program; LM_NONE: none of its own */
    lm_dtype     type;
    uint32_t     n_dims;
    uint64_t     dims[3];            /* outermost first */
    uint64_t     elements;
    float        mean, deviation;
    uint64_t     stream;             /* of random numbers; experts, and heads, count on from it */
    uint64_t     part;               /* elements that share a stream: all, or those of one expert or head */
    uint64_t     cols;               /* of the matrix: `in` */
    bool         transposed;         /* stored [in, out] */
    lm_row_order order;              /* of rows, or elements of a vector */
    const float *values;             /* [elements]: nothing random; NULL */
    uint32_t     joint_first, joint_of;   /* matrices of heads: rows of those that a checkpoint keeps together (lm_joint); 0: none */
    struct {                         /* rows of one or two weights in one matrix for each expert (lm_interleaved); of 0: not so */
        uint64_t of, rows, streams[2];   /* rows there, rows of each weight, and their numbers */
        bool     in_turns, transposed, each; /* stored [experts, in, of]; each expert has a stream */
    } interleaved;
} lm_made_tensor;

typedef struct lm_synthesis {
    const lm_synth_options *o;
    lm_arena          arena;
    const char       *name;          /* as people read it */
    json_t           *json;          /* config.json, with the number of layers that was asked for */
    lm_meta          *meta;          /* the same */
    const lm_family  *family;
    lm_config         config;
    lm_program       *program;
    uint32_t          embedding_norm, final_norm;      /* weights; LM_NONE */
    float             gain;          /* what a tied embedding is multiplied by before the first layer */
    const char       *type;          /* "q4_k_m" */
    lm_made_tensor   *tensors;
    size_t            n_tensors, capacity;
    lm_pool          *pool;
    uint8_t          *packed;        /* a piece of a tensor as it will stand in the file */
    float            *scratch;       /* a small piece for each thread */
    uint64_t          bytes, written;
    uint32_t          files;
} lm_synthesis;

/* Where bytes go. */
typedef lm_status (*lm_made_sink)(void *file, const void *data, size_t n, lm_error *e);

/* The next tensor, zeroed but for its name, or NULL without memory. */
lm_made_tensor *lm_add_made(lm_synthesis *s, const char *name);

/* Before anything is filled: how the embedding and the head hang together. */
void lm_study_embedding(lm_synthesis *s);

/* The numbers of the weight of this path. */
uint64_t lm_made_stream(const char *path);

/* What fills weight `w`: deviation, numbers, storage; dims as the program has them. */
void lm_fill_made(const lm_synthesis *s, uint32_t weight, lm_made_tensor *t);

/* The size of every tensor is known: buffers and threads. */
lm_status lm_prepare_synthesis(lm_synthesis *s, lm_error *e);
lm_status lm_make_tensor(lm_synthesis *s, const lm_made_tensor *t, lm_made_sink sink, void *file, lm_error *e);
void      lm_end_synthesis(lm_synthesis *s);

/* LM_IO unless `bytes` are free where `path` will be. */
lm_status lm_check_space(const char *path, uint64_t bytes, lm_error *e);

lm_status lm_synth_gguf(lm_synthesis *s, const char *path, lm_error *e);
lm_status lm_synth_folder(lm_synthesis *s, const char *path, lm_error *e);

#endif
