"""Module trees as transformers prints them, for `lamina estimate --from-tree`: trees.py FOLDER.

Writes NAME.txt and totals.tsv with the number of parameters that PyTorch counts. Nothing is allocated: the models are on the meta device.
"""
import pathlib
import sys

import torch
import transformers as t

TREES = {
    "llama-3.2-3b": (t.LlamaConfig, dict(hidden_size=3072, intermediate_size=8192, num_hidden_layers=28, num_attention_heads=24, num_key_value_heads=8,
                                         head_dim=128, vocab_size=128256, tie_word_embeddings=True, rms_norm_eps=1e-5)),
    "qwen2.5-3b": (t.Qwen2Config, dict(hidden_size=2048, intermediate_size=11008, num_hidden_layers=36, num_attention_heads=16,
                                       num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True, rms_norm_eps=1e-6)),
    "unpublished": (t.LlamaConfig, dict(hidden_size=96, intermediate_size=256, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
                                        vocab_size=1000, attention_bias=True, mlp_bias=True, hidden_act="gelu")),
    "qwen3": (t.Qwen3Config, dict(hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                  head_dim=32, vocab_size=500)),
    "starcoder2": (t.Starcoder2Config, dict(hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                                            num_key_value_heads=2, vocab_size=500, tie_word_embeddings=False)),
    "deepseek-v2": (t.DeepseekV2Config, dict(hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
                                             num_key_value_heads=4, vocab_size=500, n_routed_experts=4, num_experts_per_tok=2,
                                             moe_intermediate_size=32, kv_lora_rank=16, q_lora_rank=None, qk_rope_head_dim=8,
                                             qk_nope_head_dim=8, v_head_dim=8, n_group=1, topk_group=1, first_k_dense_replace=1)),
    # published models whose trees do not show every size
    "gpt2": (t.GPT2Config, {}),
    "mixtral-8x7b": (t.MixtralConfig, {}),
    "falcon-7b": (t.FalconConfig, dict(vocab_size=65024, hidden_size=4544, num_hidden_layers=32, num_attention_heads=71, multi_query=True,
                                       parallel_attn=True, bias=False, new_decoder_architecture=False, alibi=False)),
    "gemma-2b": (t.GemmaConfig, dict(vocab_size=256000, hidden_size=2048, intermediate_size=16384, num_hidden_layers=18,
                                     num_attention_heads=8, num_key_value_heads=1, head_dim=256)),
    "bloom-560m": (t.BloomConfig, dict(vocab_size=250880, hidden_size=1024, n_layer=24, n_head=16)),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    totals = []
    for name, (kind, sizes) in TREES.items():
        with torch.device("meta"):
            model = t.AutoModelForCausalLM.from_config(kind(**sizes))
        (folder / f"{name}.txt").write_text(repr(model) + "\n")
        totals.append(f"{name}\t{sum(p.numel() for p in model.parameters())}\n")
    (folder / "totals.tsv").write_text("".join(totals))


main()
