/* cards_text.c - the cards. Their judgements are qualitative and displayed as such; numbers come from
 * derivations. */
#include "study/explain/cards.h"

/* ---- which models use a component, by their programs ---- */

static bool uses_groups(const lm_traits *t)
{
    return t->attention && !t->latent &&
           t->attention->attention.spec.n_kv_heads < t->attention->attention.spec.n_heads;
}

static bool is_latent_without_rotation(const lm_traits *t)
{
    return t->latent && !t->rotary;
}

bool lm_uses_latent(const lm_traits *t)
{
    return t->latent;
}

static bool uses_rope(const lm_traits *t)
{
    return t->rotary;
}

static bool chooses_keys(const lm_traits *t)
{
    return t->indexer != NULL;
}

static bool uses_windows(const lm_traits *t)
{
    return t->n_windows > 0 && !t->chunked;
}

static bool uses_chunks(const lm_traits *t)
{
    return t->chunked;
}

static bool uses_alibi(const lm_traits *t)
{
    return t->alibi;
}

static bool uses_gate(const lm_traits *t)
{
    return t->glu != NULL;
}

static bool uses_experts(const lm_traits *t)
{
    return t->experts != NULL;
}

/* The softmax is the same with a bias of the key's position alone, since m_r · i is alike for all keys of a
 * query. */
static bool halves_scores(const lm_traits *t)
{
    return t->alibi && t->attention->attention.spec.alibi_half;
}

static bool ties(const lm_traits *t)
{
    return t->tied;
}

static bool normalises(const lm_traits *t)
{
    return t->norm != NULL;
}

/* ---- the cards ---- */

