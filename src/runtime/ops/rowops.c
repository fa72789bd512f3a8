/* rowops.c - the table of operations on single rows. */
#include "runtime/ops/rowops.h"

#define ROW_OPS(X) \
    X(SINUSOID, sinusoid) \
    X(RMS_NORM, rms_norm) \
    X(LAYER_NORM, layer_norm) \
    X(ROPE, rope) \
    X(ADD, add) \
    X(MUL, mul) \
    X(MIX, mix) \
    X(MATCH, match) \
    X(GAUSSIAN_TOP, gaussian_top) \
    X(ROUND, round) \
    X(REPEAT, repeat) \
    X(CONNECT, connect) \
    X(BLEND, blend) \
    X(MERGE, merge) \
    X(SCALE, scale) \
    X(TEMPERATURE, temperature) \
    X(ADD_BIAS, add_bias) \
    X(SCALE_BY_WEIGHT, scale_by_weight) \
    X(DECAY, decay) \
    X(GLU, glu) \
    X(ACT, act) \
    X(COLUMNS, columns) \
    X(SOFTCAP, softcap) \
    X(CLAMP, clamp) \
    X(ROUTE, route) \
    X(JOIN, join)

#define DECLARE(code, name) extern const lm_row_op lm_row_##name;
ROW_OPS(DECLARE)

#define ENTRY(code, name) [LM_OP_##code] = &lm_row_##name,
const lm_row_op *const lm_row_ops[LM_OP_COUNT] = { ROW_OPS(ENTRY) };
