/* cards_positions.c - cards of additive positions, of masks, and of tokenization. */
#include "study/explain/cards.h"

static bool uses_learned(const lm_traits *t)
{
    return t->learned;
}

static bool uses_sinusoids(const lm_traits *t)
{
    return t->sinusoidal;
}

bool lm_uses_attention(const lm_traits *t)
{
    return t->attention != NULL;
}

static const lm_card cards[] = {
    {
        .topic = "learned",
        .title = N_("Learned positions"),
        .summary = N_("a second table: one trained row per position"),
        .what = N_("Each position has a trained vector of D dimensions, which is added to the vector of the "
                   "token before the first layer. Attention itself then knows nothing of order; it reads "
                   "positions out of the vectors."),
        .formulas = { { "h₀ = W_E[t] + W_P[pos]", "h_0 = W_E[t] + W_P[\\mathrm{pos}]" },
                      { "W_E: V × D,   W_P: P × D",
                        "W_E \\in \\mathbb{R}^{V \\times D},\\quad W_P \\in \\mathbb{R}^{P \\times D}" } },
        .derive = lm_derive_learned,
        .why = { N_("Without any position, attention treats a text as a set of tokens: permuted tokens give "
                    "permuted results.") },
        .gains = { N_(
            "Simple: a look-up and an addition; the model learns any pattern of positions it needs.") },
        .costs = { N_("The table ends at the last position, and so does the context."),
                   N_("Distances are not built in: that tokens 5 and 7 are as far apart as 105 and 107 must "
                      "be learned."),
                   N_("Rows of late positions are trained less often, because few texts are that long.") },
        .sources = { "Gehring et al., Convolutional Sequence to Sequence Learning, arXiv 1705.03122",
                     "Radford et al., Language Models are Unsupervised Multitask Learners, 2019" },
        .used = uses_learned,
        .example = "gpt2",
    },
    {
        .topic = "sinusoidal",
        .title = N_("Sinusoidal positions"),
        .summary = N_("sines and cosines of the position are added"),
        .what = N_("A vector of sines and cosines, computed from the position, is added to the vector of the "
                   "token. Each pair of dimensions has its own frequency, from fast to slow, as the hands of "
                   "a clock have. Nothing is trained."),
        .formulas = { { "PE(pos, 2i) = sin(pos · ωᵢ),   PE(pos, 2i+1) = cos(pos · ωᵢ),   ωᵢ = 10000^(−2i/D)",
                        "\\mathrm{PE}(\\mathrm{pos}, 2i) = \\sin(\\mathrm{pos}\\,\\omega_i),\\quad "
                        "\\mathrm{PE}(\\mathrm{pos}, 2i+1) = "
                        "\\cos(\\mathrm{pos}\\,\\omega_i),\\quad \\omega_i = 10000^{-2i/D}" },
                      { N_("a shift by j is a rotation: PE(pos + j) = Rot(j · ωᵢ) · PE(pos) in each pair"),
                        "\\begin{pmatrix} \\sin (\\mathrm{pos}+j)\\omega \\\\ \\cos (\\mathrm{pos}+j)\\omega "
                        "\\end{pmatrix} = "
                        "\\begin{pmatrix} \\cos j\\omega & \\sin j\\omega \\\\ -\\sin j\\omega & \\cos "
                        "j\\omega \\end{pmatrix} "
                        "\\begin{pmatrix} \\sin \\mathrm{pos}\\,\\omega \\\\ \\cos \\mathrm{pos}\\,\\omega "
                        "\\end{pmatrix}" } },
        .derive = lm_derive_sinusoidal,
        .why = { N_("A matrix can turn the vector of one position into that of another at a given distance, "
                    "so heads can learn distances.") },
        .gains = { N_("No parameters, and a vector for every position, however late.") },
        .costs = { N_("It is added to the content once, before the first layer; each layer must separate "
                      "the two."),
                   N_("Positions beyond the trained ones have vectors, but models seldom use them well.") },
        .sources = { "Vaswani et al., Attention Is All You Need, arXiv 1706.03762" },
        .used = uses_sinusoids,
        .example = "xglm-564m",
    },
    {
        .topic = "mask",
        .title = N_("The attention mask"),
        .summary = N_("which keys a token sees: a triangle, a band of a window, sinks"),
        .what = N_("Before the softmax, scores of keys that a token must not see are set to −∞, so that "
                   "their weights are zero. Causal: a token sees itself and earlier ones, a triangle. A "
                   "window keeps a band of the last W keys. A sink is a learned score that every token sees "
                   "and that has no value: it takes weight away from all keys."),
        .formulas = { { "Mᵢⱼ = 0   if j ≤ i,   else −∞",
                        "\\mathbf{M}_{ij} = 0 \\;\\text{if}\\; j \\le i,\\quad \\text{else}\\; -\\infty" },
                      { N_("with a window: 0 if 0 ≤ i − j < W, else −∞"),
                        "\\mathbf{M}_{ij} = 0 \\;\\text{if}\\; 0 \\le i - j < W,\\quad \\text{else}\\; "
                        "-\\infty" },
                      { N_("with a sink s_r: pᵢⱼ = e^sᵢⱼ / (e^s_r + Σ e^sᵢⱼ over all keys j)"),
                        "p_{ij} = \\frac{e^{s_{ij}}}{e^{s_r} + \\sum_{j} e^{s_{ij}}}" } },
        .derive = lm_derive_mask,
        .diagram = "mask",
        .why = { N_("The model is trained to predict each token from the ones before it; seeing later ones "
                    "would give the answer away.") },
        .gains = { N_("A text of T tokens is T examples at once, computed in one pass."),
                   N_("Keys and values of earlier tokens never change, which makes the cache possible.") },
        .costs = { N_(
            "Earlier tokens never learn from later ones, even where a prompt is known as a whole.") },
        .sources = { "Vaswani et al., Attention Is All You Need, arXiv 1706.03762",
                     "Beltagy et al., Longformer, arXiv 2004.05150",
                     "Xiao et al., Efficient Streaming Language Models with Attention Sinks, arXiv "
                     "2309.17453" },
        .used = lm_uses_attention,
        .example = "gpt-oss-20b",
    },
    {
        .topic = "tokenizer",
        .title = N_("The tokenizer"),
        .summary = N_("from text to token ids, by merging pairs"),
        .what = N_("Text is cut into words, and each word into its bytes or characters. Then the pair of "
                   "neighbours that stands first in a trained list of merges becomes one token, again and "
                   "again, until no neighbours are in the list. Each result is a row of the vocabulary, and "
                   "its number is the token id."),
        .formulas = { { N_("repeat: of all neighbouring pairs (a, b) with a rank, merge the one of the "
                           "lowest rank into ab"),
                        "\\arg\\min_{\\text{pair}} \\text{rank}(\\text{pair}),\\quad \\text{left} + "
                        "\\text{right} "
                        "\\rightarrow \\text{leftright}" } },
        .derive = lm_derive_tokenizer,
        .sheet = lm_sheet_merges,
        .why = { N_("Words alone would need an endless vocabulary, and bytes alone very long sequences; "
                    "pieces learned from text lie between.") },
        .gains = { N_("Every text can be represented: bytes spell what has no token."),
                   N_("Frequent words are one token, so common text is short.") },
        .costs = { N_("The model sees no letters: spelling, rhymes and digits are harder for it."),
                   N_("Languages that were rare in the text the merges come from need more tokens for the "
                      "same content.") },
        .sources = { "Sennrich et al., Neural Machine Translation of Rare Words with Subword Units, arXiv "
                     "1508.07909",
                     "Kudo & Richardson, SentencePiece, arXiv 1808.06226" },
        .example = "llama-3.2-1b",
    },
};

const lm_card_list lm_cards_of_positions = { cards, sizeof cards / sizeof *cards };
