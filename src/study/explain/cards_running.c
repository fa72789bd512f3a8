/* cards_running.c - cards of what running a model takes: memory, types of weights, estimates, sampling and
 * the cache at work. Judgements are qualitative; numbers come from derivations. */
#include "study/explain/cards.h"

static const lm_card cards[] = {
    {
        .topic = "memory",
        .title = N_("Memory needed to run it"),
        .summary = N_("planned memory: weights, cache and scratch"),
        .what = N_("The plan assigns every byte before anything is allocated: weights in the layout the "
                   "kernels require, cache pages, and one slab shared by all activations."),
        .formulas = { { N_("memory = weights + cache + scratch"), "\\text{memory} = B_W + C + A" } },
        .derive = lm_derive_memory,
        .why = { N_("Whether a model fits is known before it is loaded.") },
        .gains = { N_("Decoding allocates no memory.") },
        .example = "llama-3.2-1b",
    },
    {
        .topic = "quantization",
        .title = N_("Quantised weights"),
        .summary = N_("the same weights in fewer bits"),
        .what = N_("Weights are stored in blocks of 32 or 256 small integers with a scale per block. "
                   "Products use them directly or after conversion."),
        .formulas = { { N_("weight ≈ scale · integer,   bytes = N · bits / 8"),
                        "\\text{weight} \\approx \\text{scale} \\cdot \\text{integer},\\quad \\text{bytes} = "
                        "\\frac{N \\cdot \\text{bits}}{8}" } },
        .derive = lm_derive_quantization,
        .why = { N_(
            "Generation reads every weight once per token, so fewer bytes mean more tokens per second.") },
        .gains = { N_("Models fit into less memory.") },
        .costs = { N_("Rounding changes the logits; the effect depends on model, type and task and should be "
                      "measured.") },
        .sources = { "Dettmers et al., LLM.int8(), arXiv 2208.07339",
                     "Frantar et al., GPTQ, arXiv 2210.17323", "GGUF specification, ggml documentation" },
        .example = "llama-3.2-1b",
    },
    {
        .topic = "estimate",
        .title = N_("Estimates and the exact count"),
        .summary = N_("quick, standard and grouped formulas, the exact count, the gap term by term"),
        .what = N_("Three formulas for the number of parameters, from coarse to fine, with this model's "
                   "sizes, beside the exact count. The gap is listed term by term and adds up to the exact "
                   "count."),
        .formulas = { { N_("quick:    2·V·D + L·D²·(4 + 3·F/D)"),
                        "N_{quick} = 2 V D + L D^2 \\left(4 + \\frac{3 F}{D}\\right)" },
                      { N_("standard: V·D + L·(4·D² + matrices·D·F) + head (0 if tied)"),
                        "N_{standard} = V D + L \\left(4 D^2 + m D F\\right) + N_{head}" },
                      { N_("grouped:  attention D²·(2 + 2 / group) instead of 4·D²"),
                        "N_{attn} = D^2 \\left(2 + \\frac{2}{\\mathrm{group}}\\right)" } },
        .derive = lm_derive_estimate,
        .table = { { N_("quick"), "quick", "quick_off" },
                   { N_("standard"), "standard", "standard_off" },
                   { N_("grouped"), "group_aware", "group_aware_off" },
                   { N_("exact"), "exact", NULL } },
        .why = { N_(
            "A formula simple enough for mental arithmetic shows at once whether a figure is plausible.") },
        .costs = { N_("The estimates assume heads · head_dim = D, no biases, no norms and no table of "
                      "positions, and quick a gated MLP and a head of its own; the gap shows the error where "
                      "this does not hold."),
                   N_("Counts are decimal: 1 B is 10⁹ parameters. Powers of two (2³⁰) are for bytes only.") },
        .sources = { "Kaplan et al., Scaling Laws for Neural Language Models, arXiv 2001.08361",
                     "Ainslie et al., GQA, arXiv 2305.13245" },
        .example = "mistral-7b-v0.1",
    },
    {
        .topic = "sampling",
        .title = N_("Choosing the next token"),
        .summary = N_("from logits to a token"),
        .what = N_("The head gives one logit per token of the vocabulary. Divided by the temperature and "
                   "passed through a softmax, the logits become probabilities. Greedy decoding takes the "
                   "most probable token; sampling draws one, usually from a truncated set (top-k, top-p, "
                   "min-p)."),
        .formulas = { { "pᵢ = exp(zᵢ / τ) / Σⱼ exp(zⱼ / τ)",
                        "p_i = \\frac{e^{z_i / \\tau}}{\\sum_j e^{z_j / \\tau}}" },
                      { N_("greedy: argmaxᵢ zᵢ"), "t = \\arg\\max_i z_i" } },
        .derive = lm_derive_sampling,
        .diagram = "end-to-end",
        .why = { N_(
            "The most probable token at each step does not give the most probable text, and often gives a "
            "repetitive one.") },
        .costs = { N_("High temperatures also raise improbable tokens; truncation excludes them.") },
        .sources = { "Holtzman et al., The Curious Case of Neural Text Degeneration, arXiv 1904.09751",
                     "Fan et al., Hierarchical Neural Story Generation, arXiv 1805.04833" },
        .example = "llama-3.2-1b",
    },
    {
        .topic = "kv-cache",
        .title = N_("Generating with a cache"),
        .summary = N_("decoding with a key/value cache"),
        .what = N_("The prompt is processed in one pass that fills the cache. Each new token is then one "
                   "row: its key and value are appended, and its query attends to the whole cache."),
        .formulas = { { N_("step i: append kᵢ, vᵢ;  oᵢ = softmax(qᵢ · K₁…ᵢᵀ / √d_k) · V₁…ᵢ"),
                        "\\mathbf{K} \\leftarrow [\\mathbf{K}; k_i],\\; \\mathbf{V} \\leftarrow "
                        "[\\mathbf{V}; v_i],\\quad o_i = "
                        "\\text{softmax}\\left(\\frac{q_i \\mathbf{K}^{\\top}}{\\sqrt{d_k}}\\right) "
                        "\\mathbf{V}" } },
        .special = { lm_uses_latent,
                     { N_("step i: append c_KV and the shared key;  oᵢ = softmax(scale · qᵢ · K₁…ᵢᵀ) · V₁…ᵢ"),
                       "\\mathbf{K} \\leftarrow [\\mathbf{K}; k_i],\\; \\mathbf{V} \\leftarrow [\\mathbf{V}; "
                       "v_i],\\quad o_i = \\text{softmax}\\left(\\mathrm{scale} \\cdot q_i "
                       "\\mathbf{K}^{\\top}\\right) \\mathbf{V}" } },
        .derive = lm_derive_kv_cache,
        .diagram = "cache",
        .why = { N_("Without a cache, each new token would require recomputing all earlier ones.") },
        .gains = { N_("A linear instead of a quadratic number of rows.") },
        .costs = { N_("Memory grows with each token; see the topic kv.") },
        .sources = { "Pope et al., Efficiently Scaling Transformer Inference, arXiv 2211.05102" },
        .used = lm_uses_attention,
        .example = "llama-3.2-3b",
    },
};

const lm_card_list lm_cards_of_running = { cards, sizeof cards / sizeof *cards };
