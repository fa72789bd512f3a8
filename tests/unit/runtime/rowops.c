/* rowops.c - the reverse of every operation on single rows, against differences of its forward pass. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "program/builder.h"
#include "program/op.h"
#include "runtime/ops/rowops.h"

enum { WIDTH = 12, ROWS = 3, MOST = 4 * WIDTH };

static const lm_name names[] = { { NULL, NULL } };

/* ---- one operation on one or two values of WIDTH lanes (a router: 8) ---- */

static lm_value rms(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_rms_norm_heads(b, "norm", x, 3, 1e-5f);
}

static lm_value rms_groups(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_rms_norm_groups(b, "norm", x, 3, LM_NONE, 1e-5f);
}

static lm_value layer(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_layer_norm(b, "norm", x, 1e-5f, true);
}

static lm_value layer_heads(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_layer_norm_heads(b, "norm", x, 3, 3, 1e-5f);
}

static lm_value rope(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_rope(b, x, 2, &(lm_rope_spec){ .dim = 4, .base = 100, .factor = 1 });
}

static lm_value add(lm_builder *b, lm_value x, lm_value y)
{
    return lm_add(b, x, y);
}

static lm_value mul(lm_builder *b, lm_value x, lm_value y)
{
    return lm_mul(b, "product", x, y);
}

static lm_value mix(lm_builder *b, lm_value x, lm_value y)
{
    return lm_mix(b, "mixed", x, y, lm_columns(b, "c", y, 1, 0, 9), 3, 1, 1);
}

static lm_value mix_plain(lm_builder *b, lm_value x, lm_value y)
{
    return lm_mix(b, "mixed", x, lm_columns(b, "z", y, 1, 0, 4), LM_NONE, 3, 1, 1);
}

static lm_value match(lm_builder *b, lm_value x, lm_value y)
{
    return lm_match_rms(b, "matched", x, lm_columns(b, "y", y, 1, 0, 4), 3);
}

static lm_value gaussian_top(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_gaussian_top(b, "top", x, 0.25f);
}

static lm_value unit(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_unit_heads(b, "unit", x, 3, 1e-6f, 2);         /* factor / sqrt(width of a head): not scaled */
}

static lm_value bias(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_add_bias(b, "bias", x);
}

static lm_value by_weight(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_scale_by_weight(b, "D", x, 4);
}

static lm_value decay(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_decay(b, "A_log", x, 4);
}

static lm_value softplus(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_function(b, "softplus", x, LM_ACT_SOFTPLUS);
}

static lm_value bounded_decay(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_bounded_decay(b, "A_log", x, 4, -5);
}

static lm_value gate_lanes(lm_builder *b, lm_value x, lm_value y)
{
    return lm_gate(b, "gate", x, y, LM_ACT_SIGMOID);
}

static lm_value scale(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_scale(b, x, -1.75f);
}

static lm_value glu(lm_builder *b, lm_value x, lm_value y)
{
    return lm_glu(b, x, y, LM_ACT_SILU);
}

static lm_value gate_heads(lm_builder *b, lm_value x, lm_value y)
{
    return lm_gate(b, "gate", lm_columns(b, "three", x, 1, 5, 3), y, LM_ACT_SIGMOID);
}

static lm_value gate(lm_builder *b, lm_value x, lm_value y)
{
    return lm_gate(b, "gate", lm_columns(b, "one", x, 1, 5, 1), y, LM_ACT_SIGMOID);
}

static lm_value act(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_activate(b, x, LM_ACT_GELU_TANH);
}

static lm_value xielu(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_xielu_of(b, x);
}

static lm_value columns(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_columns(b, "part", x, 3, 1, 2);
}

static lm_value softcap(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_softcap(b, x, 1.5f);
}

static lm_value clamp(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_clamp_between(b, x, -0.25f, 0.5f);
}

static lm_value join(lm_builder *b, lm_value x, lm_value y)
{
    return lm_join(b, "both", x, y, 3, false);
}

