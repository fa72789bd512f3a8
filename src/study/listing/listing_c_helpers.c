/* listing_c_helpers.c - the functions that a listing in C calls, limited to those that the model needs. */
#include <string.h>

#include "study/listing/listing_c.h"
#include "base/alloc.h"
#include "tensor/act.h"

static bool has(const lm_listing *l, lm_op_code code)
{
    return lm_listing_first(l, code) != NULL;
}

/* ---- rows ---- */

static void put_rows(const lm_listing *l, lm_text *out)
{
    if (has(l, LM_OP_EMBED))
        lm_text_add_str(out, "static float *embed(const int *ids, const float *table, int rows, int width)\n"
                             "{\n"
                             "    float *y = make(width);\n\n"
                             "    for (int t = 0; t < T; t++) {\n"
                             "        if (ids[t] < 0 || ids[t] >= rows)\n"
                             "            stop(\"there is no such token\", \"ids\");\n"
                             "        memcpy(y + (size_t)t * width, table + (size_t)ids[t] * width, width * sizeof *y);\n"
                             "    }\n"
                             "    return y;\n"
                             "}\n\n");
    if (has(l, LM_OP_POSITION))
        lm_text_add_str(out, "static float *positions_of(const float *table, int rows, int width, int offset)\n"
                             "{\n"
                             "    float *y = make(width);\n\n"
                             "    if (T + offset > rows)\n"
                             "        stop(\"there are not so many positions\", \"ids\");\n"
                             "    memcpy(y, table + (size_t)offset * width, (size_t)T * width * sizeof *y);\n"
                             "    return y;\n"
                             "}\n\n");
    if (has(l, LM_OP_SINUSOID)) {
        unsigned layout = lm_listing_first(l, LM_OP_SINUSOID)->position.layout;
        lm_text_printf(out,
                       "/* Positions as sines and cosines of falling frequencies (arXiv 1706.03762). */\n"
                       "static float *sinusoid(int width, int offset)\n"
                       "{\n"
                       "    float *y = make(width);\n"
                       "    int    half = width / 2;\n\n"
                       "    for (int t = 0; t < T; t++)\n"
                       "        for (int i = 0; i < half; i++) {\n"
                       "            float angle = (float)(t + offset) * (float)pow(10000, %s);\n"
                       "            y[(size_t)t * width + %s] = sinf(angle);\n"
                       "            y[(size_t)t * width + %s] = cosf(angle);\n"
                       "        }\n"
                       "    return y;\n"
                       "}\n\n",
                       layout == LM_SINUSOID_SPREAD ? "-i / (half - 1.0)" : "-2.0 * i / width",
                       layout == LM_SINUSOID_PAIRS ? "2 * i" : "i", layout == LM_SINUSOID_PAIRS ? "2 * i + 1" : "half + i");
    }
}

static void put_linear(const lm_listing *l, lm_text *out)
{
    bool plain = false, stored = false;

    for (uint32_t i = l->from; i < l->to; i++)
        if (l->p->nodes[i].code == LM_OP_LINEAR)
            *(l->p->weights[l->p->nodes[i].weights[0]].transposed ? &stored : &plain) = true;
    for (unsigned k = 0; k < 2; k++)
        if (k ? stored : plain)
            lm_text_printf(out,
                           "/* x [T][in] times a matrix that is stored as %s, plus a bias or none. */\n"
                           "static float *%s(const float *x, int in, int out, const float *weight, const float *bias)\n"
                           "{\n"
                           "    float *y = make(out);\n\n"
                           "    for (int t = 0; t < T; t++)\n"
                           "        for (int o = 0; o < out; o++) {\n"
                           "            float sum = 0;\n"
                           "            for (int i = 0; i < in; i++)\n"
                           "                sum += x[(size_t)t * in + i] * weight[%s];\n"
                           "            y[(size_t)t * out + o] = sum + (bias ? bias[o] : 0);\n"
                           "        }\n"
                           "    return y;\n"
                           "}\n\n",
                           k ? "[in][out]" : "[out][in]", k ? "linear_stored_in_out" : "linear",
                           k ? "(size_t)i * out + o" : "(size_t)o * in + i");
}

