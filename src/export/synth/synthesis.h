/* synthesis.h - a model with random weights during its creation: internal to export/. */
#ifndef LM_EXPORT_SYNTHESIS_H
#define LM_EXPORT_SYNTHESIS_H

#include <jansson.h>

#include "arch/config.h"
#include "base/os/pool.h"
#include "export/tensors/roworder.h"
#include "formats/filetype.h"
#include "lamina/synth.h"

/* A tensor of a file. Its random numbers are those of the matrix [out, in] of a Hugging Face checkpoint,
 * however it is stored. */
typedef struct lm_made_tensor {
    const char  *name;
    uint32_t     weight;             /* of the program; LM_NONE: no weight */
    lm_dtype     type;
    uint32_t     n_dims;
    uint64_t     dims[4];            /* outermost first */
    uint64_t     elements;
    float        mean, deviation;
    uint64_t     stream;             /* of random numbers; experts and heads use the following streams */
    uint64_t     part;               /* elements that share a stream: all, or those of one expert or head */
    uint64_t     cols;               /* of the matrix: `in` */
    uint64_t     first_row;          /* of a piece of a fused matrix, as GGUF orders its rows; else 0 */
    bool         transposed;         /* stored [in, out] */
    int          exponential;        /* stored as exp(x) times this; 0: as x */
    const lm_weight *folded;         /* stored as in lm_weight.folds; NULL: unchanged */
    lm_row_order order;              /* of rows, or elements of a vector */
    uint32_t     below;              /* whole numbers less than this; 0: any numbers */
    const float *values;             /* [elements] fixed values; NULL: random */
    uint32_t     joint_first, joint_of;   /* per-head matrices: their rows in the joint matrix of a checkpoint
                                             (lm_joint); 0: none */
    struct {                         /* rows of one or two weights in one matrix per expert (lm_interleaved);
                                        of 0: not interleaved */
        uint64_t of, rows, streams[2];   /* rows of the matrix, rows of each weight, their streams */
        bool     in_turns, transposed, each; /* stored [experts, in, of]; one stream per expert */
    } interleaved;
} lm_made_tensor;

typedef struct lm_synthesis {
    const lm_synth_options *o;
    lm_arena          arena;
    const char       *name;          /* display name */
    json_t           *json;          /* config.json with the requested number of layers */
    lm_meta          *meta;          /* the same, parsed */
    const lm_family  *family;
    lm_config         config;
    lm_program       *program;
    uint32_t          embedding_norm, final_norm;      /* weights; LM_NONE: none */
    float             gain;          /* factor of a tied embedding before the first layer */
    const char       *type;          /* "q4_k_m" */
    lm_made_tensor   *tensors;
    size_t            n_tensors, capacity;
    lm_pool          *pool;
    uint8_t          *packed;        /* a piece of a tensor as it is written to the file */
    float            *scratch;       /* a small piece per thread */
    uint64_t          bytes, written;
    uint32_t          files;
} lm_synthesis;

/* Writes bytes to the output. */
typedef lm_status (*lm_made_sink)(void *file, const void *data, size_t n, lm_error *e);

/* Add a tensor, zeroed except for its name; NULL: out of memory. */
lm_made_tensor *lm_add_made(lm_synthesis *s, const char *name);

/* Call before filling tensors: finds how the embedding and the output head are related. */
void lm_study_embedding(lm_synthesis *s);

/* Return the stream of random numbers for the weight with this path. */
uint64_t lm_made_stream(const char *path);

/* Compute the number of a weight with one element. */
void lm_made_number(const lm_synthesis *s, uint32_t weight, float *out);
/* Set what fills weight `w`: deviation, stream, storage; dims as in the container. */
void lm_fill_made(const lm_synthesis *s, uint32_t weight, bool gguf, lm_made_tensor *t);
/* The same for the tensor that holds all matrices of the heads of `w`, after it. */
void lm_fill_joint(const lm_weight *w, lm_made_tensor *t);

/* Call when the size of every tensor is known: creates buffers and threads. */
lm_status lm_prepare_synthesis(lm_synthesis *s, lm_error *e);
lm_status lm_make_tensor(lm_synthesis *s, const lm_made_tensor *t, lm_made_sink sink, void *file,
                         lm_error *e);
void      lm_end_synthesis(lm_synthesis *s);

/* Return LM_IO if the file system of `path` has less than `bytes` free. */
lm_status lm_check_space(const char *path, uint64_t bytes, lm_error *e);

lm_status lm_synth_gguf(lm_synthesis *s, const char *path, lm_error *e);
lm_status lm_synth_folder(lm_synthesis *s, const char *path, lm_error *e);

#endif
