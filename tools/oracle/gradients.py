#!/usr/bin/env python3
"""gradients.py: tests/golden/train/: gradients of tiny models of every family, by torch's autograd through transformers and peft.

    tools/oracle/gradients.py [PATTERN …] [--out tests/golden/train]

One file for each family: an adapter on every linear layer (peft, r 2, alpha 4, B not zero), a batch of texts, the loss and the gradient of
every number of the adapter; for the families of FULL a second file with the gradient of every weight. The model is one that make.py has
made: it is read from its folder. Float64, text by text, so that padding has no part in it.
"""

import argparse
import fnmatch
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402
from peft import LoraConfig, get_peft_model  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

import case as cases  # noqa: E402

GOLDEN = HERE.parents[1] / "tests" / "golden"
FULL = {"llama", "apertus", "lfm2", "lfm3", "gemma2", "gpt2", "qwen2", "phi3", "falcon", "bloom", "opt", "olmo2", "olmo_hybrid", "gpt_neox", "cohere", "stablelm", "qwen3_5", "mamba2", "mamba", "recurrent_gemma", "deepseek_v4"}
FURTHER = {"gemma4/mixture", "bitnet/narrow", "deepseek_v4/chosen"}   # a second model of its family, in files of its own, adapter and every weight
FROZEN = {"bitnet/narrow"}              # adapter alone: its matrices are not trained
LENGTHS = (11, 6, 15, 3)
FIRST = (3, 1, 5, 0)                    # number of first tokens without a label


SEEDS = 24
STEADY = 4e-6                           # maximum error of torch's float32, relative to a tensor's largest gradient; else other sequences


def documents(vocabulary: int, seed: int):
    """Return padded ids and labels, as `lamina train --ids-file` reads them."""
    g = torch.Generator().manual_seed(1000 + seed)
    ids = torch.zeros(len(LENGTHS), max(LENGTHS), dtype=torch.int64)
    labels = torch.full_like(ids, -100)
    for i, (n, first) in enumerate(zip(LENGTHS, FIRST)):
        ids[i, :n] = torch.randint(1, min(vocabulary, 96), (n,), generator=g)
        labels[i, first:n] = ids[i, first:n]
    return ids, labels


def loss_of(model, ids, labels):
    """Return the mean cross entropy of the labelled tokens, each predicted from those before it in its sequence."""
    total, n = 0, int((labels[:, 1:] != -100).sum())
    for row, label, length in zip(ids, labels, LENGTHS):
        logits = model(input_ids=row[None, :length], use_cache=False).logits[0, :-1]
        total = total + torch.nn.functional.cross_entropy(logits, label[1:length], ignore_index=-100, reduction="sum")
    return total / n


def linears(model):
    """Return the names of the modules that can have an adapter: all except the head, routers and indexers. The MLPs of some families are excluded
    too: peft 0.21 takes their names for those of the routed experts and skips dense and shared ones, or refuses them, like the gate of AFMoE's attention; and it refuses out_proj of Mamba
    and Mamba-2. transformers reads the weights of dt_proj and of correction_coefs past the module, so an adapter there would have no effect.
    Lists of matrices (altup_projections) and products of groups (o_a_proj) have no adapters here."""
    head = model.get_output_embeddings()
    refused = {"nemotron_h": "out_proj", "falcon_h1": "out_proj", "mamba2": "out_proj", "mamba": ("out_proj", "dt_proj"),
               "falcon_mamba": ("out_proj", "dt_proj"), "jamba": "dt_proj", "afmoe": "gate_proj",
               "deepseek_v4": "o_a_proj", "gemma3n_text": ("correction_coefs", "projections.0", "projections.1", "projections.2")}.get(model.config.model_type, ())
    mixtures = model.config.model_type.startswith(("deepseek", "exaone_moe", "qwen3_next", "kimi_linear", "glm4_moe", "glm_moe_dsa", "mistral4", "dots1",
                                                    "ernie4_5_moe", "hunyuan_v1_moe", "hy_v3", "minimax_m2", "minimax_m3", "flex_olmo", "axk1", "phimoe", "afmoe", "laguna", "mimo_v2_flash", "cohere2_moe"))
    return [name for name, m in model.named_modules()
            if isinstance(m, (torch.nn.Linear, transformers.pytorch_utils.Conv1D)) and m is not head
            and not name.endswith((".gate", ".router", "router.layer")) and ".indexer." not in name and not (mixtures and ".mlp." in name) and not name.endswith(refused)]


def load(c: cases.Case, folder: Path, dtype):
    if c.family == "xglm":              # its mask is a constant of float32
        dtype = torch.float32
    model = c.model.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    return model.eval() if c.family == "phimoe" else model.train()          # its router chooses at random in training


def no_dropout(model) -> None:
    for m in model.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.0
        for name in ("attention_dropout", "dropout", "attn_dropout", "hidden_dropout", "activation_dropout", "layerdrop", "attn_pdrop", "residual_dropout"):
            if isinstance(getattr(m, name, None), float):
                setattr(m, name, 0.0)


