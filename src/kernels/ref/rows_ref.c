/* rows_ref.c - the kernels on rows of floats in plain C. Sums run in ascending order. */
#include <math.h>

#include "kernels/convolution_lanes.h"
#include "kernels/levels.h"
#include "kernels/recurrence_lanes.h"

static void rms(float *y, const float *x, const float *w, uint64_t width, float eps)
{
    float sum = 0.0f;

    for (uint64_t i = 0; i < width; i++)
        sum += x[i] * x[i];
    float r = 1.0f / sqrtf(sum / (float)width + eps);
    for (uint64_t i = 0; i < width; i++)
        y[i] = w ? x[i] * r * w[i] : x[i] * r;
}

static void layer_norm(float *y, const float *x, const float *w, const float *b, uint64_t width, float eps)
{
    float sum = 0.0f, squares = 0.0f;

    for (uint64_t i = 0; i < width; i++)
        sum += x[i];
    float mean = sum / (float)width;
    for (uint64_t i = 0; i < width; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    float r = 1.0f / sqrtf(squares / (float)width + eps);
    for (uint64_t i = 0; i < width; i++) {
        float v = (x[i] - mean) * r;
        if (w)
            v *= w[i];
        y[i] = b ? v + b[i] : v;
    }
}

static void add(float *y, const float *a, const float *b, float scale, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = a[i] + scale * b[i];
}

static void mul(float *y, const float *a, const float *b, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

static void scale(float *y, const float *x, float s, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = s * x[i];
}

static void softcap(float *y, const float *x, float cap, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = cap * tanhf(x[i] / cap);
}

/* Comparisons in this order let NaN through. */
static void clamp(float *y, const float *x, float low, float high, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = x[i] < low ? low : x[i] > high ? high : x[i];
}

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static float activate(float x, lm_act act)
{
    switch (act) {
    case LM_ACT_SILU: return x == -INFINITY ? -0.0f : x / (1.0f + expf(-x));
    case LM_ACT_GELU: return x == -INFINITY ? -0.0f : 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case LM_ACT_GELU_TANH:
        return x == -INFINITY ? -0.0f : 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    case LM_ACT_GELU_QUICK: return x == -INFINITY ? -0.0f : x * sigmoid(1.702f * x);
    case LM_ACT_RELU: return x < 0.0f ? 0.0f : x;
    case LM_ACT_RELU2: return x < 0.0f ? 0.0f : x * x;
    case LM_ACT_SIGMOID: return sigmoid(x);
    case LM_ACT_TANH: return tanhf(x);
    case LM_ACT_SOFTPLUS: return x > 20.0f ? x : log1pf(expf(x));
    case LM_ACT_XIELU:
    case LM_ACT_COUNT: break;
    }
    return x;
}

static void xielu(float *y, const float *x, const lm_xielu *a, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = a->beta * x[i] + (x[i] > 0.0f
                                     ? a->positive * x[i] * x[i]
                                     : a->negative * (expm1f(x[i] < a->eps ? x[i] : a->eps) - x[i]));
}

static void act(float *y, const float *x, lm_act act, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = activate(x[i], act);
}

static void glu(float *y, const float *gate, const float *up, lm_act act, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = activate(gate[i], act) * up[i];
}

static void glu_clamped(float *y, const float *gate, const float *up, lm_act act, float limit, float plus,
                        uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float g = gate[i] > limit ? limit : gate[i], u = up[i] < -limit  ? -limit
                                                         : up[i] > limit ? limit
                                                                         : up[i];
        y[i] = activate(g, act) * (u + plus);
    }
}

static void softmax(float *x, uint64_t n)
{
    float max = -INFINITY, sum = 0.0f;

    for (uint64_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (uint64_t i = 0; i < n; i++) {
        x[i] = expf(x[i] - max);
        sum += x[i];
    }
    for (uint64_t i = 0; i < n; i++)
        x[i] /= sum;
}

static void rope(float *x, uint64_t n, uint64_t stride, uint64_t dim, const float *cosine, const float *sine,
                 bool pair)
{
    uint64_t step = pair ? 2 : 1, apart = pair ? 1 : dim / 2;

    for (uint64_t h = 0; h < n; h++, x += stride) {
        for (uint64_t i = 0; i < dim / 2; i++) {
            float a = x[i * step], b = x[i * step + apart];
            x[i * step] = a * cosine[i] - b * sine[i];
            x[i * step + apart] = b * cosine[i] + a * sine[i];
        }
    }
}

void lm_row_kernels_init_ref(lm_row_kernels *k)
{
    *k = (lm_row_kernels){
        .rms = rms,
        .layer_norm = layer_norm,
        .add = add,
        .mul = mul,
        .scale = scale,
        .softcap = softcap,
        .clamp = clamp,
        .act = act,
        .xielu = xielu,
        .glu = glu,
        .glu_clamped = glu_clamped,
        .softmax = softmax,
        .rope = rope,
        .recur = recur,
        .convolve = convolve,
    };
}