static lm_value join_shared(lm_builder *b, lm_value x, lm_value y)
{
    return lm_join(b, "both", x, y, 3, true);
}

static lm_value temperature(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_temperature(b, x, &(lm_temperature_spec){ .beta = 0.5f, .length = 4, .offset = 1 });
}

static lm_value route(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_route(b, x, &(lm_route_spec){ .n_experts = WIDTH, .top_k = 3, .renormalise = true, .scale = 2 },
                    NULL);
}

static lm_value route_scaled(lm_builder *b, lm_value x, lm_value y)
{
    lm_value r = route(b, x, y);

    lm_scale_routes(b, r, "factors");
    return r;
}

static lm_value route_by_token(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    lm_value r = lm_route(b, x, &(lm_route_spec){ .n_experts = WIDTH, .top_k = 3, .root_softplus = true,
                                                  .renormalise = true, .scale = 2 },
                          NULL);
    lm_route_by_token(b, r, "listed", 4);
    return r;
}

static lm_value repeat(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_repeat_stream(b, "streams", x, 4);
}

/* of two streams: eight numbers */
static lm_value eight(lm_builder *b, lm_value x)
{
    return lm_columns(b, "eight", x, 1, 2, 8);
}

static const char *const of_connections[2] = { "base", "scale" };

static lm_value connect(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_connections(b, "connections", eight(b, x), of_connections,
                          &(lm_connect_spec){ .streams = 2, .rounds = 3, .eps = 0.01f });
}

static lm_value connect_end(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_connections(b, "connections", lm_columns(b, "two", x, 1, 2, 2), of_connections,
                          &(lm_connect_spec){ .streams = 2, .eps = 0.01f, .ends = true });
}

static lm_value blend(lm_builder *b, lm_value x, lm_value y)
{
    return lm_blend_streams(b, "blended", x, eight(b, y), 2);
}

static lm_value merge(lm_builder *b, lm_value x, lm_value y)
{
    return lm_merge_streams(b, "merged", x, lm_columns(b, "half", y, 1, 0, WIDTH / 2), eight(b, x), 2);
}

static lm_value rope_last(lm_builder *b, lm_value x, lm_value y)
{
    (void)y;
    return lm_rope(b, x, 2, &(lm_rope_spec){ .dim = 4, .base = 100, .factor = 1, .last = true });
}

static lm_value glu_clamped(lm_builder *b, lm_value x, lm_value y)
{
    return lm_glu_clamped(b, x, y, LM_ACT_SILU, 0.9f, 0);
}

typedef lm_value (*maker)(lm_builder *b, lm_value x, lm_value y);

static const maker makers[] = {
    rms,     layer,   layer_heads, rope, add,         scale, glu, gate, act, mul, rms_groups,
    columns, softcap, clamp,       join, join_shared, route, route_scaled,
    unit,    bias,    by_weight,   decay, softplus,   gate_lanes, bounded_decay, gate_heads, temperature,
    xielu,   mix,     mix_plain,   match,         gaussian_top, route_by_token, repeat, connect, connect_end,
    blend,   merge,   rope_last,   glu_clamped,
};

/* ---- values ---- */

typedef struct data {
    float in[3][ROWS * MOST], out[ROWS * MOST], rotation[ROWS * MOST];
    float weights[LM_MAX_WEIGHTS][MOST];
} data;

/* Values of a row are at least 1/128 apart and not at the edge of a clamp: a small difference changes no
 * choice. */
static void fill(float *x, uint32_t n, uint64_t seed)
{
    uint32_t draws[4];

    for (uint32_t i = 0; i < n; i++) {
        lm_rng_block(seed, 0, i, draws);
        x[i] = (float)((int)(draws[0] % 24) - 12) / 8 + (float)(i % WIDTH) / 128 + 1.0f / 300;
    }
}

