#!/usr/bin/env python3
"""adapters.py: low-rank adapters on golden models, and what they make of them: tests/golden/adapters/.

    tools/oracle/adapters.py [PATTERN …] [--llama-cpp DIR] [--out tests/golden/adapters]

Each folder is what PEFT saves, and golden.safetensors: ids and logits of the model with its adapter by PEFT, in float32 with eager
attention; merged.safetensors the same of the model that PEFT's merge_and_unload makes. base.txt names the model, a folder of tests/golden. With DIR (vendor/llama.cpp, see make.py) adapter.gguf is what llama.cpp's
converter makes of the folder, where it makes something right (gguf_by).
Needs peft beside the packages of requirements.txt.
"""

import argparse
import fnmatch
import os
import shutil
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import peft  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests/golden"
LLAMA = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

# name: base, LoraConfig, whether llama.cpp's converter handles it correctly
CASES = {
    "llama": ("llama/gqa", dict(r=4, lora_alpha=8, target_modules=LLAMA), True),
    "llama-patterns": ("llama/gqa", dict(r=4, lora_alpha=8, target_modules=LLAMA, use_rslora=True,
                                         rank_pattern={"q_proj": 2, "layers.1.mlp.up_proj": 5}, alpha_pattern={"down_proj": 3}), False),
    "llama-biased": ("llama/biases", dict(r=3, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"], lora_bias=True), False),
    "llama-embedding": ("llama/gqa", dict(r=4, lora_alpha=4, target_modules=["embed_tokens", "lm_head", "o_proj"]), False),
    "llama-layer": ("llama/gqa", dict(r=2, lora_alpha=8, target_modules=["q_proj", "k_proj"], layers_to_transform=[1]), True),
    "gpt2": ("gpt2/plain", dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True), False),
    "gemma2": ("gemma2/plain", dict(r=4, lora_alpha=8, target_modules=LLAMA), True),
    "deepseek_v2": ("deepseek_v2/lite", dict(r=4, lora_alpha=8, target_modules=r".*self_attn\.(q_proj|kv_a_proj_with_mqa|kv_b_proj|o_proj)"),
                    False),
    "mixtral": ("mixtral/experts", dict(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]), True),
    "phi3": ("phi3/window", dict(r=4, lora_alpha=8, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]), True),
    "qwen3": ("qwen3/head-norm", dict(r=4, lora_alpha=8, target_modules=LLAMA), True),
    "gpt_neox": ("gpt_neox/pythia", dict(r=4, lora_alpha=8, target_modules=["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"]),
                 False),
    "falcon": ("falcon/grouped", dict(r=4, lora_alpha=8, target_modules=["query_key_value", "dense"]), False),
    "granite": ("granite/multipliers", dict(r=4, lora_alpha=8, target_modules=LLAMA), True),
    "nemotron_h": ("nemotron_h/dense", dict(r=4, lora_alpha=8, target_modules=["in_proj", "q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"]), False),
    "cohere": ("cohere/command-r", dict(r=4, lora_alpha=8, target_modules=LLAMA), True),
}


def fill(model) -> None:
    """Fill the adapter with random numbers in the order of sorted names. B is not zero, so that the adapter has an effect."""
    g = torch.Generator().manual_seed(99)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if "lora_" in name:
                wide = "lora_A" in name or "lora_embedding_B" in name
                p.copy_((2 * torch.rand(p.shape, generator=g) - 1) / p.shape[-1] ** 0.5 if wide
                        else 0.3 * torch.randn(p.shape, generator=g))


def merged(base: str, folder: Path, ids: torch.Tensor, source: str) -> None:
    """Store the logits of the model that merge_and_unload makes from the base and the saved adapter."""
    model = transformers.AutoModelForCausalLM.from_pretrained(GOLDEN / base, dtype=torch.float32, attn_implementation="eager").eval()
    model = peft.PeftModel.from_pretrained(model, folder).merge_and_unload().eval()
    with torch.no_grad():
        logits = model(ids).logits
    save_file({"input_ids": ids, "logits": logits.contiguous()}, folder / "merged.safetensors", metadata={"source": source + ", merge_and_unload"})


def make(name: str, out: Path, llama_cpp: Path | None) -> None:
    base, config, converts = CASES[name]
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(GOLDEN / base, dtype=torch.float32, attn_implementation="eager").eval()
    ids = load_file(GOLDEN / base / "golden.safetensors")["input_ids"]
    with torch.no_grad():
        plain = model(ids).logits
    adapted = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **config)).eval()
    fill(adapted)
    with torch.no_grad():
        logits = adapted(ids).logits
    moved = (logits - plain).abs().max() / plain.abs().max()
    if moved < 0.02:
        raise SystemExit(f"{name}: the adapter hardly does anything ({moved:.2g})")
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    text = (folder / "adapter_config.json").read_text().replace(str(GOLDEN / base), base)
    (folder / "adapter_config.json").write_text(text + "\n")
    (folder / "base.txt").write_text(base + "\n")
    source = f"peft {peft.__version__}, transformers {transformers.__version__}, torch {torch.__version__}; tools/oracle/adapters.py {name}"
    save_file({"input_ids": ids, "logits": logits.contiguous()}, folder / "golden.safetensors", metadata={"source": source})
    merged(base, folder, ids, source)
    if llama_cpp and converts:
        subprocess.run([sys.executable, str(llama_cpp / "convert_lora_to_gguf.py"), "--base", str(GOLDEN / base), "--outtype", "f32",
                        "--outfile", str(folder / "adapter.gguf"), str(folder)], check=True)
    for file in folder.iterdir():
        file.chmod(0o644)
    print(f"{name}: {base}, logits move by {moved:.2g}")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("patterns", nargs="*", default=["*"])
    p.add_argument("--llama-cpp", type=Path)
    p.add_argument("--merged", action="store_true", help="write merged.safetensors of the adapters that are there, and nothing else")
    p.add_argument("--out", type=Path, default=GOLDEN / "adapters")
    o = p.parse_args()
    torch.set_num_threads(1)
    for name in CASES:
        if any(fnmatch.fnmatch(name, x) for x in o.patterns) and o.merged:
            with safe_open(o.out / name / "golden.safetensors", "pt") as f:
                merged(CASES[name][0], o.out / name, f.get_tensor("input_ids"), f.metadata()["source"])
        elif any(fnmatch.fnmatch(name, x) for x in o.patterns):
            make(name, o.out, o.llama_cpp)


main()
