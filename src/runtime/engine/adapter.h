/* adapter.h - an adapter that has been checked to fit a model: what an engine attaches. */
#ifndef LM_RUNTIME_ADAPTER_H
#define LM_RUNTIME_ADAPTER_H

#include "lamina/adapter.h"
#include "runtime/engine/state.h"

/* What an adapter adds to one module. Rows of `b` are in the order of the model's own rows of the module
 * (program/rows.h). */
typedef struct lm_adapter_part {
    uint32_t     node;           /* of the model's program */
    const char  *module;
    uint32_t     rank;
    float        scale;
    const float *a;              /* [rank][in]; of a look-up [rows][rank] */
    const float *b;              /* [out][rank] */
    const float *bias;           /* [out], or NULL */
} lm_adapter_part;

struct lm_adapter {
    const lm_model  *model;
    lm_adapter_part *parts;
    uint32_t         n_parts;
    lm_adapter_info  info;
    uint8_t          hash[32];   /* of all that changes a result: modules, numbers, scales */
    lm_text          warnings;   /* each ends with a NUL */
    lm_arena         arena;
};

/* Build the model's program with the adapters of `o`; *out is NULL if `o` names none. */
lm_status lm_engine_attach(const lm_model *m, const lm_engine_options *o, lm_program **out, lm_error *e);

/* Return what adapter number `k` of an engine puts into weight `i` of the engine's program; NULL if the
 * weight is not the adapter's. */
const float *lm_engine_adapter_weight(const lm_engine *g, uint32_t k, uint32_t i);

/* Set the adapter scales of every sequence to those of `o`. */
void lm_engine_adapters_begin(lm_engine *g, const lm_engine_options *o);

/* Set the adapter scales of the rows of a step, which the engine's arrays describe. */
void lm_engine_adapt_rows(lm_engine *g);

/* Append as text which adapters `scales` [n_adapters] (NULL: none) enable: "" if none has an effect;
 * otherwise, per adapter whose scale is not 0, in order, "HASH*SCALE" and a space, with the scale as the bits
 * of a float. Two texts are equal if and only if both give every row the same bits. */
void      lm_engine_adapters_text(const lm_engine *g, const float *scales, lm_text *out);

/* Parse such a text into `scales` [n_adapters]. LM_DIFFERS: it names an adapter that the engine does not
 * have, or has in another order. */
lm_status lm_engine_adapters_read(const lm_engine *g, const char *text, float *scales, lm_error *e);

/* Return a hash of the adapters that `scales` enables and of their scales; 0 if none has an effect. */
uint64_t  lm_engine_adapters_key(const lm_engine *g, const float *scales);

/* Return whether every step of a stage belongs to an adapter that no row has. */
bool lm_engine_idle(const lm_engine *g, const lm_stage *t);

#endif