static void set_up(const lm_program *p, const lm_node *n, data *d, const lm_row_kernels *k, lm_rows *r)
{
    static const uint32_t positions[ROWS] = { 2, 3, 40 };
    static const int32_t  tokens[ROWS]    = { 1, 0, 3 };

    *r = (lm_rows){ .program = p, .node = n, .kernels = k, .positions = positions, .tokens = tokens,
                    .out = { d->out, p->values[n->out].width } };
    for (uint32_t i = 0; i < n->n_in; i++) {
        fill(d->in[i], ROWS * p->values[n->in[i]].width, 7 + i);
        r->in[i] = (lm_operand){ d->in[i], p->values[n->in[i]].width };
    }
    for (uint32_t i = 0; i < LM_MAX_WEIGHTS; i++)
        if (n->weights[i] != LM_NONE) {
            fill(d->weights[i], (uint32_t)p->weights[n->weights[i]].elements, 70 + i);
            r->weights[i] = d->weights[i];
            const lm_weight *w = &p->weights[n->weights[i]];
            for (uint32_t j = 0; w->below && j < w->elements; j++)
                d->weights[i][j] = (float)(j * 5 % w->below);
        }
    fill(d->rotation, ROWS * 4, 700);
    r->rotation = (lm_operand){ d->rotation, 4 };
}

/* A loss whose gradient of output i is 1/(i % 5 + 1). */
static float slope(uint64_t i)
{
    return 1.0f / (float)(i % 5 + 1);
}

static double loss(const lm_rows *r, const lm_row_op *op)
{
    uint64_t n   = ROWS * lm_lanes_of(r, r->node->out);
    double   sum = 0;

    op->forward(r, 0, ROWS);
    for (uint64_t i = 0; i < n; i++)
        sum += (double)slope(i) * (double)r->out.at[i];
    return sum;
}

static void check_slopes(const lm_rows *r, const lm_row_op *op, float *x, const float *gradient, uint64_t n)
{
    const float h = 1.0f / 1024;

    for (uint64_t i = 0; i < n; i++) {
        float at = x[i];
        x[i]     = at + h;
        double up = loss(r, op);
        x[i]      = at - h;
        double slope_of = (up - loss(r, op)) / (2 * (double)h);
        x[i]            = at;
        if (fabs(slope_of - (double)gradient[i]) > 4e-3 * (1 + fabs(slope_of)))
            fail_msg("%s: gradient %llu is %g, the slope %g", lm_op_of(r->node->code)->name,
                     (unsigned long long)i, (double)gradient[i], slope_of);
    }
}

