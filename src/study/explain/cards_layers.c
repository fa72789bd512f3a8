/* cards_layers.c - cards of the components of MLPs. Judgements are qualitative; numbers come from
 * derivations. */
#include "study/explain/cards.h"

static bool uses_plain(const lm_traits *t)
{
    return t->has_act && !t->glu && t->intermediate > 0;
}

static bool acts(const lm_traits *t, lm_act a)
{
    return (t->has_act || t->glu || t->experts) && t->act == a;
}

static bool uses_relu(const lm_traits *t)
{
    return acts(t, LM_ACT_RELU) || acts(t, LM_ACT_RELU2);
}

static bool uses_gelu(const lm_traits *t)
{
    return acts(t, LM_ACT_GELU) || acts(t, LM_ACT_GELU_TANH) || acts(t, LM_ACT_GELU_QUICK);
}

static bool uses_silu(const lm_traits *t)
{
    return acts(t, LM_ACT_SILU);
}

static bool routes(const lm_traits *t)
{
    return t->route != NULL;
}

bool lm_routes_apart(const lm_traits *t)
{
    return t->route && t->route->route.spec.sigmoid;
}

static const lm_card cards[] = {
    {
        .topic = "mlp",
        .title = N_("The plain MLP"),
        .summary = N_("two matrices with an activation between them"),
        .what = N_("One matrix widens the vector of each token from D to F dimensions, an activation is "
                   "applied to every element, and a second matrix returns to D. Each token is computed "
                   "alone: nothing passes between tokens here."),
        .formulas = { { "MLP(x) = W₂ · act(W₁ · x + b₁) + b₂",
                        "\\text{MLP}(x) = W_2\\,\\text{act}(W_1 x + b_1) + b_2" },
                      { "W₁: F × D,   W₂: D × F,   b₁: F,   b₂: D",
                        "W_1 \\in \\mathbb{R}^{F \\times D},\\quad W_2 \\in \\mathbb{R}^{D \\times F}" } },
        .derive = lm_derive_mlp,
        .diagram = "mlp",
        .why = { N_("Attention only mixes the vectors of tokens; the MLP computes new features from each of "
                    "them."),
                 N_("Without the activation, the two matrices could be merged into one: a product of "
                    "matrices is a matrix.") },
        .gains = { N_("It needs only two matrices and one activation.") },
        .costs = { N_(
            "It has more parameters than the attention of the layer: 8 · D² at F = 4 · D, compared with "
            "4 · D².") },
        .sources = { "Vaswani et al., Attention Is All You Need, arXiv 1706.03762" },
        .used = uses_plain,
        .example = "gpt2",
    },
    {
        .topic = "relu",
        .title = "ReLU",
        .summary = N_("negative values become zero"),
        .what = N_("A value below zero becomes zero, any other stays as it is. The slope is 0 or 1. Its "
                   "square, ReLU², is used by some models."),
        .formulas = { { "ReLU(x) = max(0, x)", "\\text{ReLU}(x) = \\max(0, x)" } },
        .derive = lm_derive_relu,
        .sheet = lm_sheet_activations,
        .why = { N_("The cheapest function that is not linear: one comparison.") },
        .gains = { N_("Many results are exactly zero; kernels can skip them.") },
        .costs = { N_("Where the input is negative the gradient is zero: a unit that is negative for every "
                      "token no longer learns.") },
        .sources = { "Nair & Hinton, Rectified Linear Units Improve Restricted Boltzmann Machines, 2010",
                     "Vaswani et al., Attention Is All You Need, arXiv 1706.03762" },
        .used = uses_relu,
        .example = "opt-125m",
    },
    {
        .topic = "gelu",
        .title = "GELU",
        .summary = N_(
            "a value times the probability that a normal variable is smaller: exact, and with tanh"),
        .what = N_("The input is multiplied by Φ(x), the probability that a standard normal variable is "
                   "below x. The exact form uses the error function; the tanh form is an approximation that "
                   "GPT-2 introduced and many models were trained with. They differ by less than 0.0005, and "
                   "a model must be run with the one it was trained with."),
        .formulas = { { N_("exact:  GELU(x) = x · Φ(x) = x/2 · (1 + erf(x / √2))"),
                        "\\text{GELU}(x) = x\\,\\varPhi(x) = \\frac{x}{2}\\left(1 + "
                        "\\mathrm{erf}(\\frac{x}{\\sqrt{2}})\\right)" },
                      { N_("tanh:   GELU(x) ≈ x/2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))"),
                        "\\text{GELU}(x) \\approx \\frac{x}{2}\\left(1 + \\tanh(\\sqrt{\\frac{2}{\\pi}}\\,(x "
                        "+ 0.044715\\,x^3))\\right)" },
                      { N_("quick:  GELU(x) ≈ x · σ(1.702 · x)"),
                        "\\text{GELU}(x) \\approx x\\,\\sigma(1.702\\,x)" } },
        .derive = lm_derive_gelu,
        .sheet = lm_sheet_activations,
        .why = { N_("It is smooth where ReLU has a corner, and lets small negative values pass a little.") },
        .gains = { N_("It has a gradient almost everywhere, also for negative inputs.") },
        .costs = { N_("It computes an error function or a tanh per element; ReLU needs one comparison.") },
        .sources = { "Hendrycks & Gimpel, Gaussian Error Linear Units (GELUs), arXiv 1606.08415" },
        .used = uses_gelu,
        .example = "gpt2",
    },
    {
        .topic = "silu",
        .title = N_("SiLU (Swish)"),
        .summary = N_("a value times its sigmoid"),
        .what = N_("The input is multiplied by its own sigmoid: large values pass, very negative ones "
                   "vanish, and in between the function dips slightly below zero."),
        .formulas = { { "SiLU(x) = x · σ(x) = x / (1 + e⁻ˣ)",
                        "\\text{SiLU}(x) = x\\,\\sigma(x) = \\frac{x}{1 + e^{-x}}" } },
        .derive = lm_derive_silu,
        .sheet = lm_sheet_activations,
        .why = { N_("Nearly the shape of GELU with one exponential.") },
        .gains = { N_("It is smooth and has a gradient for negative inputs; most gated MLPs use it.") },
        .costs = { N_("It computes an exponential and a division per element.") },
        .sources = { "Elfwing et al., Sigmoid-Weighted Linear Units, arXiv 1702.03118",
                     "Ramachandran et al., Searching for Activation Functions, arXiv 1710.05941" },
        .used = uses_silu,
        .example = "llama-3.2-1b",
    },
    {
        .topic = "router",
        .title = N_("The router and its load"),
        .summary = N_("which experts a token uses, and how many a batch reads"),
        .what = N_("One small matrix scores every expert for every token. The scores become weights by "
                   "softmax or sigmoid, the best k are kept, and in some models divided by their sum. Which "
                   "experts a batch needs depends on all of its tokens."),
        .formulas = { { "s = W_r · x,   p = softmax(s)", "s = W_r\\,x,\\quad p = \\text{softmax}(s)" },
                      { N_("chosen: the k largest pᵢ;   gᵢ = pᵢ, or pᵢ / Σ chosen pⱼ"),
                        "g_i = p_i \\quad\\text{or}\\quad g_i = \\frac{p_i}{\\sum_{j \\in \\text{top-k}} "
                        "p_j}" },
                      { N_("used by n tokens: E · (1 − (1 − E_a/E)ⁿ) experts"),
                        "E\\left(1 - \\left(1 - \\frac{E_a}{E}\\right)^n\\right)" } },
        .special = { lm_routes_apart,
                     { "s = W_r · x,   p = σ(s)", "s = W_r\\,x,\\quad p = \\sigma(s)" } },
        .derive = lm_derive_router,
        .sheet = lm_sheet_router,
        .diagram = "moe",
        .why = { N_(
            "A layer can hold many more weights than a token uses, if a cheap decision says which.") },
        .gains = { N_("The decision costs one row of E numbers.") },
        .costs = { N_("Unequal load: some experts get many tokens and others none, so training adds a loss "
                      "or a bias that evens it out."),
                   N_("The choice is not continuous: a tiny change of x can route a token "
                      "to other experts.") },
        .sources = { "Shazeer et al., Outrageously Large Neural Networks, arXiv 1701.06538",
                     "Fedus et al., Switch Transformers, arXiv 2101.03961",
                     "DeepSeek-AI, DeepSeek-V3, arXiv 2412.19437" },
        .used = routes,
        .example = "mixtral-8x7b",
    },
};

const lm_card_list lm_cards_of_layers = { cards, sizeof cards / sizeof *cards };