static void put_vectors(const lm_listing *l, lm_text *out)
{
    bool one = false, many = false;

    for (uint32_t i = l->from; i < l->to; i++)
        for (unsigned k = 0; k < LM_MAX_WEIGHTS; k++)
            if (l->p->nodes[i].weights[k] != LM_NONE) {
                const lm_weight *w = &l->p->weights[l->p->nodes[i].weights[k]];
                one |= w->plus_one;
                many |= lm_is_norm(&l->p->nodes[i]) && strchr(w->path, '*') != NULL;
            }
    if (one)
        lm_text_add_str(out, "/* The checkpoint keeps w - 1. */\n"
                             "static float *plus_one(const float *x, size_t n)\n"
                             "{\n"
                             "    float *y = make(n);\n\n"
                             "    for (size_t i = 0; i < n; i++)\n"
                             "        y[i] = 1 + x[i];\n"
                             "    return y;\n"
                             "}\n\n");
    if (many)
        lm_text_add_str(out, "/* A vector for each head, stored one by one. */\n"
                             "static float *stacked(const char *name, int heads, int width)\n"
                             "{\n"
                             "    float *y = make((size_t)heads * width);\n\n"
                             "    for (int h = 0; h < heads; h++)\n"
                             "        memcpy(y + (size_t)h * width, we(name, h, width), width * sizeof *y);\n"
                             "    return y;\n"
                             "}\n\n");
}

static void put_norms(const lm_listing *l, lm_text *out)
{
    if (has(l, LM_OP_RMS_NORM))
        lm_text_add_str(out, "/* x / sqrt(mean(x^2) + eps) * weight (RMSNorm, arXiv 1910.07467), of `groups` parts of each row. */\n"
                             "static float *rms_norm(const float *x, int groups, int width, const float *weight, int own, float eps)\n"
                             "{\n"
                             "    float *y = make((size_t)groups * width);\n\n"
                             "    for (size_t r = 0; r < (size_t)T * groups; r++) {\n"
                             "        const float *a = x + r * width, *by = weight && own ? weight + r % groups * width : weight;\n"
                             "        double       sum = 0;\n"
                             "        for (int i = 0; i < width; i++)\n"
                             "            sum += (double)a[i] * a[i];\n"
                             "        float size = (float)sqrt(sum / width + eps);\n"
                             "        for (int i = 0; i < width; i++)\n"
                             "            y[r * width + i] = a[i] / size * (by ? by[i] : 1);\n"
                             "    }\n"
                             "    return y;\n"
                             "}\n\n");
    if (has(l, LM_OP_LAYER_NORM))
        lm_text_add_str(out, "/* (x - mean) / sqrt(variance + eps) * weight + bias (LayerNorm, arXiv 1607.06450). */\n"
                             "static float *layer_norm(const float *x, int groups, int width, const float *weight, const float *bias, "
                             "int own, float eps)\n"
                             "{\n"
                             "    float *y = make((size_t)groups * width);\n\n"
                             "    for (size_t r = 0; r < (size_t)T * groups; r++) {\n"
                             "        const float *a = x + r * width;\n"
                             "        size_t       at = own ? r % groups * width : 0;\n"
                             "        double       mean = 0, sum = 0;\n"
                             "        for (int i = 0; i < width; i++)\n"
                             "            mean += a[i] / (double)width;\n"
                             "        for (int i = 0; i < width; i++)\n"
                             "            sum += (a[i] - mean) * (a[i] - mean);\n"
                             "        double size = sqrt(sum / width + eps);\n"
                             "        for (int i = 0; i < width; i++)\n"
                             "            y[r * width + i] = (float)((a[i] - mean) / size) * (weight ? weight[at + i] : 1) + (bias ? "
                             "bias[at + i] : 0);\n"
                             "    }\n"
                             "    return y;\n"
                             "}\n\n");
}

/* ---- activations and sums ---- */

static const char *const activations[LM_ACT_COUNT] = {
    [LM_ACT_SILU] = "x / (1 + expf(-x))",
    [LM_ACT_GELU] = "x / 2 * (1 + erff(x / sqrtf(2)))",
    [LM_ACT_GELU_TANH] = "x / 2 * (1 + tanhf(0.797884561f * (x + 0.044715f * x * x * x)))",
    [LM_ACT_GELU_QUICK] = "x / (1 + expf(-1.702f * x))",
    [LM_ACT_RELU] = "x > 0 ? x : 0",
    [LM_ACT_RELU2] = "x > 0 ? x * x : 0",
    [LM_ACT_SIGMOID] = "1 / (1 + expf(-x))",
    [LM_ACT_TANH] = "tanhf(x)",
};