static void reverses_are_slopes(void **state)
{
    lm_kernels          kernels;
    lm_gradient_kernels gradients;
    bool                seen[LM_OP_COUNT] = { false };

    (void)state;
    lm_kernels_init_ref(&kernels);
    lm_gradient_kernels_init_ref(&gradients);
    for (size_t m = 0; m < sizeof makers / sizeof *makers; m++) {
        static data  d;
        static float din[3][ROWS * MOST], dout[ROWS * MOST], dw[LM_MAX_WEIGHTS][MOST], scratch[2 * MOST];
        bool         first[LM_MAX_INPUTS] = { true, true, true, true, true };
        lm_builder  *b = lm_builder_new("rows", "Rows", NULL, names);
        lm_program  *p = NULL;
        lm_error     e = { 0 };
        lm_rows      r;
        lm_value     x = lm_embedding(b, "x", 10, WIDTH);
        lm_value     y = lm_embedding(b, "y", 10, makers[m] == join_shared ? 4 : WIDTH);
        lm_value     made = makers[m](b, x, y);

        assert_int_equal(lm_builder_finish(b, lm_head(b, "head", made, 10, NULL), &p, &e), LM_OK);
        const lm_node   *n  = &p->nodes[p->values[made].producer];
        const lm_row_op *op = lm_row_ops[n->code];
        assert_non_null(op);
        set_up(p, n, &d, &kernels.row, &r);
        op->forward(&r, 0, ROWS);
        lm_rows_back back = { .rows = r, .kernels = &gradients, .first = first };
        back.dout         = (lm_operand){ dout, r.out.row };
        for (uint64_t i = 0; i < ROWS * r.out.row; i++)
            dout[i] = n->code == LM_OP_ROUTE && i % r.out.row >= 3 ? 0 : slope(i);
        for (uint32_t i = 0; i < n->n_in; i++)
            back.din[i] = (lm_operand){ din[i], r.in[i].row };
        memset(dw, 0, sizeof dw);
        for (uint32_t i = 0; i < LM_MAX_WEIGHTS; i++)
            back.dw[i] = r.weights[i] ? dw[i] : NULL;
        assert_true(op->scratch_rows * r.out.row <= sizeof scratch / sizeof *scratch);
        op->reverse(&back, 0, ROWS, scratch);
        if (op->reverse_weights && (back.dw[0] || back.dw[1]))
            op->reverse_weights(&back, 0, ROWS);
        for (uint32_t i = 0; i < n->n_in; i++)
            check_slopes(&r, op, d.in[i], din[i], ROWS * r.in[i].row);
        for (uint32_t i = 0; i < LM_MAX_WEIGHTS; i++)
            if (r.weights[i] && lm_op_of(n->code)->trains_weights >> i & 1)
                check_slopes(&r, op, d.weights[i], dw[i], p->weights[n->weights[i]].elements);
        seen[n->code] = true;
        lm_program_free(p);
    }
    seen[LM_OP_ROUND] = true;            /* below */
    for (lm_op_code c = 0; c < LM_OP_COUNT; c++)
        if (lm_row_ops[c] && lm_row_ops[c]->reverse && !seen[c])
            fail_msg("%s has a reverse that is not checked here", lm_op_of(c)->name);
}

/* A row is rounded to 255 values of its own, half to even; a row of almost zeros by the least magnitude, NaN
 * stays. The gradient passes as if nothing were rounded. */
static void rows_are_rounded(void **state)
{
    enum { LANES = 8 };
    static const float from[3][LANES] = {
        { 127, -126.5f, 0.5f, 1.5f, 2.5f, -0.5f, 63.4f, 0 },
        { 1e-6f, -1e-6f, 0, 0, 0, 0, 0, 0 },
        { 1, 2, NAN, 0, 0, 0, 0, 0 },
    };
    static const float want[LANES] = { 127, -126, 0, 2, 2, 0, 63, 0 };
    lm_builder *b = lm_builder_new("rows", "Rows", NULL, names);
    lm_program *p = NULL;
    lm_error    e = { 0 };
    lm_value    y = lm_round_row(b, "rounded", lm_embedding(b, "x", 10, LANES));
    float       x[3][LANES], out[3][LANES], dout[3][LANES], din[3][LANES];
    bool        first[LM_MAX_INPUTS] = { true };

    (void)state;
    assert_int_equal(lm_builder_finish(b, lm_head(b, "head", y, 10, NULL), &p, &e), LM_OK);
    const lm_node *n = &p->nodes[p->values[y].producer];
    memcpy(x, from, sizeof x);
    lm_rows r = { .program = p, .node = n, .in = { { x[0], LANES } }, .out = { out[0], LANES } };
    lm_row_ops[n->code]->forward(&r, 0, 3);
    for (int i = 0; i < LANES; i++) {
        assert_true(out[0][i] == want[i]);
        assert_true(fabsf(out[1][i] - (i < 2 ? x[1][i] : 0)) < 4.1e-8f && isnan(out[2][i]));
        dout[0][i] = dout[1][i] = dout[2][i] = slope((uint64_t)i);
    }
    lm_rows_back back = { .rows = r, .first = first, .dout = { dout[0], LANES },
                          .din = { { din[0], LANES } } };
    lm_row_ops[n->code]->reverse(&back, 0, 3, NULL);
    assert_memory_equal(din, dout, sizeof din);
    lm_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(reverses_are_slopes),
                                        cmocka_unit_test(rows_are_rounded) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
