/* act.h - the activation functions there are. Programs name them, kernels compute them. */
#ifndef LM_TENSOR_ACT_H
#define LM_TENSOR_ACT_H

typedef enum lm_act {
    LM_ACT_SILU,                 /* x / (1 + e^-x) */
    LM_ACT_GELU,                 /* x/2 (1 + erf(x / sqrt 2)) */
    LM_ACT_GELU_TANH,            /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    LM_ACT_GELU_QUICK,           /* x * sigmoid(1.702 x) */
    LM_ACT_RELU,
    LM_ACT_RELU2,                /* relu(x)^2 */
    LM_ACT_SIGMOID,
    LM_ACT_TANH,
    LM_ACT_COUNT
} lm_act;

#endif