static void put_activations(const lm_listing *l, lm_text *out)
{
    bool seen[LM_ACT_COUNT] = { false };

    lm_listing_activations(l, seen);
    for (unsigned a = 0; a < LM_ACT_COUNT; a++)
        if (seen[a])
            lm_text_printf(out, "static float %s(float x)\n{\n    return %s;\n}\n\n", lm_listing_c_act((lm_act)a), activations[a]);
}

static void put_each(const lm_listing *l, lm_op_code code, const char *arguments, const char *value, lm_text *out)
{
    if (has(l, code))
        lm_text_printf(out,
                       "static float *%s)\n{\n    float *y = make(width);\n\n    for (size_t i = 0; i < (size_t)T * width; i++)\n"
                       "        y[i] = %s;\n    return y;\n}\n\n",
                       arguments, value);
}

static void put_elementwise(const lm_listing *l, lm_text *out)
{
    put_each(l, LM_OP_ACT, "activated(float (*act)(float), const float *x, int width", "act(x[i])", out);
    put_each(l, LM_OP_GLU, "gated(float (*act)(float), const float *gate, const float *up, int width", "act(gate[i]) * up[i]", out);
    for (uint32_t i = l->from; i < l->to; i++)
        if (l->p->nodes[i].code == LM_OP_GLU && l->p->values[l->p->nodes[i].in[0]].width == 1) {
            put_each(l, LM_OP_GLU, "gated_by_one(float (*act)(float), const float *gate, const float *up, int width",
                     "act(gate[i / width]) * up[i]", out);
            break;
        }
    put_each(l, LM_OP_ADD, "add(const float *a, const float *b, int width", "a[i] + b[i]", out);
    put_each(l, LM_OP_SCALE, "scaled(const float *x, int width, float by", "x[i] * by", out);
    put_each(l, LM_OP_SOFTCAP, "capped(const float *x, int width, float cap", "cap * tanhf(x[i] / cap)", out);
    put_each(l, LM_OP_CLAMP, "clamped(const float *x, int width, float limit", "fmaxf(-limit, fminf(limit, x[i]))", out);
    if (has(l, LM_OP_COLUMNS))
        lm_text_add_str(out, "/* Lanes [from, from + width) of each of `groups` equal parts of `part` lanes. */\n"
                             "static float *columns(const float *x, int groups, int part, int from, int width)\n"
                             "{\n"
                             "    float *y = make((size_t)groups * width);\n\n"
                             "    for (size_t r = 0; r < (size_t)T * groups; r++)\n"
                             "        memcpy(y + r * width, x + r * part + from, width * sizeof *y);\n"
                             "    return y;\n"
                             "}\n\n");
    if (has(l, LM_OP_JOIN))
        lm_text_add_str(out, "/* The lanes of x [T][groups][a] and of y [T][groups, or 1 if shared][b] side by side. */\n"
                             "static float *join(const float *x, int a, const float *y, int b, int groups, int shared)\n"
                             "{\n"
                             "    float *z = make((size_t)groups * (a + b));\n\n"
                             "    for (size_t r = 0; r < (size_t)T * groups; r++) {\n"
                             "        memcpy(z + r * (a + b), x + r * a, a * sizeof *z);\n"
                             "        memcpy(z + r * (a + b) + a, y + (shared ? r / groups : r) * b, b * sizeof *z);\n"
                             "    }\n"
                             "    return z;\n"
                             "}\n\n");
}

/* ---- rotary positions ---- */

