/* act.h - the activation functions: programs name them, kernels compute them. All names come from this
 * list. */
#ifndef LM_TENSOR_ACT_H
#define LM_TENSOR_ACT_H

/* name, id in programs, name in papers, class in transformers if a description names none */
#define LM_ACT_LIST(X)                                                                            \
    X(LM_ACT_SILU, "silu", "SiLU", "SiLUActivation")              /* x / (1 + e^-x) */            \
    X(LM_ACT_GELU, "gelu", "GELU", "GELUActivation")              /* x/2 (1 + erf(x / sqrt 2)) */ \
    X(LM_ACT_GELU_TANH, "gelu_tanh", "GELU (tanh)", "GELUTanh")                                   \
    /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */                                           \
    X(LM_ACT_GELU_QUICK, "quick", "GELU (quick)", "Activation")   /* x * sigmoid(1.702 x) */      \
    X(LM_ACT_RELU, "relu", "ReLU", "ReLU")                                                        \
    X(LM_ACT_RELU2, "relu2", "ReLU²", "Activation")               /* relu(x)^2 */                 \
    X(LM_ACT_SIGMOID, "sigmoid", "sigmoid", "Activation")                                         \
    X(LM_ACT_TANH, "tanh", "tanh", "Activation")                                                  \
    X(LM_ACT_SOFTPLUS, "softplus", "softplus", "Softplus")        /* ln(1 + e^x) */               \
    X(LM_ACT_XIELU, "xielu", "xIELU", "XIELUActivation")          /* has numbers of its own: lm_xielu */

typedef enum lm_act {
#define X(name, id, word, class_name) name,
    LM_ACT_LIST(X)
#undef X
    LM_ACT_COUNT
} lm_act;

const char *lm_act_id(lm_act a);                 /* "gelu_tanh" */
const char *lm_act_word(lm_act a);               /* "GELU (tanh)" */
const char *lm_act_class(lm_act a);              /* "GELUTanh" */

#endif
