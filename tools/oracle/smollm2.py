#!/usr/bin/env python3
"""smollm2.py: references for the demo model, a real quantised one.

    tools/oracle/smollm2.py build/assets/smollm2-135m-instruct-q4_1.gguf [--out tests/golden/smollm2] [--no-peer]

The weights are dequantised by gguf-py and run by transformers in float32. Written:

  golden.safetensors   two prompts, all 49152 logits at a few positions, greedy ids, some taps (form of `lamina verify`)
  kl.safetensors       ten prompts of 56 tokens: at every position the TOP best ids and their log-probabilities
  text.safetensors     text.txt as ids; per token the negative log-likelihood (0 where nothing is predicted)
  peer.json            what llama.cpp makes of the same data: the bar for fast paths

Perplexity: text.txt is cut into windows of 512 tokens without overlap, the last one shorter; each is a sequence of its
own without a begin-of-sequence token, and its first token is not predicted. exp(sum of nll / number of predicted tokens).

Mean KL: per position, over the TOP ids and one remainder: sum p ln(p/q), with the remainders 1 - sum p and 1 - sum q as
one more outcome. Never more than the full KL; peer.json gives both for llama.cpp.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import quantise  # noqa: E402
import reference  # noqa: E402
from peer import quiet, run  # noqa: E402

WINDOW, TOP, LENGTH = 512, 128, 56
GOLDEN = (3, 5)                 # indices in PROMPTS of those whose greedy margins exceed 0.05
POSITIONS = [0, 9, 22, 31]
TAPS = ["model.layers.0", "model.layers.14", "model.norm"]

CHAT = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
PROMPTS = [
    CHAT.format("What is the capital of France, and how many people live there?") + "The capital of France is Paris. About two million people live in the city itself, and more than eleven million in its region.",
    "The history of bread is almost as old as the history of farming. Long before anybody ground flour between two stones, people gathered wild grasses, roasted the seeds, and boiled them into a porridge. A porridge that was forgotten beside the fire became a flat and rather tough kind of cake, which could be carried along and kept for days.",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n\n\ndef main():\n    for i in range(10):\n        print(i, fibonacci(i))\n\n\nif __name__ == \"__main__\":\n    main()\n",
    CHAT.format("Write a haiku about the sea.") + "Grey waves lift and fall,\nthe harbour bell counts the tide,\na gull waits for bread.",
    "In the year 1869, on the 6th of March, a table of 63 elements was presented in Saint Petersburg. Its author had left gaps at the weights 44, 68 and 72, and predicted what would be found there. Within 17 years all three were known: scandium, gallium and germanium.",
    "Once upon a time there was a tailor who could sew anything except a button. He made coats for the king and gowns for the queen, and all of them had to be tied with ribbons. One day a soldier came into the shop and put a single brass button on the table.",
    "Die Katze sitzt am Fenster und schaut hinaus. Es regnet seit drei Tagen, und auf der Straße ist niemand zu sehen. Le facteur n'est pas encore passé. El perro duerme debajo de la mesa y no quiere salir.",
    "| planet | moons | day (hours) |\n|---|---|---|\n| Mercury | 0 | 4222.6 |\n| Venus | 0 | 2802.0 |\n| Earth | 1 | 24.0 |\n| Mars | 2 | 24.7 |\n| Jupiter | 95 | 9.9 |\n",
    CHAT.format("Explain in two sentences why ice floats on water.") + "When water freezes, its molecules arrange themselves in an open lattice that takes up more room. Ice is therefore less dense than the water around it, and so it floats.",
    "Dear Sir or Madam, I am writing to complain about the kettle that I bought in your shop last Thursday. It boils, but it does not stop boiling. I have followed the instructions on page 4, and I have telephoned the number given there, but nobody answers. Please tell me what I should do.",
]


def tokenizer(model: Path):
    """Return a tokenizer of the `tokenizers` library with the file's vocabulary: digits one by one, then GPT-2's split."""
    import gguf
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    fields = gguf.GGUFReader(model).fields
    key = lambda k: fields[f"tokenizer.ggml.{k}"].contents()
    assert key("model") == "gpt2" and key("pre") == "smollm"
    tokens, kinds = key("tokens"), key("token_type")
    t = Tokenizer(models.BPE({x: i for i, x in enumerate(tokens)}, [tuple(m.split(" ")) for m in key("merges")]))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(x, normalized=False) for x, k in zip(tokens, kinds) if k == gguf.TokenType.CONTROL])
    return t


def load(model: Path):
    import gguf
    fields = gguf.GGUFReader(model).fields
    key = lambda k: fields[f"llama.{k}"].contents()
    config = transformers.LlamaConfig(
        vocab_size=key("vocab_size"), hidden_size=key("embedding_length"), intermediate_size=key("feed_forward_length"),
        num_hidden_layers=key("block_count"), num_attention_heads=key("attention.head_count"),
        num_key_value_heads=key("attention.head_count_kv"), rms_norm_eps=key("attention.layer_norm_rms_epsilon"),
        max_position_embeddings=key("context_length"), tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": key("rope.freq_base")})
    config._attn_implementation = "eager"
    m = transformers.LlamaForCausalLM(config).float().eval()
    quantise.load(m, model)
    return m


def windows(ids):
    return [ids[i:i + WINDOW] for i in range(0, len(ids), WINDOW)]


def nll(logits, ids):
    """Return [T]: the negative log-probability of each id given those before it; 0 for the first."""
    logp = torch.log_softmax(logits[:-1].double(), -1)
    out = torch.zeros(len(ids), dtype=torch.float64)
    out[1:] = -logp[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]
    return out


def divergence(p, q, ids):
    """Return per position (full KL, KL over `ids` and the remainder) of log-probabilities p and q [T, V]."""
    full = (p.exp() * (p - q)).sum(-1)
    pt, qt = p.gather(-1, ids), q.gather(-1, ids)
    rest = lambda x: (1 - x.exp().sum(-1)).clamp_min(1e-12)
    return full, (pt.exp() * (pt - qt)).sum(-1) + rest(pt) * (rest(pt) / rest(qt)).log()


@torch.no_grad()
def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=Path)
    p.add_argument("--out", type=Path, default=HERE.parents[1] / "tests" / "golden" / "smollm2")
    p.add_argument("--no-peer", action="store_true", help="without llama.cpp")
    args = p.parse_args()
    transformers.logging.set_verbosity_error()
    m, t = load(args.model), tokenizer(args.model)
    source = (f"transformers {transformers.__version__}, torch {torch.__version__}, float32, eager attention, weights "
              f"dequantised by gguf-py; tools/oracle/smollm2.py")
    forward = lambda ids: m(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()

    prompts = [t.encode(x, add_special_tokens=False).ids for x in PROMPTS]
    assert all(len(x) >= LENGTH for x in prompts), [len(x) for x in prompts]
    prompts = [x[:LENGTH] for x in prompts]
    text = t.encode((args.out / "text.txt").read_text(), add_special_tokens=False).ids

    # golden: two prompts cut to 32 tokens
    rows, taps = [x[:POSITIONS[-1] + 1] for x in (prompts[i] for i in GOLDEN)], []
    tensors = {"input_ids": torch.tensor(rows), "logit_positions": torch.tensor(POSITIONS), "logits": [], "greedy_ids": []}
    for ids in rows:
        row = {}
        with reference.hooks(m, row):
            tensors["logits"].append(forward(ids)[POSITIONS])
        taps.append(row)
        out, margin = reference.greedy(m, torch.tensor([ids]), 24)
        print(f"greedy margin {margin:.3f}: {t.decode(out)!r}")
        tensors["greedy_ids"].append(torch.tensor(out))
    tensors |= {"logits": torch.stack(tensors["logits"]), "greedy_ids": torch.stack(tensors["greedy_ids"])}
    tensors |= {f"tap.{k}": torch.cat([r[k] for r in taps]) for k in TAPS}
    save(tensors, args.out / "golden.safetensors", source)

    # prompts for the divergence
    logp = [torch.log_softmax(forward(ids).double(), -1) for ids in prompts]
    best = [x.topk(TOP) for x in logp]
    save({"input_ids": torch.tensor(prompts), "top_ids": torch.stack([b.indices for b in best]).int(),
          "top_logprobs": torch.stack([b.values for b in best]).float()}, args.out / "kl.safetensors", source)

    # the text
    parts = [nll(forward(w), w) for w in windows(text)]
    total, count = sum(x.sum().item() for x in parts), sum(len(x) - 1 for x in parts)
    perplexity = float(np.exp(total / count))
    save({"input_ids": torch.tensor([text]), "nll": torch.cat(parts)[None].float(),
          "window_nll": torch.tensor([x.sum().item() for x in parts]), "window": torch.tensor([WINDOW]),
          "perplexity": torch.tensor([perplexity], dtype=torch.float64)}, args.out / "text.safetensors", source)
    print(f"{len(text)} tokens, {count} predicted, perplexity {perplexity:.4f} ({len(parts)} windows of {WINDOW})")
    if args.no_peer:
        return

    import llama_cpp
    quiet()
    llm = llama_cpp.Llama(str(args.model), vocab_only=True, verbose=False)
    for x, ids in [*zip(PROMPTS, prompts), ((args.out / "text.txt").read_text(), text)]:
        assert llm.tokenize(x.encode(), add_bos=False, special=True)[:len(ids)] == ids, "llama.cpp tokenises otherwise"
    result = {"llama_cpp_python": llama_cpp.__version__, "tokens": len(text), "predicted": count, "window": WINDOW, "top": TOP,
              "perplexity_float32": round(perplexity, 5), "modes": {}}
    for mode, options in {"default (F16 cache)": {"type_k": 1, "type_v": 1}, "F32 cache": {"type_k": 0, "type_v": 0},
                          "flash attention": {"type_k": 1, "type_v": 1, "flash_attn": True}}.items():
        options = {"n_ctx": WINDOW, "n_threads": 2, "n_threads_batch": 2} | options
        mine = run(args.model, prompts + windows(text), **options)
        full, lumped, agree, error = [], [], [], []
        for ref, b, x in zip(logp, best, mine):
            x = torch.from_numpy(x).double()
            a, c = divergence(ref, torch.log_softmax(x, -1), b.indices)
            full.append(a), lumped.append(c), agree.append(x.argmax(-1) == ref.argmax(-1))
        parts = [nll(torch.from_numpy(x), w) for x, w in zip(mine[len(prompts):], windows(text))]
        ppl = float(np.exp(sum(x.sum().item() for x in parts) / count))
        full, lumped, agree = torch.cat(full), torch.cat(lumped), torch.cat(agree)
        result["modes"][mode] = {
            "mean_kl": sig(full.mean()), "max_kl": sig(full.max()), "mean_kl_top": sig(lumped.mean()), "max_kl_top": sig(lumped.max()),
            "argmax_agreement": sig(agree.float().mean()), "perplexity": round(ppl, 5), "perplexity_ratio": round(ppl / perplexity, 6)}
        print(mode, result["modes"][mode], flush=True)
    (args.out / "peer.json").write_text(json.dumps(result, indent=1) + "\n")


def sig(x) -> float:
    return float(f"{float(x):.5g}")


def save(tensors, path: Path, source: str) -> None:
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata={"source": source})
    path.chmod(0o644)


if __name__ == "__main__":
    main()