static void put_scaling(const lm_rope_spec *s, lm_text *out)
{
    if (s->type == LM_ROPE_LINEAR)
        lm_text_printf(out, "    for (int i = 0; i < %u; i++)                 /* positions closer together by this factor */\n"
                            "        turn[i] /= %.9g;\n", s->dim / 2, s->factor);
    if (s->type == LM_ROPE_LLAMA3)
        lm_text_printf(out,
                       "    /* llama3's rule: waves shorter than %g tokens stay, those longer than %g are stretched by %g, "
                       "between them a ramp */\n"
                       "    for (int i = 0; i < %u; i++) {\n"
                       "        double length = 2 * M_PI / turn[i], keep = fmin(fmax((%u / length - %g) / (%g - %g), 0), 1);\n"
                       "        turn[i] = (1 - keep) * turn[i] / %g + keep * turn[i];\n"
                       "    }\n",
                       s->original_context / s->high_freq_factor, s->original_context / s->low_freq_factor, s->factor,
                       s->dim / 2, s->original_context, s->low_freq_factor, s->high_freq_factor, s->low_freq_factor, s->factor);
    if (s->type == LM_ROPE_YARN)
        lm_text_printf(out,
                       "    /* YaRN (arXiv 2309.00071): pairs that turn more than %g times over the %u trained positions stay, "
                       "those below\n"
                       "     * %g turn %g times slower, between them a ramp */\n"
                       "    double low  = fmax(%s(%u * log(%u / (%.17g * 2 * M_PI)) / (2 * log(%.17g))), 0);\n"
                       "    double high = fmin(%s(%u * log(%u / (%.17g * 2 * M_PI)) / (2 * log(%.17g))), %u);\n"
                       "    for (int i = 0; i < %u; i++) {\n"
                       "        double r = fmin(fmax((i - low) / fmax(high - low, 0.001), 0), 1);\n"
                       "        turn[i] = turn[i] / %.9g * r + turn[i] * (1 - r);\n"
                       "    }\n",
                       s->beta_fast, s->original_context, s->beta_slow, s->factor, s->truncate ? "floor" : "", s->dim,
                       s->original_context, s->beta_fast, s->base, s->truncate ? "ceil" : "", s->dim, s->original_context,
                       s->beta_slow, s->base, s->dim - 1, s->dim / 2, s->factor);
}

static void put_list(lm_text *out, const char *name, const float *x, uint32_t n)
{
    lm_text_printf(out, "    static const float %s[] = { ", name);
    for (uint32_t i = 0; i < n; i++)
        lm_text_printf(out, "%s%.9g", i == 0 ? "" : i % 10 == 0 ? ",\n        " : ", ", (double)x[i]);
    lm_text_add_str(out, " };\n");
}

static lm_status put_rotary(const lm_listing *l, uint32_t index, lm_text *out, lm_error *e)
{
    const lm_rope_table *t = &l->p->ropes[index];
    const lm_rope_spec *s = &t->spec;
    char name[LM_LISTING_NAME];
    float *inv, magnitude;

    if (t->divisors != LM_NONE || t->long_factors != LM_NONE || t->short_factors != LM_NONE)
        return lm_fail(
            e, LM_UNSUPPORTED, l->f->s.name, LM_NO_OFFSET,
            "its rotary factors are tensors of the file, which checkpoints do not have: take its folder or its config.json");
    if (s->type == LM_ROPE_LONGROPE && (!s->short_factors || !s->long_factors))
        return lm_fail(e, LM_UNSUPPORTED, l->f->s.name, LM_NO_OFFSET,
                       "the factors of its rotary positions are not in the description");
    inv = lm_alloc_zero(s->dim / 2 + 1, sizeof *inv);
    if (!inv)
        return lm_fail_memory(e, "a listing", s->dim);
    magnitude = lm_rope_frequencies(s, 1, NULL, NULL, inv);
    lm_free(inv);
    lm_listing_rotary(l, index, name);
    lm_text_printf(out,
                   "/* Position t turns pair i of a head's lanes by t turn[i]. Gives the factor of the rotated lanes. */\n"
                   "static float %s(double *turn)\n{\n    double base = %.17g;\n\n",
                   name, s->base);
    if (s->type == LM_ROPE_LONGROPE) {
        put_list(out, "shorter", s->short_factors, s->dim / 2);
        put_list(out, "longer", s->long_factors, s->dim / 2);
    }
    if (s->type == LM_ROPE_DYNAMIC)
        lm_text_printf(
            out,
            "    if (T > %u)                                  /* NTK: a larger base beyond the trained positions */\n"
            "        base *= pow(%.9g * T / %u - %.9g, %u.0 / %u);\n",
            s->max_context, s->factor, s->max_context, s->factor - 1, s->dim, s->dim - 2);
    lm_text_printf(out, "    for (int i = 0; i < %u; i++)\n        turn[i] = pow(base, -2.0 * i / %u);\n", s->dim / 2, s->dim);
    put_scaling(s, out);
    if (s->type == LM_ROPE_LONGROPE)
        lm_text_printf(out,
                       "    for (int i = 0; i < %u; i++)                 /* LongRoPE (arXiv 2402.13753) */\n"
                       "        turn[i] /= T > %u ? longer[i] : shorter[i];\n",
                       s->dim / 2, s->original_context);
    lm_text_printf(out, "    return %.9g;\n}\n\n", (double)magnitude);
    return LM_OK;
}