static const lm_card cards[] = {
    {
        .topic = "params",
        .title = N_("Parameters"),
        .summary = N_("every matrix, counted"),
        .what = N_("The trained weights: the token embedding table, the attention and MLP matrices and the "
                   "norm weights of each layer, and the output head. A weight that two operations share is "
                   "stored and counted once."),
        .formulas = { { N_("N = V·D + Σ layers (attention + MLP + norms) + final norm + head"),
                        "N = V D + \\sum_{\\ell=1}^{L} \\left(N_{attn} + N_{mlp} + N_{norm}\\right) + "
                        "N_{final} + N_{head}" } },
        .derive = lm_derive_parameters,
        .why = { N_(
            "The count determines the memory for the weights and thus the generation speed on a memory-bound "
            "machine.") },
        .costs = { N_("Totals in papers and model names are rounded, and differ in whether embeddings or a "
                      "tied head are included.") },
        .sources = { "Kaplan et al., Scaling Laws for Neural Language Models, arXiv 2001.08361" },
        .example = "llama-3.2-3b",
    },
    {
        .topic = "kv",
        .title = N_("The key/value cache"),
        .summary = N_("memory for the keys and values of earlier tokens"),
        .what = N_(
            "Each layer stores the keys and values of all earlier tokens, so a new token needs one row of "
            "computation instead of a full pass."),
        .formulas = { { N_("bytes = 2 · L · G · K · bytes per value · tokens"),
                        "\\text{bytes} = 2 \\cdot L \\cdot G \\cdot K \\cdot b_v \\cdot S" } },
        .special = { lm_uses_latent,
                     { N_("bytes = L · (R + K_R) · bytes per value · tokens"),
                       "\\text{bytes} = L \\cdot (R + K_R) \\cdot b_v \\cdot S" } },
        .read_off = lm_read_cache,
        .derive = lm_derive_kv,
        .diagram = "cache",
        .why = { N_(
            "Attention is causal, so the keys and values of a token never change. Storing them reduces the "
            "number of computed rows from quadratic to linear.") },
        .gains = { N_("Generating a token costs one row of matrix products, whatever the context; only the "
                      "scores grow with the keys that it sees.") },
        .costs = { N_("Memory grows with each token of each sequence, in layers with a window until it is "
                      "full; at long contexts the cache can exceed the weights."),
                   N_("Each step reads the whole cache, so generation at long contexts is limited by memory "
                      "bandwidth.") },
        .sources = { "Pope et al., Efficiently Scaling Transformer Inference, arXiv 2211.05102",
                     "Kwon et al., Efficient Memory Management for Large Language Model Serving with "
                     "PagedAttention, arXiv 2309.06180" },
        .example = "llama-3.2-3b",
    },
    {
        .topic = "flops",
        .title = N_("Operations of one token"),
        .summary = N_("the compute cost of one token"),
        .what = N_(
            "Multiplying a row by an in × out matrix takes in · out multiply-adds of 2 FLOPs each. Attention "
            "scores cost more with each token of context. An embedding look-up costs none."),
        .formulas = { { N_("FLOPs = 2 · Σ matrices (in · out) + 2 · H · (K + K) · L · tokens"),
                        "\\text{FLOPs} = 2 \\sum_{\\text{matrices}} (\\text{in} \\cdot \\text{out}) + 2 "
                        "\\cdot H \\cdot (K + K) "
                        "\\cdot L \\cdot S" } },
        .special = { lm_uses_latent,
                     { N_("FLOPs = 2 · Σ matrices (in · out) + 2 · H · ((R + K_R) + R) · L · tokens"),
                       "\\text{FLOPs} = 2 \\sum_{\\text{matrices}} (\\text{in} \\cdot \\text{out}) + 2 "
                       "\\cdot H \\cdot ((R + K_R) + R) \\cdot L \\cdot S" } },
        .derive = lm_derive_flops,
        .why = { N_(
            "These operations limit prompt processing; generation is usually limited by the bytes read.") },
        .costs = { N_(
            "The rule of thumb 2 · N counts look-ups as products and omits the attention scores.") },
        .sources = { "Kaplan et al., Scaling Laws for Neural Language Models, arXiv 2001.08361" },
        .example = "llama-3.2-3b",
    },
    {
        .topic = "gqa",
        .title = N_("Grouped-query attention"),
        .summary = N_("several query heads share a key/value head"),
        .what = N_(
            "H query heads share G key/value heads: query head i uses key/value head ⌊i / (H/G)⌋. G = H is "
            "multi-head attention (MHA), G = 1 is multi-query attention (MQA)."),
        .formulas = { { N_("head i: softmax(qᵢ · kⱼᵀ / √d_k) · vⱼ,  j = ⌊i · G / H⌋"),
                        "\\text{head}_i = \\text{softmax}\\left(\\frac{q_i k_j^{\\top}}{\\sqrt{d_k}}\\right) "
                        "v_j,\\quad "
                        "j = \\left\\lfloor \\frac{i\\,G}{H} \\right\\rfloor" },
                      { N_("attention weights = D · (H·K) · (2 + 2·G/H)"),
                        "N_{attn} = D \\cdot (H K) \\cdot \\left(2 + \\frac{2\\,G}{H}\\right)" } },
        .derive = lm_derive_gqa,
        .sheet = lm_sheet_heads,
        .diagram = "heads",
        .why = { N_("The cache, and the bytes read from it at each step, shrink by the group size; the "
                    "number of query heads stays the same.") },
        .gains = { N_("A smaller cache allows longer contexts and larger batches in the same memory."),
                   N_("Fewer weights in the key and value projections.") },
        .costs = { N_("Heads of a group share their keys, which is slightly less expressive than MHA; the "
                      "effect depends on the model.") },
        .sources = { "Ainslie et al., GQA, arXiv 2305.13245",
                     "Shazeer, Fast Transformer Decoding: One Write-Head is All You Need, arXiv 1911.02150" },
        .used = uses_groups,
        .example = "llama-3.2-3b",
    },
    {
        .topic = "mla",
        .title = N_("Multi-head latent attention"),
        .summary = N_("one small latent is cached instead of keys and values"),
        .what = N_("Keys and values of all heads are projected from one latent vector of R dimensions. Only "
                   "the latent and a part of the key that all heads share are cached. During decoding the "
                   "up-projections are absorbed into the query and output projections, so scores are "
                   "computed on the latent itself."),
        .formulas = { { "c_KV = Norm(W_DKV · x);   kᵢ = [W_UK,i · c_KV ; RoPE(W_KR · x)];   vᵢ = W_UV,i · "
                        "c_KV",
                        "c_{KV} = \\text{Norm}(W_{DKV}\\,x),\\quad k_i = \\left[W_{UK}^{(i)}\\,c_{KV} "
                        "\\,;\\, "
                        "\\text{RoPE}(W_{KR}\\,x)\\right],\\quad v_i = W_{UV}^{(i)}\\,c_{KV}" },
                      { "qᵢ · (W_UK,i · c_KV) = (W_UK,iᵀ · qᵢ) · c_KV",
                        "q_i^{\\top} (W_{UK}^{(i)}\\,c_{KV}) = \\left((W_{UK}^{(i)})^{\\top} "
                        "q_i\\right)^{\\top} c_{KV}" } },
        .special = { is_latent_without_rotation,
                     { "c_KV = Norm(W_DKV · x);   kᵢ = [W_UK,i · c_KV ; W_KR · x];   vᵢ = W_UV,i · c_KV",
                       "c_{KV} = \\text{Norm}(W_{DKV}\\,x),\\quad k_i = \\left[W_{UK}^{(i)}\\,c_{KV} \\,;\\, "
                       "W_{KR}\\,x\\right],\\quad v_i = W_{UV}^{(i)}\\,c_{KV}" } },
        .derive = lm_derive_mla,
        .sheet = lm_sheet_latent,
        .diagram = "mla",
        .why = { N_("The cache is as small as with very few key/value heads, yet every head has its own keys "
                    "and values.") },
        .gains = { N_(
            "A cache smaller than that of GQA with eight heads, independent of the number of heads.") },
        .costs = { N_("It needs more arithmetic per key: the latent is wider than a head."),
                   N_("RoPE cannot be absorbed into the product, so a rotated part of the key is stored "
                      "separately.") },
        .sources = { "DeepSeek-AI, DeepSeek-V2, arXiv 2405.04434",
                     "DeepSeek-AI, DeepSeek-V3, arXiv 2412.19437" },
        .used = lm_uses_latent,
        .example = "deepseek-v2-lite",
    },
    {
        .topic = "sparse",
        .title = N_("Sparse attention"),
        .summary = N_("a token sees only the keys that an indexer scores highest"),
        .what = N_("An indexer scores every earlier key for every token. Its heads are few and small, and share "
                   "one key. DeepSeek's indexer reads the latent of queries; a product below zero counts as none, "
                   "and the token weighs the heads. Attention then sees only the keys with the highest scores. "
                   "Some models let several layers use one choice. MiniMax's indexer chooses whole blocks of keys: "
                   "each of its heads does so for a part of the query heads, by the largest product in a block, "
                   "and always takes the last blocks. The choice is a value of the program, *.chosen, which a "
                   "trace can save."),
        .formulas = { { "s_ij = Σ_r η_ir · max(q_ir · k_j, 0)",
                        "s_{ij} = \\sum_r \\eta_{ir} \\max(q_{ir}^{\\top} k_j,\\, 0)" },
                      { "s_ir = max_{j ∈ 𝐛} q_ir · k_j",
                        "s_{ir} = \\max_{j \\in \\mathbf{b}} q_{ir}^{\\top} k_j" },
                      { N_("𝐉_i = n_k positions j ≤ i with the highest s_ij"),
                        "\\mathbf{J}_i = \\text{top-}n_k \\{\\, j \\le i \\,\\} \\text{ by } s_{ij}" },
                      { "o_i = Σ_{j ∈ 𝐉_i} p_ij v_j", "o_i = \\sum_{j \\in \\mathbf{J}_i} p_{ij}\\, v_j" } },
        .derive = lm_derive_sparse,
        .sheet = lm_sheet_sparse,
        .why = { N_("The cost of attention grows with the context. The indexer's grows too, but is a fraction of "
                    "it for each key.") },
        .gains = { N_("With a long context a token needs a fraction of the arithmetic, and reads a fraction of the "
                      "cache.") },
        .costs = { N_("A key that is not chosen has no effect, however large its score in attention would be."),
                   N_("The cache is larger: it also holds the indexer's keys. With a context below the number of "
                      "chosen keys, nothing is saved."),
                   N_("No gradient passes through the choice: the indexer is trained apart.") },
        .sources = { "DeepSeek-AI, DeepSeek-V3.2, arXiv 2512.02556", "MiniMax, MiniMax-M3 model card, 2026" },
        .used = chooses_keys,
        .example = "deepseek-v3.2",
    },
    {
        .topic = "rope",
        .title = N_("Rotary position embedding"),
        .summary = N_("queries and keys are rotated by their positions"),
        .what = N_(
            "Each pair of dimensions of a query or key is rotated by the position times the frequency of the "
            "pair. The score of two tokens then depends on their content and their distance. Values are not "
            "rotated; there are no learned parameters."),
        .formulas = { { "θᵢ = base^(−2i/K_R)", "\\theta_i = \\mathrm{base}^{-2i/K_R}" },
                      { "(x₀, x₁) → (x₀·cos φ − x₁·sin φ,  x₀·sin φ + x₁·cos φ),   φ = pos · θᵢ",
                        "\\begin{pmatrix} x_0 \\\\ x_1 \\end{pmatrix} \\rightarrow \\begin{pmatrix} \\cos "
                        "\\varphi & -\\sin \\varphi "
                        "\\\\ \\sin \\varphi & \\cos \\varphi \\end{pmatrix} \\begin{pmatrix} x_0 \\\\ x_1 "
                        "\\end{pmatrix},\\quad "
                        "\\varphi = \\mathrm{pos} \\cdot \\theta_i" },
                      { "Rot(i)ᵀ·Rot(j) = [cos iθ, sin iθ; −sin iθ, cos iθ] · [cos jθ, −sin jθ; sin jθ, cos "
                        "jθ]",
                        "\\mathrm{Rot}(i)^{\\top} \\mathrm{Rot}(j) = \\begin{pmatrix} \\cos i\\theta & \\sin "
                        "i\\theta \\\\ -\\sin i\\theta & "
                        "\\cos i\\theta \\end{pmatrix} \\begin{pmatrix} \\cos j\\theta & -\\sin j\\theta "
                        "\\\\ \\sin j\\theta & "
                        "\\cos j\\theta \\end{pmatrix}" },
                      { "cos iθ·cos jθ + sin iθ·sin jθ = cos (j−i)θ,   cos iθ·sin jθ − sin iθ·cos jθ = sin "
                        "(j−i)θ",
                        "\\cos i\\theta \\cos j\\theta + \\sin i\\theta \\sin j\\theta = \\cos "
                        "(j-i)\\theta,\\quad "
                        "\\cos i\\theta \\sin j\\theta - \\sin i\\theta \\cos j\\theta = \\sin "
                        "(j-i)\\theta" },
                      { N_("so Rot(i)ᵀ·Rot(j) = Rot(j−i), and qᵢ · kⱼ depends only on j − i"),
                        "\\mathrm{Rot}(i)^{\\top} \\mathrm{Rot}(j) = \\mathrm{Rot}(j-i) \\;\\rightarrow\\; "
                        "\\langle \\mathrm{Rot}(i)\\,q, \\mathrm{Rot}(j)\\,k \\rangle = \\langle q, "
                        "\\mathrm{Rot}(j-i)\\,k \\rangle" } },
        .derive = lm_derive_rope,
        .sheet = lm_sheet_scalings,
        .diagram = "rope",
        .why = { N_(
            "Attention alone ignores token order. RoPE adds relative positions where they are used, in the "
            "scores.") },
        .gains = { N_("Relative positions without a position table, and without a maximum length in the "
                      "weights."),
                   N_("The context can be extended after training by slowing down the rotation.") },
        .costs = { N_("Beyond the trained length, quality drops unless the frequencies are scaled (linear, "
                      "NTK, YaRN, llama3)."),
                   N_("Checkpoints pair dimensions in one of two ways; the wrong one gives plausible but "
                      "wrong results.") },
        .sources = { "Su et al., RoFormer, arXiv 2104.09864", "Peng et al., YaRN, arXiv 2309.00071",
                     "Grattafiori et al., The Llama 3 Herd of Models, arXiv 2407.21783" },
        .used = uses_rope,
        .example = "llama-3.2-1b",
    },
    {
        .topic = "swa",
        .title = N_("Sliding-window attention"),
        .summary = N_("a token sees only the last W keys"),
        .what = N_(
            "In a layer with a window, position i sees key j if 0 ≤ i − j < W. Earlier tokens still have an "
            "effect through the layers below; each layer extends the reach by one window."),
        .formulas = { { "visible(i, j) ⇔ 0 ≤ i − j < W", "\\text{visible}(i, j) \\iff 0 \\le i - j < W" },
                      { N_("cached positions = min(tokens, W)"), "S_{kept} = \\min(S, W)" } },
        .derive = lm_derive_swa,
        .diagram = "window",
        .why = { N_("The cost and cache of a layer stop growing when the window is full.") },
        .gains = { N_("A bounded cache: pages outside the window are freed.") },
        .costs = { N_(
            "Exact copying from outside the window is not possible, so many models mix windowed and full "
            "attention.") },
        .sources = { "Beltagy et al., Longformer, arXiv 2004.05150",
                     "Jiang et al., Mistral 7B, arXiv 2310.06825" },
        .used = uses_windows,
        .example = "mistral-7b-v0.1",
    },
    {
        .topic = "chunks",
        .title = N_("Chunked attention"),
        .summary = N_("a token sees only the keys of its own chunk"),
        .what = N_(
            "Positions are cut into chunks of W. In a layer with chunks, position i sees key j if j ≤ i and both are "
            "in the same chunk. Only layers without chunks pass information from one chunk to the next."),
        .formulas = { { "visible(i, j) ⇔ j ≤ i,  ⌊i / W⌋ = ⌊j / W⌋",
                        "\\text{visible}(i, j) \\iff j \\le i,\\; \\lfloor i / W \\rfloor = \\lfloor j / W "
                        "\\rfloor" },
                      { N_("cached positions = min(tokens, W)"), "S_{kept} = \\min(S, W)" } },
        .derive = lm_derive_swa,
        .diagram = "mask",
        .why = { N_("A layer never sees more positions than a chunk has, so its rotation needs no extension for long "
                    "contexts.") },
        .gains = { N_("A bounded cache: pages of earlier chunks are freed.") },
        .costs = { N_("The first tokens of a chunk see almost nothing, however much text precedes them.") },
        .sources = { "Meta, Llama 4 model card, 2025" },
        .used = uses_chunks,
        .example = "llama-4-scout",
    },
    {
        .topic = "alibi",
        .title = N_("Attention with linear biases"),
        .summary = N_("a penalty on scores, linear in the distance"),
        .what = N_("No position embedding is added: each head subtracts its slope times the distance from "
                   "the score of a key."),
        .formulas = { { "sᵢⱼ = qᵢ · kⱼ / √d_k − m_r · (i − j)",
                        "s_{ij} = \\frac{q_i k_j^{\\top}}{\\sqrt{d_k}} - m_r (i - j)" },
                      { "m_r = 2^(−a_m·r/H₂),  r = 1 … H₂", "m_r = 2^{-a_m r/H_2},\\quad 1 \\le r \\le H_2" },
                      { "m_r = 2^(−a_m·(2(r−H₂)−1)/(2H₂)),  r > H₂",
                        "m_r = 2^{-a_m (2(r-H_2)-1)/(2 H_2)},\\quad r > H_2" } },
        .special = { halves_scores,
                     { "sᵢⱼ = (qᵢ · kⱼ + m_r · j) / √d_k",
                       "s_{ij} = \\frac{q_i k_j^{\\top} + m_r\\,j}{\\sqrt{d_k}}" } },
        .derive = lm_derive_alibi,
        .why = { N_("Nearby tokens count more; heads with steep slopes are local, heads with small slopes "
                    "reach far.") },
        .gains = { N_("No parameters; quality degrades gradually beyond the trained context.") },
        .costs = { N_("Distance only lowers scores: sharp attention to distant tokens is difficult.") },
        .sources = { "Press et al., Train Short, Test Long, arXiv 2108.12409" },
        .used = uses_alibi,
        .example = "mpt-7b",
    },
    {
        .topic = "swiglu",
        .title = N_("The gated MLP"),
        .summary = N_("one branch gates the other"),
        .what = N_("Two projections of the same input: one passes through an activation and becomes the "
                   "gate, the other is multiplied by it element by element; a third projection returns to "
                   "the model width. With SiLU this is SwiGLU, with GELU GeGLU."),
        .formulas = { { "down(SiLU(gate · x) ⊙ (up · x)),   SiLU(x) = x · σ(x)",
                        "W_{down}\\left(\\text{SiLU}(W_{gate}\\,x) \\odot W_{up}\\,x\\right),\\quad "
                        "\\text{SiLU}(x) = "
                        "x\\,\\sigma(x)" } },
        .read_off = lm_read_gated,
        .derive = lm_derive_swiglu,
        .diagram = "mlp",
        .why = { N_(
            "A gate near zero blocks a dimension, a large one passes it; the gate depends on the input.") },
        .gains = { N_("Better quality at the same parameter count in published comparisons.") },
        .costs = { N_(
            "Three matrices instead of two, half as many weights again at the same width; this is why widths "
            "near 8/3 · D are common.") },
        .sources = { "Shazeer, GLU Variants Improve Transformer, arXiv 2002.05202" },
        .used = uses_gate,
        .example = "llama-3.2-1b",
    },
    {
        .topic = "moe",
        .title = N_("Mixture of experts"),
        .summary = N_("a few of many MLPs per token"),
        .what = N_("A router scores E experts for each token; the best k run and their outputs are summed, "
                   "weighted by the router. Some models add shared experts that run for every token."),
        .formulas = { { "y = Σ top-k gᵢ · expertᵢ(x)  (+ shared(x)),   g = softmax(router · x)",
                        "y = \\sum_{i \\in \\text{top-k}} g_i\\,E_i(x) \\;(+\\,E_s(x)),\\quad g = "
                        "\\text{softmax}(W_r\\,x)" } },
        .special = { lm_routes_apart,
                     { "y = Σ top-k gᵢ · expertᵢ(x)  (+ shared(x)),   g = σ(router · x)",
                       "y = \\sum_{i \\in \\text{top-k}} g_i\\,E_i(x) \\;(+\\,E_s(x)),\\quad g = "
                       "\\sigma(W_r\\,x)" } },
        .derive = lm_derive_moe,
        .diagram = "moe",
        .why = { N_("Capacity grows with the number of experts, compute per token only with the number of "
                    "active ones.") },
        .gains = { N_("Far less compute per token than a dense model of the same size.") },
        .costs = { N_("All experts must be in memory."),
                   N_("A batch activates most experts, so large batches read nearly all weights.") },
        .sources = { "Shazeer et al., Outrageously Large Neural Networks, arXiv 1701.06538",
                     "Jiang et al., Mixtral of Experts, arXiv 2401.04088",
                     "DeepSeek-AI, DeepSeek-V2, arXiv 2405.04434" },
        .used = uses_experts,
        .example = "mixtral-8x7b",
    },
    {
        .topic = "norm",
        .title = N_("Normalisation"),
        .summary = N_("rescaling of the residual stream before use"),
        .what = N_(
            "RMSNorm divides a row by its root mean square and multiplies by a learned weight per dimension. "
            "LayerNorm also subtracts the mean and may add a bias. Pre-norm models normalise the input of a "
            "branch, post-norm models the sum after it."),
        .formulas = { { "RMSNorm(x) = x / √(mean(x²) + ε) ⊙ γ",
                        "\\text{RMSNorm}(x) = \\frac{x}{\\sqrt{\\frac{1}{D}\\sum_i x_i^2 + \\varepsilon}} "
                        "\\odot \\gamma" },
                      { "LayerNorm(x) = (x − μ) / √(var + ε) ⊙ γ + β,   μ = Σ xᵢ / D,   var = Σ (xᵢ − μ)² / "
                        "D",
                        "\\text{LayerNorm}(x) = \\frac{x - \\mu}{\\sqrt{\\mathrm{var} + \\varepsilon}} "
                        "\\odot \\gamma + \\beta,\\quad \\mu = "
                        "\\frac{1}{D}\\sum_i x_i,\\quad \\mathrm{var} = \\frac{1}{D}\\sum_i (x_i - "
                        "\\mu)^2" } },
        .derive = lm_derive_norm,
        .sheet = lm_sheet_norms,
        .diagram = "norm",
        .why = { N_("The residual stream grows with depth; without norms the inputs of later layers would "
                    "keep growing.") },
        .gains = { N_("RMSNorm needs one pass less and no bias."),
                   N_("Pre-norm leaves an unobstructed gradient path "
                      "through the residual sums.") },
        .costs = { N_("Pre-norm needs one more norm before the head.") },
        .sources = { "Zhang & Sennrich, Root Mean Square Layer Normalization, arXiv 1910.07467",
                     "Ba et al., Layer Normalization, arXiv 1607.06450",
                     "Xiong et al., On Layer Normalization in the Transformer Architecture, arXiv "
                     "2002.04745" },
        .used = normalises,
        .example = "llama-3.2-1b",
    },
    {
        .topic = "residual",
        .title = N_("The residual stream"),
        .summary = N_("the running sum that each block adds to"),
        .what = N_("The hidden state of a token is a running sum. Each attention and MLP block reads it and "
                   "adds its output; nothing is overwritten."),
        .formulas = { { "h₀ = W_E[t];   h ← h + Attention(Norm(h));   h ← h + MLP(Norm(h))",
                        "h_0 = W_E[t],\\quad h \\leftarrow h + \\text{Attn}(\\text{Norm}(h)),\\quad h "
                        "\\leftarrow h + "
                        "\\text{MLP}(\\text{Norm}(h))" } },
        .read_off = lm_read_residual,
        .derive = lm_derive_residual,
        .diagram = "residual",
        .why = { N_("The output of an early layer is available to every later one, and gradients reach the "
                    "first layer directly.") },
        .gains = { N_("Very deep stacks can be trained.") },
        .costs = { N_("All blocks share one width and one vector space.") },
        .sources = { "He et al., Deep Residual Learning, arXiv 1512.03385",
                     "Elhage et al., A Mathematical Framework for Transformer Circuits, 2021" },
        .example = "llama-3.2-1b",
    },
    {
        .topic = "attention",
        .title = N_("Attention"),
        .summary = N_("information flow from earlier tokens"),
        .what = N_(
            "The query of a token is compared with the keys of all visible tokens; the softmax of the scores "
            "weights their values. Causal: only earlier positions and the token itself are visible."),
        .formulas = { { "Attention(Q, K, V) = softmax(Q · Kᵀ / √d_k + M) · V",
                        "\\text{Attention}(\\mathbf{Q}, \\mathbf{K}, \\mathbf{V}) = "
                        "\\text{softmax}\\left(\\frac{\\mathbf{Q} "
                        "\\mathbf{K}^{\\top}}{\\sqrt{d_k}} + \\mathbf{M}\\right) \\mathbf{V}" } },
        .special = { lm_uses_latent,
                     { "Attention(Q, K, V) = softmax(scale · Q · Kᵀ + M) · V",
                       "\\text{Attention}(\\mathbf{Q}, \\mathbf{K}, \\mathbf{V}) = \\text{softmax}"
                       "\\left(\\mathrm{scale} \\cdot \\mathbf{Q} \\mathbf{K}^{\\top} + \\mathbf{M}\\right) "
                       "\\mathbf{V}" } },
        .derive = lm_derive_attention,
        .sheet = lm_sheet_heads,
        .diagram = "attention",
        .why = { N_("It moves information from any earlier token directly."),
                 N_("Division by √d_k keeps the variance of the scores near one, so the softmax is neither "
                    "flat nor saturated.") },
        .gains = { N_("A token can access any earlier token within a single layer.") },
        .costs = { N_("Compute per token grows with the context, compute for a prompt with the square of its "
                      "length.") },
        .sources = { "Vaswani et al., Attention Is All You Need, arXiv 1706.03762" },
        .used = lm_uses_attention,
        .example = "llama-3.2-1b",
    },
    {
        .topic = "embedding",
        .title = N_("Token embedding"),
        .summary = N_("one table row per token"),
        .what = N_("The token id selects a row of a V × D table, the initial residual stream. It is a "
                   "look-up without any multiplication."),
        .formulas = { { "h₀ = W_E[t],   W_E: V × D",
                        "h_0 = W_E[t],\\quad W_E \\in \\mathbb{R}^{V \\times D}" } },
        .derive = lm_derive_embedding,
        .why = { N_("Token ids are only labels; the model computes with vectors.") },
        .costs = { N_(
            "Large vocabularies shorten token sequences but take a large share of a small model.") },
        .sources = { "Vaswani et al., Attention Is All You Need, arXiv 1706.03762" },
        .example = "llama-3.2-1b",
    },
    {
        .topic = "tying",
        .title = N_("Tied embeddings"),
        .summary = N_("one matrix for embedding and head"),
        .what = N_("The same V × D matrix is used for the token look-up and for the logits. It is stored and "
                   "counted once."),
        .formulas = { { "logits = W_E · Norm(h),   W_E: V × D",
                        "\\text{logits} = W_E \\cdot \\text{Norm}(h),\\quad W_E \\in \\mathbb{R}^{V \\times "
                        "D}" } },
        .derive = lm_derive_tying,
        .why = { N_("In small models the table is a large share of the parameters; a separate head would "
                    "double it.") },
        .gains = { N_("V · D fewer parameters to store and read.") },
        .costs = { N_("One matrix serves two purposes; large models usually untie them.") },
        .sources = { "Press & Wolf, Using the Output Embedding to Improve Language Models, arXiv "
                     "1608.05859" },
        .used = ties,
        .example = "llama-3.2-1b",
    },
};

const lm_card_list lm_cards_of_models = { cards, sizeof cards / sizeof *cards };
