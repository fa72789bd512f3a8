/* adapter.h - low-rank adapters (LoRA, arXiv 2106.09685): files that change a model without being one.
 *
 * Read are PEFT's folders (adapter_config.json and adapter_model.safetensors), their adapter_model.safetensors by itself where its
 * config lies beside it, mlx_lm's folders (adapters.safetensors), and llama.cpp's GGUF adapters. An adapter is opened for a model and
 * checked against it: every tensor of the file belongs to a module of the model, has its shape and is finite; every pair is whole. It
 * adds s B A x to what the module makes of x, with s = alpha / r as the file has it, in float32 whatever the arithmetic. */
#ifndef LAMINA_ADAPTER_H
#define LAMINA_ADAPTER_H

#include "lamina/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_adapter lm_adapter;

/* Texts are printable UTF-8 on one line and live as long as the adapter. */
typedef struct lm_adapter_info {
    const char *name;                /* of the folder or file, without its ending */
    const char *source;              /* path */
    const char *format;              /* "peft" "mlx" "gguf" */
    const char *base;                /* the model that it was made for, as the file calls it; NULL: it does not say */
    uint32_t    n_modules;           /* adapted */
    uint32_t    rank;                /* the largest of a module */
    double      alpha;               /* as the file has it; 0: it gives the scale itself */
    uint64_t    parameters, bytes;   /* of A, B and biases; as stored */
    const char *task_name, *prompt_prefix;   /* as a GGUF file has them (adapter.lora.…); NULL: it has none */
    uint64_t    reserved[6];         /* zero */
} lm_adapter_info;

/* One module of it. */
typedef struct lm_adapter_module {
    const char *module;              /* "model.layers.0.self_attn.q_proj" */
    uint32_t    rank;
    uint32_t    in, out;             /* lanes that A reads and B makes; of a look-up: rows of the table, its width */
    double      scale;               /* s */
    double      size;                /* Frobenius norm of s B A */
    uint64_t    reserved[4];         /* zero */
} lm_adapter_module;

/* `path`: a folder or a file. `m` must outlive the adapter. What is unusual and harmless is a warning.
 *   LM_NOT_FOUND    the path does not exist, or has no adapter
 *   LM_BAD_MODEL    it is broken, or its tensors are not those of an adapter of this model: the tensor is named
 *   LM_UNSUPPORTED  it changes more than products and look-ups (whole modules that were trained, DoRA's magnitudes, trained biases of the
 *                   base): what is named */
lm_status lm_adapter_open(const lm_model *m, const char *path, lm_adapter **out, lm_error *e);
void      lm_adapter_close(lm_adapter *a);       /* engines that were made with it must be freed first */

void        lm_adapter_describe(const lm_adapter *a, lm_adapter_info *out);
/* Module i in the order of the program; false past the end. */
bool        lm_adapter_module_at(const lm_adapter *a, uint32_t i, lm_adapter_module *out);
const char *lm_adapter_warning(const lm_adapter *a, size_t i);       /* NULL past the end */

/* Adapters of an engine (lm_engine_options.adapters), and for which text each counts how much: rows of a step may have different ones,
 * and every row has the bits that it has alone; with all at 0, those of an engine without adapters. Keys and values that a sequence
 * holds are those of the scales that it had when they were made: whoever shares them or goes on with them keeps the scales. */
uint32_t          lm_engine_n_adapters(const lm_engine *g);
const lm_adapter *lm_engine_adapter(const lm_engine *g, uint32_t i);

/* scales [lm_engine_n_adapters], multiplied with each adapter's own; 0: it does nothing. LM_USAGE where one is not finite. By the thread
 * that steps, between steps. */
lm_status lm_engine_set_adapters(lm_engine *g, uint32_t sequence, const float *scales, lm_error *e);
const float *lm_engine_adapters_of(const lm_engine *g, uint32_t sequence);

#ifdef __cplusplus
}
#endif
#endif