static lm_status put_ropes(const lm_listing *l, lm_text *out, lm_error *e)
{
    bool *used = lm_alloc_zero(l->p->n_ropes + 1, sizeof *used), kinds[2] = { false, false };
    lm_status status = used ? LM_OK : lm_fail_memory(e, "a listing", 0);

    for (uint32_t i = l->from; status == LM_OK && i < l->to; i++) {
        const lm_node *n = &l->p->nodes[i];
        if (n->code != LM_OP_ROPE)
            continue;
        const lm_rope_spec *s = &l->p->ropes[n->rope.table].spec;
        kinds[(s->pairing == LM_ROPE_PAIR) != s->permuted] = true;
        if (!used[n->rope.table])
            status = put_rotary(l, n->rope.table, out, e);
        used[n->rope.table] = true;
    }
    lm_free(used);
    for (unsigned pairs = 0; status == LM_OK && pairs < 2; pairs++)
        if (kinds[pairs])
            lm_text_printf(out,
                           "/* Turn lane %s of every head (RoPE, arXiv 2104.09864); the lanes past the pairs stay. */\n"
                           "static float *%s(const float *x, int heads, int width, int half, float (*rotary)(double *))\n"
                           "{\n"
                           "    float *y = make((size_t)heads * width), size;\n"
                           "    double turn[1024];\n\n"
                           "    size = rotary(turn);\n"
                           "    memcpy(y, x, (size_t)T * heads * width * sizeof *y);\n"
                           "    for (size_t r = 0; r < (size_t)T * heads; r++)\n"
                           "        for (int i = 0; i < half; i++) {\n"
                           "            float angle = (float)(r / heads) * (float)turn[i], c = size * cosf(angle), s = size * "
                           "sinf(angle);\n"
                           "            size_t a = r * width + %s, b = r * width + %s;\n"
                           "            y[a] = x[a] * c - x[b] * s;\n"
                           "            y[b] = x[b] * c + x[a] * s;\n"
                           "        }\n"
                           "    return y;\n"
                           "}\n\n",
                           pairs ? "2i with lane 2i + 1" : "i with lane i + half", pairs ? "rope_pairs" : "rope",
                           pairs ? "2 * i" : "i", pairs ? "2 * i + 1" : "half + i");
    return status;
}

lm_status lm_listing_c_helpers(const lm_listing *l, lm_text *out, lm_error *e)
{
    const lm_node *route = lm_listing_first(l, LM_OP_ROUTE);
    bool whole = l->to - l->from == l->p->n_nodes;

    LM_TRY(lm_listing_alike(l, e));
    lm_text_add_str(out, "/* ---- operations ---- */\n\n");
    put_rows(l, out);
    put_vectors(l, out);
    put_linear(l, out);
    put_norms(l, out);
    if (whole || (route && !route->route.spec.sigmoid))
        lm_text_add_str(out, "/* exp(x), as shares of 1. */\n"
                             "static void softmax(float *x, int n)\n"
                             "{\n"
                             "    float most = x[0], sum = 0;\n\n"
                             "    for (int i = 1; i < n; i++)\n"
                             "        most = fmaxf(most, x[i]);\n"
                             "    for (int i = 0; i < n; i++)\n"
                             "        sum += x[i] = expf(x[i] - most);\n"
                             "    for (int i = 0; i < n; i++)\n"
                             "        x[i] /= sum;\n"
                             "}\n\n");
    put_activations(l, out);
    put_elementwise(l, out);
    LM_TRY(put_ropes(l, out, e));
    if (has(l, LM_OP_ATTENTION))
        lm_listing_c_attention(l, out);
    lm_listing_c_mixtures(l, out);
    return LM_OK;
}
