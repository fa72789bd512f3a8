/* cards_states.c - the cards of layers with a state. */
#include "study/explain/cards.h"

static bool convolves(const lm_traits *t)
{
    return t->convolution != NULL;
}

static bool recurs(const lm_traits *t)
{
    return t->recurrence != NULL;
}

static bool scans(const lm_traits *t)
{
    return t->scan != NULL;
}

static bool is_gated(const lm_traits *t)
{
    return t->gated != NULL;
}

static bool adds_only(const lm_traits *t)
{
    return t->recurrence && !t->recurrence->recurrence.spec.delta;
}

static const lm_card cards[] = {
    {
        .topic = "convolution",
        .title = N_("Short convolution"),
        .summary = N_("each dimension is a weighted sum of its last positions"),
        .what = N_("A causal depthwise convolution reads the last n_c positions of each dimension separately. "
                   "Its state is the rows before the current one; there are no keys and values."),
        .formulas = { { "yᵢ = b + Σⱼ wⱼ ⊙ xᵢ₋ⱼ,   0 ≤ j < n_c",
                        "y_i = b + \\sum_{0 \\le j < n_c} w_j \\odot x_{i-j}" } },
        .derive = lm_derive_convolution,
        .diagram = "pattern",
        .why = { N_("Neighbouring tokens are mixed at a cost that does not depend on the context.") },
        .gains = { N_("A state of a few rows instead of a growing cache.") },
        .costs = { N_("Nothing beyond n_c positions is visible in one layer."),
                   N_("A state cannot be taken back: to drop tokens, an earlier copy is needed.") },
        .sources = { "Dauphin et al., Language Modeling with Gated Convolutional Networks, arXiv 1612.08083",
                     "Gu & Dao, Mamba, arXiv 2312.00752" },
        .used = convolves,
        .example = "lfm2-1.2b",
    },
    {
        .topic = "recurrence",
        .title = N_("Linear recurrence"),
        .summary = N_("a matrix per head that each token decays and adds to, in place of a cache"),
        .what = N_("Each head carries a matrix S from token to token. A token decays it by a factor α, adds "
                   "the product of its key and an update Δ, and reads it with its query. By the delta rule, "
                   "the update replaces what the matrix returns for the key; otherwise values are added."),
        .formulas = { { "𝐒 ← α 𝐒,   Δ = β (v − 𝐒ᵀ k),   𝐒 ← 𝐒 + k Δᵀ,   o = 𝐒ᵀ q",
                        "\\mathbf{S} \\leftarrow \\alpha \\mathbf{S},\\quad \\Delta = \\beta (v - "
                        "\\mathbf{S}^{\\top} k),\\quad \\mathbf{S} \\leftarrow \\mathbf{S} + k "
                        "\\Delta^{\\top},\\quad o = \\mathbf{S}^{\\top} q" } },
        .special = { adds_only,
                     { "𝐒 ← α 𝐒,   Δ = β v,   𝐒 ← 𝐒 + k Δᵀ,   o = 𝐒ᵀ q",
                       "\\mathbf{S} \\leftarrow \\alpha \\mathbf{S},\\quad \\Delta = \\beta v,\\quad \\mathbf{S} "
                       "\\leftarrow \\mathbf{S} + k \\Delta^{\\top},\\quad o = \\mathbf{S}^{\\top} q" } },
        .derive = lm_derive_recurrence,
        .sheet = lm_sheet_half_life,
        .diagram = "decay",
        .why = { N_("Attention reads every earlier key for every token; the recurrence reads a matrix of "
                    "fixed size.") },
        .gains = { N_("Memory and time per token do not depend on the context.") },
        .costs = { N_("A matrix of fixed size holds a limited number of associations, and old ones decay; "
                      "many models keep attention in every fourth layer or so."),
                   N_("A state cannot be taken back: to drop tokens, an earlier copy is needed.") },
        .sources = { "Katharopoulos et al., Transformers are RNNs, arXiv 2006.16236",
                     "Dao & Gu, Transformers are SSMs (Mamba-2), arXiv 2405.21060",
                     "Yang et al., Gated Delta Networks, arXiv 2412.06464" },
        .used = recurs,
        .example = "qwen3.5-4b",
    },
    {
        .topic = "scan",
        .title = N_("Selective scan"),
        .summary = N_("a vector per dimension that each token decays and adds to, in place of a cache"),
        .what = N_("Each dimension of x carries a vector from token to token; together they are the rows of the "
                   "matrix S. A token determines the step Δ of every dimension, and the vectors B and C that "
                   "all dimensions share. Every number of S decays at its own rate A during the step, "
                   "Δ x is added in the direction of B, and C reads the sum."),
        .formulas = { { "𝐒 ← exp(−exp(𝐀) ⊙ Δ) ⊙ 𝐒 + (Δ ⊙ x) 𝐁ᵀ,   y = 𝐒 𝐂",
                        "\\mathbf{S} \\leftarrow \\exp(-\\exp(\\mathbf{A}) \\odot \\Delta) \\odot \\mathbf{S} + "
                        "(\\Delta \\odot x)\\,\\mathbf{B}^{\\top},\\quad y = \\mathbf{S}\\,\\mathbf{C}" } },
        .derive = lm_derive_scan,
        .sheet = lm_sheet_half_life,
        .diagram = "decay",
        .why = { N_("The state is of fixed size, and a token selects what it keeps: with a small step it is "
                    "ignored, with a large one earlier tokens are forgotten.") },
        .gains = { N_("Memory and time per token do not depend on the context.") },
        .costs = { N_("Every number of the state has its own decay, so a prompt cannot be computed as "
                      "products of matrices."),
                   N_("A state cannot be taken back: to drop tokens, an earlier copy is needed.") },
        .sources = { "Gu & Dao, Mamba, arXiv 2312.00752" },
        .used = scans,
        .example = "mamba-130m",
    },
    {
        .topic = "rg-lru",
        .title = N_("Gated linear recurrence (RG-LRU)"),
        .summary = N_("a number per dimension that each token decays and adds to, in place of a cache"),
        .what = N_("Each dimension carries one number h from token to token. A token determines two gates per "
                   "dimension: r scales the trained rate at which h decays, and i what is added. The more is "
                   "kept, the less is added, so h neither grows nor vanishes."),
        .formulas = { { "𝐚 = exp(−8 𝐫 ⊙ ln(1 + exp(Λ))),   𝐡 ← 𝐚 ⊙ 𝐡 + √(1 − 𝐚²) ⊙ 𝐢 ⊙ x",
                        "\\mathbf{a} = \\exp(-8\\,\\mathbf{r} \\odot \\ln(1 + \\exp(\\Lambda))),\\quad \\mathbf{h} "
                        "\\leftarrow \\mathbf{a} \\odot \\mathbf{h} + \\sqrt{1 - \\mathbf{a}^2} \\odot "
                        "\\mathbf{i} \\odot x" } },
        .derive = lm_derive_gated,
        .sheet = lm_sheet_half_life,
        .diagram = "decay",
        .why = { N_("Attention reads every earlier key for every token; the recurrence reads one number per "
                    "dimension.") },
        .gains = { N_("Memory and time per token do not depend on the context.") },
        .costs = { N_("One number per dimension holds less than a matrix per head; layers with a window keep "
                      "the last tokens exactly."),
                   N_("A state cannot be taken back: to drop tokens, an earlier copy is needed.") },
        .sources = { "De et al., Griffin, arXiv 2402.19427" },
        .used = is_gated,
        .example = "recurrentgemma-2b",
    },
};

const lm_card_list lm_cards_of_states = { cards, sizeof cards / sizeof *cards };
