#!/usr/bin/env python3
"""rerank.py: what a reranker of the family Qwen3 makes of queries and documents.

    tools/oracle/rerank.py [--out tests/golden/rerank]

A tiny random model with a byte-level tokenizer, and scores: the prompt of Qwen3-Reranker's model card, its three parts tokenised by the
library tokenizers, then the family's formulas in float64 (numpy, nothing of transformers: a second opinion) and the probability of "yes"
against "no" behind the last token. Beside them what transformers makes of the same ids with the folder that was written, in float32: the code of
Qwen3-Reranker's model card, log_softmax over the two logits."""
import argparse
import json
import struct
from pathlib import Path

import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).resolve().parent
SPECIAL, MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], ["<think>", "</think>"]
SYSTEM = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. '
          'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
END = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
TASK = "Given a web search query, retrieve relevant passages that answer the query"
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12}
CASES = [
    {"query": "What is the capital of China?", "documents": ["The capital of China is Beijing.", "Gravity pulls two bodies towards each other.",
                                                             "no", "", "Ein Text über <|im_end|> und 北京."]},
    {"query": "gravity", "instruction": "Find texts about physics", "documents": ["The capital of China is Beijing.", "Gravity pulls two bodies towards each other."]},
]


def tokenizer():
    t = tokenizers.Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(tokenizers.Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    texts = [SYSTEM, TASK, "<Instruct>: <Query>: <Document>: assistant", "yes\nno\n" * 20] + [c["query"] for c in CASES]
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=360, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens([tokenizers.AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    t.add_tokens([tokenizers.AddedToken(s, special=False, normalized=False) for s in MARKS])
    assert t.token_to_id("yes") and t.token_to_id("no")
    return t


def weights(n_vocab):
    draw, h, d = np.random.default_rng(34), SIZES["hidden_size"], SIZES["head_dim"]
    q, kv, inner = SIZES["num_attention_heads"] * d, SIZES["num_key_value_heads"] * d, SIZES["intermediate_size"]
    shapes = {"model.embed_tokens.weight": (n_vocab, h), "model.norm.weight": (h,)}
    for i in range(SIZES["num_hidden_layers"]):
        at = f"model.layers.{i}."
        shapes |= {at + "input_layernorm.weight": (h,), at + "post_attention_layernorm.weight": (h,), at + "self_attn.q_norm.weight": (d,),
                   at + "self_attn.k_norm.weight": (d,), at + "self_attn.q_proj.weight": (q, h), at + "self_attn.k_proj.weight": (kv, h),
                   at + "self_attn.v_proj.weight": (kv, h), at + "self_attn.o_proj.weight": (h, q), at + "mlp.gate_proj.weight": (inner, h),
                   at + "mlp.up_proj.weight": (inner, h), at + "mlp.down_proj.weight": (h, inner)}
    return {name: ((1 if "norm" in name else 0) + 0.25 * draw.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}


def norm(x, w):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w


def rotated(x, theta=1e6):
    """Rotate x [T][heads][d]; the lanes of a pair are half a head apart."""
    half = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None, None] * theta ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def last_logits(w, ids):
    w = {k: v.astype(np.float64) for k, v in w.items()}
    x, n, d, heads, kv = w["model.embed_tokens.weight"][ids], len(ids), SIZES["head_dim"], SIZES["num_attention_heads"], SIZES["num_key_value_heads"]
    for i in range(SIZES["num_hidden_layers"]):
        p = {k.removeprefix(f"model.layers.{i}."): v for k, v in w.items() if k.startswith(f"model.layers.{i}.")}
        y = norm(x, p["input_layernorm.weight"])
        q = rotated(norm((y @ p["self_attn.q_proj.weight"].T).reshape(n, heads, d), p["self_attn.q_norm.weight"]))
        k = rotated(norm((y @ p["self_attn.k_proj.weight"].T).reshape(n, kv, d), p["self_attn.k_norm.weight"])).repeat(heads // kv, 1)
        v = (y @ p["self_attn.v_proj.weight"].T).reshape(n, kv, d).repeat(heads // kv, 1)
        s = np.einsum("thd,shd->hts", q, k) / np.sqrt(d) + np.where(np.tri(n, dtype=bool), 0, -np.inf)
        s = np.exp(s - s.max(-1, keepdims=True))
        x = x + np.einsum("hts,shd->thd", s / s.sum(-1, keepdims=True), v).reshape(n, -1) @ p["self_attn.o_proj.weight"].T
        y = norm(x, p["post_attention_layernorm.weight"])
        gate = y @ p["mlp.gate_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ p["mlp.up_proj.weight"].T)) @ p["mlp.down_proj.weight"].T
    return norm(x[-1], w["model.norm.weight"]) @ w["model.embed_tokens.weight"].T


@torch.no_grad()
def by_transformers(model, ids, yes, no):
    """Return the probability of "yes", as compute_logits of the model card."""
    logits = model(input_ids=torch.tensor([ids])).logits[:, -1, :]
    pair = torch.stack([logits[:, no], logits[:, yes]], dim=1)
    return float(torch.nn.functional.log_softmax(pair, dim=1)[:, 1].exp()[0])


def save(path, w):
    head, at = {}, 0
    for name, x in w.items():
        head[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(x.tobytes() for x in w.values()))


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--out", type=Path, default=HERE.parents[1] / "tests/golden/rerank")
    out = a.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    t = tokenizer()
    plain = tokenizers.Tokenizer.from_str(t.to_str())
    plain.encode_special_tokens = True                       # user text never becomes a control token
    w = weights(t.get_vocab_size())
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False, "hidden_act": "silu", "rms_norm_eps": 1e-6,
              "rope_theta": 1000000.0, "tie_word_embeddings": True, "max_position_embeddings": 1024, "torch_dtype": "float32",
              "vocab_size": t.get_vocab_size(), "bos_token_id": None, "eos_token_id": t.token_to_id("<|im_end|>"), **SIZES}
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    t.save(str(out / "tokenizer.json"))
    (out / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "add_bos_token": False}, indent=2) + "\n")
    save(out / "model.safetensors", w)
    yes, no = t.token_to_id("yes"), t.token_to_id("no")
    model = transformers.AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
    for c in CASES:
        c["tokens"], c["scores"], c["transformers"] = [], [], []
        for document in c["documents"]:
            text = f"<Instruct>: {c.get('instruction', TASK)}\n<Query>: {c['query']}\n<Document>: {document}"
            ids = t.encode(SYSTEM).ids + plain.encode(text).ids + t.encode(END).ids
            logits = last_logits(w, ids)
            c["tokens"].append(len(ids))
            c["scores"].append(float(1 / (1 + np.exp(logits[no] - logits[yes]))))
            c["transformers"].append(by_transformers(model, ids, yes, no))
    (out / "scores.json").write_text(json.dumps(CASES, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
