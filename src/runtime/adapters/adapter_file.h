/* adapter_file.h - the contents of an adapter's files, before it is matched with a model. */
#ifndef LM_RUNTIME_ADAPTER_FILE_H
#define LM_RUNTIME_ADAPTER_FILE_H

#include "base/arena.h"
#include "formats/container.h"

typedef enum lm_adapter_format { LM_ADAPTER_PEFT, LM_ADAPTER_MLX, LM_ADAPTER_GGUF } lm_adapter_format;

/* The tensors of one module. */
typedef struct lm_adapter_entry {
    const char           *name;      /* "model.layers.0.self_attn.q_proj"; in GGUF the weight's,
                                        "blk.0.attn_q.weight" */
    const lm_tensor_info *a, *b, *bias;          /* lora_A, lora_B and B's bias; NULL if it has none */
    const lm_tensor_info *magnitude, *base_bias; /* DoRA's; a trained bias of the base model */
    bool                  table;     /* it belongs to a look-up */
    uint32_t              rank;
    double                alpha, scale;          /* alpha from the config for this module; the scale */
} lm_adapter_entry;

typedef struct lm_adapter_file {
    lm_adapter_format      format;
    const char            *path;     /* as given */
    const char            *name;     /* the last part of the path, without extension */
    lm_container          *tensors;
    lm_meta               *config;   /* adapter_config.json; NULL: GGUF */
    lm_adapter_entry      *entries;
    size_t                 n_entries, capacity;
    const lm_tensor_info **whole;    /* weights of modules that were trained in full */
    size_t                 n_whole;
    uint32_t               rank;     /* for modules without their own; 0: given by each shape */
    double                 alpha;    /* 0: the scale is given (mlx), or 1 (GGUF) */
    bool                   rslora, dora, turned;         /* turned: A is stored [in][r], B [r][out] (mlx) */
    const char            *base, *fingerprint;           /* the model it was made for; NULL: not given */
    const char            *architecture, *task_name, *prompt_prefix;        /* GGUF */
    lm_text                warnings; /* each ends with a newline */
    lm_arena               arena;
} lm_adapter_file;

/* Open an adapter and check what can be checked without a model: every tensor belongs to an adapter, pairs
 * are complete and have one rank, ranks and scales match the config, numbers are finite. */
lm_status lm_adapter_file_open(const char *path, lm_adapter_file **out, lm_error *e);
void      lm_adapter_file_close(lm_adapter_file *f);

/* Return the entry of a name, which is added if there is none. NULL: no memory. */
lm_adapter_entry *lm_adapter_entry_of(lm_adapter_file *f, const char *name, size_t n);

/* Set an error about a tensor of the file; returns `code`. */
lm_status lm_adapter_wrong(const lm_adapter_file *f, const lm_tensor_info *t, lm_status code, lm_error *e,
                           const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Unpack a tensor of one or two dimensions; `turned`: as [columns][rows] of the stored matrix. */
void lm_adapter_unpack(const lm_adapter_file *f, const lm_tensor_info *t, bool turned, float *out);

/* Return the dimensions of an entry's A and B as PEFT stores products: A [rank][in], B [out][rank]. For a
 * look-up: in rows, out columns. */
uint64_t lm_adapter_in(const lm_adapter_file *f, const lm_adapter_entry *x);
uint64_t lm_adapter_out(const lm_adapter_file *f, const lm_adapter_entry *x);

/* ---- formats: each fills a file whose container, and config, are open ---- */
lm_status lm_adapter_read_peft(lm_adapter_file *f, lm_error *e);
lm_status lm_adapter_read_mlx(lm_adapter_file *f, lm_error *e);
lm_status lm_adapter_read_gguf(lm_adapter_file *f, lm_error *e);

#endif
