/* adapter.h - low-rank adapters (LoRA, arXiv 2106.09685).
 *
 * Supported formats: PEFT folders (adapter_config.json and adapter_model.safetensors) or the .safetensors
 * file of such a folder, mlx_lm folders (adapters.safetensors), and llama.cpp's GGUF adapters. An adapter is
 * opened for a model and checked against it: every tensor belongs to a module of the model, has the right
 * shape and is finite; every pair is complete. It adds s B A x to a module's output, with s = alpha / r from
 * the file, in float32 for every lm_compute. */
#ifndef LAMINA_ADAPTER_H
#define LAMINA_ADAPTER_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_adapter lm_adapter;

/* Strings are printable UTF-8 on one line and live as long as the adapter. */
typedef struct lm_adapter_info {
    const char *name;                /* of the folder or file, without its extension */
    const char *source;              /* path */
    const char *format;              /* "peft" "mlx" "gguf" */
    const char *base;                /* the base model named by the file; NULL: none */
    uint32_t    n_modules;           /* number of adapted modules */
    uint32_t    rank;                /* the largest rank of a module */
    double      alpha;               /* from the file; 0: the file gives the scale */
    uint64_t    parameters, bytes;   /* of A, B and biases; bytes as stored */
    const char *task_name, *prompt_prefix;   /* from a GGUF file (adapter.lora.…); NULL: none */
    uint64_t    reserved[6];         /* zero */
} lm_adapter_info;

/* One adapted module. */
typedef struct lm_adapter_module {
    const char *module;              /* "model.layers.0.self_attn.q_proj" */
    uint32_t    rank;
    uint32_t    in, out;             /* input width of A, output width of B; for an embedding: rows and width
                                        of the table */
    double      scale;               /* s */
    double      size;                /* Frobenius norm of s B A */
    uint64_t    reserved[4];         /* zero */
} lm_adapter_module;

/* `path`: a folder or a file. `m` must outlive the adapter. Harmless irregularities are warnings.
 *   LM_NOT_FOUND    the path does not exist, or contains no adapter
 *   LM_BAD_MODEL    the file is damaged, or a tensor does not fit this model; the tensor is named
 *   LM_UNSUPPORTED  it changes more than linear layers and embeddings (fully trained modules, DoRA
 *                   magnitudes, trained biases of the base model); the tensor is named */
lm_status lm_adapter_open(const lm_model *m, const char *path, lm_adapter **out, lm_error *e);
void      lm_adapter_close(lm_adapter *a);       /* free the engines that use it first */

void        lm_adapter_describe(const lm_adapter *a, lm_adapter_info *out);
/* The i-th module in the order of the program; false past the end. */
bool        lm_adapter_module_at(const lm_adapter *a, uint32_t i, lm_adapter_module *out);
const char *lm_adapter_warning(const lm_adapter *a, size_t i);       /* NULL past the end */

/* The adapters of an engine (lm_engine_options.adapters), and their scales per sequence. Rows of one step may
 * have different scales; the results of each row are bit-identical to those of the row alone, and with all
 * scales 0 to those of an engine without adapters. Cached keys and values were computed with the scales of
 * their time: keep the scales of a sequence while its cache is used or shared. */
uint32_t          lm_engine_n_adapters(const lm_engine *g);
const lm_adapter *lm_engine_adapter(const lm_engine *g, uint32_t i);

/* scales [lm_engine_n_adapters] are multiplied with each adapter's own scale; 0 disables it. LM_USAGE: a
 * scale is not finite. Call between steps, in the thread that steps. */
lm_status lm_engine_set_adapters(lm_engine *g, uint32_t sequence, const float *scales, lm_error *e);
const float *lm_engine_adapters_of(const lm_engine *g, uint32_t sequence);

#ifdef __cplusplus
}
#endif
#endif