def adapter(c: cases.Case, folder: Path, ids, labels, dtype=torch.float64) -> dict:
    model = load(c, folder, dtype)
    names = linears(model)
    model = get_peft_model(model, LoraConfig(r=2, lora_alpha=4, target_modules=names, lora_dropout=0.0), autocast_adapter_dtype=False)
    no_dropout(model)
    g = torch.Generator().manual_seed(99)
    trained = sorted((n, p) for n, p in model.named_parameters() if p.requires_grad)
    for name, p in trained:
        value = (2 * torch.rand(p.shape, generator=g) - 1) / p.shape[1] ** 0.5 if "lora_A" in name else 0.05 * torch.randn(p.shape, generator=g)
        p.data.copy_(value.float())
    loss = loss_of(model, ids, labels)
    loss.backward()
    out = {"loss": loss.detach()[None]}
    for name, p in trained:
        short = c.in_files(name.removeprefix("base_model.model.").replace(".default.", "."))
        out[short], out[f"grad.{short}"] = p.data.float(), p.grad.float()
    return out


def everything(c: cases.Case, folder: Path, ids, labels, dtype=torch.float64) -> dict:
    model = load(c, folder, dtype)
    no_dropout(model)
    loss = loss_of(model, ids, labels)
    loss.backward()
    stored = load_file(folder / "model.safetensors")
    words = ("*.w1", "*.w3", "*.w2") if c.family == "deepseek_v4" else ("gate_proj", "up_proj", "down_proj")         # of experts in files
    name = lambda n: next((x for x in (n, c.in_files(n)) if x in stored), n.replace("lm_head", "embed_out") if "embed_out.weight" in stored else n)     # of GPT-NeoX
    out = {"loss": loss.detach()[None]}
    for n, p in model.named_parameters():
        if n.endswith(".experts.gate_up_proj"):         # one tensor of two matrices per expert, gate first
            out.update((f"grad.{n.replace('gate_up_proj', f'{x}.weight')}", part.float().contiguous())
                       for x, part in zip(words, p.grad.chunk(2, 1)))
        elif n.endswith(".experts.down_proj"):
            out[f"grad.{n.replace('down_proj', f'{words[2]}.weight')}"] = p.grad.float()
        elif p.grad is not None:
            parts = [name(n)] if name(n) in stored else [x for w in "qkv" if (x := n.replace(".conv1d.", f".{w}_conv1d.")) in stored] or [name(n)]
            sizes = [len(stored[x]) for x in parts] if len(parts) > 1 else [len(p)]           # OLMo Hybrid's convolution is three in files
            out.update((f"grad.{x}", part.float().contiguous()) for x, part in zip(parts, p.grad.split(sizes)))
    return out


def rounding(exact: dict, rounded: dict) -> float:
    return max(((rounded[k] - x).abs().max() / x.abs().max()).item() for k, x in exact.items() if k.startswith("grad.") and x.abs().max() > 1e-6)


def steady(c: cases.Case, folder: Path, kinds) -> tuple:
    """Find sequences whose gradients float32 computes accurately: (largest relative error of float32, ids, labels, results of `kinds`)."""
    best = None
    for seed in range(SEEDS):
        ids, labels = documents(c.kwargs.get("vocab_size", 96), seed)
        made = [kind(c, folder, ids, labels) for kind in kinds]
        off = max(rounding(x, kind(c, folder, ids, labels, torch.float32)) for kind, x in zip(kinds, made))
        if best is None or off < best[0]:
            best = off, ids, labels, made
        if off <= STEADY:
            break
    return best


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("patterns", nargs="*", default=["*"])
    p.add_argument("--out", type=Path, default=GOLDEN / "train")
    args = p.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    args.out.mkdir(exist_ok=True)
    done = set()
    for c in cases.all_cases():
        folder = GOLDEN / c.path
        further = c.path in FURTHER
        if not any(fnmatch.fnmatch(c.family, x) for x in args.patterns) or not (folder / "config.json").exists() or not further and (
                c.family in done or c.quantise or c.relaid or (c.stored and not callable(c.module)) or c.dtype != "F32"):
            continue
        try:
            off, ids, labels, found = steady(c, folder, [adapter, everything] if (c.family in FULL or further) and c.path not in FROZEN else [adapter])
            made, full = found[0], found[1] if len(found) > 1 else None
        except Exception as e:              # another case of the family may work
            print(f"{c.path:32} {type(e).__name__}: {str(e)[:150]}", flush=True)
            continue
        if not further:
            done.add(c.family)
        name = c.path.replace("/", "-") if further else c.family
        for kind, tensors in (("lora", made), ("full", full)):
            if tensors:
                meta = {"case": c.path, "r": "2", "alpha": "4", "source": f"torch {torch.__version__}, transformers {transformers.__version__}"}
                save_file({"input_ids": ids, "labels": labels, **tensors}, args.out / f"{name}.{kind}.safetensors", metadata=meta)
        print(f"{c.path:32} float32 {off:.1e}, loss {made['loss'].item():.6f}, {sum(k.startswith('grad.') for k in made)} tensors"
              + (f"; all {sum(k.startswith('grad.') for k in full)}" if full else ""), flush=True)


if __name__ == "__main__":
    main()
