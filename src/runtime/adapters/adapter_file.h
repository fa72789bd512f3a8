/* adapter_file.h - what stands in an adapter's files, before anybody asks which model it is for. */
#ifndef LM_RUNTIME_ADAPTER_FILE_H
#define LM_RUNTIME_ADAPTER_FILE_H

#include "base/arena.h"
#include "formats/container.h"

typedef enum lm_adapter_format { LM_ADAPTER_PEFT, LM_ADAPTER_MLX, LM_ADAPTER_GGUF } lm_adapter_format;

/* The tensors of one module. */
typedef struct lm_adapter_entry {
    const char           *name;      /* "model.layers.0.self_attn.q_proj"; in GGUF the weight, "blk.0.attn_q.weight" */
    const lm_tensor_info *a, *b, *bias;          /* lora_A, lora_B and B's bias; NULL where it has none */
    const lm_tensor_info *magnitude, *base_bias; /* DoRA's; a trained bias of the base */
    bool                  table;     /* a look-up */
    uint32_t              rank;
    double                alpha, scale;          /* as the config has it for this module; s */
} lm_adapter_entry;

typedef struct lm_adapter_file {
    lm_adapter_format      format;
    const char            *path;     /* as it was named */
    const char            *name;     /* the last part of it, without its ending */
    lm_container          *tensors;
    lm_meta               *config;   /* adapter_config.json; NULL: GGUF */
    lm_adapter_entry      *entries;
    size_t                 n_entries, capacity;
    const lm_tensor_info **whole;    /* weights of modules that were trained whole */
    size_t                 n_whole;
    uint32_t               rank;     /* of modules without one of their own; 0: each says it by its shape */
    double                 alpha;    /* 0: the scale is given */
    bool                   rslora, dora, turned;         /* turned: A is stored [in][r], B [r][out] (mlx) */
    const char            *base, *fingerprint;           /* the model it was made for, where it says; NULL */
    const char            *architecture, *task_name, *prompt_prefix;        /* GGUF */
    lm_text                warnings; /* each ends with a newline */
    lm_arena               arena;
} lm_adapter_file;

/* Open and check what can be checked without a model: every tensor is one of an adapter, pairs are whole and of one rank, the rank and the
 * scale are those of the config, numbers are finite. */
lm_status lm_adapter_file_open(const char *path, lm_adapter_file **out, lm_error *e);
void      lm_adapter_file_close(lm_adapter_file *f);

/* The entry of a name; a new one where there is none. NULL: no memory. */
lm_adapter_entry *lm_adapter_entry_of(lm_adapter_file *f, const char *name, size_t n);

/* An error about a tensor of it. */
lm_status lm_adapter_wrong(const lm_adapter_file *f, const lm_tensor_info *t, lm_status code, lm_error *e, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Numbers of a tensor of one or two dimensions; `turned`: [columns][rows] of what is stored. */
void lm_adapter_unpack(const lm_adapter_file *f, const lm_tensor_info *t, bool turned, float *out);

/* The two dimensions of an entry's A and B as PEFT stores products: A [rank][in], B [out][rank]. Of a look-up: in rows, out lanes. */
uint64_t lm_adapter_in(const lm_adapter_file *f, const lm_adapter_entry *x);
uint64_t lm_adapter_out(const lm_adapter_file *f, const lm_adapter_entry *x);

/* ---- the formats: fill a file whose container, and config, are open ---- */
lm_status lm_adapter_read_peft(lm_adapter_file *f, lm_error *e);
lm_status lm_adapter_read_mlx(lm_adapter_file *f, lm_error *e);
lm_status lm_adapter_read_gguf(lm_adapter_file *f, lm_error *e);

#endif
