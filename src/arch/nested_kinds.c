/* nested_kinds.c - vision-language models whose language model alone computes the same: causal, without
 * layers for images.
 *
 * Not PaliGemma, whose prompt has bidirectional attention; not Mllama, which has cross-attention layers; not
 * Aya Vision, whose logits transformers scales in the language model but not in the whole. Checked:
 * tests/golden/nested/, by tools/oracle/nested.py. */
#include "formats/nested.h"

#include <stddef.h>

const lm_nested_kind lm_nested_kinds[] = {
    { "gemma3", "gemma3_text", false },
    { "gemma3n", "gemma3n_text", false },
    { "gemma4", "gemma4_text", false },
    { "gemma4_unified", "gemma4_unified_text", false },
    { "llama4", "llama4_text", false },
    { "minimax_m3_vl", "minimax_m3_vl_text", false },
    { "mistral3", "mistral", false },
    { "llava", "llama", false },
    { "llava_next", "llama", false },
    { "llava_onevision", "qwen2", false },
    { "idefics3", "llama", false },
    { "smolvlm", "llama", false },
    { "internvl", "qwen2", false },
    { "lfm2_vl", "lfm2", false },
    { "qwen2_vl", "qwen2_vl_text", true },
    { "qwen2_5_vl", "qwen2_5_vl_text", true },
    { "qwen3_vl", "qwen3_vl_text", false },
    { "qwen3_5", "qwen3_5_text", false },
    { "qwen3_5_moe", "qwen3_5_moe_text", false },
    { NULL, NULL, false },
};

const lm_nested_class lm_nested_classes[] = {
    { "gemma3_text", "gemma3_text", 262208, 2304, 9216, 26, 8, 4, 131072, 1e6, 1e-6 },
    { "ministral3", "ministral3", 131072, 4096, 14336, 34, 32, 8, 262144, 1e6, 1e-5 },
    { "mistral4", "mistral4", 131072, 4096, 12288, 36, 32, 32, 1048576, 1e4, 1e-6 },
    { "llama4_text", "llama4_text", 202048, 5120, 8192, 48, 40, 8, 131072, 5e5, 1e-5 },
    { "minimax_m3_vl_text", "minimax_m3_vl_text", 200064, 6144, 3072, 60, 64, 4, 524288, 5e6, 1e-6 },
    { "mistral", "mistral", 32000, 4096, 14336, 32, 32, 8, 131072, 1e4, 1e-6 },
    { "llama", "llama", 32000, 4096, 11008, 32, 32, 0, 2048, 1e4, 1e-6 },
    { "qwen2", "qwen2", 151936, 4096, 22016, 32, 32, 32, 32768, 1e4, 1e-6 },
    { "qwen3", "qwen3", 151936, 4096, 22016, 32, 32, 32, 32768, 1e4, 1e-6 },
    { "lfm2", "lfm2", 65536, 2560, 12288, 32, 32, 8, 128000, 1e6, 0 },
    { "qwen2_vl_text", "qwen2", 152064, 8192, 29568, 80, 64, 8, 32768, 1e6, 1e-5 },
    { "qwen2_5_vl_text", "qwen2", 152064, 8192, 29568, 80, 64, 8, 32768, 1e6, 1e-5 },
    { "qwen3_vl_text", "qwen3", 151936, 4096, 22016, 32, 32, 32, 128000, 5e5, 1e-6 },
    { "qwen3_5_text", "qwen3_5_text", 248320, 4096, 12288, 32, 16, 4, 32768, 1e4, 1e-6 },
    { "qwen3_5_moe_text", "qwen3_5_moe_text", 248320, 2048, 0, 40, 16, 2, 32768, 1e4, 1e-6 },
    { NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0 },
};
