"""GPT-3: neither weights nor code are public, so the computation is that of GPT-Neo, in the layout of GPT-2: q, k and v fused, transposed,
with zero biases; scale_attn_weights is false because GPT-Neo does not scale scores."""

import json

import torch
from safetensors.torch import load_file, save_file
from transformers import GPTNeoConfig, GPTNeoForCausalLM

from case import Case

BASE = dict(vocab_size=131, hidden_size=32, num_layers=2, num_heads=4, max_position_embeddings=48, bos_token_id=130, eos_token_id=130)


def as_gpt3(case, folder):
    """Convert config.json and the tensors of the folder from GPT-Neo's names to GPT-2's."""
    stored, out = load_file(folder / "model.safetensors"), {}
    for name, value in stored.items():
        layer, dot, part = name.partition(".attn.attention.")
        if not dot:
            turn = ".mlp." in name and value.dim() == 2
            out[name] = value.T.contiguous() if turn else value
        elif part == "q_proj.weight":
            fused = torch.cat([stored[f"{layer}.attn.attention.{x}_proj.weight"] for x in "qkv"])
            out[f"{layer}.attn.c_attn.weight"] = fused.T.contiguous()
            out[f"{layer}.attn.c_attn.bias"] = torch.zeros(fused.shape[0])
        elif part.startswith("out_proj"):
            out[f"{layer}.attn.c_proj.{part[9:]}"] = value.T.contiguous() if value.dim() == 2 else value
    save_file(out, folder / "model.safetensors", metadata={"format": "pt"})
    old = json.loads((folder / "config.json").read_text())
    new = {"model_type": "gpt3", "n_embd": old["hidden_size"], "n_layer": old["num_layers"], "n_head": old["num_heads"],
           "n_positions": old["max_position_embeddings"], "scale_attn_weights": False}
    new |= {k: old[k] for k in ("vocab_size", "layer_norm_epsilon", "activation_function", "window_size", "attention_types",
                                "bos_token_id", "eos_token_id")}
    (folder / "config.json").write_text(json.dumps(new, indent=2, sort_keys=True) + "\n")


CASES = [
    Case(name="turns", family="gpt3", config=GPTNeoConfig, model=GPTNeoForCausalLM, relaid=as_gpt3, gguf=False,
         gguf_note="llama.cpp does not know the family", kwargs={**BASE, "attention_types": [[["global", "local"], 1]], "window_size": 5},
         shows="layers that see everything and layers with a band of 5 keys in turns, in a sequence of 24",
         flips={"band of 6": {"window_size": 6}, "bands everywhere": {"attention_types": [[["local"], 2]]}}),
    Case(name="bands-first", family="gpt3", config=GPTNeoConfig, model=GPTNeoForCausalLM, relaid=as_gpt3, gguf=False, rows=(12,),
         gguf_note="llama.cpp does not know the family",
         kwargs={**BASE, "num_layers": 3, "attention_types": [[["local"], 1], [["global", "local"], 1]], "window_size": 3},
         shows="a band of three keys first", flips={"other order": {"attention_types": [[["global", "local"], 1], [["local"], 1]]}}),
]
