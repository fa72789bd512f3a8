/* adapter.h - an adapter that was found to fit a model: what an engine attaches. */
#ifndef LM_RUNTIME_ADAPTER_H
#define LM_RUNTIME_ADAPTER_H

#include "lamina/adapter.h"
#include "runtime/engine/state.h"

/* What it adds to one module. Rows of `b` are in the order of the model's own rows there (program/rows.h). */
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

/* The model's program with the adapters of `o`; NULL when it names none. */
lm_status lm_engine_attach(const lm_model *m, const lm_engine_options *o, lm_program **out, lm_error *e);

/* What adapter number `k` of an engine puts into weight `i` of its program, which is the adapter's. */
const float *lm_engine_adapter_weight(const lm_engine *g, uint32_t k, uint32_t i);

/* Every sequence has them as `o` says. */
void lm_engine_adapters_begin(lm_engine *g, const lm_engine_options *o);

/* The scales of the rows of a step, which the engine's arrays describe. */
void lm_engine_adapt_rows(lm_engine *g);

/* What `scales` [n_adapters] (NULL: none) make of an engine's adapters, as text: "" where they do nothing; else for each that counts, in
 * their order, "HASH*SCALE" and a space, the scale as the bits of a float. Two texts are alike when and only when every row gets the same
 * bits by both. */
void      lm_engine_adapters_text(const lm_engine *g, const float *scales, lm_text *out);

/* Back: scales [n_adapters]. LM_DIFFERS: one that the engine has not, or has in another order. */
lm_status lm_engine_adapters_read(const lm_engine *g, const char *text, float *scales, lm_error *e);

/* A hash of such a text; 0 where they do nothing. */
uint64_t  lm_engine_adapters_key(const lm_engine *g, const float *scales);

/* Whether every step of a stage is an adapter's that no row has. */
bool lm_engine_idle(const lm_engine *g, const lm_stage *t);

#endif
